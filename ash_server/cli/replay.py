"""`ash replay`: write a recorded stream at its original speed."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from importlib.resources import files
from typing import Any, BinaryIO

import msgspec
import rich_click as click

RECORDING = "kite-wind.jsonl"

_DEFAULT_PAUSE = 0.04
"""Seconds between two lines without timestamps."""


@click.command("replay")
@click.argument("file", type=click.File("rb"), required=False)
@click.option(
    "--speed", type=click.FloatRange(0, min_open=True), default=1, show_default=True, help="Speed factor."
)
def command(file: BinaryIO | None, speed: float) -> None:
    """Write the lines of a recorded stream at their original speed.

    Without a FILE, plays a recording of about ten seconds that comes with Ash, to try streams without a CLI.

    \b
    ash replay | ash ingest --session kite
    """
    start = time.monotonic()
    with closing(file or (files("ash_server") / "recordings" / RECORDING).open("rb")) as lines:
        for due, line in with_due_times(lines):
            time.sleep(max(0.0, start + due / speed - time.monotonic()))
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


def with_due_times(lines: Iterable[bytes]) -> Iterator[tuple[float, bytes]]:
    """Yield each line with its time in seconds: by its timestamp, else shortly after the previous line."""
    due, zero = 0.0, None
    for line in lines:
        due += _DEFAULT_PAUSE
        timestamp = _read_timestamp(line)
        if timestamp is not None:
            zero = timestamp - due if zero is None else zero
            due = max(due, timestamp - zero)
        yield due, line


def _read_timestamp(line: bytes) -> float | None:
    try:
        record: Any = msgspec.json.decode(line)
        return datetime.fromisoformat(record["timestamp"]).timestamp()
    except (ValueError, TypeError, KeyError):
        return None
