"""P14: appending and loading through the adapters for agent SDKs, compared with other stores of the same SDK."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from claude_agent_sdk import SessionKey

from ash_server.store import Store
from ash_server.store.connections.pool import connect
from ash_stores import AshSession, AshSessionStore
from ash_stores.connection import Address
from benchmarks.database import settle
from benchmarks.following import serving
from benchmarks.measure import Times, take_turns_async
from benchmarks.peers.stores import AGENT_SDK, OPENAI_AGENTS, Opened, installed_stores
from benchmarks.peers.stores import Store as Peer
from benchmarks.samples import agent_line
from benchmarks.table import Row, factor

_IN_PROCESS, _HTTP = "in process", "over HTTP"
_FLOOR = 0.9
_APPENDS = 10
"""Of each of several writers."""


class Size(NamedTuple):
    batches: Mapping[int, int]
    """Appends per run, by the number of items in each."""
    items: int
    """Items of the loaded session; a run appends no more."""
    rounds: int
    load_rounds: int
    writers: int
    """Concurrent writers of one session."""


FULL = Size(batches={1: 50, 10: 30, 100: 9}, items=900, rounds=5, load_rounds=15, writers=20)
SMOKE = Size(batches={2: 2}, items=20, rounds=1, load_rounds=1, writers=2)


class _Adapter(NamedTuple):
    name: str
    open: Callable[[Address], AbstractAsyncContextManager[Opened]]
    item: Callable[[int], Any]
    peer: Peer


async def measure(url: str, size: Size) -> list[Row]:
    rows = list[Row]()
    with serving(url) as (host, port):
        async with Store.open(url) as store:
            for adapter in _ADAPTERS:
                addresses: dict[str, Address] = {_IN_PROCESS: store, _HTTP: f"http://{host}:{port}"}
                async with AsyncExitStack() as stack:
                    cases = {
                        where: await stack.enter_async_context(adapter.open(address))
                        for where, address in addresses.items()
                    }
                    if adapter.peer in installed_stores():
                        cases[adapter.peer.name] = await stack.enter_async_context(adapter.peer.open(url, 1))
                    rows += await _measure(url, adapter, cases, size)
            rows += [
                await _measure_writers(where, address, size.writers)
                for where, address in ((_IN_PROCESS, store), (_HTTP, f"http://{host}:{port}"))
            ]
    return rows


async def _measure_writers(where: str, address: Address, writers: int) -> Row:
    """Measure several writers that each append single entries to the same session."""
    sessions = [AshSessionStore(address) for _ in range(writers)]
    key = SessionKey(project_key="project", session_id=str(uuid4()))
    entries = _renewed([_entry(number) for number in range(_APPENDS)])

    async def write(each: AshSessionStore) -> None:
        for entry in _renewed(entries):
            await each.append(key, [entry])

    began = time.perf_counter()
    await asyncio.gather(*map(write, sessions))
    seconds = time.perf_counter() - began
    assert len(await sessions[0].load(key) or ()) == writers * _APPENDS
    for each in sessions:
        await each.close()
    what = f"AshSessionStore {where}, {writers} writers of {_APPENDS} entries on one session"
    return Row("P14", what, seconds * 1000, 1000, bound="<=", unit=" ms")


async def _measure(url: str, adapter: _Adapter, cases: Mapping[str, Opened], size: Size) -> list[Row]:
    items = [adapter.item(number) for number in range(size.items)]
    appending = dict[int, Times]()
    for batch, count in size.batches.items():
        runs = {name: partial(_append, opened, items, batch, count) for name, opened in cases.items()}
        appending[batch] = await take_turns_async(runs, size.rounds)
    loads = {name: await _filled(opened, items) for name, opened in cases.items()}
    async with await connect(url) as conn:
        await settle(conn)
    loading = await take_turns_async(loads, size.load_rounds)
    if adapter.peer.name not in cases:
        return [Row("P14", f"{adapter.name}, against {adapter.peer.name}", None, note="not installed")]
    return [
        row
        for where in (_IN_PROCESS, _HTTP)
        for row in (
            _appending_row(adapter, where, appending),
            _row(
                adapter,
                f"loading {size.items:,} items",
                where,
                loading.typical_speed(where, adapter.peer.name),
            ),
        )
    ]


def _appending_row(adapter: _Adapter, where: str, appending: Mapping[int, Times]) -> Row:
    speeds = {batch: times.typical_speed(where, adapter.peer.name) for batch, times in appending.items()}
    note = ", ".join(f"{batch} per append: {factor(speed)}" for batch, speed in speeds.items())
    return _row(adapter, "appending", where, median(speeds.values()), note)


def _row(adapter: _Adapter, what: str, where: str, ratio: float, note: str = "") -> Row:
    return Row(
        "P14", f"{adapter.name} {where}, {what}, against {adapter.peer.name}", ratio, _FLOOR, note=note
    )


async def _append(opened: Opened, items: list[Any], batch: int, count: int) -> float:
    """Return the seconds for appends to a new session."""
    session_id = uuid4()
    batches = [_renewed(items[start : start + batch]) for start in range(0, batch * count, batch)]
    began = time.perf_counter()
    for each in batches:
        await opened.append(0, session_id, each)
    return time.perf_counter() - began


def _renewed(items: list[Any]) -> list[Any]:
    """Return items with new ids."""
    return [{**item, "uuid": str(uuid4())} for item in items]


async def _filled(opened: Opened, items: list[Any]) -> Callable[[], Any]:
    """Return a function that loads a session with the items."""
    assert opened.load
    session_id = uuid4()
    await opened.append(0, session_id, _renewed(items))
    return partial(_load, opened.load, session_id, len(items))


async def _load(load: Callable[[UUID], Any], session_id: UUID, count: int) -> None:
    assert len(await load(session_id)) == count


# --- Adapters


@asynccontextmanager
async def _claude_agent(address: Address) -> AsyncIterator[Opened]:
    sessions = AshSessionStore(address)

    async def append(_writer: int, session_id: UUID, entries: list[Any]) -> None:
        await sessions.append({"project_key": "project", "session_id": str(session_id)}, entries)

    async def load(session_id: UUID) -> list[Any]:
        return await sessions.load({"project_key": "project", "session_id": str(session_id)}) or []

    yield Opened(append, load)
    await sessions.close()


@asynccontextmanager
async def _openai_agents(address: Address) -> AsyncIterator[Opened]:
    """Open each session once for all appends, and again for each load, as the peer does."""
    sessions = dict[UUID, AshSession]()

    async def append(_writer: int, session_id: UUID, items: list[Any]) -> None:
        if session_id not in sessions:
            sessions[session_id] = AshSession(str(session_id), url=address)
        await sessions[session_id].add_items(items)

    async def load(session_id: UUID) -> list[Any]:
        session = AshSession(str(session_id), url=address)
        items = await session.get_items()
        await session.close()
        return items

    yield Opened(append, load)
    for session in sessions.values():
        await session.close()


def _entry(number: int) -> Any:
    return json.loads(agent_line(number, 2500))


def _item(number: int) -> Any:
    text = _entry(number)["message"]["content"][0]["text"]
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


_ADAPTERS = (
    _Adapter("AshSessionStore", _claude_agent, _entry, AGENT_SDK),
    _Adapter("AshSession", _openai_agents, _item, OPENAI_AGENTS),
)
