"""The migrated schema matches the code and can be sharded by session."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import AsyncConnection
from psycopg.errors import AdminShutdown
from sqlalchemy import CheckConstraint, NullPool, create_engine

from ash_server.store.connections.pool import direct_url
from ash_server.store.embedded.binaries import find_binaries
from ash_server.store.schema.migrations import REVISION, SCHEMA_FILE, upgrade
from ash_server.store.schema.tables import metadata
from tests.alembic_commands import alembic
from tests.cluster import not_on_cluster
from tests.conftest import at_database, new_database
from tests.waiting import wait_until
from tools.write_schema import written_schema

ROOT = Path(__file__).parents[3]

# Selects keys and unique indexes that do not begin with the session id, and sequences that all sessions share.
UNSHARDABLE = """
    WITH keys AS (
        SELECT conrelid AS relation, conname AS name, conkey[1] AS first
        FROM pg_constraint WHERE contype IN ('p', 'u', 'f')
        UNION ALL
        SELECT indrelid, indexrelid::regclass::name, indkey[0]
        FROM pg_index WHERE indisunique AND indexrelid NOT IN (SELECT conindid FROM pg_constraint)
    )
    SELECT name
    FROM keys
    JOIN pg_class ON pg_class.oid = relation
    LEFT JOIN pg_attribute ON attrelid = relation AND attnum = first AND attnum > 0
    WHERE relnamespace = 'public'::regnamespace
      AND relname NOT IN (
          'alembic_version', 'tenants', 'keys', 'sign_ins', 'sign_in_codes', 'audit', 'shares', 'budgets',
          'budget_notices', 'retention_policies', 'scheduled_deletions',
          'cold_policies')
      AND attname IS DISTINCT FROM CASE relname WHEN 'sessions' THEN 'id' ELSE 'session_id' END
    UNION ALL
    SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
    ORDER BY 1
"""

BAD_TABLE = """
    CREATE TABLE bad (
        id bigserial PRIMARY KEY,
        session_id uuid REFERENCES sessions,
        parent_id uuid REFERENCES sessions,
        name text UNIQUE,
        note text,
        UNIQUE (session_id, name)
    );
    CREATE UNIQUE INDEX bad_note_idx ON bad (lower(note));
"""


async def unshardable(connection: AsyncConnection) -> list[str]:
    return [name for (name,) in await (await connection.execute(UNSHARDABLE)).fetchall()]


async def test_schema_can_be_sharded_by_session(connection: AsyncConnection) -> None:
    assert await unshardable(connection) == []


@not_on_cluster("roles of tenants create no tables")
async def test_detects_table_that_cannot_be_sharded(connection: AsyncConnection) -> None:
    await connection.execute(BAD_TABLE)

    assert await unshardable(connection) == [
        "bad_id_seq",
        "bad_name_key",
        "bad_note_idx",
        "bad_parent_id_fkey",
        "bad_pkey",
    ]


def test_tables_match_migrations(database_url: str) -> None:
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(database_url), poolclass=NullPool
    )
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert differences == []


async def test_check_constraints_match_migrations(connection: AsyncConnection) -> None:
    """Alembic does not compare them."""
    cursor = await connection.execute(
        "SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
    )
    declared = {
        str(constraint.name)
        for table in metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }

    assert {name for (name,) in await cursor.fetchall()} == declared


async def test_content_uses_lz4_if_available(connection: AsyncConnection) -> None:
    cursor = await connection.execute(
        """
        SELECT CASE attcompression WHEN 'l' THEN 'lz4' ELSE 'pglz' END = enumvals[cardinality(enumvals)]
        FROM pg_attribute, pg_settings
        WHERE attrelid = 'messages'::regclass AND attname = 'content' AND name = 'default_toast_compression'
        """
    )

    assert await cursor.fetchone() == (True,)


async def test_events_are_not_compressed_without_lz4(connection: AsyncConnection) -> None:
    cursor = await connection.execute(
        """
        SELECT (attcompression, attstorage) = CASE enumvals[cardinality(enumvals)]
            WHEN 'lz4' THEN ('l'::"char", 'x'::"char") ELSE (''::"char", 'e'::"char") END
        FROM pg_attribute, pg_settings
        WHERE attrelid = 'events'::regclass AND attname = 'stored_json' AND name = 'default_toast_compression'
        """
    )

    assert await cursor.fetchone() == (True,)


def test_schema_file_has_the_tables_and_the_view_of_the_code() -> None:
    """Run `make schema` after a change of tables.py or stored_json.sql."""
    assert SCHEMA_FILE.read_text() == written_schema()


@pytest.mark.slow
def test_schema_file_makes_the_same_store_as_the_migrations(server_url: str, bare_database_url: str) -> None:
    with new_database(server_url) as name:
        migrated = at_database(server_url, name)
        alembic(migrated, "upgrade", "head")
        upgrade(bare_database_url)

        assert dump(bare_database_url) == dump(migrated)


def dump(url: str) -> str:
    """Return all statements that pg_dump writes: objects, comments, privileges and rows."""
    written = subprocess.run([find_binaries() / "pg_dump", direct_url(url)], capture_output=True, check=True)
    return re.sub(r"^\\(un)?restrict .*$", "", written.stdout.decode(), flags=re.MULTILINE)


def test_interrupted_creation_leaves_nothing_and_can_be_repeated(bare_database_url: str) -> None:
    url = bare_database_url
    with psycopg.connect(url) as holder, ThreadPoolExecutor() as threads:
        holder.execute("CREATE TABLE audit ()")  # the name of the last table
        interrupted = threads.submit(upgrade, url)
        wait_until(lambda: terminate_waiting(url))
        with pytest.raises(AdminShutdown):
            interrupted.result()
        holder.rollback()
    between = list_relations(url)
    upgrade(url)

    assert between == []
    assert {"audit", "events_full", "sessions"} <= {*list_relations(url)}


def terminate_waiting(url: str) -> bool:
    """End the connection that waits for a lock; return True if there is one."""
    with psycopg.connect(url, autocommit=True) as conn:
        ended = conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(ended.fetchall())


def list_relations(url: str) -> list[str]:
    with psycopg.connect(url) as conn:
        query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        return [name for (name,) in conn.execute(query)]


@pytest.mark.parametrize("is_empty", [False, True], ids=["without a version table", "with an empty one"])
def test_tables_of_others_are_no_store(bare_database_url: str, is_empty: bool) -> None:
    """A table of another program is neither replaced nor overlooked; a schema that was downgraded is migrated."""
    with psycopg.connect(bare_database_url) as conn:
        conn.execute("CREATE TABLE notes (id int)")
        if is_empty:
            conn.execute("CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)")
    upgrade(bare_database_url)

    assert {"notes", "sessions"} <= {*list_relations(bare_database_url)}


def test_revision_is_newest_migration() -> None:
    assert ScriptDirectory(str(ROOT / "alembic")).get_current_head() == REVISION


@pytest.mark.slow
def test_alembic_command_works_in_checkout() -> None:
    command = [sys.executable, "-m", "alembic", "upgrade", "head", "--sql"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert "CREATE TABLE messages" in printed.stdout


@pytest.mark.slow
def test_migrations_are_complete_and_can_be_undone(bare_database_url: str) -> None:
    run = partial(alembic, bare_database_url)

    run("upgrade", "head")
    assert "No new upgrade operations detected." in run("check")
    assert f"{REVISION} (head)" in run("current")
    run("downgrade", "base")
    assert run("current") == ""
