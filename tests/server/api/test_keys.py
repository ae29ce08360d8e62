"""Keys: each route needs one, a key shows the sessions of its tenant only, and its scopes limit its permissions."""

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
import websockets
from httpx2 import AsyncClient, Response
from litestar import Litestar
from litestar.routes import HTTPRoute, WebSocketRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as connect_websocket

from ash_client import ApiError, AsyncAshClient
from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.app import create_app
from ash_server.errors import KeyRequired, RateLimited
from ash_server.keys import ring
from ash_server.keys.digests import new_key_text
from ash_server.live.session_feed import SessionFeeds
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import SCOPES, KeyScope
from ash_server.store.log.subscriptions import IDLE_SECONDS, Hub
from tests.openapi_document import DOCUMENT
from tests.server.api.conftest import SECRET, bearer, create_key, served
from tests.server.app_client import BASE, app_client
from tests.shared.records import claude
from tests.shared.records.events import turn_start, wire_event
from tests.waiting import TIMEOUT, until

OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
PUBLIC = {("GET", "/health/live"), ("GET", "/health/ready")}
GUARDED = [each for each in OPERATIONS if each[:2] not in PUBLIC]
CANARY = "canary-5f1d"


class Team(NamedTuple):
    """A tenant with a session."""

    keys: Mapping[str, str]
    """By their permissions."""
    session_id: str


@pytest.fixture
def settings() -> Settings:
    return Settings(secret=SECRET)


async def create_team(store: Store, tenant: str) -> Team:
    keys = {
        "all": await create_key(store, "all", tenant, *SCOPES),
        **{str(scope): await create_key(store, scope, tenant, scope) for scope in SCOPES},
        "expired": await create_key(store, "expired", tenant, *SCOPES, days=-1),
        "revoked": await create_key(store, "revoked", tenant, *SCOPES),
        "wrong": new_key_text(),
    }
    [revoked] = [
        key for key in await store.keys.list_keys() if (key.name, key.tenant.name) == ("revoked", tenant)
    ]
    await store.keys.revoke(revoked)
    theirs = store.for_tenant(await store.get_tenant(tenant))
    session = await theirs.sessions.create(source="claude", external_id=CANARY, title=f"{CANARY} {tenant}")
    line = claude.line("user", f"{CANARY} {tenant}", uuid=CANARY)
    await theirs.messages.append(session.id, [json.dumps(line), '{"type": "canary_type"}'])
    return Team(keys, str(session.id))


@pytest.fixture
async def red(store: Store) -> Team:
    return await create_team(store, "red")


@pytest.fixture
async def blue(store: Store) -> Team:
    return await create_team(store, "blue")


@pytest.fixture
async def keyed_client(app: Litestar, red: Team, blue: Team) -> AsyncIterator[AsyncClient]:
    async with app_client(app, raise_app_exceptions=False) as client:
        client.follow_redirects = False
        yield client


async def call(
    client: AsyncClient, method: str, path: str, operation: Any, session_id: str, key: str | None
) -> Response:
    """Call an operation for a session, with the body of its first example."""
    query = {each["name"]: CANARY for each in operation.get("parameters", []) if each["name"] == "q"}
    address = re.sub(r"\{sequence\}", "1", path.replace("{session_id}", session_id))
    address = (
        address.replace("{name}", "openai-messages")
        .replace("{budget_id}", session_id)
        .replace("{share_id}", session_id)
    )
    options: dict[str, Any] = {}
    if body := operation.get("requestBody"):
        media_type, content = next(iter(body["content"].items()))
        value = next(iter(content["examples"].values()))["value"]
        options = {"content": value if isinstance(value, str) else json.dumps(value)}
        options["headers"] = {"Content-Type": media_type}
    headers = {**options.pop("headers", {}), **(bearer(key) if key else {})}
    return await client.request(method, address, params=query, headers=headers, **options)


def operation_id(case: Any) -> str:
    return f"{case[0]} {case[1]}" if isinstance(case, tuple) else str(case)


# --- Every route of the document, so that new ones are covered


async def test_every_route_refuses_requests_without_valid_key(keyed_client: AsyncClient, red: Team) -> None:
    answers = {
        (method, path, name): answer
        for method, path, operation in GUARDED
        for name in (None, "wrong", "revoked", "expired")
        for answer in [
            await call(keyed_client, method, path, operation, red.session_id, name and red.keys[name])
        ]
    }
    expected = {
        None: "key_required",
        "wrong": "key_invalid",
        "revoked": "key_invalid",
        "expired": "key_invalid",
    }

    assert {place: (each.status_code, each.json()["code"]) for place, each in answers.items()} == {
        place: (401, expected[place[2]]) for place in answers
    }
    assert {each.headers["WWW-Authenticate"] for each in answers.values()} == {'Bearer realm="Ash"'}
    assert {each.headers["Content-Type"] for each in answers.values()} == {"application/problem+json"}
    assert not any(CANARY in each.text for each in answers.values())


PUBLIC_PATHS = {
    "/login",
    "/login/code",
    "/logout",
    "/shares/{share_id}",
    "/health/live",
    "/health/ready",
    "/docs",
    "/docs/{name}",
    "/viewer/{name}",
    "/viewer/{digest}/{path}",
}


