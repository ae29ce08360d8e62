"""Pages of standard messages and of events of a stored session.

A connection is held only while rows are read; they are transformed afterwards in a thread. A page is read together with
the stored messages around it, which may complete it, and again with a larger limit if it is less than a whole turn.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.connections.pool import Connect
from ash_server.store.log.events import MAX_COLLAPSED, SQL, StoredEvent, get_collapsed
from ash_server.store.message_pages import (
    MAX_PARSE_BYTES,
    StoredMessage,
    list_head,
    list_last,
    list_next,
    texts_with_source,
)
from ash_server.store.pagination import may_have_more
from ash_server.store.session_rows import get_session
from ash_shared.conversation.paging import Page, transform_page
from ash_shared.model.message import StandardMessage

_PAGE = 1000
_EVENTS_SOURCE = "ash"
"""The source of Ash's own events."""
_MAX_LINES = 10_000
_MAX_BYTES = 4 * MAX_PARSE_BYTES
"""A longer turn is cut."""
MAX_DISTANCE = 300
"""Stored messages before and after a page that may complete its messages."""
_MAX_DISTANCE_BYTES = 1024 * 1024


class _Lines(NamedTuple):
    """Stored messages to transform together."""

    head: list[StoredMessage]
    """The first lines of the session, unless `before` or `page` begins with them."""
    before: list[StoredMessage]
    """The lines before the page."""
    page: list[StoredMessage]
    """The lines of the page; those after its last whole turn belong to the next page."""
    following: list[StoredMessage]
    more: bool
    """True if more messages follow."""


class Conversation(NamedTuple):
    """A page of standard messages."""

    messages: list[StandardMessage]
    next_after: int | None
    """The sequence after which the next page begins; None on the last page."""


async def get_conversation(
    connect: Connect, session_id: UUID, *, after: int = 0, limit: int = 1000
) -> Conversation:
    """Return a page of standard messages: as many whole turns as fit into `limit` stored messages, at least one.

    `next_after` is the cursor of the next page; an empty page may have one, too. Raises SessionNotFound.
    """
    size, max_bytes = limit, MAX_PARSE_BYTES
    while True:
        async with connect() as conn:
            lines = await _read_lines(conn, session_id, after=after, limit=size, max_bytes=max_bytes)
        page = await asyncio.to_thread(_transform, lines, min(limit, len(lines.page)))
        has_max_bytes = max_bytes == _MAX_BYTES and len(lines.page) < size
        is_full = size >= _MAX_LINES or has_max_bytes
        if page.is_cut and is_full:
            page = await asyncio.to_thread(_transform, lines, len(lines.page))
        needs_more = page.is_cut or page.lines > len(lines.page)
        if is_full or not needs_more:
            return _to_conversation(page, lines)
        size = min(2 * size if page.is_cut else page.lines, _MAX_LINES)
        max_bytes = _MAX_BYTES


def size_of(message: StandardMessage) -> int:
    """Return the size of a message as JSON, without its original records."""
    return len(message.model_dump_json(exclude={"original"}))


async def get_pages(
    connect: Connect, session_id: UUID, *, after: int = 0
) -> AsyncGenerator[list[StandardMessage], None]:
    """Yield the standard messages after a stored message in pages, holding no connection between them.

    A session without stored messages yields the messages of its posted events. Raises SessionNotFound.
    """
    async with connect() as conn:
        is_posted = (await get_session(conn, session_id)).message_count == 0
    if is_posted:
        async with aclosing(_stream_posted(connect, session_id)) as pages:
            async for messages in pages:
                yield messages
        return
    start: int | None = after
    while start is not None:
        page = await get_conversation(connect, session_id, after=start, limit=_PAGE)
        yield page.messages
        start = page.next_after


async def _stream_posted(connect: Connect, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
    before, pending, size = list[tuple[str, str | None]](), list[tuple[str, str | None]](), _PAGE
    async with aclosing(
        get_event_pages(connect, session_id, limit=_PAGE, max_bytes=MAX_PARSE_BYTES)
    ) as pages:
        async for events in pages:
            pending += [(event.wire(), _EVENTS_SOURCE) for event in events]
            is_full = len(pending) >= _MAX_LINES or sum(len(text) for text, _ in pending) >= _MAX_BYTES
            if len(pending) < size + MAX_DISTANCE and not is_full:
                continue
            page = await asyncio.to_thread(transform_page, pending, before=before, limit=size, more=True)
            if page.is_cut and not is_full:
                size *= 2
                continue
            yield page.messages
            before = [*before, *pending[: page.lines]][-MAX_DISTANCE:]
            pending, size = pending[page.lines :], _PAGE
    yield (await asyncio.to_thread(transform_page, pending, before=before)).messages


async def get_event_pages(
    connect: Connect, session_id: UUID, *, limit: int, max_bytes: int
) -> AsyncGenerator[list[StoredEvent], None]:
    """Yield all events without completed chunks in pages, holding no connection between them."""
    after, last = 0, 1
    while after < last:
        async with connect() as conn:
            _, last = await (await conn.execute(SQL.bounds_of_log, [session_id])).fetchone() or (1, 0)
            end = min(after + MAX_COLLAPSED, last)
            page = await get_collapsed(conn, session_id, after, end, limit=limit, max_bytes=max_bytes)
        if page:
            yield page
        after = page[-1].sequence if may_have_more(page, limit, max_bytes) else end


async def _read_lines(
    conn: AsyncConnection, session_id: UUID, *, after: int, limit: int, max_bytes: int
) -> _Lines:
    last = (await get_session(conn, session_id)).message_count
    page = await list_next(conn, session_id, after=after, limit=limit, max_bytes=max_bytes)
    if not page:
        return _Lines([], [], [], [], more=False)
    limit, max_bytes = MAX_DISTANCE, _MAX_DISTANCE_BYTES
    before = (
        await list_last(conn, session_id, before=after + 1, limit=limit, max_bytes=max_bytes) if after else []
    )
    first = (before or page)[0].sequence
    head = await list_head(conn, session_id, before=first) if first > 1 else []
    end = page[-1].sequence
    following = (
        await list_next(conn, session_id, after=end, limit=limit, max_bytes=max_bytes) if end < last else []
    )
    return _Lines(head, before, page, following, more=bool(following) and following[-1].sequence < last)


def _transform(lines: _Lines, limit: int) -> Page:
    head, before, page, following = map(texts_with_source, lines[:4])
    return transform_page(page + following, head=head, before=before, limit=limit, more=lines.more)


def _to_conversation(page: Page, lines: _Lines) -> Conversation:
    stored = lines.page + lines.following
    is_last = page.lines == len(stored) and not lines.more
    return Conversation(page.messages, None if is_last else stored[page.lines - 1].sequence)
