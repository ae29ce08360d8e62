"""PgBouncer in transaction mode: no tenant, setting or statement of a client reaches another one."""

import asyncio
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import NotSupportedError, errors
from psycopg.conninfo import conninfo_to_dict

from ash_server.app import create_app
from ash_server.errors import DatabaseUnavailable, SessionNotFound
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.connections.pool import PooledUrl, StatementOptions, connect, direct_url, open_pool
from ash_server.store.connections.tenants import APP_ROLE, DEFAULT, Tenant, get_or_create_tenant, role_of
from ash_server.store.log import subscriptions as live
from ash_server.store.schema.tables import metadata
from ash_server.transfer.exporting.jsonl import export_messages
from tests.cluster import COUNT_LOCK_WAITS, on_citus
from tests.conftest import at_database
from tests.pooler import ABSENT, PATH, haproxy, has_pgbouncer, pgbouncer
from tests.server.app_client import app_client
from tests.shared.records import claude
from tests.tenant_statements import OWNED_BY_SERVER
from tests.waiting import TIMEOUT, until

ROOT = Path(__file__).parents[4]

_ROLE = role_of(DEFAULT.number) if on_citus() else APP_ROLE

_SETTINGS = """
    SELECT current_user, coalesce(current_setting('ash.tenant', true), ''), current_setting('TimeZone'),
        current_setting('random_page_cost'), current_setting('jit'), current_setting('lock_timeout'),
        current_setting('statement_timeout')
"""


@pytest.fixture(scope="module", params=["transaction"])
def pooler(request: pytest.FixtureRequest, server_url: str) -> Iterator[str]:
    """The URL of PgBouncer, which opens two connections to each database."""
    if not has_pgbouncer():
        pytest.skip(ABSENT)
    with pgbouncer(direct_url(server_url), mode=request.param, size=2) as url:
        yield url


@pytest.fixture
def direct(database_url: str) -> str:
    """The address of the database without a pooler."""
    return direct_url(database_url)


@pytest.fixture
def pooled(pooler: str, direct: str) -> PooledUrl:
    return PooledUrl(at_database(pooler, str(conninfo_to_dict(direct)["dbname"])), _as_url(direct))


@pytest.fixture
async def red(direct: str) -> Tenant:
    async with await connect(direct) as owner:
        return await get_or_create_tenant(owner, "red")


@pytest.fixture
async def pooled_store(pooled: PooledUrl) -> AsyncIterator[Store]:
    async with Store.open(pooled) as store:
        yield store


def _as_url(conninfo: str) -> str:
    """Return an address without the name of the database."""
    parts = conninfo_to_dict(conninfo)
    return "postgresql:///?" + "&".join(
        f"{name}={value}" for name, value in parts.items() if name != "dbname"
    )


def line(word: str, number: int) -> str:
    return json.dumps(claude.line("user", word, uuid=f"{word}-{number}"))


def text_of(line: str | bytes) -> str:
    return str(json.loads(line)["message"]["content"])


# --- Tenants


async def test_tenants_that_share_connections_see_their_own_rows(pooled_store: Store, red: Tenant) -> None:
    """Twelve clients of two tenants at once, on two connections of PostgreSQL."""
    stores = {tenant.name: pooled_store.for_tenant(tenant) for tenant in (DEFAULT, red)}
    seen: dict[str, set[tuple[str, ...]]] = {name: set() for name in stores}

    async def use(store: Store, client: int) -> None:
        word, add = store.tenant.name, seen[store.tenant.name].add
        session = await store.sessions.create(source="claude", external_id=f"run-{client}")
        for number in range(5):
            await store.messages.append(session.id, [line(word, client * 10 + number)])
            page = await store.messages.list_messages(session.id, after=0, limit=100)
            add(("page", *map(text_of, (message.content for message in page))))
        for searched in stores:
            results = (await store.search.search(searched, limit=100)).results
            add(("search", searched, *{result.snippet for result in results}))
        exported = b"".join([part async for part in export_messages(store, session.id)])
        add(("export", *map(text_of, exported.splitlines())))
        events = await store.events.get_stored_events(session.id, after=0)
        add(("events", *{str(json.loads(each.content)["sessionId"] == str(session.id)) for each in events}))
        if client % 2:
            await store.sessions.delete(session.id)

    await asyncio.gather(*(use(store, client) for client in range(6) for store in stores.values()))
    listed = {
        name: {each.external_id async for each in store.sessions.list_all()} for name, store in stores.items()
    }

    assert seen == {
        name: {
            *(("page", *[name] * count) for count in range(1, 6)),
            ("search", name, name),
            ("search", "red" if name == "default" else "default"),
            ("export", *[name] * 5),
            ("events", "True"),
        }
        for name in stores
    }
    assert listed == {name: {"run-0", "run-2", "run-4"} for name in stores}


