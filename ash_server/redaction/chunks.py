"""Removal of the texts of stream chunks, because a secret may be split across several chunks."""

import re
from typing import Any

import msgspec

from ash_shared.parsing.parsed_text import parse_text

_SHOWN = re.compile(
    r"(.*_)?(id|uuid|type|role|model|object|status|reason|timestamp|at)|.*[a-z](Id|Uuid|Type|At|Reason)"
)
"""Keys of values that are kept, because they are not texts of the agent."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def hide_texts(content: bytes) -> bytes:
    """Return a chunk of JSON with empty texts. A chunk that is not JSON becomes empty."""
    try:
        return _encode(_hide(_decode(content)))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return b""


def hide_event_texts(type: str, content: bytes) -> bytes:
    """Return the JSON of an event; a chunk, known or not, has empty texts."""
    if type.endswith("chunk"):
        return hide_texts(content) or _encode({**_decode(content), "payload": {}})  # nested too deep
    return _hide_unknown_chunk(content) if type == "raw" else content


def _hide_unknown_chunk(content: bytes) -> bytes:
    """Return a `raw` event; its record has empty texts if it is a chunk of an unknown type."""
    event = _decode(content)
    payload = event["payload"]
    record = payload.get("raw")
    if not isinstance(record, dict):
        return content
    if parse_text(_encode(record), payload.get("source")).content.kind != "chunk":
        return content
    try:
        hidden = _hide(record)
    except RecursionError:
        hidden = {}
    return _encode({**event, "payload": {**payload, "raw": hidden}})


def _hide(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return value if _SHOWN.fullmatch(key) else ""
    if isinstance(value, list):
        return [_hide(each, key) for each in value]
    if isinstance(value, dict):
        return {name: _hide(each, name) for name, each in value.items()}
    return value
