"""The databases of Cursor."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from tests.server.opencode_database import changing
from tests.shared.records import cursor_rows as cursor


def write_editor_database(path: Path, prompt: str = "Count the oars") -> Path:
    """Create the database of the editor, with one conversation and rows that belong to none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        for table in ("ItemTable", "cursorDiskKV"):
            connection.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        put(connection, cursor.conversation("b1", "b2", createdAt=1772442000000))
        put(connection, cursor.message("b2", type=2, text="Nine.", createdAt="2026-03-02T09:00:02.000Z"))
        put(connection, cursor.message("b1", type=1, text=prompt, createdAt="2026-03-02T09:00:01.000Z"))
        put(connection, cursor.message("b0", type=2, text="Of an earlier version."))
        unused = {"composerId": "c2", "fullConversationHeadersOnly": []}
        put(connection, cursor.editor_row("composerData:c2", unused))
        connection.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c3', 'null')")
        connection.execute("INSERT INTO cursorDiskKV VALUES ('agentKv:blob:1', x'00ff')")
        connection.execute("INSERT INTO ItemTable VALUES ('cursorAuth/accessToken', 'secret')")
    return path


def put(connection: Connection, row: dict[str, Any], *, as_blob: bool = False) -> None:
    """Insert or replace a row of the editor."""
    value = row["columns"]["value"]
    values = (row["key"], value.encode() if as_blob else value)
    connection.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", values)


def write_chat_database(path: Path, *messages: dict[str, Any], id: str = "a1") -> Path:
    """Create the database of a chat of the command line, whose list has another order than its rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with changing(path) as connection:
        connection.execute("CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)")
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        add_messages(connection, messages, id)
    return path


def add_messages(connection: Connection, messages: Sequence[dict[str, Any]], id: str = "a1") -> None:
    """Store messages, and make them the list of the chat."""
    texts = [json.dumps(message).encode() for message in messages]
    hashes = [sha256(text).digest() for text in texts]
    root = b"".join(b"\x0a\x20" + each for each in hashes) + b"\x4a\x05/work"
    rows = [*zip(hashes, texts, strict=True), (sha256(root).digest(), root)]
    for hash, data in reversed(rows):
        connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (hash.hex(), data))
    chat = cursor.chat(agentId=id, latestRootBlobId=sha256(root).hexdigest())
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('0', ?)", (chat["columns"]["value"],))
