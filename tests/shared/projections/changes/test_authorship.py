"""The edits that wrote the lines of a file or of a commit."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ash_shared.model.reports.changes import SessionChanges
from ash_shared.parsing.changes import FileChange, Hunk
from ash_shared.parsing.changes.patches import read_patch
from ash_shared.projections.changes.authorship import (
    blame_lines,
    is_distinctive,
    is_same_file,
    writer_of_commit,
    written_lines,
)

WORDS = ["heron", "osprey", "stork", "ibis", "egret", "avocet", "curlew", "plover", "dunlin", "ruff"]
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def edit(number: int, diff: str, *, outcome: str = "ok", hour: int = 9) -> dict[str, Any]:
    return {
        "turn": number,
        "sequence": number,
        "toolCallId": f"t{number}",
        "tool": "Edit",
        "at": f"2026-11-02T{hour:02}:00:{number % 60:02}Z",
        "outcome": outcome,
        "action": "edit",
        "diff": diff,
    }


def session(path: str, *edits: dict[str, Any], id: str = "s", **fields: Any) -> SessionChanges:
    file = {"path": path, "status": "changed", "edits": list(edits), **fields}
    turns = [{"turn": each["turn"], "prompt": f"Prompt {each['turn']}", "files": []} for each in edits]
    return SessionChanges.model_validate({"sessionId": id, "files": [file], "turns": turns, "commands": []})


def turns_of(text: str, *sessions: SessionChanges, path: str = "/w/site/a.py") -> list[list[int]]:
    written = [line for each in sessions for line in written_lines(each, path)]
    return [[author.turn for author in authors] for authors in blame_lines(text, written)]


TEXT = "def heron():\n    return 1\n\ndef osprey():\n    return 1\n"
HERON = "@@ -1 +1,2 @@\n def ibis():\n+def heron():\n+    return 1\n"

CASES: dict[str, tuple[SessionChanges, list[list[int]]]] = {
    "lines with a neighbour": (session("a.py", edit(1, HERON)), [[1], [1], [], [], []]),
    "newest first": (session("a.py", edit(1, HERON), edit(2, HERON)), [[2, 1], [2, 1], [], [], []]),
    "a line that occurs twice": (session("a.py", edit(1, "@@ @@\n+    return 1\n")), [[], [], [], [], []]),
    "a part of a line": (session("a.py", edit(1, "@@ @@\n-stork():\n+osprey():\n")), [[], [], [], [1], []]),
    "a part in the middle of an edit": (
        session("a.py", edit(1, "@@ @@\n+x\n+osprey():\n+y\n")),
        [[], [], [], [], []],
    ),
    "a failed edit": (session("a.py", edit(1, HERON, outcome="failed")), [[], [], [], [], []]),
    "another file": (session("/w/other/b.py", edit(1, HERON)), [[], [], [], [], []]),
    "another folder": (session("/w/shop/a.py", edit(1, HERON)), [[], [], [], [], []]),
    "the new name of a file": (
        session("b.py", edit(1, HERON), newPath="/w/site/a.py"),
        [[1], [1], [], [], []],
    ),
    "a removed line": (session("a.py", edit(1, "@@ -1 +0,0 @@\n-def heron():\n")), [[], [], [], [], []]),
}


@pytest.mark.parametrize("case", CASES)
def test_blame(case: str) -> None:
    changes, turns = CASES[case]
    assert turns_of(TEXT, changes) == turns


def test_line_ends_do_not_matter() -> None:
    crlf = session("a.py", edit(1, "@@ -0,0 +1 @@\n+def heron():\r\n"))
    assert turns_of("def heron():\r\n", crlf) == [[1]]
    assert turns_of("def heron():\n", crlf) == [[1]]


def test_sessions_are_in_the_order_of_time() -> None:
    early, late = (
        session("a.py", edit(turn, HERON, hour=hour), id=id) for turn, hour, id in ((2, 8, "a"), (1, 9, "b"))
    )
    assert turns_of(TEXT, early, late)[0] == [1, 2]


PATHS: list[tuple[str, str, bool]] = [
    ("/home/ada/site/src/a.py", "/work/site/src/a.py", True),
    ("/home/ada/site/src/a.py", "/work/site/lib/a.py", False),
    ("src/a.py", "/work/site/src/a.py", True),
    ("a.py", "/work/site/src/a.py", True),
    ("C:\\site\\src\\a.py", "/work/site/src/a.py", True),
    ("b.py", "/work/site/src/a.py", False),
    ("", "a.py", False),
]


@pytest.mark.parametrize(("stated", "path", "is_same"), PATHS)
def test_paths(stated: str, path: str, is_same: bool) -> None:
    assert is_same_file(stated, path) == is_same


def test_distinctive_lines() -> None:
    lines = {"}": False, "    return": False, "    return 1": True, "--------": False, "import json": True}
    assert {line: is_distinctive(line) for line in lines} == lines


def commit(path: str, *lines: str) -> list[FileChange]:
    return [FileChange(path, "edit", (Hunk(1, 1, tuple(f"+{line}" for line in lines)),))]


def lines_found(changes: SessionChanges, *, repository: str = "site", at: datetime = NOON) -> int | None:
    lines = ["import json", "}", *(f"def {word}():" for word in WORDS[:6])]
    found = writer_of_commit(commit("src/a.py", *lines), at, changes, repository)
    return None if found is None else found.lines


def wrote(*lines: str, path: str = "/home/ada/other/src/a.py", hour: int = 9) -> SessionChanges:
    return session(path, edit(1, "@@ @@\n" + "".join(f"+{line}\n" for line in lines), hour=hour))


def test_writers_of_a_commit() -> None:
    five = [f"def {word}():" for word in WORDS[:5]]
    cases: list[tuple[SessionChanges, int | None]] = [
        (wrote(*five), 5),
        (wrote(*five, "}", "import json"), 5),
        (wrote(*five[:4], "}", "import json"), None),
        (wrote("def heron():", path="/work/site/src/a.py"), 1),
        (wrote("}", path="/work/site/src/a.py"), None),
        (wrote(*five, path="/work/site/lib/a.py"), None),
        (wrote(*five, hour=13), None),
    ]
    assert [lines_found(changes) for changes, _ in cases] == [found for _, found in cases]


COMMON = (
    "import json",
    "import sys",
    "from typing import Any",
    'if __name__ == "__main__":',
    "    main()",
    "def main():",
)


def made_text(number: int) -> list[str]:
    """Return a module of a repository: the lines that many modules have, and its own."""
    own = [(f"def {word}_{number}():", f"    return {number} * {place}") for place, word in enumerate(WORDS)]
    return [*COMMON, *(line for pair in own for line in pair)]


def made_patch(lines: list[str], path: str) -> str:
    header = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
    return header + "".join(f"+{line}\n" for line in lines)


@pytest.mark.parametrize("lines", [made_text(0), [*COMMON]], ids=["a module", "common lines only"])
def test_no_session_of_another_repository_is_named(lines: list[str]) -> None:
    """A control: 100 sessions wrote similar files with the same path in other repositories."""
    path = "src/main.py"
    commit = read_patch(made_patch(lines, path))
    own, *others = (
        session(f"/home/ada/{repository}/{path}", edit(1, made_patch(text, path)), id=repository)
        for repository, text in [("site", lines), *((f"r{each}", made_text(each)) for each in range(1, 101))]
    )

    named = [writer_of_commit(commit, NOON, each, "site") for each in (own, *others)]
    assert [each.session_id for each in named if each is not None] == ["site"]
