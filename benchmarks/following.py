"""P9: latency from the append of an event to each of many subscribers, in one process and through a server."""

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple
from uuid import UUID

from ash_server.store.connections.pool import Pool, connect, open_pool
from ash_server.store.log.events import append_events
from ash_server.store.log.subscriptions import Hub
from benchmarks.database import new_session
from benchmarks.deployment import ServerProcess
from benchmarks.samples import chunk_event
from benchmarks.table import Row

_SEQUENCE = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class Size(NamedTuple):
    followers: int
    events: int
    pause: float
    """Seconds between two events; about the rate of a streaming model."""


FULL = Size(followers=100, events=500, pause=0.02)
SMOKE = Size(followers=5, events=20, pause=0.002)

Post = Callable[[int], Awaitable[None]]
"""Append the nth event of the session."""


class Received(NamedTuple):
    """An event received by a subscriber, with the time of receipt."""

    sequence: int
    time: float


Follow = Callable[[], AsyncIterator[Received]]


async def measure(url: str, size: Size) -> list[Row]:
    async with _in_process(url) as (post, follow):
        rows = _rows("in one process", await _deliver(post, follow, size), size)
    async with _through_server(url) as (post, follow):
        return rows + _rows("through a server, over SSE", await _deliver(post, follow, size), size)


def _rows(how: str, seconds: list[float], size: Size) -> list[Row]:
    percentiles = quantiles(seconds, n=100)
    note = f"{len(seconds):,} deliveries of {size.events} events, none missed or out of order"
    what = f"append to subscriber, {size.followers} of them on one session, {how}"
    return [
        Row("P9", f"{what}: p50", percentiles[49] * 1000, 30, bound="<=", unit=" ms", note=note),
        Row("P9", f"{what}: p99", percentiles[98] * 1000, 250, bound="<=", unit=" ms"),
    ]


async def _deliver(post: Post, follow: Follow, size: Size) -> list[float]:
    """Return the seconds from the start of the append to the receipt, for each event and subscriber."""
    ready = asyncio.Semaphore(0)
    following = [asyncio.create_task(_listen(follow, size.events, ready)) for _ in range(size.followers)]
    for _ in following:
        await ready.acquire()
    begun = []
    for number in range(1, size.events + 1):
        await asyncio.sleep(size.pause)
        begun.append(time.perf_counter())
        await post(number)
    heard = await asyncio.wait_for(asyncio.gather(*following), timeout=60)
    expected = list(range(size.events + 1))
    for each in heard:
        assert [one.sequence for one in each] == expected, "a follower missed something"
    return [one.time - begun[one.sequence - 1] for each in heard for one in each[1:]]


async def _listen(follow: Follow, last: int, ready: asyncio.Semaphore) -> list[Received]:
    """Receive until the last event; the first message is `caught_up` for the empty log."""
    heard = list[Received]()
    async for each in follow():
        if not heard:
            ready.release()
        heard.append(each)
        if each.sequence == last:
            break
    return heard


@asynccontextmanager
async def _in_process(url: str) -> AsyncIterator[tuple[Post, Follow]]:
    async with open_pool(url) as pool, Hub(url, pool) as hub:
        session_id = await _new_session(url)
        yield _poster(pool, hub, session_id), lambda: _hear(hub, session_id)


def _poster(pool: Pool, hub: Hub, session_id: UUID) -> Post:
    async def post(number: int) -> None:
        async with pool.connection() as conn:
            await append_events(conn, session_id, [json.loads(chunk_event(number))])
        hub.wake(session_id)

    return post


async def _hear(hub: Hub, session_id: UUID) -> AsyncIterator[Received]:
    yield Received(0, 0)
    async with aclosing(hub.subscribe(session_id, 0)) as batches:
        async for batch in batches:
            now = time.perf_counter()
            for event in batch.events:
                yield Received(event.sequence, now)


@asynccontextmanager
async def _through_server(url: str) -> AsyncIterator[tuple[Post, Follow]]:
    """Start a server process; this process is the writer and all subscribers."""
    with serving(url) as (host, port):
        path = f"/api/sessions/{await _new_session(url)}/events"
        async with AsyncExitStack() as stack:
            conversation = await stack.enter_async_context(_connection(host, port))

            async def post(number: int) -> None:
                body = chunk_event(number).encode()
                head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                status = await _ask(conversation, f"POST {path}", host, head, body)
                assert status == 201, status

            yield post, lambda: _hear_server(host, port, path)


async def _hear_server(host: str, port: int, path: str) -> AsyncIterator[Received]:
    async with _connection(host, port) as (reader, writer):
        writer.write(f"GET {path}/stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readuntil(b"caught_up")
        yield Received(0, 0)
        while piece := await reader.readuntil(b"\n\n"):
            now = time.perf_counter()
            for sequence in _SEQUENCE.finditer(piece):
                yield Received(int(sequence[1]), now)


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def _connection(host: str, port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _ask(connection: Connection, asked: str, host: str, head: str, body: bytes) -> int:
    """Return the status; the body is read and discarded."""
    reader, writer = connection
    writer.write(f"{asked} HTTP/1.1\r\nHost: {host}\r\n{head}\r\n".encode() + body)
    answered = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", answered)
    await reader.readexactly(int(length[1]) if length else 0)
    return int(answered.split()[1])


@contextmanager
def serving(url: str) -> Iterator[tuple[str, int]]:
    """Start a server process for this database; yield its host and port."""
    with tempfile.TemporaryDirectory(prefix="ash-bench-") as home:
        server = ServerProcess(url, Path(home))
        try:
            server.start()
            yield server.host, server.port
        finally:
            server.stop()


async def _new_session(url: str) -> UUID:
    async with await connect(url) as conn:
        return await new_session(conn)
