"""Derive events and write them as rows, for appends, posts and rebuilds.

The row lock of the session's counters orders the session: a writer takes it before it reads and holds it until it
commits.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import count
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID, uuid5

from psycopg import AsyncConnection, AsyncCursor

from ash_server.errors import SessionNotFound
from ash_server.ids import named_ids
from ash_server.store.connections.driver import execute_numbered
from ash_server.store.log import kept_states, open_texts, tool_calls, totals
from ash_server.store.log.derived import Derived
from ash_server.store.log.kept_states import DerivedState, KeptState
from ash_server.store.log.stored_json import StoredJson, encode_text, encode_whole, encoder_of
from ash_server.store.log.tool_calls import NewFacts, encode_calls, write_calls
from ash_server.store.pagination import stored_query
from ash_server.store.session_facts import RecordFacts
from ash_server.store.statements import number_parameters, statements
from ash_server.store.text import storable
from ash_server.store.usage.answers import (
    SentAnswers,
    count_again,
    finish_answers,
    send_answers,
)
from ash_shared.eventlog import NORMALIZER_VERSION, Context, Event, Line, Normalizer
from ash_shared.eventlog.normalizer import SavedState
from ash_shared.eventlog.state import OpenTextMissing
from ash_shared.model.event_types import CATALOGUE, CHUNKS, ChunkGroup
from ash_shared.model.events import failure_of
from ash_shared.records.steps import Part

T = TypeVar("T")

EventOrigin = Literal["line", "posted", "end"]

SQL = statements(
    __file__, written_calls=tool_calls.SQL.written_calls, counter_sums=tool_calls.SQL.counter_sums
)

_INSERT_EVENTS_AND_CALLS = number_parameters(SQL.insert_events_and_calls)

FIND_STORED_EVENTS = stored_query("events", "explicit_id", "stored_json")
"""By id, the sequence and JSON of stored events with an id of their own; NULL if archived. They are stored whole."""


class PreparedEvent(NamedTuple):
    """An event ready for storage."""

    event: Event
    message_sequence: int = 0
    origin: EventOrigin = "posted"
    has_own_id: bool = True
    """True if the writer set the id, False if it was derived."""
    stored: StoredJson | None = None
    """Its JSON as stored; None: it is stored whole, and not yet encoded."""


class Counters(NamedTuple):
    """The locked row that orders a session."""

    message_sequence: int
    event_sequence: int
    normalizer_state: str | None
    normalizer_version: int | None
    may_have_chunks: bool
    """True if the log may have chunks."""
    totals: str
    totals_sequence: int
    kept_sequence: int
    kept_facts: str

    def after(self, rows: Mapping[str, Any]) -> "Counters":
        """Return the counters after `counters_after` with the parameters of `to_rows`."""
        kept = {name: self._asdict()[name] if rows[name] is None else rows[name] for name in _REPLACED}
        return self._replace(
            message_sequence=self.message_sequence + rows["messages"],
            event_sequence=self.event_sequence + rows["events"],
            normalizer_state=rows["state"],
            normalizer_version=self.normalizer_version if self.message_sequence else rows["version"],
            may_have_chunks=self.may_have_chunks or rows["may_have_chunks"],
            **kept,
        )

    @property
    def chain(self) -> kept_states.Chain:
        return kept_states.Chain(self.kept_sequence, self.kept_facts)


_REPLACED = ("totals", "totals_sequence", "kept_sequence", "kept_facts")
"""The counters that stay if they are NULL in `counters_after`."""


async def lock(conn: AsyncConnection, session_id: UUID) -> Counters:
    """Raises SessionNotFound."""
    return await read_counters(await conn.execute(SQL.lock_counters, [session_id]))


async def read_counters(locked: AsyncCursor) -> Counters:
    """Return the result of `lock_counters`. Raises SessionNotFound."""
    return Counters(*await _read_locked(locked))


async def read_counters_with_name(locked: AsyncCursor) -> tuple[Counters, str | None]:
    """Return the result of `lock_counters_with_name`. Raises SessionNotFound."""
    *counters, name = await _read_locked(locked)
    return Counters(*counters), name


async def read_counters_with_metadata(locked: AsyncCursor) -> tuple[Counters, str | None, str]:
    """Return the result of `lock_counters_with_metadata`. Raises SessionNotFound."""
    *counters, name, metadata = await _read_locked(locked)
    return Counters(*counters), name, metadata


async def _read_locked(locked: AsyncCursor) -> tuple[Any, ...]:
    row = await locked.fetchone()
    if not row:
        raise SessionNotFound
    return row


class StreamIds(NamedTuple):
    """The ids of the caller for the turn and the response of the lines of an append."""

    turn_id: str | None = None
    response_id: str | None = None


class Saved(NamedTuple):
    """The state and the usage to store with events."""

    state: SavedState
    answers: Sequence[SentAnswers]
    calls: Sequence[str]
    """Tool calls and results as JSON."""
    facts: NewFacts
    changes_usage: bool


async def with_normalizer(
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    derive_events: Callable[[Normalizer, Derived], Awaitable[list[PreparedEvent]]],
    lines: Iterable[Line] = (),
) -> tuple[list[PreparedEvent], Saved]:
    """Return the events, and what is saved with them.

    The beginnings of open texts are read only if such a text ends. `lines` are the lines of the events; most show
    whether they end an open text.
    """
    normalizer, derived = Normalizer(state=counters.normalizer_state), Derived()
    try:
        normalizer.check_open_texts(lines)
        events = await derive_events(normalizer, derived)
    except OpenTextMissing:
        texts = await open_texts.read(conn, session_id)
        normalizer, derived = Normalizer(state=counters.normalizer_state, open_texts=texts), Derived()
        events = await derive_events(normalizer, derived)
    return events, await save(conn, session_id, normalizer, derived)


async def save(conn: AsyncConnection, session_id: UUID, normalizer: Normalizer, derived: Derived) -> Saved:
    """Return what `write_events` saves. PostgreSQL stores answers while the caller describes the events."""
    now = milliseconds()
    answers = await send_answers(conn, session_id, derived.answers, now)
    changes_usage = bool(answers or derived.answers.settled_turns)
    return Saved(normalizer.save(), answers, encode_calls(derived.facts, now), derived.facts, changes_usage)


def derive(  # noqa: PLR0913  # one argument per input
    normalizer: Normalizer,
    session_id: UUID,
    sequence: int,
    line: Line,
    now: int,
    ids: StreamIds = StreamIds(),  # noqa: B008  # immutable
    *,
    text: str | None = None,
    derived: Derived | None = None,
) -> list[PreparedEvent]:
    """Return the encoded events of a message, and add what else it states to `derived`.

    `now` is the timestamp of events if their record has none; `text` is the text of the message if it is stored too.
    """
    new_id = _id_generator(session_id, f"{sequence}/")
    context = Context(session_name(session_id), new_id, lambda: now, *ids)
    events = normalizer.follow(line, context)
    if derived is not None:
        derived.add(normalizer, sequence)
    if not events:
        return []
    has_own_id = any(isinstance(step, Part) and step.relation == "event" for step in line.steps)
    encode = encode_whole if text is None or has_own_id else encoder_of(text)
    return [PreparedEvent(event, sequence, "line", has_own_id, encode(event)) for event in events]


def ending(
    normalizer: Normalizer,
    session_id: UUID,
    sequence: int,
    posted: str = "",
    now: int | None = None,
    *,
    derived: Derived | None = None,
) -> list[PreparedEvent]:
    """Return the events that close everything open after message `sequence` and the events posted since.

    `posted` is the id of the last of these; empty without any. The new ids are derived from both arguments, which a
    rebuild does not change. They are unique: nothing can open between two ends at the same position.
    """
    timestamp = milliseconds() if now is None else now
    place = f"{sequence}/end/{posted}/" if posted else f"{sequence}/end/"
    context = Context(session_name(session_id), _id_generator(session_id, place), lambda: timestamp)
    events = [PreparedEvent(event, sequence, "end", has_own_id=False) for event in normalizer.close(context)]
    if derived is not None:
        derived.add(normalizer, sequence)
    return events


async def last_posted(conn: AsyncConnection, session_id: UUID, sequence: int) -> str:
    """Return the id of the last event posted since the last message, `sequence`; empty if there is none."""
    row = await (await conn.execute(SQL.find_last_posted, [sequence, session_id])).fetchone()
    return (row[0] if row else None) or ""


def _id_generator(session_id: UUID, place: str) -> Callable[[], str]:
    """Return a function that returns the ids named `f"{place}{n}"`, with n from 0."""
    derive_id, numbers = named_ids(session_id), count()
    return lambda: derive_id(f"{place}{next(numbers)}")


def session_name(session_id: UUID) -> str:
    """Return the id as text."""
    return _session_name(session_id.int)  # as in `named_ids`


@lru_cache(maxsize=256)
def _session_name(number: int) -> str:
    return str(UUID(int=number))


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


async def set_inherited(conn: AsyncConnection, session_id: UUID, messages: int) -> None:
    """Store how many first messages are another session's by the transcript itself, wherever that session is."""
    await conn.execute(SQL.set_inherited, [messages, session_id])
    await count_again(conn, session_id)