@pytest.mark.slow
async def test_every_other_path_needs_key(keyed_client: AsyncClient, app: Litestar, red: Team) -> None:
    """Also paths outside of the document, and methods that the framework adds."""
    routes = [
        (method, route.path_format)
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for method in route.methods
    ]
    values = dict.fromkeys(("{session_id}", "{reference}", "{budget_id}", "{share_id}"), red.session_id) | {
        "{sequence}": "1"
    }
    answers = {}
    for method, path in routes:
        address = re.sub(r"\{\w+\}", lambda match: values.get(match[0], "openai-messages"), path)
        for key in (None, "revoked"):
            headers = bearer(red.keys[key]) if key else {}
            answers[method, path, key] = await keyed_client.request(method, address, headers=headers)

    public = {path for (_, path, _), each in answers.items() if each.status_code != 401}
    assert public == PUBLIC_PATHS
    assert {type(route) for route in app.routes} == {HTTPRoute, WebSocketRoute}  # nothing is mounted
    assert {path for _, path in routes} >= {"/openapi.json", "/", "/sessions/{reference}", "/api/sessions"}
    assert not any(CANARY in each.text + str(each.headers) for each in answers.values())


async def test_public_routes_answer_without_key(keyed_client: AsyncClient) -> None:
    asset = re.findall(r'"(/viewer/[^"]+)"', (await keyed_client.get("/login")).text)[0]
    paths = [*(path for _, path in sorted(PUBLIC)), "/login", "/docs", asset]

    assert {path: (await keyed_client.get(path)).status_code for path in paths} == dict.fromkeys(paths, 200)


async def test_sessions_of_other_tenants_do_not_exist(
    keyed_client: AsyncClient, red: Team, blue: Team
) -> None:
    """Each route answers for the session of another tenant as it does for an id that nobody has."""
    with_session = [each for each in GUARDED if "{session_id}" in each[1]]
    theirs, unknown = [
        {
            (method, path): await call(keyed_client, method, path, operation, session_id, blue.keys["all"])
            for method, path, operation in with_session
        }
        for session_id in (red.session_id, str(uuid4()))
    ]

    assert {place: summary(each) for place, each in theirs.items()} == {
        place: summary(each) for place, each in unknown.items()
    }
    not_found = {place for place, each in theirs.items() if each.status_code == 404}
    assert theirs.keys() - not_found == {("GET", "/api/sessions/{session_id}/events/ws")}
    own = await keyed_client.get(f"/api/sessions/{red.session_id}", headers=bearer(red.keys["read"]))
    assert own.json()["messageCount"] == 2


def summary(response: Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in response.headers.items() if name != "x-request-id"}
    return response.status_code, headers, response.content


TRANSCRIPT = {
    "source": "claude",
    "path": "projects/VALUE.jsonl",
    "names": {"session": "VALUE", "key": "transcript:VALUE", "lineage": ["record:VALUE"]},
}
COMPLETED = {**TRANSCRIPT, "modifiedAt": "2026-11-02T09:31:55Z", "hasGrown": True, "isFirst": True}
NOTE = wire_event("note", id="VALUE")


@pytest.mark.slow
async def test_parameters_tell_nothing_of_other_tenants(
    keyed_client: AsyncClient, red: Team, blue: Team
) -> None:
    """An id of another tenant has the same effect as an unknown id, wherever a request may contain one."""
    own = f"/api/sessions/{blue.session_id}"
    known = await ids_of(keyed_client, red)
    requests: list[tuple[str, str, str, Any]] = [
        ("session", "GET", path, {"q": CANARY, parameter["name"]: "VALUE"})
        for _, path, operation in GUARDED
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query" and parameter["schema"].get("format") == "uuid"
    ]
    requests += [
        ("session", "GET", "/api/sessions", {"q": "VALUE"}),
        ("transcript", "GET", "/api/sessions", {"q": "VALUE"}),
        ("entry", "GET", "/api/audit", {"before": "VALUE"}),
        ("event", "GET", f"{own}/events", {"after": "VALUE"}),
        ("event", "GET", f"{own}/events/stream", {"after": "VALUE"}),
        ("event", "POST", f"{own}/events", NOTE),
        ("event", "POST", f"{own}/messages", {"id": "VALUE", "content": "a"}),
        ("event", "POST", f"{own}/messages/compare", [{"id": "VALUE", "sha256": "0" * 64}]),
        ("session", "POST", "/api/sessions", {"parentId": "VALUE"}),
        ("transcript", "POST", "/api/sessions", {"source": "claude", "externalId": "projects/VALUE.jsonl"}),
        ("session", "POST", "/api/transcripts", {"source": "claude", "path": "a", "rejected": ["VALUE"]}),
        ("transcript", "POST", "/api/transcripts", TRANSCRIPT),
        ("transcript", "POST", f"/api/transcripts/{blue.session_id}/complete", COMPLETED),
        ("transcript", "POST", f"/api/transcripts/{blue.session_id}/complete",
         {**COMPLETED, "parent": "projects/VALUE.jsonl"}),
    ]  # fmt: skip
    theirs: list[Any] = []
    unknown: list[Any] = []
    for kind, method, path, options in requests:
        for answers, value in ((theirs, known[kind]), (unknown, known[kind][:-4] + "0000")):
            sent = json.loads(json.dumps(options).replace("VALUE", value))
            named = {"params" if method == "GET" else "json": sent}
            answer = await keyed_client.request(method, path, headers=bearer(blue.keys["all"]), **named)
            answers.append((path, answer.status_code, without_own_ids(answer.text.replace(value, "VALUE"))))

    assert theirs == unknown


