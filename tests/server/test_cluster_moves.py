"""Moves of shards between the workers of a Citus cluster while clients write. They take too long for `.ci/run`."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import psycopg
import pytest

from ash_server import Store
from tests.cluster import only_on_cluster
from tests.server.test_cluster import Writers, http_client

pytestmark = only_on_cluster

_WORKER = "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeport DESC LIMIT 1"
_COUNT_PLACES = "SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'sessions'::regclass"


class Worker(NamedTuple):
    name: str
    port: int


@pytest.fixture
def worker(database_url: str) -> Iterator[Worker]:
    """A worker, which belongs to the cluster again after the test."""
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        worker = Worker(*conn.execute(_WORKER).fetchall()[0])
        yield worker
        conn.execute("SELECT citus_add_node(%s, %s)", worker)
        conn.execute("SELECT citus_set_node_property(%s, %s, 'shouldhaveshards', true)", worker)


async def test_a_worker_is_removed_and_added_under_writers(
    store: Store, database_url: str, worker: Worker
) -> None:
    sessions = [(await store.sessions.create()).id for _ in range(4)]
    before, places = count_places(database_url), []
    async with http_client(database_url) as client:
        writers = Writers(client, sessions)
        await writers.progress(sessions)
        for step in (remove, add):
            await asyncio.to_thread(step, database_url, worker)
            await writers.progress(sessions)
            places.append(await asyncio.to_thread(count_places, database_url))
        await writers.stop()
    stored = {
        id: [(row.sequence, row.id) async for row in store.messages.stream_messages(id)] for id in sessions
    }

    assert places == [before - 1, before]
    assert {(each["status"], each["code"]) for each in writers.refused.values()} <= {
        (503, "database_unavailable")
    }
    assert stored == {
        id: [(number + 1, f"{number}") for number in range(count)]
        for id, count in writers.acknowledged.items()
    }


def remove(database_url: str, worker: Worker) -> None:
    """Move its shards to the other worker first."""
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        conn.execute("SELECT citus_drain_node(%s, %s)", worker)
        conn.execute("CALL citus_cleanup_orphaned_resources()")
        conn.execute("SELECT citus_remove_node(%s, %s)", worker)


def add(database_url: str, worker: Worker) -> None:
    """Move half of the shards to it afterwards."""
    with closing(psycopg.connect(database_url, autocommit=True)) as conn:
        conn.execute("SELECT citus_add_node(%s, %s)", worker)
        conn.execute("SELECT rebalance_table_shards()")


def count_places(database_url: str) -> int:
    """Return the number of workers with sessions."""
    with closing(psycopg.connect(database_url)) as conn:
        ((count,),) = conn.execute(_COUNT_PLACES).fetchall()
        return int(count)
