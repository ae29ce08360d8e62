"""Reports of changes, from the events of a log."""

from collections.abc import Sequence
from typing import Any

from ash_shared.projections.changes import EditLog, to_patch, to_session_changes

Event = dict[str, Any]


class Log:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, wire: str, *, message: int | None = None, **fields: Any) -> "Log":
        number = len(self.events) + 1
        place = {} if message is None else {"messageSequence": message}
        payload = fields.pop("payload", {})
        event = {"id": f"e{number}", "type": wire, "sequence": number, "timestamp": 1000 * number}
        self.events.append({**event, **place, **fields, "payload": payload})
        return self

    def turn(self, prompt: str, **fields: Any) -> "Log":
        self.add("turn_start", turnId=prompt, payload={"trigger": "user"})
        return self.add("user_message", turnId=prompt, payload={"text": prompt, "sender": "person"}, **fields)

    def call(self, id: str, tool: str, args: Any, result: Any = "", **fields: Any) -> "Log":
        own = fields.pop("payload", {})
        self.add("tool_call", payload={"toolCallId": id, "toolName": tool, "args": args, **own}, **fields)
        is_answered = result is not None
        answer = result if isinstance(result, dict) else {"result": result}
        return self.add("tool_result", payload={"toolCallId": id, **answer}) if is_answered else self


def write(path: str, *lines: str) -> Any:
    return {"file_path": path, "content": "".join(f"{line}\n" for line in lines)}


def edit(path: str, old: str, new: str) -> Any:
    return {"file_path": path, "old_string": old, "new_string": new}


CREATED = {"result": "", "structured": {"type": "create"}}
DENIED = {"error": {"code": "error", "message": "The user doesn't want to proceed with this tool use."}}
FAILED = {"error": {"code": "error", "message": "String to replace not found in file."}}


def report(log: Log, copied: int = 0, **options: Any) -> dict[str, Any]:
    edits = EditLog(copied)
    for event in log.events:
        edits.add(event)
    return to_session_changes("s", edits.calls, **options).model_dump(mode="json")


def session() -> Log:
    log = Log().turn("Write it.")
    log.call("1", "Write", write("/w/a.py", "one", "two"), CREATED)
    log.call("2", "Bash", {"command": "ls"}).call("3", "Bash", {"command": "make"}, FAILED)
    log.turn("Change it.")
    log.call("4", "Edit", edit("/w/a.py", "two", "2"))
    log.call("5", "Edit", edit("/w/a.py", "nine", "9"), FAILED)
    log.call("6", "Edit", edit("/w/b.py", "x", "y"), DENIED)
    return log.call("7", "Edit", edit("/w/a.py", "one", "1"), None)


A_PATCH = """diff --git a/w/a.py b/w/a.py
new file mode 100644
--- /dev/null
+++ b/w/a.py
@@ -0,0 +1,2 @@
+one
+2
"""


def call(turn: int, sequence: int, id: str, tool: str, outcome: str = "ok") -> dict[str, Any]:
    at = f"1970-01-01T00:00:{sequence:02}Z"
    return {"turn": turn, "sequence": sequence, "toolCallId": id, "tool": tool, "at": at, "outcome": outcome}


def edit_of(
    *, added: int = 1, removed: int = 1, action: str = "edit", diff: str, **fields: Any
) -> dict[str, Any]:
    return {**fields, "action": action, "added": added, "removed": removed, "diff": diff}


def test_report() -> None:
    assert report(session()) == {
        "sessionId": "s",
        "files": [
            {
                "path": "/w/a.py",
                "status": "added",
                "added": 3,
                "removed": 1,
                "isComposed": True,
                "diff": A_PATCH,
                "edits": [
                    edit_of(
                        **call(1, 3, "1", "Write"),
                        added=2,
                        removed=0,
                        action="write",
                        diff="@@ -0,0 +1,2 @@\n+one\n+two\n",
                    ),
                    edit_of(**call(2, 11, "4", "Edit"), diff="@@ @@\n-two\n+2\n"),
                    edit_of(**call(2, 13, "5", "Edit", "failed"), diff="@@ @@\n-nine\n+9\n"),
                    edit_of(**call(2, 17, "7", "Edit", "pending"), diff="@@ @@\n-one\n+1\n"),
                ],
            },
            {
                "path": "/w/b.py",
                "status": "changed",
                "added": 0,
                "removed": 0,
                "isComposed": True,
                "edits": [edit_of(**call(2, 15, "6", "Edit", "denied"), diff="@@ @@\n-x\n+y\n")],
            },
        ],
        "turns": [
            {
                "turn": 1,
                "prompt": "Write it.",
                "at": "1970-01-01T00:00:02Z",
                "sequence": 2,
                "added": 2,
                "removed": 0,
                "files": [
                    {
                        "path": "/w/a.py",
                        "status": "added",
                        "added": 2,
                        "removed": 0,
                        "isComposed": True,
                        "diff": A_PATCH.replace("+2\n", "+two\n"),
                    }
                ],
            },
            {
                "turn": 2,
                "prompt": "Change it.",
                "at": "1970-01-01T00:00:10Z",
                "sequence": 10,
                "added": 1,
                "removed": 1,
                "files": [
                    {
                        "path": "/w/a.py",
                        "status": "changed",
                        "added": 1,
                        "removed": 1,
                        "isComposed": True,
                        "diff": "diff --git a/w/a.py b/w/a.py\n--- a/w/a.py\n+++ b/w/a.py\n@@ @@\n-two\n+2\n",
                    }
                ],
            },
        ],
        "commands": [{**call(1, 7, "3", "Bash", "failed"), "command": "make"}],
        "filesChanged": 1,
        "added": 3,
        "removed": 1,
        "notCounted": 3,
    }


