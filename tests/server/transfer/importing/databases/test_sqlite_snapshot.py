"""Copies of databases that another process is writing, or that it has left."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from errno import EINVAL, EIO, EPERM
from hashlib import sha256
from pathlib import Path

import pytest

from ash_server.file_access import FileAccess
from ash_server.transfer.importing.databases import sqlite_snapshot
from ash_server.transfer.importing.databases.sqlite_snapshot import is_database, open_snapshot, private_folder
from tests.waiting import wait_until

WRITER = """
import signal, sqlite3, sys, time
path, mode, timeout, count = sys.argv[1:]
connection = sqlite3.connect(path, timeout=float(timeout), isolation_level=None)
connection.execute(f"PRAGMA journal_mode={mode}").fetchall()
connection.execute("PRAGMA wal_autocheckpoint=50")
connection.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, text)")
number = 0
while number < int(count) or not int(count):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO pair (text) VALUES (?)", ("x" * 2000,))
    connection.execute("INSERT INTO pair (text) VALUES (?)", ("y" * 2000,))
    connection.execute("COMMIT")
    number += 1
    print(2 * number, flush=True)
    time.sleep(0.001)
signal.pause()
"""


class Writer:
    """A process that writes pairs of rows and prints how many rows are committed."""

    def __init__(self, database: Path, mode: str, timeout: float, count: int = 0) -> None:
        arguments = (str(database), mode, str(timeout), str(count))
        self._output = database.with_name("committed")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", WRITER, *arguments],
                stdout=output,
                stderr=output,
            )

    def committed(self) -> int:
        """The last complete line."""
        lines = self._output.read_text().split("\n")[:-1]
        assert all(line.isdigit() for line in lines), "\n".join(lines)
        return int(lines[-1]) if lines else 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def writing(database: Path, mode: str, timeout: float = 0, count: int = 0) -> Iterator[Writer]:
    writer = Writer(database, mode, timeout, count)
    try:
        yield writer
    finally:
        writer.kill()


def count_rows(database: Path) -> int:
    with open_snapshot(database) as snapshot:
        assert snapshot.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return int(snapshot.execute("SELECT count(*) FROM pair").fetchone()[0])


def digests(database: Path) -> dict[str, str]:
    files = sorted(database.parent.glob(f"{database.name}*"))
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize(
    ("mode", "timeout"),
    [
        pytest.param("wal", 0, id="a write-ahead log, and a program that waits for nobody"),
        pytest.param("delete", 60, id="a rollback journal"),
    ],
)
def test_a_program_that_writes_all_the_time_is_not_disturbed(
    tmp_path: Path, mode: str, timeout: float
) -> None:
    database = tmp_path / "live.db"
    with writing(database, mode, timeout) as writer:
        wait_until(lambda: writer.committed() > 100)
        for _ in range(2):
            before = writer.committed()

            rows = _retried(database)

            assert rows % 2 == 0  # of no transaction a part
            assert rows >= before
            wait_until(lambda at=before: writer.committed() > at)  # type: ignore[misc]  # a default argument
        assert writer.process.poll() is None


def _retried(database: Path) -> int:
    """Take a snapshot; a busy machine may leave no pause between two writes."""
    rows: list[int] = []

    def take() -> bool:
        try:
            rows.append(count_rows(database))
        except BlockingIOError:
            return False
        return True

    wait_until(take)
    return rows[0]


@pytest.mark.parametrize("is_running", [True, False], ids=["idle", "killed"])
@pytest.mark.parametrize("mode", ["wal", "delete", "persist"])
def test_no_file_of_the_program_changes(tmp_path: Path, mode: str, is_running: bool) -> None:
    database = tmp_path / "idle.db"
    with writing(database, mode, count=120) as writer:
        wait_until(lambda: writer.committed() == 240)
        if not is_running:
            writer.kill()
        before = digests(database)

        assert count_rows(database) == 240

        assert digests(database) == before


def test_a_log_without_its_index_is_read(tmp_path: Path) -> None:
    """A copy of a home often lacks the index, which is rebuilt by a program that may write."""
    database = tmp_path / "copied.db"
    with writing(database, "wal", count=20) as writer:
        wait_until(lambda: writer.committed() == 40)
        writer.kill()
        database.with_name("copied.db-shm").unlink()
        before = digests(database)

        assert count_rows(database) == 40

        assert digests(database) == before
        assert sorted(before) == ["copied.db", "copied.db-wal"]


def test_a_transaction_that_a_crash_has_cut_is_not_in_the_snapshot(tmp_path: Path) -> None:
    database = tmp_path / "cut.db"
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('CREATE TABLE pair (id INTEGER PRIMARY KEY, text)')\n"
        "connection.execute('INSERT INTO pair (text) VALUES (1)')\n"
        "connection.execute('PRAGMA cache_size=1')\n"
        "connection.execute('BEGIN')\n"
        "connection.executemany('INSERT INTO pair (text) VALUES (?)', [('x' * 3000,)] * 200)\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(database)], check=True)
    before = digests(database)
    assert sorted(before) == ["cut.db", "cut.db-journal"]

    assert count_rows(database) == 1

    assert digests(database) == before


def test_changes_between_two_attempts_are_in_the_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = create(tmp_path / "growing.db")

    def write_and_rest(_seconds: float) -> None:
        with closing(sqlite3.connect(database)) as connection:
            connection.executemany("INSERT INTO pair (text) VALUES (?)", [("x" * 2000,)] * 20)
            connection.commit()
        os.utime(database, (0, 0))

    monkeypatch.setattr(sqlite_snapshot, "_REST_SECONDS", 1e6)
    monkeypatch.setattr("time.sleep", write_and_rest)

    assert count_rows(database) == 20


def test_the_copy_is_private_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder() as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
    database = create(tmp_path / "a b#c?%41.db")
    with open_snapshot(database) as snapshot, pytest.raises(sqlite3.OperationalError):
        snapshot.execute("INSERT INTO pair (text) VALUES (2)")
    assert list(tmp_path.iterdir()) == [database]


def test_copies_of_killed_processes_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("ash-sqlite-killed", "ash-sqlite-new", "other"):
        create(tmp_path / name / "copy.db")
        if name != "ash-sqlite-new":
            os.utime(tmp_path / name, (0, 0))

    with private_folder() as used:
        os.utime(used, (0, 0))
        with private_folder():
            assert used.exists()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["ash-sqlite-new", "other"]


def create(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE pair (id INTEGER PRIMARY KEY, text)")
        connection.commit()
    return path


def test_other_files_are_refused(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    secret = create(outside / "secret.db")
    link = folder / "link.db"
    link.symlink_to(secret)
    linked_log = create(folder / "log.db")
    (folder / "log.db-wal").symlink_to(secret)
    text = folder / "text.db"
    text.write_text("{}")
    damaged = folder / "damaged.db"
    damaged.write_bytes(secret.read_bytes()[:2000])
    cut = folder / "cut.db"
    cut.write_bytes(secret.read_bytes()[:16])
    access = FileAccess.below([folder])

    errors = {}
    for path in (link, linked_log, text, damaged, cut):
        with pytest.raises(OSError, match=path.name) as raised, open_snapshot(path, access) as snapshot:
            snapshot.execute("SELECT * FROM pair").fetchall()
        errors[path.name] = raised.value.errno

    assert errors == {
        "link.db": EPERM,
        "log.db": EINVAL,
        "text.db": EINVAL,
        "damaged.db": EIO,
        "cut.db": EINVAL,
    }
    assert [is_database(path) for path in (secret, text, folder)] == [True, False, False]
