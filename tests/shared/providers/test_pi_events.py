"""Events of pi's streams and session entries."""

import json
from typing import Any

import pytest

from tests.shared.logs import content_events, follow, short_events, texts
from tests.shared.records.pi import (
    end,
    entry,
    execution,
    response,
    start,
    text,
    tool_result,
    update,
    user,
)
from tests.shared.sample_files import CORPUS

Record = dict[str, Any]
TOTALS = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57, "cache_read_input_tokens": 40}


THINKING = {"type": "thinking", "thinking": "Hm, make", "thinkingSignature": "sig"}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}}
EMPTY_CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
COMPLETE = response(THINKING, text("On it."), CALL, stopReason="toolUse")
DONE = response(text("Built."))
RUN_START = {"type": "agent_start"}
RUN_END = {"type": "agent_end", "messages": []}
TURN = ("turn_start", {"trigger": "user"})
DOUBLE_USAGE = {
    "usage": {"input_tokens": 100, "output_tokens": 14, "total_tokens": 114, "cache_read_input_tokens": 80},
    "costUsd": 0.2,
}
RESULT_FIELDS = {"toolCallId": "c1", "result": [text("ok")], "structured": {"lines": 1}}
DELTAS = [
    start(response(stopReason="toolUse")),
    update("thinking_start", 0, response({"type": "thinking", "thinking": ""})),
    update("thinking_delta", 0, response({"type": "thinking", "thinking": "Hm,"}), delta="Hm,"),
    update("thinking_delta", 0, response(THINKING), delta=" make"),
    update("thinking_end", 0, response(THINKING), content="Hm, make"),
    update("text_start", 1, response(THINKING, text(""))),
    update("text_delta", 1, response(THINKING, text("On")), delta="On"),
    update("text_end", 1, response(THINKING, text("On it.")), content="On it."),
    update("toolcall_start", 2, response(THINKING, text("On it."), EMPTY_CALL)),
    update("toolcall_delta", 2, COMPLETE, delta='{"command":'),
    update("toolcall_delta", 2, COMPLETE, delta='"make"}'),
    update("toolcall_end", 2, COMPLETE, toolCall=CALL),
]
CHUNKS = [
    ("thinking_chunk", {"text": "Hm,"}),
    ("thinking_chunk", {"text": " make"}),
    ("assistant_chunk", {"text": "On"}),
    ("tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": '{"command":', "offset": 0}),
    ("tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": '"make"}', "offset": 11}),
]
COMPLETE_EVENTS = [
    ("thinking_done", {"text": "Hm, make", "signature": "sig"}),
    ("assistant_done", {"text": "On it."}),
    ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {"command": "make"}}),
]


