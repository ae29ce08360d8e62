"""Threads of Amp."""

from typing import Any

import pytest

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

USAGE = {
    "model": "reef-1",
    "inputTokens": 20,
    "outputTokens": 9,
    "cacheReadInputTokens": 100,
    "cacheCreationInputTokens": 5,
}
CALL = {"type": "tool_use", "complete": True, "id": "t1", "name": "count", "input": {}}


def said(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content], **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thread(*messages: Any) -> dict[str, Any]:
    trees = [{"uri": "file:///home/ada/tern", "displayName": "tern"}]
    return {
        "v": 1,
        "id": "T-1",
        "created": 1704067200000,
        "title": "Knots",
        "messages": [*messages],
        "env": {"initial": {"trees": trees}},
    }


def run(status: str, **outcome: Any) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseID": "t1", "run": {"status": status, **outcome}}


def test_messages_of_a_thread() -> None:
    record = thread(
        said("user", text("How many?")),
        said("assistant", {"type": "thinking", "thinking": "Look."}, CALL, usage=USAGE),
        said("user", run("done", result={"output": "7"})),
        said("assistant", usage=USAGE),
    )

    usage = {"model": "reef-1", "usage": (20, 9, 100, None)}
    assert short_messages(record) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("thinking", "Look."), ("tool_use", "count")], usage),
        ("user", [("tool_result", {"output": "7"})]),
        ("assistant", [], usage),
    ]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(run("done", result="7"), {"result": "7"}, id="done"),
        pytest.param(
            run("error", error="Too late."),
            {"result": "Too late.", "error": {"code": "error", "message": "Too late."}},
            id="error",
        ),
        pytest.param(
            {"type": "tool_result", "tool_use_id": "t1", "content": "7"}, {"result": "7"}, id="native"
        ),
    ],
)
def test_results(result: Any, expected: Any) -> None:
    events = short_events(follow([thread(said("assistant", CALL), said("user", result))]))

    assert ("tool_result", {"toolCallId": "t1", **expected}) in events


def test_a_later_version_supersedes_what_has_changed() -> None:
    first = thread(said("user", text("How many?")), said("assistant", text("Six.")))
    second = thread(
        said("user", text("How many?")), said("assistant", text("Seven.")), said("user", text("Thanks."))
    )

    log = follow([first, second])

    superseded = next(event["id"] for event in log if event["payload"].get("text") == "Six.")
    assert short_events(log)[len(short_events(follow([first]))) :] == [
        ("retraction", {"eventIds": [superseded], "reason": "superseded"}),
        ("assistant_done", {"text": "Seven."}, "T-1/1"),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Thanks."}),
        ("turn_end", {}),
    ]


def test_names_and_times() -> None:
    header = describe_message(lines(thread())[0]).header

    assert (header.session_id, header.title, header.timestamp, header.folder) == (
        "T-1",
        "Knots",
        1704067200000,
        "/home/ada/tern",
    )