async def test_other_tenant_reads_and_changes_nothing(pooled: PooledUrl, store: Store, red: Tenant) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, [line("a", 1)])
    tables = sorted(metadata.tables.keys() - OWNED_BY_SERVER)
    rows: dict[str, list[int]] = {}
    async with open_pool(pooled, max_size=1) as pool:
        for tenant in (DEFAULT, red, DEFAULT):
            async with pool.connection(tenant=tenant) as conn:
                counts = [
                    await (await conn.execute(f"SELECT count(*) FROM {table}")).fetchone() for table in tables
                ]
                rows[tenant.name] = [count[0] for count in counts if count]
        async with pool.connection(tenant=red) as conn:
            deleted = [(await conn.execute(f"DELETE FROM {table}")).rowcount for table in tables]

    assert sum(rows["default"]) > 3
    assert set(rows["red"]) == set(deleted) == {0}


async def test_statement_without_tenant_fails_after_a_client_with_one(
    pooled: PooledUrl, store: Store
) -> None:
    """PostgreSQL then has the empty text as the tenant of the connection."""
    await store.sessions.create()
    async with open_pool(pooled) as pool, pool.connection() as conn:
        await conn.execute("SELECT FROM sessions")
    with psycopg.connect(str(pooled), autocommit=True) as other, other.transaction():
        other.execute(f"SET LOCAL ROLE {APP_ROLE}")
        with pytest.raises((errors.InvalidTextRepresentation, errors.UndefinedObject)):
            other.execute("SELECT FROM sessions").fetchall()


# --- Connections


