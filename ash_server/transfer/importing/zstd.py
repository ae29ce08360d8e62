"""The zstd decoder, which is imported where a compressed file is opened and not before.

A few bytes of such a file can stand for terabytes: the window of the decoder is bounded, and so is what comes out for
what went in.
"""

from errno import EFBIG, EILSEQ
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

import zstandard

LARGEST_HEADER = 18

_LARGEST_WINDOW = 128 * 1024 * 1024
"""What the zstd command, too, decodes without being asked for more."""

_ALWAYS_READ = 256 * 1024 * 1024
_LARGEST_RATIO = 1000
"""Beyond this, what is larger than _ALWAYS_READ is a bomb. Transcripts shrink to a tenth, repeated images to less."""


def told_size(head: bytes) -> int | None:
    """Of what a file expands to, where its header tells."""
    try:
        told = zstandard.frame_content_size(head)
    except zstandard.ZstdError:
        return None
    return told if told > 0 else None


class Decompressed(RawIOBase):
    """Reading raises OSError for what is no zstd, or too much of it."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._reader = decompressor.stream_reader(file, read_across_frames=True, closefd=False)
        self._path = path
        self._left = max(_ALWAYS_READ, _LARGEST_RATIO * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # BufferedReader gives no other
        try:
            size = self._reader.readinto(buffer)
        except zstandard.ZstdError as error:
            raise OSError(EILSEQ, f"not valid zstd: {error}", str(self._path)) from None
        self._left -= size
        if self._left < 0:
            raise OSError(EFBIG, f"expands to more than {_LARGEST_RATIO} times its size", str(self._path))
        return size