async def write_events(  # noqa: PLR0913  # one argument per table
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    events: Sequence[PreparedEvent],
    saved: Saved,
    *,
    messages: int = 0,
    states: Sequence[DerivedState] = (),
    facts: Sequence[RecordFacts] = (),
) -> Counters:
    """Append events, update the counters, and save what the normaliser has derived beside them, under the lock.

    `messages` is the number of messages stored with the events. `facts` are the facts of those up to each of `states`,
    and of the rest. Returns the counters after.
    """
    params, new_states = await to_rows(
        conn, session_id, counters, events, saved, messages=messages, states=states, facts=facts
    )
    await kept_states.insert(conn, session_id, new_states)
    await _insert_events(conn, params, saved.calls)
    await open_texts.write(conn, session_id, saved.state)
    await finish_answers(conn, session_id, saved.answers)
    return counters.after(params)


async def to_rows(  # noqa: PLR0913  # one argument per table
    conn: AsyncConnection,
    session_id: UUID,
    counters: Counters,
    events: Sequence[PreparedEvent],
    saved: Saved,
    *,
    messages: int,
    states: Sequence[DerivedState] = (),
    facts: Sequence[RecordFacts],
) -> tuple[dict[str, Any], Sequence[KeptState]]:
    """Return the parameters of the statements for events and counters, and the states to keep."""
    rows = columns(events, may_have_chunks=counters.may_have_chunks)
    kept = totals.KeptTotals(counters.totals, counters.totals_sequence)
    new = [(each.event, each.message_sequence if each.origin == "line" else None) for each in events]
    before, last, written = counters.message_sequence, counters.event_sequence, len(events)
    derived = [*states, DerivedState(before + messages, written, saved.state.state)]
    ends = [last + each.events for each in derived]
    added = await totals.follow(conn, session_id, kept, last, new, ends)
    chain: kept_states.Chain | None = None
    new_states: Sequence[KeptState] = ()
    if facts:
        known = {each.sequence: each.totals for each in added}
        placed = [
            KeptState(each.message_sequence, end, each.state, known.get(end, ""), facts="")
            for each, end in zip(derived, ends, strict=True)
        ]
        chain, new_states = kept_states.follow(counters.chain, before, placed, facts)
    return {
        "session_id": session_id,
        "messages": messages,
        "events": written,
        "last_event": counters.event_sequence,
        "state": saved.state.state,
        "version": NORMALIZER_VERSION,
        "prompts": saved.facts.prompts,
        "turns": saved.facts.turns,
        "active_ms": saved.facts.active_ms,
        "totals": added[-1].totals if added else None,
        "totals_sequence": added[-1].sequence if added else None,
        "kept_sequence": chain and chain.sequence,
        "kept_facts": chain and chain.facts,
        "changes_usage": saved.changes_usage,
        **rows,
        **{name: without_nulls(rows[name]) for name in _SPARSE_COLUMNS},
    }, new_states


