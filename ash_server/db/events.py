"""Events: derived from messages as they are appended, or posted, in one order, and read by their place in it.

The same lock orders them that orders messages, so here too whoever reads behind a sequence misses nothing. An event is
kept as the JSON it is on the wire, without its sequences, which are put in front when it is read.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.errors import UniqueViolation
from psycopg.rows import args_row

from ash_server.db.connection import one_transaction
from ash_server.db.event_writer import (
    GIVEN,
    LOCK,
    PreparedEvent,
    columns,
    counters_of,
    ending,
    last_posted,
    lock,
    milliseconds,
    session_name,
    write_events,
)
from ash_server.db.pagination import END, MAX_PAGE_BYTES, bounded_query, check_options
from ash_server.db.sessions import get_session
from ash_server.db.text import check_text
from ash_server.errors import CursorAhead, DuplicateInBatch, IdConflict, InvalidParameter, SessionNotFound
from ash_shared.eventlog import NOTED, Event, Normalizer, OpenTurn
from ash_shared.model.events import CHUNKS, EVENT_TYPES, EVENTS

_FETCHED, _FETCHED_BYTES = 500, 1024 * 1024

# What nothing has to be derived from, in a single statement: the row's lock is held no longer than it runs.
_POST = """
    WITH counted AS (
        UPDATE session_counters
        SET event_sequence = event_sequence + %(count)b,
            errors = errors + %(errors)b, unrecognised = unrecognised + %(unrecognised)b
        WHERE session_id = %(session_id)b
        RETURNING event_sequence - %(count)b AS last, message_sequence
    ), touched AS (
        UPDATE sessions SET updated_at = statement_timestamp() WHERE id = %(session_id)b AND %(touches)b
    ), posted AS (
        INSERT INTO events (session_id, sequence, type, message_sequence, origin, given_id, piece_of, content)
        SELECT %(session_id)b, last + place, type, message_sequence, 'posted', given_id, piece_of, content
        FROM counted, unnest(%(types)b::text[], %(given_ids)b::text[], %(pieces)b::text[], %(contents)b::text[])
            WITH ORDINALITY AS new (type, given_id, piece_of, content, place)
    )
    SELECT last FROM counted
"""

_TOUCH = "UPDATE sessions SET updated_at = statement_timestamp() WHERE id = %b"

_PAGE = """
    SELECT sequence, type, CASE origin WHEN 'line' THEN message_sequence END AS message_sequence, content
    FROM events AS event
    WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence < %(before)b
      AND (%(types)b::text[] IS NULL OR type = ANY(%(types)b))
      AND (NOT %(collapse)b OR type NOT LIKE '%%chunk' OR NOT EXISTS (
          SELECT FROM events AS whole
          WHERE whole.session_id = %(session_id)b AND whole.piece_of = event.piece_of
            AND whole.sequence > event.sequence
            AND whole.piece_of IS NOT NULL AND whole.type NOT LIKE '%%chunk'
      ))
"""


_COLUMNS = "sequence, type, message_sequence, content"
_FIRST = bounded_query(_COLUMNS, _PAGE)
_LAST = bounded_query(_COLUMNS, _PAGE, "sequence DESC")
_OF_MESSAGE = """
    SELECT sequence FROM events WHERE session_id = %b AND message_sequence >= %b ORDER BY sequence LIMIT 1
