"""How a route that writes comes to the database.

Who writes to a session waits for whoever else does, a rebuild of it for example. If all connections were lent to those
who wait, nobody could read, or write to another session: so of one session few are lent at a time.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias
from uuid import UUID
from weakref import WeakValueDictionary

from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from ash_server.errors import DatabaseUnavailable

_OF_ONE_SESSION = 2
_PATIENCE = 5
"""Seconds, as for a connection of the pool."""


class SessionWriters:
    """Lends the connections of a pool to those who write."""

    def __init__(self, pool: AsyncConnectionPool[AsyncConnection]) -> None:
        self._pool = pool
        self._gates: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def connection(self, session_id: UUID) -> AsyncGenerator[AsyncConnection, None]:
        """Raises DatabaseUnavailable where others keep the session for too long."""
        gate = self._gates.setdefault(session_id, asyncio.Semaphore(_OF_ONE_SESSION))
        try:
            async with asyncio.timeout(_PATIENCE):
                await gate.acquire()
        except TimeoutError:
            raise DatabaseUnavailable("The session is being written to; try again.") from None
        try:
            async with self._pool.connection() as conn:
                yield conn
        finally:
            gate.release()


Writers: TypeAlias = NamedDependency[SkipValidation[SessionWriters]]


def provide_writers(state: State) -> SessionWriters:
    writers: SessionWriters = state.writers
    return writers
