"""By what things are known again, where they are told twice."""

from hashlib import blake2b
from zlib import crc32

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Speaker

_encode = msgspec.json.Encoder(order="sorted").encode
_IGNORED_KEYS = frozenset({"extra", "source_type"})
_IDENTITY_KEYS = {"text": "text", "thinking": "thinking", "tool_use": "id", "tool_result": "tool_use_id"}


def text_digest(text: str) -> str:
    return _bytes_digest(text.encode("utf-8", "replace"))


def content_digest(content: Block) -> str:
    """Of all that it says; not of what stands beside it on the wire."""
    return _bytes_digest(_encode({name: content[name] for name in content if name not in _IGNORED_KEYS}))


def message_digest(role: Speaker, block: Block) -> str:
    """Of what is said, however it is written: of calls and results, by their ids where they have any."""
    wire = block["type"]
    told = block.get(_IDENTITY_KEYS.get(wire, "type"))
    if wire not in _IDENTITY_KEYS or told is None:
        told = {name: block[name] for name in block if name not in _IGNORED_KEYS}
    return _bytes_digest(_encode([role, wire, told]))


def checksum(text: str, before: int = 0) -> int:
    """Of texts that come one after the other, as of all of them together."""
    return crc32(text.encode("utf-8", "replace"), before)


def _bytes_digest(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()
