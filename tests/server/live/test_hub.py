"""Subscriptions survive lost notifications, database outages, rebuilds, server restarts and slow readers."""

import asyncio
import os
import select
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psutil
import pytest
from psycopg import AsyncConnection, OperationalError

from ash_server.errors import DatabaseUnavailable
from ash_server.store import Store
from ash_server.store.connections.pool import connect, open_pool
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.log import subscriptions as live
from ash_server.store.log.events import append_events, get_collapsed
from ash_server.store.log.notify import notify
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.log.subscriptions import Hub, _SubscribedSession, _Subscriber
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.schema.migrations import upgrade
from ash_server.store.sessions import create_session, delete_session, session_id_for
from ash_server.transfer.importing.file_import import import_file
from tests.cluster import fetch_as_owner
from tests.marking import slow_unless
from tests.ports import free_port
from tests.server.cli.test_cli_serve import Running, running
from tests.server.subscribers import SseSubscriber, Subscriber, WebSocketSubscriber, stored_events
from tests.server.subscribers import running as running_subscribers
from tests.server.test_chaos import KILL_LISTENER
from tests.shared.records.events import wire_event
from tests.waiting import TIMEOUT, until

STALLED = 16

WITHOUT_POLLING = pytest.mark.parametrize("poll_seconds", [3600.0])
"""Only notifications wake subscribers."""


