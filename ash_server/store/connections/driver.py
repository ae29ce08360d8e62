"""Connections that read results in fewer turns of the event loop, and send fewer messages."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar, cast

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncPipeline, AsyncRawCursor, sql
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat
from psycopg.generators import send
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready, Wait

from ash_server.store.statements import NumberedSql, statements

RV = TypeVar("RV")

SQL = statements(__file__)

_MAX_READS = 64
"""Reads between two turns of the event loop, of about 8 KB each."""


class Connection(AsyncConnection):
    """A connection that waits with the event loop only if nothing can be read.

    psycopg waits for each packet of a result, which takes longer than reading it.
    """

    raw_cursor_factory: type[AsyncRawCursor[Any]] = AsyncRawCursor
    """The class of the cursors of `execute_numbered`."""

    is_distributed = False
    """True if the database has the extension citus."""

    lock_timeout: str | None = None
    """The lock timeout as a PostgreSQL setting; None waits without a limit."""

    read_timeout: int | None = None
    """Seconds to wait for the next result, while the connection is lent for reading. Unlike `statement_timeout`, it
    takes no statement to change."""

    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        waiting = super().wait(_read_eagerly(gen, self._poller), *args, **kwargs)
        if self.read_timeout is None:
            return await waiting
        try:
            async with asyncio.timeout(self.read_timeout):  # psycopg cancels the statement
                return await waiting
        except TimeoutError:
            raise psycopg.errors.QueryCanceled("canceling statement due to statement timeout") from None

    @asynccontextmanager
    async def pipeline(self) -> AsyncGenerator[AsyncPipeline, None]:
        self._pipeline = pipeline = cast("_Pipeline", self._pipeline or _Pipeline(self))
        try:
            async with super().pipeline():
                yield pipeline
        finally:
            if pipeline.has_failed and not pipeline.level:
                await self._forget_statements()

    @property
    def is_idle(self) -> bool:
        """True outside transactions and pipelines."""
        return not self.pgconn.pipeline_status and self.pgconn.transaction_status == TransactionStatus.IDLE

    async def begin_on_workers(self) -> None:
        """Make the workers of a cluster apply the lock timeout to this transaction.

        Session rows are locked there, and Citus sends SET LOCAL commands to the workers, but no connection settings.
        """
        await self.execute(SQL.pass_on_settings)
        if self.lock_timeout is not None:
            await self.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(self.lock_timeout))

    async def _forget_statements(self) -> None:
        """Deallocate all prepared statements.

        After an error, PostgreSQL skips the rest of the pipeline, but psycopg considers some skipped statements
        prepared: it checks the results of new statements (https://github.com/psycopg/psycopg/pull/586), but not of a
        statement that ran before: `PrepareManager.maybe_add_to_cache` returns no key for it.
        """
        if self._prepared.clear() and self.pgconn.transaction_status == TransactionStatus.IDLE:
            async with self.lock:
                await self.wait(self._prepared.maintain_gen(self))

    def abort(self) -> None:
        """Shut down the socket, so that pending statements fail at once.

        psycopg's methods to close and cancel need a server that answers.
        """
        if not self.closed:
            with socket.socket(fileno=os.dup(self.pgconn.socket)) as duplicate, suppress(OSError):
                duplicate.shutdown(socket.SHUT_RDWR)

    @cached_property
    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self.pgconn.socket, select.POLLIN)
        return poller


class _Pipeline(AsyncPipeline):
    """A pipeline that ends with only a Sync, and records errors.

    psycopg fetches the last results after the Sync (https://github.com/psycopg/psycopg/pull/269), and sends a Flush for
    that. If the Flush arrives after the answer, PgBouncer reserves a connection to PostgreSQL for this client, which
    nothing releases while the client is idle.
    """

    has_failed = False
    """True if PostgreSQL refused a statement."""

    def _process_results(self, *args: Any) -> None:
        try:
            super()._process_results(*args)
        except psycopg.Error:
            self.has_failed = True
            raise

    def _exit_gen(self) -> PQGen[None]:
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from send(self.pgconn)  # the rest of a long statement, which did not fit into the socket
            yield from self._fetch_gen(flush=False)


async def execute_numbered(
    conn: AsyncConnection, sql: NumberedSql, params: Mapping[str, Any]
) -> AsyncCursor[Any]:
    """Execute a statement with binary parameters.

    `execute` parses a statement of more than 4,096 characters or 50 parameters each time: 0.2 ms for an append.
    """
    cursor = conn.raw_cursor_factory(conn) if isinstance(conn, Connection) else AsyncRawCursor(conn)
    for kind in (str, list):  # by default, psycopg sends these two as text
        cursor.adapters.register_dumper(kind, cursor.adapters.get_dumper(kind, PyFormat.BINARY))
    return await cursor.execute(sql.text, [params[name] for name in sql.names])


def _read_eagerly(gen: PQGen[RV], poller: select.poll) -> Generator[Wait, Ready | int, RV]:
    """Run a generator of psycopg, and let it read as long as there is something to read."""
    try:
        wanted = next(gen)
        while True:
            wanted = gen.send((yield wanted))
            for _ in range(_MAX_READS):
                if wanted != Wait.R or not poller.poll(0):
                    break
                wanted = gen.send(Ready.R)
    except StopIteration as end:
        return cast("RV", end.value)
