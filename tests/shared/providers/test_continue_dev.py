"""Standard messages and events of the sessions of Continue."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.leaves import lost_leaves
from tests.shared.logs import follow, short_events
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


def recorded() -> Record:
    record: Record = json.loads((RECORDINGS / "continue" / "tides.json").read_text())
    return record


def session(*history: Record, **fields: Any) -> Record:
    return {
        "sessionId": "s1",
        "title": "Oars",
        "workspaceDirectory": "/work/shop",
        "history": list(history),
        **fields,
    }


def item(role: str, content: Any, message: Record | None = None, **fields: Any) -> Record:
    return {"message": {"role": role, "content": content, **(message or {})}, "contextItems": [], **fields}


def call(id: str, arguments: str = '{"path": "a"}') -> Record:
    return {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}


def state(id: str, status: str, *texts: str) -> Record:
    output = [{"content": text, "name": "Result", "description": ""} for text in texts]
    return {"toolCallId": id, "toolCall": call(id), "status": status, "output": output}


def answer(number: int, reasoning: int = 0) -> Record:
    return {"model": "mock-model", "usage": (200 + number, 40 + number, 1000, reasoning)}


def test_recorded_run() -> None:
    failed = (
        "Error executing tool Bash: Error (exit code 2): ls: cannot access 'nothing-here':"
        " No such file or directory\n"
    )

    assert short_messages(recorded()) == [
        ("user", [("text", "How long is the table?")]),
        ("assistant", [("text", "I look at the table."), ("tool_use", "Read")], answer(1)),
        ("user", [("tool_result", "Content of /tmp/tides/tides.py:\nSTART = 6\nprint(START)\n")]),
        ("assistant", [("tool_use", "Bash"), ("tool_use", "Bash")], answer(2, 6)),
        ("user", [("tool_result", failed)]),
        ("user", [("tool_result", "2 tides.py\n")]),
        ("assistant", [("text", "The table has two lines.")], answer(3)),
        ("user", [("text", "Thanks")]),
        ("assistant", [("text", "You are welcome.")], answer(4)),
    ]


def test_recorded_events() -> None:
    events = short_events(follow([recorded()], ends=True))

    assert [type for type, *_ in events] == [
        *("turn_start", "user_message", "assistant_done", "tool_call", "tool_result"),
        *("tool_call", "tool_call", "tool_result", "tool_result", "assistant_done", "turn_end"),
        *("turn_start", "user_message", "assistant_done", "turn_end"),
    ]
    results = [payload for type, payload, *_ in events if type == "tool_result"]
    assert [(each["toolCallId"], "error" in each) for each in results] == [
        ("call_1_0", False),
        ("call_2_0", True),
        ("call_2_1", False),
    ]


@pytest.mark.parametrize(
    ("fields", "title", "folder"),
    [
        ({}, "Oars", "/work/shop"),
        ({"title": "New Session", "workspaceDirectory": "file:///work/shop"}, None, "/work/shop"),
        ({"workspaceDirectory": ""}, "Oars", None),
    ],
)
def test_header(fields: Record, title: str | None, folder: str | None) -> None:
    header = describe_message(json.dumps(session(item("user", "Count"), **fields))).header

    assert (header.session_id, header.title, header.folder) == ("s1", title, folder)


def test_a_later_version_adds_a_result() -> None:
    asked = item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "calling")])
    done = item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "done", "oars")])

    messages = short_messages(session(item("user", "Count"), asked), session(item("user", "Count"), done))

    assert [message[:2] for message in messages] == [
        ("user", [("text", "Count")]),
        ("assistant", [("tool_use", "read")]),
        ("user", [("tool_result", "oars")]),
    ]


def test_a_result_in_a_message_of_its_own() -> None:
    asked = item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "done", "oars")])
    result = item("tool", "oars", {"toolCallId": "c1"})

    assert [message[1] for message in short_messages(session(asked, result))] == [
        [("tool_use", "read")],
        [("tool_result", "oars")],
    ]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (item("thinking", "Count"), [("thinking", "Count")]),
        (item("assistant", "Four", reasoning={"text": "Count"}), [("thinking", "Count"), ("text", "Four")]),
        (
            item(
                "user",
                [{"type": "text", "text": "See"}, {"type": "imageUrl", "imageUrl": {"url": "https://a/b"}}],
            ),
            [("text", "See"), ("image", {"type": "url", "url": "https://a/b"})],
        ),
        (
            item("user", "See") | {"contextItems": [{"name": "a.py", "description": "", "content": "1"}]},
            [("file", {"type": "text", "media_type": "text/plain", "data": "1"}), ("text", "See")],
        ),
    ],
)
def test_items(entry: Record, expected: list[Any]) -> None:
    assert [message[1] for message in short_messages(session(entry))] == [expected]


def test_keys_of_an_item_stay() -> None:
    entry = item("user", "Count", {"id": "m1"}, modifiers={"noContext": True})

    [_, block] = [each.model_dump() for each in parse_message(json.dumps(session(entry))).parsed]

    assert block["extra"] == {"id": "m1", "modifiers": {"noContext": True}}


def test_only_its_own_documents_are_recognised() -> None:
    assert parse_message(json.dumps(session())).source == "continue"
    assert parse_message(json.dumps(session({"user": "Count"}))).source == "unknown"
    assert parse_message(json.dumps(session(workspaceDirectory=None))).source != "continue"


@pytest.mark.parametrize(
    "entries",
    [
        [item("assistant", "Four", reasoning={"text": "Count", "endAt": 9})],
        [item("assistant", "", {"id": "m1"})],
        [item("assistant", "", {"id": "m1"}, contextItems=[{"name": "a.py", "content": "1"}])],
        [item("thinking", "Count", conversationSummary="north")],
        [item("tool", [{"type": "imageUrl", "imageUrl": {"url": "https://a/b"}}], {"toolCallId": "c1"})],
        [item("tool", "oars", {"toolCallId": "c1"}, contextItems=[{"name": "Result", "content": "oars"}])],
        [item("assistant", "Four", {"usage": "many"})],
        [item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "generated")])],
        [
            item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "done", "oars")]),
            item("tool", "four oars", {"toolCallId": "c1"}),
        ],
        [item("assistant", "", {"toolCalls": [call("c1")]}, toolCallStates=[state("c1", "done", "a", "b")])],
        [item("assistant", "Four", toolCallStates=[state("c1", "done", "a") | {"status": ["done"]}, 3])],
    ],
    ids=json.dumps,
)
def test_no_value_of_an_item_is_lost(entries: list[Record]) -> None:
    blocks = [each.model_dump() for each in parse_message(json.dumps(session(*entries))).parsed]

    content = [
        {**entry, "message": {name: value for name, value in entry["message"].items() if name != "role"}}
        for entry in json.loads(json.dumps(entries))
    ]
    for entry in content:
        for each in entry.get("toolCallStates", []):
            _ = each.pop("toolCall", None) if isinstance(each, dict) else None  # repeats the call
        for each in entry["message"].get("toolCalls", []):
            del each["type"]
    lost = lost_leaves(content, blocks)
    assert {value for _, value in lost} <= {"", "imageUrl"}


def test_the_folder_of_an_editor_is_a_path() -> None:
    header = describe_message(json.dumps(session(workspaceDirectory="file:///work/my%20shop"))).header

    assert header.folder == "/work/my shop"
