"""kill -9 of the database and of a writer: acknowledged messages survive, and retries store no duplicates."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server.store.connections.pool import connect
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.log.events import Appended
from ash_server.store.message_pages import stream_messages
from ash_server.store.messages import append
from ash_server.store.prepare import PreparedMessage
from ash_server.store.schema.migrations import upgrade
from ash_server.store.sessions import create_session
from tests.server.store.lending import lending
from tests.server.store.test_messages import message

ROUNDS = 3
WRITERS = 4

# Appends pairs of messages and prints each when it is acknowledged.
WRITER = """
import asyncio, sys
from uuid import UUID
from ash_server.store.connections.pool import connect
from ash_server.store.messages import append
from ash_server.store.prepare import prepare_message

async def main(url, session_id):
    async with await connect(url) as conn:
        for number in range(10**6):
            batch = [prepare_message(session_id, "text", id=f"{number}-{part}") for part in "ab"]
            for appended in await append(conn, session_id, batch):
                print(appended.sequence, appended.id, flush=True)

asyncio.run(main(sys.argv[1], UUID(sys.argv[2])))
"""


def batch_of(name: str) -> list[PreparedMessage]:
    return [message(f"{name}-{part}", f"text of {name}") for part in "abc"]


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path / "pg") as server:
        upgrade(server.url())
        yield server


def kill(server_data: Path) -> None:
    os.kill(int((server_data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


class Writer:
    """Records acknowledged messages, and the number of the batch with an unknown outcome."""

    def __init__(self, name: str, session_id: UUID) -> None:
        self.name, self.session_id = name, session_id
        self.acknowledged: list[Appended] = []
        self.number = 0
        self.reached = asyncio.Event()

    async def run(self, url: str, goal: int) -> None:
        """Append until the connection breaks; set `reached` once `goal` batches are acknowledged."""
        self.reached.clear()
        try:
            async with await connect(url) as conn:
                while True:
                    self.acknowledged += await append(
                        conn, self.session_id, batch_of(f"{self.name}-{self.number}")
                    )
                    self.number += 1
                    if self.number >= goal:
                        self.reached.set()
        except psycopg.OperationalError:
            pass


async def test_killed_database_loses_and_duplicates_no_messages(
    durable: EmbeddedPostgres, tmp_path: Path
) -> None:
    async with await connect(durable.url()) as conn:
        ids = [(await create_session(conn)).session.id for _ in range(2)]
    writers = [Writer(str(n), ids[n % 2]) for n in range(WRITERS)]

    for round in range(1, ROUNDS + 1):
        async with asyncio.TaskGroup() as writing:
            for writer in writers:
                writing.create_task(writer.run(durable.url(), goal=round * 20))
            for writer in writers:
                await writer.reached.wait()
            kill(tmp_path / "pg")
        durable.start()
        async with await connect(durable.url()) as conn:
            for writer in writers:
                await finish(conn, writer)

    for session_id in ids:
        own = [writer for writer in writers if writer.session_id == session_id]
        async with await connect(durable.url()) as conn:
            stored = [(each.sequence, each.id) async for each in stream_messages(lending(conn), session_id)]
        assert stored == sorted((each.sequence, each.id) for writer in own for each in writer.acknowledged)
        assert [sequence for sequence, _ in stored] == list(range(1, len(stored) + 1))


async def finish(conn: AsyncConnection, writer: Writer) -> None:
    """Check that acknowledged messages are stored and the open batch is stored in full or not at all; then retry it."""
    before = {each.id: each.sequence async for each in stream_messages(lending(conn), writer.session_id)}
    open_batch = batch_of(f"{writer.name}-{writer.number}")
    known = {message.id for message in open_batch} & set(before)
    answers = await append(conn, writer.session_id, open_batch)

    assert {each.id: before.get(each.id) for each in writer.acknowledged} == {
        each.id: each.sequence for each in writer.acknowledged
    }
    assert [each.created for each in answers] in ([True] * 3, [False] * 3)
    assert known == {each.id for each in answers if not each.created}
    writer.acknowledged += answers
    writer.number += 1


@pytest.mark.slow
async def test_killed_writer_leaves_complete_batches_and_no_lock(
    connection: AsyncConnection, database_url: str, session_id: UUID
) -> None:
    for round in range(3):
        acknowledged = run_killed_writer(database_url, session_id, after=40 + 7 * round)
        stored = [(each.sequence, each.id) async for each in stream_messages(lending(connection), session_id)]

        assert set(acknowledged) <= set(stored)
        assert stored == [(n + 1, f"{n // 2}-{'ab'[n % 2]}") for n in range(len(stored))]
        assert len(stored) % 2 == 0

    # The last batch of the killed writer may still be stored, before the next one.
    next_one = await append(connection, session_id, batch_of("next"))
    stored = [(each.sequence, each.id) async for each in stream_messages(lending(connection), session_id)]
    complete = [(n + 1, f"{n // 2}-{'ab'[n % 2]}") for n in range(len(stored) - 3)]
    assert stored == complete + [(each.sequence, each.id) for each in next_one]
    assert len(complete) % 2 == 0
    assert next_one[0].sequence == len(complete) + 1


def run_killed_writer(url: str, session_id: UUID, after: int) -> list[tuple[int, str]]:
    """Run a writer, kill it after some lines, and return its output. Each writer sends the same messages."""
    command = [sys.executable, "-c", WRITER, url, str(session_id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += process.stdout.readlines()
    complete = [line.split() for line in lines if line.endswith("\n")]
    return [(int(sequence), id) for sequence, id in complete]
