"""Run the migrations on the caller's connection, on ASH_DATABASE_URL, or offline (`--sql`)."""

import os

from alembic import context
from sqlalchemy import Connection, NullPool, create_engine, text

from ash_server.store.connections.pool import PooledUrl, connect_command
from ash_server.store.schema.migrations import LOCK
from ash_server.store.schema.tables import metadata


def run(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=metadata, compare_type=True, compare_server_default=True
    )
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        context.run_migrations()


def run_offline() -> None:
    context.configure(dialect_name="postgresql", target_metadata=metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


def run_with_environment_url() -> None:
    url, direct = os.environ["ASH_DATABASE_URL"], os.environ.get("ASH_DIRECT_URL")
    address = PooledUrl(url, direct) if direct else url
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect_command(address, autocommit=False),
        poolclass=NullPool,
    )
    with engine.connect() as connection:
        run(connection)


if context.is_offline_mode():
    run_offline()
elif connection := context.config.attributes.get("connection"):
    run(connection)
else:
    run_with_environment_url()
