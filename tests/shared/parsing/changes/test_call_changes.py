"""The changes of files in single calls, of each tool's form."""

from typing import Any

import pytest

from ash_shared.parsing.changes import CallFacts, FileChange, Hunk, facts_of_call

PATCH = """*** Begin Patch
*** Update File: src/a.py
*** Move to: src/b.py
@@ def main():
 first
-second
+2nd

*** Add File: new.txt
+one
+two
*** Delete File: old.txt
*** End Patch
"""
PATCHED = (
    FileChange("src/a.py", "edit", (Hunk(None, None, (" first", "-second", "+2nd")),), "src/b.py"),
    FileChange("new.txt", "write", (Hunk(0, 1, ("+one", "+two")),)),
    FileChange("old.txt", "delete", (), None, True),
)
REPORTED = {
    "oldStart": 4,
    "oldLines": 1,
    "newStart": 4,
    "newLines": 1,
    "lines": ["-b", "+c", "\\ No newline"],
}

CASES: dict[str, tuple[str, Any, Any, tuple[FileChange, ...]]] = {
    "Claude Code, as reported": (
        "Edit",
        {"file_path": "/w/a.py", "old_string": "b", "new_string": "c"},
        {"filePath": "/w/a.py", "structuredPatch": [REPORTED]},
        (FileChange("/w/a.py", "edit", (Hunk(4, 4, ("-b", "+c")),)),),
    ),
    "Claude Code, as requested": (
        "Edit",
        {"file_path": "/w/a.py", "old_string": "a\nb\nz", "new_string": "a\nc\nz"},
        None,
        (FileChange("/w/a.py", "edit", (Hunk(None, None, (" a", "-b", "+c", " z")),)),),
    ),
    "apply_patch": ("apply_patch", PATCH, None, PATCHED),
    "apply_patch in a shell": (
        "shell",
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF\n"]},
        None,
        PATCHED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_changes(case: str) -> None:
    tool, call_input, structured, changes = CASES[case]
    assert facts_of_call(tool, call_input, structured) == CallFacts(changes)
