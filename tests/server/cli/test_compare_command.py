"""`ash compare`: two sessions side by side."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.cli.test_cli import Ash, ash, written
from tests.server.edited_session import edited_lines
from tests.shared.records import claude

__all__ = ["ash"]


def prompts(session: str, *texts: str) -> str:
    return "".join(
        json.dumps(claude.user(text, uuid=f"{text}-id", sessionId=session)) + "\n" for text in texts
    )


@pytest.fixture
def stored(ash: Ash, tmp_path: Path) -> Callable[..., Any]:
    files = {
        "edited.jsonl": "".join(f"{line}\n" for line in edited_lines()),
        "first.jsonl": prompts("s1", "Begin.", "Stay."),
        "fork.jsonl": prompts("s2", "Begin.", "Go.\x1b[31m"),
    }
    for name, text in files.items():
        written(tmp_path / name, text)
    assert ash("import", *files).code == 0

    def compare(*words: str) -> Any:
        """Run a command with the names of the files, which are paths as external ids."""
        return ash(*(str(tmp_path / f"{word}.jsonl") if f"{word}.jsonl" in files else word for word in words))

    return compare


def test_fork(stored: Callable[..., Any]) -> None:
    shown = stored("compare", "first", "fork").out
    head, facts, prompts = shown.split("\n\n")

    assert head.splitlines()[2] == "The first message of b is the same as in a."
    assert "=  agent" in facts
    assert [line.split() for line in prompts.splitlines()] == [
        ["Prompts", "a", "b"],
        ["=", "both", "Begin."],
        ["Stay.", "Go.␛[31m"],
    ]


def test_calls_and_files(stored: Callable[..., Any]) -> None:
    lines = [line.split() for line in stored("compare", "edited", "first").out.splitlines()]

    assert ["heron.py", "+3", "-1", "-"] in lines
    assert ["Write", "1", "-"] in lines


def test_other_forms(stored: Callable[..., Any]) -> None:
    comparison = json.loads(stored("compare", "first", "fork", "--json").out)

    assert comparison["common"]["messages"] == 1
    assert stored("compare", "first", "absent").code == 1
    assert stored("compare", "first").code == 2
