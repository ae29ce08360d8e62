"""Connections, transactions and the schema."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import UndefinedTable
from psycopg_pool import AsyncConnectionPool

from ash_server.errors import AshError, SchemaMismatch

Pool: TypeAlias = AsyncConnectionPool[AsyncConnection]

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

REVISION = "0014"
"""The schema revision that this version requires."""

LOCK_TIMEOUT = 4.0
"""Seconds that a writer waits for another writer of the same session."""

_SELECT_REVISION = "SELECT version_num FROM alembic_version"

# A wheel has the migrations inside the package, a checkout in its root.
_MIGRATION_FOLDERS = (Path(__file__).parents[1] / "_alembic", Path(__file__).parents[2] / "alembic")


def open_pool(
    url: str, *, min_size: int = 1, max_size: int = 10, lock_timeout: float | None = LOCK_TIMEOUT
) -> Pool:
    """Return a pool that opens on entry (`async with`). Its connections are in autocommit mode, with times in UTC.

    `lock_timeout` is in seconds; None waits for the locks of other writers without a limit.
    """

    async def configure(conn: AsyncConnection) -> None:
        await _configure(conn)
        if lock_timeout is not None:
            await conn.execute(f"SET lock_timeout = {round(lock_timeout * 1000)}")

    return AsyncConnectionPool(
        libpq_url(url),
        kwargs={"autocommit": True},
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
    """Open one connection, configured like those of the pool, without a lock timeout."""
    conn = await AsyncConnection.connect(libpq_url(url), autocommit=True)
    try:
        await _configure(conn)
    except BaseException:  # also after a cancellation
        await conn.close()
        raise
    return conn


def upgrade(url: str) -> None:
    """Migrate the schema to this version; several processes may do so at once."""
    with psycopg.connect(libpq_url(url), autocommit=True) as conn:
        if _current_revision(conn) != REVISION:
            _migrate(url)


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


def _current_revision(conn: psycopg.Connection) -> str | None:
    try:
        row = conn.execute(_SELECT_REVISION).fetchone()
    except UndefinedTable:
        return None
    return row[0] if row else None


def _migrate(url: str) -> None:
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
            command.upgrade(config, "head")
        except CommandError as error:
            raise SchemaMismatch(
                f"the database has a schema of a newer Ash: run that version ({error})"
            ) from error
