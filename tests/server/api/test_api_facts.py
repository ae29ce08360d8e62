"""The facts of a session, in the API, the store and the clients."""

import json
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from ash_client import AsyncAshClient
from ash_server import Store
from ash_server.errors import SessionNotFound
from ash_server.store.facts import report
from tests.server.store.test_stored_facts import LINES, called
from tests.shared.records import claude

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
TODO = json.dumps(called("t1", "TodoWrite", 130, todos=[{"content": "Dig", "status": "completed"}]))


async def create(client: AsyncClient, lines: list[str]) -> str:
    session = (await client.post("/api/sessions", json={})).json()["id"]
    body = [{"content": each} for each in lines]
    (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()
    return str(session)


FACTS: dict[str, Any] = {
    "tools": [
        {"tool": "Edit", "calls": 2, "failures": 1, "denied": 0},
        {"tool": "Write", "calls": 2, "failures": 1, "denied": 1},
        {"tool": "AskUserQuestion", "calls": 1, "failures": 0, "denied": 0},
        {"tool": "Bash", "calls": 1, "failures": 1, "denied": 0},
        {"tool": "Read", "calls": 1, "failures": 0, "denied": 0},
        {"tool": "Skill", "calls": 1, "failures": 0, "denied": 0},
        {"tool": "TodoWrite", "calls": 1, "failures": 0, "denied": 0},
        {"tool": "mcp__birds__count", "mcpServer": "birds", "calls": 1, "failures": 0, "denied": 0},
    ],
    "mcpServers": [{"name": "birds", "calls": 1}],
    "skills": [{"name": "tides", "calls": 1}],
    "files": [
        {"path": "/app/a.py", "reads": 1, "changes": 1, "added": 2, "removed": 2},
        {"path": "/app/c.py", "reads": 0, "changes": 1, "added": 1},
    ],
    "moreFiles": False,
    "plan": {"items": [{"text": "Dig", "state": "done"}]},
}


async def test_facts(client: AsyncClient, store: Store) -> None:
    session = await create(client, [*LINES, TODO])
    answer = (await client.get(f"/api/sessions/{session}/facts")).json()
    listed = (await client.get(f"/api/sessions/{session}")).json()
    stored = (await store.sessions.create()).id
    await store.messages.append(stored, [*LINES, TODO])
    read = await store.sessions.get_facts(stored)

    assert answer == {"session": listed, **FACTS}
    assert read.model_dump(mode="json", exclude={"session"}) == FACTS


async def test_client(shared_server: str) -> None:
    async with AsyncAshClient(shared_server) as ash:
        session = await ash.create_session()
        await ash.append(session.id, LINES)

        assert (await ash.get_facts(session.id)).session.tool_call_count == 9


async def test_unknown_session(client: AsyncClient, store: Store) -> None:
    assert (await client.get(f"/api/sessions/{uuid4()}/facts")).status_code == 404
    with pytest.raises(SessionNotFound):
        await store.sessions.get_facts(uuid4())


async def test_sessions_of_earlier_versions_have_facts_after_a_reindex(
    store: Store, connection: AsyncConnection
) -> None:
    session = (await store.sessions.create(source="claude")).id
    await store.messages.append(session, [*LINES, TODO])
    complete = await store.sessions.get_facts(session)
    await connection.execute("UPDATE session_counters SET normalizer_version = 9")
    earlier = await store.sessions.get_facts(session)
    await store.events.rebuild(session)
    again = await store.sessions.get_facts(session)
    counts = {"prompt_count", "turn_count", "tool_call_count", "files_changed", "active_ms"}

    assert (earlier.tools, earlier.files, earlier.plan) == ([], [], None)
    assert set(earlier.session.model_dump(include=counts)) == set()
    assert again.model_copy(update={"session": complete.session}) == complete


async def test_files_are_limited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_FILES", 1)
    session = (await store.sessions.create(source="claude")).id
    await store.messages.append(session, LINES)
    facts = await store.sessions.get_facts(session)

    assert ([file.path for file in facts.files], facts.more_files) == (["/app/a.py"], True)


async def test_facts_show_no_secrets_to_keys_that_redact(client: AsyncClient) -> None:
    names = {"skill": f"{'s' * 70} {TOKEN}"}
    lines = [
        json.dumps(claude.user("Go", cwd=f"/home/{TOKEN}", gitBranch=TOKEN)),
        json.dumps(called("s", "Skill", 1, **names)),
        json.dumps(called("w", "Write", 2, file_path=f"/app/{TOKEN}", content=TOKEN)),
        json.dumps(called("m", f"mcp__{'m' * 80}{TOKEN}__x", 3)),
        json.dumps(called("t", "TodoWrite", 4, todos=[{"content": f"Use {TOKEN}", "status": "pending"}])),
    ]
    session = await create(client, lines)
    plain = (await client.get(f"/api/sessions/{session}/facts")).text
    redacted = (await client.get(f"/api/sessions/{session}/facts?redact=1")).text

    assert TOKEN in plain
    assert TOKEN[:12] not in redacted
