"""Messages of Pydantic AI, entries and records of its conversation stores, and their standard messages."""

import json
from functools import partial
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers import discover
from ash_shared.providers.pydantic_ai import PROVIDER
from tests.shared.records import pydantic_ai
from tests.shared.records.pydantic_ai import entry, prompt
from tests.shared.transcripts import short_messages

Record = dict[str, Any]
TIME, MILLISECONDS = "2026-11-02T09:00:00Z", 1_793_610_000_000
USAGE: Record = {
    "input_tokens": 120,
    "cache_write_tokens": 10,
    "cache_read_tokens": 80,
    "output_tokens": 30,
    "output_reasoning_tokens": 0,
    "details": {"reasoning_tokens": 9},
    "cost": None,
}


request = partial(pydantic_ai.request, timestamp=TIME)
response = partial(
    pydantic_ai.response,
    usage=USAGE,
    timestamp=TIME,
    provider_response_id=None,
    finish_reason=None,
    state="complete",
)
TEXT = {"content": "At ten.", "part_kind": "text"}
CALL = {"tool_name": "tide", "args": {"day": 3}, "tool_call_id": "c1", "part_kind": "tool-call"}
RESULT = {"tool_name": "tide", "content": "09:10", "tool_call_id": "c1", "part_kind": "tool-return"}
SYSTEM = {"content": "Be brief.", "part_kind": "system-prompt"}
IMAGE = {"data": "aGk=", "media_type": "image/png", "kind": "binary"}
CONVERSATION: Record = {
    "conversation_id": "c1",
    "head_id": "e2",
    "usage": {"requests": 1},
    "forked_from": "c0",
    "revision": "v1",
    "format_version": 1,
}


def test_turn_with_a_call() -> None:
    assert short_messages(
        request(SYSTEM, prompt("When is high water?"), instructions="Answer in one word."),
        response(
            {"content": "Hm.", "part_kind": "thinking"},
            CALL,
            provider_response_id="r1",
            finish_reason="tool_call",
        ),
        request(RESULT),
        response(TEXT, finish_reason="stop"),
    ) == [
        ("system", [("text", "Be brief.")], {"instructions": "Answer in one word."}),
        ("user", [("text", "When is high water?")], {"instructions": "Answer in one word."}),
        (
            "assistant",
            [("thinking", "Hm."), ("tool_use", "tide")],
            {"model": "m1", "messageId": "r1", "stop_reason": "tool_call", "usage": (30, 30, 80, 9)},
        ),
        ("user", [("tool_result", "09:10")]),
        (
            "assistant",
            [("text", "At ten.")],
            {"model": "m1", "stop_reason": "stop", "usage": (30, 30, 80, 9)},
        ),
    ]


def test_prompt_of_a_list_is_that_of_the_person() -> None:
    history = json.dumps([request(SYSTEM, prompt("When is high water?")), response(TEXT)])

    assert describe_message(history).prompt == "When is high water?"


