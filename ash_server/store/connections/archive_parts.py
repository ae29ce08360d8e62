"""Parts of archives: texts with their sequences, compressed.

A part is MessagePack: the pairs of sequence and text of messages, then of events. It is compressed with XZ, or with
zlib if most of it is text such as Base64, which XZ makes no smaller and compresses at 2 MB/s.
"""

import lzma
import zlib
from hashlib import sha256
from typing import NamedTuple, TypeAlias

import msgspec

MAX_PART_BYTES = 8 * 1024 * 1024
"""A part ends with the text that exceeds this many bytes: the size of the dictionary of the compression."""

_MIN_DICTIONARY = 4096

_SAMPLES = 64
_SAMPLE_BYTES = 1024
_REPEATED_BYTES = 64
_MIN_RATIO = 0.7
"""Samples are incompressible if zlib leaves at least this part."""

_MAX_REPEATED = _SAMPLES // 8
"""If more samples occur again, XZ is used: it finds repetitions at any distance, such as a second copy of an image."""

ArchivedTexts: TypeAlias = list[tuple[int, str]]
"""Sequences and texts."""


class ArchivePart(msgspec.Struct, array_like=True, frozen=True):
    messages: ArchivedTexts
    events: ArchivedTexts


class PackedPart(NamedTuple):
    data: bytes
    digest: bytes
    """SHA-256 of the data."""


_XZ = b"\xfd7zXZ\0"

_decoder = msgspec.msgpack.Decoder(ArchivePart)


def pack(part: ArchivePart) -> PackedPart:
    """Compress a part. Raises ValueError if it does not read back as it was."""
    encoded = msgspec.msgpack.encode(part)
    data = zlib.compress(encoded) if _is_incompressible(encoded) else _compress(encoded)
    digest = sha256(data).digest()
    if unpack(data, digest) != part:
        raise ValueError("the archive differs from the texts")
    return PackedPart(data, digest)


def unpack(data: bytes, digest: bytes) -> ArchivePart:
    """Raises ValueError if the data is damaged."""
    if sha256(data).digest() != digest:
        raise ValueError("the digest differs")
    try:
        return _decoder.decode(lzma.decompress(data) if data.startswith(_XZ) else zlib.decompress(data))
    except (lzma.LZMAError, zlib.error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def _compress(encoded: bytes) -> bytes:
    size = min(max(len(encoded), _MIN_DICTIONARY), MAX_PART_BYTES)  # a larger dictionary would only take time
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": size}]
    return lzma.compress(encoded, check=lzma.CHECK_CRC64, filters=filters)


def _is_incompressible(encoded: bytes) -> bool:
    """True if samples are incompressible, and few of them occur again."""
    if len(encoded) < 2 * _SAMPLES * _SAMPLE_BYTES:
        return False
    places = range(0, len(encoded) - _SAMPLE_BYTES, len(encoded) // _SAMPLES)
    sample = b"".join([encoded[place : place + _SAMPLE_BYTES] for place in places])
    if len(zlib.compress(sample)) < _MIN_RATIO * len(sample):
        return False
    repeated = sum(
        encoded.find(encoded[place : place + _REPEATED_BYTES], place + _REPEATED_BYTES) >= 0
        for place in places
    )
    return repeated <= _MAX_REPEATED
