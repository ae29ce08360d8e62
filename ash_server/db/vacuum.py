"""Free the space of deleted rows, and gather the statistics that PostgreSQL plans with."""

import psycopg

_TABLES = (
    "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
)

_SIZE = "SELECT pg_size_pretty(sum(pg_total_relation_size(name::regclass))) FROM unnest(%b::text[]) AS name"


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
    row = conn.execute(_SIZE, [tables]).fetchone()
    return row[0] if row else ""
