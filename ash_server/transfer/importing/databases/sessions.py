"""The sessions in the database of a program, and snapshots that several readers share.

A path below the file stands for one session: `…/opencode.db/ses_…`. No such file exists, because a file has no files
below it, so paths, external ids and parents need no other form for these sessions.

All sessions of an import read one snapshot (`share_snapshots`). Tables with accounts, credentials and secrets of shares
are in the copy, but never read.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from errno import EINVAL, EIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ash_server.file_access import ANY_FILE, FileAccess, real_path
from ash_server.transfer.importing.databases.sqlite_snapshot import (
    columns_of,
    connect,
    is_database,
    private_folder,
    take_snapshot,
)
from ash_server.transfer.importing.databases.store_types import CountedTable, SessionDatabase
from ash_server.transfer.importing.databases.stores import STORES, name_of, store_in
from ash_shared.records.json_fields import to_milliseconds

_REST_PER_SECOND = 20
"""Seconds without another snapshot, per second that the last one took: a large database is copied less often."""


Stamps = tuple[tuple[int, int], ...]
"""Times and sizes, which change with files."""


class OtherDatabase(OSError):
    """The database of a program that Ash does not read."""


class StoredSession(NamedTuple):
    """Values that change with a session."""

    rows: int
    size: int
    """Characters in the texts."""
    updated_at: int
    """In milliseconds; 0 if the database has no times."""


class Snapshot(NamedTuple):
    copy: Path
    store: SessionDatabase
    sessions: Mapping[str, StoredSession]
    """By id, in order of the ids."""


def database_of(path: Path) -> Path | None:
    """Return the database of a session in it; None for other paths."""
    return path.parent if path.parent.is_file() else None


def expand(path: Path, access: FileAccess = ANY_FILE) -> list[Path]:
    """Return the sessions in a database; any other path by itself. Raises OSError."""
    if not is_database(path, access):
        return [path]
    with open_snapshot_of(path, access) as snapshot:
        return [path / id for id in snapshot.sessions]


def stored_session(path: Path, access: FileAccess = ANY_FILE) -> StoredSession:
    """Raises OSError."""
    with open_snapshot_of(path.parent, access) as snapshot:
        return _find(path, snapshot)


def source_of(path: Path, access: FileAccess = ANY_FILE) -> str:
    """Return the format of the session at a path. Raises OSError."""
    with open_snapshot_of(path.parent, access) as snapshot:
        return snapshot.store.source


@contextmanager
def open_session(
    path: Path, access: FileAccess = ANY_FILE
) -> Iterator[tuple[sqlite3.Connection, SessionDatabase]]:
    """Open the snapshot with the session at a path. Raises OSError."""
    with open_snapshot_of(path.parent, access) as snapshot:
        _find(path, snapshot)
        with reading(path), closing(connect(snapshot.copy)) as connection:
            yield connection, snapshot.store


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise OSError for an error of SQLite."""
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(EIO, f"SQLite cannot read it: {error}", str(path)) from None


def _find(path: Path, snapshot: Snapshot) -> StoredSession:
    if path.name not in snapshot.sessions:
        raise OSError(EINVAL, f"no session {path.name} in the database", str(path.parent))
    return snapshot.sessions[path.name]


class _SharedValue(NamedTuple):
    """Result of `read_once` for a database."""

    value: Any
    states: Stamps
    renewable_at: float


class _SharedSnapshot(NamedTuple):
    snapshot: Snapshot
    states: Stamps
    """Times and sizes of the program's files before the snapshot."""
    renewable_at: float


@dataclass
class SharedSnapshots:
    """One snapshot per database, until `renew`."""

    folder: Path
    snapshots: dict[Path, _SharedSnapshot] = field(default_factory=dict)
    values: dict[Path, _SharedValue] = field(default_factory=dict)
    version: int = 0
    """Changes with each `renew`."""

    def get(self, database: Path, access: FileAccess) -> Snapshot:
        """Raises OSError."""
        resolved = real_path(database)
        known = self.snapshots.get(resolved)
        if known is None or not known.snapshot.copy.exists():  # another process has renewed it
            start, states = time.monotonic(), _states(resolved)
            folder = self.folder / str(time.monotonic_ns())
            folder.mkdir()
            snapshot = _take(database, folder, access)
            end = time.monotonic()
            self.snapshots[resolved] = _SharedSnapshot(
                snapshot, states, end + (end - start) * _REST_PER_SECOND
            )
        return self.snapshots[resolved].snapshot

    def renew(self) -> None:
        """Forget the snapshots and values of databases that have changed."""
        now = time.monotonic()
        self.version += 1
        for database, shared in [*self.snapshots.items()]:
            if now >= shared.renewable_at and _states(database) != shared.states:
                shared.snapshot.copy.unlink(missing_ok=True)
                del self.snapshots[database]
        for database, value in [*self.values.items()]:
            if now >= value.renewable_at and _states(database) != value.states:
                del self.values[database]

    def replace(self, other: "SharedSnapshots") -> None:
        """Use what another process has now, also of what it has forgotten."""
        kept = {each.snapshot.copy for each in other.snapshots.values()}
        for each in self.snapshots.values():
            if each.snapshot.copy not in kept:
                each.snapshot.copy.unlink(missing_ok=True)
        self.snapshots, self.values = other.snapshots, other.values


