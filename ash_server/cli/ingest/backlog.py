"""What was read of a stream and is not acknowledged yet: in memory, and beyond that in a temporary file."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

_IN_MEMORY = 64 * 1024 * 1024
"""Bytes; what is beyond lies in a file."""
_LINGER, _ENOUGH = 0.075, 100
"""Seconds, or lines, that are gathered into a batch."""
MOST_BYTES = 1024 * 1024
_MOST = 500
"""Lines, and bytes of them, in a batch: those that lie there when a server comes back."""
_PIECE = 64 * 1024


class Line(NamedTuple):
    number: int
    data: bytes | None
    """Without its newline; None where it is longer than is taken."""
    size: int
    """In the backlog."""


class Backlog:
    """In order: the reading thread adds, the sending one takes."""

    def __init__(self, first: int, longest: int) -> None:
        self.has_ended = False
        self.read = 0
        """Lines that were added."""
        self._number = first
        self._longest = longest
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # `close` closes it
        self._start = self._end = self._whole = 0
        self._is_cut = False
        self._changed = threading.Condition()

    def add(self, data: bytes) -> None:
        with self._changed:
            self._file.seek(self._end)
            self._file.write(data)
            self._end += len(data)
            self.read += data.count(b"\n")
            if (newline := data.rfind(b"\n")) >= 0:
                self._whole = self._end - len(data) + newline + 1
            self._is_cut = self._whole < self._end
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self.has_ended = True
            self.read += self._is_cut
            self._whole = self._end
            self._changed.notify_all()

    def lines(self) -> list[Line]:
        """The next batch, once there is one; empty where nothing follows."""
        with self._changed:
            self._changed.wait_for(lambda: self._start < self._whole or self.has_ended)
            already = self.read
            self._changed.wait_for(lambda: self.read - already >= _ENOUGH or self.has_ended, _LINGER)
            return list(self._front())

    def forget(self, lines: Sequence[Line]) -> None:
        """They are done with."""
        with self._changed:
            self._start += sum(line.size for line in lines)
            self._number += len(lines)
            if self._start == self._end:
                self._start = self._end = self._whole = 0
                self._file.seek(0)
                self._file.truncate()

    def is_empty(self) -> bool:
        with self._changed:
            return self._start == self._end

    def save(self, path: Path) -> int:
        """Writes what is left to a file; answers the number of its first line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._changed, path.open("wb") as file:
            self._file.seek(self._start)
            while piece := self._file.read(_PIECE):
                file.write(piece)
            return self._number

    def close(self) -> None:
        self._file.close()

    def _front(self) -> Iterator[Line]:
        self._file.seek(self._start)
        taken = count = 0
        while self._start + taken < self._whole and count < _MOST and taken < MOST_BYTES:
            line = self._next(self._number + count)
            taken, count = taken + line.size, count + 1
            yield line

    def _next(self, number: int) -> Line:
        data = self._file.readline(self._longest + 1)
        size = len(data)
        if size <= self._longest or data.endswith(b"\n"):
            return Line(number, data.removesuffix(b"\n"), size)
        while not data.endswith(b"\n") and (data := self._file.readline(_PIECE)):
            size += len(data)
        return Line(number, None, size)