async def _insert_events(conn: AsyncConnection, params: Mapping[str, Any], calls: Sequence[str]) -> None:
    """Insert events and calls, and update the counters."""
    if not params["events"]:
        await write_calls(conn, params["session_id"], calls)
        await conn.execute(SQL.update_counters, params)
    elif calls:
        *earlier, last = calls
        await write_calls(conn, params["session_id"], earlier)
        await execute_numbered(conn, _INSERT_EVENTS_AND_CALLS, {**params, "calls": last})
    else:
        await conn.execute(SQL.insert_events_and_update_counters, params)


_SPARSE_COLUMNS = ("explicit_ids", "chunk_groups", "text_ranges")
"""The columns that are often NULL in all rows of an append."""


def columns(new: Sequence[PreparedEvent], *, may_have_chunks: bool = False) -> dict[str, Any]:
    """Return the columns of the new rows as lists, and the numbers to add to the counters.

    Groups of chunks are indexed, so they are left out if there are no chunks in the log (`may_have_chunks`) or
    among the new events. Posted events keep theirs: a rebuild, which may derive chunks before them, does not compute
    them again.
    """
    events = [each.event for each in new]
    stored = [each.stored or encode_whole(each.event) for each in new]
    shared = _columns_of_types(events)
    has_groups = may_have_chunks or shared["may_have_chunks"]
    return {
        **shared,
        "message_sequences": [each.message_sequence for each in new],
        "origins": [each.origin for each in new],
        "explicit_ids": [each.event["id"] if each.has_own_id else None for each in new],
        "chunk_groups": [
            _chunk_group(each.event) if has_groups or each.origin == "posted" else None for each in new
        ],
        "stored_jsons": [each.json for each in stored],
        "text_ranges": [each.ranges for each in stored],
        "event_ids": [each.event_id for each in stored],
        "event_times": [each.event_time for each in stored],
    }


