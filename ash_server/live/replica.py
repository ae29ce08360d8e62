"""Reads from a replica of the database, which may lag, or else from the primary.

A replica answers while it follows the primary, has the current schema, and lags by at most `MAX_LAG_SECONDS`.
The primary answers if the replica has not reached a sequence that the reader knows, lacks the session, hangs, or
returns any other error.
"""

import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

import psycopg
from prometheus_client import Counter

from ash_server.errors import AshError, DatabaseUnavailable, SchemaMismatch
from ash_server.live.heartbeat import Heartbeat
from ash_server.store import Store
from ash_server.store.connections.driver import Connection
from ash_server.store.connections.replication import MISMATCHES, Known, Mismatch, ServerState, read_state
from ash_server.store.schema.migrations import check_schema
from ash_server.tasks import wait_for_event

MAX_LAG_SECONDS = 30.0
"""The lag of a replica above which it is not read."""

SILENCE_SECONDS = 2.0
"""With one second between queries, a replica that hangs delays a read by at most three seconds."""
_MAX_POSITIONS = 1000

T = TypeVar("T")

ReplicaReason: TypeAlias = Literal["unavailable", "schema", "lag", "primary"] | Mismatch
"""The reason why a replica is not used; `primary`: the state of the primary is unknown."""

_reads = Counter("ash_reads", "Reads that a replica may answer, by the server that answered.", ["server"])

_log = logging.getLogger(__name__)


class ReplicaStatus(NamedTuple):
    is_used: bool = False
    lag_seconds: float | None = None
    """The age of the oldest change of the primary that the replica does not have; None: unknown."""
    reason: ReplicaReason | None = None
    """The reason why the replica is not used; None if it is used, or before the first check."""


class Replica(Heartbeat):
    """The store of a replica, checked every second while entered. `primary` reads the state of the primary."""

    def __init__(self, store: Store, primary: Heartbeat) -> None:
        super().__init__(store, silence=SILENCE_SECONDS)
        self.status = ReplicaStatus()
        self._primary = primary
        self._positions: deque[tuple[int, float]] = deque()
        """Positions of the primary that the replica has not reached, and when they were read."""

    async def _run(self) -> None:
        await wait_for_event(self._primary.has_state, SILENCE_SECONDS)
        await super()._run()

    async def ask(self, conn: Connection) -> None:
        """Set the status. Raises SchemaMismatch, psycopg.Error."""
        await check_schema(conn)
        own, primary = await read_state(conn), self._primary.state
        if primary is None:
            self.status = ReplicaStatus(reason="primary")
        elif mismatch := own.mismatch(primary):
            self._positions.clear()
            self._set(ReplicaStatus(reason=mismatch), MISMATCHES[mismatch])
        else:
            self._set_lag(self._measure_lag(own, primary))

    def _measure_lag(self, own: ServerState, primary: ServerState) -> float:
        if len(self._positions) < _MAX_POSITIONS:
            self._positions.append((primary.position, self._primary.state_time))
        while self._positions and self._positions[0][0] <= own.position:
            self._positions.popleft()
        return time.monotonic() - self._positions[0][1] if self._positions else 0.0

    def _set_lag(self, lag: float) -> None:
        is_used = lag <= MAX_LAG_SECONDS
        self._set(ReplicaStatus(is_used, lag, None if is_used else "lag"), f"it lags by {lag:.0f} s")

    def on_silence(self) -> None:
        self.fail(DatabaseUnavailable("it does not answer"))

    def on_answer(self) -> None:
        """Do nothing: the next check decides whether the replica is used."""

    def on_error(self, error: AshError | psycopg.Error) -> None:
        self.fail(error)

    def fail(self, error: AshError | psycopg.Error) -> None:
        """Read from the primary until the next check."""
        reason: ReplicaReason = "schema" if isinstance(error, SchemaMismatch) else "unavailable"
        is_own = isinstance(error, AshError) and str(error)  # driver errors may quote values
        self._set(ReplicaStatus(reason=reason), str(error) if is_own else type(error).__name__)

    def _set(self, status: ReplicaStatus, problem: str) -> None:
        before, self.status = self.status, status
        if status.reason not in (None, before.reason):
            _log.warning("reads go to the primary: the replica at ASH_READ_URL cannot be used (%s)", problem)
        if status.is_used and before.reason not in (None, "primary"):
            _log.warning("the replica at ASH_READ_URL is used again")


@asynccontextmanager
async def open_replica(store: Store | None, primary: Heartbeat) -> AsyncGenerator[Replica | None, None]:
    """Check the replica while entered; None if there is none."""
    if store is None:
        yield None
        return
    async with Replica(store, primary) as replica:
        yield replica


class ReplicaReader:
    """Reads for a single request. `known` are the sequences that the client has seen in the session."""

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

    async def _choose(self, session_id: UUID | None) -> Store:
        store = self._replica_store()
        if store is self._primary or self._known is None:
            return store
        # Without a session, nothing tells whether the replica has the sequences.
        is_usable = session_id is not None and await self._has_reached(store, session_id)
        return store if is_usable else self._primary

    def _replica_store(self) -> Store:
        """Return the replica's store, or the primary's if the replica must not be read."""
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

    def _note(self, error: AshError | psycopg.Error) -> None:
        if self._replica and (not isinstance(error, AshError) or isinstance(error, DatabaseUnavailable)):
            self._replica.fail(error)


def _counted(server: Literal["replica", "primary"], answer: T) -> T:
    _reads.labels(server).inc()
    return answer
