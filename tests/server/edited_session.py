"""A transcript of Claude Code that changes files."""

import json
from typing import Any

from tests.shared.records import claude

WRITTEN = "def heron():\n    return 1\n"


def _line(number: int, kind: str, content: Any, **fields: Any) -> str:
    times: dict[str, Any] = {"timestamp": f"2026-11-02T09:00:{number:02}.000Z", "cwd": "/home/ada/site"}
    record = claude.line(kind, content, uuid=f"u{number}", sessionId="s", **times, **fields)
    return json.dumps(record)


def _call(number: int, name: str, **arguments: Any) -> str:
    return _line(
        number, "assistant", [{"type": "tool_use", "id": f"t{number}", "name": name, "input": arguments}]
    )


def _result(number: int, text: str = "done", *, is_error: bool = False, **fields: Any) -> str:
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": text, "is_error": is_error}
    return _line(number + 1, "user", [block], **fields)


def edited_lines(secret: str = "") -> list[str]:
    """Return lines with two turns: a new file, a failed edit and a command, then an edit of the file."""
    path = "/home/ada/site/heron.py"
    patch = [{"oldStart": 2, "newStart": 2, "lines": ["-    return 1", f"+    return 2  # {secret}"]}]
    return [
        _line(1, "user", "Write a function."),
        _call(2, "Write", file_path=path, content=WRITTEN),
        _result(
            2, toolUseResult={"type": "create", "filePath": path, "content": WRITTEN, "structuredPatch": []}
        ),
        _call(4, "Edit", file_path=path, old_string="nine", new_string="9"),
        _result(4, "String to replace not found in file.", is_error=True),
        _call(6, "Bash", command=f"make {secret}"),
        _result(6),
        _line(8, "user", "Return 2."),
        _call(9, "Edit", file_path=path, old_string="1", new_string=f"2  # {secret}"),
        _result(9, toolUseResult={"filePath": path, "structuredPatch": patch}),
    ]


def patch_of(last: str = "    return 2  # ") -> str:
    return f"""diff --git a/home/ada/site/heron.py b/home/ada/site/heron.py
new file mode 100644
--- /dev/null
+++ b/home/ada/site/heron.py
@@ -0,0 +1,2 @@
+def heron():
+{last}
"""
