"""Sessions over HTTP."""

import json
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from httpx2 import AsyncClient

from ash_server.store.sessions import session_id_for
from tests.shared.records import claude

UNKNOWN = "/api/sessions/5d3c5a6e-0c0f-4d0a-9d5e-000000000000"


async def test_creates_a_session_with_given_fields(client: AsyncClient) -> None:
    parent = (await client.post("/api/sessions", json={})).json()["id"]
    fields = {
        "source": "claude",
        "parentId": parent,
        "title": "Ünïcode\nlines",
        "metadata": {"team": ["a", 1]},
    }

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


async def test_external_id_gets_or_creates_a_session_of_its_source(client: AsyncClient) -> None:
    named = {"source": "claude", "externalId": "projects/a/b.jsonl"}

    first = await client.post("/api/sessions", json={**named, "title": "First"})
    second = await client.post("/api/sessions", json={**named, "title": "Second"})
    other = await client.post("/api/sessions", json={**named, "source": "codex"})

    assert [each.status_code for each in (first, second, other)] == [201, 200, 201]
    assert first.json() == second.json()
    assert first.json().items() >= {**named, "title": "First"}.items()
    assert [each.json()["id"] for each in (first, other)] == [
        str(session_id_for(source, "projects/a/b.jsonl")) for source in ("claude", "codex")
    ]


@pytest.mark.slow
async def test_pages_begin_with_the_last_change(own_client: AsyncClient) -> None:
    ids = [(await own_client.post("/api/sessions", json={})).json()["id"] for _ in range(4)]
    await own_client.post(f"/api/sessions/{ids[1]}/messages", json={"content": "hello"})
    await own_client.patch(f"/api/sessions/{ids[0]}", json={"metadata": {"seen": True}})
    order = [ids[0], ids[1], ids[3], ids[2]]

    pages = {limit: await pages_of(own_client, limit) for limit in (1, 2, 3, 4)}

    assert pages == {limit: [order[start : start + limit] for start in range(0, 4, limit)] for limit in pages}


async def pages_of(client: AsyncClient, limit: int) -> list[list[str]]:
    """Return the ids of each page."""
    pages: list[list[str]] = []
    after: dict[str, str] = {}
    while len(pages) < 9:  # an incorrect cursor repeats a page
        page = (await client.get("/api/sessions", params={"limit": limit, **after})).json()
        pages.append([session["id"] for session in page["sessions"]])
        if "nextAfter" not in page:
            break
        after = {"after": page["nextAfter"]}
    return pages


NOBODY = "00000000-0000-0000-0000-000000000000"
CURSORS = {
    f"activity 2001-01-01T00:00:00+00:00 {NOBODY}": {"sessions": []},
    f"start 2001-01-01T00:00:00+00:00 {NOBODY}": "after is the cursor of a list sorted by start, not by activity",
    **dict.fromkeys(
        (
            f"activity 2001-01-01T00:00:00+23:59 {NOBODY}",
            f"activity infinity {NOBODY}",
            f"2001-01-01T00:00:00+00:00 {NOBODY}",
            f"price 1 {NOBODY}",
            "activity 2001-01-01T00:00:00+00:00 1",
        ),
        "after is not the cursor of a list of sessions",
    ),
}


async def test_accepts_cursors_of_the_same_order_only(own_client: AsyncClient) -> None:
    answers = {}
    for cursor in CURSORS:
        after = urlsafe_b64encode(cursor.encode()).decode()
        answer = (await own_client.get("/api/sessions", params={"after": after})).json()
        answers[cursor] = answer.get("detail", answer)

    assert answers == CURSORS


PARENT = "00000000-0000-4000-8000-000000000000"
PARSER_ID = session_id_for("claude", "one.jsonl")
LISTED_BY_FIELDS: dict[str, list[str]] = {
    "": ["İstanbul", "100% done_", "Fix the PARSER"],
    "source=codex": ["İstanbul", "100% done_"],
    "q=parser": ["Fix the PARSER"],
    "q=ONE.JSON": ["Fix the PARSER"],
    "q=%25": ["100% done_"],
    "q=.jsonl&source=codex": ["100% done_"],
    "q='+OR+true+--": [],
    f"parentId={PARENT}": ["İstanbul"],
    "externalId=two.jsonl": ["100% done_"],
    "externalId=two": [],
    "externalIdPrefix=t": ["100% done_"],
    "externalIdPrefix=%25": [],
    "reference=one.jsonl": ["Fix the PARSER"],
    "reference=one.jsonl&source=codex": [],
    "reference=one": [],
    f"reference={PARSER_ID.hex[:3].upper()}": ["Fix the PARSER"],
}


async def test_lists_by_fields_of_sessions(own_client: AsyncClient) -> None:
    for fields in (
        {"source": "claude", "title": "Fix the PARSER", "externalId": "one.jsonl"},
        {"source": "codex", "title": "100% done_", "externalId": "two.jsonl"},
        {"source": "codex", "title": "İstanbul", "parentId": PARENT},
    ):
        await create(own_client, **fields)

    assert {query: await titles(own_client, query) for query in LISTED_BY_FIELDS} == LISTED_BY_FIELDS