async def ids_of(client: AsyncClient, team: Team) -> dict[str, str]:
    """Return ids of the tenant by kind. A transcript's id is in all its names."""
    id, key = uuid4(), bearer(team.keys["all"])
    transcript = json.loads(json.dumps(COMPLETED).replace("VALUE", id.hex))
    names = {name: transcript[name] for name in TRANSCRIPT}
    claim = (await client.post("/api/transcripts", json=names, headers=key)).json()
    completed = f"/api/transcripts/{claim['sessionId']}/complete"
    (await client.post(completed, json=transcript, headers=key)).raise_for_status()
    events = (await client.get(f"/api/sessions/{team.session_id}/events", headers=key)).json()["events"]
    audit = (await client.get("/api/audit", headers=key)).json()["audit"]
    return {
        "transcript": id.hex,
        "session": team.session_id,
        "event": events[0]["id"],
        "entry": audit[0]["id"],
    }


def without_own_ids(text: str) -> str:
    """Return the text without ids, sequences and times."""
    values = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9-]{10}T[0-9:.]+Z|(?<=\"sequence\":)[0-9]+"
    return re.sub(values, "", text)


@pytest.mark.slow
async def test_lists_show_own_tenant_only(keyed_client: AsyncClient, red: Team, blue: Team) -> None:
    lists = [
        each
        for each in GUARDED
        if "{" not in each[1] and each[0] == "GET" and not each[1].endswith("/stream")
    ]
    texts = {
        (path, team): (await call(keyed_client, method, path, operation, "", keys["all"])).text
        for method, path, operation in lists
        for team, keys in (("red", red.keys), ("blue", blue.keys))
    }

    assert len(lists) >= 4
    for (path, team), text in texts.items():
        other, other_id = ("blue", blue.session_id) if team == "red" else ("red", red.session_id)
        assert f"{CANARY} {other}" not in text, path
        assert other_id not in text, path
        assert f'"{other}"' not in text, path
    assert all(
        red.session_id in texts[path, "red"] for path in ("/api/sessions", "/api/search", "/api/drift")
    )
    assert "keys" not in texts["/metrics", "red"]


def has_code(response: Response, code: str) -> bool:
    return response.is_error and bool(response.content) and response.json()["code"] == code


SCOPES_OF_OPERATIONS: dict[tuple[str, str], set[KeyScope]] = {
    ("GET", "/api/audit"): {"admin"},
    ("GET", "/api/key"): set(),
    ("GET", "/metrics"): {"admin"},
    ("POST", "/api/parse"): {"read"},
    ("POST", "/api/sign-in-codes"): {"read"},
    ("DELETE", "/api/sessions/{session_id}"): {"delete"},
    ("DELETE", "/api/sessions/{session_id}/messages/{sequence}"): {"delete"},
    ("POST", "/api/sessions/{session_id}/messages/pop"): {"read", "delete"},
    ("POST", "/api/sessions/{session_id}/shares"): {"read", "share"},
    ("GET", "/api/sessions/{session_id}/shares"): {"share"},
    ("DELETE", "/api/sessions/{session_id}/shares/{share_id}"): {"share"},
    ("PUT", "/api/budgets"): {"admin"},
    ("DELETE", "/api/budgets/{budget_id}"): {"admin"},
    ("PUT", "/api/cold"): {"admin"},
    ("DELETE", "/api/cold"): {"admin"},
    ("POST", "/api/cold/runs"): {"admin"},
    ("PUT", "/api/retention"): {"admin"},
    ("DELETE", "/api/retention"): {"admin"},
    ("POST", "/api/retention/runs"): {"admin"},
}
"""Scopes of operations that differ from the default: `read` for GET, otherwise `write`."""


async def test_scopes_limit_routes(keyed_client: AsyncClient, store: Store, red: Team) -> None:
    """Call each operation with keys that lack one scope each, and with one that has a single scope."""
    scopes: dict[str, set[KeyScope]] = {red.keys["read"]: {"read"}}
    for without in SCOPES:
        others = set(SCOPES) - {without}
        scopes[await create_key(store, f"all but {without}", "red", *others)] = others
    refused, expected = [], []
    for method, path, operation in GUARDED:
        default: set[KeyScope] = {"read"} if method == "GET" else {"write"}
        needed = SCOPES_OF_OPERATIONS.get((method, path), default)
        for key, allowed in scopes.items():
            if path.endswith(("/stream", "/metrics")) and needed <= allowed:
                continue  # endless; metrics cover all tenants
            answer = await call(keyed_client, method, path, operation, str(uuid4()), key)
            place = (method, path, *sorted(allowed))
            refused += [place] if has_code(answer, "scope_missing") else []
            expected += [] if needed <= allowed else [place]

    assert refused == expected


async def test_refusal_names_the_missing_scope(keyed_client: AsyncClient, red: Team) -> None:
    path = f"/api/sessions/{red.session_id}"
    refused = [
        await keyed_client.delete(path, headers=bearer(red.keys["write"])),
        await keyed_client.post(f"{path}/messages/pop", headers=bearer(red.keys["write"])),
        await keyed_client.get(path, headers=bearer(red.keys["delete"])),
    ]
    deleted = await keyed_client.delete(path, headers=bearer(red.keys["delete"]))

    assert [each.json()["detail"] for each in refused] == [
        "This key has no scope `delete`; create one with `ash keys create NAME --tenant red --scopes write,delete`.",
        "This key has no scopes `read` and `delete`; create one with `ash keys create NAME --tenant red "
        "--scopes read,write,delete`.",
        "This key has no scope `read`; create one with `ash keys create NAME --tenant red --scopes read,delete`.",
    ]
    assert deleted.status_code == 204


async def test_key_that_only_writes_reads_no_text(keyed_client: AsyncClient, store: Store, red: Team) -> None:
    """It may compare texts, but does not receive stored text."""
    path = f"/api/sessions/{red.session_id}/messages"
    appended = {"id": "m", "content": f"{CANARY} text"}
    await keyed_client.post(path, json=appended, headers=bearer(red.keys["write"]))
    different = [{"id": "m", "sha256": "0" * 64}]
    answers = [
        (await keyed_client.post(f"{path}/compare", json=different, headers=bearer(key))).json()
        for key in (red.keys["write"], red.keys["all"])
    ]

    assert answers == [
        {"equal": [], "different": {"id": "m"}},
        {"equal": [], "different": appended},
    ]


@pytest.mark.slow
async def test_key_that_only_writes_gets_no_prompt(
    keyed_client: AsyncClient, store: Store, red: Team
) -> None:
    new = {"source": "claude", "externalId": "prompted", "title": "Door"}
    created = await keyed_client.post("/api/sessions", json=new, headers=bearer(red.keys["all"]))
    id = created.json()["id"]
    prompt = {"content": json.dumps({"role": "user", "content": f"{CANARY} door"})}
    path = f"/api/sessions/{id}"
    await keyed_client.post(f"{path}/messages", json=prompt, headers=bearer(red.keys["all"]))
    completed = {
        "source": "claude",
        "path": "prompted",
        "modifiedAt": "2026-11-02T09:31:55Z",
        "hasGrown": False,
    }
    prompts = {
        name: [
            (await keyed_client.request(method, address, json=body, headers=bearer(red.keys[name])))
            .json()
            .get("prompt")
            for method, address, body in (
                ("POST", "/api/sessions", new),
                ("PATCH", path, {}),
                ("POST", f"/api/transcripts/{id}/complete", completed),
            )
        ]
        for name in ("write", "all")
    }

    assert prompts == {"write": [None] * 3, "all": [f"{CANARY} door"] * 3}


@pytest.mark.slow
async def test_pages_of_other_tenants_do_not_exist(keyed_client: AsyncClient, red: Team, blue: Team) -> None:
    for suffix in ("", ".md", ".json", ".jsonl", ".html"):
        path = f"/sessions/{red.session_id}{suffix}"
        theirs = await keyed_client.get(path, headers=bearer(blue.keys["all"]))
        own = await keyed_client.get(path, headers=bearer(red.keys["read"]))

        assert (theirs.status_code, CANARY in theirs.text) == (404, False), suffix
        assert (own.status_code, CANARY in own.text) == (200, True), suffix


async def test_same_external_id_in_two_tenants(keyed_client: AsyncClient, red: Team, blue: Team) -> None:
    body = {"source": "claude", "externalId": CANARY}
    created = [
        await keyed_client.post("/api/sessions", json=body, headers=bearer(team.keys["all"]))
        for team in (red, blue)
    ]

    assert [(each.status_code, each.json()["id"]) for each in created] == [
        (200, red.session_id),
        (200, blue.session_id),
    ]


async def test_keys_are_not_accepted_elsewhere(keyed_client: AsyncClient, red: Team) -> None:
    key = red.keys["all"]
    attempts = [
        await keyed_client.get("/api/sessions", params={"api_key": key}),
        await keyed_client.get("/api/sessions", headers={"Authorization": key}),
        await keyed_client.get("/api/sessions", headers={"Authorization": f"Basic {key}"}),
        await keyed_client.get("/api/sessions", headers={"X-Api-Key": key}),
        await keyed_client.get("/api/sessions", headers={"Cookie": f"ash_session={key}"}),
    ]

    assert [each.status_code for each in attempts] == [401] * 5
    assert not any(key in each.text for each in attempts)


async def test_keys_are_not_stored(database_url: str, red: Team) -> None:
    with psycopg.connect(database_url) as conn:
        rows = conn.execute("SELECT keys::text, tenants::text FROM keys, tenants").fetchall()
        audit = conn.execute("SELECT audit::text FROM audit").fetchall()
    stored = repr(rows + audit)

    assert red.keys["all"][:10] in stored
    assert not any(key in stored or key.encode().hex() in stored for key in red.keys.values())


@pytest.mark.slow
async def test_without_keys_only_this_machine_is_served(database_url: str) -> None:
    statuses = []
    for settings in (
        Settings(),
        Settings(host="0.0.0.0"),
        Settings(host="0.0.0.0", allow_unauthenticated=True),
        Settings(public_url="https://ash.example"),
    ):
        async with app_client(create_app(settings, database_url=database_url)) as client:
            statuses.append((await client.get("/api/sessions")).status_code)

    assert statuses == [200, 401, 200, 401]


async def test_first_key_ends_open_access(
    own_client: AsyncClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.0)
    before = await own_client.get("/api/sessions")
    await create_key(store, "first", "default", "read", days=-1)
    after = await own_client.get("/api/sessions")

    assert (before.status_code, after.status_code) == (200, 401)


async def test_full_disk_refuses_no_key(keyed_client: AsyncClient, database_url: str, red: Team) -> None:
    """Only the time of the last use is not stored."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                AS $$BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END$$;
            CREATE TRIGGER refuse BEFORE UPDATE ON keys EXECUTE FUNCTION refuse()
            """
        )
        response = await keyed_client.get("/api/sessions", headers=bearer(red.keys["read"]))
        conn.execute("DROP FUNCTION refuse CASCADE")

    assert response.status_code == 200


