"""The values of answers and their sums in the tables."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection, AsyncCursor

from ash_server import Store
from ash_server.store.connections.pool import one_transaction
from ash_server.store.log import writer
from ash_server.store.log.writer import milliseconds
from ash_server.store.usage.answers import MAX_NAME, AnswerUsages, count_again, write_answers
from ash_shared.model.usage.answers import MAX_COUNT, AnswerUsage, last_values
from tests.shared.records import claude
from tests.shared.records.events import token_usage, wire_event

SAMPLES = sorted((Path(__file__).parents[3] / "ash_server" / "samples").glob("*.jsonl"))

# A rebuild estimates the time of records without a time to the millisecond only.
ANSWERS = """
    SELECT session_id, key, message_sequence, date_trunc('minute', at)::text, model, cause, folder, branch, turn,
        reported_cost, input_tokens, output_tokens
    FROM answers
"""
SUMS = """
    SELECT session_id, quarter::text, model, service_tier, speed, region, agent_id, cause, is_request, band, is_copy,
        answers, input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, output_tokens,
        reasoning_tokens, web_searches, reported_cost, reported_answers
    FROM usage_rollups
"""

Rows = dict[str, list[tuple[Any, ...]]]


async def read_rows(connection: AsyncConnection) -> Rows:
    queries = {"answers": ANSWERS, "sums": SUMS}
    return {
        name: sorted(await (await connection.execute(query)).fetchall(), key=str)
        for name, query in queries.items()
    }


def answer(number: int, *, model: str = "claude-opus-4-5", **more: Any) -> claude.Record:
    usage = {"input_tokens": 40_000 * number, "output_tokens": number, "cache_read_input_tokens": 7}
    time = f"2026-11-02T09:{10 * number % 60:02}:00Z"
    record = claude.assistant(claude.text(f"Answer {number}"), id=f"m{number}", timestamp=time, **more)
    record["message"] |= {"model": model, "usage": usage}
    return record


def prompt(number: int) -> claude.Record:
    return claude.user(f"Prompt {number}", timestamp=f"2026-11-02T09:{10 * number % 60:02}:00Z")


CONVERSATION = [
    *(record for number in (1, 2, 3) for record in (prompt(number), answer(number))),
    prompt(4),
    *claude.streamed_text("Four"),
    claude.stream_event(claude.message_delta("end_turn", {"output_tokens": 44})),
    claude.stream_event(claude.STOP),
    claude.result("Four", total_cost_usd=0.25, usage={"input_tokens": 9, "output_tokens": 44}, uuid="r1"),
    prompt(5),
    answer(5, model="claude-haiku-4-5"),
]
LINES = [json.dumps(record) for record in CONVERSATION]


SESSION_ROWS = "SELECT {} FROM answers WHERE session_id = %s ORDER BY key"


async def write(store: Store, session_id: UUID, values: Sequence[AnswerUsage], sequence: int = 1) -> None:
    answers = AnswerUsages()
    answers.add(values, sequence)
    async with store._connections.connection() as conn, one_transaction(conn):
        await conn.execute(writer.SQL.lock_counters, [session_id])
        await write_answers(conn, session_id, answers, milliseconds())


async def read_values(connection: AsyncConnection, session_id: UUID, columns: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(SESSION_ROWS.format(columns), [session_id])).fetchall()


def any_usage(choose: random.Random) -> AnswerUsage:
    return AnswerUsage(
        key=f"{choose.randrange(8):016x}",
        time=choose.choice([None, 1_764_000_000_000 + choose.randrange(8) * 900_000]),
        model=choose.choice([None, "a", "b"]),
        is_request=choose.random() < 0.8,
        input_tokens=choose.choice([0, 10, 150_000]),
        output_tokens=choose.randrange(100),
        reported_cost=choose.choice([None, None, 5]),
        turn=choose.randrange(4),
        settles_turn=choose.random() < 0.2,
    )


@pytest.mark.parametrize("seed", range(10))
async def test_last_value_of_each_answer_is_stored(
    seed: int, store: Store, session_id: UUID, connection: AsyncConnection
) -> None:
    """In whatever batches they come, also with the costs that the total of a turn settles."""
    choose = random.Random(seed)
    values = list[AnswerUsage]()
    for sequence in range(1, 13):
        batch = [any_usage(choose) for _ in range(choose.randrange(1, 8))]
        await write(store, session_id, batch, sequence)
        values += batch
    written = await read_rows(connection)
    async with store._connections.connection() as conn:
        await count_again(conn, session_id)
    columns = "key, model, input_tokens, output_tokens, reported_cost"

    assert written == await read_rows(connection)
    assert await read_values(connection, session_id, columns) == sorted(
        (each.key, each.model or "", each.input_tokens, each.output_tokens, each.reported_cost)
        for each in last_values(values)
    )


async def test_place_and_time_are_the_first_known_ones(
    store: Store, session_id: UUID, connection: AsyncConnection
) -> None:
    key, time = "0" * 16, 1_764_000_000_000
    for sequence, known in ((3, None), (4, time), (5, time + 60_000)):
        await write(store, session_id, [AnswerUsage(key, known)], sequence)
    rows = await read_values(connection, session_id, "message_sequence, extract(epoch FROM at)::bigint")

    assert rows == [(3, time // 1000)]


@pytest.mark.slow
async def test_values_of_any_record_are_stored(
    store: Store, session_id: UUID, connection: AsyncConnection
) -> None:
    """Sums do not overflow, names are cut, and times after tomorrow are unknown."""
    future = milliseconds() + 25 * 60 * 60 * 1000
    values = [
        AnswerUsage(
            f"{number:016x}",
            future,
            model="\0\ud800" + "é" * 10_000,
            agent_id="😀" * 10_000,
            input_tokens=MAX_COUNT,
            cache_write_1h_tokens=-MAX_COUNT,
            reported_cost=MAX_COUNT,
        )
        for number in range(2100)
    ]
    await write(store, session_id, values)
    [row] = await (
        await connection.execute(
            "SELECT quarter::text, length(model), length(agent_id), answers, input_tokens, reported_cost "
            "FROM usage_rollups WHERE session_id = %s",
            [session_id],
        )
    ).fetchall()

    assert row == ("-infinity", MAX_NAME, MAX_NAME, 2100, 2100 * MAX_COUNT, 2100 * MAX_COUNT)


async def test_append_without_usage_runs_no_statement_for_it(
    store: Store, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = list[str]()
    execute = AsyncCursor.execute

    async def recorded(self: AsyncCursor, query: Any, *args: Any, **kwargs: Any) -> Any:
        executed.append(str(query))
        return await execute(self, query, *args, **kwargs)

    monkeypatch.setattr(AsyncCursor, "execute", recorded)
    await store.messages.append(session_id, [json.dumps(prompt(1))])
    without = [query for query in executed if "answers" in query]
    await store.messages.append(session_id, [json.dumps(answer(1))])

    assert without == []
    assert [query for query in executed if "answers" in query]


async def test_all_sizes_of_integers_share_a_plan(store: Store, session_id: UUID) -> None:
    """PostgreSQL plans a statement for each combination of types of its parameters."""
    async with store._connections.connection() as conn:
        for number, tokens in enumerate([1, 2**15, 2**31] * 3):
            answers = AnswerUsages()
            answers.add([AnswerUsage(f"{number:016x}", input_tokens=tokens)], number)
            await write_answers(conn, session_id, answers, milliseconds())
        prepared = await conn.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%INSERT INTO answers%'"
        )

        assert await prepared.fetchall() == [(1,)]


async def test_posted_events_are_never_copies(store: Store, connection: AsyncConnection) -> None:
    session = await store.sessions.create(source="claude")
    ends = [wire_event("turn_end", usage=token_usage(5, 6), turnId=turn) for turn in ("t", "u")]
    await store.events.append(session.id, ends[0])
    await store.messages.append(session.id, LINES[:2])
    await store.events.append(session.id, ends[1])
    await connection.execute("UPDATE sessions SET copied_messages = 2")

    await store.messages.reindex(session.id)
    cursor = await connection.execute("SELECT message_sequence FROM answers WHERE NOT is_request")
    rollups = await connection.execute(
        "SELECT is_copy, sum(answers) FROM usage_rollups WHERE NOT is_request GROUP BY 1"
    )
    assert await cursor.fetchall() == [(None,), (None,)]
    assert await rollups.fetchall() == [(False, 2)]
