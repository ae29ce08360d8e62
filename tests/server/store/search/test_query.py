"""Full-text search of sessions, and its index."""

import json
from asyncio import gather
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server.errors import InvalidParameter, NulByte, SessionNotFound
from ash_server.store.connections.pool import connect
from ash_server.store.log.events import append_events, get_events
from ash_server.store.log.rebuild import rebuild_events
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.search import index
from ash_server.store.search.index import count_pending, index_pending, reindex_words
from ash_server.store.search.query import find
from ash_server.store.session_rows import get_session
from ash_server.store.sessions import create_session, delete_session
from tests.shared.records import claude
from tests.shared.records.events import wire_event
from tests.shared.records.openai_chat import delta_chunk

UNKNOWN_SESSION = UUID("00000000-0000-4000-8000-000000000000")


def line(type: str, second: int, *blocks: Any, **more: Any) -> str:
    content = list(blocks) if blocks[0].__class__ is dict else blocks[0]
    named = {"uuid": f"u-{second}", "timestamp": f"2026-11-02T09:00:{second:02}Z", **more}
    return json.dumps(claude.line(type, content, {"id": f"msg_{second}"}, **named))


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


LINES = [
    line("user", 1, "Look around.\n<system-reminder>Kindly be brief.</system-reminder>"),
    line(
        "assistant",
        2,
        {"type": "thinking", "thinking": "A ladder is needed.", "signature": "x"},
        text_block("I look."),
    ),
    line(
        "assistant", 3, {"type": "tool_use", "id": "t-1", "name": "Bash", "input": {"command": "ls orchard"}}
    ),
    line("user", 4, {"type": "tool_result", "tool_use_id": "t-1", "content": "apple.txt\npear_tree.txt"}),
    line("assistant", 5, text_block("Two files, apple.txt and a pear.")),
    '{"type":"holo_frame","uuid":"u-6","timestamp":"2026-11-02T09:00:06Z","note":"quince"}',
]

PROMPT, THOUGHT, LOOK, CALL, RESULT, ANSWER, RECORD = (
    (1, "user"),
    (2, "assistant"),
    (2, "assistant"),
    (3, "assistant"),
    (4, "tool"),
    (5, "assistant"),
    (6, "system"),
)


async def store(connection: AsyncConnection, session_id: UUID, *lines: str, **options: Any) -> None:
    await append(connection, session_id, [prepare_message(session_id, each) for each in lines], **options)


async def search(connection: AsyncConnection, q: str, **filters: Any) -> list[tuple[Any, str]]:
    """Return message sequence and role of each result."""
    page = await find(connection, q, **filters)
    return [(result.sequence, result.role) for result in page.results]


@pytest.fixture
async def orchard(connection: AsyncConnection, session_id: UUID) -> UUID:
    await store(connection, session_id, *LINES)
    await index_pending(connection)
    return session_id


