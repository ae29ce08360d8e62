"""Appending and reading messages with one writer and one reader."""

from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.errors import (
    MessageNotFound,
)
from ash_server.store.connections.pool import connect
from ash_server.store.log.events import Appended
from ash_server.store.message_pages import (
    MessageFilter,
    get_contents,
    get_message,
    list_blocks,
    list_messages,
    stream_messages,
)
from ash_server.store.messages import append
from ash_server.store.pagination import MAX_PAGE_BYTES, may_have_more
from ash_server.store.prepare import PreparedMessage, prepare_message
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session
from ash_shared.model.message import Description, Kind, RecordHeader
from ash_shared.parsing.parse import PARSER_VERSION
from tests.cluster import not_on_cluster
from tests.server.store.lending import lending

SAMPLES = sorted((Path(__file__).parents[3] / "ash_server" / "samples").glob("*.jsonl"))
UNKNOWN_SESSION = UUID("00000000-0000-4000-8000-000000000000")
DESCRIBED = Description("claude", "message", "user", ("text",), RecordHeader(), None, (), bytes(16))


def message(
    id: str, content: str = "text", has_explicit_id: bool = True, **described: Any
) -> PreparedMessage:
    return PreparedMessage(id, has_explicit_id, content, DESCRIBED._replace(**described))


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_statements_of_short_appends_are_not_planned_again(
    connection: AsyncConnection, session_id: UUID
) -> None:
    for number in range(20):
        await append(connection, session_id, [message(f"m{number}")])
    planned = await connection.execute("SELECT max(custom_plans) < 10 FROM pg_prepared_statements")

    assert await planned.fetchall() == [(True,)]


async def test_append_updates_session(connection: AsyncConnection) -> None:
    session, _ = await create_session(connection)
    await append(connection, session.id, [message("a", source="unknown"), message("b", source="codex")])
    first = await get_session(connection, session.id)
    await append(connection, session.id, [message("c", source="claude")])
    last = await get_session(connection, session.id)
    times = [each.created_at for each in await list_messages(connection, session.id)]

    assert session.created_at <= times[0] == times[1] <= times[2] <= datetime.now(UTC)
    assert (first.updated_at, last.updated_at) == (times[0], times[2])
    assert [(each.message_count, each.source) for each in (session, first, last)] == [
        (0, "unknown"),
        (2, "codex"),
        (3, "codex"),
    ]


async def test_accepts_large_batch_and_large_message(connection: AsyncConnection, session_id: UUID) -> None:
    large = "é" * 5_000_000
    answers = await append(
        connection, session_id, [message("large", large)] + [message(str(n)) for n in range(2000)]
    )

    assert [answer.sequence for answer in answers] == list(range(1, 2002))
    assert (await get_message(connection, session_id, 1)).content == large


async def test_rejects_unknown_sequence(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message("a")])

    for sequence in (0, -1, 2, 2**53, 2**63, 10**30, -(10**30)):
        with pytest.raises(MessageNotFound):
            await get_message(connection, session_id, sequence)


async def test_get_contents_returns_texts_by_id(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message(id, f"text of {id}") for id in "abc"])

    contents = await get_contents(connection, session_id, ["c", "a", "missing"])
    assert contents == {"a": "text of a", "c": "text of c"}
    assert await get_contents(connection, session_id, []) == {}
    assert await get_contents(connection, UNKNOWN_SESSION, ["a"]) == {}


@pytest.fixture
async def mixed(connection: AsyncConnection, session_id: UUID) -> UUID:
    """Ten messages, of kinds message, record and chunk in turn; the even ones from the assistant, with a tool use."""
    kinds = ("message", "record", "chunk")
    even: dict[str, Any] = {"role": "assistant", "block_types": ("text", "tool_use")}
    odd: dict[str, Any] = {"role": "user", "block_types": ()}
    batch = [message(str(n), kind=kinds[(n - 1) % 3], **(odd if n % 2 else even)) for n in range(1, 11)]
    await append(connection, session_id, batch)
    return session_id


ALL: tuple[Kind, ...] = ("message", "record", "chunk")


