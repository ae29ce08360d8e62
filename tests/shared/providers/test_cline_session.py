"""Sessions of Cline's command-line program, and its stream."""

from typing import Any

import pytest

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

METRICS = {"inputTokens": 120, "outputTokens": 9, "cacheReadTokens": 100, "cacheWriteTokens": 5, "cost": 0.25}
CALL = {"type": "tool_use", "id": "c1", "name": "run_commands", "input": {"commands": ["count"]}}
OUTPUT = {"query": "count", "result": "7", "success": True}


def document(*messages: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "updated_at": "2026-01-02T03:04:05.000Z",
        "agent": "lead",
        "sessionId": "17_quay",
        "messages": [*messages],
        "system_prompt": "You tie knots.",
    }


def prompt(text: str, id: str = "m1") -> dict[str, Any]:
    content = [{"type": "text", "text": f'<user_input mode="act">{text}</user_input>'}]
    return {"id": id, "role": "user", "ts": 1, "content": content}


def answer(*blocks: Any, id: str = "m2", **more: Any) -> dict[str, Any]:
    return {"id": id, "role": "assistant", "ts": 2, "content": [*blocks], **more}


def result(content: Any, id: str = "m3") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "c1", "name": "run_commands", "content": content}
    return {"id": id, "role": "user", "ts": 3, "content": [block]}


FILE = {"type": "file", "path": "knots.md", "content": "seven"}
SESSION = {
    "version": 1,
    "session_id": "17_quay",
    "started_at": "2026-01-02T03:04:05Z",
    "model": "reef-1",
    "cwd": "/home/ada/tern",
    "metadata": {"title": "Knots", "git": {"branch": "main"}, "fork": {"forkedFromSessionId": "16_quay"}},
    "messages_path": "/home/ada/.cline/17_quay.messages.json",
}


def test_messages_of_a_session() -> None:
    records = document(
        prompt("How many?"),
        answer(
            {"type": "thinking", "thinking": "Look."},
            CALL,
            modelInfo={"id": "reef-1", "provider": "quay"},
            metrics=METRICS,
        ),
        result([OUTPUT]),
        {"id": "m4", "role": "user", "content": [FILE]},
    )

    assert short_messages(SESSION, records) == [
        ("user", [("text", "How many?")]),
        (
            "assistant",
            [("thinking", "Look."), ("tool_use", "run_commands")],
            {"model": "reef-1", "costUsd": 0.25, "usage": (15, 9, 100, None)},
        ),
        ("user", [("tool_result", [OUTPUT])]),
        ("user", [("file", {"type": "text", "data": "seven"})]),
    ]


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        pytest.param([OUTPUT], False, id="success"),
        pytest.param([{**OUTPUT, "success": False}], True, id="failure"),
        pytest.param([OUTPUT, {**OUTPUT, "success": False}], False, id="one failure"),
        pytest.param("7", False, id="a text"),
    ],
)
def test_a_result_is_an_error_if_all_its_parts_have_failed(content: Any, is_error: Any) -> None:
    events = short_events(follow([document(prompt("?"), answer(CALL), result(content))]))

    [payload] = [payload for name, payload, *_ in events if name == "tool_result"]
    assert ("error" in payload) is is_error


def test_names_of_a_session() -> None:
    header = describe_message(lines(SESSION)[0]).header

    assert (header.title, header.model, header.folder, header.branch, header.session_id) == (
        "Knots",
        "reef-1",
        "/home/ada/tern",
        "main",
        "17_quay",
    )


def test_a_later_version_supersedes_what_has_changed() -> None:
    first = document(prompt("How many?"), answer({"type": "text", "text": "Six."}))
    second = document(
        prompt("How many?"), answer({"type": "text", "text": "Seven."}), prompt("Thanks.", id="m3")
    )

    log = follow([first, second])

    superseded = next(event["id"] for event in log if event["payload"].get("text") == "Six.")
    assert short_events(log)[len(short_events(follow([first]))) :] == [
        ("retraction", {"eventIds": [superseded], "reason": "superseded"}),
        ("assistant_done", {"text": "Seven."}, "m2"),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Thanks."}),
        ("turn_end", {}),
    ]


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"ts": "2026-01-02T03:04:05Z", "type": "agent_event", "event": {"type": kind, **fields}}


def test_events_of_the_stream() -> None:
    hook = {"ts": "2026-01-02T03:04:05Z", "type": "hook_event", "hookEventName": "agent_start"}
    tool = {"contentType": "tool", "toolCallId": "c1", "toolName": "run_commands"}
    stream = [
        hook,
        event("iteration_start", iteration=1),
        event("content_start", contentType="text", text="I "),
        event("content_start", contentType="text", text="look."),
        event("usage", **METRICS),
        event("content_end", contentType="text", text="I look."),
        event("content_start", **tool, input={"commands": ["count"]}),
        event("content_end", **tool, output=[OUTPUT]),
        event("iteration_end", iteration=1),
        event("done", reason="completed", text="I look."),
    ]

    events = short_events(follow(stream))

    usage = events[-1][1]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (15, 9, 100)
    assert events[:-1] == [
        ("turn_start", {"trigger": "user"}),
        ("assistant_chunk", {"text": "I "}),
        ("assistant_chunk", {"text": "look."}),
        ("assistant_done", {"text": "I look."}),
        ("tool_call", {"toolCallId": "c1", "toolName": "run_commands", "args": {"commands": ["count"]}}),
        ("tool_result", {"toolCallId": "c1", "result": [OUTPUT]}),
    ]
    assert short_messages(*stream) == [
        (
            "assistant",
            [("text", "I look."), ("tool_use", "run_commands")],
            {"costUsd": 0.25, "usage": (15, 9, 100, None)},
        ),
        ("user", [("tool_result", [OUTPUT])]),
    ]
