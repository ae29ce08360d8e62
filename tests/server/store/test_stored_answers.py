"""Every way of writing keeps the usage of answers and its sums as a rebuild would."""

import json
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, AsyncCursor

from ash_server import Store
from ash_server.store.connections.pool import one_transaction
from ash_server.store.log import writer
from ash_server.store.log.writer import milliseconds
from ash_server.store.maintenance.backup import restore_backup, write_backup
from ash_server.store.transcripts import Copy
from ash_server.store.usage.answers import MAX_NAME, AnswerUsages, count_again, write_answers
from ash_server.transfer.importing.file_import import import_file
from ash_shared.model.usage.answers import MAX_COUNT, AnswerUsage, last_values
from tests.cluster import not_on_cluster
from tests.shared.records import claude, codex

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


async def rebuilt_rows(store: Store, connection: AsyncConnection) -> Rows:
    for session_id in [id async for id in store.sessions.list_ids()]:
        await store.events.rebuild(session_id)
    return await read_rows(connection)


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


async def append_lines(store: Store, lines: Sequence[str] = LINES) -> UUID:
    session = await store.sessions.create(source="claude")
    for line in lines:
        await store.messages.append(session.id, [line])
    return session.id


async def append_all(store: Store) -> None:
    session = await store.sessions.create(source="claude")
    await store.messages.append(session.id, LINES, end=True)


async def end(store: Store) -> None:
    await store.events.end(await append_lines(store))


async def post(store: Store) -> None:
    session = await append_lines(store, LINES[:2])
    usage = {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}
    await store.events.append_batch(
        session,
        [
            {"id": "s", "type": "turn_start", "turnId": "t", "payload": {"trigger": "user"}},
            {"id": "e", "type": "turn_end", "turnId": "t", "payload": {"reason": "done", "usage": usage}},
        ],
    )
    await store.messages.append(session, LINES[2:4])


async def delete_each(store: Store) -> None:
    for sequence in range(1, len(LINES) + 1):
        await store.messages.delete(await append_lines(store), sequence)


async def pop(store: Store) -> None:
    session = await append_lines(store)
    for _ in range(4):
        await store.messages.pop(session)
    await store.messages.append(session, LINES[-2:])


async def import_samples(store: Store) -> None:
    for path in SAMPLES:
        await import_file(store, path, path.name, identify=True)


async def mark_copy(store: Store) -> None:
    original, copy = await append_lines(store), await append_lines(store)
    await store.transcripts.set_copy(copy, Copy(original, 4))
    await store.messages.append(copy, [json.dumps(answer(6))])


async def remove_mark(store: Store) -> None:
    copy = await append_lines(store)
    await store.transcripts.set_copy(copy, Copy(uuid4(), 4))
    await store.transcripts.set_copy(copy, None)


async def delete_original(store: Store) -> None:
    original, *copies = [await append_lines(store) for _ in range(3)]
    async with store._connections.connection() as conn:
        await conn.execute("UPDATE sessions SET lineage = ARRAY['same']")
    for number, copy in enumerate(copies):
        await store.transcripts.set_copy(copy, Copy(original, 2 * number + 2))
    await store.sessions.delete(original)


async def inherit(store: Store) -> None:
    """A subagent of Codex that begins with messages of its parent."""
    session = await store.sessions.create(source="codex")
    header: codex.Record = {"id": "c1", "parent_thread_id": "c0", "subagent_history_start_ordinal": 3}
    total = {"input_tokens": 30, "cached_input_tokens": 10, "output_tokens": 5, "total_tokens": 35}
    double = {name: 2 * count for name, count in total.items()}
    usages = [codex.token_count(each, total) for each in (total, double)]
    records = [codex.line("session_meta", **header), codex.message_item("user", "Go"), usages[0]]
    records += [codex.message_item("user", "Count"), codex.message_item("assistant", "1"), usages[1]]
    numbered = [{**record, "ordinal": number} for number, record in enumerate(records)]
    for record in numbered:
        await store.messages.append(session.id, [json.dumps(record)])


async def reindex(store: Store) -> None:
    session = await append_lines(store)
    await store.messages.reindex(session)


DOORS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "append line by line": append_lines,
    "append at once": append_all,
    "end": end,
    "posted events": post,
    "deletion of each message": delete_each,
    "deletion of the last messages": pop,
    "import": import_samples,
    "mark of a copy": mark_copy,
    "removal of a mark": remove_mark,
    "deletion of an original": delete_original,
    "inherited messages": inherit,
    "reindex": reindex,
}


@pytest.mark.parametrize("write", DOORS.values(), ids=DOORS)
async def test_rows_are_those_of_a_rebuild(
    write: Callable[[Store], Awaitable[Any]], store: Store, connection: AsyncConnection
) -> None:
    await write(store)
    written = await read_rows(connection)

    assert written["answers"]
    assert written == await rebuilt_rows(store, connection)


@pytest.mark.parametrize("write", DOORS.values(), ids=DOORS)
async def test_sums_are_those_of_the_answers(
    write: Callable[[Store], Awaitable[Any]], store: Store, connection: AsyncConnection
) -> None:
    await write(store)
    written = await read_rows(connection)
    async with store._connections.connection() as conn:
        for session_id in [id async for id in store.sessions.list_ids()]:
            await count_again(conn, session_id)

    assert written == await read_rows(connection)


async def test_deleted_session_has_no_usage(store: Store, connection: AsyncConnection) -> None:
    await store.sessions.delete(await append_lines(store))
    session = await store.sessions.create(source="claude", external_id="again")
    await store.messages.append(session.id, LINES)
    await store.sessions.recreate(session.id, source="claude", external_id="again")

    assert await read_rows(connection) == {"answers": [], "sums": []}


@not_on_cluster("backups of clusters are restored into other databases")
async def test_backup_has_the_usage(database_url: str, bare_database_url: str, tmp_path: Path) -> None:
    async with Store.open(database_url) as store:
        await append_lines(store)
        await mark_copy(store)
    path = tmp_path / "backup.zip"
    with psycopg.connect(database_url, autocommit=True) as conn, path.open("wb") as file:
        write_backup(conn, file)
    restore_backup(bare_database_url, path)
    rows = []
    for url in (database_url, bare_database_url):
        async with await AsyncConnection.connect(url) as conn:
            rows.append(await read_rows(conn))

    assert rows[0] == rows[1]
    assert rows[0]["sums"]


# --- Values


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
    usage = {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}
    ends = [{"type": "turn_end", "turnId": turn, "payload": {"usage": usage}} for turn in ("t", "u")]
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