SEARCHES: dict[str, tuple[str, dict[str, Any], list[tuple[int, str]]]] = {
    "a word": ("look", {}, [LOOK, PROMPT]),
    "the newest first": ("a", {}, [ANSWER, THOUGHT]),
    "the beginning of a word": ("aroun", {}, [PROMPT]),
    "the middle of a word": ("round", {}, []),
    "any case": ("LOOK AROUND", {}, [PROMPT]),
    "all words": ("look ladder", {}, []),
    "words of two passages": ("look orchard", {}, []),
    "either word": ("ladder or orchard", {}, [CALL, THOUGHT]),
    "an excluded word": ("look -around", {}, [LOOK]),
    "a phrase": ('"a pear"', {}, [ANSWER]),
    "not this phrase": ('"pear a"', {}, []),
    "a phrase is of whole words": ('"a pea"', {}, []),
    "a name with signs": ("apple.txt", {}, [ANSWER]),
    "the name of a tool": ("bash", {}, [CALL]),
    "an argument": ("orchard", {}, [CALL]),
    "the name of an argument": ("command", {}, []),
    "a system reminder": ("kindly", {}, []),
    "a tool result": ("pear_tree", {}, []),
    "only said": ("ladder or orchard or pear", {"place": "said"}, [ANSWER]),
    "only results": ("pear or kindly or quince or look", {"place": "results"}, [RECORD, RESULT, PROMPT]),
    "everything": ("pear or kindly or look", {"place": "everything"}, [ANSWER, RESULT, LOOK, PROMPT]),
    "role user": ("look", {"role": "user"}, [PROMPT]),
    "role tool": ("apple", {"role": "tool", "place": "everything"}, [RESULT]),
    "source claude": ("look", {"source": "claude"}, [LOOK, PROMPT]),
    "another source": ("look", {"source": "pi"}, []),
    "since": ("look", {"since": datetime(2026, 11, 2, 9, 0, 2, tzinfo=UTC)}, [LOOK]),
    "until": ("look", {"until": datetime(2026, 11, 2, 9, 0, 2)}, [PROMPT]),
    "one per session": ("look", {"per_session": 1}, [LOOK]),
    "SQL in a filter": ("look", {"source": "' OR true --"}, []),
}


async def test_finds_matching_passages(connection: AsyncConnection, orchard: UUID) -> None:
    seen = {name: await search(connection, q, **filters) for name, (q, filters, _) in SEARCHES.items()}

    assert seen == {name: expected for name, (_, _, expected) in SEARCHES.items()}


async def test_requests_that_a_transcript_repeats_are_not_found(
    connection: AsyncConnection, session_id: UUID
) -> None:
    prompt = "You prune quincunx hedges."
    records: list[dict[str, Any]] = [
        {
            "type": "api-request-shape",
            "shapeHash": "h",
            "shape": {"system": [text_block(prompt)], "tools": []},
        },
        {"type": "api-request-blob", "hash": "h", "message": {"role": "user", "content": prompt}},
        {"type": "api-request", "id": "q", "params": {"model": "quincunx"}, "tail": ["quincunx"]},
        {"type": "api-request-resumed", "messageId": "quincunx", "resumedRequestId": "quincunx"},
        {"type": "session-owner", "accountUuid": "quincunx"},
    ]
    await store(connection, session_id, *map(json.dumps, records), line("user", 1, text_block("A quincunx?")))
    await index_pending(connection)

    found = await search(connection, "quincunx", place="everything")

    assert found == [(len(records) + 1, "user")]


async def test_result_fields(connection: AsyncConnection, orchard: UUID) -> None:
    [result] = (await find(connection, "apple pear")).results
    stored = (await get_events(connection, orchard))[-2]
    assert (stored.message_sequence, stored.type) == (5, "assistant_done")

    assert result.model_dump(mode="json") == {
        "sessionId": str(orchard),
        "title": "Look around.",
        "source": "claude",
        "sequence": 5,
        "eventId": json.loads(stored.content)["id"],
        "eventSequence": stored.sequence,
        "type": "assistant_done",
        "role": "assistant",
        "createdAt": "2026-11-02T09:00:05Z",
        "snippet": "Two files, apple.txt and a pear.",
        "marks": [[11, 16], [27, 31]],
        "matches": 1,
    }


async def test_finds_streamed_text_when_complete(connection: AsyncConnection, session_id: UUID) -> None:
    def delta(text: str) -> str:
        return json.dumps(delta_chunk({"content": text}))

    await store(connection, session_id, delta("Three que"), delta("tzals fly."))
    await index_pending(connection)
    before = await search(connection, "quetzal")
    await store(connection, session_id, end=True)
    await index_pending(connection)

    assert before == []
    [result] = (await find(connection, "quetzal")).results
    assert (result.type, result.snippet, result.model_dump().get("sequence")) == (
        "assistant_done",
        "Three quetzals fly.",
        None,
    )


