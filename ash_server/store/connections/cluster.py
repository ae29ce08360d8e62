"""The worker nodes of a Citus cluster: availability, and the size of their shards.

Only the owner of the database may send commands to the workers, not the roles of tenants.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection

from ash_server.store.connections import driver
from ash_server.store.statements import Sql, statements

DISTRIBUTED = {
    "sessions": "id",
    "session_counters": "session_id",
    "messages": "session_id",
    "events": "session_id",
    "open_texts": "session_id",
    "kept_states": "session_id",
    "drift": "session_id",
    "search": "session_id",
    "search_progress": "session_id",
    "answers": "session_id",
    "usage_rollups": "session_id",
    "session_labels": "session_id",
    "tool_calls": "session_id",
    "cold_sessions": "session_id",
    "cold_archives": "session_id",
}
"""The distributed tables and the columns with the session, `sessions` first: the others are placed like it."""

ON_COORDINATOR = (
    "alembic_version",
    "tenants",
    "keys",
    "sign_ins",
    "sign_in_codes",
    "audit",
    "shares",
    "budgets",
    "budget_notices",
    "retention_policies",
    "scheduled_deletions",
    "cold_policies",
)
"""Few rows, and no statement reads them together with the rows of sessions."""

SQL = statements(__file__, has_citus_extension=driver.SQL.has_citus)

_SHARD = re.compile(r"(.+)_\d+")


class Worker(NamedTuple):
    address: str
    answers: bool


def has_citus(conn: psycopg.Connection) -> bool:
    ((is_distributed,),) = conn.execute(SQL.has_citus).fetchall()
    return bool(is_distributed)


def list_workers(conn: psycopg.Connection) -> list[Worker]:
    return [Worker(*row) for row in conn.execute(SQL.list_workers).fetchall()] if has_citus(conn) else []


async def count_workers(conn: AsyncConnection) -> tuple[int, int]:
    """Return the number of workers, and the number that do not answer."""
    workers = [Worker(*row) for row in await (await conn.execute(SQL.list_workers)).fetchall()]
    return len(workers), sum(not each.answers for each in workers)


def database_bytes(conn: psycopg.Connection) -> int:
    """Return the size of the database on all nodes that answer."""
    return sum(conn.execute(query).fetchall()[0][0] for query in _size_queries(has_workers=has_citus(conn)))


async def read_database_bytes(conn: AsyncConnection) -> int:
    """Return the same as `database_bytes`."""
    queries = _size_queries(has_workers=getattr(conn, "is_distributed", False))
    return sum([(await (await conn.execute(query)).fetchall())[0][0] for query in queries])


def _size_queries(*, has_workers: bool) -> list[Sql]:
    return [SQL.database_bytes, SQL.database_bytes_of_workers] if has_workers else [SQL.database_bytes]


def rows_of_shards(conn: psycopg.Connection, query: Sql) -> Iterable[Mapping[str, Any]]:
    """Run a query about tables or their indexes on the workers; return its rows, each with the `table` of the shard.

    The rows have a column `relname`, the name of the shard.
    """
    rows = SQL.rows_as_json.fill(query=query)
    for (result,) in conn.execute(SQL.run_on_workers, [rows]).fetchall() if has_citus(conn) else ():
        for row in json.loads(result):
            shard = _SHARD.fullmatch(row["relname"])
            if shard and shard[1] in DISTRIBUTED:
                yield {**row, "table": shard[1]}
