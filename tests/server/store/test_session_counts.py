"""Numbers of sessions by the values of filters."""

import json
from typing import Any

import pytest

from ash_server import Store
from ash_server.store.access.keys import NewKey
from ash_server.store.lists import session_counts
from tests.shared.records import claude

TOKENS = [f"xoxb-{digit * 10}-{digit * 24}" for digit in "12"]


async def create(store: Store, *sessions: tuple[str, str, str]) -> None:
    """Create sessions with a project, a branch and a model."""
    for minute, (project, branch, model) in enumerate(sessions):
        session = await store.sessions.create(source="claude", machine="workstation")
        place = {"cwd": f"/srv/{project}", "gitBranch": branch, "timestamp": f"2026-11-02T09:{minute:02}:00Z"}
        lines = [
            claude.line("user", "hi"),
            claude.line("assistant", "Yes.", {"model": model, "usage": {"input_tokens": 1}}),
        ]
        await store.messages.append(session.id, [json.dumps({**line, **place}) for line in lines])


async def counts(store: Store, **filters: Any) -> dict[str, dict[str, int]]:
    counted = (await store.sessions.count_sessions(**filters)).model_dump(exclude={"sessions", "is_limited"})
    return {name: {each["value"]: each["sessions"] for each in values} for name, values in counted.items()}


async def test_counts_of_a_filter_leave_it_out(store: Store) -> None:
    await create(store, ("site", "main", "opus"), ("site", "fix", "haiku"), ("docs", "main", "opus"))

    assert await counts(store) == {
        "sources": {"claude": 3},
        "projects": {"/srv/site": 2, "/srv/docs": 1},
        "branches": {"main": 2, "fix": 1},
        "models": {"opus": 2, "haiku": 1},
        "machines": {"workstation": 3},
        "persons": {},
    }
    assert await counts(store, project="site", branch="main") == {
        "sources": {"claude": 1},
        "projects": {"/srv/site": 1, "/srv/docs": 1},
        "branches": {"main": 1, "fix": 1},
        "models": {"opus": 1},
        "machines": {"workstation": 1},
        "persons": {},
    }
    assert await counts(store, model="haiku", errors=True) == {
        name: {} for name in ("sources", "projects", "branches", "models", "machines", "persons")
    }


async def test_keys_with_the_same_name_are_one_person(store: Store) -> None:
    """A name is free again when its key is revoked."""
    for number in (1, 2):
        id = await store.keys.create(
            "default", NewKey("ada", f"ash_{number}", bytes([number]) * 32, ("read",), None)
        )
        for _ in range(number):
            await store.sessions.create(key_id=id)
        [key] = [each for each in await store.keys.list_keys() if each.id == id]
        await store.keys.revoke(key)

    assert (await counts(store))["persons"] == {"ada": 3}


async def test_only_the_latest_sessions_are_counted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(store, ("site", "main", "opus"), ("site", "fix", "haiku"), ("docs", "main", "opus"))
    complete = await store.sessions.count_sessions()
    monkeypatch.setattr(session_counts, "MAX_COUNTED", 2)

    limited = await store.sessions.count_sessions()

    assert (complete.sessions, complete.is_limited) == (3, False)
    assert (limited.sessions, limited.is_limited) == (2, True)
    assert [each.value for each in limited.projects] == ["/srv/docs", "/srv/site"]
    assert not (await store.sessions.count_sessions(project="docs")).sessions > 1


async def test_values_with_the_same_redacted_text_are_counted_together(store: Store) -> None:
    await create(store, *((token, "main", "opus") for token in TOKENS))

    assert len((await counts(store))["projects"]) == 2
    assert list((await counts(store, redact=True))["projects"].values()) == [2]
