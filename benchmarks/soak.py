"""Mixed load of two tenants at a moderate rate: memory, open files, tasks and latencies, by minute.

`python -m benchmarks.soak [--minutes 15] [--smoke]`: fails if the memory of the server or of PostgreSQL, open files,
tasks or a latency grow, or if a request fails.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from itertools import count
from statistics import linear_regression, median, quantiles
from typing import Any, NamedTuple
from uuid import UUID

import httpx2
import psutil

from ash_client import ApiError, AsyncAshClient
from benchmarks import report
from benchmarks.deployment import METRICS, TENANTS, Deployment, deployed, new_session
from benchmarks.samples import agent_line, stream_line
from benchmarks.table import Details, Row, details, goals

_MB = 2**20
_TASKS = re.compile(r"^ash_tasks (\S+)$", re.MULTILINE)
_MESSAGES = 300
"""Messages of a session: the next ones go to a new session, so that pages and exports stay as large as they are."""
_FOLLOW_SECONDS = 3
_MIN_SAMPLES = 6
"""The least number of samples, which a short run on a busy machine takes after its end."""


class Size(NamedTuple):
    seconds: float
    window: float


FULL = Size(seconds=15 * 60, window=60)
SMOKE = Size(seconds=3, window=1)


class Sample(NamedTuple):
    seconds: float
    server: float
    """Resident memory, in MB."""
    postgresql: float
    """Resident memory of all processes, in MB; shared memory counts once."""
    private: float
    """Memory that the processes of PostgreSQL do not share, in MB."""
    files: int
    tasks: int


class Latency(NamedTuple):
    seconds: float
    """When the request began."""
    kind: str
    taken: float


class Load:
    """The requests of a tenant."""

    def __init__(self, client: AsyncAshClient, http: httpx2.AsyncClient, key: str) -> None:
        self._client = client
        self._http = http
        self._key = key
        self._numbers = count()
        self._chunks = count()
        self._complete = self._growing = self._streamed = UUID(int=0)

    async def start(self) -> None:
        """Fill the session that is read; the first append begins another one."""
        self._growing, self._streamed = await new_session(self._client), await new_session(self._client)
        lines = (agent_line(next(self._numbers), 2_000) for _ in range(_MESSAGES))
        await self._client.append(self._growing, lines, source="claude")
        self._complete = self._growing

    async def append(self) -> None:
        number = next(self._numbers)
        if number % _MESSAGES == 0:
            self._complete, self._growing = self._growing, await new_session(self._client)
        await self._client.append(self._growing, [agent_line(number, 2_000)], source="claude")

    async def add_chunk(self) -> None:
        number = next(self._chunks)
        if number % _MESSAGES == 0:
            self._streamed = await new_session(self._client)
        await self._client.append(self._streamed, [stream_line(number)])

    async def read_messages(self) -> None:
        await self._client.list_messages(self._complete, limit=100)

    async def read_events(self) -> None:
        await self._client.list_events(self._complete, limit=500)

    async def search(self) -> None:
        await self._client.search("platform script", limit=20)

    async def list_sessions(self) -> None:
        await self._client.list_sessions(limit=50)

    async def export(self) -> None:
        async for _ in self._client.export(self._complete):
            pass

    async def follow(self) -> None:
        """Receive the events of a session, also new ones, then leave."""
        session = random.choice([self._growing, self._streamed, self._complete])
        try:
            async with (
                asyncio.timeout(_FOLLOW_SECONDS),
                aclosing(self._client.stream_events(session)) as events,
            ):
                async for _ in events:
                    pass
        except TimeoutError:
            pass

    async def sign_in(self) -> None:
        """Sign in like a browser, read the list of sessions, and sign out."""
        self._http.cookies.clear()
        origin = {"Origin": str(self._http.base_url).rstrip("/")}
        signed_in = await self._http.post("/login", data={"key": self._key}, headers=origin)
        listed = await self._http.get("/api/sessions")
        signed_out = await self._http.post("/logout", headers=origin)
        statuses = (signed_in.status_code, listed.status_code, signed_out.status_code)
        if statuses != (303, 200, 303):
            raise ApiError("sign_in", str(statuses))


_KINDS: Mapping[str, tuple[Callable[[Load], Awaitable[None]], float]] = {
    "append": (Load.append, 0.4),
    "chunk": (Load.add_chunk, 0.2),
    "messages": (Load.read_messages, 1),
    "events": (Load.read_events, 1),
    "search": (Load.search, 2),
    "list": (Load.list_sessions, 1),
    "export": (Load.export, 4),
    "follow": (Load.follow, 1),
    "sign-in": (Load.sign_in, 4),
}
"""Requests of each tenant, and the mean seconds between two of a kind."""
_FOLLOWERS = ("follow",) * 4
"""More followers at the same time."""
_UNTIMED = frozenset({"follow"})
"""The client decides how long these last."""


class Soak:
    def __init__(self, deployment: Deployment, size: Size) -> None:
        self.samples: list[Sample] = []
        self.latencies: list[Latency] = []
        self.failures: Counter[str] = Counter()
        self._deployment = deployment
        self._size = size
        self._began = 0.0

    async def run(self) -> None:
        server = self._deployment.server
        async with AsyncExitStack() as stack:
            loads = []
            for tenant in TENANTS:
                key = self._deployment.keys[tenant]
                client = await stack.enter_async_context(AsyncAshClient(server.address, key))
                http = await stack.enter_async_context(
                    httpx2.AsyncClient(base_url=server.address, timeout=30)
                )
                loads.append(Load(client, http, key))
                await loads[-1].start()
            self._began = time.monotonic()
            async with asyncio.TaskGroup() as work:
                work.create_task(self._sample_repeatedly())
                for load in loads:
                    for kind in (*_KINDS, *_FOLLOWERS):
                        work.create_task(self._repeat(load, kind))

    def _now(self) -> float:
        return time.monotonic() - self._began

    async def _repeat(self, load: Load, kind: str) -> None:
        act, pause = _KINDS[kind]
        while self._now() < self._size.seconds:
            await self._act(load, kind, act)
            await asyncio.sleep(random.uniform(0, 2 * pause))

    async def _act(self, load: Load, kind: str, act: Callable[[Load], Awaitable[None]]) -> None:
        began = self._now()
        try:
            await act(load)
        except (ApiError, httpx2.HTTPError) as error:
            self.failures[f"{kind}: {error}"] += 1
        else:
            self.latencies.append(Latency(began, kind, self._now() - began))

    async def _sample_repeatedly(self) -> None:
        key = {"Authorization": f"Bearer {self._deployment.keys[METRICS]}"}
        async with httpx2.AsyncClient(
            base_url=self._deployment.server.address, headers=key, timeout=30
        ) as http:
            while self._now() < self._size.seconds or len(self.samples) < _MIN_SAMPLES:
                metrics = await http.get("/metrics")
                tasks = _TASKS.search(metrics.text)
                assert tasks, metrics.text
                self.samples.append(self._sample(int(float(tasks[1]))))
                await asyncio.sleep(self._size.window / 6)

    def _sample(self, tasks: int) -> Sample:
        server = psutil.Process(self._deployment.server.pid)
        resident, private = 0, 0
        for process in self._deployment.database_processes():
            try:
                memory = process.memory_full_info()
            except psutil.NoSuchProcess:  # connections end
                continue
            resident += getattr(memory, "pss", memory.rss)
            private += memory.uss
        return Sample(
            self._now(),
            server.memory_info().rss / _MB,
            resident / _MB,
            private / _MB,
            server.num_fds(),
            tasks,
        )

    # --- Tables

    def resources(self) -> Details:
        rows = []
        for number, samples in self._windows(self.samples):
            medians = [median(values) for values in zip(*(each[1:] for each in samples), strict=True)]
            rows.append((str(number), *(f"{value:.0f}" for value in medians)))
        headings = ("window", "server, MB", "PostgreSQL, MB", "not shared, MB", "open files", "tasks")
        return Details("Medians of resident memory, open files and tasks of the server.", headings, rows)

    def durations(self) -> Details:
        kinds = [kind for kind in _KINDS if kind not in _UNTIMED]
        rows = []
        for number, latencies in self._windows(self.latencies):
            taken = _by_kind(latencies)
            rows.append((str(number), *(_percentiles(taken[kind]) for kind in kinds)))
        return Details("p50 / p99 of the answers, in ms.", ("window", *kinds), rows)

    def verdict(self) -> list[Row]:
        """Compare the last third with the one before; the first third fills caches."""
        third = len(self.samples) // 3
        settled = self.samples[third:]
        middle, last = self.samples[third:-third], self.samples[-third:]
        slopes = {
            name: linear_regression([each.seconds / 60 for each in settled], values).slope
            for name, values in (
                ("the server", [each.server for each in settled]),
                ("PostgreSQL, not shared", [each.private for each in settled]),
            )
        }
        rows = [
            Row("soak", f"memory of {name}: growth per minute", slope, 1, bound="<=", unit=" MB")
            for name, slope in slopes.items()
        ]
        for what, name in (("open files", "files"), ("tasks", "tasks")):
            earlier, later = [median(getattr(each, name) for each in part) for part in (middle, last)]
            rows.append(Row("soak", f"{what}: growth", later - earlier, 10, bound="<=", unit=""))
        ratio, kind = self._slowdown()
        failures = ", ".join(f"{times}x {name}" for name, times in self.failures.most_common(3))
        return [
            *rows,
            Row("soak", "median latency: growth", ratio, 1.5, bound="<=", note=f"the most: {kind}"),
            Row("soak", "failed requests", self.failures.total(), 0, bound="<=", unit="", note=failures),
        ]

    def _slowdown(self) -> tuple[float, str]:
        begin = self._size.seconds / 3
        earlier = _by_kind(each for each in self.latencies if begin <= each.seconds < 2 * begin)
        later = _by_kind(each for each in self.latencies if each.seconds >= 2 * begin)
        slowdowns = (
            (median(later[kind]) / median(earlier[kind]), kind)
            for kind in _KINDS
            if kind not in _UNTIMED and later[kind] and earlier[kind]
        )
        return max(slowdowns, default=(1, "none"))

    def _windows(self, entries: Iterable[Any]) -> list[tuple[int, list[Any]]]:
        windows: defaultdict[int, list[Any]] = defaultdict(list)
        for each in entries:
            if each.seconds < self._size.seconds:
                windows[int(each.seconds // self._size.window) + 1].append(each)
        return sorted(windows.items())


def _by_kind(latencies: Iterable[Latency]) -> Mapping[str, list[float]]:
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for each in latencies:
        taken[each.kind].append(each.taken)
    return taken


def _percentiles(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return ""
    percentiles = quantiles(seconds, n=100, method="inclusive")
    return f"{percentiles[49] * 1000:.0f} / {percentiles[98] * 1000:.0f}"


async def measure(size: Size) -> Soak:
    async with deployed() as deployment:
        soak = Soak(deployment, size)
        await soak.run()
        return soak


def main() -> None:
    arguments = _arguments()
    size = SMOKE if arguments.smoke else FULL._replace(seconds=arguments.minutes * 60)
    soak = asyncio.run(measure(size))
    verdict = soak.verdict()
    windows = f"in windows of {size.window:g} seconds"
    requests = f"{len(soak.latencies):,} requests in {size.seconds / 60:g} minutes, {windows}."
    text = "\n\n".join([requests, goals(verdict), details(soak.resources()), details(soak.durations())])
    print(text)
    if not arguments.smoke:
        report.write_measured("soak", text)
    broken = [row.what for row in verdict if row.missed]
    sys.exit(f"broken: {', '.join(broken)}" if broken and not arguments.smoke else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=FULL.seconds / 60)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, without a verdict or a file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
