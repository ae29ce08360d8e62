"""Derive a part of a log twice, with and without a message, to see what depends on the message."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.offload import offload
from ash_server.store.log.derived import Derived
from ash_server.store.log.kept_states import KeptState, NewStates
from ash_server.store.log.rebuild import End, NewEvents, StoredInput, StoredLine, UnderivedEvent, read_end
from ash_server.store.log.tool_calls import (
    change_activity,
    change_calls,
    find_last_stated,
    has_posted,
    has_posted_reset,
    replace_facts,
    stated_id,
)
from ash_server.store.log.tool_calls import find_first_messages as find_messages_of_calls
from ash_server.store.log.tool_calls import move_turns as move_turns_of_calls
from ash_server.store.log.tool_calls import set_turns as set_turns_of_calls
from ash_server.store.log.totals import NO_TOTALS, TotalsOfLog
from ash_server.store.log.writer import IssueCounts, PreparedEvent, derive, ending, milliseconds
from ash_server.store.message_pages import set_by_writer
from ash_server.store.session_facts import RecordFacts, collect_facts, to_milliseconds
from ash_server.store.usage.answers import change_answers, replace_answers
from ash_server.store.usage.answers import find_first_messages as find_messages_of_answers
from ash_server.store.usage.answers import move_turns as move_turns_of_answers
from ash_server.store.usage.answers import set_turns as set_turns_of_answers
from ash_shared.eventlog import NOTED, Event, Line, Normalizer, inherited_records, line_of
from ash_shared.eventlog.facts.lines import NO_FACTS
from ash_shared.eventlog.facts.tool_uses import key_of
from ash_shared.eventlog.state import decode_state
from ash_shared.model.message import Description
from ash_shared.parsing.describe import describe_parsed
from ash_shared.parsing.parsed_text import parse_raw
from ash_shared.records.inherited import InheritedRecords

_BATCH_SIZE = 200
"""Messages with facts that are collected at once."""

_MAX_CALLS = 20
"""Calls that are searched in later events."""

_CALLS = ("tool_call", "tool_result")

BEGINNING = KeptState(0, 0, None, "", "")
"""The state before the first message."""

TypeOfMessage = tuple[str, int]
"""The type of an event, and its message."""


class PlaceOfState(NamedTuple):
    """The place of a state in both logs."""

    event_sequence: int
    """The last event before it."""
    new_events: int
    """Number of new events before it."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


class FactsOfLines:
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


def comparable(state: str | None) -> dict[str, Any]:
    """Return a state without the fields that depend on the time and the number of appends."""
    fields: dict[str, Any] = _decode(state or "{}")
    return {name: fields[name] for name in fields if name not in ("clock_lag", "stored_texts")}


class OldEvents:
    """Counts the events with the message, to compare them with the stored ones."""

    def __init__(self) -> None:
        self.types = Counter[TypeOfMessage]()
        self.issues = IssueCounts(0, 0)
        self.has_own_ids = False

    def add(self, derived: Sequence[PreparedEvent]) -> None:
        self.issues = self.issues.add(each.event for each in derived)
        self.types.update((each.event["type"], each.message_sequence) for each in derived)
        self.has_own_ids |= any(each.has_own_id for each in derived)

    def observe(self, event: Event) -> None:
        self.issues = self.issues.add([event])


