"""Events: derived from messages as they are appended, or posted, in one order, and read by their place in it.

The same lock orders them that orders messages, so here too whoever reads behind a sequence misses nothing. An event is
kept as the JSON it is on the wire, without its sequences, which are put in front when it is read.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha1
from itertools import count
from typing import Any, Literal, NamedTuple, TypedDict, Unpack
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection, AsyncCursor
from psycopg.errors import UniqueViolation
from psycopg.rows import args_row

from ash_server.db.engine import one_transaction
from ash_server.db.sessions import get_session
from ash_server.db.text import check_text, storable
from ash_server.errors import CursorAhead, DuplicateInBatch, IdConflict, InvalidParameter, SessionNotFound
from ash_shared.events import CHUNKS
from ash_shared.message import LAST_SEQUENCE
from ash_shared.normalize import NORMALIZER_VERSION, NOTED, Context, Event, Line, Normalizer
from ash_shared.steps import Passes

Origin = Literal["line", "posted", "end"]

_END = LAST_SEQUENCE + 1

_FETCHED, _FETCHED_BYTES = 500, 1024 * 1024

MOST_IN_PAGE = 32 * 1024 * 1024
"""Bytes of text, as for messages."""

LOCK = """
    SELECT message_sequence, event_sequence, normalizer_state, normalizer_version
    FROM session_counters WHERE session_id = %b FOR UPDATE
"""

INSERT = """
    INSERT INTO events (session_id, sequence, type, message_sequence, origin, given_id, piece_of, content)
    SELECT %(session_id)b, %(last_event)b::bigint + place, type, message_sequence, origin, given_id, piece_of, content
    FROM unnest(%(types)b::text[], %(message_sequences)b::bigint[], %(origins)b::text[], %(given_ids)b::text[],
        %(pieces)b::text[], %(contents)b::text[])
        WITH ORDINALITY AS new (type, message_sequence, origin, given_id, piece_of, content, place)
"""

_COUNT = """
    UPDATE session_counters
    SET event_sequence = event_sequence + %(count)b, normalizer_state = %(state)b,
        normalizer_version = coalesce(normalizer_version, %(version)b)
    WHERE session_id = %(session_id)b
"""

# What nothing has to be derived from, in a single statement: the row's lock is held no longer than it runs.
_POST = """
    WITH counted AS (
        UPDATE session_counters SET event_sequence = event_sequence + %(count)b
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

# One by one, for the reason that messages are looked up so.
_GIVEN = """
    SELECT stored.*
    FROM (SELECT %b::uuid AS session_id, %b::text[] AS ids) AS wanted,
        unnest(ids) AS wanted_id,
        LATERAL (
            SELECT given_id, sequence, content FROM events
            WHERE events.session_id = wanted.session_id AND given_id = wanted_id
            LIMIT 1
        ) AS stored
"""

# What a message gave lies ahead of what was posted behind it.
_LAST_POSTED = """
    SELECT CASE WHEN origin = 'posted' AND message_sequence = %b THEN given_id END
    FROM events WHERE session_id = %b AND origin <> 'end'
    ORDER BY sequence DESC LIMIT 1
"""

_IS_CHUNK = "type LIKE '%%chunk'"

_PAGE = f"""
    SELECT sequence, type, CASE origin WHEN 'line' THEN message_sequence END AS message_sequence, content
    FROM events AS event
    WHERE session_id = %(session_id)b AND sequence > %(after)b AND sequence < %(before)b
      AND (NOT %(collapse)b OR NOT ({_IS_CHUNK}) OR NOT EXISTS (
          SELECT FROM events AS whole
          WHERE whole.session_id = %(session_id)b AND whole.piece_of = event.piece_of
            AND whole.sequence > event.sequence
            AND whole.piece_of IS NOT NULL AND whole.type NOT LIKE '%%chunk'
      ))
"""  # noqa: S608  # constants of this module


def _bounded(order: str) -> str:
    return f"""
        SELECT sequence, type, message_sequence, content
        FROM (
            SELECT *,
                sum(octet_length(content)) OVER (ORDER BY {order} ROWS UNBOUNDED PRECEDING)
                    - octet_length(content) AS ahead
            FROM ({_PAGE} ORDER BY {order} LIMIT %(limit)b) AS page
        ) AS sized
        WHERE ahead < %(bytes)b::bigint
        ORDER BY {order}
    """  # noqa: S608  # a constant of this module


_FIRST = _bounded("sequence")
_LAST = _bounded("sequence DESC")
_LAST_SEQUENCE = "SELECT event_sequence FROM session_counters WHERE session_id = %b"


class NewEvent(NamedTuple):
    """An event that is to be stored."""

    event: Event
    message_sequence: int = 0
    origin: Origin = "posted"
    is_given: bool = True
    """Whether its id is the writer's own."""


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


class EventPage(TypedDict, total=False):
    """Which events of a session: as for messages."""

    after: int
    before: int | None
    at: int | None
    """The window around this sequence."""
    limit: int
    collapse: bool
    """Without the chunks of what has become whole."""


class Counters(NamedTuple):
    """The row that orders a session, which is locked."""

    message_sequence: int
    event_sequence: int
    normalizer_state: str | None
    normalizer_version: int | None


_encode = msgspec.json.Encoder().encode
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
            await write_events(conn, session_id, counters.event_sequence, new, normalizer.state())
    return len(new)


async def get_events(conn: AsyncConnection, session_id: UUID, **page: Unpack[EventPage]) -> list[StoredEvent]:
    """In ascending order. Raises SessionNotFound."""
    wanted = _wanted(session_id, page)
    if page.get("at") is not None:
        found = await _around(conn, wanted, int(page["at"] or 0))
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
    most_bytes: int = MOST_IN_PAGE,
    collapse: bool = False,
) -> list[StoredEvent]:
    """The next events after a sequence. An unknown session has none."""
    page = _wanted(session_id, {"after": after, "limit": limit, "collapse": collapse})
    wanted = {**page, "bytes": most_bytes}
    return await _read(conn, _FIRST, wanted)


