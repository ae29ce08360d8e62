"""The session change feed: changes of all sessions, by any process."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx2
import pytest
from psycopg import AsyncConnection

from ash_server.live import session_feed
from ash_server.live.session_feed import SessionFeed
from ash_server.store import Store
from ash_server.store.labels import update_labels
from ash_server.store.log.notify import notify
from ash_server.store.log.subscriptions import Hub
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, delete_session, update_session
from ash_server.store.transcripts import Copy
from tests.cluster import fetch_as_owner
from tests.server.live.test_hub import wait_for_listener
from tests.server.test_chaos import KILL_LISTENER
from tests.waiting import TIMEOUT, until


class Subscriber:
    """Collects the events of the feed."""

    def __init__(self, feed: SessionFeed) -> None:
        self.events: list[tuple[str, Any]] = []
        self.heartbeats = 0
        self._received = asyncio.Condition()
        self._task = asyncio.create_task(self._subscribe(feed))

    async def _subscribe(self, feed: SessionFeed) -> None:
        async for text in feed.subscribe():
            for event in text.decode().split("\n\n")[:-1]:
                await self._receive(event)

    async def _receive(self, event: str) -> None:
        name, _, data = event.partition("\ndata: ")
        if data:
            self.events.append((name.removeprefix("event: "), json.loads(data)))
        else:
            self.heartbeats += 1
        async with self._received:
            self._received.notify_all()

    async def receives(self, name: str, **expected: Any) -> Any:
        """Wait for an event with this name and data, and return its data."""
        async with asyncio.timeout(TIMEOUT), self._received:
            while not (matches := self.all(name, **expected)):
                await self._received.wait()
        return matches[0]

    def all(self, name: str, **expected: Any) -> list[Any]:
        return [data for event, data in self.events if event == name and expected.items() <= data.items()]

    async def ends(self) -> None:
        async with asyncio.timeout(TIMEOUT):
            await self._task

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
def poll_seconds() -> float:
    return 3600.0


@pytest.fixture
async def store(
    database_url: str, poll_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    monkeypatch.setattr(session_feed, "POLL_SECONDS", poll_seconds)
    monkeypatch.setattr(session_feed, "_COLLECT_SECONDS", 0.05)
    async with Store.connect(database_url) as store:
        yield store


@pytest.fixture
def hub(store: Store) -> Hub:
    return store.hub


@pytest.fixture
async def feed(store: Store) -> AsyncIterator[SessionFeed]:
    async with SessionFeed(store.hub, store.sessions) as feed:
        yield feed


@pytest.fixture
async def subscriber(feed: SessionFeed, connection: AsyncConnection) -> AsyncIterator[Subscriber]:
    await wait_for_listener(connection)
    subscriber = Subscriber(feed)
    await subscriber.receives("caught_up")
    yield subscriber
    await subscriber.stop()


async def append_text(connection: AsyncConnection, session_id: UUID, text: str) -> None:
    await append(connection, session_id, [prepare_message(session_id, text)])


async def test_changes_are_sent(hub: Hub, subscriber: Subscriber, connection: AsyncConnection) -> None:
    """Each event has the current state of the session."""
    session_id = (await create_session(connection, title="Birds")).session.id
    hub.wake(session_id)
    created = await subscriber.receives("session", id=str(session_id))
    await append_text(connection, session_id, "heron")
    hub.wake(session_id)
    grown = await subscriber.receives("session", messageCount=1)
    now = await get_session(connection, session_id)
    await update_session(connection, session_id, title="Herons")
    hub.wake(session_id)
    await subscriber.receives("session", title="Herons")
    await update_labels(connection, session_id, starred=True)
    hub.wake(session_id)
    await subscriber.receives("session", labels={"starred": True, "archived": False, "tags": [], "note": ""})
    await delete_session(connection, session_id)
    hub.wake(session_id)
    await subscriber.receives("deleted", id=str(session_id))

    assert (created["title"], created["messageCount"]) == ("Birds", 0)
    assert grown == {**json.loads(now.model_dump_json()), "activity": {"state": "working"}}
    assert [name for name, _ in subscriber.events if name != "caught_up"] == ["session"] * 4 + ["deleted"]


async def test_changes_by_other_processes_are_sent(
    subscriber: Subscriber, connection: AsyncConnection
) -> None:
    session_id = (await create_session(connection)).session.id
    await notify(connection, [session_id])

    await subscriber.receives("session", id=str(session_id))


@pytest.mark.parametrize("poll_seconds", [0.05])
async def test_polling_finds_changes_without_notification(
    subscriber: Subscriber, connection: AsyncConnection
) -> None:
    """Each change is sent once."""
    session_id = (await create_session(connection)).session.id
    await subscriber.receives("session", id=str(session_id), messageCount=0)
    await append_text(connection, session_id, "heron")
    await subscriber.receives("session", id=str(session_id), messageCount=1)
    other = (await create_session(connection)).session.id
    await subscriber.receives("session", id=str(other))

    assert len(subscriber.all("session")) == 3


async def mark_as_copy(store: Store, session_id: UUID) -> None:
    original = await store.sessions.create()
    await store.transcripts.set_copy(session_id, Copy(original.id, 1))


WRITTEN_AT, PARENT = datetime(2026, 3, 3, 10, tzinfo=UTC), UUID(int=1)
ImportedFact = Callable[[Store, UUID], Awaitable[object]]
FACTS: dict[str, tuple[ImportedFact, dict[str, Any]]] = {
    "a time": (
        lambda store, id: store.sessions.set_file_time(id, WRITTEN_AT, has_grown=True),
        {"fileModifiedAt": "2026-03-03T10:00:00Z"},
    ),
    "an agent": (
        lambda store, id: store.sessions.set_agent(id, "openclaude"),
        {"metadata": {"agent": "openclaude"}},
    ),
    "a title": (
        lambda store, id: store.sessions.set_tool_title(id, "Herons", is_typed=False),
        {"title": "Herons"},
    ),
    "a parent": (
        lambda store, id: store.sessions.set_parent(id, PARENT, "parent"),
        {"parentExternalId": "parent"},
    ),
    "a copy": (mark_as_copy, {"copiedMessages": 1}),
}
"""Facts that an import stores after the messages, each with the fields that show it."""


@pytest.mark.parametrize("fact", FACTS)
async def test_facts_of_imports_are_sent(store: Store, subscriber: Subscriber, fact: str) -> None:
    change, shown = FACTS[fact]
    session_id = (await store.sessions.create()).id
    before = await subscriber.receives("session", id=str(session_id))
    await change(store, session_id)
    after = await subscriber.receives("session", id=str(session_id), **shown)

    assert after["updatedAt"] > before["updatedAt"]


async def test_facts_that_stay_the_same_are_not_sent(store: Store, subscriber: Subscriber) -> None:
    """An import repeats them each time."""
    session_id = (await store.sessions.create()).id
    repeated = [change for name, (change, _) in FACTS.items() if name != "a copy"]
    for change in repeated:
        await change(store, session_id)
    updated_at = (await store.sessions.get(session_id)).updated_at
    with store.hub.watch_changes() as changes:
        for change in repeated:
            await change(store, session_id)

        assert changes.take()[0] == set()
    assert (await store.sessions.get(session_id)).updated_at == updated_at


async def test_another_parent_is_sent(store: Store, subscriber: Subscriber) -> None:
    """The parent of subagents that were imported before it may be another session than its path has named."""
    parent = await store.sessions.create()
    child = await store.sessions.create(parent_id=PARENT)
    other = await store.sessions.create()
    await subscriber.receives("session", id=str(other.id))  # nothing about the child is left to be sent
    await store.transcripts.replace_parent(PARENT, parent.id)

    await subscriber.receives("session", id=str(child.id), parentId=str(parent.id))


async def test_changes_are_coalesced(
    hub: Hub, subscriber: Subscriber, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes are collected until all are made; one may be sent before that begins."""
    are_made = asyncio.Event()

    async def collect(seconds: float) -> None:
        await are_made.wait()

    monkeypatch.setattr(hub, "sleep", collect)
    session_id = (await create_session(connection)).session.id
    for number in range(1, 51):
        await append_text(connection, session_id, f"heron {number}")
        hub.wake(session_id)
    are_made.set()
    await subscriber.receives("session", messageCount=50)

    assert len(subscriber.all("session")) <= 2


