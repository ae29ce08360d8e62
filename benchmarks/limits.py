"""The cost of hostile and slow clients: memory of large bodies, exports and readers that stop reading."""

import asyncio
import json
import select
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from statistics import median
from threading import Event, Thread
from typing import NamedTuple
from uuid import UUID, uuid4

import httpx2
import psutil

from ash_client import AsyncAshClient
from benchmarks.deployment import TENANTS, Deployment, new_session
from benchmarks.samples import agent_line
from benchmarks.table import Row

_MB = 2**20
_IDLE_PERCENT = 5
_BODY_BYTES = 8 * _MB
_TEXT = "text/plain"
_JSON = "application/json"


class Size(NamedTuple):
    bodies: Collection[str] | None
    """Names of the bodies that are sent; None: all."""
    exports: int | None
    """Number of formats that are exported; None: all."""
    export_bytes: int
    stalled: tuple[int, ...]
    """Numbers of readers that do not read."""
    rounds: int
    seconds: float
    """Duration of a round of writers, in seconds."""


FULL = Size(bodies=None, exports=None, export_bytes=50 * _MB, stalled=(100, 300), rounds=7, seconds=2)
SMOKE = Size(
    bodies=["a list of empty lists"], exports=1, export_bytes=_MB, stalled=(10,), rounds=1, seconds=0.2
)


async def measure(deployment: Deployment, size: Size) -> list[Row]:
    """The server is started again for each measurement, since it seldom returns memory."""
    async with deployment.client(TENANTS[0]) as client:
        bodies = [await _body(deployment, client, name) for name in size.bodies or _BODIES]
        exports = await _exports(deployment, client, size)
        return [*bodies, *exports, *await _stalled_readers(deployment, client, size)]


# --- Bodies


