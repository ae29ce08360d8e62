"""Appends to sessions that the process knows: the same rows as with the lock, also after changes by others."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from ash_server import NewMessage, Store
from ash_server.errors import SequenceMismatch, SessionNotFound
from ash_server.store import messages as appends
from ash_server.store.appending import known_sessions, one_statement
from ash_server.store.appending.known_sessions import KnownSession, KnownSessions, Revision
from ash_server.store.connections.tenants import DEFAULT
from ash_server.store.log.writer import Counters
from tests.cluster import not_on_cluster
from tests.marking import slow_after
from tests.server.api.conftest import create_key
from tests.shared.records import claude
from tests.shared.records.events import wire_event

pytestmark = not_on_cluster("no session is known")

SAMPLES = {
    path.stem: path.read_text().splitlines()[:150]
    for path in sorted((Path(__file__).parents[4] / "ash_server/samples").glob("*.jsonl"))
}

TABLES = (
    *("sessions", "session_counters", "messages", "events", "open_texts", "kept_states", "answers"),
    *("usage_rollups", "tool_calls", "drift"),
)

NOTICE = wire_event("system_note", kind="hint", text="wait")

NOW = 1_800_000_000_000


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How appends to known sessions have ended: with one statement, or with an error that repeats them."""
    found: list[str] = []

    async def recorded(*args: Any) -> Any:
        try:
            result = await one_statement.append_to_known(*args)
        except (one_statement.NeedsLockError, one_statement.SessionChangedError) as error:
            found.append(type(error).__name__)
            raise
        found.append("stored")
        return result

    monkeypatch.setattr(appends, "append_to_known", recorded)
    return found


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Store]:
    """Another process."""
    async with Store.open(database_url) as other:
        yield other


def prompt(text: str = "go on") -> NewMessage:
    return NewMessage(json.dumps(claude.user(text)), id=str(uuid4()))


