"""From stored text to typed blocks. Reading never raises, drops nothing and makes nothing up.

Most stored texts are lines whose `message.content` is already in the vocabulary of `content`. They take a short way:
one decode that builds the content and only scans the rest. Everything else is decoded whole and given to the
provider that recognises it. Both ways read blocks with the same functions, so they cannot disagree.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from pydantic import TypeAdapter, ValidationError

from ash_shared.model.blocks import (
    CLASSES,
    MAX_BLOCKS,
    MAX_DEPTH,
    Block,
    LimitExceeded,
    is_native,
    is_valid,
    nests_deeper,
    raw_block,
    text_block,
    wire_name,
)
from ash_shared.model.content import MessageContent
from ash_shared.model.message import Description, Drift, Facts, Kind, ParsedLine, Reading, Role
from ash_shared.providers import discover
from ash_shared.providers._kit.contract import Part, Provider, Record, RecordReading, message_of, speaker
from ash_shared.providers._kit.steps import Counted, Step, Stray, Whole, is_sound
from ash_shared.reading.system_text import is_system_message, visible_text

PARSER_VERSION = 4
"""Raised whenever describing a stored text gives something else than it gave before."""

_PROVIDERS = discover()
_NATIVE = _PROVIDERS["claude"]
"""The provider whose blocks are the vocabulary of `content` themselves."""


def parse_message_content(raw: str | bytes, source: str | None = None) -> list[MessageContent]:
    """The typed blocks of one stored text; `source` names its format where that is known. Never raises."""
    raw = _exact(raw)
    if source in _NATIVE_SOURCES:
        try:
            content = _content_of(_decode_envelope(raw))
            if content.__class__ is list and len(content) <= MAX_BLOCKS:
                return [_typed_native(block) for block in content]
            if content.__class__ is str:
                return [_typed(text_block(content))]
        except (ValueError, RecursionError):
            pass
    return typed_blocks(_read(raw, source).reading.blocks)


def parse_message_content_json(raw: str | bytes, source: str | None = None) -> bytes:
    """The same blocks as a JSON array in UTF-8, made without building them as objects. Never raises.

    Content that needs no translation is copied byte for byte: spelling of numbers, escapes and the order of keys
    stay as they were written.
    """
    raw = _exact(raw)
    if source in _NATIVE_SOURCES:
        try:
            content = _content_of(_decode_slices(raw))
            if content is not UNSET and (spliced := _splice(content)) is not None:
                return spliced
        except (ValueError, RecursionError):
            pass
    return _encode(_read(raw, source).reading.blocks)


def read_message(raw: str | bytes, source: str | None = None) -> Reading:
    """The blocks of one stored text with what else reading shows of it. Never raises."""
    read = _read(_exact(raw), source)
    kind, role, blocks = read.reading
    return Reading(source=read.source(source), kind=kind, role=role, parsed=typed_blocks(blocks))


def describe_message(raw: str | bytes, source: str | None = None) -> Description:
    """What storing a text needs to know of it. Never raises."""
    return describe_read(read_raw(raw, source), source)


def describe_read(read: "Read", source: str | None) -> Description:
    """As `describe_message`, for what was read already."""
    kind, role, blocks = read.reading
    return Description(
        source=read.source(source),
        kind=kind,
        role=role,
        block_types=tuple(sorted({block["type"] for block in blocks})),
        facts=read.facts(),
        prompt=_prompt(read) if (kind, role) == ("message", "user") else None,
        drift=_drift(blocks),
        digest=blake2b(_encode((kind, role, blocks)), digest_size=16).digest(),
    )


_LONGEST_PROMPT = 200


def _prompt(read: "Read") -> str | None:
    blocks = read.reading.blocks
    if read.record is not None and not _SEVERAL.isdisjoint(read.record):
        said = [part for part in read.parts() if part.role == "user" and not part.metadata.get("synthetic")]
        blocks = [block for part in said for block in part.blocks]
    for block in blocks:
        if block["type"] == "text" and not is_system_message(block["text"]):
            words = " ".join(visible_text(block["text"][: 50 * _LONGEST_PROMPT]).split())
            return words if len(words) <= _LONGEST_PROMPT else words[: _LONGEST_PROMPT - 1] + "…"
    return None


_SEVERAL = frozenset({"contents", "history", "input", "messages"})
"""Keys of bodies that hold several messages: what the system is told stands before what the person says."""


def _drift(blocks: list[Block]) -> tuple[Drift, ...]:
    found = [
        (block["reason"], block.get("rawType") or "")
        for block in blocks
        if block["type"] == "raw" and block["reason"] in _UNCOVERED
    ]
    if not found:
        return ()
    return tuple(Drift(reason, name, count) for (reason, name), count in sorted(Counter(found).items()))


_UNCOVERED = frozenset({"unknown_type", "malformed"})


def split_lines(text: str) -> list[str]:
    r"""The lines of a JSONL text, split on `\n` alone: joining them with `\n` gives the same text again."""
    return text.split("\n")


def parse_jsonl(text: str | bytes, source: str | None = None) -> Iterator[ParsedLine]:
    """Every line of a JSONL text that is not blank, in order. Never raises."""
    exact = _exact(text)
    lines: Sequence[str | bytes] = split_lines(exact) if isinstance(exact, str) else exact.split(b"\n")
    for number, raw in enumerate(lines, start=1):
        if not is_blank(raw):
            yield ParsedLine(number, shown_text(raw), read_message(raw, source))


def is_blank(raw: str | bytes) -> bool:
    """Whether a line has nothing but what JSON takes for blanks."""
    return not (raw.strip(" \t\r\n") if isinstance(raw, str) else raw.strip(b" \t\r\n"))


def is_json(text: str | bytes) -> bool:
    """Whether all of a text is one JSON value, also one that is too large to be read as structure."""
    try:
        decode_json(text)
    except (LimitExceeded, RecursionError):
        return True
    except ValueError:
        return False
    return True


def _shallow_json(levels: int) -> Any:
    """The type of JSON that nests so deep: a decoder of it refuses the rest as fast as it decodes."""
    json_type: Any = str | int | float | bool | None
    for _ in range(levels):
        json_type = str | int | float | bool | list[json_type] | dict[str, json_type] | None
    return json_type


_Shallow = _shallow_json(8)
_Content = str | list[_Shallow]  # type: ignore[valid-type]  # made above; mypy cannot follow it


class _Message(Struct, gc=False):
    content: _Content | UnsetType = UNSET


class _MessageSlice(Struct, gc=False):
    content: Raw | UnsetType = UNSET


class _Envelope(Struct, gc=False):
    """A line or an answer of the native family; keys that are not named here are scanned and never built."""

    type: str | UnsetType = UNSET
    message: _Message | UnsetType = UNSET
    content: _Content | UnsetType = UNSET
    model: Raw | UnsetType = UNSET
    isCompactSummary: None = None  # noqa: N815  # the wire's name; lines that have it go the long way
    ev: None = None
    messageID: None = None  # noqa: N815  # marks of other formats, as those below: `_marks.OWNERS`
    parentId: None = None  # noqa: N815
    payload: None = None
    projectID: None = None  # noqa: N815
    sessionID: None = None  # noqa: N815
    original: None = field(default=None, name="_original")


class _EnvelopeSlice(Struct, gc=False):
    type: str | UnsetType = UNSET
    message: _MessageSlice | UnsetType = UNSET
    content: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET
    isCompactSummary: None = None  # noqa: N815  # the wire's name; lines that have it go the long way
    ev: None = None
    messageID: None = None  # noqa: N815  # marks of other formats, as those below: `_marks.OWNERS`
    parentId: None = None  # noqa: N815
    payload: None = None
    projectID: None = None  # noqa: N815
    sessionID: None = None  # noqa: N815
    original: None = field(default=None, name="_original")


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_slices = msgspec.json.Decoder(_EnvelopeSlice).decode
_decode_content = msgspec.json.Decoder(_Content).decode
_decode_shallow = msgspec.json.Decoder(_shallow_json(10)).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_NATIVE_SOURCES = frozenset({None, _NATIVE.source})
_LINES = frozenset({"user", "assistant"})


def _content_of(envelope: Any) -> Any:
    """The content of a line of a session or stream, or of an API answer; UNSET for all that goes the long way."""
    if envelope.type in _LINES:
        return UNSET if envelope.message is UNSET else envelope.message.content
    is_answer = envelope.type == "message" and envelope.model is not UNSET and envelope.message is UNSET
    return envelope.content if is_answer else UNSET


def _splice(content: Raw) -> bytes | None:
    """The JSON array of the blocks in this slice of a text; None where the long way has to decide."""
    blocks = _decode_content(content)
    if blocks.__class__ is str:
        return b'[{"type":"text","text":' + bytes(content) + b"}]"
    if len(blocks) > MAX_BLOCKS:
        return None
    native = list(map(is_native, blocks))
    if False not in native:
        return bytes(content)
    pairs = zip(native, blocks, strict=True)
    return _encode([block if as_it_is else _NATIVE.read_block(block) for as_it_is, block in pairs])


_VALIDATORS: Mapping[str, Callable[[Block], Any]] = {
    name: TypeAdapter(model).validator.validate_python for name, model in CLASSES.items()
}


def _typed(block: Block) -> Any:
    """The object of a valid block."""
    return _VALIDATORS[block["type"]](block)


def typed_blocks(blocks: list[Block]) -> list[Any]:
    """The objects of valid blocks."""
    return list(map(_typed, blocks))


def _typed_native(block: Any) -> Any:
    """The object of one element of a content list, tried as it is before it is read."""
    try:
        wire = block["type"]
        if wire in _VALIDATORS and (wire != "tool_result" or block["content"].__class__ is str):
            return _VALIDATORS[wire](block)
    except (KeyError, TypeError, ValidationError):
        pass
    return _typed(_NATIVE.read_block(block))


class Read(Struct, frozen=True):
    """What was read, and by whom, where a provider knew the record."""

    reading: RecordReading
    provider: Provider | None = None
    record: Record | None = None
    elements: Sequence["Read"] = ()
    """Those of a top-level list, each read for itself."""

    def source(self, declared: str | None) -> str:
        return declared or (self.provider.source if self.provider else "unknown")

    def facts(self) -> Facts:
        if self.elements:
            return self.elements[0].facts()._replace(uuid=None)
        return self.provider.facts(self.record) if self.provider and self.record is not None else Facts()

    def parts(self) -> list[Part]:
        """What it adds to the standard messages of its session. Never raises."""
        if self.provider is None or self.record is None:
            return message_of({}, self.reading)
        try:
            return self.provider.parts(self.record, self.reading)
        except (AttributeError, LookupError, TypeError, ValueError):
            return message_of(self.record, self.reading)

    def steps(self, declared: str | None = None, role: Role | None = None) -> list[Step]:
        """What it adds to the log of events; `declared` and `role` are what its writer said of it. Never raises."""
        if self.elements:
            return [step for element in self.elements for step in element.steps(declared)]
        if self.record is None and self.reading.kind == "message" and role is None:
            return _beside_records(self.reading.blocks[0]["text"], declared)
        told = self._told_steps()
        if told is not None:
            return told
        parts = self.parts()
        if role is not None and self.provider is None and parts:
            parts = [Part(role=speaker(role), blocks=self.reading.blocks)]
        if parts or self.reading.kind != "record":
            return [Whole(part) for part in parts]
        return [Whole(Part(role="system", blocks=self.reading.blocks))]

    def _told_steps(self) -> list[Step] | None:
        """Those of the provider; a piece of a stream that is not what its type promises is told as it is."""
        if self.provider is None or self.record is None:
            return None
        try:
            steps = self.provider.steps(self.record, self.reading)
            if steps is None or all(map(is_sound, steps)):
                return steps
        except (AttributeError, LookupError, TypeError, ValueError):
            if self.reading.kind != "chunk":
                return None
        malformed = raw_block("malformed", self.record, wire_name(self.record))
        return [Whole(Part(role="system", blocks=[malformed]))]


def _beside_records(text: str, declared: str | None) -> list[Step]:
    """A text that is no record, or a line of an API's stream as it is sent, which has one behind `data:`. Such streams
    end with `[DONE]`, which says that nothing follows."""
    said = text.strip()
    data = said.removeprefix("data:").lstrip()
    if data == "[DONE]":
        return [Counted(None)]
    if data is not said and data.startswith("{"):
        sent = _sent(data, declared)
        if sent is not None:
            return sent
    is_mark = _MARK.match(said) if declared is not None else _MARK_OF_API.fullmatch(said)
    return [] if is_mark else [Stray(text, declared is not None)]


def _sent(data: str, declared: str | None) -> list[Step] | None:
    """The steps of a record that stands behind `data:`; None where there is none that a provider knows."""
    try:
        read = _read_value(decode_json(data), declared)
    except (ValueError, RecursionError):
        return None
    return None if read.provider is None else read.steps(declared)


_MARK = re.compile(r":|(?:event|id|retry):")
"""How the lines begin that are sent beside the records; one that begins with a colon is a comment."""
_MARK_OF_API = re.compile(
    r"event: ?(?:error|ping|(?:content_block|message)_(?:delta|start|stop)|(?:interaction|response|step)\.[a-z_.]+)"
)
"""Such a line where nobody said that it is one: a person may well begin a text with a colon."""


def read_raw(raw: str | bytes, source: str | None) -> Read:
    """What `read_message` gives, before it is typed, with the record that was read. Never raises."""
    return _read(_exact(raw), source)


def _read(raw: str | bytes, source: str | None) -> Read:
    try:
        return _read_value(decode_json(raw), source)
    except (ValueError, RecursionError) as error:
        return _read_line(raw, source) or _read_unreadable(shown_text(raw), error)


class _MessageAlone(Struct, gc=False):
    content: _Content | UnsetType = UNSET
    role: Raw | UnsetType = UNSET


class _LineAlone(Struct, gc=False):
    """What reading a line needs, where something else in it cannot be decoded."""

    type: str
    message: _MessageAlone | UnsetType = UNSET
    content: _Content | UnsetType = UNSET
    role: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET
    uuid: Raw | UnsetType = UNSET
    isCompactSummary: Raw | UnsetType = UNSET  # noqa: N815  # the wire's name


_decode_alone = msgspec.json.Decoder(_LineAlone).decode


def _read_line(raw: str | bytes, source: str | None) -> Read | None:
    """A line, or an answer, whose content can be read although something beside it can not."""
    if source not in _NATIVE_SOURCES:
        return None
    try:
        line: Any = _decode_alone(raw)
        if (content := _content_of(line)) is UNSET:
            return None
        place = line.message if line.type in _LINES else line
        message = {"role": _value(place.role), "content": content}
        beside = {"uuid": _value(line.uuid), "isCompactSummary": _value(line.isCompactSummary)}
        record = {"type": line.type, **message, "message": message, **beside}
        return Read(_NATIVE.read(record), _NATIVE, record)
    except (ValueError, RecursionError):
        return None


def _value(raw: Raw | UnsetType) -> Any:
    """The value of a part that need not be readable; None where it is not."""
    try:
        return None if raw is UNSET else _decode_shallow(raw)
    except (ValueError, RecursionError):
        return None


def _read_unreadable(text: str, error: Exception) -> Read:
    if isinstance(error, LimitExceeded | RecursionError):
        return _beside(raw_block("limit", text))
    return _beside(raw_block("invalid_json", text)) if _LIKE_JSON.match(text) else _said(text)


def _beside(block: Block) -> Read:
    return Read(RecordReading("record", "system", [block]))


def _said(text: str) -> Read:
    return Read(RecordReading("message", "user", [text_block(text)]))


_LIKE_JSON = re.compile(
    r"\ufeff?[ \t\n\r]*(?:"
    r"\{[ \t\n\r]*[\"}]"
    r"|\[[ \t\n\r]*(?:[\"\[{\]0-9]|-[0-9]|(?:-?Infinity|NaN|true|false|null)\b)"
    r")"
)
"""Text that an object or an array could begin."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def _exact(raw: str | bytes) -> str | bytes:
    """The text itself, also of the classes that look like a string or like bytes, which decoders refuse."""
    if raw.__class__ is str or raw.__class__ is bytes:
        return raw
    return str.__str__(raw) if isinstance(raw, str) else bytes(raw)


