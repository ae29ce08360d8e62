"""`ash serve` and `ash demo` as processes: they print their address, answer there, and end on a signal."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.request import Request, urlopen
from uuid import UUID

import psutil
import psycopg
import pytest
from psycopg import AsyncConnection

from ash_server.cli.demo import TOUR
from ash_server.store import Store
from ash_server.store.connections.pool import PooledUrl
from ash_server.store.sessions import session_id_for
from ash_server.transfer.importing.file_import import import_file
from ash_shared.eventlog import NORMALIZER_VERSION
from ash_shared.model.blocks import CLASSES
from tests.conftest import POOLER, at_database, new_database
from tests.server.store.embedded.test_embedded import remaining_processes, server_processes
from tests.waiting import TIMEOUT, wait_until

COMMAND = Path(sys.executable).with_name("ash")
LAST_LINE = "Ctrl-C stops"
TOUR_ID = session_id_for("claude", f"samples/{TOUR}")


class Running(NamedTuple):
    process: subprocess.Popen[str]
    output: str
    address: str


@contextmanager
def running(*arguments: str, home: Path, **variables: str) -> Iterator[Running]:
    """A server that has printed its address; killed if the test does not end it."""
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "ASH_HOME": str(home)}
    pooler = POOLER if isinstance(variables.get("ASH_DATABASE_URL"), PooledUrl) else {}
    environment = {**pooler, **own, **variables}
    with subprocess.Popen(
        [COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            output = "".join(_until_last_line(process))
            address = re.search(r"http://[\w.:\[\]]+", output)
            assert address, process.stderr and process.stderr.read()
            yield Running(process, output, address[0])
        finally:
            process.kill()


@contextmanager
def serving(server_url: str, template: str, home: Path) -> Iterator[tuple[str, str]]:
    """Yield the addresses of a server and of its database, for several tests."""
    with new_database(server_url, f"TEMPLATE {template} STRATEGY FILE_COPY") as name:
        url = at_database(server_url, name)
        with running("serve", "--port", "0", home=home, ASH_DATABASE_URL=url) as ash:
            # Unread errors would fill the pipe, and the server would answer no test after that.
            reader = Thread(target=sys.stderr.writelines, args=[ash.process.stderr or ()])
            reader.start()
            try:
                yield ash.address, url
            finally:
                ash.process.kill()
                reader.join()


def _until_last_line(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout
    for line in process.stdout:
        yield line
        if LAST_LINE in line:
            return


def stopped(process: subprocess.Popen[str], by: signal.Signals) -> tuple[int, str, str]:
    process.send_signal(by)
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def answer(url: str) -> Any:
    with urlopen(url) as response:
        return json.load(response)


def wait_until_answered(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true that asks a server, which may break connections and answer with errors."""

    def is_true() -> bool:
        with suppress(OSError):
            return condition()
        return False

    wait_until(is_true)


def remaining_names(home: Path) -> list[str]:
    """Return the names of PostgreSQL processes that still run."""
    return [each.info["name"] for each in remaining_processes(home)]


@pytest.mark.slow
def test_demo_shows_every_type_of_block(tmp_path: Path) -> None:
    demo = ("demo", "--port", "0")
    for _ in range(2):
        with running(*demo, home=tmp_path) as ash:
            [tour] = re.findall(r"/sessions/(\S+) +shows all seven types of blocks", ash.output)
            page = answer(f"{ash.address}/api/sessions/{TOUR_ID}/messages?parsed=true")
            sessions = answer(f"{ash.address}/api/sessions")["sessions"]

            assert {block["type"] for message in page["messages"] for block in message["parsed"]} == set(
                CLASSES
            )
            assert str(TOUR_ID).startswith(tour)
            assert re.search(r"import --discover +find the sessions of all your agents\n", ash.output)
            assert sorted((each["externalId"], each["messageCount"]) for each in sessions) == [
                ("demo/live", 0),
                ("samples/bird-counter.jsonl", 16),
                ("samples/bread-timer.jsonl", 30),
                ("samples/csv-export.jsonl", 28),
                ("samples/recipe-scaler.jsonl", 17),
                ("samples/release-notes.jsonl", 27),
                ("samples/tide-clock.jsonl", 23),
                ("samples/trail-map.jsonl", 18),
                ("samples/watering-plan.jsonl", 29),
            ]
            assert "postgres" in [each.info["name"] for each in server_processes(tmp_path)]
            assert stopped(ash.process, signal.SIGINT) == (0, "", "")
        assert remaining_names(tmp_path) == []