@pytest.mark.parametrize(
    "lines", [pytest.param(path.read_text().splitlines(), id=path.stem) for path in SAMPLES]
)
async def test_blocks_are_those_of_the_parser(
    connection: AsyncConnection, session_id: UUID, lines: list[str]
) -> None:
    """Copied from the text, or parsed if another version of the parser stored it."""
    await append(connection, session_id, [prepare_message(session_id, line) for line in lines])
    page: MessageFilter = {"limit": 1000, "kinds": ALL}
    expected = [each.blocks_json() for each in await list_messages(connection, session_id, **page)]
    current = await list_blocks(connection, session_id, **page)
    backwards = await list_blocks(connection, session_id, before=10**6, limit=1000, kinds=ALL)
    await connection.execute(
        "UPDATE messages SET parser_version = %s, blocks_start = 0", [PARSER_VERSION - 1]
    )
    older = await list_blocks(connection, session_id, **page)

    assert [each.blocks_json() for each in current] == [each.blocks_json() for each in older] == expected
    assert backwards == current
    assert any(each.is_copied for each in current) == (current[0].source == "claude")
    assert not any(each.is_copied for each in older)


@pytest.mark.slow
async def test_page_size_is_limited_in_bytes(connection: AsyncConnection, session_id: UUID) -> None:
    size = MAX_PAGE_BYTES // 4
    await append(connection, session_id, [message(str(n), str(n) * size) for n in range(8)])

    pages = [
        await list_messages(connection, session_id, after=2),
        await list_messages(connection, session_id, before=8),
        await list_messages(connection, session_id, after=6),
    ]

    assert [[each.sequence for each in page] for page in pages] == [[3, 4, 5, 6], [4, 5, 6, 7], [7, 8]]
    assert [may_have_more(page, 100) for page in pages] == [True, True, True]
    assert not may_have_more([], 100)


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_page_reads_only_its_own_rows(connection: AsyncConnection, session_id: UUID) -> None:
    """With any cursor and any query plan."""
    await connection.execute(
        """
        INSERT INTO messages
        SELECT %s, n, n, 'user', 'message', 'claude', repeat('x', 1500), '{text}', 1, now()
        FROM generate_series(1, 20000) AS n
        """,
        [session_id],
    )
    pages: list[MessageFilter] = [{"after": 0}, {"after": 19_000}, {"before": 20_001}, {"before": 1_000}]

    for setting in (
        "SET plan_cache_mode = auto",
        "SET plan_cache_mode = force_generic_plan",
        "ANALYZE messages",
    ):
        await connection.execute(setting)
        assert [await rows_read(connection, session_id, page) for page in pages] == [100] * 4


async def rows_read(connection: AsyncConnection, session_id: UUID, page: MessageFilter) -> int:
    """Count rows of `messages` that the query reads, in PostgreSQL's statistics."""

    async def count() -> int:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        cursor = await connection.execute(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'messages'"
        )
        row = await cursor.fetchone()
        return int(row[0]) if row else 0

    before = await count()
    await list_messages(connection, session_id, **page)
    return await count() - before


async def test_stream_returns_messages_in_order(connection: AsyncConnection, mixed: UUID) -> None:
    everything = [each.sequence async for each in stream_messages(lending(connection), mixed)]
    chosen = [
        each.sequence async for each in stream_messages(lending(connection), mixed, after=3, kinds=("chunk",))
    ]

    assert (everything, chosen) == (list(range(1, 11)), [6, 9])
    assert await append(connection, mixed, [message("next")]) == [Appended("next", 11, True)]
    assert [each async for each in stream_messages(lending(connection), UNKNOWN_SESSION)] == []


async def test_stream_can_be_closed_early(connection: AsyncConnection, mixed: UUID) -> None:
    async with aclosing(stream_messages(lending(connection), mixed)) as streamed:
        first = await anext(streamed)

    assert first.sequence == 1
    assert await append(connection, mixed, [message("next")]) == [Appended("next", 11, True)]


async def test_stream_reads_one_snapshot(connection: AsyncConnection, mixed: UUID, database_url: str) -> None:
    async with (
        await connect(database_url) as other,
        aclosing(stream_messages(lending(connection), mixed)) as streamed,
    ):
        seen = [(await anext(streamed)).sequence]
        await append(other, mixed, [message("late")])
        seen += [each.sequence async for each in streamed]

    assert seen == list(range(1, 11))
