"""Taking the words from the logs of events, so that they can be searched.

That goes on behind the appends, page by page: an append neither waits for it nor fails by it. A row for each session
says how far it is; who takes words from a session holds this row, and whoever finds it held goes on to another session.
What lies behind that place is not found yet, and searching says how much that is.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.db.pagination import bounded_query, may_go_on
from ash_server.db.search.tokens import vectors
from ash_shared.model.message import Role
from ash_shared.projections.search_text import PASSAGES_VERSION, SILENT, Passage, Weight, passages, role_of

_PAGE, _PAGE_BYTES = 500, 256 * 1024
"""Events whose words are taken in one transaction."""
LARGE = 64 * 1024
"""Characters of events that are better read in a thread."""
_SESSIONS_AT_ONCE = 200

_LOGS = """
    search_progress AS progress JOIN session_counters AS counters USING (session_id)
    WHERE counters.event_sequence > CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END
"""
"""Those with words that were not taken."""

# The smallest backlog first: what was just said is found while a large import is still at its beginning.
_BEHIND = f"""
    SELECT session_id
    FROM {_LOGS}
    ORDER BY version < %(version)b, counters.event_sequence - progress.event_sequence
    LIMIT %(limit)b
"""  # noqa: S608  # a constant of this module

_COUNT_BEHIND = f"""
    SELECT coalesce(sum(
        counters.event_sequence - CASE WHEN version < %(version)b THEN counters.events_dropped
            ELSE greatest(progress.event_sequence, counters.events_dropped) END
    ), 0)::bigint
    FROM {_LOGS}
"""  # noqa: S608  # likewise

_HOLD = f"""
    SELECT CASE WHEN version < %(version)b THEN 0 ELSE progress.event_sequence END, progress.events_dropped,
        counters.event_sequence, counters.events_dropped, statement_timestamp()
    FROM {_LOGS} AND session_id = %(session_id)b
    FOR UPDATE OF progress SKIP LOCKED
"""  # noqa: S608  # likewise

_EVENTS = bounded_query(
    "sequence, type, content",
    """
    SELECT sequence, type, content FROM events
    WHERE session_id = %(session_id)b AND sequence > %(after)b AND type <> ALL(%(silent)b)
    """,
)

_FORGET = "DELETE FROM search WHERE session_id = %b AND sequence > %b AND sequence <= %b"

_WRITE = """
    INSERT INTO search (session_id, sequence, part, weight, role, at, words)
    SELECT %(session_id)b, sequence, part, weight, role, at, words::tsvector
    FROM unnest(%(sequences)b::bigint[], %(parts)b::int2[], %(weights)b::text[], %(roles)b::text[],
        %(ats)b::timestamptz[], %(words)b::text[]) AS new (sequence, part, weight, role, at, words)
"""

_GO_ON = """
    UPDATE search_progress SET event_sequence = %(last)b, events_dropped = %(dropped)b, version = %(version)b
    WHERE session_id = %(session_id)b
"""

_BEGIN_AGAIN = "UPDATE search_progress SET event_sequence = 0 WHERE session_id = %b"


class _Progress(NamedTuple):
    """How far the words of a session were taken, and how far its log goes."""

    last: int
    dropped: int
    last_event: int
    events_dropped: int
    now: datetime


@dataclass(slots=True)
class _Event:
    sequence: int
    type: str
    content: str


class Told(msgspec.Struct):
    """What of a stored event is searched."""

    id: str
    timestamp: int
    type: str
    payload: Any


read_told = msgspec.json.Decoder(Told).decode


async def index_pending(conn: AsyncConnection, *, seconds: float = float("inf")) -> bool:
    """Takes the words of what has come, page by page until so much time is over. Sessions that somebody else is at are
    passed over. Whether nothing is left."""
    end = time.monotonic() + seconds
    wanted = {"version": PASSAGES_VERSION, "limit": _SESSIONS_AT_ONCE}
    while found := await (await conn.execute(_BEHIND, wanted)).fetchall():
        goes_on = False
        for (session_id,) in found:
            while await _index_page(conn, session_id):
                goes_on = True
                if time.monotonic() >= end:
                    return False
        if not goes_on:
            return False
    return True


async def count_pending(conn: AsyncConnection) -> int:
    """How many events are in logs whose words cannot be found yet."""
    found = await (await conn.execute(_COUNT_BEHIND, {"version": PASSAGES_VERSION})).fetchone()
    return found[0] if found else 0


async def renew_words(conn: AsyncConnection, session_id: UUID) -> None:
    """Takes all words of a session anew; those of before are found until then."""
    await conn.execute(_BEGIN_AGAIN, [session_id])
    while await _index_page(conn, session_id):
        pass


async def _index_page(conn: AsyncConnection, session_id: UUID) -> bool:
    """Whether there was something to do, and nobody else at it."""
    async with conn.transaction():
        named = {"session_id": session_id, "version": PASSAGES_VERSION}
        held = await (await conn.execute(_HOLD, named)).fetchone()
        if not held:
            return False
        progress = _Progress(*held)
        after = max(progress.last, progress.events_dropped)
        events = await _read_events(conn, session_id, after)
        is_cut = may_go_on(events, _PAGE, _PAGE_BYTES)
        last = max(progress.last_event if not is_cut else 0, events[-1].sequence if events else after)
        if progress.dropped < progress.events_dropped:
            await conn.execute(_FORGET, [session_id, 0, progress.events_dropped])
        await conn.execute(_FORGET, [session_id, after, last])
        await _write(conn, session_id, events, progress.now)
        reached = {"last": last, "dropped": progress.events_dropped}
        await conn.execute(_GO_ON, {**named, **reached})
    return True


async def _read_events(conn: AsyncConnection, session_id: UUID, after: int) -> list[_Event]:
    bounds = {"after": after, "limit": _PAGE, "bytes": _PAGE_BYTES, "silent": sorted(SILENT)}
    async with conn.cursor(binary=True, row_factory=args_row(_Event)) as cursor:
        await cursor.execute(_EVENTS, {"session_id": session_id, **bounds})
        return await cursor.fetchall()


async def _write(conn: AsyncConnection, session_id: UUID, events: Sequence[_Event], now: datetime) -> None:
    is_large = sum(len(event.content) for event in events) > LARGE
    rows = await asyncio.to_thread(_rows, events, now) if is_large else _rows(events, now)
    if rows:
        names = ("sequences", "parts", "weights", "roles", "ats", "words")
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        await conn.execute(_WRITE, {"session_id": session_id, **columns})


def _rows(events: Sequence[_Event], now: datetime) -> list[tuple[int, int, Weight, Role, datetime, str]]:
    """What is written of them, in the order of the columns."""
    rows = []
    for event in events:
        told = read_told(event.content)
        at = datetime.fromtimestamp(min(told.timestamp / 1000, now.timestamp()), UTC)
        role = role_of(event.type)
        found = passages_of(told)
        parts = [
            (weight, words)
            for weight, several in groupby(found, _weight_of)
            for words in vectors(passage.text for passage in several)
        ]
        rows += [
            (event.sequence, part, weight, role, at, words) for part, (weight, words) in enumerate(parts)
        ]
    return rows


def passages_of(told: Told) -> list[Passage]:
    """By their weights, in the order in which they are numbered."""
    return sorted(passages({"type": told.type, "payload": told.payload}), key=_weight_of)


def _weight_of(passage: Passage) -> Weight:
    return passage.weight
