"""A real PostgreSQL: one server and one migrated template per test process, a copy of the template for each test."""

import gc
import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import docker
import psycopg
import pytest
from docker.errors import DockerException
from httpx2._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo
from psycopg.errors import QueryCanceled

from ash_server.store import Store
from ash_server.store.connections.pool import PooledUrl, connect, direct_url
from ash_server.store.connections.tenant_connections import set_config
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.maintenance.distribution import check_citus, plan_distribution
from ash_server.store.schema.migrations import upgrade
from ash_server.store.search import nearest, search_store
from ash_server.store.sessions import create_session
from ash_server.transfer.agents import AGENTS
from tests.cluster import on_citus
from tests.forked_commands import forked_commands
from tests.tenant_statements import check_statements
from tests.waiting import TIMEOUT

# Each run has the same examples. `--hypothesis-profile=random` tries new ones, and prints how to replay a failure.
# A busy machine may draw examples slowly.
_ANY_SPEED: Any = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, **_ANY_SPEED)
settings.register_profile("random", print_blob=True, **_ANY_SPEED)
settings.load_profile("fixed")

# Requests wait as long as conditions. The default is 5 seconds, and a busy machine may take longer.
for _phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _phase, TIMEOUT)


# Tests never read the transcripts of this machine: those that set HOME would find the folders of these variables, too.
for _variable in {root.variable for agent in AGENTS for root in agent.roots if root.variable}:
    os.environ.pop(_variable, None)

# A shell starts background jobs with interrupts ignored, and child processes inherit that; tests interrupt theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"postgresql: {server_kind()}"


def pytest_xdist_auto_num_workers() -> int:
    """One process more than processors, since tests wait for servers and pages."""
    return 1 if on_citus() else min((os.cpu_count() or 1) + 1, 8)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a module of slow tests only: collecting it takes seconds."""
    is_skipped = collection_path.name == "test_conformance.py" and config.option.markexpr == "not slow"
    return True if is_skipped else None


LONG = frozenset(
    {
        "test_benchmarks.py",
        "test_watch_command.py",
        "test_canary.py",
        "test_native_sessions.py",
        "test_killed_server.py",
        "test_event_type_page.py",
    }
)
"""Files with tests that take longest. They run first, or one process would run one of them alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each process begin elsewhere in a folder: it then finds the bytecode that others have written of the rest.

    Otherwise all processes would compile the same module at the same time, for a third of a minute in a new clone.
    """
    report = yield
    if isinstance(collector, pytest.Dir):
        worker = getattr(collector.config, "workerinput", {"workerid": "gw0", "workercount": 1})
        number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
        start = len(report.result) * number // count
        report.result = [*report.result[start:], *report.result[:start]]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (item.path.name not in LONG, item.path.parts))
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Pause garbage collection while modules are imported: almost none of their objects is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempt modules and tests, a million objects, from garbage collection, which would visit them again and again."""
    gc.collect()
    gc.freeze()


@cache
def server_kind() -> str:
    if on_citus():
        return "ASH_TEST_CITUS_URL"
    if os.environ.get("ASH_TEST_DATABASE_URL"):
        return "ASH_TEST_DATABASE_URL"
    return "container" if docker_answers() else "embedded"


def docker_answers() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a client without a server leaves its socket open
        try:
            with closing(docker.from_env(timeout=3)) as client:
                return bool(client.ping())
        except DockerException:
            return False
        finally:
            gc.collect()


@contextmanager
def embedded_server(folder: Path) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="ash-tests-", dir=memory_folder()) as data,
        EmbeddedPostgres(Path(data, "pg"), durable=False) as server,
    ):
        yield server.url()


def memory_folder() -> str | None:
    """An in-memory folder, if large enough: PostgreSQL creates and drops databases faster there."""
    memory = Path("/dev/shm")
    is_large = memory.is_dir() and shutil.disk_usage(memory).free > 1_000_000_000
    return str(memory) if is_large else None


@contextmanager
def container(folder: Path) -> Iterator[str]:
    from testcontainers.community.postgres import PostgresContainer

    with PostgresContainer("postgres:18", driver=None) as server:
        yield server.get_connection_url()


