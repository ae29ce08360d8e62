"""Read a commit with git, without hooks, pagers, external programs and network access."""

import os
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ash_server.errors import AshError
from ash_shared.parsing.changes import FileChange
from ash_shared.parsing.changes.patches import read_patch

MAX_BYTES = 64 * 1024 * 1024
"""Size of the difference of a commit."""
_TIMEOUT = 60
"""Seconds."""
_OPTIONS = (
    *("-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"),
    *("-c", "core.quotePath=false", "--no-pager", "--no-optional-locks"),
)
_COMMITTER = re.compile(r"^committer .* (-?\d{1,19}) [-+]\d+$", re.MULTILINE)
_DIFF_OPTIONS = (
    *("--root", "--no-commit-id", "-r", "-p", "--unified=0", "--no-renames", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"),
)


class CommitNotFound(AshError):
    status, code, title = 404, "commit_not_found", "There is no such commit in this folder."


class GitCommit(NamedTuple):
    """A commit with the lines that it added."""

    id: str
    at: datetime
    root: Path
    """The folder of the repository."""
    changes: Sequence[FileChange]


def read_commit(revision: str) -> GitCommit:
    """Return a commit of the repository in the current folder. Raises CommitNotFound."""
    id = _run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    root = _run("rev-parse", "--show-toplevel").rstrip("\n")
    fields = _run("cat-file", "commit", id).partition("\n\n")[0]
    return GitCommit(
        id, _time_of(fields), Path(root), read_patch(_run("diff-tree", *_DIFF_OPTIONS, id, "--"))
    )


def _time_of(fields: str) -> datetime:
    """Return the time of a commit, which anyone may have written. Raises CommitNotFound."""
    committer = _COMMITTER.search(fields)
    try:
        return datetime.fromtimestamp(int(committer[1] if committer else ""), UTC)
    except (ValueError, OverflowError):
        raise CommitNotFound("the commit has no valid time") from None


def _run(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    without_network = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *arguments],
            env={**environment, **without_network, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise CommitNotFound("git is not installed, or not on PATH") from None
    except subprocess.TimeoutExpired:
        raise CommitNotFound(f"git did not answer within {_TIMEOUT} seconds") from None
    if done.returncode or len(done.stdout) > MAX_BYTES:
        raise CommitNotFound(done.stderr.decode(errors="replace").strip() or "no commit has this name")
    return done.stdout.decode(errors="replace")
