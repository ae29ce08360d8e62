"""Standard messages and events of Kimi's event streams."""

from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]
START = 1772442000000
USAGE = {"inputOther": 20, "output": 9, "inputCacheRead": 100, "inputCacheCreation": 0}


def event(name: str, **fields: Any) -> Record:
    return {"type": name, "agentId": "main", **fields, "time": START}


def message(text: str, kind: str = "user") -> Record:
    content = [{"type": "text", "text": text}]
    return event(
        "context.append_message",
        message={"role": "user", "content": content, "toolCalls": [], "origin": {"kind": kind}},
    )


def loop(type: str, step: int, **fields: Any) -> Record:
    own = {"uuid": f"st{step}"} if type.startswith("step") else {"uuid": "e1", "stepUuid": f"st{step}"}
    return event(
        "context.append_loop_event", event={"type": type, **own, "turnId": "0", "step": step, **fields}
    )


def part(step: int, **fields: Any) -> Record:
    return loop("content.part", step, part=fields)


def old(name: str, **payload: Any) -> Record:
    return {"timestamp": START / 1000, "message": {"type": name, "payload": payload}}


TURN = (
    {"type": "metadata", "protocol_version": "1.5", "created_at": START},
    event("profile.bind", systemPrompt="You row.", environmentDisclosure={"cwd": "/work/shop"}),
    event("turn.prompt", input=[{"type": "text", "text": "Count the oars"}], origin={"kind": "user"}),
    message("Count the oars"),
    message("<system-reminder>Today</system-reminder>", "injection"),
    loop("step.begin", 1),
    event("llm.request", model="k2", modelAlias="moonshot/k2"),
    event("usage.record", model="k2", usage=USAGE),
    part(1, type="think", think="Hm."),
    part(1, type="text", text="I look."),
    loop("tool.call", 1, toolCallId="Read_0", name="Read", args={"path": "a.txt"}),
    loop("tool.result", 1, toolCallId="Read_0", result={"output": "No such file", "isError": True}),
    loop("step.end", 1, finishReason="tool_use", usage=USAGE, messageId="m1"),
    loop("step.begin", 2),
    loop("step.end", 2, finishReason="error"),
    event("context.apply_compaction", summary="Oars were counted."),
    event("turn.cancel"),
)
OLD = (
    {"type": "metadata", "protocol_version": "1.3"},
    old("TurnBegin", user_input=[{"type": "text", "text": "Count the oars"}]),
    old("ContentPart", type="think", think="Hm.", encrypted=None),
    old("ToolCall", type="function", id="c1", function={"name": "Task", "arguments": "{}"}),
    old("StatusUpdate", token_usage={"input_other": 20, "output": 9, "input_cache_read": 100}),
    old(
        "SubagentEvent",
        task_tool_call_id="c1",
        event={"type": "ContentPart", "payload": {"type": "text", "text": "4"}},
    ),
    old("ToolResult", tool_call_id="c1", return_value={"is_error": False, "output": "4 oars"}),
    old("ContentPart", type="text", text="Four."),
    old("TurnEnd"),
)


def test_turn_of_kimi_code() -> None:
    """The prompt and the usage are written several times, and count once."""
    assert short_messages(*TURN) == [
        ("system", [("text", "You row.")]),
        ("user", [("text", "Count the oars")]),
        ("user", [("text", "<system-reminder>Today</system-reminder>")], {"synthetic": True}),
        (
            "assistant",
            [("thinking", "Hm."), ("text", "I look."), ("tool_use", "Read")],
            {"model": "k2", "messageId": "m1", "stop_reason": "tool_use", "usage": (20, 9, 100, None)},
        ),
        ("user", [("tool_result", "No such file")]),
        ("assistant", [], {"model": "k2", "stop_reason": "error", "error": "error"}),
        ("system", [("text", "Oars were counted.")]),
    ]


def test_turn_of_kimi_cli() -> None:
    assert short_messages(*OLD) == [
        ("user", [("text", "Count the oars")]),
        ("assistant", [("thinking", "Hm."), ("tool_use", "Task")], {"usage": (20, 9, 100, None)}),
        ("assistant", [("text", "4")], {"parentToolUseId": "c1"}),
        ("user", [("tool_result", "4 oars")]),
        ("assistant", [("text", "Four.")]),
    ]


def test_events() -> None:
    kinds = ["turn_start", "user_message", "thinking_done", "tool_call", "assistant_done", "tool_result"]
    assert [each[0] for each in short_events(follow(OLD))] == [*kinds, "assistant_done", "turn_end"]
    assert [each[0] for each in short_events(follow(TURN))][-2:] == ["interrupt", "turn_end"]


def test_headers() -> None:
    profile, request, state = lines(
        TURN[1],
        TURN[6],
        {
            "title": "Oars",
            "isCustomTitle": True,
            "agents": {"main": {}},
            "custom": {},
            "workDir": "/work/shop",
            "createdAt": "2026-03-02T09:00:00Z",
        },
    )
    assert describe_message(profile).header.folder == "/work/shop"
    assert (describe_message(request).header.model, describe_message(request).header.agent) == ("k2", "")
    header = describe_message(state).header
    assert (header.title, header.is_title_of_person, header.timestamp) == ("Oars", True, START)
