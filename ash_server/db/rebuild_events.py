"""Derive the events of a session again from its messages with the current normaliser.

One transaction: readers see the old log until it commits and then continue after it, beginning with a `reset` event.
Posted events are moved to their places in the new log.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection, AsyncServerCursor
from psycopg.rows import args_row

from ash_server.db import open_texts
from ash_server.db.event_writer import (
    INSERT,
    IssueCounts,
    PreparedEvent,
    columns,
    derive,
    ending,
    lock,
    milliseconds,
    resolve_id_conflicts,
)
from ash_server.db.reindex import set_by_writer
from ash_server.db.session_facts import to_milliseconds
from ash_shared.eventlog import FIRST_LINES, NORMALIZER_VERSION, NOTED, Line, Normalizer, read_line
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.message import Role

Row = TypeVar("Row")

_FETCH_SIZE = 100
_BATCH_SIZE = 500
"""Events per INSERT."""

_MESSAGES = """
    SELECT sequence, content, messages.source, role, role_given, source_given,
        least(messages.created_at, file_modified_at) AS written_at
    FROM messages JOIN sessions ON sessions.id = session_id
    WHERE session_id = %b ORDER BY sequence
"""

_OTHERS = """
    SELECT sequence, type, message_sequence, origin, given_id,
        CASE WHEN origin = 'posted' AND type = ANY(%b) THEN fields END AS content
    FROM events WHERE session_id = %b AND sequence <= %b AND origin <> 'line'
    ORDER BY sequence
"""

_DELETE = "DELETE FROM events WHERE session_id = %b AND origin = 'line'"
_DELETE_ENDS = "DELETE FROM events WHERE session_id = %b AND sequence <= %b AND origin = 'end'"

_MOVE = "UPDATE events SET sequence = %b WHERE session_id = %b AND sequence = %b"

_COUNT = """
    UPDATE session_counters
    SET event_sequence = %b, events_dropped = %b, normalizer_state = %b, normalizer_version = %b,
        errors = %b, unrecognised = %b, has_chunks = %b
    WHERE session_id = %b
"""

_OUTDATED = """
    SELECT session_id FROM session_counters
    WHERE message_sequence > 0 AND normalizer_version IS DISTINCT FROM %b
    ORDER BY session_id
