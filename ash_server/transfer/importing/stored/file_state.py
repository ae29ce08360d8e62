"""Notice that a program writes other text to a file while it is read.

An import reads a file several times: its first lines, the stored lines, and then the others. Text that is added
meanwhile does no harm. A file that is truncated and written again would become a session with the names of one text and
the lines of another.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from errno import EAGAIN
from pathlib import Path
from typing import NamedTuple, TypeVar

from ash_server.file_access import FileAccess
from ash_server.transfer.importing.lines import FileLine

_HEAD_BYTES = 4096
"""Compared bytes at the beginning of a file: texts of different sessions differ in their first line."""

MAX_ATTEMPTS = 5

_Result = TypeVar("_Result")


class FileChanged(OSError):
    """The file has other text than when it was opened."""

    def __init__(self, path: Path) -> None:
        super().__init__(EAGAIN, "was rewritten while it was read", str(path))


async def repeat_if_changed(work: Callable[[], Awaitable[_Result]], restart: Callable[[], None]) -> _Result:
    """Repeat the work, after `restart`, while a program rewrites the file. Raises FileChanged if it does not stop."""
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return await work()
        except FileChanged:
            restart()
    return await work()


class FileState(NamedTuple):
    """A file before its first line was read."""

    path: Path
    access: FileAccess
    stamp: tuple[int, int, int]
    head: bytes

    @classmethod
    def read(cls, path: Path, access: FileAccess) -> "FileState":
        """Raises OSError."""
        with access.open(path) as file:
            status = os.fstat(file.fileno())
            return cls(path, access, _stamp(status), file.read(_HEAD_BYTES))

    def is_current(self) -> bool:
        """True if nothing was written to the file since. Raises OSError."""
        with self.access.open(self.path) as file:
            return _stamp(os.fstat(file.fileno())) == self.stamp

    def checked(self, batches: Iterator[list[FileLine]]) -> Iterator[list[FileLine]]:
        """Yield batches of lines, each if the file still has its text. Raises FileChanged, OSError."""
        for lines in batches:
            self._check(lines)
            yield lines

    def _check(self, lines: Sequence[FileLine]) -> None:
        with self.access.open(self.path) as file:
            if _stamp(os.fstat(file.fileno())) == self.stamp:
                return
            if file.read(len(self.head)) != self.head:
                raise FileChanged(self.path)
            file.seek(lines[0].place.offset)
            for line in lines:
                text = file.read(line.size)
                if line.data is not None and text.removesuffix(b"\n") != line.data:
                    raise FileChanged(self.path)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_size, status.st_ino
