"""The searchable texts of events."""

from typing import Any

import pytest

from ash_shared.model.events import EVENT_TYPES
from ash_shared.projections.search_text import SILENT, passages, role_of

REMINDER = "<system-reminder>Be brief.</system-reminder>"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo"}}
FILE = {
    "type": "file",
    "title": "Notes",
    "source": {"type": "text", "media_type": "text/plain", "data": "1.2 is out"},
}

PASSAGES: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "a prompt": ("user_message", {"text": "Look."}, [("A", "Look.")]),
    "partly wrapped": (
        "user_message",
        {"text": f"Look.\n{REMINDER} Around."},
        [("A", "Look.\n Around."), ("D", REMINDER)],
    ),
    "only wrapped": ("user_message", {"text": REMINDER}, [("D", REMINDER)]),
    "synthetic": ("user_message", {"text": "Go on.", "synthetic": True}, [("D", "Go on.")]),
    "with an image and a file": (
        "user_message",
        {"text": "See.", "content": [{"type": "text", "text": "See."}, IMAGE, FILE]},
        [
            ("A", "See."),
            ("D", "image\nbase64\nimage/png"),
            ("D", "file\nNotes\ntext\ntext/plain\n1.2 is out"),
        ],
    ),
    "text only in blocks": (
        "user_message",
        {"text": "a", "content": [{"type": "text", "text": "b"}]},
        [("A", "a"), ("A", "b")],
    ),
    "audio": ("user_audio", {"transcription": "Look.", "durationMs": 9}, [("A", "Look.")]),
    "an answer": ("assistant_done", {"text": "One file.", "stopReason": "end_turn"}, [("A", "One file.")]),
    "an empty answer": ("assistant_done", {"text": "", "content": []}, []),
    "reasoning": ("thinking_done", {"text": "Hm.", "signature": "Eq8B"}, [("B", "Hm.")]),
    "a call": (
        "tool_call",
        {
            "toolCallId": "t",
            "toolName": "Bash",
            "args": {"command": "ls", "n": [2, 0.5, True, None, {"deep": "x"}]},
        },
        [("C", "Bash: ls · 2 · 0.5 · x")],
    ),
    "a call with text arguments": (
        "tool_call",
        {"toolCallId": "t", "toolName": "sh", "args": "{no json"},
        [("C", "sh: {no json")],
    ),
    "a result": ("tool_result", {"toolCallId": "t", "result": "a.txt"}, [("D", "a.txt")]),
    "a result of blocks": (
        "tool_result",
        {"toolCallId": "t", "result": [{"type": "text", "text": "a.txt"}], "structured": {"stdout": "b.txt"}},
        [("D", "text\na.txt")],
    ),
    "only a structured result": (
        "tool_result",
        {"toolCallId": "t", "result": None, "structured": {"stdout": "b.txt"}},
        [("D", "b.txt")],
    ),
    "a failure": (
        "tool_result",
        {"toolCallId": "t", "result": "1 failed", "error": {"code": "exit", "message": "exit 1"}},
        [("D", "1 failed"), ("D", "exit 1")],
    ),
    "a failure with the same text": (
        "tool_result",
        {"toolCallId": "t", "result": "exit 1", "error": {"code": "exit", "message": "exit 1"}},
        [("D", "exit 1")],
    ),
    "an agent message": (
        "agent_message",
        {"messageId": "m", "message": "Look there.", "wait": True},
        [("A", "Look there.")],
    ),
    "an agent callback": ("agent_callback", {"messageId": "m", "result": "A slash."}, [("A", "A slash.")]),
    "an error": ("error", {"code": "overloaded", "message": "Later."}, [("D", "overloaded\nLater.")]),
    "a summary": ("summary", {"text": "They fixed it."}, [("D", "They fixed it.")]),
    "a notice": ("system_message", {"text": "Model changed."}, [("D", "Model changed.")]),
    "a raw record": (
        "raw",
        {"source": "claude", "raw": {"type": "holo", "data": "kept", "frames": [1]}},
        [("D", "holo\nkept\n1")],
    ),
    "an unknown event type": (
        "house_event",
        {"text": "in", "more": {"type": "base64", "data": "aGk="}},
        [("D", "in\nbase64")],
    ),
    "an invalid payload": ("tool_call", {"toolName": 5}, [("D", "5")]),
    "a null text": ("assistant_done", {"text": None}, []),
}


@pytest.mark.parametrize(("type", "payload", "expected"), PASSAGES.values(), ids=PASSAGES)
def test_passages(type: str, payload: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [tuple(each) for each in passages({"type": type, "payload": payload})] == expected


def test_chunks_and_turn_events_have_no_passages() -> None:
    payload = {"text": "a", "chunk": "a", "data": "a", "reason": "a"}

    assert [type for type in SILENT if passages({"type": type, "payload": payload})] == []
    assert SILENT < EVENT_TYPES


ROLES = {
    "agent_callback": "assistant",
    "agent_message": "assistant",
    "assistant_done": "assistant",
    "error": "system",
    "raw": "system",
    "summary": "system",
    "system_message": "system",
    "thinking_done": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
    "user_audio": "user",
    "user_message": "user",
    "of another type": "system",
}


def test_roles_of_events() -> None:
    assert {type: role_of(type) for type in ROLES} == ROLES
