"""Many writers, and every order in which two of them can meet."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.db.connection import connect, open_pool
from ash_server.db.events import Appended, append_events, end_session
from ash_server.db.messages import PreparedMessage, append, list_messages
from ash_server.db.rebuild_events import rebuild_events
from ash_server.db.sessions import create_session, delete_session, get_session, update_session
from ash_server.errors import IdConflict, SequenceMismatch, SessionNotFound
from ash_server.ingest import prepare_message
from tests.server.db.test_messages import message

WRITERS = 8
EACH = 40


@pytest.fixture
async def writers(database_url: str) -> AsyncIterator[list[AsyncConnection]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await connect(database_url)) for _ in range(WRITERS)]


async def log(connection: AsyncConnection, session_id: UUID) -> list[tuple[int, str]]:
    return [(each.sequence, each.id) for each in await list_messages(connection, session_id, limit=1000)]


async def write(connection: AsyncConnection, session_id: UUID, name: str) -> list[Appended]:
    """Appends of one to three messages, every other one twice, as a writer does that lost the answer."""
    answers = []
    random = Random(name)
    numbers = iter(range(EACH))
    while batch := [message(f"{name}-{number}") for number in islice(numbers, random.randint(1, 3))]:
        answers += await append(connection, session_id, batch)
        if random.random() < 0.5:
            again = await append(connection, session_id, batch)
            assert again == [each._replace(created=False) for each in answers[-len(batch) :]]
    return answers


async def test_writers_of_one_session_share_one_order(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    answers = await asyncio.gather(*(write(each, session_id, str(n)) for n, each in enumerate(writers)))
    stored = await log(connection, session_id)

    assert [sequence for sequence, _ in stored] == list(range(1, WRITERS * EACH + 1))
    assert sorted((each.sequence, each.id) for own in answers for each in own) == stored
    assert [[each.id for each in own] for own in answers] == [
        [f"{n}-{number}" for number in range(EACH)] for n in range(WRITERS)
    ]
    assert all(own == sorted(own, key=lambda each: each.sequence) for own in answers)


async def test_writers_of_their_own_sessions(
    writers: list[AsyncConnection], connection: AsyncConnection
) -> None:
    ids = [(await create_session(connection)).session.id for _ in writers]
    await asyncio.gather(*(write(each, ids[n], "x") for n, each in enumerate(writers)))

    expected = [(number + 1, f"x-{number}") for number in range(EACH)]
    assert [await log(connection, each) for each in ids] == [expected] * WRITERS


async def test_writers_that_all_send_the_same(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    answers = await asyncio.gather(*(write(each, session_id, "same") for each in writers))

    assert await log(connection, session_id) == [(number + 1, f"same-{number}") for number in range(EACH)]
    assert sum(each.created for own in answers for each in own) == EACH


async def test_one_of_those_who_expect_the_same_sequence_wins(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    attempts = (
        append(each, session_id, [message(str(n))], expected_sequence=0) for n, each in enumerate(writers)
    )
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)

    assert sorted(type(each).__name__ for each in outcomes) == ["SequenceMismatch"] * 7 + ["list"]
    assert {each.extra["currentSequence"] for each in outcomes if isinstance(each, SequenceMismatch)} == {1}
    assert len(await log(connection, session_id)) == 1


async def test_a_reader_who_follows_sees_each_once_and_in_order(
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


async def meet(writers: list[AsyncConnection], session_id: UUID, first: Call, second: Call) -> list[Any]:
    """What two calls end with that come while somebody else is in the middle of an append, one after the other. Of
    three, the second and the third could change places: the order of a row's waiters ends where the first wrote it.
    """
    holder, observer = writers[-2:]
    tasks = []
    async with holder.transaction():
        await holder.execute("SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id])
        for call in (first, second):
            tasks.append(asyncio.create_task(call))
            await in_line(observer, len(tasks))
    return await asyncio.gather(*tasks, return_exceptions=True)


async def in_line(observer: AsyncConnection, waiting: int) -> None:
    """Returns when so many wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(60):
        while await (await observer.execute(query)).fetchone() != (waiting,):
            pass


