"""`ash changes`: the files that a session changed."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.server.cli.test_cli import Ash, ash
from tests.server.edited_session import edited_lines, patch_of

__all__ = ["ash"]

TURNS = """turn 1  {first}  Write a function.
  added         +2          /home/ada/site/heron.py

turn 2  {second}  Return 2.
  changed       +1      -1  /home/ada/site/heron.py

Not counted
  turn 1   failed    Edit  /home/ada/site/heron.py

Commands that may have changed files
  turn 1   ok        make

1 file changed, 3 lines added, 1 removed
"""
STAT = """  added         +3      -1  /home/ada/site/heron.py
1 file changed, 3 lines added, 1 removed
"""


@pytest.fixture
def stored(ash: Ash, tmp_path: Path) -> Ash:
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in edited_lines()))
    assert ash("import", "a.jsonl", "--as", "a").code == 0
    return ash


def test_turns(stored: Ash) -> None:
    time = datetime(2026, 11, 2, 9, tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    assert stored("changes", "a").out == TURNS.format(first=time, second=time)


def test_other_forms(stored: Ash) -> None:
    note = "# Shell commands that may have changed files, which are not in this patch: 1\n"
    assert stored("changes", "a", "--stat").out == STAT
    assert stored("changes", "a", "--patch").out == note + patch_of()
    assert json.loads(stored("changes", "a", "--json", "--turn", "2").out)["added"] == 1
    assert stored("changes", "a", "--turn", "9").out == "no changed files\n"
    assert stored("changes", "a", "--patch", "--json").code == 2
    assert stored("changes", "b").code == 1
