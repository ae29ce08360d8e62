"""Delete one message: its text and everything derived from it. Its place stays, so that no sequence is used again.

Afterwards the session is as if the message had never been stored, except for the tombstone and the retraction that
tells readers. The log is derived twice, with and without the message, to see whether other events depend on it: the
whole text of a stream contains its chunks, a prompt begins a turn, and of two copies only one has events. If none does,
the events of the message are emptied where they are. Otherwise the log is rebuilt, and begins with a `reset`.

All this is derived without a lock, so appends do not wait for it. One transaction then derives what was appended
meanwhile, and deletes the message.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.ids import uuid7_text
from ash_server.offload import offload
from ash_server.store.log import open_texts, totals
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import append_events
from ash_server.store.log.rebuild import (
    MAX_TRIES,
    End,
    NewLog,
    StoredInput,
    StoredLine,
    UnderivedEvent,
    derive_unlocked,
    is_same_log,
    read_end,
    read_place,
)
from ash_server.store.log.stored_json import event_json
from ash_server.store.log.tool_calls import replace_facts
from ash_server.store.log.totals import TotalsOfLog
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
from ash_shared.eventlog import NORMALIZER_VERSION, NOTED, Event, Line, Normalizer, line_of
from ash_shared.eventlog.facts.lines import NO_FACTS
from ash_shared.eventlog.normalizer import SavedState
from ash_shared.model.message import Description
from ash_shared.parsing.describe import describe_parsed
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.projections.item_counts import DELETED
from ash_shared.records.inherited import InheritedRecords

SQL = statements(__file__, event_json=event_json())

_MAX_POPPED = 20
"""Messages at the end that may be deleted by others while the last one is deleted."""

_BATCH_SIZE = 200
"""Messages with facts that are collected at once."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


async def delete_message(conn: AsyncConnection, session_id: UUID, sequence: int) -> StoredMessage | None:
    """Delete a message and return it as it was; None if it was deleted before.

    Raises SessionNotFound, MessageNotFound.
    """
    return await _delete(conn, session_id, lambda: find_message(conn, session_id, sequence))


async def delete_last_message(conn: AsyncConnection, session_id: UUID) -> StoredMessage | None:
    """Delete the last message or record and return it; None if there is none. Raises SessionNotFound."""
    return await _delete(conn, session_id, lambda: find_last(conn, session_id), is_last=True)


async def _delete(
    conn: AsyncConnection,
    session_id: UUID,
    find: Callable[[], Awaitable[StoredMessage | None]],
    *,
    is_last: bool = False,
) -> StoredMessage | None:
    """Derive the log without a lock, then delete the message under the lock.

    Begin again if the log has changed meanwhile, or if a later event turns out to depend on the message.
    """
    has_dependents = False
    for attempt in count(1):
        place = await read_place(conn, session_id)
        message = await find()
        if message is None or message.kind == "deleted":
            return None
        is_locked = attempt > MAX_TRIES
        with closing(_Deletion(conn, session_id, find if is_last and not has_dependents else None)) as work:
            if not is_locked:
                await work.derive_unlocked(message.sequence, has_dependents=has_dependents)
            async with conn.transaction():
                counters = await lock(conn, session_id)
                current = await find()
                if current is None or current.kind == "deleted":
                    return None
                if is_locked or (
                    work.can_delete(current.sequence) and await is_same_log(conn, session_id, place)
                ):
                    if await work.finish(counters, current.sequence, is_final=is_locked):
                        return current
                    has_dependents = True
    raise AssertionError


