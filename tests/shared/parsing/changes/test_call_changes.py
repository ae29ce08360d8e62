"""The changes of files in single calls, of each tool's form."""

import json
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
STRUCTURED_HUNK = {"oldStart": 4, "newStart": 4, "lines": ["-b", "+c", "\\ No newline at end of file"]}
UNIFIED = "Index: a.py\n===\n--- a.py\tOriginal\n+++ a.py\tWritten\n@@ -4 +4 @@\n-b\n+c\n"
OLD_NEW = {"old_string": "b", "new_string": "c"}
REPLACED = (Hunk(None, None, ("-b", "+c")),)
NUMBERED = (Hunk(4, 4, ("-b", "+c")),)
ORIGINALS = "<<<<<<< ORIGINAL\nb\n=======\nc\n>>>>>>> UPDATED\n"
BLOCKS = "<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n"
UNKNOWN_BEFORE = FileChange("a.py", "write", (Hunk(None, None, ("+one", "+two")),), None, True)
CREATED = FileChange("a.py", "write", (Hunk(0, 1, ("+one", "+two")),))
EDITED, EDITED_THERE = FileChange("a.py", "edit", REPLACED), FileChange("a.py", "edit", NUMBERED)
TEXT = "one\ntwo\n"

Case = tuple[str, Any, Any, tuple[FileChange, ...]]
"""Tool, arguments, the structured result or its text, changes."""

