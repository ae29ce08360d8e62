"""The databases of Cursor: `state.vscdb` of its editor, and a `store.db` for each chat of its command line.

Source: programs that read them; Cursor does not document them. Both contain more than conversations. Rows are read by
their keys, because the database of the editor may have gigabytes.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ash_server.transfer.importing.databases.store_types import (
    CountedTable,
    Rows,
    SessionDatabase,
    TableRow,
)
from ash_shared.records import protobuf
from ash_shared.records.json_fields import items_at, text_at

_ROWS = "cursorDiskKV"


def _select_conversation(rows: Rows, id: str) -> Iterator[tuple[str, TableRow]]:
    """Yield the conversation, then its messages, in its order.

    When Cursor rebuilds a conversation, the rows of earlier messages stay in the table without a reference.
    """
    for conversation in rows.select(_ROWS, key=f"composerData:{id}"):
        yield _ROWS, conversation
        for message in _message_ids(_decode_object(conversation.values.get("value"))):
            yield from ((_ROWS, row) for row in rows.select(_ROWS, key=f"bubbleId:{id}:{message}"))


def _message_ids(conversation: Mapping[str, Any]) -> list[str]:
    headers = items_at(conversation, "fullConversationHeadersOnly")
    return [id for header in headers if (id := text_at(header, "bubbleId")) is not None]


def _decode_object(value: Any) -> Mapping[str, Any]:
    """Return the object in a JSON text; an empty one for other values."""
    try:
        decoded = msgspec.json.decode(value)
    except (TypeError, ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


_LASTING = (
    "conversation",
    "conversationMap",
    "modelConfig",
    "name",
    "subagentInfo",
    "workspaceIdentifier",
)


def _lasting_values(table: str, columns: Mapping[str, Any]) -> Any:
    """Return the visible values of a conversation, without the state of windows in its row; None for other rows."""
    conversation = _decode_object(columns.get("value"))
    if not str(columns.get("key")).startswith("composerData:") or not conversation:
        return None
    return [_message_ids(conversation), *map(conversation.get, _LASTING)]


def _with_texts(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a row, with a text for each blob that contains JSON."""
    return {name: _to_text(value) if isinstance(value, bytes) else value for name, value in values.items()}


def _to_text(data: bytes) -> str | bytes:
    try:
        return data.decode() if data[:1] in (b"{", b"[") else data
    except UnicodeDecodeError:
        return data


def _count_conversations(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Count the conversations with messages: others were opened, but not used."""
    return connection.execute(
        """
        SELECT substr(key, 14), 1, length(value), json_extract(value, '$.lastUpdatedAt')
        FROM (
            SELECT key, CAST(value AS TEXT) AS value
            FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'
        )
        WHERE json_valid(value) AND (
            json_array_length(value, '$.fullConversationHeadersOnly') > 0
            OR json_array_length(value, '$.conversation') > 0
        )
        ORDER BY key
        """
    ).fetchall()


def _count_messages(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Count the messages by conversation. SQLite reads a range of keys from its index, without the values."""
    return connection.execute(
        """
        SELECT substr(key, 10, instr(substr(key, 10), ':') - 1) AS owner, count(*), 0, 0
        FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;'
        GROUP BY owner ORDER BY owner
        """
    ).fetchall()


EDITOR = SessionDatabase(
    "cursor",
    "Cursor",
    {_ROWS: frozenset({"key", "value"})},
    (
        CountedTable(_ROWS, "key", sum_rows=_count_conversations),
        CountedTable(_ROWS, "key", sum_rows=_count_messages),
    ),
    _select_conversation,
    {},
    _with_texts,
    {_ROWS: "key"},
    _lasting_values,
)


def _select_chat(rows: Rows, id: str) -> Iterator[tuple[str, TableRow]]:
    """Yield the description of the chat, then its messages, in the order of the list that it refers to."""
    for row in rows.select("meta"):
        if text_at(chat := _decode_chat(row.values.get("value")), "agentId") != id:
            continue
        yield "meta", row
        for message in _listed_messages(rows, chat):
            yield from (("blobs", blob) for blob in rows.select("blobs", id=message))


def _listed_messages(rows: Rows, chat: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids in the newest list, a protobuf message with a hash per message in its first field."""
    for row in rows.select("blobs", id=chat.get("latestRootBlobId")):
        data = row.values.get("data")
        fields = protobuf.decode_fields(data) if isinstance(data, bytes) else {}
        yield from (id.hex() for id in fields.get(1, ()) if isinstance(id, bytes) and len(id) == _HASH_BYTES)


_HASH_BYTES = 32


def _decode_chat(value: Any) -> Mapping[str, Any]:
    """Return the description of a chat, which is JSON in hexadecimal digits."""
    try:
        return _decode_object(bytes.fromhex(value))
    except (TypeError, ValueError):
        return {}


def _lasting_chat(table: str, columns: Mapping[str, Any]) -> Any:
    """Return the description without its reference to the newest list, which changes with each message."""
    chat = {**_decode_chat(columns.get("value"))}
    chat.pop("latestRootBlobId", None)
    return chat if table == "meta" else None


def _count_chats(connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    chats = [_decode_chat(value) for (value,) in connection.execute("SELECT value FROM meta").fetchall()]
    [(messages,)] = connection.execute("SELECT count(*) FROM blobs").fetchall()
    return [(chat["agentId"], messages, 0, 0) for chat in chats if text_at(chat, "agentId")]


CHATS = SessionDatabase(
    "cursor",
    "Cursor",
    {"blobs": frozenset({"data", "id"}), "meta": frozenset({"key", "value"})},
    (CountedTable("meta", "key", sum_rows=_count_chats),),
    _select_chat,
    {},
    _with_texts,
    lasting=_lasting_chat,
)
