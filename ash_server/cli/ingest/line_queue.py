"""Queue of lines that were read but not acknowledged by the server; a long queue is in a temporary file."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

MAX_BATCH_BYTES = 1024 * 1024

_MAX_BATCH_LINES = 500
_MAX_MEMORY_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 64 * 1024

_GATHER_SECONDS, _GATHER_LINES = 0.075, 100
"""A batch is complete after this time, or once this many further lines have arrived."""


class QueuedLine(NamedTuple):
    number: int
    data: bytes | None
    """Without its newline; None if it is too long."""
    size: int
    """Bytes in the queue."""


class LineQueue:
    """A queue between the thread that reads the input and the thread that sends it."""

    def __init__(self, first: int, max_line_bytes: int) -> None:
        self.has_ended = False
        self.read = 0
        """Number of lines added."""
        self._number = first
        self._max_line_bytes = max_line_bytes
        self._file = SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115  # `close` closes it
        self._start = self._end = self._complete = 0
        """Offsets: of the first unacknowledged byte, of the last byte, and of the end of the last complete line."""
        self._has_open_line = False
        self._changed = threading.Condition()

    def add(self, data: bytes) -> None:
        with self._changed:
            self._file.seek(self._end)
            self._file.write(data)
            self._end += len(data)
            self.read += data.count(b"\n")
            if (newline := data.rfind(b"\n")) >= 0:
                self._complete = self._end - len(data) + newline + 1
            self._has_open_line = self._complete < self._end
            self._changed.notify_all()

    def end(self) -> None:
        """Mark the end of the input. A last line without a newline counts as complete then."""
        with self._changed:
            self.has_ended = True
            self.read += self._has_open_line
            self._complete = self._end
            self._changed.notify_all()

    def next_batch(self) -> list[QueuedLine]:
        """Wait for lines and return the first ones without removing them; empty after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._start < self._complete or self.has_ended)
            read_before = self.read
            self._changed.wait_for(
                lambda: self.read - read_before >= _GATHER_LINES or self.has_ended, _GATHER_SECONDS
            )
            return list(self._first_lines())

    def acknowledge(self, lines: Sequence[QueuedLine]) -> None:
        """Remove the first lines."""
        with self._changed:
            self._start += sum(line.size for line in lines)
            self._number += len(lines)
            if self._start == self._end:
                self._start = self._end = self._complete = 0
                self._file.seek(0)
                self._file.truncate()

    def is_empty(self) -> bool:
        with self._changed:
            return self._start == self._end

    def save(self, path: Path) -> int:
        """Write the remaining lines to a file and return the number of the first one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._changed, path.open("wb") as file:
            self._file.seek(self._start)
            while chunk := self._file.read(_CHUNK_BYTES):
                file.write(chunk)
            return self._number

    def close(self) -> None:
        self._file.close()

    def _first_lines(self) -> Iterator[QueuedLine]:
        self._file.seek(self._start)
        size = count = 0
        while self._start + size < self._complete and count < _MAX_BATCH_LINES and size < MAX_BATCH_BYTES:
            line = self._read_line(self._number + count)
            size, count = size + line.size, count + 1
            yield line

    def _read_line(self, number: int) -> QueuedLine:
        data = self._file.readline(self._max_line_bytes + 1)
        size = len(data)
        if size <= self._max_line_bytes or data.endswith(b"\n"):
            return QueuedLine(number, data.removesuffix(b"\n"), size)
        while not data.endswith(b"\n") and (data := self._file.readline(_CHUNK_BYTES)):
            size += len(data)
        return QueuedLine(number, None, size)
