"""The statements and round trips of an append: each takes a tenth of the time of a small one, or more."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import AsyncCursor

from ash_server import Store
from ash_server.store.appending.known_sessions import KnownSessions
from ash_server.store.connections.driver import execute_numbered
from ash_server.store.log import tool_calls
from ash_server.store.messages import append, append_and_know
from ash_server.store.prepare import prepare_message
from ash_server.store.statements import NumberedSql
from ash_shared.eventlog.facts.lines import LineFacts
from ash_shared.eventlog.facts.tool_uses import ToolUse, UsedFile
from tests.cluster import not_on_cluster
from tests.shared.records import claude

CALL = claude.assistant(claude.call("t", file_path="/a"))

LOCK, INSERT, UPDATE = ["lock", "stored"], ["messages"], ["events"]

BUDGETS = {
    "a prompt": (claude.user("go on"), [*LOCK, *INSERT, *UPDATE], 2),
    "an answer": (claude.assistant(claude.text("done"), id="m2"), [*LOCK, *INSERT, *UPDATE], 2),
    "an answer with usage": (
        claude.line("assistant", [claude.text("done")], {"id": "m2", "model": "x", "usage": claude.USAGE}),
        [*LOCK, *INSERT, "answers", *UPDATE],
        3,
    ),
    "a call": (claude.assistant(claude.call("t2", file_path="/b"), id="m2"), [*LOCK, *INSERT, *UPDATE], 2),
    "a result": (claude.user([claude.tool_result("t")]), [*LOCK, *INSERT, *UPDATE], 2),
}
"""The line of an append after a prompt and a call, its statements, and its round trips."""

KINDS = {
    "everything": r"^WITH session_counters AS",
    "lock": r"FOR UPDATE",
    "messages": r"INSERT INTO messages",
    "events": r"INSERT INTO events",
    "answers": r"INSERT INTO answers",
    "stored": r"FROM messages",
}


def kind_of(statement: object) -> str:
    return next(
        (kind for kind, pattern in KINDS.items() if re.search(pattern, str(statement))), str(statement)
    )


class Steps(list[str]):
    """The statements and reads of results of a connection so far; tasks of the store have others."""

    connection: Any = None


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    execute, fetches = (
        AsyncCursor.execute,
        {name: getattr(AsyncCursor, name) for name in ("fetchone", "fetchall")},
    )

    async def run(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        if self.connection is found.connection:
            found.append(kind_of(query))
        return await execute(self, query, *args, **options)

    def reading(fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def read(self: Any) -> Any:
            if self.connection is found.connection and self.connection._pipeline:
                found.append("read")
            return await fetch(self)

        return read

    monkeypatch.setattr(AsyncCursor, "execute", run)
    for name, fetch in fetches.items():
        monkeypatch.setattr(AsyncCursor, name, reading(fetch))
    return found


@pytest.mark.parametrize("case", BUDGETS)
async def test_an_append_runs_few_statements(store: Store, steps: Steps, case: str) -> None:
    line, statements, round_trips = BUDGETS[case]
    session_id = (await store.sessions.create()).id
    async with store._connections.connection() as conn:
        steps.connection = conn
        for each in (claude.user("begin"), CALL, line):
            message = prepare_message(session_id, json.dumps(each))
            steps.clear()
            await append(conn, session_id, [message])

    reads = sum(step == "read" and steps[place - 1] != "read" for place, step in enumerate(steps))
    assert [step for step in steps if step != "read"] == statements
    assert reads + 1 == round_trips  # the last one commits


@not_on_cluster("no session is known")
@pytest.mark.parametrize("case", BUDGETS)
async def test_an_append_to_a_known_session_is_one_statement(store: Store, steps: Steps, case: str) -> None:
    session_id, sessions = (await store.sessions.create()).id, KnownSessions()
    async with store._connections.connection() as conn:
        steps.connection = conn
        for each in (claude.user("begin"), CALL, BUDGETS[case][0]):
            message = prepare_message(session_id, json.dumps(each))
            steps.clear()
            await append_and_know(conn, session_id, [message], sessions)

    assert steps == ["everything"]


STORED_CALLS = """
    INSERT INTO tool_calls (
        session_id, key, number, at, turn, tool, mcp_server, skill, action, path, added, removed, outcome
    )
    SELECT %s, 'old' || n, 0, now(), 1, 'Edit', '', '', 'edit', '/f' || n, 1, 0, 'ok' FROM generate_series(1, 2000) AS n
"""


def indexes_of(plan: dict[str, Any]) -> set[str]:
    """Return the indexes that a plan uses for tool calls; empty for a scan without one."""
    is_scan = plan["Node Type"].endswith("Scan") and plan.get("Relation Name") == "tool_calls"
    own = {plan.get("Index Name", "")} if is_scan else set()
    return own.union(*map(indexes_of, plan.get("Plans", [])))


@not_on_cluster("EXPLAIN shows the plan of the coordinator")
async def test_calls_are_looked_up_by_key_and_path_without_statistics(store: Store) -> None:
    """A new store has no statistics; other indexes lead to all calls of the session."""
    session_id = (await store.sessions.create()).id
    explain = NumberedSql(f"EXPLAIN (FORMAT JSON) {tool_calls._WRITE.text}", tool_calls._WRITE.names)
    facts = tool_calls.NewFacts()
    facts.add(LineFacts((ToolUse("new", "Edit", None, files=(UsedFile("edit", "/f1"),)),)), 1)
    [calls] = tool_calls.encode_calls(facts, now=0)
    async with store._connections.connection() as conn, conn.transaction(force_rollback=True):
        await conn.execute(STORED_CALLS, [session_id])
        explained = await execute_numbered(conn, explain, {"session_id": session_id, "calls": calls})
        [[[plan]]] = await explained.fetchall()

    assert indexes_of(plan["Plan"]) == {"tool_calls_pkey", "tool_calls_path_idx"}
