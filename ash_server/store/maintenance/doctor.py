"""Checks of a database: sizes, dead rows, statistics, outdated readings, the search index, followers and settings."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.errors import InsufficientPrivilege, ObjectNotInPrerequisiteState
from psycopg.rows import args_row

from ash_server.store.connections import replication
from ash_server.store.connections.cluster import database_bytes, list_workers, rows_of_shards
from ash_server.store.connections.pool import connect_command
from ash_server.store.connections.replication import MISMATCHES, ServerState
from ash_server.store.schema.migrations import REVISION, current_revision_of
from ash_server.store.search import index
from ash_server.store.statements import statements
from ash_shared.eventlog import NORMALIZER_VERSION
from ash_shared.parsing.parse import PARSER_VERSION
from ash_shared.projections.search_text import PASSAGES_VERSION

_MB = 1024 * 1024

SQL = statements(__file__)


class Limits(NamedTuple):
    """Thresholds of findings."""

    rows: int = 10_000
    """Smaller tables are always fast."""
    dead_share: float = 0.2
    changed_share: float = 0.5
    pending_events: int = 10_000
    follower_bytes: int = 64 * _MB
    bytes_of_small_cache: int = 1024 * _MB
    """PostgreSQL's default cache is too small above this size of a database."""


class Finding(NamedTuple):
    code: str
    text: str
    remedy: str
    """A command."""


class TableSize(NamedTuple):
    name: str
    rows: int
    """An estimate; -1 before the first VACUUM or ANALYZE."""
    bytes: int
    index_bytes: int
    live_rows: int
    dead_rows: int
    changed_rows: int
    """Since the last ANALYZE."""
    has_statistics: bool
    vacuumed_at: datetime | None
    analyzed_at: datetime | None


class IndexSize(NamedTuple):
    name: str
    table: str
    bytes: int
    scans: int


class Statement(NamedTuple):
    query: str
    calls: int
    mean_ms: float
    total_ms: float


class Follower(NamedTuple):
    name: str
    state: str
    lag_bytes: int


class Diagnosis(NamedTuple):
    bytes: int
    tables: Sequence[TableSize]
    indexes: Sequence[IndexSize]
    statements: Sequence[Statement] | None
    """The slowest; None: PostgreSQL does not record them."""
    followers: Sequence[Follower]
    pending_events: int
    """Events that are not in the search index."""
    findings: Sequence[Finding]
    lost_transcripts: Sequence[str] = ()
    """Descriptions of transcripts that agents have deleted before they were stored."""


Check = Callable[[psycopg.Connection, Diagnosis, Limits], Iterator[Finding]]


def diagnose(
    conn: psycopg.Connection,
    limits: Limits = Limits(),  # noqa: B008  # immutable
    read_url: str | None = None,
) -> Diagnosis:
    """Run all checks, including the replica at `read_url`. Another schema or a lost worker prevents further checks."""
    revision = current_revision_of(conn)
    if revision != REVISION:
        finding = Finding(
            "schema", f"the schema is {revision or 'missing'}, this Ash needs {REVISION}", "ash db upgrade"
        )
        return Diagnosis(database_bytes(conn), (), (), None, (), 0, [finding])
    if lost := list(_lost_workers(conn)):
        return Diagnosis(database_bytes(conn), (), (), None, (), 0, lost)
    is_follower = _one(conn, SQL.is_follower)
    diagnosis = Diagnosis(
        bytes=database_bytes(conn),
        tables=_read_tables(conn),
        indexes=_read_indexes(conn),
        statements=_read_statements(conn),
        followers=[] if is_follower else _rows(conn, Follower, SQL.list_followers),
        pending_events=_one(conn, index.SQL.count_pending_events, {"version": PASSAGES_VERSION}),
        findings=[],
    )
    findings = [finding for check in _CHECKS for finding in check(conn, diagnosis, limits)]
    if read_url is not None:
        findings += _replica(conn, read_url)
    return diagnosis._replace(findings=findings)


