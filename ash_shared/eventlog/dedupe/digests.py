"""Content digests used for deduplication."""

from typing import Any
from zlib import crc32

import msgspec

from ash_shared.model.blocks import Block, is_audio
from ash_shared.records.digests import bytes_digest
from ash_shared.records.digests import text_digest as text_digest
from ash_shared.records.steps import Speaker

_encode = msgspec.json.Encoder(order="sorted").encode
_IGNORED_KEYS = frozenset({"extra", "source_type"})
_IDENTITY_KEYS = {"text": "text", "thinking": "thinking", "tool_use": "id", "tool_result": "tool_use_id"}


def value_digest(value: Any) -> str:
    """Return the digest of a value of JSON."""
    return bytes_digest(_encode(value))


def content_digest(content: Block) -> str:
    """Return the digest of a block without the keys that only describe its wire form."""
    return bytes_digest(_encode({name: content[name] for name in content if name not in _IGNORED_KEYS}))


def message_digest(role: Speaker, block: Block) -> str:
    """Return a digest that does not depend on the format: calls and results are identified by their ids, if any. All
    speech of the assistant has the same: requests refer to it by an id."""
    wire = block["type"]
    if role == "assistant" and is_audio(block):
        return bytes_digest(b"audio")
    identity = block.get(_IDENTITY_KEYS.get(wire, "type"))
    if wire not in _IDENTITY_KEYS or identity is None:
        identity = {name: block[name] for name in block if name not in _IGNORED_KEYS}
    return bytes_digest(_encode([role, wire, identity]))


def checksum(text: str, before: int = 0) -> int:
    """Extend the checksum of the preceding text: chunks and the whole text have the same checksum."""
    return crc32(text.encode("utf-8", "replace"), before)
