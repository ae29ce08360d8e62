"""Database connections lent to the classes of the store, and translation of database errors.

The public methods of a resource are mostly its functions on a connection, declared as methods:

```python
class SessionStore(Resource):
    get = read(get_session)
    update = write(update_session)
```

A method has the signature of its function without the connection, and its docstring.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from psycopg import AsyncConnection, DatabaseError, InternalError, OperationalError, errors

from ash_server.errors import DatabaseUnavailable, DiskFull, SchemaMismatch, WriteUnconfirmed
from ash_server.store.connections.pool import Connect, Pool
from ash_server.store.connections.restoring import find_cold_session, restore_to_read
from ash_server.store.connections.tenants import DEFAULT, Tenant

P = ParamSpec("P")
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

_Slots: TypeAlias = WeakValueDictionary[UUID, asyncio.Semaphore]

_MAX_WRITERS_PER_SESSION = 2
_WRITER_TIMEOUT = 5
"""Seconds, the same as for a connection of the pool."""

_STATEMENT_ENDED = "A statement took longer than ASH_STATEMENT_TIMEOUT allows, or was cancelled."
_NARROW = "Narrow the request: a shorter time, one session, fewer filters, or a smaller page."
_REPEAT = "the request may be repeated with the same ids, and is stored once."
_LOST_WORKER = (
    "Part of the database, a worker of the cluster, does not answer. Sessions on other workers can be read and "
    f"written; {_REPEAT}"
)

_UNCONFIRMED_COMMIT = "could not commit transaction for shard"

_LOST_CONNECTIONS = (
    "failure on connection marked as essential",
    "failed to prepare transaction",
    "failed to read result",
    "failed to COPY to shard",
    "failed to complete COPY on",
    "could not connect to any active placements",
    "execution cannot recover from multiple connection failures",
    _UNCONFIRMED_COMMIT,
)
"""Messages of Citus that have neither the code of a lost connection nor a context."""

_TEMPORARY = (errors.ReadOnlySqlTransaction, errors.IdleInTransactionSessionTimeout)
"""Errors after the role of a server has changed, and of a connection that PostgreSQL has ended."""

_log = logging.getLogger(__name__)


class Connections:
    """Lends pooled connections to a tenant's statements, for one operation each.

    At most two connections per session go to writers, so that one busy or locked session cannot exhaust the pool.
    Two others go to deletions of messages and rebuilds, which derive events for a while: writers do not wait for them.
    Long reads use a pool of their own, so that a slow consumer does not block other operations.
    """

    def __init__(
        self,
        pool: Pool,
        stream_pool: Pool,
        owner_pool: Pool,
        tenant: Tenant = DEFAULT,
        *,
        is_replica: bool = False,
    ) -> None:
        self.pool = pool
        self.stream_pool = stream_pool
        self.owner_pool = owner_pool
        self.tenant = tenant
        self.is_replica = is_replica
        self._write_slots: _Slots = WeakValueDictionary()
        self._rewrite_slots: _Slots = WeakValueDictionary()

    def for_tenant(self, tenant: Tenant) -> "Connections":
        return Connections(self.pool, self.stream_pool, self.owner_pool, tenant, is_replica=self.is_replica)

    def connection(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection for a short operation. Raises DatabaseUnavailable, SchemaMismatch."""
        return _lend(self.pool, self.tenant, read_timeout=self.pool.read_timeout)

    def changes(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection for a short write. Raises WriteUnconfirmed, DiskFull, and the errors of `connection`."""
        return _lend(self.pool, self.tenant, writes=True)

    def owner(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection for tables of no tenant, such as keys. Raises DatabaseUnavailable, SchemaMismatch."""
        return _lend(self.owner_pool, self.tenant)

    def stream(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection for a long read. Raises DatabaseUnavailable, SchemaMismatch."""
        return _lend(self.stream_pool, self.tenant)

    @property
    def pools(self) -> tuple[Pool, ...]:
        return self.pool, self.stream_pool, self.owner_pool

    def count(self) -> dict[str, int]:
        """Return the connections of the pool that are `idle` and `used`, and the requests `waiting` for one."""
        stats = self.pool.get_stats()
        idle = stats["pool_available"]
        return {"idle": idle, "used": stats["pool_size"] - idle, "waiting": stats["requests_waiting"]}

    def writer(self, session_id: UUID) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection to write to one session. Raises the same errors as `changes`."""
        return self._lend_in_turn(self._write_slots, session_id)

    def rewriter(self, session_id: UUID) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection to change the log of one session. Raises the same errors as `changes`."""
        return self._lend_in_turn(self._rewrite_slots, session_id)

    @asynccontextmanager
    async def _lend_in_turn(self, slots: _Slots, session_id: UUID) -> AsyncGenerator[AsyncConnection, None]:
        slot = slots.setdefault(session_id, asyncio.Semaphore(_MAX_WRITERS_PER_SESSION))
        try:
            async with asyncio.timeout(_WRITER_TIMEOUT):
                await slot.acquire()
        except TimeoutError:
            raise DatabaseUnavailable("The session is being written to; try again.") from None
        try:
            async with self.changes() as conn:
                yield conn
        finally:
            slot.release()


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise DiskFull, DatabaseUnavailable or SchemaMismatch instead of the driver's errors."""
    try:
        yield
    except errors.DiskFull as error:
        _log.warning("the disk of the database is full")
        raise DiskFull from error
    except errors.QueryCanceled as error:
        _log.warning("a statement was cancelled")
        raise DatabaseUnavailable(f"{_STATEMENT_ENDED} {_NARROW}") from error
    except OperationalError as error:
        reason, _, _ = str(error).partition("\n")
        _log.warning("the database does not answer: %s: %s", type(error).__name__, reason)
        raise DatabaseUnavailable(_LOST_WORKER if _is_of_worker(error) else None) from error
    except InternalError as error:
        if not (_is_of_worker(error) or isinstance(error, _TEMPORARY)):
            raise
        _log.warning("the database does not answer: %s", type(error).__name__)
        raise DatabaseUnavailable(_LOST_WORKER if _is_of_worker(error) else None) from error
    except (errors.UndefinedTable, errors.UndefinedColumn, errors.InsufficientPrivilege) as error:
        _log.warning("the database schema does not match this version: %s", type(error).__name__)
        raise SchemaMismatch from error


@contextmanager
def _confirm_writes() -> Iterator[None]:
    """Raise WriteUnconfirmed if the connection is lost. The errors of writes say how to repeat them."""
    try:
        yield
    except errors.DiskFull as error:
        _log.warning("the disk of the database is full")
        raise DiskFull(f"{DiskFull.title} Nothing is stored; {_REPEAT}") from error
    except errors.QueryCanceled as error:
        _log.warning("a statement was cancelled")
        raise DatabaseUnavailable(f"{_STATEMENT_ENDED} Nothing is stored; {_REPEAT}") from error
    except (OperationalError, InternalError) as error:
        is_lost = error.sqlstate is None or isinstance(error, (errors.AdminShutdown, errors.CrashShutdown))
        if not (is_lost or str(error).startswith(_UNCONFIRMED_COMMIT)):
            raise
        _log.warning("the connection to the database was lost during a write")
        raise WriteUnconfirmed(
            f"The connection was lost, so the write may or may not be stored; {_REPEAT}"
        ) from error


def _is_of_worker(error: DatabaseError) -> bool:
    """True if the coordinator of a cluster reports that one of its workers does not answer."""
    is_of_connection = (error.sqlstate or "").startswith("08")  # PostgreSQL itself sends no such error
    is_of_command = "while executing command on " in (error.diag.context or "")
    return is_of_connection or is_of_command or str(error).startswith(_LOST_CONNECTIONS)


@asynccontextmanager
async def _lend(
    pool: Pool, tenant: Tenant, *, writes: bool = False, read_timeout: int | None = None
) -> AsyncGenerator[AsyncConnection, None]:
    with translate_errors():
        async with pool.connection(tenant=tenant) as conn:
            conn.read_timeout = read_timeout
            try:
                with _confirm_writes() if writes else nullcontext():
                    yield conn
            finally:
                conn.read_timeout = None


class Resource:
    """The operations on one kind of stored data, for one tenant."""

    def __init__(self, connections: Connections, wake: Callable[[UUID], None]) -> None:
        self.tenant = connections.tenant
        self._connections = connections
        self._wake = wake
        """Wakes the subscribers of a session."""


def read(
    function: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, P], Coroutine[Any, Any, T]]:
    """Declare a method that runs the function on a connection for a short operation."""
    return _borrow(Connections.connection, function)


def change(
    function: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, P], Coroutine[Any, Any, T]]:
    """Declare a method for a short write that subscribers need not know of."""
    return _borrow(Connections.changes, function)


