"""The figures of a status line: of a session, of a day and of the active block."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from psycopg import AsyncConnection

from ash_server.prices import Prices
from ash_server.store.session_rows import find_sessions
from ash_server.store.usage.groups import UsageFilter, read_groups
from ash_server.store.usage.priced_groups import read_priced
from ash_server.store.usage.trees import read_subagents
from ash_shared.model.usage.report import UsageCounts, UsageRow
from ash_shared.projections.usage_report import ReportOptions, UsageItem, build_usage_report, sum_items

_RECENT = timedelta(days=2)
"""Blocks begin with a request and last five hours, so earlier usage hardly moves the active one."""
_QUARTER_SECONDS = 15 * 60


class UsageFigures(NamedTuple):
    session: UsageCounts | None
    """With its subagents; None if no session or several have the reference."""
    today: UsageCounts
    block: UsageRow | None
    """The active block."""


async def read_figures(
    conn: AsyncConnection, prices: Prices, session: str | None, since: datetime, now: datetime
) -> UsageFigures:
    """Return the usage of a session, of all sessions since a time, and of the active block."""
    read = partial(read_priced, partial(read_groups, conn), prices=prices)
    start, recent = _quarter_of(since), _quarter_of(now - _RECENT)
    own = None if session is None else await _read_session(conn, prices, session)
    last = await read(UsageFilter(period="quarter", since=recent))
    earlier = await read(UsageFilter(since=start, until=recent)) if start < recent else []
    today = [item for item in last if item.quarter is not None and item.quarter >= start]
    return await asyncio.to_thread(
        lambda: UsageFigures(
            session=None if own is None else sum_items(own),
            today=sum_items([*earlier, *today]),
            block=_active_block(last, now),
        )
    )


async def _read_session(conn: AsyncConnection, prices: Prices, reference: str) -> list[UsageItem] | None:
    matches = await find_sessions(conn, reference)
    if len(matches) != 1:
        return None
    subagents = await read_subagents(conn, [matches[0].id])
    usage = UsageFilter(sessions=[matches[0].id, *subagents])
    return await read_priced(partial(read_groups, conn), usage, prices)


def _active_block(items: Iterable[UsageItem], now: datetime) -> UsageRow | None:
    rows = build_usage_report(items, ReportOptions(("block",), "UTC", UTC, now)).rows
    return next((row for row in rows if row.window is not None and row.window.is_active), None)


def _quarter_of(moment: datetime) -> datetime:
    """Return the start of the quarter of an hour."""
    return moment - timedelta(seconds=moment.timestamp() % _QUARTER_SECONDS)
