"""What following survives: lost hints, a database that goes away, a rebuild, a server that stops, slow readers."""

import asyncio
import os
import select
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psutil
import pytest
from psycopg import AsyncConnection

from ash_server.db.connection import connect, open_pool, upgrade
from ash_server.db.embedded.server import EmbeddedPostgres
from ash_server.db.events import append_events
from ash_server.db.messages import append
from ash_server.db.notify import notify
from ash_server.db.rebuild_events import rebuild_events
from ash_server.db.sessions import create_session, delete_session, session_id_for
from ash_server.ingest import prepare_message
from ash_server.live import hub as live
from ash_server.live.hub import Hub
from ash_server.transfer.importing.file_import import import_file
from tests.server.cli.test_cli_serve import Running, running
from tests.server.followers import Browser, Follower, Socket, following, stored
from tests.server.test_chaos import KILL_LISTENER
from tests.waiting import until

STALLED = 100

WITHOUT_LOOKING = pytest.mark.parametrize("looks", [3600.0])
"""What is told is told by hints alone."""


LISTENING = """
    SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'
"""


@pytest.fixture
def looks() -> float:
    return 0.1


@pytest.fixture
async def hub(database_url: str, looks: float, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hub]:
    monkeypatch.setattr(live, "POLL_SECONDS", looks)
    async with open_pool(database_url) as pool, Hub(database_url, pool) as hub:
        with hub.watch_changes():  # listens from the beginning, as in a server
            yield hub


async def post(conn: AsyncConnection, session_id: UUID, *ids: str, text: str = "a") -> None:
    event = {"timestamp": 1, "sessionId": "", "type": "summary", "payload": {"text": text}}
    await append_events(conn, session_id, [{"id": id, **event} for id in ids])


async def is_listened_to(conn: AsyncConnection) -> None:
    async def has_listener() -> int:
        return (await conn.execute(LISTENING)).rowcount

    await until(has_listener)


class Reader:
    """Of one session, by way of a hub; tells the sequences that it has been told."""

    def __init__(self, hub: Hub, session_id: UUID, after: int = 0) -> None:
        self.told: list[int] = []
        self.types: list[str] = []
        self._news = hub.subscribe(session_id, after)

    async def reaches(self, sequence: int) -> None:
        """Within ten seconds."""
        async with asyncio.timeout(10):
            while not self.told or self.told[-1] < sequence:
                self._add(await anext(self._news))

    async def catches_up(self) -> None:
        while not self._add(await anext(self._news)):
            pass

    async def ends(self) -> None:
        async with asyncio.timeout(10), aclosing(self._news):
            async for news in self._news:
                self._add(news)

    def _add(self, news: live.EventBatch) -> bool:
        self.told += [event.sequence for event in news.events]
        self.types += [event.type for event in news.events]
        return news.caught_up


# --- Hints


