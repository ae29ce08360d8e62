"""Replace a part of a log: the events before and after it only get new sequences.

The new log begins with a `reset` after the last event of the old one, as after a rebuild. A long log is copied before
the session is locked, so that appends wait only while the old one is deleted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.log.kept_states import KeptState
from ash_server.store.log.rebuild import (
    LogChanged,
    NewEvents,
    check_ahead,
    find_ahead,
    read_place,
    write_reset,
)
from ash_server.store.log.writer import IssueCounts
from ash_server.store.search.moved_words import Moved
from ash_server.store.statements import statements

SQL = statements(__file__)

_END = 2**62

_COPIED = 5_000
"""Events that one statement copies."""


class LogPart(NamedTuple):
    """A part of a log, between two states."""

    start: KeptState
    end: KeptState | None
    """None: the end of the log."""


class Spliced(NamedTuple):
    """The new log."""

    last: int
    """Its last event."""
    before: int
    """Its last event before the new ones."""
    moved: Sequence[Moved]
    """The events that only have other sequences."""


async def has_types(
    conn: AsyncConnection, session_id: UUID, part: LogPart, last: int, types: Counter[tuple[str, int]]
) -> bool:
    """True if a part of a log has these derived events, except retractions. `last` is the last event of the log."""
    between = [part.start.event_sequence, part.end.event_sequence if part.end else last]
    rows = await (await conn.execute(SQL.count_types, [session_id, *between])).fetchall()
    stored = {(type, message): count for type, message, count in rows if type != "reset"}
    return stored == {key: count for key, count in types.items() if key[0] != "retraction"}


class WrittenLog(NamedTuple):
    """A new log that is written before the session is locked."""

    last: int
    """The last event of the old log that is copied."""
    dropped: int
    """The sequence before the new log."""


async def write_ahead(
    conn: AsyncConnection, session_id: UUID, part: LogPart, events: NewEvents
) -> WrittenLog | None:
    """Write a long log without the lock, in the transaction that replaces the part; None if it is short.

    Raises LogChanged.
    """
    place = await read_place(conn, session_id)
    last, first = place.event_sequence, place.last_dropped_sequence
    dropped = await find_ahead(conn, session_id, last - first)
    if dropped is None:
        return None
    first += await _has_reset(conn, session_id, first)
    start = max(part.start.event_sequence, first)
    shift = dropped + 1 - first
    await _copy(conn, session_id, shift, (first, start), dropped)
    written = await events.write_ahead(start + shift, dropped)
    if part.end is not None:
        end = part.end.event_sequence
        await _copy(conn, session_id, written - end, (end, last), dropped)
    return WrittenLog(last, dropped)


async def replace_part(
    conn: AsyncConnection,
    session_id: UUID,
    part: LogPart,
    events: NewEvents,
    issues: IssueCounts,
    copy: WrittenLog | None = None,
) -> Spliced:
    """Replace the events of a part, under the lock. `issues` counts the issues in the old events.

    Raises LogChanged if appends have used the sequences of the copy.
    """
    place = await read_place(conn, session_id)
    last, dropped = place.event_sequence, place.last_dropped_sequence
    if copy is not None and last > copy.dropped:
        raise LogChanged
    first = await _delete_reset(conn, session_id, dropped)
    start = max(part.start.event_sequence, first)
    end = part.end.event_sequence if part.end else last
    await conn.execute(SQL.delete_derived_between, [session_id, start, end])
    if copy is not None:
        await conn.execute(SQL.delete_copied, [session_id, first, start])
        await conn.execute(SQL.delete_copied, [session_id, end, copy.last])
    new_dropped = last if copy is None else copy.dropped
    await write_reset(conn, session_id, new_dropped)
    shift = new_dropped + 1 - first
    moved = [Moved(first, start, shift)]
    await _move(conn, session_id, moved[0], (0, part.start.message_sequence))
    written = await events.write(start + shift)
    after = written - end
    if part.end is not None:
        moved.append(Moved(end, last, after))
        await _move(conn, session_id, moved[1], (part.end.message_sequence, _END))
    changes = [new - old for new, old in zip(events.issues, issues, strict=True)]
    counters = [last + after, new_dropped, *changes, events.may_have_chunks]
    await conn.execute(SQL.set_counters, [*counters, session_id])
    return Spliced(last + after, start + shift, moved)


async def _delete_reset(conn: AsyncConnection, session_id: UUID, dropped: int) -> int:
    """Delete the reset at the beginning of a log, if any, and return the last sequence before the other events."""
    if not await _has_reset(conn, session_id, dropped):
        return dropped
    await conn.execute(SQL.delete_derived_between, [session_id, dropped, dropped + 1])
    return dropped + 1


async def _has_reset(conn: AsyncConnection, session_id: UUID, dropped: int) -> bool:
    found = {"session_id": session_id, "first": dropped + 1}
    return await (await conn.execute(SQL.find_reset, found)).fetchone() is not None


async def _copy(
    conn: AsyncConnection, session_id: UUID, shift: int, events: tuple[int, int], dropped: int
) -> None:
    """Copy the events of a part, except those with indexed ids, which can only be moved."""
    first, last = events
    for after in range(first, last, _COPIED):
        await check_ahead(conn, session_id, dropped)
        await conn.execute(SQL.copy_events, [shift, session_id, after, min(after + _COPIED, last)])


async def _move(conn: AsyncConnection, session_id: UUID, events: Moved, messages: tuple[int, int]) -> None:
    """Move the events and the states of a part."""
    await conn.execute(SQL.move_events, [events.by, session_id, events.after, events.last])
    await conn.execute(SQL.move_states, [events.by, session_id, *messages])
