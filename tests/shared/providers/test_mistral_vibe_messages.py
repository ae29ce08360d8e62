"""Standard messages and events of Mistral Vibe."""

import json
from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]
START = 1772442000000


def entry(id: str, kind: str, **fields: Any) -> Record:
    times = {"createdAt": START, "updatedAt": START + 1000}
    known = {"sessionId": "s1", "turnId": "t1", "generationStatus": "completed", **times}
    return {"id": id, "type": kind, **known, **fields}


def message(id: str, role: str, text: str) -> Record:
    return entry(id, "message", role=role, content=[{"type": "text", "text": text}], source="harness")


def effect(id: str, **state: Any) -> Record:
    detail = {"kind": "tool", "toolName": "file_system.bash", "input": {"command": "ls"}}
    return entry(id, "effect", title="ls", detail=detail, state=state)


def totals(cached: int, input: int, output: int) -> Record:
    counts = {"cachedInputTokens": cached, "inputTokens": input, "outputTokens": output}
    return {
        "projection_state_version": 1,
        "session_id": "s1",
        "snapshot": {"session": {"tokenUsage": counts}},
    }


META = {
    "session_id": "s1",
    "parent_session_id": "s0",
    "start_time": "2026-03-02T09:00:00+00:00",
    "end_time": "2026-03-02T09:05:00+00:00",
    "environment": {"working_directory": "/work/shop"},
    "title": "Oars",
    "title_source": "auto",
    "config": {"active_model": "m", "model_name": "m1"},
}
ASKED = message("u1", "user", "Count the oars")
THOUGHT = entry("r1", "reasoning", text="Hm.", summary=[])
RUNNING = effect("e1", status="running", outputText="")
LOOKED = effect(
    "e1", status="completed", outputText="", output={"type": "success", "structured_content": {"stdout": "4"}}
)
FAILED = effect("e2", status="failed", outputText="", error={"message": "No such file"}, output=None)
ANSWERED = message("a1", "assistant", "Four.")
MODEL = {"model": "m1"}
MESSAGES = [
    ("user", [("text", "Count the oars")]),
    ("assistant", [("thinking", "Hm.")], MODEL),
    ("assistant", [("tool_use", "file_system.bash")], MODEL),
    ("user", [("tool_result", {"stdout": "4"})]),
    ("assistant", [("tool_use", "file_system.bash")], MODEL),
    ("user", [("tool_result", "No such file")]),
    ("assistant", [("text", "Four.")], MODEL),
]


def test_entries() -> None:
    assert short_messages(META, [ASKED, THOUGHT, LOOKED, FAILED, ANSWERED]) == MESSAGES


def test_a_later_list_adds_entries_and_completes_others() -> None:
    lists = [[ASKED, THOUGHT, RUNNING], [ASKED, THOUGHT, LOOKED, FAILED, ANSWERED]]
    assert short_messages(META, *lists) == MESSAGES
    assert [event[0] for event in short_events(follow(lists)) if not event[0].startswith("turn")] == [
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]


def test_printed_entries() -> None:
    printed = (ASKED, THOUGHT, LOOKED, FAILED, ANSWERED)
    assert [message[:2] for message in short_messages(*printed)] == [message[:2] for message in MESSAGES]


def test_tokens_are_totals_of_the_session() -> None:
    """Each version of the state states them again."""
    first, second = totals(100, 120, 9), totals(200, 250, 20)
    records = [[ASKED, ANSWERED], first, [ASKED, ANSWERED, message("u2", "user", "Sure?")], second]
    usages = [message[2]["usage"] for message in short_messages(*records) if len(message) > 2]
    assert usages == [(50, 20, 200, None)]
    ends = [event[1] for event in short_events(follow(records, ends=True)) if event[0] == "turn_end"]
    assert sum(end.get("usage", {}).get("input_tokens", 0) for end in ends) == 50


def test_messages_of_version_2() -> None:
    call = {"id": "c1", "index": 0, "function": {"name": "read_file", "arguments": '{"path": "a.txt"}'}}
    records = (
        {"role": "user", "content": "<context>", "injected": True, "message_id": "m0"},
        {"role": "user", "content": "Count the oars", "message_id": "m1"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Hm.",
            "tool_calls": [call],
            "message_id": "m2",
        },
        {"role": "tool", "content": "4 oars", "name": "read_file", "tool_call_id": "c1", "message_id": "m3"},
        {"role": "assistant", "content": "Four.", "model": "m1", "message_id": "m4"},
    )
    assert short_messages(*records) == [
        ("user", [("text", "<context>")], {"synthetic": True}),
        ("user", [("text", "Count the oars")]),
        ("assistant", [("thinking", "Hm."), ("tool_use", "read_file")]),
        ("user", [("tool_result", "4 oars")]),
        ("assistant", [("text", "Four.")], {"model": "m1"}),
    ]


def test_header() -> None:
    [line] = lines(META)
    header = describe_message(line).header
    assert (header.session_id, header.parent, header.folder) == ("s1", "s0", "/work/shop")
    assert (header.title, header.model) == ("Oars", "m1")
    assert (header.timestamp, header.last_timestamp) == (START, START + 300_000)
    assert describe_message(json.dumps([ASKED])).header.session_id == "s1"
