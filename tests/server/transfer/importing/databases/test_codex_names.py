"""Names of sessions from Codex's database, while Codex has it open."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from ash_server.cli.import_.files import import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.file_access import FileAccess
from ash_server.store import Store
from ash_server.transfer.importing.databases.codex_names import SessionName, name_of
from tests.shared.records.codex import event, line

THREADS = {number: f"0199c3d2-5a11-7b21-8c55-0c6f7b0e9a0{number}" for number in range(1, 5)}
PROMPT = "When is high water?"
COLUMNS = "id TEXT PRIMARY KEY, rollout_path TEXT, title TEXT, first_user_message TEXT, name TEXT"


def rollout(home: Path, number: int, *more: str) -> Path:
    lines = [line("session_meta", id=THREADS[number], cwd="/work"), event("user_message", message=PROMPT)]
    path = home / f"sessions/2026/11/01/rollout-2026-11-01T10-00-00-{THREADS[number]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def add(codex: sqlite3.Connection, number: int, title: str, name: str | None = None) -> None:
    codex.execute(
        "INSERT OR REPLACE INTO threads (id, title, first_user_message, name) VALUES (?, ?, ?, ?)",
        (THREADS[number], title, PROMPT, name),
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".codex").mkdir()
    return tmp_path / ".codex"


@pytest.fixture
def codex(home: Path) -> Iterator[sqlite3.Connection]:
    """The connection of Codex, which stays open."""
    for old in ("state_4.sqlite", "logs_2.sqlite"):
        with closing(sqlite3.connect(home / old, isolation_level=None)) as other:
            other.execute(f"CREATE TABLE threads ({COLUMNS})")
            add(other, 1, PROMPT, "Of another version")
    with closing(sqlite3.connect(home / "state_5.sqlite", timeout=0, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute(f"CREATE TABLE threads ({COLUMNS})")
        yield connection


def digests(home: Path) -> dict[str, str]:
    return {each.name: sha256(each.read_bytes()).hexdigest() for each in home.glob("*.sqlite*")}


async def titles(store: Store) -> list[str | None]:
    listed = [each async for each in store.sessions.list_all()]
    return [each.title for each in sorted(listed, key=lambda each: each.external_id or "")]


async def test_import_gives_sessions_their_names(store: Store, home: Path, codex: sqlite3.Connection) -> None:
    for number in THREADS:
        rollout(home, number)
    add(codex, 1, "Tides of Husum", "High\0 water")
    add(codex, 2, "Tides of\n  Husum")
    add(codex, 3, PROMPT, " ")
    codex.execute("BEGIN IMMEDIATE")
    add(codex, 4, PROMPT, "Not committed")
    before = digests(home)

    report = await import_paths(store, [home], ImportOptions())

    assert (report.complete, digests(home)) == (True, before)
    assert await titles(store) == ["High water", "Tides of Husum", PROMPT, PROMPT]
    codex.execute("COMMIT")


async def test_next_import_updates_names_of_unchanged_transcripts(
    store: Store, home: Path, codex: sqlite3.Connection
) -> None:
    paths = [rollout(home, number) for number in (1, 2, 3)]
    add(codex, 1, PROMPT)
    add(codex, 2, PROMPT, "Typed")
    add(codex, 3, "Made")
    sessions = (await import_paths(store, paths, ImportOptions())).session_ids
    await store.sessions.update(sessions[2], title="Set in Ash")

    add(codex, 1, "Made later")
    add(codex, 2, PROMPT, "Typed later")
    add(codex, 3, "Made later", "Typed later")
    report = await import_paths(store, paths, ImportOptions())

    assert report.total.counts["new"] == 0
    assert await titles(store) == ["Made later", "Typed later", "Set in Ash"]
    for session in sessions:
        await store.messages.reindex(session)
    assert await titles(store) == ["Made later", "Typed later", "Set in Ash"]


NOT_DATABASES = {"no database": b"not SQLite", "another table": b"", "no file": None}


@pytest.mark.parametrize("case", NOT_DATABASES)
async def test_import_needs_no_database(store: Store, home: Path, case: str) -> None:
    content = NOT_DATABASES[case]
    if content is not None:
        (home / "state_5.sqlite").write_bytes(content)

    report = await import_paths(store, [rollout(home, 1)], ImportOptions())

    assert (report.complete, await titles(store)) == (True, [PROMPT])


def test_reads_only_databases_below_allowed_folders(home: Path, codex: sqlite3.Connection) -> None:
    path = rollout(home, 1)
    add(codex, 1, PROMPT, "High water")

    names = [name_of(path, FileAccess.below([folder])) for folder in (home / "sessions", home)]

    assert names == [None, SessionName("High water", is_typed=True)]
