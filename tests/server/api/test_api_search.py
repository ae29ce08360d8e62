"""Search over HTTP."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient
from psycopg import AsyncConnection

from ash_server.live import search_indexer
from ash_server.store.search import search_store
from tests.shared.records import claude
from tests.waiting import until

PROMPT = (
    '{"type":"user","timestamp":"2026-11-02T09:00:01Z",'
    '"message":{"role":"user","content":"Where is the 🙂 heron?"}}'
)
CALL = (
    '{"type":"assistant","timestamp":"2026-11-02T09:00:02Z","message":{"role":"assistant","content":'
    '[{"type":"tool_use","id":"t","name":"Grep","input":{"pattern":"heron"}}]}}'
)
RESULT = (
    '{"type":"user","timestamp":"2026-11-02T09:00:03Z","message":{"role":"user","content":'
    '[{"type":"tool_result","tool_use_id":"t","content":"birds.txt: grey heron"}]}}'
)


async def store(client: AsyncClient, *lines: str, **fields: Any) -> str:
    session = (await client.post("/api/sessions", json=fields)).json()["id"]
    await append(client, session, *lines)
    return str(session)


async def append(client: AsyncClient, session: str, *lines: str) -> None:
    body = [{"content": line} for line in lines]
    if body:
        (await client.post(f"/api/sessions/{session}/messages", json=body)).raise_for_status()


@pytest.mark.slow
async def test_finds_messages_just_stored(own_client: AsyncClient) -> None:
    session = await store(own_client, PROMPT, CALL, RESULT, title="Birds")
    response = await own_client.get("/api/search", params={"q": "heron"})
    events = (await own_client.get(f"/api/sessions/{session}/events")).json()["events"]

    def result(event: dict[str, Any], **more: Any) -> dict[str, Any]:
        named = {"sessionId": session, "title": "Birds", "source": "claude", "matches": 2}
        place = {
            "sequence": event["messageSequence"],
            "eventId": event["id"],
            "eventSequence": event["sequence"],
        }
        return {**named, **place, "type": event["type"], **more}

    prompt, call = (event for event in events if event["type"] in ("user_message", "tool_call"))
    assert (response.status_code, response.json()) == (
        200,
        {
            "results": [
                result(
                    call,
                    role="assistant",
                    createdAt="2026-11-02T09:00:02Z",
                    snippet="Grep: heron",
                    marks=[[6, 11]],
                ),
                result(
                    prompt,
                    role="user",
                    createdAt="2026-11-02T09:00:01Z",
                    snippet="Where is the 🙂 heron?",
                    marks=[[16, 21]],
                ),
            ]
        },
    )


@pytest.mark.parametrize("redact", ["false", "true"])
async def test_search_ignores_accents(own_client: AsyncClient, redact: str) -> None:
    """Accents are ignored in queries and texts, for titles, all sessions and one session."""
    line = claude.line("user", "My re\u0301sumé lies at LODZ.")
    session = await store(own_client, json.dumps(line), title="Résumé for Lodz")
    paths = {"/api/sessions": "sessions", "/api/search": "results", f"/api/sessions/{session}/search": "hits"}
    missed = [
        (path, q)
        for path, name in paths.items()
        for q in ("resume", "RÉSUMÉ", "re\u0301su", "Łódź")
        if not (await own_client.get(path, params={"q": q, "redact": redact})).json()[name]
    ]

    assert missed == []


async def test_result_without_a_title_has_the_external_id(own_client: AsyncClient) -> None:
    token = "ghp_" + "a1B2" * 9
    fields = {"source": "claude", "externalId": f"kites/{token}.jsonl"}
    session = (await own_client.post("/api/sessions", json=fields)).json()["id"]
    await append(own_client, session, CALL)
    (shown,) = (await own_client.get("/api/search", params={"q": "heron"})).json()["results"]
    (redacted,) = (await own_client.get("/api/search", params={"q": "heron", "redact": "1"})).json()[
        "results"
    ]
    listed = (await own_client.get(f"/api/sessions/{session}", params={"redact": "1"})).json()

    assert (shown.get("title"), shown["externalId"]) == (None, fields["externalId"])
    assert redacted["externalId"] == listed["externalId"]
    assert token not in redacted["externalId"]


QUERIES: dict[str, list[int]] = {
    "q=heron": [2, 1],
    "q=HERON+where": [1],
    "q=%22grey+heron%22": [],
    "q=%22grey+heron%22&in=results": [3],
    "q=heron&in=everything": [3, 2, 1],
    "q=heron&in=said": [1],
    "q=heron&role=user": [1],
    "q=heron&in=everything&role=tool": [3],
    "q=heron&source=claude": [2, 1],
    "q=heron&source=pi": [],
    "q=heron&since=2026-11-02T09:00:02Z": [2],
    "q=heron&until=2026-11-02T09:00:02": [1],
    "q=heron&perSession=1": [2],
    "q=heron&limit=1": [2],
    **{f"q=heron&{name}=kite": [] for name in ("branch", "machine", "model", "tag")},
    "q=heron&errors=true": [],
    "q=heron&errors=false": [2, 1],
    "q=heron&starred=true": [],
    "q=heron&starred=false": [2, 1],
    "q=heron&archived=only": [],
    "q=heron+-where": [2],
    "q=grep+or+where": [2, 1],
    "q='+or+1=1+--": [],
}


@pytest.mark.slow
async def test_search_parameters(own_client: AsyncClient) -> None:
    session = await store(own_client, PROMPT, CALL, RESULT)
    seen = {}
    for query in QUERIES:
        response = await own_client.get(f"/api/search?{query}&sessionId={session}")
        seen[query] = [result["sequence"] for result in response.json()["results"]]

    assert seen == QUERIES


async def test_pagination(own_client: AsyncClient) -> None:
    await store(own_client, PROMPT, CALL, RESULT)
    seen: list[int] = []
    after: dict[str, str] = {}
    while True:
        query = {"q": "heron", "in": "everything", "limit": "1", **after}
        page = (await own_client.get("/api/search", params=query)).json()
        seen += [result["sequence"] for result in page["results"]]
        if "nextAfter" not in page:
            break
        after = {"after": page["nextAfter"]}

    assert seen == [3, 2, 1]


REFUSED = [
    ("", 400, "invalid_parameter"),
    ("q=", 400, "invalid_parameter"),
    ("q=+", 400, "invalid_parameter"),
    ("q=%22", 400, "invalid_parameter"),
    ("q=-heron", 400, "invalid_parameter"),
    ("q=%00", 400, "invalid_parameter"),
    ("q=a%0Ab", 400, "invalid_parameter"),
    ("q=%ED%A0%80", 400, "invalid_parameter"),
    (f"q={'a' * 1001}", 400, "invalid_parameter"),
    (f"q={'a+' * 33}", 400, "invalid_parameter"),
    ("q=a&q=b", 400, "invalid_parameter"),
    ("q=a&in=all", 400, "invalid_parameter"),
    ("q=a&role=bird", 400, "invalid_parameter"),
    ("q=a&limit=0", 400, "invalid_parameter"),
    ("q=a&limit=101", 400, "invalid_parameter"),
    ("q=a&perSession=0", 400, "invalid_parameter"),
    ("q=a&after=x", 400, "invalid_parameter"),
    ("q=a&since=yesterday", 400, "invalid_parameter"),
    ("q=a&sessionId=1", 400, "invalid_parameter"),
    ("q=a&sessionId={00000000-0000-4000-8000-000000000000}", 400, "invalid_parameter"),
    ("q=a&sessionId=00000000-0000-4000-8000-000000000000", 404, "session_not_found"),
    ("q=a&sort=rank", 400, "invalid_parameter"),
]


@pytest.mark.parametrize(("query", "status", "code"), REFUSED)
async def test_rejects_invalid_queries(client: AsyncClient, query: str, status: int, code: str) -> None:
    response = await client.get(f"/api/search?{query}")

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers["content-type"] == "application/problem+json"


HOSTILE = [
    "'; DROP TABLE search; --",
    "a' | 'b",
    "a:*B & !c <2> (d",
    "\\' \\\\ $1 %s {q}",
    "%%% a ((((((",
    "or or or or",
    "\u202e\u0301a\ufeff",
    "🙂 a 🙂",
    "".join(chr(code) for code in range(33, 127)),
    "a" * 1000,
    "东" * 32,
]


@pytest.mark.parametrize("q", HOSTILE)
async def test_accepts_any_other_query(client: AsyncClient, q: str) -> None:
    response = await client.get("/api/search", params={"q": q, "in": "everything"})

    assert response.status_code == 200
    assert isinstance(response.json()["results"], list)


@pytest.mark.slow
async def test_reports_pending_events(
    own_client: AsyncClient, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process is indexing the session."""
    monkeypatch.setattr(search_store, "_CATCH_UP_SECONDS", 0.25)
    monkeypatch.setattr(search_indexer, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(search_indexer, "_COLLECT_SECONDS", 0.01)
    async with connection.transaction():
        session = await store(own_client)
        await connection.execute("SELECT FROM search_progress WHERE session_id = %s FOR UPDATE", [session])
        await append(own_client, session, PROMPT)
        locked = (await own_client.get("/api/search?q=heron")).json()
    unlocked = (await own_client.get("/api/search?q=heron")).json()

    assert (locked, len(unlocked["results"]), unlocked.get("pending")) == (
        {"results": [], "pending": 2},
        1,
        None,
    )


@pytest.mark.slow
async def test_indexes_in_the_background(own_client: AsyncClient, connection: AsyncConnection) -> None:
    await store(own_client, PROMPT)

    async def is_indexed() -> bool:
        query = "SELECT count(*) FROM search WHERE words @@ 'heron'"
        return await (await connection.execute(query)).fetchone() != (0,)

    await until(is_indexed)


@pytest.mark.slow
async def test_concurrent_searches(own_client: AsyncClient) -> None:
    session = await store(own_client)

    async def append_and_search(number: int) -> int:
        line = json.dumps(claude.line("user", f"bird{number}x"))
        await append(own_client, session, line)
        return len((await own_client.get(f"/api/search?q=bird{number}x")).json()["results"])

    assert await asyncio.gather(*map(append_and_search, range(20))) == [1] * 20


async def test_errors_do_not_repeat_the_query(client: AsyncClient) -> None:
    name = f"canary{uuid4().hex}"
    response = await client.get("/api/search", params={"q": f"-{name}"})

    assert response.status_code == 400
    assert name not in response.text


async def within(client: AsyncClient, session: str, **params: Any) -> tuple[list[int], int, list[bool]]:
    """The numbers of a page of hits, the total, and whether it has correct cursors for the next and previous hits."""
    response = await client.get(f"/api/sessions/{session}/search", params=params)
    response.raise_for_status()
    page = response.json()
    hits = page["hits"]
    assert [hit["number"] for hit in hits] == [hit["sequence"] for hit in hits] or "in" in params
    cursors = [page.get("nextAfter"), page.get("prevBefore")]
    assert not hits or set(cursors) <= {None, hits[0]["eventSequence"], hits[-1]["eventSequence"]}
    return [hit["number"] for hit in hits], page["total"], [each is not None for each in cursors]


async def test_hits_of_a_session_are_numbered_in_the_order_of_its_log(own_client: AsyncClient) -> None:
    lines = [line for _ in range(10) for line in (PROMPT, CALL, RESULT)]
    session = await store(own_client, *lines)
    await store(own_client, PROMPT)
    events = (await own_client.get(f"/api/sessions/{session}/events")).json()["events"]
    of = {
        event["messageSequence"]: event["sequence"]
        for event in reversed(events)
        if "messageSequence" in event
    }

    pages = {
        "all": await within(own_client, session, q="heron"),
        "a page": await within(own_client, session, q="heron", limit=4, after=of[9] - 1),
        "the last page": await within(own_client, session, q="heron", limit=4, after=of[29] - 1),
        "before a place": await within(own_client, session, q="heron", limit=4, before=of[13]),
        "between two places": await within(own_client, session, q="heron", after=of[8], before=of[11]),
        "before the end": await within(own_client, session, q="heron", limit=4, before=2**53 - 1),
        "before the first hit": await within(own_client, session, q="heron", before=1),
        "around a place": await within(own_client, session, q="heron", limit=4, at=of[15]),
        "around the start": await within(own_client, session, q="heron", limit=4, at=1),
        "after the end": await within(own_client, session, q="heron", limit=4, at=2**50),
        "after the last hit": await within(own_client, session, q="heron", after=of[30] + 1),
        "results only": await within(own_client, session, q="grey", **{"in": "results"}, limit=1),
        "nothing": await within(own_client, session, q="kite"),
    }

    def numbers(first: int, last: int) -> list[int]:
        return [*range(first, last + 1)]

    assert pages == {
        "all": (numbers(1, 30), 30, [False, False]),
        "a page": (numbers(9, 12), 30, [True, True]),
        "the last page": ([29, 30], 30, [False, True]),
        "before a place": (numbers(9, 12), 30, [True, True]),
        "between two places": ([9, 10], 30, [True, True]),
        "before the end": (numbers(27, 30), 30, [False, True]),
        "before the first hit": ([], 30, [False, False]),
        "around a place": (numbers(13, 16), 30, [True, True]),
        "around the start": (numbers(1, 4), 30, [True, False]),
        "after the end": (numbers(28, 30), 30, [False, True]),
        "after the last hit": ([], 30, [False, False]),
        "results only": ([1], 10, [True, False]),
        "nothing": ([], 0, [False, False]),
    }


async def test_hit_of_a_session(own_client: AsyncClient) -> None:
    session = await store(own_client, PROMPT, CALL, RESULT)
    events = (await own_client.get(f"/api/sessions/{session}/events?type=tool_result")).json()["events"]

    page = (await own_client.get(f"/api/sessions/{session}/search", params={"q": "birds.txt"})).json()

    assert page == {
        "hits": [
            {
                "number": 1,
                "sequence": 3,
                "eventId": events[0]["id"],
                "eventSequence": events[0]["sequence"],
                "type": "tool_result",
                "role": "tool",
                "createdAt": "2026-11-02T09:00:03Z",
                "snippet": "birds.txt: grey heron",
                "marks": [[0, 9]],
            }
        ],
        "total": 1,
    }


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"q": "-heron"}, 400, "invalid_parameter"),
        ({"q": ""}, 400, "invalid_parameter"),
        ({"q": "heron", "limit": 101}, 400, "invalid_parameter"),
        ({"q": "heron", "after": -1}, 400, "invalid_parameter"),
        ({"q": "heron", "in": "kites"}, 400, "invalid_parameter"),
    ],
)
async def test_invalid_search_within_a_session(
    client: AsyncClient, params: dict[str, Any], status: int, code: str
) -> None:
    session = await store(client)
    response = await client.get(f"/api/sessions/{session}/search", params=params)
    assert (response.status_code, response.json()["code"]) == (status, code)


async def test_search_within_an_unknown_session(client: AsyncClient) -> None:
    response = await client.get(f"/api/sessions/{uuid4()}/search", params={"q": "heron"})
    assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
