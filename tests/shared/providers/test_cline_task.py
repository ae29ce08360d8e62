"""Tasks of Cline, Roo Code and Kilo Code."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import short_messages


def said(time: int, name: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": time, "type": "say", "say": name, "text": text, **more}


def asked(time: int, name: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": time, "type": "ask", "ask": name, "text": text, **more}


def requested(time: int, **counts: Any) -> dict[str, Any]:
    return said(time, "api_req_started", json.dumps({"request": "…", **counts}))


TOOL = {"tool": "readFile", "path": "knots.md"}
TASK = [
    said(1, "text", "How many knots?", images=["data:image/png;base64,aGk="]),
    requested(2, tokensIn=120, tokensOut=9, cacheReads=100, cost=0.25),
    said(3, "reasoning", reasoning="Look first."),
    said(4, "text", "I read.", modelInfo={"modelId": "reef-1", "providerId": "quay"}),
    asked(5, "tool", json.dumps(TOOL)),
    said(6, "command_output", "7"),
    said(7, "error", "The line broke."),
    said(8, "user_feedback", "Go on."),
    said(9, "completion_result", "Seven."),
    said(9, "condense_context", "Knots were counted."),
    asked(10, "whistle", "fee"),
]
MESSAGES = [
    (
        "user",
        [
            ("text", "How many knots?"),
            ("image", {"type": "base64", "media_type": "image/png", "data": "aGk="}),
        ],
    ),
    (
        "assistant",
        [("thinking", "Look first."), ("text", "I read."), ("tool_use", "readFile")],
        {"model": "reef-1", "costUsd": 0.25, "usage": (20, 9, 100, None)},
    ),
    ("user", [("tool_result", "7")]),
    ("system", [("text", "The line broke.")]),
    ("user", [("text", "Go on.")]),
    ("assistant", [("text", "Seven.")]),
    ("system", [("text", "Knots were counted.")]),
    ("system", [("raw", TASK[10])]),
]


def test_messages_of_a_task() -> None:
    assert short_messages(TASK) == MESSAGES


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            asked(1, "tool", '{"tool": "readFile"}'),
            {
                "type": "tool_use",
                "name": "readFile",
                "input": {"tool": "readFile"},
                "source_type": "ask/tool",
                "extra": {"text": '{"tool": "readFile"}'},
            },
            id="a call",
        ),
        pytest.param(
            said(1, "command", "ls"),
            {
                "type": "tool_use",
                "name": "execute_command",
                "input": {"command": "ls"},
                "source_type": "say/command",
            },
            id="a command",
        ),
        pytest.param(
            said(1, "diff_error", "No match."),
            {"type": "text", "text": "No match.", "variant": "error", "source_type": "say/diff_error"},
            id="an error",
        ),
        pytest.param(
            said(1, "whistle", "fee"),
            {
                "type": "raw",
                "reason": "unknown_type",
                "rawType": "say/whistle",
                "raw": said(1, "whistle", "fee"),
            },
            id="an unknown item",
        ),
    ],
)
def test_blocks_of_an_item(item: Any, expected: Any) -> None:
    parsed = parse_message(json.dumps([item]))

    assert parsed.source == "cline_task"
    assert [block.model_dump(mode="json", by_alias=True) for block in parsed.parsed] == [expected]


def test_messages_of_the_api() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}], "ts": 1},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "text": "Look."}, {"type": "text", "text": "7"}],
        },
        {"role": "user", "content": "Seven knots.", "isSummary": True},
    ]

    assert short_messages(messages) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("thinking", "Look."), ("text", "7")]),
        ("user", [("text", "Seven knots.")]),
    ]


def test_a_later_version_of_a_task_supersedes_what_has_changed() -> None:
    first = [
        said(1, "text", "How many?"),
        requested(2, tokensIn=9, tokensOut=3),
        said(3, "text", "Six", partial=True),
    ]
    second = [
        first[0],
        requested(2, tokensIn=9, tokensOut=3),
        said(3, "text", "Seven."),
        said(4, "user_feedback", "Go."),
    ]

    log = follow([first, second])

    known = short_events(follow([first]))
    superseded = next(event["id"] for event in log if event["payload"].get("text") == "Six")
    assert short_events(log)[: len(known)] == known
    assert short_events(log)[len(known) :] == [
        ("retraction", {"eventIds": [superseded], "reason": "superseded"}),
        ("assistant_done", {"text": "Seven."}, "ui/2"),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Go."}),
        ("turn_end", {}),
    ]
    assert short_messages(first, second) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("text", "Seven.")], {"usage": (9, 3, None, None)}),
        ("user", [("text", "Go.")]),
    ]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        pytest.param(
            {"tokensIn": 120, "tokensOut": 9, "cacheReads": 100}, (20, 9, 100, None), id="cache inside"
        ),
        pytest.param(
            {"tokensIn": 20, "tokensOut": 9, "cacheReads": 100}, (20, 9, 100, None), id="cache beside"
        ),
    ],
)
def test_usage(counts: Any, usage: Any) -> None:
    assert short_messages([said(1, "text", "?"), requested(2, **counts), said(3, "text", "7")])[1] == (
        "assistant",
        [("text", "7")],
        {"usage": usage},
    )
