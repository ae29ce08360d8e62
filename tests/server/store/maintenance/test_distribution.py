"""Statements that a Citus cluster can run, and the distribution of the tables."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncPipeline
from psycopg._cursor_base import BaseCursor

import ash_server.store
from ash_server import NewMessage
from ash_server.store import Store
from ash_server.store.appending import new_messages, one_statement
from ash_server.store.bulk import new_sessions
from ash_server.store.connections import driver
from ash_server.store.connections.cluster import DISTRIBUTED, ON_COORDINATOR
from ash_server.store.connections.driver import Connection
from ash_server.store.connections.tenants import DEFAULT, role_of
from ash_server.store.lists import session_lists
from ash_server.store.log.events import SQL
from ash_server.store.schema.migrations import upgrade
from ash_server.store.schema.tables import metadata
from ash_server.store.search import nearest, newest
from ash_server.store.statements import Statements
from ash_server.store.usage import answers
from tests.cluster import not_on_cluster, only_on_cluster
from tests.server.cli.test_cli import Ash, ash  # noqa: F401  # a fixture
from tests.shared.records.events import wire_event
from tests.tenant_statements import OWNED_BY_SERVER, VIEWS

ROOT = Path(__file__).parents[4]

TABLES = "|".join(sorted((metadata.tables.keys() - OWNED_BY_SERVER) | VIEWS))
SESSION = r"(?:\w+\.)?(?:session_)?id"
VALUE = r"(?:%(?:\(\w+\))?[sb]|sessions\.id|session_id|\w+\.session_id)"
RULES = {
    "simple CASE, which Citus turns into another one": r"\bCASE (?!WHEN\b)",
    "recursion": r"\bWITH RECURSIVE\b",
    "join that is not by session": rf"\bJOIN (?:{TABLES})\b(?! (?:AS )?\w* ?USING \((?:session_)?id\b)"
    rf"(?! (?:(?!JOIN|WHERE|ORDER).)*?\b{SESSION} = (?:\w+\.)?(?:session_)?id\b)",
    "join by a comma": rf"\b(?:FROM|,) (?:{TABLES})(?: AS \w+)?, (?:{TABLES})\b",
    "subquery on other sessions": rf"\bEXISTS \( ?SELECT FROM (?:{TABLES})\b(?:(?!WHERE).)*"
    rf"WHERE (?!{SESSION} = {VALUE})",
    "column with the id of another session": r"\bid = (?:\w+\.)?(?:parent_id|copy_of)\b"
    r"|\b(?:parent_id|copy_of) = (?:\w+\.)?id\b",
    "rows from no shard, which Citus inserts by COPY": rf"\bINSERT INTO (?:{TABLES})\b"
    rf"(?:(?!\bFROM\b|\bVALUES\b|\bINSERT\b).)*\bFROM (?!(?:{TABLES})\b)",
    "INSERT of values within WITH": rf"\bAS \( ?INSERT INTO (?:{TABLES}) ?\([^)]*\) VALUES\b",
    "subquery on the shard of another subquery": rf"\bFROM (?:{TABLES}) WHERE {SESSION} = (\w+)\.session_id\b"
    rf"(?!.*\bJOIN (?:{TABLES}) AS \1\b).*\) AS \1\b",
}

ONLY_WITHOUT_CITUS = {
    SQL.post_events,
    *(one_statement.SQL[name] for name in one_statement.SQL),
    new_messages.SQL.write_messages_of_known_session,
    *(new_sessions.SQL[name] for name in new_sessions.SQL),
    answers.SQL.add_to_new_sessions,
    session_lists.SQL.list_folders,
    session_lists.SQL.list_projects,
    newest.SQL.find_other,
    nearest.SQL.some_indexed_rows,
}
"""Statements that a distributed database does without, or that others replace there."""

STAND_INS = """
    CREATE TABLE pg_dist_partition (logicalrelid regclass);
    GRANT SELECT ON pg_dist_partition TO ash_app;
    CREATE FUNCTION create_distributed_table(
        name regclass, by_column text, shard_count integer DEFAULT NULL, colocate_with text DEFAULT NULL
    ) RETURNS void LANGUAGE sql AS 'INSERT INTO pg_dist_partition VALUES ($1)';
    CREATE FUNCTION truncate_local_data_after_distributing_table(name regclass) RETURNS void LANGUAGE sql AS '';
