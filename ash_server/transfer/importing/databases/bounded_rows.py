"""Rows of SQLite tables that fit into a line. Larger rows are never loaded.

The length of a text is known only when SQLite has loaded it, so its own limit refuses values that are too long, and one
row is read at a time.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ash_server.transfer.importing.lines import MAX_LINE_BYTES


class BoundedRow(NamedTuple):
    values: Mapping[str, Any]
    """By column; only the values that identify the row if it is too large."""
    size: int
    """The least size in bytes of its line."""

    def extended(self, **columns: Any) -> "BoundedRow":
        return self._replace(values={**self.values, **columns})

    @property
    def is_too_large(self) -> bool:
        return self.size > MAX_LINE_BYTES


class BoundedTable:
    """Reads rows of a table by their ids."""

    def __init__(self, connection: sqlite3.Connection, name: str, key: Sequence[str]) -> None:
        """Raises sqlite3.Error. The key is used if the table has no row ids."""
        self._connection = connection
        self._name = name
        self.key = key
        cursor = connection.execute(f"SELECT * FROM {name} LIMIT 0")  # noqa: S608  # our name
        self.columns = [column for column, *_ in cursor.description]
        """With generated columns."""
        self.row_id = self._row_id()
        """The name of the row ids; None if the table has none."""
        self._id, self._condition = (self.row_id, f"{self.row_id} = ?") if self.row_id else _by_key(key)
        self._sizes = ", ".join(map(_size_of, self.columns))

    def select(self, clauses: str, values: Sequence[Any] = ()) -> Iterator[BoundedRow]:
        """Yield the rows that match clauses in SQL, in their order. Raises sqlite3.Error, also for a damaged index."""
        query = f"SELECT {self._id} FROM {self._name} {clauses}"  # noqa: S608  # our names, or quoted
        yield from map(self._read, self._connection.execute(query, values))

    def _row_id(self) -> str | None:
        """Return a name of the row ids that is no column; None if the table has no row ids."""
        columns = {column.lower() for column in self.columns}
        name = next((each for each in ("_rowid_", "rowid", "oid") if each not in columns), None)
        try:
            self._connection.execute(f"SELECT {name} FROM {self._name} LIMIT 0")  # noqa: S608  # our names
        except sqlite3.OperationalError:
            return None
        return name

    def _read(self, id: tuple[Any, ...]) -> BoundedRow:
        try:
            size = sum(filter(None, self._row(self._sizes, id)))
        except sqlite3.DataError:  # a value is above the limit of the connection
            size = MAX_LINE_BYTES + 1
        if size > MAX_LINE_BYTES:
            names = [name for name in self.columns if name in {*self.key, *_LINKS}]
            values = {name: value for name in names if (value := self._small_value(name, id)) is not None}
            return BoundedRow(values, size)
        return BoundedRow(dict(zip(self.columns, self._row("*", id), strict=True)), size)

    def _small_value(self, name: str, id: tuple[Any, ...]) -> Any:
        try:
            [size], [value] = self._row(_size_of(name), id), self._row(quoted(name), id)
        except sqlite3.DataError:
            return None
        return value if (size or 0) <= _MAX_ID_BYTES else None

    def _row(self, expressions: str, id: tuple[Any, ...]) -> tuple[Any, ...]:
        query = f"SELECT {expressions} FROM {self._name} WHERE {self._condition}"  # noqa: S608  # our names, or quoted
        row: tuple[Any, ...] | None = self._connection.execute(query, id).fetchone()
        if row is None:
            raise sqlite3.DatabaseError(f"an index has a row that the table {self._name} lacks")
        return row


def _by_key(key: Sequence[str]) -> tuple[str, str]:
    """Return the expressions that identify a row, and the condition that finds it by their values.

    Python has a text that is not UTF-8 as bytes, like a blob.
    """
    names = [*map(quoted, key)]
    columns = ", ".join(f"{name}, {name}, typeof({name})" for name in names)
    return columns, " AND ".join(f"{name} IN (?, CAST(? AS TEXT)) AND typeof({name}) = ?" for name in names)


_LINKS = ("id", "idx", "project_id")
_MAX_ID_BYTES = 1024


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL: a key has the names of the database."""
    return '"{}"'.format(name.replace('"', '""'))


def _size_of(column: str) -> str:
    """Return an expression for the least size of a value in a line. SQLite measures a blob without loading it."""
    name = quoted(column)
    return (
        f"CASE typeof({name}) WHEN 'blob' THEN (length({name}) + 2) / 3 * 4"
        f" ELSE length(CAST({name} AS BLOB)) END"
    )
