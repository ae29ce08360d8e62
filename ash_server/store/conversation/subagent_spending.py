"""The total spending of a session and of the sessions of its subagents."""

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import msgspec

from ash_server.errors import SessionNotFound
from ash_server.store.connections.pool import Connect
from ash_server.store.log.events import StoredEvent, get_events, get_open_turn
from ash_server.store.session_rows import TreeSession, get_tree
from ash_shared.eventlog import Event
from ash_shared.model.message import StandardTokenUsage
from ash_shared.projections import (
    COPY_MARKS,
    TURN_MARKS,
    AgentSpending,
    Spending,
    spending_of,
    total_spending,
)

_PAGE = 1000


async def read_total_spending(
    connect: Connect, session_id: UUID, own: Callable[[], Spending]
) -> dict[str, Any] | None:
    """Return the totals of a `SessionSummary`; None if no subagent of the session is stored.

    `own` returns the spending of the session itself.
    """
    async with connect() as conn:
        tree = await get_tree(conn, session_id)
    if len(tree) < 2:
        return None
    spent = list[AgentSpending]()
    for session in tree:
        is_own = session.id == session_id
        spending = await (asyncio.to_thread(own) if is_own else _read_spending(connect, session))
        if spending is not None:
            spent.append(AgentSpending(session.agent_id, spending))
    usage, cost, _ = total_spending(spent)
    return {
        "total_usage": None if usage is None else StandardTokenUsage.model_validate(usage),
        "total_cost_usd": cost,
    }


async def _read_spending(connect: Connect, session: TreeSession) -> Spending | None:
    """Return the spending of a session; None if it was deleted."""
    marks = list[Event]()
    async with connect() as conn:
        try:
            open_turn = await get_open_turn(conn, session.id)  # read first, so that its end is not missed
            while page := await get_events(
                conn,
                session.id,
                types=list(COPY_MARKS if session.copied_messages else TURN_MARKS),
                after=marks[-1]["sequence"] if marks else 0,
                limit=_PAGE,
            ):
                marks += map(_to_mark, page)
        except SessionNotFound:
            return None
    return spending_of(marks, open_turn, session.copied_messages)


def _to_mark(stored: StoredEvent) -> Event:
    """Return an event without the content of its turn."""
    event: Event = msgspec.json.decode(stored.wire())
    return event if stored.type in TURN_MARKS else {**event, "payload": {}}
