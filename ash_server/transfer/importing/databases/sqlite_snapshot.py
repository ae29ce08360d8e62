"""Private copies of SQLite files that other programs are using.

A program never waits for Ash, and its files do not change. SQLite itself would create, lock and rewrite files beside a
database that it only reads, so the way of copying depends on these files:

- With a write-ahead log (`-wal`) and its index (`-shm`), a read transaction sees one state while the program writes.
- With a log and no index, a reader would create the index. The files are copied, and the copy is recovered.
- Without a log, each reader locks out writers. The files are copied while the program rests. If it never does, the
  backup interface reads in steps, each with a lock of about a millisecond. A write in between starts it again, with
  longer steps after some time.

`immutable` is used for finished copies only: SQLite then ignores the log.
"""

import fcntl
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from errno import EAGAIN, EINVAL, EIO
from io import FileIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import NamedTuple

from ash_server.file_access import ANY_FILE, FileAccess, real_path

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_READ_VERSION = 19
"""Offset in the header: 2 for a database with a write-ahead log."""

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""Longer values are never loaded, because no line is longer."""

_PAGES_PER_STEP = 64
"""At most 256 KiB with pages of the usual size; twice as many after each failed attempt."""
_MAX_RESTARTS = 10
_MAX_ATTEMPTS = 20
_ATTEMPTS_WITHOUT_LOCK = 4
_PAUSE_SECONDS = 0.05

_PREFIX = "ash-sqlite-"
_NEW_SECONDS = 10 * 60
"""Time in which a folder without a lock is kept: its process has just created it."""

_REST_SECONDS = 0.1
"""Time since the last write after which another one changes the time of the file: a clock tick is shorter."""


class _Restless(Exception):
    """The program changed its files while they were copied."""


def is_database(path: Path, access: FileAccess = ANY_FILE) -> bool:
    """True for a regular file with the header of SQLite that may be read."""
    try:
        with access.open(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:  # reported when it is imported
        return False


COMPANION_SUFFIXES = ("-wal", "-shm", "-journal")


def companions(database: Path) -> list[Path]:
    """Return the paths of the files that SQLite may have beside a database, which may be a link."""
    return [_beside(real_path(database), suffix) for suffix in COMPANION_SUFFIXES]


@contextmanager
def open_snapshot(path: Path, access: FileAccess = ANY_FILE) -> Iterator[sqlite3.Connection]:
    """Open a temporary copy of a database as it is now, read-only. Raises OSError."""
    with private_folder() as folder, closing(connect(take_snapshot(path, folder, access))) as connection:
        yield connection


@contextmanager
def private_folder() -> Iterator[Path]:
    """Create a temporary folder that only this user can read, and delete those that killed processes have left."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, in use, or deleted meanwhile
            if time.time() - folder.lstat().st_mtime > _NEW_SECONDS:
                with _locked(folder):
                    shutil.rmtree(folder)
    with TemporaryDirectory(prefix=_PREFIX) as name, ExitStack() as lock:
        with suppress(OSError):  # a file system without locks
            lock.enter_context(_locked(Path(name)))
        yield Path(name)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder until the process ends. Raises BlockingIOError if another process uses it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def connect(copy: Path) -> sqlite3.Connection:
    """Open a finished copy. Texts that are not UTF-8 are read as bytes; longer values raise sqlite3.DataError."""
    connection = sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = _decode
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    return connection


