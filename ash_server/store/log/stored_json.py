"""Store events without the values that other columns and the text of their message contain.

An event derived from a message repeats most of the text: a tool result of 50 KB would be in the database twice. Two
things are therefore left out of the JSON of a derived event, and every query that returns events puts them back:

- Its beginning, `{"id":…,"timestamp":…,"sessionId":…,"type":…,`. These are columns of the row.
- Up to two large values of the payload that are in the text of the message, byte for byte. `stored_json` has an empty
  value of the same type instead (`""`, `[]` or `{}`), and `text_ranges` has three numbers for each: the offset of the
  empty value in `stored_json`, the offset of the value in the text, and its size.

An example. The message, and its event as it is returned:

    {"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"a long text"}]}}
    {"id":"0198…","timestamp":1,"sessionId":"0198…","type":"tool_call_result","payload":{"result":"a long text"}}

The row: `stored_json` is `"payload":{"result":""}}`, and `text_ranges` is `{{20,88,13}}`: after 20 bytes, the 13 bytes
at offset 88 of the text replace `""`. (A real value has at least `MIN_SIZE` bytes.)

Values are found by searching for their encoded JSON in the text. The search needs no knowledge of the format, and its
only failure is a value that is stored whole: one from another line, or one that the text spells differently (escapes,
number formats). The values of an object or a list that is not found are searched themselves, down to `_MAX_DEPTH`.

Three rules keep both directions fast. Events have the order of the text, so each search begins where the last value
ended. After `_MAX_MISSES` failures the rest of a message is stored whole, so an append takes linear time. A value
smaller than a sixteenth of its text is stored whole, because PostgreSQL decompresses the whole text to return a part.

Offsets count bytes of UTF-8. The event that a query returns is equal, byte for byte, to one that was stored whole, and
all three forms are in the table at the same time: `text_ranges` is null without values of the text, and `event_id` is
null if `stored_json` is the whole event (posted events, which are compared with the stored JSON when they are
repeated).
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from ash_server.store.statements import Sql, statements
from ash_shared.eventlog import Event

MIN_SIZE = 256
"""Bytes of JSON; a smaller value is stored whole, since a range takes 40 bytes and a lookup of the message."""

_MAX_SHARE = 16
"""A value is stored whole if its message is more than this many times as large: PostgreSQL reads the whole text to
return a part."""

_MAX_DEPTH = 4
"""Levels of a payload that are searched for values, if the value around them is spelled differently in the text."""

_MAX_MISSES = 16
"""Vain searches per message before the rest is stored whole, so that the time of an append is bounded."""

_SEARCHED = 64
"""Bytes of a value to search for first: bytes.find prepares a long pattern at a cost of microseconds."""

_MAX_RANGES = 2
"""Values per event that refer to the text; further ones are stored whole. `event_json` in schema.sql reads two."""


SQL = statements(__file__)


def event_json(session: str = "%(session_id)b") -> Sql:
    """Return SQL for the JSON of `entry`, a row of `events`, in UTF-8.

    `session` is the id of the session: a parameter, unless `entry` is the table itself. Citus cannot send a subquery to
    the shard of a row of another subquery.
    """
    return SQL.event_json.fill(session=Sql(session), row=Sql("entry"))


def create_view() -> Sql:
    """Return the statement that creates `events_full`; `make schema` writes it to schema.sql."""
    return SQL.create_events_full.fill(session=Sql("event.session_id"), row=Sql("event"))


_MARK = b"\x01"
"""Precedes an empty value until its range is known; encoded JSON does not contain control characters."""
_EMPTY = {kind: msgspec.Raw(_MARK + msgspec.json.encode(kind())) for kind in (str, list, dict)}

_HEAD_FIELDS = 4
"""Number of the first fields of a derived event: `id`, `timestamp`, `sessionId` and `type`, in this order."""

_encode = msgspec.json.Encoder().encode


class StoredJson(NamedTuple):
    """The JSON of an event as it is stored."""

    json: str
    ranges: str | None = None
    """Array of PostgreSQL: (offset in `json`, offset in the text, size), in UTF-8 bytes; None without values of the
    text."""
    event_id: str | None = None
    """None if `json` is the whole JSON."""
    event_time: int | None = None


def encode_text(event: Event) -> str:
    return _encode(event).decode()


def encode_whole(event: Event) -> StoredJson:
    return StoredJson(encode_text(event))


def encoder_of(text: str) -> Callable[[Event], StoredJson]:
    """Return the function that encodes the events derived from a text, in their order."""
    return _encode_without_head if len(text) <= MIN_SIZE else MessageText(text).encode


def _encode_without_head(event: Event) -> StoredJson:
    encoded = _encode(_without_head(event))
    return StoredJson(encoded[1:].decode(), None, event["id"], event["timestamp"])


def _without_head(event: Event) -> Event:
    return dict(islice(event.items(), _HEAD_FIELDS, None))


class MessageText:
    """The text of a message, which its events refer to."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._least = max(MIN_SIZE, len(self._text) // _MAX_SHARE)
        self._end = 0
        """The end of the last value in the text: events have the order of the text."""
        self._misses = 0

    def encode(self, event: Event) -> StoredJson:
        """Return the JSON of a derived event without its beginning and without the values that are in the text."""
        ranges: list[tuple[int, int]] = []
        fields = _without_head(event)
        fields["payload"] = {name: self._replace(value, ranges) for name, value in event["payload"].items()}
        encoded, text_ranges = _encode(fields)[1:], None
        if ranges:
            encoded, text_ranges = _without_marks(encoded, ranges)
        return StoredJson(encoded.decode(), text_ranges, event["id"], event["timestamp"])

    def _replace(self, value: Any, ranges: list[tuple[int, int]], depth: int = 1) -> Any:
        """Return the value to encode instead, with marked empty values for those that are added to `ranges`."""
        kind = value.__class__
        if kind not in _EMPTY or (kind is str and len(value) * 6 + 2 < self._least):
            return value
        encoded = _encode(value)
        is_full = len(ranges) == _MAX_RANGES or self._misses > _MAX_MISSES
        if len(encoded) < self._least or is_full:
            return msgspec.Raw(encoded)
        start = self._find(encoded)
        if start >= 0:
            ranges.append((start, len(encoded)))
            return _EMPTY[kind]
        if kind is dict and depth < _MAX_DEPTH:
            return {name: self._replace(each, ranges, depth + 1) for name, each in value.items()}
        if kind is list and depth < _MAX_DEPTH:
            return [self._replace(each, ranges, depth + 1) for each in value]
        return msgspec.Raw(encoded)

    def _find(self, encoded: bytes) -> int:
        start = self._text.find(encoded[:_SEARCHED], self._end)
        if start >= 0 and not self._text.startswith(encoded, start):
            start = self._text.find(encoded, start + 1)
        if start < 0:
            self._misses += 1
            start = self._text.find(encoded, 0, self._end + len(encoded) - 1)
        if start >= 0:
            self._end = start + len(encoded)
        return start


def _without_marks(encoded: bytes, ranges: list[tuple[int, int]]) -> tuple[bytes, str]:
    """Return the JSON without the marks of empty values, and their ranges."""
    parts = encoded.split(_MARK)
    text_ranges: list[str] = []
    at = 0
    for part, (start, size) in zip(parts, ranges, strict=False):
        at += len(part)
        text_ranges.append(f"{{{at},{start},{size}}}")
    return b"".join(parts), f"{{{','.join(text_ranges)}}}"
