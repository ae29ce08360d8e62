"""Markers and helpers for tests that behave differently on a Citus cluster."""

import os
from typing import LiteralString

import pytest
from psycopg import AsyncConnection


def on_citus() -> bool:
    return "ASH_TEST_CITUS_URL" in os.environ


def not_on_cluster(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(on_citus(), reason=f"a cluster differs: {reason}")


only_on_cluster = pytest.mark.skipif(not on_citus(), reason="needs ASH_TEST_CITUS_URL")

_COUNT_LOCK_WAITS = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
COUNT_LOCK_WAITS = (
    f"SELECT sum(result::bigint)::bigint FROM run_command_on_workers($${_COUNT_LOCK_WAITS}$$)"
    if on_citus()
    else _COUNT_LOCK_WAITS
)
"""The number of connections that wait for a lock, as the owner sees it: session rows are locked on the workers."""


async def fetch_as_owner(conn: AsyncConnection, query: LiteralString) -> tuple[object, ...] | None:
    """Return the first row. The role of a tenant neither sees nor ends the owner's connections."""
    async with conn.transaction():
        await conn.execute("SET LOCAL ROLE NONE")
        return await (await conn.execute(query)).fetchone()
