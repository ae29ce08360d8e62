"""Cold sessions over REST: the policy, and readers that restore a session."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from httpx2 import AsyncClient

from ash_server.api.http.problems import MEDIA_TYPE
from ash_server.api.streams.events_stream import _server_sent_events, _to_chunks
from ash_server.settings import Settings
from ash_server.store import Store
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.shared.records import claude
from tests.shared.records.events import wire_event


async def _no_refusal() -> None:
    return None


@pytest.fixture
def settings() -> Settings:
    return Settings(secret=SECRET)


async def test_set_run_and_end(own_client: AsyncClient) -> None:
    off = {"sessions": 0, "textBytes": 0, "archiveBytes": 0}
    assert (await own_client.get("/api/cold")).json() == off
    missing = [await own_client.post("/api/cold/runs", json={}), await own_client.delete("/api/cold")]
    assert [(each.status_code, each.json()["code"]) for each in missing] == [(404, "no_cold_policy")] * 2

    created = (await own_client.put("/api/cold", json={"age": "180d"})).json()
    assert created.pop("setAt")
    assert created == {**off, "age": "180d"}
    run = (await own_client.post("/api/cold/runs", json={"dryRun": True})).json()
    assert run == {"isDryRun": True, "archived": 0, "restored": 0, "total": 0}
    assert (await own_client.post("/api/cold/runs", json={})).json()["isDryRun"] is False
    assert (await own_client.get("/api/cold")).json()["checkedAt"]
    refused = [await own_client.put("/api/cold", json=each) for each in ({}, {"age": "12h"})]
    assert [each.json()["code"] for each in refused] == ["invalid_body", "invalid_retention"]

    assert (await own_client.delete("/api/cold")).status_code == 204
    assert (await own_client.get("/api/cold")).json() == off


UNKNOWN = "/api/sessions/0d5c0a1e-0000-4000-8000-000000000000"

PATHS = [
    "messages",
    "messages?kind=message,record,chunk,deleted",
    "messages/1",
    "events",
    "standard-messages",
    "item-counts",
    "facts",
    "changes",
    "projections/ui-messages",
    "projections/atif",
    "projections/session-summary",
    "search?q=heron",
    "export?format=jsonl",
]


@pytest.mark.slow
async def test_answers_are_the_same_as_before(own_client: AsyncClient, store: Store) -> None:
    session = await store.sessions.create(source="claude")
    lines = [
        '{"type":"user","uuid":"u","message":{"role":"user","content":"A heron?"}}',
        '{"type":"assistant","uuid":"a","message":{"role":"assistant","content":"Yes."}}',
    ]
    await store.messages.append(session.id, lines)
    for path in PATHS:
        address = f"/api/sessions/{session.id}/{path}"
        before = await own_client.get(address)
        assert await store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))
        after = await own_client.get(address)

        assert before.status_code == 200, path
        assert (after.status_code, after.content) == (200, before.content), path
        await store.cold.restore(session.id)
        await store.search.catch_up()


READS = {
    "messages": "messages",
    "messages/1": "messages/{sequence}",
    "standard-messages": "standard-messages",
    "events": "events",
    "events/stream": "events/stream",
    "projections/openai-messages": "projections/{name}",
    "changes": "changes",
    "search?q=text": "search",
    "findings": "findings",
    "export": "export",
}
"""Routes that read texts, with their paths in the API document."""


@pytest.mark.slow
async def test_a_damaged_archive_is_a_503(own_client: AsyncClient, store: Store) -> None:
    session = await store.sessions.create(source="claude")
    await store.messages.append(session.id, ["text"])
    assert await store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))
    async with store._connections.changes() as conn:
        await conn.execute("DELETE FROM cold_archives WHERE session_id = %s", [session.id])
    answers = [await own_client.get(f"/api/sessions/{session.id}/{path}") for path in READS]

    codes = {path: answer.json().get("code") for path, answer in zip(READS, answers, strict=True)}
    assert codes == dict.fromkeys(READS, "archive_damaged")
    assert {answer.status_code for answer in answers} == {503}
    assert str(session.id) in answers[0].json()["detail"]
    assert "from a backup; `ash cold verify`" in answers[0].json()["detail"]
    assert (await own_client.get(f"/api/sessions/{session.id}/events/stream?after=9")).status_code == 409
    stream = _server_sent_events(store, session.id, 0, _no_refusal, collapse=False, render=_to_chunks)
    *_, last = [chunk async for chunk in stream]  # archived after the beginning
    assert last.startswith(b'event: closed\ndata: {"sequence":0,"code":"archive_damaged","detail":"')
    assert (await own_client.get(f"/api/sessions/{session.id}")).status_code == 200


@pytest.mark.parametrize("path", READS.values())
def test_routes_document_a_damaged_archive(path: str) -> None:
    operation = DOCUMENT["paths"][f"/api/sessions/{{session_id}}/{path}"]["get"]

    assert "archive_damaged" in operation["responses"]["503"]["content"][MEDIA_TYPE]["examples"]


async def test_equal_texts_leave_a_session_cold(own_client: AsyncClient, store: Store) -> None:
    session = await store.sessions.create()
    message = {"id": "m", "content": "A heron?"}
    event = wire_event("house", id="e", timestamp=1)
    digest = {"id": "m", "sha256": sha256(b"A heron?").hexdigest()}
    sent = [("messages", message), ("messages/compare", [digest]), ("events", event)]
    address = f"/api/sessions/{session.id}"
    for path, body in sent:
        assert (await own_client.post(f"{address}/{path}", json=body)).is_success
    assert await store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))

    for path, body in sent:
        assert (await own_client.post(f"{address}/{path}", json=body)).status_code == 200, path
    other = await own_client.post(f"{address}/messages", json={"id": "m", "content": "An egret?"})
    assert (other.status_code, other.json()["code"]) == (409, "id_conflict")
    assert await store.cold.list_cold() == [session.id]
    assert (await own_client.get("/api/search?q=egret")).json()["coldSessions"] == 1


@pytest.mark.slow
async def test_keys_see_the_same_of_a_cold_session(own_client: AsyncClient, store: Store) -> None:
    red = bearer(await create_key(store, "red", "red", "read", redacts=True))
    blue = bearer(await create_key(store, "blue", "blue", "read"))
    red_store = store.for_tenant(await store.get_tenant("red"))
    session = await red_store.sessions.create(source="claude", title="The heron")
    secret = f"ghp_{'a1B2' * 9}"
    line = claude.line("user", f"A heron? {secret}", uuid="u")
    await red_store.messages.append(session.id, [json.dumps(line)])
    address = f"/api/sessions/{session.id}"
    for path in [*PATHS, f"search?q={secret}"]:
        await red_store.cold.restore(session.id)
        await red_store.search.catch_up()
        warm = await own_client.get(f"{address}/{path}", headers=red)
        assert await red_store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))
        others = [await own_client.get(f"{each}/{path}", headers=blue) for each in (address, UNKNOWN)]
        assert await red_store.cold.list_cold() == [session.id]
        cold = await own_client.get(f"{address}/{path}", headers=red)

        assert (cold.status_code, cold.content) == (warm.status_code, warm.content), path
        assert warm.status_code == 200, path
        assert secret not in warm.text, path
        assert [each.status_code for each in others] == [404, 404], path
        assert others[0].json() == others[1].json()

    await red_store.cold.archive(session.id, datetime.now(UTC) + timedelta(days=1))
    assert (await own_client.get("/api/cold", headers=blue)).json()["sessions"] == 0
    assert "coldSessions" not in (await own_client.get("/api/search?q=heron", headers=blue)).json()
    assert (await own_client.get("/api/search?q=heron", headers=red)).json()["coldSessions"] == 1
    refused = await own_client.post("/api/cold/runs", headers=red, json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")
