"""Events: derived from messages, posted, read from a cursor, and rebuilt."""

import asyncio
import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.store.connections.pool import connect
from ash_server.store.log import events as log_events
from ash_server.store.log.events import (
    append_events,
    end_session,
    get_events,
)
from ash_server.store.log.rebuild import outdated_sessions, rebuild_events
from ash_server.store.messages import append
from ash_server.store.prepare import line_id, prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session
from tests.alembic_commands import alembic
from tests.cluster import not_on_cluster
from tests.shared.records.events import wire_event
from tests.shared.records.openai_chat import delta_chunk

UNKNOWN_SESSION = UUID("00000000-0000-4000-8000-000000000000")

PROMPT = '{"type":"user","uuid":"u-1","message":{"role":"user","content":"Look around."}}'
CALL = (
    '{"type":"assistant","uuid":"u-2","message":{"id":"msg_1","role":"assistant","content":'
    '[{"type":"tool_use","id":"t-1","name":"Bash","input":{"command":"ls"}}]}}'
)
RESULT = (
    '{"type":"user","uuid":"u-3","message":{"role":"user","content":'
    '[{"type":"tool_result","tool_use_id":"t-1","content":"a.txt"}]}}'
)
ANSWER = (
    '{"type":"assistant","uuid":"u-4","message":{"id":"msg_2","role":"assistant","content":'
    '[{"type":"text","text":"One file."}]}}'
)
LINES = (PROMPT, CALL, RESULT, ANSWER)
DERIVED = [
    (1, 1, "turn_start"),
    (2, 1, "user_message"),
    (3, 2, "tool_call"),
    (4, 3, "tool_result"),
    (5, 4, "assistant_done"),
]


async def store(connection: AsyncConnection, session_id: UUID, *lines: str, **options: Any) -> None:
    new = [prepare_message(session_id, line) for line in lines]
    await append(connection, session_id, new, **options)


async def wire(connection: AsyncConnection, session_id: UUID, **page: Any) -> list[dict[str, Any]]:
    return [json.loads(event.wire()) for event in await get_events(connection, session_id, **page)]


async def summaries(connection: AsyncConnection, session_id: UUID, **page: Any) -> list[tuple[Any, ...]]:
    events = await wire(connection, session_id, **page)
    return [(event["sequence"], event.get("messageSequence"), event["type"]) for event in events]


def posted(id: str, type: str = "assistant_done", /, **more: Any) -> dict[str, Any]:
    text = {"text": id} if type.startswith("assistant") else {}
    return wire_event(type, **{**text, **more}, id=id, timestamp=1, sessionId="")


async def test_events_do_not_depend_on_batch_size(connection: AsyncConnection) -> None:
    logs = []
    for size in (1, 2, 4):
        session = (await create_session(connection)).session.id
        for start in range(0, 4, size):
            await store(connection, session, *LINES[start : start + size])
        events = await wire(connection, session)
        logs.append([(event["type"], event["payload"], event.get("responseId")) for event in events])

    assert logs == [logs[0]] * 3


async def test_end_with_new_events_changes_the_session(connection: AsyncConnection, session_id: UUID) -> None:
    """The search index reads the events of changed sessions."""
    await store(connection, session_id, PROMPT, ANSWER)
    times = [(await get_session(connection, session_id)).updated_at]
    for _ in range(2):
        await end_session(connection, session_id)
        times.append((await get_session(connection, session_id)).updated_at)

    assert times[0] < times[1] == times[2]


async def test_derived_events_continue_posted_turn(connection: AsyncConnection, session_id: UUID) -> None:
    await append_events(connection, session_id, [posted("t", "turn_start", turnId="mine", trigger="user")])
    await store(connection, session_id, ANSWER)
    await append_events(connection, session_id, [posted("u", "turn_end", turnId="mine")])
    await store(connection, session_id, ANSWER.replace("u-4", "u-5"))

    events = await wire(connection, session_id)
    assert [(event["type"], event["turnId"] == "mine") for event in events] == [
        ("turn_start", True),
        ("assistant_done", True),
        ("turn_end", True),
        ("turn_start", False),
        ("assistant_done", False),
    ]