def test_result_is_a_message_of_its_own() -> None:
    """The same request may also have the next prompt, or files that the tool returned."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}

    assert short_messages(request(RESULT, prompt("Sure?"))) == [
        ("user", [("tool_result", "09:10")]),
        ("user", [("text", "Sure?")]),
    ]
    assert short_messages(request(RESULT, prompt(["A chart:", IMAGE]))) == [
        ("user", [("tool_result", "09:10")]),
        ("user", [("text", "A chart:"), ("image", source)], {"synthetic": True}),
    ]


def test_program_speaks_in_the_name_of_the_user() -> None:
    retry = {"content": "Answer in JSON.", "retry": {"cause": "model_retry"}, "part_kind": "retry-feedback"}

    assert short_messages(request(retry)) == [("user", [("text", "Answer in JSON.")], {"synthetic": True})]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 5, "output_tokens": 2}, (5, 2, None, None)),
        ({"input_tokens": 5, "output_tokens": 2, "output_reasoning_tokens": 1}, (5, 2, None, 1)),
        ({"requests": 1, "request_tokens": 5, "response_tokens": 2, "details": None}, (5, 2, None, None)),
        ({"input_tokens": 0, "output_tokens": 0, "unmeasured_requests": 1}, None),
        (None, None),
    ],
    ids=str,
)
def test_usage(usage: Any, expected: Any) -> None:
    [(_, _, more)] = short_messages(response(TEXT, usage=usage))

    assert more.get("usage") == expected


@pytest.mark.parametrize(("cost", "expected"), [("0.0125", 0.0125), (0.5, 0.5), ("much", None), (None, None)])
def test_cost(cost: Any, expected: Any) -> None:
    [(_, _, more)] = short_messages(response(TEXT, usage={**USAGE, "cost": cost}))

    assert more.get("costUsd") == expected


def test_refused_answer_has_an_error() -> None:
    [(_, _, more)] = short_messages(response(finish_reason="content_filter", provider_details={"block": "x"}))

    assert more["error"] == "content_filter"


def test_entries_read_as_their_messages() -> None:
    """A copy has no usage: it counts in the conversation that the entry was copied from."""
    assert short_messages(
        entry("e1", None, request(prompt("a")), copied_from="c0"),
        entry("e2", "e1", response(TEXT), copied_from="c0"),
        entry("e3", "e2", request(prompt("b"))),
        entry("e4", "e3", response(TEXT)),
        CONVERSATION,
    ) == [
        ("user", [("text", "a")]),
        ("assistant", [("text", "At ten.")], {"model": "m1"}),
        ("user", [("text", "b")]),
        ("assistant", [("text", "At ten.")], {"model": "m1", "usage": (30, 30, 80, 9)}),
    ]


def test_later_branch_retracts_earlier_one() -> None:
    messages = short_messages(
        entry("e1", None, request(prompt("a"))),
        entry("e2", "e1", response(TEXT)),
        entry("e3", "e2", request(prompt("b"))),
        entry("e4", "e3", response(TEXT)),
        entry("e5", "e2", request(prompt("B"))),
        entry("e6", "e5", response(TEXT)),
        entry("e7", "e5", response({**TEXT, "content": "At nine."})),
    )
    retracted = [
        index for index, message in enumerate(messages) if message[2:] and message[2].get("retracted")
    ]

    assert retracted == [2, 3, 5]


def test_summary_begins_the_conversation_again() -> None:
    """The history that it replaces is not retracted."""
    summary = {"content": "About tides.", "part_kind": "compaction"}
    messages = short_messages(
        entry("e1", None, request(prompt("a"))),
        entry("e2", None, request(summary)),
        entry("e3", "e2", request(prompt("b"))),
    )

    assert [message[:2] for message in messages] == [
        ("user", [("text", "a")]),
        ("system", [("text", "About tides.")]),
        ("user", [("text", "b")]),
    ]
    assert not any(message[2:] for message in messages)


def test_facts() -> None:
    message = response(TEXT, conversation_id="c1")
    parts = {**prompt("a"), "timestamp": TIME}
    expected = RecordHeader(timestamp=MILLISECONDS, session_id="c1", model="m1")

    assert [
        PROVIDER.header(record)
        for record in [
            message,
            entry("e2", "e1", message),
            entry("e2", "e1", message, copied_from="c0"),
            request(parts, timestamp=None),
            CONVERSATION,
            {"kind": "request", "parts": 3},
        ]
    ] == [
        expected,
        expected._replace(uuid="e2"),
        expected._replace(uuid="e2", session_id=None),
        RecordHeader(timestamp=MILLISECONDS),
        RecordHeader(session_id="c1"),
        RecordHeader(),
    ]


def test_identity() -> None:
    message = request(prompt("a"), conversation_id="c1")
    body = json.dumps(message, sort_keys=True)

    assert [
        PROVIDER.identify(record)
        for record in [
            message,
            entry("e1", None, message),
            entry("e1", None, message, copied_from="c0"),
            CONVERSATION,
        ]
    ] == [
        Identity(session="c1"),
        Identity(session="c1", record="e1", body=body),
        Identity(origin="c0", record="e1", body=body),
        Identity(session="c1", origin="c0", body=""),
    ]


@pytest.mark.parametrize(
    ("record", "owners"),
    [
        (request(prompt("a")), ["pydantic_ai"]),
        (request(state="interrupted"), ["pydantic_ai"]),
        (response(TEXT), ["pydantic_ai"]),
        (entry("e1", None, request(prompt("a"))), ["pydantic_ai"]),
        (CONVERSATION, ["pydantic_ai"]),
        (request({"kind": "text", "content": "a"}), []),
        ({"kind": "request", "parts": []}, []),
        ({**request(prompt("a")), "role": "user"}, []),
        ({**request(prompt("a")), "contents": []}, []),
        ({**CONVERSATION, "messages": []}, []),
        ({"kind": "message", "message": request(prompt("a"))}, []),
        ({"id": "m", "role": "user", "parts": [{"type": "text", "text": "a"}]}, ["vercel"]),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_is_told_from_other_formats(record: Record, owners: list[str]) -> None:
    assert [source for source, provider in discover().items() if provider.recognize(record)] == owners


@pytest.mark.parametrize("value", [None, 3, "a", [], ["a"], {}, {"kind": 3}], ids=str)
def test_wrong_values_are_kept(value: Any) -> None:
    record = request(prompt("a"), {**RESULT, "content": value}, value)
    blocks = json.loads(parse_message(json.dumps(record)).model_dump_json(by_alias=True))["parsed"]

    assert [block["type"] for block in blocks] == ["text", "tool_result", "raw"]
    assert blocks[2]["raw"] == value
