"""Lists of projects."""

import json
from typing import Any

import pytest

from ash_server import Store
from ash_server.errors import InvalidParameter


async def create(store: Store, *folders: str | None) -> None:
    for minute, folder in enumerate(folders):
        session = await store.sessions.create(source="claude")
        line: dict[str, Any] = {
            "type": "user",
            "timestamp": f"2026-11-02T09:{minute:02}:00Z",
            "message": {"content": "hi"},
        }
        await store.messages.append(
            session.id, [json.dumps(line if folder is None else {**line, "cwd": folder})]
        )


async def test_lists_projects_by_last_activity(store: Store) -> None:
    worktree = "/home/ada/site/.claude/worktrees/fix"
    await create(store, "/srv/docs", "/home/ada/site", worktree, "/home/ada/site", None, r"C:\Users\ada\app")

    page = await store.sessions.list_projects()

    assert [each.model_dump(exclude={"last_active_at"}) for each in page.projects] == [
        {"path": r"C:\Users\ada\app", "name": "app", "folders": [r"C:\Users\ada\app"], **counts(1)},
        {"path": "/home/ada/site", "name": "site", "folders": ["/home/ada/site", worktree], **counts(3)},
        {"path": "/srv/docs", "name": "docs", "folders": ["/srv/docs"], **counts(1)},
    ]


def counts(sessions: int) -> dict[str, int]:
    return {"sessionCount": sessions, "messageCount": sessions}


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_projects_are_consecutive(store: Store, limit: int) -> None:
    await create(store, "/a", "/b", "/c")
    listed, after = list[str](), None
    while True:
        page = await store.sessions.list_projects(limit=limit, after=after)
        listed += [each.path for each in page.projects]
        if page.next_after is None:
            break
        after = page.next_after

    assert listed == ["/c", "/b", "/a"]


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 201}, {"after": "bm8="}, {"after": "no"}], ids=str
)
async def test_rejects_invalid_options(store: Store, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        await store.sessions.list_projects(**options)
