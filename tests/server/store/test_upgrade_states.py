"""Sessions that are being written during an upgrade continue after it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.errors import AdminShutdown

from ash_server import Store
from ash_server.store.maintenance.backup import restore_backup, write_backup
from ash_server.store.schema.migrations import REVISION, upgrade
from tests.alembic_commands import alembic
from tests.cluster import not_on_cluster
from tests.marking import slow_unless
from tests.server.store.test_upgrade import load_store
from tests.waiting import wait_until

pytestmark = not_on_cluster("distributed tables are not downgraded")

OPEN = Path(__file__).parent / "upgrade" / "open_0023.sql"
"""Sessions in the middle of a turn, stored by the version with schema 0023."""

REST: dict[str, list[str]] = json.loads(OPEN.with_suffix(".json").read_text())
"""The next lines of these sessions, by external id."""

USER_DATA = {"said": "told", "a\0b": "\\u0000", 'C:\\u0000 "<0>"': ["<1>", "\0\\", "é\n", 1e300], "lane": {}}
"""Names and values that the migration must not change."""

OLD: dict[str, Any] = json.loads(OPEN.with_name("state_0023.json").read_text())
MIGRATED: dict[str, Any] = json.loads(OPEN.with_name("state_0024.json").read_text())
"""A state with all fields of its time, before and after the migration."""


def with_user_data(state: dict[str, Any], arguments: str, results: str) -> dict[str, Any]:
    """Add a response and a call with the user's names and contents."""
    slot = {**state["slots"][0], arguments: USER_DATA}
    return {
        **state,
        "responses": {**state["responses"], **{name: {} for name in USER_DATA}},
        "slots": [slot, *state["slots"]],
        results: {"c": USER_DATA},
    }


STATES = {
    "all fields": (OLD, MIGRATED),
    "data of users": (
        with_user_data(OLD, "given", "results"),
        with_user_data(MIGRATED, "arguments", "pending_results"),
    ),
    "another shape": (
        {"turn": None, "responses": [1], "slots": {}, "held": 1, "streamed": "", "lag": []},
        {"turn": None, "responses": [1], "slots": {}, "held_copies": 1, "last_streamed": "", "clock_lag": []},
    ),
    "no old name": ({"turn": {"id": "t"}, "turns": 1}, {"turn": {"id": "t"}, "turns": 1}),
}


def write_states(url: str, states: list[str | None]) -> None:
    with psycopg.connect(url) as conn:
        for number, state in enumerate(states):
            id = UUID(int=number + 1)
            conn.execute("INSERT INTO sessions (id, source) VALUES (%s, 'unknown')", [id])
            conn.execute(
                "INSERT INTO session_counters (session_id, normalizer_state) VALUES (%s, %s)", [id, state]
            )


def read_states(url: str) -> list[str | None]:
    with psycopg.connect(url) as conn:
        query = "SELECT normalizer_state FROM session_counters ORDER BY session_id"
        return [state for (state,) in conn.execute(query)]


def decoded(states: list[str | None]) -> list[Any]:
    return [state and json.loads(state) for state in states]


@pytest.mark.slow
def test_fields_of_states_are_renamed(bare_database_url: str) -> None:
    url = bare_database_url
    before, after = map(list, zip(*STATES.values(), strict=True))
    upgrade(url, "0023")
    write_states(url, [json.dumps(state, ensure_ascii=False) for state in before])
    upgrade(url)
    upgraded = read_states(url)
    alembic(url, "downgrade", "0023")

    assert decoded(upgraded) == after
    assert decoded(read_states(url)) == before


def test_states_that_are_not_json_stay(bare_database_url: str) -> None:
    states = [None, '{"told": ', '"told":', '{"told":"\\ud800"}']
    upgrade(bare_database_url, "0023")
    write_states(bare_database_url, states)
    upgrade(bare_database_url)

    assert read_states(bare_database_url)[:3] == states[:3]


@pytest.mark.parametrize(
    "is_restored", slow_unless(False.__eq__, [False, True]), ids=["upgraded", "restored from a backup"]
)
async def test_open_sessions_continue(
    bare_database_url: str, database_url: str, tmp_path: Path, is_restored: bool
) -> None:
    """The next lines have the same events as in sessions that this version stored from their first line."""
    load_store(bare_database_url, OPEN)
    async with Store.open(database_url) as store:
        await copy_sessions(bare_database_url, store)
        expected = await continue_sessions(store)
    if is_restored:
        move_through_backup(bare_database_url, tmp_path / "backup.zip")
    upgrade(bare_database_url)
    async with Store.open(bare_database_url) as store:
        continued = await continue_sessions(store)

    assert continued == expected
    assert all(expected.values())


async def copy_sessions(url: str, store: Store) -> None:
    """Append the messages of a store of any schema to a new store, one by one."""
    with psycopg.connect(url) as conn:
        rows = conn.execute(
            "SELECT external_id, content FROM messages JOIN sessions ON sessions.id = session_id "
            "ORDER BY session_id, sequence"
        ).fetchall()
    for name in REST:
        session = await store.sessions.create(external_id=name)
        for _, content in filter(lambda row: row[0] == name, rows):
            await store.messages.append(session.id, [content])


async def continue_sessions(store: Store) -> dict[str, list[Any]]:
    """Append the rest of each session; return the events of all its lines.

    Without their times, and their record ids: since version 8, parts of a message have the id of the message.
    """
    events = {}
    for name, lines in REST.items():
        session = await store.sessions.create(external_id=name)
        for line in lines:
            await store.messages.append(session.id, [line])
        await store.events.end(session.id)
        stored = [json.loads(each.wire()) async for each in store.events.stream_stored_events(session.id)]
        events[name] = [{**event, "timestamp": None, "recordId": None} for event in stored]
    return events


def move_through_backup(url: str, path: Path) -> None:
    """Write a backup of a database, delete everything, and restore it."""
    with psycopg.connect(url, autocommit=True) as conn:
        with path.open("wb") as file:
            write_backup(conn, file)
        conn.execute(
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC"
        )
    restore_backup(url, path)


def test_interrupted_upgrade_can_be_repeated(bare_database_url: str) -> None:
    url = bare_database_url
    upgrade(url, "0023")
    write_states(url, [json.dumps(OLD)])
    with psycopg.connect(url) as holder, ThreadPoolExecutor() as threads:
        holder.execute("LOCK TABLE audit IN SHARE UPDATE EXCLUSIVE MODE")  # the last table of the migration
        interrupted = threads.submit(upgrade, url)
        wait_until(lambda: terminate_waiting(url))
        with pytest.raises(AdminShutdown):
            interrupted.result()
    between = read_revision(url), decoded(read_states(url))
    upgrade(url)

    assert between == ("0023", [OLD])
    assert (read_revision(url), decoded(read_states(url))) == (REVISION, [MIGRATED])


def terminate_waiting(url: str) -> bool:
    """End the connection of this database that waits for a lock on `audit`; return True if there is one."""
    with psycopg.connect(url) as conn:
        ended = conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'audit'::regclass AND NOT granted"
        )
        return bool(ended.fetchall())


def read_revision(url: str) -> str:
    with psycopg.connect(url) as conn:
        ((revision,),) = conn.execute("SELECT version_num FROM alembic_version").fetchall()
        return str(revision)