async def test_missing_secret_refuses_keys(database_url: str, red: Team, tmp_path: Any) -> None:
    app = create_app(Settings(home=tmp_path), database_url=database_url)
    async with app_client(app) as client:
        response = await client.get("/api/sessions", headers=bearer(red.keys["all"]))

    assert (response.status_code, response.json()["code"]) == (503, "secret_missing")


class TestRateLimit:
    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(secret=SECRET, rate_limit=0.01)  # one request in 100 seconds

    async def test_limits_each_key(self, keyed_client: AsyncClient, red: Team, blue: Team) -> None:
        """Public routes and other keys are not affected; an invalid key is not counted."""
        paths = ["/health/live", f"/api/sessions/{blue.session_id}", "/api/sessions", "/docs"]
        responses = [await keyed_client.get(path, headers=bearer(red.keys["read"])) for path in paths]
        unknown = [
            await keyed_client.get("/api/sessions", headers=bearer(red.keys["wrong"])) for _ in range(3)
        ]
        other = await keyed_client.get("/api/sessions", headers=bearer(red.keys["all"]))

        assert [each.status_code for each in responses] == [200, 404, 429, 200]
        assert [each.status_code for each in unknown] == [401] * 3
        assert other.status_code == 200
        limited = responses[2]
        assert 0 < int(limited.headers["retry-after"]) <= 100
        assert limited.json() == {
            "type": "urn:ash:problem:rate_limited",
            "title": "The key sends more requests than it may.",
            "status": 429,
            "code": "rate_limited",
            "detail": "A key may send 0.01 requests per second.",
        }

    async def test_clients_without_a_key_are_not_limited(self, own_client: AsyncClient) -> None:
        assert {(await own_client.get("/api/sessions")).status_code for _ in range(5)} == {200}