def totals(changes: dict[str, Any]) -> tuple[Any, ...]:
    edits = [edit["toolCallId"] for file in changes["files"] for edit in file["edits"]]
    return changes["filesChanged"], changes["added"], changes["removed"], changes["notCounted"], edits


def test_choices() -> None:
    cases: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({"turn": 1}, (1, 2, 0, 0, ["1"])),
        ({"turn": 2}, (1, 1, 1, 3, ["4", "5", "7", "6"])),
        ({"turn": 9}, (0, 0, 0, 0, [])),
        ({"path": "a.py"}, (1, 3, 1, 2, ["1", "4", "5", "7"])),
        ({"path": "/w/b.py"}, (0, 0, 0, 1, ["6"])),
        ({"path": ".py"}, (0, 0, 0, 0, [])),
        ({"copied": 1}, (1, 3, 1, 3, ["1", "4", "5", "7", "6"])),
    ]
    assert [totals(report(session(), **options)) for options, _ in cases] == [total for _, total in cases]


def test_without_lines() -> None:
    changes = report(session(), with_diffs=False)
    diffs = [each for file in changes["files"] for each in (file, *file["edits"]) if "diff" in each]
    assert (diffs, changes["added"]) == ([], 3)


def retracted(*payloads: dict[str, Any]) -> Sequence[str]:
    log = Log().turn("One.", recordId="r1").call("1", "Edit", edit("a", "x", "y"), recordId="r2")
    log.turn("Two.", recordId="r3").call("2", "Edit", edit("a", "y", "z"), recordId="r4", responseId="m4")
    for payload in payloads:
        log.add("retraction", payload={"reason": "rewind", **payload})
    [file] = report(log)["files"]
    return [edit["toolCallId"] for edit in file["edits"] if edit.get("isRetracted")]


def test_retracted_calls_are_marked() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"eventIds": ["e3"]}, ["1"]),
        ({"messageIds": ["m4"]}, ["2"]),
        ({"fromMessageId": "r3"}, ["2"]),
        ({"fromMessageId": "r1"}, ["1", "2"]),
        ({"fromMessageId": "unknown"}, []),
        ({"turns": 1}, ["2"]),
        ({"turns": 7}, ["1", "2"]),
    ]
    assert [retracted(payload) for payload, _ in cases] == [outcome for _, outcome in cases]


def test_logs() -> None:
    superseded = {"reason": "superseded", "eventIds": ["e1"]}
    first = Log().call("1", "Edit", edit("a", "x", "y"))
    cases: dict[str, tuple[Log, tuple[Any, ...]]] = {
        "superseded": (first.add("retraction", payload=superseded), (0, 0, 0, 0, [])),
        "rebuilt": (Log().call("1", "Edit", edit("a", "x", "y")).add("reset"), (0, 0, 0, 0, [])),
        "moved": (
            Log()
            .call("1", "move_file", {"source": "a", "destination": "b"})
            .call("2", "Edit", edit("b", "x", "y")),
            (1, 1, 1, 0, ["1", "2"]),
        ),
        "a move that failed": (
            Log()
            .call("1", "move_file", {"source": "a", "destination": "b"}, FAILED)
            .call("2", "Edit", edit("b", "x", "y")),
            (1, 1, 1, 1, ["1", "2"]),
        ),
    }
    assert {name: totals(report(log)) for name, (log, _) in cases.items()} == {
        name: expected for name, (_, expected) in cases.items()
    }


def test_copied_calls_belong_to_another_session() -> None:
    log = (
        Log()
        .turn("One.")
        .call("1", "Edit", edit("a", "x", "y"), message=1)
        .call("2", "Edit", edit("a", "y", "z"), message=2)
    )
    assert totals(report(log, copied=1)) == (1, 1, 1, 0, ["2"])


def test_patch_has_notes() -> None:
    log = Log().call("1", "Edit", edit("a\x1bb", "x", "y")).call("2", "Edit", edit("a\x1bb", "x", "y"))
    log.call("3", "Bash", {"command": "make"})
    edits = EditLog()
    for event in log.events:
        edits.add(event)
    part = "diff --git a/a\ufffdb b/a\ufffdb\n--- a/a\ufffdb\n+++ b/a\ufffdb\n@@ @@\n-x\n+y\n"
    assert to_patch(to_session_changes("s", edits.calls)) == (
        "# Shell commands that may have changed files, which are not in this patch: 1\n"
        f"# The edits of a\ufffdb do not compose; they follow in order.\n{part}{part}"
    )
