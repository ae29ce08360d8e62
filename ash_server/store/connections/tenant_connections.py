"""Connections limited to a tenant's rows by row-level security."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Self

import psycopg
from psycopg import (
    AsyncConnection,
    AsyncCursor,
    AsyncPipeline,
    AsyncRawCursor,
    AsyncTransaction,
    NotSupportedError,
)
from psycopg.errors import InsufficientPrivilege, InvalidParameterValue

from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.store.connections import driver
from ash_server.store.connections.deferral import Deferral
from ash_server.store.connections.driver import Connection
from ash_server.store.connections.restoring import find_cold_session, restore_to_read
from ash_server.store.connections.tenants import (
    APP_ROLE,
    Tenant,
    membership_statement,
    role_expression,
    role_of,
)
from ash_server.store.statements import statements

SQL = statements(__file__)

POOLER = (
    "There is a connection pooler such as PgBouncer before PostgreSQL: set ASH_DIRECT_URL to the address of PostgreSQL "
    "itself. Without it, Ash may mix tenants."
)

_NO_ROLE = (InvalidParameterValue, InsufficientPrivilege)
"""The role does not exist, or the user is not one of its members."""


class TenantConnection(Connection):
    """A connection of a pool. The owner of the tables uses it without a tenant."""

    tenant: Tenant | None = None
    _is_direct = False
    _defers = False
    """True if commits may not wait for the disk."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = _RestoringCursor
        self.raw_cursor_factory = _RestoringRawCursor
        self._known_since = time.monotonic()
        """When this connection was opened, or the witness of a deferral has answered since."""

    async def configure(self, settings: Mapping[str, str]) -> None:
        """Apply settings of PostgreSQL to all statements."""
        self.lock_timeout = settings.get("lock_timeout")
        await apply_settings(self, settings)

    @asynccontextmanager
    async def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AsyncGenerator[AsyncTransaction, None]:
        is_outermost = self.is_idle
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            if is_outermost and self.is_distributed:
                await self.begin_on_workers()
            yield transaction

    async def set_tenant(self, tenant: Tenant) -> None:
        """Raises DatabaseUnavailable, SchemaMismatch."""
        if self.tenant == tenant:
            return
        await self._check_direct()
        self.tenant = None  # unknown if the statement fails
        try:
            await self.execute(set_config({}, tenant))
        except _NO_ROLE as error:
            raise _role_missing(self, tenant, error) from error
        self.tenant = tenant

    @property
    def can_defer(self) -> bool:
        """True if the setting for it applies to the whole transaction: a worker of a cluster has its own."""
        return not self.is_distributed

    async def set_deferral(self, deferral: Deferral | None) -> None:
        """Let commits wait for the disk, except during a deferral.

        Raises OperationalError if the database may have lost commits of the deferral.
        """
        if deferral is not None and self._known_since > deferral.began:
            await deferral.check()
            self._known_since = deferral.began
        if deferral is not None and not self._defers:
            self._defers = True  # also if the statement fails
            await self.execute(SQL.skip_disk)
        elif deferral is None and self._defers:
            await self.execute(SQL.wait_for_disk)
            self._defers = False

    async def _check_direct(self) -> None:
        """Refuse a pooler, which may lend a connection to another client with the tenant set on it."""
        if not self._is_direct:
            if await is_behind_pooler(self):
                raise DatabaseUnavailable(POOLER)
            self._is_direct = True


class SharedConnection(TenantConnection):
    """A connection to a pooler, which may run each transaction on another connection of PostgreSQL.

    Each transaction, pipeline and other statement begins with the tenant and the settings, for its own duration.
    """

    _has_role = False
    can_defer = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cursor_factory = _SharedCursor
        self.raw_cursor_factory = _SharedRawCursor
        self._settings: Mapping[str, str] = {}

    async def configure(self, settings: Mapping[str, str]) -> None:
        # A pooler knows the time zone of each client, and psycopg reads it when a connection is opened.
        await apply_settings(self, {"TimeZone": settings["TimeZone"]})
        self.lock_timeout = settings.get("lock_timeout")
        self._settings = settings

    async def set_tenant(self, tenant: Tenant) -> None:
        """Raises SchemaMismatch."""
        self.tenant = tenant
        if not self._has_role:
            try:
                await self.execute("SELECT")
            except _NO_ROLE as error:
                raise _role_missing(self, tenant, error) from error
            self._has_role = True

    @asynccontextmanager
    async def pipeline(self) -> AsyncGenerator[AsyncPipeline, None]:
        if self.pgconn.pipeline_status:
            raise NotSupportedError("a pipeline within another one ends its transaction")
        is_idle = self.is_idle
        async with super().pipeline() as pipeline:
            if is_idle:
                await self._begin()
            yield pipeline

    @asynccontextmanager
    async def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AsyncGenerator[AsyncTransaction, None]:
        is_idle = self.is_idle
        async with super().transaction(savepoint_name, force_rollback) as transaction:
            if is_idle:
                await self._begin()
            yield transaction

    async def _begin(self) -> None:
        await AsyncCursor(self).execute(set_config(self._settings, self.tenant, is_local=True))


