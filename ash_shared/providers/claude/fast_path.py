"""Parse the content of session lines and API responses without decoding the rest of the record.

In most stored texts, `message.content` is already in the vocabulary of `model.content`. One decode builds
the content and only scans the other keys. Both paths parse blocks with the same functions, so they give the same
result; all other records are left to the full parser.
"""

from operator import is_
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from pydantic import ValidationError

from ash_shared.model.blocks import bounded, text_block
from ash_shared.model.typed_blocks import block_validators
from ash_shared.providers.claude.content import parse_block
from ash_shared.records.contract import FastPath, Record
from ash_shared.records.json_text import decode_shallow, shallow_json
from ash_shared.records.native_json import native_decoder

T = TypeVar("T")

_Json = shallow_json(8)
_Content = str | list[_Json]  # type: ignore[valid-type]  # a type built at run time


class _Message(Struct, Generic[T], gc=False):
    content: T | UnsetType = UNSET


class _Envelope(Struct, Generic[T], gc=False):
    """A session line or an API response; keys without a field are scanned but not built."""

    type: str | UnsetType = UNSET
    message: _Message[T] | UnsetType = UNSET
    content: T | UnsetType = UNSET
    model: Raw | UnsetType = UNSET
    isCompactSummary: None = None  # noqa: N815  # the wire name; a value makes decoding fail, as for all `None` fields below
    ev: None = None
    messageID: None = None  # noqa: N815  # keys of other formats: `fingerprints.ENVELOPE_KEYS`
    parentId: None = None  # noqa: N815
    payload: None = None
    projectID: None = None  # noqa: N815
    sessionID: None = None  # noqa: N815
    original: None = field(default=None, name="_original")


_decode_content = msgspec.json.Decoder(_Content).decode
_decode_envelope = msgspec.json.Decoder(_Envelope[_Content]).decode
_decode_slices = msgspec.json.Decoder(_Envelope[Raw]).decode
_decode_native = native_decoder(5, ("cache_control", "caller"))
_encode = msgspec.json.Encoder().encode

_VALIDATORS = block_validators()
_LINE_TYPES = frozenset({"user", "assistant"})


def _envelope_content(envelope: Any) -> Any:
    """Return the content of a session line or an API response; UNSET for any other record."""
    if envelope.type in _LINE_TYPES:
        return UNSET if envelope.message is UNSET else envelope.message.content
    is_response = envelope.type == "message" and envelope.model is not UNSET and envelope.message is UNSET
    return envelope.content if is_response else UNSET


def _parse_content(raw: str | bytes) -> list[Any] | None:
    try:
        content = _envelope_content(_decode_envelope(raw))
        if isinstance(content, list):
            return [_typed_element(block) for block in bounded(content)]
        if isinstance(content, str):
            return [_VALIDATORS["text"](text_block(content))]
    except (ValueError, RecursionError):
        pass
    return None


def _typed_element(block: Any) -> Any:
    """Return the content object of one element of a list, parsed first unless it is a valid block."""
    try:
        validate = _VALIDATORS.get(block["type"])
        may_need_translation = block.get("content").__class__ is list
        if validate and not may_need_translation:
            return validate(block)
    except (AttributeError, KeyError, TypeError, ValidationError):
        pass
    block = parse_block(block)
    return _VALIDATORS[block["type"]](block)


def _parse_content_json(raw: str | bytes) -> bytes | None:
    """Return the blocks of a text as a JSON array, copied byte for byte where they need no translation."""
    try:
        content = _envelope_content(_decode_slices(raw))
        return None if content is UNSET else _splice_blocks(content)
    except (ValueError, RecursionError):
        return None


def _splice_blocks(content: Raw) -> bytes:
    """Return the blocks of a content as a JSON array, with the same result for any number of `_skips`."""
    global _skips
    if _skips > 0:
        _skips -= 1
        return _splice_read_blocks(content)
    try:
        return _copy_blocks(content, _decode_native(content))
    except (ValueError, RecursionError):
        _skips = _SKIPS_AFTER_FAILURE
        return _splice_read_blocks(content)


_SKIPS_AFTER_FAILURE = 63
_skips = 0
"""Number of contents to parse without `_decode_native`: after a failure the next contents mostly fail too."""


def _splice_read_blocks(content: Raw) -> bytes:
    """Return the blocks of any content, copied if none needs a translation."""
    blocks = _decode_content(content)
    if isinstance(blocks, list):
        parse = list(map(parse_block, bounded(blocks)))
        if not all(map(is_, parse, blocks)):
            return _encode(parse)
    return _copy_blocks(content, blocks)


def _copy_blocks(content: Raw, blocks: str | list[Any]) -> bytes:
    """Return decoded content that needs no translation, copied byte for byte."""
    return b'[{"type":"text","text":' + bytes(content) + b"}]" if isinstance(blocks, str) else bytes(content)


class _PartialMessage(Struct, gc=False):
    content: _Content | UnsetType = UNSET
    role: Raw | UnsetType = UNSET


class _PartialRecord(Struct, gc=False):
    """The keys of a line or a response that `parse` needs."""

    type: str
    message: _PartialMessage | UnsetType = UNSET
    content: _Content | UnsetType = UNSET
    role: Raw | UnsetType = UNSET
    model: Raw | UnsetType = UNSET
    uuid: Raw | UnsetType = UNSET
    isCompactSummary: Raw | UnsetType = UNSET  # noqa: N815  # the wire's name


_decode_partial = msgspec.json.Decoder(_PartialRecord).decode


def _decode_partly(raw: str | bytes) -> Record | None:
    """Return the decodable keys of a line or a response that has another, undecodable key."""
    try:
        line: Any = _decode_partial(raw)
    except (ValueError, RecursionError):
        return None
    if (content := _envelope_content(line)) is UNSET:
        return None
    holder = line.message if line.type in _LINE_TYPES else line
    message = {"role": _decode_optional(holder.role), "content": content}
    return {
        "type": line.type,
        **message,
        "message": message,
        "uuid": _decode_optional(line.uuid),
        "isCompactSummary": _decode_optional(line.isCompactSummary),
    }


def _decode_optional(raw: Raw | UnsetType) -> Any:
    """Return the value of a slice; None if it is absent or cannot be decoded."""
    try:
        return None if raw is UNSET else decode_shallow(raw)
    except (ValueError, RecursionError):
        return None


FAST_PATH = FastPath(parse=_parse_content, parse_json=_parse_content_json, decode_partly=_decode_partly)