def _read_tables(conn: psycopg.Connection) -> list[TableSize]:
    """Return the tables, largest first; in a cluster, with the sums of their shards."""
    shards: dict[str, list[TableSize]] = {}
    for row in rows_of_shards(conn, SQL.list_tables):
        times = {name: _read_time(row[name]) for name in ("vacuumed_at", "analyzed_at")}
        values = {name: row[name] for name in TableSize._fields[1:]}
        shards.setdefault(row["table"], []).append(TableSize(row["table"], **{**values, **times}))
    own = _rows(conn, TableSize, SQL.list_tables)
    tables = [_sum(shards[each.name]) if each.name in shards else each for each in own]
    return sorted(tables, key=lambda each: -(each.bytes + each.index_bytes))


def _sum(shards: Sequence[TableSize]) -> TableSize:
    filled = [each for each in shards if each.live_rows]
    return TableSize(
        shards[0].name,
        rows=sum(max(each.rows, 0) for each in shards),
        bytes=sum(each.bytes for each in shards),
        index_bytes=sum(each.index_bytes for each in shards),
        live_rows=sum(each.live_rows for each in shards),
        dead_rows=sum(each.dead_rows for each in shards),
        changed_rows=sum(each.changed_rows for each in shards),
        has_statistics=all(each.has_statistics for each in filled),
        vacuumed_at=min(filter(None, (each.vacuumed_at for each in shards)), default=None),
        analyzed_at=min(filter(None, (each.analyzed_at for each in shards)), default=None),
    )


def _read_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _read_indexes(conn: psycopg.Connection) -> list[IndexSize]:
    """Like `_read_tables`."""
    indexes = {each.name: each for each in _rows(conn, IndexSize, SQL.list_indexes)}
    for row in rows_of_shards(conn, SQL.list_indexes):
        name, _, _ = row["name"].rpartition("_")
        known = indexes.get(name, IndexSize(name, row["table"], 0, 0))
        indexes[name] = known._replace(bytes=known.bytes + row["bytes"], scans=known.scans + row["scans"])
    return sorted(indexes.values(), key=lambda each: (-each.bytes, each.name))


def _lost_workers(conn: psycopg.Connection) -> Iterator[Finding]:
    for worker in list_workers(conn):
        if not worker.answers:
            text = f"the worker {worker.address} does not answer: its sessions cannot be read or written"
            yield Finding("worker", text, _sql("SELECT * FROM citus_check_cluster_node_health()"))


def _read_statements(conn: psycopg.Connection) -> list[Statement] | None:
    if not _one(conn, SQL.has_statement_statistics):
        return None
    try:
        return _rows(conn, Statement, SQL.list_slowest_statements)
    except ObjectNotInPrerequisiteState:  # the library is not loaded
        return None


def _dead_rows(_: psycopg.Connection, diagnosis: Diagnosis, limits: Limits) -> Iterator[Finding]:
    for table in diagnosis.tables:
        stored = table.live_rows + table.dead_rows
        if stored >= limits.rows and table.dead_rows > limits.dead_share * stored:
            share = f"{table.dead_rows / stored:.0%}"
            yield Finding("dead_rows", f"{share} of the rows of {table.name} are deleted ones", _VACUUM)


def _statistics(_: psycopg.Connection, diagnosis: Diagnosis, limits: Limits) -> Iterator[Finding]:
    for table in diagnosis.tables:
        if table.live_rows < limits.rows:
            continue
        if not table.has_statistics:
            yield Finding("no_statistics", f"PostgreSQL has no statistics about {table.name}", _VACUUM)
        elif table.changed_rows > limits.changed_share * table.live_rows:
            share = f"{table.changed_rows / table.live_rows:.0%}"
            text = f"{share} of the rows of {table.name} changed since its statistics were gathered"
            yield Finding("stale_statistics", text, _VACUUM)


def _outdated(conn: psycopg.Connection, _: Diagnosis, __: Limits) -> Iterator[Finding]:
    for code, query, version, what in (
        ("outdated_messages", SQL.count_outdated_messages, PARSER_VERSION, "parser"),
        ("outdated_events", SQL.count_outdated_events, NORMALIZER_VERSION, "normaliser"),
    ):
        if count := _one(conn, query, [version]):
            text = f"{count:,} of the sessions were read by an older {what} than version {version}"
            yield Finding(code, text, "ash reindex")