EDITS: dict[str, Case] = {
    "Claude Code, reported": (
        "Edit",
        {"file_path": "a.py", **OLD_NEW},
        {"filePath": "a.py", "structuredPatch": [STRUCTURED_HUNK]},
        (EDITED_THERE,),
    ),
    "Claude Code, requested": (
        "Edit",
        {"file_path": "a.py", "old_string": "a\nb\nz", "new_string": "a\nc\nz"},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, (" a", "-b", "+c", " z")),)),),
    ),
    "Claude Code, all occurrences, requested": (
        "Edit",
        {"file_path": "a.py", "replace_all": True, **OLD_NEW},
        None,
        (EDITED._replace(is_partial=True),),
    ),
    "Claude Code, nothing replaced": (
        "Edit",
        {"file_path": "a.py", "old_string": "b", "new_string": "b"},
        None,
        (FileChange("a.py", "edit", ()),),
    ),
    "Claude Code, lines removed": (
        "Edit",
        {"file_path": "a.py", "old_string": "a\nb\n", "new_string": ""},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, ("-a", "-b")),)),),
    ),
    "MultiEdit": (
        "MultiEdit",
        {"file_path": "a.py", "edits": [OLD_NEW, {"old_string": "d", "new_string": "e"}]},
        None,
        (FileChange("a.py", "edit", (*REPLACED, Hunk(None, None, ("-d", "+e")))),),
    ),
    "a notebook cell": (
        "NotebookEdit",
        {"notebook_path": "a.ipynb", "new_source": TEXT, "edit_mode": "replace"},
        {"new_source": TEXT, "cell_type": "code"},
        (FileChange("a.ipynb", "edit", (Hunk(None, None, ("+one", "+two")),), None, True),),
    ),
    "apply_patch": ("apply_patch", PATCH, None, PATCHED),
    "apply_patch, as a field": ("apply_patch", {"input": PATCH}, None, PATCHED),
    "apply_patch, in a shell": (
        "shell",
        {"command": ["bash", "-lc", f"cd /w && apply_patch <<'EOF'\n{PATCH}EOF\n"]},
        None,
        PATCHED,
    ),
    "apply_patch, as a program": ("shell", {"command": ["/bin/apply_patch", PATCH]}, None, PATCHED),
    "apply_patch, reported": (
        "apply_patch",
        PATCH,
        {
            "changes": {
                "/w/src/a.py": {
                    "type": "update",
                    "unified_diff": "@@ -1,2 +1,2 @@\n first\n-second\n+2nd\n",
                    "move_path": "/w/src/b.py",
                },
                "/w/new.txt": {"type": "add", "content": TEXT},
                "/w/old.txt": {"type": "delete", "content": "x\n"},
            }
        },
        (
            FileChange("/w/src/a.py", "edit", (Hunk(1, 1, (" first", "-second", "+2nd")),), "/w/src/b.py"),
            FileChange("/w/new.txt", "write", (Hunk(0, 1, ("+one", "+two")),)),
            FileChange("/w/old.txt", "delete", (Hunk(1, 0, ("-x",)),)),
        ),
    ),
    "codex exec, without contents": (
        "apply_patch",
        {"changes": [{"path": "a.py", "kind": "update"}, {"path": "b.py", "kind": "add"}]},
        {"status": "completed"},
        (FileChange("a.py", "edit", (), None, True), FileChange("b.py", "write", (), None, True)),
    ),
    "Responses, created": (
        "apply_patch",
        {"type": "create_file", "path": "a.py", "diff": "+one\n+two"},
        None,
        (UNKNOWN_BEFORE,),
    ),
    "Responses, updated": (
        "apply_patch",
        {"type": "update_file", "path": "a.py", "diff": "@@\n-b\n+c"},
        None,
        (EDITED,),
    ),
    "Responses, deleted": (
        "apply_patch",
        {"type": "delete_file", "path": "a.py"},
        None,
        (FileChange("a.py", "delete", (), None, True),),
    ),
    "Gemini CLI": ("replace", {"file_path": "a.py", "instruction": "x", **OLD_NEW}, None, (EDITED,)),
    "Gemini CLI, reported": (
        "replace",
        {"file_path": "/w/a.py", **OLD_NEW},
        {"fileDiff": UNIFIED, "fileName": "a.py", "originalContent": "b", "newContent": "c"},
        (FileChange("/w/a.py", "edit", NUMBERED),),
    ),
    "Cursor, reported": (
        "edit",
        {"path": "a.py"},
        {"success": {"path": "a.py", "diffString": "--- a/a.py\n+++ b/a.py\n@@ -4 +4 @@\n-b\n+c"}},
        (EDITED_THERE,),
    ),
    "Cursor, signs with a space": (
        "edit",
        {"path": "a.py"},
        {"success": {"path": "a.py", "diffString": "- b\n+ c", "afterFullFileContent": "c"}},
        (EDITED,),
    ),
    "Cursor, an indented line": (
        "edit",
        {"path": "a.py"},
        {"success": {"path": "a.py", "diffString": "- b\n+ c", "afterFullFileContent": "a\n c\n"}},
        (FileChange("a.py", "edit", (Hunk(None, None, ("- b", "+ c")),)),),
    ),
    "Cursor, transcripts": (
        "search_replace",
        {"file_path": "a.py", **OLD_NEW},
        {"rejected": {}},
        (EDITED,),
    ),
    "Copilot": (
        "edit",
        {"path": "/w/a.py", "old_str": "b", "new_str": "c"},
        {
            "detailedContent": "\ndiff --git a/w/a.py b/w/a.py\n--- a/w/a.py\n+++ b/w/a.py\n@@ -4 +4 @@\n-b\n+c\n"
        },
        (FileChange("/w/a.py", "edit", NUMBERED),),
    ),
    "VS Code": (
        "replace_string_in_file",
        {"filePath": "a.py", "oldString": "b", "newString": "c"},
        None,
        (EDITED,),
    ),
    "VS Code, several": (
        "multi_replace_string_in_file",
        {
            "replacements": [
                {"filePath": "a.py", "oldString": "b", "newString": "c"},
                {"filePath": "b.py", "oldString": "b", "newString": "c"},
            ]
        },
        None,
        (EDITED, FileChange("b.py", "edit", REPLACED)),
    ),
    "Antigravity, reported in the text": (
        "replace_file_content",
        {"TargetFile": "a.py", "TargetContent": "b", "ReplacementContent": "c", "AllowMultiple": True},
        "The following changes were made.\n[diff_block_start]\n@@ -4 +4 @@\n-b\n+c\n[diff_block_end]\n",
        (EDITED_THERE,),
    ),
    "Antigravity, several": (
        "multi_replace_file_content",
        {
            "TargetFile": "a.py",
            "ReplacementChunks": [{"TargetContent": "b", "ReplacementContent": "c", "AllowMultiple": False}],
        },
        None,
        (EDITED,),
    ),
    "OpenCode, reported": (
        "edit",
        {"filePath": "a.py", "oldString": "b", "newString": "c"},
        {"diff": UNIFIED, "filediff": {"file": "a.py", "additions": 1, "deletions": 1, "patch": UNIFIED}},
        (EDITED_THERE,),
    ),
    "OpenCode, apply_patch": (
        "apply_patch",
        {"patchText": PATCH},
        {
            "diff": "…",
            "files": [
                {"filePath": "a.py", "type": "update", "diff": "…", "before": "a\nb\n", "after": "a\nc\n"},
                {"filePath": "b.py", "type": "add", "patch": "@@ -0,0 +1,2 @@\n+one\n+two\n"},
            ],
        },
        (FileChange("a.py", "edit", (Hunk(1, 1, (" a", "-b", "+c")),)), CREATED._replace(path="b.py")),
    ),
    "equal words with several indentations": (
        "Edit",
        {"file_path": "a.py", "old_string": "  }\n}", "new_string": "  }\n]"},
        {"structuredPatch": [{"oldStart": 4, "newStart": 4, "lines": ["   }", "-}", "+]"]}]},
        (FileChange("a.py", "edit", (Hunk(4, 4, ("   }", "-}", "+]")),)),),
    ),
    "OpenCode, a diff without indentation": (
        "edit",
        {"filePath": "a.py", "oldString": "  if b:\n    b", "newString": "  if b:\n    c"},
        {"diff": "--- a.py\n+++ a.py\n@@ -4,2 +4,2 @@\n if b:\n-  b\n+  c\n"},
        (FileChange("a.py", "edit", (Hunk(None, None, ("   if b:", "-    b", "+    c")),)),),
    ),
    "pi, whose diff has line numbers": (
        "edit",
        {"path": "a.py", "oldText": "b", "newText": "c"},
        {"diff": "   3 a\n-  4 b\n+  4 c", "firstChangedLine": 4},
        (EDITED,),
    ),
    "Cline, blocks": ("replace_in_file", {"path": "a.py", "diff": BLOCKS}, None, (EDITED,)),
    "Roo, blocks with a line": (
        "apply_diff",
        {"path": "a.py", "diff": BLOCKS.replace("SEARCH\n", "SEARCH\n:start_line:4\n-------\n")},
        None,
        (EDITED,),
    ),
    "Mistral Vibe, blocks": ("search_replace", {"file_path": "a.py", "content": BLOCKS}, None, (EDITED,)),
    "gptme, blocks": ("patch", {"path": "a.py", "patch": ORIGINALS}, None, (EDITED,)),
    "gptme, blocks with lines of a patch": (
        "patch",
        {"path": "a.py", "patch": ORIGINALS.replace("b\n", "@@ b\n").replace("c\n", "--- c\n")},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, ("-@@ b", "+--- c")),)),),
    ),
    "gptme, a block for each file": (
        "patch_many",
        {"arguments": "a.py b.py", "content": ORIGINALS * 2},
        None,
        (EDITED, EDITED._replace(path="b.py")),
    ),
    "gptme, blocks below headings": (
        "patch_many",
        {"content": f"=== PATH: a.py ===\n{ORIGINALS}{ORIGINALS}=== PATH: b.py ===\n{ORIGINALS}"},
        None,
        (EDITED._replace(hunks=REPLACED * 2), EDITED._replace(path="b.py")),
    ),
    "gptme, patches as JSON": (
        "patch_many",
        {"patches": json.dumps([{"path": "a.py", "patch": ORIGINALS}])},
        None,
        (EDITED,),
    ),
    "gptme, numbered lines": (
        "hashline_edit",
        {"path": "a.py", "content": "[a.py#A1B2C3D4]\nPUT 3.=4:\n+one\n+two\nCUT 7.=8"},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, ("+one", "+two")),), None, True),),
    ),
    "gptme, a sketch": (
        "morph",
        {"path": "a.py", "edit": "# … existing code …"},
        None,
        (FileChange("a.py", "edit", (), None, True),),
    ),
    "Kimi": (
        "StrReplaceFile",
        {"path": "a.py", "edit": {"old": "b", "new": "c", "replace_all": False}},
        None,
        (EDITED,),
    ),
    "an editor, replaced": (
        "str_replace_editor",
        {"command": "str_replace", "path": "a.py", "old_str": "b", "new_str": "c"},
        None,
        (EDITED,),
    ),
    "an editor, inserted": (
        "str_replace_based_edit_tool",
        {"command": "insert", "path": "a.py", "insert_line": 3, "insert_text": TEXT},
        None,
        (FileChange("a.py", "edit", (Hunk(3, 4, ("+one", "+two")),)),),
    ),
    "an editor, appended": (
        "fs_write",
        {"command": "append", "path": "a.py", "new_str": TEXT},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, ("+one", "+two")),)),),
    ),
    "an editor, undone": ("str_replace_editor", {"command": "undo_edit", "path": "a.py"}, None, ()),
    "a sketch": (
        "edit_file",
        {"target_file": "a.py", "instructions": "x", "code_edit": "# … existing code …"},
        None,
        (FileChange("a.py", "edit", (), None, True),),
    ),
    "a file URI": (
        "edit",
        {"uri": "file:///w/a%20b.py", **OLD_NEW},
        None,
        (FileChange("/w/a b.py", "edit", REPLACED),),
    ),
    "an MCP server of files": (
        "mcp__files__edit_file",
        {"path": "a.py", "edits": [OLD_NEW]},
        None,
        (EDITED,),
    ),
    "an MCP server of something else": ("mcp__shop__edit", {"path": "a.py", **OLD_NEW}, None, ()),
}
WRITES: dict[str, Case] = {
    "Claude Code, a new file": (
        "Write",
        {"file_path": "a.py", "content": TEXT},
        {"type": "create", "filePath": "a.py", "content": TEXT, "structuredPatch": []},
        (CREATED,),
    ),
    "Claude Code, overwritten": (
        "Write",
        {"file_path": "a.py", "content": "a\nc\n"},
        {"type": "update", "filePath": "a.py", "content": "a\nc\n", "structuredPatch": [STRUCTURED_HUNK]},
        (FileChange("a.py", "write", NUMBERED),),
    ),
    "Claude Code, not reported": ("Write", {"file_path": "a.py", "content": TEXT}, None, (UNKNOWN_BEFORE,)),
    "the text says that it is new": (
        "create_file",
        {"path": "a.py", "content": TEXT},
        "File created successfully at: a.py",
        (CREATED,),
    ),
    "Anthropic's editor": (
        "text_editor_code_execution",
        {"command": "create", "path": "a.py", "file_text": TEXT},
        {"type": "text_editor_code_execution_create_result", "is_file_update": False},
        (CREATED,),
    ),
    "Copilot CLI": (
        "create",
        {"path": "a.py", "file_text": TEXT},
        {
            "detailedContent": "\ndiff --git a/a.py b/a.py\ncreate file mode 100644\n"
            "--- a/dev/null\n+++ b/a.py\n@@ -1,0 +1,2 @@\n+one\n+two\n"
        },
        (CREATED,),
    ),
    "Gemini CLI": ("write_file", {"file_path": "a.py", "content": TEXT}, None, (UNKNOWN_BEFORE,)),
    "Qwen Code, reported": (
        "write_file",
        {"file_path": "a.py", "content": TEXT},
        {"fileDiff": "--- a.py\tOriginal\n+++ a.py\tWritten\n@@ -0,0 +1,2 @@\n+one\n+two\n"},
        (CREATED,),
    ),
    "Antigravity": ("write_to_file", {"TargetFile": "a.py", "CodeContent": TEXT}, None, (UNKNOWN_BEFORE,)),
    "OpenCode": ("write", {"filePath": "a.py", "content": TEXT}, {"exists": True}, (UNKNOWN_BEFORE,)),
    "Kimi, appended": (
        "WriteFile",
        {"path": "a.py", "content": TEXT, "mode": "append"},
        None,
        (FileChange("a.py", "edit", (Hunk(None, None, ("+one", "+two")),)),),
    ),
    "gptme, saved": ("save", {"path": "a.py", "content": TEXT}, "Saved to a.py", (UNKNOWN_BEFORE,)),
    "gptme, appended": (
        "append",
        {"path": "a.py", "content": TEXT},
        "Appended to a.py",
        (FileChange("a.py", "edit", (Hunk(None, None, ("+one", "+two")),)),),
    ),
    "an empty file": (
        "Write",
        {"file_path": "a.py", "content": ""},
        {"type": "create", "content": ""},
        (FileChange("a.py", "write", (), None, True),),
    ),
}
OTHERS: dict[str, Case] = {
    "deleted": ("delete_file", {"path": "a.py"}, None, (FileChange("a.py", "delete", (), None, True),)),
    "moved": (
        "move_path",
        {"source_path": "a.py", "destination_path": "b.py"},
        None,
        (FileChange("a.py", "move", (), "b.py"),),
    ),
    "renamed in a patch": (
        "apply_patch",
        "diff --git a/a.py b/b.py\nsimilarity index 100%\nrename from a.py\nrename to b.py\n",
        None,
        (FileChange("a.py", "move", (), "b.py"),),
    ),
    "no path": ("Edit", OLD_NEW, None, ()),
    "a path of two lines": ("Edit", {"file_path": "a\nb", **OLD_NEW}, None, ()),
    "another tool": ("TodoWrite", {"path": "a.py", "content": TEXT}, None, ()),
}
CHANGES = {
    f"{kind}: {name}": case
    for kind, cases in {"edit": EDITS, "write": WRITES, "other": OTHERS}.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CHANGES)
