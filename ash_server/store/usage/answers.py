"""The usage of answers, stored in the transaction of their events, and its sums by quarter of an hour.

The lock of the session's counters orders reads and writes, as it does for the state of the normaliser.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec.structs import replace
from psycopg import AsyncConnection, AsyncCursor

from ash_server.prices.costs import band_of
from ash_server.store.connections.driver import execute_numbered
from ash_server.store.statements import number_parameters, statements
from ash_server.store.text import storable
from ash_shared.model.usage.answers import AnswerUsage

MAX_NAME = 100
"""Characters of a model, an agent and other short names; they are in an index."""

MAX_FOLDER = 1000
"""Characters of a folder or a branch."""

_BATCH_SIZE = 1000
"""Answers per statement."""

_DAY = 24 * 60 * 60 * 1000

AnswerRow: TypeAlias = Mapping[str, Any]
"""The columns of an answer."""

SQL = statements(__file__)

_REVISE = number_parameters(SQL.revise)
_REMOVE = number_parameters(SQL.remove)

_encode = msgspec.json.Encoder().encode


class PlacedUsage(NamedTuple):
    """The usage of an answer, with the message that stated it first and its first known time."""

    message_sequence: int | None
    """None: a posted event states it."""
    time: int | None
    usage: AnswerUsage


class AnswerUsages:
    """The last usage of each answer that some messages state, as `last_values` returns it."""

    def __init__(self) -> None:
        self.settled_turns = set[int]()
        """Turns with a cost that includes their answers."""
        self._by_key: dict[str, PlacedUsage] = {}
        self._without_cost: dict[int, set[str]] = {}
        """The keys of answers without a cost, by turn."""

    def __iter__(self) -> Iterator[PlacedUsage]:
        return iter(self._by_key.values())

    def add(self, usages: Iterable[AnswerUsage], message_sequence: int | None) -> None:
        """Add what a message states, or a posted event without a sequence."""
        for usage in usages:
            if usage.settles_turn:
                self._settle(usage.turn)
            known = self._by_key.get(usage.key)
            first, time = (message_sequence, None) if known is None else known[:2]
            self._by_key[usage.key] = PlacedUsage(first, usage.time if time is None else time, usage)
            if usage.reported_cost is None:
                self._without_cost.setdefault(usage.turn, set()).add(usage.key)

    def copy(self) -> "AnswerUsages":
        copied = AnswerUsages()
        copied.settled_turns = set(self.settled_turns)
        copied._by_key = dict(self._by_key)
        copied._without_cost = {turn: set(keys) for turn, keys in self._without_cost.items()}
        return copied

    def differences(self, other: "AnswerUsages") -> set[str]:
        """Return the keys of answers with other values than the number of their turn, or only in one of both."""
        known, others = self._by_key, other._by_key
        keys = known.keys() | others.keys()
        return {key for key in keys if not _equal_except_turn(known.get(key), others.get(key))}

    def other_turns(self, other: "AnswerUsages") -> dict[str, int]:
        """Return the numbers of the turns of the other answers that differ by nothing else, by key."""
        both = [(answer, other._by_key.get(key)) for key, answer in self._by_key.items()]
        return {
            one.usage.key: two.usage.turn
            for one, two in both
            if two is not None and one.usage.turn != two.usage.turn and _equal_except_turn(one, two)
        }

    def only(self, keys: Container[str]) -> "AnswerUsages":
        """Return the answers with these keys."""
        selected = AnswerUsages()
        selected._by_key = {key: answer for key, answer in self._by_key.items() if key in keys}
        return selected

    def settled_before(self, turn: int) -> set[int]:
        """Return the turns up to one with a cost that includes their answers."""
        return {each for each in self.settled_turns if each <= turn}

    def _settle(self, turn: int) -> None:
        self.settled_turns.add(turn)
        for key in self._without_cost.pop(turn, ()):
            first, time, usage = self._by_key[key]
            if usage.turn == turn and usage.reported_cost is None:
                self._by_key[key] = PlacedUsage(first, time, replace(usage, reported_cost=0))


def _equal_except_turn(one: PlacedUsage | None, two: PlacedUsage | None) -> bool:
    """True if two values are equal except for the number of their turn."""
    if one is None or two is None or one == two:
        return one == two
    return one == two._replace(usage=replace(two.usage, turn=one.usage.turn))


class SentAnswers(NamedTuple):
    """Answers that PostgreSQL adds unless they are stored. The result is the keys of the new ones."""

    rows: Sequence[AnswerRow]
    added: AsyncCursor


async def send_answers(
    conn: AsyncConnection, session_id: UUID, answers: AnswerUsages, now: int
) -> list[SentAnswers]:
    """Begin to store new values of answers. Times more than a day after `now`, in milliseconds, are unknown.

    In a pipeline, PostgreSQL adds them while the caller continues. `finish_answers` revises the stored ones.
    """
    if answers.settled_turns:
        turns = sorted(answers.settled_turns)
        await conn.execute(SQL.settle, {"session_id": session_id, "turns": turns})
    rows = to_rows(answers, now)
    batches = [rows[start : start + _BATCH_SIZE] for start in range(0, len(rows), _BATCH_SIZE)]
    return [
        SentAnswers(batch, await conn.execute(SQL.add, _parameters(session_id, batch))) for batch in batches
    ]


def to_rows(answers: AnswerUsages, now: int) -> list[AnswerRow]:
    """Return the columns of answers. Times more than a day after `now`, in milliseconds, are unknown."""
    return [_row(answer, now + _DAY) for answer in answers]


async def add_to_new_sessions(conn: AsyncConnection, rows: Sequence[AnswerRow]) -> None:
    """Store the answers of sessions without any, in the transaction that creates these. Rows contain the session."""
    for start in range(0, len(rows), _BATCH_SIZE):
        answers = _encode(rows[start : start + _BATCH_SIZE]).decode()
        await conn.execute(SQL.add_to_new_sessions, {"answers": answers})


async def finish_answers(conn: AsyncConnection, session_id: UUID, sent: Iterable[SentAnswers]) -> None:
    """Revise the answers that were stored before."""
    for rows, added in sent:
        new = {key for (key,) in await added.fetchall()}
        revised = [row for row in rows if row["key"] not in new]
        if revised:
            await revise(conn, session_id, revised)


async def write_answers(conn: AsyncConnection, session_id: UUID, answers: AnswerUsages, now: int) -> None:
    """Store new values of answers; see `send_answers`."""
    await finish_answers(conn, session_id, await send_answers(conn, session_id, answers, now))


async def replace_answers(conn: AsyncConnection, session_id: UUID, answers: AnswerUsages, now: int) -> None:
    """Replace all stored answers of a session."""
    await delete_answers(conn, session_id)
    await write_answers(conn, session_id, answers, now)
    await conn.execute(SQL.forget_cost, [session_id])


async def change_answers(
    conn: AsyncConnection, session_id: UUID, keys: Sequence[str], answers: AnswerUsages, now: int
) -> None:
    """Replace the answers with these keys."""
    if keys:
        await execute_numbered(conn, _REMOVE, {"session_id": session_id, "keys": keys})
        await conn.execute(SQL.forget_cost, [session_id])
        await write_answers(conn, session_id, answers, now)


async def set_turns(conn: AsyncConnection, session_id: UUID, turns: Mapping[str, int]) -> None:
    """Set the numbers of the turns of answers, by key."""
    if turns:
        await conn.execute(SQL.set_turns, [list(turns), list(turns.values()), session_id])


async def move_turns(
    conn: AsyncConnection, session_id: UUID, moved: int, last_turn: int, last_message: int
) -> None:
    """Add `moved` to the numbers of the turns of all answers that were first stated after a message in `last_turn`."""
    await conn.execute(SQL.move_turns, [moved, session_id, last_turn, last_turn, last_message])


async def find_first_messages(
    conn: AsyncConnection, session_id: UUID, keys: Sequence[str]
) -> list[int | None]:
    """Return the messages that stated these answers first; None for a posted event."""
    rows = await (await conn.execute(SQL.find_first_messages, [session_id, keys])).fetchall()
    return [message for (message,) in rows]


async def delete_answers(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(SQL.delete_answers, [session_id])
    await conn.execute(SQL.delete_rollups, [session_id])


async def count_again(conn: AsyncConnection, session_id: UUID) -> None:
    """Sum all answers of a session again, after a change of its copied messages."""
    await conn.execute(SQL.delete_rollups, [session_id])
    await conn.execute(SQL.count_again, {"session_id": session_id})
    await conn.execute(SQL.forget_cost, [session_id])


async def revise(conn: AsyncConnection, session_id: UUID, rows: Sequence[AnswerRow]) -> None:
    """Store answers, and replace those that are stored."""
    keys = [row["key"] for row in rows]
    await execute_numbered(conn, _REVISE, {"keys": keys, **_parameters(session_id, rows)})


def encode_rows(rows: Sequence[AnswerRow]) -> str:
    """psycopg takes longer for an array per column, and PostgreSQL would plan again for each size of its integers."""
    return _encode(rows).decode()


def _parameters(session_id: UUID, rows: Sequence[AnswerRow]) -> dict[str, Any]:
    return {"session_id": session_id, "answers": encode_rows(rows)}


def _row(answer: PlacedUsage, latest: int) -> AnswerRow:
    usage, time = answer.usage, answer.time
    return {
        "key": usage.key,
        "message_sequence": answer.message_sequence,
        "time": time if time is not None and time <= latest else None,
        "model": _cut(usage.model),
        "service_tier": _cut(usage.service_tier),
        "speed": _cut(usage.speed),
        "region": _cut(usage.region),
        "agent_id": _cut(usage.agent_id),
        "cause": usage.cause or "",
        "is_request": usage.is_request,
        "band": band_of_answer(usage),
        "folder": _cut(usage.folder, MAX_FOLDER),
        "branch": _cut(usage.branch, MAX_FOLDER),
        "turn": usage.turn,
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_5m_tokens": usage.cache_write_5m_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "web_searches": usage.web_searches,
        "reported_cost": usage.reported_cost,
    }


def _cut(text: str | None, length: int = MAX_NAME) -> str:
    return storable(text)[:length] if text else ""


def band_of_answer(usage: AnswerUsage) -> int:
    if not usage.is_request:
        return 0
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return band_of(usage.input_tokens + usage.cache_read_tokens + written)
