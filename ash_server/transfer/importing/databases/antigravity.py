"""The lines of a conversation of Antigravity: its transcript with the usage from its database.

A row of the database is a line of JSON, directly after the step that it describes, so that its usage counts for the
right turn. A changed row is another line. Lines of the transcript have the same ids as without a database.
"""

import sqlite3
from collections.abc import Iterator
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.bounded_rows import BoundedRow, BoundedTable
from ash_server.transfer.importing.databases.conversation_files import ConversationFiles
from ash_server.transfer.importing.databases.row_lines import (
    digest,
    encode_row,
    named_line,
    to_json,
    unread_line,
)
from ash_server.transfer.importing.databases.sqlite_snapshot import open_snapshot
from ash_server.transfer.importing.lines import FileLine, read_file
from ash_shared.providers.antigravity.database import read_generation

SOURCE = "antigravity"

_MAX_HISTORY_BYTES = 64 * 1024 * 1024


class _Row(NamedTuple):
    step: float
    """The index of the step that the row belongs to."""
    line: FileLine


class ConversationLines:
    """Reads a conversation; all readings use one copy of the database."""

    def __init__(self, files: ConversationFiles, access: FileAccess = ANY_FILE) -> None:
        self._files = files
        self._access = access
        self._transcript = files.transcript

    def read(self) -> Iterator[FileLine]:
        """Yield the line of the history, the steps, and each row after its step. Raises OSError."""
        yield from self._history
        rows = iter(self._rows)
        row = next(rows, None)
        for line in self._steps():
            index = _step_index(line)
            while row is not None and index is not None and row.step < index:
                yield row.line
                row = next(rows, None)
            yield line
        if row is not None:
            yield row.line
        yield from (row.line for row in rows)

    def _steps(self) -> Iterator[FileLine]:
        return iter(()) if self._transcript is None else read_file(self._transcript, access=self._access)

    @cached_property
    def _rows(self) -> list[_Row]:
        """The rows with the usage; without a transcript also the steps, although their content is not readable."""
        tables = ("gen_metadata",) if self._transcript else ("steps", "gen_metadata")
        try:
            with open_snapshot(self._files.database, self._access) as database:
                rows = [row for table in tables for row in _read_table(database, table)]
        except OSError:
            if self._transcript is None:
                raise
            return []  # absent, damaged, or not to be read: the steps do not depend on it
        return sorted(rows, key=lambda row: row.step)

    @cached_property
    def _history(self) -> list[FileLine]:
        """The first line of the history that names the conversation: it has the working folder."""
        try:
            with self._access.open(self._files.history) as file:
                lines = file.read(_MAX_HISTORY_BYTES).splitlines()
        except OSError:
            return []
        id = self._files.id
        named = (line for line in lines if id.encode() in line and _decode(line).conversation == id)
        return [_line("history", line) for line in named][:1]


class _Keys(msgspec.Struct):
    """The keys that place a step, or a line of the history."""

    step_index: Any = None
    conversation: Any = msgspec.field(default=None, name="conversationId")


_decoder = msgspec.json.Decoder(_Keys)


def _decode(line: bytes) -> _Keys:
    try:
        return _decoder.decode(line)
    except (ValueError, RecursionError):
        return _Keys()


def _step_index(line: FileLine) -> int | None:
    index = _decode(line.data or b"").step_index
    return index if isinstance(index, int) else None


def _read_table(database: sqlite3.Connection, table: str) -> list[_Row]:
    """Return the rows of a table; none if this version of the program has no such table."""
    try:
        rows = BoundedTable(database, table, ["idx"]).select("ORDER BY idx")
        return [_to_row(table, row) for row in rows]
    except sqlite3.Error:
        return []


def _to_row(table: str, row: BoundedRow) -> _Row:
    index, data = row.values.get("idx"), row.values.get("data")
    key, place = to_json(index), index if isinstance(index, int | float) else inf
    if row.is_too_large:
        return _Row(place, unread_line(f"{table}/{key}", row.size))
    step = None
    if table == "gen_metadata" and isinstance(data, bytes):
        step = read_generation(data).step_index
    text = encode_row(table, key, {name: to_json(value) for name, value in row.values.items()})
    return _Row(place if step is None else step, _line(f"{table}/{key}", text))


def _line(name: str, text: bytes) -> FileLine:
    """Return a line with a name that depends on its text, because the program may change it."""
    return named_line(f"{name}@{digest(text)}", text)
