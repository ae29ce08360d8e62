"""Events of the Gemini API: complete responses and stream chunks."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from ash_shared.eventlog import Context, Normalizer
from ash_shared.model.events import read_event
from ash_shared.records.json_fields import set_json_path
from tests.shared.records.gemini import content, response
from tests.shared.sample_files import CORPUS
from tests.shared.texts import texts_of

Short = tuple[Any, ...]


def events_of(texts: list[str], source: str | None = None, *, ends: bool = True) -> list[dict[str, Any]]:
    """Return the events of lines; each line is read by a new normaliser restored from the saved state."""
    ids = count(1)
    context = Context("session", lambda: f"e{next(ids)}", lambda: 7)
    state, events = None, []
    for text in texts:
        normalizer = Normalizer(source, state=state)
        events += normalizer.normalize(text, context)
        state = normalizer.state()
    events += Normalizer(source, state=state).end(context) if ends else []
    return [event.model_dump(mode="json", by_alias=True) for event in events]


def short_events(*records: Any, source: str | None = None, ends: bool = True) -> list[Short]:
    """Return each event as type, payload and, if any, its response id."""
    events = events_of([json.dumps(record) for record in records], source, ends=ends)
    return list(map(short_event, in_turns(events)))


def in_turns(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events, checking that each belongs to the open turn."""
    turn = None
    for event in events:
        if event["type"] == "turn_start":
            assert turn is None
            turn = event["turnId"]
        assert event.get("turnId") == turn, event
        yield event
        if event["type"] == "turn_end":
            turn = None


def short_event(event: dict[str, Any]) -> Short:
    payload = dict(event["payload"])
    if "usage" in payload:
        payload["usage"] = (payload["usage"]["input_tokens"], payload["usage"]["output_tokens"])
    if event["type"] == "error":
        payload.pop("details", None)
    response = event.get("responseId")
    return (event["type"], payload) if response is None else (event["type"], payload, response)


def chunk(*parts: Any, usage: tuple[int, int] | None = None, **more: Any) -> dict[str, Any]:
    """Return a response with a usage of two counts."""
    counts = {} if usage is None else {"promptTokenCount": usage[0], "candidatesTokenCount": usage[1]}
    return response(*parts, **more) | ({"usageMetadata": counts} if counts else {})


def text_part(text: str) -> dict[str, Any]:
    return {"text": text}


def thought_part(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "thought": True, **more}


def call_part(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}}


def argument_part(*args: dict[str, Any], will_continue: bool = True) -> dict[str, Any]:
    return {"functionCall": {"partialArgs": list(args), **({"willContinue": True} if will_continue else {})}}


BEGIN: Short = ("turn_start", {"trigger": "system"})
PROMPT = content("user", {"text": "Which harbour?"})
PROMPT_EVENTS: list[Short] = [
    ("turn_start", {"trigger": "user"}),
    ("user_message", {"text": "Which harbour?"}),
]
END: Short = ("turn_end", {})

