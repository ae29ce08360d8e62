"""Derive the events of a session again from its messages with the current normaliser.

The new log is derived without a lock, into a temporary file. One transaction then locks the session, adds what was
appended meanwhile and replaces the log: readers see the old log until it commits and then continue after it, beginning
with a `reset` event. Posted events are moved to their places in the new log.

The transaction writes a long log before it locks the session, so that appends do not wait for its rows, which nobody
sees before the commit. They are written some sequences ahead, which appends use meanwhile.
"""

import asyncio
import pickle
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection, AsyncServerCursor
from psycopg.errors import DeadlockDetected, UniqueViolation
from psycopg.rows import args_row

from ash_server.errors import SessionNotFound
from ash_server.offload import offload
from ash_server.store.log import kept_states, open_texts, totals, writer
from ash_server.store.log.derived import Derived
from ash_server.store.log.kept_states import NewStates
from ash_server.store.log.tool_calls import replace_facts
from ash_server.store.log.totals import TotalsOfLog
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
from ash_server.store.usage.answers import replace_answers
from ash_shared.eventlog import FIRST_LINES, NORMALIZER_VERSION, NOTED, Event, Line, Normalizer, parse_line
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.message import Role

Row = TypeVar("Row")

_FETCH_SIZE = 100
_YIELD_EVERY = 10
"""Messages between two turns of the event loop: a server has other requests."""
_BATCH_SIZE = 500
"""Events per INSERT."""
_MAX_UNLOCKED = 10
"""Rounds without a lock: each derives what was appended during the one before."""
_MAX_LOCKED = 100
"""Messages and events that are derived under the lock, unless appends are faster than the derivation."""
_MAX_MEMORY = 16 * 1024 * 1024
"""Bytes of a new log in memory; more are in a temporary file."""
_MIN_AHEAD = 2_000
"""Events of a log that is written before the session is locked."""
_MAX_APPENDED = 200_000
"""Sequences ahead of a log that is written before the session is locked."""
MAX_TRIES = 3
"""Derivations without a lock that other changes of the log may interrupt."""

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
    content: str
    """The JSON of a posted event; empty for others."""


class End(NamedTuple):
    """A place where everything open was closed: after a message, and after the last event posted since."""

    message_sequence: int
    posted: str


class Start(NamedTuple):
    """What events after a place in a log depend on, beside the state."""

    may_have_chunks: bool
    """True if the log may have chunks before them."""
    written_at: datetime | None
    """When the last message before them was stored: the time of events that close everything after it."""


class Rebuilt(NamedTuple):
    messages: int
    events: int
    """Number of events in the new log, including the reset."""


class LogEnd(NamedTuple):
    """The end of a log, and its last event that a rebuild dropped."""

    message_sequence: int
    event_sequence: int
    last_dropped_sequence: int


async def read_place(conn: AsyncConnection, session_id: UUID) -> LogEnd:
    """Return the end of the log. Raises SessionNotFound."""
    row = await (await conn.execute(SQL.get_place, [session_id])).fetchone()
    if not row:
        raise SessionNotFound
    return LogEnd(*row)


class LogChanged(Exception):
    """Something other than an append, or very many appends, changed a log while it was derived."""


async def check_same_log(conn: AsyncConnection, session_id: UUID, before: LogEnd) -> None:
    """Raise LogChanged if something but appends has changed a log since then. Call it under the lock."""
    place = await read_place(conn, session_id)
    retracted = await conn.execute(SQL.has_retraction, [session_id, before.event_sequence])
    is_changed = place.last_dropped_sequence != before.last_dropped_sequence
    if is_changed or await retracted.fetchone() is not None:
        raise LogChanged


class Derivation(Protocol):
    """Reads a log in parts that follow each other."""

    async def derive_until(self, last_message: int, last_event: int) -> None: ...


async def read_end(conn: AsyncConnection, session_id: UUID) -> tuple[int, int]:
    """Return the last message and the last event. Raises SessionNotFound."""
    place = await read_place(conn, session_id)
    return place.message_sequence, place.event_sequence


async def derive_unlocked(
    conn: AsyncConnection, derivation: Derivation, find_end: Callable[[], Awaitable[tuple[int, int]]]
) -> None:
    """Read a log up to its end, except for the last messages and events, if any, that are appended meanwhile.

    `find_end` returns the last message and the last event to read.
    """
    done = 0
    for _ in range(_MAX_UNLOCKED):
        end = await find_end()
        if sum(end) - done <= _MAX_LOCKED:
            break
        async with conn.transaction():  # of the cursors
            await derivation.derive_until(*end)
        done = sum(end)


