"""Blocks of Gemini's API and Gemini CLI, and the standard messages they form."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.providers import discover
from tests.shared.records.gemini import content, response
from tests.shared.records.gemini_cli import call, event, function_response, line
from tests.shared.transcripts import short_messages

Line = dict[str, Any]
PROVIDERS = discover()


CALL = {"functionCall": {"name": "count_boats", "args": {"pier": 3}}, "thoughtSignature": "c2ln"}
RESULT_PART = {"functionResponse": {"name": "count_boats", "response": {"output": "12 boats"}}}
RESPONSE_FIELDS = {"responseId": "r1", "modelVersion": "gemini-3-pro"}
INTERACTION = {"id": "v1_7", "object": "interaction", "model": "gemini-3-flash", "status": "completed"}


HEADER = {"sessionId": "s1", "projectHash": "ab12", "startTime": "2026-03-02T08:14:00Z", "kind": "main"}
LS = {"name": "ls", "args": {"path": "/srv"}}
LS_RESULT = function_response("ls-1", "ls", output="a.txt")
THOUGHT = {"subject": "Looking", "description": "I list the folder.", "timestamp": "2026-03-02T08:15:00Z"}
TOKENS = {"input": 100, "output": 5, "cached": 40, "thoughts": 7, "tool": 3, "total": 115}
STATS = {"total_tokens": 120, "input_tokens": 100, "output_tokens": 8, "cached": 60, "input": 40}


@pytest.mark.parametrize(
    ("record", "source"),
    [
        ({"contents": [content("user", {"text": "Hi"})]}, "gemini"),
        ({"contents": "Hi", "model": "gemini-3-pro"}, "gemini"),
        (content("model", {"text": "Hi"}), "gemini"),
        ({"role": "user", "parts": [{"type": "text", "text": "Hi"}]}, None),
        (response({"text": "Hi"}), "gemini"),
        ({"usageMetadata": {"trafficType": "ON_DEMAND"}, "responseId": "r1"}, "gemini"),
        ({"type": "ai", "content": "Hi", "usageMetadata": {}}, None),
        ({"promptFeedback": {}}, "gemini"),
        ({"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}, "gemini"),
        ({"error": {"code": "rate_limit", "message": "Slow down.", "type": "requests"}}, None),
        ({**INTERACTION, "steps": []}, "gemini"),
        ({"event_type": "step.stop", "index": 0}, "gemini"),
        (HEADER, "gemini_cli"),
        ({"$set": {"summary": "Boats"}}, "gemini_cli"),
        ({"$rewindTo": "u1"}, "gemini_cli"),
        (line("user", "u1", "Hi"), "gemini_cli"),
        (line("gemini", "a1"), "gemini_cli"),
        (line("error", "e1", "No quota."), "gemini_cli"),
        ({"type": "user", "message": {"role": "user", "content": "Hi"}, "timestamp": "t", "id": "1"}, None),
        ({**HEADER, "messages": []}, "gemini_cli"),
        ({"history": [content("user", {"text": "Hi"})]}, "gemini_cli"),
        (event("init", session_id="s1", model="m"), "gemini_cli"),
        (event("message", role="assistant", content="Hi", delta=True), "gemini_cli"),
        ({"type": "message", "role": "assistant", "content": "Hi"}, None),
        (event("tool_use", tool_id="t1", tool_name="ls", parameters={}), "gemini_cli"),
        (event("tool_result", tool_id="t1", status="success"), "gemini_cli"),
        (event("error", severity="warning", message="Loop."), "gemini_cli"),
        ({"type": "error", "message": "Loop."}, None),
        (event("result", status="success", stats=STATS), "gemini_cli"),
        ({"type": "result", "subtype": "success", "result": "Hi", "is_error": False}, None),
        ({"response": "Hi", "stats": {"models": {}}}, "gemini_cli"),
    ],
)
def test_exactly_one_provider_recognizes_record(record: Line, source: str | None) -> None:
    matching = [name for name in ("gemini", "gemini_cli") if PROVIDERS[name].recognize(record)]

    assert matching == ([] if source is None else [source])


FILE = {"fileData": {"fileUri": "https://files/plan.pdf", "mimeType": "application/pdf"}}
PART_CASES: list[tuple[Any, Line]] = [
    ("Hi", {"type": "text", "text": "Hi"}),
    (
        {"text": "Hi", "thoughtSignature": "c2ln"},
        {"type": "text", "text": "Hi", "source_type": "text", "extra": {"thoughtSignature": "c2ln"}},
    ),
    (
        {"text": "Hm", "thought": True, "thought_signature": "c2ln"},
        {
            "type": "thinking",
            "thinking": "Hm",
            "is_summary": True,
            "signature": "c2ln",
            "source_type": "thought",
        },
    ),
    (
        {"text": "", "thoughtSignature": "c2ln"},
        {
            "type": "raw",
            "rawType": "thoughtSignature",
            "reason": "opaque",
            "raw": {"text": "", "thoughtSignature": "c2ln"},
        },
    ),
    ({}, {"type": "raw", "reason": "control", "raw": {}}),
    (
        CALL,
        {
            "type": "tool_use",
            "name": "count_boats",
            "input": {"pier": 3},
            "source_type": "functionCall",
            "extra": {"thoughtSignature": "c2ln"},
        },
    ),
    (
        {"function_call": {"name": "stop", "id": None}},
        {"type": "tool_use", "id": None, "name": "stop", "input": {}, "source_type": "function_call"},
    ),
    (
        {"functionCall": {"args": {"pier": 3}}},
        {
            "type": "raw",
            "rawType": "functionCall",
            "reason": "malformed",
            "raw": {"functionCall": {"args": {"pier": 3}}},
        },
    ),
    (
        {"functionCall": {"partialArgs": [{"jsonPath": "$.pier", "numberValue": 3}], "willContinue": True}},
        {
            "type": "raw",
            "rawType": "functionCall",
            "reason": "stream_fragment",
            "raw": {
                "functionCall": {
                    "partialArgs": [{"jsonPath": "$.pier", "numberValue": 3}],
                    "willContinue": True,
                }
            },
        },
    ),
    (
        RESULT_PART,
        {
            "type": "tool_result",
            "content": "12 boats",
            "structured": {"output": "12 boats"},
            "source_type": "functionResponse",
            "extra": {"name": "count_boats"},
        },
    ),
    (
        {"functionResponse": {"id": "c1", "response": {"error": "No pier."}, "parts": [FILE]}},
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [
                {"type": "text", "text": "No pier."},
                {
                    "type": "file",
                    "mimeType": "application/pdf",
                    "source": {
                        "type": "url",
                        "media_type": "application/pdf",
                        "url": "https://files/plan.pdf",
                    },
                    "mediaClass": "document",
                    "source_type": "fileData",
                },
            ],
            "is_error": True,
            "structured": {"error": "No pier."},
            "source_type": "functionResponse",
        },
    ),
    (
        {"inline_data": {"mime_type": "image/png", "data": "iVBO", "display_name": "pier"}},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"},
            "source_type": "inline_data",
            "extra": {"display_name": "pier"},
        },
    ),
    (
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {
            "type": "tool_use",
            "name": "code_execution",
            "input": {"language": "PYTHON", "code": "print(1)"},
            "executor": "server",
            "source_type": "executableCode",
        },
    ),
    (
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "NameError"}},
        {
            "type": "tool_result",
            "content": "NameError",
            "is_error": True,
            "source_type": "codeExecutionResult",
            "extra": {"outcome": "OUTCOME_FAILED"},
        },
    ),
]


@pytest.mark.parametrize(("part", "expected"), PART_CASES)
@pytest.mark.parametrize("is_cli", [False, True])
def test_reads_parts(part: Any, expected: Line, is_cli: bool) -> None:
    record = line("user", "u1", [part]) if is_cli else content("user", part)

    message = parse_message(json.dumps(record), "gemini_cli" if is_cli else "gemini")

    assert message.model_dump(mode="json")["parsed"] == [expected]


REQUEST = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        content("user", {"text": "How many?"}),
        content("model", CALL),
        content("user", RESULT_PART),
    ],
    "tools": [{"functionDeclarations": []}],
}
COUNTS = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 40,
    "toolUsePromptTokenCount": 3,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 7,
    "totalTokenCount": 115,
}
CHUNKS = [
    response({"text": "Twelve"}, usageMetadata={"promptTokenCount": 100}, **RESPONSE_FIELDS),
    response({"text": " boats."}, usageMetadata=COUNTS, reason="STOP", **RESPONSE_FIELDS),
]
TWELVE = [("text", "Twelve"), ("text", " boats.")]
RESPONSE_METADATA = {"model": "gemini-3-pro", "messageId": "r1"}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (
            [REQUEST],
            [
                ("system", [("text", "Be brief.")]),
                ("user", [("text", "How many?")]),
                ("assistant", [("tool_use", "count_boats")]),
                ("user", [("tool_result", "12 boats")]),
            ],
        ),
        (
            CHUNKS,
            [("assistant", TWELVE, RESPONSE_METADATA | {"stop_reason": "STOP", "usage": (63, 12, 40, 7)})],
        ),
        (
            [response({"text": "Twelve"}), response({"text": " boats."}, reason="STOP")],
            [("assistant", TWELVE, {"stop_reason": "STOP"})],
        ),
        (
            [response({"text": "One"}, responseId="a"), response({"text": "Two"}, responseId="b")],
            [
                ("assistant", [("text", "One")], {"messageId": "a"}),
                ("assistant", [("text", "Two")], {"messageId": "b"}),
            ],
        ),
        (
            [{"promptFeedback": {"blockReason": "SAFETY"}}],
            [("assistant", [], {"error": "SAFETY"})],
        ),
        (
            [{"candidates": [{"finishReason": "RECITATION"}]}],
            [("assistant", [], {"stop_reason": "RECITATION", "error": "RECITATION"})],
        ),
        (
            [response({"text": "Tw"}, reason="MAX_TOKENS")],
            [("assistant", [("text", "Tw")], {"stop_reason": "MAX_TOKENS"})],
        ),
        (
            [{"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}],
            [("system", [("text", "Slow down.")], {"error": "RESOURCE_EXHAUSTED"})],
        ),
        (
            [
                {
                    **INTERACTION,
                    "input": "How many?",
                    "steps": [
                        {"type": "thought", "signature": "c2ln"},
                        {"type": "function_call", "id": "c1", "name": "count", "arguments": {"pier": 3}},
                        {"type": "function_result", "call_id": "c1", "result": "12"},
                        {"type": "google_search_call", "id": "g1", "arguments": {"queries": ["boats"]}},
                        {
                            "type": "google_search_result",
                            "call_id": "g1",
                            "result": [{"url": "https://boats"}],
                        },
                        {"type": "model_output", "content": [{"type": "text", "text": "Twelve."}]},
                    ],
                    "usage": {
                        "total_input_tokens": 9,
                        "total_cached_tokens": 4,
                        "total_output_tokens": 2,
                        "total_thought_tokens": 3,
                    },
                }
            ],
            [
                ("user", [("text", "How many?")]),
                (
                    "assistant",
                    [("thinking", ""), ("tool_use", "count")],
                    {"model": "gemini-3-flash"},
                ),
                ("user", [("tool_result", "12")]),
                (
                    "assistant",
                    [
                        ("tool_use", "google_search"),
                        ("tool_result", [{"url": "https://boats"}]),
                        ("text", "Twelve."),
                    ],
                    {
                        "model": "gemini-3-flash",
                        "messageId": "v1_7",
                        "stop_reason": "completed",
                        "usage": (5, 5, 4, 3),
                    },
                ),
            ],
        ),
        (
            [{**INTERACTION, "status": "failed", "steps": []}],
            [
                (
                    "assistant",
                    [],
                    {
                        "model": "gemini-3-flash",
                        "messageId": "v1_7",
                        "stop_reason": "failed",
                        "error": "failed",
                    },
                )
            ],
        ),
    ],
)
def test_api_messages(records: list[Line], expected: list[Any]) -> None:
    assert short_messages(*records, source="gemini") == expected


PROMPT = line("user", "u1", [{"text": "What is there?"}])
RUNNING_CALL = line(
    "gemini", "a1", thoughts=[THOUGHT], toolCalls=[call("ls-1", "executing", **LS)], model="gemini-3-pro"
)
DONE = RUNNING_CALL | {"toolCalls": [call("ls-1", "success", **LS, result=LS_RESULT)], "tokens": TOKENS}
TEXT_MESSAGE = line("gemini", "a2", "One file.", model="gemini-3-pro")
THINKING = ("thinking", "**Looking**\n\nI list the folder.")
A1_METADATA = {"model": "gemini-3-pro", "messageId": "a1"}
A2_METADATA = {"model": "gemini-3-pro", "messageId": "a2"}
TURN = [
    ("user", [("text", "What is there?")]),
    ("assistant", [THINKING, ("tool_use", "ls")], A1_METADATA | {"usage": (63, 12, 40, 7)}),
    ("user", [("tool_result", "a.txt")]),
    ("assistant", [("text", "One file.")], A2_METADATA),
]
RETRACTED = {"retracted": True}
LIMIT_RESULT = event("result", status="error", error={"type": "FatalTurnLimited", "message": "Stop."})


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([HEADER, PROMPT, RUNNING_CALL, {"$set": {"summary": "Files"}}, DONE, TEXT_MESSAGE], TURN),
        ([{**HEADER, "messages": [PROMPT, DONE, TEXT_MESSAGE]}], TURN),
        (
            [
                HEADER,
                PROMPT,
                TEXT_MESSAGE,
                line("user", "u2", "And now?"),
                line("info", "i1", "Off."),
                {"$rewindTo": "u2"},
            ],
            [
                ("user", [("text", "What is there?")]),
                ("assistant", [("text", "One file.")], A2_METADATA),
                ("user", [("text", "And now?")], RETRACTED),
                ("system", [("text", "Off.")], RETRACTED),
            ],
        ),
        (
            [HEADER, PROMPT, TEXT_MESSAGE, {"$rewindTo": "unknown"}, line("user", "u3", "Again.")],
            [
                ("user", [("text", "What is there?")], RETRACTED),
                ("assistant", [("text", "One file.")], A2_METADATA | RETRACTED),
                ("user", [("text", "Again.")]),
            ],
        ),
        (
            [
                line(
                    "gemini",
                    "a1",
                    toolCalls=[call("ls-1", "cancelled", **LS, result=None, resultDisplay="Cancelled.")],
                )
            ],
            [
                ("assistant", [("tool_use", "ls")], {"messageId": "a1"}),
                ("user", [("tool_result", "Cancelled.")]),
            ],
        ),
        ([line("error", "e1", "No quota.")], [("system", [("text", "No quota.")], {"error": "error"})]),
        (
            [
                event("init", session_id="s1", model="gemini-3-pro"),
                event("message", role="user", content="What is there?"),
                event("message", role="assistant", content="I ", delta=True),
                event("message", role="assistant", content="look.", delta=True),
                event("tool_use", tool_id="t1", tool_name="ls", parameters={}),
                event("tool_result", tool_id="t1", status="error", error={"type": "x", "message": "Denied."}),
                event("message", role="assistant", content="Denied.", delta=True),
                event("result", status="success", stats=STATS),
            ],
            [
                ("user", [("text", "What is there?")]),
                (
                    "assistant",
                    [("text", "I "), ("text", "look."), ("tool_use", "ls")],
                    {"model": "gemini-3-pro"},
                ),
                ("user", [("tool_result", "Denied.")]),
                (
                    "assistant",
                    [("text", "Denied.")],
                    {"model": "gemini-3-pro", "usage": (40, 20, 60, None)},
                ),
            ],
        ),
        (
            [
                event("error", severity="warning", message="Loop."),
                event("error", severity="error", message="Too many turns."),
                LIMIT_RESULT,
            ],
            [
                ("system", [("text", "Loop.")]),
                ("system", [("text", "Too many turns.")], {"error": "error"}),
                ("system", [("raw", LIMIT_RESULT)], {"error": "FatalTurnLimited"}),
            ],
        ),
        (
            [
                {
                    "response": "One file.",
                    "stats": {
                        "models": {"gemini-3-pro": {"tokens": {"prompt": 9, "candidates": 2, "thoughts": 1}}}
                    },
                }
            ],
            [("assistant", [("text", "One file.")], {"model": "gemini-3-pro", "usage": (9, 3, None, 1)})],
        ),
    ],
)
def test_cli_messages(records: list[Line], expected: list[Any]) -> None:
    assert short_messages(*records, source="gemini_cli") == expected


@pytest.mark.parametrize(
    ("source", "record", "expected"),
    [
        (
            "gemini",
            CHUNKS[0] | {"createTime": "2026-03-02T08:15:00.5Z"},
            (1772439300500, None, "gemini-3-pro", None),
        ),
        (
            "gemini",
            INTERACTION | {"created": "2026-03-02T08:15:00Z"},
            (1772439300000, None, "gemini-3-flash", None),
        ),
        ("gemini_cli", HEADER, (1772439240000, "s1", None, None)),
        ("gemini_cli", {"$set": {"summary": "Files", "lastUpdated": 5}}, (None, None, None, "Files")),
        ("gemini_cli", DONE, (1772439300000, None, "gemini-3-pro", None)),
    ],
)
def test_facts(source: str, record: Line, expected: tuple[Any, ...]) -> None:
    facts = PROVIDERS[source].header(record)

    assert (facts.timestamp, facts.session_id, facts.model, facts.title) == expected
    assert facts.uuid is None
