"""Connections and transactions."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from itertools import starmap
from typing import Any, Literal, NamedTuple, Self, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakSet

import psycopg
from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from ash_server.errors import AshError, DatabaseUnavailable
from ash_server.store.connections.deferral import current_deferral
from ash_server.store.connections.driver import Connection
from ash_server.store.connections.tenant_connections import (
    POOLER,
    SharedConnection,
    TenantConnection,
    apply_settings,
    is_behind_pooler,
)
from ash_server.store.connections.tenants import DEFAULT, Tenant

T = TypeVar("T")

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

LOCK_TIMEOUT = 4.0
"""Seconds that a writer waits for another writer of the same session."""

POOL_TIMEOUT = 5.0
"""Seconds that an operation waits for a connection of the pool."""

_ADDRESS = {"host", "hostaddr", "port"}

_NETWORK_LIMITS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""libpq parameters (seconds; milliseconds for the last one) that end a connection within about 25 seconds if the other
machine disappears. The system's defaults are minutes to hours."""

_SETTINGS = {
    "TimeZone": "UTC",
    # With the default and a table that is not analysed yet, PostgreSQL reads and sorts a whole session for one page
    # instead of reading the rows from the index in order.
    "random_page_cost": "1",
    # Compiling the query of a page, if its estimated cost is high, takes longer than running it.
    "jit": "off",
}


class StatementOptions(NamedTuple):
    timeout: int | None = None
    """Seconds that a statement may take."""
    prepare_threshold: int | Literal["never"] | None = None
    """How often a statement runs before PostgreSQL keeps its plan. None means 5, or never with a pooler, which may not
    know prepared statements."""
    read_timeout: int | None = None
    """Seconds that a statement of a short read may take."""

    def threshold(self, *, is_pooled: bool) -> int | None:
        """Return the value for psycopg."""
        if self.prepare_threshold == "never" or (self.prepare_threshold is None and is_pooled):
            return None
        return 5 if self.prepare_threshold is None else self.prepare_threshold


class PooledUrl(str):
    """The URL of a database behind a pooler, such as PgBouncer, that lends its connections for a transaction each.

    `direct` is the address of PostgreSQL itself, or of a pooler in session mode. It inherits user, password, database
    and options from this URL unless it has its own.
    """

    direct: str

    def __new__(cls, url: str, direct: str) -> Self:
        self = super().__new__(cls, url)
        own = conninfo_to_dict(libpq_url(url))
        inherited = {name: value for name, value in own.items() if name not in _ADDRESS}
        self.direct = make_conninfo(libpq_url(direct), **{**inherited, **conninfo_to_dict(libpq_url(direct))})
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (str(self), self.direct)


