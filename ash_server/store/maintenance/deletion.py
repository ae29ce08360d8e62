"""Delete one message: its text and everything derived from it. Its place stays, so that no sequence is used again.

Afterwards the session is as if the message had never been stored, except for the tombstone and the retraction that
tells readers. The log is derived twice, with and without the message, to see whether other events depend on it: the
whole text of a stream contains its chunks, a prompt begins a turn, and of two copies only one has events. If none does,
the events of the message are emptied where they are. Otherwise the log is rebuilt, and begins with a `reset`.

The derivation begins with a kept state before the message, and ends at one that is the same without it, or else at the
end of the log. All this is done without a lock, so appends do not wait for it. One transaction then derives what was
appended meanwhile, and deletes the message.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.ids import uuid7_text
from ash_server.offload import offload
from ash_server.store.log import kept_states, open_texts, totals
from ash_server.store.log.derived import Derived
from ash_server.store.log.events import append_events
from ash_server.store.log.kept_states import KeptState, NewStates
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
from ash_server.store.log.tool_calls import change_activity, change_calls, replace_facts
from ash_server.store.log.tool_calls import find_first_messages as find_messages_of_calls
from ash_server.store.log.totals import NO_TOTALS, KeptTotals, TotalsOfLog
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
from ash_server.store.usage.answers import change_answers, replace_answers
from ash_server.store.usage.answers import find_first_messages as find_messages_of_answers
from ash_shared.eventlog import NORMALIZER_VERSION, NOTED, Event, Line, Normalizer, inherited_records, line_of
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

_MAX_SAME = 5
"""States that are the same without the message, and are passed because totals still differ."""

_BATCH_SIZE = 200
"""Messages with facts that are collected at once."""

_BEGINNING = KeptState(0, 0, None, "", "")
"""The state before the first message."""

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


class _Again(NamedTuple):
    """How the log must be derived to delete a message."""

    before: int | None = None
    """The derivation begins before this message; 0: with the first one."""
    has_dependents: bool = False
    """True if other events depend on the message."""


async def _delete(
    conn: AsyncConnection,
    session_id: UUID,
    find: Callable[[], Awaitable[StoredMessage | None]],
    *,
    is_last: bool = False,
) -> StoredMessage | None:
    """Derive the log without a lock, then delete the message under the lock.

    Begin again if the log has changed meanwhile, or if more must be derived.
    """
    how, tries = _Again(), 0
    while True:
        place = await read_place(conn, session_id)
        message = await find()
        if message is None or message.kind == "deleted":
            return None
        is_locked = tries == MAX_TRIES
        with closing(
            _Deletion(conn, session_id, find if is_last and not how.has_dependents else None)
        ) as work:
            if not is_locked:
                await work.derive_unlocked(message.sequence, how)
            async with conn.transaction():
                counters = await lock(conn, session_id)
                current = await find()
                if current is None or current.kind == "deleted":
                    return None
                if is_locked or (
                    work.can_delete(current.sequence) and await is_same_log(conn, session_id, place)
                ):
                    again = await work.finish(counters, current.sequence, is_final=is_locked)
                    if again is None:
                        return current
                    how = again
                else:
                    tries += 1


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
        self._end: KeptState | None = None
        """A state after the message that is the same without it."""
        self._new_log: NewLog | None = None
        """The log without the message, if other events differ."""
        self._facts = _FactsOfLines()
        """Facts from the messages of the new log."""
        self._states = NewStates(self._facts.take)
        """States of the new log."""

    def close(self) -> None:
        if self._new_log is not None:
            self._new_log.close()

    async def derive_unlocked(self, sequence: int, how: _Again) -> None:
        conn, session_id = self._conn, self._session_id
        start = await self._find_start(sequence, how)
        self._comparison = _Comparison(conn, session_id, start)
        if self._find_last is not None:
            self._derived_messages = start.message_sequence if start else 0
            await derive_unlocked(conn, self._comparison, self._find_end)
            return
        self._sequence = self._comparison.sequence = sequence
        find_end = partial(read_end, conn, session_id)
        if not how.has_dependents:
            if start is not None:
                await self._derive_to_same_state(sequence)
            if self._end is not None:
                return
            await derive_unlocked(conn, self._comparison, find_end)
        if how.has_dependents or self._comparison.differ:
            await derive_unlocked(conn, self._derive_again(sequence), find_end)

    async def _find_start(self, sequence: int, how: _Again) -> KeptState | None:
        """Return the state to begin with; None: all messages must be read."""
        if how.before == 0 or how.has_dependents:
            return None
        if not await kept_states.is_complete(self._conn, self._session_id):
            return None
        last = (sequence if self._find_last is None else sequence - _MAX_POPPED) - 1
        last = last if how.before is None else min(last, how.before - 1)
        return await kept_states.find_last(self._conn, self._session_id, last) or _BEGINNING

    async def _derive_to_same_state(self, sequence: int) -> None:
        """Derive the log up to a kept state that is the same without the message, or else up to the last one."""
        conn, session_id, comparison, same = self._conn, self._session_id, self._comparison, 0
        while state := await kept_states.find_next(conn, session_id, sequence):
            async with conn.transaction():  # of the cursors
                await comparison.derive_until(state.message_sequence, state.event_sequence)
            if comparison.differ:
                return
            if comparison.is_same_as(state):
                same += 1
                if comparison.has_same_totals or not comparison.totals.is_known or same > _MAX_SAME:
                    self._end = state
                    return
            comparison.keep(state.message_sequence, state.event_sequence)
            sequence = state.message_sequence + 1

    def can_delete(self, sequence: int) -> bool:
        return sequence == self._sequence if self._find_last is None else sequence > self._derived_messages

    async def finish(self, counters: Counters, sequence: int, *, is_final: bool) -> _Again | None:
        """Delete the message, under the lock and in the transaction of the caller.

        Unless `is_final`, return how more of the log must be derived, if so, and change nothing.
        """
        place, state = (counters.message_sequence, counters.event_sequence), None
        if self._new_log is None:
            self._comparison.sequence = sequence
            if self._end is None:
                await self._comparison.derive_until(*place)
                state = await self._new_state(counters)
            again = await self._check(counters)
            if again is not None and not is_final:
                return again
            if again is not None:
                self._derive_again(sequence)
        if self._new_log is not None:
            await self._new_log.derive_until(*place)
        await self._delete(counters, sequence, state)
        return None

    async def _check(self, counters: Counters) -> _Again | None:
        """Return how more of the log must be derived; None if the comparison is enough."""
        if self._comparison.differ:
            return _Again(has_dependents=True)
        if self._comparison.start is None:
            return None
        if counters.normalizer_version != NORMALIZER_VERSION or counters.chain.known_facts() is None:
            return _Again(before=0)
        before = await self._comparison.first_stated()
        return None if before is None else _Again(before=before)

    async def _delete(self, counters: Counters, sequence: int, state: SavedState | None) -> None:
        conn, session_id, comparison = self._conn, self._session_id, self._comparison
        await conn.execute(SQL.lock_words, [session_id])
        after = comparison.start.event_sequence if comparison.start is not None else 0
        removed = await _events_of(conn, session_id, sequence, after)
        changed = NO_TOTALS
        if self._new_log is None:
            changed = await self._changed_totals(counters)
        await conn.execute(SQL.clear_message, [session_id, sequence])
        await conn.execute(SQL.delete_drift, [session_id, sequence])
        if self._new_log is not None:
            await conn.execute(SQL.delete_all_words, [session_id, counters.event_sequence])
            await self._new_log.replace(counters)
        else:
            await _empty(conn, session_id, removed)
            await _save_state(conn, session_id, state)
            await comparison.write_stated()
        await self._keep_states(counters)
        facts = (await kept_states.merge_facts(conn, session_id))._asdict()
        await conn.execute(reindex.SQL.replace_facts, {"session_id": session_id, **facts})
        await name_by_own_prompt(conn, session_id)
        ids = [event["id"] for _, _, event in removed]
        payload = {"eventIds": ids, "messageSequences": [sequence], "reason": DELETED}
        await append_events(
            conn, session_id, [{"id": uuid7_text(), "type": "retraction", "payload": payload}]
        )
        if self._new_log is None:
            last = counters.event_sequence + 1
            await totals.write(conn, session_id, await totals.catch_up(conn, session_id, changed, last))

    async def _changed_totals(self, counters: Counters) -> KeptTotals:
        """Return the totals without the message."""
        comparison, last = self._comparison, counters.event_sequence
        if comparison.start is None:
            return comparison.totals.kept(last)
        stored = KeptTotals(counters.totals, counters.totals_sequence)
        stored = await totals.catch_up(self._conn, self._session_id, stored, last)
        is_end = self._end is None
        return comparison.totals.corrected(stored, comparison.full_totals, last, is_end=is_end)

    async def _keep_states(self, counters: Counters) -> None:
        """Replace the states that depend on the message."""
        conn, session_id, comparison = self._conn, self._session_id, self._comparison
        if self._new_log is not None:
            before = counters.event_sequence + 1  # the reset
            self._states.place(before + state.event_sequence for state in self._states.states)
            await kept_states.replace_after(conn, session_id, 0, self._states.states, self._facts.take())
            return
        states, rest = comparison.states, comparison.facts.take()
        if self._end is not None and comparison.start is not None:
            between = comparison.start.message_sequence, self._end.message_sequence
            await kept_states.replace_between(conn, session_id, between, states.states, rest)
            if not comparison.has_same_totals or comparison.has_other_names:
                await kept_states.forget_totals(conn, session_id, self._end.message_sequence)
            return
        if comparison.start is None:
            messages = [state.message_sequence for state in states.states]
            states.place(await kept_states.find_events(conn, session_id, messages))
        first = comparison.start.message_sequence if comparison.start else 0
        await kept_states.replace_after(conn, session_id, first, states.states, rest)

    def _derive_again(self, sequence: int) -> NewLog:
        self._new_log = NewLog(
            self._conn, self._session_id, read=self._facts.read, without=sequence, states=self._states
        )
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
        before, after = comparison.normalizer_states()
        if before == after:
            return None
        texts = await open_texts.read(self._conn, self._session_id)
        stored_state = Normalizer(state=counters.normalizer_state, open_texts=texts).state()
        if _comparable(stored_state) != _comparable(before):  # with ids of turns from the writer, for example
            comparison.differ = True
            return None
        return Normalizer(state=after).save()


async def _events_of(
    conn: AsyncConnection, session_id: UUID, sequence: int, after: int
) -> Sequence[tuple[int, bool, Event]]:
    """Return the events of a message, which follow event `after`.

    Each has its sequence, and whether its beginning is in columns.
    """
    message = {"session_id": session_id, "sequence": sequence, "after": after}
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

    def __init__(self, inherited: InheritedRecords | None = None) -> None:
        self._facts = RecordFacts()
        self._inherited = InheritedRecords() if inherited is None else inherited
        self._described: list[Description] = []
        """The messages since the last merge."""

    def take(self) -> RecordFacts:
        """Return the facts of the messages since the last call."""
        self._collect()
        facts, self._facts = self._facts, RecordFacts()
        return facts

    def read(self, stored: StoredLine) -> Line:
        source, role = set_by_writer(stored)
        parsed = parse_raw(stored.content, source)
        described = describe_parsed(parsed, source)
        self._described.append(described)
        if len(self._described) >= _BATCH_SIZE:
            self._collect()
        return line_of(parsed, source, role, header=described.header)

    def _collect(self) -> None:
        self._facts = self._facts.merge(collect_facts(self._described, self._inherited))
        self._described = []


def _comparable(state: str | None) -> Mapping[str, Any]:
    """Return a state without the fields that depend on the time and the number of appends."""
    fields: dict[str, Any] = _decode(state or "{}")
    return {name: fields[name] for name in fields if name not in ("clock_lag", "stored_texts")}


class _Comparison:
    """Derives a log twice, with and without a message, until the events of other messages differ."""

    def __init__(self, conn: AsyncConnection, session_id: UUID, start: KeptState | None = None) -> None:
        """`start` is a state before the message; None: all messages are read."""
        self.start = start
        self.sequence: int | None = None
        """The message, once it is known."""
        self.differ = False
        """True if the events of other messages are not the same."""
        begin = start or _BEGINNING
        inherited = inherited_records(begin.state) if begin.message_sequence else None
        self.facts = _FactsOfLines(inherited)
        """Facts from the other messages since the last state."""
        self.states = NewStates(self.facts.take)
        """States without the message."""
        self.totals = TotalsOfLog(begin.totals if begin.message_sequence else None)
        """Totals of the other events."""
        self.full_totals = self.totals
        self._derived = Derived()
        """Usage and facts in the other messages."""
        self._full_derived = self._derived
        self._has_stated = False
        """True if usage or facts depend on the message."""
        self._input = StoredInput(conn, session_id, begin.message_sequence, begin.event_sequence)
        self._conn = conn
        self._session_id = session_id
        self._full = Normalizer(state=begin.state)
        self._rest = self._full
        """The same one up to the message."""
        self._now = 0

    async def derive_until(self, last_message: int, last_event: int) -> None:
        if self.differ:
            return
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

    def normalizer_states(self) -> tuple[str | None, str | None]:
        return self._full.state(), self._rest.state()

    def is_same_as(self, kept: KeptState) -> bool:
        """True if the message changes nothing after a state. What later messages revise is only known at the end."""
        answers, calls = self._changed_keys()
        if answers or calls or self._settles():
            return False
        return _in_order(_comparable(self._rest.state())) == _in_order(_comparable(kept.state))

    def keep(self, message: int, event: int) -> None:
        self.states.keep(message, event, self._rest, self.totals)

    @property
    def has_same_totals(self) -> bool:
        """True if totals of later events can be corrected."""
        full = self.full_totals.kept(0)
        return self.totals.corrected(full, self.full_totals, 0, is_end=False) != NO_TOTALS

    @property
    def has_other_names(self) -> bool:
        """True if totals of later events may contain names that only the message has."""
        return not self.totals.has_names_of(self.full_totals)

    async def first_stated(self) -> int | None:
        """Return the first message with usage or calls that depend on the message; None if all have been read."""
        start = self.start or _BEGINNING
        answers, calls = self._changed_keys()
        if self._settles():
            return 0
        messages = await find_messages_of_answers(self._conn, self._session_id, answers)
        messages += await find_messages_of_calls(self._conn, self._session_id, calls)
        if None in messages:
            return 0
        first = min(filter(None, messages), default=start.message_sequence + 1)
        return first if first <= start.message_sequence else None

    async def write_stated(self) -> None:
        """Write the usage and the facts that depend on the message."""
        conn, session_id, now = self._conn, self._session_id, milliseconds()
        derived, full = self._derived, self._full_derived
        if self.start is None:
            if self._has_stated:
                await replace_answers(conn, session_id, derived.answers, now)
                await replace_facts(conn, session_id, derived.facts, now)
            return
        answers, calls = self._changed_keys()
        await change_answers(conn, session_id, answers, derived.answers.only(answers), now)
        await change_calls(conn, session_id, calls, derived.facts.only(calls), now)
        await change_activity(conn, session_id, derived.facts, full.facts)

    def _changed_keys(self) -> tuple[list[str], list[str]]:
        """Return the keys of answers and of calls that depend on the message."""
        derived, full = self._derived, self._full_derived
        answers = full.answers.differences(derived.answers)
        return sorted(answers), sorted(full.facts.differences(derived.facts))

    def _settles(self) -> bool:
        """True if other answers have no cost because of the message."""
        return self._full_derived.answers.settled_turns != self._derived.answers.settled_turns

    async def _derive(self, stored: StoredLine) -> None:
        if self.start is None and self.states.is_due(stored.sequence - 1):
            self.keep(stored.sequence - 1, 0)
        self._now = stored.now
        if stored.sequence == self.sequence:
            self._rest = Normalizer(state=self._full.state())
            line = await offload(StoredLine.read, stored)
            if self.start is not None:
                self._full_derived, self.full_totals = self._derived.copy(), self.totals.copy()
            events = self._derive_line(stored, line, self._full, self._derived_in_full())
            if self.start is not None:
                self.full_totals.add(each.event for each in events)
            self._has_stated = bool(self._full.answers) or self._full.facts != NO_FACTS
        else:
            line = await offload(self.facts.read, stored)
            self._compare(partial(self._derive_line, stored, line))

    def _derived_in_full(self) -> Derived | None:
        """Usage and facts in all messages, if these are compared."""
        return None if self.start is None else self._full_derived

    def _derive_line(
        self, stored: StoredLine, line: Line, target: Normalizer, derived: Derived | None
    ) -> list[PreparedEvent]:
        return derive(target, self._session_id, stored.sequence, line, stored.now, derived=derived)

    def _observe(self, posted: UnderivedEvent) -> None:
        event = _decode(posted.content)
        for folded in {self.totals, self.full_totals}:
            folded.add([event])
        if posted.type in NOTED:
            for normalizer in {self._full, self._rest}:
                normalizer.observe(event)
            self._derived.add(self._rest, None)
            if self._full_derived is not self._derived:
                self._full_derived.add(self._full, None)
            self._compare_stated()

    def _end(self, place: End, target: Normalizer, derived: Derived | None) -> list[PreparedEvent]:
        return ending(target, self._session_id, *place, self._now, derived=derived)

    def _compare(self, derive_events: Callable[[Normalizer, Derived | None], list[PreparedEvent]]) -> None:
        events = derive_events(self._rest, self._derived)
        self.totals.add(each.event for each in events)
        if self._rest is self._full:
            return
        self.differ = derive_events(self._full, self._derived_in_full()) != events
        if self.full_totals is not self.totals:
            self.full_totals.add(each.event for each in events)
        self._compare_stated()

    def _compare_stated(self) -> None:
        stated, other = [(each.answers, each.facts) for each in (self._full, self._rest)]
        self._has_stated = self._has_stated or stated != other


def _in_order(state: Mapping[str, Any]) -> bytes:
    """Return a state in a form that shows the order of its entries, which are dropped in it."""
    return _encode(state)
