"""Share links: their page, and the attacks that must fail."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx2 import AsyncClient, Response

from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.pages import shared_pages
from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.shares import ShareNotFound
from ash_server.store.connections.pool import direct_url
from tests.server.api.conftest import SECRET, bearer, create_key
from tests.server.app_client import app_client
from tests.shared.records import claude
from tests.shared.records.events import wire_event

TOKEN = "xoxb-" + "2718281828-31415926535897932384626433"
"""A token in the format of Slack."""
COOKIE = shared_pages.COOKIE


class Shared(NamedTuple):
    """A server with a shared session of the tenant red, and its keys by name."""

    client: AsyncClient
    store: Store
    """Of the tenant."""
    keys: dict[str, str]
    session: UUID

    async def share(self, key: str = "all", **body: Any) -> Response:
        path = f"/api/sessions/{self.session}/shares"
        return await self.client.post(path, json=body, headers=bearer(self.keys[key]))

    async def revoke(self, id: str, key: str = "all") -> int:
        path = f"/api/sessions/{self.session}/shares/{id}"
        return (await self.client.delete(path, headers=bearer(self.keys[key]))).status_code

    async def exchange(self, path: str) -> Response:
        """Exchange the fragment, as the page of a link does."""
        address, _, secret = path.partition("#")
        return await self.client.post(address, json={"secret": secret})

    async def open(self, **body: Any) -> str:
        """Share the session, open the link, and return its page."""
        path = (await self.share(**body)).json()["path"]
        await self.exchange(path)
        return (await self.client.get(path)).text

    async def append(self, *texts: str, **fields: Any) -> None:
        lines = [claude.line("user", text, uuid=str(uuid4()), **fields) for text in texts]
        await self.store.messages.append(self.session, list(map(json.dumps, lines)))


@pytest.fixture
async def shared(store: Store) -> AsyncIterator[Shared]:
    scopes: dict[str, tuple[str, ...]] = {
        "all": ("read", "write", "delete", "share", "admin"),
        "share": ("read", "share"),
        "blind": ("share",),
        "read": ("read", "write", "delete"),
    }
    keys = {name: await create_key(store, name, "red", *each) for name, each in scopes.items()}
    keys["redacts"] = await create_key(store, "redacts", "red", "read", "share", "admin", redacts=True)
    keys["blue"] = await create_key(store, "all", "blue", *scopes["all"])
    red = store.for_tenant(await store.get_tenant("red"))
    session = await red.sessions.create(
        source="claude", external_id="/home/ada/run-7.jsonl", title="Herons", metadata={"team": "team of ada"}
    )
    await red.sessions.update_labels(session.id, tags=["kept inside"], note="a private note")
    app = create_app(Settings(secret=SECRET), database_url=store.url)
    async with app_client(app) as client:
        result = Shared(client, red, keys, session.id)
        await result.append("first prompt", f"use {TOKEN}")
        app.state.share_limit = RateLimit(10_000)
        yield result


# --- The page of a link


async def test_link_shows_the_session_up_to_its_end(shared: Shared) -> None:
    created = (await shared.share()).json()
    path, id = created["path"], created["id"]
    before = await shared.client.get(path)
    opened = await shared.exchange(path)
    page = await shared.client.get(path)
    await shared.append("later prompt")
    event = wire_event("summary", text="a later event")
    await shared.store.events.append(shared.session, event)
    later = (await shared.client.get(path)).text
    await shared.store.events.rebuild(shared.session)
    reindexed = (await shared.client.get(path)).text

    assert set(created) == {
        "id", "sessionId", "createdAt", "expiresAt", "lastMessage", "subagents", "redacted", "keyId", "path",
    }  # fmt: skip
    assert "first prompt" not in before.text
    assert (opened.status_code, page.status_code) == (204, 200)
    assert opened.headers["set-cookie"].split("; ")[1:] == [
        "HttpOnly",
        opened.headers["set-cookie"].split("; ")[2],
        f"Path=/shares/{id}",
        "SameSite=strict",
    ]
    for text in (page.text, later, reindexed):
        assert "first prompt" in text
        assert "[redacted: slack token]" in text
        for hidden in (
            TOKEN,
            "later prompt",
            "a later event",
            "kept inside",
            "private note",
            "run-7.jsonl",
            "team of ada",
        ):
            assert hidden not in text, hidden


@pytest.mark.slow
async def test_links_with_later_messages_subagents_and_secrets(shared: Shared) -> None:
    await shared.append("line of a sidechain", isSidechain=True)
    follows = (await shared.share(follow=True)).json()["path"]
    await shared.exchange(follows)
    await shared.append("later prompt")

    assert "later prompt" in (await shared.client.get(follows)).text
    assert "line of a sidechain" not in (await shared.client.get(follows)).text
    assert "line of a sidechain" in await shared.open(subagents=True)
    assert TOKEN in await shared.open(redacted=False)


@pytest.mark.slow
async def test_the_title_of_a_link_leaves_with_its_message(shared: Shared) -> None:
    session = await shared.store.sessions.create(source="claude")
    untitled = shared._replace(session=session.id)
    await untitled.append("a prompt to delete", "another prompt")
    paths = {follow: (await untitled.share(follow=follow)).json()["path"] for follow in (False, True)}
    for path in paths.values():
        await shared.exchange(path)
    before = [(await shared.client.get(path)).text for path in paths.values()]
    await shared.store.messages.delete(session.id, 1)
    after = {follow: (await shared.client.get(path)).text for follow, path in paths.items()}

    assert all("a prompt to delete" in page for page in before)
    assert [follow for follow, page in after.items() if "a prompt to delete" in page] == []
    assert "<title>another prompt" in after[True]


async def test_redaction_by_the_address(shared: Shared) -> None:
    path = (await shared.share(redacted=False)).json()["path"]
    await shared.exchange(path)
    address = path.partition("#")[0]

    assert TOKEN in (await shared.client.get(address)).text
    assert TOKEN not in (await shared.client.get(f"{address}?redact=1")).text


async def test_headers_of_all_answers(shared: Shared) -> None:
    path = (await shared.share()).json()["path"]
    answers = [await shared.client.get(path), await shared.exchange(path), await shared.client.get(path)]

    for each in answers:
        assert each.headers["cache-control"] == "no-store, private"
        assert each.headers["referrer-policy"] == "no-referrer"
        assert each.headers["x-robots-tag"] == "noindex, nofollow"
        assert each.headers["x-content-type-options"] == "nosniff"


# --- Attacks


@pytest.mark.slow
async def test_invalid_links_answer_alike(shared: Shared, database_url: str) -> None:
    """The answer does not tell expired, revoked, unknown and wrong links, and links to deleted sessions apart."""
    answers: dict[str, Response] = {}
    paths = {}
    for name in ("revoked", "expired", "wrong", "of a new session"):
        paths[name] = (await shared.share()).json()["path"]
        await shared.exchange(paths[name])
    ids = {name: path.split("/")[2].split("#")[0] for name, path in paths.items()}
    paths["unknown"] = f"/shares/{uuid4()}#{'x' * 43}"
    assert await shared.revoke(ids["revoked"]) == 204
    async with await psycopg.AsyncConnection.connect(direct_url(database_url), autocommit=True) as conn:
        await conn.execute("UPDATE shares SET expires_at = now() WHERE id = %s", [ids["expired"]])
    paths["wrong"] = f"/shares/{ids['wrong']}#{'x' * 43}"
    shells = {"unknown": (await shared.client.get(paths["unknown"])).text}
    for name in ("revoked", "expired", "unknown", "wrong"):
        answers[name] = await shared.exchange(paths[name])
        if name != "wrong":
            shells[name] = (await shared.client.get(paths[name])).text
    await shared.store.sessions.recreate(shared.session, source="claude", external_id="/home/ada/run-7.jsonl")
    await shared.append("of another session")
    answers["recreated"] = await shared.exchange(paths["of a new session"])
    shells["recreated"] = (await shared.client.get(paths["of a new session"])).text
    await shared.store.sessions.delete(shared.session)
    answers["deleted"] = await shared.exchange(paths["of a new session"])
    shells["deleted"] = (await shared.client.get(paths["of a new session"])).text

    assert {(each.status_code, each.text) for each in answers.values()} == {(404, answers["unknown"].text)}
    assert len(set(shells.values())) == 1
    assert "share_not_found" in answers["unknown"].text


@pytest.mark.slow
async def test_secrets_of_links_open_nothing_else(shared: Shared) -> None:
    """The cookie is for one link, and neither it nor the secret is a key."""
    first, second = [(await shared.share()).json()["path"] for _ in range(2)]
    cookie = (await shared.exchange(first)).cookies[COOKIE]
    secret = first.partition("#")[2]
    shared.client.cookies.clear()
    denied = [
        await shared.client.get(second, headers={"Cookie": f"{COOKIE}={cookie}"}),
        await shared.client.get(first, headers={"Cookie": f"{COOKIE}={secret}"}),
        await shared.client.get(first, headers={"Cookie": f"ash_session={cookie}"}),
        await shared.client.get(first, headers=bearer(secret)),
        await shared.client.get(first.replace("#", f"?secret={secret}#")),
        await shared.client.get(first, headers={b"Cookie": f"{COOKIE}=\u00e9".encode()}),
    ]
    for path in (
        f"/api/sessions/{shared.session}",
        f"/api/sessions/{shared.session}/events",
        f"/api/sessions/{shared.session}/messages",
        f"/api/sessions/{shared.session}/shares",
        f"/sessions/{shared.session}",
        f"/sessions/{shared.session}.jsonl",
        "/api/sessions",
        "/api/search?q=first",
        "/api/tags",
        "/mcp",
    ):
        for headers in (
            {"Cookie": f"{COOKIE}={cookie}"},
            {"Cookie": f"ash_session={cookie}"},
            bearer(secret),
            bearer(f"ash_{secret}"),
        ):
            refused = await shared.client.get(path, headers=headers, follow_redirects=False)
            assert refused.status_code in (401, 405), (path, headers)

    assert [each.status_code for each in denied] == [200] * len(denied)
    assert [each.text for each in denied if "first prompt" in each.text] == []
    address = first.partition("#")[0]
    for suffix in (".jsonl", ".md", ".json", "/events", "/messages", "/export"):
        assert (await shared.client.get(address + suffix)).status_code in (401, 404), suffix
    assert (await shared.client.get(first, headers={"Cookie": f"{COOKIE}={cookie}"})).text.count(
        "first prompt"
    )


@pytest.mark.slow
async def test_scopes_for_sharing(shared: Shared) -> None:
    statuses = {
        (name, redacted): (await shared.share(name, redacted=redacted)).status_code
        for name in shared.keys
        for redacted in (True, False)
    }
    created = (await shared.share()).json()["id"]
    path = f"/api/sessions/{shared.session}/shares"
    lists = {
        name: (await shared.client.get(path, headers=bearer(key))).status_code
        for name, key in shared.keys.items()
    }
    revoked = {name: await shared.revoke(created, name) for name in ("read", "blue", "blind", "all")}

    assert statuses == {
        ("all", True): 201,
        ("all", False): 201,
        ("share", True): 201,
        ("share", False): 403,
        ("blind", True): 403,
        ("blind", False): 403,
        ("read", True): 403,
        ("read", False): 403,
        ("redacts", True): 201,
        ("redacts", False): 403,
        ("blue", True): 404,
        ("blue", False): 404,
    }
    assert lists == {"all": 200, "share": 200, "blind": 200, "read": 403, "redacts": 200, "blue": 404}
    assert revoked == {"read": 403, "blue": 404, "blind": 204, "all": 404}


async def test_nothing_is_shared_without_keys(store: Store) -> None:
    session = (await store.sessions.create()).id
    async with app_client(create_app(Settings(secret=SECRET), database_url=store.url)) as client:
        answer = await client.post(f"/api/sessions/{session}/shares", json={})

    assert (answer.status_code, answer.json()["code"]) == (409, "share_refused")


async def test_validity_of_links(shared: Shared) -> None:
    now = datetime.now(UTC)
    answers = {hours: await shared.share(expiresInHours=hours) for hours in (0, 1, 90 * 24, 90 * 24 + 1)}
    created = [answers[1], answers[90 * 24], await shared.share()]
    ends = [datetime.fromisoformat(each.json()["expiresAt"]) - now for each in created]

    assert [each.status_code for each in answers.values()] == [400, 201, 201, 400]
    assert [round(each / timedelta(hours=1)) for each in ends] == [1, 90 * 24, 7 * 24]


async def test_lists_contain_valid_links_without_secrets(shared: Shared, database_url: str) -> None:
    first, second = [(await shared.share()).json() for _ in range(2)]
    await shared.revoke(first["id"])
    path = f"/api/sessions/{shared.session}/shares"
    listed = (await shared.client.get(path, headers=bearer(shared.keys["all"]))).json()
    async with await psycopg.AsyncConnection.connect(direct_url(database_url)) as conn:
        stored = str(await (await conn.execute("SELECT * FROM shares")).fetchall())

    assert listed == {"shares": [{name: value for name, value in second.items() if name != "path"}]}
    assert second["path"].partition("#")[2] not in stored


async def test_openings_are_in_the_audit_log(shared: Shared) -> None:
    created = (await shared.share()).json()
    await shared.exchange(created["path"])
    await shared.client.get(created["path"])
    await shared.client.head(created["path"])
    await shared.revoke(created["id"])
    page = (await shared.client.get("/api/audit?limit=3", headers=bearer(shared.keys["all"]))).json()
    target = f"{shared.session}/{created['id']}"

    assert [(each["action"], each["target"], each.get("key")) for each in page["audit"]] == [
        ("share.revoke", target, "all"),
        ("share.open", target, None),
        ("share.create", target, "all"),
    ]


async def test_links_have_their_own_rate_limit(shared: Shared) -> None:
    shared.client._transport.app.state.share_limit = RateLimit(0.001)  # type: ignore[attr-defined]  # of the test client
    path = (await shared.share()).json()["path"]

    assert [(await shared.exchange(path)).status_code for _ in range(2)] == [204, 429]


async def test_requests_without_the_secret_do_not_use_up_a_link(shared: Shared) -> None:
    """They neither learn that the link is valid nor keep others from opening it."""
    path = (await shared.share()).json()["path"]
    limit = shared.client._transport.app.state.share_limit = RateLimit(0.001)  # type: ignore[attr-defined]  # of the test client
    limit.take = lambda key, now: RateLimit.take(limit, key, now) if isinstance(key, UUID) else None  # type: ignore[method-assign]  # many addresses
    wrong = [(await shared.exchange(f"{path[:-1]}_")).status_code for _ in range(3)]

    assert wrong == [404, 404, 404]
    assert [(await shared.exchange(path)).status_code for _ in range(2)] == [204, 429]


async def test_a_page_that_is_being_sent_ends_after_revocation(
    shared: Shared, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_pages, "_CHECK_SECONDS", 0)
    monkeypatch.setattr(shared_pages, "_PIECE_BYTES", 2)
    id = (await shared.share()).json()["id"]
    share = await store.shares.get(UUID(id))

    async def page() -> AsyncIterator[bytes]:
        yield b"abcdef"
        yield b"gh"

    pieces = []
    async for piece in shared_pages._while_valid(page(), store, share):  # type: ignore[arg-type]  # a generator
        pieces.append(piece)
        if len(pieces) == 2:
            await shared.revoke(id)

    assert pieces == [b"ab", b"cd"]
    with pytest.raises(ShareNotFound):
        await store.shares.get(UUID(id))


# --- Secrets before sharing


async def test_secrets_are_listed_by_place_without_values(shared: Shared) -> None:
    await shared.store.sessions.update_labels(shared.session, note=f"see {TOKEN}")
    events = [
        wire_event("summary", text=f"posted {TOKEN}"),
        wire_event("assistant_chunk", text=f"streamed {TOKEN}"),
    ]
    for event in events:
        await shared.store.events.append(shared.session, event)
    path = f"/api/sessions/{shared.session}/findings"
    answers = {
        key: await shared.client.get(path, headers=bearer(shared.keys[key]))
        for key in ("all", "redacts", "blind", "blue")
    }

    expected = [
        {"kind": "slack token", "count": 1, "field": "note"},
        {"kind": "slack token", "count": 1, "message": 2},
        {"kind": "slack token", "count": 1, "event": 3},
    ]
    for key in ("all", "redacts"):
        found = answers[key].json()
        assert found["total"] == 3
        assert [{**each, "event": 3} if "event" in each else each for each in found["findings"]] == expected
        assert TOKEN not in answers[key].text
    assert [answers[key].status_code for key in ("blind", "blue")] == [403, 404]
