"""Standard messages and events of Hermes's sessions."""

from typing import Any

from ash_shared import describe_message
from ash_shared.providers import discover
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]


def document(*messages: Record, **fields: Any) -> Record:
    return {
        "session_id": "20260302_090000_ab12",
        "model": "h1",
        "platform": "cli",
        "session_start": "2026-03-02T09:00:00Z",
        "last_updated": "2026-03-02T09:00:09Z",
        "messages": list(messages),
        **fields,
    }


PROMPT = {"role": "user", "content": "Count the oars"}
CALL = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
ASKING = {
    "role": "assistant",
    "content": "",
    "reasoning": "Hm.",
    "tool_calls": [CALL],
    "finish_reason": "tool_calls",
}
RESULT = {"role": "tool", "content": "4 oars", "tool_call_id": "c1", "tool_name": "shell"}
ANSWER = {"role": "assistant", "content": "Four.", "finish_reason": "stop"}
MODEL = {"model": "h1"}


def test_session() -> None:
    assert short_messages(
        document(PROMPT, ASKING, RESULT, ANSWER, {"role": "session_meta"}, system_prompt="You row.")
    ) == [
        ("system", [("text", "You row.")]),
        ("user", [("text", "Count the oars")]),
        ("assistant", [("thinking", "Hm."), ("tool_use", "shell")], {**MODEL, "stop_reason": "tool_calls"}),
        ("user", [("tool_result", "4 oars")]),
        ("assistant", [("text", "Four.")], {**MODEL, "stop_reason": "stop"}),
    ]


def test_a_later_version_adds_messages_and_replaces_changed_ones() -> None:
    later = document(PROMPT, {**ANSWER, "content": "Five."}, {"role": "user", "content": "Thanks"})
    assert short_messages(document(PROMPT, ANSWER), later) == [
        ("user", [("text", "Count the oars")]),
        ("assistant", [("text", "Five.")], {**MODEL, "stop_reason": "stop"}),
        ("user", [("text", "Thanks")]),
    ]


def test_events() -> None:
    versions = [document(PROMPT, ASKING, RESULT), document(PROMPT, ASKING, RESULT, ANSWER)]
    kinds = [event[0] for event in short_events(follow(versions)) if not event[0].startswith("turn")]
    assert kinds == ["user_message", "thinking_done", "tool_call", "tool_result", "assistant_done"]


def test_header() -> None:
    record = document(PROMPT, model_config={"cwd": "/work/shop"})
    [line] = lines(record)
    header = describe_message(line).header
    assert (header.session_id, header.model, header.folder) == ("20260302_090000_ab12", "h1", "/work/shop")
    assert (header.timestamp, header.last_timestamp) == (1772442000000, 1772442009000)


def test_a_request_of_claude_is_not_a_session() -> None:
    recognized = discover().recognize(document(PROMPT, model="claude-sonnet-4-6"))
    assert recognized is not None
    assert recognized[0].source == "hermes"
