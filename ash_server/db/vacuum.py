"""Rewrite the tables without the space and the texts of deleted rows."""

import psycopg

_TABLES = (
    "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
)

_SIZE = "SELECT pg_size_pretty(sum(pg_total_relation_size(name::regclass))) FROM unnest(%b::text[]) AS name"


def vacuum(conn: psycopg.Connection) -> tuple[str, str]:
    """Return the size of the tables before and after. Readers and writers wait meanwhile.

    The connection is in autocommit mode.
    """
    tables = [row[0] for row in conn.execute(_TABLES).fetchall()]
    before = _size(conn, tables)
    for table in tables:
        conn.execute(f"VACUUM (FULL, ANALYZE) {table}")
    return before, _size(conn, tables)


def _size(conn: psycopg.Connection, tables: list[str]) -> str:
    row = conn.execute(_SIZE, [tables]).fetchone()
    return row[0] if row else ""
