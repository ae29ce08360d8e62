"""Import of Antigravity's conversations: transcripts, and the usage in their databases."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ash_server.cli.import_.files import ImportReport, import_discovered, import_paths
from ash_server.cli.import_.options import ImportOptions
from ash_server.file_access import ANY_FILE, FileAccess
from ash_server.store import Store
from ash_server.store.sessions import session_id_for
from ash_server.transfer.exporting.jsonl import export_messages
from ash_server.transfer.importing.transcript import open_transcript
from ash_server.transfer.importing.transcript_files import external_id, find_files, find_homes
from ash_server.transfer.load import load_session
from tests.shared.records.antigravity import Record, call, generation, prompt, response, row, step

ID = "7d1f0a52-0000-4000-8000-000000000001"
NAME = f"antigravity-cli/brain/{ID}"
STEPS = [
    prompt(0, "Look."),
    response(2, None, call("list_dir", DirectoryPath="/pier")),
    step(3, "LIST_DIRECTORY", content="gulls"),
    response(4, "Gulls."),
    prompt(5, "Thanks."),
    response(6, "Any time."),
]
USAGE = [generation(b"\2", input=70, output=9), generation(b"\4", input=80, output=3, cached=70)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".gemini/antigravity-cli"


def logs(home: Path, id: str = ID) -> Path:
    return home / "brain" / id / ".system_generated/logs"


def write_steps(path: Path, steps: Sequence[Record], *, ending: str = "\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(each) for each in steps) + ending)
    return path


def write_usage(home: Path, rows: Sequence[bytes], id: str = ID) -> Path:
    path = home / "conversations" / f"{id}.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE IF NOT EXISTS steps (idx INTEGER PRIMARY KEY, step_payload BLOB)")
        database.execute("CREATE TABLE IF NOT EXISTS gen_metadata (idx INTEGER PRIMARY KEY, data BLOB, size)")
        for key, data in enumerate(rows):
            database.execute("INSERT OR REPLACE INTO gen_metadata VALUES (?, ?, ?)", (key, data, len(data)))
    return path


def lines_of(path: Path, access: FileAccess = ANY_FILE) -> list[Any]:
    return [json.loads(line.data or b"") for line in open_transcript(path, access).lines()]


def raise_error(error: OSError) -> None:
    raise error


def counts(report: ImportReport) -> dict[str, int]:
    assert report.unread == []
    return {name: count for name, count in report.total.counts.items() if count}


def test_rows_follow_the_steps_that_they_describe(home: Path) -> None:
    transcript = write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    write_usage(home, [*reversed(USAGE), generation(b"\x63", output=1), b"\xff"])
    (home / "history.jsonl").write_text(
        '{"display":"Look.","timestamp":1,"workspace":"/pier"}\nno JSON\n'
        f'{{"display":"{ID}","timestamp":2,"workspace":"/quay","conversationId":"other"}}\n'
        f'{{"display":"Thanks.","timestamp":3,"workspace":"/pier","conversationId":"{ID}"}}\n'
        f'{{"display":"Again.","timestamp":4,"workspace":"/pier","conversationId":"{ID}"}}\n'
    )

    assert lines_of(transcript) == [
        {"display": "Thanks.", "timestamp": 3, "workspace": "/pier", "conversationId": ID},
        *STEPS[:2],
        row(1, USAGE[0]),
        STEPS[2],
        row(3, b"\xff"),
        STEPS[3],
        row(0, USAGE[1]),
        *STEPS[4:],
        row(2, generation(b"\x63", output=1)),
    ]


def test_each_file_stands_for_the_whole_conversation(home: Path, tmp_path: Path) -> None:
    full = write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    compact = write_steps(logs(home) / "transcript.jsonl", STEPS[:1])
    database = write_usage(home, USAGE)
    other = write_usage(home, USAGE, "alone")
    homes = find_homes({}, tmp_path)

    def found(path: Path) -> list[Path]:
        return list(find_files(path, homes, raise_error))

    assert [found(path) for path in (full, compact, database)] == [[full]] * 3
    assert {*found(home)} == {full, other}
    assert {external_id(path, homes) for path in (full, compact, database)} == {NAME}
    assert lines_of(compact) == lines_of(full)
    full.unlink()
    assert found(database) == [compact]
    assert lines_of(database) == [STEPS[0], *(row(key, data) for key, data in enumerate(USAGE))]


def test_a_database_alone_has_usage_and_steps(home: Path) -> None:
    path = write_usage(home, USAGE)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("INSERT INTO steps VALUES (0, x'01'), (3, NULL)")

    steps = [
        {"table": "steps", "key": 0, "columns": {"idx": 0, "step_payload": {"base64": "AQ=="}}},
        {"table": "steps", "key": 3, "columns": {"idx": 3, "step_payload": None}},
    ]
    assert lines_of(path) == [steps[0], row(0, USAGE[0]), steps[1], row(1, USAGE[1])]


def test_a_transcript_does_not_depend_on_its_database(home: Path) -> None:
    transcript = write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    assert lines_of(transcript) == STEPS
    database = write_usage(home, USAGE)
    assert lines_of(transcript, FileAccess.below([transcript.parent])) == STEPS
    database.write_bytes(b"SQLite format 3\0" + b"\xff" * 200)
    assert lines_of(transcript) == STEPS


def test_a_conversation_is_loaded_by_its_id(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript = write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    write_usage(home, USAGE)
    monkeypatch.chdir(tmp_path)

    messages = load_session(ID)

    assert messages == load_session(transcript)
    assert [each.usage.input_tokens for each in messages if each.usage] == [70, 80]


async def test_import_adds_what_is_new(home: Path, store: Store) -> None:
    transcript = write_steps(logs(home) / "transcript_full.jsonl", STEPS[:3], ending='\n{"step_index": 4, ')
    write_usage(home, USAGE[:1])
    options = ImportOptions()
    first = await import_discovered(store, options)
    write_steps(transcript, STEPS)
    write_usage(home, [generation(b"\2", input=75, output=9), USAGE[1]])
    reports = [first, *[await import_paths(store, [home], options) for _ in range(2)]]

    assert [counts(report) for report in reports] == [
        {"new": 4, "incomplete": 1},
        {"existing": 3, "new": 5},
        {"existing": 8},
    ]
    session = session_id_for("antigravity", NAME)
    exported = b"".join([part async for part in export_messages(store, session)]).splitlines()
    assert [json.loads(line) for line in exported] == [
        *STEPS[:2],
        row(0, USAGE[0]),
        STEPS[2],
        row(0, generation(b"\2", input=75, output=9)),
        STEPS[3],
        row(1, USAGE[1]),
        *STEPS[4:],
    ]
    summary = await store.conversation.read_summary(session)
    assert summary.usage is not None
    usage = summary.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens) == (155, 12, 70)


async def test_the_same_id_in_two_homes_is_two_sessions(home: Path, store: Store) -> None:
    write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    editor = home.with_name("antigravity-ide")
    write_steps(logs(editor) / "transcript.jsonl", STEPS[:4])
    write_usage(home.with_name("antigravity"), USAGE)

    await import_discovered(store, ImportOptions())

    page = await store.sessions.list_sessions()
    assert {(each.external_id, each.title, each.message_count) for each in page.sessions} == {
        (NAME, "Look.", 6),
        (f"antigravity-ide/brain/{ID}", "Look.", 4),
        (f"antigravity/brain/{ID}", None, 2),
    }
    summary = await store.conversation.read_summary(session_id_for("antigravity", f"antigravity/brain/{ID}"))
    assert summary.usage is not None
    assert summary.usage.input_tokens == 150


async def test_the_history_names_the_project(home: Path, store: Store) -> None:
    write_steps(logs(home) / "transcript_full.jsonl", STEPS)
    line = {"display": "Look.", "timestamp": 3, "workspace": "/pier", "conversationId": ID}
    (home / "history.jsonl").write_text(json.dumps(line) + "\n")
    await import_discovered(store, ImportOptions())

    pages = [await store.sessions.list_sessions(project=each) for each in ("/pier", "/quay")]
    assert [len(page.sessions) for page in pages] == [1, 0]
