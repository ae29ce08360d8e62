"""Four writers of four sessions, with one server and with three on the same database, and the locks they wait for.

`python -m benchmarks.servers [--rounds 7] [--smoke]`: the writers send batches of prepared lines from threads, so that
the servers and PostgreSQL do the work. Needs two idle cores.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil
import psycopg

from ash_server.settings import usable_cores
from ash_server.store.schema.migrations import upgrade
from ash_server.store.search import index
from ash_shared.projections.search_text import PASSAGES_VERSION
from benchmarks.database import cluster
from benchmarks.deployment import ServerProcess
from benchmarks.measure import Times, take_turns
from benchmarks.samples import agent_line
from benchmarks.table import Row, goals

_WRITERS = 4
_SERVERS = 3
_BATCH = 100
_LINE_BYTES = 300
_SAMPLE_SECONDS = 0.01

_ONE, _THREE, _WORKERS = "one server", "three servers", "one server of three processes"

_LOCK_WAITS = "SELECT wait_event FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'"
_EXTENSION = "extend"
"""The lock of a table that grows, held for microseconds: PostgreSQL's own, not of a session."""


class Plan(NamedTuple):
    batches: int
    """Batches of each writer in a run."""
    rounds: int


FULL = Plan(batches=20, rounds=7)
SMOKE = Plan(batches=1, rounds=1)


class Result(NamedTuple):
    times: Times
    bound: float
    """The speed of more servers, against one, that the cores allow."""
    lock_waits: Counter[str]
    """Sampled waits for locks, by the kind of lock."""


class _Case:
    """Servers on a database of their own, so that no other case indexes it."""

    def __init__(self, stack: ExitStack, folder: Path, url: str, servers: int, workers: int = 1) -> None:
        upgrade(url)
        self._url = url
        self.servers = [
            ServerProcess(url, folder / "server", ASH_WORKERS=str(workers)) for _ in range(servers)
        ]
        for server in self.servers:
            server.start()
            stack.callback(server.stop)

    def wait_until_indexed(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as conn:
            while conn.execute(index.SQL.count_pending_events, {"version": PASSAGES_VERSION}).fetchone() != (
                0,
            ):
                time.sleep(0.05)


def measure(plan: Plan) -> Result:
    with cluster() as (folder, database), ExitStack() as stack:

        def case(name: str, servers: int, workers: int = 1) -> _Case:
            database.ensure_database(name)
            return _Case(stack, folder, database.url(name), servers, workers)

        cases = {
            _ONE: case("one", 1),
            _THREE: case("three", _SERVERS),
            _WORKERS: case("workers", 1, _SERVERS),
        }
        lock_waits = stack.enter_context(_counted_lock_waits(database.url()))
        postmaster = psutil.Process(int((folder / "pg" / "postmaster.pid").read_text().split()[0]))
        processes = [psutil.Process(cases[_ONE].servers[0].pid), postmaster, psutil.Process()]
        shares: list[float] = []
        numbers = count()

        def run(case: _Case) -> float:
            seconds, used = _write(case.servers, plan.batches, numbers, processes)
            if case is cases[_ONE]:
                shares.append(used[0] / sum(used))
            case.wait_until_indexed()
            return seconds

        times = take_turns({name: partial(run, case) for name, case in cases.items()}, plan.rounds)
        return Result(times, min(_SERVERS, median(shares) * usable_cores()), lock_waits)


def _cpu_seconds(process: psutil.Process) -> float:
    """Return the time of a process and its running children."""
    seconds = 0.0
    for each in (process, *(process.children() if process.pid != os.getpid() else ())):
        with suppress(psutil.NoSuchProcess):
            seconds += sum(each.cpu_times()[:2])
    return seconds


def _write(
    servers: Sequence[ServerProcess],
    batches: int,
    numbers: Iterator[int],
    processes: Sequence[psutil.Process],
) -> tuple[float, list[float]]:
    """Let each writer append to a new session; return the seconds until all are done, and CPU seconds by process."""
    bodies = [
        [
            json.dumps([{"content": agent_line(next(numbers), _LINE_BYTES)} for _ in range(_BATCH)]).encode()
            for _ in range(batches)
        ]
        for _ in range(_WRITERS)
    ]
    with ThreadPoolExecutor(_WRITERS) as threads, ExitStack() as connections:
        writers = []
        for number in range(_WRITERS):
            server = servers[number % len(servers)]
            connection = HTTPConnection(server.host, server.port)
            connections.callback(connection.close)
            session = _post(connection, "/api/sessions", b'{"source":"claude"}')["id"]
            writers.append((connection, f"/api/sessions/{session}/messages"))
        used = list(map(_cpu_seconds, processes))
        began = time.perf_counter()
        for done in [
            threads.submit(_append, *writer, texts) for writer, texts in zip(writers, bodies, strict=True)
        ]:
            done.result()
        seconds = time.perf_counter() - began
        return seconds, [_cpu_seconds(each) - before for each, before in zip(processes, used, strict=True)]


def _append(connection: HTTPConnection, path: str, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        _post(connection, path, body)


def _post(connection: HTTPConnection, path: str, body: bytes) -> Any:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 201, answer
    return json.loads(answer)


@contextmanager
def _counted_lock_waits(url: str) -> Iterator[Counter[str]]:
    """Count waits of PostgreSQL's processes for locks, while entered."""
    seen: Counter[str] = Counter()
    is_over = threading.Event()

    def sample() -> None:
        with psycopg.connect(url, autocommit=True) as conn:
            while not is_over.wait(_SAMPLE_SECONDS):
                seen.update(kind for (kind,) in conn.execute(_LOCK_WAITS))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()


def verdict(result: Result) -> list[Row]:
    waits = result.lock_waits
    speed = result.times.typical_speed
    note = f"these cores allow {result.bound:.2f}x: PostgreSQL and the writers use them, too"
    kinds = ", ".join(f"{kind}: {number}" for kind, number in waits.items())
    what = f"{_WRITERS} writers of {_WRITERS} sessions:"
    return [
        Row("servers", f"{what} {_THREE}, against one", speed(_THREE, _ONE), floor=1.7, note=note),
        Row("servers", f"{what} {_WORKERS}, against one", speed(_WORKERS, _ONE)),
        Row(
            "servers",
            f"{what} waits for locks of sessions",
            sum(waits.values()) - waits[_EXTENSION],
            floor=0,
            bound="<=",
            note=kinds,
            unit="",
        ),
    ]


def main() -> None:
    arguments = _arguments()
    plan = SMOKE if arguments.smoke else FULL._replace(rounds=arguments.rounds)
    result = measure(plan)
    rows = verdict(result)
    print(goals(rows))
    for name in sorted(result.times.names):
        entries = _WRITERS * plan.batches * _BATCH
        print(f"{name}: {entries / result.times.typical(name):,.0f} messages a second")
    missed = [row.what for row in rows if row.missed]
    sys.exit(f"missed: {', '.join(missed)}" if missed and not arguments.smoke else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=FULL.rounds)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, without a verdict")
    return parser.parse_args()


if __name__ == "__main__":
    main()