"""
_LAST_SEQUENCE = "SELECT event_sequence FROM session_counters WHERE session_id = %b"
_STATE = "SELECT normalizer_state FROM session_counters WHERE session_id = %b"


class Appended(NamedTuple):
    """Where a message or a posted event is now."""

    id: str
    sequence: int
    created: bool
    """False where it was stored before."""


@dataclass(slots=True)
class StoredEvent:
    """An event as it lies in its session."""

    sequence: int
    type: str
    message_sequence: int | None
    """The message it was derived from, if it was."""
    content: str

    def wire(self) -> str:
        """Its JSON."""
        derived = "" if self.message_sequence is None else f'"messageSequence":{self.message_sequence},'
        return f'{{"sequence":{self.sequence},{derived}{self.content[1:]}'


def page_json(found: Iterable[StoredEvent], ends: Mapping[str, int]) -> str:
    """The JSON of a page, with the cursors of those beside it."""
    cursors = "".join(f',"{name}":{sequence}' for name, sequence in ends.items())
    return f'{{"events":[{",".join(event.wire() for event in found)}]{cursors}}}'


class EventFilter(TypedDict, total=False):
    """Which events of a session: as for messages."""

    after: int
    before: int | None
    at: int | None
    """The window around this sequence."""
    message: int | None
    """The window around the first event of this message, or of a later one."""
    limit: int
    collapse: bool
    """Without the chunks of what has become whole."""
    types: Sequence[str] | None
    """Of these types alone."""


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


async def append_events(conn: AsyncConnection, session_id: UUID, events: Sequence[Event]) -> list[Appended]:
    """Stores all of them or none. Their envelopes have been checked; their session is this one, whatever they name,
    and their time that of storing, where they name none.

    An event whose id is stored already is answered with the sequence it has, if it is the same. Raises IdConflict,
    DuplicateInBatch, SessionNotFound, NulByte.
    """
    sent, now = events, milliseconds()
    events = [_own(event, session_id, now) for event in sent]
    _check(events)
    if all(event["type"] not in NOTED for event in events):
        try:
            return await _post(conn, session_id, events)
        except UniqueViolation:
            pass
    return await _post_new(conn, session_id, events, sent)


async def end_session(conn: AsyncConnection, session_id: UUID) -> int:
    """Closes what is open: the stream has ended. How many events that took. Raises SessionNotFound."""
    async with one_transaction(conn):
        counters = await lock(conn, session_id)
        normalizer = Normalizer(state=counters.normalizer_state)
        posted = await last_posted(conn, session_id, counters.message_sequence)
        new = ending(normalizer, session_id, counters.message_sequence, posted)
        if new or counters.normalizer_state is not None:
            await write_events(conn, session_id, counters, columns(new), normalizer.state())
    return len(new)


async def get_events(
    conn: AsyncConnection, session_id: UUID, **page: Unpack[EventFilter]
) -> list[StoredEvent]:
    """In ascending order. Raises SessionNotFound."""
    wanted = _wanted(session_id, page)
    middle = await _middle(conn, wanted, page)
    if middle is not None:
        found = await _around(conn, wanted, middle)
    elif page.get("before") is not None:
        found = (await _read(conn, _LAST, wanted))[::-1]
    else:
        found = await _read(conn, _FIRST, wanted)
    if not found:
        await get_session(conn, session_id)
    return found


async def get_events_since(
    conn: AsyncConnection,
    session_id: UUID,
    after: int,
    *,
    limit: int = 500,
    max_bytes: int = MAX_PAGE_BYTES,
    collapse: bool = False,
) -> list[StoredEvent]:
    """The next events after a sequence. An unknown session has none."""
    page = _wanted(session_id, {"after": after, "limit": limit, "collapse": collapse})
    wanted = {**page, "bytes": max_bytes}
    return await _read(conn, _FIRST, wanted)


async def stream_events(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[StoredEvent, None]:
    """All of them in order, as they were at one moment, in bounded memory. An unknown session yields nothing.

    The connection is taken until the end, or until the generator is closed (`contextlib.aclosing`).
    """
    after = 0
    async with conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        while found := await get_events_since(
            conn, session_id, after, limit=_FETCHED, max_bytes=_FETCHED_BYTES
        ):
            after = found[-1].sequence
            for event in found:
                yield event


async def get_open_turn(conn: AsyncConnection, session_id: UUID) -> OpenTurn | None:
    """The one whose end the log does not tell. Raises SessionNotFound."""
    found = await (await conn.execute(_STATE, [session_id])).fetchone()
    if not found:
        raise SessionNotFound
    return Normalizer(state=found[0]).open_turn()


def types_in(text: str) -> list[str]:
    """Raises InvalidParameter where Ash does not know one of them."""
    types = text.split(",")
    if not EVENT_TYPES.issuperset(types):
        message = f"It names one or more of {', '.join(EVENTS)}, separated by commas."
        raise InvalidParameter(f"'type': {message}", errors=[{"path": "type", "message": message}])
    return types


async def check_cursor(conn: AsyncConnection, session_id: UUID, after: int) -> int:
    """The last sequence of the log. Raises CursorAhead where the cursor is past it, and SessionNotFound."""
    found = await (await conn.execute(_LAST_SEQUENCE, [session_id])).fetchone()
    if not found:
        raise SessionNotFound
    last: int = found[0]
    if after > last:
        raise CursorAhead(f"the last sequence is {last}", currentSequence=last)
    return last


def _own(event: Event, session_id: UUID, now: int) -> Event:
    own = {"timestamp": now, **event, "sessionId": session_name(session_id)}
    own.pop("sequence", None)
    own.pop("messageSequence", None)
    return own


def _check(events: Sequence[Event]) -> None:
    seen: set[str] = set()
    for index, event in enumerate(events):
        check_text(event["id"], "the id", index)
        check_text(event["type"], "the type", index)
        if event["id"] in seen:
            raise DuplicateInBatch(index=index)
        seen.add(event["id"])


async def _post(conn: AsyncConnection, session_id: UUID, events: Sequence[Event]) -> list[Appended]:
    touches = any(event["type"] not in CHUNKS for event in events)
    values = columns([PreparedEvent(event) for event in events])
    counted = {"session_id": session_id, "count": len(events), "touches": touches}
    posted = await conn.execute(_POST, {**counted, **values})
    last = await posted.fetchone()
    if last is None:
        raise SessionNotFound
    return [Appended(event["id"], sequence, True) for sequence, event in enumerate(events, last[0] + 1)]


async def _post_new(
    conn: AsyncConnection, session_id: UUID, events: Sequence[Event], sent: Sequence[Event]
) -> list[Appended]:
    """Those that are not stored yet, under the lock."""
    async with one_transaction(conn):
        locked = await conn.execute(LOCK, [session_id])
        found = await conn.execute(GIVEN, [session_id, [event["id"] for event in events]])
        counters = await counters_of(locked)
        stored = {row[0]: (row[1], row[2]) for row in await found.fetchall()}
        places, new, last = [], [], counters.event_sequence
        normalizer = Normalizer(state=counters.normalizer_state)
        for index, event in enumerate(events):
            known = stored.get(event["id"])
            if known is not None and not _is_same(known[1], event, timed="timestamp" in sent[index]):
                raise IdConflict(index=index)
            if known is None:
                last += 1
                new.append(PreparedEvent(event, counters.message_sequence))
                if event["type"] in NOTED:
                    normalizer.observe(event)
            places.append(Appended(event["id"], known[0] if known else last, known is None))
        if new:
            await write_events(conn, session_id, counters, columns(new), normalizer.state())
            await conn.execute(_TOUCH, [session_id])
    return places


def _is_same(stored: str, event: Event, *, timed: bool) -> bool:
    """Whether it is the event that is stored; one without a time of its own has that of its first storing."""
    known = msgspec.json.decode(stored)
    told = event if timed else {**event, "timestamp": known["timestamp"]}
    return _encode_sorted(known) == _encode_sorted(told)


def _wanted(session_id: UUID, page: EventFilter) -> dict[str, Any]:
    defaults = {"after": 0, "before": END, "limit": 100, "collapse": False, "bytes": MAX_PAGE_BYTES}
    return {"types": None, **defaults, **check_options(page), "session_id": session_id}


async def _middle(conn: AsyncConnection, wanted: Mapping[str, Any], page: EventFilter) -> int | None:
    """The sequence around which the page is, if it is around any: the end of the log where nothing is so late."""
    message = page.get("message")
    if message is None:
        return page.get("at")
    found = await (await conn.execute(_OF_MESSAGE, [wanted["session_id"], message])).fetchone()
    return found[0] if found else END


async def _around(conn: AsyncConnection, wanted: dict[str, Any], at: int) -> list[StoredEvent]:
    ahead = {**wanted, "before": at, "limit": wanted["limit"] // 2}
    found = (await _read(conn, _LAST, ahead))[::-1] if ahead["limit"] else []
    behind = {**wanted, "after": at - 1, "limit": wanted["limit"] - len(found)}
    return found + await _read(conn, _FIRST, behind)


async def _read(conn: AsyncConnection, query: str, wanted: Mapping[str, Any]) -> list[StoredEvent]:
    async with conn.cursor(binary=True, row_factory=args_row(StoredEvent)) as cursor:
        await cursor.execute(query, wanted)
        return await cursor.fetchall()
