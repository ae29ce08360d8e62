"""Stretches of a log: the events from one place to another, and the stored lines that lie between the same places."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.db.event_writer import Origin
from ash_server.db.messages import StoredMessage, list_next
from ash_server.db.pagination import bounded_query, may_go_on
from ash_shared.model.message import Kind

_MOST_ENTRIES = 1000
_MOST_BYTES = 512 * 1024
"""Of the events of a span, and of its lines: what lies behind them is left out. The last of them may exceed it."""

_HEAD = 20
"""So many first lines tell which session it is, and which client wrote it."""

SAID = ("assistant_done", "thinking_done", "tool_call", "tool_result", "user_audio", "user_message")
"""The types of the events that messages are made of."""

_TURN = """
    SELECT sequence - 1, message_sequence - CASE origin WHEN 'line' THEN 1 ELSE 0 END
    FROM events WHERE session_id = %b AND sequence <= %b AND type = 'turn_start'
    ORDER BY sequence DESC LIMIT 1
"""

_PLACE = """
    SELECT sequence, message_sequence FROM events WHERE session_id = %b AND sequence <= %b
    ORDER BY sequence DESC LIMIT 1
"""

_WITHIN = bounded_query(
    "sequence, message_sequence, origin, kind, content",
    """
    SELECT event.sequence, message_sequence, origin, kind, event.content
    FROM events AS event
    LEFT JOIN messages ON origin = 'line'
      AND messages.session_id = event.session_id AND messages.sequence = message_sequence
    WHERE event.session_id = %(session_id)b
      AND event.sequence > %(after)b AND event.sequence <= %(last)b
      AND type = ANY(%(types)b)
      AND NOT (%(loose)b AND origin = 'line' AND kind <> 'chunk')
    """,
)


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

    @property
    def is_of_line(self) -> bool:
        """Whether a stored line, and no piece of a stream, says the same."""
        return self.origin == "line" and self.kind != "chunk"


class Span(NamedTuple):
    """What lies between two places."""

    events: list[SpannedEvent]
    """Those that say something (`SAID`)."""
    head: Sequence[StoredMessage]
    """The first lines of the session, where they lie ahead of it."""
    lines: list[StoredMessage]
    next_after: int | None
    """The sequence of the last line that is here, where more are behind it."""
    next_event_after: int | None
    """Likewise of the last event. Where lines say all that is here, those behind it count that no line says."""


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
    events = await _events(conn, session_id, start.event, end.event)
    lines = await _lines(conn, session_id, start.line, end.line)
    head = await _lines(conn, session_id, 0, start.line, limit=_HEAD) if lines else []
    is_full = partial(may_go_on, limit=_MOST_ENTRIES, max_bytes=_MOST_BYTES)
    has_more_lines = is_full(lines) and await _lines(conn, session_id, lines[-1].sequence, end.line, limit=1)
    has_more_events = is_full(events) and await _events(
        conn,
        session_id,
        events[-1].sequence,
        end.event,
        limit=1,
        loose=all(event.is_of_line for event in events),
    )
    return Span(
        events,
        head,
        lines,
        next_after=lines[-1].sequence if has_more_lines else None,
        next_event_after=events[-1].sequence if has_more_events else None,
    )


async def _events(
    conn: AsyncConnection,
    session_id: UUID,
    after: int,
    last: int,
    *,
    limit: int | None = None,
    loose: bool = False,
) -> list[SpannedEvent]:
    """`loose` leaves out those that lines say as well."""
    bounds = {"after": after, "last": last, "limit": limit or _MOST_ENTRIES, "bytes": _MOST_BYTES}
    wanted = {"session_id": session_id, "types": list(SAID), "loose": loose, **bounds}
    async with conn.cursor(binary=True, row_factory=args_row(SpannedEvent)) as cursor:
        await cursor.execute(_WITHIN, wanted)
        return await cursor.fetchall()


async def _lines(
    conn: AsyncConnection, session_id: UUID, after: int, last: int, *, limit: int | None = None
) -> list[StoredMessage]:
    if last <= after:
        return []
    return await list_next(
        conn, session_id, after=after, before=last + 1, limit=limit or _MOST_ENTRIES, max_bytes=_MOST_BYTES
    )
