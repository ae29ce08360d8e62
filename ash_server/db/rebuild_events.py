"""The events of a session, derived anew from its messages by the normaliser of today.

In one transaction: readers have the older reading until it commits, and then follow on behind it, where the first
event is a `reset`. Posted events stay what they are and come again in their places.
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
from ash_server.db.reindex import said_by_writer
from ash_shared.eventlog import FIRST_LINES, NORMALIZER_VERSION, NOTED, Line, Normalizer, read_line
from ash_shared.model.message import Role

Row = TypeVar("Row")

_FETCHED = 100
_AT_ONCE = 500
"""Events that are written together."""

_MESSAGES = """
    SELECT sequence, content, source, role, role_given, source_given, created_at
    FROM messages WHERE session_id = %b ORDER BY sequence
"""

_OTHERS = """
    SELECT sequence, type, message_sequence, origin, given_id,
        CASE WHEN origin = 'posted' AND type = ANY(%b) THEN content END AS content
    FROM events WHERE session_id = %b AND sequence <= %b AND origin <> 'line'
    ORDER BY sequence
"""

_FORGET = "DELETE FROM events WHERE session_id = %b AND origin = 'line'"
_FORGET_ENDS = "DELETE FROM events WHERE session_id = %b AND sequence <= %b AND origin = 'end'"

_MOVE = "UPDATE events SET sequence = %b WHERE session_id = %b AND sequence = %b"

_COUNT = """
    UPDATE session_counters
    SET event_sequence = %b, events_dropped = %b, normalizer_state = %b, normalizer_version = %b,
        errors = %b, unrecognised = %b
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
    created_at: datetime


@dataclass(slots=True)
class _Other:
    """An event that no message gave."""

    sequence: int
    type: str
    message_sequence: int
    origin: str
    given_id: str | None
    content: str | None


class Rebuilt(NamedTuple):
    messages: int
    events: int
    """How many the session has now, the reset among them."""


async def rebuild_events(conn: AsyncConnection, session_id: UUID) -> Rebuilt:
    """Writers of the session wait meanwhile. Raises SessionNotFound."""
    async with conn.transaction():
        counters = await lock(conn, session_id)
        await conn.execute(_FORGET, [session_id])
        work = _Rebuild(conn, session_id, counters.event_sequence)
        await work.run()
        last = counters.event_sequence + work.written
        derived = [last, counters.event_sequence, work.normalizer.state(), NORMALIZER_VERSION]
        await conn.execute(_COUNT, [*derived, *work.issues, session_id])
        await conn.execute(_FORGET_ENDS, [session_id, counters.event_sequence])
    return Rebuilt(work.messages, work.written)


async def outdated_sessions(conn: AsyncConnection) -> list[UUID]:
    """Those whose events another version derived, or nobody."""
    found = await conn.execute(_OUTDATED, [NORMALIZER_VERSION])
    return [row[0] for row in await found.fetchall()]


def _line(message: _Message) -> Line:
    return read_line(message.content, *said_by_writer(message))


def _time(message: _Message) -> int:
    return round(message.created_at.timestamp() * 1000)


class _Rebuild:
    """One way through one session."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, last: int) -> None:
        self.normalizer = Normalizer()
        self.messages = 0
        self.written = 0
        self.issues = IssueCounts(0, 0)
        self._conn = conn
        self._session_id = session_id
        self._last = last
        self._waiting: list[PreparedEvent] = []
        self._posted = (0, "")
        """The message that the last posted event came behind, and its id."""

    async def run(self) -> None:
        reset_id = str(uuid5(self._session_id, f"reset/{self._last}"))
        reset = {"id": reset_id, "timestamp": milliseconds(), "sessionId": str(self._session_id)}
        self._waiting.append(
            PreparedEvent({**reset, "type": "reset", "payload": {}}, 0, "end", has_own_id=False)
        )
        async with aclosing(self._others()) as others, aclosing(self._messages()) as messages:
            await self._expect()
            other = await anext(others, None)
            at, now = 0, milliseconds()
            while True:
                while other is not None and other.message_sequence <= at:
                    other = await self._retell(other, others, now)
                message = await anext(messages, None)
                if message is None:
                    break
                at, now = message.sequence, _time(message)
                await self._derive(message, now)
        await self._flush()

    async def _expect(self) -> None:
        """As when the first of them were stored."""
        query = f"{_MESSAGES} LIMIT {FIRST_LINES}"
        found = self._rows("first", _Message, query, [self._session_id])
        first = [message async for message in found]
        if first:
            self.normalizer.expect(map(_line, first), _time(first[0]))

    async def _derive(self, message: _Message, now: int) -> None:
        line = _line(message)
        self.messages += 1
        self._waiting += derive(self.normalizer, self._session_id, message.sequence, line, now)
        if len(self._waiting) >= _AT_ONCE:
            await self._flush()

    async def _retell(self, other: _Other, others: AsyncGenerator[_Other, None], now: int) -> _Other | None:
        """A posted event in its new place; or what closes all that is open here, however many events that was."""
        if other.origin == "posted":
            await self._flush()
            self._posted = (other.message_sequence, other.given_id or "")
            event = {"type": other.type}
            if other.content is not None:
                event = msgspec.json.decode(other.content)
                self.normalizer.observe(event)
            self.issues = self.issues.add([event])
            self.written += 1
            await self._conn.execute(_MOVE, [self._last + self.written, self._session_id, other.sequence])
            return await anext(others, None)
        message, posted = self._posted
        place = (other.message_sequence, posted if message == other.message_sequence else "")
        self._waiting += ending(self.normalizer, self._session_id, *place, now)
        following = await anext(others, None)
        while (
            following is not None
            and following.origin == "end"
            and following.message_sequence == other.message_sequence
        ):
            following = await anext(others, None)
        return following

    async def _flush(self) -> None:
        new = await resolve_id_conflicts(self._conn, self._session_id, self._waiting)
        if new:
            named = {"session_id": self._session_id, "last_event": self._last + self.written}
            await self._conn.execute(INSERT, {**named, **columns(new)})
        self.issues = self.issues.add(each.event for each in new)
        self.written += len(new)
        self._waiting = []

    def _messages(self) -> AsyncGenerator[_Message, None]:
        return self._rows("messages", _Message, _MESSAGES, [self._session_id])

    def _others(self) -> AsyncGenerator[_Other, None]:
        return self._rows("others", _Other, _OTHERS, [list(NOTED), self._session_id, self._last])

    async def _rows(
        self, name: str, kind: Callable[..., Row], query: str, wanted: Sequence[Any]
    ) -> AsyncGenerator[Row, None]:
        """As they were before anything was rewritten, in bounded memory."""
        cursor = AsyncServerCursor[Row](self._conn, name, row_factory=args_row(kind))
        cursor.itersize = _FETCHED
        async with cursor:
            await cursor.execute(query, wanted, binary=True)
            async for row in cursor:
                yield row
