"""Standard messages and events of the rows of Hermes' database."""

import json
from typing import Any

import pytest

from ash_shared import describe_message
from ash_shared.providers import discover
from tests.shared.logs import follow, short_events
from tests.shared.records.hermes_rows import call, message, row, session, usage
from tests.shared.transcripts import lines, short_messages

PROMPT = message(1, "user", "Count the oars")
CALL = message(2, "assistant", "", tool_calls=call("t1", "shell", command="ls"), reasoning="Where?")
RESULT = message(3, "tool", "nine", tool_call_id="t1", tool_name="shell")
ANSWER = message(4, "assistant", "Nine.", finish_reason="stop")
MESSAGES = [
    ("user", [("text", "Count the oars")]),
    ("assistant", [("thinking", "Where?"), ("tool_use", "shell")], {"model": "m1"}),
    ("user", [("tool_result", "nine")]),
    ("assistant", [("text", "Nine.")], {"model": "m1", "stop_reason": "stop"}),
]


def shown(*rows: Any) -> list[tuple[Any, ...]]:
    short = []
    for role, blocks, *more in short_messages(*rows):
        rest = {
            key: value for each in more for key, value in each.items() if key not in ("timestamp", "uuid")
        }
        short.append((role, blocks, rest) if rest else (role, blocks))
    return short


def test_conversation() -> None:
    assert shown(session(), PROMPT, CALL, RESULT, ANSWER) == MESSAGES


def test_events() -> None:
    events = short_events(follow([session(), PROMPT, CALL, RESULT, ANSWER], ends=True))
    assert [event[0] for event in events if not event[0].startswith("turn")] == [
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]


def test_usage_is_the_last_sum() -> None:
    rows = [session(), PROMPT, ANSWER, usage(20, 9)]
    for changed in (rows, [*rows, usage(50, 12)]):
        [*_, (_, _, more)] = shown(*changed)
        assert more["model"] == "m1"
    assert more["usage"] == (50, 12, 100, 4)
    assert more["costUsd"] == 0.25


def test_messages_that_a_compaction_copies_are_shown_once() -> None:
    identity = {"base64": "AAAA"}
    first = message(1, "user", "Count the oars", display_identity=identity)
    archived = message(1, "user", "Count the oars", display_identity=identity, active=0, compacted=1)
    copied = message(6, "user", "Count the oars", display_identity=identity)
    summary = message(5, "user", "They count oars.", _compressed_summary=1)

    assert shown(first, archived, summary, copied) == [
        ("user", [("text", "Count the oars")]),
        ("user", [("text", "They count oars.")], {"synthetic": True}),
    ]


def test_rewound_messages_are_retracted() -> None:
    rewound = message(1, "user", "Count the oars", active=0)
    again = message(2, "user", "Count the masts")

    assert shown(PROMPT, rewound, again) == [
        ("user", [("text", "Count the oars")], {"retracted": True}),
        ("user", [("text", "Count the masts")]),
    ]


def test_content_in_json() -> None:
    content = "\0json:" + json.dumps([{"type": "text", "text": "Count"}])
    assert shown(message(1, "user", content)) == [("user", [("text", "Count")])]


def test_system_prompt() -> None:
    assert shown(row("system_prompts", "ab", hash="ab", prompt="You count.")) == [
        ("system", [("text", "You count.")])
    ]


def test_header() -> None:
    config = json.dumps({"_delegate_from": "h0"})
    columns = {
        "parent_session_id": "h0",
        "model_config": config,
        "ended_at": 1772442009.5,
        "git_branch": "main",
    }
    header = describe_message(lines(session(**columns))[0]).header
    assert (header.session_id, header.title, header.model, header.parent) == ("h1", "Oars", "m1", "h0")
    assert (header.folder, header.branch) == ("/work/shop", "main")
    assert (header.timestamp, header.last_timestamp) == (1772442000000, 1772442009500)
    assert describe_message(lines(session(parent_session_id="h0"))[0]).header.parent is None


@pytest.mark.parametrize(
    "record", [session(), PROMPT, CALL, usage(1, 2), row("system_prompts", "a", hash="a", prompt="")]
)
def test_rows_are_recognized(record: Any) -> None:
    recognized = discover().recognize(record)
    assert recognized is not None
    assert recognized[0].source == "hermes"
