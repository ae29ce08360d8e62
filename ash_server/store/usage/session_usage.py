"""The usage of sessions, and the totals with their subagents."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.prices import Prices
from ash_server.store.usage.groups import UsageFilter, read_groups
from ash_server.store.usage.priced_groups import read_priced
from ash_server.store.usage.trees import read_subagents
from ash_shared.model.usage.report import UsageCounts, UsageRow
from ash_shared.projections.usage_report import (
    ReportOptions,
    UsageItem,
    add_subagents,
    build_usage_report,
)


class SessionUsage(NamedTuple):
    own: UsageCounts
    with_subagents: UsageCounts | None
    """None for a session without subagents."""


async def read_session_usage(
    conn: AsyncConnection, prices: Prices, session_ids: Collection[UUID]
) -> dict[UUID, SessionUsage]:
    items, parents = await read_trees(conn, prices, session_ids)
    return await asyncio.to_thread(_sum_sessions, items, parents, session_ids)


async def read_trees(
    conn: AsyncConnection, prices: Prices, session_ids: Collection[UUID]
) -> tuple[list[UsageItem], dict[str, str]]:
    """Return the usage of sessions and their subagents, and the parents of the subagents."""
    parents = await read_parents(conn, session_ids)
    usage = UsageFilter(by=["session"], sessions={*session_ids, *map(UUID, parents)})
    return await read_priced(partial(read_groups, conn), usage, prices), parents


async def read_parents(conn: AsyncConnection, session_ids: Collection[UUID]) -> dict[str, str]:
    """Return the parents of the subagents of some sessions, at any depth."""
    subagents = await read_subagents(conn, session_ids)
    return {str(id): str(each.parent) for id, each in subagents.items()}


def _sum_sessions(
    items: Iterable[UsageItem], parents: Mapping[str, str], session_ids: Collection[UUID]
) -> dict[UUID, SessionUsage]:
    empty = [
        UsageItem(quarter=None, source="", model=None, values={"session": str(id)}) for id in session_ids
    ]
    every = [*empty, *items]
    options = ReportOptions(("session",), "UTC", UTC, datetime.now(UTC), limit=len(every) + 1)
    rows = add_subagents(build_usage_report(every, options), every, parents).rows
    return {
        row.session.id: SessionUsage(_counts_of(row), row.with_subagents)
        for row in rows
        if row.session is not None
    }


def _counts_of(row: UsageRow) -> UsageCounts:
    return UsageCounts(**{name: getattr(row, name) for name in UsageCounts.model_fields})
