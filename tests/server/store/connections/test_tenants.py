"""A tenant sees and changes only its own rows, whatever a statement asks for."""

import ast
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, errors

from ash_server.errors import InvalidParameter
from ash_server.store import Store, session_rows, transcripts
from ash_server.store.access import keys
from ash_server.store.access.keys import NewKey
from ash_server.store.connections.pool import Pool, connect, direct_url, open_pool
from ash_server.store.connections.tenants import APP_ROLE, DEFAULT, Tenant, get_or_create_tenant, role_of
from ash_server.store.lists.session_lists import _statement
from ash_server.store.log.kept_states import INTERVAL
from ash_server.store.schema.tables import metadata
from ash_server.store.search import newest
from ash_server.store.search.newest import NEWEST
from ash_server.store.search.query import CONDITIONS, SQL, SearchScope
from ash_server.transfer.importing.file_import import import_file
from tests.cluster import not_on_cluster, on_citus
from tests.tenant_statements import OWNED_BY_SERVER, VIEWS, is_on_sessions

ROOT = Path(__file__).parents[4]
SAMPLE = ROOT / "ash_server" / "samples" / "bird-counter.jsonl"

OPENS_CONNECTIONS = {
    "ash_server/cli/backup.py": {"connect_command"},  # all tenants
    "ash_server/cli/db.py": {"connect_command"},  # maintenance of whole tables
    "ash_server/cli/doctor.py": {"connect_command"},  # only reads figures
    "ash_server/cli/self_.py": {"connect_command"},  # only reads the version of the schema
    "ash_server/store/maintenance/backup.py": {"connect_command"},  # all tenants
    "ash_server/store/connections/pool.py": {"psycopg.connect", "Connection.connect"},
    "ash_server/store/schema/migrations.py": {"connect_command"},  # creates tables and roles
    "ash_server/store/maintenance/doctor.py": {"connect_command"},  # reads the state of the replica
    "ash_server/store/embedded/open.py": {"connect"},  # checks the schema
    "ash_server/store/embedded/server.py": {"psycopg.connect"},  # creates the database
    "ash_server/live/heartbeat.py": {"connect_directly"},  # checks that the database answers
    "ash_server/store/log/subscriptions.py": {"connect"},  # listens
    "ash_server/store/store.py": {"open_pool", "connect"},  # the pools; checks the schema
}

_POLICIES = """
    SELECT relname, relrowsecurity, array_agg(pg_get_expr(polqual, polrelid)), array_agg(polwithcheck IS NULL),
        array_agg(polcmd::text), array_agg(polroles::regrole[]::text)
    FROM pg_class LEFT JOIN pg_policy ON polrelid = pg_class.oid
    WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
    GROUP BY relname, relrowsecurity
"""
_VIEWS = """
    SELECT relname, coalesce('security_invoker=true' = ANY(reloptions), false), pg_get_viewdef(oid)
    FROM pg_class WHERE relkind IN ('v', 'm') AND relnamespace = 'public'::regnamespace
"""
_CONDITION = "(tenant = ( SELECT (current_setting('ash.tenant'::text))::integer AS current_setting))"


@pytest.fixture
async def other(database_url: str) -> Tenant:
    async with await connect(database_url) as owner:
        return await get_or_create_tenant(owner, "red")


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """One connection, so that each use follows one for another tenant."""
    async with open_pool(database_url, max_size=1) as pool:
        yield pool


async def fill(store: Store) -> UUID:
    """Store rows in every table of the tenant and return the id of the session."""
    imported = await import_file(store, SAMPLE, "bird-counter")
    await store.messages.append(imported.session_id, ['{"type": "holo"}'] * INTERVAL)
    chunk = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a" * 70_000}}
    stream = [{"type": "message_start", "message": {"id": "m", "role": "assistant"}}, chunk, delta, delta]
    lines = [json.dumps({"type": "stream_event", "event": each}) for each in stream]
    await store.messages.append(imported.session_id, [*lines, '{"type": "holo", "message": 1}'])
    await store.search.index_pending()
    await store.sessions.update_labels(imported.session_id, starred=True)
    cold = await store.sessions.create(source="claude")
    await store.messages.append(cold.id, ["cold"])
    assert await store.cold.archive(cold.id, datetime.now(UTC) + timedelta(days=1))
    return imported.session_id


# --- Every table and every way to a connection, so that new statements need no condition


@not_on_cluster("its policies have a condition that workers can push down")
async def test_every_table_of_sessions_has_policy(connection: AsyncConnection) -> None:
    rows = await (await connection.execute(_POLICIES)).fetchall()
    policies = {name: tuple(rest) for name, *rest in rows}

    assert policies.keys() >= OWNED_BY_SERVER
    assert {name: rest for name, rest in policies.items() if name not in OWNED_BY_SERVER} == {
        name: (True, [_CONDITION], [True], ["*"], [f"{{{APP_ROLE}}}"])
        for name in metadata.tables.keys() - OWNED_BY_SERVER
    }


