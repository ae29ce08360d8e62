"""Appending and reading messages with one writer and one reader."""

from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.errors import (
    AshError,
    DuplicateInBatch,
    IdConflict,
    InvalidId,
    InvalidParameter,
    InvalidUtf8,
    MessageNotFound,
    NulByte,
    SequenceMismatch,
)
from ash_server.store.connections.pool import connect
from ash_server.store.log.events import Appended
from ash_server.store.message_pages import (
    MessageFilter,
    StoredMessage,
    get_contents,
    get_message,
    list_blocks,
    list_messages,
    stream_messages,
    to_message,
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


async def stored(connection: AsyncConnection, session_id: UUID) -> list[tuple[int, str, str]]:
    page = await list_messages(connection, session_id, kinds=("message", "record", "chunk"))
    return [(each.sequence, each.id, each.content) for each in page]


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_statements_of_short_appends_are_not_planned_again(
    connection: AsyncConnection, session_id: UUID
) -> None:
    for number in range(20):
        await append(connection, session_id, [message(f"m{number}")])
    planned = await connection.execute("SELECT max(custom_plans) < 10 FROM pg_prepared_statements")

    assert await planned.fetchall() == [(True,)]


async def test_append_assigns_sequences_in_order(connection: AsyncConnection, session_id: UUID) -> None:
    answers = [
        await append(connection, session_id, [message("a", "1")]),
        await append(connection, session_id, [message("b", "2"), message("c", "3")]),
        await append(connection, session_id, []),
    ]

    assert answers == [[Appended("a", 1, True)], [Appended("b", 2, True), Appended("c", 3, True)], []]
    assert await stored(connection, session_id) == [(1, "a", "1"), (2, "b", "2"), (3, "c", "3")]


async def test_each_session_has_its_own_sequence(connection: AsyncConnection, session_id: UUID) -> None:
    other = (await create_session(connection)).session.id
    await append(connection, session_id, [message("a")])

    assert await append(connection, other, [message("a", "other")]) == [Appended("a", 1, True)]


async def test_repeated_append_changes_nothing(connection: AsyncConnection, session_id: UUID) -> None:
    batch = [message("a"), message("b", has_explicit_id=False)]
    await append(connection, session_id, batch)
    session = await get_session(connection, session_id)

    assert await append(connection, session_id, batch) == [Appended("a", 1, False), Appended("b", 2, False)]
    assert await get_session(connection, session_id) == session


async def test_deduplicates_lines_within_batch(connection: AsyncConnection, session_id: UUID) -> None:
    batch = [
        message("a", has_explicit_id=False),
        message("b", has_explicit_id=False),
        message("a", has_explicit_id=False),
    ]

    assert await append(connection, session_id, batch) == [
        Appended("a", 1, True),
        Appended("b", 2, True),
        Appended("a", 1, False),
    ]


REFUSALS: dict[str, tuple[list[PreparedMessage], type[AshError], int | None]] = {
    "other text": ([message("new"), message("a", "other")], IdConflict, 1),
    "other text, derived id": ([message("a", "other", has_explicit_id=False)], IdConflict, 0),
    "other text within the batch": (
        [message("x", "1", has_explicit_id=False), message("x", "2", has_explicit_id=False)],
        IdConflict,
        1,
    ),
    "a duplicate id": ([message("new"), message("b"), message("new")], DuplicateInBatch, 2),
    "a NUL": ([message("new"), message("b", "a\0b")], NulByte, 1),
    "a NUL in the id": ([message("a\0")], NulByte, 0),
    "a NUL in the source": ([message("new", source="\0")], NulByte, 0),
    "a lone surrogate": ([message("new", "\udc00")], InvalidUtf8, 0),
    "no id": ([message("new"), message("")], InvalidId, 1),
    "a long id": ([message("é" * 256)], InvalidId, 0),
}


@pytest.mark.parametrize(("batch", "refusal", "index"), REFUSALS.values(), ids=REFUSALS)
async def test_rejects_whole_batch_with_invalid_message(
    connection: AsyncConnection,
    session_id: UUID,
    batch: list[PreparedMessage],
    refusal: type[AshError],
    index: int,
) -> None:
    await append(connection, session_id, [message("a")])
    with pytest.raises(refusal) as refused:
        await append(connection, session_id, batch)

    assert refused.value.index == index
    assert await append(connection, session_id, [message("next")]) == [Appended("next", 2, True)]


async def test_expected_sequence_applies_to_new_messages_only(
    connection: AsyncConnection, session_id: UUID
) -> None:
    await append(connection, session_id, [message("a")], expected_sequence=0)
    for wrong in (0, 2, -1, 2**70):
        with pytest.raises(SequenceMismatch) as mismatch:
            await append(connection, session_id, [message("b")], expected_sequence=wrong)
        assert mismatch.value.extra == {"currentSequence": 1}

    assert await append(connection, session_id, [message("a")], expected_sequence=0) == [
        Appended("a", 1, False)
    ]
    assert await append(connection, session_id, [message("b")], expected_sequence=1) == [
        Appended("b", 2, True)
    ]


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


VERBATIM = [
    "",
    " \t\r\n ",
    "\ufeff{}",
    '{"b":1,"a":2,"a":3, "x" : 1.0e400 }',
    r'{"a":"\u0000","\ud800":"\udc00\ud83d"}',
    "\x01\x1b[31m\u2028\uffff\u202e\U0010ffff",
    "{'\"%s %b %(x)s $1 {} \\",
    "e\u0301 vs é",
    "line\r\nline\rline",
]


async def test_stores_content_verbatim(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message(text or "empty", text) for text in VERBATIM])

    assert [(id, content) for _, id, content in await stored(connection, session_id)] == [
        (text or "empty", text) for text in VERBATIM
    ]


