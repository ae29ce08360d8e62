"""Constraints that tests add to a table. A cluster's database is used by all tests, so they are dropped again."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg


@contextmanager
def refused(url: str, table: str, allowed: str) -> Iterator[None]:
    """Refuse new rows that do not meet the condition `allowed`, with CheckViolation."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"ALTER TABLE {table} ADD CONSTRAINT refused CHECK ({allowed}) NOT VALID")
        try:
            yield
        finally:
            conn.execute(f"ALTER TABLE {table} DROP CONSTRAINT refused")
