"""The current activity of a session, from the state of its normaliser and its last calls."""

from typing import Any

import pytest

from ash_shared.eventlog import OpenTurn
from ash_shared.model.session import SessionActivity
from ash_shared.projections.activity import to_activity


def call(id: str, **args: Any) -> dict[str, Any]:
    return {"timestamp": 1000, "payload": {"toolCallId": id, "args": args}}


def turn(*, is_over: bool = False, open_text: Any = None, **calls: str) -> OpenTurn:
    return OpenTurn("t", {}, is_over, calls, open_text)


ACTIVITIES: dict[str, tuple[OpenTurn | None, dict[str, str]]] = {
    "no turn": (None, {"state": "ended"}),
    "only usage may follow": (turn(is_over=True, a="Bash"), {"state": "ended"}),
    "neither text nor call": (turn(), {"state": "working"}),
    "a text": (turn(open_text="text"), {"state": "writing"}),
    "thinking": (turn(open_text="thinking"), {"state": "thinking"}),
    "a call": (
        turn(a="Bash"),
        {"state": "calling", "tool": "Bash", "argument": "make", "since": "1970-01-01T00:00:01Z"},
    ),
    "the latest of several calls": (
        turn(a="Bash", b="Read"),
        {"state": "calling", "tool": "Read", "argument": "b.py", "since": "1970-01-01T00:00:01Z"},
    ),
    "a question before another call": (
        turn(c="ask_user_question", a="Bash"),
        {
            "state": "waiting",
            "tool": "ask_user_question",
            "argument": "Which port?",
            "since": "1970-01-01T00:00:01Z",
        },
    ),
    "a call that is not among the last events": (turn(d="Bash"), {"state": "calling", "tool": "Bash"}),
}


@pytest.mark.parametrize("name", ACTIVITIES)
def test_activity(name: str) -> None:
    open_turn, expected = ACTIVITIES[name]
    calls = [
        call("b", file_path="b.py", limit=1),
        call("a", command="make"),
        call("c", questions=[{"question": "Which port?"}]),
    ]

    activity: SessionActivity = to_activity(open_turn, calls)

    assert activity.model_dump(mode="json") == expected
