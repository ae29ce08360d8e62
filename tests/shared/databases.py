"""The rows of SQLite files as lines, in the order of an import."""

import json
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from zstandard import ZstdDecompressor

Line = str
Row = dict[str, Any]

_KEYS = {"todo": ("session_id", "position")}
"""Primary keys other than `id`."""


def row_line(table: str, columns: Row) -> Line:
    """Return the line of a row of a database."""
    names = _KEYS.get(table, ("id",))
    key = columns["id"] if names == ("id",) else [columns[name] for name in names]
    return json.dumps({"table": table, "key": key, "columns": dict(columns)}, ensure_ascii=False)


def sessions_of(database: Path) -> Iterator[tuple[Row, list[Line]]]:
    """Yield the row and the lines of each session; nothing for the databases of other programs.

    The file is copied: SQLite may write next to it. A database as SQL is created.
    """
    with TemporaryDirectory() as folder:
        is_text = database.suffix == ".sql"
        copy = Path(folder) / database.name if is_text else shutil.copy(database, folder)
        with closing(sqlite3.connect(copy)) as connection:
            connection.executescript(database.read_text() if is_text else "")
            connection.row_factory = sqlite3.Row
            tables = [row["name"] for row in _select(connection, "sqlite_master", "type = 'table'")]
            sessions = "1 ORDER BY time_created, id"
            for session in _select(connection, "session", sessions) if "session" in tables else ():
                yield session, [row_line(table, row) for table, row in _rows_of(connection, session)]
            for row in _select(connection, "conversations_v2", "1") if "conversations_v2" in tables else ():
                yield row, [_kiro_line(row)]
            if "responses" in tables:
                yield from _llm_sessions(connection, tables)
                return
            for row in _select(connection, "threads", "1") if "threads" in tables else ():
                yield row, [row_line("threads", _with_text(row))]
            if "app_states" in tables:
                for session in _select(connection, "sessions", "1"):
                    yield session, [*_adk_lines(connection, session)]
                return
            for session in _select(connection, "sessions", "1") if "sessions" in tables else ():
                yield (
                    session,
                    [row_line(table, row) for table, row in _session_rows(connection, tables, session)],
                )


def _rows_of(connection: sqlite3.Connection, session: Row) -> Iterator[tuple[str, Row]]:
    id = session["id"]
    yield "session", session
    yield from (("project", row) for row in _select(connection, "project", "id = ?", session["project_id"]))
    for message in _select(connection, "message", "session_id = ? ORDER BY time_created, id", id):
        yield "message", message
        yield from (
            ("part", row) for row in _select(connection, "part", "message_id = ? ORDER BY id", message["id"])
        )
    yield from (("todo", row) for row in _select(connection, "todo", "session_id = ? ORDER BY position", id))


def _kiro_line(row: Row) -> Line:
    key = [row["key"], row["conversation_id"]]
    return json.dumps({"table": "conversations_v2", "key": key, "columns": dict(row)}, ensure_ascii=False)


def _adk_lines(connection: sqlite3.Connection, session: Row) -> Iterator[Line]:
    place = [session["app_name"], session["user_id"], session["id"]]
    yield json.dumps({"table": "sessions", "key": place, "columns": dict(session)}, ensure_ascii=False)
    condition = "app_name = ? AND user_id = ? AND session_id = ? ORDER BY timestamp, rowid"
    for row in _select(connection, "events", condition, *place):
        columns = {
            name: {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value
            for name, value in row.items()
        }
        key = [*place, row["id"]]
        yield json.dumps({"table": "events", "key": key, "columns": columns}, ensure_ascii=False)


def _llm_sessions(connection: sqlite3.Connection, tables: list[str]) -> Iterator[tuple[Row, list[Line]]]:
    """Yield the sessions of `llm`: its threads, and the conversations of earlier versions."""

    def select(table: str, condition: str, *values: Any) -> list[Row]:
        return _select(connection, table, condition, *values) if table in tables else []

    for thread in select("threads", "1 ORDER BY id"):
        yield thread, [row_line("threads", thread), *_llm_messages(select, thread)]
    for conversation in select("conversations", "1 ORDER BY id"):
        yield conversation, [row_line("conversations", conversation), *_llm_responses(select, conversation)]


def _llm_messages(select: Callable[..., list[Row]], thread: Row) -> list[Line]:
    """Return the messages of a thread, which refer to the previous ones."""
    lines, hash, time = list[Line](), thread["tip_message_hash"], None
    while hash is not None:
        [message] = select("messages", "hash = ?", hash)
        turns = select("turns", "thread_id = ? AND tip_message_hash = ?", thread["id"], hash)
        time = turns[0]["datetime_utc"] if turns else time
        parts = [
            part | _llm_links(select, "part_id", part["id"], ("fragments", "attachments"), "part")
            for part in select("parts", "message_hash = ? ORDER BY position", hash)
        ]
        columns = {**message, "parts": parts, "datetime_utc": time, **({"turn": turns[0]} if turns else {})}
        lines.append(json.dumps({"table": "messages", "key": hash, "columns": columns}, ensure_ascii=False))
        hash = message["parent_hash"]
    return lines[::-1]


def _llm_responses(select: Callable[..., list[Row]], conversation: Row) -> Iterator[Line]:
    for response in select("responses", "conversation_id = ? ORDER BY id", conversation["id"]):
        id = response["id"]
        calls = {name: select(name, "response_id = ?", id) for name in ("tool_calls", "tool_results")}
        links = _llm_links(select, "response_id", id, ("attachments", "fragments"), "prompt")
        yield row_line("responses", response | links | {name: rows for name, rows in calls.items() if rows})


def _llm_links(
    select: Callable[..., list[Row]], owner: str, id: Any, tables: Sequence[str], prefix: str
) -> Row:
    """Return the rows of tables that belong to a row, by table."""
    linked = {
        table: select(table, f"id IN (SELECT {table[:-1]}_id FROM {prefix}_{table} WHERE {owner} = ?)", id)
        for table in tables
    }
    return {table: rows for table, rows in linked.items() if rows}


def _with_text(thread: Row) -> Row:
    """Return the row of a thread of Zed with its document as text."""
    data = thread["data"]
    with ZstdDecompressor().stream_reader(data) as reader:
        return {**thread, "data": (reader.read() if thread["data_type"] == "zstd" else data).decode()}


def _session_rows(
    connection: sqlite3.Connection, tables: list[str], session: Row
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a session of Goose or Crush."""
    yield "sessions", session
    for table in (name for name in ("messages", "usage_ledger") if name in tables):
        yield from (
            (table, row) for row in _select(connection, table, "session_id = ? ORDER BY id", session["id"])
        )


def _select(connection: sqlite3.Connection, table: str, condition: str, *values: Any) -> list[Row]:
    query = f"SELECT * FROM {table} WHERE {condition}"
    return [dict(row) for row in connection.execute(query, values)]
