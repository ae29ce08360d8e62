"""Reindexing stored messages."""

from asyncio import create_task, gather
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server.errors import SessionNotFound
from ash_server.store.connections.pool import connect
from ash_server.store.drift import report_drift
from ash_server.store.maintenance.reindex import Reindexed, reindex_messages, reread
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.schema.migrations import upgrade
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, session_id_for
from ash_shared.parsing.parse import PARSER_VERSION, describe_message
from tests.alembic_commands import alembic
from tests.cluster import COUNT_LOCK_WAITS, fetch_as_owner
from tests.waiting import until

ROOT = Path(__file__).parents[4]

PROMPT = (
    '{"type":"user","uuid":"u1","sessionId":"s","version":"2.1.0","timestamp":"2026-11-02T09:00:01Z",'
    '"message":{"role":"user","content":"Fix the test"}}'
)
STRANGE = (
    '{"type":"assistant","uuid":"u2","timestamp":"2026-11-02T09:00:05Z",'
    '"message":{"role":"assistant","content":[{"type":"holo_frame"},{"type":"text","text":"Done."}]}}'
)
PLAIN = "plain words"
COST = '{"type":"cost-state","sessionId":"s","totalCostUSD":0.5,"modelUsage":{"opus":{"costUSD":0.5}}}'

DERIVED = """
    SELECT sequence, source, role, kind, block_types, parser_version, digest, blocks_start, blocks_size,
        has_explicit_role, has_explicit_source
    FROM messages WHERE session_id = %s ORDER BY sequence
"""
KEPT = "SELECT id, content, created_at FROM messages WHERE session_id = %s ORDER BY sequence"
SESSION = (
    "SELECT source, title, title_priority, first_prompt, first_at, last_at, client_version, provider_session_id, "
    "updated_at, stated_cost, stated_models"
)

# Rows as an older version may have stored them, with an older parser version and fewer fields.
OLDER = """
    UPDATE messages SET source = 'unknown', role = 'system', kind = 'record', block_types = '{raw}',
        parser_version = 0, digest = NULL, has_explicit_role = NULL, has_explicit_source = NULL,
        blocks_start = NULL, blocks_size = NULL;
    UPDATE sessions SET source = 'unknown', title = NULL, title_priority = 0, first_at = NULL, last_at = NULL,
        client_version = NULL, provider_session_id = NULL, first_prompt = NULL, stated_cost = NULL,
        stated_models = NULL;
    DELETE FROM drift;
"""


async def everything(connection: AsyncConnection, session_id: UUID) -> list[Any]:
    queries = (
        DERIVED,
        KEPT,
        f"{SESSION} FROM sessions WHERE id = %s",
        "SELECT * FROM drift WHERE session_id = %s",
    )
    return [await (await connection.execute(query, [session_id])).fetchall() for query in queries]


async def store(connection: AsyncConnection, session_id: UUID, texts: Sequence[str], **fields: Any) -> None:
    await append(connection, session_id, [prepare_message(session_id, text, **fields) for text in texts])


async def changes(connection: AsyncConnection, session_id: UUID) -> list[tuple[int, tuple[str, ...]]]:
    return [
        (each.stored.sequence, each.changed())
        async for page in reread(connection, session_id)
        for each in page
    ]


async def test_current_messages_are_unchanged(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, [PROMPT, STRANGE, PLAIN])
    before = await everything(connection, session_id)

    assert await changes(connection, session_id) == [(1, ()), (2, ()), (3, ())]
    assert await reindex_messages(connection, session_id) == Reindexed(3, 0)
    assert await everything(connection, session_id) == before


