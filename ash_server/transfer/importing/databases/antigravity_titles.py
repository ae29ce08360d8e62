"""The titles of Antigravity's conversations, which are in files of its home and not in the transcripts.

A person's title is in `annotations/<id>.pbtxt`, one that Antigravity wrote in the database `conversation_summaries.db`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.store.text import storable
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.importing.databases.conversation_files import conversation_at
from ash_server.transfer.importing.databases.sessions import read_once_or
from ash_server.transfer.importing.databases.sqlite_snapshot import columns_of, open_snapshot

MAX_BYTES = 64 * 1024
"""Larger annotations are not read."""

_TITLE = re.compile(rb'^\s*title\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_TABLE = "conversation_summaries"
_QUERY = f"SELECT conversation_id, title FROM {_TABLE}"  # noqa: S608  # our name


def title_of(path: Path, access: FileAccess = ANY_FILE) -> SessionName | None:
    """Return the title of the conversation of a transcript or database; None if none can be read."""
    files = conversation_at(path)
    if files is None:
        return None
    typed = _read_annotation(files.home / "annotations" / f"{files.id}.pbtxt", access)
    if typed:
        return SessionName(typed, is_typed=True)
    database = files.home / "conversation_summaries.db"
    title = _read_titles(database, access).get(files.id)
    return None if title is None else SessionName(title, is_typed=False)


def _read_annotation(path: Path, access: FileAccess) -> str | None:
    try:
        with access.open(path) as opened:
            data = opened.read(MAX_BYTES + 1)
        title = _TITLE.search(data) if len(data) <= MAX_BYTES else None
        return storable(_unescaped(title[1])).strip() if title else None
    except (OSError, ValueError):
        return None


def _unescaped(text: bytes) -> str:
    """Return a string of the text format of protobuf, which has bytes as octal numbers. Raises ValueError."""

    def character(escape: re.Match[bytes]) -> bytes:
        name = escape[1]
        return bytes([int(name, 8)]) if name.isdigit() else _CONTROLS.get(name, name)

    return _ESCAPE.sub(character, text).decode()


_CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def _read_titles(database: Path, access: FileAccess) -> Mapping[str, str]:
    """Return the titles by conversation; none if the database cannot be read, because sessions do without."""

    def read() -> Mapping[str, str]:
        with open_snapshot(database, access) as copy:
            rows = copy.execute(_QUERY).fetchall() if columns_of(copy, _TABLE) else []
        return {id: storable(title) for id, title in rows if isinstance(title, str) and title.strip()}

    return read_once_or({}, database, read)