def shown_text(raw: str | bytes) -> str:
    """The text, with U+FFFD for what UTF-8 has no form for; bytes that are not UTF-8 are shown as escapes."""
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "backslashreplace")
    return raw if raw.isascii() else _SURROGATES.sub("\ufffd", raw)


def decode_json(raw: str | bytes) -> Any:
    """The JSON value of a text. Raises LimitExceeded, RecursionError or another ValueError."""
    try:
        return _decode_shallow(raw)
    except ValueError:
        value = _decode_deep(raw)
    if nests_deeper(value, MAX_DEPTH):
        raise LimitExceeded
    return value


def _decode_deep(raw: str | bytes) -> Any:
    """Also takes what only the standard library decodes: halves of surrogate pairs."""
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        raise LimitExceeded from None
    except ValueError:
        decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite, parse_int=_readable)
        text = raw if isinstance(raw, str) else raw.decode()
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
    names = _shown_keys(value)
    return {names[key]: _shown(item) for key, item in value.items()}


def _shown_keys(record: Record) -> dict[str, str]:
    """A name for each key: keys that look alike once they are shown are numbered."""
    names = {key: key for key in record if not _SURROGATES.search(key)}
    taken, numbers = set(names), Counter[str]()
    for key in record:
        if key not in names:
            shown = name = _SURROGATES.sub("\ufffd", key)
            while name in taken:
                numbers[shown] += 1
                name = f"{shown}~{numbers[shown]}"
            taken.add(name)
            names[key] = name
    return names


