"""Encode lists as parameters two to five times as fast as psycopg, which calls a function for each item."""

from collections.abc import Mapping
from types import NoneType
from typing import Any

import msgspec
from psycopg import postgres
from psycopg.adapt import Dumper, PyFormat
from psycopg.types.array import ListBinaryDumper

_MAX_ITEM = 64
"""Characters of the first string of a list that is sent as text: PostgreSQL reads long strings faster in binary."""

_encode = msgspec.json.Encoder().encode


class ListDumper(ListBinaryDumper):
    """Encodes lists of strings, integers or truth values as text, and other lists in binary, as psycopg does."""

    def get_key(self, obj: list[Any], format: PyFormat) -> Any:
        dumper = _text_dumper(obj)
        return super().get_key(obj, format) if dumper is None else dumper

    def upgrade(self, obj: list[Any], format: PyFormat) -> Any:
        dumper = _text_dumper(obj)
        return super().upgrade(obj, format) if dumper is None else dumper


class _TextListDumper(Dumper):
    """Encodes items of one type, or None, as the text of an array, which is JSON but for its brackets and escapes."""

    def __init__(self, array_oid: int) -> None:
        super().__init__(list)
        self.oid = array_oid

    def dump(self, obj: list[Any]) -> bytes:
        encoded = _encode(obj)
        if b"\\" in encoded:
            return f"{{{','.join(map(_quote, obj))}}}".encode()
        return b"{%b}" % encoded[1:-1]


def _quote(item: str | None) -> str:
    if item is None:
        return "NULL"
    escaped = item.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_TEXTS = _TextListDumper(postgres.types["text"].array_oid)
_DUMPERS: Mapping[type, _TextListDumper] = {
    str: _TEXTS,
    int: _TextListDumper(postgres.types["int8"].array_oid),
    bool: _TextListDumper(postgres.types["bool"].array_oid),
    NoneType: _TextListDumper(0),
}
_DUMPERS_OF_TYPES = {
    types: dumper
    for kind, dumper in _DUMPERS.items()
    for types in (frozenset([kind]), frozenset([kind, NoneType]))
}


def _text_dumper(items: list[Any]) -> _TextListDumper | None:
    """Return the dumper of lists with items of these types, if any."""
    dumper = _DUMPERS_OF_TYPES.get(frozenset(map(type, items)))
    is_long = dumper is _TEXTS and len(items[0] or "") > _MAX_ITEM
    return None if is_long else dumper
