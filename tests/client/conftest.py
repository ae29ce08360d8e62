"""A server on a port, with an empty database."""

from collections.abc import Iterator

import pytest

from ash_server.app import create_app
from ash_server.settings import Settings
from tests.server.api.conftest import served


@pytest.fixture
def server(database_url: str) -> Iterator[str]:
    with served(create_app(Settings(), database_url=database_url)) as address:
        yield address
