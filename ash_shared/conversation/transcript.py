"""Split a transcript into the texts of its messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import BaseModel

from ash_shared.records.json_text import RawMessage, exact_text, is_json, message_text, split_lines

MessageRow = tuple[RawMessage] | tuple[RawMessage, str | None]
"""A message, perhaps with its source, as a database driver returns a row."""


Messages = str | bytes | Iterable[RawMessage | MessageRow]


def texts_with_sources(lines: Messages, source: str | None) -> Iterator[tuple[str | bytes, str | None]]:
    if isinstance(lines, str | bytes | bytearray):
        for text in split_transcript(lines):
            yield text, source
        return
    if isinstance(lines, Mapping | BaseModel) or not isinstance(lines, Iterable):
        expected = (
            "one text or an iterable of messages (str, bytes, dict, list or a row of message and source)"
        )
        raise TypeError(f"expected {expected}, got {type(lines).__name__}")
    for line in lines:
        if isinstance(line, tuple):
            message, own_source = _split_row(line)
            yield message_text(message), own_source or source
        else:
            yield message_text(line), source


def _split_row(row: tuple[Any, ...]) -> tuple[RawMessage, str | None]:
    if len(row) not in (1, 2):
        raise TypeError(f"expected a row of a message and its source, got {len(row)} columns")
    message, own_source = row if len(row) == 2 else (*row, None)
    if not isinstance(own_source, str | None):
        raise TypeError(
            f"expected a row of a message and its source, got a source of type {type(own_source).__name__}"
        )
    return message, own_source


def split_transcript(text: str | bytes) -> Sequence[str | bytes]:
    """Return the lines of a text, or the text itself if it is one JSON document."""
    text = exact_text(text)
    if _is_document(text):
        return [text]
    return split_lines(text) if isinstance(text, str) else text.split(b"\n")


def _is_document(text: str | bytes) -> bool:
    """True if the text is one JSON value, possibly over several lines."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except RecursionError:
        return False
    except ValueError:  # also raised for lone surrogates and a byte order mark
        return is_json(text)
    return True
