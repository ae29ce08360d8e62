"""Removal of the texts of stream chunks, because a secret may be split across several chunks."""

import re
from typing import Any

import msgspec

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


def _hide(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return value if _SHOWN.fullmatch(key) else ""
    if isinstance(value, list):
        return [_hide(each, key) for each in value]
    if isinstance(value, dict):
        return {name: _hide(each, name) for name, each in value.items()}
    return value
