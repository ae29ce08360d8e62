"""Helpers for JSON values that several formats share: times, counts, arguments as JSON text, and `data:` URLs."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeGuard

import msgspec

from ash_shared.model.blocks import Block, nests_deeper
from ash_shared.records.json_text import decode_shallow

_MAX_ARGUMENT_DEPTH = 150
"""Leaves room for the surrounding record: the whole must nest less deep than `blocks.MAX_DEPTH`."""

_decode = msgspec.json.Decoder().decode
_PATH_SEGMENT = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=_-]*)")
_MEDIA_CLASSES: Mapping[str, str] = {
    "audio": "audio",
    "video": "video",
    "text": "document",
    "application": "document",
}
_MAX_SECONDS = 10**11
"""Larger times are in milliseconds; in seconds they would be after the year 5000."""


def is_integer(value: Any) -> TypeGuard[int]:
    """True for a JSON integer; `true` and `false` are not numbers in JSON, but are `int` in Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[int | float]:
    """True for a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def decode_arguments(arguments: Any) -> Any:
    """Decode the arguments of a tool call if they are JSON text; return text that does not decode unchanged.

    Translations also keep the original text of decoded arguments in `extra`, because decoding loses whitespace and
    repeated keys; see `input_at`.
    """
    if not isinstance(arguments, str):
        return arguments
    try:
        return decode_shallow(arguments)
    except msgspec.ValidationError:
        return _decode_deep(arguments)
    except (ValueError, RecursionError):
        return arguments


def _decode_deep(arguments: str) -> Any:
    try:
        decoded = _decode(arguments)
        return arguments if nests_deeper(decoded, _MAX_ARGUMENT_DEPTH) else decoded
    except (ValueError, RecursionError):
        return arguments


def input_at(record: Mapping[str, Any], key: str) -> tuple[Any, tuple[str, ...]]:
    """Return the decoded input of a call, and the keys that need not be kept in `extra`: none if text was decoded."""
    arguments = record[key]
    input_value = decode_arguments(arguments)
    return input_value, ((key,) if input_value is arguments else ())


def parse_json_path(path: str) -> list[str | int]:
    """Return the keys and indexes of a JSON path such as `$.days[0].name`; an unreadable path is one key."""
    body = path.removeprefix("$")
    segments = list(_PATH_SEGMENT.finditer(body))
    is_whole = "".join(segment[0] for segment in segments) == body
    if not (is_whole and 0 < len(segments) <= _MAX_ARGUMENT_DEPTH) or segments[0][2] is not None:
        return [path]
    return [
        int(segment[2]) if segment[2] is not None else segment[1] or segment[3] or segment[4] or ""
        for segment in segments
    ]


def set_json_path(arguments: Any, path: str, value: Any) -> Any:
    """Return the arguments with a value set at this path. Strings are appended; list items are expected in order."""
    return _set_at(arguments if isinstance(arguments, dict) else {}, parse_json_path(path), value)


def _set_at(container: Any, keys: list[str | int], value: Any) -> Any:
    if not keys:
        is_appended = isinstance(container, str) and isinstance(value, str)
        return container + value if is_appended else value
    key, *rest = keys
    if isinstance(key, int):
        items = container if isinstance(container, list) else []
        index = min(key, len(items))
        previous = items[index] if index < len(items) else None
        return [*items[:index], _set_at(previous, rest, value), *items[index + 1 :]]
    record = dict(container) if isinstance(container, dict) else {}
    return {**record, key: _set_at(record.get(key), rest, value)}


def url_source(url: str) -> Block:
    """Return the source of an image or file at a URL; for a `data:` URL, its bytes in base64."""
    inline = _DATA_URL.fullmatch(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1], "data": inline[2]}


def media_class(mime_type: str) -> str:
    """Return the media class of a MIME type: document, audio, video or other."""
    return _MEDIA_CLASSES.get(mime_type.partition("/")[0], "other")


def mime_fields(mime_type: str | None) -> Block:
    """Return the file fields that follow from a MIME type, if known."""
    return {} if mime_type is None else {"mimeType": mime_type, "mediaClass": media_class(mime_type)}


def to_milliseconds(time: Any) -> int | None:
    """Convert a time to milliseconds since 1970: ISO 8601 text (UTC without a zone), or a number of seconds or
    milliseconds. Return None for anything else."""
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return None
    if not is_number(time) or not 0 < time < 10**15:
        return None
    return round(time if time > _MAX_SECONDS else time * 1000)


def latest_time(times: Iterable[Any]) -> int | None:
    """Return the latest time in milliseconds; None if no value is a time."""
    return max(filter(None, map(to_milliseconds, times)), default=None)


def items_at(record: Any, *path: str) -> Sequence[Any]:
    """Return the list at this path of nested objects; an empty one if there is none."""
    value = value_at(record, *path)
    return value if isinstance(value, list) else ()


def listed(record: Mapping[str, Any]) -> Sequence[Any]:
    """Return the items of a list, however many; a record of another form is the only one."""
    return items_at(record, "list") if "list" in record else [record]


def text_at(record: Any, *path: str) -> str | None:
    """Return the string at this path of nested objects; None if it is absent, empty or not a string."""
    value = record
    for key in path:  # inlined `value_at`: the call would make this hot path 50 % slower
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return value if value.__class__ is str and value else None


def is_one_of(value: Any, names: Container[str]) -> bool:
    """Return True if a value is among the names; unhashable values are not."""
    return isinstance(value, str) and value in names


def list_or_empty(value: Any) -> list[Any]:
    """Return the list, or an empty one for None. Raises TypeError for other values, which are iterable, too."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError
    return value


