"""The conversation of a stored session as standard messages, a page at a time; and its log, likewise.

First the store is asked, then what it gave is put together: the one takes a connection, the other the time. Where that
is not a whole turn, more of it is asked for.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.db.events import StoredEvent, get_events_since
from ash_server.db.messages import MAX_PARSE_BYTES, StoredMessage, list_next
from ash_server.db.sessions import get_session
from ash_shared.conversation.paging import transform_page
from ash_shared.model.message import StandardMessage

_HEAD = 20
"""So many first lines tell which session it is, and which client wrote it."""

_PAGE = 500
_EVENTS = "ash"
"""The format of Ash's own events."""
_MOST_LINES = 10_000
_MOST_BYTES = 4 * MAX_PARSE_BYTES
"""A turn is cut where it is longer than that."""


class _Lines(NamedTuple):
    """Stored messages that are to be read together."""

    head: list[StoredMessage]
    """The first of the session, where they lie ahead of these."""
    lines: list[StoredMessage]
    more: bool
    """Whether anything is stored behind them."""


class Conversation(NamedTuple):
    """A page of it."""

    messages: list[StandardMessage]
    next_after: int | None
    """The sequence behind which the next page begins; None where nothing more is stored."""


Connect = Callable[[], AbstractAsyncContextManager[AsyncConnection]]


async def get_conversation(connect: Connect, session_id: UUID, *, after: int, limit: int) -> Conversation:
    """A page of whole turns, made of at least so many stored messages, if there are. Raises SessionNotFound."""
    max_bytes = MAX_PARSE_BYTES
    while True:
        async with connect() as conn:
            read = await _get_lines(conn, session_id, after=after, limit=limit, max_bytes=max_bytes)
        page, is_cut = await asyncio.to_thread(_put_together, read)
        is_full = limit >= _MOST_LINES or (max_bytes == _MOST_BYTES and len(read.lines) < limit)
        if not is_cut or is_full:
            return page
        limit, max_bytes = min(2 * limit, _MOST_LINES), _MOST_BYTES


async def get_pages(connect: Connect, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
    """All of it, in pages of some size; between two of them no connection is taken. Where no message is stored, it is
    what the posted events say. Raises SessionNotFound."""
    async with connect() as conn:
        is_posted = (await get_session(conn, session_id)).message_count == 0
    if is_posted:
        async with aclosing(_get_posted(connect, session_id)) as pages:
            async for messages in pages:
                yield messages
        return
    after: int | None = 0
    while after is not None:
        page = await get_conversation(connect, session_id, after=after, limit=_PAGE)
        yield page.messages
        after = page.next_after


async def _get_posted(connect: Connect, session_id: UUID) -> AsyncGenerator[list[StandardMessage], None]:
    left, wanted = list[tuple[str, str | None]](), _PAGE
    async with aclosing(
        get_event_pages(connect, session_id, limit=_PAGE, max_bytes=MAX_PARSE_BYTES)
    ) as pages:
        async for events in pages:
            left += [(event.wire(), _EVENTS) for event in events]
            is_full = len(left) >= _MOST_LINES or sum(len(text) for text, _ in left) >= _MOST_BYTES
            if len(left) < wanted and not is_full:
                continue
            made = await asyncio.to_thread(transform_page, left, more=True)
            if made.lines < len(left) or is_full:
                yield made.messages
                left, wanted = left[made.lines :], _PAGE
            else:
                wanted *= 2
    yield (await asyncio.to_thread(transform_page, left)).messages


async def get_event_pages(
    connect: Connect, session_id: UUID, *, limit: int, max_bytes: int
) -> AsyncGenerator[list[StoredEvent], None]:
    """All events, likewise, without the pieces of what is whole."""
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
    first = await list_next(conn, session_id, limit=_HEAD) if lines and after else []
    head = [each for each in first if each.sequence <= after]
    return _Lines(head, lines, bool(lines) and lines[-1].sequence < last)


def _put_together(read: _Lines) -> tuple[Conversation, bool]:
    """The page, and whether its last turn may be cut: no prompt was found behind which the next page could begin."""
    made = transform_page(_texts(read.lines), head=_texts(read.head), more=read.more)
    next_after = read.lines[made.lines - 1].sequence if read.more else None
    return Conversation(made.messages, next_after), read.more and made.lines == len(read.lines)


def _texts(stored: Sequence[StoredMessage]) -> list[tuple[str, str | None]]:
    return [(each.content, None if each.source == "unknown" else each.source) for each in stored]
