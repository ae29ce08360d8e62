"""Reads from a replica of the database, which may lag, or else from the primary.

A replica answers while it has the schema of this version, and lags by at most `MAX_LAG_SECONDS`. The primary answers
what the replica cannot: sequences that a reader knows of and that the replica has not reached, sessions that it does
not have, and everything else that ends with an error there.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from prometheus_client import Counter

from ash_server.db.replication import Known
from ash_server.errors import AshError, DatabaseUnavailable
from ash_server.live.tasks import BackgroundTask
from ash_server.store import Store

MAX_LAG_SECONDS = 30.0
"""The lag of a replica above which it is not read."""

_CHECK_SECONDS = 1.0
_CHECK_TIMEOUT_SECONDS = 3.0
_MAX_POSITIONS = 1000

T = TypeVar("T")

_reads = Counter("ash_reads", "Reads that a replica may answer, by the server that answered.", ["server"])

_log = logging.getLogger(__name__)


class ReplicaStatus(NamedTuple):
    is_used: bool = False
    lag_seconds: float | None = None
    """The age of the oldest change of the primary that the replica does not have; None: unknown."""


class Replica(BackgroundTask):
    """The store of a replica, checked every second while entered."""

    def __init__(self, store: Store, primary: Store) -> None:
        self.store = store
        self.status = ReplicaStatus()
        self._primary = primary
        self._positions: deque[tuple[int, float]] = deque()
        """Positions of the primary that the replica has not reached, and when they were read."""
        self._has_failed = False

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_CHECK_TIMEOUT_SECONDS):
                    await self.check()
            except (AshError, psycopg.Error, TimeoutError) as error:
                self.fail(error)
            await asyncio.sleep(_CHECK_SECONDS)

    async def check(self) -> None:
        """Set the status. Raises AshError if the replica cannot be read."""
        await self._add_position()
        await self.store.check_schema()
        reached = await self.store.read_wal_position()
        while self._positions and self._positions[0][0] <= reached:
            self._positions.popleft()
        lag = time.monotonic() - self._positions[0][1] if self._positions else 0.0
        self._set(ReplicaStatus(lag <= MAX_LAG_SECONDS, lag), f"it lags by {lag:.0f} s")

    async def _add_position(self) -> None:
        try:
            position = await self._primary.read_wal_position()
        except (DatabaseUnavailable, psycopg.Error):  # the replica still answers
            return
        if len(self._positions) < _MAX_POSITIONS:
            self._positions.append((position, time.monotonic()))

    def fail(self, error: Exception) -> None:
        """Read from the primary until the next check."""
        self._set(ReplicaStatus(), str(error) or type(error).__name__)

    def _set(self, status: ReplicaStatus, problem: str) -> None:
        if not status.is_used and not self._has_failed:
            _log.warning("reads go to the primary: the replica at ASH_READ_URL cannot be used (%s)", problem)
        if status.is_used and self._has_failed:
            _log.warning("the replica at ASH_READ_URL is used again")
        self._has_failed = not status.is_used
        self.status = status


@asynccontextmanager
async def open_replica(store: Store | None, primary: Store) -> AsyncGenerator[Replica | None, None]:
    """Check the replica while entered; None if there is none."""
    if store is None:
        yield None
        return
    async with Replica(store, primary) as replica:
        yield replica


class ReplicaReader:
    """Reads of one request. `known` are the sequences of its session that the client knows of."""

    def __init__(
        self, primary: Store, replica: Replica | None, known: Known | Literal["current"] | None
    ) -> None:
        self._primary = primary
        self._replica = replica
        self._known = known

    async def __call__(self, read: Callable[[Store], Awaitable[T]], session_id: UUID | None = None) -> T:
        """Return what `read` returns for the replica, if it can, or else for the primary."""
        store = await self._choose(session_id)
        if store is not self._primary:
            try:
                return _counted("replica", await read(store))
            except (AshError, psycopg.Error) as error:
                self._note(error)
        return _counted("primary", await read(self._primary))

    async def choose(self, session_id: UUID) -> Store:
        """Return the store for a read that takes long, such as an export, and is not repeated on the primary."""
        store = self._replica_store()
        is_usable = store is not self._primary and await self._has_reached(store, session_id)
        return _counted("replica", store) if is_usable else _counted("primary", self._primary)

    async def _choose(self, session_id: UUID | None) -> Store:
        store = self._replica_store()
        if store is self._primary or self._known is None:
            return store
        # Without a session, nothing tells whether the replica has the sequences.
        is_usable = session_id is not None and await self._has_reached(store, session_id)
        return store if is_usable else self._primary

    def _replica_store(self) -> Store:
        """Return the store of the replica; that of the primary if the replica must not be read."""
        replica = self._replica
        if replica is None or not replica.status.is_used or self._known == "current":
            return self._primary
        return replica.store.for_tenant(self._primary.tenant)

    async def _has_reached(self, store: Store, session_id: UUID) -> bool:
        known = self._known if isinstance(self._known, Known) else Known()
        try:
            return await store.sessions.has_reached(session_id, known)
        except (AshError, psycopg.Error) as error:
            self._note(error)
            return False

    def _note(self, error: Exception) -> None:
        if self._replica and (not isinstance(error, AshError) or isinstance(error, DatabaseUnavailable)):
            self._replica.fail(error)


def _counted(server: Literal["replica", "primary"], answer: T) -> T:
    _reads.labels(server).inc()
    return answer
