"""Rows of SQLite tables as lines of JSON: `{"table": …, "key": …, "columns": {…}}`.

SQL values are kept: NULL as null, numbers, texts. A JSON column is its text, unchanged. `{"base64": …}` is a blob, or a
text that is not UTF-8; `{"real": "inf"}` is an infinite number.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import blake2b
from math import isfinite
from typing import Any

from ash_server.transfer.importing.lines import MAX_LINE_BYTES, START, FileLine


def encode_row(table: str, key: Any, columns: Mapping[str, Any]) -> bytes:
    """Return the text of a row. The key and the columns have values that `to_json` returned."""
    return encode({"table": table, "key": key, "columns": columns})


def to_json(value: Any) -> Any:
    """Return an SQL value as a value of JSON."""
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, list):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    return {"real": str(value)} if isinstance(value, float) and not isfinite(value) else value


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def digest(text: bytes) -> str:
    return blake2b(text, digest_size=16).hexdigest()


def named_line(name: str, text: bytes) -> FileLine:
    """Return a line with an id from its name; without data if it is too long."""
    data = text if len(text) <= MAX_LINE_BYTES else None
    return FileLine(START, data, len(text), terminated=False, file=name)


def unread_line(name: str, size: int) -> FileLine:
    """Return the line of a row that is too large to read."""
    return FileLine(START, None, size, terminated=False, file=name)
