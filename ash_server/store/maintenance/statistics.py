"""Figures about the whole store, for monitoring."""

from collections.abc import Sequence
from typing import NamedTuple

from ash_server.store.borrowed import Connections
from ash_server.store.connections.cluster import read_database_bytes
from ash_server.store.drift import count_drift
from ash_server.store.search.index import count_pending
from ash_server.store.usage.reports import ModelTokens, count_models


class Statistics(NamedTuple):
    database_bytes: int
    search_pending: int
    """Events that are not in the search index."""
    drift: Sequence[tuple[str, str, int]]
    """Source, reason and number of unknown and malformed blocks."""
    models: Sequence[ModelTokens]


async def read_statistics(connections: Connections) -> Statistics:
    """Raises DatabaseUnavailable, SchemaMismatch."""
    async with connections.owner() as conn:
        return Statistics(
            database_bytes=await read_database_bytes(conn),
            search_pending=await count_pending(conn),
            drift=await count_drift(conn),
            models=await count_models(conn),
        )
