"""`ash resume`: the command that continues a session, run in its folder."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.cli.test_cli import COMMAND, Ash, Ran, ash, environment
from tests.shared.records import claude

__all__ = ["ash"]

ID = "0f3c2b1a-9d8e-4c7b-a6f5-1e2d3c4b5a69"
PROGRAM = """#!{python}
import json, os, sys
print(json.dumps([os.getcwd(), *sys.argv[1:]]))
sys.exit(3)
"""


def line(**fields: Any) -> str:
    return json.dumps(claude.line("user", "Go", uuid="u1", sessionId=ID) | fields) + "\n"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a program called `claude`, which prints its folder and its arguments."""
    program = tmp_path / "programs" / "claude"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    return program.parent


def store_line(ash: Ash, tmp_path: Path, **fields: Any) -> None:
    (tmp_path / "a.jsonl").write_text(line(**fields))
    assert ash("import", "a.jsonl", "--as", "a").code == 0


def resume(tmp_path: Path, database_url: str, path: str) -> Ran:
    variables = {**environment(tmp_path, database_url, {}), "PATH": path}
    done = subprocess.run(
        [sys.executable, COMMAND, "resume", "a"],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_runs_the_agent_in_the_folder(ash: Ash, tmp_path: Path, programs: Path, database_url: str) -> None:
    folder = tmp_path / "my site; touch x"
    folder.mkdir()
    store_line(ash, tmp_path, cwd=str(folder))

    ran = resume(tmp_path, database_url, f"{programs}{os.pathsep}{os.environ['PATH']}")

    shown = f"folder   {folder}\ncommand  claude --resume {ID}\n"
    assert ran == Ran(3, shown + json.dumps([str(folder), "--resume", ID]) + "\n", "")


@pytest.mark.slow
def test_program_of_the_folder_is_not_run(
    ash: Ash, tmp_path: Path, programs: Path, database_url: str
) -> None:
    """A relative folder on PATH is not one in the folder of the session."""
    folder = tmp_path / "site"
    folder.mkdir()
    programs.rename(folder / "bin")
    store_line(ash, tmp_path, cwd=str(folder))

    ran = resume(tmp_path, database_url, "bin")

    assert ran == Ran(1, "", "ash: claude is not installed, or not on PATH\n")


def test_prints_the_command(ash: Ash, tmp_path: Path) -> None:
    store_line(ash, tmp_path, cwd="/srv/$(id)")

    assert ash("resume", "a", "--print") == Ran(0, f"cd '/srv/$(id)' && claude --resume {ID}\n", "")


@pytest.mark.parametrize(
    ("fields", "printed", "problem"),
    [
        (
            {"cwd": "/srv/no folder"},
            f"cd '/srv/no folder' && claude --resume {ID}\n",
            "not run: there is no folder /srv/no folder on this machine",
        ),
        (
            {},
            f"claude --resume {ID}\n",
            "not run: no record states the folder of the session; run it there",
        ),
        (
            {"agentId": "a1", "isSidechain": True},
            "",
            "It is the session of a subagent. Its parent can be continued.",
        ),
        (
            {"cwd": "/srv/\u202egpj"},
            "",
            "The name of its folder contains control or bidirectional characters.",
        ),
        ({"sessionId": "-c"}, "", "Its records contain no id that the agent accepts."),
    ],
    ids=str,
)
def test_reason_for_a_printed_command(
    ash: Ash, tmp_path: Path, fields: dict[str, Any], printed: str, problem: str
) -> None:
    store_line(ash, tmp_path, **fields)

    assert ash("resume", "a") == Ran(1, printed, f"ash: {problem}\n")


def test_session_of_another_machine_is_printed(
    ash: Ash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "anvil")
    store_line(ash, tmp_path, cwd=str(tmp_path))
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")

    assert ash("resume", "a") == Ran(
        1,
        f"cd {tmp_path} && claude --resume {ID}\n",
        "ash: not run: the session was stored by another machine, anvil\n",
    )
