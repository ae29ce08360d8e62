"""Concurrent writers, and every order of two calls that compete for a session."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection, IsolationLevel

from ash_server.errors import IdConflict, SequenceMismatch, SessionNotFound
from ash_server.store.connections.pool import connect, open_pool
from ash_server.store.log.events import Appended, append_events, end_session
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.message_pages import list_messages
from ash_server.store.messages import append
from ash_server.store.prepare import PreparedMessage, prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, delete_session, update_session
from tests.cluster import COUNT_LOCK_WAITS
from tests.marking import slow_after
from tests.server.store.test_messages import message
from tests.shared.records.events import wire_event
from tests.waiting import until

WRITERS = 8
EACH = 40


@pytest.fixture
async def writers(database_url: str) -> AsyncIterator[list[AsyncConnection]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await connect(database_url)) for _ in range(WRITERS)]


async def read_log(connection: AsyncConnection, session_id: UUID) -> list[tuple[int, str]]:
    return [(each.sequence, each.id) for each in await list_messages(connection, session_id, limit=1000)]


async def write(connection: AsyncConnection, session_id: UUID, name: str) -> list[Appended]:
    """Append one to three messages at a time; send half of the batches again, like a writer that lost the answer."""
    answers = []
    random = Random(name)
    numbers = iter(range(EACH))
    while batch := [message(f"{name}-{number}") for number in islice(numbers, random.randint(1, 3))]:
        answers += await append(connection, session_id, batch)
        if random.random() < 0.5:
            again = await append(connection, session_id, batch)
            assert again == [each._replace(created=False) for each in answers[-len(batch) :]]
    return answers


@pytest.mark.slow
async def test_concurrent_writers_get_consecutive_sequences(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    answers = await asyncio.gather(*(write(each, session_id, str(n)) for n, each in enumerate(writers)))
    stored = await read_log(connection, session_id)

    assert [sequence for sequence, _ in stored] == list(range(1, WRITERS * EACH + 1))
    assert sorted((each.sequence, each.id) for own in answers for each in own) == stored
    assert [[each.id for each in own] for own in answers] == [
        [f"{n}-{number}" for number in range(EACH)] for n in range(WRITERS)
    ]
    assert all(own == sorted(own, key=lambda each: each.sequence) for own in answers)


async def test_writers_of_different_sessions_are_independent(
    writers: list[AsyncConnection], connection: AsyncConnection
) -> None:
    ids = [(await create_session(connection)).session.id for _ in writers]
    await asyncio.gather(*(write(each, ids[n], "x") for n, each in enumerate(writers)))

    expected = [(number + 1, f"x-{number}") for number in range(EACH)]
    assert [await read_log(connection, each) for each in ids] == [expected] * WRITERS


async def test_same_messages_from_all_writers_are_stored_once(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    answers = await asyncio.gather(*(write(each, session_id, "same") for each in writers))

    assert await read_log(connection, session_id) == [
        (number + 1, f"same-{number}") for number in range(EACH)
    ]
    assert sum(each.created for own in answers for each in own) == EACH


async def test_one_append_per_expected_sequence_succeeds(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    attempts = (
        append(each, session_id, [message(str(n))], expected_sequence=0) for n, each in enumerate(writers)
    )
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)

    assert sorted(type(each).__name__ for each in outcomes) == ["SequenceMismatch"] * 7 + ["list"]
    assert {each.extra["currentSequence"] for each in outcomes if isinstance(each, SequenceMismatch)} == {1}
    assert len(await read_log(connection, session_id)) == 1


@pytest.mark.slow
async def test_following_reader_sees_each_message_once_in_order(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    writing = asyncio.gather(*(write(each, session_id, str(n)) for n, each in enumerate(writers)))
    seen: list[int] = []
    while len(seen) < WRITERS * EACH and not (writing.done() and writing.exception()):
        page = await list_messages(connection, session_id, after=seen[-1] if seen else 0, limit=7)
        seen += [each.sequence for each in page]
    await writing

    assert seen == list(range(1, WRITERS * EACH + 1))


Call = Coroutine[Any, Any, Any]


async def run_in_order(
    writers: list[AsyncConnection], session_id: UUID, first: Call, second: Call
) -> list[Any]:
    """Start two calls, one after the other, while another connection locks the session; return their outcomes.

    Of three calls, the last two could change places: waiters of a row lose their order once the first writes it.
    """
    holder, observer = writers[-2:]
    tasks = []
    async with holder.transaction():
        await holder.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id])
        for call in (first, second):
            tasks.append(asyncio.create_task(call))
            await wait_for_blocked(observer, len(tasks))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def wait_for_blocked(observer: AsyncConnection, count: int) -> None:
    """Wait until this many connections wait for a lock."""

    async def are_blocked() -> bool:
        return await (await observer.execute(COUNT_LOCK_WAITS)).fetchone() == (count,)

    await until(are_blocked)


async def test_waiting_append_continues_sequence(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a"), message("b")])
    other = append(writers[1], session_id, [message("c")])

    assert await run_in_order(writers, session_id, one, other) == [
        [Appended("a", 1, True), Appended("b", 2, True)],
        [Appended("c", 3, True)],
    ]


async def test_waiting_append_deduplicates_messages(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a"), message("b")])
    other = append(writers[1], session_id, [message("b"), message("c")])

    assert await run_in_order(writers, session_id, one, other) == [
        [Appended("a", 1, True), Appended("b", 2, True)],
        [Appended("b", 2, False), Appended("c", 3, True)],
    ]


async def test_waiting_append_with_conflicting_id_is_rejected(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = append(writers[0], session_id, [message("a", "first")])
    other = append(writers[1], session_id, [message("new"), message("a", "second")])
    answers, refusal = await run_in_order(writers, session_id, one, other)

    assert answers == [Appended("a", 1, True)]
    assert isinstance(refusal, IdConflict)
    assert await read_log(writers[0], session_id) == [(1, "a")]


async def test_waiting_append_with_same_expected_sequence_is_rejected(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = append(writers[0], session_id, [message("a")], expected_sequence=0)
    other = append(writers[1], session_id, [message("b")], expected_sequence=0)
    answers, refusal = await run_in_order(writers, session_id, one, other)

    assert answers == [Appended("a", 1, True)]
    assert isinstance(refusal, SequenceMismatch)


async def test_waiting_append_merges_metadata(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a")], metadata={"a": 1, "both": 1})
    other = append(writers[1], session_id, [message("b")], metadata={"b": 2, "both": 2})

    assert await run_in_order(writers, session_id, one, other) == [
        [Appended("a", 1, True)],
        [Appended("b", 2, True)],
    ]
    session = await get_session(writers[0], session_id)
    assert (session.metadata, session.message_count) == ({"a": 1, "both": 2, "b": 2}, 2)


async def test_append_merges_metadata_that_another_writer_has_changed(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    holder, observer, writer, *_ = writers
    async with holder.transaction():
        await update_session(holder, session_id, metadata={"changed": True})
        task = asyncio.create_task(append(writer, session_id, [message("a")], metadata={"a": 1}))
        await wait_for_blocked(observer, 1)

    assert await task == [Appended("a", 1, True)]
    assert (await get_session(observer, session_id)).metadata == {"changed": True, "a": 1}


async def test_delete_waits_for_append(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a")])
    other = delete_session(writers[1], session_id)

    assert await run_in_order(writers, session_id, one, other) == [[Appended("a", 1, True)], None]
    with pytest.raises(SessionNotFound):
        await get_session(writers[0], session_id)


async def test_append_that_waited_for_delete_is_rejected(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = delete_session(writers[0], session_id)
    other = append(writers[1], session_id, [message("a")])
    deleted, refusal = await run_in_order(writers, session_id, one, other)

    assert deleted is None
    assert isinstance(refusal, SessionNotFound)


WRITES: dict[str, Callable[[AsyncConnection, UUID], Call]] = {
    "append": lambda conn, session_id: append(conn, session_id, [prompt(session_id, "a")]),
    "append with metadata": lambda conn, session_id: append(
        conn, session_id, [prompt(session_id, "a")], metadata={"a": 1}
    ),
    "chunk event": lambda conn, session_id: append_events(conn, session_id, [posted("b", "assistant_chunk")]),
    "complete event": lambda conn, session_id: append_events(
        conn, session_id, [posted("c", "assistant_done")]
    ),
    "rebuild": rebuild_events,
    "end": end_session,
}


@pytest.mark.parametrize("name", slow_after(2, WRITES))
async def test_delete_that_waited_for_write_removes_its_rows(
    writers: list[AsyncConnection], session_id: UUID, name: str
) -> None:
    await append(writers[0], session_id, [prompt(session_id, "first")])
    write, end = WRITES[name](writers[0], session_id), delete_session(writers[1], session_id)
    written, deleted = await run_in_order(writers, session_id, write, end)

    assert not isinstance(written, Exception)
    assert deleted is None
    assert await count_orphans(writers[0]) == 0


@pytest.mark.parametrize("name", slow_after(2, WRITES))
async def test_write_that_waited_for_delete_stores_nothing(
    writers: list[AsyncConnection], session_id: UUID, name: str
) -> None:
    await append(writers[0], session_id, [prompt(session_id, "first")])
    end, write = delete_session(writers[0], session_id), WRITES[name](writers[1], session_id)
    deleted, refusal = await run_in_order(writers, session_id, end, write)

    assert deleted is None
    assert isinstance(refusal, SessionNotFound)
    assert await count_orphans(writers[0]) == 0


CHURN: list[Callable[[AsyncConnection, UUID, str], Call]] = [
    lambda conn, session_id, id: append(conn, session_id, [prompt(session_id, id)]),
    lambda conn, session_id, id: append(conn, session_id, [prompt(session_id, id)], end=True),
    lambda conn, session_id, id: append(conn, session_id, [prompt(session_id, id)], metadata={"id": id}),
    lambda conn, session_id, id: append_events(conn, session_id, [posted(id, "assistant_chunk")]),
    lambda conn, session_id, id: append_events(conn, session_id, [posted(id, "assistant_done")]),
    lambda conn, session_id, id: update_session(conn, session_id, title="x"),
    lambda conn, session_id, id: delete_session(conn, session_id),
    lambda conn, session_id, id: delete_session(conn, session_id),
]


@pytest.mark.slow
async def test_mixed_writes_do_not_deadlock(
    writers: list[AsyncConnection], connection: AsyncConnection
) -> None:
    async def churn(conn: AsyncConnection, seed: int) -> None:
        random = Random(seed)
        for number in range(40):
            id = (await create_session(conn, source="claude", external_id=str(number // 4))).session.id
            with suppress(SessionNotFound):
                await random.choice(CHURN)(conn, id, f"{seed}-{number}")

    await asyncio.gather(*(churn(each, seed) for seed, each in enumerate(writers)))

    assert await count_orphans(connection) == 0


async def count_orphans(conn: AsyncConnection) -> int:
    """Count messages and events without a session."""
    query = """
        SELECT count(*)
        FROM (SELECT session_id FROM messages UNION ALL SELECT session_id FROM events) AS entries
        WHERE session_id NOT IN (SELECT id FROM sessions)
    """
    ((count,),) = await (await conn.execute(query)).fetchall()
    return int(count)


def prompt(session_id: UUID, id: str) -> PreparedMessage:
    """A message with derived events."""
    return prepare_message(session_id, '{"type":"user","message":{"role":"user","content":"hi"}}', id=id)


def posted(id: str, type: str) -> dict[str, Any]:
    return wire_event(type, text="hi", id=id, turnId="t")


async def test_reader_does_not_wait_and_sees_committed_messages(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    async def read() -> list[tuple[int, str]]:
        await wait_for_blocked(writers[-1], 1)
        return await read_log(connection, session_id)

    await append(connection, session_id, [message("a")])
    async with writers[0].transaction():
        await writers[0].execute(
            "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id]
        )
        waiting = asyncio.create_task(append(writers[1], session_id, [message("b")]))
        during = await read()
    await waiting

    assert during == [(1, "a")]
    assert await read_log(connection, session_id) == [(1, "a"), (2, "b")]


async def test_cancelled_append_stores_nothing_and_keeps_no_lock(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    """It has written nothing while it waits for the lock, and its connection is closed."""
    async with writers[0].transaction():
        await writers[0].execute(
            "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id]
        )
        waiting = asyncio.create_task(append(writers[1], session_id, [message("a")]))
        await wait_for_blocked(writers[-1], 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert writers[1].closed
    assert await append(writers[0], session_id, [message("b")]) == [Appended("b", 1, True)]


@pytest.mark.slow
async def test_append_cancelled_at_any_moment_is_atomic(
    database_url: str, connection: AsyncConnection, session_id: UUID
) -> None:
    random = Random(1)
    answered = []
    async with open_pool(database_url, max_size=2) as pool:
        for number in range(150):
            batch = [message(f"{number}-{part}") for part in "abc"]
            try:
                async with pool.connection() as conn, asyncio.timeout(random.uniform(0, 0.003)):
                    answered += await append(conn, session_id, batch)
            except TimeoutError:
                pass
    await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)  # one may still be running
    async with connection.transaction():
        stored = await read_log(connection, session_id)
        counters = await connection.execute(
            "SELECT message_sequence, event_sequence, (SELECT count(*) FROM events) FROM session_counters"
        )
        messages_counted, events_counted, events_stored = await counters.fetchone() or (0, 0, 0)

    assert (messages_counted, events_counted) == (len(stored), events_stored)

    assert [sequence for sequence, _ in stored] == list(range(1, len(stored) + 1))
    assert {(each.sequence, each.id) for each in answered} <= set(stored)
    assert [id[-1] for _, id in stored] == list("abc") * (len(stored) // 3)