async def test_finds_posted_events(connection: AsyncConnection, session_id: UUID) -> None:
    event = wire_event("house_event", mood="serene", id="e-1", timestamp=10**15)
    early = {**event, "id": "e-2", "timestamp": 0}
    await append_events(connection, session_id, [event, early])
    await index_pending(connection)

    first, second = (await find(connection, "serene", place="results")).results
    assert (first.event_id, second.event_id) == ("e-1", "e-2")
    assert abs(datetime.now(UTC) - first.created_at) < timedelta(minutes=5), "a future time becomes now"
    assert second.created_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert "sequence" not in first.model_dump()


async def test_pages_are_consecutive(connection: AsyncConnection) -> None:
    for _ in range(3):
        session_id = (await create_session(connection)).session.id
        await store(
            connection, session_id, *(line("user", second, f"heron {second}") for second in range(1, 6))
        )
    await index_pending(connection)

    async def walk(**filters: Any) -> list[tuple[UUID, Any]]:
        seen, after = [], None
        while True:
            page = await find(connection, "heron", after=after, limit=4, **filters)
            assert len(page.results) <= 4
            seen += [(result.session_id, result.sequence) for result in page.results]
            after = page.model_dump().get("nextAfter")
            if after is None:
                return seen

    everything, few = await walk(), await walk(per_session=2)
    assert len(set(everything)) == len(everything) == 15
    assert [sequence for _, sequence in everything] == sorted([*range(1, 6)] * 3, reverse=True)
    assert few == everything[:6]
    assert {result.matches for result in (await find(connection, "heron", per_session=1)).results} == {5}


