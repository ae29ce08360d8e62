"""Delete one message: its text and everything derived from it. Its place stays, so that no sequence is used again.

Afterwards the session is as if the message had never been stored, except for the tombstone and the retraction that
tells readers. The log is derived twice, with and without the message, to see whether other events depend on it: the
whole text of a stream contains its chunks, a prompt begins a turn, and of two copies only one has events. If none does,
the events of the message are emptied where they are. Otherwise the log is rebuilt, and begins with a `reset`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.ids import uuid7_text
from ash_server.offload import offload
from ash_server.store.log import open_texts
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import append_events
from ash_server.store.log.rebuild import End, StoredInput, StoredLine, UnderivedEvent, rebuild_locked
from ash_server.store.log.stored_json import event_json
from ash_server.store.log.tool_calls import replace_facts
from ash_server.store.log.writer import (
    Counters,
    IssueCounts,
    PreparedEvent,
    derive,
    ending,
    lock,
    milliseconds,
)
from ash_server.store.maintenance import reindex
from ash_server.store.maintenance.own_prompts import name_by_own_prompt
from ash_server.store.message_pages import StoredMessage, find_last, find_message, set_by_writer
from ash_server.store.session_facts import RecordFacts, collect_facts
from ash_server.store.statements import statements
from ash_server.store.usage.answers import replace_answers
from ash_shared.eventlog import NORMALIZER_VERSION, Event, Line, Normalizer, line_of
from ash_shared.eventlog.normalizer import SavedState
from ash_shared.model.message import Description
from ash_shared.parsing.describe import describe_parsed
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.records.inherited import InheritedRecords

SQL = statements(__file__, event_json=event_json())

REASON = "deleted"
"""The `reason` of the retractions."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


async def delete_message(conn: AsyncConnection, session_id: UUID, sequence: int) -> StoredMessage | None:
    """Delete a message and return it as it was; None if it was deleted before.

    Raises SessionNotFound, MessageNotFound.
    """
    async with conn.transaction():
        counters = await lock(conn, session_id)
        message = await find_message(conn, session_id, sequence)
        if message.kind == "deleted":
            return None
        await _delete(conn, session_id, counters, message)
    return message


async def delete_last_message(conn: AsyncConnection, session_id: UUID) -> StoredMessage | None:
    """Delete the last message or record and return it; None if there is none. Raises SessionNotFound."""
    async with conn.transaction():
        counters = await lock(conn, session_id)
        message = await find_last(conn, session_id)
        if message is not None:
            await _delete(conn, session_id, counters, message)
    return message


async def _delete(
    conn: AsyncConnection, session_id: UUID, counters: Counters, message: StoredMessage
) -> None:
    await conn.execute(SQL.lock_words, [session_id])
    removed = await _events_of(conn, session_id, message.sequence)
    rest = await _derive_rest(conn, session_id, counters, message.sequence)
    await conn.execute(SQL.clear_message, [session_id, message.sequence])
    await conn.execute(SQL.delete_drift, [session_id, message.sequence])
    await conn.execute(reindex.SQL.replace_facts, {"session_id": session_id, **rest.facts._asdict()})
    await name_by_own_prompt(conn, session_id)
    if rest.is_changed:
        await conn.execute(SQL.delete_all_words, [session_id, counters.event_sequence])
        await rebuild_locked(conn, session_id, counters)
    else:
        await _empty(conn, session_id, removed)
        await replace_answers(conn, session_id, rest.derived.answers, milliseconds())
        await replace_facts(conn, session_id, rest.derived.facts, milliseconds())
        await _save_state(conn, session_id, rest.state)
    ids = [event["id"] for _, _, event in removed]
    payload = {"eventIds": ids, "messageSequences": [message.sequence], "reason": REASON}
    await append_events(conn, session_id, [{"id": uuid7_text(), "type": "retraction", "payload": payload}])


async def _events_of(
    conn: AsyncConnection, session_id: UUID, sequence: int
) -> Sequence[tuple[int, bool, Event]]:
    """Return the events of a message, each with its sequence and whether its beginning is in columns."""
    message = {"session_id": session_id, "sequence": sequence}
    rows = await (await conn.execute(SQL.list_events_of_message, message, binary=True)).fetchall()
    return [(number, has_columns, _decode(content)) for number, has_columns, content in rows]


async def _empty(conn: AsyncConnection, session_id: UUID, removed: Sequence[tuple[int, bool, Event]]) -> None:
    """Replace events by retractions of themselves: sequences have no gap, and ids remain valid as cursors."""
    sequences = [sequence for sequence, _, _ in removed]
    fields = [_emptied(event, has_columns=has_columns) for _, has_columns, event in removed]
    issues = IssueCounts().add(event for _, _, event in removed)
    await conn.execute(SQL.replace_with_retractions, [sequences, fields, session_id])
    await conn.execute(SQL.delete_words, [session_id, sequences])
    if any(issues):
        await conn.execute(SQL.subtract_issues, [*issues, session_id])


