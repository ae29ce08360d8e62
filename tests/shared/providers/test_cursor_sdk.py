"""Messages of Cursor's SDK: recognition, blocks, events and standard messages of a run."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.providers import discover
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import short_messages

Message = dict[str, Any]

USAGE = {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 3, "cacheWriteTokens": 0}
RESULT = {"status": "success", "value": {"exitCode": 0, "stdout": "built", "stderr": ""}}
FAILURE = {"status": "error", "error": {"message": "no such file"}}


def message(type_: str, **fields: Any) -> Message:
    return {"type": type_, "agent_id": "agent-1", "run_id": "run-1", **fields}


def spoken(role: str, text: str) -> Message:
    return message(role, message={"role": role, "content": [{"type": "text", "text": text}]})


def call(status: str, **fields: Any) -> Message:
    return message("tool_call", call_id="c1", name="shell", status=status, args={"command": "make"}, **fields)


INIT = message("system", subtype="init", tools=["shell"], model={"id": "composer-2"})
RUN = [
    message("request", request_id="r1"),
    message("status", status="RUNNING"),
    spoken("user", "Build it."),
    message("thinking", text="Let me "),
    message("thinking", text="look."),
    message("thinking", text="", thinking_duration_ms=40),
    spoken("assistant", "I will "),
    spoken("assistant", "run make."),
    call("running"),
    call("completed", result=RESULT),
    spoken("assistant", "Done."),
    message("usage", usage=USAGE),
    message("status", status="FINISHED"),
]


@pytest.mark.parametrize("record", [*RUN, INIT, message("task", text="So far.")], ids=json.dumps)
def test_only_cursor_claims_a_message(record: Message) -> None:
    assert [name for name, provider in discover().items() if provider.recognize(record)] == ["cursor"]
    assert parse_message(json.dumps(record)).source == "cursor"


def test_lines_of_claude_remain_lines_of_claude() -> None:
    record = {**spoken("assistant", "Done."), "uuid": "u1", "session_id": "s1"}

    assert parse_message(json.dumps(record)).source == "claude"


TOOL_USE = {
    "type": "tool_use",
    "id": "c1",
    "name": "shell",
    "input": {"command": "make"},
    "source_type": "tool_call",
}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "c1", "source_type": "tool_call"}


@pytest.mark.parametrize(
    ("record", "blocks"),
    [
        (call("running"), [{**TOOL_USE, "status": "running"}]),
        (
            call("completed", result=RESULT, truncated={"result": True}),
            [
                {**TOOL_USE, "status": "completed", "extra": {"truncated": {"result": True}}},
                {**TOOL_RESULT, "content": "built", "is_error": False, "structured": RESULT, "exit_code": 0},
            ],
        ),
        (
            call("error", result=FAILURE),
            [
                {**TOOL_USE, "status": "error"},
                {**TOOL_RESULT, "content": "no such file", "is_error": True, "structured": FAILURE},
            ],
        ),
        (
            message("thinking", text="Hm", thinking_duration_ms=4),
            [
                {
                    "type": "thinking",
                    "thinking": "Hm",
                    "source_type": "thinking",
                    "extra": {"thinking_duration_ms": 4},
                }
            ],
        ),
        (message("task", text="So far."), [{"type": "text", "text": "So far.", "variant": "summary"}]),
        (
            message("hologram"),
            [{"type": "raw", "rawType": "hologram", "reason": "unknown_type", "raw": message("hologram")}],
        ),
    ],
)
def test_blocks_of_a_message(record: Message, blocks: list[dict[str, Any]]) -> None:
    parsed = parse_message(json.dumps(record), "cursor").parsed

    assert [block.model_dump(by_alias=True, exclude_unset=True) for block in parsed] == blocks


def test_events_of_a_run() -> None:
    *events, (last, payload) = short_events(follow(RUN))

    assert events == [
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Build it."}),
        ("thinking_chunk", {"text": "Let me "}),
        ("thinking_chunk", {"text": "look."}),
        ("thinking_done", {"text": "Let me look."}),
        ("assistant_chunk", {"text": "I will "}),
        ("assistant_chunk", {"text": "run make."}),
        ("assistant_done", {"text": "I will run make."}),
        ("tool_call", {"toolCallId": "c1", "toolName": "shell", "args": {"command": "make"}}, "c1"),
        ("tool_result", {"toolCallId": "c1", "result": "built", "exitCode": 0, "structured": RESULT}),
        ("assistant_chunk", {"text": "Done."}),
        ("assistant_done", {"text": "Done."}),
    ]
    assert (last, payload["usage"]["total_tokens"]) == ("turn_end", 15)


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        (message("status", status="CANCELLED"), ["interrupt", "turn_end"]),
        (message("status", status="ERROR", message="no credit"), ["error", "turn_end"]),
        (message("status", status="RUNNING"), []),
    ],
)
def test_status_ends_a_turn(status: Message, kinds: list[str]) -> None:
    started = [spoken("user", "Build it."), spoken("assistant", "I will")]
    without = short_events(follow(started))

    events = short_events(follow([*started, status]))[len(without) :]

    assert [event[0] for event in events if event[0] != "assistant_done"] == kinds


def test_standard_messages_of_a_run() -> None:
    assert short_messages(*RUN) == [
        ("user", [("text", "Build it.")]),
        (
            "assistant",
            [("thinking", "Let me "), ("thinking", "look."), ("text", "I will "), ("text", "run make.")],
        ),
        ("assistant", [("tool_use", "shell")]),
        ("user", [("tool_result", "built")]),
        ("assistant", [("text", "Done.")], {"usage": (10, 5, 3, None)}),
    ]
