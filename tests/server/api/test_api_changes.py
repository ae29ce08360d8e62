"""The changes of a session, in the API, the store and the clients."""

from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_client import AsyncAshClient
from ash_server import Store
from ash_server.errors import SessionNotFound, SessionTooLarge
from ash_server.store.conversation import session_changes
from tests.server.edited_session import edited_lines, patch_of

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
NOTE = "# Shell commands that may have changed files, which are not in this patch: 1\n"


async def create(client: AsyncClient, secret: str = "") -> str:
    session = (await client.post("/api/sessions", json={})).json()["id"]
    body = [{"content": each} for each in edited_lines(secret)]
    (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()
    return f"/api/sessions/{session}/changes"


def short(report: dict[str, Any]) -> dict[str, Any]:
    return {
        "files": {
            file["path"]: [(edit["turn"], edit["tool"], edit["outcome"]) for edit in file["edits"]]
            for file in report["files"]
        },
        "turns": [(turn["turn"], turn["prompt"], turn["added"], turn["removed"]) for turn in report["turns"]],
        "commands": [command["command"] for command in report["commands"]],
        "totals": [report[name] for name in ("filesChanged", "added", "removed", "notCounted")],
    }


WHOLE: dict[str, Any] = {
    "files": {
        "/home/ada/site/heron.py": [(1, "Write", "ok"), (1, "Edit", "failed"), (2, "Edit", "ok")],
    },
    "turns": [(1, "Write a function.", 2, 0), (2, "Return 2.", 1, 1)],
    "commands": ["make "],
    "totals": [1, 3, 1, 1],
}
SECOND = {
    "files": {"/home/ada/site/heron.py": [(2, "Edit", "ok")]},
    "turns": WHOLE["turns"][1:],
    "commands": [],
    "totals": [1, 1, 1, 0],
}
NOTHING = {"files": {}, "turns": [], "commands": [], "totals": [0, 0, 0, 0]}


async def test_choices(client: AsyncClient) -> None:
    address = await create(client)
    cases: dict[str, dict[str, Any]] = {
        "": WHOLE,
        "?turn=2": SECOND,
        "?turn=3": NOTHING,
        "?path=heron.py": {**WHOLE, "commands": []},
        "?path=ron.py": NOTHING,
        "?diffs=false": WHOLE,
    }
    reports = {query: short((await client.get(f"{address}{query}")).json()) for query in cases}
    assert reports == cases


async def test_lines(client: AsyncClient) -> None:
    address = await create(client)
    whole, bare = [(await client.get(f"{address}{query}")).json() for query in ("", "?diffs=false")]

    assert [file["diff"] for file in whole["files"]] == [patch_of()]
    assert [edit["diff"] for edit in whole["files"][0]["edits"]][::2] == [
        "@@ -0,0 +1,2 @@\n+def heron():\n+    return 1\n",
        "@@ -2 +2 @@\n-    return 1\n+    return 2  # \n",
    ]
    assert "diff" not in str(bare)


async def test_patch(client: AsyncClient) -> None:
    address = await create(client)
    for query in ("", "?diffs=false"):
        answer = await client.get(f"{address}{query}", headers={"Accept": "text/x-diff"})
        assert answer.headers["content-type"].startswith("text/x-diff")
        assert answer.text == NOTE + patch_of()


async def test_secrets_are_redacted_before_lines_are_split(client: AsyncClient) -> None:
    address = await create(client, TOKEN)
    patch = (await client.get(f"{address}?redact=1", headers={"Accept": "text/x-diff"})).text
    redacted = (await client.get(f"{address}?redact=1")).json()

    assert TOKEN in (await client.get(address)).text
    assert patch == NOTE + patch_of("    return 2  # [redacted: github token]")
    assert short(redacted) == {**WHOLE, "commands": ["make [redacted: github token]"]}


async def test_too_many_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, edited_lines())
    monkeypatch.setattr(session_changes, "MAX_CHARACTERS", 1000)

    with pytest.raises(SessionTooLarge):
        await store.conversation.read_changes(session.id)
    assert (await store.conversation.read_changes(session.id, turn=2)).added == 1


async def test_pages_are_one_report(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, edited_lines())
    whole = await store.conversation.read_changes(session.id)
    monkeypatch.setattr(session_changes, "_PAGE", 1)

    assert await store.conversation.read_changes(session.id) == whole


async def test_client(shared_server: str) -> None:
    async with AsyncAshClient(shared_server) as ash:
        session = await ash.create_session()
        await ash.append(session.id, edited_lines())

        changes = await ash.get_changes(session.id, path="heron.py", diffs=False)
        assert (changes.added, changes.removed) == (3, 1)


async def test_unknown_session(client: AsyncClient, store: Store) -> None:
    assert (await client.get(f"/api/sessions/{uuid4()}/changes")).status_code == 404
    with pytest.raises(SessionNotFound):
        await store.conversation.read_changes(uuid4())
