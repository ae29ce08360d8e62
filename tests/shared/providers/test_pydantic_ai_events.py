"""Events of messages of Pydantic AI, and of the entries of its conversation stores."""

from typing import Any

import pytest

from ash_shared import parse_message
from tests.shared.logs import follow, short_events
from tests.shared.records.pydantic_ai import USAGE, entry, prompt, request, response, result, text
from tests.shared.transcripts import lines, short_messages

Record = dict[str, Any]
CALL = {"tool_name": "tide", "args": '{"day": 3}', "tool_call_id": "c1", "part_kind": "tool-call"}


def end(input: int, output: int, **more: Any) -> tuple[str, Record]:
    usage = {"input_tokens": input, "output_tokens": output, "total_tokens": input + output}
    return "turn_end", {"usage": usage | more}


START = ("turn_start", {"trigger": "user"})
ASKED = ("user_message", {"text": "When is high water?"})
CALLED = ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {"day": 3}}, "r1")


def test_turn_ends_with_an_answer_without_calls() -> None:
    events = follow(
        [
            request({"content": "Be brief.", "part_kind": "system-prompt"}, prompt("When is high water?")),
            response(
                {"content": "Hm.", "signature": "s", "part_kind": "thinking"}, CALL, provider_response_id="r1"
            ),
            request(result("09:10", outcome="success")),
            response(text("At ten past nine."), provider_response_id="r2"),
        ]
    )

    assert short_events(events) == [
        ("system_message", {"text": "Be brief."}),
        START,
        ASKED,
        ("thinking_done", {"text": "Hm.", "signature": "s"}, "r1"),
        CALLED,
        ("tool_result", {"toolCallId": "c1", "result": "09:10"}),
        ("assistant_done", {"text": "At ten past nine."}, "r2"),
        end(20, 4),
    ]


@pytest.mark.parametrize(
    ("part", "payload"),
    [
        (result({"at": "09:10"}), {"result": None, "structured": {"at": "09:10"}}),
        (
            result("No.", outcome="denied"),
            {"result": "No.", "error": {"code": "error", "message": "No."}},
        ),
        (
            {**result("Use a number."), "part_kind": "retry-prompt"},
            {"result": "Use a number.", "error": {"code": "error", "message": "Use a number."}},
        ),
    ],
    ids=["json", "denied", "retry"],
)
def test_result(part: Record, payload: Record) -> None:
    events = follow(
        [request(prompt("When is high water?")), response(CALL, provider_response_id="r1"), request(part)]
    )

    assert short_events(events) == [START, ASKED, CALLED, ("tool_result", {"toolCallId": "c1", **payload})]


def test_vendor_runs_its_tools() -> None:
    call = {**CALL, "part_kind": "builtin-tool-call", "tool_name": "web_search"}
    returned = {**result(["a"]), "part_kind": "builtin-tool-return"}
    events = follow([request(prompt("When is high water?")), response(call, returned, text("At ten."))])

    assert short_events(events)[2:] == [
        (
            "tool_call",
            {"toolCallId": "c1", "toolName": "web_search", "args": {"day": 3}, "executor": "server"},
        ),
        ("tool_result", {"toolCallId": "c1", "result": None, "structured": ["a"]}),
        ("assistant_done", {"text": "At ten."}),
        end(10, 2, vendor=USAGE),
    ]


@pytest.mark.parametrize(
    ("state", "last"),
    [
        ("suspended", []),
        ("interrupted", [end(10, 2, vendor=USAGE)]),
    ],
)
def test_answer_that_was_not_finished(state: str, last: list[Any]) -> None:
    events = follow([request(prompt("When is high water?")), response(text("At"), state=state)])

    assert short_events(events)[3:] == last


def test_refused_answer_is_an_error() -> None:
    events = follow([request(prompt("When is high water?")), response(finish_reason="content_filter")])

    assert ("error", {"code": "content_filter", "message": "content_filter"}) in short_events(events)


def test_copied_entries_have_no_usage() -> None:
    events = follow(
        [
            entry("e1", None, request(prompt("When is high water?")), copied_from="c0"),
            entry("e2", "e1", response(text("At ten.")), copied_from="c0"),
            entry("e3", "e2", request(prompt("Sure?"))),
            entry("e4", "e3", response(text("Yes."))),
        ]
    )

    assert [event for event in short_events(events) if event[0] == "turn_end"] == [
        ("turn_end", {}),
        end(10, 2, vendor=USAGE),
    ]


