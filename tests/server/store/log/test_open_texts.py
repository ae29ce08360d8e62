"""Texts that arrive chunk by chunk: the beginning of an open text is stored apart from the state."""

import json
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection
from psycopg.errors import CheckViolation

from ash_server.store.log.events import end_session, get_events
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session
from ash_shared.eventlog import Normalizer
from ash_shared.eventlog.state import MAX_OPEN_TEXT
from tests.alembic_commands import alembic
from tests.cluster import not_on_cluster
from tests.constraints import refused
from tests.shared.logs import context

TEXTS = [f"{number} näive \0 " * 10 for number in range(60)]
START: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
]
CHUNKS: list[dict[str, Any]] = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    for text in TEXTS
]
END: list[dict[str, Any]] = [{"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]


async def store(connection: AsyncConnection, session_id: UUID, *records: dict[str, Any]) -> None:
    await append(connection, session_id, [prepare_message(session_id, json.dumps(each)) for each in records])


async def state_of(connection: AsyncConnection, session_id: UUID) -> str:
    query = "SELECT normalizer_state FROM session_counters WHERE session_id = %b"
    ((state,),) = await (await connection.execute(query, [session_id])).fetchall()
    return state or ""


async def stored_texts(connection: AsyncConnection) -> list[str]:
    rows = await connection.execute("SELECT content FROM open_texts ORDER BY number, start")
    return [json.loads(content) for (content,) in await rows.fetchall()]


async def payloads(connection: AsyncConnection, session_id: UUID) -> list[tuple[str, Any]]:
    events = [json.loads(event.wire()) for event in await get_events(connection, session_id, limit=1000)]
    return [(event["type"], event["payload"]) for event in events if event["type"] != "reset"]


async def at_once(connection: AsyncConnection) -> list[tuple[str, Any]]:
    """Return the events of the same lines in one append."""
    session_id = (await create_session(connection)).session.id
    await store(connection, session_id, *START, *CHUNKS, *END)
    await end_session(connection, session_id)
    return await payloads(connection, session_id)


async def test_single_chunks_give_the_events_of_a_batch(
    connection: AsyncConnection, session_id: UUID
) -> None:
    states = []
    for record in (*START, *CHUNKS):
        await store(connection, session_id, record)
        states.append(len(await state_of(connection, session_id)))
    beginning = "".join(await stored_texts(connection))
    await store(connection, session_id, *END)
    await end_session(connection, session_id)

    assert max(states) < MAX_OPEN_TEXT * 2
    assert len(beginning) > len("".join(TEXTS)) - MAX_OPEN_TEXT
    assert "".join(TEXTS).startswith(beginning)
    assert await stored_texts(connection) == []
    assert await payloads(connection, session_id) == await at_once(connection)


async def test_rebuild_keeps_open_texts(connection: AsyncConnection, session_id: UUID) -> None:
    for record in (*START, *CHUNKS[:40]):
        await store(connection, session_id, record)
    await rebuild_events(connection, session_id)
    for record in CHUNKS[40:]:
        await store(connection, session_id, record)
    await rebuild_events(connection, session_id)
    await store(connection, session_id, *END)
    await end_session(connection, session_id)

    assert await stored_texts(connection) == []
    assert await payloads(connection, session_id) == await at_once(connection)


async def test_end_of_session_needs_the_beginning(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, *START, *CHUNKS)
    await end_session(connection, session_id)

    texts = [payload["text"] for type, payload in await payloads(connection, session_id) if "_done" in type]
    assert (texts, await stored_texts(connection)) == (["".join(TEXTS)], [])


async def test_text_and_state_are_stored_together(
    connection: AsyncConnection, session_id: UUID, database_url: str
) -> None:
    await store(connection, session_id, *START, *CHUNKS[:1])
    before = await state_of(connection, session_id)
    with refused(database_url, "open_texts", allowed="false"), pytest.raises(CheckViolation):
        await store(connection, session_id, *CHUNKS[1:])

    assert await state_of(connection, session_id) == before
    assert (await get_session(connection, session_id)).message_count == 3


@not_on_cluster("distributed tables are not downgraded")
async def test_downgrade_moves_texts_into_the_state(
    connection: AsyncConnection, session_id: UUID, database_url: str
) -> None:
    await store(connection, session_id, *START, *CHUNKS[:30])
    await store(connection, session_id, *CHUNKS[30:])
    whole = Normalizer()
    for number, record in enumerate((*START, *CHUNKS)):
        whole.follow(prepare_message(session_id, json.dumps(record)).line, context(number))
    alembic(database_url, "downgrade", "0007")

    downgraded, expected = (
        json.loads(state or "")["slots"][0]
        for state in (await state_of(connection, session_id), whole.state())
    )
    assert (downgraded, downgraded["text"]) == (expected, "".join(TEXTS))