def value_at(record: Any, *path: str) -> Any:
    """Return the value at this path of nested objects; None if it is absent."""
    for key in path:
        if not isinstance(record, dict):
            return None
        record = record.get(key)
    return record


def first_text(record: Any, keys: Iterable[str]) -> str | None:
    """Return the first non-empty string at the given keys."""
    if isinstance(record, dict):
        for key in keys:
            text = record.get(key)
            if isinstance(text, str) and text:
                return text
    return None


def count_at(record: Any, *path: str) -> int | None:
    """Return the non-negative integer at this path; None for anything else."""
    value = record
    for key in path:  # inlined for speed, as in `text_at`
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return value if value.__class__ is int and 0 <= value < 2**53 else None


def first_count(record: Any, *keys: str) -> int | None:
    """Return the first non-negative integer at the given keys."""
    return next((count for key in keys if (count := count_at(record, key)) is not None), None)


def cost_at(record: Any, *path: str) -> float | None:
    """Return the amount at this path in the vendor's currency; None unless it is a non-negative number."""
    value = value_at(record, *path)
    return float(value) if is_number(value) and 0 <= value < 1e15 else None


TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "reasoning_tokens",
)
"""The fields of a `StandardTokenUsage` that can be summed."""


def token_usage(  # noqa: PLR0913  # one argument per count
    vendor: Any,
    *,
    input: int | None,
    output: int | None,
    cache_read: int | None = None,
    cache_creation: int | None = None,
    reasoning: int | None = None,
    service_tier: str | None = None,
) -> Block | None:
    """Return a `StandardTokenUsage`, or None if neither `input` nor `output` is known.

    `input` excludes tokens read from or written to a cache; `output` includes reasoning.
    """
    if input is None and output is None:
        return None
    counts = {
        "input_tokens": input or 0,
        "output_tokens": output or 0,
        "total_tokens": (input or 0) + (output or 0),
        "cache_creation_input_tokens": cache_creation,
        "cache_read_input_tokens": cache_read,
        "reasoning_tokens": reasoning,
        "service_tier": service_tier,
        "vendor": vendor,
    }
    return {name: count for name, count in counts.items() if count is not None}


def message_error(code: str, message: str | None, details: Any = None) -> Block:
    """Return the keys of a `MessageError`; a missing message falls back to the code."""
    fields = {"code": code, "message": message or code}
    return fields if details is None else {**fields, "details": details}


def subtract_counts(total: int | None, *parts: int | None) -> int | None:
    """Return the total minus its separately reported parts, at least 0; None if the total is unknown."""
    return None if total is None else max(0, total - sum(part or 0 for part in parts))
