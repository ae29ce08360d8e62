"""`ash watch` while nothing is written: CPU time and memory with 10,000 transcripts, and how soon a line is stored.

`python -m benchmarks.watching [--files 10000] [--seconds 60] [--smoke]`: with a local store, with a server, and without
events of the file system. CPU time is counted in ticks of the process, so that other load does not matter. Linux only.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from uuid import UUID

import psycopg

from benchmarks import report
from benchmarks.database import cluster
from benchmarks.deployment import COMMAND, ServerProcess
from benchmarks.samples import agent_line, user_line
from benchmarks.table import Details, Row, details, goals

_PROJECT = ".claude/projects/-work-{}"
_FILES_PER_FOLDER = 100
_WAIT_SECONDS = 3600.0
_PAUSE_SECONDS = 0.02
_REST_SECONDS = 10.0
"""Time after the first report, until what it needed is over."""
_MAX_PERCENT = 0.5
_MAX_MB = 70
_MB = 1024

_REFUSE_EVENTS = """
import sys, watchfiles

def refuse(*_, **__):
    raise OSError("OS file watch limit reached")

watchfiles.awatch = refuse
sys.argv[0] = "ash"
from ash_server.cli.entry import main
main()
"""


class Plan(NamedTuple):
    files: int
    seconds: float
    """Time of rest that is measured."""
    lines: int
    """Lines that are added, one after the other."""


FULL = Plan(10_000, 60, 20)
SMOKE = Plan(50, 1, 2)


class Case(NamedTuple):
    name: str
    is_remote: bool = False
    has_events: bool = True


_CASES = (
    Case("local store"),
    Case("server", is_remote=True),
    Case("local store, without events", has_events=False),
)


class Measured(NamedTuple):
    percent: float
    """CPU time while nothing is written."""
    resident: int
    """In KiB."""
    anonymous: int
    """The part of `resident` that is no file: memory that other processes do not share."""
    peak: int
    delay: float
    """Median of the seconds from a written line until it is stored."""


def measure(plan: Plan) -> dict[Case, Measured]:
    with cluster(durable=False) as (folder, database):
        url = database.url("ash")
        files = _write_files(folder / "home", plan.files)
        server = ServerProcess(url, folder / "server")
        server.start()
        try:
            return {case: _measure(case, plan, folder, url, server.address, files) for case in _CASES}
        finally:
            server.stop()


def verdict(measured: dict[Case, Measured]) -> list[Row]:
    rows = []
    for case, each in measured.items():
        rows += [
            Row("watch", f"{case.name}: idle CPU", each.percent, _MAX_PERCENT, bound="<=", unit="%"),
            Row("watch", f"{case.name}: memory", each.resident / _MB, _MAX_MB, bound="<=", unit=" MiB"),
        ]
    return rows


def table(measured: dict[Case, Measured]) -> Details:
    rows = [
        (
            case.name,
            f"{each.percent:.2f} %",
            f"{each.resident / _MB:.0f}",
            f"{each.anonymous / _MB:.0f}",
            f"{each.peak / _MB:.0f}",
            f"{each.delay:.1f}",
        )
        for case, each in measured.items()
    ]
    headings = ("store", "idle CPU", "memory, MiB", "anonymous", "peak", "seconds until stored")
    return Details("The peak includes the first import.", headings, rows)


def _write_files(home: Path, count: int) -> list[Path]:
    files = []
    for number in range(count):
        path = home / _PROJECT.format(number // _FILES_PER_FOLDER) / f"{UUID(int=number)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(_lines(path, [user_line(0, "Begin."), agent_line(1, 300)])))
        files.append(path)
    return files


def _lines(path: Path, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines with the ids of a session of their own."""
    for line in lines:
        yield _IDS.sub(rf"\g<0>{path.stem}-", line, count=2) + "\n"


_IDS = re.compile('"(?:uuid|sessionId)":"')


def _measure(case: Case, plan: Plan, folder: Path, url: str, server: str, files: Sequence[Path]) -> Measured:
    target = {"ASH_URL": server} if case.is_remote else {"ASH_DATABASE_URL": url}
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ASH_")},
        "HOME": str(folder / "home"),
        "ASH_HOME": str(folder / "ash"),
        "TMPDIR": str(folder),
        "PYTHONUNBUFFERED": "1",
        **target,
    }
    with _watching(case, environment) as process:
        assert process.stdout
        assert process.stdout.readline(), "the watcher ended"
        time.sleep(_REST_SECONDS)
        ticks = _ticks(process.pid)
        time.sleep(plan.seconds)
        percent = (_ticks(process.pid) - ticks) / os.sysconf("SC_CLK_TCK") / plan.seconds * 100
        status = _status(process.pid)
        delays = [_delay(url, path, number) for number, path in enumerate(files[: plan.lines])]
    return Measured(percent, status["VmRSS"], status["RssAnon"], status["VmHWM"], median(delays))


@contextmanager
def _watching(case: Case, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    program = [str(COMMAND)] if case.has_events else [sys.executable, "-c", _REFUSE_EVENTS]
    process = subprocess.Popen(
        [*program, "watch"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def _ticks(pid: int) -> int:
    """Return the CPU time of all threads, in user and in kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _status(pid: int) -> dict[str, int]:
    """Return the values of a process in KiB."""
    found = re.findall(r"^(\w+):\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return {name: int(value) for name, value in found}


def _delay(url: str, path: Path, number: int) -> float:
    with psycopg.connect(url, autocommit=True) as conn:
        count = "SELECT count(*) FROM messages"
        before = conn.execute(count).fetchone()
        began = time.monotonic()
        with path.open("a") as file:
            file.writelines(_lines(path, [user_line(time.monotonic_ns(), f"Continue {number}.")]))
        while conn.execute(count).fetchone() == before:
            assert time.monotonic() < began + _WAIT_SECONDS, "the line was not stored"
            time.sleep(_PAUSE_SECONDS)
        return time.monotonic() - began


def main() -> None:
    arguments = _arguments()
    plan = SMOKE if arguments.smoke else FULL._replace(files=arguments.files, seconds=arguments.seconds)
    measured = measure(plan)
    rows = verdict(measured)
    text = "\n\n".join([goals(rows), details(table(measured))])
    print(text)
    if plan == FULL:
        report.write_measured("bench-watch", text, "importing.md")
    missed = [row.what for row in rows if row.missed]
    sys.exit(f"missed: {', '.join(missed)}" if missed and not arguments.smoke else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    parser.add_argument("--files", type=int, default=FULL.files)
    parser.add_argument("--seconds", type=float, default=FULL.seconds)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, without a verdict or a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
