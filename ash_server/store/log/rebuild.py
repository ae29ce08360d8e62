"""Derive the events of a session again from its messages with the current normaliser.

One transaction: readers see the old log until it commits and then continue after it, beginning with a `reset` event.
Posted events are moved to their places in the new log.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection, AsyncServerCursor
from psycopg.rows import args_row

from ash_server.offload import offload
from ash_server.store.log import open_texts, writer
from ash_server.store.log.derived import Derived
from ash_server.store.log.tool_calls import add_activity, reset_facts, write_facts
from ash_server.store.log.writer import (
    Counters,
    IssueCounts,
    PreparedEvent,
    columns,
    derive,
    ending,
    lock,
    milliseconds,
    resolve_id_conflicts,
    set_inherited,
)
from ash_server.store.message_pages import set_by_writer
from ash_server.store.session_facts import to_milliseconds
from ash_server.store.statements import statements
from ash_server.store.usage.answers import delete_answers, write_answers
from ash_shared.eventlog import FIRST_LINES, NORMALIZER_VERSION, NOTED, Line, Normalizer, parse_line
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.message import Role

Row = TypeVar("Row")

_FETCH_SIZE = 100
_BATCH_SIZE = 500
"""Events per INSERT."""

SQL = statements(__file__, first_lines=FIRST_LINES)


@dataclass(slots=True)
class StoredLine:
    """A message to derive events from."""

    sequence: int
    content: str
    source: str
    role: Role
    has_explicit_role: bool | None
    has_explicit_source: bool | None
    written_at: datetime
    """When it was stored; the modification time of its file if that is earlier."""

    @property
    def now(self) -> int:
        """The timestamp of events if their record has none."""
        return to_milliseconds(self.written_at)

    def read(self) -> Line:
        return parse_line(self.content, *set_by_writer(self))


@dataclass(slots=True)
class UnderivedEvent:
    """An event that is not derived from a message."""

    sequence: int
    type: str
    message_sequence: int
    origin: str
    explicit_id: str | None
    content: str | None
    """The JSON of a posted event that affects derived ones."""


class End(NamedTuple):
    """A place where everything open was closed: after a message, and after the last event posted since."""

    message_sequence: int
    posted: str


class Rebuilt(NamedTuple):
    messages: int
    events: int
    """Number of events in the new log, including the reset."""


async def rebuild_events(conn: AsyncConnection, session_id: UUID) -> Rebuilt:
    """Rebuild the log of a session, blocking its writers. Raises SessionNotFound."""
    async with conn.transaction():
        return await rebuild_locked(conn, session_id, await lock(conn, session_id))


async def rebuild_locked(conn: AsyncConnection, session_id: UUID, counters: Counters) -> Rebuilt:
    """Rebuild a log under the lock, in the transaction of the caller."""
    await conn.execute(SQL.delete_derived_events, [session_id])
    await delete_answers(conn, session_id)
    await reset_facts(conn, session_id)
    work = _Rebuild(conn, session_id, counters.event_sequence)
    await work.run()
    last = counters.event_sequence + work.written
    saved = work.normalizer.save()
    derived = [last, counters.event_sequence, saved.state, NORMALIZER_VERSION]
    await conn.execute(SQL.set_counters, [*derived, *work.issues, work.may_have_chunks, session_id])
    await conn.execute(SQL.delete_ends, [session_id, counters.event_sequence])
    await open_texts.delete(conn, session_id)
    await open_texts.write(conn, session_id, saved)
    if work.inherited:
        await set_inherited(conn, session_id, work.inherited)
    return Rebuilt(work.messages, work.written)


async def outdated_sessions(conn: AsyncConnection) -> list[UUID]:
    """Return the sessions with events of another version, or without events."""
    rows = await conn.execute(SQL.list_outdated_sessions, [NORMALIZER_VERSION])
    return [row[0] for row in await rows.fetchall()]


class StoredInput:
    """The input of the log of a session, as it is when the reading begins."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, last: int) -> None:
        """`last` is the last event."""
        self._conn = conn
        self._session_id = session_id
        self._last = last

    async def announce(self, normalizer: Normalizer) -> None:
        """Announce the first messages to a normaliser, as an append does."""
        rows = self._stream_rows("first", StoredLine, SQL.list_first_messages, [self._session_id])
        if first := [line async for line in rows]:
            normalizer.expect((line.read() for line in first), first[0].now)

    async def entries(self) -> AsyncGenerator[StoredLine | UnderivedEvent | End, None]:
        """Yield the messages, the posted events and the ends in the order of the log, in bounded memory."""
        others = self._stream_rows(
            "others", UnderivedEvent, SQL.list_underived_events, [list(NOTED), self._session_id, self._last]
        )
        messages = self._stream_rows("messages", StoredLine, SQL.list_messages, [self._session_id])
        async with aclosing(others), aclosing(messages):
            other, end, posted = await anext(others, None), None, (0, "")
            while True:
                message = await anext(messages, None)
                while other is not None and (message is None or other.message_sequence < message.sequence):
                    if other.origin == "posted":
                        posted, end = (other.message_sequence, other.explicit_id or ""), None
                        yield other
                    elif end != other.message_sequence:  # one group of events closes everything
                        end = other.message_sequence
                        yield End(end, posted[1] if posted[0] == end else "")
                    other = await anext(others, None)
                if message is None:
                    return
                end = None
                await asyncio.sleep(0)  # a server has other requests
                yield message

    async def _stream_rows(
        self, name: str, kind: Callable[..., Row], query: str, params: Sequence[Any]
    ) -> AsyncGenerator[Row, None]:
        cursor = AsyncServerCursor[Row](self._conn, name, row_factory=args_row(kind))
        cursor.itersize = _FETCH_SIZE
        async with cursor:
            await cursor.execute(query, params, binary=True)
            async for row in cursor:
                yield row