@pytest.mark.parametrize(
    ("rate", "times", "expected"),
    [
        (1, [0] * 12, [0] * 10 + [1, 1]),
        (1, [0] * 10 + [0.5, 1, 1, 2.5, 2.5], [0] * 10 + [1, 0, 1, 0, 1]),
        (0.01, [0, 0, 50, 100, 100], [0, 100, 50, 0, 100]),
        (100, [0] * 1001 + [0.005, 0.01], [0] * 1000 + [1, 1, 0]),
        (1, [0] * 11 + [1000] * 11, ([0] * 10 + [1]) * 2),
    ],
)
def test_rate_limit(rate: float, times: Sequence[float], expected: list[int]) -> None:
    """The seconds to wait, by the times of the requests; 0 for those that are answered."""
    limit, key = RateLimit(rate), uuid4()

    assert [seconds_to_wait(limit, key, time) for time in times] == expected


def seconds_to_wait(limit: RateLimit, key: UUID, now: float) -> int:
    try:
        limit.take(key, now)
    except RateLimited as error:
        return int(error.headers["Retry-After"])
    return 0


@pytest.mark.slow
async def test_audit_lists_what_keys_did(keyed_client: AsyncClient, red: Team, blue: Team) -> None:
    headers = bearer(red.keys["all"])
    created = (await keyed_client.post("/api/sessions", json={}, headers=headers)).json()["id"]
    for path, body in (("", {"title": "a"}), ("", {"metadata": {}}), ("/labels", {"starred": True})):
        await keyed_client.patch(f"/api/sessions/{created}{path}", json=body, headers=headers)
    await keyed_client.post(f"/api/sessions/{created}/messages", json=[{"content": "a"}] * 2, headers=headers)
    await keyed_client.delete(f"/api/sessions/{created}/messages/1", headers=headers)
    await keyed_client.delete(f"/api/sessions/{created}/messages/1", headers=headers)
    await keyed_client.post(f"/api/sessions/{created}/messages/pop", headers=headers)
    await keyed_client.get(f"/api/sessions/{created}/export", headers=headers)
    await keyed_client.get(f"/sessions/{created}.md", headers=headers)
    for address in (f"/api/sessions/{blue.session_id}/export", f"/sessions/{blue.session_id}.md"):
        assert (await keyed_client.get(address, headers=headers)).status_code == 404
    await keyed_client.delete(f"/api/sessions/{created}", headers=headers)
    page = (await keyed_client.get("/api/audit", params={"limit": 8}, headers=headers)).json()
    rest = await keyed_client.get("/api/audit", params={"before": page["nextBefore"]}, headers=headers)

    assert [(each["action"], each["target"], each["key"]) for each in page["audit"]] == [
        ("session.delete", created, "all"),
        ("session.export", created, "all"),
        ("session.export", created, "all"),
        ("message.delete", f"{created}/2", "all"),
        ("message.delete", f"{created}/1", "all"),
        ("session.label", created, "all"),
        ("session.rename", created, "all"),
        ("session.create", created, "all"),
    ]
    assert {each["tenant"] for each in rest.json()["audit"]} == {"red"}
    assert {each["action"] for each in rest.json()["audit"]} == {"key.create", "key.revoke"}


async def test_audit_has_each_session_that_a_request_of_spans_creates(
    keyed_client: AsyncClient, red: Team
) -> None:
    headers = bearer(red.keys["all"])
    values = [("gen_ai.conversation.id", f"c{number}") for number in range(3)]
    spans = [
        {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{number + 1:016x}",
            "attributes": [{"key": key, "value": {"stringValue": value}}],
        }
        for number, (key, value) in enumerate(values)
    ]
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}

    assert (await keyed_client.post("/v1/traces", json=body, headers=headers)).json() == {}

    page = (await keyed_client.get("/api/audit", params={"limit": 3}, headers=headers)).json()["audit"]
    found = await keyed_client.get("/api/sessions", params={"source": "otel"}, headers=headers)
    sessions = found.json()["sessions"]
    assert {each["externalId"] for each in sessions} == {f"conversation:c{number}" for number in range(3)}
    assert {(each["action"], each["target"], each["key"]) for each in page} == {
        ("session.create", each["id"], "all") for each in sessions
    }


