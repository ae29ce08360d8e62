"""From stored text to typed blocks. Reading never raises, drops nothing and makes nothing up.

Most stored texts are lines whose `message.content` is already in the vocabulary of `content`. They take a short way:
one decode that builds the content and only scans the rest. Everything else is decoded whole and given to the
provider that recognises it. Both ways read blocks with the same functions, so they cannot disagree.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from pydantic import ValidationError

from ash_shared.blocks import (
    CLASSES,
    MAX_BLOCKS,
    MAX_DEPTH,
    Block,
    LimitExceeded,
    is_valid,
    nests_deeper,
    raw_block,
    text_block,
)
from ash_shared.content import MessageContent
from ash_shared.message import Description, Kind, ParsedLine, Reading, Role
from ash_shared.providers import Provider, Record, RecordReading, discover

_PROVIDERS = discover()
_NATIVE = _PROVIDERS["claude"]
"""The provider whose blocks are the vocabulary of `content` themselves."""


def parse_message_content(raw: str | bytes, source: str | None = None) -> list[MessageContent]:
    """The typed blocks of one stored text; `source` names its format where that is known. Never raises."""
    if (content := _quick_content(raw, source, _decode_line)) is not None:
        if content.__class__ is str:
            return [_typed(text_block(content))]
        if _within_limits(content, raw):
            return [_typed_native(block) for block in content]
    return [_typed(block) for block in _read(raw, source).blocks]


def parse_message_content_json(raw: str | bytes, source: str | None = None) -> bytes:
    """The same blocks as a JSON array in UTF-8, made without building them as objects. Never raises.

    Blocks that are already in the vocabulary are copied byte for byte: spelling of numbers, escapes and the order
    of keys stay as they were written.
    """
    slice_ = _quick_content(raw, source, _decode_line_raw)
    if slice_ is not None and (spliced := _splice(bytes(slice_), raw)) is not None:
        return spliced
    return _encode(_read(raw, source).blocks)


def read_message(raw: str | bytes, source: str | None = None) -> Reading:
    """The blocks of one stored text with what else reading shows of it. Never raises."""
    read = _read(raw, source)
    return Reading(source=read.source, kind=read.kind, role=read.role, parsed=[_typed(block) for block in read.blocks])


def describe_message(raw: str | bytes, source: str | None = None) -> Description:
    """What storing a text needs to know of it. Never raises."""
    read = _read(raw, source)
    types = tuple(sorted({block["type"] for block in read.blocks}))
    return Description(read.source, read.kind, read.role, types, read.uuid)


def split_lines(text: str) -> list[str]:
    r"""The lines of a JSONL text, split on `\n` alone: joining them with `\n` gives the same text again."""
    return text.split("\n")


def parse_jsonl(text: str | bytes, source: str | None = None) -> Iterator[ParsedLine]:
    """Every line of a JSONL text that is not blank, in order. Never raises."""
    for number, raw in enumerate(split_lines(_text_of(text)), start=1):
        if raw.strip():
            yield ParsedLine(number, raw, read_message(raw, source))


# --- the short way -----------------------------------------------------------------------------------------------


class _Message(Struct, gc=False):
    content: Any = UNSET


class _Line(Struct, gc=False):
    """A line of a session or stream; keys that are not named here are scanned and never built."""

    type: str | UnsetType = UNSET
    message: _Message | UnsetType = UNSET
    isCompactSummary: bool | UnsetType = UNSET  # noqa: N815  # the wire's name


class _RawMessage(Struct, gc=False):
    content: Raw | UnsetType = UNSET


class _RawLine(Struct, gc=False):
    type: str | UnsetType = UNSET
    message: _RawMessage | UnsetType = UNSET
    isCompactSummary: bool | UnsetType = UNSET  # noqa: N815  # the wire's name


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_line_raw = msgspec.json.Decoder(_RawLine).decode
_decode = msgspec.json.Decoder().decode
_decode_slices = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode

_LINES = frozenset({"user", "assistant"})
_NATIVE_SOURCES = frozenset({None, _NATIVE.source})
_SHORT = 400
"""Below this length scanning past the envelope costs more than building it."""
_CONTENT_LEVEL = 2
"""Levels of nesting around the content of a line."""


def _quick_content(raw: str | bytes, source: str | None, decode: Callable[[str | bytes], Any]) -> Any:
    """The content of a line of the native family, or None for all that goes the long way."""
    if len(raw) < _SHORT or source not in _NATIVE_SOURCES:
        return None
    try:
        line = decode(raw)
    except (ValueError, RecursionError):
        return None
    if line.type not in _LINES or line.message is UNSET or line.isCompactSummary is True:
        return None
    content = line.message.content
    return content if content.__class__ in (list, str, Raw) else None


def _within_limits(content: list[Any], raw: str | bytes) -> bool:
    if len(content) > MAX_BLOCKS:
        return False
    return len(raw) < 2 * MAX_DEPTH or not nests_deeper(content, MAX_DEPTH - _CONTENT_LEVEL)


def _splice(content: bytes, raw: str | bytes) -> bytes | None:
    """The JSON array of the blocks in this slice of the text; None where the long way has to decide."""
    try:
        blocks = _decode(content)
        if blocks.__class__ is str:
            return b'[{"type":"text","text":' + content + b"}]"
        if blocks.__class__ is not list or not _within_limits(blocks, raw):
            return None
        read = [_NATIVE.read_block(block) for block in blocks]
    except (ValueError, RecursionError):
        return None
    if all(typed is block for typed, block in zip(read, blocks, strict=True)):
        return content
    slices = _decode_slices(content)
    return _encode([
        slice_ if typed is block else typed
        for slice_, typed, block in zip(slices, read, blocks, strict=True)
    ])


_VALIDATORS: Mapping[str, Callable[[Block], Any]] = {name: model.model_validate for name, model in CLASSES.items()}


def _typed(block: Block) -> Any:
    """The object of a valid block."""
    return _VALIDATORS[block["type"]](block)


def _typed_native(block: Any) -> Any:
    """The object of one element of a content list, tried as it is before it is read."""
    try:
        if block.get("content").__class__ is not list:
            return _VALIDATORS[block["type"]](block)
    except (AttributeError, KeyError, TypeError, ValidationError):
        pass
    return _typed(_NATIVE.read_block(block))


# --- the long way ------------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    source: str
    kind: Kind
    role: Role
    blocks: list[Block]
    uuid: str | None = None


def _read(raw: str | bytes, source: str | None) -> _Read:
    text = _text_of(raw)
    try:
        value = _decode_text(text)
        if nests_deeper(value, MAX_DEPTH):
            raise LimitExceeded
        return _read_value(value, source)
    except (LimitExceeded, RecursionError):
        return _Read(source or "unknown", "record", "system", [raw_block("limit", text)])
    except ValueError:
        return _read_plain(text, source)


def _read_plain(text: str, source: str | None) -> _Read:
    if _LIKE_JSON.match(text):
        return _Read(source or "unknown", "record", "system", [raw_block("invalid_json", text)])
    return _Read(source or "unknown", "message", "user", [text_block(text)])


_LIKE_JSON = re.compile(
    r"""\ufeff? \s* (?: \{ \s* ["}] | \[ \s* (?: ["\[{\]\d-] | true\b | false\b | null\b | NaN\b | Infinity\b ) )""",
    re.VERBOSE,
)
"""Text that an object or an array could begin."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def _text_of(raw: str | bytes) -> str:
    """The text, with U+FFFD for what UTF-8 has no form for; bytes that are not UTF-8 are shown as escapes."""
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "backslashreplace")
    return raw if raw.isascii() else _SURROGATES.sub("\ufffd", raw)


