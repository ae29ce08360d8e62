"""Delete one message: its text and everything derived from it. Its place stays, so that no sequence is used again.

Afterwards the session is as if the message had never been stored, except for the tombstone and the retraction that
tells readers. The log is derived twice, with and without the message, to see whether other events depend on it: the
whole text of a stream contains its chunks, a prompt begins a turn, and of two copies only one has events. If none does,
the events of the message are emptied where they are. Otherwise the events that differ are replaced, all others get new
sequences, and the log begins with a `reset`.

The derivation begins with a kept state before the message, and ends at one that is the same without it, or else at the
end of the log. All this is done without a lock, so appends do not wait for it. One transaction then derives what was
appended meanwhile, and deletes the message.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection, Rollback

from ash_server.ids import uuid7_text
from ash_server.store.log import kept_states, open_texts, totals
from ash_server.store.log.events import append_events
from ash_server.store.log.kept_states import KeptState, NewStates
from ash_server.store.log.rebuild import (
    MAX_TRIES,
    LogChanged,
    LogEnd,
    NewLog,
    check_same_log,
    derive_unlocked,
    read_end,
    read_place,
    yield_to_appends,
)
from ash_server.store.log.stored_json import event_json
from ash_server.store.log.tool_calls import has_posted_reset
from ash_server.store.log.totals import NO_TOTALS, KeptTotals
from ash_server.store.log.writer import Counters, IssueCounts, lock
from ash_server.store.maintenance import reindex, splicing
from ash_server.store.maintenance.comparison import BEGINNING, Comparison, FactsOfLines, comparable
from ash_server.store.maintenance.own_prompts import name_by_own_prompt
from ash_server.store.maintenance.splicing import LogPart, WrittenLog
from ash_server.store.message_pages import StoredMessage, find_last, find_message
from ash_server.store.search.moved_words import StoredWords
from ash_server.store.statements import statements
from ash_shared.eventlog import NORMALIZER_VERSION, Event, Normalizer
from ash_shared.eventlog.normalizer import SavedState
from ash_shared.eventlog.state import move_turns
from ash_shared.projections.item_counts import DELETED

SQL = statements(__file__, event_json=event_json())

_MAX_POPPED = 20
"""Messages at the end that may be deleted by others while the last one is deleted."""

_MAX_SAME = 5
"""States that are the same without the message, and are passed because totals still differ."""

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
    is_whole: bool = False
    """True if the whole log is derived again, because other events depend on the message."""


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
        with closing(_Deletion(conn, session_id, find if is_last and not how.is_whole else None)) as work:
            if not is_locked:
                await work.derive_unlocked(message.sequence, how)
            delete = partial(_delete_locked, conn, session_id, find, work)
            try:
                result = await delete(None if is_locked else place)
            except LogChanged:
                tries += 1
                continue
        if not isinstance(result, _Again):
            return result
        how = result


async def _delete_locked(
    conn: AsyncConnection,
    session_id: UUID,
    find: Callable[[], Awaitable[StoredMessage | None]],
    work: "_Deletion",
    before: LogEnd | None,
) -> StoredMessage | _Again | None:
    """Delete the message in one transaction and return it; None if it was deleted before.

    Return how more of the log must be derived, if so. `before` is the end of the log when it was derived; None: it is
    derived under the lock. Raises LogChanged.
    """
    again = None
    async with conn.transaction():
        with yield_to_appends():
            if before is not None:
                await work.write_ahead()
            counters = await lock(conn, session_id)
        current = await find()
        if current is not None and current.kind != "deleted":
            if before is not None:
                if not work.can_delete(current.sequence):
                    raise LogChanged
                await check_same_log(conn, session_id, before)
            again = await work.finish(counters, current.sequence, is_final=before is None)
            if again is None:
                return current
        raise Rollback
    return again


class _WholeLog(NamedTuple):
    """A log that is derived from the first message on."""

    log: NewLog
    facts: FactsOfLines
    states: NewStates


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
        self._comparison = Comparison(conn, session_id)
        self._end: KeptState | None = None
        """A state after the message that is the same without it."""
        self._whole: _WholeLog | None = None
        """The log without the message, if the whole log is derived again."""
        self._copy: WrittenLog | None = None
        """The log without the message, if it was written before the session is locked."""

    def close(self) -> None:
        self._comparison.close()
        if self._whole is not None:
            self._whole.log.close()

    async def derive_unlocked(self, sequence: int, how: _Again) -> None:
        conn, session_id = self._conn, self._session_id
        start = await self._find_start(sequence, how)
        self._comparison = Comparison(conn, session_id, start)
        await self._comparison.read_start()
        if self._find_last is not None:
            self._derived_messages = start.message_sequence if start else 0
            await derive_unlocked(conn, self._comparison, self._find_end)
            return
        self._sequence = self._comparison.sequence = sequence
        find_end = partial(read_end, conn, session_id)
        if not how.is_whole:
            if start is not None:
                await self._derive_to_same_state(sequence)
            if self._end is not None:
                return
            await derive_unlocked(conn, self._comparison, find_end)
        if how.is_whole or self._comparison.must_stop:
            await derive_unlocked(conn, self._derive_again(sequence), find_end)

    async def _find_start(self, sequence: int, how: _Again) -> KeptState | None:
        """Return the state to begin with; None: all messages must be read."""
        if how.before == 0 or how.is_whole:
            return None
        if not await kept_states.is_complete(self._conn, self._session_id):
            return None
        last = (sequence if self._find_last is None else sequence - _MAX_POPPED) - 1
        last = last if how.before is None else min(last, how.before - 1)
        return await kept_states.find_last(self._conn, self._session_id, last) or BEGINNING

    async def _derive_to_same_state(self, sequence: int) -> None:
        """Derive the log up to a kept state that is the same without the message, or else up to the last one."""
        conn, session_id, comparison, same = self._conn, self._session_id, self._comparison, 0
        while state := await kept_states.find_next(conn, session_id, sequence):
            async with conn.transaction():  # of the cursors
                await comparison.derive_until(state.message_sequence, state.event_sequence)
            if comparison.must_stop:
                return
            if await comparison.is_same_as(state):
                same += 1
                if comparison.has_same_totals or not comparison.totals.is_known or same > _MAX_SAME:
                    self._end = state
                    return
            comparison.keep(state.message_sequence, state.event_sequence)
            sequence = state.message_sequence + 1

    async def write_ahead(self) -> None:
        """Write a long log that depends on the message, in the transaction that replaces it. Raises LogChanged."""
        comparison = self._comparison
        if self._whole is not None:
            await self._whole.log.write_ahead()
        elif comparison.differ and not comparison.must_stop and comparison.events is not None:
            part = self._part()
            self._copy = await splicing.write_ahead(self._conn, self._session_id, part, comparison.events)

    def can_delete(self, sequence: int) -> bool:
        return sequence == self._sequence if self._find_last is None else sequence > self._derived_messages

    async def finish(self, counters: Counters, sequence: int, *, is_final: bool) -> _Again | None:
        """Delete the message, under the lock and in the transaction of the caller.

        Unless `is_final`, return how more of the log must be derived, if so, and change nothing. Raises LogChanged.
        """
        place, state = (counters.message_sequence, counters.event_sequence), None
        if self._whole is None:
            self._comparison.sequence = sequence
            if self._end is None:
                await self._comparison.derive_until(*place)
                state = await self._new_state(counters)
            again = await self._check(counters)
            if again is not None and not is_final:
                return again
            if again is not None:
                self._derive_again(sequence)
        if self._whole is not None:
            await self._whole.log.derive_until(*place)
        await self._delete(counters, sequence, state)
        return None

    async def _check(self, counters: Counters) -> _Again | None:
        """Return how more of the log must be derived; None if the comparison is enough."""
        if self._comparison.differ and not await self._can_replace_part(counters):
            return _Again(is_whole=True)
        if self._end is not None and not await self._comparison.can_move_turns():
            return _Again(is_whole=True)
        if self._end is not None and not await self._comparison.are_calls_final(counters.event_sequence):
            raise LogChanged
        if self._comparison.start is None:
            return None
        if counters.normalizer_version != NORMALIZER_VERSION or counters.chain.known_facts() is None:
            return _Again(before=0)
        before = await self._comparison.first_stated()
        return None if before is None else _Again(before=before)

    async def _can_replace_part(self, counters: Counters) -> bool:
        """True if only a part of the log has other events, and is stored as it would be derived."""
        comparison = self._comparison
        if comparison.must_stop:
            return False
        last, types = counters.event_sequence, comparison.old.types
        return await splicing.has_types(self._conn, self._session_id, self._part(), last, types)

    def _part(self) -> LogPart:
        return LogPart(self._comparison.start or BEGINNING, self._end)

    async def _delete(self, counters: Counters, sequence: int, state: SavedState | None) -> None:
        conn, session_id, comparison = self._conn, self._session_id, self._comparison
        words = await StoredWords.lock(conn, session_id)
        after = comparison.start.event_sequence if comparison.start is not None else 0
        removed = await _events_of(conn, session_id, sequence, after)
        changed, last = NO_TOTALS, counters.event_sequence
        if self._whole is None:
            changed = await self._changed_totals(counters)
        await conn.execute(SQL.clear_message, [session_id, sequence])
        await conn.execute(SQL.delete_drift, [session_id, sequence])
        if self._whole is not None:
            await words.move([], last)
            await self._whole.log.replace(counters)
            await self._keep_new_states(self._whole)
        elif comparison.differ:
            last = await self._replace_part(counters, state, words)
        else:
            await _empty(conn, session_id, removed)
            await words.delete([number for number, _, _ in removed])
            await self._write_stated(counters, state)
        facts = (await kept_states.merge_facts(conn, session_id))._asdict()
        await conn.execute(reindex.SQL.replace_facts, {"session_id": session_id, **facts})
        await name_by_own_prompt(conn, session_id)
        ids = [event["id"] for _, _, event in removed]
        payload = {"eventIds": ids, "messageSequences": [sequence], "reason": DELETED}
        await append_events(
            conn, session_id, [{"id": uuid7_text(), "type": "retraction", "payload": payload}]
        )
        if self._whole is None:
            changed = changed if changed == NO_TOTALS else changed._replace(sequence=last)
            changed = await totals.catch_up(conn, session_id, changed, last + 1)
            stored = KeptTotals(counters.totals, counters.totals_sequence)
            await totals.write(conn, session_id, totals.keep_settled_models(changed, stored, sequence))

    async def _replace_part(self, counters: Counters, state: SavedState | None, words: StoredWords) -> int:
        """Replace the events that depend on the message, and return the last event of the log."""
        conn, session_id, comparison = self._conn, self._session_id, self._comparison
        assert comparison.events is not None
        part, issues = self._part(), comparison.old.issues
        spliced = await splicing.replace_part(conn, session_id, part, comparison.events, issues, self._copy)
        await words.move(spliced.moved, counters.event_sequence)
        comparison.states.place(spliced.before + place.new_events for place in comparison.places)
        await self._write_stated(counters, state)
        return spliced.last

    async def _write_stated(self, counters: Counters, state: SavedState | None) -> None:
        """Write what the log depends on, beside its events."""
        await _save_state(self._conn, self._session_id, state)
        if self._end is not None and self._comparison.moved_turns:
            await self._move_turns(counters, self._end)
        await self._comparison.write_stated()
        await self._keep_states(counters)

    async def _move_turns(self, counters: Counters, end: KeptState) -> None:
        """Change the numbers of the turns after a state."""
        conn, session_id, moved = self._conn, self._session_id, self._comparison.moved_turns
        await self._comparison.move_turns(end)
        await kept_states.move_turns(conn, session_id, end.message_sequence, moved)
        state = move_turns(counters.normalizer_state, moved)
        await conn.execute(SQL.set_normalizer_state, [state, session_id])

    async def _changed_totals(self, counters: Counters) -> KeptTotals:
        """Return the totals without the message."""
        comparison, last = self._comparison, counters.event_sequence
        if comparison.start is None:
            return comparison.totals.kept(last)
        if self._end is not None and await has_posted_reset(self._conn, self._session_id):
            return NO_TOTALS  # the totals may begin after the message
        stored = KeptTotals(counters.totals, counters.totals_sequence)
        stored = await totals.catch_up(self._conn, self._session_id, stored, last)
        is_end = self._end is None
        return comparison.totals.corrected(stored, comparison.full_totals, last, is_end=is_end)

    async def _keep_new_states(self, whole: _WholeLog) -> None:
        """Replace the kept states by the states of the new log."""
        before = whole.log.dropped + 1  # the reset
        whole.states.place(before + state.event_sequence for state in whole.states.states)
        states, rest = whole.states.states, whole.facts.take()
        await kept_states.replace_after(self._conn, self._session_id, 0, states, rest)

    async def _keep_states(self, counters: Counters) -> None:
        """Replace the states that depend on the message."""
        conn, session_id, comparison = self._conn, self._session_id, self._comparison
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
        facts = FactsOfLines()
        states = NewStates(facts.take)
        log = NewLog(self._conn, self._session_id, read=facts.read, without=sequence, states=states)
        self._whole = _WholeLog(log, facts, states)
        return log

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
        if comparison.must_stop:
            return None
        if counters.normalizer_version != NORMALIZER_VERSION:
            comparison.require_whole_log()
            return None
        before, after = comparison.normalizer_states()
        if before == after:
            return None
        texts = await open_texts.read(self._conn, self._session_id)
        stored_state = Normalizer(state=counters.normalizer_state, open_texts=texts).state()
        if comparable(stored_state) != comparable(before):  # with ids of turns from the writer, for example
            comparison.require_whole_log()
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
