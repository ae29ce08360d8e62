"""Imports of large transcripts: a file of 3.8 GB, a session of 69,000 lines, a session with 1,000 images.

`python -m benchmarks.large [--smoke]`: the memory of `ash import` is compared with the import of a small file of the
same kind. Needs 20 GB of disk.
"""

import argparse
import base64
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import psycopg

from benchmarks import report
from benchmarks.database import cluster
from benchmarks.deployment import COMMAND
from benchmarks.samples import agent_line, user_line
from benchmarks.table import Details, Row, details, goals

_MB = 1_000_000
_LINE = 1_000
_LONG_LINE = 200_000
_IMAGE = 300_000
"""Bytes of an image, before its encoding as base64."""
_SMALL = 20 * _MB
"""The size of the files that the large ones are compared with."""
_MAX_ADDED_MB = 64
_PROJECT = ".claude/projects/-work-large"

_COUNT = "SELECT count(*), pg_database_size(current_database()) FROM messages"


class Size(NamedTuple):
    long_bytes: int
    lines: int
    images: int
    small: int = _SMALL


FULL = Size(long_bytes=3_800 * _MB, lines=69_000, images=1_000)
SMOKE = Size(long_bytes=8 * _MB, lines=500, images=5, small=2 * _MB)


class Imported(NamedTuple):
    """The import of a file in a process of its own."""

    bytes: int
    rows: int
    seconds: float
    peak: int
    """The highest resident memory of the process, in bytes."""
    disk: int
    """Growth of the database, in bytes."""


def measure(size: Size) -> dict[str, tuple[Imported, Imported]]:
    """Return the import of a small and of a large file, by their kind."""
    cases: Mapping[str, tuple[Callable[[], Iterator[str]], int]] = {
        f"one file of {size.long_bytes / 1000 / _MB:.1f} GB": (_long_lines, size.long_bytes // _LONG_LINE),
        f"{size.lines:,} lines in one session": (_lines, size.lines),
        f"{size.images:,} images in one session": (_images, size.images),
    }
    measured: dict[str, tuple[Imported, Imported]] = {}
    with cluster() as (folder, server):
        url = server.url("ash")
        for number, (name, (lines, count)) in enumerate(cases.items()):
            small = _import(url, folder, f"small-{number}", _until(lines(), size.small))
            large = _import(url, folder, f"large-{number}", islice(lines(), count))
            measured[name] = (small, large)
    return measured


def verdict(measured: Mapping[str, tuple[Imported, Imported]]) -> list[Row]:
    return [
        Row(
            "large",
            f"{name}: memory added to the import of {small.bytes / _MB:.0f} MB",
            (large.peak - small.peak) / _MB,
            _MAX_ADDED_MB,
            bound="<=",
            unit=" MB",
            note=f"peak {large.peak / _MB:.0f} MB",
        )
        for name, (small, large) in measured.items()
    ]


def imports(measured: Mapping[str, tuple[Imported, Imported]]) -> Details:
    rows = [
        (
            name,
            f"{large.bytes / _MB:,.0f}",
            f"{large.rows:,}",
            f"{large.seconds:,.1f}",
            f"{large.peak / _MB:.0f}",
            f"{large.disk / _MB:,.0f}",
        )
        for name, (_, large) in measured.items()
    ]
    headings = ("import", "MB", "messages", "seconds", "peak memory, MB", "added to the database, MB")
    return Details("Each file is imported once, by one process, into the same store.", headings, rows)


def _import(url: str, folder: Path, name: str, lines: Iterator[str]) -> Imported:
    path = folder / "home" / _PROJECT / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        # With other ids, so that no file is recognized as a copy of another.
        ids = rf"\g<0>{name}-"
        file.writelines(_IDS.sub(ids, line, count=2) + "\n" for line in lines)
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ASH_")},
        "HOME": str(folder / "home"),
        "ASH_HOME": str(folder / "ash"),
        "ASH_DATABASE_URL": url,
    }
    size = path.stat().st_size
    rows_before, disk_before = _stored(url)
    began = time.perf_counter()
    process = subprocess.Popen([COMMAND, "import", path], env=environment, stdout=subprocess.DEVNULL)
    _, code, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        raise RuntimeError(f"the import of {path} ended with exit code {process.returncode}")
    path.unlink()
    rows, disk = _stored(url)
    peak = usage.ru_maxrss * 1024
    return Imported(size, rows - rows_before, seconds, peak, disk - disk_before)


def _stored(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as conn:
        row = conn.execute(_COUNT).fetchone()
    assert row
    return int(row[0]), int(row[1])


# --- Lines

_IDS = re.compile('"(?:uuid|sessionId)":"')


def _lines() -> Iterator[str]:
    number = 0
    while True:
        yield agent_line(number, _LINE)
        number += 1


def _long_lines() -> Iterator[str]:
    """Yield lines with a few different texts: choosing the words of each would take minutes."""
    texts = [agent_line(number, _LONG_LINE).partition('"text":"')[2] for number in range(16)]
    for number, text in enumerate(cycle(texts)):
        yield agent_line(number, 1).partition('"text":"')[0] + '"text":"' + text


def _images() -> Iterator[str]:
    random = Random(0)
    number = 0
    while True:
        image = base64.b64encode(random.randbytes(_IMAGE)).decode()
        line = user_line(number, "image").replace('"image"', f"[{_BLOCK % image}]", 1)
        yield line
        number += 1


_BLOCK = '{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}'


def _until(lines: Iterator[str], size: int) -> Iterator[str]:
    """Yield lines up to a total size, at least one."""
    while size > 0:
        line = next(lines)
        yield line
        size -= len(line)


def main() -> None:
    is_smoke = _arguments().smoke
    measured = measure(SMOKE if is_smoke else FULL)
    rows = verdict(measured)
    text = "\n\n".join([goals(rows), details(imports(measured))])
    print(text)
    if not is_smoke:
        report.write_measured("bench-large", text, "importing.md")
    missed = [row.what for row in rows if row.missed]
    sys.exit(f"missed: {', '.join(missed)}" if missed and not is_smoke else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small files, without a verdict or a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
