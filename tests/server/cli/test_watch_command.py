"""`ash watch`: transcripts are stored while they are written."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from ash_server.cli.import_.files import ImportReport
from ash_server.cli.import_.one_file import UnreadFile
from ash_server.cli.watch import file_events
from ash_server.cli.watch.changed_files import ChangedFiles, FileStamps
from ash_server.cli.watch.file_events import changes
from ash_server.cli.watch.seen_files import SeenFiles
from ash_server.cli.watch.watcher import Advance, Pending, Target, Watcher
from ash_server.transfer.importing.databases.sessions import share_snapshots
from ash_server.transfer.importing.file_import import ImportedFile
from ash_server.transfer.importing.lines import RECENTLY_WRITTEN_SECONDS
from ash_server.transfer.importing.parents import TranscriptHead
from ash_server.transfer.importing.result import ImportResult
from tests.server.cli.test_cli import COMMAND, environment
from tests.server.cli.test_push_command import SESSION, TRANSCRIPT, said, write
from tests.waiting import TIMEOUT, wait_until


@contextmanager
def watching(folder: Path, database_url: str) -> Iterator[subprocess.Popen[str]]:
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    own_folders = {"ASH_HOME": str(folder / "ash"), "TMPDIR": str(folder)}
    variables = environment(folder, database_url, own_folders)
    with subprocess.Popen([str(COMMAND), "watch"], env=variables, **streams, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return write(tmp_path / "home" / TRANSCRIPT, said(1, "Open the shop."))


def stored(database_url: str) -> list[str]:
    """Return the texts in the order of their session."""
    with psycopg.connect(database_url) as conn:
        rows = conn.execute("SELECT content FROM messages ORDER BY session_id, sequence").fetchall()
    return [text if isinstance(text, str) else text.decode() for (text,) in rows]


def has_stored(database_url: str, count: int) -> bool:
    return len(stored(database_url)) >= count


@pytest.mark.slow
def test_stores_what_is_written_and_keeps_what_is_deleted(
    transcript: Path, tmp_path: Path, database_url: str
) -> None:
    with watching(tmp_path, database_url) as process:
        wait_until(lambda: len(stored(database_url)) == 1)
        with transcript.open("a") as file:
            file.write(said(2, "Close it."))
        wait_until(lambda: len(stored(database_url)) == 2)
        whole = transcript.read_text()
        transcript.unlink()
        agent = write(
            tmp_path / "home/.codex/sessions/2026/01/01/rollout-1.jsonl", said(3, "Sell it.", "other")
        )
        write(agent.with_name("rollout-2.jsonl"), said(4, "Rent it.", "third"))
        write(transcript.with_name("another.jsonl"), said(5, "Paint it.", "fourth"))
        wait_until(lambda: len(stored(database_url)) >= 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)

    assert "".join(text + "\n" for text in stored(database_url) if '"u1"' in text or '"u2"' in text) == whole
    assert out.startswith("1 session, messages: 1 new")
    assert "1 message stored in session" in err
    assert process.returncode == 130


@pytest.mark.slow
def test_a_killed_watcher_continues_without_loss_or_repetition(
    transcript: Path, tmp_path: Path, database_url: str
) -> None:
    lines = [said(number, "Count the tills.") for number in range(2, 302)]
    written = 0
    while written < len(lines):
        with watching(tmp_path, database_url):
            for _ in range(100):
                with transcript.open("a") as file:
                    file.write(lines[written])
                written += 1
            wait_until(partial(has_stored, database_url, written - 99))
    with watching(tmp_path, database_url):
        wait_until(lambda: len(stored(database_url)) >= len(lines) + 1)

    assert "".join(text + "\n" for text in stored(database_url)) == transcript.read_text()


def test_only_one_watcher_runs(transcript: Path, tmp_path: Path, database_url: str) -> None:
    with watching(tmp_path, database_url) as first:
        wait_until(lambda: stored(database_url))
        with watching(tmp_path, database_url) as second:
            _, err = second.communicate(timeout=TIMEOUT)

    assert (second.returncode, err) == (
        1,
        f"ash: another `ash watch` is running with this ASH_HOME (process {first.pid})\n",
    )


def test_the_lock_follows_no_link(tmp_path: Path, database_url: str) -> None:
    other = write(tmp_path / "other", "kept")
    (tmp_path / "ash").mkdir()
    (tmp_path / "ash/watch.lock").symlink_to(other)
    with watching(tmp_path, database_url) as process:
        wait_until(lambda: process.poll() is not None or other.read_text() != "kept")

    assert (process.returncode, other.read_text()) == (1, "kept")


def test_warns_of_a_file_that_was_deleted_before_it_was_stored(
    transcript: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(transcript.parents[3]))
    files = ChangedFiles((), watches=True)
    [(path, stamps)] = files.find(ImportReport()).items()
    files.remember(path, stamps)
    size = os.path.getsize(transcript)
    transcript.write_text(said(1, "Open the shop.") + said(2, "Close it."))
    seen = os.path.getsize(transcript)
    assert [*files.find(ImportReport())] == [path]
    assert capsys.readouterr().err == ""
    transcript.unlink()

    assert files.find(ImportReport()) == {}
    warning = " ".join(capsys.readouterr().err.split())
    assert warning == f"ash: {path}: deleted or truncated after {seen} bytes; {size} were stored"


def test_a_name_that_changed_in_the_rest_of_a_database_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that took long to read, or could not be read, is not read at each comparison."""
    monkeypatch.setattr("ash_server.transfer.importing.databases.sessions._REST_PER_SECOND", 1e9)
    thread = "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a01"
    write(tmp_path / f".codex/sessions/rollout-2026-11-01T10-00-00-{thread}.jsonl", "{}\n")
    database = write(tmp_path / ".codex/state_5.sqlite", "no database")
    monkeypatch.setenv("HOME", str(tmp_path))
    files = ChangedFiles((), watches=True)
    names: list[str | None] = []

    def compare() -> None:
        snapshots.renew()
        for file, stamps in files.find(ImportReport()).items():
            names.append(stamps.name and stamps.name.text)
            files.remember(file, stamps)

    def compare_after_rest() -> None:
        snapshots.values |= {key: each._replace(renewable_at=0) for key, each in snapshots.values.items()}
        compare()

    with share_snapshots() as snapshots:
        compare()
        database.unlink()
        with closing(sqlite3.connect(database, isolation_level=None)) as codex:
            codex.execute("CREATE TABLE threads (id, title, first_user_message, name)")
            codex.execute("INSERT INTO threads VALUES (?, 'Tides', '', NULL)", (thread,))
            for name in ("Tides", "Ebb", "High water"):
                codex.execute("UPDATE threads SET name = ?", (name,))
                compare()
                compare_after_rest()

    assert names == [None, "Tides", "Ebb", "High water"]


