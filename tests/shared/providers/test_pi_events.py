"""What pi's events and session entries add to the log."""

import json
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import content_events, follow, short_events, texts

Record = dict[str, Any]
TIME = 1_770_000_000_000
COUNTED = {"input_tokens": 50, "output_tokens": 7, "total_tokens": 57, "cache_read_input_tokens": 40}


def text(words: str) -> Record:
    return {"type": "text", "text": words}


def user(words: str) -> Record:
    return {"role": "user", "content": [text(words)], "timestamp": TIME}


def answer(*content: Record, **more: Any) -> Record:
    return {
        "role": "assistant",
        "content": list(content),
        "api": "chat",
        "provider": "acme",
        "model": "m1",
        "usage": {"input": 50, "output": 7, "cacheRead": 40, "cost": {"total": 0.1}},
        "stopReason": "stop",
        "timestamp": TIME,
        **more,
    }


def start(message: Record) -> Record:
    return {"type": "message_start", "message": message}


def end(message: Record) -> Record:
    return {"type": "message_end", "message": message}


def update(wire: str, index: int, message: Record, **more: Any) -> Record:
    event = {"type": wire, "contentIndex": index, **more}
    return {"type": "message_update", "message": message, "assistantMessageEvent": event}


def ran(words: str = "ok", **more: Any) -> Record:
    return {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [text(words)],
        "details": {"lines": 1},
        "isError": False,
        "timestamp": TIME,
        **more,
    }


def execution(state: str, **more: Any) -> Record:
    return {"type": f"tool_execution_{state}", "toolCallId": "c1", "toolName": "bash", **more}


def entry(kind: str, **more: Any) -> Record:
    return {"type": kind, "id": "e2", "parentId": "e1", "timestamp": "2026-02-02T02:40:00Z", **more}


