"""Sessions over HTTP."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from httpx2 import AsyncClient

from ash_server.store.sessions import session_id_for

UNKNOWN = "/api/sessions/5d3c5a6e-0c0f-4d0a-9d5e-000000000000"


async def test_creates_a_session_with_given_fields(client: AsyncClient) -> None:
    parent = (await client.post("/api/sessions", json={})).json()["id"]
    fields = {"source": "claude", "parentId": parent, "title": "Paths", "metadata": {"team": ["a", 1, None]}}

    created = await client.post("/api/sessions", json=fields)

    session = created.json()
    assert created.status_code == 201
    assert UUID(session["id"]).version == 7
    assert session == {
        "id": session["id"],
        "createdAt": session["createdAt"],
        "updatedAt": session["createdAt"],
        "messageCount": 0,
        "eventCount": 0,
        "errorCount": 0,
        "unrecognisedCount": 0,
        **fields,
    }
    assert (await client.get(f"/api/sessions/{session['id']}")).json() == session


async def test_external_id_gets_or_creates(client: AsyncClient) -> None:
    named = {"source": "claude", "externalId": "projects/a/b.jsonl"}

    first = await client.post("/api/sessions", json={**named, "title": "First"})
    second = await client.post("/api/sessions", json={**named, "title": "Second"})

    assert [first.status_code, second.status_code] == [201, 200]
    assert first.json() == second.json()
    assert first.json()["id"] == str(session_id_for("claude", "projects/a/b.jsonl"))


async def test_pages_are_newest_first_and_complete(own_client: AsyncClient) -> None:
    ids = [(await own_client.post("/api/sessions", json={})).json()["id"] for _ in range(5)]

    listed: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await own_client.get("/api/sessions", params={"limit": 2, **after})).json()
        listed += [session["id"] for session in page["sessions"]]
        if "nextAfter" not in page:
            break
        after = {"after": page["nextAfter"]}

    assert listed == ids[::-1]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ({}, ["Beta", "Alpha"]),
        ({"source": "claude"}, ["Alpha"]),
        ({"q": "bet"}, ["Beta"]),
        ({"q": "elsewhere"}, ["Alpha"]),
        ({"q": "bet", "source": "claude"}, []),
        ({"q": "%"}, []),
        ({"parentId": "00000000-0000-4000-8000-000000000000"}, ["Beta"]),
        ({"providerSessionId": "none"}, []),
        ({"externalId": "elsewhere"}, ["Alpha"]),
        ({"externalId": "else"}, []),
        ({"externalIdPrefix": "else"}, ["Alpha"]),
        ({"reference": "elsewhere"}, ["Alpha"]),
        ({"reference": "elsewhere", "source": "codex"}, []),
        ({"reference": "else"}, []),
        ({"reference": str(session_id_for("claude", "elsewhere"))[:8]}, ["Alpha"]),
        ({"reference": session_id_for("claude", "elsewhere").hex[:3].upper()}, ["Alpha"]),
        ({"since": "2026-11-02T09:00:00Z"}, ["Beta", "Alpha"]),
        ({"until": "2026-11-02T09:00:00"}, []),
        ({"errors": "true"}, []),
        ({"errors": "false"}, ["Beta", "Alpha"]),
    ],
)
async def test_list_filters(own_client: AsyncClient, query: dict[str, str], titles: list[str]) -> None:
    await own_client.post(
        "/api/sessions", json={"title": "Alpha", "source": "claude", "externalId": "elsewhere"}
    )
    parent = "00000000-0000-4000-8000-000000000000"
    await own_client.post("/api/sessions", json={"title": "Beta", "parentId": parent})

    listed = await own_client.get("/api/sessions", params=query)

    assert [session["title"] for session in listed.json()["sessions"]] == titles


@pytest.mark.parametrize(
    ("shorten", "is_listed"),
    [
        (lambda id: id, True),
        (lambda id: id[:4], True),
        (lambda id: id[:8].upper(), True),
        (lambda id: id[:13], True),
        (lambda id: id[:3], False),
        (lambda id: id[1:], False),
        (lambda id: f"{id[:8]}_", False),
    ],
)
async def test_list_by_the_beginning_of_an_id(
    own_client: AsyncClient, shorten: Callable[[str], str], is_listed: bool
) -> None:
    created = [await own_client.post("/api/sessions", json={"externalId": name}) for name in ("x", "y")]
    id = created[0].json()["id"]

    listed = await own_client.get("/api/sessions", params={"q": shorten(id)})

    assert [session["id"] for session in listed.json()["sessions"]] == [id] * is_listed


@pytest.mark.parametrize(
    ("change", "title", "metadata"),
    [
        ({}, "Old", {"a": 1}),
        ({"title": "New"}, "New", {"a": 1}),
        ({"title": None}, None, {"a": 1}),
        ({"metadata": {"b": 2}}, "Old", {"b": 2}),
        ({"title": "New", "metadata": {}}, "New", {}),
    ],
)
async def test_update_keeps_other_fields(
    client: AsyncClient, change: dict[str, Any], title: str | None, metadata: dict[str, Any]
) -> None:
    created = await client.post("/api/sessions", json={"title": "Old", "metadata": {"a": 1}})

    changed = await client.patch(f"/api/sessions/{created.json()['id']}", json=change)

    assert (changed.status_code, changed.json().get("title"), changed.json()["metadata"]) == (
        200,
        title,
        metadata,
    )


async def test_delete_removes_messages(client: AsyncClient, session: str) -> None:
    await client.post(f"{session}/messages", json={"content": "gone"})

    deleted = await client.delete(session)

    assert (deleted.status_code, deleted.content) == (204, b"")
    for address in (session, f"{session}/messages", f"{session}/messages/1", f"{session}/export"):
        assert (await client.get(address)).json()["code"] == "session_not_found"


@pytest.mark.parametrize(
    ("method", "address", "body"),
    [
        ("GET", UNKNOWN, None),
        ("PATCH", UNKNOWN, {}),
        ("DELETE", UNKNOWN, None),
        ("GET", f"{UNKNOWN}/messages", None),
        ("POST", f"{UNKNOWN}/messages", {"content": "a"}),
        ("GET", f"{UNKNOWN}/messages/1", None),
        ("GET", f"{UNKNOWN}/export", None),
    ],
)
async def test_unknown_session_is_not_found(
    client: AsyncClient, method: str, address: str, body: dict[str, Any] | None
) -> None:
    response = await client.request(method, address, json=body)

    assert response.json() == {
        "type": "urn:ash:problem:session_not_found",
        "title": "No session has this id.",
        "status": 404,
        "code": "session_not_found",
    }
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