@contextmanager
def named_server(folder: Path) -> Iterator[str]:
    url, direct = os.environ["ASH_TEST_DATABASE_URL"], os.environ.get("ASH_DIRECT_URL")
    yield PooledUrl(url, direct) if direct else url


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The coordinator of a Citus cluster: a database for tests, which they empty, so one process runs them."""
    url = os.environ["ASH_TEST_CITUS_URL"]
    upgrade(url)
    with psycopg.connect(url, autocommit=True) as conn:
        check_citus(conn)
        for statement in plan_distribution(conn, shards=4):
            conn.execute(statement)
    yield url


def empty_database(url: str) -> None:
    """Delete the rows of the last test with DELETE, because TRUNCATE of distributed tables takes seconds."""
    with psycopg.connect(url) as conn:
        for table in (
            "events",
            "messages",
            "answers",
            "usage_rollups",
            "tool_calls",
            "sessions",
            "budgets",
            "retention_policies",
            "scheduled_deletions",
            "cold_policies",
            "shares",
            "audit",
            "sign_ins",
            "sign_in_codes",
            "keys",
            "tenants WHERE number > 1",
        ):
            conn.execute(f"DELETE FROM {table}")


SERVERS = {
    "ASH_TEST_CITUS_URL": cluster,
    "ASH_TEST_DATABASE_URL": named_server,
    "container": container,
    "embedded": embedded_server,
}


POOLER = {"ASH_DIRECT_URL": os.environ["ASH_DIRECT_URL"]} if "ASH_DIRECT_URL" in os.environ else {}
"""The variable that makes a command use the pooler of `server_url`, if there is one."""


@pytest.fixture(scope="session", autouse=True)
def direct_connections() -> Iterator[None]:
    """Let connections that tests open with `psycopg.connect` bypass the pooler."""
    with pytest.MonkeyPatch.context() as patch:
        open_direct = psycopg.connect
        patch.setattr(psycopg, "connect", lambda url, **options: open_direct(direct_url(url), **options))
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_commands() -> Iterator[None]:
    with forked_commands():
        yield


@pytest.fixture(scope="session", autouse=True)
def checked_statements() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        check_statements(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def complete_searches() -> Iterator[None]:
    """Let searches index everything first and look up all words, however long a busy machine takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_store, "_CATCH_UP_SECONDS", TIMEOUT)
        patch.setattr(nearest, "_TIMEOUT_MS", TIMEOUT * 1000)
        patch.setattr(nearest, "_MAX_MS", TIMEOUT * 1000)
        yield


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with SERVERS[server_kind()](tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[str]:
    if on_citus():
        yield ""
        return
    with new_database(server_url) as name:
        upgrade(at_database(server_url, name))
        yield name


@pytest.fixture
def database_url(server_url: str, template: str) -> Iterator[str]:
    """A migrated, empty database for one test."""
    if on_citus():
        empty_database(server_url)
        yield server_url
        return
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        yield at_database(server_url, name)


@pytest.fixture
def bare_database_url(server_url: str) -> Iterator[str]:
    """A database without a schema for one test."""
    with new_database(server_url) as name:
        yield at_database(server_url, name)


@contextmanager
def new_database(server_url: str, options: str = "") -> Iterator[str]:
    if on_citus():
        pytest.skip("a Citus cluster has one database")
    name = f"ash_test_{uuid4().hex}"
    with psycopg.connect(direct_url(server_url), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} {options}")
        try:
            yield name
        finally:
            drop_database(conn, name)


_still_in_use: list[str] = []


def drop_database(conn: psycopg.Connection, name: str) -> None:
    """Drop a database, and the ones that could not be dropped before.

    PostgreSQL waits until every backend has noticed. A backend that sends a large result to a task of the event loop,
    such as the search indexer, notices only when the loop runs again, after the fixtures of the test.
    """
    conn.execute("SET statement_timeout = '2s'")
    names = [*_still_in_use, name]
    _still_in_use.clear()
    for each in names:
        try:
            conn.execute(f"DROP DATABASE {each} WITH (FORCE)")
        except QueryCanceled:
            _still_in_use.append(each)


def at_database(server_url: str, name: str) -> str:
    if isinstance(server_url, PooledUrl):
        return PooledUrl(at_database(str(server_url), name), make_conninfo(server_url.direct, dbname=name))
    address, mark, options = server_url.partition("?")
    scheme, authority = address.split("://")
    return f"{scheme}://{authority.partition('/')[0]}/{name}{mark}{options}"


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[AsyncConnection]:
    async with await connect(database_url) as conn:
        if on_citus():
            await conn.execute(set_config({}, DEFAULT))
        yield conn


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store.open(database_url) as store:
        yield store


@pytest.fixture
async def session_id(connection: AsyncConnection) -> UUID:
    return (await create_session(connection)).session.id
