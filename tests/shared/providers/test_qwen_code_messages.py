"""Standard messages and events of Qwen Code's sessions."""

from typing import Any

from ash_shared import describe_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]


def line(number: int, type: str, *parts: Record, parent: int | None = None, **fields: Any) -> Record:
    role = "model" if type == "assistant" else "user"
    return {
        "uuid": f"u{number}",
        "parentUuid": f"u{parent}" if parent else None,
        "sessionId": "s1",
        "timestamp": f"2026-03-02T09:00:{number:02}.000Z",
        "type": type,
        "cwd": "/work/shop",
        "gitBranch": "main",
        "version": "0.21.0",
        **({"message": {"role": role, "parts": [*parts]}} if parts else {}),
        **fields,
    }


def text(words: str, **fields: Any) -> Record:
    return {"text": words, **fields}


def system(number: int, subtype: str, payload: Any, **fields: Any) -> Record:
    return line(number, "system", subtype=subtype, systemPayload=payload, **fields)


USAGE = {
    "promptTokenCount": 120,
    "candidatesTokenCount": 9,
    "thoughtsTokenCount": 4,
    "cachedContentTokenCount": 100,
}
CALL = {"functionCall": {"id": "c1", "name": "read_file", "args": {"file_path": "a.txt"}}}
RESULT = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"error": "No such file"}}}
FAILURE = {"event.name": "qwen-code.api_error", "error_message": "400 Too long", "error_type": "BadRequest"}
COMPRESSION = {"info": {}, "compressedHistory": [{"role": "user", "parts": [text("Files were counted.")]}]}

TURN = (
    line(1, "user", text("Count the files")),
    system(
        2, "ui_telemetry", {"uiEvent": {"event.name": "qwen-code.api_response", "response_text": "I look."}}
    ),
    line(
        3, "assistant", text("Hm.", thought=True), parent=2, model="q1", usageMetadata={"promptTokenCount": 1}
    ),
    line(3, "assistant", text("I look."), CALL, parent=2, model="q1", usageMetadata=USAGE),
    line(4, "tool_result", RESULT, parent=3, toolCallResult={"callId": "c1", "status": "error"}),
    line(5, "user", text("And the folders"), parent=4, subtype="mid_turn_user_message"),
    line(6, "assistant", text("None."), parent=5, model="q1", usageMetadata=USAGE),
    line(7, "user", text("A task ended."), parent=6, subtype="notification"),
    system(8, "ui_telemetry", {"uiEvent": FAILURE}),
    system(9, "chat_compression", COMPRESSION),
)
MODEL = {"model": "q1", "usage": (20, 9, 100, 4)}


def test_turns() -> None:
    """Lines with one id are one message, and its last usage counts: the thoughts are part of the candidates."""
    assert short_messages(*TURN) == [
        ("user", [("text", "Count the files")]),
        ("assistant", [("thinking", "Hm."), ("text", "I look."), ("tool_use", "read_file")], MODEL),
        ("user", [("tool_result", "No such file")]),
        ("user", [("text", "And the folders")]),
        ("assistant", [("text", "None.")], MODEL),
        ("user", [("text", "A task ended.")], {"sender": "task", "synthetic": True}),
        ("system", [("text", "400 Too long")], {"error": "BadRequest"}),
        ("system", [("text", "Files were counted.")]),
    ]


def test_rewind_retracts_the_prompt_after_its_target() -> None:
    rewound = (
        line(1, "user", text("First")),
        line(2, "assistant", text("One."), parent=1),
        line(3, "user", text("Second"), parent=2),
        line(4, "assistant", text("Two."), parent=3),
        system(5, "rewind", {"targetUuid": "u2"}, parent=2),
        line(6, "user", text("Third"), parent=5),
    )
    assert short_messages(*rewound) == [
        ("user", [("text", "First")]),
        ("assistant", [("text", "One.")]),
        ("user", [("text", "Second")], {"retracted": True}),
        ("assistant", [("text", "Two.")], {"retracted": True}),
        ("user", [("text", "Third")]),
    ]
    retractions = [event for event in follow(rewound) if event["type"] == "retraction"]
    assert [event["payload"] for event in retractions] == [{"fromMessageId": "u3"}]


def test_events_of_a_turn() -> None:
    call = {"toolCallId": "c1", "toolName": "read_file", "args": {"file_path": "a.txt"}}
    events = short_events(follow(TURN[:5]))
    assert [event for event in events if event[0] != "turn_start"] == [
        ("user_message", {"text": "Count the files"}),
        ("thinking_done", {"text": "Hm."}, "u3"),
        ("assistant_done", {"text": "I look."}, "u3"),
        ("tool_call", call, "u3"),
        (
            "tool_result",
            {
                "toolCallId": "c1",
                "result": "No such file",
                "error": {"code": "error", "message": "No such file"},
                "structured": {"error": "No such file"},
            },
        ),
    ]


def test_header() -> None:
    [title] = lines(system(1, "custom_title", {"customTitle": "Oars", "titleSource": "manual"}))
    header = describe_message(title).header
    assert (header.session_id, header.title, header.is_title_of_person) == ("s1", "Oars", True)
    assert (header.folder, header.branch, header.client_version) == ("/work/shop", "main", "0.21.0")
    assert header.timestamp == 1772442001000
