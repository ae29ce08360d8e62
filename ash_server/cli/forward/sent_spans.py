"""The spans that a backend has accepted, in a file of ASH_HOME, so that a restart continues after them."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from uuid import UUID

import rich_click as click

from ash_server.cli.watch.lock import locked

_TABLES = """
    CREATE TABLE IF NOT EXISTS states (session BLOB PRIMARY KEY, state TEXT) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS spans (session BLOB, span BLOB, PRIMARY KEY (session, span)) WITHOUT ROWID;
"""


class SentSpans:
    """The cursor of a forwarder. Each change is on disk when its method returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def states(self) -> dict[UUID, str]:
        """Return the last state of each session with no spans left to send."""
        rows = self._connection.execute("SELECT session, state FROM states")
        return {UUID(bytes=session): state for session, state in rows}

    def spans(self, session: UUID) -> set[str]:
        rows = self._connection.execute("SELECT span FROM spans WHERE session = ?", (session.bytes,))
        return {span.hex() for (span,) in rows}

    def add(self, session: UUID, spans: Iterable[str]) -> None:
        rows = [(session.bytes, bytes.fromhex(span)) for span in spans]
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO spans VALUES (?, ?)", rows)

    def set_state(self, session: UUID, state: str) -> None:
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (session.bytes, state))

    def forget(self) -> None:
        with self._connection:
            self._connection.execute("DELETE FROM states")
            self._connection.execute("DELETE FROM spans")


def cursor_path(home: Path, store: str, tenant: str, url: str) -> Path:
    """Return the path of the file for a store, a tenant and a backend."""
    name = blake2b(f"{store}\n{tenant}\n{url}".encode(), digest_size=8).hexdigest()
    return home / "forward" / f"{name}.sqlite"


@contextmanager
def open_cursor(path: Path) -> Iterator[SentSpans]:
    """Open or create the file. Raises ClickException if it cannot be used, or if another process uses it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Created here, so that only this user can read it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    lock = locked(path.with_suffix(".lock"), "another `ash forward` to this backend is running")
    try:
        with lock, closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_TABLES)
            yield SentSpans(connection)
    except sqlite3.Error as error:
        raise click.ClickException(
            f"{path}: {error}. Without this file, everything is sent again."
        ) from error