@not_on_cluster("Citus adds views")
async def test_views_show_one_tenant(connection: AsyncConnection) -> None:
    views = await (await connection.execute(_VIEWS)).fetchall()

    assert {name for name, *_ in views} == VIEWS
    assert [
        name
        for name, is_invoker, query in views
        if not is_invoker and _CONDITION not in " ".join(query.split())
    ] == []


async def test_role_reads_only_version_of_other_tables(pool: Pool) -> None:
    readable = set()
    for table in OWNED_BY_SERVER:
        async with pool.connection() as conn:
            with suppress(errors.InsufficientPrivilege):
                await conn.execute(f"SELECT FROM {table}")
                readable.add(table)

    assert readable == {"alembic_version"}


@pytest.mark.slow
def test_only_listed_modules_open_connections() -> None:
    opening = {
        str(path.relative_to(ROOT)): openers
        for path in (ROOT / "ash_server").rglob("*.py")
        if (openers := openers_of(path.read_text()))
    }

    assert opening == OPENS_CONNECTIONS


LENDS_OWNERS = {
    "ash_server/store/access/keys.py",
    "ash_server/store/access/shares.py",
    "ash_server/store/maintenance/statistics.py",  # figures of all tenants
    "ash_server/store/usage/budgets.py",
    "ash_server/store/retention/policies.py",
    "ash_server/store/cold/policies.py",
    "ash_server/store/store.py",  # tenants, and the version of the schema
}


def test_statements_of_owners_are_not_on_sessions() -> None:
    lending = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "ash_server").rglob("*.py")
        if re.search(r"\.owner\(\)|= administer\(", path.read_text())
    }
    texts = [
        ast.unparse(node)
        for name in (*LENDS_OWNERS, "ash_server/store/connections/tenants.py")
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    ]
    texts += [keys.SQL[name] for name in keys.SQL]

    assert lending == LENDS_OWNERS
    assert [text for text in texts if is_on_sessions(text)] == []


async def test_statements_without_tenant_fail_in_tests(database_url: str) -> None:
    """So each statement that a test executes is checked."""
    async with open_pool(database_url, as_owner=True) as owner, owner.connection() as conn:
        await conn.execute("SELECT FROM keys")
        for statement in (
            session_rows.SQL.get_session,
            transcripts.SQL.find_candidate,
            "DELETE FROM messages",
            "INSERT INTO events VALUES (1)",
        ):
            with pytest.raises(AssertionError, match="without a tenant"):
                await conn.execute(statement.encode())


async def test_functions_have_rights_of_their_caller(connection: AsyncConnection) -> None:
    definers = "SELECT proname FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace"

    assert await (await connection.execute(definers)).fetchall() == []


def openers_of(source: str) -> set[str]:
    """Return the functions that open connections and that a module calls or imports."""
    nodes = list(ast.walk(ast.parse(source)))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    imported = {
        name.name
        for each in imports
        if each.module == "ash_server.store.connections.pool"
        for name in each.names
    }
    opening = {name for name in called if name == "psycopg.connect" or name.endswith("Connection.connect")}
    return opening | imported & {"open_pool", "connect", "connect_directly", "connect_command"}


# --- Rows


@pytest.mark.slow
async def test_other_tenant_has_no_rows(store: Store, pool: Pool, other: Tenant) -> None:
    session_id = await fill(store)
    await store.keys.create(DEFAULT.name, NewKey("laptop", "ash_000000", bytes(32), ("read",), None))
    tables = sorted(metadata.tables.keys() - OWNED_BY_SERVER)
    counts: dict[str, dict[str, Any]] = {}
    for tenant in (DEFAULT, other, DEFAULT):
        async with pool.connection(tenant=tenant) as conn:
            counts[tenant.name] = {
                table: (await (await conn.execute(f"SELECT count(*) > 0 FROM {table}")).fetchall())[0][0]
                for table in (*tables, *VIEWS)
            }
    async with pool.connection(tenant=other) as conn:
        changed = {
            statement: (await conn.execute(statement)).rowcount
            for table in tables
            for statement in (f"UPDATE {table} SET tenant = {other.number}", f"DELETE FROM {table}")
        }

    assert set(counts["default"].values()) == {True}, counts
    assert set(counts["red"].values()) == {False}
    assert set(changed.values()) == {0}
    assert (await store.sessions.get(session_id)).message_count > 0


async def test_other_tenant_cannot_write_into_session(store: Store, pool: Pool, other: Tenant) -> None:
    session_id = await fill(store)
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        async with pool.connection(tenant=other) as conn:
            await conn.execute(
                "INSERT INTO open_texts (session_id, number, start, content, tenant) VALUES (%s, 9, 0, 'a', 1)",
                [session_id],
            )