def administer(
    function: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, P], Coroutine[Any, Any, T]]:
    """Declare a method on tables of no tenant."""
    return _borrow(Connections.owner, function)


def write(
    function: Callable[Concatenate[AsyncConnection, UUID, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, UUID, P], Coroutine[Any, Any, T]]:
    """Declare a method that writes to one session: behind its other writers, then its subscribers are woken."""
    return _borrow_and_wake(Connections.writer, function)


def rewrite(
    function: Callable[Concatenate[AsyncConnection, UUID, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, UUID, P], Coroutine[Any, Any, T]]:
    """Declare a method like `write` that derives events again. It waits for others of its kind, not for writers."""
    return _borrow_and_wake(Connections.rewriter, function)


def change_session(
    function: Callable[Concatenate[AsyncConnection, UUID, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, UUID, P], Coroutine[Any, Any, T]]:
    """Declare a method like `write`, but for a short write that does not wait for other writers in this process."""
    return _borrow_and_wake(lambda connections, _: connections.changes(), function)


def change_facts(
    function: Callable[Concatenate[AsyncConnection, UUID, P], Awaitable[bool]],
) -> Callable[Concatenate[Resource, UUID, P], Coroutine[Any, Any, bool]]:
    """Declare a method like `change_session` that wakes subscribers only if the function returns True."""
    return _borrow_and_wake(lambda connections, _: connections.changes(), function, wakes=bool)


def read_pages(function: Callable[Concatenate[Connect, P], T]) -> Callable[Concatenate[Resource, P], T]:
    """Declare a method that borrows a connection for each page it reads, so that a slow caller holds none."""

    def method(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(self._connections.connection, *args, **kwargs)

    return _describe(method, function)


def stream(function: Callable[Concatenate[Connect, P], T]) -> Callable[Concatenate[Resource, P], T]:
    """Declare a method like `read_pages`, on the connections for long reads."""

    def method(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(self._connections.stream, *args, **kwargs)

    return _describe(method, function)


def _borrow(
    lend: Callable[[Connections], AbstractAsyncContextManager[AsyncConnection]],
    function: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
) -> Callable[Concatenate[Resource, P], Coroutine[Any, Any, T]]:
    async def method(self: Resource, /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                async with lend(self._connections) as conn:
                    return await function(conn, *args, **kwargs)
            except DatabaseError as error:
                await _restore(self._connections, error)

    return _describe(method, function)


def _borrow_and_wake(
    lend: Callable[[Connections, UUID], AbstractAsyncContextManager[AsyncConnection]],
    function: Callable[Concatenate[AsyncConnection, UUID, P], Awaitable[T]],
    wakes: Callable[[T], bool] = lambda _: True,
) -> Callable[Concatenate[Resource, UUID, P], Coroutine[Any, Any, T]]:
    async def method(self: Resource, session_id: UUID, /, *args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                async with lend(self._connections, session_id) as conn:
                    result = await function(conn, session_id, *args, **kwargs)
            except DatabaseError as error:
                await _restore(self._connections, error)
            else:
                if wakes(result):
                    self._wake(session_id)
                return result

    return _describe(method, function)


async def _restore(connections: Connections, error: DatabaseError) -> None:
    """Restore the cold session that a transaction has read, so that it can be repeated. Raises other errors again."""
    session_id = find_cold_session(error)
    if session_id is None:
        raise error
    async with connections.changes() as conn:
        await restore_to_read(conn, session_id)


def _describe(method: Method, function: Callable[..., Any]) -> Method:
    """Give a method the docstring and the signature of its function, with `self` instead of the connection."""
    signature = inspect.signature(function)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [itself, *list(signature.parameters.values())[1:]]
    update_wrapper(method, function)
    method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # for `inspect`
    return method
