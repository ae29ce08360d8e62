"""Messages: appended once, in one order, and read by their place in it.

An append holds the lock of its session's counters from before it looks until it commits. So sequences have no
gap and appear in their order: who reads behind a sequence never misses one that comes later with a lower one.

Every function works on an open connection in autocommit mode (`engine.open_pool` gives such).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.db.connection import one_transaction
from ash_server.db.drift import Placed, insert_drift
from ash_server.db.event_writer import (
    LOCK,
    Counters,
    PreparedEvent,
    columns,
    counters_of,
    derive,
    ending,
    last_posted,
    milliseconds,
    with_free_ids,
    write_events,
)
from ash_server.db.events import Appended
from ash_server.db.pagination import END, MAX_PAGE_BYTES, bounded_query, check_options
from ash_server.db.session_facts import MERGE, facts_of
from ash_server.db.sessions import get_session
from ash_server.db.text import check_text
from ash_server.errors import DuplicateInBatch, IdConflict, InvalidId, MessageNotFound, SequenceMismatch
from ash_shared.eventlog import Line, Normalizer
from ash_shared.model.message import Description, Facts, Kind, Message, Role
from ash_shared.reading.parse import PARSER_VERSION, parse_message_content

T = TypeVar("T")

_LARGE = 256 * 1024
"""Characters of which the events are better derived in a thread."""

_FETCHED = 1000
"""How many messages of a stream are in memory at a time, or fewer where they are large (`MOST_TOGETHER`)."""

# A statement of its own: it has to see what was committed while the lock was waited for.
# Looked up one by one: before the table is analysed, `id = ANY(…)` is planned as a scan of the whole session, which
# makes a long import quadratic. LIMIT keeps the planner from joining the two.
_STORED = """
    SELECT stored.*
    FROM (SELECT %b::uuid AS session_id, %b::text[] AS ids) AS wanted,
        unnest(ids) AS wanted_id,
        LATERAL (
            SELECT id, sequence, content
            FROM messages
            WHERE messages.session_id = wanted.session_id AND id = wanted_id
            LIMIT 1
        ) AS stored
"""

_WRITE = f"""
    WITH inserted AS (
        INSERT INTO messages
            (session_id, sequence, id, content, role, kind, source, block_types, parser_version, created_at,
            digest, role_given, source_given)
        SELECT %(session_id)b, %(last)b::bigint + place, id, content, role, kind, source,
            string_to_array(block_types, ','), %(parser_version)b, statement_timestamp(),
            digest, role_given, source_given
        FROM unnest(%(ids)b::text[], %(contents)b::text[], %(roles)b::text[], %(kinds)b::text[],
            %(sources)b::text[], %(block_types)b::text[], %(digests)b::bytea[], %(roles_given)b::bool[],
            %(sources_given)b::bool[])
            WITH ORDINALITY AS new (id, content, role, kind, source, block_types, digest, role_given,
                source_given, place)
    )
    UPDATE sessions
    SET updated_at = statement_timestamp(), {MERGE}
    WHERE id = %(session_id)b