def test_branch_retracts_what_followed_the_same_entry() -> None:
    events = follow(
        [
            entry("e1", None, request(prompt("When is high water?"))),
            entry("e2", "e1", response(text("At ten."))),
            entry("e3", "e2", request(prompt("Sure?"))),
            entry("e4", "e3", response(text("Yes."))),
            entry("e5", "e2", request(prompt("Why?"))),
            entry("e6", "e5", response(text("The moon."))),
            entry("e7", "e5", response(text("The sun."))),
        ]
    )

    assert [event for event in short_events(events) if event[0] in ("retraction", "assistant_done")] == [
        ("assistant_done", {"text": "At ten."}),
        ("assistant_done", {"text": "Yes."}),
        ("retraction", {"fromMessageId": "e3"}),
        ("assistant_done", {"text": "The moon."}),
        ("retraction", {"fromMessageId": "e6"}),
        ("assistant_done", {"text": "The sun."}),
    ]


def test_records_and_changes_of_the_setting_give_no_event() -> None:
    record = {"conversation_id": "c1", "head_id": "e1", "revision": "v1", "format_version": 1}
    change = {"settings": {"thinking": "high"}, "part_kind": "model-settings-delta"}

    assert follow([record, request(change), request()]) == []


def test_unknown_parts_are_raw_events() -> None:
    part = {"part_kind": "scent", "content": "salt"}

    assert short_events(follow([request(part)])) == [("raw", {"source": "pydantic_ai", "raw": part})]


def part_event(kind: str, index: int, part: Record, **more: Any) -> Record:
    return {"index": index, "part": part, "event_kind": kind, **more}


def delta(index: int, **delta: Any) -> Record:
    return {"index": index, "delta": delta, "event_kind": "part_delta"}


STREAM = [
    part_event("part_start", 0, {**CALL, "args": '{"da'}),
    delta(0, args_delta='y": 3}', part_delta_kind="tool_call"),
    part_event("part_end", 0, CALL, next_part_kind=None),
    {"part": CALL, "args_valid": True, "event_kind": "function_tool_call"},
    {"part": result("09:10"), "content": ["Add an hour."], "event_kind": "function_tool_result"},
    part_event("part_start", 0, {"content": "", "part_kind": "thinking"}),
    part_event("part_end", 0, {"content": "", "part_kind": "thinking"}, next_part_kind="text"),
    part_event("part_start", 1, text("At "), previous_part_kind="thinking"),
    {"tool_name": None, "tool_call_id": None, "event_kind": "final_result"},
    delta(1, content_delta="ten.", part_delta_kind="text"),
    part_event("part_end", 1, text("At ten."), next_part_kind=None),
    {"result": {"messages": [], "usage": USAGE, "conversation_id": "s1"}, "event_kind": "agent_run_result"},
]


def test_events_of_a_run() -> None:
    assert short_events(follow(STREAM)) == [
        ("turn_start", {"trigger": "system"}),
        ("tool_input_chunk", {"chunk": '{"da', "offset": 0, "toolCallId": "c1", "toolName": "tide"}),
        ("tool_input_chunk", {"chunk": 'y": 3}', "offset": 4, "toolCallId": "c1", "toolName": "tide"}),
        CALLED[:2],
        ("tool_result", {"toolCallId": "c1", "result": "09:10"}),
        ("user_message", {"text": "Add an hour.", "synthetic": True}),
        ("thinking_done", {"text": ""}),
        ("assistant_chunk", {"text": "At "}),
        ("assistant_chunk", {"text": "ten."}),
        ("assistant_done", {"text": "At ten."}),
        end(10, 2, vendor=USAGE),
    ]


def test_messages_of_the_events_of_a_run() -> None:
    assert short_messages(*STREAM) == [
        ("assistant", [("tool_use", "tide")]),
        ("user", [("tool_result", "09:10"), ("text", "Add an hour.")], {"synthetic": True}),
        ("assistant", [("thinking", ""), ("text", "At ten.")], {"usage": (10, 2, None, None)}),
    ]
    assert {parse_message(line).source for line in lines(*STREAM)} == {"pydantic_ai"}