async def test_get_message_returns_stored_fields(connection: AsyncConnection, session_id: UUID) -> None:
    await append(connection, session_id, [message("a", "x", role="system", kind="record", source="codex")])
    read = await get_message(connection, session_id, 1)

    assert read == StoredMessage("a", "system", "record", "codex", "x", 1, read.created_at)
    assert read.created_at.tzinfo is UTC or str(read.created_at.tzinfo) == "UTC"


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

PAGES: list[tuple[MessageFilter, list[int]]] = [
    ({}, [1, 2, 4, 5, 7, 8, 10]),
    ({"kinds": ALL}, list(range(1, 11))),
    ({"kinds": ("chunk",)}, [3, 6, 9]),
    ({"kinds": ()}, []),
    ({"kinds": ALL, "limit": 3}, [1, 2, 3]),
    ({"kinds": ALL, "after": 3, "limit": 3}, [4, 5, 6]),
    ({"kinds": ALL, "after": 9}, [10]),
    ({"kinds": ALL, "after": 10}, []),
    ({"kinds": ALL, "after": 2**53 - 1}, []),
    ({"kinds": ALL, "before": 2**53 - 1, "limit": 3}, [8, 9, 10]),
    ({"kinds": ALL, "before": 8, "limit": 3}, [5, 6, 7]),
    ({"kinds": ALL, "before": 3, "limit": 3}, [1, 2]),
    ({"kinds": ALL, "before": 1}, []),
    ({"kinds": ALL, "before": None}, list(range(1, 11))),
    ({"kinds": ALL, "after": 2, "before": 6}, [3, 4, 5]),
    ({"kinds": ALL, "after": 2, "before": 6, "limit": 2}, [4, 5]),
    ({"kinds": ALL, "role": "assistant"}, [2, 4, 6, 8, 10]),
    ({"kinds": ALL, "role": "tool"}, []),
    ({"kinds": ALL, "role": None, "type": None, "limit": 1}, [1]),
    ({"kinds": ALL, "type": "tool_use"}, [2, 4, 6, 8, 10]),
    ({"kinds": ALL, "type": "tool"}, []),
    ({"kinds": ALL, "type": ""}, []),
    ({"role": "assistant", "type": "text", "after": 2, "limit": 2}, [4, 8]),
    ({"role": "assistant", "type": "text", "before": 9, "limit": 2}, [4, 8]),
]


async def test_page_applies_filters(connection: AsyncConnection, mixed: UUID) -> None:
    async def page(filters: MessageFilter) -> list[int]:
        return [each.sequence for each in await list_messages(connection, mixed, **filters)]

    for _ in range(2):  # the second time with prepared statements
        assert [(filters, await page(filters)) for filters, _ in PAGES] == PAGES


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


OUT_OF_BOUNDS: list[tuple[MessageFilter, type[AshError]]] = [
    ({"after": -1}, InvalidParameter),
    ({"after": 2**53}, InvalidParameter),
    ({"after": 10**30}, InvalidParameter),
    ({"before": 0}, InvalidParameter),
    ({"before": 2**53}, InvalidParameter),
    ({"limit": 0}, InvalidParameter),
    ({"limit": 1001}, InvalidParameter),
    ({"type": "\0"}, NulByte),
    ({"type": "\ud800"}, InvalidUtf8),
]


async def test_rejects_invalid_page(connection: AsyncConnection, session_id: UUID) -> None:
    for page, refusal in OUT_OF_BOUNDS:
        with pytest.raises(refusal):
            await list_messages(connection, session_id, **page)


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


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


POISONED = {
    "broken": '{"type":"assistant","message":',
    "deep": '{"type":"user","message":{"role":"user","content":' + nested(300) + "}}",
    "very deep": nested(100_000),
    "lone surrogate": r'{"type":"user","message":{"role":"user","content":"a\ud800b"}}',
    "surrogate in a key": r'{"type":"holo","\udc00":1}',
    "nul escape": r'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a\u0000b"}]}}',
    "huge integer": '{"type":"holo","n":' + "9" * 5000 + "}",
    "forty digits": '{"type":"holo","n":' + "9" * 40 + "}",
    "nan": '{"type":"holo","n":NaN}',
    "overflow": '{"type":"holo","n":1e400}',
    "duplicate keys": '{"type":"text","type":"tool_use"}',
    "wrong types": '{"type":5,"message":[],"content":{"role":null}}',
    "wrong block": '{"type":"user","message":{"role":"user","content":[{"type":"text"},5,null,[]]}}',
    "null": "null",
    "bom": "\ufeff" + '{"type":"holo"}',
    "empty": "",
}


async def test_page_includes_malformed_messages(connection: AsyncConnection, session_id: UUID) -> None:
    good = '{"type":"user","message":{"role":"user","content":"fine"}}'
    batch = [message(name, raw) for name, raw in POISONED.items()]
    await append(connection, session_id, [message("first", good), *batch, message("last", good)])
    page = [to_message(session_id, each) for each in await list_messages(connection, session_id)]
    written = [each.model_dump(mode="json") for each in page]

    assert [each.id for each in page] == ["first", *POISONED, "last"]
    assert all("parsed" in each for each in written)
    assert [each["parsed"] for each in (written[0], written[-1])] == [[{"type": "text", "text": "fine"}]] * 2
    assert [each.content for each in page] == [good, *POISONED.values(), good]
