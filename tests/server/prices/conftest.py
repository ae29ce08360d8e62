import pytest

from ash_server.prices import Prices


@pytest.fixture(scope="session")
def prices() -> Prices:
    """The prices of the pinned package."""
    return Prices.load()
