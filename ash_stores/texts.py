"""The text of a value that an SDK stores."""

import json
import re
from typing import Any

import msgspec

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_text(value: Any) -> str:
    """Return JSON without spaces, as JavaScript writes it."""
    text = _encode(value)
    try:
        text.encode()  # faster than a search
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def read_text(text: str) -> Any:
    """Return the value of a JSON text, faster than with `json`. Raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, msgspec.MsgspecError):  # such as a lone surrogate, NaN, or a number out of range
        return json.loads(text)
