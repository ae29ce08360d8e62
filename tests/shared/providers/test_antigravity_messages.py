"""Blocks of Antigravity's records, and the standard messages they form."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.model.message import RecordHeader
from ash_shared.providers import discover
from ash_shared.providers.antigravity import PROVIDER
from tests.shared.records.antigravity import (
    CONVERSATION,
    TIMES,
    Record,
    call,
    generation,
    prompt,
    response,
    result,
    row,
    step,
    update,
)
from tests.shared.transcripts import short_messages

HISTORY = {"display": "Look.", "timestamp": 1791104400000, "workspace": "/pier"}
INIT = {"event": "init", "conversation_id": CONVERSATION, "init": {"model": "gemini-3.7-pro", "cwd": "/pier"}}
OUTPUT = {"conversation_id": CONVERSATION, "status": "SUCCESS", "duration_seconds": 1, "num_turns": 1}


@pytest.mark.parametrize(
    ("record", "sources"),
    [
        (prompt(0, "Look."), ["antigravity"]),
        (step(1, "BROWSER_CLICK", "SYSTEM"), ["antigravity"]),
        (step(1, "browser_click"), []),
        ({**step(1, "GENERIC"), "step_index": "1"}, []),
        (INIT, ["antigravity"]),
        (result(), ["antigravity"]),
        ({"event": "result", "result": {"status": "SUCCESS"}}, []),
        ({"event": "init", "conversation_id": CONVERSATION}, []),
        ({**OUTPUT, "error": "No quota."}, ["antigravity"]),
        (row(0, b""), ["antigravity"]),
        ({"table": "message", "key": "m1", "columns": {}}, []),
        (HISTORY, ["antigravity"]),
        ({"display": "Look.", "timestamp": 1, "project": "/pier", "pastedContents": {}}, ["claude_history"]),
    ],
    ids=lambda value: None if isinstance(value, list) else json.dumps(value)[:60],
)
def test_recognizes_only_its_records(record: Record, sources: list[str]) -> None:
    providers = discover()

    assert [name for name, each in providers.items() if each.recognize(record)] == sources
    assert [each[0].source for each in [providers.recognize(record)] if each] == sources


LABELS = {"toolAction": "Counting", "toolSummary": "Count"}


def tool_use(name: str, input: Any, **extra: Any) -> Record:
    more = {"extra": extra} if extra else {}
    return {"type": "tool_use", "name": name, "input": input, "source_type": "tool_call", **more}


def tool_result(kind: str, **more: Any) -> Record:
    return {"type": "tool_result", "source_type": kind, **more}


@pytest.mark.parametrize(
    ("args", "block"),
    [
        ({"Cwd": "/pier", "Wait": 5, **LABELS}, tool_use("t", {"Cwd": "/pier", "Wait": 5}, **LABELS)),
        (
            {"Cwd": '"/pier"', "Wait": "5", "All": "false", "toolSummary": '"Count"'},
            tool_use(
                "t",
                {"Cwd": "/pier", "Wait": 5, "All": False},
                args={"Cwd": '"/pier"', "Wait": "5", "All": "false", "toolSummary": '"Count"'},
                toolSummary="Count",
            ),
        ),
        (
            {"Text": '"a long te<truncated 90 bytes>', "Wait": "5"},
            tool_use(
                "t",
                {"Text": '"a long te<truncated 90 bytes>', "Wait": 5},
                args={"Text": '"a long te<truncated 90 bytes>', "Wait": "5"},
            ),
        ),
        ({"Query": '"gulls"', **LABELS}, tool_use("t", {"Query": '"gulls"'}, **LABELS)),
        ({"Query": "5", "Path": "/pier"}, tool_use("t", {"Query": "5", "Path": "/pier"})),
        ({}, tool_use("t", {})),
        (
            None,
            {
                "type": "raw",
                "reason": "malformed",
                "rawType": "tool_call",
                "raw": {"name": "t", "args": None},
            },
        ),
    ],
    ids=["full", "compact", "cut text", "a quoted word", "a number as text", "no arguments", "malformed"],
)
def test_reads_arguments(args: Any, block: Record) -> None:
    assert blocks_of(response(1, None, {"name": "t", "args": args})) == [block]


@pytest.mark.parametrize("state", ["ACTIVE", "NEW_STATE", None, ["DONE"]])
def test_a_tool_that_has_not_ended_keeps_its_fields(state: Any) -> None:
    info = {"name": {"kk": "t"}, "parameters": {"a": 1}, "output": "2 lines", "error": {"code": 5}}
    record = update(2, "tool", state, tool_name="t", tool_info=info)

    [block] = blocks_of(record)

    assert (block["name"], block["input"]) == ("t", {"a": 1})
    assert block["extra"] == {"name": {"kk": "t"}, "output": "2 lines", "error": {"code": 5}}


def blocks_of(record: Record) -> list[Record]:
    return [
        block.model_dump(mode="json", by_alias=True) for block in parse_message(json.dumps(record)).parsed
    ]


FAILED = f"{TIMES}\n\t\tThe command failed with exit code: 3\n\t\tOutput:\n\t\tfog"
DONE = (
    f"{TIMES}\n\t\tThe command completed successfully.\n\t\tOutput:\n\t\tThe command failed with exit code: 9"
)
DENIED = f"{TIMES}Encountered error in step execution: no right to read"


@pytest.mark.parametrize(
    ("record", "block"),
    [
        (step(1, "RUN_COMMAND", content=FAILED), {"content": FAILED, "is_error": True, "exit_code": 3}),
        (step(1, "RUN_COMMAND", content=DONE), {"content": DONE, "is_error": False, "exit_code": 0}),
        (step(1, "VIEW_FILE", content=FAILED), {"content": FAILED}),
        (step(1, "VIEW_FILE", content=DENIED), {"content": DENIED, "is_error": True}),
        (step(1, "GREP_SEARCH", status="ERROR", content="a"), {"content": "a", "is_error": True}),
        (step(1, "ERROR_MESSAGE", "SYSTEM", error="no"), {"content": "no", "is_error": True}),
        (
            step(1, "ERROR_MESSAGE", "SYSTEM", error="no", content="Error: no"),
            {"content": "Error: no", "is_error": True, "extra": {"error": "no"}},
        ),
        (step(1, "NEW_TOOL", content="a", note=5), {"content": "a", "extra": {"note": 5}}),
        (step(1, "GENERIC"), {}),
    ],
    ids=[
        *(
            "failed command",
            "command",
            "failure in a file",
            "failure",
            "status",
            "error",
            "error and content",
        ),
        *("unknown tool", "no content"),
    ],
)
def test_reads_results(record: Record, block: Record) -> None:
    assert blocks_of(record) == [tool_result(record["type"], **block)]


@pytest.mark.parametrize(
    ("record", "kind", "role", "expected"),
    [
        (step(1, "EPHEMERAL_MESSAGE", "SYSTEM", content="a"), "record", "system", ("raw", "control")),
        (step(1, "NEW_KIND", "SYSTEM", content="a"), "record", "system", ("raw", "unknown_type")),
        (step(1, "SYSTEM_MESSAGE", "SYSTEM", content="a"), "record", "system", ("text", "notice")),
        (step(1, "SYSTEM_MESSAGE", "SYSTEM"), "record", "system", ("raw", "malformed")),
        (step(1, "CHECKPOINT", "SYSTEM", content="a"), "record", "system", ("text", "summary")),
        (step(1, "USER_INPUT", "USER_EXPLICIT"), "message", "user", ("raw", "malformed")),
        (response(1), "record", "system", ("raw", "control")),
        (update(1, "checkpoint"), "record", "system", ("raw", "control")),
        (update(1, "hologram"), "record", "system", ("raw", "unknown_type")),
        (update(1, "tool", tool_info={}), "message", "assistant", ("raw", "malformed")),
        (row(0, b"\xff"), "record", "system", ("raw", "opaque")),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else None,
)
def test_reads_other_records(record: Record, kind: str, role: str, expected: tuple[str, str]) -> None:
    message = parse_message(json.dumps(record))

    [block] = [block.model_dump() for block in message.parsed]
    assert (message.kind, message.role) == (kind, role)
    assert (block["type"], block.get("reason") or block.get("variant")) == expected


PRO = {"model": "Gemini 3.7 Pro (High)"}
LOOK = ("user", [("text", "Look.")])


@pytest.mark.parametrize(
    ("records", "messages"),
    [
        pytest.param(
            [
                prompt(0, "Look.", PRO["model"]),
                response(2, "I look.", call("list_dir", Path="/pier"), thinking="Where?"),
                row(0, generation(b"\2\3", input=70, output=9, cached=300, thinking=4)),
                step(3, "LIST_DIRECTORY", content="gulls"),
                row(1, generation(b"\4", "Claude 5 (Thinking)", input=80, output=3)),
                response(4, "Gulls."),
                prompt(5, "Thanks.", "Gemini 3.7 Flash"),
                response(6, "Any time."),
            ],
            [
                LOOK,
                (
                    "assistant",
                    [("thinking", "Where?"), ("text", "I look."), ("tool_use", "list_dir")],
                    {**PRO, "usage": (70, 9, 300, 4)},
                ),
                ("user", [("tool_result", "gulls")]),
                (
                    "assistant",
                    [("text", "Gulls.")],
                    {"model": "Claude 5 (Thinking)", "usage": (80, 3, None, None)},
                ),
                ("user", [("text", "Thanks.")]),
                ("assistant", [("text", "Any time.")], {"model": "Gemini 3.7 Flash"}),
            ],
            id="usage before and after its response",
        ),
        pytest.param(
            [
                prompt(0, "Look."),
                response(2, "I lo", status="RUNNING"),
                response(2, "I look.", call("list_dir", Path="/pier")),
                step(3, "LIST_DIRECTORY", status="RUNNING", content="gu"),
                step(3, "LIST_DIRECTORY", content="gulls"),
                step(4, "USER_INPUT", "SYSTEM", content="Go on."),
            ],
            [
                LOOK,
                ("assistant", [("text", "I look."), ("tool_use", "list_dir")]),
                ("user", [("tool_result", "gulls")]),
                ("user", [("text", "Go on.")], {"synthetic": True}),
            ],
            id="snapshots of a step, and input that nobody typed",
        ),
        pytest.param(
            [row(0, generation(b"\2", input=70, output=9))],
            [("assistant", [], {**PRO, "usage": (70, 9, None, None)})],
            id="a database without a transcript",
        ),
        pytest.param(
            [
                INIT,
                update(1, "agent_response", usage={"input_tokens": 7, "output_tokens": 2}),
                update(2, "tool", "ACTIVE", tool_info={"name": "list_dir", "parameters": {}}),
                update(2, "tool", tool_info={"name": "list_dir", "parameters": {}, "output": "gulls"}),
                update(3, "agent_response", "ACTIVE", text_delta="Gu"),
                update(3, "agent_response", text_delta="lls.", usage={"input_tokens": 9, "output_tokens": 3}),
                result(response="Gulls.", num_turns=1, usage={"input_tokens": 16, "output_tokens": 5}),
            ],
            [
                ("assistant", [], {"model": "gemini-3.7-pro", "usage": (7, 2, None, None)}),
                ("assistant", [("tool_use", "list_dir")], {"model": "gemini-3.7-pro"}),
                ("user", [("tool_result", "gulls")]),
                (
                    "assistant",
                    [("text", "Gu"), ("text", "lls.")],
                    {"model": "gemini-3.7-pro", "usage": (9, 3, None, None)},
                ),
                ("assistant", [("text", "Gulls.")], {"model": "gemini-3.7-pro", "shadowOf": 3}),
            ],
            id="a stream",
        ),
    ],
)
def test_records_form_messages(records: list[Record], messages: list[Any]) -> None:
    assert short_messages(*records) == messages


@pytest.mark.parametrize(
    ("record", "facts"),
    [
        (prompt(0, "Look.", PRO["model"]), RecordHeader(timestamp=1791187201000, model=PRO["model"])),
        (prompt(0, "setting `Model Selection` from A to B."), RecordHeader(timestamp=1791187201000)),
        (response(1), RecordHeader(timestamp=1791187201000)),
        (step(1, "RUN_COMMAND", content=TIMES), RecordHeader(timestamp=1791187203000)),
        (step(1, "RUN_COMMAND", content=f"No. {TIMES}"), RecordHeader(timestamp=1791187201000)),
        (step(1, "VIEW_FILE", content="Completed At: noon\n"), RecordHeader(timestamp=1791187201000)),
        (response(1, TIMES), RecordHeader(timestamp=1791187201000)),
        (INIT, RecordHeader(session_id=CONVERSATION, model="gemini-3.7-pro", folder="/pier")),
        (HISTORY, RecordHeader(folder="/pier")),
        (update(1, "user_input"), RecordHeader(session_id=CONVERSATION)),
        (OUTPUT, RecordHeader(session_id=CONVERSATION)),
        (row(0, b""), RecordHeader()),
    ],
    ids=[
        *("prompt", "words of a prompt", "response", "result", "times in a result", "no time"),
        *("times in a response", "init", "history", "update", "output", "row"),
    ],
)
def test_facts(record: Record, facts: RecordHeader) -> None:
    assert PROVIDER.header(record) == facts
