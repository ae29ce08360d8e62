"""Markers and helpers for tests that behave differently on a Citus cluster."""

import os

import pytest


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
