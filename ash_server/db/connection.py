"""Connections, transactions and the schema."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege, InvalidParameterValue, UndefinedTable
from psycopg_pool import AsyncConnectionPool

from ash_server.db.driver import Connection
from ash_server.db.tenants import DEFAULT, Tenant
from ash_server.errors import AshError, DatabaseUnavailable, SchemaMismatch

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

REVISION = "0020"
"""The schema revision that this version requires."""

APP_ROLE = "ash_app"
"""The role of all statements on sessions. It is not the owner of the tables, so row-level security applies to it."""

LOCK_TIMEOUT = 4.0
"""Seconds that a writer waits for another writer of the same session."""

_SET_TENANT = "SELECT set_config('role', %s, false), set_config('ash.tenant', %s, false)"

_SELECT_REVISION = "SELECT version_num FROM alembic_version"

# A wheel has the migrations inside the package, a checkout in its root.
_MIGRATION_FOLDERS = (Path(__file__).parents[1] / "_alembic", Path(__file__).parents[2] / "alembic")


class StatementOptions(NamedTuple):
    timeout: int | None = None
    """Seconds that a statement may take."""
    prepare_threshold: int | None = 5
    """How often a statement runs before PostgreSQL keeps its plan; None means never."""


class TenantConnection(Connection):
    """A connection of a pool, on which row-level security shows the rows of one tenant only."""

    tenant: Tenant | None = None
    _is_direct = False

    async def set_tenant(self, tenant: Tenant) -> None:
        """Raises DatabaseUnavailable, SchemaMismatch."""
        if self.tenant == tenant:
            return
        await self._check_direct()
        self.tenant = None  # unknown if the statement fails
        try:
            await self.execute(_SET_TENANT, [APP_ROLE, str(tenant.number)])
        except (
            InvalidParameterValue,
            InsufficientPrivilege,
        ) as error:  # no such role, or not one of its members
            raise SchemaMismatch from error
        self.tenant = tenant

    async def _check_direct(self) -> None:
        """Refuse a pooler that lends a connection to another client after each transaction, with the tenant set on it.

        The id of its process is not that of PostgreSQL's.
        """
        if not self._is_direct:
            row = await (await self.execute("SELECT pg_backend_pid()")).fetchone()
            if row != (self.info.backend_pid,):
                raise DatabaseUnavailable(
                    "There is a connection pooler such as PgBouncer before PostgreSQL, which may mix tenants: "
                    "connect to PostgreSQL directly."
                )
            self._is_direct = True


class Pool(AsyncConnectionPool[TenantConnection]):
    """Lends connections for one tenant each time, so that none keeps the tenant of its last use."""

    def __init__(self, *args: Any, is_restricted: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_restricted = is_restricted

    @asynccontextmanager
    async def connection(
        self,
        timeout: float | None = None,  # noqa: ASYNC109  # as in the superclass
        *,
        tenant: Tenant = DEFAULT,
    ) -> AsyncGenerator[TenantConnection, None]:
        async with super().connection(timeout) as conn:
            if self._is_restricted:
                await conn.set_tenant(tenant)
            yield conn


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

    async def configure(conn: AsyncConnection) -> None:
        await _configure(conn)
        if lock_timeout is not None:
            await conn.execute(f"SET lock_timeout = {round(lock_timeout * 1000)}")
        if statements.timeout is not None:
            await conn.execute(f"SET statement_timeout = '{statements.timeout}s'")

    return Pool(
        libpq_url(url),
        is_restricted=not as_owner,
        connection_class=TenantConnection,
        kwargs={"autocommit": True, "prepare_threshold": statements.prepare_threshold},
        configure=configure,
        min_size=min_size,
        max_size=max_size,
        timeout=5,
        open=False,
    )


@asynccontextmanager
async def one_transaction(conn: AsyncConnection) -> AsyncGenerator[None, None]:
    """Run the statements in one pipeline, which is one transaction. BEGIN and COMMIT make small appends 20 % slower.

    PostgreSQL commits at the end of the pipeline, even if this process fails or is cancelled after sending statements.
    Such an error closes the connection, so that PostgreSQL rolls back. PostgreSQL does not commit statements if it
    rejects one of them.
    """
    try:
        async with conn.pipeline():
            try:
                yield
            except BaseException as error:
                _close_on_client_failure(conn, error)
                raise
    except BaseException as error:  # cancelled while the pipeline ends, with results unread
        _close_on_client_failure(conn, error)
        raise


def _close_on_client_failure(conn: AsyncConnection, error: BaseException) -> None:
    is_rejected_by_server = isinstance(error, psycopg.Error) and error.sqlstate
    is_before_first_write = isinstance(error, AshError)
    if not (is_rejected_by_server or is_before_first_write):
        conn.pgconn.finish()


async def connect(url: str) -> AsyncConnection:
    """Open one connection, configured like those of the pool, without a lock timeout and without row-level security."""
    conn = await Connection.connect(libpq_url(url), autocommit=True)
    try:
        await _configure(conn)
        await conn.execute(f"SET ash.tenant = {DEFAULT.number}")
    except BaseException:  # also after a cancellation
        await conn.close()
        raise
    return conn


def upgrade(url: str, revision: str = REVISION) -> None:
    """Migrate the schema to this version, or to an earlier one; several processes may do so at once."""
    with psycopg.connect(libpq_url(url), autocommit=True) as conn:
        if current_revision_of(conn) != revision:
            _migrate(url, revision)


async def current_revision(conn: AsyncConnection) -> str | None:
    """Return the revision of the schema, to compare with REVISION. None before the first upgrade."""
    try:
        row = await (await conn.execute(_SELECT_REVISION)).fetchone()
    except UndefinedTable:
        return None
    return row[0] if row else None


async def check_schema(conn: AsyncConnection) -> None:
    """Raises SchemaMismatch if the schema is not the one this version needs."""
    revision = await current_revision(conn)
    if revision != REVISION:
        raise SchemaMismatch(
            f"the database has schema {revision or 'none'}, this Ash needs {REVISION}: run `ash db upgrade`, "
            "or a newer Ash if that refuses"
        )


def libpq_url(url: str) -> str:
    """Return the URL in libpq's form, without the driver of an SQLAlchemy URL."""
    scheme, separator, rest = url.partition("://")
    return f"postgresql{separator}{rest}" if scheme in ("postgresql+psycopg", "postgres") else url


async def _configure(conn: AsyncConnection) -> None:
    # With the default random_page_cost and a table that is not analysed yet, PostgreSQL reads and sorts a whole session
    # for one page instead of reading the rows from the index in order. Compiling the query of a page, if its estimated
    # cost is high, takes longer than running it.
    await conn.execute("SET TIME ZONE 'UTC'; SET random_page_cost = 1; SET jit = off")


def current_revision_of(conn: psycopg.Connection) -> str | None:
    """Like `current_revision`."""
    try:
        row = conn.execute(_SELECT_REVISION).fetchone()
    except UndefinedTable:
        return None
    return row[0] if row else None


def _migrate(url: str, revision: str) -> None:
    # Imported late: it takes half a second, and most databases are up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError
    from sqlalchemy import NullPool, create_engine

    config = Config()
    config.set_main_option(
        "script_location", str(next(filter(Path.is_dir, _MIGRATION_FOLDERS))).replace("%", "%%")
    )
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(libpq_url(url)), poolclass=NullPool
    )
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise SchemaMismatch(
                f"the database has a schema of a newer Ash: run that version ({error})"
            ) from error
