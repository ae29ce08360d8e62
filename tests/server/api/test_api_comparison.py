"""Two sessions side by side, in the API, the store and the clients."""

import json
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from ash_client import AsyncAshClient
from ash_server import Store
from ash_server.app import create_app
from ash_server.errors import SessionNotFound
from ash_server.settings import Settings
from ash_server.store.conversation import session_comparison
from ash_server.store.transcripts import Copy
from ash_shared.model.reports.comparison import CommonBeginning
from tests.server.api.conftest import bearer, create_key
from tests.server.app_client import app_client
from tests.server.edited_session import edited_lines
from tests.shared.records import claude

SECRET = "a secret of the tests"
TOKENS = ["ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6", "ghp_" + "Zz3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"]


async def create(client: AsyncClient, *lines: str) -> str:
    session = (await client.post("/api/sessions", json={})).json()["id"]
    body = [{"content": each} for each in lines]
    if body:
        (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()
    return str(session)


def prompts(*texts: str) -> list[str]:
    return [json.dumps(claude.user(text, uuid=f"u{place}")) for place, text in enumerate(texts)]


def texts(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (*(pair.get(side, {}).get("text") for side in ("a", "b")), pair["isEqual"])
        for pair in report["prompts"]
    ]


async def test_comparison(client: AsyncClient) -> None:
    a, b = (
        await create(client, *edited_lines()),
        await create(client, *prompts("Write a function.", "Test it.")),
    )
    report = (await client.get("/api/compare", params={"a": a, "b": b})).json()
    facts = {each["name"]: (each.get("a"), each.get("b"), each["isEqual"]) for each in report["facts"]}

    assert (report["a"]["id"], report["b"]["id"]) == (a, b)
    assert facts["prompts"] == (2, 2, True)
    assert facts["filesChanged"] == (1, 0, False)
    assert report["files"] == [
        {
            "path": "heron.py",
            "a": {"changes": 2, "added": 3, "removed": 1},
            "isEqual": False,
        }
    ]
    assert [(each["tool"], "b" in each) for each in report["tools"]] == [
        ("Edit", False),
        ("Bash", False),
        ("Write", False),
    ]
    assert texts(report) == [
        ("Write a function.", "Write a function.", True),
        ("Return 2.", "Test it.", False),
    ]
    assert (report["moreFiles"], report["morePrompts"], "common" in report) == (False, False, False)


async def test_fork(store: Store) -> None:
    a, b = [(await store.sessions.create()).id for _ in range(2)]
    for id, last in ((a, "Stay."), (b, "Go.")):
        await store.messages.append(id, prompts("Begin.", last))
    await store.transcripts.set_copy(b, Copy(a, 1))
    report = await store.conversation.compare(a, b)

    assert report.common == CommonBeginning(messages=1, original=a)
    assert [pair.is_copied for pair in report.prompts] == [True, False]
    assert report.a.usage is not None


async def test_redacted_texts_are_compared(client: AsyncClient) -> None:
    a, b = [await create(client, *prompts(f"Use {token}")) for token in TOKENS]
    whole, redacted = [
        (await client.get("/api/compare", params={"a": a, "b": b, "redact": redact})).json()
        for redact in (0, 1)
    ]

    assert texts(whole) == [(f"Use {TOKENS[0]}", f"Use {TOKENS[1]}", False)]
    assert texts(redacted) == [("Use [redacted: github token]",) * 2 + (True,)]
    assert not any(token in json.dumps(redacted) for token in TOKENS)


async def test_unknown_sessions_are_named(client: AsyncClient, store: Store) -> None:
    known, unknown = await create(client), str(uuid4())
    for a, b, name in ((known, unknown, "b"), (unknown, known, "a"), (unknown, unknown, "a")):
        answer = await client.get("/api/compare", params={"a": a, "b": b})
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")
        assert answer.json()["detail"] == f"No session has the id {name}={unknown}."
    with pytest.raises(SessionNotFound):
        await store.conversation.compare(uuid4(), uuid4())


async def test_sessions_of_other_tenants_do_not_exist(store: Store) -> None:
    keys = {name: await create_key(store, name, name, "read") for name in ("red", "blue")}
    ids = [
        str((await store.for_tenant(await store.get_tenant(name)).sessions.create()).id)
        for name in ("red", "red", "blue")
    ]
    async with app_client(create_app(Settings(secret=SECRET), database_url=store.url)) as client:
        statuses = [
            (
                await client.get(
                    "/api/compare", params={"a": ids[0], "b": other}, headers=bearer(keys["red"])
                )
            ).status_code
            for other in ids[1:]
        ]
    assert statuses == [200, 404]


async def test_only_the_first_prompts_are_compared(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await store.sessions.create()
    await store.messages.append(session.id, prompts(*map(str, range(5))))
    whole = await store.conversation.compare(session.id, session.id)
    monkeypatch.setattr(session_comparison, "_PAGE", 2)
    paged = await store.conversation.compare(session.id, session.id)
    monkeypatch.setattr(session_comparison, "MAX_PROMPTS", 3)
    cut = await store.conversation.compare(session.id, session.id)

    assert paged == whole
    assert (len(whole.prompts), whole.more_prompts) == (5, False)
    assert (len(cut.prompts), cut.more_prompts) == (3, True)


async def test_client(shared_server: str) -> None:
    async with AsyncAshClient(shared_server) as ash:
        a, b = await ash.create_session(), await ash.create_session()
        comparison = await ash.compare_sessions(a.id, b.id)

    assert [comparison.a.id, comparison.b.id] == [a.id, b.id]
    assert all(fact.is_equal for fact in comparison.facts)
