"""Subscribers receive every event exactly once while connections, the listener and the server are killed.

ASH_CHAOS_EVENTS sets the length of a run, ASH_CHAOS_SEED replays one: a failure prints its seed.
"""

import asyncio
import gc
import os
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest

from ash_server.db.connection import connect
from ash_server.db.events import append_events
from ash_server.db.notify import notify
from ash_server.db.sessions import create_session
from tests.server.cli.test_cli_serve import Running, running
from tests.server.subscribers import SseSubscriber, Subscriber, WebSocketSubscriber, stored_events
from tests.server.subscribers import running as running_subscribers

EVENTS = int(os.environ.get("ASH_CHAOS_EVENTS", "5000"))
SUBSCRIBERS = 12
RECONNECTS = EVENTS // 50
LISTENER_KILLS = 10
SERVER_KILLS = 2

KILL_LISTENER = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND query LIKE 'LISTEN%'
"""


class Chaos:
    """One run: writers and the failures during it."""

    def __init__(self, url: str, session_id: UUID, other_id: UUID, seed: int) -> None:
        self.url, self.session_id, self.other_id = url, session_id, other_id
        self.random = random.Random(seed)
        self.server: Running | None = None
        self.written = 0
        self.listener_kills = 0

    def batch(self) -> list[dict[str, object]]:
        """Return the next chunks and complete texts, with ids, so that the request can be retried."""
        size = min(self.random.choice([1, 1, 2, 5, 40]), EVENTS - self.written)
        numbers = range(self.written, self.written + size)
        self.written += size
        return [
            {
                "id": f"event-{number}",
                "timestamp": 1,
                "sessionId": str(self.session_id),
                "type": "assistant_done" if number % 7 == 0 else "assistant_chunk",
                "turnId": "t",
                "responseId": "r",
                "payload": {"text": "x" * self.random.choice([3, 30, 3000])},
            }
            for number in numbers
        ]

    async def write_to_server(self) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            while self.written < EVENTS:
                await self._post(client, self.batch())
                await asyncio.sleep(self.random.uniform(0, 0.06))

    async def _post(self, client: httpx.AsyncClient, batch: list[dict[str, object]]) -> None:
        while True:
            try:
                assert self.server
                url = f"{self.server.address}/api/sessions/{self.session_id}/events"
                response = await client.post(url, json=batch)
                if response.is_success:
                    return
            except httpx.HTTPError:
                await asyncio.sleep(0.05)

    async def write_to_database(self) -> None:
        """Write like another process; every fifth notification is lost."""
        async with await connect(self.url) as conn:
            while self.written < EVENTS:
                await append_events(conn, self.session_id, self.batch())
                if self.random.random() < 0.8:
                    await notify(conn, [self.session_id])
                await asyncio.sleep(self.random.uniform(0, 0.06))

    async def hold_locks(self) -> None:
        """Lock another session permanently, and this one now and then."""
        lock = "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE"
        async with await connect(self.url) as other, other.transaction():
            await other.execute(lock, [self.other_id])
            await append_events(other, self.other_id, [_event("other")])
            async with await connect(self.url) as conn:
                while self.written < EVENTS:
                    async with conn.transaction():
                        await conn.execute(lock, [self.session_id])
                        await asyncio.sleep(self.random.uniform(0, 0.2))
                    await asyncio.sleep(self.random.uniform(0, 0.5))

    async def kill_listeners(self) -> None:
        async with await connect(self.url) as conn:
            while self.listener_kills < LISTENER_KILLS:
                killed = await (await conn.execute(KILL_LISTENER)).fetchone()
                self.listener_kills += killed[0] if killed else 0
                await asyncio.sleep(self.random.uniform(0.1, 0.4))

    async def kill_servers(self, servers: ExitStack, home: Path) -> None:
        assert self.server
        port = str(urlsplit(self.server.address).port)
        for kill in range(1, SERVER_KILLS + 1):
            while self.written < EVENTS * kill / (SERVER_KILLS + 1):  # noqa: ASYNC110  # polls a counter
                await asyncio.sleep(0.01)
            self.server.process.kill()
            self.server.process.wait()
            await self.start(servers, home, port)

    async def start(self, servers: ExitStack, home: Path, port: str = "0") -> None:
        serve = running("serve", "--port", port, home=home, ASH_DATABASE_URL=self.url)
        self.server = await asyncio.to_thread(servers.enter_context, serve)

    async def drop_connections(self, subscribers: list[Subscriber]) -> None:
        while sum(each.connections for each in subscribers) < RECONNECTS + SUBSCRIBERS:
            self.random.choice(subscribers).drop()
            await asyncio.sleep(self.random.uniform(0, 0.1))


def _event(id: str) -> dict[str, object]:
    return {"id": id, "timestamp": 1, "sessionId": "", "type": "summary", "payload": {"text": "a"}}


@pytest.fixture
def seed() -> int:
    """The seed of the run, printed with a failure; ASH_CHAOS_SEED replays it."""
    seed = int(os.environ.get("ASH_CHAOS_SEED", time.time_ns() % 10**6))
    sys.stdout.write(f"replay with ASH_CHAOS_SEED={seed}\n")
    return seed


@pytest.mark.slow
# The client libraries leave a socket open if the server dies or they are cancelled while connecting.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_every_subscriber_gets_every_event_once_in_order(
    database_url: str, tmp_path: Path, seed: int
) -> None:
    async with await connect(database_url) as conn:
        session_id, other_id = [(await create_session(conn)).session.id for _ in range(2)]
    chaos = Chaos(database_url, session_id, other_id, seed)
    with ExitStack() as servers:
        await chaos.start(servers, tmp_path)
        assert chaos.server
        kinds = [SseSubscriber, WebSocketSubscriber] * (SUBSCRIBERS // 2)
        subscribers = [kind(chaos.server.address, session_id) for kind in kinds]
        async with running_subscribers(*subscribers), asyncio.timeout(60 + EVENTS / 100):
            async with asyncio.TaskGroup() as work:
                for write in (chaos.write_to_server, chaos.write_to_server, chaos.write_to_database):
                    work.create_task(write())
                work.create_task(chaos.hold_locks())
                work.create_task(chaos.kill_listeners())
                work.create_task(chaos.kill_servers(servers, tmp_path))
                work.create_task(chaos.drop_connections(subscribers))
            await asyncio.gather(*(each.wait_for_sequence(EVENTS) for each in subscribers))

    expected = await stored_events(database_url, session_id)
    assert [sequence for sequence, _ in expected] == list(range(1, EVENTS + 1))
    assert {id for _, id in expected} == {f"event-{number}" for number in range(EVENTS)}
    assert [each.events for each in subscribers] == [expected] * SUBSCRIBERS
    gc.collect()
