"""The rows of a session in a database, each as one line of JSON.

The columns have the order of the table; `row_lines` describes the values.

Rows change in place. The first version of a row is a message named after its table and key, and each later version
another one, with a digest in its name. What OpenCode has deleted stays stored.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice, tee
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.bounded_rows import BoundedRow, BoundedTable, quoted
from ash_server.transfer.importing.databases.row_lines import (
    digest,
    encode,
    encode_row,
    named_line,
    to_json,
    unread_line,
)
from ash_server.transfer.importing.databases.sessions import open_session, reading
from ash_server.transfer.importing.databases.sqlite_snapshot import columns_of
from ash_server.transfer.importing.databases.store_types import SessionDatabase
from ash_server.transfer.importing.lines import FileLine, batched

SOURCE = "opencode"


class RowLine(NamedTuple):
    """A row, and the name of this version of it."""

    line: FileLine
    """Named after the table and key."""
    version: FileLine
    """The same text, with a digest in its name."""


def read_lines(path: Path, access: FileAccess = ANY_FILE) -> Iterator[FileLine]:
    """Yield the rows of the session at a path below its database. Raises OSError."""
    return (row.line for row in read_rows(path, access))


def read_rows(path: Path, access: FileAccess = ANY_FILE) -> Iterator[RowLine]:
    """Yield the rows of a session in the order of its store. Raises OSError."""
    with open_session(path, access) as (connection, store), reading(path):
        rows = DatabaseRows(connection, store)
        for table, row in rows.session(path.name):
            yield _to_line(rows, table, row)


def batched_rows(rows: Iterator[RowLine]) -> Iterator[list[RowLine]]:
    """Group rows into lists limited in count and in bytes."""
    rows, copy = tee(rows)
    for batch in batched(row.line for row in copy):
        yield list(islice(rows, len(batch)))


def session_name(id: str) -> str:
    """Return the name of the row of a session."""
    return f"session/{id}"


def file_name(path: Path, access: FileAccess = ANY_FILE) -> str:
    """Return the name that the file of a session has in the storage of earlier versions. Raises OSError."""
    with open_session(path, access) as (connection, store), reading(path):
        rows = DatabaseRows(connection, store).select("session", id=path.name)
        return "".join(f"session/{row.values.get('project_id')}/{path.name}.json" for row in rows)


class DatabaseRows:
    """Queries of tables that may lack columns, or be absent."""

    def __init__(self, connection: sqlite3.Connection, store: SessionDatabase) -> None:
        self._connection = connection
        self.store = store
        self._tables: dict[str, BoundedTable | None] = {}

    def select(self, table: str, condition: str = "", **values: Any) -> Iterator[BoundedRow]:
        """Yield the rows with these values, and with the condition in SQL, in order."""
        rows = self.table(table)
        if rows is None or not values.keys() <= {*rows.columns}:
            return
        # A table without row ids has a key. Rows with equal values have the order of their insertion.
        orders = self.store.orders.get(table, ())
        order = [name for name in orders if name in rows.columns] or [*rows.key]
        order += [rows.row_id] if rows.row_id else []
        where = " AND ".join([*(f"{name} = ?" for name in values), condition or "1"])
        by = ", ".join(map(quoted, order))
        yield from rows.select(f"WHERE {where} ORDER BY {by}", [*values.values()])

    def session(self, id: str) -> Iterator[tuple[str, BoundedRow]]:
        """Yield the rows of a session, in order, each with the name of its table."""
        yield from self.store.select(self, id)  # type: ignore[misc]  # the rows that `select` yields

    def table(self, name: str) -> BoundedTable | None:
        if name not in self._tables:
            columns = columns_of(self._connection, name)
            key = [column for column, position in sorted(columns, key=itemgetter(1)) if position]
            key = key or [column for column, _ in columns if column == self.store.keys.get(name)]
            self._tables[name] = BoundedTable(self._connection, name, key) if columns else None
        return self._tables[name]


def _to_line(rows: DatabaseRows, table: str, row: BoundedRow) -> RowLine:
    columns = {name: to_json(value) for name, value in rows.store.read_values(row.values).items()}
    bounded = rows.table(table)
    key = [columns.get(name) for name in bounded.key] if bounded else []
    name = "/".join((table, *map(str, key)))
    if row.is_too_large:
        line = unread_line(name, row.size)
        return RowLine(line, line)
    text = encode_row(table, key[0] if len(key) == 1 else key, columns)
    lasting = rows.store.lasting(table, columns)
    if lasting is not None:
        name = f"{name}@{digest(encode(lasting))}"
        return RowLine(named_line(name, text), named_line(name, text))
    return RowLine(named_line(name, text), named_line(f"{name}@{digest(text)}", text))


def without_ids(text: str | bytes | None) -> str | None:
    """Return the content of a message or part, the same for a row and for a file of earlier versions; else None.

    OpenCode 1.2 has moved the files into rows: the ids into columns, and the rest into `data`.
    """
    try:
        record = msgspec.json.decode(text or b"")
        if isinstance(record, dict) and record.keys() == {"table", "key", "columns"}:
            if record["table"] not in ("message", "part"):
                return None
            return _content(record["key"], msgspec.json.decode(record["columns"]["data"]))
        return _content(record["id"], record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _content(id: Any, record: Mapping[str, Any]) -> str:
    content = {name: value for name, value in record.items() if name not in _IDS}
    return digest(f"{id} {json.dumps(content, sort_keys=True)}".encode())


_IDS = ("id", "messageID", "sessionID")
