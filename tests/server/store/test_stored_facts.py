"""The tool calls and counts of sessions in the tables."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg import AsyncConnection

from ash_server import Store
from ash_server.store.connections.pool import one_transaction
from ash_server.store.log import writer
from ash_server.store.log.tool_calls import MAX_TOOL, NewFacts, write_facts
from ash_server.store.log.writer import milliseconds
from ash_shared.eventlog.facts.lines import LineFacts
from ash_shared.eventlog.facts.tool_uses import MAX_PATH, ToolOutcome, ToolUse, UsedFile
from tests.marking import slow_after
from tests.shared.records import claude
from tests.shared.sample_files import sample_folders, spread

SAMPLES = sorted((Path(__file__).parents[3] / "ash_server" / "samples").glob("*.jsonl"))
MAX_BYTES = 300_000
"""Larger files of the corpus take too long one line at a time."""
MAX_LINES = 60


def corpus() -> dict[str, list[Path]]:
    paths = [path for folder in sample_folders() for path in sorted(folder.rglob("*.jsonl"))]
    small = [path for path in paths if path.stat().st_size <= MAX_BYTES]
    folders = {path.parent.name for path in small}
    return {folder: spread([path for path in small if path.parent.name == folder]) for folder in folders}


CORPUS = corpus()

# A rebuild estimates the time of records without a time to the millisecond only.
CALLS = """
    SELECT session_id, key, number, message_sequence, date_trunc('minute', at)::text, turn, tool, mcp_server, skill,
        action, path, added, removed, outcome
    FROM tool_calls
"""
COUNTERS = """
    SELECT session_id, prompts, turns, active_ms, tool_calls, tool_failures, files_changed, lines_added, lines_removed
    FROM session_counters
"""
COUNTED = """
    SELECT session_id, count(*) FILTER (WHERE number = 0),
        count(*) FILTER (WHERE number = 0 AND outcome IN ('failed', 'denied')),
        count(DISTINCT path) FILTER (WHERE path <> '' AND has_changed),
        coalesce(sum(added) FILTER (WHERE path <> '' AND has_changed), 0),
        coalesce(sum(removed) FILTER (WHERE path <> '' AND has_changed), 0)
    FROM session_counters LEFT JOIN (
        SELECT *, action NOT IN ('', 'read', 'shell') AND outcome = 'ok' AS has_changed
        FROM tool_calls
    ) AS calls USING (session_id)
    GROUP BY session_id