class _RestoringCursor(AsyncCursor[Any]):
    """Restores a cold session if a statement outside a transaction reads it, and repeats the statement."""

    async def execute(self, *args: Any, **kwargs: Any) -> Self:
        connection: Any = self.connection
        if connection.tenant is None or not connection.is_idle:
            return await self._execute(*args, **kwargs)
        while True:
            try:
                return await self._execute(*args, **kwargs)
            except psycopg.DatabaseError as error:
                session_id = find_cold_session(error)
                if session_id is None:
                    raise
            await restore_to_read(connection, session_id)

    async def _execute(self, *args: Any, **kwargs: Any) -> Self:
        return await super().execute(*args, **kwargs)


class _RestoringRawCursor(_RestoringCursor, AsyncRawCursor[Any]):
    pass


class _SharedCursor(_RestoringCursor):
    """Runs a statement outside a transaction in a pipeline with the settings."""

    async def _execute(self, *args: Any, **kwargs: Any) -> Self:
        async with self._transaction():
            return await super()._execute(*args, **kwargs)

    async def executemany(self, *args: Any, **kwargs: Any) -> None:
        async with self._transaction():
            await super().executemany(*args, **kwargs)

    def copy(self, *args: Any, **kwargs: Any) -> Any:
        self._require_transaction()
        return super().copy(*args, **kwargs)

    def stream(self, *args: Any, **kwargs: Any) -> Any:
        self._require_transaction()
        return super().stream(*args, **kwargs)

    def _transaction(self) -> AbstractAsyncContextManager[object]:
        """Return the transaction of a statement: the current one of the connection, or a pipeline of its own."""
        connection: Any = self.connection
        return connection.pipeline() if connection.is_idle else nullcontext()

    def _require_transaction(self) -> None:
        """COPY and single rows cannot be in a pipeline: outside a transaction they would have no tenant."""
        connection: Any = self.connection
        if connection.is_idle:
            raise NotSupportedError("behind a pooler, COPY and streams need a transaction")


class _SharedRawCursor(_SharedCursor, AsyncRawCursor[Any]):
    pass


def set_config(settings: Mapping[str, str], tenant: Tenant | None = None, *, is_local: bool = False) -> str:
    """Return a statement that sets constants, and the tenant with its role, for the session or for the transaction."""
    values = {name: f"'{value}'" for name, value in settings.items()}
    if tenant is not None:
        values = {"role": role_expression(tenant.number), "ash.tenant": f"'{tenant.number}'", **values}
    calls = (f"set_config('{name}', {value}, {is_local})" for name, value in values.items())
    return f"SELECT {', '.join(calls)}"


def _role_missing(conn: AsyncConnection, tenant: Tenant, error: psycopg.Error) -> SchemaMismatch:
    """Return an error with the statements that an administrator must run."""
    own, reason = role_of(tenant.number), error.diag.message_primary or ""
    role = own if f'"{own}"' in reason else APP_ROLE
    statements = [membership_statement(conn, role)]
    if isinstance(error, InvalidParameterValue):
        statements.insert(0, f"CREATE ROLE {role} NOLOGIN")
    return SchemaMismatch(f"{reason}: let an administrator run `{'; '.join(statements)};`")


async def apply_settings(conn: Connection, settings: Mapping[str, str]) -> None:
    """Apply settings to all statements of a connection, and detect whether its database may be distributed."""
    row = await (await conn.execute(f"{set_config(settings)}, {driver.SQL.has_citus}")).fetchone()
    conn.is_distributed = bool(row and row[-1])


async def is_behind_pooler(conn: AsyncConnection) -> bool:
    """True if the connection has another process id than PostgreSQL's."""
    row = await (await conn.execute(SQL.get_process_id)).fetchone()
    return row != (conn.info.backend_pid,)