def _filled(start: str, item: str, end: str, bytes: int) -> str:
    return start + item * ((bytes - len(start) - len(end)) // len(item) - 1) + item.rstrip(",") + end


_MESSAGE = '{"type":"user","message":{"role":"user","content":['


def _event(id: str, payload: str) -> str:
    return f'{{"id":"{id}","timestamp":1,"type":"of_a_client","payload":{{"a":{payload}}}}}'


def _batch(item: str) -> str:
    """Return messages of almost 1 MiB each, as they are written in a body."""
    size = (_MB - 100) * len(item) // len(json.dumps(item)[1:-1])
    return json.dumps([{"content": _filled(_MESSAGE, item, "]}}", size)}] * 8)


_BODIES: Mapping[str, tuple[str, str, Callable[[], str]]] = {
    "a message of empty lists": (
        "messages",
        _TEXT,
        lambda: _filled(_MESSAGE, "[],", "]}}", _BODY_BYTES),
    ),
    "a message of empty objects": (
        "messages",
        _TEXT,
        lambda: _filled(_MESSAGE, '{"":[]},', "]}}", _BODY_BYTES),
    ),
    "a message with as many nested objects as are decoded": (
        "messages",
        _TEXT,
        lambda: (
            f'{{"type":"user","message":{{"role":"user","content":"{"a" * (_BODY_BYTES - 2_500_000)}"}},'
            + _filled('"toolUseResult":[', '{"":{"":{"":{"":"ab"}}}},', "]}", 2_450_000)
        ),
    ),
    "a batch of messages of empty lists": ("messages", _JSON, lambda: _batch("[],")),
    "a batch of messages of empty objects": ("messages", _JSON, lambda: _batch('{"":[]},')),
    "a list of empty lists": ("messages", _JSON, lambda: _filled("[", "[],", "]", _BODY_BYTES)),
    "events of empty lists": (
        "events",
        _JSON,
        lambda: f"[{','.join(_event(str(n), _filled('[', '[],', ']', _MB - 8_000)) for n in range(8))}]",
    ),
}
"""Bodies of 8 MiB by their content: path in the session, media type, and a function that returns the text."""

_READS = (
    "messages?parsed=true",
    "standard-messages",
    "events",
    "export?format=jsonl",
    "export?format=events",
)


async def _body(deployment: Deployment, client: AsyncAshClient, name: str) -> Row:
    """Send the body, and read the stored part."""
    deployment.kill_server()
    await deployment.start_server()
    path, media_type, text = _BODIES[name]
    body = text().encode()
    session = await new_session(client)
    async with _http(deployment) as http:
        with peak_memory(deployment.server.pid) as peak:
            sent = await http.post(
                f"/api/sessions/{session}/{path}",
                content=body,
                headers={"Content-Type": media_type},
            )
            for read in _READS:
                async with http.stream("GET", f"/api/sessions/{session}/{read}") as answer:
                    async for _ in answer.aiter_raw():
                        pass
    note = f"{len(body) / _MB:.1f} MiB, answered {sent.status_code}, then read in {len(_READS)} forms"
    return Row("memory", f"{name}: resident memory", peak() / _MB, 300, bound="<=", unit=" MB", note=note)


# --- Exports


async def _exports(deployment: Deployment, client: AsyncAshClient, size: Size) -> list[Row]:
    large, small = [await new_session(client) for _ in range(2)]
    await client.append(
        large, (agent_line(n, 8_000) for n in range(size.export_bytes // 8_000)), source="claude"
    )
    await client.append(small, (agent_line(n, 8_000) for n in range(100)), source="claude")
    rows = []
    for name, path in list(_EXPORTS.items())[: size.exports]:
        deployment.kill_server()
        await deployment.start_server()
        await _read(deployment, path.format(small))
        before = psutil.Process(deployment.server.pid).memory_info().rss
        with peak_memory(deployment.server.pid) as peak:
            read = await _read(deployment, path.format(large))
        what = f"an export of {size.export_bytes / _MB:.0f} MB as {name}: added memory"
        note = f"{read / _MB:.0f} MB read"
        rows.append(Row("memory", what, (peak() - before) / _MB, 32, bound="<=", unit=" MB", note=note))
    return rows


_EXPORTS = {
    "JSON lines": "/api/sessions/{}/export?format=jsonl",
    "events": "/api/sessions/{}/export?format=events",
}


async def _read(deployment: Deployment, path: str) -> int:
    """Return the number of bytes."""
    async with _http(deployment) as http, http.stream("GET", path) as answer:
        answer.raise_for_status()
        return sum([len(chunk) async for chunk in answer.aiter_raw()])


# --- Readers that stop reading


async def _stalled_readers(deployment: Deployment, client: AsyncAshClient, size: Size) -> list[Row]:
    deployment.kill_server()
    await deployment.start_server()
    session = await new_session(client)
    await client.append(session, (agent_line(n, 150_000) for n in range(60)), source="claude")
    await _rate(client, session, size.seconds)
    process = psutil.Process(deployment.server.pid)
    resident: dict[int, int] = {}
    """The first value of each: memory is seldom returned."""
    rates: dict[int, list[float]] = {}
    for _ in range(size.rounds):
        for number in (0, *size.stalled):
            with _stalled(deployment, session, number) as readers:
                await asyncio.gather(*map(_is_answered, readers))
                await _until_idle(process)
                rates.setdefault(number, []).append(await _rate(client, session, size.seconds))
                resident.setdefault(number, process.memory_info().rss)
    rows = []
    for number in size.stalled:
        grown = resident[number] - resident[0]
        ratios = [with_them / without for with_them, without in zip(rates[number], rates[0], strict=True)]
        what = f"{number} readers that stop reading"
        rows += [
            Row("stalled", f"{what}: memory of each", grown / number / _MB, 1, bound="<=", unit=" MB"),
            Row("stalled", f"{what}: appends to their session, against none", median(ratios), 0.9),
        ]
    return rows


@contextmanager
def _stalled(deployment: Deployment, session: UUID, number: int) -> Iterator[list[socket.socket]]:
    """Subscribe and read nothing. The session has more to read than the buffers of a connection hold."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_subscribed(deployment, session, _KINDS[n % len(_KINDS)]))
            for n in range(number)
        ]


_KINDS = (
    ("stream", ""),
    (
        "ws",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ),
)


def _subscribed(deployment: Deployment, session: UUID, kind: tuple[str, str]) -> socket.socket:
    path, headers = kind
    server, key = deployment.server, deployment.keys[TENANTS[0]]
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((server.host, server.port))
    request = f"GET /api/sessions/{session}/events/{path} HTTP/1.1\r\nHost: {server.host}\r\n"
    reader.sendall(f"{request}Authorization: Bearer {key}\r\n{headers}\r\n".encode())
    return reader


async def _is_answered(reader: socket.socket) -> None:
    """Wait for the first bytes without reading them."""
    while not select.select([reader], [], [], 0)[0]:  # noqa: ASYNC110  # leaves them unread
        await asyncio.sleep(0.01)


async def _until_idle(process: psutil.Process) -> None:
    """Wait until the server has filled the buffers of all connections."""
    while process.cpu_percent(0.0) > _IDLE_PERCENT:  # noqa: ASYNC110  # polls another process
        await asyncio.sleep(0.3)


async def _rate(client: AsyncAshClient, session: UUID, seconds: float) -> float:
    """Return the appends per second of four writers."""
    end = time.perf_counter() + seconds

    async def write() -> int:
        appends = 0
        while time.perf_counter() < end:
            await client.append(session, [{"id": str(uuid4()), "content": agent_line(appends, 1_000)}])
            appends += 1
        return appends

    return sum(await asyncio.gather(*(write() for _ in range(4)))) / seconds


# --- Shared


@asynccontextmanager
async def _http(deployment: Deployment) -> AsyncIterator[httpx2.AsyncClient]:
    key = {"Authorization": f"Bearer {deployment.keys[TENANTS[0]]}"}
    async with httpx2.AsyncClient(base_url=deployment.server.address, headers=key, timeout=120) as http:
        yield http


@contextmanager
def peak_memory(pid: int) -> Iterator["_Peak"]:
    """Sample the resident memory of the process; call the result for its maximum."""
    peak = _Peak(psutil.Process(pid))
    peak.start()
    try:
        yield peak
    finally:
        peak.stop()


class _Peak:
    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._bytes = 0
        self._stopped = Event()
        self._thread = Thread(target=self._sample, daemon=True)

    def __call__(self) -> int:
        return self._bytes

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopped.wait(0.002):
            self._bytes = max(self._bytes, self._process.memory_info().rss)
