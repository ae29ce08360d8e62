"""`ash continue`: one new session in the folder of another agent."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.server.cli.test_cli import Ash, Ran, ash
from tests.shared.records import claude

__all__ = ["ash"]

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"


def line(role: str, content: Any, **fields: Any) -> str:
    return json.dumps(claude.line(role, content, sessionId="s1", **fields))


@pytest.fixture
def home(ash: Ash, tmp_path: Path) -> Path:
    """A home with the folders of two agents, and a session of two turns in the store."""
    folder = tmp_path / "site"
    folder.mkdir()
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": f"token {TOKEN}"}
    lines = (
        line("user", "Which knot?", uuid="u1", cwd=str(folder)),
        line("assistant", [call], uuid="a1"),
        line("user", [result], uuid="u2"),
        line("assistant", [{"type": "text", "text": "A reef knot."}], uuid="a2"),
        line("user", "Why?", uuid="u3"),
        line("assistant", [{"type": "text", "text": "It holds."}], uuid="a3"),
    )
    (tmp_path / "knot.jsonl").write_text("\n".join(lines))
    assert ash("import", "knot.jsonl", "--as", "knot").code == 0
    for name in (".claude", ".codex", ".pi/agent"):
        (tmp_path / "home" / name).mkdir(parents=True)
    return tmp_path / "home"


def files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and ".ash" not in path.parts]


def continued(ash: Ash, home: Path, *arguments: str) -> Path:
    """Run the command and return the file that it wrote."""
    ran = ash("continue", "knot", *arguments)
    assert (ran.code, ran.err) == (0, "")
    [path] = [path for path in files(home) if path.suffix == ".jsonl"]
    return path


def test_writes_one_private_file(ash: Ash, home: Path, tmp_path: Path) -> None:
    path = continued(ash, home, "--in", "codex")

    assert path.is_relative_to(home / ".codex" / "sessions")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path.name for path in files(home)] == [path.name]


def test_shows_what_it_writes(ash: Ash, home: Path, tmp_path: Path) -> None:
    ran = ash("continue", "knot", "--in", "claude", "--dry-run")
    shown = dict(row.split(maxsplit=1) for row in ran.out.replace("left out", "left_out").splitlines())

    assert files(home) == []
    assert shown.keys() == {"file", "size", "folder", "left_out", "secret"}
    assert shown["folder"] == str(tmp_path / "site")
    assert Path(shown["file"]).is_relative_to(home / ".claude" / "projects")
    assert shown["secret"] == "github token, line 4"
    assert TOKEN not in ran.out


def test_prints_the_next_command(ash: Ash, home: Path, tmp_path: Path) -> None:
    out = ash("continue", "knot", "--in", "claude").out
    [path] = files(home)

    assert out.splitlines()[-1] == f"cd {tmp_path / 'site'} && claude --resume {path.stem}"


def test_redacts(ash: Ash, home: Path) -> None:
    text = continued(ash, home, "--in", "claude", "--redact").read_text()

    assert (TOKEN in text, "[redacted: github token]" in text) == (False, True)


def test_goes_on_from_a_turn(ash: Ash, home: Path) -> None:
    text = continued(ash, home, "--in", "claude", "--from", "1").read_text()

    assert ("A reef knot." in text, "It holds." in text) == (True, False)


@pytest.mark.parametrize("agent", ["claude", "codex", "pi"])
def test_copied_turns_count_once(ash: Ash, home: Path, agent: str) -> None:
    """An imported continuation names its origin, and states which messages are not its own."""
    path = continued(ash, home, "--in", agent)
    [origin] = json.loads(ash("sessions", "--json").out)["sessions"]
    assert ash("import", str(path)).code == 0
    [session] = [
        each for each in json.loads(ash("sessions", "--json").out)["sessions"] if each["id"] != origin["id"]
    ]

    copied = session["copiedMessages"]
    own = path.read_text().splitlines()[copied:]
    assert (session["parentId"], session["source"]) == (origin["id"], agent)
    assert "copyOf" not in session
    assert [json.loads(each)["type"] for each in own] == OWN_RECORDS[agent]


OWN_RECORDS = {
    "claude": ["ash-continued", "ai-title"],
    "codex": ["ash_continued"],
    "pi": ["custom", "session_info"],
}
"""The records after the copied messages."""


def test_writes_a_document_for_opencode(ash: Ash, home: Path, tmp_path: Path) -> None:
    out = ash("continue", "knot", "--in", "opencode").out
    [path] = tmp_path.glob("ses_*.json")

    steps = (f"cd {tmp_path / 'site'}", f"opencode import {path}", f"opencode --session {path.stem}")
    assert out.splitlines()[-1] == " && ".join(steps)
    assert json.loads(path.read_text())["info"]["id"] == path.stem
    assert files(home) == []


def test_turn_after_the_last_one(ash: Ash, home: Path) -> None:
    ran = ash("continue", "knot", "--in", "claude", "--from", "3")

    assert (ran.code, ran.err) == (2, "ash: The session has 2 turns (see `ash continue --help`)\n")


def test_folder_as_the_agent_states_it(ash: Ash, home: Path, tmp_path: Path) -> None:
    """An agent sees the folder behind a link."""
    (tmp_path / "site").rename(tmp_path / "moved")
    (tmp_path / "site").symlink_to(tmp_path / "moved")
    path = continued(ash, home, "--in", "pi")

    assert json.loads(path.read_text().splitlines()[0])["cwd"] == str(tmp_path / "moved")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--in", "claude", "--folder", "."], None),
        (["--in", "claude"], "there is no folder {site} on this machine; name another one with --folder"),
    ],
)
def test_needs_a_folder(
    ash: Ash, home: Path, tmp_path: Path, arguments: list[str], problem: str | None
) -> None:
    (tmp_path / "site").rmdir()
    ran = ash("continue", "knot", *arguments)

    assert (ran.code, ran.err) == (
        (0, "") if problem is None else (1, f"ash: {problem.format(site=tmp_path / 'site')}\n")
    )


def test_leaves_a_link_out_of_the_folder_alone(ash: Ash, home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (home / ".claude" / "projects").symlink_to(tmp_path / "elsewhere")
    ran = ash("continue", "knot", "--in", "claude")

    assert ran.code == 1
    assert ran.err.endswith(f"is a link out of {home / '.claude'}\n")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_replaces_no_file(ash: Ash, home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("mine")
    ran = ash("continue", "knot", "--in", "claude", "-o", "mine.jsonl")

    assert ran.code == 1
    assert (tmp_path / "mine.jsonl").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["home", "knot.jsonl", "mine.jsonl", "site"]


def test_agent_that_was_never_started(ash: Ash, home: Path) -> None:
    (home / ".codex").rmdir()

    assert ash("continue", "knot", "--in", "codex") == Ran(
        1, "", f"ash: there is no folder {home / '.codex'}: start the agent once, or use --output\n"
    )
