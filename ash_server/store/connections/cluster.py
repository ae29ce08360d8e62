"""The worker nodes of a Citus cluster: availability, and the size of their shards.

Only the owner of the database may send commands to the workers, not the roles of tenants.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection

from ash_server.store.connections.driver import HAS_CITUS
from ash_server.store.maintenance.distribution import DISTRIBUTED

_WORKERS = """
    SELECT format('%s:%s', nodename, nodeport), coalesce(success, false)
    FROM pg_dist_node LEFT JOIN run_command_on_workers('SELECT 1') USING (nodename, nodeport)
    WHERE noderole = 'primary' AND groupid <> 0
    ORDER BY 1
"""

BYTES = "SELECT pg_database_size(current_database())"

_BYTES_OF_WORKERS = f"""
    SELECT coalesce(sum(result::bigint) FILTER (WHERE success), 0)::bigint FROM run_command_on_workers('{BYTES}')
"""  # noqa: S608  # constant SQL

_ON_WORKERS = "SELECT result FROM run_command_on_workers(%s) WHERE success"

_SHARD = re.compile(r"(.+)_\d+")


class Worker(NamedTuple):
    address: str
    answers: bool


def has_citus(conn: psycopg.Connection) -> bool:
    ((is_distributed,),) = conn.execute(f"SELECT {HAS_CITUS}").fetchall()
    return bool(is_distributed)


def list_workers(conn: psycopg.Connection) -> list[Worker]:
    return [Worker(*row) for row in conn.execute(_WORKERS).fetchall()] if has_citus(conn) else []


async def count_workers(conn: AsyncConnection) -> tuple[int, int]:
    """Return the number of workers, and the number that do not answer."""
    workers = [Worker(*row) for row in await (await conn.execute(_WORKERS)).fetchall()]
    return len(workers), sum(not each.answers for each in workers)


def database_bytes(conn: psycopg.Connection) -> int:
    """Return the size of the database on all nodes that answer."""
    queries = [BYTES, _BYTES_OF_WORKERS] if has_citus(conn) else [BYTES]
    return sum(conn.execute(query).fetchall()[0][0] for query in queries)


async def read_database_bytes(conn: AsyncConnection) -> int:
    """Return the same as `database_bytes`."""
    queries = [BYTES, _BYTES_OF_WORKERS] if getattr(conn, "is_distributed", False) else [BYTES]
    return sum([(await (await conn.execute(query)).fetchall())[0][0] for query in queries])


def rows_of_shards(conn: psycopg.Connection, query: str) -> Iterable[Mapping[str, Any]]:
    """Run a query about tables or their indexes on the workers; return its rows, each with the `table` of the shard.

    The rows have a column `relname`, the name of the shard.
    """
    rows = f"SELECT coalesce(json_agg(each), '[]') FROM ({query}) AS each"  # noqa: S608  # constant SQL
    for (result,) in conn.execute(_ON_WORKERS, [rows]).fetchall() if has_citus(conn) else ():
        for row in json.loads(result):
            shard = _SHARD.fullmatch(row["relname"])
            if shard and shard[1] in DISTRIBUTED:
                yield {**row, "table": shard[1]}