class _Deletion:
    """Deletes a message in two steps: most is derived without a lock, the rest under the lock."""

    def __init__(
        self,
        conn: AsyncConnection,
        session_id: UUID,
        find_last: Callable[[], Awaitable[StoredMessage | None]] | None,
    ) -> None:
        """`find_last` finds the message if it is the last one, which may be another one under the lock."""
        self._conn = conn
        self._session_id = session_id
        self._find_last = find_last
        self._derived_messages = 0
        """The last message derived without a lock that cannot be deleted any more."""
        self._sequence: int | None = None
        """The message that the derivation leaves out."""
        self._comparison = _Comparison(conn, session_id)
        self._new_log: NewLog | None = None
        """The log without the message, if other events differ."""
        self._facts = _FactsOfLines()
        """Facts from the messages of the new log."""

    def close(self) -> None:
        if self._new_log is not None:
            self._new_log.close()

    async def derive_unlocked(self, sequence: int, *, has_dependents: bool) -> None:
        conn, session_id = self._conn, self._session_id
        if self._find_last is not None:
            await derive_unlocked(conn, self._comparison, self._find_end)
            return
        self._sequence = self._comparison.sequence = sequence
        find_end = partial(read_end, conn, session_id)
        if not has_dependents:
            await derive_unlocked(conn, self._comparison, find_end)
        if has_dependents or self._comparison.differ:
            await derive_unlocked(conn, self._derive_again(sequence), find_end)

    def can_delete(self, sequence: int) -> bool:
        return sequence == self._sequence if self._find_last is None else sequence > self._derived_messages

    async def finish(self, counters: Counters, sequence: int, *, is_final: bool) -> bool:
        """Delete the message, under the lock and in the transaction of the caller.

        Unless `is_final`, return False if all messages would have to be derived again, and change nothing.
        """
        place, state = (counters.message_sequence, counters.event_sequence), None
        if self._new_log is None:
            self._comparison.sequence = sequence
            await self._comparison.derive_until(*place)
            state = await self._new_state(counters)
            if self._comparison.differ:
                if not is_final:
                    return False
                self._derive_again(sequence)
        if self._new_log is not None:
            await self._new_log.derive_until(*place)
        await self._delete(counters, sequence, state)
        return True

    async def _delete(self, counters: Counters, sequence: int, state: SavedState | None) -> None:
        conn, session_id = self._conn, self._session_id
        await conn.execute(SQL.lock_words, [session_id])
        removed = await _events_of(conn, session_id, sequence)
        await conn.execute(SQL.clear_message, [session_id, sequence])
        await conn.execute(SQL.delete_drift, [session_id, sequence])
        lines = self._comparison.facts if self._new_log is None else self._facts
        facts = lines.collect()._asdict()
        await conn.execute(reindex.SQL.replace_facts, {"session_id": session_id, **facts})
        await name_by_own_prompt(conn, session_id)
        if self._new_log is not None:
            await conn.execute(SQL.delete_all_words, [session_id, counters.event_sequence])
            await self._new_log.replace(counters)
        else:
            await _empty(conn, session_id, removed)
            await _save_state(conn, session_id, state)
            await totals.write(conn, session_id, self._comparison.totals.kept(counters.event_sequence))
            if self._comparison.has_stated:
                derived, now = self._comparison.derived, milliseconds()
                await replace_answers(conn, session_id, derived.answers, now)
                await replace_facts(conn, session_id, derived.facts, now)
        ids = [event["id"] for _, _, event in removed]
        payload = {"eventIds": ids, "messageSequences": [sequence], "reason": DELETED}
        await append_events(
            conn, session_id, [{"id": uuid7_text(), "type": "retraction", "payload": payload}]
        )

    def _derive_again(self, sequence: int) -> NewLog:
        self._new_log = NewLog(self._conn, self._session_id, read=self._facts.read, without=sequence)
        return self._new_log

    async def _find_end(self) -> tuple[int, int]:
        """Return a place before the last message, with some messages between them: others may be deleted, too."""
        assert self._find_last is not None
        last = await self._find_last()
        self._derived_messages = max(self._derived_messages, (last.sequence if last else 0) - _MAX_POPPED, 0)
        end = await self._conn.execute(SQL.find_last_event, [self._session_id, self._derived_messages])
        row = await end.fetchone()
        return self._derived_messages, row[0] if row else 0

    async def _new_state(self, counters: Counters) -> SavedState | None:
        """Return the state without the message; None if it stays as it is."""
        comparison = self._comparison
        if comparison.differ:
            return None
        if counters.normalizer_version != NORMALIZER_VERSION:
            comparison.differ = True
            return None
        before, after = comparison.states()
        if before == after:
            return None
        texts = await open_texts.read(self._conn, self._session_id)
        stored_state = Normalizer(state=counters.normalizer_state, open_texts=texts).state()
        if _comparable(stored_state) != _comparable(before):  # with ids of turns from the writer, for example
            comparison.differ = True
            return None
        return Normalizer(state=after).save()


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
    payload = {"payload": {"eventIds": [event["id"]], "reason": DELETED}}
    if has_columns:
        return _encode(payload).decode()[1:]
    head = {name: event[name] for name in ("id", "timestamp", "sessionId")}
    return _encode({**head, "type": "retraction", **payload}).decode()