async def test_page_size_is_limited_in_bytes(
    connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ash_server.store.search.query._MAX_SNIPPET_BYTES", 5000)
    await store(
        connection, session_id, *(line("user", second, "heron " + "x y " * 1000) for second in range(1, 5))
    )
    await index_pending(connection)

    page = await find(connection, "heron", limit=3)
    rest = await find(connection, "heron", limit=3, after=page.model_dump()["nextAfter"])
    assert ([each.sequence for each in page.results], [each.sequence for each in rest.results]) == (
        [4, 3],
        [2, 1],
    )
    assert "nextAfter" not in rest.model_dump()


async def test_text_in_many_parts_is_one_result(connection: AsyncConnection, session_id: UUID) -> None:
    text = " ".join(f"heron w{number}" for number in range(10_000))
    await store(connection, session_id, line("user", 1, text))
    await index_pending(connection)

    assert await search(connection, "heron") == [(1, "user")]
    assert await search(connection, "w9999") == [(1, "user")]
    assert (await find(connection, "heron")).results[0].matches == 1


HUGE: dict[str, tuple[str, str]] = {
    "a megabyte of different words": (" ".join(map(str, range(150_000))), "149999"),
    "a megabyte of one word": ("x" * 2**20 + " end", "end"),
    "a megabyte of the same word": ("x " * 2**19, "x"),
    "a megabyte of long words": (" ".join(f"{number:0200d}" for number in range(5000)), "0" * 196 + "4999"),
    "a megabyte without blanks": ("東京都" * 2**17 + "終", "終"),
    "a megabyte of signs": ("." * 2**20 + "end", "end"),
    "an escaped NUL": ("before\0after", "after"),
    "a lone surrogate": ("before\ud800after", "after"),
    "an emoji": ("before🙂after", "after"),
}


@pytest.mark.slow
async def test_finds_words_in_texts_of_any_size(connection: AsyncConnection, session_id: UUID) -> None:
    for second, (text, _) in enumerate(HUGE.values(), 1):
        await store(connection, session_id, line("user", second, text))
    await index_pending(connection)
    seen = {name: await search(connection, q) for name, (_, q) in HUGE.items()}

    assert {
        name: [place for place in places if place[0] == second]
        for second, (name, places) in enumerate(seen.items(), 1)
    } == {name: [(second, "user")] for second, name in enumerate(HUGE, 1)}
    assert await count_pending(connection) == 0


@pytest.mark.parametrize("q", ["", '"', "-x", "!!!", "\0", "a " * 100])
async def test_rejects_query_without_words(connection: AsyncConnection, q: str) -> None:
    with pytest.raises(InvalidParameter):
        await find(connection, q)


async def test_rejects_invalid_parameters(connection: AsyncConnection) -> None:
    cases: list[tuple[dict[str, Any], type[Exception]]] = [
        *(({"after": cursor}, InvalidParameter) for cursor in ("x", "====", "é", "MjAyNA==", "YSBiIGM=")),
        *(({"limit": limit}, InvalidParameter) for limit in (0, -1, 101)),
        ({"source": "a\0"}, NulByte),
        ({"session_id": UNKNOWN_SESSION}, SessionNotFound),
    ]
    for filters, refusal in cases:
        with pytest.raises(refusal):
            await find(connection, "a", **filters)


# --- Indexing

ROWS = "SELECT sequence, part, weight, role, at, words::text FROM search WHERE session_id = %s ORDER BY 1, 2"


async def rows(connection: AsyncConnection, session_id: UUID) -> list[Any]:
    return await (await connection.execute(ROWS, [session_id])).fetchall()


async def progress(connection: AsyncConnection, session_id: UUID) -> Any:
    query = "SELECT event_sequence, last_dropped_sequence, version FROM search_progress WHERE session_id = %s"
    return await (await connection.execute(query, [session_id])).fetchone()


async def test_index_does_not_depend_on_pages_and_interruptions(
    connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one run, after each line, page by page, and interrupted."""
    logs = []
    for page, indexes_each_line, seconds in (
        (500, False, 60.0),
        (500, True, 60.0),
        (1, False, 60.0),
        (2, False, 0.0),
    ):
        monkeypatch.setattr(index, "_MAX_EVENTS", page)
        session_id = (await create_session(connection)).session.id
        for each in LINES:
            await store(connection, session_id, each)
            if indexes_each_line:
                await index_pending(connection)
        while await count_pending(connection):
            await index_pending(connection, seconds=seconds)
        logs.append([row[:4] + row[5:] for row in await rows(connection, session_id)])  # without times
        assert (await progress(connection, session_id))[0] == (
            await get_session(connection, session_id)
        ).event_count

    assert len(logs[0]) == 8
    assert logs == [logs[0]] * 4


async def test_counts_pending_events(connection: AsyncConnection, session_id: UUID) -> None:
    counts = [await count_pending(connection)]
    await store(connection, session_id, *LINES[:2])
    counts.append(await count_pending(connection))
    await index_pending(connection)
    counts.append(await count_pending(connection))

    assert counts == [0, 4, 0]


async def test_leaves_events_appended_meanwhile_to_next_call(
    connection: AsyncConnection, session_id: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a transaction would follow each append to a busy session."""
    read_events, reads = index._read_events, 0
    await store(connection, session_id, *LINES[:2])
    async with await connect(database_url) as other:

        async def read_and_append(conn: AsyncConnection, *arguments: Any) -> Any:
            nonlocal reads
            events, reads = await read_events(conn, *arguments), reads + 1
            await store(other, session_id, line("user", 1, "heron", uuid=f"u-{reads}"))
            return events

        monkeypatch.setattr(index, "_read_events", read_and_append)
        is_done = await index_pending(connection, seconds=60)

    assert (is_done, reads) == (True, 1)
    assert await count_pending(connection) > 0


async def test_concurrent_indexers_add_words_once(
    connection: AsyncConnection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_MAX_EVENTS", 2)
    ids = [(await create_session(connection)).session.id for _ in range(10)]
    for session_id in ids:
        await store(connection, session_id, *LINES)

    async def run_indexer() -> None:
        async with await connect(database_url) as conn:
            while await count_pending(conn):
                await index_pending(conn)

    await gather(*(run_indexer() for _ in range(4)))

    indexed = [await rows(connection, session_id) for session_id in ids]
    assert [len(each) for each in indexed] == [8] * 10
    assert len(await search(connection, "orchard")) == 10


async def test_append_does_not_wait_for_indexer(
    connection: AsyncConnection, database_url: str, session_id: UUID
) -> None:
    await store(connection, session_id, LINES[0])
    async with await connect(database_url) as other, other.transaction():
        await other.execute("SELECT FROM search_progress WHERE session_id = %s FOR UPDATE", [session_id])
        await other.execute("SELECT FROM sessions WHERE id = %s FOR KEY SHARE", [session_id])
        await connection.execute("SET lock_timeout = '2s'")
        await store(connection, session_id, LINES[1])
        await index_pending(connection)  # skips the locked session; there is no other
        assert await count_pending(connection) == 4

    await index_pending(connection)
    assert await search(connection, "look") == [LOOK, PROMPT]


async def test_session_can_be_deleted_during_indexing(connection: AsyncConnection, database_url: str) -> None:
    for _ in range(10):
        session_id = (await create_session(connection)).session.id
        await store(connection, session_id, *LINES)
        async with await connect(database_url) as other:
            await gather(index_pending(connection), delete_session(other, session_id))
        assert await rows(connection, session_id) == []
        assert await progress(connection, session_id) is None
    assert await count_pending(connection) == 0


async def test_indexes_rebuilt_events_instead_of_old_ones(
    connection: AsyncConnection, session_id: UUID, orchard: UUID
) -> None:
    event = wire_event("summary", text="medlar", id="e-1", timestamp=1)
    await append_events(connection, session_id, [event])
    await index_pending(connection)
    before = await rows(connection, session_id)
    await rebuild_events(connection, session_id)

    assert await count_pending(connection) == (await get_session(connection, session_id)).event_count
    assert await search(connection, "orchard") == [], "the old events are removed"
    await index_pending(connection)
    after = await rows(connection, session_id)
    assert [row[1:] for row in after] == [row[1:] for row in before]
    assert min(row[0] for row in after) > max(row[0] for row in before)
    assert len(await search(connection, "orchard or medlar", place="everything")) == 2


async def test_reindex_restores_words(connection: AsyncConnection, orchard: UUID) -> None:
    before = await rows(connection, orchard)
    await connection.execute("UPDATE search SET words = '''stale'':1' WHERE session_id = %s", [orchard])
    await connection.execute("DELETE FROM search WHERE sequence = 2")
    await reindex_words(connection, orchard)

    assert await rows(connection, orchard) == before


async def test_reindexes_words_of_older_version(connection: AsyncConnection, orchard: UUID) -> None:
    """They can be searched until then."""
    before = await rows(connection, orchard)
    await connection.execute("UPDATE search_progress SET version = 0")

    assert await count_pending(connection) == (await get_session(connection, orchard)).event_count
    assert await search(connection, "orchard") == [CALL]
    await index_pending(connection)
    assert await rows(connection, orchard) == before
    assert await count_pending(connection) == 0


async def test_empty_session_has_nothing_pending(connection: AsyncConnection, session_id: UUID) -> None:
    await index_pending(connection)

    assert await count_pending(connection) == 0


async def test_new_message_is_indexed_before_large_backlog(
    connection: AsyncConnection, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_MAX_EVENTS", 1)
    large = (await create_session(connection)).session.id
    await store(connection, large, *(line("user", 1, "heron", uuid=f"u-{number}") for number in range(50)))
    await store(connection, session_id, LINES[0])
    await index_pending(connection, seconds=0)
    await index_pending(connection, seconds=0)

    assert await search(connection, "around") == [PROMPT]
    assert await count_pending(connection) > 0
