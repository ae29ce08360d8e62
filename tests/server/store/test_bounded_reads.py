"""Rows that requests read in a large store: by the plans of their statements, not by time."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection, AsyncCursor

from ash_server.store import Store
from ash_server.store.conversation import standard_pages
from ash_server.store.lists.session_lists import list_sessions
from ash_server.store.log.events import get_collapsed, get_event_page
from ash_server.store.log.totals import count_items
from ash_server.store.message_pages import list_page
from ash_server.store.search import nearest
from ash_server.store.search.query import find
from ash_server.store.search.within import find_in_session
from tests.cluster import not_on_cluster
from tests.shared.records.events import wire_event

LONG = UUID("0a000000-0000-7000-8000-000000000001")
SHORT = UUID("0a000000-0000-7000-8000-000000000002")
ROWS = 120_000
"""Events with a frequent word, half of them in one session, the others in sessions of 100."""

FILL = f"""
    INSERT INTO sessions (id, source, created_at)
    SELECT CASE number WHEN 0 THEN '{LONG}' WHEN 1 THEN '{SHORT}' ELSE gen_random_uuid() END, 'claude',
        now() - number * interval '1 hour'
    FROM generate_series(0, {ROWS // 200}) AS number;
    INSERT INTO session_counters (session_id, message_sequence, event_sequence)
    SELECT id, size, size
    FROM sessions, LATERAL (SELECT CASE id WHEN '{LONG}' THEN {ROWS // 2} ELSE 100 END AS size) AS sizes;
    INSERT INTO search_progress (session_id, event_sequence, version)
    SELECT session_id, event_sequence, 1000 FROM session_counters;
    INSERT INTO messages (
        session_id, sequence, id, role, kind, source, content, block_types, parser_version, created_at
    )
    SELECT session_id, number, number, 'user', 'message', 'claude', '"x"', ARRAY['text'], 1, now()
    FROM session_counters, generate_series(1, message_sequence) AS number;
    INSERT INTO events (session_id, sequence, type, message_sequence, origin, stored_json)
    SELECT session_id, number, 'user_message', number, 'line',
        '{{"id":"e","timestamp":0,"type":"user_message","payload":{{"text":"heron"}}}}'
    FROM session_counters, generate_series(1, event_sequence) AS number;
    INSERT INTO search (session_id, sequence, part, weight, readers, role, at, words)
    SELECT session_id, number, 0, 'A', 'all', 'user', created_at - number * interval '1 second',
        CASE WHEN number % 8 = 0 THEN '''heron'':1 ''a'':2' ELSE '''crane'':1 ''a'':2' END::tsvector
    FROM session_counters JOIN sessions ON id = session_id, generate_series(1, event_sequence) AS number;
    ANALYZE sessions, session_counters, messages, events, search;
"""  # constants


@pytest.fixture
async def large(connection: AsyncConnection) -> AsyncConnection:
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(FILL)
    await connection.execute("SET session_replication_role = origin")
    return connection


def rows_of(plan: dict[str, Any]) -> float:
    """Return the rows that the scans of a plan read, with those that filters rejected."""
    removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
    is_scan = plan["Node Type"].endswith("Scan") and "Plans" not in plan
    own = (plan["Actual Rows"] if is_scan else 0) + removed
    return float(own * plan["Actual Loops"]) + sum(map(rows_of, plan.get("Plans", [])))


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """The statements so far, each with the rows that it reads."""
    found: list[tuple[str, float]] = []
    execute = AsyncCursor.execute

    async def explained(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        if str(query).lstrip().startswith(("SELECT", "WITH")) and "set_config" not in str(query):
            other = self.connection.cursor()
            await execute(other, f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", params, prepare=False)
            [[[plan]]] = await other.fetchall()
            found.append((str(query), rows_of(plan["Plan"])))
        return await execute(self, query, params, **options)

    monkeypatch.setattr(AsyncCursor, "execute", explained)
    return found


READS: dict[str, tuple[Callable[[AsyncConnection], Awaitable[Any]], int]] = {
    "a frequent word": (lambda conn: find(conn, "heron"), 11_000),
    "in every event": (lambda conn: find(conn, "a"), 11_000),
    "few per session": (lambda conn: find(conn, "heron", per_session=3), 75_000),
    "a role that no event has": (lambda conn: find(conn, "heron", role="tool"), 28_000),
    "in a long session": (lambda conn: find(conn, "heron", session_id=LONG), 11_000),
    "in a short session": (lambda conn: find_in_session(conn, SHORT, "heron"), 200),
    "within a long session": (lambda conn: find_in_session(conn, LONG, "heron"), 8_100),
    "within a long session, before a place": (
        lambda conn: find_in_session(conn, LONG, "heron", before=50_000),
        8_100,
    ),
    "no word within a long session": (lambda conn: find_in_session(conn, LONG, "quince"), 2_100),
    "no project": (lambda conn: list_sessions(conn, project="/nowhere"), 100),
    "no title": (lambda conn: list_sessions(conn, q="no title has this"), 3_000),
    "messages with an image": (lambda conn: list_page(conn, LONG, type="image"), 51_000),
    "deleted messages": (lambda conn: list_page(conn, LONG, kinds=["deleted"], before=2**53 - 1), 51_000),
    "around a message": (lambda conn: get_event_page(conn, LONG, message=50_000), 200),
    "a type around a place": (lambda conn: get_event_page(conn, LONG, at=55_000, types=["error"]), 51_000),
    "an agent around a place": (lambda conn: get_event_page(conn, LONG, at=30_000, agent="nobody"), 2_600),
    "an agent": (lambda conn: get_event_page(conn, LONG, agent="nobody"), 5_100),
}
"""Reads, and the most rows that one of their statements may read."""


@pytest.mark.slow
@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_statements_read_a_limited_number_of_rows(
    large: AsyncConnection, plans: list[tuple[str, float]]
) -> None:
    read: dict[str, float] = {}
    for name, (run, _) in READS.items():
        plans.clear()
        await run(large)
        read[name] = max(rows for _, rows in plans)

    assert {name: rows for name, rows in read.items() if rows > READS[name][1]} == {}


SEARCHED = """
    INSERT INTO search (session_id, sequence, part, weight, readers, role, at, words)
    SELECT %s, number, 0, 'A', 'all', 'user', now(), array_to_tsvector(ARRAY['heron', 'crane' || number])
    FROM generate_series(1, 4000) AS number
"""


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_similar_words_in_a_small_store_are_looked_up_in_the_index(
    connection: AsyncConnection,
    session_id: UUID,
    plans: list[tuple[str, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearest, "_TIMEOUT_MS", 60_000)
    monkeypatch.setattr(nearest, "_MAX_MS", 60_000)
    await connection.execute(SEARCHED, [session_id])
    await connection.execute("ANALYZE search")
    page = await find(connection, "cranes3999")
    looked_up = [rows for query, rows in plans if "tsvector_to_array" in query]

    assert page.suggestions == ["crane3999"]
    assert max(looked_up) <= 400


@pytest.mark.slow
@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_counts_of_items_are_kept(large: AsyncConnection, plans: list[tuple[str, float]]) -> None:
    def connect() -> nullcontext[AsyncConnection]:
        return nullcontext(large)

    first = await count_items(connect, connect, LONG)
    plans.clear()

    assert await count_items(connect, connect, LONG) == first
    assert max(rows for _, rows in plans) <= 1


async def test_exports_read_parts_of_long_logs(
    store: Store, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = [wire_event("assistant_chunk", text="a", id=f"c-{n}") for n in range(30)]
    done = wire_event("assistant_done", text="a" * 30, id="done")
    await store.events.append_batch(session_id, [*chunks, done])
    monkeypatch.setattr(standard_pages, "MAX_COLLAPSED", 10)
    spans, read = list[tuple[int, int]](), get_collapsed

    async def reading(conn: AsyncConnection, id: UUID, after: int, end: int, **size: int) -> Any:
        spans.append((after, end))
        return await read(conn, id, after, end, **size)

    monkeypatch.setattr(standard_pages, "get_collapsed", reading)
    pages = store.conversation.stream_event_pages(session_id, limit=5, max_bytes=2**20)

    assert [[event.type for event in page] async for page in pages] == [["assistant_done"]]
    assert spans == [(0, 10), (10, 20), (20, 30), (30, 31)]