def test_an_incomplete_last_line_is_read_again_when_its_file_rests(
    transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program may have ended within the line, and will not change the file again."""
    monkeypatch.setenv("HOME", str(transcript.parents[3]))
    files = ChangedFiles((), watches=True)
    incomplete = stored_until(0)._replace(result=ImportResult(Counter({"incomplete": 1})))
    [(path, stamps)] = files.find(ImportReport()).items()
    files.remember(path, stamps, incomplete)
    assert files.find(ImportReport()) == {}
    later = time.time() + RECENTLY_WRITTEN_SECONDS
    monkeypatch.setattr("time.time", lambda: later)
    assert [*files.find(ImportReport())] == [path]
    files.remember(path, stamps, stored_until(stamps.size))

    assert files.find(ImportReport()) == {}


def test_files_of_a_session_may_come_after_its_document(tmp_path: Path) -> None:
    state = write(tmp_path / "run/base_state.json", "{}")
    files = ChangedFiles([tmp_path], watches=True)
    for path, stamps in files.find(ImportReport()).items():
        files.remember(path, stamps)
    write(tmp_path / "run/events/event-00000-a.json", "{}")

    assert [*files.find(ImportReport())] == [state]


def losses(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the warnings, each from the name of its file on."""
    return [line.rpartition("/")[2] for line in capsys.readouterr().err.splitlines()]


def stored_until(size: int) -> ImportedFile:
    head = TranscriptHead("claude", SESSION, None)
    return ImportedFile(UUID(SESSION), TRANSCRIPT, head, ImportResult(), stored_bytes=size)


def test_warns_of_the_beginning_of_a_line_that_was_deleted(
    transcript: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(transcript.parents[3]))
    size = transcript.stat().st_size
    with transcript.open("a") as file:
        file.write('{"type')
    files = ChangedFiles((), watches=True)
    [(path, stamps)] = files.find(ImportReport()).items()
    files.remember(path, stamps, stored_until(size))
    transcript.unlink()
    files.find(ImportReport())

    assert losses(capsys) == [f"{path.name}: deleted or truncated after {size + 6} bytes; {size} were stored"]


def test_a_renamed_file_is_no_loss(
    transcript: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(transcript.parents[3]))
    files = ChangedFiles((), watches=True)
    files.find(ImportReport())
    transcript.rename(transcript.with_name("renamed.jsonl"))
    write(transcript, said(2, "Hi.", "other"))
    assert len(files.find(ImportReport())) == 2

    assert losses(capsys) == []


def test_reports_what_was_deleted_while_none_watched(
    transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(transcript.parents[3]))
    kept = write(transcript.with_name("kept.jsonl"), said(1, "Keep it.", "kept"))
    cut = write(transcript.with_name("cut.jsonl"), said(1, "Cut it.", "cut"), said(2, "Now.", "cut"))
    sizes = {path: path.stat().st_size for path in (transcript, cut)}
    with closing(SeenFiles(tmp_path, "")) as seen:
        files = ChangedFiles((), watches=True, seen=seen)
        for path, stamps in files.find(ImportReport()).items():
            files.remember(path, stamps, stored_until(sizes.get(path, 10) - 3))
    transcript.unlink()
    write(cut, said(1, "Cut it.", "cut"))
    for target in ("http://other", "", ""):  # each loss is reported once, for its store
        with closing(SeenFiles(tmp_path, target)) as seen:
            ChangedFiles((), watches=True, seen=seen).find(ImportReport())

    assert sorted(losses(capsys)) == sorted(
        f"{path.name}: deleted or truncated while none watched, after {size} bytes; {size - 3} were stored"
        for path, size in sizes.items()
    )
    assert kept.exists()


async def test_ends_although_a_library_ignores_the_interrupt(transcript: Path, tmp_path: Path) -> None:
    started = asyncio.Event()

    async def store_file(path: Path, advance: Advance) -> UnreadFile:
        started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return UnreadFile(str(path), "not stored")

    files = ChangedFiles([transcript.parent], watches=True)
    with share_snapshots() as snapshots:
        watcher = Watcher(files, snapshots, Target(store_file, "stored in", 1, lambda report: None))
        running = asyncio.create_task(watcher.run())
        await started.wait()
        running.cancel()
        ended, _ = await asyncio.wait({running}, timeout=TIMEOUT)

    assert ended == {running}


def test_the_most_recently_changed_file_is_stored_first(tmp_path: Path) -> None:
    pending = Pending()
    stamps = {tmp_path / name: FileStamps(((time, 1),)) for name, time in (("b", 2), ("c", 3), ("a", 1))}
    pending.replace(stamps)
    assert pending.pop().name == "c"
    pending.replace(stamps)  # a file that is being stored is left out

    assert [pending.pop().name, pending.pop().name, bool(pending)] == ["b", "a", False]


@pytest.mark.slow
async def test_changes_are_found_in_folders_that_appear_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_events, "POLL_SECONDS", 0.05)
    folder = tmp_path / "later"
    async with aclosing(changes(lambda: [tmp_path, folder])) as found:
        await anext(found)
        folder.mkdir()
        await anext(found)
        monkeypatch.setattr(file_events, "POLL_SECONDS", 2 * TIMEOUT)
        for name in ("a", "b"):
            await anext(found)
            (folder / name).write_text("")


async def test_changes_are_found_in_a_folder_that_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_events, "POLL_SECONDS", 2 * TIMEOUT)
    for name, value in {"SETTLE_SECONDS": 0.05, "_COLLECT_MS": 50, "_STEP_MS": 10}.items():
        monkeypatch.setattr(file_events, name, value)
    folder = tmp_path / "node_modules"  # a name that watchfiles leaves out by default
    folder.mkdir()
    async with aclosing(changes(lambda: [folder])) as found:
        await anext(found)
        (folder / "a").write_text("")
        await anext(found)
        shutil.rmtree(folder)
        folder.mkdir()
        for name in "bcdefgh":  # more than the comparisons that the replacement itself causes
            (folder / name).write_text("")
            await asyncio.wait_for(anext(found), TIMEOUT)


async def test_without_events_files_are_compared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.awatch", refuse)
    monkeypatch.setattr(file_events, "SETTLE_SECONDS", 0.01)
    async with aclosing(changes(lambda: [tmp_path])) as found:
        for _ in range(3):
            await anext(found)

    assert "OS file watch limit reached" in capsys.readouterr().err
