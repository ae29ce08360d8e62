"""What several formats write alike: times, counts, arguments as JSON text, and bytes as `data:` addresses."""

import re
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from ash_shared.model.blocks import Block, nests_deeper

_MAX_ARGUMENT_DEPTH = 150
"""Leaves room for what the arguments are nested in: the whole has to stay below `blocks.MAX_DEPTH`."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_STEPS_OF_PATH = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,4})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=_-]*)")
_MEDIA_CLASSES: Mapping[str, str] = {
    "audio": "audio",
    "video": "video",
    "text": "document",
    "application": "document",
}
_LARGEST_SECONDS = 10**11
"""A time above this is in milliseconds: as seconds it would be beyond the year 5000."""


def decode_arguments(arguments: Any) -> Any:
    """The input of a tool call: arguments that came as JSON text decoded, and the text itself where it does not decode.

    A translation keeps the text in `extra`, too, unless the input `is` it, as `input_at` says: decoding forgets blanks
    and repeated keys.
    """
    if arguments.__class__ is not str:
        return arguments
    try:
        decoded = _decode(arguments)
        return arguments if nests_deeper(decoded, _MAX_ARGUMENT_DEPTH) else decoded
    except (ValueError, RecursionError):
        return arguments


def input_at(record: Mapping[str, Any], key: str) -> tuple[Any, tuple[str, ...]]:
    """The input of a tool call, and the keys that it consumes: none where the text of it is to stay in `extra`, too."""
    arguments = record[key]
    given = decode_arguments(arguments)
    return given, ((key,) if given is arguments else ())


def _keys_of(path: str) -> list[str | int]:
    """The keys and places that a JSON path names, e.g. `$.days[0].name`; a path that cannot be read is one key."""
    body = path.removeprefix("$")
    found = list(_STEPS_OF_PATH.finditer(body))
    is_read = "".join(step[0] for step in found) == body and 0 < len(found) <= _MAX_ARGUMENT_DEPTH
    if not is_read or found[0][2] is not None:
        return [path]
    return [int(step[2]) if step[2] is not None else step[1] or step[3] or step[4] or "" for step in found]


def set_json_path(arguments: Any, path: str, value: Any) -> Any:
    """Arguments with a value at this JSON path: a text goes on the text that is there, and the items of a list come in
    their order."""
    return _placed(arguments if arguments.__class__ is dict else {}, _keys_of(path), value)


def _placed(holder: Any, keys: list[str | int], value: Any) -> Any:
    if not keys:
        is_more = holder.__class__ is str and value.__class__ is str
        return holder + value if is_more else value
    key, *rest = keys
    if key.__class__ is int:
        items = holder if holder.__class__ is list else []
        place = min(key, len(items))
        before = items[place] if place < len(items) else None
        return [*items[:place], _placed(before, rest, value), *items[place + 1 :]]
    record = dict(holder) if holder.__class__ is dict else {}
    return {**record, key: _placed(record.get(key), rest, value)}


def unfinished_json(arguments: Any, path: str, value: Any) -> str:
    """Arguments as JSON text, as far as they are known when this value was placed last: nothing is closed."""
    open_ends = len(_keys_of(path)) + (value.__class__ is str)
    return _encode(arguments).decode()[:-open_ends]


def url_source(url: str) -> Block:
    """The source of an image or a file at an address; the bytes themselves where it is a `data:` address."""
    inline = _DATA_URL.fullmatch(url)
    if inline is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": inline[1], "data": inline[2]}


def media_class(mime_type: str) -> str:
    """What kind of file that is: document, audio, video or other."""
    return _MEDIA_CLASSES.get(mime_type.partition("/")[0], "other")


def mime_fields(mime_type: str | None) -> Block:
    """The keys of a file that say what kind it is, where its MIME type is known."""
    return {} if mime_type is None else {"mimeType": mime_type, "mediaClass": media_class(mime_type)}


def to_milliseconds(time: Any) -> int | None:
    """A time as milliseconds since 1970: written as ISO 8601 (UTC where it names no zone), or as a number of seconds or
    milliseconds. None for anything else."""
    if time.__class__ is str:
        try:
            moment = datetime.fromisoformat(time)
            return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return None
    if time.__class__ not in (int, float) or not 0 < time < 10**15:
        return None
    return round(time if time > _LARGEST_SECONDS else time * 1000)


def text_at(record: Any, *path: str) -> str | None:
    """The string at this place of nested objects; None where there is none, or another value, or an empty string."""
    value = record
    for key in path:  # as `value_at`, which a call more would make half as slow again: a hot path
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return value if value.__class__ is str and value else None


def is_one_of(value: Any, names: Container[str]) -> bool:
    """Whether a value is one of these names; a list or an object is none, and could not be looked up."""
    return value.__class__ is str and value in names


def list_or_empty(value: Any) -> list[Any]:
    """The items of a list, which the wire may leave out. Raises TypeError for anything else: going through an object
    or a text would lose its values, or make items of its letters."""
    if value is None:
        return []
    if value.__class__ is not list:
        raise TypeError
    return value


def value_at(record: Any, *path: str) -> Any:
    """The value at this place of nested objects; None where there is none."""
    for key in path:
        if record.__class__ is not dict:
            return None
        record = record.get(key)
    return record


def first_text(record: Any, keys: Iterable[str]) -> str | None:
    """The first string that is not empty under one of these keys."""
    if record.__class__ is dict:
        for key in keys:
            text = record.get(key)
            if text.__class__ is str and text:
                return text
    return None


def count_at(record: Any, *path: str) -> int | None:
    """The whole number at this place, which is not negative; None for anything else."""
    value = record
    for key in path:  # as `text_at`
        if value.__class__ is not dict:
            return None
        value = value.get(key)
    return value if value.__class__ is int and 0 <= value < 2**53 else None


def cost_at(record: Any, *path: str) -> float | None:
    """The amount at this place, in the vendor's currency; None for anything but a number that is not negative."""
    value = value_at(record, *path)
    return float(value) if value.__class__ in (int, float) and 0 <= value < 1e15 else None


TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "reasoning_tokens",
)
"""Of a `StandardTokenUsage`, what can be added up."""


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
    """A `StandardTokenUsage`: `input` without what was read from or written to a cache, `output` with reasoning.

    None where the vendor's usage counts neither.
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
    """The keys of a `MessageError`; the code says what went wrong where no message does."""
    told = {"code": code, "message": message or code}
    return told if details is None else {**told, "details": details}


def subtract_counts(total: int | None, *parts: int | None) -> int | None:
    """A count without the parts of it that are counted apart; never below zero."""
    return None if total is None else max(0, total - sum(part or 0 for part in parts))
