"""The usage of answers, stored in the transaction of their events, and its sums by quarter of an hour.

The lock of the session's counters orders reads and writes, as it does for the state of the normaliser.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from msgspec.structs import replace
from psycopg import AsyncConnection

from ash_server.prices.costs import band_of
from ash_server.store.statements import statements
from ash_server.store.text import storable
from ash_shared.model.usage.answers import AnswerUsage

MAX_NAME = 100
"""Characters of a model, an agent and other short names; they are in an index."""

MAX_FOLDER = 1000
"""Characters of a folder or a branch."""

_BATCH_SIZE = 1000
"""Answers per statement."""

_DAY = 24 * 60 * 60 * 1000

SQL = statements(__file__)


class StatedUsage(NamedTuple):
    """The usage of an answer with its place and its time, which are the first ones."""

    message_sequence: int | None
    """None: a posted event states it."""
    time: int | None
    usage: AnswerUsage


class AnswerUsages:
    """The last usage of each answer that some messages state, as `last_values` returns it."""

    def __init__(self) -> None:
        self.settled_turns = set[int]()
        """Turns with a cost that includes those of their answers."""
        self._by_key: dict[str, StatedUsage] = {}
        self._without_cost: dict[int, set[str]] = {}
        """The keys of answers without a cost, by turn."""

    def __iter__(self) -> Iterator[StatedUsage]:
        return iter(self._by_key.values())

    def add(self, usages: Iterable[AnswerUsage], message_sequence: int | None) -> None:
        """Add what a message states, or a posted event without a sequence."""
        for usage in usages:
            if usage.settles_turn:
                self._settle(usage.turn)
            known = self._by_key.get(usage.key)
            first, time = (message_sequence, None) if known is None else known[:2]
            self._by_key[usage.key] = StatedUsage(first, usage.time if time is None else time, usage)
            if usage.reported_cost is None:
                self._without_cost.setdefault(usage.turn, set()).add(usage.key)

    def _settle(self, turn: int) -> None:
        self.settled_turns.add(turn)
        for key in self._without_cost.pop(turn, ()):
            first, time, usage = self._by_key[key]
            if usage.turn == turn and usage.reported_cost is None:
                self._by_key[key] = StatedUsage(first, time, replace(usage, reported_cost=0))


async def write_answers(conn: AsyncConnection, session_id: UUID, answers: AnswerUsages, now: int) -> None:
    """Store new values of answers. Times more than a day after `now`, in milliseconds, are unknown."""
    stated = list(answers)
    if answers.settled_turns:
        turns = sorted(answers.settled_turns)
        await conn.execute(SQL.settle, {"session_id": session_id, "turns": turns})
    for start in range(0, len(stated), _BATCH_SIZE):
        columns = _columns(stated[start : start + _BATCH_SIZE], now + _DAY)
        await conn.execute(SQL.write, {"session_id": session_id, **columns})


async def replace_answers(conn: AsyncConnection, session_id: UUID, answers: AnswerUsages, now: int) -> None:
    """Store the answers of a session instead of those that are stored."""
    await delete_answers(conn, session_id)
    await write_answers(conn, session_id, answers, now)


async def delete_answers(conn: AsyncConnection, session_id: UUID) -> None:
    await conn.execute(SQL.delete_answers, [session_id])
    await conn.execute(SQL.delete_rollups, [session_id])


async def count_again(conn: AsyncConnection, session_id: UUID) -> None:
    """Sum all answers of a session again, after a change of its copied messages."""
    await conn.execute(SQL.delete_rollups, [session_id])
    await conn.execute(SQL.count_again, {"session_id": session_id})


def _columns(answers: Sequence[StatedUsage], latest: int) -> dict[str, Any]:
    usages = [each.usage for each in answers]
    return {
        "keys": [usage.key for usage in usages],
        "message_sequences": [each.message_sequence for each in answers],
        "times": [each.time if each.time is not None and each.time <= latest else None for each in answers],
        "models": [_cut(usage.model) for usage in usages],
        "service_tiers": [_cut(usage.service_tier) for usage in usages],
        "speeds": [_cut(usage.speed) for usage in usages],
        "regions": [_cut(usage.region) for usage in usages],
        "agent_ids": [_cut(usage.agent_id) for usage in usages],
        "causes": [usage.cause or "" for usage in usages],
        "are_requests": [usage.is_request for usage in usages],
        "bands": [_band(usage) for usage in usages],
        "folders": [_cut(usage.folder, MAX_FOLDER) for usage in usages],
        "branches": [_cut(usage.branch, MAX_FOLDER) for usage in usages],
        "turns": [usage.turn for usage in usages],
        "input_tokens": [usage.input_tokens for usage in usages],
        "cache_read_tokens": [usage.cache_read_tokens for usage in usages],
        "cache_write_5m_tokens": [usage.cache_write_5m_tokens for usage in usages],
        "cache_write_1h_tokens": [usage.cache_write_1h_tokens for usage in usages],
        "output_tokens": [usage.output_tokens for usage in usages],
        "reasoning_tokens": [usage.reasoning_tokens for usage in usages],
        "web_searches": [usage.web_searches for usage in usages],
        "reported_costs": [usage.reported_cost for usage in usages],
    }


def _cut(text: str | None, length: int = MAX_NAME) -> str:
    return storable(text or "")[:length]


def _band(usage: AnswerUsage) -> int:
    if not usage.is_request:
        return 0
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return band_of(usage.input_tokens + usage.cache_read_tokens + written)
