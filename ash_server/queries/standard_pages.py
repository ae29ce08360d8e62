"""Pages of standard messages and of events of a stored session.

A connection is held only while rows are read; they are transformed afterwards, in a thread. If a page is less than a
whole turn, it is read again with a larger limit.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.connection import Connect
from ash_server.db.events import StoredEvent, get_events_since
from ash_server.db.messages import MAX_PARSE_BYTES, StoredMessage, list_head, list_next
from ash_server.db.sessions import get_session
from ash_shared.conversation.paging import transform_page
from ash_shared.model.message import StandardMessage

_PAGE = 500
_EVENTS_SOURCE = "ash"
"""The source of Ash's own events."""
_MAX_LINES = 10_000
_MAX_BYTES = 4 * MAX_PARSE_BYTES
"""A longer turn is cut."""


class _Lines(NamedTuple):
    """Stored messages to transform together."""

    head: list[StoredMessage]
    """The first lines of the session, if they precede `lines`."""
    lines: list[StoredMessage]
    more: bool
    """True if more messages follow."""


class Conversation(NamedTuple):
    """A page of standard messages."""

    messages: list[StandardMessage]
    next_after: int | None
    """The sequence after which the next page begins; None on the last page."""


async def get_conversation(connect: Connect, session_id: UUID, *, after: int, limit: int) -> Conversation:
    """Return a page of whole turns, of at least `limit` stored messages if there are. Raises SessionNotFound."""
    max_bytes = MAX_PARSE_BYTES
    while True:
        async with connect() as conn:
            read = await _get_lines(conn, session_id, after=after, limit=limit, max_bytes=max_bytes)
        page, is_cut = await asyncio.to_thread(_transform, read)
        is_full = limit >= _MAX_LINES or (max_bytes == _MAX_BYTES and len(read.lines) < limit)
        if not is_cut or is_full:
            return page
        limit, max_bytes = min(2 * limit, _MAX_LINES), _MAX_BYTES


async def get_pages(connect: Connect, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
    """Yield all standard messages in pages, holding no connection between them. Raises SessionNotFound.

    A session without stored messages yields the messages of its posted events.
    """
    async with connect() as conn:
        is_posted = (await get_session(conn, session_id)).message_count == 0
    if is_posted:
        async with aclosing(_stream_posted(connect, session_id)) as pages:
            async for messages in pages:
                yield messages
        return
    after: int | None = 0
    while after is not None:
        page = await get_conversation(connect, session_id, after=after, limit=_PAGE)
        yield page.messages
        after = page.next_after


async def _stream_posted(connect: Connect, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
    pending, page_size = list[tuple[str, str | None]](), _PAGE
    async with aclosing(
        get_event_pages(connect, session_id, limit=_PAGE, max_bytes=MAX_PARSE_BYTES)
    ) as pages:
        async for events in pages:
            pending += [(event.wire(), _EVENTS_SOURCE) for event in events]
            is_full = len(pending) >= _MAX_LINES or sum(len(text) for text, _ in pending) >= _MAX_BYTES
            if len(pending) < page_size and not is_full:
                continue
            page = await asyncio.to_thread(transform_page, pending, more=True)
            if page.lines < len(pending) or is_full:
                yield page.messages
                pending, page_size = pending[page.lines :], _PAGE
            else:
                page_size *= 2
    yield (await asyncio.to_thread(transform_page, pending)).messages


async def get_event_pages(
    connect: Connect, session_id: UUID, *, limit: int, max_bytes: int
) -> AsyncGenerator[list[StoredEvent], None]:
    """Yield all events without completed chunks in pages, holding no connection between them."""
    after = 0
    while True:
        async with connect() as conn:
            page = await get_events_since(
                conn, session_id, after, limit=limit, max_bytes=max_bytes, collapse=True
            )
        if not page:
            return
        yield page
        after = page[-1].sequence


async def _get_lines(
    conn: AsyncConnection, session_id: UUID, *, after: int, limit: int, max_bytes: int
) -> _Lines:
    last = (await get_session(conn, session_id)).message_count
    lines = await list_next(conn, session_id, after=after, limit=limit, max_bytes=max_bytes)
    head = await list_head(conn, session_id, before=after + 1) if lines and after else []
    return _Lines(head, lines, bool(lines) and lines[-1].sequence < last)


def _transform(read: _Lines) -> tuple[Conversation, bool]:
    """Return the page, and True if its last turn may be cut: it has no prompt before which the page could end."""
    page = transform_page(_texts(read.lines), head=_texts(read.head), more=read.more)
    next_after = read.lines[page.lines - 1].sequence if read.more else None
    return Conversation(page.messages, next_after), read.more and page.lines == len(read.lines)


def _texts(stored: Sequence[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]
