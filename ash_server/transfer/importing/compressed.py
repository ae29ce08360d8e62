"""Files as their texts are read: plain, or decompressed on the way in bounded memory.

Codex compresses rollouts that have been idle for some days to `.jsonl.zst`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOTSUP
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from ash_server.optional_packages import missing
from ash_server.transfer.importing.transcript_files import is_compressed

_PIECE = 128 * 1024


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """The bytes of the text, from its beginning. Opening and reading raise OSError, also for what is no zstd."""
    with path.open("rb") as file:
        if not is_compressed(path):
            yield file
        else:
            _check_zstandard(path)
            from ash_server.transfer.importing.zstd import Decompressed

            with BufferedReader(Decompressed(file, path), _PIECE) as text:
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
    _check_zstandard(path)
    from ash_server.transfer.importing.zstd import LARGEST_HEADER, told_size

    with path.open("rb") as file:
        return told_size(file.read(LARGEST_HEADER)) or size


def _check_zstandard(path: Path) -> None:
    try:
        import zstandard  # noqa: F401
    except ModuleNotFoundError as error:
        raise OSError(ENOTSUP, missing(error), str(path)) from None