async def stream_events(conn: AsyncConnection, session_id: UUID) -> AsyncGenerator[StoredEvent, None]:
    """All of them in order, as they were at one moment, in bounded memory. An unknown session yields nothing.

    The connection is taken until the end, or until the generator is closed (`contextlib.aclosing`).
    """
    after = 0
    async with conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        while found := await get_events_since(
            conn, session_id, after, limit=_FETCHED, most_bytes=_FETCHED_BYTES
        ):
            after = found[-1].sequence
            for event in found:
                yield event


async def check_cursor(conn: AsyncConnection, session_id: UUID, after: int) -> int:
    """The last sequence of the log. Raises CursorAhead where the cursor is past it, and SessionNotFound."""
    found = await (await conn.execute(_LAST_SEQUENCE, [session_id])).fetchone()
    if not found:
        raise SessionNotFound
    last: int = found[0]
    if after > last:
        raise CursorAhead(f"the last sequence is {last}", currentSequence=last)
    return last


def may_go_on(found: Sequence[StoredEvent], limit: int) -> bool:
    """Whether more may follow a page that was asked for with this limit."""
    return len(found) == limit or sum(len(event.content) for event in found) * 4 >= MOST_IN_PAGE


# --- What appends and rebuilds need


async def lock(conn: AsyncConnection, session_id: UUID) -> Counters:
    return await _counters(await conn.execute(LOCK, [session_id]))


async def _counters(locked: AsyncCursor) -> Counters:
    found = await locked.fetchone()
    if not found:
        raise SessionNotFound
    return Counters(*found)


def derive(normalizer: Normalizer, session_id: UUID, sequence: int, line: Line, now: int) -> list[NewEvent]:
    """The events of one message; `now` is its time where it names none."""
    context = Context(_name(session_id), _ids(session_id, f"{sequence}/"), lambda: now)
    is_given = Passes in [step.__class__ for step in line.steps]
    return [NewEvent(event, sequence, "line", is_given) for event in normalizer.follow(line, context)]


def ending(
    normalizer: Normalizer, session_id: UUID, sequence: int, posted: str = "", now: int | None = None
) -> list[NewEvent]:
    """The events that close what is open behind this message, and behind the event of this id that was posted last
    since. Both stay what they are when the session is rebuilt; between two ends at the same place nothing opens."""
    when = milliseconds() if now is None else now
    place = f"{sequence}/end/{posted}/" if posted else f"{sequence}/end/"
    context = Context(_name(session_id), _ids(session_id, place), lambda: when)
    return [NewEvent(event, sequence, "end", is_given=False) for event in normalizer.close(context)]


async def last_posted(conn: AsyncConnection, session_id: UUID, sequence: int) -> str:
    """The id of the last event that was posted behind this message, which is the last one; empty where none was."""
    found = await (await conn.execute(_LAST_POSTED, [sequence, session_id])).fetchone()
    return (found[0] if found else None) or ""


def _ids(session_id: UUID, place: str) -> Callable[[], str]:
    """What `uuid5` gives of the place and of a number, several times as fast."""
    begun = sha1(session_id.bytes + place.encode(), usedforsecurity=False)
    numbers = count()

    def next_id() -> str:
        named = begun.copy()
        named.update(b"%d" % next(numbers))
        digits = named.hexdigest()
        variant = _VARIANTS[digits[16]]
        return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"

    return next_id


_name = lru_cache(maxsize=256)(str)
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


async def write_events(
    conn: AsyncConnection, session_id: UUID, last: int, new: Sequence[NewEvent], state: str | None
) -> None:
    """Behind the last one, under the lock."""
    if new:
        await conn.execute(INSERT, {"session_id": session_id, "last_event": last, **columns(new)})
    counted = {"session_id": session_id, "count": len(new), "state": state, "version": NORMALIZER_VERSION}
    await conn.execute(_COUNT, counted)


def columns(new: Sequence[NewEvent]) -> dict[str, Any]:
    events = [each.event for each in new]
    types = {each: storable(each) for each in {event["type"] for event in events}}
    return {
        "types": [types[event["type"]] for event in events],
        "message_sequences": [each.message_sequence for each in new],
        "origins": [each.origin for each in new],
        "given_ids": [each.event["id"] if each.is_given else None for each in new],
        "pieces": list(map(_piece_of, events)),
        "contents": [_encode(event).decode() for event in events],
    }


