"""`ash blame`: the sessions that wrote the lines of a file or of a commit."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ash_server.cli.blame.git import CommitNotFound, read_commit
from tests.server.cli.test_cli import Ash, Ran, ash, environment, ran_here
from tests.server.edited_session import edited_lines

__all__ = ["ash"]

TEXT = "def heron():\n    return 2  # \n\nunknown = True\n"


def git(*arguments: str, folder: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "Ada"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "ada@example.org"),
        **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-11-02T12:00:00Z"),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def stored(ash: Ash, tmp_path: Path) -> Ash:
    """A session that wrote two lines of `site/heron.py`, and a repository `site` with that file."""
    (tmp_path / "a.jsonl").write_text("".join(f"{line}\n" for line in edited_lines()))
    assert ash("import", "a.jsonl", "--as", "a").code == 0
    site = tmp_path / "site"
    site.mkdir()
    (site / "heron.py").write_text(TEXT)
    git("init", "-q", folder=site)
    git("add", "heron.py", folder=site)
    git("commit", "-q", "-m", "Add a function", folder=site)
    return ash


@pytest.fixture
def in_site(stored: Ash, tmp_path: Path, database_url: str) -> Ash:
    """Run `ash` in the repository."""

    def run(*arguments: str) -> Ran:
        return ran_here(arguments, environment(tmp_path, database_url, {}), tmp_path / "site")

    return run


def test_lines_of_a_file(stored: Ash) -> None:
    found = json.loads(stored("blame", "site/heron.py", "--json").out)["lines"]
    assert [
        (each["text"], [(edit["turn"], edit.get("prompt")) for edit in each["edits"]]) for each in found
    ] == [
        ("def heron():", [(1, "Write a function.")]),
        ("    return 2  # ", [(2, "Return 2.")]),
        ("", []),
        ("unknown = True", []),
    ]
    first = stored("blame", "site/heron.py").out.splitlines()[0]
    assert "turn 1" in first
    assert first.endswith("1  def heron():")


def test_a_line(stored: Ash) -> None:
    assert "turn 2" in stored("blame", "site/heron.py:2").out
    assert stored("blame", "site/heron.py:4").out == "no session wrote this line\n"


def test_mistakes(stored: Ash) -> None:
    codes = [
        stored("blame").code,
        stored("blame", "site/none.py").code,
        stored("blame", "site/heron.py:9").code,
        stored("blame", "site/heron.py", "--commit", "HEAD").code,
    ]
    assert codes == [2, 2, 2, 2]


def test_commit(in_site: Ash) -> None:
    found = json.loads(in_site("blame", "--commit", "HEAD", "--json").out)["sessions"]
    assert [(each["lines"], [edit["turn"] for edit in each["edits"]]) for each in found] == [(2, [2, 1])]
    assert "2 of 3 lines" in in_site("blame", "--commit", "HEAD").out


def test_other_revisions(in_site: Ash, tmp_path: Path) -> None:
    names = ("none", "--output=stolen", "HEAD:heron.py", "-p")
    assert [in_site("blame", "--commit", name).code for name in names] == [1, 1, 1, 1]
    assert [path.name for path in (tmp_path / "site").iterdir() if path.name != ".git"] == ["heron.py"]


@pytest.mark.parametrize(
    "committer", ["Ada", "Ada <a@b> 99999999999999999999 +0000", "Ada <a@b> 999999999999999 +0000"]
)
def test_commit_without_a_valid_time(committer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q", folder=tmp_path)
    (tmp_path / "a").write_text("a\n")
    git("add", "a", folder=tmp_path)
    git("commit", "-q", "-m", "a", folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    tree = subprocess.check_output(["git", "rev-parse", "HEAD^{tree}"], text=True).strip()
    (tmp_path / "commit").write_text(f"tree {tree}\nauthor Ada <a@b> 1 +0000\ncommitter {committer}\n\na\n")
    written = subprocess.check_output(
        ["git", "hash-object", "-t", "commit", "-w", "--literally", "commit"], text=True
    )

    with pytest.raises(CommitNotFound, match="no valid time"):
        read_commit(written.strip())


def test_git_runs_no_program_of_the_repository(in_site: Ash, tmp_path: Path) -> None:
    site, mark = tmp_path / "site", tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    settings = {
        "core.fsmonitor": program,
        "core.pager": program,
        "pager.show": "true",
        "core.hooksPath": tmp_path,
        "diff.external": program,
        "diff.heron.command": program,
        "diff.heron.textconv": program,
        "filter.heron.smudge": program,
        "filter.heron.clean": program,
        "gpg.program": program,
        "log.showSignature": "true",
    }
    for name, value in settings.items():
        git("config", name, str(value), folder=site)
    (site / ".gitattributes").write_text("*.py diff=heron filter=heron\n")

    assert "2 of 3 lines" in in_site("blame", "--commit", "HEAD").out
    assert not mark.exists()
