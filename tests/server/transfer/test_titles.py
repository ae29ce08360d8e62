"""Titles in files beside the transcripts of agents."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ash_server.file_access import FileAccess
from ash_server.transfer.importing.databases.codex_names import SessionName
from ash_server.transfer.titles import MAX_BYTES, name_of

COPILOT = ".copilot/session-state/s1"
COWORK = "Library/Application Support/Claude/local-agent-mode-sessions/a/b"
COWORK_FILE = f"{COWORK}/local_1/.claude/projects/-w/1.jsonl"

YAML = {
    "name: Sort the shelves\n": SessionName("Sort the shelves", is_typed=False),
    "id: s1\nname: 'It''s [a] list'\nuser_named: true\n": SessionName("It's [a] list", is_typed=True),
    'name: "One \\u00e4 two"\nuser_named: false\n': SessionName("One \u00e4 two", is_typed=False),
    "name: >-\n  A title on\n  two lines\nbranch: main\n": SessionName(
        "A title on two lines", is_typed=False
    ),
    'name: "NUL \\u0000"\n': SessionName("NUL ", is_typed=False),
    "id: s1\n": None,
    "name: ''\n": None,
    'name: "broken\n': None,
    "\x00": None,
    "name: a\n" + "#" * MAX_BYTES: None,
}


def title_of(home: Path, transcript: str, access: FileAccess | None = None) -> SessionName | None:
    (home / transcript).parent.mkdir(parents=True, exist_ok=True)
    (home / transcript).touch()
    return name_of(home / transcript, access or FileAccess())


@pytest.mark.parametrize("text", YAML)
def test_workspace_of_copilot(tmp_path: Path, text: str) -> None:
    (tmp_path / COPILOT).mkdir(parents=True)
    (tmp_path / COPILOT / "workspace.yaml").write_text(text)

    assert title_of(tmp_path, f"{COPILOT}/events.jsonl") == YAML[text]


@pytest.mark.parametrize(("text", "title"), [('{"title": "Sort"}', "Sort"), ("[]", None), ("{", None)])
def test_session_of_cowork(tmp_path: Path, text: str, title: str | None) -> None:
    (tmp_path / COWORK).mkdir(parents=True)
    (tmp_path / COWORK / "local_1.json").write_text(text)

    assert title_of(tmp_path, COWORK_FILE) == (None if title is None else SessionName(title, is_typed=False))


SUMMARIES = "CREATE TABLE conversation_summaries (conversation_id TEXT PRIMARY KEY, title TEXT)"
WRITTEN = SessionName("Count gulls", is_typed=False)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (None, WRITTEN),
        ("archived: true\n", WRITTEN),
        ('title: ""\n', WRITTEN),
        ('title: "\\377"\n', WRITTEN),
        ("#" * MAX_BYTES + '\ntitle: "Gulls"', WRITTEN),
        ('title:"Gulls"\n', SessionName("Gulls", is_typed=True)),
        (
            'pinned: true\n  title: "A \\"gull\\" in M\\303\\274nster"',
            SessionName('A "gull" in M\u00fcnster', is_typed=True),
        ),
    ],
)
def test_titles_of_antigravity(tmp_path: Path, annotation: str | None, expected: SessionName) -> None:
    (tmp_path / "annotations").mkdir()
    if annotation is not None:
        (tmp_path / "annotations/c1.pbtxt").write_text(annotation)
    with closing(sqlite3.connect(tmp_path / "conversation_summaries.db", isolation_level=None)) as database:
        database.execute(SUMMARIES)
        database.executemany(
            "INSERT INTO conversation_summaries VALUES (?, ?)",
            [("c1", "Count gulls"), ("c2", " "), ("c3", None)],
        )
    transcripts = [f"brain/{id}/.system_generated/logs/transcript.jsonl" for id in ("c1", "c2", "c3", "c4")]

    assert [title_of(tmp_path, each) for each in transcripts] == [expected, None, None, None]


def test_antigravity_without_its_files(tmp_path: Path) -> None:
    transcript = "brain/c1/.system_generated/logs/transcript.jsonl"

    assert title_of(tmp_path, transcript) is None
    (tmp_path / "conversation_summaries.db").write_bytes(b"damaged")
    assert title_of(tmp_path, transcript) is None


@pytest.mark.parametrize("name", ["state_5.sqlite", "conversation_summaries.db"])
def test_views_are_not_read(tmp_path: Path, name: str) -> None:
    """A view runs what its author has written."""
    id = "0199c3d2-5a11-7b21-8c55-0c6f7b0e9a01"
    transcripts = {
        "state_5.sqlite": f"sessions/2026/11/01/rollout-2026-11-01T10-00-00-{id}.jsonl",
        "conversation_summaries.db": f"brain/{id}/.system_generated/logs/transcript.jsonl",
    }
    with closing(sqlite3.connect(tmp_path / name, isolation_level=None)) as database:
        database.execute(
            f"CREATE VIEW threads AS SELECT '{id}' AS id, 'View' AS name, NULL AS title, 'Hi' AS first_user_message"
        )
        database.execute(
            f"CREATE VIEW conversation_summaries AS SELECT '{id}' AS conversation_id, 'View' AS title"
        )

    assert title_of(tmp_path, transcripts[name]) is None


def test_reads_no_other_files(tmp_path: Path) -> None:
    """Neither beside a transcript elsewhere, nor outside of the folders to read."""
    (tmp_path / "workspace.yaml").write_text("name: Sort\n")
    (tmp_path / COPILOT).mkdir(parents=True)
    (tmp_path / COPILOT / "workspace.yaml").symlink_to(tmp_path / "workspace.yaml")
    below = FileAccess.below([tmp_path / ".copilot"])

    assert title_of(tmp_path, f"{COPILOT}/events.jsonl") == SessionName("Sort", is_typed=False)
    assert title_of(tmp_path, f"{COPILOT}/events.jsonl", below) is None
    assert title_of(tmp_path, "events.jsonl") is None
    assert title_of(tmp_path, ".copilot/session-state/s2.jsonl") is None
