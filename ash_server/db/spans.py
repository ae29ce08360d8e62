"""Stretches of a log: the events from one place to another, and the stored lines that lie between the same places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.db.events import Origin
from ash_server.db.messages import StoredMessage, list_lines
from ash_shared.message import Kind

_MOST_ENTRIES = 1000
_MOST_BYTES = 512 * 1024
"""Of the events of a span, and of its lines: what lies behind them is left out."""

_HEAD = 20
"""So many first lines tell which session it is, and which client wrote it."""

_TURN = """
    SELECT sequence - 1, message_sequence - CASE origin WHEN 'line' THEN 1 ELSE 0 END
    FROM events WHERE session_id = %b AND sequence <= %b AND type = 'turn_start'
    ORDER BY sequence DESC LIMIT 1
"""

_PLACE = """
    SELECT sequence, message_sequence FROM events WHERE session_id = %b AND sequence <= %b
    ORDER BY sequence DESC LIMIT 1
"""

_WITHIN = """
    SELECT sequence, message_sequence, origin, kind, content
    FROM (
        SELECT event.sequence, message_sequence, origin, kind, event.content,
            sum(octet_length(event.content)) OVER (ORDER BY event.sequence ROWS UNBOUNDED PRECEDING) AS size
        FROM (
            SELECT * FROM events
            WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence <= %(last)b
              AND type NOT LIKE '%%chunk'
            ORDER BY sequence LIMIT %(limit)b
        ) AS event
        LEFT JOIN messages ON origin = 'line'
          AND messages.session_id = event.session_id AND messages.sequence = message_sequence
    ) AS sized
    WHERE size <= %(bytes)b::bigint
    ORDER BY sequence
"""


class Place(NamedTuple):
    """A place between two entries."""

    event: int
    """The sequence of the last event ahead of it."""
    line: int
    """The sequence of the last stored message ahead of it."""


@dataclass(slots=True)
class SpannedEvent:
    """An event, and what it was derived from."""

    sequence: int
    message_sequence: int
    origin: Origin
    kind: Kind | None
    """Of the line that gave it, if one did."""
    content: str


class Span(NamedTuple):
    """What lies between two places."""

    events: list[SpannedEvent]
    """Without the pieces of streams."""
    head: Sequence[StoredMessage]
    """The first lines of the session, where they lie ahead of it."""
    lines: list[StoredMessage]
    next_after: int | None
    """The sequence of the last line that is here, where more are behind it."""


async def place_of(conn: AsyncConnection, session_id: UUID, sequence: int) -> Place:
    """The place behind an event."""
    found = await (await conn.execute(_PLACE, [session_id, sequence])).fetchone()
    return Place(*found) if found else Place(0, 0)


async def get_turn(conn: AsyncConnection, session_id: UUID, end: Place) -> Span:
    """The turn whose last event is the last one ahead of this place."""
    found = await (await conn.execute(_TURN, [session_id, end.event])).fetchone()
    start = Place(*found) if found else Place(end.event - 1, end.line)
    return await get_span(conn, session_id, start, end)


async def get_span(conn: AsyncConnection, session_id: UUID, start: Place, end: Place) -> Span:
    """As much of it as may be told at once."""
    bounds = {"after": start.event, "last": end.event, "limit": _MOST_ENTRIES, "bytes": _MOST_BYTES}
    async with conn.cursor(binary=True, row_factory=args_row(SpannedEvent)) as cursor:
        await cursor.execute(_WITHIN, {"session_id": session_id, **bounds})
        events = await cursor.fetchall()
    most = min(_MOST_ENTRIES, end.line - start.line)
    lines = await _lines(conn, session_id, start.line, most) if most > 0 else []
    within = [each for each in lines if each.sequence <= end.line]
    first = await _lines(conn, session_id, 0, _HEAD) if within and start.line else []
    head = [each for each in first if each.sequence <= start.line]
    is_full = len(within) == _MOST_ENTRIES or sum(len(each.content) for each in within) * 4 >= _MOST_BYTES
    goes_on = is_full and within[-1].sequence < end.line
    return Span(events, head, within, within[-1].sequence if goes_on else None)


async def _lines(conn: AsyncConnection, session_id: UUID, after: int, limit: int) -> list[StoredMessage]:
    return await list_lines(conn, session_id, after=after, limit=limit, most_bytes=_MOST_BYTES)
