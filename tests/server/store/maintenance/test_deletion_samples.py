"""After deletions at any place, a session equals one that never stored the messages."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from psycopg import AsyncConnection

import ash_server
from ash_server import Store
from ash_server.store.connections.pool import connect
from ash_server.store.log import kept_states, rebuild
from tests.marking import slow_after
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


class Way(NamedTuple):
    max_locked: int = 0
    interval: int = 100
    is_earlier: bool = False
    """True if an earlier version has stored the session, without states."""


WAYS = {
    "unlocked": Way(),
    "locked": Way(max_locked=1000),
    "kept states": Way(interval=3),
    "earlier version": Way(interval=3, is_earlier=True),
}

# Each sample with one way that differs in locks, and one that differs in states.
CASES = [
    (name, way)
    for number, name in enumerate(SAMPLES)
    for way in (("unlocked", "kept states"), ("locked", "earlier version"))[number % 2]
]

NO_STATES = """
    DELETE FROM kept_states;
    UPDATE session_counters SET kept_sequence = -1, kept_facts = ''
"""


@pytest.mark.parametrize("case", slow_after(4, CASES), ids="-".join)
async def test_equals_a_session_without_the_messages(
    store: Store, tables: AsyncConnection, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str]
) -> None:
    name, way = case
    max_locked, interval, is_earlier = WAYS[way]
    monkeypatch.setattr(rebuild, "_MAX_LOCKED", max_locked)
    monkeypatch.setattr(kept_states, "INTERVAL", interval)
    random = Random(f"{name}{way}")
    lines = SAMPLES[name]
    count = len(lines) - 5
    session = await new_session(store, lines[:count])
    if is_earlier:
        await tables.execute(NO_STATES)
    deleted = set[int]()
    for _ in range(3):
        if random.random() < 0.3:
            popped = await store.messages.pop(session)
            assert popped is not None
            deleted.add(popped.sequence)
        else:
            sequence = random.randint(1, count)
            await store.messages.delete(session, sequence)
            deleted.add(sequence)
    for line in lines[count:]:
        await store.messages.append(session, [line])
    rest = [line for sequence, line in enumerate(lines, 1) if sequence not in deleted]
    other = await new_session(store, rest)

    assert await stored(store, tables, session) == await stored(store, tables, other), sorted(deleted)


async def new_session(store: Store, lines: Sequence[str]) -> UUID:
    session = (await store.sessions.create()).id
    for line in lines:
        await store.messages.append(session, [line])
    return session
