"""Inputs of projections: the events of a stored session, read page by page, without the parts a projection ignores."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from typing import Any
from uuid import UUID

from ash_server.errors import SessionChanged, SessionNotFound, SessionTooLarge
from ash_server.prices.errors import PricesError
from ash_server.store.connections.pool import Connect
from ash_server.store.conversation.model_counts import counting_of
from ash_server.store.conversation.redacted_rows import redact_message, redact_standard_messages
from ash_server.store.conversation.standard_pages import get_pages, size_of
from ash_server.store.conversation.standing_events import stream_standing
from ash_server.store.conversation.subagent_spending import read_total_spending
from ash_server.store.log.events import get_open_turn
from ash_server.store.log.totals import Copies, read_summary_of_log
from ash_server.store.message_pages import StoredMessage, list_messages
from ash_server.store.session_rows import TreeSession, get_session, get_tree
from ash_server.store.usage.reports import default_prices
from ash_server.store.usage.session_usage import read_session_usage
from ash_shared.eventlog import Event
from ash_shared.model.message import StandardMessage
from ash_shared.projections import (
    AtifExport,
    SessionSummary,
    SubagentMessages,
    to_atif,
)
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
    connect: Connect, session_id: UUID, save: Connect | None = None, *, is_bounded: bool = False
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
    computed = await _read_computed_costs(connect, session_id)
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


async def read_atif(
    connect: Connect, session_id: UUID, *, media_folder: str | None = None, redacts: bool = False
) -> AtifExport:
    """Return the trajectory of `to_atif`, with the trajectories of the stored sessions of subagents.

    `redacts`: without secrets. Raises SessionNotFound, SessionTooLarge.
    """
    async with connect() as conn:
        await get_session(conn, session_id)
        tree = await get_tree(conn, session_id)
    agents: dict[str, SubagentMessages] = {}
    size = 0
    for session in sorted(tree, key=lambda each: each.id != session_id):
        is_known = session.agent_id is None or session.agent_id in agents or session.id == session_id
        name = str(session.id) if is_known else str(session.agent_id)
        with suppress(SessionNotFound) if session.id != session_id else nullcontext():  # deleted meanwhile
            messages, size = await _read_messages(connect, session.id, size)
            copied = await _copied_ids(connect, session, messages)
            shown = await asyncio.to_thread(redact_standard_messages, messages) if redacts else messages
            agents[name] = SubagentMessages(name, shown, copied)
    own = agents.pop(str(session_id))
    records = await read_requests(connect, session_id, redacts=redacts)
    return await asyncio.to_thread(
        lambda: to_atif(
            own.messages,
            session_id=str(session_id),
            records=records,
            subagents=agents.values(),
            copied=own.copied,
            media_folder=media_folder,
        )
    )


async def _copied_ids(
    connect: Connect, session: TreeSession, messages: Iterable[StandardMessage]
) -> frozenset[str]:
    """Return the ids of the messages that were copied from another stored session."""
    if not session.copied_messages:
        return frozenset()
    own: set[str] = set()
    async with aclosing(get_pages(connect, session.id, after=session.copied_messages)) as pages:
        async for page in pages:
            own.update(message.id for message in page)
    return frozenset(message.id for message in messages if message.id not in own)


async def _read_messages(
    connect: Connect, session_id: UUID, size: int = 0
) -> tuple[list[StandardMessage], int]:
    """Return the standard messages of a session, and their size added to `size`. Raises SessionTooLarge."""
    messages: list[StandardMessage] = []
    async with aclosing(get_pages(connect, session_id)) as pages:
        async for page in pages:
            messages += page
            size += await asyncio.to_thread(_size_of_messages, page)
            if size > MAX_BYTES:
                raise SessionTooLarge
    return messages, size


_MARKS_OF_REQUESTS = ('"model_provider"', '"schema_version"', '"tools"')
"""Texts with one of the marks may define tools, or state the agent."""


def _size_of_messages(messages: Sequence[StandardMessage]) -> int:
    return sum(map(size_of, messages))


def _records_of_requests(stored: Iterable[StoredMessage]) -> Iterator[Any]:
    for message in stored:
        if any(mark in message.content for mark in _MARKS_OF_REQUESTS):
            with suppress(ValueError, RecursionError):
                yield decode_json(message.content)
