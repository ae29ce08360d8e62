"""Reading of a backup file. It may be damaged or hostile, so no part is read without a limit."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from io import SEEK_SET, FileIO
from pathlib import Path
from struct import error as StructError  # noqa: N812  # a class
from typing import IO, Annotated, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile
from zlib import error as ZlibError  # noqa: N812  # a class

import msgspec
from msgspec import Meta, Struct

from ash_server.errors import AshError

FORMAT = 1
MANIFEST = "backup.json"

CHUNK_BYTES = 1024 * 1024
MAX_MANIFEST_BYTES = 1024 * 1024
MAX_ROW_BYTES = 512 * 1024 * 1024
"""More than a row with a message of maximum length, escaped by COPY."""

_IS_ENCRYPTED = 1
_MAX_SEQUENCE = 2**63 - 1

DAMAGED = (
    BadZipFile,
    EOFError,
    KeyError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    StructError,
    UnicodeError,
    ZlibError,
    msgspec.MsgspecError,
)
"""The errors that reading a damaged file may raise."""


class InvalidBackup(AshError):
    status, code, title = 500, "invalid_backup", "The file is not a backup of this or an earlier Ash."


class Manifest(Struct):
    """The contents of a backup."""

    format: int
    revision: Annotated[str, Meta(pattern="^[0-9]{4}$")]
    tables: Mapping[str, list[str]]
    """The columns of each table."""
    sequences: Mapping[str, Annotated[int, Meta(ge=1, le=_MAX_SEQUENCE)] | None]
    sessions: Annotated[int, Meta(ge=0)]


class BackupFile:
    """A backup file, open while entered. All methods raise the errors in DAMAGED, and OSError."""

    def __init__(self, path: Path) -> None:
        with ExitStack() as stack:
            self._archive = stack.enter_context(ZipFile(stack.enter_context(_LimitedReads(path))))
            self.manifest = msgspec.json.decode(self._read_manifest(), type=Manifest)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check_entries(self) -> None:
        """Raise BadZipFile unless there is exactly one entry for each table."""
        expected = [MANIFEST, *map(entry_name, self.manifest.tables)]
        if sorted(self._archive.namelist()) != sorted(expected):
            raise BadZipFile("the entries differ from the tables")

    def read_rows(self, table: str) -> Iterator[bytes]:
        """Yield the output of COPY in chunks, which may end within a row."""
        read = row_bytes = 0
        with self._open(entry_name(table)) as entry:
            while chunk := entry.read(CHUNK_BYTES):
                read += len(chunk)
                _, newline, rest = chunk.rpartition(b"\n")
                row_bytes = len(rest) if newline else row_bytes + len(chunk)
                if row_bytes > MAX_ROW_BYTES:
                    raise BadZipFile("a row is too long")
                yield chunk
        if read != self._archive.getinfo(entry_name(table)).file_size:
            raise BadZipFile("the size differs from the directory")

    def _read_manifest(self) -> bytes:
        with self._open(MANIFEST) as entry:
            data = entry.read(MAX_MANIFEST_BYTES + 1)
        if len(data) > MAX_MANIFEST_BYTES:
            raise BadZipFile("the manifest is too long")
        return data

    def _open(self, name: str) -> IO[bytes]:
        """Open an entry. Refuses compressions that zipfile reads without limiting the size of a chunk."""
        info = self._archive.getinfo(name)
        if info.compress_type not in (ZIP_DEFLATED, ZIP_STORED) or info.flag_bits & _IS_ENCRYPTED:
            raise BadZipFile("an unsupported compression, or encryption")
        return self._archive.open(info)


def entry_name(table: str) -> str:
    return f"{table}.copy"


class _LimitedReads(FileIO):
    """A file that limits each read to one chunk, including the directory of the archive."""

    def read(self, size: int | None = -1, /) -> bytes:
        is_limited = size is not None and 0 <= size <= CHUNK_BYTES
        data = super().read(size if is_limited else CHUNK_BYTES + 1)
        if len(data) > CHUNK_BYTES:
            raise BadZipFile("a part is too long")
        return data

    def seek(self, offset: int, whence: int = SEEK_SET, /) -> int:
        try:
            return super().seek(offset, whence)
        except OSError as error:
            raise BadZipFile("a position outside the file") from error
