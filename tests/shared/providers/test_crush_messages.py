"""Standard messages and events of the rows of Crush's database."""

import json
from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Row = dict[str, Any]
START = 1772442000


def row(table: str, key: str, **columns: Any) -> Row:
    return {"table": table, "key": key, "columns": {"id": key, **columns}}


def message(number: int, role: str, *parts: Row, **columns: Any) -> Row:
    """Return the row of a message."""
    model = "k1" if role == "assistant" else ""
    texts = {"role": role, "parts": json.dumps(parts), "model": model}
    return row("messages", f"m{number}", session_id="s1", created_at=START + number, **texts, **columns)


def part(kind: str, **data: Any) -> Row:
    return {"type": kind, "data": data}


SESSION = row(
    "sessions",
    "s1",
    parent_session_id="s0",
    title="Oars",
    prompt_tokens=120,
    completion_tokens=9,
    cost=0.02,
    created_at=START,
    updated_at=START + 9,
)
CALL = part("tool_call", id="c1", name="view", input='{"path": "a.txt"}', finished=True)
RESULT = part("tool_result", tool_call_id="c1", name="view", content="No such file", is_error=True)
ROWS = (
    SESSION,
    message(1, "user", part("text", text="Count the oars")),
    message(
        2, "assistant", part("text", text="I look."), CALL, part("finish", reason="tool_use", time=START)
    ),
    message(3, "tool", RESULT),
    message(4, "user", part("text", text="Go on", hidden=True)),
    message(5, "assistant", part("text", text="None."), part("finish", reason="end_turn", time=START)),
)


def test_rows() -> None:
    """The reason of the end is in a part of its own, which is no text."""
    model = {"model": "k1"}
    assert short_messages(*ROWS) == [
        ("user", [("text", "Count the oars")]),
        (
            "assistant",
            [
                ("text", "I look."),
                ("tool_use", "view"),
                ("raw", part("finish", reason="tool_use", time=START)),
            ],
            {**model, "stop_reason": "tool_use"},
        ),
        ("user", [("tool_result", "No such file")]),
        ("user", [("text", "Go on")], {"synthetic": True}),
        (
            "assistant",
            [("text", "None."), ("raw", part("finish", reason="end_turn", time=START))],
            {**model, "stop_reason": "end_turn"},
        ),
    ]


def test_a_failed_answer_has_its_error() -> None:
    failure = part("finish", reason="error", time=START, message="Overloaded", details="529")
    [*_, (role, _, more)] = short_messages(*ROWS[:2], message(2, "assistant", failure))
    assert (role, more["error"]) == ("assistant", "error")


def test_a_changed_row_supersedes_the_earlier_one() -> None:
    """Crush writes the row of an answer again while it grows."""
    begun = message(2, "assistant", part("text", text="I"))
    assert [(role, blocks[0]) for role, blocks, *_ in short_messages(*ROWS[:2], begun, *ROWS[2:4])] == [
        ("user", ("text", "Count the oars")),
        ("assistant", ("text", "I look.")),
        ("user", ("tool_result", "No such file")),
    ]


def test_events() -> None:
    assert [event[0] for event in short_events(follow(ROWS, ends=True))] == [
        "turn_start",
        "user_message",
        "assistant_done",
        "tool_call",
        "tool_result",
        "user_message",
        "assistant_done",
        "turn_end",
    ]


def test_header() -> None:
    [line] = lines(SESSION)
    header = describe_message(line).header
    assert (header.session_id, header.parent, header.title) == ("s1", "s0", "Oars")
    assert (header.timestamp, header.last_timestamp) == (START * 1000, (START + 9) * 1000)
