"""The conversations in an export, a JSON list: each element becomes a session.

A path below the file stands for one conversation, as in `databases.sessions`: `…/conversations.json/ID`. Its name is
the provider's id, so that a later export adds to the same sessions, wherever it is.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from errno import EINVAL
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

import msgspec

from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.databases.sessions import read_once

_NAME = re.compile(r"conversations(?:-\d+)?\.json")
_HEAD_BYTES = 64 * 1024
_MARK = re.compile(rb'"(?:mapping|chat_messages|current_node)"\s*:')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
"""Ids were written by others, and become parts of paths."""
_OPENING, _CLOSING = b"[{", b"]}"


class _Conversation(msgspec.Struct):
    """The fields that identify a conversation."""

    uuid: str | None = None
    conversation_id: str | None = None
    id: str | None = None
    mapping: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    chat_messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    def name(self) -> str | None:
        """Return the provider's id; None if the value is no conversation."""
        if self.mapping is msgspec.UNSET and self.chat_messages is msgspec.UNSET:
            return None
        return self.uuid or self.conversation_id or self.id


class ConversationPlace(NamedTuple):
    """Where a conversation stands in its export, in bytes."""

    offset: int
    size: int


def export_of(path: Path) -> Path | None:
    """Return the export that contains a conversation; None for other paths."""
    return path.parent if _NAME.fullmatch(path.parent.name) and path.parent.is_file() else None


def is_export(path: Path, access: FileAccess = ANY_FILE) -> bool:
    """True for a list of conversations. Raises OSError."""
    if not _NAME.fullmatch(path.name) or not path.is_file():
        return False
    with access.open(path) as file:
        head = file.read(_HEAD_BYTES)
    return head.lstrip().startswith(b"[") and _MARK.search(head) is not None


def list_conversations(path: Path, access: FileAccess = ANY_FILE) -> list[Path]:
    """Return the conversations of an export, in its order. Raises OSError."""
    return [path / id for id in _read_places(path, access)]


def conversation_place(path: Path, access: FileAccess = ANY_FILE) -> ConversationPlace:
    """Raises OSError."""
    place = _read_places(path.parent, access).get(path.name)
    if place is None:
        raise OSError(EINVAL, f"no conversation {path.name}", str(path.parent))
    return place


def read_conversation(path: Path, access: FileAccess = ANY_FILE) -> bytes:
    """Return the text of a conversation, byte for byte. Raises OSError, also if the file is rewritten meanwhile."""
    place = conversation_place(path, access)
    with access.open(path.parent) as file:
        file.seek(place.offset)
        text = file.read(place.size)
    if _name_of(text) != path.name:
        raise OSError(EINVAL, "was rewritten while it was read", str(path.parent))
    return text


def _read_places(export: Path, access: FileAccess) -> dict[str, ConversationPlace]:
    return read_once(export, lambda: _scan(export, access))


def _scan(export: Path, access: FileAccess) -> dict[str, ConversationPlace]:
    """Find the conversations. The file is mapped, because exports may be larger than the memory."""
    places: dict[str, ConversationPlace] = {}
    with access.open(export) as file:
        if not file.read(1):
            return places
        with closing(mmap(file.fileno(), 0, access=ACCESS_READ)) as text:
            for place in _elements(text):
                name = _name_of(text[place.offset : place.offset + place.size])
                if name is not None and _ID.fullmatch(name):
                    places[name] = place
    return places


def _elements(text: mmap) -> Iterator[ConversationPlace]:
    """Yield the objects of a top-level list."""
    depth = start = 0
    for token in _TOKEN.finditer(text):
        first = token[0][:1]
        if first in _OPENING:
            depth += 1
            start = token.start() if depth == _ELEMENT_DEPTH else start
        elif first in _CLOSING:
            if depth == _ELEMENT_DEPTH:
                yield ConversationPlace(start, token.end() - start)
            depth -= 1


_ELEMENT_DEPTH = 2


def _name_of(text: bytes) -> str | None:
    try:
        return msgspec.json.decode(text, type=_Conversation).name()
    except (ValueError, RecursionError):
        return None