"""

Rows = dict[str, list[tuple[Any, ...]]]


async def read_rows(connection: AsyncConnection) -> Rows:
    queries = {"calls": CALLS, "counters": COUNTERS}
    return {
        name: sorted(await (await connection.execute(query)).fetchall(), key=str)
        for name, query in queries.items()
    }


async def rebuilt_rows(store: Store, connection: AsyncConnection) -> Rows:
    for session_id in [id async for id in store.sessions.list_ids()]:
        await store.events.rebuild(session_id)
    return await read_rows(connection)


async def check_counters(connection: AsyncConnection) -> None:
    """Compare the counters with the rows that they count."""
    counted = sorted(await (await connection.execute(COUNTED)).fetchall())
    rows = await (await connection.execute(COUNTERS)).fetchall()

    assert sorted((row[0], *row[4:]) for row in rows) == counted


def at(second: int) -> str:
    return f"2026-11-02T09:{second // 60:02}:{second % 60:02}Z"


def called(id: str, name: str, time: int, **arguments: Any) -> claude.Record:
    return claude.assistant(claude.call(id, name, **arguments), id=f"c{time}", timestamp=at(time), cwd="/app")


def returned(id: str, time: int, content: Any = "fine", **more: Any) -> claude.Record:
    fields = {name: more.pop(name) for name in ("is_error",) if name in more}
    return claude.user([claude.tool_result(id, content, **fields)], timestamp=at(time), **more)


def patched(path: str, *lines: str) -> claude.Record:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": list(lines)}
    return {"filePath": path, "structuredPatch": [hunk]}


CONVERSATION = [
    claude.user("Go", timestamp=at(0)),
    called("c1", "Read", 1, file_path="a.py"),
    returned("c1", 2),
    called("c2", "Edit", 3, file_path="/app/a.py", old_string="a", new_string="b"),
    returned("c2", 5, toolUseResult=patched("/app/a.py", "-a", "+b", "-a", "+b", " c")),
    called("c3", "Write", 6, file_path="./b.py", content="1\n2\n"),
    returned("c3", 7, "The user doesn't want to proceed with this tool use.", is_error=True),
    called("c4", "Write", 8, file_path="/app/b.py", content="1\n2\n"),
    returned("c4", 9),
    called("c5", "Edit", 10, file_path="/app/a.py", old_string="x", new_string=""),
    returned("c5", 11, "String to replace not found", is_error=True),
    called("c6", "mcp__birds__count", 12, place="hide"),
    called("c7", "Skill", 13, skill="tides"),
    called("c8", "AskUserQuestion", 14, questions=[]),
    returned("c8", 50),
    called("c4", "Write", 51, file_path="/app/c.py", content="3\n"),
    claude.assistant(claude.text("Done"), id="m60", timestamp=at(52)),
    claude.user("More", timestamp=at(120)),
    called("c9", "Bash", 121, command="rm b.py"),
    returned("c9", 122),
    returned("c9", 123, "late", is_error=True),
]
LINES = [json.dumps(record) for record in CONVERSATION]


async def test_facts_of_a_conversation(store: Store, connection: AsyncConnection) -> None:
    session_id = (await store.sessions.create(source="claude")).id
    for line in LINES:
        await store.messages.append(session_id, [line])
    columns = "turn, tool, mcp_server, skill, action, path, added, removed, outcome"
    query = f"SELECT message_sequence, {columns} FROM tool_calls ORDER BY message_sequence"
    rows = await (await connection.execute(query)).fetchall()
    session = await store.sessions.get(session_id)

    assert rows == [
        (2, 1, "Read", "", "", "read", "/app/a.py", None, None, "ok"),
        (4, 1, "Edit", "", "", "edit", "/app/a.py", 2, 2, "ok"),
        (6, 1, "Write", "", "", "write", "/app/b.py", 2, None, "denied"),
        (8, 1, "Write", "", "", "write", "/app/c.py", 1, None, "ok"),
        (10, 1, "Edit", "", "", "edit", "/app/a.py", 1, 1, "failed"),
        (12, 1, "mcp__birds__count", "birds", "", "", "", None, None, ""),
        (13, 1, "Skill", "", "tides", "", "", None, None, ""),
        (14, 1, "AskUserQuestion", "", "", "", "", None, None, "ok"),
        (19, 2, "Bash", "", "", "shell", "", None, None, "failed"),
    ]
    facts = session.model_dump(include={"folder", "cause", "duration_ms", "active_ms", "prompt_count"})
    counts = session.model_dump(
        include={"turn_count", "tool_call_count", "tool_failure_count", "files_changed"}
        | {"lines_added", "lines_removed"}
    )
    assert facts == {
        "folder": "/app",
        "cause": "person",
        "durationMs": 123_000,
        "activeMs": 14_000 - 1_000 + 2_000 + 3_000,
        "promptCount": 2,
    }
    assert counts == {
        "turnCount": 2,
        "toolCallCount": 9,
        "toolFailureCount": 3,
        "filesChanged": 2,
        "linesAdded": 3,
        "linesRemoved": 2,
    }


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS, reason="no ../shared/corpus next to the repository")
@pytest.mark.parametrize("folder", sorted(CORPUS))
async def test_facts_do_not_depend_on_how_messages_come(
    folder: str, store: Store, connection: AsyncConnection
) -> None:
    """One line at a time, in random batches, and by a rebuild."""
    choose = random.Random(folder)
    compared = []
    for path in CORPUS[folder]:
        lines = [line for line in path.read_text().splitlines() if "\0" not in line][:MAX_LINES]
        single, batched = [(await store.sessions.create()).id for _ in range(2)]
        for line in lines:
            await store.messages.append(single, [line])
        while lines:
            size = choose.randrange(1, 40)
            await store.messages.append(batched, lines[:size])
            lines = lines[size:]
        compared.append((path.name, single, batched))
    written = await read_rows(connection)
    by_session: dict[UUID, list[Any]] = {}
    for session, _key, *call in written["calls"]:  # the key of a call without an id depends on the session
        by_session.setdefault(session, []).append(call)
    for session, *counters in written["counters"]:
        by_session.setdefault(session, []).append(counters)
    differ = [
        name
        for name, single, batched in compared
        if sorted(by_session[single], key=str) != sorted(by_session[batched], key=str)
    ]

    assert differ == []
    await check_counters(connection)
    assert written == await rebuilt_rows(store, connection)


# --- Values


async def write(store: Store, session_id: UUID, lines: Sequence[LineFacts]) -> None:
    facts = NewFacts()
    for sequence, line in enumerate(lines, 1):
        facts.add(line, sequence)
    async with store._connections.connection() as conn, one_transaction(conn):
        await conn.execute(writer.SQL.lock_counters, [session_id])
        await write_facts(conn, session_id, facts, milliseconds())


def any_fact(choose: random.Random) -> ToolUse | ToolOutcome:
    key = f"{choose.randrange(6):016x}"
    actions = ("read", "edit", "write", "delete", "move")
    files = tuple(
        UsedFile(
            choose.choice(actions),  # type: ignore[arg-type]
            choose.choice(["", "/a", "/b", "/c"]),
            choose.choice([None, 1, 10]),
            choose.choice([None, 2]),
        )
        for _ in range(choose.randrange(4))
    )
    if choose.random() < 0.5:
        return ToolOutcome(key, choose.choice(["ok", "failed", "denied"]), files)
    return ToolUse(key, choose.choice(["Edit", "Bash"]), choose.choice([None, 10**12]), files=files)


@pytest.mark.parametrize("seed", slow_after(3, range(10)))
async def test_order_of_calls_and_results_does_not_depend_on_batches(
    seed: int, store: Store, connection: AsyncConnection
) -> None:
    choose = random.Random(seed)
    lines = [LineFacts((any_fact(choose),)) for _ in range(60)]
    single, batched = [(await store.sessions.create()).id for _ in range(2)]
    for line in lines:
        await write(store, single, [line])
    while lines:
        size = choose.randrange(1, 20)
        await write(store, batched, lines[:size])
        lines = lines[size:]
    columns = "key, number, turn, tool, action, path, added, removed, outcome, at::text"
    query = f"SELECT {columns} FROM tool_calls WHERE session_id = %s ORDER BY key, number"
    rows = [await (await connection.execute(query, [id])).fetchall() for id in (single, batched)]

    assert rows[0] == rows[1] != []
    await check_counters(connection)


@pytest.mark.slow
async def test_values_of_any_record_are_stored(
    store: Store, session_id: UUID, connection: AsyncConnection
) -> None:
    """Names are cut, and times after tomorrow are unknown."""
    future = milliseconds() + 25 * 60 * 60 * 1000
    file = UsedFile("edit", "/\0\ud800" + "é" * (MAX_PATH - 2), 2**31 - 1, 2**31 - 1)
    uses = [
        ToolUse(f"{number:016x}", "\0\ud800" + "é" * 10_000, future, skill="😀" * 10_000, files=(file,) * 3)
        for number in range(1100)
    ]
    await write(store, session_id, [LineFacts(tuple(uses))])
    query = "SELECT DISTINCT at::text, length(tool), length(skill), length(path) FROM tool_calls"
    rows = await (await connection.execute(query)).fetchall()

    assert rows == [("-infinity", MAX_TOOL, MAX_TOOL, MAX_PATH)]
    await check_counters(connection)
