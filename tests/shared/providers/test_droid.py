"""Sessions and streams of Droid."""

from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

TIME = "2026-01-02T03:04:05Z"
START = {"type": "session_start", "id": "s1", "title": "Knots", "cwd": "/home/ada/tern", "version": "0.81.0"}


def message(id: str, role: str, *content: Any) -> dict[str, Any]:
    body = {"role": role, "content": [*content]}
    return {"type": "message", "id": id, "parentId": "s1", "timestamp": TIME, "message": body}


def line(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": "s1", "timestamp": 1767812641000, **fields}


CALL = {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": "count"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "7"}
USAGE = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 100}


def test_messages_of_a_session() -> None:
    assert short_messages(
        START,
        message("m1", "user", {"type": "text", "text": "How many?"}),
        message("m2", "assistant", CALL),
        message("m3", "user", RESULT),
        message("m4", "assistant", {"type": "text", "text": "Seven."}),
        {"type": "compaction_state", "id": "c1", "timestamp": TIME, "summary": "Knots were counted."},
        {"type": "todo_state", "id": "c2", "timestamp": TIME, "todos": "1. count"},
        source="droid",
    ) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("tool_use", "Execute")]),
        ("user", [("tool_result", "7")]),
        ("assistant", [("text", "Seven.")]),
        ("system", [("text", "Knots were counted.")]),
    ]


STREAM = [
    line("system", id="sys", model="reef-1", cwd="/home/ada/tern"),
    line("message", role="user", text="How many?", id="m1"),
    line("message", role="assistant", text="I look.", id="m2"),
    line("tool_call", toolCallId="t1", toolName="Execute", parameters={"command": "count"}),
    line("tool_result", toolCallId="t1", isError=True, value="7"),
    line("completion", finalText="Seven.", usage=USAGE),
]


def test_messages_and_events_of_the_stream() -> None:
    assert short_messages(*STREAM) == [
        ("user", [("text", "How many?")]),
        (
            "assistant",
            [("text", "I look."), ("tool_use", "Execute")],
            {"model": "reef-1", "usage": (20, 9, 100, None)},
        ),
        ("user", [("tool_result", "7")]),
        ("assistant", [("text", "Seven.")], {"model": "reef-1"}),
    ]
    events = short_events(follow(STREAM))
    assert [name for name, *_ in events] == [
        *("turn_start", "user_message", "assistant_done", "tool_call", "tool_result", "turn_end"),
    ]
    assert events[-1][1]["usage"]["cache_read_input_tokens"] == 100


@pytest.mark.parametrize("record", [START, *STREAM, line("error", source="cli", message="No key.")])
def test_lines_are_recognized(record: Any) -> None:
    assert parse_message(lines(record)[0]).source == "droid"


def test_errors_and_names() -> None:
    header = describe_message(lines(START)[0]).header

    assert (header.session_id, header.title, header.folder, header.client_version) == (
        "s1",
        "Knots",
        "/home/ada/tern",
        "0.81.0",
    )
    assert ("error", {"code": "error", "message": "No key."}) in short_events(
        follow([*STREAM[:2], line("error", source="cli", message="No key.")])
    )
