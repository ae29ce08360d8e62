"""What appends, posts and rebuilds write into the log of events: how it is derived, and how it becomes rows.

An append holds the row of the counters from before it looks until it commits: it orders the session.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b, sha1
from itertools import count
from typing import Any, Literal, NamedTuple
from uuid import UUID, uuid5

import msgspec
from psycopg import AsyncConnection, AsyncCursor

from ash_server.db.text import storable
from ash_server.errors import SessionNotFound
from ash_shared.eventlog import NORMALIZER_VERSION, Context, Event, Line, Normalizer
from ash_shared.providers._kit.steps import Passes

Origin = Literal["line", "posted", "end"]

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
    SET message_sequence = message_sequence + %(messages)b, event_sequence = event_sequence + %(events)b,
        normalizer_state = %(state)b,
        normalizer_version = CASE message_sequence WHEN 0 THEN %(version)b ELSE normalizer_version END,
        errors = errors + %(errors)b, unrecognised = unrecognised + %(unrecognised)b
    WHERE session_id = %(session_id)b
"""

_WRITE = f"WITH counted AS ({_COUNT}) {INSERT}"

# One by one, for the reason that messages are looked up so.
GIVEN = """
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

_encode = msgspec.json.Encoder().encode


class PreparedEvent(NamedTuple):
    """An event that is to be stored."""

    event: Event
    message_sequence: int = 0
    origin: Origin = "posted"
    is_given: bool = True
    """Whether its id is the writer's own."""


class Counters(NamedTuple):
    """The row that orders a session, which is locked."""

    message_sequence: int
    event_sequence: int
    normalizer_state: str | None
    normalizer_version: int | None


async def lock(conn: AsyncConnection, session_id: UUID) -> Counters:
    return await counters_of(await conn.execute(LOCK, [session_id]))


async def counters_of(locked: AsyncCursor) -> Counters:
    """Of the answer to LOCK. Raises SessionNotFound."""
    found = await locked.fetchone()
    if not found:
        raise SessionNotFound
    return Counters(*found)


def derive(
    normalizer: Normalizer, session_id: UUID, sequence: int, line: Line, now: int
) -> list[PreparedEvent]:
    """The events of one message; `now` is its time where it names none."""
    context = Context(session_name(session_id), _ids(session_id, f"{sequence}/"), lambda: now)
    is_given = Passes in [step.__class__ for step in line.steps]
    return [PreparedEvent(event, sequence, "line", is_given) for event in normalizer.follow(line, context)]


def ending(
    normalizer: Normalizer, session_id: UUID, sequence: int, posted: str = "", now: int | None = None
) -> list[PreparedEvent]:
    """The events that close what is open behind this message, and behind the event of this id that was posted last
    since. Both stay what they are when the session is rebuilt; between two ends at the same place nothing opens."""
    when = milliseconds() if now is None else now
    place = f"{sequence}/end/{posted}/" if posted else f"{sequence}/end/"
    context = Context(session_name(session_id), _ids(session_id, place), lambda: when)
    return [PreparedEvent(event, sequence, "end", is_given=False) for event in normalizer.close(context)]


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


session_name = lru_cache(maxsize=256)(str)
_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


async def write_events(
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    written: Mapping[str, Any],
    state: str | None,
    *,
    messages: int = 0,
) -> None:
    """Behind the last one, under the lock, with so many messages that were written with them. `written` are the
    `columns` of the events."""
    counted = {
        "session_id": session_id,
        "messages": messages,
        "events": len(written["contents"]),
        "state": state,
        "version": NORMALIZER_VERSION,
        **written,
    }
    if written["contents"]:
        await conn.execute(_WRITE, {**counted, "last_event": counters.event_sequence})
    else:
        await conn.execute(_COUNT, counted)


def columns(new: Sequence[PreparedEvent]) -> dict[str, Any]:
    """What is written of them: one list for each column, and what the counters count."""
    events = [each.event for each in new]
    types = {each: storable(each) for each in {event["type"] for event in events}}
    return {
        "types": [types[event["type"]] for event in events],
        "message_sequences": [each.message_sequence for each in new],
        "origins": [each.origin for each in new],
        "given_ids": [each.event["id"] if each.is_given else None for each in new],
        "pieces": list(map(_piece_of, events)),
        "contents": [_encode(event).decode() for event in events],
        **Trouble().and_of(events)._asdict(),
    }


class Trouble(NamedTuple):
    """How many of some events somebody may want to look at."""

    errors: int = 0
    unrecognised: int = 0

    def and_of(self, events: Iterable[Event]) -> "Trouble":
        """With those of these events."""
        errors, unrecognised = self
        for event in events:
            errors += event["type"] == "error" or _has_failed(event)
            unrecognised += event["type"] == "raw"
        return Trouble(errors, unrecognised)


def _has_failed(event: Event) -> bool:
    return event["type"] == "tool_result" and event["payload"].get("error") is not None


async def with_free_ids(
    conn: AsyncConnection, session_id: UUID, new: Sequence[PreparedEvent]
) -> Sequence[PreparedEvent]:
    """Events whose lines gave them ids that are taken, or that PostgreSQL cannot keep, stay as they are but for the id,
    which then follows from the line."""
    given = [each.event["id"] for each in new if each.is_given and _is_storable(each)]
    if not any(each.is_given for each in new):
        return new
    stored = await conn.execute(GIVEN, [session_id, given])
    taken, numbers = {row[0] for row in await stored.fetchall()}, count()
    free = list[PreparedEvent]()
    for each in new:
        if each.is_given and (each.event["id"] in taken or not _is_storable(each)):
            own = str(uuid5(session_id, f"{each.message_sequence}/taken/{next(numbers)}"))
            free.append(each._replace(event={**each.event, "id": own}, is_given=False))
        else:
            taken.update([each.event["id"]] if each.is_given else ())
            free.append(each)
    return free


def _is_storable(new: PreparedEvent) -> bool:
    id: str = new.event["id"]
    return storable(id) == id


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