def test_changes(case: str) -> None:
    tool, call_input, structured, changes = CHANGES[case]
    assert facts_of_call(tool, call_input, structured) == CallFacts(changes)


COUNTS: dict[str, tuple[FileChange, tuple[int | None, int | None]]] = {
    "edited": (EDITED, (1, 1)),
    "new": (CREATED, (2, 0)),
    "overwritten": (UNKNOWN_BEFORE, (2, None)),
    "deleted, with its text": (FileChange("a", "delete", (Hunk(1, 0, ("-x",)),)), (0, 1)),
    "deleted": (FileChange("a", "delete", (), None, True), (None, None)),
    "moved": (FileChange("a", "move", (), "b"), (0, 0)),
}


@pytest.mark.parametrize("case", COUNTS)
def test_counts(case: str) -> None:
    change, counts = COUNTS[case]
    assert (change.added, change.removed) == counts


OTHER_FACTS: list[tuple[str, Any, CallFacts]] = [
    ("Read", {"file_path": "/w/a.py", "limit": 3}, CallFacts(reads=("/w/a.py",))),
    ("read_files", {"files": [{"path": "a"}, "b", 1, "b", {}]}, CallFacts(reads=("a", "b"))),
    ("view_file", {"AbsolutePath": "/a"}, CallFacts(reads=("/a",))),
    ("str_replace_editor", {"command": "view", "path": "/a"}, CallFacts(reads=("/a",))),
    ("Bash", {"command": "rm a.py"}, CallFacts(command="rm a.py")),
    ("shell", {"command": ["bash", "-lc", "ls | wc"]}, CallFacts(command="ls | wc")),
    ("shell", {"command": ["rm", "a b"]}, CallFacts(command="rm 'a b'")),
    ("run_commands", {"commands": ["ls", "rm a"]}, CallFacts(command="ls\nrm a")),
    ("run_command", {"CommandLine": "make"}, CallFacts(command="make")),
    ("exec_command", {"cmd": "make"}, CallFacts(command="make")),
    ("Bash", {"command": "echo '*** Begin Patch'"}, CallFacts(command="echo '*** Begin Patch'")),
    ("Bash", {"command": 7}, CallFacts()),
    ("Bash", {"command": ""}, CallFacts()),
    ("Glob", {"path": "/w", "pattern": "*"}, CallFacts()),
]


@pytest.mark.parametrize(("tool", "call_input", "facts"), OTHER_FACTS)
def test_reads_and_commands(tool: str, call_input: Any, facts: CallFacts) -> None:
    assert facts_of_call(tool, call_input) == facts