def _decode_text(text: str) -> Any:
    """The JSON value of a text. Raises LimitExceeded, RecursionError or another ValueError."""
    try:
        return _decode(text)
    except msgspec.ValidationError:
        raise LimitExceeded from None
    except ValueError:
        decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, parse_int=_readable)
        return _shown(decoder.decode(text.removeprefix("\ufeff")))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise LimitExceeded
    return number


def _readable(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        raise LimitExceeded from None


def _shown(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates, in keys too, which stay apart."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown: dict[str, Any] = {}
    for key, item in value.items():
        name = _SURROGATES.sub("\ufffd", key)
        while name in shown or (name != key and name in value):
            name += "\ufffd"
        shown[name] = _shown(item)
    return shown


def _read_value(value: Any, source: str | None) -> _Read:
    if isinstance(value, dict):
        return _read_record(value, source)
    if isinstance(value, list):
        return _read_list(value, source)
    if isinstance(value, str):
        return _Read(source or "unknown", "message", "user", [text_block(value)])
    return _Read(source or "unknown", "record", "system", [raw_block("unknown_type", value)])


def _read_list(values: list[Any], source: str | None) -> _Read:
    """A top-level list: each element as a record would be read, else as a bare block."""
    if len(values) > MAX_BLOCKS:
        raise LimitExceeded
    read = [_read_element(value, source) for value in values]
    blocks = [block for each in read for block in each.blocks]
    if len(blocks) > MAX_BLOCKS:
        raise LimitExceeded
    first = next((each for each in read if each.kind == "message"), None) or next(
        (each for each in read if each.kind == "chunk"), _Read("unknown", "record", "system", [])
    )
    found = next((each.source for each in read if each.source != "unknown"), "unknown")
    return _Read(source or found, first.kind, first.role, blocks)


def _read_element(value: Any, source: str | None) -> _Read:
    if isinstance(value, list):
        return _Read(source or "unknown", "record", "system", [_NATIVE.read_block(value)])
    return _read_value(value, source)


def _read_record(record: Record, source: str | None) -> _Read:
    if record.get("ev") == "message" and isinstance(record.get("data"), dict):
        return _read_record(record["data"], source)
    provider = _PROVIDERS.get(source or "") or _recognize(record)
    if provider is None:
        return _Read(source or "unknown", "record", "system", [_NATIVE.read_block(record)])
    read = _read_with(provider, record)
    return _Read(source or provider.source, *read, provider.uuid(record))


def _recognize(record: Record) -> Provider | None:
    return next((provider for provider in _PROVIDERS.values() if provider.recognizes(record)), None)


def _read_with(provider: Provider, record: Record) -> RecordReading:
    try:
        read = provider.read(record)
        if all(map(is_valid, read.blocks)):
            return read
    except (AttributeError, KeyError, TypeError):
        pass
    wire = record.get("type")
    return RecordReading("record", "system", [raw_block("malformed", record, wire if isinstance(wire, str) else None)])