LISTED_BY_MESSAGES: dict[str, list[str]] = {
    "providerSessionId=theirs": ["late", "early"],
    "providerSessionId='+OR+true+--": [],
    "providerSessionId=theirs&since=2026-11-02T09:02:00Z": ["late"],
    "providerSessionId=theirs&until=2026-11-02T09:02:00": ["early"],
    "since=2026-11-02T09:00:00Z&until=2026-11-02T10:02:00%2B01:00": ["early"],
    "errors=true": ["late"],
    "errors=false": ["empty", "early"],
}


async def test_lists_by_values_of_messages(own_client: AsyncClient) -> None:
    for minute, title in enumerate(("early", "late"), 1):
        failed = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": title == "late"}
        line = claude.line("user", [failed], sessionId="theirs", timestamp=f"2026-11-02T09:0{minute}:00Z")
        await create(own_client, json.dumps(line), title=title)
    await create(own_client, title="empty")

    assert {query: await titles(own_client, query) for query in LISTED_BY_MESSAGES} == LISTED_BY_MESSAGES


IN_SITE = ["claude", "codex", "cursor", "opencode"]
LISTED_BY_PROJECT: dict[str, list[str]] = {
    "/home/ada/site": IN_SITE,
    "/home/ada/site/": IN_SITE,
    "site": ["claude", "codex", "opencode", "windows"],
    "docs": ["codex"],
    "ada/site": ["claude", "codex", "opencode"],
    "/home/ada/site/docs": ["codex"],
    r"C:\Users\ada": ["windows"],
    "it": [],
    "/": [],
    ".*": [],
}


@pytest.mark.slow
async def test_lists_the_sessions_of_a_project(own_client: AsyncClient) -> None:
    lines = {
        "claude": '{"type":"user","cwd":"/home/ada/site","message":{"content":"hi"}}',
        "codex": '{"type":"session_meta","payload":{"id":"1","cwd": "/home/ada/site/docs"}}',
        "opencode": '{"id":"ses_1","projectID":"p","directory":"/home/ada/site","time":{"created":1}}',
        "windows": r'{"type":"user","cwd":"C:\\Users\\ada\\site"}',
        "gemini": json.dumps({"projectHash": sha256(b"/home/ada/site").hexdigest()}),
        "sibling": '{"type":"user","cwd":"/home/ada/site-2"}',
        "quoting": r'{"type":"user","message":{"content":"{\"cwd\":\"/home/ada/site\"}"}}',
    }
    for name, line in lines.items():
        await create(own_client, line, source=name, externalId=name, title=name)
    for title, folder in (("cursor", "home-ada-site"), ("cursor sibling", "home-ada-site-2")):
        name = f"projects/{folder}/agent-transcripts/1.jsonl"
        await create(own_client, source="cursor", externalId=name, title=title)

    listed = {
        project: sorted(await titles(own_client, urlencode({"project": project})))
        for project in LISTED_BY_PROJECT
    }
    assert listed == LISTED_BY_PROJECT


async def create(client: AsyncClient, *lines: str, **fields: str) -> None:
    """Create a session with these messages."""
    created = await client.post("/api/sessions", json=fields)
    for line in lines:
        address = f"/api/sessions/{created.json()['id']}/messages"
        (await client.post(address, json={"content": line})).raise_for_status()


async def titles(client: AsyncClient, query: str) -> list[str]:
    listed = await client.get(f"/api/sessions?{query}")
    return [session["title"] for session in listed.json()["sessions"]]


async def test_list_by_the_beginning_of_an_id(own_client: AsyncClient) -> None:
    created = [await own_client.post("/api/sessions", json={"externalId": name}) for name in ("x", "y")]
    id = created[0].json()["id"]
    listed = {
        id: [id],
        id[:4]: [id],
        id[:8].upper(): [id],
        id[:13]: [id],
        id[:3]: [],
        id[1:]: [],
        f"{id[:8]}_": [],
    }

    pages = {q: (await own_client.get("/api/sessions", params={"q": q})).json() for q in listed}

    assert {q: [session["id"] for session in page["sessions"]] for q, page in pages.items()} == listed


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


async def test_activity_of_sessions_that_changed_recently(client: AsyncClient) -> None:
    """Its argument contains no secret, whoever reads it."""
    source = "test of activity"
    session = (await client.post("/api/sessions", json={"source": source})).json()["id"]
    address = f"/api/sessions/{session}/chunks?source=claude"
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    command = f"curl -H 'Authorization: Bearer {secret}' " + "x" * 300
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}
    lines = [claude.user("Fetch it."), claude.assistant(call, timestamp="2026-03-10T12:00:00Z")]

    async def activity() -> Any:
        page = await client.get("/api/sessions", params={"source": source, "activity": "true"})
        return page.json()["sessions"][0].get("activity")

    assert await activity() == {"state": "ended"}
    content = "\n".join(map(json.dumps, lines))
    await client.post(address, content=content, headers={"Content-Type": "application/x-ndjson"})
    shown = await activity()
    assert (shown["state"], shown["tool"]) == ("calling", "Bash")
    assert shown["argument"].startswith("curl -H 'Authorization: Bearer [redacted")
    assert len(shown["argument"]) == 200
    assert shown["since"] == "2026-03-10T12:00:00Z"

    await client.post(f"/api/sessions/{session}/end")
    assert await activity() == {"state": "ended"}
    plain = await client.get("/api/sessions", params={"source": source})
    assert "activity" not in plain.json()["sessions"][0]
