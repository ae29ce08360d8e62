"""Ten writers to a session through each adapter, while the server, a process with keys, is killed and restarted."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import SessionKey, SessionStoreEntry
from claude_agent_sdk._internal import transcript_mirror_batcher as mirror_of_sdk
from claude_agent_sdk._internal.transcript_mirror_batcher import TranscriptMirrorBatcher

from ash_client.retry import NEVER
from ash_server.store import Store
from ash_stores import AshSession, AshSessionStore
from benchmarks.deployment import ServerProcess
from tests.client.test_ash_client import proxy
from tests.conftest import POOLER
from tests.ports import free_port
from tests.server.api.conftest import SECRET, create_key
from tests.stores.test_claude_agent_store import KEY, MODE, NAME, SESSION, entries
from tests.stores.test_openai_agents_session import ANSWER, PROMPT
from tests.waiting import TIMEOUT, until

WRITERS, BATCHES, KILLS = 10, 5, 2
PATIENCE = 10 * TIMEOUT
"""Seconds until the SDK gives an append up: longer than the restarts of the server on a busy machine."""

pytestmark = pytest.mark.slow


@pytest.fixture
async def server(database_url: str, tmp_path: Path) -> AsyncIterator[ServerProcess]:
    process = ServerProcess(database_url, tmp_path / "server", ASH_SECRET=SECRET, **POOLER)
    process.port = free_port()
    await asyncio.to_thread(process.start)
    yield process
    process.stop()


@pytest.fixture
async def key(store: Store) -> str:
    return await create_key(store, "agent", "default", "read", "write", "delete")


async def kill_often(server: ServerProcess, stored: Callable[[], int], on_kill: Callable[[], None]) -> None:
    """Kill and restart the server, each time more batches are stored."""
    for kill in range(1, KILLS + 1):
        await until(lambda due=kill * WRITERS * BATCHES // (KILLS + 1): stored() >= due)  # type: ignore[misc]
        server.stop(signal.SIGKILL)
        on_kill()
        await asyncio.to_thread(server.start)


class Impatient(AshSessionStore):
    """Leaves repeated appends to the SDK, and counts them."""

    failed = 0

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        cast(Any, self._clients.client)._retry = NEVER
        try:
            await super().append(key, entries)
        except BaseException:
            self.failed += 1
            raise


async def test_mirrors_of_the_sdk_store_each_entry_once(
    server: ServerProcess, key: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the writers repeat requests themselves, the others leave that to the SDK."""
    monkeypatch.setattr(mirror_of_sdk, "MIRROR_APPEND_MAX_ATTEMPTS", 10_000)
    monkeypatch.setattr(mirror_of_sdk, "MIRROR_APPEND_BACKOFF_S", (0.05,) * 10_000)
    path = str(tmp_path / "-work-site" / f"{SESSION}.jsonl")
    stores = [(Impatient, AshSessionStore)[number % 2](server.address, key) for number in range(WRITERS)]
    errors, stored = list[str](), list[int]()

    async def on_error(_: SessionKey | None, message: str) -> None:
        errors.append(message)

    async def write(writer: int, sessions: AshSessionStore) -> None:
        mirror = TranscriptMirrorBatcher(cast(Any, sessions), str(tmp_path), on_error, send_timeout=PATIENCE)
        for batch in range(BATCHES):
            first = 100 * (writer + 1) + 2 * batch
            mirror.enqueue(path, [*entries(1, 2), MODE])
            mirror.enqueue(path, entries(first, first + 1))
            await mirror.flush()
            stored.append(first)

    writing = [write(number, each) for number, each in enumerate(stores)]
    await asyncio.gather(*writing, kill_often(server, lambda: len(stored), lambda: None))
    loaded = cast(list[Any], await stores[0].load(KEY))
    [summary] = await stores[0].list_session_summaries("-work-site")
    for each in stores:
        await each.close()

    ids = [int(each["uuid"][-12:]) for each in loaded if "uuid" in each]
    assert errors == []
    assert sum(each.failed for each in stores if isinstance(each, Impatient)) > 0
    assert ids[:2] == [1, 2]
    assert [[id for id in ids if id // 100 == writer] for writer in range(WRITERS + 1)] == [
        [1, 2],
        *([100 * writer + n for n in range(2 * BATCHES)] for writer in range(1, WRITERS + 1)),
    ]
    assert len(loaded) - len(ids) == WRITERS * BATCHES
    assert summary["data"]["first_prompt"] == "prompt 1"
    assert (await store.sessions.find_one(NAME)).message_count == len(loaded)


@contextmanager
def killing_after_first_append(server: ServerProcess) -> Iterator[str]:
    """Yield the address of a server that stores the first append, and is killed and restarted before it answers."""
    paths, kills = list[str](), list[int]()

    def kill(number: int) -> bool:
        if kills or not paths[number].endswith("/messages"):
            return False
        kills.append(number)
        server.stop(signal.SIGKILL)
        server.start()
        return True

    with proxy(server.address, loses=kill, sees=paths.append) as address:
        yield address
    assert kills, paths


@pytest.mark.parametrize("kind", [Impatient, AshSessionStore])
async def test_append_stored_before_the_kill_is_stored_once(
    server: ServerProcess, key: str, tmp_path: Path, kind: type[AshSessionStore]
) -> None:
    errors = list[str]()

    async def on_error(_: SessionKey | None, message: str) -> None:
        errors.append(message)

    with killing_after_first_append(server) as address:
        sessions = kind(address, key)
        mirror = TranscriptMirrorBatcher(cast(Any, sessions), str(tmp_path), on_error, send_timeout=PATIENCE)
        for batch in ([MODE, *entries(1, 2), MODE], [MODE, *entries(3)]):
            mirror.enqueue(str(tmp_path / "-work-site" / f"{SESSION}.jsonl"), batch)
            await mirror.flush()
        loaded = await sessions.load(KEY)
        await sessions.close()

    assert (errors, getattr(sessions, "failed", 1)) == ([], 1)
    assert loaded == [MODE, *entries(1, 2), MODE, MODE, *entries(3)]


async def test_items_stored_before_the_kill_are_stored_once(server: ServerProcess, key: str) -> None:
    with killing_after_first_append(server) as address:
        session = AshSession("chat", url=address, key=key)
        for items in ([PROMPT, PROMPT], [ANSWER]):
            await session.add_items(items)
        loaded = await session.get_items()
        await session.close()

    assert loaded == [PROMPT, PROMPT, ANSWER]


async def test_sessions_store_each_item_once(server: ServerProcess, key: str) -> None:
    """Half of the writers are cancelled when the server is killed, and continue with their next batch."""
    sessions = [AshSession("chat", url=server.address, key=key) for _ in range(WRITERS)]
    stored, cancelled = list[int](), list[bool]()
    running: dict[int, asyncio.Task[None]] = {}

    async def write(writer: int) -> None:
        for batch in range(BATCHES):
            items = [{**PROMPT, "writer": writer, "n": 3 * batch + n} for n in range(3)]
            task = asyncio.create_task(sessions[writer].add_items(items))
            await asyncio.sleep(0)  # a task cancelled before its first step stores nothing
            running[writer] = task
            with suppress(asyncio.CancelledError):
                await task
            stored.append(writer)

    def cancel() -> None:
        cancelled.extend(running[writer].cancel() for writer in range(0, WRITERS, 2))

    await asyncio.gather(*map(write, range(WRITERS)), kill_often(server, lambda: len(stored), cancel))
    items = await sessions[0].get_items()
    popped = await asyncio.gather(*(each.pop_item() for each in sessions))
    for each in sessions:
        await each.close()

    assert any(cancelled)
    assert [[item["n"] for item in items if item["writer"] == writer] for writer in range(WRITERS)] == [
        list(range(3 * BATCHES))
    ] * WRITERS
    assert all(
        len({item["writer"] for item in items[start : start + 3]}) == 1 for start in range(0, len(items), 3)
    )
    assert sorted(map(str, popped)) == sorted(map(str, items[-WRITERS:]))
