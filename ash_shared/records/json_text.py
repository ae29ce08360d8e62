"""Decode stored texts as JSON, within limits, and classify texts that are not JSON.

msgspec decodes almost every text. The standard library decodes the rest: lone surrogates, and numbers that msgspec
rejects.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any, NewType, NoReturn

import msgspec

from ash_shared.model.blocks import MAX_DEPTH, LimitExceeded, nests_deeper

RawMessage = str | bytes | dict[str, Any] | list[Any]
"""One message: its JSON text, or the object or list decoded from it."""


def exact_text(raw: str | bytes) -> str | bytes:
    """Return a plain `str` or `bytes`, because decoders reject subclasses and other buffers.

    Raises TypeError for other types.
    """
    if raw.__class__ is str or raw.__class__ is bytes:
        return raw
    if isinstance(raw, str):
        return str.__str__(raw)
    if isinstance(raw, bytes | bytearray | memoryview):
        return bytes(raw)
    raise TypeError(f"expected a text (str or bytes), got {type(raw).__name__}")


def message_text(message: RawMessage) -> str | bytes:
    """Return the text of a message; a decoded message is encoded as compact JSON.

    Raises TypeError for values without a JSON form. The numbers NaN and Infinity, which have none, are written as
    `NaN` and `Infinity`, so that a decoded message that contains them is parsed like its text.
    """
    if message.__class__ is str or message.__class__ is bytes:
        return message
    if isinstance(message, dict | list):
        try:
            return _encode_json(message)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"expected a message that JSON can represent: {error}") from error
    if isinstance(message, str | bytes | bytearray | memoryview):
        return exact_text(message)
    raise TypeError(f"expected a message (str, bytes, dict or list), got {type(message).__name__}")


def shown_text(raw: str | bytes) -> str:
    """Return the text as valid Unicode: U+FFFD for lone surrogates, escapes for bytes that are not UTF-8."""
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "backslashreplace")
    return raw if raw.isascii() else _SURROGATES.sub("\ufffd", raw)


def split_lines(text: str) -> list[str]:
    r"""Split a JSONL text on `\n` only: joining the lines with `\n` restores the text."""
    return text.split("\n")


def is_blank(raw: str | bytes) -> bool:
    """True if a line contains only JSON whitespace."""
    return not (raw.strip(" \t\r\n") if isinstance(raw, str) else raw.strip(b" \t\r\n"))


def is_json(text: str | bytes) -> bool:
    """True if the whole text is one JSON value, even one that exceeds the limits of `decode_json`."""
    try:
        decode_json(text)
    except (LimitExceeded, RecursionError):
        return True
    except ValueError:
        return False
    return True


def looks_like_json(text: str) -> bool:
    """True if the text begins like an object or an array."""
    return _JSON_START.match(text) is not None


_JSON_START = re.compile(
    r"\ufeff?[ \t\n\r]*(?:"
    r"\{[ \t\n\r]*[\"}]"
    r"|\[[ \t\n\r]*(?:[\"\[{\]0-9]|-[0-9]|(?:-?Infinity|NaN|true|false|null)\b)"
    r")"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def shallow_json(levels: int) -> Any:
    """Return the type of JSON nested at most `levels` deep. Its decoder rejects deeper JSON at no cost in speed."""
    json_type: Any = str | int | float | bool | None
    for _ in range(levels):
        inner: Any = _named_type("Inner", json_type)
        json_type = str | int | float | bool | list[inner] | dict[str, inner] | None
    return json_type


_named_type: Callable[[str, Any], Any] = NewType
"""A NewType is hashed by identity, so that msgspec builds the decoder of a nested type several times faster."""


MAX_VALUES = 500_000
"""JSON values of one text; decoded, they take many times its memory."""
_MAX_UNCOUNTED = 1024 * 1024
"""Bytes of a text that cannot have too many values."""
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
"""A string, also one without an end: otherwise each of its quotes would be tried as a start."""
_STRING_BYTES = re.compile(_STRING.pattern.encode(), re.DOTALL)


def has_too_many_values(raw: str | bytes) -> bool:
    """True if a JSON text has more than MAX_VALUES values, without decoding it."""
    if len(raw) < _MAX_UNCOUNTED or _count_values(raw) <= MAX_VALUES:
        return False
    outside = _STRING.sub("", raw) if isinstance(raw, str) else _STRING_BYTES.sub(b"", raw)
    return _count_values(outside) > MAX_VALUES


def _count_values(raw: str | bytes) -> int:
    """Return an upper bound of the number of values: each has such a character before or after it."""
    if isinstance(raw, str):
        return sum(map(raw.count, ",[{"))
    return sum(map(raw.count, (b",", b"[", b"{")))


decode_shallow = msgspec.json.Decoder(shallow_json(10)).decode
"""Decode JSON nested at most 10 deep. Raises ValueError or RecursionError."""
_decode = msgspec.json.Decoder().decode


def decode_json(raw: str | bytes) -> Any:
    """Return the JSON value of a text. Raises LimitExceeded or RecursionError beyond a limit, else ValueError."""
    if has_too_many_values(raw):
        raise LimitExceeded
    try:
        return decode_shallow(raw)
    except ValueError:
        value = _decode_deep(raw)
    if _may_nest_deeper(raw) and nests_deeper(value, MAX_DEPTH):
        raise LimitExceeded
    return value


def _may_nest_deeper(raw: str | bytes) -> bool:
    """False for a text with too few brackets. Counting them is faster than visiting all values."""
    if isinstance(raw, str):
        return raw.count("[") + raw.count("{") > MAX_DEPTH
    return raw.count(b"[") + raw.count(b"{") > MAX_DEPTH


def split_values(text: str) -> list[str]:
    """Split a line with several, possibly truncated, JSON objects; return an empty list for any other text.

    Such lines result from programs that continue after an unterminated line.
    """
    parts, start = _leading_values(text)
    rest = text[start:]
    for match in islice(_OBJECT_START.finditer(rest, 1), _MAX_SEARCHES if len(rest) <= _MAX_SEARCHED else 0):
        following, end = _leading_values(rest[match.start() :])
        if following and match.start() + end == len(rest):
            parts, rest = [*parts, rest[: match.start()], *following], ""
            break
    parts += filter(None, [rest])
    return parts if len(parts) > 1 and all(part.startswith("{") for part in parts) else []


def _leading_values(text: str) -> tuple[list[str], int]:
    """Return the objects at the beginning of a text, and the index after them."""
    values: list[str] = []
    start = len(text) - len(text.lstrip(_BLANKS))
    try:
        while text.startswith("{", start):
            _, end = _DECODER.raw_decode(text, start)
            values.append(text[start:end])
            start = len(text) - len(text[end:].lstrip(_BLANKS))
    except (ValueError, RecursionError):
        pass
    return values, start


_BLANKS = "\ufeff \t\r\n"
_OBJECT_START = re.compile(r'(?<![:,\[ \t])\{"')
"""The start of an object that is not nested in the truncated one before it."""
_MAX_SEARCHES, _MAX_SEARCHED = 16, 4 * 1024 * 1024
"""The number of positions tried after a truncated object, and the number of characters that are searched."""


def _decode_deep(raw: str | bytes) -> Any:
    """Decode JSON of any depth, with the standard library where msgspec fails."""
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        raise LimitExceeded from None
    except ValueError:
        text = raw if isinstance(raw, str) else raw.decode()
        return _replace_surrogates(_DECODER.decode(text.removeprefix("\ufeff")))


def _reject_constant(constant: str) -> NoReturn:
    """Reject NaN and Infinity, which are not JSON."""
    raise ValueError(constant)


def _parse_finite_float(digits: str) -> float:
    """Parse a number with a fraction or an exponent. Raises LimitExceeded if it exceeds the range of a float."""
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise LimitExceeded
    return number


def _parse_bounded_int(digits: str) -> int:
    """Parse an integer. Raises LimitExceeded beyond Python's limit on digits."""
    try:
        return int(digits)
    except ValueError:
        raise LimitExceeded from None


_DECODER = json.JSONDecoder(
    parse_constant=_reject_constant, parse_float=_parse_finite_float, parse_int=_parse_bounded_int
)


def _replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates by U+FFFD in all strings and keys of a value; distinct keys stay distinct."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = _replacement_keys(value)
    return {keys[key]: _replace_surrogates(item) for key, item in value.items()}


def _replacement_keys(record: dict[str, Any]) -> dict[str, str]:
    """Map each key to its replacement; keys that would become equal get a number: `\ufffd`, `\ufffd~1`."""
    replacements = {key: key for key in record if not _SURROGATES.search(key)}
    used, counts = set(replacements), Counter[str]()
    for key in record:
        if key not in replacements:
            replaced = name = _SURROGATES.sub("\ufffd", key)
            while name in used:
                counts[replaced] += 1
                name = f"{replaced}~{counts[replaced]}"
            used.add(name)
            replacements[key] = name
    return replacements