async def test_reindex_derives_same_fields_as_append(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, [PROMPT, STRANGE, PLAIN, COST])
    before = await everything(connection, session_id)
    await connection.execute(OLDER)

    assert await changes(connection, session_id) == [
        (1, ("source", "kind", "role", "types")),
        (2, ("source", "kind", "role", "types")),
        (3, ("kind", "role", "types")),
        (4, ("source",)),
    ]
    assert await reindex_messages(connection, session_id) == Reindexed(4, 4)
    derived, *others = await everything(connection, session_id)
    assert others == before[1:]
    assert others[1][0][-2:] == (500_000_000, ["opus"])
    # The columns has_explicit_role and has_explicit_source stay NULL: they do not follow from the content.
    assert derived == [(*row[:-2], None, None) for row in before[0]]
    assert await changes(connection, session_id) == [(1, ()), (2, ()), (3, ()), (4, ())]
    assert await reindex_messages(connection, session_id) == Reindexed(4, 0)


async def test_reindex_adds_places_of_blocks(connection: AsyncConnection, session_id: UUID) -> None:
    """Messages that were stored before schema 0012."""
    await store(connection, session_id, [PROMPT, STRANGE, PLAIN])
    before = await everything(connection, session_id)
    await connection.execute("UPDATE messages SET blocks_start = NULL, blocks_size = NULL")

    assert await changes(connection, session_id) == [(1, ()), (2, ()), (3, ())]
    assert await reindex_messages(connection, session_id) == Reindexed(3, 1)
    assert await everything(connection, session_id) == before


OUTDATED: dict[str, tuple[str, tuple[str, ...]]] = {
    "nothing": ("SET parser_version = parser_version", ()),
    "only the version": ("SET parser_version = 0", ()),
    "block contents": ("SET digest = '\\x00'", ("blocks",)),
    "block contents, without a digest": ("SET digest = NULL", ()),
    "the types": ("SET block_types = '{raw}', digest = '\\x00'", ("types",)),
    "the kind and the role": ("SET kind = 'record', role = 'system', digest = '\\x00'", ("kind", "role")),
    "the source": ("SET source = 'pi'", ("source",)),
    "the source, considered given": ("SET source = 'house', has_explicit_source = NULL", ()),
    "the role, considered given": (
        "SET role = 'tool', has_explicit_role = NULL, has_explicit_source = NULL",
        (),
    ),
}


@pytest.mark.parametrize(("outdated", "changed"), OUTDATED.values(), ids=OUTDATED)
async def test_reports_changed_fields(
    connection: AsyncConnection, session_id: UUID, outdated: str, changed: tuple[str, ...]
) -> None:
    await store(connection, session_id, [PROMPT])
    await connection.execute(f"UPDATE messages {outdated}")

    assert await changes(connection, session_id) == [(1, changed)]
    await reindex_messages(connection, session_id)
    assert await changes(connection, session_id) == [(1, ())]
    cursor = await connection.execute("SELECT digest, parser_version FROM messages")
    assert await cursor.fetchall() == [(describe_message(PROMPT).digest, PARSER_VERSION)]


async def test_keeps_given_role_and_source(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, [PROMPT], role="tool", source="house")
    await store(connection, session_id, [STRANGE], role="system")
    before = await everything(connection, session_id)
    await connection.execute("UPDATE messages SET kind = 'record', block_types = '{}', digest = '\\x00'")

    assert await changes(connection, session_id) == [(1, ("kind", "types")), (2, ("kind", "types"))]
    assert await reindex_messages(connection, session_id) == Reindexed(2, 2)
    assert await everything(connection, session_id) == before


async def test_keeps_given_title(connection: AsyncConnection) -> None:
    session_id = (await create_session(connection, title="mine")).session.id
    await store(connection, session_id, [PROMPT])
    await reindex_messages(connection, session_id)

    assert (await get_session(connection, session_id)).title == "mine"


async def test_removes_drift_that_parser_now_covers(connection: AsyncConnection, session_id: UUID) -> None:
    await store(connection, session_id, [PROMPT, STRANGE])
    covered = "INSERT INTO drift SELECT session_id, 1, reason, raw_type, source, NULL, 1, seen_at FROM drift"
    await connection.execute(covered)
    await connection.execute("UPDATE messages SET parser_version = 0")

    await reindex_messages(connection, session_id)

    [group] = (await report_drift(connection)).drift
    assert [(group.count, [sample.sequence for sample in group.samples])] == [(1, [2])]