@pytest.mark.parametrize(
    ("records", "events"),
    [
        pytest.param(
            [
                {
                    "type": "session",
                    "version": 3,
                    "id": "s1",
                    "timestamp": "2026-02-02T02:40:00Z",
                    "cwd": "/",
                },
                RUN_START,
                {"type": "turn_start"},
                start(user([text("Build it.")])),
                end(user([text("Build it.")])),
                *DELTAS,
                end(COMPLETE),
                execution("start", args={"command": "make"}),
                execution("update", args={}, partialResult={"content": [text("o")]}),
                execution("update", args={}, partialResult={"content": [text("ok")]}),
                execution(
                    "update",
                    args={},
                    partialResult={"content": [text("ends so")], "details": {"truncation": {}}},
                ),
                execution("end", result={"content": [text("ok")], "details": {"lines": 1}}, isError=False),
                start(tool_result()),
                end(tool_result()),
                {"type": "turn_end", "message": COMPLETE, "toolResults": [tool_result()]},
                {"type": "turn_start"},
                start(response()),
                update("text_delta", 0, DONE, delta="Built."),
                update("text_end", 0, DONE, content="Built."),
                end(DONE),
                {"type": "turn_end", "message": DONE, "toolResults": []},
                {"type": "agent_end", "messages": [user([text("Build it.")]), COMPLETE, tool_result(), DONE]},
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *CHUNKS,
                *COMPLETE_EVENTS,
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "o", "offset": 0}),
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "k", "offset": 1}),
                ("tool_result", RESULT_FIELDS),
                ("assistant_chunk", {"text": "Built."}),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", DOUBLE_USAGE),
            ],
            id="a run",
        ),
        pytest.param(
            [
                entry("message", message=user([text("Build it.")])),
                entry("message", message=COMPLETE),
                entry("message", message=tool_result()),
                entry("message", message=DONE),
                entry("model_change", modelId="m2"),
                entry("message", message=user([text("Thanks.")])),
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *COMPLETE_EVENTS,
                ("tool_result", RESULT_FIELDS),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", DOUBLE_USAGE),
                TURN,
                ("user_message", {"text": "Thanks."}),
                ("turn_end", {}),
            ],
            id="a session",
        ),
        pytest.param(
            [
                RUN_START,
                execution("start", args={"a": 1}),
                execution("end", result={"content": []}, isError=True),
            ],
            [
                TURN,
                ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {"a": 1}}),
                (
                    "tool_result",
                    {"toolCallId": "c1", "result": [], "error": {"code": "error", "message": ""}},
                ),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
            ],
            id="a tool call without a response, in a cut run",
        ),
        pytest.param(
            [RUN_START, *DELTAS[:7]],
            [
                TURN,
                *CHUNKS[:3],
                ("thinking_done", {"text": "Hm, make"}),
                ("assistant_done", {"text": "On", "partial": True}),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
            ],
            id="a cut response",
        ),
        pytest.param(
            [
                RUN_START,
                end(user([text("Build it.")])),
                start(response()),
                update("text_delta", 0, DONE, delta="Bui"),
                end(response(text("Bui"), stopReason="aborted", errorMessage="stopped")),
                RUN_END,
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_done", {"text": "Bui"}),
                ("interrupt", {"reason": "user_cancel"}),
                ("turn_end", {"usage": None, "costUsd": 0.1, "partial": True}),
            ],
            id="a run stopped by the user",
        ),
        pytest.param(
            [
                RUN_START,
                end(user([text("Build it.")])),
                end(response(stopReason="error", errorMessage="Too many requests", usage={})),
                RUN_END,
                {
                    "type": "auto_retry_start",
                    "attempt": 1,
                    "maxAttempts": 3,
                    "delayMs": 1,
                    "errorMessage": "T",
                },
                RUN_START,
                end(DONE),
                RUN_END,
                {"type": "auto_retry_end", "success": True, "attempt": 1},
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                ("error", {"code": "error", "message": "Too many requests"}),
                ("turn_end", {}),
                ("turn_start", {"trigger": "system"}),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", {"usage": None, "costUsd": 0.1}),
            ],
            id="a retried run",
        ),
        pytest.param(
            [
                {
                    "type": "auto_retry_start",
                    "attempt": 1,
                    "maxAttempts": 3,
                    "delayMs": 1,
                    "errorMessage": "T",
                },
                {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": "stopped"},
            ],
            [("turn_start", {"trigger": "system"}), ("turn_end", {})],
            id="a cancelled retry",
        ),
        pytest.param(
            [
                {"type": "compaction_start", "reason": "overflow"},
                {
                    "type": "compaction_end",
                    "result": {"summary": "Long ago."},
                    "aborted": False,
                    "willRetry": True,
                },
                RUN_START,
                end(DONE),
                RUN_END,
                {"type": "auto_compaction_end", "aborted": True, "willRetry": False},
                entry("compaction", summary="Longer ago.", firstKeptEntryId="e0", tokensBefore=9),
                entry("branch_summary", summary="Elsewhere.", fromId="e0"),
            ],
            [
                ("summary", {"text": "Long ago."}),
                ("turn_start", {"trigger": "system"}),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", {"usage": None, "costUsd": 0.1}),
                ("summary", {"text": "Longer ago."}),
                ("summary", {"text": "Elsewhere."}),
            ],
            id="compaction",
        ),
        pytest.param(
            [
                entry(
                    "message",
                    message={"role": "bashExecution", "command": "ls", "output": "a.txt", "exitCode": 0},
                ),
            ],
            [
                ("turn_start", {"trigger": "system"}),
                (
                    "tool_call",
                    {
                        "toolCallId": "1/1",
                        "toolName": "bash",
                        "args": {"command": "ls"},
                        "executor": "user",
                    },
                ),
                ("tool_result", {"toolCallId": "1/1", "result": "a.txt", "exitCode": 0}),
                ("turn_end", {}),
            ],
            id="a command run by the user",
        ),
        pytest.param(
            [
                RUN_START,
                end(user([text("Build it.")])),
                end(COMPLETE),
                end(user([text("Faster.")])),
                end(tool_result()),
                end(DONE),
                RUN_END,
                RUN_START,
                end(user([text("Thanks.")])),
                RUN_END,
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *COMPLETE_EVENTS,
                ("user_message", {"text": "Faster."}),
                ("tool_result", RESULT_FIELDS),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", DOUBLE_USAGE),
                TURN,
                ("user_message", {"text": "Thanks."}),
                ("turn_end", {}),
            ],
            id="a prompt during a run",
        ),
        pytest.param(
            [
                RUN_START,
                start(response()),
                update("text_delta", 0, response(text("On"), responseId="r1"), delta="On"),
                update("image_delta", 1, response(text("On"), responseId="r1"), delta="AA"),
                end(response(text("On it."), responseId="r1", usage={})),
                RUN_END,
            ],
            [
                TURN,
                ("assistant_chunk", {"text": "On"}, "r1"),
                ("assistant_done", {"text": "On it."}, "r1"),
                ("turn_end", {}),
            ],
            id="a response with an id",
        ),
        pytest.param(
            [
                RUN_START,
                start(response()),
                update("text_delta", 0, DONE, delta="Bui"),
                end(response(usage={})),
                RUN_END,
            ],
            [
                TURN,
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_done", {"text": "Bui"}),
                ("turn_end", {}),
            ],
            id="an empty response after its deltas",
        ),
        pytest.param(
            [
                RUN_START,
                end(response(CALL, usage={})),
                end(tool_result()),
                end(tool_result("other")),
                RUN_END,
            ],
            [TURN, COMPLETE_EVENTS[2], ("tool_result", RESULT_FIELDS), ("turn_end", {})],
            id="a repeated result",
        ),
    ],
)
def test_record_events(records: list[Record], events: list[Any]) -> None:
    events_of_records = short_events(follow(records, ends=True))

    assert [(wire, _without_details(payload), *more) for wire, payload, *more in events_of_records] == [
        (wire, _with_usage(payload), *more) for wire, payload, *more in events
    ]