@pytest.mark.slow
async def test_warns_of_outdated_events_and_demo_rebuilds_its_samples(
    store: Store, connection: AsyncConnection, database_url: str, tmp_path: Path
) -> None:
    """The demo rebuilds its samples; both commands only warn of other sessions."""
    options: dict[str, Any] = {"home": tmp_path, "ASH_DATABASE_URL": database_url}
    path = tmp_path / "mine.jsonl"
    path.write_text('{"type":"user","message":{"role":"user","content":"hi"}}\n')
    mine = (await import_file(store, path, "mine")).session_id
    sample = Path(str(files("ash_server") / "samples" / TOUR))
    tour = (await import_file(store, sample, f"samples/{TOUR}")).session_id
    await connection.execute("UPDATE session_counters SET normalizer_version = 0")

    def versions() -> dict[UUID, int]:
        with psycopg.connect(database_url) as conn:
            return dict(
                conn.execute("SELECT session_id, normalizer_version FROM session_counters").fetchall()
            )

    for command, counted in (("serve", "2 sessions have"), ("demo", "1 session has")):
        with running(command, "--port", "0", **options) as ash:
            warning = f"ash: {counted} no events, or events of an older Ash: `ash reindex` derives them\n"
            assert stopped(ash.process, signal.SIGINT) == (0, "", warning)

    assert (versions()[mine], versions()[tour]) == (0, NORMALIZER_VERSION)


