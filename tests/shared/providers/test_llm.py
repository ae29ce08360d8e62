"""Standard messages and events of the rows of `llm`."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.databases import sessions_of
from tests.shared.leaves import lost_leaves
from tests.shared.logs import follow, short_events
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


def recorded(name: str) -> list[list[Record]]:
    database = RECORDINGS / "llm" / f"{name}.sql"
    return [[json.loads(line) for line in lines] for _, lines in sessions_of(database)]


def message(*parts: Record, role: str = "user", **columns: Any) -> Record:
    row = {"hash": "b2:1", "parent_hash": None, "role": role, "parts": list(parts), **columns}
    return {"table": "messages", "key": "b2:1", "columns": row}


def part(type: str, text: str | None = None, /, **payload: Any) -> Record:
    encoded = json.dumps(payload) if payload else None
    return {"id": 1, "message_hash": "b2:1", "position": 0, "type": type, "text": text, "payload": encoded}


def blocks_of(record: Record) -> list[Record]:
    return [block.model_dump(exclude_none=True) for block in parse_message(json.dumps(record)).parsed]


def answer(id: int, reason: str = "stop", reasoning: int | None = None) -> Record:
    usage = (200 + id, 40 + id, 1000, reasoning)
    return {"model": "mock", "messageId": f"chatcmpl-{id}", "stop_reason": reason, "usage": usage}


@pytest.mark.parametrize("name", ["conversations", "threads"])
def test_recorded_session_with_a_tool(name: str) -> None:
    thought = [("thinking", "")] if name == "threads" else []  # earlier versions write no reasoning

    assert short_messages(*recorded(name)[0]) == [
        ("system", [("text", "Be brief.")]),
        ("user", [("text", "How high is the water in Bergen at six?")]),
        (
            "assistant",
            [("text", "I look at the gauge."), ("tool_use", "tide_at")],
            answer(1, "tool_calls"),
        ),
        ("user", [("tool_result", "9 dm")]),
        ("assistant", [("text", "In Bergen the water stands at 9 dm at six.")], answer(2)),
        ("user", [("text", "Thanks")]),
        ("assistant", [*thought, ("text", "You are welcome.")], answer(3, reasoning=5)),
    ]


@pytest.mark.parametrize("name", ["conversations", "threads"])
def test_recorded_events(name: str) -> None:
    """Two parallel calls, one failed, and the answer."""
    events = short_events(follow(recorded(name)[3], ends=True))

    assert [type for type, *_ in events] == [
        *("turn_start", "user_message", "tool_call", "tool_call"),
        *("tool_result", "tool_result", "assistant_done", "turn_end"),
    ]
    assert [payload["toolName"] for type, payload, *_ in events if type == "tool_call"] == [
        "tide_at",
        "llm_version",
    ]
    results = [payload for type, payload, *_ in events if type == "tool_result"]
    assert [(each["toolCallId"], "error" in each) for each in results] == [
        ("call_6_0", True),
        ("call_6_1", False),
    ]
    assert [events[-1][1]["usage"][name] for name in ("input_tokens", "output_tokens")] == [413, 93]


@pytest.mark.parametrize("name", ["conversations", "threads"])
def test_recorded_fragment_and_attachment(name: str) -> None:
    with_fragment, with_image = recorded(name)[1:3]

    files = [
        block for row in (*with_fragment, *with_image) for block in blocks_of(row) if block["type"] == "file"
    ]

    assert [(file["filename"], file.get("source", {}).get("type")) for file in files] == [
        ("tools.py", "text"),
        ("boat.png", None),
    ]


@pytest.mark.parametrize("name", ["conversations", "threads"])
def test_header(name: str) -> None:
    session, first, *_ = (describe_message(json.dumps(row)).header for row in recorded(name)[3])

    assert session.title == "How high in Nowhere?"
    assert first.timestamp is not None


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (part("reasoning", "Count"), {"type": "thinking", "thinking": "Count"}),
        (part("reasoning", redacted=True), {"type": "thinking", "thinking": "", "redacted": True}),
        (
            part("tool_call", name="find", arguments={"q": 1}, tool_call_id="c1", server_executed=True),
            {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": 1}, "executor": "server"},
        ),
        (
            part("tool_result", name="find", output="no", tool_call_id="c1", exception="OSError"),
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": "no",
                "is_error": True,
                "extra": {"name": "find", "exception": "OSError"},
            },
        ),
        (
            part("attachment") | {"attachments": [{"type": "image/png", "content": {"base64": "aGk="}}]},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        ),
        (
            part("attachment") | {"attachments": [{"type": "audio/wav", "url": "https://a/b.wav"}]},
            {
                "type": "file",
                "mimeType": "audio/wav",
                "mediaClass": "audio",
                "source": {"type": "url", "url": "https://a/b.wav"},
            },
        ),
    ],
)
def test_parts(row: Record, expected: Record) -> None:
    [block] = blocks_of(message(row))

    assert {name: value for name, value in block.items() if name not in ("source_type",)} == expected


def test_unknown_and_malformed_parts() -> None:
    blocks = blocks_of(message(part("video"), part("tool_call")))

    assert [(block["reason"], block["rawType"]) for block in blocks] == [
        ("unknown_type", "video"),
        ("malformed", "tool_call"),
    ]


def test_usage_of_anthropic_excludes_cached_tokens() -> None:
    details = json.dumps({"cache_read_input_tokens": 90, "cache_creation_input_tokens": 4})
    turn = {"model": "claude-x", "input_tokens": 9, "output_tokens": 2, "token_details": details}

    [short] = short_messages(message(part("text", "Four"), role="assistant", turn=turn))

    assert short[2]["usage"] == (9, 2, 90, None)


def response(**columns: Any) -> Record:
    row = {"conversation_id": "t1", "prompt": "Count", "prompt_json": None, "response": "Four", **columns}
    return {"table": "responses", "key": "r1", "columns": row}


FRAGMENT = {"id": 7, "content": "oars = 4", "source": "a.py"}


@pytest.mark.parametrize(
    "row",
    [
        message(part("text", "Count"), harbour="north"),
        message(part("text", "Count") | {"harbour": "north"}),
        message(part("text", "Count") | {"fragments": [FRAGMENT]}),
        message(part("text", text_ref=[{"literal": "Count"}], mood="calm") | {"fragments": [FRAGMENT]}),
        message(turn={"options_json": "{}", "harbour": "north"}, role="assistant"),
        message(part("text", "Four"), turn="north", role="assistant"),
        message(part("attachment") | {"attachments": [{"type": "image/png", "content": "aGk="}]}),
        message(part("attachment", "See") | {"attachments": [{"type": "image/png", "path": "a.png"}]}),
        response(harbour="north"),
        response(response=5, reasoning="Count"),
        response(response=None, harbour="north"),
        response(system=5, prompt=[6]),
        response(attachments=["a.png"]),
    ],
    ids=json.dumps,
)
def test_no_value_of_a_row_is_lost(row: Record) -> None:
    content = {name: value for name, value in row["columns"].items() if name not in ENVELOPE}
    parts = [
        {name: each.get(name) for name in each.keys() - PART_ENVELOPE} for each in content.get("parts", [])
    ]

    assert not lost_leaves({**content, "parts": parts}, blocks_of(row))


ENVELOPE = ("conversation_id", "hash", "role")
PART_ENVELOPE = {"id", "message_hash", "payload", "position", "type"}
