"""Events of messages of Pydantic AI, and of the entries of its conversation stores."""

from typing import Any

import pytest

from tests.shared.logs import follow, short_events
from tests.shared.records.pydantic_ai import USAGE, entry, prompt, request, response, result, text

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