@pytest.mark.slow
def test_server_restarts_its_postgres(tmp_path: Path) -> None:
    with running("demo", "--port", "0", home=tmp_path) as ash:
        os.kill(int((tmp_path / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        wait_until_answered(lambda: len(answer(f"{ash.address}/api/sessions")["sessions"]) == 9)

        assert stopped(ash.process, signal.SIGINT)[0] == 0
    assert remaining_names(tmp_path) == []


@pytest.mark.slow
def test_demo_migrates_the_database(bare_database_url: str, tmp_path: Path) -> None:
    with running("demo", "--port", "0", home=tmp_path, ASH_DATABASE_URL=bare_database_url) as ash:
        assert answer(f"{ash.address}/health/ready")["status"] == "ok"
    with psycopg.connect(bare_database_url) as conn:
        assert conn.execute("SELECT count(*) FROM sessions").fetchall() == [(9,)]
    assert list(tmp_path.iterdir()) == []


REQUESTS = {
    "got its response": "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "does not read its response": "GET /api/sessions/{session}/export HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.fixture
async def large_session(store: Store, tmp_path: Path) -> UUID:
    """A session larger than all buffers between server and client."""
    path = tmp_path / "large.jsonl"
    path.write_text(f"{'x' * 100_000}\n" * 150)
    return (await import_file(store, path, "large")).session_id


STOPS = [
    pytest.param(signal.SIGINT, "got its response"),
    *(pytest.param(signal.SIGTERM, each, marks=pytest.mark.slow) for each in REQUESTS),
]


@pytest.mark.parametrize(("by", "name"), STOPS)
def test_serve_stops_with_connected_clients(
    database_url: str, large_session: UUID, tmp_path: Path, by: signal.Signals, name: str
) -> None:
    with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as ash:
        host, port = ash.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(REQUESTS[name].format(session=large_session).encode())
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            code, out, err = stopped(ash.process, by)
            assert (code, out, "Traceback" in err) == (0, "", False)


def test_serve_on_other_addresses_needs_the_setting(database_url: str, tmp_path: Path) -> None:
    variables = {"ASH_DATABASE_URL": database_url, "ASH_ALLOW_UNAUTHENTICATED": "1", "ASH_HOST": "0.0.0.0"}
    with running("serve", home=tmp_path, ASH_PORT="0", **variables) as ash:
        assert ash.address.startswith("http://127.0.0.1:")
        assert answer(f"{ash.address}/health/live")["status"] == "ok"


@pytest.mark.slow
def test_workers_share_the_address_and_the_metrics_and_are_replaced(tmp_path: Path) -> None:
    with running("serve", "--port", "0", "--workers", "2", home=tmp_path) as ash:
        wait_until(lambda: len(worker_pids(ash)) == 2)
        before = worker_pids(ash)
        session = posted(f"{ash.address}/api/sessions", b"{}")["id"]
        posted(f"{ash.address}/api/sessions/{session}/messages", b'[{"content": "a"}, {"content": "b"}]')

        os.kill(killed := min(before), signal.SIGKILL)
        wait_until_answered(lambda: len(worker_pids(ash) - {killed}) == 2)
        wait_until_answered(lambda: {answering_pid(ash) for _ in range(8)} == worker_pids(ash))

        assert metric_values(ash, "ash_appended_total") == {'{log="messages"}': 2.0}
        pids = worker_pids(ash)
        code, out, err = stopped(ash.process, signal.SIGTERM)
        assert (ash.output.count("http"), code, out) == (2, 0, "")
        assert err.count("\n") == 1
        assert f"worker {killed} ended with -9: another one starts" in err
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert remaining_names(tmp_path) == []


@pytest.mark.slow
def test_workers_end_with_the_server(database_url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"home": tmp_path, "ASH_DATABASE_URL": database_url, "ASH_WORKERS": "2"}
    with running("serve", "--port", "0", **options) as ash:
        wait_until(lambda: len(worker_pids(ash)) == 2)
        pids = worker_pids(ash)
        ash.process.kill()
        wait_until(lambda: not any(map(psutil.pid_exists, pids)))


def posted(url: str, body: bytes) -> Any:
    with urlopen(Request(url, body, {"Content-Type": "application/json"})) as response:
        return json.load(response)


def metric_values(ash: Running, name: str) -> dict[str, float]:
    """Return the values of a metric by its labels."""
    with urlopen(f"{ash.address}/metrics") as response:
        lines = re.findall(rf"^{name}(\S*) (\S+)$", response.read().decode(), re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


def answering_pid(ash: Running) -> int:
    """Return the process that answers a new connection."""
    values = metric_values(ash, "ash_requests_in_progress")
    return next(pid_of(labels) for labels, value in values.items() if value)


def worker_pids(ash: Running) -> set[int]:
    return set(map(pid_of, metric_values(ash, "ash_tasks")))


def pid_of(labels: str) -> int:
    return int(labels.partition('"')[2].rstrip('"}'))


def refused(port: int, home: Path, database_url: str) -> tuple[int, str]:
    environment = {"PATH": os.environ["PATH"], "ASH_HOME": str(home), "ASH_DATABASE_URL": database_url}
    done = subprocess.run(
        [COMMAND, "demo", "--port", str(port)], capture_output=True, text=True, env=environment, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_reports_a_port_used_by_another_program(bare_database_url: str, tmp_path: Path) -> None:
    """Detected before anything is written to the database."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = f"ash: port {port} is used by another program; choose another port, for example ASH_PORT={port + 1}\n"

        assert refused(port, tmp_path, bare_database_url) == (1, line)
    with psycopg.connect(bare_database_url) as conn:
        assert conn.execute("SELECT to_regclass('sessions')").fetchall() == [(None,)]


def test_reports_a_port_used_by_ash(database_url: str, tmp_path: Path) -> None:
    with running("serve", "--port", "0", home=tmp_path, ASH_DATABASE_URL=database_url) as ash:
        port = int(ash.address.rpartition(":")[2])
        line = (
            f"ash: Ash is already running at http://127.0.0.1:{port}; "
            f"for another one choose another port, for example ASH_PORT={port + 1}\n"
        )

        assert refused(port, tmp_path, database_url) == (1, line)