def _emptied(event: Event, *, has_columns: bool) -> str:
    payload = {"payload": {"eventIds": [event["id"]], "reason": REASON}}
    if has_columns:
        return _encode(payload).decode()[1:]
    head = {name: event[name] for name in ("id", "timestamp", "sessionId")}
    return _encode({**head, "type": "retraction", **payload}).decode()


class _Rest(NamedTuple):
    """The facts and the usage of a session without a deleted message."""

    facts: RecordFacts
    derived: Derived
    is_changed: bool
    """True if their events differ without the message."""
    state: SavedState | None = None
    """The state after them; None if it stays as it is."""


async def _save_state(conn: AsyncConnection, session_id: UUID, saved: SavedState | None) -> None:
    if saved is not None:
        await conn.execute(SQL.set_normalizer_state, [saved.state, session_id])
        await open_texts.delete(conn, session_id)
        await open_texts.write(conn, session_id, saved)


async def _derive_rest(conn: AsyncConnection, session_id: UUID, counters: Counters, sequence: int) -> _Rest:
    both = _Comparison(session_id, sequence)
    await both.run(StoredInput(conn, session_id, counters.event_sequence))
    derived = both.facts, both.derived
    if both.differ or counters.normalizer_version != NORMALIZER_VERSION:
        return _Rest(*derived, is_changed=True)
    before, after = both.states()
    if before == after:
        return _Rest(*derived, is_changed=False)
    texts = await open_texts.read(conn, session_id)
    stored_state = Normalizer(state=counters.normalizer_state, open_texts=texts).state()
    if _comparable(stored_state) != _comparable(before):  # with ids of turns from the writer, for example
        return _Rest(*derived, is_changed=True)
    return _Rest(*derived, is_changed=False, state=Normalizer(state=after).save())


def _read(stored: StoredLine) -> tuple[Description, Line]:
    source, role = set_by_writer(stored)
    parsed = parse_raw(stored.content, source)
    described = describe_parsed(parsed, source)
    return described, line_of(parsed, source, role, header=described.header)


def _comparable(state: str | None) -> Mapping[str, Any]:
    """Return a state without the fields that depend on the time and the number of appends."""
    fields: dict[str, Any] = _decode(state or "{}")
    return {name: fields[name] for name in fields if name not in ("clock_lag", "stored_texts")}


class _Comparison:
    """Derives a log twice, with and without a message."""

    def __init__(self, session_id: UUID, sequence: int) -> None:
        self.differ = False
        """True if the events of other messages are not the same."""
        self.facts = RecordFacts()
        """Facts from the other messages."""
        self.derived = Derived()
        """Usage and facts in the other messages."""
        self._inherited = InheritedRecords()
        self._session_id = session_id
        self._sequence = sequence
        self._full = Normalizer()
        self._rest = self._full
        """The same one up to the message."""

    async def run(self, stored: StoredInput) -> None:
        await stored.announce(self._full)
        now = 0
        async with aclosing(stored.entries()) as entries:
            async for entry in entries:
                match entry:
                    case StoredLine():
                        now = entry.now
                        self._derive(entry, *await offload(_read, entry))
                    case UnderivedEvent():
                        self._observe(entry)
                    case End():
                        self._end(entry, now)

    def states(self) -> tuple[str | None, str | None]:
        return self._full.state(), self._rest.state()

    def _derive(self, stored: StoredLine, described: Description, line: Line) -> None:
        sequence, now = stored.sequence, stored.now
        if sequence == self._sequence:
            self._rest = Normalizer(state=self._full.state())
            derive(self._full, self._session_id, sequence, line, now)
        else:
            self.facts = self.facts.merge(collect_facts([described], self._inherited))
            place = self._session_id, sequence
            self._compare(lambda target, derived: derive(target, *place, line, now, derived=derived))

    def _observe(self, posted: UnderivedEvent) -> None:
        if posted.content is not None:
            event = _decode(posted.content)
            for normalizer in {self._full, self._rest}:
                normalizer.observe(event)
            self.derived.add(self._rest, None)

    def _end(self, place: End, now: int) -> None:
        self._compare(lambda target, derived: ending(target, self._session_id, *place, now, derived=derived))

    def _compare(self, derive_events: Callable[[Normalizer, Derived | None], list[PreparedEvent]]) -> None:
        if self.differ:
            return
        events = derive_events(self._rest, self.derived)
        self.differ = self._rest is not self._full and derive_events(self._full, None) != events
