"""The application, called in-process or served on a port.

Most tests create their own sessions and share one application. Tests that list all sessions, change settings or break
something use an application with a separate database.
"""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import psycopg
import pytest
import uvicorn
from httpx import AsyncClient
from litestar import Litestar
from litestar.testing import AsyncTestClient
from psycopg.conninfo import make_conninfo

from ash_server.api.http.server import address, listen, server_config
from ash_server.app import create_app
from ash_server.settings import Settings

BASE = "http://127.0.0.1:4100"


@pytest.fixture(scope="session")
def shared_database_url(server_url: str, template: str) -> Iterator[str]:
    name = f"{template}_shared"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield make_conninfo(server_url, dbname=name)
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
async def client(shared_database_url: str) -> AsyncIterator[AsyncClient]:
    app = create_app(Settings(), database_url=shared_database_url)
    async with AsyncTestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
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
    async with AsyncTestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def server(app: Litestar) -> Iterator[str]:
    """The URL of a running server."""
    with served(app) as address:
        yield address


@pytest.fixture(scope="session")
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
        yield address(listener)
        server.should_exit = True
        thread.join()
