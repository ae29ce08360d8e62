"""Database connections, and concurrent upgrades of the schema."""

import asyncio
import select
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.pq import PipelineStatus, Trace
from psycopg.waiting import Ready, Wait

from ash_server.errors import SchemaMismatch
from ash_server.store.connections.driver import _MAX_READS, _read_eagerly
from ash_server.store.connections.pool import (
    PooledUrl,
    StatementOptions,
    connect,
    connect_command,
    direct_url,
    libpq_url,
    network_limits,
    open_pool,
)
from ash_server.store.schema.migrations import REVISION, current_revision, current_revision_of, upgrade
from tests.server.cli.test_cli import COMMAND, environment
from tests.waiting import TIMEOUT

URLS = {
    "postgresql://u@h/d?sslmode=require": "postgresql://u@h/d?sslmode=require",
    "postgres://u@h/d": "postgresql://u@h/d",
    "postgresql+psycopg://u:p%40ss@h:5432/d": "postgresql://u:p%40ss@h:5432/d",
    "postgresql:///d?host=/run/pg": "postgresql:///d?host=/run/pg",
    "host=/run/pg dbname=d": "host=/run/pg dbname=d",
}


def test_converts_every_form_of_url_for_libpq() -> None:
    assert {url: libpq_url(url) for url in URLS} == URLS


LIMITS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@pytest.mark.parametrize(
    ("url", "variables", "missing"),
    [
        ("postgresql://db/ash", {}, set()),
        (
            "postgresql://db/ash?tcp_user_timeout=1&keepalives_idle=2",
            {},
            {"tcp_user_timeout", "keepalives_idle"},
        ),
        (
            PooledUrl("postgresql://pooler/ash?keepalives_count=9", "postgresql://db"),
            {},
            {"keepalives_count"},
        ),
        ("postgresql://db/ash", {"PGCONNECT_TIMEOUT": "60"}, {"connect_timeout"}),
    ],
)
def test_url_overrides_network_limits(
    url: str, variables: dict[str, str], missing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert network_limits(url) == {name: value for name, value in LIMITS.items() if name not in missing}


async def test_all_connections_have_network_limits(database_url: str) -> None:
    async with (
        open_pool(database_url) as pool,
        pool.connection() as pooled,
        await connect(database_url) as single,
    ):
        parameters = [each.info.get_parameters() for each in (pooled, single)]
    with connect_command(database_url) as command:
        parameters.append(command.info.get_parameters())

    assert [{name: int(each[name]) for name in LIMITS} for each in parameters] == [LIMITS] * 3


async def test_connections_use_autocommit_and_utc(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTZ", "Asia/Kathmandu")
    async with (
        open_pool(database_url) as pool,
        pool.connection() as pooled,
        await connect(database_url) as single,
    ):
        zones = [await (await conn.execute("SHOW TimeZone")).fetchone() for conn in (pooled, single)]

        assert zones == [("UTC",), ("UTC",)]
        assert [pooled.autocommit, single.autocommit] == [True, True]


async def test_connection_with_an_open_pipeline_is_not_used_again(database_url: str) -> None:
    async with open_pool(database_url, max_size=1) as pool:
        async with pool.connection() as conn:
            conn.pgconn.enter_pipeline_mode()  # as after a cancelled pipeline
        async with pool.connection() as conn:
            assert conn.pgconn.pipeline_status == PipelineStatus.OFF
            assert await (await conn.execute("SELECT 1")).fetchone() == (1,)


async def test_pipeline_sends_nothing_after_its_end(database_url: str, tmp_path: Path) -> None:
    """A pooler would reserve a connection of PostgreSQL for what comes after the answer."""
    async with open_pool(database_url) as pool, pool.connection() as conn:
        with (tmp_path / "trace").open("w+") as trace:
            conn.pgconn.trace(trace.fileno())
            conn.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
            async with conn.pipeline():
                await conn.execute(
                    "SELECT pg_sleep(0.1)"
                )  # the answer comes after the end of the pipeline is sent
            conn.pgconn.untrace()
            trace.seek(0)
            sent = [line.split("\t")[2].strip() for line in trace if line.startswith("F")]

    assert sent[-2:] == ["Execute", "Sync"]


async def test_pipeline_sends_a_statement_larger_than_the_socket(database_url: str) -> None:
    async with open_pool(database_url) as pool, pool.connection() as conn, asyncio.timeout(TIMEOUT):
        async with conn.pipeline():
            cursor = await conn.execute("SELECT length(%s)", ["x" * 20_000_000])

        assert await cursor.fetchone() == (20_000_000,)


async def test_statement_options(database_url: str) -> None:
    async with (
        open_pool(url := direct_url(database_url)) as usual,
        open_pool(url, statements=StatementOptions(timeout=30, prepare_threshold="never")) as limited,
    ):
        options = []
        for pool in (usual, limited):
            async with pool.connection() as conn:
                row = await (await conn.execute("SHOW statement_timeout")).fetchone()
                options.append((row, conn.prepare_threshold))

    assert options == [(("0",), 5), (("30s",), None)]


def test_takes_turns_of_the_event_loop_to_wait_and_after_many_reads() -> None:
    turns = {"nothing to read": count_turns(3), "data to read": count_turns(2 * _MAX_READS, data=b"rows")}

    assert turns == {"nothing to read": 3, "data to read": 2}


def count_turns(reads: int, data: bytes = b"") -> int:
    def read() -> Generator[Wait, Ready | int, None]:
        for _ in range(reads):
            yield Wait.R

    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.sendall(data)
        poller = select.poll()
        poller.register(receiver, select.POLLIN)
        return len(list(_read_eagerly(read(), poller)))


async def test_upgrade_is_idempotent(bare_database_url: str) -> None:
    async with await connect(bare_database_url) as conn:
        revisions = [await current_revision(conn)]
        for _ in range(2):
            upgrade(bare_database_url)
            revisions.append(await current_revision(conn))

    assert revisions == [None, REVISION, REVISION]


@pytest.mark.slow
def test_processes_can_upgrade_concurrently(bare_database_url: str, tmp_path: Path) -> None:
    variables = environment(tmp_path, bare_database_url, {})
    with ExitStack() as stack:
        command = [str(COMMAND), "db", "upgrade"]
        processes = [stack.enter_context(subprocess.Popen(command, env=variables)) for _ in range(4)]

    assert [process.returncode for process in processes] == [0] * 4
    with connect_command(bare_database_url) as conn:
        assert current_revision_of(conn) == REVISION


@pytest.fixture
def newer_database_url(database_url: str) -> Iterator[str]:
    """A database of a newer version, restored because tests on a cluster share one."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        yield database_url
        conn.execute("UPDATE alembic_version SET version_num = %s", [REVISION])


def test_upgrade_rejects_newer_schema(newer_database_url: str) -> None:
    with pytest.raises(SchemaMismatch, match=r"newer Ash: run that version .*9999"):
        upgrade(newer_database_url)


async def test_empty_version_table_has_no_revision(database_url: str) -> None:
    async with await connect(database_url) as conn, conn.transaction(force_rollback=True):
        await conn.execute("DELETE FROM alembic_version")

        assert await current_revision(conn) is None


@pytest.mark.slow
def test_connecting_does_not_import_migration_tools() -> None:
    probe = (
        "import sys, ash_server.store.schema.migrations; print({'alembic', 'sqlalchemy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
