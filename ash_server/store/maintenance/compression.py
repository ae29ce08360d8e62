"""Compression of the texts of messages by PostgreSQL: a property of the column, which applies to new rows."""

from typing import Literal, TypeAlias

import psycopg
from psycopg.errors import FeatureNotSupported

from ash_server.store.connections.cluster import has_citus

Compression: TypeAlias = Literal["lz4", "pglz", "none"]

_GET = """
    SELECT CASE
        WHEN attstorage = 'e' THEN 'none'
        WHEN attcompression = 'l' THEN 'lz4'
        WHEN attcompression = 'p' THEN 'pglz'
        ELSE current_setting('default_toast_compression') END
    FROM pg_attribute
    WHERE attrelid = 'messages'::regclass AND attname = 'content'
"""

_SET = {
    "lz4": "ALTER TABLE {table} ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION lz4",
    "pglz": "ALTER TABLE {table} ALTER content SET STORAGE EXTENDED, ALTER content SET COMPRESSION pglz",
    "none": "ALTER TABLE {table} ALTER content SET STORAGE EXTERNAL",
}

_RUN_ON_SHARDS = "SELECT result FROM run_command_on_shards('messages', %s) WHERE NOT success"
_ON_COORDINATOR_ALONE = "SET citus.enable_ddl_propagation = off"


def get_compression(conn: psycopg.Connection) -> Compression:
    ((compression,),) = conn.execute(_GET).fetchall()
    current: Compression = compression
    return current


def set_compression(conn: psycopg.Connection, compression: Compression) -> None:
    """Raises psycopg.errors.FeatureNotSupported if PostgreSQL was built without lz4."""
    statement = _SET[compression]
    if has_citus(conn) and _is_distributed(conn):
        _set_on_shards(conn, statement.format(table="%s"))
    conn.execute(statement.format(table="messages").encode())


def _is_distributed(conn: psycopg.Connection) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = 'messages'::regclass)"
    ((is_distributed,),) = conn.execute(query).fetchall()
    return bool(is_distributed)


def _set_on_shards(conn: psycopg.Connection, statement: str) -> None:
    """Change all shards of a cluster, because Citus does not. The next statement changes the template of new shards."""
    if failures := conn.execute(_RUN_ON_SHARDS, [statement]).fetchall():
        raise FeatureNotSupported(failures[0][0])
    conn.execute(_ON_COORDINATOR_ALONE)
