"""Pages of other sites have no access, and responses have strict headers."""

from collections.abc import Awaitable, Callable, Mapping

import pytest
from httpx2 import AsyncClient, Response
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ash_server.app import create_app
from ash_server.settings import Settings
from tests.server.app_client import BASE, app_client
from tests.waiting import TIMEOUT

BODY = {"content": "a"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:4100", 200),
        ("127.0.0.1", 200),
        ("localhost:4100", 200),
        ("LOCALHOST", 200),
        ("[::1]:9", 200),
        ("evil.example", 421),
        ("evil.example:4100", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("127.0.0.1:4100@evil.example", 421),
        ("192.168.0.1", 421),
        ("[::2]", 421),
        ("", 421),
    ],
)
async def test_accepts_its_own_host_names_only(client: AsyncClient, host: str, status: int) -> None:
    response = await client.get("/health/live", headers={"Host": host})

    assert response.status_code == status
    assert status == 200 or response.json()["code"] == "host_not_allowed"


@pytest.mark.slow
async def test_checks_the_host_name_of_each_page(client: AsyncClient) -> None:
    paths = ("/docs", "/openapi.json", "/login", "/")
    hosts = {"localhost:4100": 200, "evil.example": 421}
    statuses = {
        path: {host: (await client.get(path, headers={"Host": host})).status_code for host in hosts}
        for path in paths
    }

    assert statuses == dict.fromkeys(paths, hosts)


@pytest.mark.parametrize(
    ("settings", "host", "status"),
    [
        (Settings(host="127.0.0.2"), "127.0.0.2:4100", 200),
        (Settings(host="127.0.0.2"), "evil.example", 421),
        (Settings(host="::1"), "[::1]", 200),
        (Settings(host="::1"), "evil.example", 421),
        (Settings(host="localhost"), "evil.example", 421),
        (Settings(host="0.0.0.0"), "ash.example", 200),
        (Settings(host="10.0.0.7"), "ash.example", 200),
        (Settings(public_url="https://Ash.example"), "ash.example", 200),
        (Settings(public_url="https://ash.example"), "127.0.0.1", 200),
        (Settings(public_url="https://ash.example"), "evil.example", 421),
        (Settings(host="0.0.0.0", public_url="https://ash.example:8443/"), "ash.example:8443", 200),
        (Settings(host="0.0.0.0", public_url="https://ash.example"), "evil.example", 421),
        (Settings(public_url="http://[2001:db8::1]"), "[2001:db8::1]", 200),
    ],
)
async def test_host_names_depend_on_the_listening_address(settings: Settings, host: str, status: int) -> None:
    app = create_app(settings, database_url="postgresql://127.0.0.1:1/nowhere")
    async with app_client(app) as client:
        response = await client.get("/health/live", headers={"Host": host})

    assert response.status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://127.0.0.1:4100", 200),
        ("http://localhost:5173", 200),
        ("http://[::1]:4100", 200),
        ("https://evil.example", 403),
        ("http://127.0.0.1.evil.example", 403),
        ("http://evil.example:4100", 403),
        ("http://localhost@evil.example", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
    ],
)
async def test_rejects_writes_of_other_origins(client: AsyncClient, origin: str | None, status: int) -> None:
    response = await client.post(
        "/api/parse", json=BODY, headers={} if origin is None else {"Origin": origin}
    )

    assert response.status_code == status
    assert status == 200 or response.json()["code"] == "origin_not_allowed"


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_checks_the_origin_of_every_unsafe_method(
    client: AsyncClient, session: str, method: str
) -> None:
    address = f"{session}/messages" if method == "POST" else session

    response = await client.request(method, address, json=BODY, headers={"Origin": "https://evil.example"})

    assert response.status_code == 403
    assert (await client.get(session, headers={"Origin": "https://evil.example"})).json()["messageCount"] == 0


async def test_no_cors_headers(client: AsyncClient) -> None:
    response = await client.get("/api/sessions", headers={"Origin": "https://evil.example"})

    assert not [name for name in response.headers if name.startswith("access-control-")]


LISTED, OTHER, OWN = "https://app.example", "https://evil.example", BASE


