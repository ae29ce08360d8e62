"""Index the words of events for full-text search.

Events are indexed after the append, page by page: an append does not wait, and succeeds even if indexing fails.
`search_progress` stores the last indexed event of each session; later events are pending, and a search reports their
number. The process that indexes a session locks its row; other processes skip locked rows. Of several servers, one at
a time runs the background indexer; searches also index pending events.

Functions take a connection in autocommit mode (`connections.pool.open_pool`).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.redaction import redact_json
from ash_server.redaction.chunks import hide_event_texts
from ash_server.store.connections import restoring
from ash_server.store.connections.pool import is_distributed
from ash_server.store.log import stored_json, totals
from ash_server.store.log.stored_json import event_json
from ash_server.store.pagination import bounded_query, may_have_more
from ash_server.store.search import moved_words
from ash_server.store.search.moved_words import move_page, words_to_move
from ash_server.store.search.tokens import vectors
from ash_server.store.statements import Sql, statements
from ash_shared.model.event_types import Weight
from ash_shared.model.message import Role
from ash_shared.projections.search_text import PASSAGES_VERSION, SILENT, Passage, passages, role_of

Readers = Literal["all", "redacted", "unredacted"]
"""The clients that can find a row: those that see redacted texts must not find the words of secrets."""

_MAX_EVENTS, _MAX_EVENT_BYTES = 500, 256 * 1024
"""Events indexed in one transaction."""
_END = 2**62
MAX_INLINE = 64 * 1024
"""Characters; larger batches of events are read in a thread."""
_MAX_SESSIONS = 200
_MAX_FINISHED = 500
"""Sessions with a mark that one statement removes."""
_QUIET_SECONDS = 60.0
"""The mark of a session with a later change stays."""

SQL = statements(
    __file__,
    event_json=event_json(),
    stored_columns=stored_json.SQL.stored_columns,
    are_near_totals=totals.SQL.are_near,
    indexed=moved_words.SQL.indexed,
)

_READ_EVENTS = bounded_query(SQL.event_columns, SQL.events_to_index, size=stored_json.SQL.event_json_size)

_INDEXER = 6_213_850_417
"""Number of the lock of the background indexer, chosen at random."""


class _Progress(NamedTuple):
    """How far a session is indexed, and the end of its log."""

    last: int
    moved: Sequence[Sequence[int]]
    dropped: int
    last_event: int
    last_dropped_sequence: int
    now: datetime


@dataclass(slots=True)
class _Event:
    sequence: int
    type: str
    content: bytes


class SearchedEvent(msgspec.Struct):
    """The searched fields of a stored event."""

    id: str
    timestamp: int
    type: str
    payload: Any


decode_event = msgspec.json.Decoder(SearchedEvent).decode


@asynccontextmanager
async def indexer_lock(conn: AsyncConnection) -> AsyncGenerator[bool, None]:
    """Yield True if no other process holds the lock of the background indexer, which this one then holds until exit."""
    async with conn.transaction():
        row = await (await conn.execute(SQL.try_advisory_lock, [_INDEXER])).fetchone()
        yield bool(row and row[0])


async def index_pending(conn: AsyncConnection, *, seconds: float = float("inf")) -> bool:
    """Index pending events page by page for at most this time and return True if none of them remain.

    Events appended meanwhile are left to the next call, or one transaction would follow each append. Sessions that
    another process is indexing are skipped.
    """
    end = time.monotonic() + seconds
    for query in (SQL.list_pending_sessions, SQL.list_outdated_sessions):
        if not await _index_listed(conn, query, end):
            return False
    return True


async def _index_listed(conn: AsyncConnection, query: Sql, end: float) -> bool:
    params = {"version": PASSAGES_VERSION, "limit": _MAX_SESSIONS}
    while rows := await (await conn.execute(query, params)).fetchall():
        indexed = 0
        for (session_id,) in rows:
            has_more = await _index_page(conn, session_id)
            indexed += has_more is not None
            while has_more and time.monotonic() < end:
                has_more = await _index_page(conn, session_id)
            if has_more or (has_more is not None and time.monotonic() >= end):
                return False
        if indexed == len(rows) < _MAX_SESSIONS:
            return True
        if not indexed:
            return False
    return True


async def end_upkeep(conn: AsyncConnection, *, quiet: float = _QUIET_SECONDS) -> None:
    """Remove the marks of sessions that need no upkeep and have not changed for `quiet` seconds."""
    params = {"version": PASSAGES_VERSION, "quiet": quiet, "limit": _MAX_FINISHED}
    statement = SQL.end_upkeep.fill(selected=SQL.chosen if is_distributed(conn) else SQL.unlocked)
    while rows := await (await conn.execute(SQL.list_finished_sessions, params)).fetchall():
        places = {"ids": [id for id, _ in rows], "last": [last for _, last in rows]}
        ended = (await conn.execute(statement, places)).rowcount
        if not ended or len(rows) < _MAX_FINISHED:
            return


async def count_pending(conn: AsyncConnection) -> int:
    """Return the number of events that are not indexed."""
    row = await (await conn.execute(SQL.count_pending_events, {"version": PASSAGES_VERSION})).fetchone()
    return row[0] if row else 0


async def reindex_words(conn: AsyncConnection, session_id: UUID) -> None:
    """Index a session again; searches use its old words until they are replaced."""
    async with conn.transaction():
        await conn.execute(restoring.SQL.start_upkeep, [session_id])
        await conn.execute(SQL.restart_progress, [session_id])
    while await _index_page(conn, session_id):
        pass


async def _index_page(conn: AsyncConnection, session_id: UUID) -> bool | None:
    """Index a page, and return True if more may follow; None if nothing is pending, or another process indexes the
    session."""
    async with conn.transaction():
        keys = {"session_id": session_id, "version": PASSAGES_VERSION}
        row = await (await conn.execute(SQL.lock_progress, keys)).fetchone()
        if not row:
            return None
        progress = _Progress(*row)
        after = max(progress.last, progress.last_dropped_sequence)
        moved = words_to_move(progress.moved, after)
        end = moved[0].after + moved[0].by if moved else _END
        if after == end:
            last = await move_page(conn, session_id, moved[0])
        else:
            last = await _read_page(conn, session_id, progress, after, end)
        moved, dropped = words_to_move(moved, last), progress.dropped
        if not moved and dropped < progress.last_dropped_sequence:
            dropped = progress.last_dropped_sequence
            await conn.execute(moved_words.SQL.delete_between, [session_id, 0, dropped])
        reached = {"last": last, "dropped": dropped, "moved": [list(each) for each in moved]}
        await conn.execute(SQL.advance_progress, {**keys, **reached})
    return bool(moved) or last < progress.last_event


async def _read_page(
    conn: AsyncConnection, session_id: UUID, progress: _Progress, after: int, end: int
) -> int:
    """Write the words of events up to `end`, and return the last event."""
    events = await _read_events(conn, session_id, after, end)
    is_cut = may_have_more(events, _MAX_EVENTS, _MAX_EVENT_BYTES)
    last = events[-1].sequence if events else after
    if not is_cut:
        last = end if end < _END else max(last, progress.last_event)
    await conn.execute(moved_words.SQL.delete_between, [session_id, after, last])
    await _write_rows(conn, session_id, events, progress.now)
    return last


async def _read_events(conn: AsyncConnection, session_id: UUID, after: int, last: int) -> list[_Event]:
    bounds = {"after": after, "last": last, "limit": _MAX_EVENTS, "bytes": _MAX_EVENT_BYTES}
    async with conn.cursor(binary=True, row_factory=args_row(_Event)) as cursor:
        await cursor.execute(_READ_EVENTS, {"session_id": session_id, **bounds, "silent": sorted(SILENT)})
        return await cursor.fetchall()


async def _write_rows(
    conn: AsyncConnection, session_id: UUID, events: Sequence[_Event], now: datetime
) -> None:
    is_large = sum(len(event.content) for event in events) > MAX_INLINE
    rows = await asyncio.to_thread(_build_rows, events, now) if is_large else _build_rows(events, now)
    if rows:
        names = ("sequences", "parts", "weights", "readers", "roles", "ats", "words")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        await conn.execute(SQL.insert_words, {"session_id": session_id, **columns})


def _build_rows(
    events: Sequence[_Event], now: datetime
) -> list[tuple[int, int, Weight, Readers, Role, datetime, str]]:
    """Return the rows to insert, in the order of the columns."""
    rows = []
    for event in events:
        decoded = decode_event(event.content)
        at = datetime.fromtimestamp(min(decoded.timestamp / 1000, now.timestamp()), UTC)
        role = role_of(event.type)
        parts = [
            (weight, readers, words)
            for readers, shown in _shown_events(event, decoded)
            for weight, several in groupby(passages_of(shown), _weight_of)
            for words in vectors(passage.text for passage in several)
        ]
        rows += [
            (event.sequence, part, weight, readers, role, at, words)
            for part, (weight, readers, words) in enumerate(parts)
        ]
    return rows


def _shown_events(event: _Event, decoded: SearchedEvent) -> list[tuple[Readers, SearchedEvent]]:
    """Return the versions of the event for each kind of reader: only one for most events, which have no secrets."""
    redacted = redacted_event(event.type, event.content)
    if redacted == event.content.decode():
        return [("all", decoded)]
    return [("unredacted", decoded), ("redacted", decode_event(redacted))]


def redacted_event(type: str, content: bytes) -> str:
    return redact_json(hide_event_texts(type, content).decode())


def passages_of(event: SearchedEvent) -> list[Passage]:
    """Return the searched texts of an event, ordered by weight."""
    return sorted(passages({"type": event.type, "payload": event.payload}), key=_weight_of)


def _weight_of(passage: Passage) -> Weight:
    return passage.weight
