"""Progress and warnings of `ash ingest` on standard error."""

import sys
import time
from typing import TextIO

from ash_server.cli.common.output.terminal import counted, warn

_MAX_SHOWN_REFUSALS = 5
_REPORT_SECONDS = 30.0
"""Interval of reports if the line cannot be rewritten."""


class Progress:
    def __init__(self) -> None:
        # If both streams are the same terminal, rewriting a line would mix with the passed output.
        self._rewrites_line = _is_terminal(sys.stderr) and not _is_terminal(sys.stdout)
        self._shown = ""
        self._reported_at = time.monotonic()
        self._refusals = 0

    def print_line(self, text: str) -> None:
        self._clear()
        warn(text)

    def report_refused(self, line: int, reason: str) -> None:
        self._refusals += 1
        if self._refusals <= _MAX_SHOWN_REFUSALS:
            self.print_line(f"line {line} was passed on but not stored: {reason}")

    def report_counts(self, stored: int, pending: int) -> None:
        text = f"{counted(stored, 'line')} stored, {pending:,} pending"
        if self._rewrites_line:
            self._clear()
            self._shown = f"ash: {text}"
            sys.stderr.write(self._shown)
            sys.stderr.flush()
        elif time.monotonic() - self._reported_at > _REPORT_SECONDS:
            self._reported_at = time.monotonic()
            warn(text)

    def end(self) -> None:
        self._clear()
        if self._refusals > _MAX_SHOWN_REFUSALS:
            warn(f"and {counted(self._refusals - _MAX_SHOWN_REFUSALS, 'line')} more that were not stored")

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r" + " " * len(self._shown) + "\r")
            self._shown = ""


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