def _search_lag(_: psycopg.Connection, diagnosis: Diagnosis, limits: Limits) -> Iterator[Finding]:
    if diagnosis.pending_events >= limits.pending_events:
        text = f"searches do not find {diagnosis.pending_events:,} events yet"
        yield Finding("search_lag", text, "ash reindex")


def _followers(conn: psycopg.Connection, diagnosis: Diagnosis, limits: Limits) -> Iterator[Finding]:
    for each in diagnosis.followers:
        if each.state != "streaming" or each.lag_bytes > limits.follower_bytes:
            text = f"the follower {each.name} ({each.state}) is {each.lag_bytes / _MB:,.0f} MB behind"
            yield Finding("follower_lag", text, _sql("SELECT * FROM pg_stat_replication"))
    if _one(conn, SQL.is_follower):
        return
    for name, size in conn.execute(SQL.list_unused_slots).fetchall():
        text = f"no follower uses the slot {name}, which keeps {size / _MB:,.0f} MB of the log"
        yield Finding("unused_slot", text, _sql(f"SELECT pg_drop_replication_slot('{name}')"))


def _replica(primary: psycopg.Connection, url: str) -> Iterator[Finding]:
    try:
        with connect_command(url) as replica:
            mismatch = _state(replica).mismatch(_state(primary))
    except psycopg.Error as error:
        is_refused = isinstance(error, InsufficientPrivilege)
        problem = f"cannot be compared with the primary ({error})" if is_refused else "does not answer"
    else:
        if mismatch is None:
            return
        problem = f"is not read, since {MISMATCHES[mismatch]}"
    text = f"the replica at ASH_READ_URL {problem}: reads go to the primary"
    yield Finding("replica", text, 'psql "$ASH_READ_URL" -c "SELECT pg_is_in_recovery()"')


def _state(conn: psycopg.Connection) -> ServerState:
    (row,) = conn.execute(replication.SQL.get_server_state).fetchall()
    return ServerState.from_row(row)


def _settings(conn: psycopg.Connection, diagnosis: Diagnosis, limits: Limits) -> Iterator[Finding]:
    names = [*_MUST_BE_ON, "shared_buffers"]
    values: dict[str, str] = dict(conn.execute(SQL.list_settings, [names]).fetchall())
    for name, consequence in _MUST_BE_ON.items():
        if values[name] == "off":
            yield Finding("setting", f"{name} is off: {consequence}", _sql(f"ALTER SYSTEM SET {name} = on"))
    pages = int(values["shared_buffers"])
    if pages <= _DEFAULT_CACHE_PAGES and diagnosis.bytes > limits.bytes_of_small_cache:
        text = f"shared_buffers has its default of 128 MB for {diagnosis.bytes / _MB:,.0f} MB of data"
        remedy = _sql("ALTER SYSTEM SET shared_buffers = '1GB'")
        yield Finding("setting", f"{text}: use a quarter of the memory, and restart PostgreSQL", remedy)


def _sql(statement: str) -> str:
    return f'psql "$(ash db url)" -c "{statement}"'


_VACUUM = "ash db vacuum --online"
_DEFAULT_CACHE_PAGES = 128 * _MB // 8192
_MUST_BE_ON = {
    "autovacuum": "deleted rows and old statistics stay",
    "track_counts": "autovacuum does not work",
    "fsync": "a crash of the machine may destroy the database",
    "full_page_writes": "a crash of the machine may destroy the database",
    "synchronous_commit": "a crash loses messages that were acknowledged",
}
_CHECKS: tuple[Check, ...] = (
    _outdated,
    _search_lag,
    _dead_rows,
    _statistics,
    _followers,
    _settings,
)


def _rows(conn: psycopg.Connection, kind: Callable[..., Any], query: str) -> list[Any]:
    with conn.cursor(row_factory=args_row(kind)) as cursor:
        return cursor.execute(query).fetchall()


def _one(conn: psycopg.Connection, query: str, parameters: Any = None) -> Any:
    return conn.execute(query, parameters).fetchall()[0][0]
