"""`AshSession` compared with a list, and with concurrent writers."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ash_client import ApiError
from ash_server.store import Store
from ash_stores import AshSession
from ash_stores.connection import Address
from tests.marking import slow_unless
from tests.server.api.conftest import create_key
from tests.stores.test_examples import ROOT, python_with

PROMPT = {"role": "user", "content": "Which tests fail?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"command": "make test"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "2 failed"}
ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Two.", "annotations": []}],
}
STRANGE: list[Any] = [
    {"type": "hologram", "id": "h1", "rays": [1e400, -0.0, 10**30, None]},
    {"role": "user", "content": "\u0000 \ud83d \u2028"},
    {"type": "input_image", "data": "A" * 1_500_000},
]


@pytest.fixture
async def session(address: tuple[Address, str | None]) -> AsyncIterator[AshSession]:
    url, key = address
    session = AshSession("chat-7", url=url, key=key)
    yield session
    await session.close()


async def test_reads_as_conversation(session: AshSession, store: Store) -> None:
    await session.add_items([PROMPT, CALL, OUTPUT, ANSWER])
    stored = await store.sessions.find_one("chat-7")
    messages = await store.messages.list_messages_parsed(stored.id)

    assert await session.get_items() == [PROMPT, CALL, OUTPUT, ANSWER]
    assert (stored.source, stored.title) == ("openai_responses", "Which tests fail?")
    assert [[block.type for block in each.parsed or ()] for each in messages] == [
        ["text"],
        ["tool_use"],
        ["tool_result"],
        ["text"],
    ]


async def test_names_the_scope_that_the_key_lacks(server: str, store: Store) -> None:
    session = AshSession("chat-7", server, await create_key(store, "agent", "default", "read", "write"))
    await session.add_items([PROMPT])
    for remove in (session.pop_item, session.clear_session):
        with pytest.raises(
            ApiError, match=r"no scope `delete`; create one with .* --scopes read,write,delete"
        ):
            await remove()

    assert await session.get_items() == [PROMPT]
    await session.close()


async def test_returns_unknown_items_equal(session: AshSession) -> None:
    await session.add_items(STRANGE)

    assert await session.get_items() == STRANGE
    assert [await session.pop_item() for _ in range(4)] == [*STRANGE[::-1], None]


async def test_unknown_session_is_empty(session: AshSession, store: Store) -> None:
    await session.add_items([])
    await session.clear_session()

    assert (await session.get_items(), await session.get_items(3), await session.pop_item()) == ([], [], None)
    assert (await store.sessions.list_sessions()).sessions == []


async def test_equals_a_list_after_random_operations(session: AshSession) -> None:
    random, expected = Random(7), list[Any]()
    for _ in range(60):
        operation = random.choice(
            ["add", "add", "add", "pop", "limit", "clear" if random.random() < 0.2 else "pop"]
        )
        if operation == "add":
            items = random.choices([PROMPT, CALL, ANSWER, *STRANGE[:1]], k=random.randrange(4))
            await session.add_items(items)
            expected += items
        elif operation == "pop":
            assert await session.pop_item() == (expected.pop() if expected else None)
        elif operation == "clear":
            await session.clear_session()
            expected.clear()
        limit = random.randrange(5)
        assert await session.get_items(limit) == (expected[-limit:] if limit else [])
    assert await session.get_items() == expected


SETTINGS = """
# Compares AshSession with the SDK's own session for each of these settings.
import asyncio, os
from agents import Agent, RunConfig, SQLiteSession
from agents.memory import SessionSettings
from agents.run_internal.session_persistence import prepare_input_with_session
from ash_stores import AshSession

ITEMS = [{"role": "user", "content": f"prompt {number}"} for number in range(5)]
SETTINGS = [
    None, {}, {"limit": 2}, {"limit": None}, {"limit": 0}, SessionSettings(limit=3), {"limt": 2}, {"limit": "x"}, 2,
]

async def read(create, settings):
    try:
        session = create(settings)
    except Exception as error:
        return type(error).__name__, str(error)
    await session.clear_session()
    await session.add_items(ITEMS)
    items = [await session.get_items(), await session.get_items(1)]
    for override in (None, SessionSettings(limit=4)):
        run = RunConfig(session_settings=override).session_settings
        items.append((await prepare_input_with_session("Go on.", session, None, run))[0])
    session.session_settings = {"limit": 1}
    return [*items, await session.get_items()]

async def main():
    for settings in SETTINGS:
        expected = await read(lambda each: SQLiteSession("chat", session_settings=each), settings)
        result = await read(lambda each: AshSession("chat", os.environ["ASH_URL"], session_settings=each), settings)
        print("equal" if result == expected else (settings, result, expected))

asyncio.run(main())
"""


@pytest.mark.slow  # `make test-all` creates the environment of openai-agents
def test_settings_limit_the_items_as_in_sessions_of_the_sdk(server: str, tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "ASH_URL": server,
        "HOME": str(tmp_path),
    }
    run = subprocess.run(
        [python_with("agents"), "-c", SETTINGS], env=environment, capture_output=True, text=True
    )

    assert (run.stdout.splitlines(), run.stderr) == (["equal"] * 9, "")


@pytest.mark.slow
async def test_pages_hold_many_items(store: Store) -> None:
    session = AshSession("chat-9", url=store)
    items = [{**PROMPT, "n": number} for number in range(2300)]
    await session.add_items(items)

    assert await session.get_items() == items
    assert await session.get_items(1500) == items[-1500:]


@pytest.mark.parametrize("mode", slow_unless("server".__eq__, ["server", "store"]))
async def test_concurrent_writers_get_each_item_once(mode: str, server: str, store: Store) -> None:
    sessions = [AshSession("chat", url=server if mode == "server" else store) for _ in range(20)]

    async def add(writer: int, session: AshSession) -> None:
        for batch in range(3):
            await session.add_items([{**PROMPT, "writer": writer, "n": 2 * batch + n} for n in range(2)])

    await asyncio.gather(*(add(number, each) for number, each in enumerate(sessions)))
    items = await sessions[0].get_items()
    popped = []
    for first in range(0, 20, 5):  # a write waits a limited time for the others of its session
        popped += await asyncio.gather(*(each.pop_item() for each in sessions[first : first + 5]))
    rest = await sessions[0].get_items()
    for each in sessions:
        await each.close()

    assert [[item["n"] for item in items if item["writer"] == writer] for writer in range(20)] == [
        list(range(6))
    ] * 20
    assert all(
        first["writer"] == second["writer"] for first, second in zip(items[::2], items[1::2], strict=True)
    )
    assert rest == items[:100]
    assert sorted(map(str, popped)) == sorted(map(str, items[100:]))


async def test_cancelled_write_is_completed(session: AshSession) -> None:
    task = asyncio.create_task(session.add_items([PROMPT, ANSWER]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await session.get_items() == [PROMPT, ANSWER]
