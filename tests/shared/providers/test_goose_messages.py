"""Standard messages and events of the rows of Goose's database."""

import json
from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Row = dict[str, Any]
START = 1772442000


def row(table: str, key: Any, **columns: Any) -> Row:
    return {"table": table, "key": key, "columns": {"id": key, **columns}}


def message(key: int, role: str, *parts: Row, is_visible: bool = True) -> Row:
    return row(
        "messages",
        key,
        message_id=f"m{key}",
        session_id="s1",
        role=role,
        content_json=json.dumps(parts),
        created_timestamp=START + key,
        metadata_json=json.dumps({"userVisible": is_visible, "agentVisible": True}),
    )


def text(words: str) -> Row:
    return {"type": "text", "text": words}


def call(key: int, cost: float) -> Row:
    counts = {"input_tokens": 20, "output_tokens": 9, "cache_read_tokens": 100, "cache_write_tokens": 0}
    return row(
        "usage_ledger", key, session_id="s1", created_timestamp=START + key, model="g1", **counts, cost=cost
    )


SESSION = row(
    "sessions",
    "s1",
    name="Oars",
    user_set_name=1,
    session_type="sub_agent",
    working_dir="/work/shop",
    created_at="2026-03-02 09:00:00",
    model_config_json='{"model_name": "g1"}',
    parent_session_id="s0",
)
REQUEST = {
    "type": "toolRequest",
    "id": "c1",
    "toolCall": {"status": "success", "value": {"name": "read", "arguments": {"path": "a.txt"}}},
}
RESPONSE = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "error", "error": "No such file"}}
ROWS = (
    SESSION,
    message(1, "user", text("Count the oars")),
    message(2, "assistant", text("I look."), REQUEST),
    call(1, 0.01),
    message(3, "user", RESPONSE),
    message(4, "user", text("The date is known"), is_visible=False),
    message(5, "assistant", text("None.")),
    call(2, 0.02),
)


def test_rows() -> None:
    """The usage of a call belongs to the last answer before it."""
    model, usage = {"model": "g1"}, (20, 9, 100, None)
    assert short_messages(*ROWS) == [
        ("user", [("text", "Count the oars")]),
        (
            "assistant",
            [("text", "I look."), ("tool_use", "read")],
            {**model, "messageId": "m2", "usage": usage, "costUsd": 0.01},
        ),
        ("user", [("tool_result", "No such file")]),
        ("user", [("text", "The date is known")], {"synthetic": True}),
        ("assistant", [("text", "None.")], {**model, "messageId": "m5", "usage": usage, "costUsd": 0.02}),
    ]


def test_a_changed_row_supersedes_the_earlier_one() -> None:
    changed = message(2, "assistant", text("I have looked."), REQUEST)
    assert short_messages(*ROWS[:4], changed)[1][:2] == (
        "assistant",
        [("text", "I have looked."), ("tool_use", "read")],
    )


def test_events() -> None:
    events = short_events(follow(ROWS, ends=True))
    assert [event[0] for event in events] == [
        "turn_start",
        "user_message",
        "assistant_done",
        "tool_call",
        "tool_result",
        "user_message",
        "assistant_done",
        "turn_end",
    ]
    end = events[-1][1]
    assert (end["usage"]["input_tokens"], end["usage"]["cache_read_input_tokens"]) == (40, 200)
    assert round(end["costUsd"], 4) == 0.03


def test_header() -> None:
    [line] = lines(SESSION)
    header = describe_message(line).header
    assert (header.session_id, header.parent, header.folder) == ("s1", "s0", "/work/shop")
    assert (header.title, header.is_title_of_person, header.model) == ("Oars", True, "g1")
    assert header.timestamp == START * 1000
