"""States of the normaliser, kept after every 100 messages of a session.

A deletion derives the events from the last state before its message, instead of from the first message. The
counters of the session contain the facts of the messages since the last state, so the facts of all messages are known
without reading the messages.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import args_row

from ash_server.store.log.totals import TotalsOfLog
from ash_server.store.session_facts import RecordFacts
from ash_server.store.statements import statements
from ash_shared.eventlog import NORMALIZER_VERSION, Normalizer
from ash_shared.eventlog.state import move_turns as state_with_moved_turns
from ash_shared.parsing.parse import PARSER_VERSION

INTERVAL = 100
"""Messages from one state to the next."""

MAX_STATE = 256 * 1024
"""Characters of a state; a longer one is not kept."""

INCOMPLETE = -1
"""The sequence of a chain with missing states, or with states of another version."""

_END = 2**62

SQL = statements(__file__)


class KeptState(NamedTuple):
    """The state after a message and its events."""

    message_sequence: int
    event_sequence: int
    state: str | None
    totals: str
    """Empty if they are unknown."""
    facts: str
    """The facts of the messages since the previous state."""


class DerivedState(NamedTuple):
    """The state after some messages of an append."""

    message_sequence: int
    events: int
    """Number of events of the append before it."""
    state: str | None


class _Facts(msgspec.Struct, array_like=True):
    """Facts as they are stored."""

    facts: RecordFacts
    parser_version: int = PARSER_VERSION
    normalizer_version: int = NORMALIZER_VERSION

    @property
    def is_current(self) -> bool:
        return (self.parser_version, self.normalizer_version) == (PARSER_VERSION, NORMALIZER_VERSION)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Facts).decode


class Chain(NamedTuple):
    """The columns of the counters about the states of a session."""

    sequence: int = INCOMPLETE
    """The last message with a state."""
    facts: str = ""
    """The facts of the messages after it."""

    def known_facts(self) -> RecordFacts | None:
        """Return the facts; None if states are missing, or another version has written them."""
        if self.sequence == INCOMPLETE:
            return None
        try:
            known = _decode(self.facts)
        except msgspec.MsgspecError:
            return None
        return known.facts if known.is_current else None


def encode_facts(facts: RecordFacts) -> str:
    return _encode(_Facts(facts)).decode()


def is_small(state: str | None) -> bool:
    """True if a state can be kept: it is not too long, and contains its open texts completely."""
    return state is None or (len(state) <= MAX_STATE and '"beginning_length":' not in state)


def places_within(last: int, count: int) -> range:
    """Return the messages of an append after which a state is kept, beside the last one.

    `last` is the last message before the append, `count` the number of its messages.
    """
    first = (last // INTERVAL + 1) * INTERVAL
    return range(first, last + count - INTERVAL + 1, INTERVAL)


class Continued(NamedTuple):
    """The chain after an append, with the new states."""

    chain: Chain
    states: Sequence[KeptState] = ()


def follow(chain: Chain, last: int, states: Iterable[KeptState], facts: Iterable[RecordFacts]) -> Continued:
    """Add the facts of new messages, and keep the states after which INTERVAL messages have passed.

    `last` is the last message before the append. `states` are the states after the parts of the append, still without
    facts, and `facts` are the facts of these parts.
    """
    known = RecordFacts() if last == 0 else chain.known_facts()
    if known is None:
        return Continued(Chain())
    kept, new = max(chain.sequence, 0) if last else 0, list[KeptState]()
    for state, added in zip(states, facts, strict=True):
        known = known.merge(added)
        if state.message_sequence // INTERVAL != kept // INTERVAL and is_small(state.state):
            new.append(state._replace(facts=encode_facts(known)))
            kept, known = state.message_sequence, RecordFacts()
    return Continued(Chain(kept, encode_facts(known)), new)


class NewStates:
    """States that are kept while a log is derived."""

    def __init__(self, take_facts: Callable[[], RecordFacts]) -> None:
        """`take_facts` returns the facts of the messages since its last call."""
        self.states: list[KeptState] = []
        self._take_facts = take_facts
        self._last = 0

    def is_due(self, message: int) -> bool:
        return message - self._last >= INTERVAL

    def keep(self, message: int, event: int, normalizer: Normalizer, totals: TotalsOfLog) -> None:
        state = normalizer.state()
        self._last = message
        if is_small(state):
            facts = encode_facts(self._take_facts())
            self.states.append(KeptState(message, event, state, totals.kept(event).totals, facts))

    def place(self, events: Iterable[int]) -> None:
        """Replace the last events before the states."""
        self.states = [
            state._replace(event_sequence=event) for state, event in zip(self.states, events, strict=True)
        ]


async def insert(conn: AsyncConnection, session_id: UUID, states: Iterable[KeptState]) -> None:
    columns = list(zip(*states, strict=True))
    if columns:
        names = ("message_sequences", "event_sequences", "states", "totals", "facts")
        rows = dict(zip(names, map(list, columns), strict=True))
        await conn.execute(SQL.insert, {"session_id": session_id, **rows})


async def is_complete(conn: AsyncConnection, session_id: UUID) -> bool:
    """True if a deletion may begin with a kept state."""
    row = await (await conn.execute(SQL.is_complete, {"session_id": session_id})).fetchone()
    return row is not None and Chain(*row).known_facts() is not None


async def find_last(conn: AsyncConnection, session_id: UUID, message: int) -> KeptState | None:
    """Return the last state up to a message; None if there is none."""
    return await _find(conn, SQL.find_last, session_id, message)


async def find_next(conn: AsyncConnection, session_id: UUID, message: int) -> KeptState | None:
    """Return the first state that includes a message; None if there is none."""
    return await _find(conn, SQL.find_next, session_id, message)


async def _find(conn: AsyncConnection, query: str, session_id: UUID, message: int) -> KeptState | None:
    async with conn.cursor(row_factory=args_row(KeptState)) as cursor:
        await cursor.execute(query, [session_id, message])
        return await cursor.fetchone()


async def merge_facts(conn: AsyncConnection, session_id: UUID) -> RecordFacts:
    """Return the facts of all messages."""
    rows = await (await conn.execute(SQL.list_facts, [session_id])).fetchall()
    chain = await (await conn.execute(SQL.read_chain, [session_id])).fetchone()
    facts = RecordFacts()
    for (text,) in rows:
        facts = facts.merge(_decode(text).facts)
    return facts.merge((Chain(*chain).known_facts() if chain else None) or RecordFacts())


async def replace_after(
    conn: AsyncConnection, session_id: UUID, first: int, states: Sequence[KeptState], rest: RecordFacts
) -> None:
    """Replace all states after the message `first`. `rest` are the facts of the messages after the last one."""
    await conn.execute(SQL.delete_between, [session_id, first, _END])
    await insert(conn, session_id, states)
    last = states[-1].message_sequence if states else first
    await conn.execute(SQL.set_chain, [last, encode_facts(rest), session_id])


async def replace_between(
    conn: AsyncConnection,
    session_id: UUID,
    between: tuple[int, int],
    states: Sequence[KeptState],
    rest: RecordFacts,
) -> None:
    """Replace the states between two others. `rest` are the facts of the messages before the second one."""
    first, end = between
    await conn.execute(SQL.delete_between, [session_id, first, end])
    await insert(conn, session_id, states)
    await conn.execute(SQL.set_facts, [encode_facts(rest), session_id, end])


async def move_turns(conn: AsyncConnection, session_id: UUID, first: int, moved: int) -> None:
    """Add `moved` to the numbers of turns in the states from a message on."""
    rows = await (await conn.execute(SQL.list_states, [session_id, first])).fetchall()
    changed = [(message, state_with_moved_turns(state, moved)) for message, state in rows]
    columns = map(list, zip(*changed, strict=True))
    await conn.execute(SQL.set_states, [*columns, session_id])


async def forget(conn: AsyncConnection, session_id: UUID) -> None:
    """Delete all states of a session; the next deletion keeps new ones."""
    await conn.execute(SQL.delete_between, [session_id, INCOMPLETE, _END])
    await conn.execute(SQL.set_chain, [INCOMPLETE, "", session_id])


async def forget_totals(conn: AsyncConnection, session_id: UUID, first: int) -> None:
    """Mark the totals of the states from a message on as unknown."""
    await conn.execute(SQL.forget_totals, [session_id, first])


async def find_events(conn: AsyncConnection, session_id: UUID, messages: Sequence[int]) -> list[int]:
    """Return the last event up to each of these messages, in ascending order. Reads the whole log."""
    if not messages:
        return []
    thresholds = [message + 1 for message in messages]
    rows = await (await conn.execute(SQL.list_places, [thresholds, session_id])).fetchall()
    ends, last = sorted(rows), 0
    events = []
    for part in range(len(messages)):
        index = bisect_left(ends, (part, 0))
        if index < len(ends) and ends[index][0] == part:
            last = max(last, ends[index][1])
        events.append(last)
    return events
