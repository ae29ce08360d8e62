"""Compression of the texts of messages by PostgreSQL: a property of the column, which applies to new rows."""

from typing import Literal, TypeAlias

import psycopg
from psycopg.errors import FeatureNotSupported

from ash_server.store.connections.cluster import has_citus
from ash_server.store.statements import Sql, statements

Compression: TypeAlias = Literal["lz4", "pglz", "none"]

SQL = statements(__file__)


def get_compression(conn: psycopg.Connection) -> Compression:
    ((compression,),) = conn.execute(SQL.get_compression).fetchall()
    current: Compression = compression
    return current


def set_compression(conn: psycopg.Connection, compression: Compression) -> None:
    """Raises psycopg.errors.FeatureNotSupported if PostgreSQL was built without lz4."""
    statements_of = {"lz4": SQL.use_lz4, "pglz": SQL.use_pglz, "none": SQL.use_none}
    statement = statements_of[compression]
    if has_citus(conn) and _is_distributed(conn):
        _set_on_shards(conn, statement.fill(table=Sql("%s")))
    conn.execute(statement.fill(table=Sql("messages")))


def _is_distributed(conn: psycopg.Connection) -> bool:
    ((is_distributed,),) = conn.execute(SQL.is_distributed).fetchall()
    return bool(is_distributed)


def _set_on_shards(conn: psycopg.Connection, statement: str) -> None:
    """Change all shards of a cluster, because Citus does not. The next statement changes the template of new shards."""
    if failures := conn.execute(SQL.run_on_shards, [statement]).fetchall():
        raise FeatureNotSupported(failures[0][0])
    conn.execute(SQL.alter_coordinator_alone)
