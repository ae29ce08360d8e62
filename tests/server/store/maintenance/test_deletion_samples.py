"""After deletions at any place, a session equals one that never stored the messages."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

import ash_server
from ash_server import Store
from ash_server.store.connections.pool import connect
from ash_server.store.log import rebuild
from tests.server.store.maintenance.test_deletion import content_of, index, stored_log

SAMPLES = {
    path.stem: path.read_text().splitlines()
    for path in sorted(Path(ash_server.__file__).with_name("samples").glob("*.jsonl"))
}

TABLES = {
    "usage": "SELECT model, turn, folder, branch, input_tokens, output_tokens, reported_cost FROM answers",
    "sums": "SELECT quarter, model, answers, input_tokens, output_tokens, reported_cost FROM usage_rollups",
    "facts": "SELECT turn, tool, skill, action, path, added, removed, outcome FROM tool_calls",
    "words": "SELECT weight, readers, role, part, words::text FROM search",
    "drift": "SELECT reason, raw_type, count FROM drift",
    "counters": "SELECT errors, unrecognised, prompts, turns, active_ms, tool_calls, tool_failures, files_changed, "
    "lines_added, lines_removed FROM session_counters",
    "session": "SELECT source, first_at, last_at, title, first_prompt, client_version, agent_id, project, folder, "
    "branch, git_commit, stated_cost FROM sessions",
}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with Store.open(database_url) as store:
        yield store


@pytest.fixture
async def tables(database_url: str) -> AsyncIterator[AsyncConnection]:
    async with await connect(database_url) as conn:
        yield conn


async def stored(store: Store, tables: AsyncConnection, session: UUID) -> dict[str, Any]:
    await index(store)
    rows: dict[str, Any] = {"events": content_of(await stored_log(store, session))}
    for name, query in TABLES.items():
        key = "id" if name == "session" else "session_id"
        cursor = await tables.execute(f"{query} WHERE {key} = %s", [session])  # constants
        rows[name] = sorted(map(repr, await cursor.fetchall()))
    rows["items"] = await store.conversation.count_items(session)
    return rows


@pytest.mark.parametrize("max_locked", [0, 1000], ids=["unlocked", "locked"])
@pytest.mark.parametrize("name", SAMPLES)
async def test_equals_a_session_without_the_messages(
    store: Store,
    tables: AsyncConnection,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    max_locked: int,
) -> None:
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", max_locked)
    random = Random(f"{name}{max_locked}")
    lines = SAMPLES[name]
    session = await new_session(store, lines)
    deleted = set[int]()
    for _ in range(3):
        if random.random() < 0.3:
            popped = await store.messages.pop(session)
            assert popped is not None
            deleted.add(popped.sequence)
        else:
            sequence = random.randint(1, len(lines))
            await store.messages.delete(session, sequence)
            deleted.add(sequence)
    rest = [line for sequence, line in enumerate(lines, 1) if sequence not in deleted]
    other = await new_session(store, rest)

    assert await stored(store, tables, session) == await stored(store, tables, other), sorted(deleted)


async def new_session(store: Store, lines: Sequence[str]) -> UUID:
    session = (await store.sessions.create()).id
    for line in lines:
        await store.messages.append(session, [line])
    return session