"""  # noqa: S608  # a constant of Ash

_COLUMNS = "id, role, kind, source, content, sequence, created_at"
_READ = f"SELECT {_COLUMNS} FROM messages WHERE session_id = "  # noqa: S608  # a constant of this module

_PAGE = (
    _READ
    + """%(session_id)b
      AND sequence > %(after)b AND sequence < %(before)b
      AND kind = ANY(%(kinds)b)
      AND (%(role)b::text IS NULL OR role = %(role)b)
      AND (%(type)b::text IS NULL OR %(type)b = ANY(block_types))
    """
)

MOST_TOGETHER = 4 * 1024 * 1024
"""Bytes of texts that are read together: that takes ten times their size in memory, and where they are nothing but
small blocks forty times."""


_FIRST = bounded_query(_COLUMNS, _PAGE)
_LAST = bounded_query(_COLUMNS, _PAGE, "sequence DESC")
_ONE = _READ + "%b AND sequence = %b"


_SILENT = Line((), Facts(), "unknown")


class PreparedMessage(NamedTuple):
    """A message that is to be stored: its text, its id, and what reading the text tells of it."""

    id: str
    given: bool
    """Whether the writer named the id, or it was derived."""
    content: str
    described: Description
    """With the role and the source that the writer named, where the writer did."""
    role_given: bool = False
    """Whether the writer named the role, or reading tells it."""
    source_given: bool = False
    line: Line = _SILENT
    """What it adds to the log of events."""


@dataclass(slots=True)
class StoredMessage:
    """A message as it lies in its session."""

    id: str
    role: Role
    kind: Kind
    source: str
    content: str
    sequence: int
    created_at: datetime


class MessageFilter(TypedDict, total=False):
    """Which messages of a session: keyset both ways, always answered in ascending order."""

    after: int
    """Only those after this sequence; 0 where it is left out."""
    before: int | None
    """Only those before this sequence, and of them the last ones."""
    limit: int
    """100 where it is left out, at most 1,000. Large texts make a page shorter (`may_go_on`)."""
    kinds: Sequence[Kind]
    """Messages and records where it is left out."""
    role: Role | None
    type: str | None
    """Only messages that have a block of this type."""


_NO_LIMITS = {"after": 0, "before": END, "limit": 100, "role": None, "type": None, "bytes": MAX_PAGE_BYTES}


async def append(
    conn: AsyncConnection,
    session_id: UUID,
    messages: Sequence[PreparedMessage],
    *,
    expected_sequence: int | None = None,
    ends: bool = False,
) -> list[Appended]:
    """Stores all of them or none, with the events that they give, in one transaction.

    A message that is stored already is answered with the sequence it has, so an append whose answer was lost
    may be repeated. The expected sequence is the last one the writer saw; it counts where anything is new. `ends`
    closes what is open behind them: nothing follows.
    """
    _check(messages)
    async with one_transaction(conn):
        counters, stored = await _lock(conn, session_id, messages)
        last = counters.message_sequence
        places = _place(messages, last, stored)
        new = [message for message, place in zip(messages, places, strict=True) if place.created]
        if new:
            _check_expected(expected_sequence, last)
        if new or ends:
            await _write(conn, session_id, counters, new, ends=ends)
    return places


async def list_messages(
    conn: AsyncConnection, session_id: UUID, **page: Unpack[MessageFilter]
) -> list[StoredMessage]:
    """Raises SessionNotFound."""
    wanted = {"session_id": session_id, **_wanted(page)}
    backwards = page.get("before") is not None
    found = await _read(conn, _LAST if backwards else _FIRST, wanted)
    if not found:
        await get_session(conn, session_id)
    return found[::-1] if backwards else found


async def list_lines(  # noqa: PLR0913  # one argument per bound
    conn: AsyncConnection,
    session_id: UUID,
    *,
    after: int = 0,
    before: int = END,
    limit: int,
    max_bytes: int = MOST_TOGETHER,
    kinds: Sequence[Kind] = ("message", "record"),
) -> list[StoredMessage]:
    """The next messages behind a sequence, as many as can be read together. An unknown session yields nothing."""
    bounds = {"after": after, "before": before, "limit": limit, "bytes": max_bytes}
    wanted = {"session_id": session_id, "kinds": list(kinds), **bounds}
    return await _read(conn, _FIRST, {**_NO_LIMITS, **wanted})


async def get_message(conn: AsyncConnection, session_id: UUID, sequence: int) -> StoredMessage:
    """Raises SessionNotFound or MessageNotFound."""
    found = await _read(conn, _ONE, [session_id, min(max(0, sequence), END)])
    if not found:
        await get_session(conn, session_id)
        raise MessageNotFound
    return found[0]


async def get_contents(conn: AsyncConnection, session_id: UUID, ids: Sequence[str]) -> dict[str, str]:
    """The texts of those of these messages that are stored, by id."""
    found = await conn.execute(_STORED, [session_id, list(ids)], binary=True)
    return {row[0]: row[2] for row in await found.fetchall()}


async def stream_messages(
    conn: AsyncConnection,
    session_id: UUID,
    *,
    after: int = 0,
    kinds: Sequence[Kind] = ("message", "record", "chunk"),
) -> AsyncGenerator[StoredMessage, None]:
    """All of them in order, as they were at one moment, in bounded memory. An unknown session yields nothing.

    The connection is taken until the end, or until the generator is closed (`contextlib.aclosing`).
    """
    # Not a cursor: it fetches a number of messages, however large, and with a number that is safe, round trips take
    # more than half of the time. Not `cursor.stream()` either: libpq stays in its mode for the pipeline that comes
    # next, which then fails.
    async with conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        while found := await list_lines(conn, session_id, after=after, limit=_FETCHED, kinds=kinds):
            after = found[-1].sequence
            for message in found:
                yield message


def to_message(session_id: UUID, stored: StoredMessage) -> Message:
    """The message with its content read."""
    return Message(
        id=stored.id,
        session_id=str(session_id),
        role=stored.role,
        kind=stored.kind,
        source=stored.source,
        content=stored.content,
        sequence=stored.sequence,
        created_at=stored.created_at,
        parsed=parse_message_content(stored.content, stored.source),
    )


def _check(messages: Sequence[PreparedMessage]) -> None:
    given: set[str] = set()
    for index, message in enumerate(messages):
        if not 1 <= len(message.id) <= 255:
            raise InvalidId(index=index)
        check_text(message.id, "the id", index)
        check_text(message.described.source, "the source", index)
        check_text(message.content, "the message", index)
        if message.given and message.id in given:
            raise DuplicateInBatch(index=index)
        if message.given:
            given.add(message.id)


class _Stored(NamedTuple):
    sequence: int
    content: str


async def _lock(
    conn: AsyncConnection, session_id: UUID, messages: Sequence[PreparedMessage]
) -> tuple[Counters, dict[str, _Stored]]:
    """The counters, which nobody else can change now, and what is stored already of these messages."""
    locked = await conn.execute(LOCK, [session_id])
    stored = await conn.execute(_STORED, [session_id, [message.id for message in messages]])
    counters = await counters_of(locked)
    return counters, {row[0]: _Stored(*row[1:]) for row in await stored.fetchall()}


def _place(messages: Sequence[PreparedMessage], last: int, stored: dict[str, _Stored]) -> list[Appended]:
    known = dict(stored)
    places = []
    for index, message in enumerate(messages):
        created = message.id not in known
        if created:
            last += 1
            known[message.id] = _Stored(last, message.content)
        elif known[message.id].content != message.content:
            raise IdConflict(index=index)
        places.append(Appended(message.id, known[message.id].sequence, created))
    return places


def _check_expected(expected: int | None, last: int) -> None:
    if expected not in (None, last):
        raise SequenceMismatch(f"the last sequence is {last}", currentSequence=last)


async def _write(
    conn: AsyncConnection, session_id: UUID, counters: Counters, new: Sequence[PreparedMessage], *, ends: bool
) -> None:
    # The messages first, so that PostgreSQL writes them while their events are derived.
    await _write_messages(conn, session_id, counters.message_sequence, new)
    await _write_events(conn, session_id, counters, new, ends=ends)


async def _write_messages(
    conn: AsyncConnection, session_id: UUID, last: int, new: Sequence[PreparedMessage]
) -> None:
    described = [message.described for message in new]
    values = {
        "session_id": session_id,
        "last": last,
        "parser_version": PARSER_VERSION,
        "ids": [message.id for message in new],
        "contents": [message.content for message in new],
        "roles": [each.role for each in described],
        "kinds": [each.kind for each in described],
        "sources": [each.source for each in described],
        "block_types": [",".join(each.block_types) for each in described],
        "digests": [each.digest for each in described],
        "roles_given": [message.role_given for message in new],
        "sources_given": [message.source_given for message in new],
        **facts_of(described)._asdict(),
    }
    await conn.execute(_WRITE, values)
    await insert_drift(conn, session_id, starmap(Placed, enumerate(described, last + 1)))


async def _write_events(
    conn: AsyncConnection, session_id: UUID, counters: Counters, new: Sequence[PreparedMessage], *, ends: bool
) -> None:
    last, normalizer = counters.message_sequence, Normalizer(state=counters.normalizer_state)
    is_large = sum(len(message.content) for message in new) > _LARGE
    events = await _aside(is_large, lambda: _derived(normalizer, session_id, last, new))
    if ends:
        posted = "" if new else await last_posted(conn, session_id, last)
        events += ending(normalizer, session_id, last + len(new), posted)
    events = list(await with_free_ids(conn, session_id, events))
    written = await _aside(is_large, lambda: columns(events))
    await write_events(conn, session_id, counters, written, normalizer.state(), messages=len(new))


def _derived(
    normalizer: Normalizer, session_id: UUID, last: int, new: Sequence[PreparedMessage]
) -> list[PreparedEvent]:
    now = milliseconds()
    if not last:
        normalizer.expect((message.line for message in new), now)
    return [
        event
        for sequence, message in enumerate(new, last + 1)
        for event in derive(normalizer, session_id, sequence, message.line, now)
    ]


async def _aside(is_large: bool, work: Callable[[], T]) -> T:
    """What it gives; others are answered meanwhile where it takes long."""
    return await asyncio.to_thread(work) if is_large else work()


def _wanted(page: MessageFilter) -> dict[str, Any]:
    wanted = check_options(page)
    check_text(wanted.get("role", ""), "role")
    check_text(wanted.get("type", ""), "type")
    return {**_NO_LIMITS, **wanted, "kinds": list(wanted.get("kinds", ("message", "record")))}


async def _read(
    conn: AsyncConnection, query: str, wanted: Sequence[Any] | Mapping[str, Any]
) -> list[StoredMessage]:
    async with conn.cursor(binary=True, row_factory=args_row(StoredMessage)) as cursor:
        await cursor.execute(query, wanted)
        return await cursor.fetchall()