@pytest.mark.slow
async def test_audit_counts_refused_sign_ins(
    app: Litestar, store: Store, red: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one entry per address and minute, for the default tenant and without the key."""
    monkeypatch.setattr(ring, "_MAX_REFUSED_ADDRESSES", 3)
    attempts = [(1, "192.0.2.7"), (1, "2001:db8::1"), (1, "192.0.2.7"), (1, "2001:db8::2"), (1, "x"),
                (1, "198.51.100.1"), (1, "198.51.100.2"), (1, "192.0.2.7"), (2, "192.0.2.7")]  # fmt: skip
    offered = red.keys["wrong"]
    admin = await create_key(store, "admin", "default", "admin")
    with served(app) as server:
        async with AsyncClient(base_url=server) as client:
            for minute, address in attempts:
                monkeypatch.setattr(ring, "_current_minute", lambda minute=minute: minute)
                headers = {"Origin": server, "X-Forwarded-For": address}
                answer = await client.post("/login", data={"key": offered}, headers=headers)
                assert answer.status_code == 401
            pages = [
                (await client.get("/api/audit", headers=bearer(key))).json()["audit"]
                for key in (admin, red.keys["all"])
            ]
    refused = [each for each in pages[0] if each["action"] == "sign_in.refused"]

    assert sorted((each["target"], each["count"]) for each in refused) == [
        ("192.0.2.7", 1),
        ("192.0.2.7", 3),
        ("2001:db8::/64", 2),
        ("other addresses", 2),
        ("unknown", 1),
    ]
    assert all("key" not in each for each in refused)
    assert not any("refused" in each["action"] for each in pages[1])
    assert offered not in str(pages)


# --- Streams


@pytest.fixture
def keyed_server(app: Litestar, red: Team, blue: Team, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Streams check keys even while there is nothing to send."""
    for module in ("ash_server.store.log.subscriptions", "ash_server.live.session_feed"):
        monkeypatch.setattr(f"{module}.HEARTBEAT_SECONDS", 3600.0)
        monkeypatch.setattr(f"{module}.IDLE_SECONDS", 0.1)
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.1)
    with served(app) as address:
        yield address


async def revoke(store: Store, name: str, tenant: str) -> None:
    [key] = [each for each in await store.keys.list_keys() if (each.name, each.tenant.name) == (name, tenant)]
    await store.keys.revoke(key)


def test_revoked_keys_are_refused_within_five_seconds() -> None:
    assert ring._REMEMBERED_SECONDS + IDLE_SECONDS < 5


@pytest.mark.parametrize("path", ["/api/sessions/stream", "/api/sessions/{}/events/stream"])
async def test_revocation_ends_streams(keyed_server: str, store: Store, red: Team, path: str) -> None:
    address = keyed_server + path.format(red.session_id)
    async with AsyncClient() as client:
        async with client.stream("GET", address, headers=bearer(red.keys["read"])) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if line == "event: caught_up":
                    break
            await revoke(store, "read", "red")
            rest = [line async for line in lines]
        again = await client.get(address, headers=bearer(red.keys["read"]))

    closed = rest[rest.index("event: closed") + 1]
    assert json.loads(closed.removeprefix("data: "))["code"] == "key_invalid"
    assert again.status_code == 401


