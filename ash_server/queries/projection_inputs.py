"""What projections read of a stored session.

Of the events only what the projection reads is kept, page by page, so that what nobody asks for takes no memory.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from uuid import UUID

import msgspec

from ash_server.db.events import StoredEvent, check_cursor, get_open_turn
from ash_server.db.sessions import get_session
from ash_server.errors import SessionTooLarge
from ash_server.queries.standard_pages import Connect, get_conversation, get_event_pages
from ash_shared.eventlog import Event
from ash_shared.model.events import CHUNKS
from ash_shared.projections import RECENT_LINES, SessionSummary, count_models, to_session_summary

_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024
"""Of the events that are kept: twice what any API takes in a request."""

_MARKS = frozenset({"parentToolCallId", "sidechain"})
"""What every projection looks for in every payload."""
_BULKY = frozenset({"args", "content", "details", "raw", "result", "structured"})
"""What a summary never shows of a payload."""
_UNSAID = frozenset({"raw", "thinking_done"})
"""Types of which no projection shows the payload."""


async def read_conversation(connect: Connect, session_id: UUID) -> list[Event]:
    """The events with what messages and prompts show of them. Raises SessionNotFound, SessionTooLarge."""
    return await _read(connect, session_id, _of_conversation)


async def read_summary(connect: Connect, session_id: UUID) -> SessionSummary:
    """Raises SessionNotFound, SessionTooLarge."""
    async with connect() as conn:
        open_turn = await get_open_turn(conn, session_id)  # first: where it ends meanwhile, its end is read
        last = (await get_session(conn, session_id)).message_count
    events = await _read(connect, session_id, _of_summary)
    recent = await get_conversation(
        connect, session_id, after=max(0, last - RECENT_LINES), limit=RECENT_LINES
    )
    models = count_models(recent.messages)
    return await asyncio.to_thread(to_session_summary, events, open_turn=open_turn, models=models)


def _of_conversation(event: Event) -> Event:
    if event["type"] not in _UNSAID:
        return event
    payload = event["payload"]
    return {**event, "payload": {name: payload[name] for name in payload if name in _MARKS}}


def _of_summary(event: Event) -> Event:
    payload = _of_conversation(event)["payload"]
    return {**event, "payload": {name: payload[name] for name in payload if name not in _BULKY}}


async def _read(connect: Connect, session_id: UUID, keep: Callable[[Event], Event]) -> list[Event]:
    """Where the session is rebuilt meanwhile, the newer reading follows behind a `reset`."""
    events: list[Event] = []
    size = 0
    async with connect() as conn:
        await check_cursor(conn, session_id, 0)
    found = get_event_pages(connect, session_id, limit=_PAGE, max_bytes=_PAGE_BYTES)
    async with aclosing(found) as pages:
        async for page in pages:
            kept, kept_size = await asyncio.to_thread(_kept, page, keep)
            events += kept
            size += kept_size
            if size > MOST_BYTES:
                raise SessionTooLarge
    return events


def _kept(found: Sequence[StoredEvent], keep: Callable[[Event], Event]) -> tuple[list[Event], int]:
    """What is kept of a page, and about how large it is."""
    events = [keep(msgspec.json.decode(event.content)) for event in found if event.type not in CHUNKS]
    return events, sum(map(_size, events))


def _size(event: Event) -> int:
    return len(msgspec.json.encode(event))