async def test_rejects_unknown_session(connection: AsyncConnection) -> None:
    with pytest.raises(SessionNotFound):
        await reindex_messages(connection, UUID(int=7))


@pytest.mark.slow
async def test_reindexes_during_concurrent_writes_and_reindexes(
    connection: AsyncConnection, database_url: str, session_id: UUID
) -> None:
    """Each concurrent message counts once in the session's fields, and in the end all messages are current."""
    lines = [
        PROMPT.replace("u1", f"u{number}").replace(":01Z", f":{number % 60:02}Z") for number in range(1500)
    ]
    await store(connection, session_id, lines[:1000])
    await connection.execute(OLDER)

    async def write() -> None:
        async with await connect(database_url) as own:
            for start in range(1000, 1500, 20):
                await store(own, session_id, [STRANGE.replace("u2", f"x{start}"), *lines[start : start + 20]])

    async def reindex_all() -> None:
        async with await connect(database_url) as own:
            await reindex_messages(own, session_id)

    await gather(write(), reindex_all(), reindex_all())

    assert {each for _, each in await changes(connection, session_id)} == {()}
    reindexed = await everything(connection, session_id)
    await connection.execute(OLDER)
    await reindex_messages(connection, session_id)
    assert [row[1:-1] for row in (await everything(connection, session_id))[2]] == [
        row[1:-1] for row in reindexed[2]
    ]
    assert len(reindexed[3]) == 25


async def test_includes_message_committed_while_waiting(
    connection: AsyncConnection, database_url: str, session_id: UUID
) -> None:

    async def is_waiting_for_a_lock() -> bool:
        return await fetch_as_owner(connection, COUNT_LOCK_WAITS) != (0,)

    await store(connection, session_id, [PROMPT])
    async with await connect(database_url) as writer, await connect(database_url) as other:
        async with writer.transaction():
            await store(writer, session_id, [STRANGE])
            reindexing = create_task(reindex_messages(other, session_id))
            await until(is_waiting_for_a_lock)
        assert await reindexing == Reindexed(2, 0)

    session = await get_session(connection, session_id)
    assert (session.first_at, session.last_at) == (
        datetime(2026, 11, 2, 9, 0, 1, tzinfo=UTC),
        datetime(2026, 11, 2, 9, 0, 5, tzinfo=UTC),
    )


@pytest.mark.slow
async def test_upgrades_database_with_rows(bare_database_url: str) -> None:
    alembic(bare_database_url, "upgrade", "0001")
    named, unnamed = session_id_for("a", "named"), session_id_for("a", "unnamed")
    with psycopg.connect(bare_database_url) as old:
        for id, title in ((named, "mine"), (unnamed, None)):
            old.execute("INSERT INTO sessions (id, source, title) VALUES (%s, 'unknown', %s)", [id, title])
            old.execute("INSERT INTO session_counters (session_id, message_sequence) VALUES (%s, 1)", [id])
            old.execute(
                "INSERT INTO messages VALUES (%s, 1, 'a', 'system', 'record', 'unknown', %s, '{raw}', 1, now())",
                [id, PROMPT],
            )

    upgrade(bare_database_url)

    async with await connect(bare_database_url) as connection:
        assert await changes(connection, unnamed) == [(1, ("source", "kind", "role", "types"))]
        assert [await reindex_messages(connection, id) for id in (named, unnamed)] == [Reindexed(1, 1)] * 2
        assert [(await get_session(connection, id)).title for id in (named, unnamed)] == [
            "mine",
            "Fix the test",
        ]
        await store(connection, named, [STRANGE])
        assert (await get_session(connection, named)).message_count == 2
    alembic(bare_database_url, "downgrade", "0001")
    alembic(bare_database_url, "upgrade", "head")