LISTENING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'
"""


@pytest.fixture
def poll_seconds() -> float:
    return 0.1


@pytest.fixture
async def hub(database_url: str, poll_seconds: float, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(live, "POLL_SECONDS", poll_seconds)
    async with open_pool(database_url) as pool, Hub(database_url, pool) as hub:
        with hub.watch_changes():  # listens from the start, as in a server
            yield hub


async def post(conn: AsyncConnection, session_id: UUID, *ids: str, text: str = "a") -> None:
    event = wire_event("summary", text=text, timestamp=1, sessionId="")
    await append_events(conn, session_id, [{"id": id, **event} for id in ids])


async def has_listener(conn: AsyncConnection) -> bool:
    return await fetch_as_owner(conn, LISTENING) != (0,)


async def wait_for_listener(conn: AsyncConnection) -> None:
    await until(partial(has_listener, conn))


class Reader:
    """Subscribes to one session of a hub and records the sequences of its events."""

    def __init__(self, hub: Hub, session_id: UUID, after: int = 0, *, collapse: bool = False) -> None:
        self.sequences: list[int] = []
        self.types: list[str] = []
        self._batches = hub.subscribe(session_id, after, collapse=collapse)

    async def wait_for_sequence(self, sequence: int) -> None:
        """Wait for at most a minute."""
        async with asyncio.timeout(TIMEOUT):
            while not self.sequences or self.sequences[-1] < sequence:
                self._add(await anext(self._batches))

    async def wait_for_caught_up(self) -> None:
        while not self._add(await anext(self._batches)):
            pass

    async def wait_for_end(self) -> None:
        async with asyncio.timeout(TIMEOUT), aclosing(self._batches):
            async for batch in self._batches:
                self._add(batch)

    def _add(self, batch: live.EventBatch) -> bool:
        self.sequences += [event.sequence for event in batch.events]
        self.types += [event.type for event in batch.events]
        return batch.caught_up


# --- Notifications


@WITHOUT_POLLING
async def test_notifications_that_could_not_be_sent_are_sent_later(
    hub: Hub,
    database_url: str,
    connection: AsyncConnection,
    session_id: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [OperationalError("terminated"), DatabaseUnavailable()]

    async def fail_first(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        await notify(*arguments)

    await wait_for_listener(connection)
    monkeypatch.setattr(live, "notify", fail_first)
    async with open_pool(database_url) as pool, Hub(database_url, pool) as other:
        with hub.watch_changes() as changes:
            other.wake(session_id)
            await until(lambda: session_id in changes.take()[0])


@WITHOUT_POLLING
async def test_notification_of_another_process_wakes_subscribers(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    for number in range(1, 4):
        await post(connection, session_id, str(number))
        await notify(connection, [session_id])
        await reader.wait_for_sequence(number)

    assert reader.sequences == [1, 2, 3]


@WITHOUT_POLLING
async def test_servers_wake_each_other(
    hub: Hub, database_url: str, connection: AsyncConnection, session_id: UUID
) -> None:
    async with open_pool(database_url) as pool, Hub(database_url, pool) as other:
        subscribers = [Reader(each, session_id) for each in (hub, other)]
        for reader in subscribers:
            await reader.wait_for_caught_up()
        await post(connection, session_id, "1")
        hub.wake(session_id)
        for reader in subscribers:
            await reader.wait_for_sequence(1)


async def test_lost_notification_only_delays(hub: Hub, connection: AsyncConnection, session_id: UUID) -> None:
    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    await post(connection, session_id, "1")
    await reader.wait_for_sequence(1)


@WITHOUT_POLLING
@pytest.mark.parametrize("payload", ["- x", "- 1 2"])
async def test_ignores_foreign_notifications(
    hub: Hub, connection: AsyncConnection, session_id: UUID, payload: str
) -> None:
    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    await wait_for_listener(connection)
    await connection.execute("SELECT pg_notify('ash_events', %s)", [payload])
    await post(connection, session_id, "1")
    await notify(connection, [session_id])
    await reader.wait_for_sequence(1)


@WITHOUT_POLLING
async def test_killed_listener_is_replaced(hub: Hub, connection: AsyncConnection, session_id: UUID) -> None:
    async def kills_listener() -> bool:
        return await fetch_as_owner(connection, KILL_LISTENER) != (0,)

    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    for number in range(1, 4):
        await until(kills_listener)
        await post(connection, session_id, str(number))  # its notification is lost
        await notify(connection, [session_id])
        await reader.wait_for_sequence(number)


async def test_only_notifications_are_committed_without_waiting_for_the_disk(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await connection.execute("SET synchronous_commit = on")
    await notify(connection, [session_id])
    assert await (await connection.execute("SHOW synchronous_commit")).fetchone() == ("on",)
    for other in (connection.transaction, connection.pipeline):
        async with other():
            await connection.execute("SELECT")
            with pytest.raises(RuntimeError):
                await notify(connection, [session_id])


@WITHOUT_POLLING
async def test_import_wakes_subscribers(hub: Hub, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"user","uuid":"u1","message":{"role":"user","content":"a"}}\n')
    session_id = (await import_file(store, path, "a")).session_id
    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    last = reader.sequences[-1]
    with path.open("a") as file:
        file.write('{"type":"assistant","uuid":"u2","message":{"role":"assistant","content":"b"}}\n')
    await import_file(store, path, "a")
    await reader.wait_for_sequence(last + 1)


@pytest.mark.parametrize("count", [1, live._PAGE_SIZE - 1, live._PAGE_SIZE, live._PAGE_SIZE + 1])
async def test_caught_up_is_reported_immediately(
    hub: Hub, connection: AsyncConnection, session_id: UUID, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a full page, which may not be the last one; the next heartbeat is too far away to report it."""
    monkeypatch.setattr(live, "HEARTBEAT_SECONDS", 3600.0)
    await post(connection, session_id, *map(str, range(count)))
    reader = Reader(hub, session_id)
    async with asyncio.timeout(TIMEOUT):
        await reader.wait_for_caught_up()

    assert reader.sequences == list(range(1, count + 1))


# --- Changes of a subscribed session