"""
"""Stand-ins for the functions of the extension, for servers without it: the rows stay in place."""

ROLE = role_of(DEFAULT.number)
PLAN = [
    f"CREATE ROLE {ROLE} LOGIN IN ROLE ash_app;",
    f"ALTER ROLE {ROLE} SET ash.tenant = '1';",
    f"GRANT {ROLE} TO CURRENT_USER;",
    *(
        f"ALTER POLICY tenant ON {table} USING (tenant = current_setting('ash.tenant')::integer);"
        for table in DISTRIBUTED
    ),
    "SELECT create_distributed_table('sessions', 'id', shard_count := 8);",
    *(
        f"SELECT create_distributed_table('{table}', 'session_id', colocate_with := 'sessions');"
        for table in [*DISTRIBUTED][1:]
    ),
]
REMOVAL_OF_COPIES = [
    f"SELECT truncate_local_data_after_distributing_table('{table}');"
    for table in ("search_progress", "session_counters", "sessions")
]


def broken_rules(statement: str) -> set[str]:
    text = " ".join(statement.split())
    return {name for name, pattern in RULES.items() if re.search(pattern, text)}


def constants() -> Iterator[str]:
    """Yield the SQL of the package: its values, and texts within functions."""
    for module in pkgutil.walk_packages(ash_server.store.__path__, "ash_server.store."):
        for value in vars(importlib.import_module(module.name)).values():
            texts: list[object] = [*value.values()] if isinstance(value, dict) else [value]
            if isinstance(value, Statements):
                texts = [value[name] for name in value]
            yield from (text for text in texts if isinstance(text, str))
    for path in (ROOT / "ash_server").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.slow
def test_statements_stay_within_sessions() -> None:
    statements = {text for text in constants() if re.search(rf"\b(?:FROM|INTO|UPDATE) (?:{TABLES})\b", text)}
    statements -= ONLY_WITHOUT_CITUS

    assert len(statements) > 100
    assert {text: broken for text in statements if (broken := broken_rules(text))} == {}


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        (
            "SELECT CASE kind WHEN 'a' THEN 1 END FROM messages",
            ["simple CASE, which Citus turns into another one"],
        ),
        ("SELECT CASE WHEN kind = 'a' THEN 1 END FROM messages", []),
        ("WITH RECURSIVE tree AS (SELECT id FROM sessions) SELECT id FROM tree", ["recursion"]),
        ("SELECT FROM messages JOIN sessions ON sessions.id = session_id", []),
        ("SELECT FROM messages JOIN session_counters USING (session_id)", []),
        ("SELECT FROM messages JOIN events AS event USING (session_id, sequence)", []),
        ("SELECT FROM messages JOIN sessions ON path = messages.id", ["join that is not by session"]),
        ("SELECT FROM messages JOIN sessions USING (source)", ["join that is not by session"]),
        (
            "SELECT FROM sessions JOIN sessions AS parent ON parent.id = sessions.parent_id",
            ["column with the id of another session", "join that is not by session"],
        ),
        ("SELECT FROM messages, sessions WHERE id = session_id", ["join by a comma"]),
        ("SELECT FROM sessions WHERE EXISTS (SELECT FROM messages WHERE session_id = sessions.id)", []),
        (
            "SELECT FROM sessions WHERE EXISTS (SELECT FROM sessions AS other WHERE other.path = sessions.path)",
            ["subquery on other sessions"],
        ),
        (
            "INSERT INTO drift (session_id, sequence) SELECT %b, sequence FROM unnest(%b) AS new (sequence)",
            ["rows from no shard, which Citus inserts by COPY"],
        ),
        (
            "WITH last AS (UPDATE session_counters SET errors = 1 RETURNING session_id) "
            "INSERT INTO drift (session_id) SELECT session_id FROM last",
            ["rows from no shard, which Citus inserts by COPY"],
        ),
        (
            "INSERT INTO drift (session_id, sequence) SELECT session_id, sequence "
            "FROM session_counters, unnest(%b) AS new (sequence) WHERE session_id = %b",
            [],
        ),
        ("INSERT INTO drift (session_id) VALUES (%b)", []),
        (
            "WITH new AS (INSERT INTO drift (session_id) VALUES (%b)) SELECT FROM drift",
            ["INSERT of values within WITH"],
        ),
        (
            "SELECT (SELECT content FROM messages WHERE session_id = entry.session_id) "
            "FROM (SELECT * FROM events LIMIT 9) AS entry",
            ["subquery on the shard of another subquery"],
        ),
        (
            "SELECT (SELECT content FROM messages WHERE session_id = entry.session_id) FROM events AS entry",
            [],
        ),
    ],
)
def test_rules_find_other_statements(statement: str, broken: list[str]) -> None:
    assert sorted(broken_rules(statement)) == broken


def test_every_table_has_its_place() -> None:
    assert {*ON_COORDINATOR} == OWNED_BY_SERVER
    assert DISTRIBUTED.keys() == metadata.tables.keys() - OWNED_BY_SERVER


@not_on_cluster("it has Citus")
def test_prints_and_refuses_without_citus(ash: Ash) -> None:  # noqa: F811
    printed = ash("db", "distribute", "--shards", "8", "--dry-run")
    refused = ash("db", "distribute")

    assert (printed.code, printed.out.splitlines(), printed.err) == (0, PLAN, "")
    assert (refused.code, refused.out) == (1, "")
    assert "the database has no extension citus" in refused.err


@not_on_cluster("it is distributed, and its roles are in use")
async def test_distributes_once(ash: Ash, store: Store, database_url: str) -> None:  # noqa: F811
    session = await store.sessions.create(external_id="before")
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        conn.execute(STAND_INS)
        try:
            first = ash("db", "distribute", "--shards", "8")
            created = ash("keys", "create", "laptop", "--tenant", "red")
            again = ash("db", "distribute")  # as after an error: the stand-in leaves the rows in place
            async with Store.open(database_url) as reopened:
                red = reopened.for_tenant(await reopened.get_tenant("red"))
                own = await red.sessions.create(external_id="after")
                async with red._connections.connection() as lent:
                    role = await (await lent.execute("SELECT current_user")).fetchone()
                seen = [
                    [each.id for each in (await each.sessions.list_sessions()).sessions]
                    for each in (reopened, red)
                ]
            conn.execute("TRUNCATE sessions, session_counters, search_progress CASCADE")
            complete = ash("db", "distribute")
        finally:
            for number in (1, 2):
                conn.execute(f"DROP ROLE IF EXISTS {role_of(number)}")

    assert (first.code, first.out.splitlines(), first.err) == (0, [*PLAN, *REMOVAL_OF_COPIES], "")
    assert created.code == 0
    assert again.out.splitlines() == REMOVAL_OF_COPIES
    assert complete.out == "-- everything is distributed\n"
    assert role == (role_of(2),)
    assert seen == [[session.id], [own.id]]


async def test_no_pipeline_of_a_cluster_begins_with_a_lock(
    bare_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(bare_database_url)
    with psycopg.connect(bare_database_url) as conn:
        conn.execute(STAND_INS)
    first = await first_statements(bare_database_url, monkeypatch)

    assert len(first) > 4
    assert set(first) == {driver.SQL.pass_on_settings}


async def first_statements(url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write to a session; return the first statement of each pipeline."""
    first: list[str] = []
    is_new = False
    begin, start = Connection.pipeline, BaseCursor._start_query

    def pipeline(self: Connection) -> AbstractAsyncContextManager[AsyncPipeline]:
        nonlocal is_new
        is_new = True
        return begin(self)

    def start_query(cursor: Any, query: Any = None) -> Any:
        nonlocal is_new
        if is_new:
            first.append(str(query))
        is_new = False
        return start(cursor, query)

    monkeypatch.setattr(Connection, "pipeline", pipeline)
    monkeypatch.setattr(BaseCursor, "_start_query", start_query)
    async with Store.open(url) as store:
        session = await store.sessions.create()
        await store.messages.append(session.id, [NewMessage("one")], metadata={"a": 1})
        await store.messages.append(session.id, [NewMessage("two")])
        await store.events.append(session.id, wire_event("done"))
        await store.events.end(session.id)
    return first


def test_pipelines_are_transactions() -> None:
    """`one_transaction` and connections to poolers begin a pipeline with a harmless statement."""
    users = {
        path.name
        for path in (ROOT / "ash_server").rglob("*.py")
        if re.search(r"\.pipeline\(\)", path.read_text())
    }

    assert users == {"driver.py", "pool.py", "tenant_connections.py"}


@only_on_cluster
def test_tables_of_cluster_are_colocated(database_url: str) -> None:
    with closing(psycopg.connect(database_url)) as conn:
        rows = conn.execute("SELECT table_name::text, distribution_column, colocation_id FROM citus_tables")
        places = {name: (column, colocation) for name, column, colocation in rows.fetchall()}

    assert {name: column for name, (column, _) in places.items()} == DISTRIBUTED
    assert len({colocation for _, colocation in places.values()}) == 1
