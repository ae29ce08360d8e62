"""P13: reads with a key and row-level security, compared with the same reads without both; without a network."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import NamedTuple

from litestar import Litestar

from ash_server.app import create_app
from ash_server.keys.ring import ANYONE, Client
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.borrowed import Connections
from ash_server.store.connections.pool import connect, open_pool
from ash_server.store.connections.tenants import DEFAULT
from benchmarks.database import fill
from benchmarks.deployment import SECRET, create_key
from benchmarks.http import requests
from benchmarks.measure import take_turns_async
from benchmarks.samples import Samples
from benchmarks.table import Row

_WITH, _WITHOUT = "with", "without"


class Size(NamedTuple):
    messages: int
    requests: int
    """Requests in one run."""
    rounds: int


FULL = Size(messages=2_000, requests=30, rounds=15)
SMOKE = Size(messages=200, requests=2, rounds=1)


async def measure(url: str, samples: Samples, size: Size) -> list[Row]:
    texts = [line.decode() for line in islice(cycle(samples.lines), size.messages)]
    async with await connect(url) as conn:
        session_id = await fill(conn, texts)
    path = f"/api/sessions/{session_id}/messages"
    reads = {
        "page of 100 messages": (path, range(0, size.messages - 100, 100), {"limit": "100"}),
        "page of 1 message": (path, range(0, size.messages - 1, 97), {"limit": "1"}),
    }
    restricted = create_app(Settings(secret=SECRET), database_url=url)
    open_to_all = create_app(Settings(), database_url=url)
    rows = []
    async with restricted.lifespan(), open_to_all.lifespan(), _without_tenants(open_to_all, url):
        key = await create_key(restricted.state.store, DEFAULT.name, ("read",))
        for name, (address, all_afters, query) in reads.items():
            afters = list(islice(cycle(all_afters), size.requests))
            cases = {
                _WITH: requests(restricted, address, afters, key=key, **query),
                _WITHOUT: requests(open_to_all, address, afters, **query),
            }
            times = await take_turns_async(cases, size.rounds)
            what = f"{name} with a key and row-level security, against without both"
            rows.append(Row("P13", what, times.speed(_WITH, _WITHOUT), floor=0.85))
    return rows


@asynccontextmanager
async def _without_tenants(app: Litestar, url: str) -> AsyncGenerator[None, None]:
    """Let the application read as the owner of the tables, and answer everyone."""
    async with open_pool(url, as_owner=True) as pool:
        app.state.update(
            {"store": Store(Connections(pool, pool, pool), app.state.store.hub), "key_ring": _Open()}
        )
        yield


class _Open:
    """A key ring that lets everyone in."""

    async def identify(self, _key: str | None, _cookie: str | None) -> Client:
        return ANYONE
