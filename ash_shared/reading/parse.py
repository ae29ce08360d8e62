"""The public functions that turn stored text into typed blocks.

None of them raises on any text. They also take decoded JSON objects and lists, which read as their JSON text does, and
raise TypeError for everything else.
"""

from collections.abc import Iterator, Sequence

import msgspec

from ash_shared.model.content import MessageContent
from ash_shared.model.message import Description, ParsedLine, Reading
from ash_shared.reading.describe import describe_read
from ash_shared.reading.json_text import (
    RawMessage,
    exact_text,
    is_blank,
    message_text,
    shown_text,
    split_lines,
)
from ash_shared.reading.read import FAST_PATHS, read_raw
from ash_shared.reading.typed_blocks import typed_blocks

PARSER_VERSION = 5
"""Raised whenever describing a stored text gives another result than before."""

_encode = msgspec.json.Encoder().encode


def parse_message_content(raw: RawMessage, source: str | None = None) -> list[MessageContent]:
    """Return the typed blocks of one message; `source` names its format if known. Never raises on texts."""
    text = message_text(raw)
    for path in FAST_PATHS[source]:
        content = path.parse(text)
        if content is not None:
            return content
    return typed_blocks(read_raw(text, source).reading.blocks)


def parse_message_content_json(raw: RawMessage, source: str | None = None) -> bytes:
    """Return the same blocks as a JSON array in UTF-8, without building objects. Never raises on texts.

    Content that needs no translation is copied byte for byte: the spelling of numbers, escapes and the order of keys
    stay as they were written.
    """
    text = message_text(raw)
    for path in FAST_PATHS[source]:
        content = path.parse_json(text)
        if content is not None:
            return content
    return _encode(read_raw(text, source).reading.blocks)


def read_message(raw: RawMessage, source: str | None = None) -> Reading:
    """Return the typed blocks of one message with its source, kind and role. Never raises on texts."""
    read = read_raw(raw, source)
    kind, role, blocks = read.reading
    fields = {"source": read.source(source), "kind": kind, "role": role, "parsed": typed_blocks(blocks)}
    return Reading.model_validate(fields)  # faster than keyword arguments


def describe_message(raw: RawMessage, source: str | None = None) -> Description:
    """Return what the store records about one message. Never raises on texts."""
    return describe_read(read_raw(raw, source), source)


def parse_jsonl(text: str | bytes, source: str | None = None) -> Iterator[ParsedLine]:
    """Read every line of a JSONL text that is not blank, in order. Never raises."""
    text = exact_text(text)
    lines: Sequence[str | bytes] = split_lines(text) if isinstance(text, str) else text.split(b"\n")
    for number, raw in enumerate(lines, start=1):
        if not is_blank(raw):
            yield ParsedLine(number, shown_text(raw), read_message(raw, source))