async def test_settings_apply_to_each_statement_and_not_to_other_clients(
    pooled: PooledUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(str(pooled)) as plain:
        before = plain.execute(_SETTINGS).fetchone()
    seen = {}
    async with (
        open_pool(pooled, statements=StatementOptions(timeout=30)) as pool,
        open_pool(pooled, as_owner=True, lock_timeout=None) as owner,
        pool.connection() as conn,
        owner.connection() as other,
    ):
        seen["alone"] = await (await conn.execute(_SETTINGS)).fetchone()
        async with conn.transaction():
            await conn.execute("SELECT")
            seen["transaction"] = await (await conn.execute(_SETTINGS)).fetchone()
            async with conn.pipeline(), conn.cursor() as cursor:
                await cursor.execute(_SETTINGS)
                seen["pipeline in transaction"] = await cursor.fetchone()
        async with conn.pipeline(), conn.cursor() as cursor:
            await cursor.execute("SELECT")
            await cursor.execute(_SETTINGS)
            seen["pipeline"] = await cursor.fetchone()
        seen["owner"] = await (await other.execute(_SETTINGS)).fetchone()
        thresholds = [conn.prepare_threshold, other.prepare_threshold]
    with psycopg.connect(str(pooled)) as plain:
        after = [plain.execute(_SETTINGS).fetchone() for _ in range(3)]

    expected = (_ROLE, "1", "UTC", "1", "off", "4s", "30s")
    assert before
    assert seen == {
        **dict.fromkeys(("alone", "transaction", "pipeline in transaction", "pipeline"), expected),
        "owner": (before[0], "", "UTC", "1", "off", "0", "0"),
    }
    assert after == [before] * 3
    assert thresholds == [None, None]


@pytest.mark.parametrize("pooler", ["session"], indirect=True)
async def test_statements_that_an_error_skipped_are_prepared_again(pooled: PooledUrl) -> None:
    options = StatementOptions(prepare_threshold=1)
    async with open_pool(pooled, statements=options) as pool, pool.connection() as conn:

        async def divide(divisor: int) -> object:
            async with conn.pipeline():
                await conn.execute("SELECT 1 / %s", [divisor])
                cursor = await conn.execute("SELECT 2 * %s", [divisor])
            return await cursor.fetchone()

        assert await divide(1) == (2,)
        with pytest.raises(errors.DivisionByZero):
            await divide(0)
        assert [await divide(1) for _ in range(3)] == [(2,)] * 3


async def test_pipeline_within_a_pipeline_is_refused(pooled: PooledUrl) -> None:
    """It would end the transaction, and with it the tenant."""
    async with open_pool(pooled) as pool, pool.connection() as conn, conn.pipeline():
        for context in (conn.pipeline(), conn.transaction()):
            with pytest.raises(NotSupportedError):
                async with context:
                    pass


async def test_copy_and_stream_need_a_transaction(pooled: PooledUrl) -> None:
    """Outside a pipeline they would have no tenant."""
    async with open_pool(pooled) as pool, pool.connection() as conn, conn.cursor() as cursor:
        with pytest.raises(NotSupportedError):
            cursor.copy("COPY sessions TO STDOUT")
        with pytest.raises(NotSupportedError):
            cursor.stream("SELECT id FROM sessions")
        async with conn.transaction(), cursor.copy("COPY (SELECT current_setting('role')) TO STDOUT") as rows:
            assert [row async for row in rows.rows()] == [(_ROLE,)]


async def test_statement_timeout(pooled: PooledUrl, direct: str) -> None:
    with psycopg.connect(direct) as other:
        other.execute("LOCK TABLE sessions")
        async with Store.connect(pooled, None, statements=StatementOptions(timeout=1)) as store:
            with pytest.raises(DatabaseUnavailable, match="longer than ASH_STATEMENT_TIMEOUT allows"):
                await store.sessions.create()


async def test_cancelled_append_stores_nothing(pooled_store: Store, direct: str) -> None:
    session = await pooled_store.sessions.create()
    with psycopg.connect(direct) as other:
        other.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session.id])
        append = asyncio.create_task(pooled_store.messages.append(session.id, [line("a", 1)]))
        with psycopg.connect(direct, autocommit=True) as watcher:
            await until(lambda: (watcher.execute(COUNT_LOCK_WAITS).fetchone() or [0])[0])
        append.cancel()
        await asyncio.wait([append])
    appended = await pooled_store.messages.append(session.id, [line("b", 2)])

    assert append.cancelled()
    assert [each.sequence for each in appended] == [1]


async def test_works_without_a_pooler(direct: str, red: Tenant) -> None:
    async with Store.open(PooledUrl(direct, _as_url(direct))) as store:
        session = await store.sessions.create()
        await store.messages.append(session.id, [line("a", 1)])

        with pytest.raises(SessionNotFound):
            await store.for_tenant(red).sessions.get(session.id)


async def test_server_reads_and_writes_through_the_pooler(pooled: PooledUrl) -> None:
    app = create_app(Settings(), database_url=pooled)
    async with app_client(app) as client:
        session = (await client.post("/api/sessions", json={})).json()["id"]
        await client.post(f"/api/sessions/{session}/messages", json=[{"content": line("a", 1)}])
        page = await client.get(f"/api/sessions/{session}/messages")
        health = await client.get("/health/ready")

    assert [message["sequence"] for message in page.json()["messages"]] == [1]
    assert health.status_code == 200