async def _save_state(conn: AsyncConnection, session_id: UUID, saved: SavedState | None) -> None:
    if saved is not None:
        await conn.execute(SQL.set_normalizer_state, [saved.state, session_id])
        await open_texts.delete(conn, session_id)
        await open_texts.write(conn, session_id, saved)


class _FactsOfLines:
    """The facts of the messages that are read."""

    def __init__(self) -> None:
        self._facts = RecordFacts()
        self._inherited = InheritedRecords()
        self._described: list[Description] = []
        """The messages since the last merge."""

    def collect(self) -> RecordFacts:
        self._facts = self._facts.merge(collect_facts(self._described, self._inherited))
        self._described = []
        return self._facts

    def read(self, stored: StoredLine) -> Line:
        source, role = set_by_writer(stored)
        parsed = parse_raw(stored.content, source)
        described = describe_parsed(parsed, source)
        self._described.append(described)
        if len(self._described) >= _BATCH_SIZE:
            self.collect()
        return line_of(parsed, source, role, header=described.header)


def _comparable(state: str | None) -> Mapping[str, Any]:
    """Return a state without the fields that depend on the time and the number of appends."""
    fields: dict[str, Any] = _decode(state or "{}")
    return {name: fields[name] for name in fields if name not in ("clock_lag", "stored_texts")}


class _Comparison:
    """Derives a log twice, with and without a message, until the events of other messages differ."""

    def __init__(self, conn: AsyncConnection, session_id: UUID) -> None:
        self.sequence: int | None = None
        """The message, once it is known."""
        self.has_stated = False
        """True if usage or facts depend on the message."""
        self.differ = False
        """True if the events of other messages are not the same."""
        self.facts = _FactsOfLines()
        """Facts from the other messages."""
        self.derived = Derived()
        """Usage and facts in the other messages."""
        self.totals = TotalsOfLog()
        """Totals of the other events."""
        self._input = StoredInput(conn, session_id)
        self._session_id = session_id
        self._full = Normalizer()
        self._rest = self._full
        """The same one up to the message."""
        self._now = 0

    async def derive_until(self, last_message: int, last_event: int) -> None:
        await self._input.announce(self._full)
        async with aclosing(self._input.entries(last_message, last_event)) as entries:
            async for entry in entries:
                match entry:
                    case StoredLine():
                        await self._derive(entry)
                    case UnderivedEvent():
                        self._observe(entry)
                    case End():
                        self._compare(partial(self._end, entry))
                if self.differ:
                    return

    def states(self) -> tuple[str | None, str | None]:
        return self._full.state(), self._rest.state()

    async def _derive(self, stored: StoredLine) -> None:
        self._now = stored.now
        if stored.sequence == self.sequence:
            self._rest = Normalizer(state=self._full.state())
            line = await offload(StoredLine.read, stored)
            derive(self._full, self._session_id, stored.sequence, line, stored.now)
            self.has_stated = bool(self._full.answers) or self._full.facts != NO_FACTS
        else:
            line = await offload(self.facts.read, stored)
            self._compare(partial(self._derive_line, stored, line))

    def _derive_line(
        self, stored: StoredLine, line: Line, target: Normalizer, derived: Derived | None
    ) -> list[PreparedEvent]:
        return derive(target, self._session_id, stored.sequence, line, stored.now, derived=derived)

    def _observe(self, posted: UnderivedEvent) -> None:
        event = _decode(posted.content)
        self.totals.add([event])
        if posted.type in NOTED:
            for normalizer in {self._full, self._rest}:
                normalizer.observe(event)
            self.derived.add(self._rest, None)
            self._compare_stated()

    def _end(self, place: End, target: Normalizer, derived: Derived | None) -> list[PreparedEvent]:
        return ending(target, self._session_id, *place, self._now, derived=derived)

    def _compare(self, derive_events: Callable[[Normalizer, Derived | None], list[PreparedEvent]]) -> None:
        events = derive_events(self._rest, self.derived)
        self.totals.add(each.event for each in events)
        if self._rest is self._full:
            return
        self.differ = derive_events(self._full, None) != events
        self._compare_stated()

    def _compare_stated(self) -> None:
        stated, other = [(each.answers, each.facts) for each in (self._full, self._rest)]
        self.has_stated = self.has_stated or stated != other
