"""`ash facts`: the place, the tools, the files and the plan of a session."""

import json
import re
from pathlib import Path

import pytest

from tests.server.api.test_api_facts import TODO
from tests.server.cli.test_cli import Ash, ash
from tests.server.store.test_stored_facts import LINES

__all__ = ["ash"]

SHOWN = """title      Go
agent      claude
project    /app
machine    HOST
started by a person
time       TIME, 0:02:10, active 0:00:25
work       2 prompts, 2 turns, 10 tool calls, 3 failed
changes    2 files, +3 -2

Tools
       2  Edit  (1 failed)
       2  Write  (1 failed)
       1  AskUserQuestion
       1  Bash  (1 failed)
       1  Read
       1  Skill
       1  TodoWrite
       1  mcp__birds__count

Skills
       1  tides

Files (reads, changes)
       1      1       +2      -2  /app/a.py
       0      1       +1          /app/c.py

Plan
  [x] Dig
"""


@pytest.fixture
def stored(ash: Ash, tmp_path: Path) -> Ash:
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in (*LINES, TODO)))
    assert ash("import", "a.jsonl", "--as", "a").code == 0
    return ash


def test_facts(stored: Ash) -> None:
    shown = re.sub(r"(machine +)\S+", r"\1HOST", stored("facts", "a").out)
    assert re.sub(r"(time +)\S+ \S+,", r"\1TIME,", shown) == SHOWN


def test_other_forms(stored: Ash) -> None:
    assert json.loads(stored("facts", "a", "--json").out)["plan"] == {
        "items": [{"text": "Dig", "state": "done"}]
    }
    assert stored("facts", "b").code == 1


def test_shows_the_transcript_if_it_is_of_this_machine(
    ash: Ash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "home/.claude/projects/-app/a.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line}\n" for line in LINES))
    ash("import", "--all")

    def shown() -> list[str]:
        out = ash("facts", "projects/-app/a.jsonl").out
        return re.findall("^transcript (.*)", out, re.MULTILINE)

    present = shown()
    path.unlink()
    deleted = shown()
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")

    assert (present, deleted, shown()) == ([str(path)], [f"{path} (no longer on disk)"], [])
