"""Copy standard input to standard output and into the queue, until the input ends or the process is interrupted."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ash_server.cli.ingest.line_queue import LineQueue
from ash_server.cli.ingest.progress import Progress

_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.2

_GRACE_SECONDS = 2.0
"""Time to read the last lines of the program before this one, which receives an interrupt, too."""

_FORCE_COUNT = 2
"""Number of interrupts after which copying stops at once."""


class Interrupts:
    """Counts interrupts, and limits how long reading continues after one."""

    def __init__(self) -> None:
        self.count = 0
        self.reads_until = float("inf")

    @property
    def is_forced(self) -> bool:
        return self.count >= _FORCE_COUNT

    def handle(self, *_: object) -> None:
        self.count += 1
        self.reads_until = 0.0 if self.is_forced else time.monotonic() + _GRACE_SECONDS


@contextmanager
def catch_interrupts() -> Iterator[Interrupts]:
    """Handle SIGINT and SIGTERM within the context."""
    interrupts = Interrupts()
    previous = {each: signal.signal(each, interrupts.handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def pass_through(queue: LineQueue, interrupts: Interrupts, progress: Progress) -> None:
    source, target = sys.stdin.fileno(), _Target(interrupts, progress)
    store: Callable[[bytes], None] = queue.add
    while time.monotonic() < interrupts.reads_until:
        if not select.select([source], [], [], _POLL_SECONDS)[0]:
            continue
        data = os.read(source, _CHUNK_BYTES)
        if not data:
            return
        target.write(data)
        try:
            store(data)
        except OSError as error:  # no space for the queue
            progress.print_line(f"further input is passed on but not stored: {error.strerror}")
            store = _discard


def _discard(_: bytes) -> None:
    pass


class _Target:
    """Standard output. If its reader closes it, output ends, but storing continues."""

    def __init__(self, interrupts: Interrupts, progress: Progress) -> None:
        self._file = sys.stdout.fileno() if sys.stdout else None
        self._interrupts = interrupts
        self._progress = progress

    def write(self, data: bytes) -> None:
        """Write in chunks that never block, so that a reader that stalls cannot prevent an interrupt."""
        rest = memoryview(data)
        while rest and self._file is not None and not self._interrupts.is_forced:
            if not select.select([], [self._file], [], _POLL_SECONDS)[1]:
                continue
            try:
                rest = rest[os.write(self._file, rest[: select.PIPE_BUF]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._file = None
                if not isinstance(error, BrokenPipeError):
                    self._progress.print_line(f"output is no longer passed on: {error.strerror}")