async def read_rows(conn: AsyncConnection, session_id: UUID) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a session, without the times of their storage."""
    rows = {}
    for table in TABLES:
        column = "id" if table == "sessions" else "session_id"
        async with conn.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(f"SELECT * FROM {table} WHERE {column} = %s ORDER BY {table}", [session_id])
            rows[table] = [
                {name: value for name, value in row.items() if name not in ("created_at", "updated_at")}
                for row in await cursor.fetchall()
            ]
    return rows


@pytest.mark.parametrize("name", slow_after(2, SAMPLES))
async def test_known_sessions_get_the_same_rows(
    store: Store, connection: AsyncConnection, outcomes: list[str], name: str
) -> None:
    lines = SAMPLES[name]
    rows = []
    for is_known in (True, False):
        session_id = (await store.sessions.create(source="claude", external_id="one")).id
        for number, line in enumerate(lines):
            new = [NewMessage(line, id=f"line-{number}")]
            metadata = {"number": number} if number % 3 else None
            prepared = await store.messages.prepare(session_id, new)
            if is_known:
                await store.messages.append_prepared(session_id, prepared, now=NOW, metadata=metadata)
            else:
                await appends.append(connection, session_id, prepared, now=NOW, metadata=metadata)
        rows.append(await read_rows(connection, session_id))
        await store.sessions.delete(session_id)

    assert rows[0] == rows[1]
    assert set(outcomes) == {"NeedsLockError", "stored"}
    assert outcomes.count("NeedsLockError") < 4


async def test_times_are_compared_with_the_clock(
    store: Store, connection: AsyncConnection, session_id: UUID, outcomes: list[str]
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    blocks = claude.text("fine"), claude.call("call-1", file_path="a.py")
    answer = claude.assistant(*blocks, timestamp=at.isoformat())
    answer["message"]["usage"] = {"input_tokens": 1, "output_tokens": 1}

    await store.messages.append(session_id, [prompt()])
    await store.messages.append(session_id, [json.dumps(answer)], now=0)

    rows = await read_rows(connection, session_id)
    assert [row["at"] for table in ("answers", "tool_calls") for row in rows[table]] == [at, at]
    assert outcomes == ["stored"]


Change = Callable[[Store, UUID], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "an append": lambda store, id: store.messages.append(id, [prompt("other")]),
    "an event": lambda store, id: store.events.append(id, NOTICE),
    "the end": lambda store, id: store.events.end(id),
    "a title": lambda store, id: store.sessions.update(id, title="New"),
    "a deletion": lambda store, id: store.messages.delete(id, 1),
    "a rebuild": lambda store, id: store.messages.reindex(id),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_changes_of_others_are_noticed(
    store: Store, other: Store, session_id: UUID, outcomes: list[str], change: str
) -> None:
    await store.messages.append(session_id, [prompt()])
    await store.messages.append(session_id, [prompt()])
    await CHANGES[change](other, session_id)
    before = await other.messages.list_messages(session_id)
    await store.messages.append(session_id, [prompt()])

    after = await other.messages.list_messages(session_id)
    events = await other.events.get_events(session_id)
    assert outcomes == ["stored", "SessionChangedError"]
    assert [row.sequence for row in after] == [*(row.sequence for row in before), before[-1].sequence + 1]
    sequences = [event.sequence or 0 for event in events]
    assert sequences == list(range(sequences[0], sequences[-1] + 1))


async def test_a_known_id_is_stored_once(store: Store, session_id: UUID, outcomes: list[str]) -> None:
    first = prompt()
    await store.messages.append(session_id, [first])
    await store.messages.append(session_id, [prompt()])
    ((_, sequence, created, _),) = await store.messages.append(session_id, [first])

    assert (sequence, created, outcomes) == (1, False, ["stored", "SessionChangedError"])


async def test_an_expected_sequence_is_compared_with_the_store(
    store: Store, other: Store, session_id: UUID, outcomes: list[str]
) -> None:
    await store.messages.append(session_id, [prompt()])
    await other.messages.append(session_id, [prompt()])

    with pytest.raises(SequenceMismatch):
        await store.messages.append(session_id, [prompt()], expected_sequence=1)
    ((_, sequence, *_),) = await store.messages.append(session_id, [prompt()], expected_sequence=2)

    assert (sequence, outcomes) == (3, ["SessionChangedError"])


async def test_a_deleted_session_is_noticed(store: Store, other: Store) -> None:
    session_id = (await store.sessions.create(source="claude", external_id="one")).id
    await store.messages.append(session_id, [prompt()])
    await other.sessions.delete(session_id)

    with pytest.raises(SessionNotFound):
        await store.messages.append(session_id, [prompt()])

    await other.sessions.create(source="claude", external_id="one")
    ((_, sequence, *_),) = await store.messages.append(session_id, [prompt()])
    assert sequence == 1


@pytest.mark.slow
async def test_two_processes_append_to_one_session(
    store: Store, other: Store, session_id: UUID, outcomes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_sessions, "_PAUSE_SECONDS", 0)

    async def write(each: Store) -> None:
        for _ in range(25):
            await each.messages.append(session_id, [prompt()])

    await asyncio.gather(write(store), write(other))
    written = await store.messages.list_messages(session_id)

    events = await store.events.get_events(session_id, limit=500)
    assert [row.sequence for row in written] == list(range(1, 51))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert len({event.message_sequence for event in events}) == 50
    assert {"stored", "SessionChangedError"} <= set(outcomes)


def known(text: str = "") -> KnownSession:
    counters = Counters(1, 1, text, 1, False, "", 1, 0, "")
    return KnownSession(Revision("7", datetime(2026, 1, 1, tzinfo=UTC)), counters, None, None)


def test_sessions_are_known_up_to_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_sessions, "_MAX_SESSIONS", 2)
    sessions, keys = KnownSessions(), [(DEFAULT.number, UUID(int=number)) for number in range(5)]
    for key in keys[:3]:
        sessions.add(key, known())
    sessions.add(keys[3], known("a" * (known_sessions._MAX_CHARACTERS + 1)))
    sessions.pause(keys[4])
    sessions.add(keys[4], known())

    assert [sessions.take(key) is not None for key in keys] == [False, True, True, False, False]
    assert sessions.take(keys[1]) is None
    assert known().with_answers(map(str, range(30))).answers == tuple(map(str, range(10, 30)))


async def test_the_limit_is_for_the_sessions_of_all_tenants(
    store: Store, outcomes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_sessions, "_MAX_SESSIONS", 2)
    ids = {}
    for name in ("red", "green", "blue"):
        await create_key(store, "all", name, "read", "write")
        tenant = store.for_tenant(await store.get_tenant(name))
        ids[tenant] = (await tenant.sessions.create()).id
        await tenant.messages.append(ids[tenant], [prompt()])

    for tenant in reversed(ids):
        await tenant.messages.append(ids[tenant], [prompt()])
    assert outcomes == ["stored", "stored"]


async def test_other_tenants_change_nothing(store: Store, session_id: UUID, outcomes: list[str]) -> None:
    await create_key(store, "all", "red", "read", "write")
    red = store.for_tenant(await store.get_tenant("red"))

    await store.messages.append(session_id, [prompt()])
    with pytest.raises(SessionNotFound):
        await red.messages.append(session_id, [prompt()])
    await store.messages.append(session_id, [prompt()])
    assert outcomes == ["stored"]