async def find_ahead(conn: AsyncConnection, session_id: UUID, count: int) -> int | None:
    """Return the sequence after which a log of this many events is written before the session is locked.

    None: it is short. Raises SessionNotFound.
    """
    if count < _MIN_AHEAD:
        return None
    return (await read_place(conn, session_id)).event_sequence + _MAX_APPENDED


async def check_ahead(conn: AsyncConnection, session_id: UUID, dropped: int) -> None:
    """Raise LogChanged if appends may soon use the sequences after this one."""
    if (await read_place(conn, session_id)).event_sequence > dropped - _MAX_APPENDED // 2:
        raise LogChanged


@contextmanager
def yield_to_appends() -> Iterator[None]:
    """Raise LogChanged if an append of many events uses the sequences of a log that is written ahead."""
    try:
        yield
    except (DeadlockDetected, UniqueViolation) as error:
        raise LogChanged from error


async def rebuild_events(conn: AsyncConnection, session_id: UUID) -> Rebuilt:
    """Rebuild the log of a session, blocking its writers only while it is replaced. Raises SessionNotFound."""
    for _ in range(MAX_TRIES):
        with closing(NewLog(conn, session_id)) as log, suppress(LogChanged):
            place = await read_place(conn, session_id)
            await derive_unlocked(conn, log, partial(read_end, conn, session_id))
            async with conn.transaction():
                with yield_to_appends():
                    await log.write_ahead()
                    counters = await lock(conn, session_id)
                await check_same_log(conn, session_id, place)
                return await log.replace(counters)
    async with conn.transaction():
        counters = await lock(conn, session_id)
        with closing(NewLog(conn, session_id)) as log:
            return await log.replace(counters)


async def outdated_sessions(conn: AsyncConnection) -> list[UUID]:
    """Return the sessions with events of another version, or without events."""
    rows = await conn.execute(SQL.list_outdated_sessions, [NORMALIZER_VERSION])
    return [row[0] for row in await rows.fetchall()]


