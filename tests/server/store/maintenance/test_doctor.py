"""The findings of `ash doctor` about a database, and their remedies."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ash_server.store import Store
from ash_server.store.maintenance.doctor import Diagnosis, Limits, Statement, diagnose
from ash_server.store.maintenance.vacuum import vacuum
from ash_server.store.schema.tables import metadata
from ash_shared.parsing.parse import PARSER_VERSION
from tests.cluster import not_on_cluster
from tests.server.cli.test_cli import ran_here

PROMPT = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}'
ENTRIES = (
    "INSERT INTO audit (id, tenant, action) SELECT gen_random_uuid(), 1, 'x' FROM generate_series(1, {})"
)
STATEMENTS = """
    CREATE VIEW pg_stat_statements AS
    SELECT oid AS dbid, query, 3 AS calls, 2500.0::float8 AS mean_exec_time, 7500.0::float8 AS total_exec_time
    FROM pg_database, unnest(ARRAY[E'SELECT  $1\\n FROM messages', 'SET a = ''secret''']) AS query
"""
SERVER_SETTINGS = {"fsync", "full_page_writes", "synchronous_commit"}
"""Off in the tests' server."""
ALONE = not_on_cluster("dead rows and statistics of earlier tests remain in its database")


@pytest.fixture
def conn(database_url: str) -> Iterator[psycopg.Connection]:
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        conn.execute("ALTER TABLE audit SET (autovacuum_enabled = false)")
        yield conn


def codes(diagnosis: Diagnosis) -> list[str]:
    return [
        each.code for each in diagnosis.findings if not SERVER_SETTINGS.intersection(each.text.split()[:1])
    ]


@ALONE
@pytest.mark.parametrize(
    ("statements", "limits", "expected"),
    [
        ([], Limits(), []),
        ([ENTRIES.format(100)], Limits(), []),
        ([ENTRIES.format(100)], Limits(rows=100), ["no_statistics"]),
        ([ENTRIES.format(100), "ANALYZE audit"], Limits(rows=100), []),
        ([ENTRIES.format(40), "ANALYZE audit", ENTRIES.format(60)], Limits(rows=100), ["stale_statistics"]),
        ([ENTRIES.format(100), "DELETE FROM audit"], Limits(rows=100), ["dead_rows"]),
        (["UPDATE messages SET parser_version = 1"], Limits(), ["outdated_messages"]),
        ([f"UPDATE messages SET parser_version = {PARSER_VERSION + 1}"], Limits(), ["outdated_messages"]),
        (["UPDATE messages SET parser_version = 1, kind = 'deleted'"], Limits(), []),
        (["UPDATE session_counters SET normalizer_version = 1"], Limits(), ["outdated_events"]),
        ([], Limits(pending_events=1), ["search_lag"]),
        ([], Limits(bytes_of_small_cache=1), ["setting"]),
        (["SET track_counts = off"], Limits(), ["setting"]),
    ],
)
async def test_findings(
    store: Store, conn: psycopg.Connection, statements: list[str], limits: Limits, expected: list[str]
) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, [PROMPT])
    for statement in statements:
        conn.execute(statement)
    conn.execute("SELECT pg_stat_force_next_flush()")

    assert codes(diagnose(conn, limits)) == expected


@ALONE
async def test_remedies_leave_no_finding(store: Store, conn: psycopg.Connection) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, [PROMPT])
    for statement in (
        ENTRIES.format(400),
        "DELETE FROM audit WHERE ctid < '(2,0)'",
        "UPDATE messages SET parser_version = 1",
        "UPDATE session_counters SET normalizer_version = 1",
        "SELECT pg_stat_force_next_flush()",
    ):
        conn.execute(statement)
    limits = Limits(rows=100, pending_events=1)
    diagnosis = diagnose(conn, limits)

    await store.messages.reindex(session.id)
    await store.events.rebuild(session.id)
    await store.search.reindex(session.id)
    vacuum(conn, online=True)
    conn.execute("SELECT pg_stat_force_next_flush()")

    assert set(codes(diagnosis)) == {
        "outdated_messages",
        "outdated_events",
        "search_lag",
        "dead_rows",
        "no_statistics",
    }
    assert codes(diagnose(conn, limits)) == []


def test_unused_slot(conn: psycopg.Connection) -> None:
    conn.execute("SELECT pg_create_physical_replication_slot('left_behind', true)")
    try:
        (finding,) = [each for each in diagnose(conn).findings if each.code == "unused_slot"]
        conn.execute(finding.remedy.split('"')[3])

        assert "unused_slot" not in codes(diagnose(conn))
    finally:
        conn.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = 'left_behind'"
        )


def test_sizes_and_statements(conn: psycopg.Connection) -> None:
    without = diagnose(conn)
    with conn.transaction(force_rollback=True):
        conn.execute(STATEMENTS)
        diagnosis = diagnose(conn)

    assert {each.name for each in diagnosis.tables} == metadata.tables.keys() | {"alembic_version"}
    assert {each.table for each in diagnosis.indexes} == {each.name for each in diagnosis.tables}
    assert without.statements is None
    assert diagnosis.statements == [Statement("SELECT $1 FROM messages", 3, 2500, 7500)]


def test_other_schema_is_the_only_finding(bare_database_url: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "ASH_DATABASE_URL": bare_database_url}

    shown = ran_here(["doctor"], environment, tmp_path)
    document = ran_here(["doctor", "--json"], environment, tmp_path)

    assert (shown.code, shown.err, shown.out.splitlines()[-2:]) == (1, "", ["  ash db upgrade", "1 finding"])
    assert document.code == 1
    assert [(each["code"], each["remedy"]) for each in json.loads(document.out)["findings"]] == [
        ("schema", "ash db upgrade")
    ]


@pytest.mark.slow
def test_new_store_has_no_findings(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "home")}
    ran_here(["db", "upgrade"], environment, tmp_path)

    shown = ran_here(["doctor"], environment, tmp_path)

    assert (shown.code, shown.err, shown.out.splitlines()[-1]) == (0, "", "no findings")


@pytest.mark.slow
def test_finds_transcripts_that_an_agent_deletes_soon(tmp_path: Path, database_url: str) -> None:
    environment = {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path / "home")}
    claude = tmp_path / ".claude"
    transcript = claude / "projects/-w/kept.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text('{"type": "user", "sessionId": "kept", "message": {"content": "Go"}}\n')
    os.utime(transcript, times=(time.time() - 25 * 24 * 3600,) * 2)
    (claude / "history.jsonl").write_text('{"display": "Go", "pastedContents": {}, "sessionId": "lost"}\n')
    ran_here(["db", "upgrade"], environment, tmp_path)

    def findings(**variables: str) -> tuple[list[str], list[str]]:
        document = json.loads(ran_here(["doctor", "--json"], {**environment, **variables}, tmp_path).out)
        codes = [each["code"] for each in document["findings"] if each["code"] != "setting"]
        return codes, document["lostTranscripts"]

    new, elsewhere = findings(), findings(ASH_DATABASE_URL=database_url)
    ran_here(["import", "--all"], environment, tmp_path)

    assert new == (["expiring_transcripts", "new_prompts"], [])
    assert elsewhere == ([], [])
    lost = "Claude Code has deleted the transcripts of 1 session that were not imported"
    assert findings() == ([], [lost])
