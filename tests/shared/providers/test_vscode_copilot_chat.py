"""Chats of Copilot in VS Code."""

from typing import Any

from ash_shared import describe_message, parse_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

FILE = {"kind": "inlineReference", "inlineReference": {"path": "/tern/knots.md", "scheme": "file"}}
SHOWN = {"kind": "toolInvocationSerialized", "toolId": "count", "toolCallId": "u1", "isComplete": True}
CALL = {"id": "c1__vscode-1", "name": "count", "arguments": '{"what": "knots"}'}
TREE = {"node": {"type": 1, "children": [{"text": "Seven"}, {"type": 1, "children": [{"text": " knots"}]}]}}
RESULTS = {"c1__vscode-1": {"content": [{"value": TREE}]}}


def request(id: str, text: str, *response: Any, **metadata: Any) -> dict[str, Any]:
    result = {"result": {"metadata": metadata}} if metadata else {}
    return {
        "requestId": id,
        "message": {"text": text},
        "response": [*response],
        "timestamp": 1,
        "modelId": "reef-1",
        **result,
    }


def chat(*requests: Any) -> dict[str, Any]:
    return {
        "version": 3,
        "sessionId": "s1",
        "creationDate": 1,
        "customTitle": "Knots",
        "requests": [*requests],
    }


def test_shown_answers() -> None:
    record = chat(
        request("r1", "How many?", {"value": "In "}, FILE, {"value": " I count."}, SHOWN, {"value": "Seven."})
    )

    assert short_messages(record) == [
        ("user", [("text", "How many?")]),
        (
            "assistant",
            [("text", "In `knots.md` I count."), ("tool_use", "count"), ("text", "Seven.")],
            {"model": "reef-1"},
        ),
    ]


def test_answers_of_the_model_have_arguments_and_results() -> None:
    rounds = [{"response": "I count.", "toolCalls": [CALL]}, {"response": "Seven.", "toolCalls": []}]
    metadata = {"toolCallRounds": rounds, "toolCallResults": RESULTS, "promptTokens": 20, "outputTokens": 9}
    record = chat(request("r1", "How many?", {"value": "Seven."}, **metadata))

    assert short_messages(record) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("text", "I count."), ("tool_use", "count")], {"model": "reef-1"}),
        ("user", [("tool_result", "Seven knots")]),
        ("assistant", [("text", "Seven.")], {"model": "reef-1", "usage": (20, 9, None, None)}),
    ]


def test_errors() -> None:
    failed = {
        **request("r1", "How many?"),
        "result": {"errorDetails": {"message": "Too late.", "code": "tide"}},
    }

    assert short_messages(chat(failed))[1] == ("assistant", [], {"error": "tide"})


def test_a_later_version_supersedes_what_has_changed() -> None:
    first = chat(request("r1", "How many?", {"value": "Six."}))
    second = chat(request("r1", "How many?", {"value": "Seven."}), request("r2", "Thanks."))

    log = follow([first, second])

    superseded = next(event["id"] for event in log if event["payload"].get("text") == "Six.")
    assert short_events(log)[len(short_events(follow([first]))) :] == [
        ("retraction", {"eventIds": [superseded], "reason": "superseded"}),
        ("assistant_done", {"text": "Seven."}, "r1/1"),
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Thanks."}),
        ("turn_end", {}),
    ]


def test_a_log_of_changes() -> None:
    log = [
        {"kind": 0, "v": chat()},
        {"kind": 1, "k": ["customTitle"], "v": "All knots"},
        {"kind": 2, "k": ["requests"], "v": [request("r1", "How many?")]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "I "}, {"value": "count."}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [SHOWN]},
        {
            "kind": 1,
            "k": ["requests", 0, "result"],
            "v": {"metadata": {"promptTokens": 20, "outputTokens": 9}},
        },
        {"kind": 1, "k": ["inputState"], "v": {}},
    ]

    assert {parse_message(line).source for line in lines(*log)} == {"vscode_copilot_chat"}
    assert describe_message(lines(*log)[1]).header.title == "All knots"
    assert short_messages(*log) == [
        ("user", [("text", "How many?")]),
        ("assistant", [("text", "I count."), ("tool_use", "count")], {"usage": (20, 9, None, None)}),
    ]