async def test_subscriptions_without_chunks_read_parts_of_the_log(
    hub: Hub, connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = wire_event("assistant_chunk", text="a", timestamp=1, sessionId="")
    done = wire_event("assistant_done", text="a" * 30, id="done", timestamp=1, sessionId="")
    chunks = [{**chunk, "id": f"chunk-{number}"} for number in range(30)]
    await append_events(connection, session_id, [*chunks, done])
    monkeypatch.setattr(live, "MAX_COLLAPSED", 10)
    spans, read = list[tuple[int, int]](), get_collapsed

    async def reading(conn: AsyncConnection, id: UUID, after: int, end: int, **size: int) -> Any:
        spans.append((after, end))
        return await read(conn, id, after, end, **size)

    monkeypatch.setattr(live, "get_collapsed", reading)
    reader = Reader(hub, session_id, collapse=True)
    await reader.wait_for_caught_up()

    assert reader.sequences == [31]
    assert spans == [(0, 10), (10, 20), (20, 30)]


async def test_rebuild_sends_a_reset_and_continues(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    line = '{"type":"user","uuid":"u%d","message":{"role":"user","content":"a"}}'
    for number in range(3):
        await append(connection, session_id, [prepare_message(session_id, line % number)])
    reader = Reader(hub, session_id)
    await reader.wait_for_caught_up()
    before = reader.types
    last = reader.sequences[-1]

    await rebuild_events(connection, session_id)
    await post(connection, session_id, "after")
    await reader.wait_for_sequence(2 * last + 2)

    assert reader.sequences == list(range(1, 2 * last + 3))
    assert reader.types[last:] == ["reset", *before[:last], "summary"]


@pytest.mark.parametrize("new", ["a", "abcde", "abcdefg"])
async def test_recreation_ends_subscriptions(hub: Hub, connection: AsyncConnection, new: str) -> None:
    """Under the same id, as `import --replace` does: old subscriptions do not continue in the new session."""
    session_id = (await create_session(connection, source="a", external_id="b")).session.id
    assert session_id == session_id_for("a", "b")
    await post(connection, session_id, *"12345")
    await wait_for_listener(connection)
    reader = Reader(hub, session_id)
    await reader.wait_for_sequence(5)
    async with connection.transaction():
        await delete_session(connection, session_id)
        await create_session(connection, source="a", external_id="b")
        await post(connection, session_id, *new)
    await reader.wait_for_end()

    assert reader.sequences == [1, 2, 3, 4, 5]
    again = Reader(hub, session_id)
    await again.wait_for_sequence(len(new))


async def test_stop_ends_subscriptions(hub: Hub, session_id: UUID) -> None:
    subscribers = [Reader(hub, session_id) for _ in range(10)]
    for reader in subscribers:
        await reader.wait_for_caught_up()
    async with asyncio.TaskGroup() as reading:
        for reader in subscribers:
            reading.create_task(reader.wait_for_end())
        await asyncio.sleep(0)  # all of them wait
        hub.stop()


async def test_ended_subscriptions_are_removed(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    await post(connection, session_id, "1")
    for _ in range(3):
        async with aclosing(hub.subscribe(session_id, 0)) as batch:
            assert (await anext(batch)).caught_up

    assert (hub._sessions, hub._shared._tasks) == ({}, {})


# --- A server as a process


def serve(url: str, home: Path, port: int | None = None) -> Any:
    return running("serve", "--port", str(port or free_port()), home=home, ASH_DATABASE_URL=url)


def port_of(server: Running) -> int:
    return urlsplit(server.address).port or 0


def stalled(server: Running, session_id: UUID, kind: str) -> socket.socket:
    """Send a request and read nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port_of(server)))
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    extra_headers = {"stream": "", "ws": upgrade + key}[kind]
    path = f"/api/sessions/{session_id}/events/{kind}"
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{extra_headers}\r\n".encode())
    return client


@pytest.mark.slow
@pytest.mark.parametrize("by", slow_unless(signal.SIGTERM.__eq__, [signal.SIGTERM, signal.SIGINT]))
async def test_server_restart(
    database_url: str, connection: AsyncConnection, session_id: UUID, tmp_path: Path, by: signal.Signals
) -> None:
    """Some subscribers do not read."""
    await post(connection, session_id, *map(str, range(40)), text="x" * 200_000)
    with ExitStack() as servers:
        server = await asyncio.to_thread(servers.enter_context, serve(database_url, tmp_path))
        subscribers: list[Subscriber] = [
            kind(server.address, session_id) for kind in (SseSubscriber, WebSocketSubscriber)
        ]
        async with running_subscribers(*subscribers):
            await asyncio.gather(*(reader.wait_for_event("caught_up") for reader in subscribers))
            slow = [stalled(server, session_id, kind) for kind in ("stream", "ws")]
            await asyncio.gather(*map(is_answered, slow))

            server.process.send_signal(by)
            code = await asyncio.to_thread(server.process.wait, TIMEOUT)
            await post(connection, session_id, "while down")
            server = await asyncio.to_thread(
                servers.enter_context, serve(database_url, tmp_path, port_of(server))
            )
            await post(connection, session_id, "after restart")
            async with asyncio.timeout(TIMEOUT):
                await asyncio.gather(*(reader.wait_for_sequence(42) for reader in subscribers))
            for client in slow:
                client.close()

        assert code == 0
        closed = {"sequence": 40, "code": "server_stopped", "detail": "The server has stopped."}
        assert ("closed", closed) in subscribers[0].other_events
        assert [reader.events for reader in subscribers] == [
            await stored_events(database_url, session_id)
        ] * len(subscribers)


@pytest.mark.slow
async def test_database_restart(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg") as database, ExitStack() as servers:
        url = database.url()
        upgrade(url)
        async with await connect(url) as conn:
            session_id = (await create_session(conn)).session.id
            await post(conn, session_id, "1", "2")
        server = await asyncio.to_thread(servers.enter_context, serve(url, tmp_path))
        subscribers: list[Subscriber] = [
            kind(server.address, session_id) for kind in (SseSubscriber, WebSocketSubscriber)
        ]
        async with running_subscribers(*subscribers):
            for round in range(2):
                await asyncio.gather(*(reader.wait_for_event("caught_up") for reader in subscribers))
                postmaster = int((tmp_path / "pg" / "postmaster.pid").read_text().split()[0])
                os.kill(postmaster, [signal.SIGKILL, signal.SIGINT][round])
                await wait_for_exit(postmaster)
                await asyncio.to_thread(database.start)
                async with await connect(url) as conn:
                    await post(conn, session_id, f"after {round}")
                async with asyncio.timeout(TIMEOUT):
                    await asyncio.gather(*(reader.wait_for_sequence(3 + round) for reader in subscribers))
        expected = await stored_events(url, session_id)

    assert [reader.events for reader in subscribers] == [expected, expected]
    assert [reader.connections for reader in subscribers] == [1, 1]


async def is_answered(client: socket.socket) -> None:
    """Wait for the first bytes of the response without reading them."""
    await until(lambda: select.select([client], [], [], 0)[0])


async def wait_for_exit(pid: int) -> None:
    """Wait until the process is gone or a zombie."""
    with suppress(psutil.NoSuchProcess):
        await until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def resident(process: subprocess.Popen[str]) -> float:
    return psutil.Process(process.pid).memory_info().rss / 2**20


@pytest.mark.slow
async def test_stalled_readers_are_disconnected(
    database_url: str, connection: AsyncConnection, session_id: UUID, tmp_path: Path
) -> None:
    await post(connection, session_id, *map(str, range(60)), text="x" * 150_000)
    with ExitStack() as servers:
        server = await asyncio.to_thread(servers.enter_context, serve(database_url, tmp_path))
        reader = SseSubscriber(server.address, session_id)
        async with running_subscribers(reader):
            await reader.wait_for_event("caught_up")
        before = resident(server.process)
        slow = [stalled(server, session_id, kind) for kind in ("stream", "ws") * (STALLED // 2)]
        await asyncio.gather(*map(is_answered, slow))
        await wait_until_idle(connection)
        growth = resident(server.process) - before
        await wait_until_disconnected(server)
        for client in slow:
            client.close()

    assert growth < STALLED  # megabytes: at most one for each reader


async def wait_until_disconnected(server: Running) -> None:
    """The server may also have connections to a database over TCP."""

    def clients() -> list[Any]:
        sockets = psutil.Process(server.process.pid).net_connections("tcp")
        return [each for each in sockets if each.laddr.port == port_of(server) and each.raddr]

    await until(lambda: not clients())


async def wait_until_idle(conn: AsyncConnection) -> None:
    """The server polls, but holds no connection for clients that do not read."""

    async def is_idle() -> bool:
        return await busy_connections(conn) == 0

    await until(is_idle)


async def busy_connections(conn: AsyncConnection) -> int:
    """Count the other connections that are active or in a transaction."""
    cursor = await conn.execute(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


@pytest.mark.slow
async def test_many_subscribers_are_woken_together_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_PAUSE_SECONDS", 1.0)
    monkeypatch.setattr(live, "_MAX_PAUSE_SECONDS", 1.0)
    woken = {}
    for count in (100, 101):
        session = _SubscribedSession(subscribers={_Subscriber(0) for _ in range(count)})
        woken[count] = [_wake(session) for _ in range(3)]
        await asyncio.gather(*(each.changed.wait() for each in session.subscribers if woken[count][-1] == 0))

    assert woken == {100: [100, 100, 100], 101: [101, 0, 0]}


def _wake(session: _SubscribedSession) -> int:
    """Return the number of subscribers that are woken at once."""
    for subscriber in session.subscribers:
        subscriber.changed.clear()
    session.wake()
    return sum(subscriber.changed.is_set() for subscriber in session.subscribers)
