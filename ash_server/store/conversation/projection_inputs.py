"""Inputs of projections: the events of a stored session, read page by page, without the parts a projection ignores."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing, suppress
from functools import partial
from typing import Any
from uuid import UUID

from ash_server.errors import SessionChanged, SessionTooLarge
from ash_server.prices.errors import PricesError
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.model_counts import counting_of
from ash_server.store.conversation.redacted_rows import redact_message
from ash_server.store.conversation.standing_events import stream_standing
from ash_server.store.conversation.subagent_spending import read_total_spending
from ash_server.store.log.events import get_open_turn
from ash_server.store.log.totals import Copies, read_summary_of_log
from ash_server.store.message_pages import StoredMessage, list_messages
from ash_server.store.session_rows import get_session
from ash_server.store.usage.reports import default_prices
from ash_server.store.usage.session_usage import read_session_usage
from ash_shared.eventlog import Event
from ash_shared.projections import SessionSummary
from ash_shared.records.json_text import decode_json

MAX_READS = 3
"""Attempts to read a session that is rebuilt meanwhile."""
_TOOL_LINES = 200
"""Number of lines at the beginning searched for definitions of tools."""
MAX_BYTES = 64 * 1024 * 1024
"""Total size of the events, twice what any API accepts in a request."""


async def read_events(
    connect: Connect, session_id: UUID, *, whole: bool = False, redacts: bool = False
) -> list[Event]:
    """Return the events of `stream_standing`. Raises SessionNotFound, SessionTooLarge."""
    for _ in range(MAX_READS):
        with suppress(SessionChanged):
            return await _read_standing(connect, session_id, whole=whole, redacts=redacts)
    raise SessionChanged


async def _read_standing(connect: Connect, session_id: UUID, *, whole: bool, redacts: bool) -> list[Event]:
    events: list[Event] = []
    size = 0
    async with aclosing(stream_standing(connect, session_id, whole=whole, redacts=redacts)) as parts:
        async for part in parts:
            events += part.events
            size += sum(part.sizes)
            if size > MAX_BYTES:
                raise SessionTooLarge
    return events


async def read_summary(
    connect: Connect,
    session_id: UUID,
    save: Connect | None = None,
    *,
    is_bounded: bool = False,
    is_priced: bool = True,
) -> SessionSummary:
    """Raises SessionNotFound. If many events had to be read, their totals are stored on a connection of `save`."""
    async with connect() as conn:
        open_turn = await get_open_turn(conn, session_id)  # read first, so that its end is not missed
        session = await get_session(conn, session_id)
    copied = session.copied_messages or 0
    is_subagent = bool(session.agent_id) or session.copy_of is None  # or the copies are inherited
    copies = Copies(copied, is_subagent and copied > 0)
    count_models = counting_of(connect, session, copies, is_bounded=is_bounded)
    fold, models = await read_summary_of_log(connect, save, session_id, copies, count_models)
    summary = SessionSummary.model_validate(fold.fields(open_turn, models))
    total = await read_total_spending(connect, session_id, own=partial(fold.spending, open_turn))
    computed = await _read_computed_costs(connect, session_id) if is_priced else {}
    return summary.model_copy(update={**(total or {}), **computed})


async def _read_computed_costs(connect: Connect, session_id: UUID) -> dict[str, float | None]:
    """Return the costs of a `SessionSummary` at API prices; without readable prices, none."""
    try:
        prices = await default_prices()
    except PricesError:
        return {}
    async with connect() as conn:
        own, total = (await read_session_usage(conn, prices, [session_id]))[session_id]
    return {
        "computed_cost_usd": own.computed_cost_usd,
        "total_computed_cost_usd": None if total is None else total.computed_cost_usd,
    }


async def read_requests(connect: Connect, session_id: UUID, *, redacts: bool) -> list[Any]:
    """Return the first records of a session that may define tools, or state the agent."""
    async with connect() as conn:
        first = await list_messages(conn, session_id, limit=_TOOL_LINES)
    return await asyncio.to_thread(
        lambda: list(_records_of_requests(map(redact_message, first) if redacts else first))
    )


_MARKS_OF_REQUESTS = ('"model_provider"', '"schema_version"', '"tools"')
"""Texts with one of the marks may define tools, or state the agent."""


def _records_of_requests(stored: Iterable[StoredMessage]) -> Iterator[Any]:
    for message in stored:
        if any(mark in message.content for mark in _MARKS_OF_REQUESTS):
            with suppress(ValueError, RecursionError):
                yield decode_json(message.content)