THOUGHT = {"type": "thinking", "thinking": "Hm, make", "thinkingSignature": "sig"}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}}
BEGUN = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
WHOLE = answer(THOUGHT, text("On it."), CALL, stopReason="toolUse")
DONE = answer(text("Built."))
RUN = {"type": "agent_start"}
OVER = {"type": "agent_end", "messages": []}
TURN = ("turn_start", {"trigger": "user"})
TWICE = {
    "usage": {"input_tokens": 100, "output_tokens": 14, "total_tokens": 114, "cache_read_input_tokens": 80},
    "costUsd": 0.2,
}
ANSWERED = {"toolCallId": "c1", "result": [text("ok")], "structured": {"lines": 1}}
PIECES = [
    start(answer(stopReason="toolUse")),
    update("thinking_start", 0, answer({"type": "thinking", "thinking": ""})),
    update("thinking_delta", 0, answer({"type": "thinking", "thinking": "Hm,"}), delta="Hm,"),
    update("thinking_delta", 0, answer(THOUGHT), delta=" make"),
    update("thinking_end", 0, answer(THOUGHT), content="Hm, make"),
    update("text_start", 1, answer(THOUGHT, text(""))),
    update("text_delta", 1, answer(THOUGHT, text("On")), delta="On"),
    update("text_end", 1, answer(THOUGHT, text("On it.")), content="On it."),
    update("toolcall_start", 2, answer(THOUGHT, text("On it."), BEGUN)),
    update("toolcall_delta", 2, WHOLE, delta='{"command":'),
    update("toolcall_delta", 2, WHOLE, delta='"make"}'),
    update("toolcall_end", 2, WHOLE, toolCall=CALL),
]
CHUNKS = [
    ("thinking_chunk", {"text": "Hm,"}),
    ("thinking_chunk", {"text": " make"}),
    ("assistant_chunk", {"text": "On"}),
    ("tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": '{"command":', "offset": 0}),
    ("tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": '"make"}', "offset": 11}),
]
TOLD = [
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
                RUN,
                {"type": "turn_start"},
                start(user("Build it.")),
                end(user("Build it.")),
                *PIECES,
                end(WHOLE),
                execution("start", args={"command": "make"}),
                execution("update", args={}, partialResult={"content": [text("o")]}),
                execution("update", args={}, partialResult={"content": [text("ok")]}),
                execution(
                    "update",
                    args={},
                    partialResult={"content": [text("ends so")], "details": {"truncation": {}}},
                ),
                execution("end", result={"content": [text("ok")], "details": {"lines": 1}}, isError=False),
                start(ran()),
                end(ran()),
                {"type": "turn_end", "message": WHOLE, "toolResults": [ran()]},
                {"type": "turn_start"},
                start(answer()),
                update("text_delta", 0, DONE, delta="Built."),
                update("text_end", 0, DONE, content="Built."),
                end(DONE),
                {"type": "turn_end", "message": DONE, "toolResults": []},
                {"type": "agent_end", "messages": [user("Build it."), WHOLE, ran(), DONE]},
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *CHUNKS,
                *TOLD,
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "o", "offset": 0}),
                ("tool_output_chunk", {"toolCallId": "c1", "chunk": "k", "offset": 1}),
                ("tool_result", ANSWERED),
                ("assistant_chunk", {"text": "Built."}),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", TWICE),
            ],
            id="a run",
        ),
        pytest.param(
            [
                entry("message", message=user("Build it.")),
                entry("message", message=WHOLE),
                entry("message", message=ran()),
                entry("message", message=DONE),
                entry("model_change", modelId="m2"),
                entry("message", message=user("Thanks.")),
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *TOLD,
                ("tool_result", ANSWERED),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", TWICE),
                TURN,
                ("user_message", {"text": "Thanks."}),
                ("turn_end", {}),
            ],
            id="a session",
        ),
        pytest.param(
            [RUN, execution("start", args={"a": 1}), execution("end", result={"content": []}, isError=True)],
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
            id="a tool that no answer called, in a run that was cut",
        ),
        pytest.param(
            [RUN, *PIECES[:7]],
            [
                TURN,
                *CHUNKS[:3],
                ("thinking_done", {"text": "Hm, make"}),
                ("assistant_done", {"text": "On", "partial": True}),
                ("interrupt", {"reason": "error"}),
                ("turn_end", {"partial": True}),
            ],
            id="an answer that was cut",
        ),
        pytest.param(
            [
                RUN,
                end(user("Build it.")),
                start(answer()),
                update("text_delta", 0, DONE, delta="Bui"),
                end(answer(text("Bui"), stopReason="aborted", errorMessage="stopped")),
                OVER,
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_done", {"text": "Bui"}),
                ("interrupt", {"reason": "user_cancel"}),
                ("turn_end", {"usage": None, "costUsd": 0.1, "partial": True}),
            ],
            id="a run that somebody stopped",
        ),
        pytest.param(
            [
                RUN,
                end(user("Build it.")),
                end(answer(stopReason="error", errorMessage="Too many requests", usage={})),
                OVER,
                {
                    "type": "auto_retry_start",
                    "attempt": 1,
                    "maxAttempts": 3,
                    "delayMs": 1,
                    "errorMessage": "T",
                },
                RUN,
                end(DONE),
                OVER,
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
            id="a run that is tried anew",
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
            id="a new try that was called off",
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
                RUN,
                end(DONE),
                OVER,
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
                ("tool_call", {"toolCallId": "1/1", "toolName": "bash", "args": {"command": "ls"}}),
                ("tool_result", {"toolCallId": "1/1", "result": "a.txt", "exitCode": 0}),
                ("turn_end", {}),
            ],
            id="a command that the person ran",
        ),
        pytest.param(
            [
                RUN,
                end(user("Build it.")),
                end(WHOLE),
                end(user("Faster.")),
                end(ran()),
                end(DONE),
                OVER,
                RUN,
                end(user("Thanks.")),
                OVER,
            ],
            [
                TURN,
                ("user_message", {"text": "Build it."}),
                *TOLD,
                ("user_message", {"text": "Faster."}),
                ("tool_result", ANSWERED),
                ("assistant_done", {"text": "Built."}),
                ("turn_end", TWICE),
                TURN,
                ("user_message", {"text": "Thanks."}),
                ("turn_end", {}),
            ],
            id="a prompt in the midst of a run",
        ),
        pytest.param(
            [
                RUN,
                start(answer()),
                update("text_delta", 0, answer(text("On"), responseId="r1"), delta="On"),
                update("image_delta", 1, answer(text("On"), responseId="r1"), delta="AA"),
                end(answer(text("On it."), responseId="r1", usage={})),
                OVER,
            ],
            [
                TURN,
                ("assistant_chunk", {"text": "On"}, "r1"),
                ("assistant_done", {"text": "On it."}, "r1"),
                ("turn_end", {}),
            ],
            id="an answer with a name",
        ),
        pytest.param(
            [RUN, start(answer()), update("text_delta", 0, DONE, delta="Bui"), end(answer(usage={})), OVER],
            [
                TURN,
                ("assistant_chunk", {"text": "Bui"}),
                ("assistant_done", {"text": "Bui"}),
                ("turn_end", {}),
            ],
            id="an answer that holds nothing of its pieces",
        ),
        pytest.param(
            [RUN, end(answer(CALL, usage={})), end(ran()), end(ran("other")), OVER],
            [TURN, TOLD[2], ("tool_result", ANSWERED), ("turn_end", {})],
            id="a result that is told twice",
        ),
    ],
)
def test_records_add_events(records: list[Record], events: list[Any]) -> None:
    told = short_events(follow(records, ends=True))

    assert [(wire, _without_details(payload), *more) for wire, payload, *more in told] == [
        (wire, _counted(payload), *more) for wire, payload, *more in events
    ]