@pytest.mark.skipif(not shutil.which("haproxy", path=PATH), reason="no HAProxy (Debian: apt install haproxy)")
async def test_proxy_of_connections_is_no_pooler(direct: str) -> None:
    with haproxy(direct) as url:
        async with Store.open(at_database(url, str(conninfo_to_dict(direct)["dbname"]))) as store:
            session = await store.sessions.create()
            await store.messages.append(session.id, [line("a", 1)])

            assert len(await store.messages.list_messages(session.id)) == 1


# --- The direct address


@pytest.mark.parametrize(
    "commands",
    [
        "ash db upgrade",
        "ash db vacuum",
        pytest.param("ash db vacuum --online", marks=pytest.mark.slow),
        pytest.param("ash db compression", marks=pytest.mark.slow),
        pytest.param("ash db distribute --dry-run", marks=pytest.mark.slow),
        pytest.param("ash doctor", marks=pytest.mark.slow),
        "ash backup ash.backup && ash restore ash.backup",
        "alembic upgrade head",
    ],
)
def test_commands_that_need_a_session_use_no_pooler(direct: str, tmp_path: Path, commands: str) -> None:
    """The pooler does not answer here. The commands run in other processes, since tests connect directly in theirs."""
    name = conninfo_to_dict(direct)["dbname"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ASH_DATABASE_URL": f"postgresql:///{name}?host={tmp_path}",
        "ASH_DIRECT_URL": _as_url(direct),
    }
    for command in commands.split(" && "):
        program, *arguments = command.split()
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *arguments],
            cwd=ROOT if program == "alembic" else tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.stderr == ""


async def test_notifications_pass_the_pooler(
    pooled: PooledUrl, pooled_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only notifications wake subscribers here."""
    monkeypatch.setattr(live, "POLL_SECONDS", 3600.0)
    session = await pooled_store.sessions.create()
    async with Store.open(pooled) as other:
        types: list[str] = []

        async def read() -> None:
            async for event in other.events.subscribe(session.id, after=0):
                types.append(event.type)
                if event.type == "turn_start":
                    return

        reader = asyncio.create_task(read())
        for number in range(3):
            await pooled_store.messages.append(session.id, [line("a", number)])
        await asyncio.wait_for(reader, TIMEOUT)

    assert "turn_start" in types


async def test_poolers_without_setting_are_refused(pooled: PooledUrl) -> None:
    async with open_pool(str(pooled)) as pool:
        with pytest.raises(DatabaseUnavailable, match="set ASH_DIRECT_URL"):
            async with pool.connection():
                pass
    with pytest.raises(DatabaseUnavailable, match="set ASH_DIRECT_URL"):
        await connect(str(pooled))


async def test_direct_address_of_a_pooler_in_transaction_mode_is_refused(pooled: PooledUrl) -> None:
    with pytest.raises(DatabaseUnavailable, match="notifications do not arrive"):
        await connect(PooledUrl(pooled, str(pooled)))


@pytest.mark.parametrize("pooler", ["session"], indirect=True)
async def test_direct_address_may_be_a_pooler_in_session_mode(pooled: PooledUrl, direct: str) -> None:
    async with await connect(PooledUrl(direct, str(pooled))) as conn:
        await conn.execute("LISTEN ash_events")
        channels = await (await conn.execute("SELECT pg_listening_channels()")).fetchall()

    assert channels == [("ash_events",)]


@pytest.mark.parametrize(
    ("url", "direct", "expected"),
    [
        (
            "postgresql://ada:pw@pooler:6432/ash?sslmode=require",
            "postgresql://db",
            {"user": "ada", "password": "pw", "dbname": "ash", "sslmode": "require", "host": "db"},
        ),
        (
            "postgresql+psycopg://ada:pw@pooler:6432/ash",
            "postgresql://admin@db:5433/other",
            {"user": "admin", "password": "pw", "dbname": "other", "host": "db", "port": "5433"},
        ),
    ],
)
def test_direct_address_inherits_the_rest(url: str, direct: str, expected: dict[str, str]) -> None:
    pooled = pickle.loads(pickle.dumps(PooledUrl(url, direct)))  # as between processes

    assert (str(pooled), conninfo_to_dict(direct_url(pooled))) == (url, expected)