class StoredInput:
    """The input of the log of a session, in parts that follow each other."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, message: int = 0, event: int = 0) -> None:
        """Begin after a message and an event."""
        self._conn = conn
        self._session_id = session_id
        self._message = message
        self._event = event
        self._end: int | None = None
        self._posted = (0, "")

    async def read_start(self) -> Start:
        """Return what the first events depend on. Raises SessionNotFound."""
        params = {"session_id": self._session_id, "message": self._message}
        row = await (await self._conn.execute(SQL.get_start, params)).fetchone()
        if not row:
            raise SessionNotFound
        return Start(*row)

    async def announce(self, normalizer: Normalizer, *, without: int = 0) -> None:
        """Announce the first messages to a normaliser before they are read, as an append does."""
        if self._message:
            return
        params = {"session_id": self._session_id, "without": without}
        rows = self._stream_rows("first", StoredLine, SQL.list_first_messages, params)
        if first := [line async for line in rows]:
            normalizer.expect((line.read() for line in first), first[0].now)

    async def entries(
        self, last_message: int, last_event: int
    ) -> AsyncGenerator[StoredLine | UnderivedEvent | End, None]:
        """Yield the next messages, posted events and ends, up to the last ones, in the order of the log and in bounded
        memory."""
        events = [self._session_id, self._event, last_event]
        others = self._stream_rows("others", UnderivedEvent, SQL.list_underived_events, events)
        lines = {"session_id": self._session_id, "after": self._message, "last": last_message}
        messages = self._stream_rows("messages", StoredLine, SQL.list_messages, lines)
        self._message, self._event = last_message, last_event
        async with aclosing(others), aclosing(messages):
            other = await anext(others, None)
            while True:
                message = await anext(messages, None)
                while other is not None and (message is None or other.message_sequence < message.sequence):
                    if other.origin == "posted":
                        self._posted, self._end = (other.message_sequence, other.explicit_id or ""), None
                        yield other
                    elif self._end != other.message_sequence:  # one group of events closes everything
                        self._end = other.message_sequence
                        yield End(self._end, self._posted[1] if self._posted[0] == self._end else "")
                    other = await anext(others, None)
                if message is None:
                    return
                self._end = None
                if not message.sequence % _YIELD_EVERY:
                    await asyncio.sleep(0)
                yield message

    async def _stream_rows(
        self, name: str, kind: Callable[..., Row], query: str, params: Sequence[Any] | Mapping[str, Any]
    ) -> AsyncGenerator[Row, None]:
        cursor = AsyncServerCursor[Row](self._conn, name, row_factory=args_row(kind))
        cursor.itersize = _FETCH_SIZE
        async with cursor:
            await cursor.execute(query, params, binary=True)
            async for row in cursor:
                yield row


_Part: TypeAlias = Mapping[str, Any] | Sequence[PreparedEvent] | int
"""The columns of new events, new events with ids of their own, or the sequence of a posted event to move."""


class NewEvents:
    """New events of a log, in memory; above 16 MB, in a temporary file."""

    def __init__(self, conn: AsyncConnection, session_id: UUID) -> None:
        self._conn = conn
        self._session_id = session_id
        self.count = 0
        self.issues = IssueCounts()
        """The issues of the events that were written."""
        self.may_have_chunks = False
        self._parts = tempfile.SpooledTemporaryFile[bytes](_MAX_MEMORY)
        self._pending: list[PreparedEvent] = []
        self._last: int | None = None
        """The last sequence of the written parts; None before the first."""
        self._end_of_written = 0
        """The end of the written parts in the file."""
        self._deferred: list[tuple[int, _Part]] = []
        """Parts that are written under the lock, each with the last sequence before it."""

    def close(self) -> None:
        self._parts.close()

    def add(self, new: Sequence[PreparedEvent]) -> None:
        self.count += len(new)
        self._pending += new
        if len(self._pending) >= _BATCH_SIZE:
            self._flush()

    def move(self, posted: UnderivedEvent, event: Event) -> None:
        """Add a posted event, which is moved instead of written."""
        self._flush()
        self.count += 1
        self.issues = self.issues.add([event])
        self.may_have_chunks |= posted.type in CHUNKS
        self._save(posted.sequence)

    async def write_ahead(self, last: int, dropped: int) -> int:
        """Write them after event `last`, before the session is locked, and return the last one.

        Posted events, and those with ids of their own, which old events may have, only get their places. `dropped` is
        the sequence before the log. Raises LogChanged.
        """
        self._last = last
        for part in self._saved():
            if isinstance(part, Mapping):
                await check_ahead(self._conn, self._session_id, dropped)
                self._last += await insert_columns(self._conn, self._session_id, part, self._last)
            else:
                self._deferred.append((self._last, part))
                self._last += 1 if isinstance(part, int) else len(part)
        return self._last

    async def write(self, last: int) -> int:
        """Write them after event `last`, and return the last one. Those written before continue after `last`, too."""
        for place, part in self._deferred:
            await self._write_part(part, place)
        last = last if self._last is None else self._last
        for part in self._saved():
            last += await self._write_part(part, last)
        return last

    async def _write_part(self, part: _Part, last: int) -> int:
        """Write a part after event `last`, and return the number of its events."""
        if isinstance(part, int):
            await self._conn.execute(SQL.move_event, [last + 1, self._session_id, part])
            return 1
        if isinstance(part, Mapping):
            return await insert_columns(self._conn, self._session_id, part, last)
        resolved = await resolve_id_conflicts(self._conn, self._session_id, part)
        return await insert_columns(self._conn, self._session_id, self._columns(resolved), last)

    def _flush(self) -> None:
        new, self._pending = self._pending, []
        if new:
            self.issues = self.issues.add(each.event for each in new)
            rows = self._columns(new)
            self._save(new if any(each.has_own_id for each in new) else rows)

    def _columns(self, new: Sequence[PreparedEvent]) -> Mapping[str, Any]:
        rows = columns(new, may_have_chunks=self.may_have_chunks)
        self.may_have_chunks |= rows["may_have_chunks"]
        return rows

    def _save(self, part: _Part) -> None:
        pickle.dump(part, self._parts)

    def _saved(self) -> Iterator[_Part]:
        """Yield the parts that have not been yielded before."""
        self._flush()
        end = self._parts.tell()
        self._parts.seek(self._end_of_written)
        self._end_of_written = end
        while self._parts.tell() < end:
            yield pickle.load(self._parts)  # only what this object has written


async def write_reset(conn: AsyncConnection, session_id: UUID, last: int) -> None:
    """Write the first event of a new log, after event `last` of the old one."""
    reset = {
        "id": str(uuid5(session_id, f"reset/{last}")),
        "timestamp": milliseconds(),
        "sessionId": str(session_id),
        "type": "reset",
        "payload": {},
    }
    await insert_columns(conn, session_id, columns([PreparedEvent(reset, 0, "end", has_own_id=False)]), last)


async def insert_columns(conn: AsyncConnection, session_id: UUID, rows: Mapping[str, Any], last: int) -> int:
    """Insert events after event `last`, and return their number."""
    place = {"session_id": session_id, "last_event": last}
    await conn.execute(writer.SQL.insert_events, {**place, **rows})
    return len(rows["stored_jsons"])


class NewLog:
    """The log of a session, derived again."""

    def __init__(
        self,
        conn: AsyncConnection,
        session_id: UUID,
        *,
        read: Callable[[StoredLine], Line] = StoredLine.read,
        without: int = 0,
        states: NewStates | None = None,
    ) -> None:
        """`without` is the sequence of a message to leave out; `states` keeps states, with places in the new log."""
        self._conn = conn
        self._session_id = session_id
        self._read = read
        self._without = without
        self._states = states
        self._input = StoredInput(conn, session_id)
        self._events = NewEvents(conn, session_id)
        self._normalizer = Normalizer()
        self._derived = Derived()
        self._totals = TotalsOfLog()
        self._messages = 0
        self._inherited = 0
        """The sequence of the last message that is inherited; 0 if none is."""
        self._now = milliseconds()
        self.dropped = 0
        """The sequence before the log, once it is written."""

    def close(self) -> None:
        self._events.close()

    async def write_ahead(self) -> None:
        """Write a long log before the session is locked, in the transaction that replaces the log.

        Raises LogChanged.
        """
        dropped = await find_ahead(self._conn, self._session_id, self._events.count)
        if dropped is not None:
            self.dropped = dropped
            await self._events.write_ahead(self.dropped + 1, self.dropped)

    async def replace(self, counters: Counters) -> Rebuilt:
        """Replace the log, under the lock and in the transaction of the caller.

        Raises LogChanged if appends have used its sequences.
        """
        conn, session_id, old = self._conn, self._session_id, counters.event_sequence
        if 0 < self.dropped < old:
            raise LogChanged
        await self.derive_until(counters.message_sequence, old)
        before = self.dropped or old
        self.dropped = before
        await conn.execute(SQL.delete_derived_events, [session_id, old])
        await write_reset(conn, session_id, before)
        last = await self._events.write(before + 1)
        saved = self._normalizer.save()
        place = [last, before, saved.state, NORMALIZER_VERSION]
        issues = [*self._events.issues, self._events.may_have_chunks]
        await conn.execute(SQL.set_counters, [*place, *issues, session_id])
        await totals.write(conn, session_id, self._totals.kept(last))
        await conn.execute(SQL.delete_ends, [session_id, old])
        now = milliseconds()
        await replace_answers(conn, session_id, self._derived.answers, now)
        await replace_facts(conn, session_id, self._derived.facts, now)
        await open_texts.delete(conn, session_id)
        await open_texts.write(conn, session_id, saved)
        await kept_states.forget(conn, session_id)
        if self._inherited:
            await set_inherited(conn, session_id, self._inherited)
        return Rebuilt(self._messages, last - before)

    async def derive_until(self, last_message: int, last_event: int) -> None:
        await self._input.announce(self._normalizer, without=self._without)
        async with aclosing(self._input.entries(last_message, last_event)) as entries:
            async for entry in entries:
                match entry:
                    case StoredLine():
                        if entry.sequence != self._without:
                            await self._derive(entry)
                    case UnderivedEvent():
                        self._move(entry)
                    case End():
                        place = self._session_id, *entry, self._now
                        self._add(ending(self._normalizer, *place, derived=self._derived))

    async def _derive(self, line: StoredLine) -> None:
        if self._states is not None and self._states.is_due(line.sequence - 1):
            self._states.keep(line.sequence - 1, self._events.count, self._normalizer, self._totals)
        self._messages += 1
        self._now = line.now
        place = self._session_id, line.sequence
        read = await offload(self._read, line)
        self._add(derive(self._normalizer, *place, read, self._now, text=line.content, derived=self._derived))
        if self._normalizer.is_inherited:
            self._inherited = line.sequence

    def _add(self, new: Sequence[PreparedEvent]) -> None:
        self._totals.add(each.event for each in new)
        self._events.add(new)

    def _move(self, posted: UnderivedEvent) -> None:
        event = msgspec.json.decode(posted.content)
        self._totals.add([event])
        if posted.type in NOTED:
            self._normalizer.observe(event)
            self._derived.add(self._normalizer, None)
        self._events.move(posted, event)
