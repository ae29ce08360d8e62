"""Unpack the wanted files of an untrusted package."""

import fnmatch
import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

MAX_FILES = 20_000
MAX_BYTES = 2 * 1024**3
"""Of all files of a package, unpacked."""

_MAX_INFLATED_BYTES = MAX_BYTES + MAX_FILES * 1024
"""With the headers and padding of a tar."""
_CHUNK = 1024**2
_MAX_HEADER_BYTES = 1024**2
"""Of an extended header, which `tarfile` reads at once."""


class UnsafeArchive(Exception):
    """The archive is too large, or contains something other than files at relative paths."""


class _Entry(NamedTuple):
    path: str
    size: int
    file: IO[bytes]


def unpack(archive: Path, folder: Path, wanted: Iterable[str]) -> list[Path]:
    """Write the files that match one of the patterns into the folder, and return their paths.

    The whole archive is checked, also the files that are not wanted. Raises UnsafeArchive.
    """
    patterns, written, total = tuple(wanted), list[Path](), 0
    with _entries(archive) as entries:
        for number, entry in enumerate(entries, 1):
            total += entry.size
            if number > MAX_FILES or total > MAX_BYTES:
                raise UnsafeArchive(f"{archive.name} has more than {MAX_FILES} files or {MAX_BYTES} bytes")
            if any(fnmatch.fnmatchcase(entry.path, pattern) for pattern in patterns):
                written.append(_write(entry, folder))
    return written


@contextmanager
def _entries(archive: Path) -> Iterator[Iterator[_Entry]]:
    if archive.suffix == ".tgz":
        with gzip.open(archive) as file, tarfile.open(fileobj=cast(IO[bytes], _Limited(file))) as tar:
            yield _tar_entries(tar)
    else:
        with zipfile.ZipFile(archive) as zipped:
            yield _zip_entries(zipped)


class _Limited:
    """The inflated bytes of an archive: with an end, and never many at once."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self.tell = file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= max(_CHUNK, _MAX_HEADER_BYTES):
            raise UnsafeArchive(f"a header is larger than {_MAX_HEADER_BYTES} bytes")
        self._check(self.tell() + size)
        return self._file.read(size)

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        self._check(position)
        return self._file.seek(position, whence)

    def _check(self, position: int) -> None:
        if position > _MAX_INFLATED_BYTES:
            raise UnsafeArchive(f"the archive has more than {_MAX_INFLATED_BYTES} bytes")


def _tar_entries(tar: tarfile.TarFile) -> Iterator[_Entry]:
    for member in tar:
        _check_path(member.name)
        if member.isdir():
            continue
        file = tar.extractfile(member) if member.isreg() else None
        if file is None:
            raise UnsafeArchive(f"{member.name!r} is not a file")
        yield _Entry(member.name, member.size, file)


def _zip_entries(zipped: zipfile.ZipFile) -> Iterator[_Entry]:
    for info in zipped.infolist():
        _check_path(info.filename)
        if info.is_dir():
            continue
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise UnsafeArchive(f"{info.filename!r} is not a file")
        with zipped.open(info) as file:
            yield _Entry(info.filename, info.file_size, file)


def _check_path(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise UnsafeArchive(f"{name!r} is not a relative path")


def _write(entry: _Entry, folder: Path) -> Path:
    target = folder / entry.path
    target.parent.mkdir(parents=True, exist_ok=True)
    left = entry.size
    with target.open("xb") as file:
        while chunk := entry.file.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise UnsafeArchive(f"{entry.path!r} is larger than the archive states")
            file.write(chunk)
    return target
