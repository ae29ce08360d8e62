"""Responses while the database is available, unavailable, empty or restarted."""

from collections.abc import AsyncIterator
from importlib.metadata import version

import psycopg
import pytest
from httpx2 import AsyncClient
from litestar import Litestar

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_shared.model.health import API_VERSION
from tests.cluster import not_on_cluster
from tests.constraints import refused
from tests.server.app_client import app_client


@not_on_cluster("its health includes its workers")
async def test_healthy_server(client: AsyncClient) -> None:
    for address in ("/health/live", "/health/ready"):
        response = await client.get(address)
        healthy = {"status": "ok", "version": version("ash-messages"), "api": API_VERSION}
        assert (response.status_code, response.json()) == (200, healthy)


@pytest.fixture
async def offline_client() -> AsyncIterator[AsyncClient]:
    """A server without a database."""
    app = create_app(Settings(), database_url="postgresql://127.0.0.1:1/nowhere")
    async with app_client(app, raise_app_exceptions=False) as client:
        connections = app.state.store._connections
        for pool in (connections.pool, connections.stream_pool, connections.owner_pool):
            pool.timeout = 0.1
        yield client


ADDRESSES = [
    ("GET", "/health/ready"),
    ("GET", "/api/sessions"),
    ("POST", "/api/sessions"),
    ("GET", "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/messages"),
    ("POST", "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/messages"),
    ("GET", "/api/sessions/0199f3a2-7c1e-7b3a-9d55-0c7b8f1f2e60/export"),
]


@pytest.mark.slow
async def test_without_database_responds_with_retry_after(offline_client: AsyncClient) -> None:
    responses = {}
    for method, address in ADDRESSES:
        body = {"content": "a"} if address.endswith("messages") else {}
        response = await offline_client.request(method, address, json=body if method == "POST" else None)
        responses[method, address] = (
            response.status_code,
            response.json()["code"],
            "retry-after" in response.headers,
        )

    assert responses == dict.fromkeys(ADDRESSES, (503, "database_unavailable", True))
    assert (await offline_client.get("/health/live")).status_code == 200


async def test_missing_schema_is_not_ready(bare_database_url: str) -> None:
    app = create_app(Settings(), database_url=bare_database_url)
    async with app_client(app, raise_app_exceptions=False) as client:
        for address in ("/health/ready", "/api/sessions"):
            response = await client.get(address)
            assert (response.status_code, response.json()["code"]) == (503, "schema_mismatch")
            assert "retry-after" in response.headers


@pytest.mark.slow
async def test_recovers_from_lost_connections(
    own_client: AsyncClient, app: Litestar, database_url: str
) -> None:
    await own_client.post("/api/sessions", json={"title": "kept"})
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    while (after := await own_client.get("/api/sessions")).status_code != 200:
        assert after.json()["code"] == "database_unavailable"

    assert [session["title"] for session in after.json()["sessions"]] == ["kept"]


async def test_internal_errors_contain_no_data(
    own_client: AsyncClient, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with refused(database_url, "sessions", allowed="title <> 'canary-7f3a'"):
        failed = await own_client.post("/api/sessions", json={"title": "canary-7f3a"})

    assert failed.json() == {
        "type": "urn:ash:problem:internal_error",
        "title": "Internal error.",
        "status": 500,
        "code": "internal_error",
    }
    assert "POST /api/sessions failed with CheckViolation" in caplog.text
    assert "create_session" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize("path", ["/metrics", "/api/drift", "/openapi.json"])
async def test_answers_nobody_while_keys_cannot_be_checked(offline_client: AsyncClient, path: str) -> None:
    response = await offline_client.get(path)

    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