class Pool(AsyncConnectionPool[TenantConnection]):
    """Lends connections for one tenant each time, so that none keeps the tenant of its last use."""

    def __init__(
        self,
        *args: Any,
        settings: Mapping[str, str],
        is_restricted: bool,
        read_timeout: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, configure=self._prepare, **kwargs)
        self.read_timeout = read_timeout
        self._settings = settings
        self._is_restricted = is_restricted
        self._open_connections = WeakSet[TenantConnection]()
        self._is_answering = asyncio.Event()
        self._is_answering.set()

    async def _prepare(self, conn: TenantConnection) -> None:
        self._open_connections.add(conn)
        await conn.configure(self._settings)

    def suspend(self) -> None:
        """Close all connections, so that pending operations fail, and lend none until `resume`."""
        self._is_answering.clear()
        for conn in list(self._open_connections):
            conn.abort()

    async def resume(self) -> None:
        """Replace the closed connections, and lend again."""
        await self.check()
        self._is_answering.set()

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # as in the superclass
        *,
        tenant: Tenant = DEFAULT,
        sets_deferral: bool = True,
    ) -> AsyncGenerator[TenantConnection, None]:
        """Lend a connection. Without `sets_deferral`, its commits may wait for the disk or not."""
        conn = await self._acquire(self.timeout if timeout is None else timeout)
        try:
            if self._is_restricted:
                await conn.set_tenant(tenant)
            if sets_deferral and conn.can_defer:
                await conn.set_deferral(current_deferral())
            yield conn
        finally:
            is_cancelled = conn.pgconn.pipeline_status
            if is_cancelled:  # the next statement would wait for ever
                conn.pgconn.finish()
            await self.putconn(conn)

    async def _acquire(self, seconds: float) -> TenantConnection:
        """Raises PoolTimeout."""
        deadline = time.monotonic() + seconds
        if not self._is_answering.is_set():
            await self._wait_for_answers(seconds)
        conn = await self.getconn(deadline - time.monotonic())
        if not self._is_answering.is_set():  # suspended meanwhile
            await self.putconn(conn)
            raise PoolTimeout(_SILENT)
        return conn

    async def _wait_for_answers(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._is_answering.wait()
        except TimeoutError:
            raise PoolTimeout(_SILENT) from None


_SILENT = "no answer for some seconds, although its connections are open"


def open_pool(
    url: str,
    *,
    min_size: int = 1,
    max_size: int = 10,
    lock_timeout: float | None = LOCK_TIMEOUT,
    statements: StatementOptions = StatementOptions(),  # noqa: B008  # immutable
    as_owner: bool = False,
) -> Pool:
    """Return a pool that opens on entry (`async with`). Its connections are in autocommit mode, with times in UTC.

    `lock_timeout` is in seconds; None waits for the locks of other writers without a limit. `as_owner` is for tables of
    no tenant, such as keys: row-level security does not apply.
    """

    settings = {
        **_SETTINGS,
        **({} if lock_timeout is None else {"lock_timeout": f"{round(lock_timeout * 1000)}ms"}),
        **({} if statements.timeout is None else {"statement_timeout": f"{statements.timeout}s"}),
    }
    is_pooled = isinstance(url, PooledUrl)
    return Pool(
        libpq_url(url),
        is_restricted=not as_owner,
        read_timeout=statements.read_timeout,
        connection_class=SharedConnection if is_pooled else TenantConnection,
        kwargs={
            "autocommit": True,
            "prepare_threshold": statements.threshold(is_pooled=is_pooled),
            **network_limits(url),
        },
        settings=settings,
        min_size=min_size,
        max_size=max_size,
        timeout=POOL_TIMEOUT,
        reconnect_timeout=POOL_TIMEOUT,  # then operations retry; the pool's own delays keep growing
        open=False,
    )


@asynccontextmanager
async def one_transaction(conn: AsyncConnection) -> AsyncGenerator[None, None]:
    """Run the statements in one pipeline, which is one transaction. BEGIN and COMMIT make small appends 20 % slower.

    PostgreSQL commits at the end of the pipeline, even if this process fails or is cancelled after sending statements.
    Such an error closes the connection, so that PostgreSQL rolls back. PostgreSQL does not commit any statement if it
    rejects one.

    PostgreSQL runs the first statement of a pipeline without knowing that others follow, so Citus would commit it on
    the worker and release its row locks. In a cluster, a statement without tables comes first.
    """
    try:
        async with conn.pipeline():
            try:
                if isinstance(conn, Connection) and conn.is_distributed:
                    await conn.begin_on_workers()
                yield
            except BaseException as error:
                _close_on_client_failure(conn, error)
                raise
    except BaseException as error:  # cancelled while the pipeline ends, with results unread
        _close_on_client_failure(conn, error)
        raise


async def change_row(conn: AsyncConnection, query: str, params: Sequence[Any] | Mapping[str, Any]) -> int:
    """Change session rows, which writers may have locked. Returns the number of changed rows."""
    return (await change_rows(conn, query, params)).rowcount


async def change_rows(
    conn: AsyncConnection, query: str, params: Sequence[Any] | Mapping[str, Any]
) -> AsyncCursor[Any]:
    """Like `change_row`, but return the cursor with the rows that the statement returns."""
    is_alone = isinstance(conn, Connection) and conn.is_distributed and conn.is_idle
    async with one_transaction(conn) if is_alone else nullcontext():
        return await conn.execute(query, params)


def is_distributed(conn: AsyncConnection) -> bool:
    """True if the database may be part of a Citus cluster."""
    return getattr(conn, "is_distributed", False)


async def fetch_all(
    conn: AsyncConnection, row: Callable[..., T], query: str, params: Sequence[Any] | Mapping[str, Any]
) -> list[T]:
    """Return the rows of a query as objects that `row` makes of their columns. Faster than a row factory."""
    cursor = await conn.execute(query, params, binary=True)
    return list(starmap(row, await cursor.fetchall()))


def _close_on_client_failure(conn: AsyncConnection, error: BaseException) -> None:
    is_rejected_by_server = isinstance(error, psycopg.Error) and error.sqlstate
    is_before_first_write = isinstance(error, AshError)
    if not (is_rejected_by_server or is_before_first_write):
        conn.pgconn.finish()


async def connect(url: str) -> AsyncConnection:
    """Open a session, configured like a connection of the pool, without a lock timeout and without row-level security.

    It bypasses the pooler of a pooled URL. Raises DatabaseUnavailable if there is another one.
    """
    conn = await connect_directly(url)
    try:
        await _check_session(conn, url)
        await apply_settings(conn, {**_SETTINGS, "ash.tenant": str(DEFAULT.number)})
    except BaseException:  # also after a cancellation
        await conn.close()
        raise
    return conn


async def connect_directly(url: str, *, prepare_threshold: int | None = 5) -> Connection:
    """Open a plain connection, without row-level security and without a check for a pooler."""
    options: dict[str, Any] = network_limits(url)
    return await Connection.connect(
        direct_url(url), autocommit=True, prepare_threshold=prepare_threshold, **options
    )


def connect_command(url: str, *, autocommit: bool = True) -> psycopg.Connection:
    """Open a plain connection for a command."""
    return psycopg.connect(direct_url(url), autocommit=autocommit, **network_limits(url))


def libpq_url(url: str) -> str:
    """Return the URL in libpq's form, without the driver of an SQLAlchemy URL."""
    scheme, separator, rest = url.partition("://")
    return f"postgresql{separator}{rest}" if scheme in ("postgresql+psycopg", "postgres") else url


def direct_url(url: str) -> str:
    """Return the address for a session, in libpq's form; it bypasses the pooler of a pooled URL."""
    return url.direct if isinstance(url, PooledUrl) else libpq_url(url)


def network_limits(url: str) -> dict[str, Any]:
    """Return the libpq parameters that end connections to a machine that is gone, except those that the URL sets."""
    own = conninfo_to_dict(direct_url(url))
    limits = {name: value for name, value in _NETWORK_LIMITS.items() if name not in own}
    if "PGCONNECT_TIMEOUT" in os.environ:
        limits.pop("connect_timeout", None)
    return limits


async def _check_session(conn: AsyncConnection, url: str) -> None:
    """Raise DatabaseUnavailable if there is a pooler that notifications of PostgreSQL do not pass."""
    if not await is_behind_pooler(conn):
        return
    if not isinstance(url, PooledUrl):
        raise DatabaseUnavailable(POOLER)
    if not await _receives_notifications(conn, url):
        raise DatabaseUnavailable(
            "ASH_DIRECT_URL must be the address of PostgreSQL itself, or of a pooler in session mode: notifications "
            "do not arrive."
        )


async def _receives_notifications(conn: AsyncConnection, url: str) -> bool:
    """Send one on another connection. PostgreSQL delivers it before it runs the next statement."""
    received: list[psycopg.Notify] = []
    channel = sql.Identifier(f"ash_{uuid4().hex}")
    conn.add_notify_handler(received.append)
    await conn.execute(sql.SQL("LISTEN {}").format(channel))
    async with await Connection.connect(libpq_url(url), autocommit=True, **network_limits(url)) as other:
        await other.execute(sql.SQL("NOTIFY {}").format(channel))
    await conn.execute("SELECT")
    await conn.execute(sql.SQL("UNLISTEN {}").format(channel))
    conn.remove_notify_handler(received.append)
    return bool(received)
