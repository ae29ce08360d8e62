"""Figures about the whole store, for monitoring."""

from collections.abc import Sequence
from typing import NamedTuple

from ash_server.db.drift import count_drift
from ash_server.db.search.index import count_pending
from ash_server.repositories.connections import Connections

_DATABASE_BYTES = "SELECT pg_database_size(current_database())"


class Statistics(NamedTuple):
    database_bytes: int
    search_pending: int
    """Events that are not in the search index."""
    drift: Sequence[tuple[str, str, int]]
    """Source, reason and number of unknown and malformed blocks."""


async def read_statistics(connections: Connections) -> Statistics:
    """Raises DatabaseUnavailable, SchemaMismatch."""
    async with connections.owner() as conn:
        ((database_bytes,),) = await (await conn.execute(_DATABASE_BYTES)).fetchall()
        return Statistics(
            database_bytes=database_bytes,
            search_pending=await count_pending(conn),
            drift=await count_drift(conn),
        )
