"""Blocks of pi's events and session entries, and the standard messages they form."""

import json
from functools import partial
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.model.message import RecordHeader
from ash_shared.providers import discover
from ash_shared.providers.pi import PROVIDER
from tests.shared.records import pi
from tests.shared.records.pi import TIME, entry, user
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


response = partial(
    pi.response,
    usage={"input": 50, "output": 7, "cacheRead": 40, "cacheWrite": 0, "cost": {"total": 0.5}},
)
TEXT = {"type": "text", "text": "Built."}
CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "make"}}
TOOL_RESULT = {
    "role": "toolResult",
    "toolCallId": "c1",
    "toolName": "bash",
    "content": [{"type": "text", "text": "ok"}],
    "details": {"lines": 1},
    "isError": False,
    "timestamp": TIME,
}
EXECUTION_END = {
    "type": "tool_execution_end",
    "toolCallId": "c1",
    "toolName": "bash",
    "result": {"content": [{"type": "text", "text": "ok"}], "details": {"lines": 1}},
    "isError": False,
}
AT = "2026-02-02T02:40:00Z"
VERSION_1: list[Record] = [
    {"type": "session", "id": "s1", "timestamp": AT, "cwd": "/srv", "provider": "acme", "modelId": "m1"},
    {"type": "thinking_level_change", "timestamp": AT, "thinkingLevel": "high"},
    {"type": "model_change", "timestamp": AT, "provider": "acme", "modelId": "m1"},
    {"type": "message", "timestamp": AT, "message": user("Build it.")},
    {"type": "message", "timestamp": AT, "message": response(TEXT)},
    {"type": "compaction", "timestamp": AT, "summary": "Built.", "firstKeptEntryIndex": 4, "tokensBefore": 9},
]
"""Lines of the first version of session files, which have no ids."""
SESSION = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-02-02T02:40:00Z", "cwd": "/srv"}