@pytest.mark.parametrize(
    "broken",
    [
        execution("end", result=[], isError=False),
        {"type": "compaction_end", "aborted": False, "result": {"summary": ["Long ago."]}},
        end({**response(), "content": 5}),
        update("text_delta", 5, response(), delta=5),
        update("toolcall_start", 0, response({"type": "toolCall", "id": 5, "name": []})),
        execution("start") | {"toolName": 5},
        execution("update", partialResult={"content": 5}),
        {"type": "message_start", "message": 5},
    ],
    ids=json.dumps,
)
def test_malformed_records_become_raw(broken: Record) -> None:
    log = follow([RUN_START, broken, RUN_END], "pi")

    assert {event["type"] for event in log[1:-1]} <= {"raw"}


def _without_details(payload: Record) -> Record:
    """Remove the vendor's usage."""
    usage = {key: value for key, value in payload.get("usage", {}).items() if key != "vendor"}
    return {**payload, "usage": usage} if usage else payload


def _with_usage(payload: Record) -> Record:
    return {**payload, "usage": TOTALS} if payload.get("usage", ()) is None else payload


def _streamed(message: Record) -> list[Record]:
    """Return the stream events of a message."""
    if message["role"] != "assistant":
        return [start(message), end(message)]
    names = {"text": ("text", "text"), "thinking": ("thinking", "thinking"), "toolCall": ("toolcall", "")}
    events = [start({**message, "content": []})]
    for index, block in enumerate(message["content"]):
        wire, key = names[block["type"]]
        words = block[key] if key else json.dumps(block["arguments"])
        events.append(update(f"{wire}_start", index, message))
        events += [update(f"{wire}_delta", index, message, delta=letter) for letter in words]
        events.append(update(f"{wire}_end", index, message, content=words if key else None))
    executions = [
        execution("start", args=block["arguments"]) | {"toolCallId": block["id"], "toolName": block["name"]}
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    return [*events, end(message), *executions]


def _sessions() -> list[Any]:
    own = [
        user([text("Build it.")]),
        COMPLETE,
        tool_result(),
        DONE,
        user([text("Thanks.")]),
        response(text("Gladly.")),
    ]
    sessions = [pytest.param(own, id="own")]
    for path in sorted((CORPUS / "pi_stream").glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        ends = [record["message"] for record in records if record["type"] == "message_end"]
        sessions.append(pytest.param(ends, id=path.stem))
    return sessions


@pytest.mark.parametrize("messages", _sessions())
def test_session_matches_its_stream(messages: list[Record]) -> None:
    stored = follow([entry("message", message=message) for message in messages], ends=True)
    streamed = follow(
        [RUN_START, *(event for message in messages for event in _streamed(message)), RUN_END], ends=True
    )

    assert content_events(streamed) == content_events(stored)
    assert texts(stored) == {}
    assert texts(streamed).get("assistant_chunk", "") == "".join(
        event["payload"]["text"] for event in streamed if event["type"] == "assistant_done"
    )
