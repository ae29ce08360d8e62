"""Rewrite the large tables without the space of deleted rows."""

import psycopg

_TABLES = ("events", "messages", "search")

_SIZE = "SELECT pg_size_pretty(sum(pg_total_relation_size(name::regclass))) FROM unnest(%b::text[]) AS name"


def vacuum(conn: psycopg.Connection) -> tuple[str, str]:
    """Return the size of the tables before and after. Readers and writers wait meanwhile.

    The connection is in autocommit mode.
    """
    before = _size(conn)
    for table in _TABLES:
        conn.execute(f"VACUUM (FULL, ANALYZE) {table}")
    return before, _size(conn)


def _size(conn: psycopg.Connection) -> str:
    row = conn.execute(_SIZE, [list(_TABLES)]).fetchone()
    return row[0] if row else ""
