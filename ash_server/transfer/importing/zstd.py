"""zstd decompression; imported only when a compressed file is opened.

A few compressed bytes can expand to terabytes, so the window size and the compression ratio are limited.
"""

import os
from errno import EFBIG, EILSEQ
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

import zstandard

MAX_HEADER_BYTES = 18

_MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""The default limit of the zstd command."""

_MIN_LIMIT_BYTES = 256 * 1024 * 1024
_MAX_RATIO = 1000
"""Applies to more than _MIN_LIMIT_BYTES. Transcripts are compressed to a tenth, repeated images to less."""


def content_size(head: bytes) -> int | None:
    """Return the decompressed size if the header states it."""
    try:
        size = zstandard.frame_content_size(head)
    except zstandard.ZstdError:
        return None
    return size if size > 0 else None


def decompress(data: bytes, max_bytes: int) -> bytes:
    """Raises ValueError for invalid zstd and for a longer text."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            text = reader.read(max_bytes + 1)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None
    if len(text) > max_bytes:
        raise ValueError(f"expands to more than {max_bytes} bytes")
    return text


class ZstdReader(RawIOBase):
    """Decompresses a file. Reading raises OSError for invalid zstd and beyond the limit."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
        self._reader = decompressor.stream_reader(file, read_across_frames=True, closefd=False)
        self._path = path
        self._remaining = max(_MIN_LIMIT_BYTES, _MAX_RATIO * os.fstat(file.fileno()).st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader passes no other type
        try:
            size = self._reader.readinto(buffer)
        except zstandard.ZstdError as error:
            raise OSError(EILSEQ, f"not valid zstd: {error}", str(self._path)) from None
        self._remaining -= size
        if self._remaining < 0:
            raise OSError(EFBIG, f"expands to more than {_MAX_RATIO} times its size", str(self._path))
        return size
