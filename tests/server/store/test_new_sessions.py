"""Creating sessions with their messages at once stores the same rows as one session and one append after the other."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from psycopg import AsyncConnection

from ash_server import NewMessage, Store
from ash_server.store.bulk.new_sessions import MAX_MESSAGES, FilledSession
from ash_server.store.log import writer
from ash_server.store.schema.tables import metadata
from tests.cluster import not_on_cluster
from tests.shared.fuzz import samples
from tests.shared.records import claude

pytestmark = not_on_cluster("sessions are created one by one on a cluster")

NOW = 1_790_000_000_000
TIMES = {"created_at", "updated_at", "seen_at"}

Rows = dict[str, list[dict[str, Any]]]


def to_messages(texts: Sequence[str]) -> list[NewMessage]:
    return [NewMessage(text, id=f"m{number}") for number, text in enumerate(texts)]


def contents() -> Mapping[str, list[NewMessage]]:
    """Return the messages of sessions: of each format, and with calls, results, usage and blocks of unknown types."""
    call = claude.call("t1", file_path="/f")
    texts: dict[str, list[str]] = {
        f"{name} {start}": lines[start : start + MAX_MESSAGES]
        for name, lines in samples().items()
        for start in range(0, len(lines), MAX_MESSAGES)
    }
    texts["claude turn"] = [
        json.dumps(claude.user("Go")),
        json.dumps(claude.assistant(call, {"type": "odd"})),
        json.dumps(claude.user([claude.tool_result("t1", "fine")])),
    ]
    storable = {name: [line for line in lines if "\0" not in line] for name, lines in texts.items()}
    return {name: to_messages(lines) for name, lines in storable.items()}


async def rows_of_sessions(conn: AsyncConnection) -> Rows:
    """Return the rows of the tables of sessions, without the times of the writes."""
    rows: Rows = {}
    for name, table in metadata.tables.items():
        if "session_id" in table.c or name == "sessions":
            cursor = await conn.execute(f"SELECT to_json(row) FROM {name} AS row")  # a constant
            found = [
                {key: value for key, value in row.items() if key not in TIMES}
                for (row,) in await cursor.fetchall()
            ]
            rows[name] = sorted(found, key=json.dumps)
    return rows


@pytest.mark.slow
async def test_stores_the_same_rows_as_single_appends(
    store: Store, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "milliseconds", lambda: NOW)
    monkeypatch.setattr("ash_server.store.messages.milliseconds", lambda: NOW)
    monkeypatch.setattr("ash_server.store.bulk.new_sessions.milliseconds", lambda: NOW)
    sessions = contents()

    created = await store.bulk.create_sessions("x", [FilledSession(*each) for each in sessions.items()])
    at_once = await rows_of_sessions(connection)
    for id in created.values():
        await store.sessions.delete(id)
    for name in created:
        session = await store.sessions.create(source="x", external_id=name)
        await store.messages.append(session.id, sessions[name])

    assert len(created) > 50
    assert await rows_of_sessions(connection) == at_once


async def test_leaves_stored_sessions_as_they_are(store: Store) -> None:
    stored = await store.sessions.create(source="x", external_id="a", title="Mine")

    created = await store.bulk.create_sessions(
        "x", [FilledSession(name, to_messages([f"{name} 1", f"{name} 2"])) for name in ("b", "a")]
    )

    assert [*created] == ["b"]
    assert await store.messages.list_messages(stored.id) == []
    assert [each.content for each in await store.messages.list_messages(created["b"])] == ["b 1", "b 2"]


async def test_one_of_several_writers_creates_each_session(store: Store) -> None:
    names = [f"s{number}" for number in range(40)]
    orders = (names, names[::-1], names[20:] + names[:20])

    async def create(order: Sequence[str]) -> dict[str, Any]:
        return await store.bulk.create_sessions(
            "x", [FilledSession(each, to_messages([each])) for each in order]
        )

    results = await asyncio.gather(*map(create, orders))

    assert sorted(name for created in results for name in created) == sorted(names)
    for id in (id for created in results for id in created.values()):
        assert len(await store.messages.list_messages(id)) == 1