"""


@dataclass(slots=True)
class _Message:
    sequence: int
    content: str
    source: str
    role: Role
    role_given: bool | None
    source_given: bool | None
    written_at: datetime
    """When it was stored; the modification time of its file if that is earlier."""


@dataclass(slots=True)
class _Other:
    """An event that is not derived from a message."""

    sequence: int
    type: str
    message_sequence: int
    origin: str
    given_id: str | None
    content: str | None


class Rebuilt(NamedTuple):
    messages: int
    events: int
    """Number of events in the new log, including the reset."""


async def rebuild_events(conn: AsyncConnection, session_id: UUID) -> Rebuilt:
    """Rebuild the log of a session, blocking its writers. Raises SessionNotFound."""
    async with conn.transaction():
        counters = await lock(conn, session_id)
        await conn.execute(_DELETE, [session_id])
        work = _Rebuild(conn, session_id, counters.event_sequence)
        await work.run()
        last = counters.event_sequence + work.written
        saved = work.normalizer.save()
        derived = [last, counters.event_sequence, saved.state, NORMALIZER_VERSION]
        await conn.execute(_COUNT, [*derived, *work.issues, work.has_chunks, session_id])
        await conn.execute(_DELETE_ENDS, [session_id, counters.event_sequence])
        await open_texts.delete(conn, session_id)
        await open_texts.write(conn, session_id, saved)
    return Rebuilt(work.messages, work.written)


async def outdated_sessions(conn: AsyncConnection) -> list[UUID]:
    """Return the sessions whose events were derived by another version, or not at all."""
    rows = await conn.execute(_OUTDATED, [NORMALIZER_VERSION])
    return [row[0] for row in await rows.fetchall()]


def _to_line(message: _Message) -> Line:
    return read_line(message.content, *set_by_writer(message))


class _Rebuild:
    """One pass over one session."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, last: int) -> None:
        self.normalizer = Normalizer()
        self.messages = 0
        self.written = 0
        self.issues = IssueCounts(0, 0)
        self.has_chunks = False
        self._conn = conn
        self._session_id = session_id
        self._last = last
        self._pending: list[PreparedEvent] = []
        self._posted = (0, "")
        """The message before the last posted event, and that event's id."""

    async def run(self) -> None:
        reset_id = str(uuid5(self._session_id, f"reset/{self._last}"))
        reset = {"id": reset_id, "timestamp": milliseconds(), "sessionId": str(self._session_id)}
        self._pending.append(
            PreparedEvent({**reset, "type": "reset", "payload": {}}, 0, "end", has_own_id=False)
        )
        async with aclosing(self._stream_others()) as others, aclosing(self._stream_messages()) as messages:
            await self._expect()
            other = await anext(others, None)
            at, now = 0, milliseconds()
            while True:
                while other is not None and other.message_sequence <= at:
                    other = await self._place(other, others, now)
                message = await anext(messages, None)
                if message is None:
                    break
                at, now = message.sequence, to_milliseconds(message.written_at)
                await self._derive(message, now)
        await self._flush()

    async def _expect(self) -> None:
        """Announce the first messages to the normaliser, as an append does."""
        query = f"{_MESSAGES} LIMIT {FIRST_LINES}"
        rows = self._stream_rows("first", _Message, query, [self._session_id])
        first = [message async for message in rows]
        if first:
            self.normalizer.expect(map(_to_line, first), to_milliseconds(first[0].written_at))

    async def _derive(self, message: _Message, now: int) -> None:
        line = _to_line(message)
        self.messages += 1
        text = message.content
        self._pending += derive(self.normalizer, self._session_id, message.sequence, line, now, text=text)
        if len(self._pending) >= _BATCH_SIZE:
            await self._flush()

    async def _place(self, other: _Other, others: AsyncGenerator[_Other, None], now: int) -> _Other | None:
        """Move a posted event, or replace a group of end events by new ones. Return the event after it."""
        if other.origin == "posted":
            await self._flush()
            self._posted = (other.message_sequence, other.given_id or "")
            event = {"type": other.type}
            if other.content is not None:
                event = msgspec.json.decode(other.content)
                self.normalizer.observe(event)
            self.issues = self.issues.add([event])
            self.has_chunks |= other.type in CHUNKS
            self.written += 1
            await self._conn.execute(_MOVE, [self._last + self.written, self._session_id, other.sequence])
            return await anext(others, None)
        message, posted = self._posted
        place = (other.message_sequence, posted if message == other.message_sequence else "")
        self._pending += ending(self.normalizer, self._session_id, *place, now)
        following = await anext(others, None)
        while (
            following is not None
            and following.origin == "end"
            and following.message_sequence == other.message_sequence
        ):
            following = await anext(others, None)
        return following

    async def _flush(self) -> None:
        new = await resolve_id_conflicts(self._conn, self._session_id, self._pending)
        if new:
            named = {"session_id": self._session_id, "last_event": self._last + self.written}
            rows = columns(new, has_chunks=self.has_chunks)
            await self._conn.execute(INSERT, {**named, **rows})
            self.has_chunks |= rows["has_chunks"]
        self.issues = self.issues.add(each.event for each in new)
        self.written += len(new)
        self._pending = []

    def _stream_messages(self) -> AsyncGenerator[_Message, None]:
        return self._stream_rows("messages", _Message, _MESSAGES, [self._session_id])

    def _stream_others(self) -> AsyncGenerator[_Other, None]:
        return self._stream_rows("others", _Other, _OTHERS, [list(NOTED), self._session_id, self._last])

    async def _stream_rows(
        self, name: str, kind: Callable[..., Row], query: str, params: Sequence[Any]
    ) -> AsyncGenerator[Row, None]:
        """Yield rows as they were before the rebuild, in bounded memory."""
        cursor = AsyncServerCursor[Row](self._conn, name, row_factory=args_row(kind))
        cursor.itersize = _FETCH_SIZE
        async with cursor:
            await cursor.execute(query, params, binary=True)
            async for row in cursor:
                yield row
