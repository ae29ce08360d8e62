"""The files that `ash watch` has seen, in ASH_HOME: what is deleted while none watches can be reported later."""

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ash_server.cli.common.output.terminal import warn

_NAME = "watch.sqlite"
_TABLE = """
    CREATE TABLE IF NOT EXISTS files (
        target TEXT, path BLOB, size INTEGER, stored INTEGER, inode INTEGER, modified_at INTEGER,
        PRIMARY KEY (target, path)
    ) WITHOUT ROWID
"""


class SeenFile(NamedTuple):
    size: int
    """In bytes."""
    stored: int
    """Bytes that were stored."""
    inode: int
    modified_at: int


class SeenFiles:
    """The files seen for a store or a server. Without the file that they are in, watching continues."""

    def __init__(self, home: Path, target: str) -> None:
        self._target = target
        self._path = home / _NAME
        self._connection: sqlite3.Connection | None = None
        self._connection = self._open()

    def load(self) -> dict[Path, SeenFile]:
        if self._connection is None:
            return {}
        query = "SELECT path, size, stored, inode, modified_at FROM files WHERE target = ?"
        try:
            rows = self._connection.execute(query, (self._target,)).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return {}
        return {Path(os.fsdecode(path)): SeenFile(*values) for path, *values in rows}

    def save(self, files: Mapping[Path, SeenFile | None]) -> None:
        """Store what was seen of files; None forgets a file."""
        if self._connection is None or not files:
            return
        kept = [(self._target, os.fsencode(path), *each) for path, each in files.items() if each]
        gone = [(self._target, os.fsencode(path)) for path, each in files.items() if each is None]
        try:
            with self._connection:
                self._connection.executemany("DELETE FROM files WHERE target = ? AND path = ?", gone)
                self._connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", kept)
        except sqlite3.Error as error:
            self._give_up(error)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _open(self) -> sqlite3.Connection | None:
        try:
            # Created here, so that only this user can read the paths.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
            connection = sqlite3.connect(self._path, timeout=1)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a lost row costs a report, not a line
            connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)
            return None
        return connection

    def _give_up(self, error: Exception) -> None:
        warn(f"{self._path}: {error}; files deleted while none watches are not reported")
        self.close()
        self._connection = None
        with suppress(OSError):
            self._path.unlink()  # the next watcher begins a new one