class Comparison:
    """Derives a log twice, with and without a message.

    A comparison from the first message on ends when the events of other messages differ. One from a kept state on
    continues, and keeps the new events.
    """

    sequence: int | None = None
    """The message, once it is known."""

    differ = False
    """True if the events of other messages are not the same."""

    needs_whole_log = False
    """True if the events cannot be derived from a kept state on."""

    _has_stated = False
    """True if usage or facts depend on the message."""

    _has_undated = False
    """True after messages without a time at the beginning of the session."""

    _has_other_first_times = False
    """True if such messages get another time without the message."""

    moved_turns = 0
    """The difference of the numbers of later turns, once a state is the same."""

    last_turn = 0
    """The number of the turn of that state, with the message."""

    _last_stated = 0
    """The last event that states a searched call."""

    _last_searched = 0
    """The last event that was searched for calls."""

    _now = 0

    def __init__(self, conn: AsyncConnection, session_id: UUID, start: KeptState | None = None) -> None:
        """`start` is a state before the message; None: all messages are read."""
        self._conn, self._session_id = conn, session_id
        self.start, begin = start, start or BEGINNING
        self.facts = FactsOfLines(inherited_records(begin.state) if begin.message_sequence else None)
        """Facts from the other messages since the last state."""
        self.states = NewStates(self.facts.take)
        """States without the message."""
        self.places: list[PlaceOfState] = []
        """The places of these states."""
        self.totals = TotalsOfLog(begin.totals if begin.message_sequence else None)
        """Totals of the other events."""
        self.full_totals = self.totals
        self.events = None if start is None else NewEvents(conn, session_id)
        """The events without the message."""
        self.old = OldEvents()
        self._derived = Derived()
        """Usage and facts in the other messages."""
        self._full_derived = self._derived
        self._input = StoredInput(conn, session_id, begin.message_sequence, begin.event_sequence)
        self._call_ids: dict[str, str | None] = {}
        """The ids as JSON of calls that the message or later ones state, by key; None if other ids may have the key."""
        self._searched_ids: set[str | None] = set()
        """The ids of the calls that depend on the message and were searched in later events."""
        self._is_dated = begin.message_sequence > 0
        """True after the first messages without a time."""
        self._full = Normalizer(state=begin.state)
        self._rest = self._full
        """Without the message; before it, the same object."""

    def close(self) -> None:
        if self.events is not None:
            self.events.close()

    @property
    def must_stop(self) -> bool:
        """True if the events must be derived from the first message on."""
        return self.differ and (self.events is None or self.needs_whole_log)

    def require_whole_log(self) -> None:
        """Note that the events must be derived from the first message on."""
        self.needs_whole_log = self.differ = True

    async def derive_until(self, last_message: int, last_event: int) -> None:
        if self.must_stop:
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
                if self.must_stop:
                    return

    async def read_start(self) -> None:
        """Read what the first events depend on, beside the state."""
        if self.events is None or self.start is None or not self.start.message_sequence:
            return
        start = await self._input.read_start()
        self.events.may_have_chunks = start.may_have_chunks
        self._now = to_milliseconds(start.written_at) if start.written_at else 0

    def normalizer_states(self) -> tuple[str | None, str | None]:
        return self._full.state(), self._rest.state()

    async def is_same_as(self, kept: KeptState) -> bool:
        """True if the message changes nothing after a state."""
        return self._has_same_state(kept) and await self._are_calls_final(kept.event_sequence)

    def _has_same_state(self, kept: KeptState) -> bool:
        answers, _ = self._changed_keys()
        if self._settles():  # what later messages revise is only known at the end
            return False
        state, other = comparable(self._rest.state()), comparable(kept.state)
        if (answers or self._moves_turns(state, other)) and "counted_messages" in state:
            return False  # later messages may state answers again in another turn
        turns, other_turns = state.pop("turns", 0), other.pop("turns", 0)
        if answers and not self._are_final(answers, turns, other_turns):
            return False
        is_same = _in_order(state) == _in_order(other) and self._has_same_lag()
        self.moved_turns, self.last_turn = turns - other_turns, other_turns
        return is_same and (turns > 0) == (other_turns > 0)

    def _moves_turns(self, state: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """True if answers and calls are in turns with other numbers."""
        derived, full = self._derived, self._full_derived
        is_moved = state.get("turns") != other.get("turns")
        return is_moved or bool(full.answers.other_turns(derived.answers))

    def keep(self, message: int, event: int) -> None:
        """Keep the state after a message. `event` is the last event before it."""
        before = len(self.states.states)
        self.states.keep(message, event, self._rest, self.totals)
        if len(self.states.states) > before:
            self.places.append(PlaceOfState(event, 0 if self.events is None else self.events.count))

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
        start = self.start or BEGINNING
        answers, calls = self._changed_keys()
        if self._settles() or await self._settles_equal_turns():
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
        await set_turns_of_answers(conn, session_id, full.answers.other_turns(derived.answers))
        await set_turns_of_calls(conn, session_id, full.facts.other_turns(derived.facts))
        await change_answers(conn, session_id, answers, derived.answers.only(answers), now)
        await change_calls(conn, session_id, calls, derived.facts.only(calls), now)
        await change_activity(conn, session_id, derived.facts, full.facts)

    async def can_move_turns(self) -> bool:
        """True if the turn and the message of each answer and call show whether it is after the state."""
        if not self.moved_turns:
            return True
        conn, session_id = self._conn, self._session_id
        return not (
            await has_posted(conn, session_id, self.last_turn) or await has_posted_reset(conn, session_id)
        )

    async def move_turns(self, end: KeptState) -> None:
        """Change the numbers of the turns after a state."""
        if self.moved_turns:
            place = (self.moved_turns, self.last_turn, end.message_sequence)
            await move_turns_of_answers(self._conn, self._session_id, *place)
            await move_turns_of_calls(self._conn, self._session_id, *place)

    def _changed_keys(self) -> tuple[list[str], list[str]]:
        """Return the keys of answers and of calls that depend on the message."""
        derived, full = self._derived, self._full_derived
        answers = full.answers.differences(derived.answers)
        return sorted(answers), sorted(full.facts.differences(derived.facts))

    def _are_final(self, answers: Sequence[str], turn: int, other_turn: int) -> bool:
        """True if no later message states these answers: their turns are over, and none is written in sections."""
        values, others = self._derived.answers.only(answers), self._full_derived.answers.only(answers)
        is_over = all(each.usage.turn < turn for each in values)
        return is_over and all(each.usage.turn < other_turn for each in others)

    async def _are_calls_final(self, after: int) -> bool:
        """True if no event after another one states calls that depend on the message: vendors use ids again."""
        _, keys = self._changed_keys()
        ids = {self._call_ids.get(key) for key in keys}
        if None in ids or len(ids) > _MAX_CALLS:
            return False
        if ids - self._searched_ids:
            _, last = await read_end(self._conn, self._session_id)
            self._searched_ids, self._last_searched = ids, last
            self._last_stated = await self._find_last_stated(after, last)
        return self._last_stated <= after

    async def are_calls_final(self, last: int) -> bool:
        """True if no event up to the last one that was appended meanwhile states these calls."""
        return not self._searched_ids or not await self._find_last_stated(self._last_searched, last)

    async def _find_last_stated(self, after: int, last: int) -> int:
        ids = sorted(filter(None, self._searched_ids))
        return await find_last_stated(self._conn, self._session_id, ids, (after, last))

    def _note_calls(self, events: Iterable[Event]) -> None:
        payloads = (event["payload"] for event in events if event["type"] in _CALLS)
        self._call_ids.update((key_of(each), stated_id(each)) for each in payloads if isinstance(each, dict))

    def _has_same_lag(self) -> bool:
        """True if messages without a time, which continue the time of an earlier one, do not continue the message's."""
        full, rest = (_decode(state or "{}").get("clock_lag") for state in self.normalizer_states())
        return bool(full == rest)

    def _settles(self) -> bool:
        """True if answers before the start have no cost because of the message."""
        turn = decode_state(self.start.state).turns if self.start is not None else 0
        full, derived = self._full_derived.answers, self._derived.answers
        return full.settled_before(turn) != derived.settled_before(turn)

    async def _settles_equal_turns(self) -> bool:
        """True if such answers may be in turns with the numbers of later ones."""
        is_other = self._full_derived.answers.settled_turns != self._derived.answers.settled_turns
        return is_other and await has_posted_reset(self._conn, self._session_id)

    async def _derive(self, stored: StoredLine) -> None:
        if self.start is None and self.states.is_due(stored.sequence - 1):
            self.keep(stored.sequence - 1, 0)
        self._now = stored.now
        if stored.sequence == self.sequence:
            await self._derive_message(stored)
        else:
            line = await offload(self.facts.read, stored)
            self._check_time(line)
            self._compare(partial(self._derive_line, stored, line))
        self.needs_whole_log |= self._full.is_inherited or self._rest.is_inherited

    async def _derive_message(self, stored: StoredLine) -> None:
        state = self._full.state()
        if not self._is_dated:
            state = await self._check_first_times(stored.sequence, state)
        self._rest = Normalizer(state=state)
        line = await offload(StoredLine.read, stored)
        if self.start is not None:
            self._full_derived, self.full_totals = self._derived.copy(), self.totals.copy()
        events = self._derive_line(stored, line, self._full, self._derived_in_full())
        if self.start is not None:
            self.full_totals.add(each.event for each in events)
        self._note_calls(each.event for each in events)
        self._count(events)
        self._has_stated = bool(self._full.answers) or self._full.facts != NO_FACTS

    def _check_time(self, line: Line) -> None:
        self._is_dated = self._is_dated or line.header.timestamp is not None
        self._has_undated = self._has_undated or not self._is_dated
        self._compare_first_times()

    async def _check_first_times(self, sequence: int, state: str | None) -> str | None:
        """Note whether the first messages, which have no time, get another one without the message.

        Return the state without the message; `state` is the one with it.
        """
        states = []
        for without in (0, sequence):
            normalizer = Normalizer()
            await StoredInput(self._conn, self._session_id).announce(normalizer, without=without)
            states.append(normalizer.state())
        self._has_other_first_times = states[0] != states[1]
        self._compare_first_times()
        return states[1] if state == states[0] else state

    def _compare_first_times(self) -> None:
        if self._has_other_first_times and self._has_undated:
            self.require_whole_log()

    def _derived_in_full(self) -> Derived | None:
        """Usage and facts in all messages, if these are compared."""
        return None if self.start is None else self._full_derived

    def _derive_line(
        self, stored: StoredLine, line: Line, target: Normalizer, derived: Derived | None
    ) -> list[PreparedEvent]:
        place, text = (self._session_id, stored.sequence), stored.content
        return derive(target, *place, line, stored.now, text=text, derived=derived)

    def _observe(self, posted: UnderivedEvent) -> None:
        event: Event = _decode(posted.content)
        for folded in {self.totals, self.full_totals}:
            folded.add([event])
        if self.events is not None:
            self.events.move(posted, event)
            self.old.observe(event)
        if posted.type in NOTED:
            self._note_calls([event])
            for normalizer in {self._full, self._rest}:
                normalizer.observe(event)
            self._derived.add(self._rest, None)
            if self._full_derived is not self._derived:
                self._full_derived.add(self._full, None)
            self._compare_stated()

    def _end(self, place: End, target: Normalizer, derived: Derived | None) -> list[PreparedEvent]:
        return ending(target, self._session_id, *place, self._now, derived=derived)

    def _compare(self, derive_events: Callable[[Normalizer, Derived | None], list[PreparedEvent]]) -> None:
        events = full = derive_events(self._rest, self._derived)
        self.totals.add(each.event for each in events)
        if self.events is not None:
            self.events.add(events)
        if self._rest is not self._full:
            full = derive_events(self._full, self._derived_in_full())
            self.needs_whole_log |= any(each.has_own_id for each in events)
            self.differ = self.differ or full != events
            self._note_calls(each.event for each in [*events, *full])
            if self.full_totals is not self.totals:
                self.full_totals.add(each.event for each in full)
            self._compare_stated()
        self._count(full)

    def _count(self, full: Sequence[PreparedEvent]) -> None:
        if self.events is None:
            return
        self.old.add(full)
        self.needs_whole_log |= self.old.has_own_ids

    def _compare_stated(self) -> None:
        stated, other = [(each.answers, each.facts) for each in (self._full, self._rest)]
        self._has_stated = self._has_stated or stated != other


def _in_order(state: Mapping[str, Any]) -> bytes:
    """Encode a state with the order of its entries, because the oldest are dropped first."""
    return _encode(state)
