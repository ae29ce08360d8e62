"""Standard messages and events of Kiro's conversations."""

import json
from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]


def turn(content: Record, assistant: Record, time: int = 1) -> Record:
    return {
        "user": {"content": content, "timestamp": f"2026-03-02T09:00:0{time}Z"},
        "assistant": assistant,
        "request_metadata": {"stream_end_timestamp_ms": 1772442000000 + 1000 * time, "model_id": "k1"},
    }


def row(*turns: Record) -> Record:
    value = json.dumps({"conversation_id": "c1", "history": turns, "transcript": ["> Count"]})
    columns = {"key": "/work/shop", "conversation_id": "c1", "value": value}
    times = {"created_at": 1772442000000, "updated_at": 1772442009000}
    return {"table": "conversations_v2", "key": ["/work/shop", "c1"], "columns": {**columns, **times}}


ASKED = turn(
    {"Prompt": {"prompt": "Count the oars"}},
    {
        "ToolUse": {
            "message_id": "m1",
            "content": "",
            "tool_uses": [{"id": "t1", "name": "fs_read", "args": {"p": 1}}],
        }
    },
)
RESULT = {"tool_use_id": "t1", "content": [{"Text": "No such file"}], "status": "Error"}
ANSWERED = turn(
    {"ToolUseResults": {"tool_use_results": [RESULT]}},
    {"Response": {"message_id": "m2", "content": "None."}},
    2,
)
MESSAGES = [
    ("user", [("text", "Count the oars")]),
    ("assistant", [("tool_use", "fs_read")], {"model": "k1", "messageId": "m1"}),
    ("user", [("tool_result", [{"type": "text", "text": "No such file"}])]),
    ("assistant", [("text", "None.")], {"model": "k1", "messageId": "m2"}),
]


def test_conversation() -> None:
    assert short_messages(row(ASKED, ANSWERED)) == MESSAGES


def test_a_changed_row_adds_turns() -> None:
    assert short_messages(row(ASKED), row(ASKED, ANSWERED)) == MESSAGES
    kinds = [event[0] for event in short_events(follow([row(ASKED), row(ASKED, ANSWERED)]))]
    assert [kind for kind in kinds if not kind.startswith("turn")] == [
        "user_message",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]


def test_header() -> None:
    [line] = lines(row(ASKED))
    header = describe_message(line).header
    assert (header.session_id, header.folder) == ("c1", "/work/shop")
    assert (header.timestamp, header.last_timestamp) == (1772442000000, 1772442009000)
