"""The application, called in-process or served on a port.

Most tests create their own sessions and share one application. Tests that list all sessions, change settings or break
something use an application with a separate database.
"""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import psycopg
import pytest
import uvicorn
from httpx2 import AsyncClient
from litestar import Litestar
from psycopg.conninfo import conninfo_to_dict

from ash_server.api.http.server.serve import address, listen, server_config
from ash_server.app import create_app
from ash_server.keys.digests import digest, new_key_text, shown_prefix
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import SCOPES, NewKey
from ash_server.store.connections.pool import direct_url
from tests.cluster import on_citus
from tests.conftest import at_database, empty_database, new_database
from tests.server.app_client import app_client

SECRET = "a secret of the tests"

SHARED: Literal["function", "session"] = "function" if on_citus() else "session"
"""A cluster has one database, which each test empties."""


async def create_key(
    store: Store, name: str, tenant: str, *scopes: Any, days: float | None = None, redacts: bool = False
) -> str:
    text = new_key_text()
    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    new = NewKey(name, shown_prefix(text), digest(SECRET.encode(), text), scopes, expires_at, redacts)
    await store.keys.create(tenant, new)
    return text


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Access(NamedTuple):
    """A database, and how its server is reached."""

    database_url: str
    settings: Settings
    headers: dict[str, str]


@pytest.fixture(scope=SHARED)
async def keyed_access(server_url: str, template: str) -> AsyncIterator[Access]:
    """A database with a key, shared by tests that create their own sessions."""
    with emptied(server_url) if on_citus() else new_database(server_url, f"TEMPLATE {template}") as name:
        url = at_database(server_url, name)
        async with Store.open(url) as store:
            key = await create_key(store, "all", "red", *SCOPES)
        yield Access(url, Settings(secret=SECRET), bearer(key))


@contextmanager
def emptied(server_url: str) -> Iterator[str]:
    empty_database(server_url)
    yield str(conninfo_to_dict(server_url)["dbname"])


@pytest.fixture(scope=SHARED, params=["open", "keyed"])
def access(request: pytest.FixtureRequest) -> Access:
    """Without keys, and with one."""
    if request.param == "keyed":
        keyed: Access = request.getfixturevalue("keyed_access")
        return keyed
    return Access(request.getfixturevalue("shared_database_url"), Settings(), {})


@pytest.fixture(scope=SHARED)
def shared_database_url(server_url: str, template: str) -> Iterator[str]:
    if on_citus():
        empty_database(server_url)
        yield server_url
        return
    name = f"{template}_shared"
    with psycopg.connect(direct_url(server_url), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield at_database(server_url, name)
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope=SHARED)
async def client(shared_database_url: str) -> AsyncIterator[AsyncClient]:
    app = create_app(Settings(), database_url=shared_database_url)
    async with app_client(app, raise_app_exceptions=False) as client:
        yield client


@pytest.fixture
async def session(client: AsyncClient) -> str:
    """The URL of a new session."""
    created = await client.post("/api/sessions", json={})
    return f"/api/sessions/{created.json()['id']}"


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def app(database_url: str, settings: Settings) -> Litestar:
    return create_app(settings, database_url=database_url)


@pytest.fixture
async def own_client(app: Litestar) -> AsyncIterator[AsyncClient]:
    async with app_client(app, raise_app_exceptions=False) as client:
        yield client


@pytest.fixture
def server(app: Litestar) -> Iterator[str]:
    """The URL of a running server."""
    with served(app) as address:
        yield address


@pytest.fixture(scope=SHARED)
def shared_server(shared_database_url: str) -> Iterator[str]:
    with served(create_app(Settings(), database_url=shared_database_url)) as address:
        yield address


@contextmanager
def served(app: Litestar) -> Iterator[str]:
    with listen("127.0.0.1", 0) as listener:
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield address(listener)
        finally:
            server.should_exit = True
            thread.join()