class _Rebuild:
    """One pass over one session."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, last: int) -> None:
        self.normalizer = Normalizer()
        self.messages = 0
        self.written = 0
        self.issues = IssueCounts(0, 0)
        self.may_have_chunks = False
        self.inherited = 0
        """The sequence of the last message that is inherited; 0 if none is."""
        self._conn = conn
        self._session_id = session_id
        self._last = last
        self._pending: list[PreparedEvent] = []
        self._derived = Derived()
        """From the messages of the pending events."""

    async def run(self) -> None:
        reset_id = str(uuid5(self._session_id, f"reset/{self._last}"))
        reset = {"id": reset_id, "timestamp": milliseconds(), "sessionId": str(self._session_id)}
        self._pending.append(
            PreparedEvent({**reset, "type": "reset", "payload": {}}, 0, "end", has_own_id=False)
        )
        stored = StoredInput(self._conn, self._session_id, self._last)
        await stored.announce(self.normalizer)
        now = milliseconds()
        async with aclosing(stored.entries()) as entries:
            async for entry in entries:
                match entry:
                    case StoredLine():
                        now = entry.now
                        await self._derive(entry)
                    case UnderivedEvent():
                        await self._move(entry)
                    case End():
                        self._pending += ending(
                            self.normalizer, self._session_id, *entry, now, derived=self._derived
                        )
        await self._flush()

    async def _derive(self, line: StoredLine) -> None:
        self.messages += 1
        place = self._session_id, line.sequence
        read = await offload(StoredLine.read, line)
        new = derive(self.normalizer, *place, read, line.now, text=line.content, derived=self._derived)
        self._pending += new
        if self.normalizer.is_inherited:
            self.inherited = line.sequence
        if len(self._pending) >= _BATCH_SIZE:
            await self._flush()

    async def _move(self, posted: UnderivedEvent) -> None:
        await self._flush()
        event = {"type": posted.type}
        if posted.content is not None:
            event = msgspec.json.decode(posted.content)
            self.normalizer.observe(event)
            self._derived.add(self.normalizer, None)
        self.issues = self.issues.add([event])
        self.may_have_chunks |= posted.type in CHUNKS
        self.written += 1
        await self._conn.execute(
            SQL.move_event, [self._last + self.written, self._session_id, posted.sequence]
        )

    async def _flush(self) -> None:
        new = await resolve_id_conflicts(self._conn, self._session_id, self._pending)
        if new:
            named = {"session_id": self._session_id, "last_event": self._last + self.written}
            rows = columns(new, may_have_chunks=self.may_have_chunks)
            await self._conn.execute(writer.SQL.insert_events, {**named, **rows})
            self.may_have_chunks |= rows["may_have_chunks"]
        self.issues = self.issues.add(each.event for each in new)
        self.written += len(new)
        self._pending = []
        derived, now = self._derived, milliseconds()
        await write_answers(self._conn, self._session_id, derived.answers, now)
        await write_facts(self._conn, self._session_id, derived.facts, now)
        await add_activity(self._conn, self._session_id, derived.facts)
        self._derived = Derived()
