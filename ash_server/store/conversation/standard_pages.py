"""Pages of standard messages and of events of a stored session.

A connection is held only while rows are read; they are transformed afterwards in a thread. A page is read together with
the stored messages around it, which may complete it, and again with a larger limit if it is less than a whole turn.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, TypeVar
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
from ash_shared.conversation.paging import ModelsPage, Page, models_of_page, transform_page
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

    @property
    def stored(self) -> list[StoredMessage]:
        return self.page + self.following

    def is_last(self, used: int) -> bool:
        """True if no message follows the used ones of `stored`."""
        return used == len(self.stored) and not self.more


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
    page, lines = await _read_whole_turns(connect, session_id, transform_page, after=after, limit=limit)
    is_last = lines.is_last(page.lines)
    return Conversation(page.messages, None if is_last else lines.stored[page.lines - 1].sequence)


class StoredModels(NamedTuple):
    """The models of the answers of a page, each with the stored message that its answer begins with."""

    models: list[tuple[int, str]]
    turns: list[int]
    """The first messages of turns."""
    session_models: list[tuple[int, str]]
    """The models of answers that state none, each with the message that states it, or the one before the page."""
    last: int
    """The last stored message of the page."""
    is_last: bool
    """True for the last page."""
    size: int
    """Characters of its stored messages."""


async def get_models(
    connect: Connect, session_id: UUID, *, after: int, distance: int = MAX_DISTANCE, model: str = ""
) -> StoredModels:
    """Return the models of the answers of `get_conversation`, which takes half as long.

    `distance` is the number of messages before the page that may complete its messages; `model` is as in
    `models_of_page`. Raises SessionNotFound.
    """
    page, lines = await _read_whole_turns(
        connect, session_id, partial(models_of_page, model=model), after=after, limit=_PAGE, distance=distance
    )
    stored = lines.stored[: page.lines]
    return StoredModels(
        [(stored[line].sequence, model) for line, model in page.models],
        [stored[line].sequence for line in page.turns if line < page.lines],
        [
            (stored[line].sequence if line >= 0 else after, name)
            for line, name in page.session_models
            if line < page.lines
        ],
        stored[-1].sequence if stored else after,
        lines.is_last(page.lines),
        sum(len(message.content) for message in stored),
    )


_Page = TypeVar("_Page", Page, ModelsPage)


async def _read_whole_turns(
    connect: Connect,
    session_id: UUID,
    transform: Callable[..., _Page],
    *,
    after: int,
    limit: int,
    distance: int = MAX_DISTANCE,
) -> tuple[_Page, _Lines]:
    size, max_bytes = limit, MAX_PARSE_BYTES
    while True:
        async with connect() as conn:
            lines = await _read_lines(
                conn, session_id, after=after, limit=size, max_bytes=max_bytes, distance=distance
            )
        page = await asyncio.to_thread(_transform, transform, lines, min(limit, len(lines.page)))
        has_max_bytes = max_bytes == _MAX_BYTES and len(lines.page) < size
        is_full = size >= _MAX_LINES or has_max_bytes
        if page.is_cut and is_full:
            page = await asyncio.to_thread(_transform, transform, lines, len(lines.page))
        needs_more = page.is_cut or page.lines > len(lines.page)
        if is_full or not needs_more:
            return page, lines
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
    conn: AsyncConnection, session_id: UUID, *, after: int, limit: int, max_bytes: int, distance: int
) -> _Lines:
    last = (await get_session(conn, session_id)).message_count
    page = await list_next(conn, session_id, after=after, limit=limit, max_bytes=max_bytes)
    if not page:
        return _Lines([], [], [], [], more=False)
    limit, max_bytes = MAX_DISTANCE, _MAX_DISTANCE_BYTES
    before = (
        await list_last(conn, session_id, before=after + 1, limit=distance, max_bytes=max_bytes)
        if after
        else []
    )
    first = (before or page)[0].sequence
    head = await list_head(conn, session_id, before=first) if first > 1 else []
    end = page[-1].sequence
    following = (
        await list_next(conn, session_id, after=end, limit=limit, max_bytes=max_bytes) if end < last else []
    )
    return _Lines(head, before, page, following, more=bool(following) and following[-1].sequence < last)


def _transform(transform: Callable[..., _Page], lines: _Lines, limit: int) -> _Page:
    head, before, page, following = map(texts_with_source, lines[:4])
    return transform(page + following, head=head, before=before, limit=limit, more=lines.more)
