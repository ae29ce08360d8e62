"""Sessions are marked while words of events are not indexed, or totals are far behind; an upkeep ends the marks."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.live.session_upkeep import SessionUpkeep
from ash_server.prices import PriceFiles
from ash_server.settings import Settings
from ash_server.store.log import totals
from ash_server.store.search.index import SQL, count_pending, end_upkeep, index_pending
from ash_shared.projections.search_text import PASSAGES_VERSION
from tests.shared.records.events import wire_event

NOTICE: dict[str, Any] = wire_event("notice", text="a heron", level="info")
CHANGES: Mapping[str, Callable[[Store, UUID], Awaitable[Any]]] = {
    "an append": lambda store, session: store.messages.append(session, ["one more"]),
    "a posted event": lambda store, session: store.events.append(session, NOTICE),
    "a rebuild": lambda store, session: store.events.rebuild(session),
    "a deleted message": lambda store, session: store.messages.delete(session, 1),
}


async def list_marked(connection: AsyncConnection) -> set[UUID]:
    rows = await connection.execute("SELECT session_id FROM session_counters WHERE needs_upkeep")
    return {id for (id,) in await rows.fetchall()}


async def create(store: Store) -> UUID:
    session = await store.sessions.create(source="claude")
    await store.messages.append(session.id, ["some words", "others"])
    return session.id


@pytest.mark.parametrize("change", CHANGES)
async def test_changes_mark_their_session_until_its_words_are_indexed(
    store: Store, connection: AsyncConnection, change: str
) -> None:
    session, other = [await create(store) for _ in range(2)]
    await index_pending(connection)
    await end_upkeep(connection)
    assert await list_marked(connection) == {session, other}  # they have just changed

    await end_upkeep(connection, quiet=0)
    assert await list_marked(connection) == set()
    await CHANGES[change](store, session)
    await end_upkeep(connection, quiet=0)
    assert await list_marked(connection) == {session}

    assert await index_pending(connection)
    await end_upkeep(connection, quiet=0)
    assert (await list_marked(connection), await count_pending(connection)) == (set(), 0)


async def test_words_of_an_earlier_version_are_pending_without_a_mark(
    store: Store, connection: AsyncConnection
) -> None:
    await create(store)
    await index_pending(connection)
    await end_upkeep(connection, quiet=0)
    await connection.execute("UPDATE search_progress SET version = %s", [PASSAGES_VERSION - 1])
    pending = await count_pending(connection)

    assert await index_pending(connection)

    assert (pending > 0, await count_pending(connection)) == (True, 0)


async def test_finished_sessions_are_not_read(store: Store, connection: AsyncConnection) -> None:
    for _ in range(20):
        await create(store)
    await index_pending(connection)
    await end_upkeep(connection, quiet=0)
    await connection.execute("ANALYZE session_counters, search_progress, sessions")
    await connection.execute("SET enable_seqscan = off")

    params = {"version": PASSAGES_VERSION, "limit": 200}
    for statement in (SQL.list_pending_sessions, SQL.list_outdated_sessions, SQL.count_pending_events):
        rows = await connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", params)
        [(plan,)] = await rows.fetchall()
        assert rows_of(plan[0]["Plan"]) == 0, json.dumps(plan)


def rows_of(plan: Mapping[str, Any]) -> float:
    """Return the rows that the scans of a plan read."""
    is_scan = plan["Node Type"].endswith("Scan") and plan["Node Type"] != "Subquery Scan"
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if is_scan else 0
    return float(own * plan["Actual Loops"]) + sum(map(rows_of, plan.get("Plans", [])))


async def test_totals_that_readers_would_derive_are_derived_in_the_background(
    store: Store, connection: AsyncConnection
) -> None:
    old, behind = [await create(store) for _ in range(2)]
    for session in (old, behind):
        await store.events.append_batch(session, [NOTICE] * (totals._MAX_LAG + 1))
    await store.conversation.count_items(old)
    places = [await totals._find_place(connection, session) for session in (old, behind)]
    assert [each.last - each.kept.sequence > totals._MAX_LAG for each in places] == [False, True]
    await connection.execute("UPDATE session_counters SET totals = '[0,' WHERE session_id = %s", [old])
    await connection.execute("UPDATE sessions SET updated_at = updated_at - interval '1 hour'")
    upkeep = SessionUpkeep(store, PriceFiles(Settings.load()))

    assert await upkeep.keep()

    kept = [(await totals._find_place(connection, session)).kept for session in (old, behind)]
    assert [totals._known(each).sequence for each in kept] == [each.last for each in places]
    query = "SELECT count(*) FROM session_counters WHERE cost_revision = ''"
    assert await (await connection.execute(query)).fetchall() == [(0,)]


async def test_models_of_many_messages_are_counted_in_the_background(
    store: Store, connection: AsyncConnection
) -> None:
    few, many = [await create(store) for _ in range(2)]
    await store.messages.append(many, [f"text {number}" for number in range(totals.MAX_UNCOUNTED)])
    assert [id for id, _ in await store.conversation.list_behind(10)] == [many]
    upkeep = SessionUpkeep(store, PriceFiles(Settings.load()))

    assert await upkeep.keep()

    last = [(await totals._find_place(connection, session)).kept for session in (few, many)]
    assert [totals._totals(each).models.last for each in last] == [0, totals.MAX_UNCOUNTED + 2]
    assert await store.conversation.list_behind(10) == []