TABLE: dict[str, tuple[list[Any], list[Short]]] = {
    "complete response": (
        [
            PROMPT,
            chunk(thought_part("Near."), text_part("Oslo"), reason="STOP", usage=(9, 4), responseId="r1"),
        ],
        [
            *PROMPT_EVENTS,
            ("thinking_done", {"text": "Near."}, "r1"),
            ("assistant_done", {"text": "Oslo", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (9, 4)}),
        ],
    ),
    "stream": (
        [
            PROMPT,
            chunk(thought_part("Ne"), responseId="r1", usage=(9, 1)),
            chunk(thought_part("ar."), text_part("Os"), responseId="r1", usage=(9, 2)),
            chunk(text_part("lo"), reason="STOP", responseId="r1", usage=(9, 4)),
        ],
        [
            *PROMPT_EVENTS,
            ("thinking_chunk", {"text": "Ne"}, "r1"),
            ("thinking_chunk", {"text": "ar."}, "r1"),
            ("thinking_done", {"text": "Near."}, "r1"),
            ("assistant_chunk", {"text": "Os"}, "r1"),
            ("assistant_chunk", {"text": "lo"}, "r1"),
            ("assistant_done", {"text": "Oslo", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (9, 4)}),
        ],
    ),
    "stream without an id counts its last chunk": (
        [chunk(text_part("a"), usage=(5, 1)), chunk(text_part("b"), reason="STOP", usage=(5, 2))],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}),
            ("assistant_chunk", {"text": "b"}),
            ("assistant_done", {"text": "ab", "stopReason": "STOP"}),
            ("turn_end", {"usage": (5, 2)}),
        ],
    ),
    "the first models report a stop in every chunk": (
        [chunk(text_part("a"), reason="STOP"), chunk(text_part("b"), reason="STOP"), PROMPT],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}),
            ("assistant_chunk", {"text": "b"}),
            ("assistant_done", {"text": "ab", "stopReason": "STOP"}),
            END,
            *PROMPT_EVENTS,
            END,
        ],
    ),
    "a text that may continue, and a tool result": (
        [
            chunk(
                call_part("tide", id="c1"), text_part("I look."), reason="STOP", responseId="r1", usage=(1, 1)
            ),
            chunk(text_part("Hm."), reason="STOP"),
            {"parts": [{"functionResponse": {"name": "tide", "id": "c1", "response": {"output": "low"}}}]},
        ],
        [
            BEGIN,
            ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {}}, "r1"),
            ("assistant_done", {"text": "I look.", "stopReason": "STOP"}, "r1"),
            ("assistant_chunk", {"text": "Hm."}),
            ("assistant_done", {"text": "Hm.", "stopReason": "STOP"}),
            ("tool_result", {"toolCallId": "c1", "result": "low", "structured": {"output": "low"}}),
            ("turn_end", {"usage": (1, 1)}),
        ],
    ),
    "usage in a separate record": (
        [
            chunk(text_part("a"), reason="STOP", responseId="r1"),
            {"usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 2}, "responseId": "r1"},
        ],
        [
            BEGIN,
            ("assistant_done", {"text": "a", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (5, 2)}),
        ],
    ),
    "call, response and the rest are one turn": (
        [
            PROMPT,
            chunk(call_part("tide", args={"at": "Oslo"}), responseId="r1"),
            chunk(text_part(""), reason="STOP", responseId="r1", usage=(9, 4)),
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "tide", "response": {"output": "low"}}}],
            },
            chunk(text_part("Low."), reason="STOP", responseId="r2", usage=(19, 2)),
        ],
        [
            *PROMPT_EVENTS,
            ("tool_call", {"toolCallId": "e3", "toolName": "tide", "args": {"at": "Oslo"}}, "r1"),
            ("tool_result", {"toolCallId": "e3", "result": "low", "structured": {"output": "low"}}),
            ("assistant_done", {"text": "Low.", "stopReason": "STOP"}, "r2"),
            ("turn_end", {"usage": (28, 6)}),
        ],
    ),
    "responses without ids go to the open calls of their name, in order": (
        [
            chunk(
                call_part("tide", args={"at": "A"}),
                call_part("wind"),
                call_part("tide", args={"at": "B"}),
                reason="STOP",
            ),
            {
                "contents": [
                    {
                        "role": "user",
                        "parts": [
                            {"functionResponse": {"name": "tide", "response": {"result": "a"}}},
                            {"functionResponse": {"name": "tide", "response": {"error": "b"}}},
                            {"functionResponse": {"name": "wind", "response": {}}},
                        ],
                    }
                ]
            },
        ],
        [
            BEGIN,
            ("tool_call", {"toolCallId": "e2", "toolName": "tide", "args": {"at": "A"}}),
            ("tool_call", {"toolCallId": "e3", "toolName": "wind", "args": {}}),
            ("tool_call", {"toolCallId": "e4", "toolName": "tide", "args": {"at": "B"}}),
            ("tool_result", {"toolCallId": "e2", "result": "a", "structured": {"result": "a"}}),
            (
                "tool_result",
                {
                    "toolCallId": "e4",
                    "result": "b",
                    "error": {"code": "error", "message": "b"},
                    "structured": {"error": "b"},
                },
            ),
            ("tool_result", {"toolCallId": "e3", "result": None, "structured": {}}),
            END,
        ],
    ),
    "text after a call": (
        [
            chunk(text_part("a")),
            chunk(call_part("tide", id="c1")),
            chunk(text_part("b")),
            chunk(text_part("c"), reason="STOP", usage=(1, 1)),
        ],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}),
            ("assistant_done", {"text": "a"}),
            ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {}}),
            ("assistant_chunk", {"text": "b"}),
            ("assistant_chunk", {"text": "c"}),
            ("assistant_done", {"text": "bc", "stopReason": "STOP"}),
            ("turn_end", {"usage": (1, 1), "partial": True}),
        ],
    ),
    "arguments value by value": (
        [
            chunk({"functionCall": {"name": "tide", "id": "c1", "willContinue": True}}, responseId="r1"),
            chunk(
                argument_part({"jsonPath": "$.at", "stringValue": "Os", "willContinue": True}),
                responseId="r1",
            ),
            chunk(argument_part({"jsonPath": "$.at", "stringValue": "lo"}), responseId="r1"),
            chunk(
                argument_part(
                    {"jsonPath": "$.days[0].n", "numberValue": 2},
                    {"jsonPath": "$.days[1]['is here']", "boolValue": False},
                    {"json_path": "$.none", "null_value": "NULL_VALUE"},
                ),
                responseId="r1",
            ),
            chunk({"functionCall": {}}, responseId="r1"),
            chunk({"functionCall": {"name": "wind", "willContinue": True}}, responseId="r1"),
            chunk(
                argument_part({"jsonPath": "$.at", "stringValue": "Ås"}, will_continue=False), responseId="r1"
            ),
            chunk({"functionCall": {"name": "moon", "willContinue": True}}, responseId="r1"),
            chunk(reason="STOP", responseId="r1", usage=(2, 3)),
        ],
        [
            BEGIN,
            *(
                (
                    "tool_input_chunk",
                    {"toolCallId": "c1", "toolName": "tide", "chunk": text, "offset": offset},
                    "r1",
                )
                for text, offset in (
                    ('{"at":"Os', 0),
                    ("lo", 9),
                    ('","days":[{"n":2', 11),
                    ('},{"is here":false', 27),
                    ('}],"none":null', 45),
                )
            ),
            (
                "tool_call",
                {
                    "toolCallId": "c1",
                    "toolName": "tide",
                    "args": {"at": "Oslo", "days": [{"n": 2}, {"is here": False}], "none": None},
                },
                "r1",
            ),
            (
                "tool_input_chunk",
                {"toolCallId": "e8", "toolName": "wind", "chunk": '{"at":"Ås', "offset": 0},
                "r1",
            ),
            ("tool_call", {"toolCallId": "e8", "toolName": "wind", "args": {"at": "Ås"}}, "r1"),
            ("tool_call", {"toolCallId": "e11", "toolName": "moon", "args": {}}, "r1"),
            ("turn_end", {"usage": (2, 3), "partial": True}),
        ],
    ),
    "unfinished arguments": (
        [
            chunk({"functionCall": {"name": "tide", "willContinue": True}}, responseId="r1"),
            chunk(
                argument_part({"jsonPath": "$.at", "stringValue": "Os", "willContinue": True}),
                responseId="r1",
            ),
        ],
        [
            BEGIN,
            (
                "tool_input_chunk",
                {"toolCallId": "e2", "toolName": "tide", "chunk": '{"at":"Os', "offset": 0},
                "r1",
            ),
            (
                "tool_call",
                {"toolCallId": "e2", "toolName": "tide", "args": {"at": "Os"}, "partial": True},
                "r1",
            ),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "code that ran at Google": (
        [
            chunk(call_part("tide"), responseId="r1"),
            chunk({"executableCode": {"language": "PYTHON", "code": "1+1"}}, responseId="r1"),
            chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}, responseId="r1"),
            chunk({"inlineData": {"mimeType": "image/png", "data": "AA=="}}, reason="STOP", responseId="r1"),
        ],
        [
            BEGIN,
            ("tool_call", {"toolCallId": "e2", "toolName": "tide", "args": {}}, "r1"),
            (
                "tool_call",
                {
                    "toolCallId": "e3",
                    "toolName": "code_execution",
                    "args": {"language": "PYTHON", "code": "1+1"},
                    "executor": "server",
                },
                "r1",
            ),
            ("tool_result", {"toolCallId": "e3", "result": "2"}),
            (
                "assistant_done",
                {
                    "text": "",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
                            "source_type": "inlineData",
                        }
                    ],
                },
                "r1",
            ),
            ("turn_end", {"partial": True}),
        ],
    ),
    "code without an outcome does not keep the turn open": (
        [
            chunk(
                {"executableCode": {"code": "1"}},
                text_part("a"),
                reason="STOP",
                usage=(1, 1),
                responseId="r1",
            ),
            chunk(text_part("b"), reason="STOP", usage=(2, 2), responseId="r2"),
        ],
        [
            BEGIN,
            (
                "tool_call",
                {
                    "toolCallId": "e2",
                    "toolName": "code_execution",
                    "args": {"code": "1"},
                    "executor": "server",
                },
                "r1",
            ),
            ("assistant_done", {"text": "a", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (1, 1)}),
            BEGIN,
            ("assistant_done", {"text": "b", "stopReason": "STOP"}, "r2"),
            ("turn_end", {"usage": (2, 2)}),
        ],
    ),
    "signatures": (
        [
            chunk(thought_part("a", thoughtSignature="S"), responseId="r1"),
            chunk(thought_part("b"), responseId="r1"),
            chunk(text_part("c"), responseId="r1"),
            chunk({"text": "", "thoughtSignature": "T"}, {}, reason="STOP", responseId="r1", usage=(1, 1)),
        ],
        [
            BEGIN,
            ("thinking_chunk", {"text": "a"}, "r1"),
            ("thinking_done", {"text": "a", "signature": "S"}, "r1"),
            ("thinking_chunk", {"text": "b"}, "r1"),
            ("thinking_done", {"text": "b"}, "r1"),
            ("assistant_chunk", {"text": "c"}, "r1"),
            ("assistant_done", {"text": "c", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (1, 1)}),
        ],
    ),
    "error finish reasons": (
        [
            chunk(text_part("a"), responseId="r1"),
            {"candidates": [{"finishReason": "SAFETY"}], "responseId": "r1"},
            {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "No such tool"}]},
            chunk(text_part("b"), reason="A_REASON_OF_TOMORROW"),
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        ],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}, "r1"),
            ("assistant_done", {"text": "a", "stopReason": "SAFETY"}, "r1"),
            ("error", {"code": "SAFETY", "message": "SAFETY"}),
            END,
            BEGIN,
            ("error", {"code": "MALFORMED_FUNCTION_CALL", "message": "No such tool"}),
            END,
            BEGIN,
            ("assistant_done", {"text": "b", "stopReason": "A_REASON_OF_TOMORROW"}),
            ("error", {"code": "A_REASON_OF_TOMORROW", "message": "A_REASON_OF_TOMORROW"}),
            END,
            BEGIN,
            ("error", {"code": "PROHIBITED_CONTENT", "message": "PROHIBITED_CONTENT"}),
            END,
        ],
    ),
    "a numeric finish reason": (
        [chunk(text_part("a"), reason=1, usage=(1, 1))],
        [BEGIN, ("assistant_done", {"text": "a"}), ("turn_end", {"usage": (1, 1)})],
    ),
    "snake case keys of an SDK": (
        [
            {
                "candidates": [{"content": {"parts": [{"text": "a"}]}, "finish_reason": None}],
                "response_id": "r1",
            },
            {
                "candidates": [{"content": {"parts": [{"text": "b"}]}, "finish_reason": "MAX_TOKENS"}],
                "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 1},
                "response_id": "r1",
            },
        ],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}, "r1"),
            ("assistant_chunk", {"text": "b"}, "r1"),
            ("assistant_done", {"text": "ab", "stopReason": "MAX_TOKENS"}, "r1"),
            ("turn_end", {"usage": (3, 1)}),
        ],
    ),
    "several candidates": (
        [
            {
                "candidates": [
                    {"content": {"parts": [{"text": "a"}]}},
                    {"content": {"parts": [{"text": "x"}]}, "index": 1},
                ],
                "responseId": "r1",
            },
            {
                "candidates": [
                    {"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"},
                    {"content": {"parts": [{"text": "y"}]}, "finishReason": "STOP", "index": 1},
                ],
                "responseId": "r1",
                "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1},
            },
        ],
        [
            BEGIN,
            *(("assistant_chunk", {"text": text}, "r1") for text in "axby"),
            ("assistant_done", {"text": "ab", "stopReason": "STOP"}, "r1"),
            ("assistant_done", {"text": "xy", "stopReason": "STOP"}, "r1"),
            ("turn_end", {"usage": (3, 1)}),
        ],
    ),
    "an abandoned stream, and the next one": (
        [
            chunk(text_part("a"), responseId="r1"),
            chunk(text_part("b"), responseId="r2"),
            chunk(text_part("c"), reason="STOP", responseId="r2", usage=(1, 1)),
        ],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}, "r1"),
            ("assistant_done", {"text": "a", "partial": True}, "r1"),
            ("assistant_chunk", {"text": "b"}, "r2"),
            ("assistant_chunk", {"text": "c"}, "r2"),
            ("assistant_done", {"text": "bc", "stopReason": "STOP"}, "r2"),
            ("turn_end", {"usage": (1, 1)}),
        ],
    ),
    "an error during a stream": (
        [
            chunk(text_part("a"), responseId="r1"),
            {"error": {"code": 503, "message": "Come back later", "status": "UNAVAILABLE"}},
        ],
        [
            BEGIN,
            ("assistant_chunk", {"text": "a"}, "r1"),
            ("error", {"code": "UNAVAILABLE", "message": "Come back later"}),
            ("assistant_done", {"text": "a", "partial": True}, "r1"),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "candidates without content": (
        [{"candidates": [{"index": 0}]}, {"candidates": [{"content": {"role": "model"}, "index": 0}]}],
        [],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_response_events(name: str) -> None:
    records, expected = TABLE[name]

    assert short_events(*records) == expected


def test_reads_a_list_like_single_records() -> None:
    records = TABLE["stream"][0]

    assert short_events(records) == short_events(*records)


def test_complete_response_ends_its_turn() -> None:
    records, expected = TABLE["complete response"]

    assert short_events(*records, ends=False) == expected


@pytest.mark.parametrize("last", [{"functionCall": {}}, argument_part(will_continue=False)])
def test_emits_call_when_arguments_are_complete(last: Any) -> None:
    first = {"functionCall": {"name": "tide", "id": "c1", "willContinue": True}}

    events = short_events(chunk(first), chunk(last), ends=False)

    assert events == [BEGIN, ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {}})]


@pytest.mark.parametrize(
    ("arguments_before", "path", "value", "arguments"),
    [
        ("", "$.a", "x", {"a": "x"}),
        ({"a": 'x"'}, "$.a", "}", {"a": 'x"}'}),
        ({"a": "x"}, "$.a", 1, {"a": 1}),
        ({"a": 1}, "$.a.b", None, {"a": {"b": None}}),
        ({}, "$[2]", "x", {"$[2]": "x"}),
        ({}, "$.a[1]", "x", {"a": ["x"]}),
        ({"a": [1, 2]}, "$.a[0]", 3, {"a": [3, 2]}),
        ({}, "$.a[99999]", "x", {"$.a[99999]": "x"}),
        ({}, "$..a", "x", {"$..a": "x"}),
        ({}, "$[\"a b\"]['c']", "é", {"a b": {"c": "é"}}),
    ],
)
def test_sets_value_at_json_path(arguments_before: Any, path: str, value: Any, arguments: Any) -> None:
    assert set_json_path(arguments_before, path, value) == arguments


def _streams() -> list[Any]:
    folder = CORPUS / "gemini_api_stream"
    if not folder.is_dir():
        return [
            pytest.param(None, marks=pytest.mark.skip(reason="no ../shared/corpus next to the repository"))
        ]
    return [pytest.param(path, id=path.stem) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("path", _streams())
def test_chunks_join_to_the_complete_texts(path: Any) -> None:
    events = events_of(
        [text for location, text in texts_of(path.parent) if location.startswith(f"{path.name}:")]
    )

    list(in_turns(events))
    chunk_text = "".join(event["payload"]["text"] for event in events if event["type"] == "assistant_chunk")
    texts = "".join(event["payload"]["text"] for event in events if event["type"] == "assistant_done")
    responses = [event["payload"]["text"] for event in events if event["type"] == "assistant_done"]
    assert chunk_text in texts
    assert len(responses) <= 3
    assert all(event["payload"]["args"].__class__ is dict for event in events if event["type"] == "tool_call")
    assert [read_event(event).type for event in events] == [event["type"] for event in events]
