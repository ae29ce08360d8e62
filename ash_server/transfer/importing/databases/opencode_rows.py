"""The rows of an OpenCode session in its database, each as one line of JSON.

The columns have the order of the table; `row_lines` describes the values.

Rows change in place. The first version of a row is a message named after its table and key, and each later version
another one, with a digest in its name. What OpenCode has deleted stays stored.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from itertools import islice, tee
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.row_lines import digest, encode, encode_row, named_line, to_json
from ash_server.transfer.importing.databases.sessions import open_session, reading
from ash_server.transfer.importing.databases.sqlite_snapshot import columns_of
from ash_server.transfer.importing.lines import FileLine, batched

SOURCE = "opencode"

Values = Mapping[str, Any]


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
    """Yield the rows of a session in order: session, project, each message with its parts, to-dos. Raises OSError."""
    with open_session(path, access) as connection, reading(path):
        database = _Database(connection)
        for table, values in _select_session(database, path.name):
            yield database.to_line(table, values)


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
    with open_session(path, access) as connection, reading(path):
        rows = _Database(connection).select("session", id=path.name)
        return "".join(f"session/{row.get('project_id')}/{path.name}.json" for row in rows)


def _select_session(database: "_Database", id: str) -> Iterator[tuple[str, Values]]:
    for session in database.select("session", id=id):
        yield "session", session
        if (project := session.get("project_id")) is not None:
            yield from (("project", row) for row in database.select("project", id=project))
    for message in database.select("message", session_id=id):
        yield "message", message
        yield from (("part", row) for row in database.select("part", message_id=message["id"]))
    yield from (("part", row) for row in database.select("part", _WITHOUT_MESSAGE, session_id=id))
    for table in ("session_message", "session_input", "todo"):
        yield from ((table, row) for row in database.select(table, session_id=id))


_WITHOUT_MESSAGE = "message_id NOT IN (SELECT id FROM message WHERE message.session_id = part.session_id)"

_ORDERS: Mapping[str, tuple[str, ...]] = {
    "message": ("time_created", "id"),
    "part": ("id",),
    "session_message": ("seq", "id"),
    "session_input": ("admitted_seq", "id"),
    "todo": ("position",),
}


class _Database:
    """Queries of tables that may lack columns, or be absent."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tables: dict[str, _Table] = {}

    def select(self, table: str, condition: str = "", **values: Any) -> Iterator[Values]:
        """Yield the rows with these values, and with the condition in SQL, in order."""
        columns, key = self._table(table)
        if not values.keys() <= {*columns}:
            return
        # A table without row ids has a key.
        order = [name for name in _ORDERS.get(table, ()) if name in columns] or key or ["rowid"]
        where = " AND ".join(f"{name} = ?" for name in values)
        where += f" AND {condition}" if condition else ""
        by = ", ".join(map(_quoted, order))
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY {by}"  # noqa: S608  # our names, or quoted
        rows = self._connection.execute(query, [*values.values()])
        names = [name for name, *_ in rows.description]  # with generated columns
        for row in rows:
            yield dict(zip(names, row, strict=True))

    def to_line(self, table: str, values: Values) -> RowLine:
        columns = {name: to_json(value) for name, value in values.items()}
        key = [columns[name] for name in self._table(table).key]
        text = encode_row(table, key[0] if len(key) == 1 else key, columns)
        name = "/".join((table, *map(str, key)))
        if table == "project":  # of many sessions, and rewritten at each start of OpenCode
            lasting = {name: value for name, value in columns.items() if not name.startswith("time_")}
            name = f"{name}@{digest(encode(lasting))}"
            return RowLine(named_line(name, text), named_line(name, text))
        return RowLine(named_line(name, text), named_line(f"{name}@{digest(text)}", text))

    def _table(self, name: str) -> "_Table":
        if name not in self._tables:
            columns = columns_of(self._connection, name)
            key = sorted((position, column) for column, position in columns if position)
            self._tables[name] = _Table([column for column, _ in columns], [column for _, column in key])
        return self._tables[name]


def _quoted(name: str) -> str:
    """Return a name as an identifier of SQL: a key has the names of the database."""
    return '"{}"'.format(name.replace('"', '""'))


class _Table(NamedTuple):
    columns: list[str]
    key: list[str]


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