@pytest.mark.slow
async def test_first_key_ends_streams_with_the_reason(
    app: Litestar, store: Store, session_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The streams are opened while the server still assumes that there are no keys."""
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 3600.0)
    monkeypatch.setattr("ash_server.store.log.subscriptions.HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr("ash_server.live.session_feed.HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 600.0)
    start = turn_start(turnId="t")
    for event in (start, wire_event("assistant_chunk", text="a", turnId="t")):
        await store.events.append(session_id, event)
    with served(app) as server:
        async with AsyncClient() as client:
            assert (await client.get(f"{server}/api/sessions")).status_code == 200
        await create_key(store, "first", "default", "read")
        session = f"/api/sessions/{session_id}"
        paths = ("/api/sessions/stream", f"{session}/events/stream", f"{session}/ui-stream")
        ended = [asyncio.create_task(read_to_end(server + path)) for path in paths]
        closed = asyncio.create_task(close_of(f"{server.replace('http', 'ws')}{session}/events/ws"))
        followed = asyncio.create_task(follow_to_end(server, session_id))
        await until(lambda: open_streams(app) == 5)
        app.state.key_ring._no_keys_until = 0
        ends = [(await each)[-1] for each in ended]
        error, close = await followed, await closed

    detail = KeyRequired.title
    reason = {"code": "key_required", "detail": detail}
    assert close == (4401, "key_required")
    assert [json.loads(end).items() >= reason.items() for end in ends[:2]] == [True, True]
    assert json.loads(ends[2]) == {"type": "error", "errorText": f"The stream was cut off. {detail}"}
    assert (error.code, error.detail, error.status) == ("key_required", detail, 401)


def open_streams(app: Litestar) -> int:
    hub: Hub = app.state.store.hub
    feeds: SessionFeeds = app.state.session_feeds
    return hub.count_subscriptions().subscribers + feeds.subscriber_count


async def close_of(address: str) -> tuple[int, str] | None:
    """Return the close code and reason of a WebSocket."""
    async with websockets.connect(address) as socket:
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as error:
            return None if error.rcvd is None else (error.rcvd.code, error.rcvd.reason)


async def read_to_end(address: str) -> list[str]:
    """Return the data of the events, except the end of an AI SDK stream."""
    async with AsyncClient() as client, client.stream("GET", address) as response:
        lines = [line.removeprefix("data: ") async for line in response.aiter_lines()]
    return [line for line in lines if line.startswith("{")]


async def follow_to_end(server: str, session_id: UUID) -> ApiError:
    async with AsyncAshClient(server) as client:
        with pytest.raises(ApiError) as error:
            async for _ in client.follow(session_id):
                pass
    return error.value


@pytest.mark.slow
async def test_revocation_cuts_off_a_ui_stream(keyed_server: str, store: Store, red: Team) -> None:
    address = f"{keyed_server}/api/sessions/{red.session_id}"
    start = turn_start(turnId="t")
    chunk = wire_event("assistant_chunk", text="a", turnId="t")
    async with AsyncClient() as client:
        await client.post(f"{address}/events", json=[start, chunk], headers=bearer(red.keys["all"]))
        async with client.stream("GET", f"{address}/ui-stream", headers=bearer(red.keys["read"])) as response:
            lines = response.aiter_lines()
            async for line in lines:
                if "text-delta" in line:
                    break
            await revoke(store, "read", "red")
            rest = [line async for line in lines if line.startswith("data: ")]
        again = await client.get(f"{address}/ui-stream", headers=bearer(red.keys["read"]))

    assert ["cut off" in line for line in rest] == [True, False]
    assert (rest[-1], again.status_code) == ("data: [DONE]", 401)


async def test_revocation_closes_websocket(keyed_server: str, store: Store, red: Team) -> None:
    address = f"{keyed_server.replace('http', 'ws')}/api/sessions/{red.session_id}/events/ws"
    headers = bearer(red.keys["read"])

    def read_until_closed(revoked: asyncio.AbstractEventLoop) -> int | None:
        with connect_websocket(address, additional_headers=headers, open_timeout=TIMEOUT) as socket:
            while json.loads(socket.recv())["type"] != "caught_up":
                pass
            asyncio.run_coroutine_threadsafe(revoke(store, "read", "red"), revoked).result()
            try:
                while True:
                    socket.recv()
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd else None

    assert await asyncio.to_thread(read_until_closed, asyncio.get_running_loop()) == 4401


@pytest.mark.slow
def test_websocket_needs_key_of_its_tenant(keyed_server: str, red: Team, blue: Team) -> None:
    address = f"{keyed_server.replace('http', 'ws')}/api/sessions/{red.session_id}/events/ws"
    keys = {"none": None, **red.keys, "blue": blue.keys["all"]}
    expected = {"none": 401, "wrong": 401, "revoked": 401, "expired": 401, "write": 403, "admin": 403}
    expected["blue"] = 404

    assert {name: refusal(address, keys[name]) for name in expected} == expected


def refusal(address: str, key: str | None) -> int:
    """Return the status of a refused WebSocket."""
    with pytest.raises(InvalidStatus) as error:
        connect_websocket(address, additional_headers=bearer(key) if key else {}, open_timeout=TIMEOUT)
    return error.value.response.status_code


@pytest.mark.slow
async def test_feed_shows_changes_of_own_tenant(
    keyed_server: str, store: Store, red: Team, blue: Team
) -> None:
    seen: list[str] = []

    async def follow() -> None:
        async with AsyncClient() as client:
            stream = client.stream(
                "GET", f"{keyed_server}/api/sessions/stream", headers=bearer(blue.keys["read"])
            )
            async with stream as response:
                async for line in response.aiter_lines():
                    seen.append(line)  # noqa: PERF401  # read by the test meanwhile

    task = asyncio.create_task(follow())
    await until(lambda: _is_in("event: caught_up", seen))
    for tenant, team in (("red", red), ("blue", blue)):
        theirs = store.for_tenant(await store.get_tenant(tenant))
        await theirs.sessions.update(UUID(team.session_id), title=f"new {tenant}")
        await theirs.sessions.delete(UUID(team.session_id))
    await until(lambda: _is_in("deleted", seen))
    task.cancel()

    assert blue.session_id in "".join(seen)
    assert red.session_id not in "".join(seen)


async def _is_in(text: str, lines: list[str]) -> bool:
    return text in "\n".join(lines)


# --- Browsers


async def sign_in(client: AsyncClient, key: str, next: str = "/", origin: str | None = BASE) -> Response:
    headers = {"Origin": origin} if origin else {}
    return await client.post("/login", data={"key": key, "next": next}, headers=headers)


async def test_browser_signs_in_and_out(keyed_client: AsyncClient, red: Team, blue: Team) -> None:
    page = f"/sessions/{red.session_id}?at=1"
    sent = await keyed_client.get(page, headers={"Accept": "text/html"})
    form = await keyed_client.get(sent.headers["Location"])
    signed_in = await sign_in(keyed_client, red.keys["all"], page)
    cookie = signed_in.headers["Set-Cookie"]
    listed = await keyed_client.get("/api/sessions")
    messages = await keyed_client.get(f"/api/sessions/{red.session_id}/messages")
    signed_out = await keyed_client.post("/logout", headers={"Origin": BASE})
    with_old_cookie = await keyed_client.get("/api/sessions", headers={"Cookie": cookie.partition(";")[0]})

    assert (sent.status_code, sent.headers["Location"]) == (
        303,
        f"/login?next=/sessions/{red.session_id}%3Fat%3D1",
    )
    assert f'value="{page}"' in form.text
    assert (signed_in.status_code, signed_in.headers["Location"]) == (303, page)
    assert re.fullmatch(
        "ash_session=[A-Za-z0-9]{43}; HttpOnly; Max-Age=1209600; Path=/; SameSite=strict", cookie
    )
    assert [each["id"] for each in listed.json()["sessions"]] == [red.session_id]
    assert messages.headers["Cache-Control"] == "no-store, private"
    assert (signed_out.status_code, signed_out.headers["Location"]) == (303, "/login")
    assert with_old_cookie.status_code == 401


async def test_cookie_is_secure_behind_tls(app: Litestar, red: Team) -> None:
    base = "https://127.0.0.1:4100"
    async with app_client(app, base_url=base) as client:
        client.follow_redirects = False
        signed_in = await sign_in(client, red.keys["all"], origin=base)
        listed = await client.get("/api/sessions")

    assert re.match("__Host-ash_session=.*Path=/; SameSite=strict; Secure$", signed_in.headers["Set-Cookie"])
    assert listed.status_code == 200


async def test_sign_in_with_invalid_key(keyed_client: AsyncClient, red: Team) -> None:
    for name in ("wrong", "revoked", "expired"):
        response = await sign_in(keyed_client, red.keys[name])

        assert (response.status_code, "Set-Cookie" in response.headers) == (401, False), name
        assert "This key is not valid." in response.text, name
        assert red.keys[name] not in response.text, name


NEXT_ADDRESSES = {
    "/sessions/a%20b": "/sessions/a%20b",
    "/sessions/é😀?q=ä ö#ü": "/sessions/%C3%A9%F0%9F%98%80?q=%C3%A4%20%C3%B6#%C3%BC",
    "/sessions/%C3%A9?q=%22": "/sessions/%C3%A9?q=%22",
    "/?q=\"'<b>&amp;+%2B": "/?q=%22'%3Cb%3E&amp;+%2B",
    "/sessions/what?%3F#%23": "/sessions/what?%3F#%23",
    "/a\\b": "/a%5Cb",
    "/\t/evil.example": "/%09/evil.example",
    "/a\r\nSet-Cookie: b": "/a%0D%0ASet-Cookie:%20b",
    "/" + "a" * 8000: "/" + "a" * 8000,
    "/" + "/" * 8192: "/",
    "/" + "é" * 1400: "/",
}
"""Where a sign-in leads, by the address that needed a key."""


async def test_sign_in_returns_to_any_address(keyed_client: AsyncClient, red: Team) -> None:
    reached = {}
    for path in NEXT_ADDRESSES:
        page = await keyed_client.get("/login", params={"next": path})
        [shown] = re.findall('name="next" value="([^"]*)"', page.text)
        answers = [
            await sign_in(keyed_client, red.keys["all"], next) for next in (path, html.unescape(shown))
        ]
        reached[path] = [(each.status_code, each.headers["Location"]) for each in answers]
        keyed_client.cookies.clear()

    assert reached == {path: [(303, expected)] * 2 for path, expected in NEXT_ADDRESSES.items()}


@pytest.mark.slow
async def test_page_without_key_leads_back_to_it(keyed_server: str, red: Team) -> None:
    paths = ["/sessions/a%20b", "/sessions/%C3%A9%2F%23%3F?q=%22+%2B", "/sessions/x?q=" + "a" * 8000]
    reached = []
    async with AsyncClient(base_url=keyed_server) as client:
        for path in paths:
            sent = await client.get(path, headers={"Accept": "text/html"})
            form = await client.get(sent.headers["Location"])
            [next] = re.findall('name="next" value="([^"]*)"', form.text)
            signed_in = await sign_in(client, red.keys["all"], html.unescape(next), origin=keyed_server)
            client.cookies.clear()
            reached.append(signed_in.headers["Location"])
        endless = await client.get("/", params={"q": "a" * 20_000}, headers={"Accept": "text/html"})

    assert reached == paths
    assert endless.headers["Location"] == "/login?next=/"


async def test_sign_in_leads_to_own_pages_only(keyed_client: AsyncClient, red: Team) -> None:
    others = ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "")
    answers = [await sign_in(keyed_client, red.keys["all"], next) for next in others]

    assert [each.headers["Location"] for each in answers] == ["/"] * len(others)


@pytest.mark.slow
async def test_cookie_changes_nothing_for_other_pages(keyed_client: AsyncClient, red: Team) -> None:
    await sign_in(keyed_client, red.keys["all"])
    expected = {None: 403, "null": 403, "https://evil.example": 403, "http://localhost:5000": 403, BASE: 201}
    statuses = {}
    for origin in expected:
        headers = {} if origin is None else {"Origin": origin}
        response = await keyed_client.post("/api/sessions", json={}, headers=headers)
        statuses[origin] = response.status_code
    keyless_sign_in = await sign_in(keyed_client, red.keys["all"], origin="https://evil.example")

    assert statuses == expected
    assert keyless_sign_in.status_code == 403


async def test_revocation_ends_sign_in(
    keyed_client: AsyncClient, store: Store, red: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.0)
    await sign_in(keyed_client, red.keys["all"])
    before = await keyed_client.get("/api/sessions")
    await revoke(store, "all", "red")
    after = await keyed_client.get("/api/sessions")

    assert (before.status_code, after.status_code) == (200, 401)
