"""The database of `llm`: threads of messages, and the conversations of versions before 0.36.

Threads that continue a message share it. Its row has the rows that belong to it in further columns: its parts with
their fragments and attachments, and the turn that it ends.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from ash_server.transfer.importing.databases.sqlite_snapshot import columns_of
from ash_server.transfer.importing.databases.store_types import (
    CountedTable,
    Rows,
    SessionDatabase,
    TableRow,
)

_SESSIONS = ("threads", "conversations")


def _count_sessions(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    tables = [table for table in _SESSIONS if columns_of(connection, table)]
    rows = " UNION ".join(f"SELECT id, name FROM {table}" for table in tables)  # noqa: S608  # our names
    query = f"SELECT id, count(*), sum(length(name)), 0 FROM ({rows}) GROUP BY id"  # noqa: S608
    return connection.execute(query).fetchall()


def _select_session(rows: Rows, id: str) -> Iterator[tuple[str, TableRow]]:
    """Yield the thread and its messages; without messages, the conversation and its responses."""
    thread = next(rows.select("threads", id=id), None)
    if thread is not None:
        yield "threads", thread
        yield from (("messages", row) for row in _messages(rows, thread.values))
        return
    yield from (("conversations", row) for row in rows.select("conversations", id=id))
    yield from (
        ("responses", _with_details(rows, row)) for row in rows.select("responses", conversation_id=id)
    )


def _messages(rows: Rows, thread: Mapping[str, Any]) -> Iterator[TableRow]:
    """Yield the messages from the first to the last one of a thread."""
    turns = {turn["tip_message_hash"]: turn for turn in _values(rows, "turns", thread_id=thread["id"])}
    chain: dict[Any, TableRow] = {}
    time: Any = None
    times: dict[Any, Any] = {}
    hash = thread.get("tip_message_hash")
    while hash not in chain and (message := next(rows.select("messages", hash=hash), None)) is not None:
        chain[hash] = message
        time = times[hash] = turns[hash].get("datetime_utc") if hash in turns else time
        hash = message.values.get("parent_hash")
    for hash, message in reversed(chain.items()):
        parts = [_with_contents(rows, part) for part in _values(rows, "parts", message_hash=hash)]
        turn = {"turn": turns[hash]} if hash in turns else {}
        yield message.extended(parts=parts, datetime_utc=times[hash], **turn)


def _with_contents(rows: Rows, part: dict[str, Any]) -> dict[str, Any]:
    """Return a part with the fragments and the attachments that its text refers to."""
    contents = {
        name: _linked(rows, f"part_{name}", name, part_id=part["id"]) for name in ("fragments", "attachments")
    }
    return part | {name: values for name, values in contents.items() if values}


def _with_details(rows: Rows, response: TableRow) -> TableRow:
    id = response.values["id"]
    linked = {
        "attachments": _linked(rows, "prompt_attachments", "attachments", response_id=id),
        "fragments": _linked(rows, "prompt_fragments", "fragments", response_id=id),
        "system_fragments": _linked(rows, "system_fragments", "fragments", response_id=id),
        "tool_calls": _values(rows, "tool_calls", response_id=id),
        "tool_results": _values(rows, "tool_results", response_id=id),
    }
    return response.extended(**{name: values for name, values in linked.items() if values})


def _linked(rows: Rows, links: str, table: str, **owner: Any) -> list[dict[str, Any]]:
    """Return the rows that a table of links refers to, in the order of the links."""
    column = f"{table.removesuffix('s')}_id"
    return [row for link in _values(rows, links, **owner) for row in _values(rows, table, id=link[column])]


def _values(rows: Rows, table: str, **values: Any) -> list[dict[str, Any]]:
    """Return the columns of rows. A row that is too large to read has only its id."""
    return [{**row.values} for row in rows.select(table, **values)]


def _lasting_thread(table: str, columns: Mapping[str, Any]) -> Any:
    """Return the columns of a thread without its last message, which changes with each turn."""
    return {**columns, "tip_message_hash": None} if table == "threads" else None


_TIMES = ("datetime_utc",)
_LINKS = ("part_attachments", "part_fragments", "prompt_attachments", "prompt_fragments", "system_fragments")
LLM = SessionDatabase(
    "llm",
    "llm",
    {
        "conversations": frozenset({"id", "model", "name"}),
        "responses": frozenset({"conversation_id", "prompt_json", "response"}),
    },
    (
        CountedTable("conversations", "id", sum_rows=_count_sessions),
        CountedTable("responses", "conversation_id", "response", _TIMES),
        CountedTable("turns", "thread_id", "response_json", _TIMES),
    ),
    _select_session,
    {"parts": ("position",), "responses": ("id",), "turns": ("id",), **dict.fromkeys(_LINKS, ("order",))},
    lasting=_lasting_thread,
)