@pytest.mark.parametrize(
    ("record", "sources"),
    [
        ({"type": "agent_start"}, ["pi"]),
        ({"type": "turn_start", "turn": 1}, []),
        ({"type": "message_start", "message": response()}, ["pi"]),
        ({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {}}}, ["claude"]),
        ({"type": "message_update", "message": response(TEXT)}, ["pi"]),
        ({"type": "message_end", "message": user("Build it.")}, ["pi"]),
        ({"type": "message_end", "message": TOOL_RESULT}, ["pi"]),
        ({"type": "turn_end", "message": response(TEXT), "toolResults": []}, ["pi"]),
        ({"type": "agent_end", "messages": []}, ["pi"]),
        (EXECUTION_END, ["pi"]),
        ({"type": "auto_retry_end", "success": True, "attempt": 1}, ["pi"]),
        (SESSION, ["pi"]),
        (entry("message", message={"role": "user", "content": "Build it."}), ["pi"]),
        (entry("compaction", summary="Long ago."), ["pi"]),
        ({"type": "compaction", "content": "Long ago."}, ["claude"]),
        *[(record, ["pi"]) for record in VERSION_1],
        ({"type": "message", "timestamp": "2026", "message": {"role": "user", "content": "Hi"}}, []),
        (entry("label", targetId="e1", label="here"), ["pi"]),
        (response(TEXT), ["pi"]),
        ({"role": "user", "content": "Build it."}, ["claude"]),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_exactly_one_provider_recognizes_record(record: Record, sources: list[str]) -> None:
    assert [name for name, provider in discover().items() if provider.recognize(record)] == sources


RESULT = {
    "type": "tool_result",
    "tool_use_id": "c1",
    "content": [{"type": "text", "text": "ok"}],
    "is_error": False,
    "structured": {"lines": 1},
    "extra": {"toolName": "bash"},
}


@pytest.mark.parametrize(
    ("record", "kind", "role", "blocks"),
    [
        (
            {"type": "message_end", "message": response({**TEXT, "textSignature": "t"}, CALL)},
            "message",
            "assistant",
            [
                {**TEXT, "textSignature": "t"},
                {
                    "type": "tool_use",
                    "id": "c1",
                    "name": "bash",
                    "input": {"command": "make"},
                    "source_type": "toolCall",
                },
            ],
        ),
        (
            {
                "type": "message_end",
                "message": response(
                    {"type": "thinking", "thinking": "Hm"},
                    {"type": "thinking", "thinking": "", "thinkingSignature": "sig", "redacted": True},
                ),
            },
            "message",
            "assistant",
            [
                {"type": "thinking", "thinking": "Hm"},
                {
                    "type": "thinking",
                    "thinking": "",
                    "signature": "sig",
                    "redacted": True,
                    "source_type": "thinking",
                },
            ],
        ),
        (
            {
                "type": "message_end",
                "message": user([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]),
            },
            "message",
            "user",
            [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                    "source_type": "image",
                }
            ],
        ),
        (
            {"type": "message_end", "message": TOOL_RESULT},
            "message",
            "tool",
            [{**RESULT, "source_type": "toolResult"}],
        ),
        (EXECUTION_END, "message", "tool", [{**RESULT, "source_type": "tool_execution_end"}]),
        (
            entry(
                "message",
                message={
                    "role": "bashExecution",
                    "command": "ls",
                    "output": "a",
                    "exitCode": 0,
                    "truncated": False,
                },
            ),
            "message",
            "user",
            [
                {
                    "type": "tool_use",
                    "name": "bash",
                    "input": {"command": "ls"},
                    "executor": "user",
                    "source_type": "bashExecution",
                },
                {
                    "type": "tool_result",
                    "content": "a",
                    "exit_code": 0,
                    "source_type": "bashExecution",
                    "extra": {"truncated": False},
                },
            ],
        ),
        (
            entry("custom_message", customType="notes", content="Mind the gap.", display=True),
            "message",
            "user",
            [
                {
                    "type": "text",
                    "text": "Mind the gap.",
                    "source_type": "custom",
                    "extra": {"customType": "notes", "display": True},
                }
            ],
        ),
        (
            entry("compaction", summary="Long ago.", tokensBefore=9),
            "record",
            "system",
            [
                {
                    "type": "text",
                    "text": "Long ago.",
                    "variant": "summary",
                    "source_type": "compaction",
                    "extra": {"tokensBefore": 9},
                }
            ],
        ),
        (
            {
                "type": "message_end",
                "message": response({"type": "hologram"}, {**CALL, "arguments": None, "id": 4}),
            },
            "message",
            "assistant",
            [
                {"type": "raw", "rawType": "hologram", "reason": "unknown_type", "raw": {"type": "hologram"}},
                {
                    "type": "raw",
                    "rawType": "toolCall",
                    "reason": "malformed",
                    "raw": {**CALL, "arguments": None, "id": 4},
                },
            ],
        ),
        (
            {"type": "turn_start"},
            "record",
            "system",
            [{"type": "raw", "rawType": "turn_start", "reason": "control", "raw": {"type": "turn_start"}}],
        ),
        (
            {"type": "tool_execution_update", "toolCallId": "c1"},
            "chunk",
            "assistant",
            [
                {
                    "type": "raw",
                    "rawType": "tool_execution_update",
                    "reason": "stream_fragment",
                    "raw": {"type": "tool_execution_update", "toolCallId": "c1"},
                }
            ],
        ),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_reads_record(record: Record, kind: str, role: str, blocks: list[Record]) -> None:
    message = parse_message(json.dumps(record), "pi")

    parsed = [block.model_dump(mode="json", by_alias=True) for block in message.parsed]
    assert (message.kind, message.role, parsed) == (kind, role, blocks)


RESPONSE_FIELDS = {"model": "m1", "stop_reason": "stop", "costUsd": 0.5, "usage": (50, 7, 40, None)}


@pytest.mark.parametrize(
    ("records", "messages"),
    [
        pytest.param(
            [
                {"type": "agent_start"},
                {"type": "message_start", "message": user("Build it.")},
                {"type": "message_end", "message": user("Build it.")},
                {"type": "message_start", "message": response()},
                {"type": "message_update", "message": response(TEXT)},
                {"type": "message_end", "message": response(TEXT, CALL)},
                EXECUTION_END,
                {"type": "message_start", "message": TOOL_RESULT},
                {"type": "message_end", "message": TOOL_RESULT},
                {"type": "turn_end", "message": response(TEXT, CALL), "toolResults": [TOOL_RESULT]},
                {
                    "type": "message_end",
                    "message": response(stopReason="error", errorMessage="Too many requests"),
                },
                {"type": "agent_end", "messages": [user("Build it."), response(TEXT, CALL)]},
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("text", "Built."), ("tool_use", "bash")], RESPONSE_FIELDS),
                ("user", [("tool_result", [{"type": "text", "text": "ok"}])]),
                ("assistant", [], {**RESPONSE_FIELDS, "stop_reason": "error", "error": "error"}),
            ],
            id="a run: each message once, at its end",
        ),
        pytest.param(
            [
                SESSION,
                entry("message", message=user("Build it.")),
                {**entry("message", message=response(TEXT)), "id": "e3"},
                {**entry("branch_summary", summary="Tried it."), "id": "e4"},
                {**entry("custom_message", content="Mind the gap.", customType="notes"), "id": "e5"},
                {**entry("label", label="here"), "id": "e6"},
            ],
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("text", "Built.")], RESPONSE_FIELDS),
                ("system", [("text", "Tried it.")]),
                ("user", [("text", "Mind the gap.")], {"synthetic": True}),
            ],
            id="a session file",
        ),
        pytest.param(
            VERSION_1,
            [
                ("user", [("text", "Build it.")]),
                ("assistant", [("text", "Built.")], RESPONSE_FIELDS),
                ("system", [("text", "Built.")]),
            ],
            id="a session file of version 1",
        ),
    ],
)
def test_records_form_messages(records: list[Record], messages: list[Any]) -> None:
    assert short_messages(*records) == messages


def test_record_facts() -> None:
    parent = "/home/.pi/2026_0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10.jsonl"
    record_facts = [
        PROVIDER.header(record)
        for record in (
            {**SESSION, "parentSession": parent},
            {**VERSION_1[0], "branchedFrom": parent},
            entry("message", message=response(TEXT)),
            {"type": "message_end", "message": response(TEXT)},
            entry("model_change", modelId="m2"),
            entry("session_info", name="Build"),
        )
    ]

    at = 1_770_000_000_000
    session = RecordHeader(
        timestamp=at, session_id="s1", parent="0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10", folder="/srv"
    )
    assert record_facts == [
        session,
        session,
        RecordHeader(uuid="e2", timestamp=TIME, model="m1"),
        RecordHeader(timestamp=TIME, model="m1"),
        RecordHeader(uuid="e2", timestamp=at, model="m2"),
        RecordHeader(uuid="e2", timestamp=at, title="Build"),
    ]
