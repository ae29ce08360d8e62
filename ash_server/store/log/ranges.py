"""Ranges of a session: the events between two positions in the log, and the messages stored between them."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct
from psycopg import AsyncConnection

from ash_server.store.connections.pool import fetch_all
from ash_server.store.log import stored_json
from ash_server.store.log.stored_json import event_json
from ash_server.store.log.writer import EventOrigin
from ash_server.store.message_pages import StoredMessage, list_head, list_last, list_next
from ash_server.store.pagination import bounded_query, may_have_more
from ash_server.store.statements import statements
from ash_shared.model.event_types import PROMPTS, types_where
from ash_shared.model.message import Kind

_MAX_ENTRIES = 1000
_MAX_BYTES = 512 * 1024
"""Limit for the events of a range, and for its messages. The entry that exceeds the limit is the last one included."""

_MAX_CONTEXT = 200
"""Limit for the messages before a position."""

_TOPIC_TYPES = sorted(types_where(lambda row: row.is_topic))

_ANSWER_TYPES = sorted(types_where(lambda row: row.is_topic) - PROMPTS)

SQL = statements(__file__, event_json=event_json(), stored_columns=stored_json.SQL.stored_columns)

_READ_EVENTS = bounded_query(SQL.event_columns, SQL.events_between, size=stored_json.SQL.event_json_size)


class LogPosition(NamedTuple):
    """A position between two entries."""

    event: int
    """The sequence of the last event before it."""
    line: int
    """The sequence of the last stored message before it."""


class SpannedEvent(Struct, gc=False):
    """An event with the kind of the message it was derived from."""

    sequence: int
    message_sequence: int
    origin: EventOrigin
    kind: Kind | None
    """The kind of its message; None for events without one."""
    content: bytes

    @property
    def is_in_message(self) -> bool:
        """True if a stored message other than a chunk has the same content."""
        return self.origin == "line" and self.kind != "chunk"


class LineContext(NamedTuple):
    """The messages before a position."""

    head: Sequence[StoredMessage]
    """The first messages of the session, if they precede the others."""
    lines: list[StoredMessage]
    """The last messages before the position."""
    is_turn_over: bool
    """True if the last turn before the position has ended."""


class Span(NamedTuple):
    """The entries between two positions."""

    events: list[SpannedEvent]
    """The events that standard messages are built from."""
    head: Sequence[StoredMessage]
    """The first messages of the session, if they precede the range."""
    lines: list[StoredMessage]
    next_after: int | None
    """The sequence of the last message of the range, if more follow."""
    next_event_after: int | None
    """The sequence of the last event of the range, if more follow. If the messages contain all its events, later
    events that messages contain do not count."""
    before: Sequence[StoredMessage] = ()
    """The last messages before a turn. They determine the costs and copies in it."""


async def place_of(conn: AsyncConnection, session_id: UUID, sequence: int) -> LogPosition:
    """Return the position after an event."""
    row = await (await conn.execute(SQL.find_position, [session_id, sequence])).fetchone()
    return LogPosition(*row) if row else LogPosition(0, 0)


async def get_turn(conn: AsyncConnection, session_id: UUID, end: LogPosition) -> Span:
    """Return the turn that ends at this position."""
    row = await (await conn.execute(SQL.find_turn_start, [session_id, end.event])).fetchone()
    start = LogPosition(*row) if row else LogPosition(end.event - 1, end.line)
    params = {
        "session_id": session_id,
        "start": start.event,
        "end": end.event,
        "line": end.line,
        "answers": _ANSWER_TYPES,
    }
    answer = await (await conn.execute(SQL.begins_next_turn, params)).fetchone()
    begins_next_turn = answer is not None and answer[0]
    span = await get_span(conn, session_id, start, end._replace(line=end.line - begins_next_turn))
    if not span.lines or not start.line:
        return span
    head, before = await _read_before(conn, session_id, start.line)
    return span._replace(head=head, before=before)


async def find_last_turn(conn: AsyncConnection, session_id: UUID) -> int:
    """Return a sequence after which the last turn begins: before its `turn_start`, if it has one."""
    row = await (await conn.execute(SQL.find_last_turn, [session_id])).fetchone()
    return row[0] if row else 0


async def get_context(conn: AsyncConnection, session_id: UUID, place: LogPosition) -> LineContext:
    """Return the last messages before a position, at most `_MAX_CONTEXT` or `_MAX_BYTES`."""
    head, lines = await _read_before(conn, session_id, place.line)
    mark = await (await conn.execute(SQL.find_last_mark, [session_id, place.event])).fetchone()
    return LineContext(head, lines, is_turn_over=mark is not None and mark[0] == "turn_end")


async def _read_before(
    conn: AsyncConnection, session_id: UUID, line: int
) -> tuple[list[StoredMessage], list[StoredMessage]]:
    """Return the first messages of the session, and the last ones up to and including this line."""
    lines = await list_last(conn, session_id, before=line + 1, limit=_MAX_CONTEXT, max_bytes=_MAX_BYTES)
    first = lines[0].sequence if lines else 1
    head = await list_head(conn, session_id, before=first, max_bytes=_MAX_BYTES) if first > 1 else []
    return head, lines


async def get_span(conn: AsyncConnection, session_id: UUID, start: LogPosition, end: LogPosition) -> Span:
    """Return the range, cut after `_MAX_ENTRIES` or `_MAX_BYTES`."""
    events = await _read_events(conn, session_id, start.event, end.event)
    lines = await _read_messages(conn, session_id, start.line, end.line)
    has_head = lines and start.line
    head = await list_head(conn, session_id, before=start.line + 1, max_bytes=_MAX_BYTES) if has_head else []
    is_full = partial(may_have_more, limit=_MAX_ENTRIES, max_bytes=_MAX_BYTES)
    has_more_lines = is_full(lines) and await _read_messages(
        conn, session_id, lines[-1].sequence, end.line, limit=1
    )
    has_more_events = is_full(events) and await _read_events(
        conn,
        session_id,
        events[-1].sequence,
        end.event,
        limit=1,
        omit_in_messages=all(event.is_in_message for event in events),
    )
    return Span(
        events,
        head,
        lines,
        next_after=lines[-1].sequence if has_more_lines else None,
        next_event_after=events[-1].sequence if has_more_events else None,
    )


async def _read_events(
    conn: AsyncConnection,
    session_id: UUID,
    after: int,
    last: int,
    *,
    limit: int | None = None,
    omit_in_messages: bool = False,
) -> list[SpannedEvent]:
    """Return events; `omit_in_messages` omits events that a message contains (`SpannedEvent.is_in_message`)."""
    bounds = {"after": after, "last": last, "limit": limit or _MAX_ENTRIES, "bytes": _MAX_BYTES}
    params = {
        "session_id": session_id,
        "types": _TOPIC_TYPES,
        "omit_in_messages": omit_in_messages,
        **bounds,
    }
    return await fetch_all(conn, SpannedEvent, _READ_EVENTS, params)


async def _read_messages(
    conn: AsyncConnection, session_id: UUID, after: int, last: int, *, limit: int | None = None
) -> list[StoredMessage]:
    if last <= after:
        return []
    return await list_next(
        conn, session_id, after=after, before=last + 1, limit=limit or _MAX_ENTRIES, max_bytes=_MAX_BYTES
    )