async def test_event_line_keeps_its_id_unless_taken(connection: AsyncConnection, session_id: UUID) -> None:
    line = json.dumps(posted("e-1"))
    for number in (1, 2):
        await append(
            connection, session_id, [prepare_message(session_id, line, id=line_id(session_id, number))]
        )

    events = await wire(connection, session_id)
    assert [event["messageSequence"] for event in events] == [1, 2]
    assert events[0]["id"] == "e-1" != events[1]["id"]
    assert [event["payload"] for event in events] == [{"text": "e-1"}] * 2


async def test_collapse_omits_chunks_of_complete_events(
    connection: AsyncConnection, session_id: UUID
) -> None:
    def event(number: int, type: str, response: str = "r-1", **payload: Any) -> dict[str, Any]:
        return posted(f"e-{number}", type, responseId=response, turnId="t", **payload)

    log = [
        event(1, "assistant_chunk", text="a"),
        event(2, "tool_input_chunk", toolCallId="c", toolName="x", chunk="{", offset=0),
        event(3, "assistant_done", text="ab"),
        event(4, "assistant_chunk", text="of the next text"),
        event(5, "tool_call", toolCallId="c", toolName="x", args={}),
        event(6, "tool_output_chunk", toolCallId="c", chunk="1", offset=0),
        event(7, "thinking_chunk", "r-2", text="on"),
        event(8, "tool_output_chunk", toolCallId="d", chunk="2", offset=0),
        event(9, "tool_result", toolCallId="c", result="1"),
    ]
    await append_events(connection, session_id, log)

    shown = [each[0] for each in await summaries(connection, session_id, collapse=True)]
    assert shown == [3, 4, 5, 7, 8, 9]
    assert [
        each[0] for each in await summaries(connection, session_id, collapse=True, before=9, limit=2)
    ] == [
        7,
        8,
    ]


@pytest.mark.slow
async def test_concurrent_writers_leave_no_gap(
    connection: AsyncConnection, session_id: UUID, database_url: str
) -> None:
    async def write(writer: int) -> None:
        async with await connect(database_url) as conn:
            for number in range(20):
                name = f"{writer}-{number}"
                type = ("assistant_chunk", "turn_end")[number % 2]
                await append_events(conn, session_id, [posted(name, type)])
                await store(conn, session_id, ANSWER.replace("u-4", name))

    await asyncio.gather(*(write(writer) for writer in range(6)))

    events = await get_events(connection, session_id, limit=1000)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert len({json.loads(event.content)["id"] for event in events}) == len(events)


async def test_rebuild_writes_same_events_after_reset(connection: AsyncConnection, session_id: UUID) -> None:
    await append_events(connection, session_id, [posted("before", "house_event")])
    await store(connection, session_id, PROMPT, CALL)
    await append_events(connection, session_id, [posted("amid", "house_event")])
    await store(connection, session_id, RESULT)
    await end_session(connection, session_id)
    await store(connection, session_id, ANSWER)
    before = await wire(connection, session_id)

    for _ in range(2):
        rebuilt = await rebuild_events(connection, session_id)
        after = await wire(connection, session_id)

        assert rebuilt == (4, len(before) + 1)
        assert after[0]["type"] == "reset"
        assert [without_place(event) for event in after[1:]] == [without_place(event) for event in before]
    first = 1 + 2 * len(before) + 1
    assert [event["sequence"] for event in after] == list(range(first, first + len(after)))
    assert (await get_session(connection, session_id)).event_count == len(after)


async def test_events_without_timestamp_use_first_known_one(
    connection: AsyncConnection, session_id: UUID
) -> None:
    timestamp = 1_700_000_000_000
    timed = json.dumps({**json.loads(ANSWER), "timestamp": timestamp})
    await store(connection, session_id, PROMPT, timed)
    before = await wire(connection, session_id)
    await rebuild_events(connection, session_id)
    after = await wire(connection, session_id)

    assert {round(event["timestamp"], -3) for event in (*before, *after[1:])} == {timestamp}


