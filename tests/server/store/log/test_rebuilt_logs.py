"""A rebuild derives the same log as the appends."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from ash_server import Store
from tests.shared.records import claude

PROMPT = {"role": "user", "content": "go"}
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "model": "gpt-5",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}
DATED = claude.line("user", "later", timestamp="2026-01-01T00:00:00.000Z")
CALL = claude.assistant(claude.call("t1", file_path="/f"), id="a1")
RESULT = claude.user([claude.tool_result("t1", "fine")])

INTERRUPT = claude.user("[Request interrupted by user]")

APPENDS: dict[str, Sequence[Sequence[Any]]] = {
    "a time after records without times": [[PROMPT], [ANSWER], [DATED]],
    "a time in the first append": [[PROMPT, DATED], [ANSWER]],
    "an end without events": [[claude.user("go"), INTERRUPT], [], [INTERRUPT]],
    "an end before a result": [[CALL], [], [RESULT]],
}
"""An append without messages is an end."""


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store.open(database_url) as store:
        yield store


MAX_DELAY = 60_000
"""Milliseconds from the time of an append to the time when its messages are stored."""


async def log_of(store: Store, session: UUID) -> list[dict[str, Any]]:
    events = [event.model_dump() for event in await store.events.get_events(session, limit=1000)]
    return [{**event, "sequence": None} for event in events if event["type"] != "reset"]


@pytest.mark.parametrize("name", APPENDS)
async def test_equals_the_appended_log(store: Store, name: str) -> None:
    session = (await store.sessions.create()).id
    for lines in APPENDS[name]:
        await store.messages.append(session, list(map(json.dumps, lines)), end=not lines)
    appended = await log_of(store, session)

    await store.events.rebuild(session)

    about = [{**event, "timestamp": pytest.approx(event["timestamp"], abs=MAX_DELAY)} for event in appended]
    assert await log_of(store, session) == about