@pytest.mark.parametrize(
    "broken",
    [
        execution("end", result=[], isError=False),
        {"type": "compaction_end", "aborted": False, "result": {"summary": ["Long ago."]}},
        end({**answer(), "content": 5}),
        update("text_delta", 5, answer(), delta=5),
        update("toolcall_start", 0, answer({"type": "toolCall", "id": 5, "name": []})),
        execution("start") | {"toolName": 5},
        execution("update", partialResult={"content": 5}),
        {"type": "message_start", "message": 5},
    ],
    ids=json.dumps,
)
def test_broken_records_do_no_harm(broken: Record) -> None:
    told = follow([RUN, broken, OVER], "pi")

    assert {event["type"] for event in told[1:-1]} <= {"raw"}


def _without_details(payload: Record) -> Record:
    """Without the vendor's own words of usage."""
    usage = {key: value for key, value in payload.get("usage", {}).items() if key != "vendor"}
    return {**payload, "usage": usage} if usage else payload


def _counted(payload: Record) -> Record:
    return {**payload, "usage": COUNTED} if payload.get("usage", ()) is None else payload


def _streamed(message: Record) -> list[Record]:
    """The events of a message of a session."""
    if message["role"] != "assistant":
        return [start(message), end(message)]
    names = {"text": ("text", "text"), "thinking": ("thinking", "thinking"), "toolCall": ("toolcall", "")}
    events = [start({**message, "content": []})]
    for index, block in enumerate(message["content"]):
        wire, key = names[block["type"]]
        words = block[key] if key else json.dumps(block["arguments"])
        events.append(update(f"{wire}_start", index, message))
        events += [update(f"{wire}_delta", index, message, delta=piece) for piece in words]
        events.append(update(f"{wire}_end", index, message, content=words if key else None))
    executed = [
        execution("start", args=block["arguments"]) | {"toolCallId": block["id"], "toolName": block["name"]}
        for block in message["content"]
        if block["type"] == "toolCall"
    ]
    return [*events, end(message), *executed]


def _sessions() -> list[Any]:
    own = [user("Build it."), WHOLE, ran(), DONE, user("Thanks."), answer(text("Gladly."))]
    found = [pytest.param(own, id="own")]
    for path in sorted((CORPUS / "pi_stream").glob("*.jsonl")):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        ends = [record["message"] for record in records if record["type"] == "message_end"]
        found.append(pytest.param(ends, id=path.stem))
    return found


@pytest.mark.parametrize("messages", _sessions())
def test_a_session_and_its_stream_say_the_same(messages: list[Record]) -> None:
    stored = follow([entry("message", message=message) for message in messages], ends=True)
    streamed = follow(
        [RUN, *(event for message in messages for event in _streamed(message)), OVER], ends=True
    )

    assert content_events(streamed) == content_events(stored)
    assert texts(stored) == {}
    assert texts(streamed).get("assistant_chunk", "") == "".join(
        event["payload"]["text"] for event in streamed if event["type"] == "assistant_done"
    )