class TestListedOrigins:
    """Pages of the sites in ASH_CORS_ORIGINS use the API; WebSockets and the cookie stay with Ash's own pages."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(cors_origins=(LISTED,))

    async def test_matrix(self, own_client: AsyncClient) -> None:
        expected = {
            (LISTED, "GET"): (200, LISTED),
            (LISTED, "POST"): (200, LISTED),
            (LISTED, "SSE"): (404, LISTED),
            (LISTED, "PREFLIGHT"): (204, LISTED),
            ("https://app.example.evil.example", "POST"): (403, None),
            ("https://app.example:8443", "POST"): (403, None),
            ("http://app.example", "POST"): (403, None),
            (OTHER, "GET"): (200, None),
            (OTHER, "POST"): (403, None),
            (OTHER, "SSE"): (403, None),
            (OTHER, "PREFLIGHT"): (400, None),
            (OWN, "POST"): (200, None),
        }
        responses = {
            (origin, method): await REQUESTS[method](own_client, {"Origin": origin})
            for origin, method in expected
        }

        assert {
            place: (each.status_code, each.headers.get("access-control-allow-origin"))
            for place, each in responses.items()
        } == expected
        assert not any("access-control-allow-credentials" in each.headers for each in responses.values())

    def test_websockets(self, server: str) -> None:
        url = f"ws{server.removeprefix('http')}{SESSION}/events/ws"
        statuses = {}
        for origin in (LISTED, OTHER, None):
            headers = {"Origin": origin} if origin else {}
            with pytest.raises(InvalidStatus) as error:
                connect(url, additional_headers=headers, open_timeout=TIMEOUT).close()
            statuses[origin] = error.value.response.status_code

        assert statuses == {LISTED: 403, OTHER: 403, None: 404}

    async def test_preflight_allows_what_clients_send(self, own_client: AsyncClient) -> None:
        response = await preflight(own_client, {"Origin": LISTED})

        headers = response.headers["access-control-allow-headers"].split(", ")
        assert {"authorization", "content-type", "last-event-id", "if-none-match"} <= set(headers)
        assert response.headers["access-control-allow-methods"] == "DELETE, GET, HEAD, PATCH, POST"


async def preflight(client: AsyncClient, headers: dict[str, str]) -> Response:
    asked = {
        "Access-Control-Request-Method": "DELETE",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    return await client.options(SESSION, headers={**headers, **asked})


SESSION = "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60"
REQUESTS: Mapping[str, Callable[[AsyncClient, dict[str, str]], Awaitable[Response]]] = {
    "GET": lambda client, headers: client.get("/api/sessions", headers=headers),
    "POST": lambda client, headers: client.post("/api/parse", json=BODY, headers=headers),
    "SSE": lambda client, headers: client.get(f"{SESSION}/events/stream", headers=headers),
    "UI": lambda client, headers: client.get(f"{SESSION}/ui-stream", headers=headers),
    "AG-UI": lambda client, headers: client.get(f"{SESSION}/ag-ui", headers=headers),
    "PREFLIGHT": preflight,
}


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/api/sessions", 200),
        ("GET", "/api/sessions/nothing", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/api/sessions", 405),
        ("POST", "/api/parse", 415),
        ("GET", "/health/live", 200),
        ("GET", "/openapi.json", 200),
    ],
)
async def test_default_headers(client: AsyncClient, method: str, address: str, status: int) -> None:
    response = await client.request(method, address)

    assert response.status_code == status
    assert {name: response.headers.get(name) for name in HEADERS} == HEADERS


HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store, private",
}


@pytest.mark.parametrize(
    ("address", "methods"),
    [
        ("/api/sessions", {"GET", "POST", "OPTIONS"}),
        ("/api/parse", {"POST", "OPTIONS"}),
        ("/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60", {"GET", "PATCH", "DELETE", "OPTIONS"}),
    ],
)
async def test_allow_header(client: AsyncClient, address: str, methods: set[str]) -> None:
    refused = await client.put(address)
    options = await client.options(address)

    assert (refused.status_code, refused.json()["code"], options.status_code) == (
        405,
        "method_not_allowed",
        204,
    )
    assert set(refused.headers["allow"].split(", ")) == set(options.headers["allow"].split(", ")) == methods
