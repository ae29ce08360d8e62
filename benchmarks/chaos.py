"""kill -9 of PostgreSQL, of the server and of `ash push` under load, and the cost of hostile and slow clients.

`python -m benchmarks.chaos [--kills 10] [--readers 100] [--smoke]`: fails if an acknowledged entry is lost, changed or
stored twice, if a reader misses one, if the other tenant sees one, or if a goal of `benchmarks.limits` is missed.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import reduce
from itertools import count, cycle, groupby
from operator import or_
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from ash_client import ApiError, AsyncAshClient, MessageToAppend
from benchmarks import limits, report
from benchmarks.deployment import COMMAND, TENANTS, Deployment, deployed, new_session
from benchmarks.promises import Counts, Log, Reader, WebSocketReader, check
from benchmarks.samples import agent_line
from benchmarks.table import Details, Row, details, goals

_SESSION_OF_SAMPLES = "0b8f1f2e-60aa-4a53-9d55-7c1e0d9c8f7e"
"""The session id in the lines of the samples; it identifies the session of a file."""

_FILES, _WRITERS = 2, 2
"""The number of pushed files, and of writers per session, for each tenant."""
_SETTLE_SECONDS = 180


class Size(NamedTuple):
    kills: int
    """The number of kills of each kind."""
    readers: int


FULL = Size(kills=10, readers=100)
SMOKE = Size(kills=1, readers=8)


class Result(NamedTuple):
    kind: str
    recoveries: list[float]
    """Seconds from each kill until a request that began after it is answered."""
    counts: Counts


class Run:
    """Writers and readers of both tenants, while processes of a kind are killed."""

    def __init__(self, deployment: Deployment, clients: Mapping[str, AsyncAshClient], size: Size) -> None:
        self._deployment = deployment
        self._clients = clients
        self._size = size
        self._random = random.Random(size.kills)
        self._numbers = count()
        self._is_over = asyncio.Event()
        self._servers = cycle(deployment.servers)
        self._pushes: dict[str, subprocess.Popen[bytes]] = {}
        self._posted: list[Log] = []
        self._pushed: list[Log] = []

    async def kill(self, kind: str) -> Result:
        recoveries = []
        async with AsyncExitStack() as stack:
            self._posted = [await self._create_log(tenant) for tenant in TENANTS]
            stack.callback(self._stop_pushes)
            self._pushed = [log for tenant in TENANTS for log in await self._push(tenant)]
            logs = [*self._posted, *self._pushed]
            readers = self._readers(logs)
            await stack.enter_async_context(_running(*(reader.run() for reader in readers)))
            async with asyncio.TaskGroup() as work:
                for log in self._posted * _WRITERS:
                    work.create_task(self._repeat(self._append, log))
                for log in self._pushed:
                    work.create_task(self._repeat(self._add_line, log))
                leaks = work.create_task(self._count_leaks(logs))
                for _ in range(self._size.kills):
                    await asyncio.sleep(self._random.uniform(0.5, 1.5))
                    async with asyncio.timeout(_SETTLE_SECONDS):
                        recoveries.append(await _KINDS[kind](self))
                self._is_over.set()
            for log in self._pushed:
                async with asyncio.timeout(_SETTLE_SECONDS):
                    await self._wait_until_pushed(log, len(log.acknowledged))
            counts = [
                await check(self._clients[log.tenant], log, [each for each in readers if each.log is log])
                for log in logs
            ]
        return Result(kind, recoveries, reduce(or_, counts, Counts(leaked=leaks.result())))

    # --- Writers and readers

    async def _repeat(self, write: Callable[[Log], Awaitable[None]], log: Log) -> None:
        while not self._is_over.is_set():
            await write(log)
            await asyncio.sleep(self._random.uniform(0.05, 0.25))

    async def _append(self, log: Log) -> None:
        """Append a batch with ids, which the client repeats until it is acknowledged."""
        texts = [self._line() for _ in range(self._random.choice([1, 1, 2, 5]))]
        messages: list[MessageToAppend] = [{"id": str(uuid4()), "content": text} for text in texts]
        appended = await self._clients[log.tenant].append(log.id, messages, source="claude")
        log.acknowledged |= zip(texts, (each.sequence for each in appended), strict=True)

    async def _add_line(self, log: Log) -> None:
        """Append a line to the file, in two steps."""
        assert log.path
        line = self._line().replace(_SESSION_OF_SAMPLES, log.path.stem)
        log.acknowledged[line] = None
        middle = self._random.randrange(len(line))
        for part in (line[:middle], line[middle:] + "\n"):
            with log.path.open("a") as file:
                file.write(part)
            await asyncio.sleep(0.02)

    def _line(self) -> str:
        return agent_line(next(self._numbers), self._random.choice([300, 1_000, 8_000]))

    def _readers(self, logs: list[Log]) -> list[Reader]:
        kinds = (Reader, WebSocketReader)
        return [
            kinds[number // len(logs) % 2](self._deployment, self._clients[log.tenant], log)
            for number, log in zip(range(self._size.readers), cycle(logs), strict=False)
        ]

    async def _count_leaks(self, logs: list[Log]) -> int:
        """Let each tenant ask for the sessions of the other one, until all is written, and count the answers."""
        leaks = 0
        while True:
            is_last = self._is_over.is_set()
            for log in logs:
                other = self._clients[next(tenant for tenant in TENANTS if tenant != log.tenant)]
                leaks += len((await other.list_sessions(q=str(log.id))).sessions)
                leaks += await _is_answered(other.get_session(log.id))
                leaks += await _is_answered(other.list_messages(log.id))
                leaks += await _is_answered(other.list_events(log.id))
                leaks += await _is_answered(anext(other.export(log.id)))
                leaks += await _is_answered(anext(other.follow(log.id)))
            if is_last:
                return leaks
            await asyncio.sleep(1)

    # --- Sessions

    async def _create_log(self, tenant: str) -> Log:
        return Log(tenant, await new_session(self._clients[tenant]))

    async def _push(self, tenant: str) -> list[Log]:
        """Start the push of some files, and return their sessions."""
        folder = self._deployment.folder / str(uuid4())
        folder.mkdir()
        logs = []
        for _ in range(_FILES):
            path = folder / f"{uuid4()}.jsonl"
            logs.append(Log(tenant, UUID(path.stem), path=path))
            await self._add_line(logs[-1])
        self._start_push(tenant, folder)
        for log in logs:
            log.id = await self._session_of(log)
        return logs

    async def _session_of(self, log: Log) -> UUID:
        async with asyncio.timeout(_SETTLE_SECONDS):
            while True:
                page = await self._clients[log.tenant].list_sessions(provider_session_id=str(log.id))
                if page.sessions:
                    return page.sessions[0].id
                await asyncio.sleep(0.1)

    async def _wait_until_pushed(self, log: Log, lines: int) -> None:
        client = self._clients[log.tenant]
        while (await client.get_session(log.id)).message_count < lines:  # noqa: ASYNC110  # polls the server
            await asyncio.sleep(0.05)

    def _start_push(self, tenant: str, folder: Path) -> None:
        variables = {
            "HOME": str(folder),
            "TMPDIR": str(folder.parent),
            "ASH_URL": self._deployment.address,
            "ASH_KEY": self._deployment.keys[tenant],
        }
        self._pushes[tenant] = subprocess.Popen(
            [str(COMMAND), "push", "--watch", str(folder)],
            env={**os.environ, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _stop_pushes(self) -> None:
        for process in self._pushes.values():
            process.kill()
            process.wait()

    # --- Kills

    async def kill_database(self) -> float:
        began = time.perf_counter()
        self._deployment.kill_database()
        await asyncio.gather(self._deployment.start_database(), self._append(self._posted[0]))
        return time.perf_counter() - began

    async def kill_server(self) -> float:
        began = time.perf_counter()
        server = next(self._servers)
        server.stop(signal.SIGKILL)
        start = asyncio.create_task(asyncio.to_thread(server.start))
        await self._append(self._posted[0])
        recovery = time.perf_counter() - began
        await start
        return recovery

    async def kill_push(self) -> float:
        log = self._random.choice(self._pushed)
        assert log.path
        began = time.perf_counter()
        self._pushes[log.tenant].kill()
        self._pushes[log.tenant].wait()
        next_line = len(log.acknowledged) + 1
        self._start_push(log.tenant, log.path.parent)
        await self._wait_until_pushed(log, next_line)
        return time.perf_counter() - began


_KINDS: Mapping[str, Callable[[Run], Awaitable[float]]] = {
    "PostgreSQL": Run.kill_database,
    "the server": Run.kill_server,
    "`ash push`": Run.kill_push,
    "one of three servers": Run.kill_server,
}
_SERVERS = {"one of three servers": 3}
"""The number of servers, if there are several."""


@asynccontextmanager
async def _running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


async def _is_answered(read: Awaitable[object]) -> bool:
    """False if the server says that there is no such session, or is down."""
    try:
        await read
    except ApiError as error:
        if error.status not in (None, 404, 503):
            raise
        return False
    return True


async def measure(size: Size, limits_size: limits.Size) -> tuple[list[Result], list[Row]]:
    results = []
    for servers, kinds in groupby(_KINDS, lambda kind: _SERVERS.get(kind, 1)):
        async with deployed(servers) as deployment, AsyncExitStack() as stack:
            clients = {
                tenant: await stack.enter_async_context(deployment.client(tenant)) for tenant in TENANTS
            }
            results += [await Run(deployment, clients, size).kill(kind) for kind in kinds]
    async with deployed() as deployment:
        return results, await limits.measure(deployment, limits_size)


_HEADINGS = (
    "killed",
    "times",
    "recovery, median",
    "worst",
    "acknowledged",
    "lost",
    "altered",
    "gaps",
    "duplicates",
    "delivered to readers",
    "missed",
    "out of order",
    "seen by the other tenant",
)


def _table(results: list[Result], size: Size) -> Details:
    title = (
        f"kill -9 under load: {_WRITERS * len(TENANTS)} writers of {len(TENANTS)} sessions, "
        f"{_FILES * len(TENANTS)} growing files of {len(TENANTS)} `ash push --watch`, "
        f"{size.readers} readers (half server-sent events, half WebSockets), {len(TENANTS)} tenants."
    )
    rows = [
        (
            each.kind,
            str(len(each.recoveries)),
            f"{median(each.recoveries):.1f} s",
            f"{max(each.recoveries):.1f} s",
            *(f"{number:,}" for number in each.counts),
        )
        for each in results
    ]
    return Details(title, _HEADINGS, rows)


def main() -> None:
    arguments = _arguments()
    size = SMOKE if arguments.smoke else Size(arguments.kills, arguments.readers)
    began = time.monotonic()
    results, rows = asyncio.run(measure(size, limits.SMOKE if arguments.smoke else limits.FULL))
    text = f"{details(_table(results, size))}\n\n{goals(rows)}"
    print(f"{text}\n\n{time.monotonic() - began:.0f} s")
    broken = {name for each in results for name in each.counts.broken()}
    broken |= {row.what for row in rows if row.missed and not arguments.smoke}
    if size == FULL:
        report.write_measured("chaos", text)
    sys.exit(f"broken: {', '.join(sorted(broken))}" if broken else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=FULL.kills, help="of each kind")
    parser.add_argument("--readers", type=int, default=FULL.readers)
    parser.add_argument("--smoke", action="store_true", help="one kill of each kind, writing no file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
