"""`ash delete` and `ash prune`: which sessions and messages go."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ash_server.cli.common.local_store import LocalStore
from ash_server.cli.delete import with_trees
from ash_server.store import Store
from tests.server.cli.test_cli import Ran, ran_here
from tests.shared.records import claude


@pytest.fixture
def environment(tmp_path: Path, database_url: str) -> dict[str, str]:
    return {"HOME": str(tmp_path), "ASH_HOME": str(tmp_path), "ASH_DATABASE_URL": database_url}


def run(environment: dict[str, str], *arguments: str) -> Ran:
    return ran_here(arguments, environment, Path(environment["HOME"]))


async def create(store: Store, name: str, *, parent: UUID | None = None, days: float = 0) -> UUID:
    """Create a session with a last message of this age in days."""
    session = await store.sessions.create(source="claude", external_id=name, parent_id=parent)
    time = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    line: dict[str, Any] = claude.line("user", name, timestamp=time)
    await store.messages.append(session.id, [json.dumps(line)])
    return session.id


async def remaining(store: Store) -> set[str | None]:
    return {session.external_id async for session in store.sessions.list_all()}


async def test_deletes_named_sessions_and_their_subagents_where_asked(
    store: Store, environment: dict[str, str]
) -> None:
    main = await create(store, "main")
    agent = await create(store, "agent", parent=main)
    await create(store, "agent of the agent", parent=agent)
    await create(store, "other")

    refused = run(environment, "delete", "main")
    assert (refused.code, refused.err) == (
        2,
        "ash: Nothing is changed without --yes (see `ash delete --help`)\n",
    )
    assert len(await with_trees(LocalStore(store), await store.sessions.find("main"))) == 3
    assert run(environment, "delete", "main", "nothing", "--yes").code == 1
    assert len(await remaining(store)) == 4
    assert run(environment, "delete", "other", "--yes") == Ran(0, "1 session with 1 message deleted\n", "")
    assert run(environment, "delete", "main", "--yes").code == 0
    assert await remaining(store) == {"agent", "agent of the agent"}
    assert run(environment, "delete", str(agent), "--subagents", "--yes").out == (
        "2 sessions with 2 messages deleted\n"
    )
    assert await remaining(store) == set()


async def test_prunes_sessions_without_recent_activity(store: Store, environment: dict[str, str]) -> None:
    old = await create(store, "old", days=100)
    new = await create(store, "new", days=1)
    await create(store, "agent of old", parent=old, days=100)
    await create(store, "late agent of old", parent=old, days=2)
    await create(store, "agent of new", parent=new, days=100)
    everything = await remaining(store)

    listed = run(environment, "prune", "--older-than", "90d", "--subagents", "--dry-run")
    assert listed.out.splitlines()[-1] == "3 sessions with 3 messages would be deleted"
    assert await remaining(store) == everything
    assert run(environment, "prune", "--older-than", "90d", "--source", "codex").out.startswith("0 sessions")
    assert run(environment, "prune", "--older-than", "90d").out == "2 sessions with 2 messages deleted\n"
    assert await remaining(store) == {"new", "late agent of old", "agent of new"}
    assert run(environment, "prune", "--older-than", "36h", "--subagents").code == 0
    assert await remaining(store) == {"new", "agent of new"}
    assert run(environment, "prune", "--older-than", "soon").code == 2


async def test_deletes_messages_of_a_session(store: Store, environment: dict[str, str]) -> None:
    session = await create(store, "main")
    await store.messages.append(session, ["a", "b", "c"])

    assert run(environment, "delete", "main", "--message", "2").code == 2
    assert run(environment, "delete", "main", "other", "--message", "2", "--yes").code == 2
    assert run(environment, "delete", "main", "--message", "9", "--yes").code == 1
    ran = run(environment, "delete", "main", "--message", "2", "--message", "3", "--yes")
    assert ran == Ran(0, "2 messages deleted\n", "")
    assert run(environment, "delete", "main", "--message", "2", "--yes").out == "0 messages deleted\n"
    assert [each.sequence for each in await store.messages.list_messages(session)] == [1, 4]
