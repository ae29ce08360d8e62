"""Following the list of sessions: what happens to any of them, whoever did it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from psycopg import AsyncConnection

from ash_server.db.connection import open_pool
from ash_server.db.messages import append
from ash_server.db.notify import notify
from ash_server.db.sessions import create_session, delete_session, get_session, get_sessions, update_session
from ash_server.ingest import prepare_message
from ash_server.live import hub as live
from ash_server.live import session_feed
from ash_server.live.hub import Hub
from ash_server.live.session_feed import Board
from tests.server.live.test_hub import is_listened_to
from tests.server.test_chaos import KILL_LISTENER
from tests.waiting import until

Told = list[tuple[str, Any]]


class Watcher:
    """Somebody who shows the list."""

    def __init__(self, watched: Board) -> None:
        self.told: Told = []
        self.beats = 0
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._watch(watched))

    async def _watch(self, watched: Board) -> None:
        async for text in watched.watch():
            for event in text.decode().split("\n\n")[:-1]:
                await self._hear(event)

    async def _hear(self, event: str) -> None:
        name, _, data = event.partition("\ndata: ")
        if data:
            self.told.append((name.removeprefix("event: "), json.loads(data)))
        else:
            self.beats += 1
        async with self._news:
            self._news.notify_all()

    async def hears(self, name: str, **expected: Any) -> Any:
        """The first that is of this name and says that."""
        async with asyncio.timeout(20), self._news:
            while not (found := self.all(name, **expected)):
                await self._news.wait()
        return found[0]

    def all(self, name: str, **expected: Any) -> list[Any]:
        return [data for told, data in self.told if told == name and expected.items() <= data.items()]

    async def ends(self) -> None:
        async with asyncio.timeout(20):
            await self._task

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def looks() -> float:
    return 3600.0


@pytest.fixture
async def hub(database_url: str, looks: float, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(session_feed, "_LOOKS", looks)
    monkeypatch.setattr(session_feed, "_GATHERED", 0.05)
    async with open_pool(database_url) as pool, Hub(database_url, pool) as hub:
        yield hub


@pytest.fixture
async def watched(hub: Hub) -> AsyncIterator[Board]:
    async with Board(hub) as watched:
        yield watched


@pytest.fixture
async def watcher(watched: Board, connection: AsyncConnection) -> AsyncIterator[Watcher]:
    await is_listened_to(connection)
    watcher = Watcher(watched)
    await watcher.hears("caught_up")
    yield watcher
    await watcher.stop()


async def say(connection: AsyncConnection, session_id: UUID, text: str) -> None:
    await append(connection, session_id, [prepare_message(session_id, text)])


async def test_what_happens_is_told(hub: Hub, watcher: Watcher, connection: AsyncConnection) -> None:
    """As the session is then."""
    session_id = (await create_session(connection, title="Birds")).session.id
    hub.wake(session_id)
    made = await watcher.hears("session", id=str(session_id))
    await say(connection, session_id, "heron")
    hub.wake(session_id)
    grown = await watcher.hears("session", messageCount=1)
    now = await get_session(connection, session_id)
    await update_session(connection, session_id, title="Herons")
    hub.wake(session_id)
    await watcher.hears("session", title="Herons")
    await delete_session(connection, session_id)
    hub.wake(session_id)
    await watcher.hears("deleted", id=str(session_id))

    assert (made["title"], made["messageCount"]) == ("Birds", 0)
    assert grown == json.loads(now.model_dump_json())
    assert [name for name, _ in watcher.told if name != "caught_up"] == ["session"] * 3 + ["deleted"]


async def test_other_processes_tell_too(watcher: Watcher, connection: AsyncConnection) -> None:
    session_id = (await create_session(connection)).session.id
    await notify(connection, [session_id])

    await watcher.hears("session", id=str(session_id))


@pytest.mark.parametrize("looks", [0.05])
async def test_what_no_hint_told(watcher: Watcher, connection: AsyncConnection) -> None:
    """It is told once."""
    session_id = (await create_session(connection)).session.id
    await watcher.hears("session", id=str(session_id), messageCount=0)
    await say(connection, session_id, "heron")
    await watcher.hears("session", id=str(session_id), messageCount=1)
    other = (await create_session(connection)).session.id
    await watcher.hears("session", id=str(other))

    assert len(watcher.all("session")) == 3


async def test_much_at_once_is_told_once(
    hub: Hub, watcher: Watcher, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_feed, "_GATHERED", 0.5)
    session_id = (await create_session(connection)).session.id
    begun = time.monotonic()
    for number in range(1, 51):
        await say(connection, session_id, f"heron {number}")
        hub.wake(session_id)
    await watcher.hears("session", messageCount=50)

    took = time.monotonic() - begun
    assert len(watcher.all("session")) <= took / 0.5 + 2


async def test_all_are_told_by_one_reading(
    hub: Hub, watched: Board, watcher: Watcher, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    async def counted(conn: AsyncConnection, ids: Any) -> Any:
        readings.append(ids)
        return await get_sessions(conn, ids)

    monkeypatch.setattr(session_feed, "get_sessions", counted)
    others = [Watcher(watched) for _ in range(50)]
    session_id = (await create_session(connection)).session.id
    hub.wake(session_id)
    for each in (watcher, *others):
        await each.hears("session", id=str(session_id))
    for other in others:
        await other.stop()

    assert readings == [{session_id}]


async def test_who_is_slow_is_told_the_last_state(
    hub: Hub, watched: Board, connection: AsyncConnection
) -> None:
    ids = [(await create_session(connection)).session.id for _ in range(2)]
    slow = watched.watch()
    assert await anext(slow) == b"event: caught_up\ndata: {}\n\n"
    quick = Watcher(watched)
    for number in range(1, 6):
        for session_id in ids:
            await say(connection, session_id, f"heron {number}")
            hub.wake(session_id)
        for session_id in ids:
            await quick.hears("session", id=str(session_id), messageCount=number)

    told = [json.loads(event.split("data: ")[1]) for event in (await anext(slow)).decode().split("\n\n")[:-1]]
    await slow.aclose()
    await quick.stop()
    seen = [(UUID(each["id"]), each["messageCount"]) for each in told if each]
    assert sorted(seen) == [(id, 5) for id in sorted(ids)]


async def test_where_something_may_have_been_missed(watcher: Watcher, connection: AsyncConnection) -> None:
    before = len(watcher.all("caught_up"))

    async def kills_listener() -> bool:
        return await (await connection.execute(KILL_LISTENER)).fetchone() != (0,)

    await until(kills_listener)
    await until(lambda: len(watcher.all("caught_up")) > before)


async def test_something_comes_even_if_nothing_happens(
    watched: Board, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT", 0.02)
    other = Watcher(watched)
    await until(lambda: other.beats >= 3)
    await other.stop()


async def test_it_ends_with_the_server(hub: Hub, watcher: Watcher) -> None:
    hub.stop()

    await watcher.ends()


# --- Over HTTP


def test_the_stream(shared_server: str) -> None:
    with httpx.stream("GET", f"{shared_server}/api/sessions/stream", timeout=20) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = answer.iter_lines()
        first = [next(lines) for _ in range(5)]
        made = httpx.post(f"{shared_server}/api/sessions", json={"title": "Birds"}).json()
        data = next(line for line in lines if made["id"] in line)
        httpx.delete(f"{shared_server}/api/sessions/{made['id']}")
        gone = next(line for line in lines if line == f'data: {{"id":"{made["id"]}"}}')

    assert first == ["retry: 1000", "", "event: caught_up", "data: {}", ""]
    assert json.loads(data.removeprefix("data: ")) == made
    assert gone


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ("", {"Host": "evil.example"}, 421, "host_not_allowed"),
        ("after=1", {}, 400, "invalid_parameter"),
    ],
)
def test_refused(shared_server: str, query: str, headers: dict[str, str], status: int, code: str) -> None:
    answer = httpx.get(f"{shared_server}/api/sessions/stream?{query}", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
