"""Deletions in long sessions read only the messages after a kept state."""

import json
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection

from ash_server.store.maintenance.deletion import delete_last_message, delete_message
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message
from ash_server.store.sessions import create_session
from tests.cluster import not_on_cluster
from tests.server.store.test_operation_budgets import Meter
from tests.shared.records import claude

SHORT = UUID("0a000000-0000-7000-8000-000000000001")
LONG = UUID("0a000000-0000-7000-8000-000000000002")

LENGTHS = {SHORT: 150, LONG: 600}
"""Turns of five messages."""

ROWS = 1500
"""Less than the messages and events of the long session."""

DELETIONS: dict[str, Callable[[AsyncConnection, UUID], Awaitable[object]]] = {
    "the last message": delete_last_message,
    "the last but one": delete_last_message,
    "a mode in the middle": lambda conn, id: delete_message(conn, id, LENGTHS[id] // 2 * 5 + 5),
    "a mode at the beginning": lambda conn, id: delete_message(conn, id, 5),
}


def turn(number: int) -> list[dict[str, Any]]:
    return [
        claude.user(f"task {number}"),
        claude.assistant(claude.call(f"t{number}", file_path=f"/f{number}"), id=f"c{number}"),
        claude.user([claude.tool_result(f"t{number}", "fine")]),
        claude.line(
            "assistant", [claude.text(f"done {number}")], {"id": f"a{number}", "usage": claude.USAGE}
        ),
        {"type": "permission-mode", "permissionMode": "plan"},
    ]


@pytest.fixture
async def meter(connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch) -> Meter:
    for session, turns in LENGTHS.items():
        await connection.execute("INSERT INTO sessions (id, source) VALUES (%s, 'claude')", [session])
        await connection.execute("INSERT INTO session_counters (session_id) VALUES (%s)", [session])
        await connection.execute("INSERT INTO search_progress (session_id) VALUES (%s)", [session])
        lines = [json.dumps(line) for number in range(turns) for line in turn(number)]
        for first in range(0, len(lines), 50):
            new = [prepare_message(session, line, id=str(uuid4())) for line in lines[first : first + 50]]
            await append(connection, session, new)
    await connection.execute("VACUUM ANALYZE")
    return Meter(connection)


@pytest.mark.slow
@pytest.mark.skipif("ASH_DIRECT_URL" in os.environ, reason="a pooler changes connections")
@not_on_cluster("rows are counted on one server")
async def test_reads_as_much_in_a_long_session_as_in_a_short_one(meter: Meter) -> None:
    rows = {
        (name, session): (await meter.measure(lambda conn: delete(conn, session))).rows  # noqa: B023
        for name, delete in DELETIONS.items()
        for session in LENGTHS
    }

    long = {name: rows[name, LONG] for name in DELETIONS}
    assert {name: count for name, count in long.items() if count > ROWS} == {}
    assert {name: count for name, count in long.items() if count > 2 * rows[name, SHORT] + 100} == {}


MESSAGES = """
    SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'messages'
"""

MAX_MESSAGES = 450
"""Rows that the deletion reads; some are read several times."""


@pytest.mark.slow
@pytest.mark.skipif("ASH_DIRECT_URL" in os.environ, reason="a pooler changes connections")
@not_on_cluster("rows are counted on one server")
async def test_derives_few_messages_if_events_depend_on_one(meter: Meter) -> None:
    """The turn ends with the usage of the answer."""
    before = await messages_read(meter.conn)

    await delete_message(meter.conn, LONG, LENGTHS[LONG] // 2 * 5 + 24)

    assert await messages_read(meter.conn) - before < MAX_MESSAGES


async def messages_read(conn: AsyncConnection) -> int:
    await conn.execute("SELECT pg_stat_force_next_flush()")
    row = await (await conn.execute(MESSAGES)).fetchone()
    assert row is not None
    return int(row[0])


STATES = """
    SELECT message_sequence, event_sequence, state, totals, facts FROM kept_states WHERE session_id = %s ORDER BY 1
"""

COUNTERS = "SELECT kept_sequence, kept_facts FROM session_counters WHERE session_id = %s"

IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}")


async def test_large_append_keeps_the_states_of_small_ones(connection: AsyncConnection) -> None:
    """Ids and digests contain the session."""
    kept = []
    for sizes in ([1030], [100] * 10 + [30]):
        session = (await create_session(connection)).session.id
        lines = iter([json.dumps(record) for number in range(206) for record in turn(number)])
        for size in sizes:
            await append(
                connection, session, [prepare_message(session, next(lines)) for _ in range(size)], now=1
            )
        rows = await (await connection.execute(STATES, [session])).fetchall()
        counters = await (await connection.execute(COUNTERS, [session])).fetchall()
        kept.append([IDS.sub("id", repr(row)) for row in [*rows, *counters]])

    large, small = kept
    assert large[:9] == small[:9]
    assert [len(large), len(small)] == [11, 11]
