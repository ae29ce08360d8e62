"""A primary that does not answer although its connections stay open: requests get 503, and recover when it answers."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx2
import psycopg
import pytest

from ash_server.app import create_app
from ash_server.errors import WriteUnconfirmed
from ash_server.live.heartbeat import SILENCE_SECONDS, Heartbeat
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.connections.pool import PooledUrl
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.prepare import NewMessage
from ash_server.store.schema.migrations import upgrade
from tests.conftest import memory_folder
from tests.frozen import frozen
from tests.pooler import ABSENT, has_pgbouncer, pgbouncer
from tests.server.api.conftest import served
from tests.server.cli.test_cli_serve import running
from tests.server.subscribers import SseSubscriber, WebSocketSubscriber, stored_events
from tests.server.subscribers import running as running_subscribers
from tests.waiting import TIMEOUT, until

UNAVAILABLE, UNCONFIRMED = (503, "database_unavailable"), (503, "write_unconfirmed")


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A separate server below the ASH_HOME of a command."""
    with (
        tempfile.TemporaryDirectory(prefix="ash-tests-", dir=memory_folder()) as folder,
        EmbeddedPostgres(Path(folder, "postgres"), durable=False) as server,
    ):
        server.ensure_database("ash")
        upgrade(server.url("ash"))
        yield server


def problem(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.slow
async def test_requests_end_while_the_database_is_frozen(postgres: EmbeddedPostgres) -> None:
    """Requests sent before the server notices also end. A write can be repeated with its id, and streams continue."""
    app = create_app(Settings(), database_url=postgres.url("ash"))
    with served(app) as address:
        async with httpx2.AsyncClient(base_url=address) as client:
            id = UUID((await client.post("/api/sessions", json={})).json()["id"])
            messages = f"/api/sessions/{id}/messages"
            followers = [SseSubscriber(address, id), WebSocketSubscriber(address, id)]
            async with running_subscribers(*followers):
                await client.post(messages, json=[{"id": "a", "content": "before"}])
                await asyncio.gather(*(each.wait_for_event("caught_up") for each in followers))
                write = {"id": "b", "content": "meanwhile"}
                pools = app.state.store._connections.pools
                with frozen(postgres):
                    for pool in pools:  # waiting for a connection always ends after this time
                        pool.timeout = 1.0
                    answers = await asyncio.gather(
                        client.post(messages, json=[write]),
                        client.get("/health/ready"),
                        *(client.get("/api/sessions") for _ in range(15)),
                    )
                    later = await client.get(messages)
                for pool in pools:
                    pool.timeout = TIMEOUT
                repeated = await client.post(messages, json=[write])
                page = (await client.get(messages)).json()["messages"]
                ready = await client.get("/health/ready")
                expected = await stored_events(postgres.url("ash"), id)
                await asyncio.gather(*(each.wait_for_sequence(expected[-1][0]) for each in followers))

    write_answer, *others = map(problem, answers)
    assert write_answer in (UNAVAILABLE, UNCONFIRMED)  # it may have waited for a connection
    assert others == [UNAVAILABLE] * 16
    assert problem(later) == UNAVAILABLE
    assert (repeated.is_success, ready.status_code) == (True, 200)
    assert [(each["id"], each["content"]) for each in page] == [("a", "before"), ("b", "meanwhile")]
    assert [each.events for each in followers] == [expected] * 2


@pytest.mark.slow
@pytest.mark.skipif(not has_pgbouncer(), reason=ABSENT)
async def test_write_behind_a_pooler_ends_unconfirmed(postgres: EmbeddedPostgres) -> None:
    """The pooler answers, but PostgreSQL does not. Repeating the write stores it once."""
    with pgbouncer(postgres.url("ash")) as pooled:
        url = PooledUrl(pooled, postgres.url("ash"))
        async with Store.open(url) as store, Heartbeat(store):
            session = await store.sessions.create()
            write = NewMessage(id="one", content="a")
            await store.messages.append(session.id, [NewMessage(content="before")])
            await until(lambda: is_idle(store))
            with frozen(postgres), pytest.raises(WriteUnconfirmed, match="repeated with the same ids"):
                await store.messages.append(session.id, [write])
            for pool in store._connections.pools:
                pool.timeout = TIMEOUT
            await store.messages.append(session.id, [write])
            stored = await store.messages.list_messages(session.id)

    assert [each.content for each in stored] == ["before", "a"]


def is_idle(store: Store) -> bool:
    """True if the notification of the last write was sent, so that the next write need not wait for a connection."""
    return not store.hub._has_unsent.is_set() and not store.count_connections()["used"]


@pytest.mark.slow
async def test_workers_with_the_embedded_database(postgres: EmbeddedPostgres) -> None:
    home = postgres._data.parent
    with running("serve", "--port", "0", "--workers", "2", home=home) as server:
        async with httpx2.AsyncClient(base_url=server.address) as client:
            with frozen(postgres):
                answers = await asyncio.gather(*(client.get("/health/ready") for _ in range(8)))
            await until(lambda: _is_ready(client))

    assert [problem(each) for each in answers] == [UNAVAILABLE] * 8


async def _is_ready(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/health/ready")).is_success


_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.mark.slow
async def test_slow_statement_is_not_ended(postgres: EmbeddedPostgres) -> None:
    url = postgres.url("ash")
    async with (
        Store.open(url, lock_timeout=None) as store,
        Heartbeat(store, reads_state=True) as heartbeat,
    ):
        session = await store.sessions.create()
        with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watcher:
            other.execute("LOCK TABLE sessions")
            read = asyncio.create_task(store.sessions.get(session.id))
            await until(lambda: watcher.execute(_WAITING).fetchone() == (1,))
            since = heartbeat.state_time
            await until(lambda: heartbeat.state_time > since + SILENCE_SECONDS + 1)
            is_waiting = not read.done()
        result = await read

    assert (is_waiting, result.id) == (True, session.id)
