"""Creation and migration of the schema.

A new store is made from `schema.sql`; the chain of migrations brings stores and backups of earlier versions up to date.
"""

from pathlib import Path

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege, UndefinedTable

from ash_server.errors import SchemaMismatch
from ash_server.store.connections.pool import connect_command
from ash_server.store.statements import statements

REVISION = "0048"
"""The schema revision that this version requires."""

LOCK = 0x41534801
"""Number of an advisory lock, chosen at random: one process changes the schema, the others wait."""

SCHEMA_FILE = Path(__file__).with_name("schema.sql")
"""All statements that create a store of the current version; `make schema` writes the part with the tables."""

SQL = statements(__file__)

# A wheel has the migrations inside the package, a checkout in its root.
_MIGRATION_FOLDERS = (Path(__file__).parents[2] / "_alembic", Path(__file__).parents[3] / "alembic")


def known_revisions() -> set[str]:
    """Return the schema revisions that this version can create."""
    return {path.name[:4] for path in (_migration_folder() / "versions").glob("[0-9]*.py")}


def upgrade(url: str, revision: str = REVISION) -> None:
    """Create the schema, or migrate it to this version; several processes may do so at once.

    An earlier `revision` is for backups and tests. Raises SchemaMismatch, psycopg.Error.
    """
    with connect_command(url) as conn:
        current = current_revision_of(conn)
    if current is None and revision == REVISION:
        _create(url)
    elif current != revision:
        _migrate(url, revision)


async def current_revision(conn: AsyncConnection) -> str | None:
    """Return the revision of the schema, to compare with REVISION. None before the first upgrade."""
    try:
        row = await (await conn.execute(SQL.get_revision)).fetchone()
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


def current_revision_of(conn: psycopg.Connection) -> str | None:
    """Like `current_revision`."""
    try:
        row = conn.execute(SQL.get_revision).fetchone()
    except UndefinedTable:
        return None
    return row[0] if row else None


def _create(url: str) -> None:
    """Run `schema.sql` as one transaction; migrate instead if another process has created tables meanwhile."""
    with connect_command(url, autocommit=False) as conn:
        conn.execute(SQL.lock, [LOCK])
        ((is_new,),) = conn.execute(SQL.is_new).fetchall()
        if is_new:
            try:
                conn.execute(SCHEMA_FILE.read_bytes())
            except InsufficientPrivilege as error:
                raise _privilege_missing(error) from error
    if not is_new:
        _migrate(url, REVISION)


def _migration_folder() -> Path:
    return next(filter(Path.is_dir, _MIGRATION_FOLDERS))


def _migrate(url: str, revision: str) -> None:
    # Imported late: it takes half a second, and most databases are up to date.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError
    from sqlalchemy import NullPool, create_engine
    from sqlalchemy.exc import DBAPIError

    config = Config()
    config.set_main_option("script_location", str(_migration_folder()).replace("%", "%%"))
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect_command(url, autocommit=False),
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise SchemaMismatch(
                f"the database has a schema of a newer Ash: run that version ({error})"
            ) from error
        except DBAPIError as error:
            if isinstance(error.orig, InsufficientPrivilege):
                raise _privilege_missing(error.orig) from error
            raise error.orig or error from None


def _privilege_missing(error: InsufficientPrivilege) -> SchemaMismatch:
    """Return an error with the statements in the hint of migration 0016; without a hint, Ash is not the owner."""
    hint = error.diag.message_hint
    remedy = f"let an administrator run `{hint}`" if hint else "the user must own the database and its tables"
    return SchemaMismatch(f"the database cannot be migrated: {error.diag.message_primary}; {remedy}")
