"""`ash replay`: a recorded stream once more, as fast as it came."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from importlib.resources import files
from typing import Any, BinaryIO

import msgspec

RECORDING = "kite-wind.jsonl"
_USUAL = 0.04
"""Seconds between two lines that tell no time."""


def replay(file: BinaryIO | None, speed: float) -> None:
    begun = time.monotonic()
    with closing(file or (files("ash_server") / "recordings" / RECORDING).open("rb")) as lines:
        for due, line in timed(lines):
            time.sleep(max(0.0, begun + due / speed - time.monotonic()))
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def timed(lines: Iterable[bytes]) -> Iterator[tuple[float, bytes]]:
    """Each line with the second in which it comes: by its own account, else shortly behind the one before."""
    due, zero = 0.0, None
    for line in lines:
        due += _USUAL
        told = _time(line)
        if told is not None:
            zero = told - due if zero is None else zero
            due = max(due, told - zero)
        yield due, line


def _time(line: bytes) -> float | None:
    try:
        record: Any = msgspec.json.decode(line)
        return datetime.fromisoformat(record["timestamp"]).timestamp()
    except (ValueError, TypeError, KeyError):
        return None
