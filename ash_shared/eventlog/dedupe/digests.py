"""Content digests used for deduplication."""

from typing import Any
from zlib import crc32

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.records.digests import bytes_digest
from ash_shared.records.digests import message_digest as message_digest
from ash_shared.records.digests import text_digest as text_digest

_encode = msgspec.json.Encoder(order="sorted").encode
_IGNORED_KEYS = frozenset({"extra", "source_type"})


def value_digest(value: Any) -> str:
    """Return the digest of a value of JSON."""
    return bytes_digest(_encode(value))


def content_digest(content: Block) -> str:
    """Return the digest of a block without the keys that only describe its wire form."""
    return bytes_digest(_encode({name: content[name] for name in content if name not in _IGNORED_KEYS}))


def checksum(text: str, before: int = 0) -> int:
    """Extend the checksum of the preceding text: chunks and the whole text have the same checksum."""
    return crc32(text.encode("utf-8", "replace"), before)
