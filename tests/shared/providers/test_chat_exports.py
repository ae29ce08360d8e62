"""Conversations in the data exports of ChatGPT and Claude.ai."""

from typing import Any

import pytest

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages


def text(*parts: Any, kind: str = "text") -> dict[str, Any]:
    return {"content_type": kind, "parts": [*parts]}


def node(id: str, parent: str | None, role: str, content: Any, *children: str, **more: Any) -> dict[str, Any]:
    message = {"id": f"m-{id}", "author": {"role": role}, "create_time": 1.5, "content": content, **more}
    return {"id": id, "parent": parent, "children": [*children], "message": message}


def conversation(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    first = nodes[0]["id"]
    root = {"id": "root", "parent": None, "children": [first], "message": None}
    return {
        "conversation_id": "c1",
        "title": "Knots",
        "create_time": 1.0,
        "update_time": 9.0,
        "current_node": nodes[-1]["id"],
        "default_model_slug": "reef-1",
        "mapping": {"root": root, **{each["id"]: each for each in nodes}},
        **more,
    }


IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://1", "size_bytes": 9}
CODE = {"content_type": "code", "language": "json", "text": '{"q": "knots"}'}
FOUND = {"content_type": "tether_quote", "text": "Seven.", "url": "https://quay.example"}
ERROR = {"content_type": "system_error", "name": "tide", "text": "Too late."}
THOUGHTS = {"content_type": "thoughts", "thoughts": [{"summary": "Counting", "content": "Look."}]}


def test_messages_of_chatgpt() -> None:
    record = conversation(
        node("a", "root", "system", text(""), "b"),
        node("b", "a", "user", text("How many?", IMAGE, kind="multimodal_text"), "c"),
        node("c", "b", "assistant", THOUGHTS, "d", metadata={"model_slug": "reef-2"}),
        node("d", "c", "assistant", CODE, "e", recipient="browser"),
        node("e", "d", "tool", FOUND, "f"),
        node("f", "e", "assistant", CODE, "g", recipient="browser"),
        node("g", "f", "tool", ERROR, "h"),
        node("h", "g", "assistant", text("Seven."), "i"),
        node("i", "h", "system", ERROR),
    )

    assert short_messages(record) == [
        ("system", []),
        ("user", [("text", "How many?"), ("image", {"type": "file", "file_id": "sediment://1"})]),
        ("assistant", [("thinking", "Look.")], {"model": "reef-2"}),
        ("assistant", [("tool_use", "browser")], {"model": "reef-1"}),
        ("user", [("tool_result", "Seven.")]),
        ("assistant", [("tool_use", "browser")], {"model": "reef-1"}),
        ("user", [("tool_result", "Too late.")]),
        ("assistant", [("text", "Seven.")], {"model": "reef-1"}),
        ("system", [("text", "Too late.")]),
    ]
    results = [each["payload"] for each in follow([record]) if each["type"] == "tool_result"]
    assert [each.get("error") for each in results] == [None, {"code": "error", "message": "Too late."}]


def test_other_branches_are_retracted() -> None:
    edited = conversation(
        node("a", "root", "user", text("How many?"), "b", "c"),
        node("b", "a", "assistant", text("Six.")),
        node("c", "a", "assistant", text("Seven.")),
    )
    unstated = {**edited, "current_node": None}

    expected = [
        ("user", [("text", "How many?")]),
        ("assistant", [("text", "Six.")], {"model": "reef-1", "retracted": True}),
        ("assistant", [("text", "Seven.")], {"model": "reef-1"}),
    ]
    assert short_messages(edited) == expected
    assert short_messages(unstated) == expected


def test_a_later_export_adds_messages_and_branches() -> None:
    first = conversation(
        node("a", "root", "user", text("How many?"), "b"), node("b", "a", "assistant", text("Six."))
    )
    second = conversation(
        node("a", "root", "user", text("How many?"), "b", "c"),
        node("b", "a", "assistant", text("Six.")),
        node("c", "a", "assistant", text("Seven.")),
    )

    log = short_events(follow([first, second, second]))

    known = short_events(follow([first]))
    assert log[: len(known)] == known
    assert log[len(known) :] == [
        ("turn_start", {"trigger": "system"}),
        ("assistant_done", {"text": "Seven."}, "c"),
        ("retraction", {"messageIds": ["b"]}),
        ("turn_end", {}),
    ]


@pytest.mark.parametrize(
    ("record", "source", "names"),
    [
        pytest.param(
            conversation(node("a", "root", "user", text("?"))),
            "chatgpt_export",
            ("c1", "Knots", 1000, 9000),
            id="ChatGPT",
        ),
        pytest.param(
            {
                "uuid": "u1",
                "name": "Knots",
                "created_at": "1970-01-01T00:00:01Z",
                "updated_at": "1970-01-01T00:00:09Z",
                "chat_messages": [],
            },
            "claude_ai_export",
            ("u1", "Knots", 1000, 9000),
            id="Claude.ai",
        ),
    ],
)
def test_names_and_times(record: Any, source: str, names: Any) -> None:
    description = describe_message(lines(record)[0])
    header = description.header

    assert description.source == source
    assert (header.session_id, header.title, header.timestamp, header.last_timestamp) == names


def message(id: str, sender: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": id, "sender": sender, "text": "…", "content": [*content], **more}


SAID = {"type": "text", "text": "Seven."}


def claude_ai(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": "u1", "name": "", "chat_messages": [*messages], **more}


def test_messages_of_claude_ai() -> None:
    record = claude_ai(
        message(
            "a",
            "human",
            {"type": "text", "text": "How many?"},
            attachments=[{"file_name": "knots.md", "extracted_content": "7", "file_size": 1}],
            files=[{"file_name": "knot.png", "file_uuid": "f1"}],
        ),
        message(
            "b",
            "assistant",
            {"type": "thinking", "thinking": "Look."},
            {"type": "tool_use", "id": "t1", "name": "count", "input": {}, "integration_name": "Quay"},
            {"type": "tool_result", "tool_use_id": "t1", "content": [SAID]},
            SAID,
        ),
        message("c", "human"),
        message("d", "assistant", {"type": "tool_use", "text": ""}),
    )

    assert short_messages(record) == [
        (
            "user",
            [
                ("text", "How many?"),
                ("file", {"type": "text", "data": "7"}),
                ("file", {"type": "file", "file_id": "f1"}),
            ],
        ),
        (
            "assistant",
            [("thinking", "Look."), ("tool_use", "count"), ("tool_result", [SAID]), ("text", "Seven.")],
        ),
        ("user", [("text", "…")]),
        ("assistant", [("text", "…"), ("raw", {"type": "tool_use", "text": ""})]),
    ]


def test_other_branches_of_claude_ai_are_retracted() -> None:
    record = claude_ai(
        message("a", "human", SAID, parent_message_uuid="root"),
        message("b", "assistant", SAID, parent_message_uuid="a"),
        message("c", "assistant", SAID, parent_message_uuid="a"),
        current_leaf_message_uuid="c",
    )

    assert short_messages(record) == [
        ("user", [("text", "Seven.")]),
        ("assistant", [("text", "Seven.")], {"retracted": True}),
        ("assistant", [("text", "Seven.")]),
    ]
