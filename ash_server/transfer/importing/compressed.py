"""Open plain and zstd-compressed files; decompression takes bounded memory.

Codex compresses rollouts that have been idle for some days to `.jsonl.zst`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOTSUP
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from ash_server.errors import missing_package_message
from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.transfer.importing.transcript_files import is_compressed

_CHUNK_BYTES = 128 * 1024


@contextmanager
def open_text(path: Path, access: FileAccess = ANY_FILE) -> Iterator[BinaryIO]:
    """Open a file for reading its decompressed bytes. Opening and reading raise OSError, also for invalid zstd."""
    with access.open(path) as file:
        if not is_compressed(path):
            yield file
        else:
            _require_zstandard(path)
            from ash_server.transfer.importing.zstd import ZstdReader

            with BufferedReader(ZstdReader(file, path), _CHUNK_BYTES) as text:
                yield cast(BinaryIO, text)


def skip(file: BinaryIO, size: int) -> None:
    """Skip bytes at the beginning of a file."""
    if file.seekable():
        file.seek(size)
        return
    while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
        size -= len(chunk)


def text_size(path: Path, access: FileAccess = ANY_FILE) -> int:
    """Return the decompressed size in bytes if the header states it, else the size of the file. Raises OSError."""
    with access.open(path) as file:
        size = os.fstat(file.fileno()).st_size
        if not is_compressed(path):
            return size
        _require_zstandard(path)
        from ash_server.transfer.importing.zstd import MAX_HEADER_BYTES, content_size

        return content_size(file.read(MAX_HEADER_BYTES)) or size


def _require_zstandard(path: Path) -> None:
    try:
        import zstandard  # noqa: F401
    except ModuleNotFoundError as error:
        raise OSError(ENOTSUP, missing_package_message(error), str(path)) from None
