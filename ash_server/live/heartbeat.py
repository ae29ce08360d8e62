"""Detection of a database that does not answer although its connections stay open.

The kernel of a stopped process, or of a server with a hung disk, still acknowledges packets, so TCP detects nothing,
and statements would wait forever. Ash queries each database every second on a separate connection, which slow
statements and a full pool cannot delay. If no answer arrives, it aborts the other connections.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import OperationalError
from psycopg.errors import InsufficientPrivilege

from ash_server.errors import AshError
from ash_server.store import Store
from ash_server.store.connections.driver import Connection
from ash_server.store.connections.pool import connect_directly
from ash_server.store.connections.replication import ServerState, read_state
from ash_server.tasks import BackgroundTask, cancel_tasks, ends_within

SILENCE_SECONDS = 3.0
"""Time without an answer after which pending operations fail."""

_PAUSE_SECONDS = 1.0
_ABORT_SECONDS = 1.0
"""Time for a query to end after its connection was aborted."""

_GRANT = "grant EXECUTE on pg_control_system, pg_control_checkpoint and pg_control_recovery, as by default"

_log = logging.getLogger(__name__)


class Heartbeat(BackgroundTask):
    """Queries a database every second while entered, and suspends its store while there is no answer."""

    def __init__(self, store: Store, *, reads_state: bool = False, silence: float = SILENCE_SECONDS) -> None:
        self.store = store
        self.state: ServerState | None = None
        """The state in the last answer, if it is read."""
        self.state_time = 0.0
        self.has_state = asyncio.Event()
        self._reads_state = reads_state
        self._silence = silence
        self._conn: Connection | None = None
        self._is_silent = False
        self._is_refused = False

    async def _run(self) -> None:
        try:
            while True:
                await self._beat()
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await self._disconnect()

    async def _beat(self) -> None:
        is_back = await self._ends_in_time(self._ask()) and self._is_silent
        if is_back and await self._ends_in_time(self.store.resume()):
            self._is_silent = False
            self.on_answer()

    async def _ends_in_time(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run a query to its end; if the database does not answer, suspend the store and return False."""
        task = asyncio.create_task(work)
        try:
            if not (is_answered := await ends_within(task, self._silence)):
                self._suspend()
        finally:
            await self._end(task)
        return is_answered

    async def _end(self, task: asyncio.Task[None]) -> None:
        if not task.done():
            if self._conn is not None:
                self._conn.abort()  # cancelling waits for the server
            await ends_within(task, _ABORT_SECONDS)
        await cancel_tasks(task)

    def _suspend(self) -> None:
        self.store.suspend()
        if not self._is_silent:
            self._is_silent = True
            self.on_silence()

    async def _ask(self) -> None:
        """Query the database. An error also counts as an answer: operations will see it themselves."""
        try:
            self._conn = self._conn or await connect_directly(self.store.url, prepare_threshold=None)
            await self.ask(self._conn)
        except (AshError, psycopg.Error) as error:
            self.on_error(error)
            if isinstance(error, OperationalError):
                await self._disconnect()

    async def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with suppress(psycopg.Error):
                await conn.close()

    async def ask(self, conn: Connection) -> None:
        if not self._reads_state:
            await conn.execute("SELECT")
            return
        before = time.monotonic()
        self.state = await read_state(conn)
        self.state_time = before
        self.has_state.set()

    def on_silence(self) -> None:
        _log.warning("the database does not answer: requests fail until it does")

    def on_answer(self) -> None:
        _log.warning("the database answers again")

    def on_error(self, error: AshError | psycopg.Error) -> None:
        if isinstance(error, InsufficientPrivilege) and not self._is_refused:
            self._is_refused = True
            _log.warning("the replica cannot be compared with the primary, so it is not read: %s", _GRANT)