@WITHOUT_LOOKING
async def test_notification_of_another_process_wakes(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    reader = Reader(hub, session_id)
    await reader.catches_up()
    for number in range(1, 4):
        await post(connection, session_id, str(number))
        await notify(connection, [session_id])
        await reader.reaches(number)

    assert reader.told == [1, 2, 3]


@WITHOUT_LOOKING
async def test_servers_wake_each_other(
    hub: Hub, database_url: str, connection: AsyncConnection, session_id: UUID
) -> None:
    async with open_pool(database_url) as pool, Hub(database_url, pool) as other:
        readers = [Reader(each, session_id) for each in (hub, other)]
        for reader in readers:
            await reader.catches_up()
        await post(connection, session_id, "1")
        hub.wake(session_id)
        for reader in readers:
            await reader.reaches(1)


async def test_lost_notification_only_delays(hub: Hub, connection: AsyncConnection, session_id: UUID) -> None:
    reader = Reader(hub, session_id)
    await reader.catches_up()
    await post(connection, session_id, "1")
    await reader.reaches(1)


@WITHOUT_LOOKING
@pytest.mark.parametrize("payload", ["- x", "- 1 2"])
async def test_ignores_foreign_notifications(
    hub: Hub, connection: AsyncConnection, session_id: UUID, payload: str
) -> None:
    reader = Reader(hub, session_id)
    await reader.catches_up()
    await is_listened_to(connection)
    await connection.execute("SELECT pg_notify('ash_events', %s)", [payload])
    await post(connection, session_id, "1")
    await notify(connection, [session_id])
    await reader.reaches(1)


@WITHOUT_LOOKING
async def test_killed_listener_is_replaced(hub: Hub, connection: AsyncConnection, session_id: UUID) -> None:
    async def kills_listener() -> bool:
        return await (await connection.execute(KILL_LISTENER)).fetchone() != (0,)

    reader = Reader(hub, session_id)
    await reader.catches_up()
    for number in range(1, 4):
        await until(kills_listener)
        await post(connection, session_id, str(number))  # whose hint nobody hears
        await notify(connection, [session_id])
        await reader.reaches(number)


@WITHOUT_LOOKING
async def test_import_wakes(hub: Hub, connection: AsyncConnection, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"type":"user","uuid":"u1","message":{"role":"user","content":"a"}}\n')
    session_id = (await import_file(connection, path, "a")).session_id
    reader = Reader(hub, session_id)
    await reader.catches_up()
    last = reader.told[-1]
    with path.open("a") as file:
        file.write('{"type":"assistant","uuid":"u2","message":{"role":"assistant","content":"b"}}\n')
    await import_file(connection, path, "a")
    await reader.reaches(last + 1)


@pytest.mark.parametrize("count", [1, live._PAGE_SIZE - 1, live._PAGE_SIZE, live._PAGE_SIZE + 1])
async def test_caught_up_is_reported_immediately(
    hub: Hub, connection: AsyncConnection, session_id: UUID, count: int
) -> None:
    """Also where the last page is full, so that more might lie behind it."""
    await post(connection, session_id, *map(str, range(count)))
    reader = Reader(hub, session_id)
    async with asyncio.timeout(live.HEARTBEAT_SECONDS / 2):
        await reader.catches_up()

    assert reader.told == list(range(1, count + 1))


# --- What changes below a reader


async def test_rebuild_sends_a_reset_and_continues(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    line = '{"type":"user","uuid":"u%d","message":{"role":"user","content":"a"}}'
    for number in range(3):
        await append(connection, session_id, [prepare_message(session_id, line % number)])
    reader = Reader(hub, session_id)
    await reader.catches_up()
    before = reader.types
    last = reader.told[-1]

    await rebuild_events(connection, session_id)
    await post(connection, session_id, "behind")
    await reader.reaches(2 * last + 2)

    assert reader.told == list(range(1, 2 * last + 3))
    assert reader.types[last:] == ["reset", *before[:last], "summary"]


async def test_deletion_ends_subscriptions(hub: Hub, connection: AsyncConnection, session_id: UUID) -> None:
    await post(connection, session_id, "1", "2")
    reader = Reader(hub, session_id)
    await reader.catches_up()
    await delete_session(connection, session_id)
    await reader.ends()

    assert reader.told == [1, 2]


@pytest.mark.parametrize("new", ["a", "abcde", "abcdefg"])
async def test_recreation_ends_subscriptions(hub: Hub, connection: AsyncConnection, new: str) -> None:
    """Under the same id, as `import --replace` does: readers of the old one do not go on in the new one."""
    session_id = (await create_session(connection, source="a", external_id="b")).session.id
    assert session_id == session_id_for("a", "b")
    await post(connection, session_id, *"12345")
    await is_listened_to(connection)
    reader = Reader(hub, session_id)
    await reader.reaches(5)
    async with connection.transaction():
        await delete_session(connection, session_id)
        await create_session(connection, source="a", external_id="b")
        await post(connection, session_id, *new)
    await reader.ends()

    assert reader.told == [1, 2, 3, 4, 5]
    again = Reader(hub, session_id)
    await again.reaches(len(new))


async def test_stop_ends_subscriptions(hub: Hub, session_id: UUID) -> None:
    readers = [Reader(hub, session_id) for _ in range(10)]
    for reader in readers:
        await reader.catches_up()
    async with asyncio.TaskGroup() as reading:
        for reader in readers:
            reading.create_task(reader.ends())
        await asyncio.sleep(0)  # all of them wait
        hub.stop()


async def test_ended_subscriptions_are_removed(
    hub: Hub, connection: AsyncConnection, session_id: UUID
) -> None:
    await post(connection, session_id, "1")
    for _ in range(3):
        async with aclosing(hub.subscribe(session_id, 0)) as news:
            assert (await anext(news)).caught_up

    assert (hub._sessions, hub._shared) == ({}, {})


# --- A server as a process


def serve(url: str, home: Path, port: str = "0") -> Any:
    return running("serve", "--port", port, home=home, ASH_DATABASE_URL=url)


def port_of(server: Running) -> str:
    return str(urlsplit(server.address).port)


def stalled(server: Running, session_id: UUID, kind: str) -> socket.socket:
    """Asks, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", int(port_of(server))))
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    wanted = {"stream": "", "ws": upgrade + key}[kind]
    path = f"/api/sessions/{session_id}/events/{kind}"
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{wanted}\r\n".encode())
    return client


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
async def test_server_restart(
    database_url: str, connection: AsyncConnection, session_id: UUID, tmp_path: Path, by: signal.Signals
) -> None:
    """With readers, some of which read nothing."""
    await post(connection, session_id, *map(str, range(40)), text="x" * 200_000)
    with ExitStack() as lives:
        server = await asyncio.to_thread(lives.enter_context, serve(database_url, tmp_path))
        readers: list[Follower] = [kind(server.address, session_id) for kind in (Browser, Socket)]
        async with following(*readers):
            await asyncio.gather(*(reader.hears("caught_up") for reader in readers))
            slow = [stalled(server, session_id, kind) for kind in ("stream", "ws")]
            await asyncio.gather(*map(is_answered, slow))

            server.process.send_signal(by)
            code = await asyncio.to_thread(server.process.wait, 60)
            await post(connection, session_id, "meanwhile")
            server = await asyncio.to_thread(
                lives.enter_context, serve(database_url, tmp_path, port_of(server))
            )
            await post(connection, session_id, "afterwards")
            async with asyncio.timeout(20):
                await asyncio.gather(*(reader.reaches(42) for reader in readers))
            for client in slow:
                client.close()

        assert code == 0
        assert ("closed", {"sequence": 40}) in readers[0].own
        assert [reader.told for reader in readers] == [await stored(database_url, session_id)] * len(readers)


@pytest.mark.slow
async def test_database_restart(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg") as database, ExitStack() as lives:
        url = database.url()
        upgrade(url)
        async with await connect(url) as conn:
            session_id = (await create_session(conn)).session.id
            await post(conn, session_id, "1", "2")
        server = await asyncio.to_thread(lives.enter_context, serve(url, tmp_path))
        readers: list[Follower] = [kind(server.address, session_id) for kind in (Browser, Socket)]
        async with following(*readers):
            for round in range(2):
                await asyncio.gather(*(reader.hears("caught_up") for reader in readers))
                postmaster = int((tmp_path / "pg" / "postmaster.pid").read_text().split()[0])
                os.kill(postmaster, [signal.SIGKILL, signal.SIGINT][round])
                await ends(postmaster)
                await asyncio.to_thread(database.start)
                async with await connect(url) as conn:
                    await post(conn, session_id, f"after {round}")
                async with asyncio.timeout(30):
                    await asyncio.gather(*(reader.reaches(3 + round) for reader in readers))
        whole = await stored(url, session_id)

    assert [reader.told for reader in readers] == [whole, whole]
    assert [reader.connections for reader in readers] == [1, 1]


async def is_answered(client: socket.socket) -> None:
    """The first bytes of the answer have come; they are not read."""
    await until(lambda: select.select([client], [], [], 0)[0])


async def ends(pid: int) -> None:
    """Return when the process is gone, or left only for its parent to collect."""
    with suppress(psutil.NoSuchProcess):
        await until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def resident(process: subprocess.Popen[str]) -> float:
    return psutil.Process(process.pid).memory_info().rss / 2**20


@pytest.mark.slow
async def test_stalled_readers_are_disconnected(
    database_url: str, connection: AsyncConnection, session_id: UUID, tmp_path: Path
) -> None:
    await post(connection, session_id, *map(str, range(60)), text="x" * 150_000)
    with ExitStack() as lives:
        server = await asyncio.to_thread(lives.enter_context, serve(database_url, tmp_path))
        reader = Browser(server.address, session_id)
        async with following(reader):
            await reader.hears("caught_up")
        before = resident(server.process)
        slow = [stalled(server, session_id, kind) for kind in ("stream", "ws") * (STALLED // 2)]
        await asyncio.gather(*map(is_answered, slow))
        await nobody_is_busy(connection)
        grown = resident(server.process) - before
        await are_hung_up_on(server.process)
        for client in slow:
            client.close()

    assert grown < 64


async def are_hung_up_on(process: subprocess.Popen[str]) -> None:
    await until(lambda: not psutil.Process(process.pid).net_connections("tcp")[1:])


async def nobody_is_busy(conn: AsyncConnection) -> None:
    """The server looks now and then, but holds no connection for those who read nothing."""

    async def is_idle() -> bool:
        return await busy_connections(conn) == 0

    await until(is_idle)


async def busy_connections(conn: AsyncConnection) -> int:
    """Those that are at work or in a transaction, but for this one."""
    found = await conn.execute(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"
    )
    row = await found.fetchone()
    return row[0] if row else 0
