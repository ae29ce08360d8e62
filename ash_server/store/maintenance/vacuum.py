"""Free the space of deleted rows, and gather the statistics that PostgreSQL plans with."""

import psycopg
from psycopg import sql

from ash_server.store.connections.cluster import has_citus
from ash_server.store.statements import statements

SQL = statements(__file__)


def vacuum(conn: psycopg.Connection, *, online: bool = False) -> tuple[str, str]:
    """Return the size of the tables before and after. Readers and writers wait meanwhile.

    With `online`, nobody waits: the space is used again, but not returned. The connection is in autocommit mode.
    """
    command = sql.SQL("VACUUM (ANALYZE) {}" if online else "VACUUM (FULL, ANALYZE) {}")
    tables = [row[0] for row in conn.execute(SQL.list_tables).fetchall()]
    before = _size(conn, tables)
    for table in tables:
        conn.execute(command.format(sql.Identifier(table)))
    return before, _size(conn, tables)


def _size(conn: psycopg.Connection, tables: list[str]) -> str:
    ((size,),) = conn.execute(SQL.size_of_tables, [tables]).fetchall()
    if has_citus(conn):
        size += conn.execute(SQL.size_of_shards).fetchall()[0][0]
    ((pretty,),) = conn.execute(SQL.format_size, [size]).fetchall()
    return str(pretty)
