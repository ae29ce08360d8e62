"""Free the space of deleted rows, and gather the statistics that PostgreSQL plans with."""

import psycopg

from ash_server.store.connections.cluster import has_citus

_TABLES = (
    "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
)

_SIZE = "SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0) FROM unnest(%b::text[]) AS name"
_SIZE_OF_SHARDS = "SELECT coalesce(sum(citus_total_relation_size(logicalrelid)), 0) FROM pg_dist_partition"
_PRETTY = "SELECT pg_size_pretty(%b::numeric)"


def vacuum(conn: psycopg.Connection, *, online: bool = False) -> tuple[str, str]:
    """Return the size of the tables before and after. Readers and writers wait meanwhile.

    With `online`, nobody waits: the space is used again, but not returned. The connection is in autocommit mode.
    """
    options = "ANALYZE" if online else "FULL, ANALYZE"
    tables = [row[0] for row in conn.execute(_TABLES).fetchall()]
    before = _size(conn, tables)
    for table in tables:
        conn.execute(f"VACUUM ({options}) {table}")
    return before, _size(conn, tables)


def _size(conn: psycopg.Connection, tables: list[str]) -> str:
    ((size,),) = conn.execute(_SIZE, [tables]).fetchall()
    if has_citus(conn):
        size += conn.execute(_SIZE_OF_SHARDS).fetchall()[0][0]
    ((pretty,),) = conn.execute(_PRETTY, [size]).fetchall()
    return str(pretty)