_Value = TypeVar("_Value")

_shared: ContextVar[SharedSnapshots | None] = ContextVar("_shared", default=None)


@contextmanager
def share_snapshots(shared: SharedSnapshots | None = None) -> Iterator[SharedSnapshots]:
    """Take one snapshot per database within the block, or use the snapshots of another process."""
    current = shared or _shared.get()
    if current is not None:
        token = _shared.set(current)
        try:
            yield current
        finally:
            _shared.reset(token)
        return
    with private_folder() as folder, share_snapshots(SharedSnapshots(folder)) as current:
        yield current


def read_once(database: Path, read: Callable[[], _Value]) -> _Value:
    """Return what `read` returns, or returned before for the same database while snapshots are shared."""
    shared = _shared.get()
    if shared is None:
        return read()
    if database not in shared.values:
        start, states = time.monotonic(), _states(database)
        value, end = read(), time.monotonic()
        shared.values[database] = _SharedValue(value, states, end + (end - start) * _REST_PER_SECOND)
    known: _Value = shared.values[database].value
    return known


def read_once_or(default: _Value, database: Path, read: Callable[[], _Value]) -> _Value:
    """Read as `read_once`, but return `default` if the database cannot be read, which is tried again."""
    start, shared = time.monotonic(), _shared.get()
    try:
        return read_once(database, read)
    except (OSError, sqlite3.Error):
        if shared is not None:
            end = time.monotonic()
            shared.values[database] = _SharedValue(default, _UNREAD, end + (end - start) * _REST_PER_SECOND)
        return default


_UNREAD = ((0, -1),)
"""The states of no file, so that the value is renewed."""


def states_at_reading(database: Path) -> Stamps:
    """Return the times and sizes of a database when `read_once` read it; as they are now if it did not."""
    shared = _shared.get()
    value = None if shared is None else shared.values.get(database)
    return _states(database) if value is None else value.states


@contextmanager
def open_snapshot_of(database: Path, access: FileAccess) -> Iterator[Snapshot]:
    """Return the shared snapshot, or a temporary one. Raises OSError."""
    shared = _shared.get()
    if shared is not None:
        yield shared.get(database, access)
        return
    with private_folder() as folder:
        yield _take(database, folder, access)


def _take(database: Path, folder: Path, access: FileAccess) -> Snapshot:
    copy = take_snapshot(database, folder, access)
    with reading(database), closing(connect(copy)) as connection:
        store = store_in(connection)
        if store is None:
            programs = ", ".join(dict.fromkeys(each.name for each in STORES))
            raise OtherDatabase(
                EINVAL,
                f"Ash reads databases of {programs}, and this one is of another program",
                str(database),
            )
        return Snapshot(copy, store, _read_sessions(connection, store))


def _read_sessions(connection: sqlite3.Connection, store: SessionDatabase) -> dict[str, StoredSession]:
    sessions: dict[str, StoredSession] = {}
    for number, table in enumerate(store.counted):
        for id, *values in _sum_rows(connection, table):
            rows, size, updated_at = map(_to_integer, values)
            known = sessions.get(id) or StoredSession(0, 0, 0)
            if number == 0 and _is_name(id):
                sessions[id] = known
            if id in sessions:
                newest = max(known.updated_at, updated_at * table.milliseconds)
                sessions[id] = StoredSession(known.rows + rows, known.size + size, newest)
    return sessions


def _to_integer(value: Any) -> int:
    """Return a count, or a time in milliseconds; 0 for values that are neither. Fractions are of seconds."""
    return value if isinstance(value, int) else to_milliseconds(value) or 0


def _sum_rows(connection: sqlite3.Connection, table: CountedTable) -> list[tuple[Any, ...]]:
    """Return the count, the size and the last change of the rows of each session."""
    columns = {name for name, _ in columns_of(connection, table.name)}
    if not {table.owner, *table.scopes} <= columns:
        return []
    if table.sum_rows is not None:
        return table.sum_rows(connection)
    updated_at = next((each for each in table.times if each in columns), "0")
    for size in [f"length({table.size})", "0"] if table.size in columns else ["0"]:
        query = _SUM_ROWS.format(owner=name_of(table), size=size, updated_at=updated_at, table=table.name)
        with suppress(sqlite3.DataError):  # a text is too long to be measured
            return connection.execute(query).fetchall()
    return []


_SUM_ROWS = """
    SELECT owner, count(*), sum(size), max(updated_at)
    FROM (SELECT {owner} AS owner, {size} AS size, {updated_at} AS updated_at FROM {table} LIMIT -1)
    GROUP BY owner ORDER BY owner
"""
"""The limit keeps SQLite from sorting rows with their texts."""


def _is_name(id: object) -> bool:
    """True for an id that can be the last part of a path; ids were written by others."""
    return isinstance(id, str) and id not in ("", "..") and Path(id).name == id and "\0" not in id


def _states(database: Path) -> Stamps:
    """Return the times and sizes of a database and its log."""
    try:
        stats = [file.stat() for file in database_files(database)]
    except OSError:
        return ()
    return tuple((each.st_mtime_ns, each.st_size) for each in stats)


def database_files(database: Path) -> Iterator[Path]:
    """Yield the database, and its log if there is one."""
    yield database
    log = database.with_name(f"{database.name}-wal")
    if log.exists():
        yield log
