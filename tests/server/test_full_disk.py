"""On a full disk, no confirmed write is lost, and writes succeed again as soon as there is room."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import httpx2
import psycopg
import pytest

from ash_client import ApiError, AshClient
from ash_client.retry import Attempts
from ash_server import NewMessage, Store
from ash_server.cli.common.availability import Availability
from ash_server.errors import DatabaseUnavailable, DiskFull
from ash_server.store.connections.pool import direct_url
from tests.cluster import on_citus
from tests.server.api.conftest import app, server, settings  # noqa: F401  # fixtures
from tests.server.cli.test_cli import environment, ran_here
from tests.waiting import until

NO_MOUNT = "needs the right to mount a file system, and a PostgreSQL on this machine"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system in memory; skip the test if that is not allowed."""
    folder.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
        subprocess.run(command, capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip(NO_MOUNT)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def grow(folder: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


@pytest.fixture
def full_disk(database_url: str, tmp_path: Path) -> Iterator[Path]:
    """A disk for the texts of messages that a few messages fill."""
    if on_citus():
        pytest.skip(NO_MOUNT)
    with (
        small_disk(tmp_path / "disk", "2m") as folder,
        psycopg.connect(direct_url(database_url), autocommit=True) as conn,
    ):
        space = f"small_{conn.info.dbname}"
        try:
            conn.execute(f"CREATE TABLESPACE {space} LOCATION '{folder}'".encode())
        except psycopg.Error:
            pytest.skip(NO_MOUNT)
        conn.execute(f"ALTER TABLE messages SET TABLESPACE {space}".encode())
        yield folder
        conn.execute("DROP TABLE messages CASCADE")
        conn.execute(f"DROP TABLESPACE {space}".encode())


@pytest.mark.slow
def test_full_disk_of_a_server(
    full_disk: Path,
    server: str,  # noqa: F811
    database_url: str,
    tmp_path: Path,
) -> None:
    random = Random(7)
    created = httpx2.post(f"{server}/api/sessions", json={}).json()
    messages = f"{server}/api/sessions/{created['id']}/messages"

    def append(number: int) -> httpx2.Response:
        message = {"id": str(number), "content": random.randbytes(50_000).hex()}
        return httpx2.post(messages, json=message)

    number = 1
    while (refused := append(number)).status_code == 201:
        number += 1
    read = httpx2.get(messages).json()["messages"]
    file = tmp_path / "large.txt"
    file.write_text(random.randbytes(50_000).hex())
    imported = ran_here(("import", str(file)), environment(tmp_path, database_url, {}), tmp_path)
    with AshClient(server) as client, pytest.raises(ApiError) as error:
        client.append(created["id"], [file.read_text()])
    grow(full_disk, "20m")
    again = [append(later).status_code for later in range(number, number + 10)]

    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (507, "disk_full")
    assert problem["detail"] == (
        "The disk of the database is full. Nothing is stored; the request may be repeated with the same ids, and is "
        "stored once."
    )
    assert imported.code == 1
    assert "The disk of the database is full. Nothing is stored; " in imported.err
    assert (error.value.status, error.value.code) == (507, "disk_full")
    assert [message["id"] for message in read] == [str(before) for before in range(1, number)]
    assert again == [201] * 10


def test_commands_that_repeat_requests_say_that_there_is_no_room() -> None:
    lines: list[str] = []
    availability = Availability(lines.append, "trying again")
    availability.url = "http://ash.example"
    for status, detail in ((507, "The disk is full."), (503, "The database is unavailable.")):
        attempts = Attempts(availability.retry(None))
        attempts.delay_after(ApiError("code", detail, status=status))
        attempts.succeed()

    assert lines == [
        "the server at http://ash.example has no room (The disk is full.); trying again",
        "the server at http://ash.example answers",
        "no server answers at http://ash.example (The database is unavailable.); trying again",
        "the server at http://ash.example answers",
    ]


@pytest.mark.slow
async def test_full_disk_of_an_embedded_store(tmp_path: Path) -> None:
    """PostgreSQL stops when it cannot write its log, and is restarted when there is room."""
    random, confirmed = Random(7), list[str]()
    with small_disk(tmp_path / "home", "100m") as home:
        async with Store.open(home=home) as store:
            session = await store.sessions.create(external_id="run-7")

            async def append() -> bool:
                id = str(len(confirmed))
                new = NewMessage(random.randbytes(500_000).hex(), id=id)
                try:
                    await store.messages.append(session.id, [new])
                except (DatabaseUnavailable, DiskFull):
                    return False
                confirmed.append(id)
                return True

            while await append():
                pass
            grow(home, "400m")
            await until(append)
            stored = [message.id async for message in store.messages.stream_messages(session.id)]

    assert len(confirmed) > 10
    assert stored == confirmed