def _decode(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def columns_of(connection: sqlite3.Connection, table: str) -> list[tuple[str, int]]:
    """Return the columns of a table, each with its place in the primary key, from 1, or 0.

    Empty without such a table; views and virtual tables are none, because they run what their author has written.
    """
    query = """
        SELECT name, pk FROM pragma_table_info(:table)
        WHERE EXISTS (
            SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table AND sql LIKE 'CREATE TABLE%'
        )
    """
    return connection.execute(query, {"table": table}).fetchall()


def take_snapshot(path: Path, folder: Path, access: FileAccess = ANY_FILE) -> Path:
    """Copy a database, with everything committed before, into a private folder, and return the path of the copy.

    Raises OSError, with EAGAIN if the program writes without a pause to a database that has no write-ahead log.
    """
    database, copy = real_path(path), folder / path.name
    # A buffer would keep the first page of an earlier attempt, and the copy would be a mixture of two states.
    with access.open(path) as opened, open(opened.fileno(), "rb", buffering=0, closefd=False) as file:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                _copy(database, file, copy, access, attempt)
            except (_Restless, FileNotFoundError):  # or the program has just deleted its log or journal
                _remove(copy)
                time.sleep(_PAUSE_SECONDS)
            except sqlite3.Error as error:
                raise OSError(EIO, f"SQLite cannot read it: {error}", str(path)) from None
            else:
                return copy
    raise OSError(EAGAIN, "is being written all the time; try again later", str(path))


def _copy(database: Path, file: FileIO, copy: Path, access: FileAccess, attempt: int) -> None:
    """Raises _Restless, sqlite3.Error, OSError."""
    file.seek(0)
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise OSError(EINVAL, "not an SQLite database", str(database))
    has_log = header[_READ_VERSION] == 2  # the format's number
    _check_companions(database, access)
    is_shared = has_log and _beside(database, "-shm").exists()
    may_lock = not has_log and attempt >= _ATTEMPTS_WITHOUT_LOCK
    if is_shared or may_lock:
        pages = _PAGES_PER_STEP << max(0, attempt - _ATTEMPTS_WITHOUT_LOCK)
        try:
            _back_up(database, file, copy, pages, in_transaction=has_log)
        except sqlite3.OperationalError:  # the program has just opened or closed it, or has crashed
            _remove(copy)
            _copy_files(database, file, copy, access)
    else:
        _copy_files(database, file, copy, access)
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchall()  # of the copy, which becomes one file


def _back_up(database: Path, file: FileIO, copy: Path, pages: int, *, in_transaction: bool) -> None:
    uri = f"{database.as_uri()}?mode=ro&readonly_shm=1"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=_PAUSE_SECONDS, isolation_level=None)) as source,
        closing(sqlite3.connect(copy, isolation_level=None)) as target,
    ):
        if in_transaction:
            source.execute("BEGIN")
        source.execute("SELECT 1 FROM sqlite_master").fetchone()
        if not os.path.samestat(os.stat(database), os.fstat(file.fileno())):
            raise _Restless
        source.backup(target, pages=pages, progress=_Progress(), sleep=_PAUSE_SECONDS)


class _Progress:
    """Ends a backup that the program keeps locked, or starts again too often."""

    def __init__(self) -> None:
        self._restarts = 0
        self._remaining: int | None = None

    def __call__(self, status: int, remaining: int, total: int) -> None:
        has_grown = self._remaining is not None and remaining >= self._remaining
        self._restarts += has_grown
        self._remaining = remaining
        if self._restarts > _MAX_RESTARTS:
            raise _Restless


def _copy_files(database: Path, file: FileIO, copy: Path, access: FileAccess) -> None:
    """Copy a database that no program is writing, with its log or journal. Raises _Restless for any other."""
    before = _states(database)
    if any(state and 0 <= time.time() - state.modified_at < _REST_SECONDS for state in before.values()):
        raise _Restless
    file.seek(0)
    with open(copy, "xb") as target:
        shutil.copyfileobj(file, target)
    for suffix in ("-wal", "-journal"):
        if before[suffix]:
            with access.open(_beside(database, suffix)) as log, open(_beside(copy, suffix), "xb") as target:
                shutil.copyfileobj(log, target)
    if _states(database) != before or not os.path.samestat(os.stat(database), os.fstat(file.fileno())):
        raise _Restless


class _State(NamedTuple):
    """Values that change with each write."""

    file: int
    size: int
    modified_at: float


def _states(database: Path) -> dict[str, _State | None]:
    return {suffix: _state(_beside(database, suffix)) for suffix in ("", "-wal", "-journal", "-shm")}


def _state(path: Path) -> _State | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _State(status.st_ino, status.st_size, status.st_mtime)


def _check_companions(database: Path, access: FileAccess) -> None:
    """Check the files that SQLite opens with the database."""
    for path in companions(database):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(mode):
            raise OSError(EINVAL, "is a link, which SQLite does not follow", str(path))
        access.open(path).close()


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)


def _remove(copy: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        _beside(copy, suffix).unlink(missing_ok=True)