async def test_repeated_ends_after_one_message_have_unique_ids(
    connection: AsyncConnection, session_id: UUID
) -> None:
    """Their ids depend on the events posted in between, also in a rebuild."""
    await store(connection, session_id, PROMPT)
    await end_session(connection, session_id)
    for number in range(3):
        turn = posted(f"p-{number}", "turn_start", turnId=f"t-{number}", trigger="user")
        await append_events(connection, session_id, [turn])
        await end_session(connection, session_id)
        await rebuild_events(connection, session_id)
    await append_events(connection, session_id, [posted("p", "turn_start", trigger="user")])
    await store(connection, session_id, end=True)
    before = await wire(connection, session_id)
    await rebuild_events(connection, session_id)
    after = await wire(connection, session_id)

    assert [event["type"] for event in before[1:]] == [
        *("turn_start", "user_message", "turn_end"),
        *("turn_start", "interrupt", "turn_end") * 4,
    ]
    assert len({event["id"] for event in before}) == len(before)
    assert [without_place(event) for event in after[1:]] == [without_place(event) for event in before[1:]]


def without_place(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in ("sequence", "timestamp")}


async def test_append_after_rebuild_continues_open_turn(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await store(connection, session_id, PROMPT, CALL)
    await rebuild_events(connection, session_id)
    await store(connection, session_id, RESULT, ANSWER)

    events = await wire(connection, session_id)
    assert [event["type"] for event in events] == ["reset", *(name for _, _, name in DERIVED)]
    assert len({event["turnId"] for event in events[1:]}) == 1
    assert "orphan" not in events[4]["payload"]


@pytest.mark.parametrize("options", [{}, {"before": 10**6}, {"at": 1}, {"after": 3}])
async def test_filtered_pages_begin_where_a_rebuilt_log_begins(
    connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    await store(connection, session_id, PROMPT, CALL, RESULT, ANSWER)
    await rebuild_events(connection, session_id)
    log = await get_events(connection, session_id)
    monkeypatch.setattr(log_events, "MAX_COLLAPSED", len(log) * (2 if "at" in options else 1))

    page, cursors = await log_events.get_event_page(connection, session_id, collapse=True, **options)

    assert (page, cursors) == (log, {})


async def test_rebuild_is_atomic(connection: AsyncConnection, session_id: UUID, database_url: str) -> None:
    await store(connection, session_id, *LINES)
    seen = set[tuple[str, ...]]()

    async def watch() -> None:
        async with await connect(database_url) as conn:
            while not rebuilt.done():
                seen.add(tuple(name for _, _, name in await summaries(conn, session_id)))

    rebuilt = asyncio.create_task(rebuild_events(connection, session_id))
    await watch()

    whole = tuple(name for _, _, name in DERIVED)
    assert seen <= {whole, ("reset", *whole)}


async def test_lists_and_rebuilds_outdated_sessions(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, *LINES)
    await connection.execute("DELETE FROM events")
    await connection.execute("UPDATE session_counters SET event_sequence = 0, normalizer_version = NULL")

    assert await outdated_sessions(connection) == [session_id]
    await rebuild_events(connection, session_id)
    assert await outdated_sessions(connection) == []
    assert [name for _, _, name in await summaries(connection, session_id)][1:] == [
        each[2] for each in DERIVED
    ]


async def test_appending_to_outdated_session_leaves_it_outdated(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await store(connection, session_id, *LINES)
    await connection.execute("DELETE FROM events")
    await connection.execute("UPDATE session_counters SET event_sequence = 0, normalizer_version = NULL")

    await append_events(connection, session_id, [posted("e-1", "turn_end")])
    await store(connection, session_id, ANSWER.replace("u-4", "u-5"))
    await end_session(connection, session_id)

    assert await outdated_sessions(connection) == [session_id]


CHUNKS = [delta_chunk({"content": "One "}), delta_chunk({"content": "file."}), delta_chunk(reason="stop")]
STREAM = list(map(json.dumps, CHUNKS))

GROUPED = "SELECT type FROM events WHERE session_id = %b AND chunk_group IS NOT NULL ORDER BY sequence"


async def test_only_logs_with_chunks_index_the_events_that_supersede_them(
    connection: AsyncConnection, session_id: UUID
) -> None:
    async def grouped() -> list[str]:
        return [name for (name,) in await (await connection.execute(GROUPED, [session_id])).fetchall()]

    async def collapsed() -> list[str]:
        return [name for _, _, name in await summaries(connection, session_id, collapse=True)]

    before = [name for _, _, name in DERIVED]
    await store(connection, session_id, *LINES)
    assert await grouped() == []
    for line in STREAM:
        await store(connection, session_id, line)
    streamed = ["assistant_chunk", "assistant_chunk", "assistant_done"]
    assert await grouped() == streamed
    assert await collapsed() == [*before, "assistant_done"]

    await rebuild_events(connection, session_id)
    assert (await grouped())[-3:] == streamed
    assert await collapsed() == ["reset", *before, "assistant_done"]
    await store(connection, session_id, ANSWER.replace("u-4", "u-5"))
    assert (await grouped())[-1] == "assistant_done"


async def test_posted_chunks_are_superseded_by_derived_events(
    connection: AsyncConnection, session_id: UUID
) -> None:
    turn = posted("p-1", "turn_start", turnId="t", trigger="user")
    chunk = posted("p-2", "assistant_chunk", turnId="t", responseId="msg_2", text="One ")
    await append_events(connection, session_id, [turn, chunk])
    await store(connection, session_id, ANSWER)
    for _ in range(2):
        shown = [name for _, _, name in await summaries(connection, session_id, collapse=True)]
        assert shown[-2:] == ["turn_start", "assistant_done"]
        await rebuild_events(connection, session_id)


FAILED = RESULT.replace('"content":"a.txt"', '"content":"no such file\\u0000","is_error":true')
STRANGE = '{"type":"holo_frame","uuid":"u-9"}'


async def error_counts(connection: AsyncConnection, session_id: UUID) -> tuple[int, int]:
    session = await get_session(connection, session_id)
    return session.error_count, session.unrecognised_count


async def test_counts_errors_and_unrecognised_events(connection: AsyncConnection, session_id: UUID) -> None:
    """Derived and posted ones, without duplicates, and with equal counts after a rebuild."""
    oops = {"code": "x", "message": "y"}
    posts = [
        [posted("p-1", "error", **oops)],
        [posted("p-2", "raw", source="s", raw=1), posted("p-3", "house_event")],
        [posted("p-4", "tool_result", toolCallId="t", result="", error=oops)],
        [posted("p-5", "tool_result", toolCallId="t", result={"error": {"code": "none"}})],
    ]
    counts = []
    await store(connection, session_id, PROMPT, CALL, RESULT)
    counts.append(await error_counts(connection, session_id))
    await store(connection, session_id, FAILED.replace("u-3", "u-5"), STRANGE)
    counts.append(await error_counts(connection, session_id))
    for events in posts:
        await append_events(connection, session_id, events)
        await append_events(connection, session_id, events)
        counts.append(await error_counts(connection, session_id))
    for _ in range(2):
        await rebuild_events(connection, session_id)
        counts.append(await error_counts(connection, session_id))

    assert counts == [(0, 0), (1, 1), (2, 1), (2, 2), (3, 2), (3, 2), (3, 2), (3, 2)]


MIGRATED = """
    SELECT errors, unrecognised, counters.event_sequence, search_progress.event_sequence
    FROM session_counters AS counters JOIN search_progress USING (session_id) WHERE session_id = %s
"""


@pytest.mark.slow
@not_on_cluster("distributed tables are not downgraded")
async def test_migration_counts_stored_errors_and_events(
    connection: AsyncConnection, session_id: UUID, database_url: str
) -> None:
    oops = {"code": "x", "message": "y"}
    await store(connection, session_id, PROMPT, CALL, FAILED, STRANGE)
    for number, text in enumerate(("", "\0", "\\u0000", "\\\0", '"error":')):
        result = {"toolCallId": "t", "result": text}
        failed, went_well = (
            {**result, "error": {**oops, "message": text}},
            {**result, "structured": {"error": oops}},
        )
        await append_events(connection, session_id, [posted(f"f-{number}", "tool_result", **failed)])
        await append_events(connection, session_id, [posted(f"w-{number}", "tool_result", **went_well)])
    before = await error_counts(connection, session_id)
    alembic(database_url, "downgrade", "0003")
    alembic(database_url, "upgrade", "head")

    assert before == (6, 1)
    async with await connect(database_url) as conn:
        assert await (await conn.execute(MIGRATED, [session_id])).fetchone() == (6, 1, 15, 0)
