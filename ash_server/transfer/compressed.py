"""Files as their texts are read: plain, or decompressed on the way in bounded memory.

Codex compresses rollouts that have been idle for some days to `.jsonl.zst`. A few bytes of such a file can stand for
terabytes: the window of the decoder is bounded, and so is what comes out for what went in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EFBIG, EILSEQ
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from ash_server.transfer.files import is_compressed

_LARGEST_WINDOW = 128 * 1024 * 1024
"""What the zstd command, too, decodes without being asked for more."""

_ALWAYS_READ = 256 * 1024 * 1024
_LARGEST_RATIO = 1000
"""Beyond this, what is larger than _ALWAYS_READ is a bomb. Transcripts shrink to a tenth, repeated images to less."""

_PIECE = 128 * 1024
_LARGEST_HEADER = 18


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """The bytes of the text, from its beginning. Opening and reading raise OSError, also for what is no zstd."""
    with path.open("rb") as file:
        if not is_compressed(path):
            yield file
        else:
            with BufferedReader(_Decompressed(file, path), _PIECE) as text:
                yield cast(BinaryIO, text)


def skip(file: BinaryIO, size: int) -> None:
    """Passes over so many bytes at the beginning of a file."""
    if file.seekable():
        file.seek(size)
        return
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        size -= len(piece)


def text_size(path: Path) -> int:
    """In bytes: of a plain file exact, of a compressed one what its header says, else its own. Raises OSError."""
    size = path.stat().st_size
    if not is_compressed(path):
        return size
    with path.open("rb") as file:
        head = file.read(_LARGEST_HEADER)
    try:
        told = zstandard.frame_content_size(head)
    except zstandard.ZstdError:
        return size
    return told if told > 0 else size


class _Decompressed(RawIOBase):
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