def without_nulls(column: list[T | None]) -> list[T | None] | None:
    """Return a column for `unnest`; None if all its values are NULL, which takes less time to send and to read."""
    return None if column.count(None) == len(column) else column


def posted_columns(events: Sequence[Event]) -> dict[str, Any]:
    """Return the `columns` that posted events need. These are stored whole."""
    return {
        **_columns_of_types(events),
        "explicit_ids": [event["id"] for event in events],
        "chunk_groups": list(map(_chunk_group, events)),
        "stored_jsons": [encode_text(event) for event in events],
    }


def _columns_of_types(events: Sequence[Event]) -> dict[str, Any]:
    names = [event["type"] for event in events]
    types = {name: storable(name) for name in set(names)}
    issues = IssueCounts() if _ISSUES.keys().isdisjoint(types) else IssueCounts().add(events)
    return {
        "types": [types[name] for name in names],
        "may_have_chunks": not CHUNKS.isdisjoint(types),
        **issues._asdict(),
    }


class IssueCounts(NamedTuple):
    """Numbers of errors and of unrecognised records among events."""

    errors: int = 0
    unrecognised: int = 0

    def add(self, events: Iterable[Event]) -> "IssueCounts":
        errors, unrecognised = self
        for event in events:
            issue = _ISSUES.get(event["type"])
            errors += issue == "error" or (issue == "failure" and failure_of(event["payload"]) is not None)
            unrecognised += issue == "unrecognised"
        return IssueCounts(errors, unrecognised)


_ISSUES = {name: row.issue for name, row in CATALOGUE.items() if row.issue is not None}


async def resolve_id_conflicts(
    conn: AsyncConnection, session_id: UUID, new: Sequence[PreparedEvent]
) -> Sequence[PreparedEvent]:
    """Replace ids that stored lines contain if they are in use or cannot be stored; derive new ids from the line."""
    own_ids = [each.event["id"] for each in new if each.has_own_id and _is_storable(each)]
    if not any(each.has_own_id for each in new):
        return new
    stored = await conn.execute(FIND_STORED_EVENTS, [own_ids, session_id])
    taken, numbers = {row[0] for row in await stored.fetchall()}, count()
    resolved = list[PreparedEvent]()
    for each in new:
        if each.has_own_id and (each.event["id"] in taken or not _is_storable(each)):
            id = str(uuid5(session_id, f"{each.message_sequence}/taken/{next(numbers)}"))
            resolved.append(each._replace(event={**each.event, "id": id}, has_own_id=False, stored=None))
        else:
            taken.update([each.event["id"]] if each.has_own_id else ())
            resolved.append(each)
    return resolved


def _is_storable(new: PreparedEvent) -> bool:
    id: str = new.event["id"]
    return storable(id) == id


def _chunk_group(event: Event) -> str | None:
    group = _CHUNK_GROUPS.get(event["type"])
    if group is None:
        return None
    key, payload = group.kind, event["payload"]
    for name in group.fields:
        key += f"\0{event.get(name) or payload.get(name) or ''}"
    return _group_digest(key)


@lru_cache(maxsize=1024)
def _group_digest(key: str) -> str:
    return blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()


_CHUNK_GROUPS: Mapping[str, ChunkGroup] = {
    name: group
    for name, row in CATALOGUE.items()
    if (group := CATALOGUE[row.chunk_of or name].chunks) is not None
}
"""Kind and key fields of the group of an event. A complete event supersedes the earlier chunks of its group."""