async def test_role_without_tenant_reads_nothing(database_url: str, store: Store) -> None:
    await fill(store)
    with psycopg.connect(direct_url(database_url), autocommit=True) as conn:
        conn.execute(f"SET ROLE {APP_ROLE}")
        for relation in (*(metadata.tables.keys() - OWNED_BY_SERVER), "tenant_search", "events_full"):
            with pytest.raises(errors.UndefinedObject, match=r"ash\.tenant"):
                conn.execute(f"SELECT FROM {relation}").fetchall()


async def test_failed_change_of_tenant_is_repeated(pool: Pool, other: Tenant) -> None:
    async with pool.connection(tenant=other) as conn:
        conn.tenant = None
        await conn.execute("SELECT set_config('ash.tenant', '', false)")
    async with pool.connection(tenant=other) as conn:
        [row] = await (await conn.execute("SELECT current_user, current_setting('ash.tenant')")).fetchall()

    assert row == (role_of(other.number) if on_citus() else APP_ROLE, str(other.number))


# --- The store


async def test_external_ids_of_tenants_do_not_collide(store: Store, other: Tenant) -> None:
    theirs = store.for_tenant(other)
    sessions = [await fill(each) for each in (store, theirs)]
    again = [await import_file(each, SAMPLE, "bird-counter") for each in (store, theirs)]
    found = [[each.id for each in await tenant.sessions.find("bird-counter")] for tenant in (store, theirs)]

    assert sessions[0] != sessions[1]
    assert [each.session_id for each in again] == sessions
    assert [set(each.result.counts) for each in again] == [{"existing"}, {"existing"}]
    assert found == [[sessions[0]], [sessions[1]]]


async def test_names_of_tenants(database_url: str) -> None:
    async with await connect(database_url) as owner:
        first = await get_or_create_tenant(owner, "red")
        again = await get_or_create_tenant(owner, "red")
        second = await get_or_create_tenant(owner, "blue-2")

        assert await get_or_create_tenant(owner, "default") == DEFAULT
        assert again == first
        assert [first.number, second.number] == [2, 3]
        for name in ("", "Red", "-a", "a b", "a" * 64):
            with pytest.raises(InvalidParameter):
                await get_or_create_tenant(owner, name)


# --- Speed: conditions of row-level security hide no index


_SEARCH = {
    **NEWEST._asdict(),
    "session_id": None,
    "query": "77",
    "others": "redacted",
    "per_session": 2**31 - 1,
    "limit": 10,
}


def _find(scope: SearchScope) -> str:
    passes = SQL.passes.fill(condition=CONDITIONS[scope])
    parts = {"order": newest.SQL.newest_first, "follows": newest.SQL.is_older}
    return SQL.find.fill(passing=passes, in_sessions=SQL.is_in_any, **parts)


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
@pytest.mark.parametrize(
    ("query", "params", "index"),
    [
        (_find("conversation"), _SEARCH, "search_conversation_idx"),
        (_find("results"), _SEARCH, "search_results_idx"),
        (
            _statement("activity", frozenset(), is_few=False),
            {"key": "infinity", "id": UUID(int=2**128 - 1), "limit": 10},
            "sessions_activity_idx",
        ),
        (transcripts.SQL.find_candidate, {"key": "77", "ids": [], "rejected": []}, "sessions_lineage_idx"),
    ],
    ids=["said", "rest", "list", "lineage"],
)
async def test_uses_index(
    connection: AsyncConnection, pool: Pool, query: str, params: dict[str, Any], index: str
) -> None:
    await connection.execute(_MANY_ROWS)
    async with pool.connection() as conn:
        every: Any = _Params(params)
        rows = await (await conn.execute("EXPLAIN " + query, every, prepare=False)).fetchall()

    plan = "\n".join(row[0] for row in rows)
    assert index in plan, plan


_MANY_ROWS = """
    INSERT INTO sessions (id, source, lineage)
    SELECT gen_random_uuid(), 'claude', ARRAY[number::text] FROM generate_series(1, 5000) AS number;
    INSERT INTO session_counters (session_id) SELECT id FROM sessions;
    INSERT INTO search (session_id, sequence, part, weight, role, at, words)
    SELECT id, number, 0, CASE number WHEN 1 THEN 'A' ELSE 'D' END, 'user', now(), lineage[1]::tsvector
    FROM sessions, generate_series(1, 2) AS number;
    ANALYZE sessions, session_counters, search
"""


class _Params(dict[str, Any]):
    """Parameters; others are null."""

    def __missing__(self, name: str) -> None:
        return None


async def test_unknown_session_of_random_id(store: Store, other: Tenant) -> None:
    assert await store.for_tenant(other).sessions.existing_ids([uuid4()]) == set()
