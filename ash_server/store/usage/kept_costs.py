"""Costs of sessions, kept with their counters, so that lists by cost are in the order of an index.

A change of the usage of a session marks its cost, and other prices have another revision: such costs are outdated until
they are computed again, in small steps.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.prices import Prices
from ash_server.store.connections.pool import is_distributed
from ash_server.store.statements import statements
from ash_server.store.usage.groups import read_groups
from ash_server.store.usage.priced_groups import read_session_costs

VERSION = 1
"""Increase it when the same usage and prices get another cost: kept costs are then computed again."""

MAX_COST = 10**18 - 1
"""Higher costs, which only wrong counts have, are equal in the order of a list."""

_MAX_STEP = 200
"""Sessions that a step computes."""

SQL = statements(__file__)


class _Row(NamedTuple):
    session_id: UUID
    cost: int
    revision: str
    message_sequence: int
    event_sequence: int
    last_dropped_sequence: int


def revision_of(prices: Prices) -> str:
    """Return the revision of costs that are computed with prices."""
    return f"{VERSION} {prices.revision}"


async def keep_costs(
    conn: AsyncConnection,
    prices: Prices,
    *,
    seconds: float = float("inf"),
    quiet: float = 0.0,
    step: int = _MAX_STEP,
) -> bool:
    """Compute outdated costs for at most this time and return True if none remain.

    Sessions with a writer, and those with new usage that changed in the last `quiet` seconds, are skipped: their cost
    stays outdated until a later call.
    """
    end = time.monotonic() + seconds
    while rows := await _list_outdated(conn, prices, quiet, step):
        if not await _compute(conn, prices, rows) or time.monotonic() >= end:
            return False
    return True


async def check_shared(
    conn: AsyncConnection, prices: Prices, after: UUID | None, *, step: int = _MAX_STEP
) -> UUID | None:
    """Compute the costs of the next sessions with usage that others may have, too; return the last one.

    Their costs depend on the other sessions: the usage of a copy counts if its original is not stored.
    """
    params = {"after": after or UUID(int=0), "limit": step}
    ids = [id for (id,) in await (await conn.execute(SQL.list_shared, params)).fetchall()]
    kept = await _read(conn, SQL.list_kept, {"revision": revision_of(prices), "ids": ids})
    costs = await read_costs(conn, prices, [each.session_id for each in kept])
    await _compute(conn, prices, [each for each in kept if each.cost != costs[each.session_id]])
    return ids[-1] if len(ids) == step else None


async def read_costs(conn: AsyncConnection, prices: Prices, ids: Collection[UUID]) -> dict[UUID, int]:
    """Return the costs of sessions in nano-dollars, from their usage."""
    if not ids:
        return {}
    costs = await read_session_costs(partial(read_groups, conn), ids, prices)
    return {id: min(costs.get(id, 0), MAX_COST) for id in ids}


async def list_with_shared_usage(conn: AsyncConnection, ids: Collection[UUID]) -> list[UUID]:
    """Return the sessions among some with usage that others may have, too."""
    if not ids:
        return []
    return [id for (id,) in await (await conn.execute(SQL.find_shared, [list(ids)])).fetchall()]


async def _list_outdated(conn: AsyncConnection, prices: Prices, quiet: float, limit: int) -> list[_Row]:
    params = {"revision": revision_of(prices), "quiet": quiet, "limit": limit}
    rows = await _read(conn, SQL.list_outdated, params)
    return rows or await _read(conn, SQL.list_with_later_revision, params)


async def _read(conn: AsyncConnection, query: str, params: Mapping[str, object]) -> list[_Row]:
    return [_Row(*row) for row in await (await conn.execute(query, params)).fetchall()]


async def _compute(conn: AsyncConnection, prices: Prices, rows: Iterable[_Row]) -> int:
    """Keep the costs of sessions that have not changed meanwhile, and return their number."""
    before = {each.session_id: each for each in rows}
    costs = await read_costs(conn, prices, list(before))
    if not costs:
        return 0
    selected = SQL.chosen if is_distributed(conn) else SQL.unlocked
    columns = {name: [getattr(each, name) for each in before.values()] for name in _Row._fields[2:]}
    params = {
        **columns,
        "ids": list(before),
        "costs": [costs[id] for id in before],
        "new_revision": revision_of(prices),
    }
    return (await conn.execute(SQL.save.fill(selected=selected), params)).rowcount