def _read_value(value: Any, source: str | None) -> Read:
    if isinstance(value, dict):
        return _read_record(value, source)
    if isinstance(value, list):
        return _read_list(value, source)
    return _said(value) if isinstance(value, str) else _beside(raw_block("unknown_type", value))


def _read_list(values: list[Any], source: str | None) -> Read:
    """A top-level list: each element as a record would be read, else as a bare block."""
    if len(values) > MAX_BLOCKS:
        raise LimitExceeded
    whole = next((provider for provider in _PROVIDERS.values() if provider.recognizes_list(values)), None)
    if whole is not None and _PROVIDERS.get(source or "", whole) is whole:
        record = {"list": values}
        return Read(_read_with(whole, record), whole, record)
    read = [_read_element(value, source) for value in values]
    blocks = [block for each in read for block in each.reading.blocks]
    if len(blocks) > MAX_BLOCKS:
        raise LimitExceeded
    kinds: Mapping[Kind, Role] = {each.reading.kind: each.reading.role for each in reversed(read)}
    kind: Kind = next((kind for kind in _BY_WEIGHT if kind in kinds), "record")
    provider = next((each.provider for each in read if each.provider), None)
    return Read(RecordReading(kind, kinds.get(kind, "system"), blocks), provider, elements=read)


_BY_WEIGHT: tuple[Kind, ...] = ("message", "chunk", "record")
"""A list is of the weightiest kind among its elements, and has the role of the first of that kind."""


def _read_element(value: Any, source: str | None) -> Read:
    return _beside(_NATIVE.read_block(value)) if isinstance(value, list) else _read_value(value, source)


def _read_record(record: Record, source: str | None) -> Read:
    if record.get("ev") == "message" and isinstance(record.get("data"), dict):
        return _read_record(record["data"], source)
    provider = _PROVIDERS.get(source or "") or _PROVIDERS.recognize(record)
    if provider is None:
        return _beside(_NATIVE.read_block(record))
    return Read(_read_with(provider, record), provider, record)


def _read_with(provider: Provider, record: Record) -> RecordReading:
    try:
        read = provider.read(record)
        if False not in map(is_valid, read.blocks):
            return read
    except (AttributeError, LookupError, TypeError):
        pass
    return RecordReading("record", "system", [raw_block("malformed", record, wire_name(record))])
