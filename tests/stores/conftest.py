"""A server with keys, and an open store."""

from collections.abc import Iterator

import pytest

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_stores.connection import Address
from tests.server.api.conftest import SECRET, create_key, served


@pytest.fixture
def server(database_url: str) -> Iterator[str]:
    with served(create_app(Settings(secret=SECRET), database_url=database_url)) as address:
        yield address


@pytest.fixture(params=["server", "store"])
async def address(request: pytest.FixtureRequest, store: Store) -> tuple[Address, str | None]:
    """Where an adapter stores sessions, and its key."""
    if request.param == "store":
        return store, None
    server: str = request.getfixturevalue("server")
    return server, await create_key(store, "agent", "default", "read", "write", "delete")