async def test_appends_meet(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a"), message("b")])
    other = append(writers[1], session_id, [message("c")])

    assert await meet(writers, session_id, one, other) == [
        [Appended("a", 1, True), Appended("b", 2, True)],
        [Appended("c", 3, True)],
    ]


async def test_an_append_meets_its_repetition(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = append(writers[0], session_id, [message("a"), message("b")])
    other = append(writers[1], session_id, [message("b"), message("c")])

    assert await meet(writers, session_id, one, other) == [
        [Appended("a", 1, True), Appended("b", 2, True)],
        [Appended("b", 2, False), Appended("c", 3, True)],
    ]


async def test_an_append_meets_another_text_of_the_same_id(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = append(writers[0], session_id, [message("a", "first")])
    other = append(writers[1], session_id, [message("new"), message("a", "second")])
    answers, refusal = await meet(writers, session_id, one, other)

    assert answers == [Appended("a", 1, True)]
    assert isinstance(refusal, IdConflict)
    assert await log(writers[0], session_id) == [(1, "a")]


async def test_an_append_meets_a_writer_who_expects_the_same(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = append(writers[0], session_id, [message("a")], expected_sequence=0)
    other = append(writers[1], session_id, [message("b")], expected_sequence=0)
    answers, refusal = await meet(writers, session_id, one, other)

    assert answers == [Appended("a", 1, True)]
    assert isinstance(refusal, SequenceMismatch)


async def test_an_append_meets_the_end_of_its_session(
    writers: list[AsyncConnection], session_id: UUID
) -> None:
    one = append(writers[0], session_id, [message("a")])
    other = delete_session(writers[1], session_id)

    assert await meet(writers, session_id, one, other) == [[Appended("a", 1, True)], None]
    with pytest.raises(SessionNotFound):
        await get_session(writers[0], session_id)


async def test_the_end_of_a_session_meets_an_append(writers: list[AsyncConnection], session_id: UUID) -> None:
    one = delete_session(writers[0], session_id)
    other = append(writers[1], session_id, [message("a")])
    deleted, refusal = await meet(writers, session_id, one, other)

    assert deleted is None
    assert isinstance(refusal, SessionNotFound)


WRITES: dict[str, Callable[[AsyncConnection, UUID], Call]] = {
    "an append": lambda conn, session_id: append(conn, session_id, [prompt(session_id, "a")]),
    "a piece": lambda conn, session_id: append_events(conn, session_id, [posted("b", "assistant_chunk")]),
    "a whole": lambda conn, session_id: append_events(conn, session_id, [posted("c", "assistant_done")]),
    "a rebuild": rebuild_events,
    "a close": end_session,
}


@pytest.mark.parametrize("name", WRITES)
async def test_no_event_is_left_of_a_session_whose_end_meets_a_writer(
    writers: list[AsyncConnection], session_id: UUID, name: str
) -> None:
    await append(writers[0], session_id, [prompt(session_id, "first")])
    write, end = WRITES[name](writers[0], session_id), delete_session(writers[1], session_id)
    written, deleted = await meet(writers, session_id, write, end)

    assert not isinstance(written, Exception)
    assert deleted is None
    assert await orphans(writers[0]) == 0


@pytest.mark.parametrize("name", WRITES)
async def test_no_event_is_left_of_a_session_where_a_writer_meets_its_end(
    writers: list[AsyncConnection], session_id: UUID, name: str
) -> None:
    await append(writers[0], session_id, [prompt(session_id, "first")])
    end, write = delete_session(writers[0], session_id), WRITES[name](writers[1], session_id)
    deleted, refusal = await meet(writers, session_id, end, write)

    assert deleted is None
    assert isinstance(refusal, SessionNotFound)
    assert await orphans(writers[0]) == 0


CHURN: list[Callable[[AsyncConnection, UUID, str], Call]] = [
    lambda conn, session_id, id: append(conn, session_id, [prompt(session_id, id)]),
    lambda conn, session_id, id: append(conn, session_id, [prompt(session_id, id)], end=True),
    lambda conn, session_id, id: append_events(conn, session_id, [posted(id, "assistant_chunk")]),
    lambda conn, session_id, id: append_events(conn, session_id, [posted(id, "assistant_done")]),
    lambda conn, session_id, id: update_session(conn, session_id, title="x"),
    lambda conn, session_id, id: delete_session(conn, session_id),
    lambda conn, session_id, id: delete_session(conn, session_id),
]


async def test_appends_and_ends_and_changes_do_not_block_each_other_for_good(
    writers: list[AsyncConnection], connection: AsyncConnection
) -> None:
    async def churn(conn: AsyncConnection, seed: int) -> None:
        random = Random(seed)
        for number in range(40):
            id = (await create_session(conn, source="claude", external_id=str(number // 4))).session.id
            with suppress(SessionNotFound):
                await random.choice(CHURN)(conn, id, f"{seed}-{number}")

    await asyncio.gather(*(churn(each, seed) for seed, each in enumerate(writers)))

    assert await orphans(connection) == 0


async def orphans(conn: AsyncConnection) -> int:
    """Events that no session has."""
    query = "SELECT count(*) FROM events WHERE session_id NOT IN (SELECT id FROM sessions)"
    ((count,),) = await (await conn.execute(query)).fetchall()
    return int(count)


def prompt(session_id: UUID, id: str) -> PreparedMessage:
    """A message that gives events."""
    return prepare_message(session_id, '{"type":"user","message":{"role":"user","content":"hi"}}', id=id)


def posted(id: str, type: str) -> dict[str, Any]:
    return {"id": id, "type": type, "turnId": "t", "payload": {"text": "hi"}}


async def test_a_reader_does_not_wait_and_sees_what_is_committed(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    async def read() -> list[tuple[int, str]]:
        await in_line(connection, 1)
        return await log(connection, session_id)

    await append(connection, session_id, [message("a")])
    async with writers[0].transaction():
        await writers[0].execute(
            "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id]
        )
        waiting = asyncio.create_task(append(writers[1], session_id, [message("b")]))
        during = await read()
    await waiting

    assert during == [(1, "a")]
    assert await log(connection, session_id) == [(1, "a"), (2, "b")]


async def test_an_append_that_is_given_up_leaves_nothing_and_no_lock(
    writers: list[AsyncConnection], connection: AsyncConnection, session_id: UUID
) -> None:
    """While it waits for the lock it has written nothing; its connection is closed, so that it never will."""
    async with writers[0].transaction():
        await writers[0].execute(
            "SELECT FROM session_counters WHERE session_id = %s FOR UPDATE", [session_id]
        )
        waiting = asyncio.create_task(append(writers[1], session_id, [message("a")]))
        await in_line(connection, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert writers[1].closed
    assert await append(writers[0], session_id, [message("b")]) == [Appended("b", 1, True)]


async def test_appends_that_are_given_up_at_any_moment_are_whole_or_not_there(
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
    await connection.execute("SELECT FROM session_counters FOR UPDATE")  # one may be at it still
    stored = await log(connection, session_id)
    counters = await connection.execute(
        "SELECT message_sequence, event_sequence, (SELECT count(*) FROM events) FROM session_counters"
    )

    messages_counted, events_counted, events_stored = await counters.fetchone() or (0, 0, 0)
    assert (messages_counted, events_counted) == (len(stored), events_stored)

    assert [sequence for sequence, _ in stored] == list(range(1, len(stored) + 1))
    assert {(each.sequence, each.id) for each in answered} <= set(stored)
    assert [id[-1] for _, id in stored] == list("abc") * (len(stored) // 3)