async def with_free_ids(
    conn: AsyncConnection, session_id: UUID, new: Sequence[NewEvent]
) -> Sequence[NewEvent]:
    """Events whose lines gave them ids that are taken, or that PostgreSQL cannot keep, stay as they are but for the id,
    which then follows from the line."""
    given = [each.event["id"] for each in new if each.is_given and _is_storable(each)]
    if not any(each.is_given for each in new):
        return new
    stored = await conn.execute(_GIVEN, [session_id, given])
    taken, numbers = {row[0] for row in await stored.fetchall()}, count()
    free = list[NewEvent]()
    for each in new:
        if each.is_given and (each.event["id"] in taken or not _is_storable(each)):
            own = str(uuid5(session_id, f"{each.message_sequence}/taken/{next(numbers)}"))
            free.append(each._replace(event={**each.event, "id": own}, is_given=False))
        else:
            taken.update([each.event["id"]] if each.is_given else ())
            free.append(each)
    return free


def _is_storable(new: NewEvent) -> bool:
    id: str = new.event["id"]
    return storable(id) == id


# --- Posting


def _own(event: Event, session_id: UUID, now: int) -> Event:
    own = {"timestamp": now, **event, "sessionId": _name(session_id)}
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
    values = columns([NewEvent(event) for event in events])
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
        found = await conn.execute(_GIVEN, [session_id, [event["id"] for event in events]])
        counters = await _counters(locked)
        stored = {row[0]: (row[1], row[2]) for row in await found.fetchall()}
        places, new, last = [], [], counters.event_sequence
        normalizer = Normalizer(state=counters.normalizer_state)
        for index, event in enumerate(events):
            known = stored.get(event["id"])
            if known is not None and not _is_same(known[1], event, timed="timestamp" in sent[index]):
                raise IdConflict(index=index)
            if known is None:
                last += 1
                new.append(NewEvent(event, counters.message_sequence))
                if event["type"] in NOTED:
                    normalizer.observe(event)
            places.append(Appended(event["id"], known[0] if known else last, known is None))
        if new:
            await write_events(conn, session_id, counters.event_sequence, new, normalizer.state())
            await conn.execute(_TOUCH, [session_id])
    return places


def _is_same(stored: str, event: Event, *, timed: bool) -> bool:
    """Whether it is the event that is stored; one without a time of its own has that of its first storing."""
    known = msgspec.json.decode(stored)
    told = event if timed else {**event, "timestamp": known["timestamp"]}
    return _encode_sorted(known) == _encode_sorted(told)


# --- Reading


def _wanted(session_id: UUID, page: EventPage) -> dict[str, Any]:
    allowed = {"after": range(_END), "before": range(1, _END), "at": range(1, _END), "limit": range(1, 1001)}
    named: dict[str, Any] = {name: value for name, value in page.items() if value is not None}
    for name, values in allowed.items():
        if name in named and named[name] not in values:
            raise InvalidParameter(f"{name} is {values.start} to {values.stop - 1}")
    defaults = {"after": 0, "before": _END, "limit": 100, "collapse": False, "bytes": MOST_IN_PAGE}
    return {**defaults, **named, "session_id": session_id}


async def _around(conn: AsyncConnection, wanted: dict[str, Any], at: int) -> list[StoredEvent]:
    ahead = {**wanted, "before": at, "limit": wanted["limit"] // 2}
    found = (await _read(conn, _LAST, ahead))[::-1] if ahead["limit"] else []
    behind = {**wanted, "after": at - 1, "limit": wanted["limit"] - len(found)}
    return found + await _read(conn, _FIRST, behind)


async def _read(conn: AsyncConnection, query: str, wanted: Mapping[str, Any]) -> list[StoredEvent]:
    async with conn.cursor(binary=True, row_factory=args_row(StoredEvent)) as cursor:
        await cursor.execute(query, wanted)
        return await cursor.fetchall()


def _piece_of(event: Event) -> str | None:
    told = _PIECES.get(event["type"])
    if told is None:
        return None
    kind, names = told
    payload = event["payload"]
    return _piece_digest(
        "\0".join([kind, *[str(event.get(name) or payload.get(name) or "") for name in names]])
    )


@lru_cache(maxsize=1024)
def _piece_digest(whole: str) -> str:
    return blake2b(whole.encode("utf-8", "replace"), digest_size=8).hexdigest()


_PIECES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"assistant_{form}": ("text", ("turnId", "responseId", "parentToolCallId"))
        for form in ("chunk", "done")
    },
    **{
        f"thinking_{form}": ("thinking", ("turnId", "responseId", "parentToolCallId"))
        for form in ("chunk", "done")
    },
    **{f"audio_{form}": ("audio", ("turnId", "responseId")) for form in ("chunk", "done")},
    **dict.fromkeys(("tool_input_chunk", "tool_call"), ("input", ("toolCallId",))),
    **dict.fromkeys(("tool_output_chunk", "tool_result"), ("output", ("toolCallId",))),
}