async def test_all_subscribers_share_one_query(
    store: Store,
    feed: SessionFeed,
    subscriber: Subscriber,
    connection: AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries = []
    get_many = store.sessions.get_many

    async def counted(ids: Any) -> Any:
        queries.append(ids)
        return await get_many(ids)

    monkeypatch.setattr(store.sessions, "get_many", counted)
    others = [Subscriber(feed) for _ in range(50)]
    session_id = (await create_session(connection)).session.id
    store.hub.wake(session_id)
    for each in (subscriber, *others):
        await each.receives("session", id=str(session_id))
    for other in others:
        await other.stop()

    assert queries == [{session_id}]


async def test_slow_subscribers_get_the_latest_state(
    hub: Hub, feed: SessionFeed, connection: AsyncConnection
) -> None:
    ids = [(await create_session(connection)).session.id for _ in range(2)]
    slow = feed.subscribe()
    assert await anext(slow) == b"event: caught_up\ndata: {}\n\n"
    fast = Subscriber(feed)
    for number in range(1, 6):
        for session_id in ids:
            await append_text(connection, session_id, f"heron {number}")
            hub.wake(session_id)
        for session_id in ids:
            await fast.receives("session", id=str(session_id), messageCount=number)

    received = [
        json.loads(event.split("data: ")[1]) for event in (await anext(slow)).decode().split("\n\n")[:-1]
    ]
    await slow.aclose()
    await fast.stop()
    counts = [(UUID(each["id"]), each["messageCount"]) for each in received if each]
    assert sorted(counts) == [(id, 5) for id in sorted(ids)]


async def test_caught_up_is_repeated_after_missed_notifications(
    subscriber: Subscriber, connection: AsyncConnection
) -> None:
    before = len(subscriber.all("caught_up"))

    async def kills_listener() -> bool:
        return await fetch_as_owner(connection, KILL_LISTENER) != (0,)

    await until(kills_listener)
    await until(lambda: len(subscriber.all("caught_up")) > before)


async def test_heartbeats_without_changes(
    feed: SessionFeed, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_feed, "HEARTBEAT_SECONDS", 0.02)
    other = Subscriber(feed)
    await until(lambda: other.heartbeats >= 3)
    await other.stop()


async def test_ends_when_the_server_stops(hub: Hub, subscriber: Subscriber) -> None:
    hub.stop()

    await subscriber.ends()


# --- Over HTTP


@pytest.mark.slow
def test_stream_over_http(shared_server: str) -> None:
    with httpx2.stream("GET", f"{shared_server}/api/sessions/stream") as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = response.iter_lines()
        first = [next(lines) for _ in range(5)]
        created = httpx2.post(f"{shared_server}/api/sessions", json={"title": "Birds"}).json()
        data = next(line for line in lines if created["id"] in line)
        httpx2.delete(f"{shared_server}/api/sessions/{created['id']}")
        deleted = next(line for line in lines if line == f'data: {{"id":"{created["id"]}"}}')

    assert first == ["retry: 1000", "", "event: caught_up", "data: {}", ""]
    assert json.loads(data.removeprefix("data: ")) == {**created, "activity": {"state": "ended"}}
    assert deleted


@pytest.mark.parametrize(
    ("query", "headers", "status", "code"),
    [
        ("", {"Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ("", {"Host": "evil.example"}, 421, "host_not_allowed"),
        ("after=1", {}, 400, "invalid_parameter"),
    ],
)
def test_rejects_invalid_requests(
    shared_server: str, query: str, headers: dict[str, str], status: int, code: str
) -> None:
    response = httpx2.get(f"{shared_server}/api/sessions/stream?{query}", headers=headers)

    assert (response.status_code, response.json()["code"]) == (status, code)
