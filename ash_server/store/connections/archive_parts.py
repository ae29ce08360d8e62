"""Parts of archives: texts with their sequences, compressed.

A part is MessagePack in an XZ container: the pairs of sequence and text of messages, and those of events.
"""

import lzma
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import msgspec

MAX_PART_BYTES = 8 * 1024 * 1024
"""A part ends with the text that exceeds this many bytes: the size of the dictionary of the compression."""

_MIN_DICTIONARY = 4096

ArchivedTexts: TypeAlias = list[tuple[int, str]]
"""Sequences and texts."""


class ArchivePart(msgspec.Struct, array_like=True, frozen=True):
    messages: ArchivedTexts
    events: ArchivedTexts


class PackedPart(NamedTuple):
    data: bytes
    digest: bytes
    """SHA-256 of the data."""


_decoder = msgspec.msgpack.Decoder(ArchivePart)


def pack(part: ArchivePart) -> PackedPart:
    """Compress a part. Raises ValueError if it does not read back as it was."""
    encoded = msgspec.msgpack.encode(part)
    size = min(max(len(encoded), _MIN_DICTIONARY), MAX_PART_BYTES)  # a larger dictionary would only take time
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size}]
    data = lzma.compress(encoded, check=lzma.CHECK_CRC64, filters=filters)
    digest = sha256(data).digest()
    if unpack(data, digest) != part:
        raise ValueError("the archive differs from the texts")
    return PackedPart(data, digest)


def unpack(data: bytes, digest: bytes) -> ArchivePart:
    """Raises ValueError if the data is damaged."""
    if sha256(data).digest() != digest:
        raise ValueError("the digest differs")
    try:
        return _decoder.decode(lzma.decompress(data))
    except (lzma.LZMAError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
