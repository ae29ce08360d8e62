"""Events of the Claude family: streams with and without partial messages, the API's own stream, and session
files."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ash_shared.eventlog import Context, Event, Normalizer, parse_line
from ash_shared.model.events import read_event
from tests.marking import slow_unless
from tests.shared.records.claude import (
    INIT,
    STOP,
    USAGE,
    assistant,
    block_delta,
    block_start,
    block_stop,
    call,
    message_delta,
    message_start,
    queued,
    result,
    stream_event,
    streamed_text,
    streamed_thought,
    text,
    tool_result,
    user,
)
from tests.shared.sample_files import CORPUS, spread
from tests.shared.transcripts import short_messages

ShortEvent = tuple[str, dict[str, Any]]
Record = dict[str, Any]


def follow(lines: Sequence[str | Record], *, end: bool = True) -> list[Event]:
    """Return the events of lines; the state is saved and restored after each line."""
    state, events = None, list[Event]()
    for line, raw in enumerate(lines, start=1):
        normalizer = Normalizer(state=state)
        events += normalizer.follow(parse_line(raw), context(line))
        state = normalizer.state()
    return events + (Normalizer(state=state).close(context(0)) if end else [])


def context(line: int) -> Context:
    number = itertools.count()
    return Context("s1", lambda: f"{line}/{next(number)}", lambda: 7)


def short_events(*records: Any, end: bool = True) -> list[ShortEvent]:
    """Return each event as type and payload. Every event is valid, and every turn has one start."""
    events = follow([json.dumps(record) for record in records], end=end)
    for event in events:
        read_event(event)
    assert [event["type"] for event in events].count("turn_start") == len({turn_of(e) for e in events} - {""})
    return [(event["type"], event["payload"]) for event in events]


def turn_of(event: Event) -> str:
    return str(event.get("turnId", ""))


def prompt(text: str, **more: Any) -> ShortEvent:
    return ("user_message", {"text": text, **more})


def answer(text: str, **more: Any) -> ShortEvent:
    return ("assistant_done", {"text": text, **more})


CONTINUED = "This session is being continued from a previous conversation that ran out of context."
START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
SYSTEM_START: ShortEvent = ("turn_start", {"trigger": "system"})
ABORTED: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
CANCELLED: list[ShortEvent] = [("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})]


STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a run without its prompt on the wire, and a result that repeats the text": (
        [INIT, assistant(text("Yes.")), result("Yes.")],
        [START, answer("Yes."), END],
    ),
    "a result whose text was not emitted before": (
        [INIT, result("Four.")],
        [START, answer("Four.", variant="result"), END],
    ),
    "the prompt before and after init": (
        [user("Hello?"), INIT, user("Still there?"), assistant(text("Yes.")), result("Yes.")],
        [START, prompt("Hello?"), prompt("Still there?"), answer("Yes."), END],
    ),
    "a long-lived process, with a turn that began without a prompt": (
        [
            INIT,
            assistant(text("One.")),
            result("One."),
            INIT,
            assistant(text("Two."), id="m2"),
            result("Two."),
        ],
        [START, answer("One."), END, START, answer("Two."), END],
    ),
    "lines after the result begin a turn": (
        [INIT, assistant(text("One.")), result("One."), assistant(text("And by the way."), id="m2")],
        [START, answer("One."), END, SYSTEM_START, answer("And by the way."), END],
    ),
    "a call and its result, with its structured copy": (
        [
            INIT,
            assistant({"type": "thinking", "thinking": "Look.", "signature": "sig"}),
            assistant(text("I look.")),
            assistant(call("t1", file="a.txt")),
            user([tool_result("t1", "1 line")], tool_use_result={"file": {"numLines": 1}}),
            assistant(call("t2")),
            user([tool_result("t2", "no such file", is_error=True)], tool_use_result="Error: no such file"),
            result("I look."),
        ],
        [
            START,
            ("thinking_done", {"text": "Look.", "signature": "sig"}),
            answer("I look."),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"file": "a.txt"}}),
            (
                "tool_result",
                {"toolCallId": "t1", "result": "1 line", "structured": {"file": {"numLines": 1}}},
            ),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {}}),
            (
                "tool_result",
                {
                    "toolCallId": "t2",
                    "result": "no such file",
                    "error": {"code": "error", "message": "no such file"},
                },
            ),
            END,
        ],
    ),
    "a structured copy next to two results belongs to neither": (
        [INIT, user([tool_result("t1"), tool_result("t2")], tool_use_result={"x": 1}), result("")],
        [
            START,
            ("tool_result", {"toolCallId": "t1", "result": "fine", "orphan": True}),
            ("tool_result", {"toolCallId": "t2", "result": "fine", "orphan": True}),
            END,
        ],
    ),
    "a run that was killed": (
        [INIT, assistant(call("t1"))],
        [START, ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}), *ABORTED],
    ),
    "an error of the run": (
        [INIT, result(None, subtype="error_max_turns", is_error=True, errors=["Too many turns."])],
        [
            START,
            (
                "error",
                {
                    "code": "error_max_turns",
                    "message": "Too many turns.",
                    "details": {"errors": ["Too many turns."]},
                },
            ),
            END,
        ],
    ),
    "an error of the run in several texts, with the status of the API": (
        [
            INIT,
            result(
                None,
                subtype="error_during_execution",
                errors=["One.", {"message": "Two."}, 5],
                api_error_status=529,
            ),
        ],
        [
            START,
            (
                "error",
                {
                    "code": "error_during_execution",
                    "message": "One.\nTwo.",
                    "details": {"errors": ["One.", {"message": "Two."}, 5], "api_error_status": 529},
                },
            ),
            END,
        ],
    ),
    "an error of the run without a text": (
        [INIT, result("", is_error=True, api_error_status=529)],
        [
            START,
            ("error", {"code": "api_error", "message": "HTTP 529", "details": {"api_error_status": 529}}),
            END,
        ],
    ),
    "an error of the run in its subtype alone": (
        [INIT, result(None, subtype="error_max_turns")],
        [START, ("error", {"code": "error_max_turns", "message": "error_max_turns"}), END],
    ),
    "a printed error": (
        [INIT, {"type": "error", "error": "No credit."}],
        [START, ("error", {"code": "error", "message": "No credit.", "details": "No credit."}), *ABORTED],
    ),
    "a printed error with a code": (
        [INIT, {"type": "error", "code": "login", "message": "Log in first.", "session_id": "s"}],
        [START, ("error", {"code": "login", "message": "Log in first."}), *ABORTED],
    ),
    "an API error, worded as a response and repeated in the result": (
        [
            INIT,
            assistant(text("API Error: 529 Overloaded"), error="overloaded")
            | {"message": {"model": "<synthetic>", "content": [text("API Error: 529 Overloaded")]}},
            result("API Error: 529 Overloaded", is_error=True),
        ],
        [
            START,
            (
                "error",
                {
                    "code": "overloaded",
                    "message": "API Error: 529 Overloaded",
                    "details": {"error": "overloaded"},
                },
            ),
            END,
        ],
    ),
    "an interruption by the user before the result": (
        [
            INIT,
            assistant(text("I be")),
            user([text("[Request interrupted by user]")]),
            result(None, subtype="error_during_execution", is_error=True, errors=["aborted"]),
        ],
        [START, answer("I be"), *CANCELLED],
    ),
    "an interruption reported only by the result": (
        [
            INIT,
            assistant(text("I be"), aborted=True),
            result(None, subtype="error_during_execution", terminal_reason="aborted_streaming"),
        ],
        [START, answer("I be", partial=True), *CANCELLED],
    ),
    "an interruption reported twice, and another prompt": (
        [
            user("Go."),
            user([text("[Request interrupted by user]")]),
            user([text("[Request interrupted by user for tool use]")]),
            user("Go on."),
        ],
        [START, prompt("Go."), *CANCELLED, START, prompt("Go on."), END],
    ),
    "the result of a stopped tool on the line of the interruption": (
        [
            INIT,
            assistant(call("t1")),
            user(
                [tool_result("t1", "No.", is_error=True), text("[Request interrupted by user for tool use]")]
            ),
        ],
        [
            START,
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            (
                "tool_result",
                {"toolCallId": "t1", "result": "No.", "error": {"code": "error", "message": "No."}},
            ),
            *CANCELLED,
        ],
    ),
    "a subagent, whose prompt begins no turn and whose stop does not end it": (
        [
            INIT,
            assistant(call("a1", "Task", prompt="Dig.")),
            user("Dig.", parent_tool_use_id="a1"),
            assistant(text("I dig."), id="m2", parent_tool_use_id="a1"),
            user([text("[Request interrupted by user]")], parent_tool_use_id="a1"),
            user([tool_result("a1")]),
            result("Done."),
        ],
        [
            START,
            ("tool_call", {"toolCallId": "a1", "toolName": "Task", "args": {"prompt": "Dig."}}),
            prompt("Dig.", parentToolCallId="a1"),
            answer("I dig.", parentToolCallId="a1"),
            prompt("[Request interrupted by user]", visibleText="", synthetic=True, parentToolCallId="a1"),
            ("tool_result", {"toolCallId": "a1", "result": "fine"}),
            answer("Done.", variant="result"),
            END,
        ],
    ),
    "deltas before their lines: a response of three blocks": (
        [
            INIT,
            stream_event(message_start()),
            stream_event(block_start(0, {"type": "thinking", "thinking": "", "signature": ""})),
            stream_event(block_delta(0, type="thinking_delta", thinking="Lo")),
            stream_event(block_delta(0, type="thinking_delta", thinking="ok.")),
            stream_event(block_delta(0, type="thinking_delta", thinking="", estimated_tokens=4)),
            stream_event(block_delta(0, type="signature_delta", signature="sig")),
            assistant({"type": "thinking", "thinking": "Look.", "signature": "sig"}),
            stream_event(block_stop(0)),
            stream_event(block_start(1, text(""))),
            stream_event(block_delta(1, type="text_delta", text="I look.")),
            stream_event(block_stop(1)),  # a client that writes the line late
            assistant(text("I look.")),
            stream_event(block_start(2, call("t1"))),
            stream_event(block_delta(2, type="input_json_delta", partial_json="")),
            stream_event(block_delta(2, type="input_json_delta", partial_json='{"file":')),
            stream_event(block_delta(2, type="input_json_delta", partial_json=' "a"}')),
            assistant(call("t1", file="a")),
            stream_event(block_stop(2)),
            stream_event(message_delta("tool_use", {"output_tokens": 7})),
            stream_event(STOP),
            user([tool_result("t1")]),
            result("I look."),
        ],
        [
            START,
            ("thinking_chunk", {"text": "Lo"}),
            ("thinking_chunk", {"text": "ok."}),
            ("thinking_done", {"text": "Look.", "signature": "sig"}),
            ("assistant_chunk", {"text": "I look."}),
            answer("I look."),
            ("tool_input_chunk", {"toolCallId": "t1", "toolName": "Read", "chunk": '{"file":', "offset": 0}),
            ("tool_input_chunk", {"toolCallId": "t1", "toolName": "Read", "chunk": ' "a"}', "offset": 8}),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"file": "a"}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            END,
        ],
    ),
    "deltas without lines": (
        [
            INIT,
            *streamed_text("I look."),
            stream_event(block_start(1, call("t1"))),
            stream_event(block_delta(1, type="input_json_delta", partial_json="{}")),
            stream_event(block_stop(1)),
            stream_event(STOP),
            user([tool_result("t1")]),
            *streamed_text("So.", id="m2"),
            user("And?"),
            *streamed_text("Yes.", id="m3"),
            result("Yes."),
        ],
        [
            START,
            ("assistant_chunk", {"text": "I look."}),
            ("tool_input_chunk", {"toolCallId": "t1", "toolName": "Read", "chunk": "{}", "offset": 0}),
            answer("I look."),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("assistant_chunk", {"text": "So."}),
            answer("So."),
            prompt("And?"),
            ("assistant_chunk", {"text": "Yes."}),
            answer("Yes."),
            END,
        ],
    ),
    "deltas with a line of a later block, and of a later answer": (
        [
            INIT,
            *streamed_text("I look."),
            stream_event(block_start(1, call("t1"))),
            assistant(call("t1")),
            stream_event(message_start("m2")),
            stream_event(block_start(0, text(""))),
            stream_event(block_delta(0, type="text_delta", text="I be")),
            assistant(text("Yes."), id="m3"),
            result("Yes."),
        ],
        [
            START,
            ("assistant_chunk", {"text": "I look."}),
            answer("I look."),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("assistant_chunk", {"text": "I be"}),
            answer("I be", partial=True),
            answer("Yes."),
            END,
        ],
    ),
    "a prompt that waits in the queue while a block is open": (
        [
            *streamed_text("So."),
            {"type": "queue-operation", "operation": "enqueue", "content": "And?", "sessionId": "s"},
            assistant(text("So.")),
            user("And?"),
        ],
        [SYSTEM_START, ("assistant_chunk", {"text": "So."}), answer("So."), END, START, prompt("And?"), END],
    ),
    "deltas of two parallel subagents": (
        [
            INIT,
            stream_event(message_start("m1")),
            stream_event(block_start(0, text(""))),
            stream_event(message_start("m2"), "a1"),
            stream_event(block_start(0, text("")), "a1"),
            stream_event(block_delta(0, type="text_delta", text="main")),
            stream_event(block_delta(0, type="text_delta", text="sub"), "a1"),
            assistant(text("sub"), id="m2", parent_tool_use_id="a1"),
            stream_event(block_stop(0), "a1"),
            assistant(text("main")),
            stream_event(block_stop(0)),
            result("main"),
        ],
        [
            START,
            ("assistant_chunk", {"text": "main"}),
            ("assistant_chunk", {"text": "sub", "parentToolCallId": "a1"}),
            answer("sub", parentToolCallId="a1"),
            answer("main"),
            END,
        ],
    ),
    "a cut stream": (
        [
            INIT,
            stream_event(message_start()),
            stream_event(block_start(0, text(""))),
            stream_event(block_delta(0, type="text_delta", text="I be")),
        ],
        [START, ("assistant_chunk", {"text": "I be"}), answer("I be", partial=True), *ABORTED],
    ),
    "deltas interrupted by the user": (
        [
            INIT,
            stream_event(message_start()),
            stream_event(block_start(0, text(""))),
            stream_event(block_delta(0, type="text_delta", text="I be")),
            user([text("[Request interrupted by user]")]),
            result(None, subtype="error_during_execution", is_error=True),
        ],
        [START, ("assistant_chunk", {"text": "I be"}), answer("I be", partial=True), *CANCELLED],
    ),
    "an unknown delta type, and a malformed event": (
        [
            INIT,
            stream_event({"type": "sparkle"}),
            stream_event(block_delta(0, type="text_delta", text=7)),
            result(""),
        ],
        [
            START,
            ("raw", {"source": "claude", "raw": stream_event({"type": "sparkle"})}),
            ("raw", {"source": "claude", "raw": stream_event(block_delta(0, type="text_delta", text=7))}),
            END,
        ],
    ),
    "deltas without a turn end": (
        [
            stream_event(message_start()),
            stream_event(block_start(0, text(""))),
            stream_event(block_delta(0, type="text_delta", text="So.")),
            assistant(text("So.")),
            stream_event(block_stop(0)),
            stream_event(message_delta("end_turn")),
            stream_event(STOP),
        ],
        [SYSTEM_START, ("assistant_chunk", {"text": "So."}), answer("So."), END],
    ),
    "reasoning that ended is complete before the text of the result": (
        [INIT, *streamed_thought("Two and two."), result("Four.")],
        [
            START,
            ("thinking_chunk", {"text": "Two and two."}),
            ("thinking_done", {"text": "Two and two."}),
            answer("Four.", variant="result"),
            END,
        ],
    ),
    "reasoning that ended is complete before a text that was not streamed": (
        [
            INIT,
            *streamed_thought("Two and two."),
            assistant(text("Four.")),
            stream_event(STOP),
            result("Four."),
        ],
        [
            START,
            ("thinking_chunk", {"text": "Two and two."}),
            ("thinking_done", {"text": "Two and two."}),
            answer("Four."),
            END,
        ],
    ),
    "lines that follow the end of a streamed answer": (
        [
            INIT,
            *streamed_thought("Two and two."),
            stream_event(block_start(1, text(""))),
            stream_event(block_delta(1, type="text_delta", text="Four.")),
            stream_event(block_stop(1)),
            stream_event(STOP),
            assistant({"type": "thinking", "thinking": "Two and two."}),
            assistant(text("Four.")),
            result("Four."),
        ],
        [
            START,
            ("thinking_chunk", {"text": "Two and two."}),
            ("assistant_chunk", {"text": "Four."}),
            ("thinking_done", {"text": "Two and two."}),
            answer("Four."),
            END,
        ],
    ),
    "a stop event without a turn": (
        [result(None, subtype="error_during_execution", terminal_reason="aborted_tools")],
        [],
    ),
    "control records add no events": (
        [
            {"type": "control_request", "request_id": "1", "request": {"subtype": "initialize"}},
            {"type": "control_response", "response": {"subtype": "success"}},
            {"type": "rate_limit_event", "rate_limit_info": {}, "session_id": "s"},
            {"type": "system", "subtype": "task_started", "task_id": "b1", "session_id": "s"},
            {"type": "system", "subtype": "task_notification", "task_id": "b1", "session_id": "s"},
            {"type": "tool_progress", "tool_use_id": "t1", "tool_name": "Bash", "session_id": "s"},
            {"type": "conversation_reset", "new_conversation_id": "n", "session_id": "s"},
            {"type": "keep_alive"},
        ],
        [],
    ),
    "a retry, and messages retracted by a fallback": (
        [
            INIT,
            {"type": "system", "subtype": "api_retry", "attempt": 1, "error": {"message": "Busy."}},
            assistant(text("No."), uuid="u1"),
            {"type": "system", "subtype": "model_refusal_fallback", "retracted_message_uuids": ["u1"]},
            assistant(text("Yes."), id="m2", supersedes=["u1"]),
            result("Yes."),
        ],
        [
            START,
            ("error", {"code": "api_retry", "message": "Busy.", "details": {"message": "Busy."}}),
            answer("No."),
            ("retraction", {"messageIds": ["u1"]}),
            answer("Yes."),
            ("retraction", {"messageIds": ["u1"]}),
            END,
        ],
    ),
    "a compaction": (
        [
            INIT,
            {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}},
            user(f"{CONTINUED} We built it.", isSynthetic=True),
            assistant(text("On it goes.")),
            result("On it goes."),
        ],
        [
            START,
            (
                "system_message",
                {"text": "Conversation compacted", "variant": "compact_boundary", "trigger": "auto"},
            ),
            ("summary", {"text": f"{CONTINUED} We built it."}),
            answer("On it goes."),
            END,
        ],
    ),
    "a summary of several calls": (
        [{"type": "tool_use_summary", "summary": "Read two files", "preceding_tool_use_ids": ["t1"]}],
        [("system_message", {"text": "Read two files", "variant": "tool_use_summary"})],
    ),
}


def test_streamed_answer_is_complete_at_its_stop_event() -> None:
    """Its turn stays open for further answers."""
    events = short_events(user("Hello?"), *streamed_text("Yes."), stream_event(STOP), end=False)

    assert events[2:] == [("assistant_chunk", {"text": "Yes."}), answer("Yes.")]


@pytest.mark.parametrize("name", STREAMS)
def test_stream_events(name: str) -> None:
    records, events = STREAMS[name]

    assert without_usage(*records) == events


def without_usage(*records: Any) -> list[ShortEvent]:
    return [
        (wire, {key: value for key, value in payload.items() if key not in ("usage", "costUsd")})
        for wire, payload in short_events(*records)
    ]


READING: ShortEvent = ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"file": "a"}})
THOUGHT = {"type": "thinking", "thinking": "Look."}
REPEATED_TEXT = "I look at the harbour."

SNAPSHOTS: dict[str, tuple[list[Any], list[ShortEvent], list[Any]]] = {
    "a text that grows": (
        [assistant(text("I")), assistant(text("I lo")), assistant(text("I look."))],
        [
            answer("I"),
            answer("I lo"),
            ("retraction", {"eventIds": ["2/0"]}),
            answer("I look."),
            ("retraction", {"eventIds": ["3/0"]}),
        ],
        [("text", "I look.")],
    ),
    "a message that grows": (
        [
            assistant(THOUGHT),
            assistant(THOUGHT, text("I")),
            assistant(THOUGHT, text("I."), call("t1")),
            assistant(THOUGHT, text("I."), call("t1", file="a")),
            user([tool_result("t1")]),
            assistant(THOUGHT, text("I."), call("t1", file="b")),
        ],
        [
            ("thinking_done", {"text": "Look."}),
            answer("I"),
            answer("I."),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("retraction", {"eventIds": ["3/0"]}),
            READING,
            ("retraction", {"eventIds": ["4/1"]}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
        ],
        [("thinking", "Look."), ("text", "I."), ("tool_use", "Read")],
    ),
    "the same lines again": (
        [
            assistant(text(REPEATED_TEXT)),
            assistant(call("t1", file="a")),
            assistant(text(REPEATED_TEXT)),
            assistant(call("t1", file="a")),
        ],
        [answer(REPEATED_TEXT), READING],
        [("text", REPEATED_TEXT), ("tool_use", "Read")],
    ),
    "one block per line": (
        [
            assistant(THOUGHT),
            assistant(text("One")),
            assistant(text(".")),
            assistant(text("Two")),
            assistant(text(".")),
            assistant(call("t1", file="a")),
        ],
        [
            ("thinking_done", {"text": "Look."}),
            answer("One"),
            answer("."),
            answer("Two"),
            answer("."),
            READING,
        ],
        [("thinking", "Look."), *(("text", each) for each in ("One", ".", "Two", ".")), ("tool_use", "Read")],
    ),
    "a subagent between": (
        [
            assistant(text("I")),
            assistant(text("Sub."), id="m2", parent_tool_use_id="a1"),
            assistant(text("I look.")),
            assistant(text("Sub."), id="m2", parent_tool_use_id="a1"),
        ],
        [
            answer("I"),
            answer("Sub.", parentToolCallId="a1"),
            answer("I look."),
            ("retraction", {"eventIds": ["2/0"]}),
        ],
        [("text", "I look.")],
    ),
    "another answer with the same text": (
        [assistant(text(REPEATED_TEXT)), assistant(text(REPEATED_TEXT), id="m2")],
        [answer(REPEATED_TEXT), answer(REPEATED_TEXT)],
        [("text", REPEATED_TEXT)],
    ),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_last_form_of_a_growing_message_stands(name: str) -> None:
    records, events, blocks = SNAPSHOTS[name]

    assert short_events(user("Go."), *records, end=False)[2:] == events
    assert short_messages(*records)[0][1] == blocks


def test_lines_of_a_subagent_belong_to_the_call_with_its_prompt() -> None:
    def sidechain(record: Record, uuid: str, parent: str | None) -> Record:
        return {**record, "isSidechain": True, "uuid": uuid, "parentUuid": parent}

    records = [
        assistant(call("t1", "Task", prompt="Look."), uuid="a1"),
        assistant(call("t2", "Task", prompt="Look."), uuid="a2"),
        sidechain(user("Look."), "u1", None),
        sidechain(user("Look."), "v1", None),
        sidechain(assistant(call("x1"), id="m2"), "u2", "u1"),
        sidechain(user([tool_result("x1")]), "u3", "u2"),
        sidechain(assistant(text("There."), id="m3"), "v2", "v1"),
        sidechain(assistant(text("Here."), id="m4"), "u4", "u3"),
        user([tool_result("t1"), tool_result("t2")], parentUuid="a2"),
        sidechain(user("Look."), "w1", None),
        sidechain(assistant(text("Who?"), id="m5"), "w2", "w1"),
    ]

    events = short_events(*records, end=False)
    in_one_line = short_events(records, end=False)
    messages = short_messages(*records)

    calls = [None, None, "t1", "t2", "t1", "t1", "t2", "t1", None, None, None, None]
    assert [payload.get("parentToolCallId") for _, payload in events[1:]] == calls
    assert in_one_line == events
    assert [message[2].get("parentToolUseId") if len(message) > 2 else None for message in messages] == [
        None,
        *("t1", "t2", "t1", "t1", "t2", "t1"),
        *(None, None, None),
    ]


SEARCH = {"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {}}
SEARCH_RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "w1",
    "content": [{"type": "web_search_result", "title": "Ash", "url": "https://example.com"}],
}
CITATION = {"type": "web_search_result_location", "cited_text": "grey", "url": "https://example.com"}

API: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "the usage of two events is merged": (
        [
            message_start(usage=USAGE),
            {"type": "ping"},
            block_start(0, text("H")),
            block_delta(0, type="text_delta", text="i."),
            block_stop(0),
            message_delta("end_turn", {"output_tokens": 5, "cache_read_input_tokens": None}),
            STOP,
        ],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "H"}),
            ("assistant_chunk", {"text": "i."}),
            answer("Hi."),
            (
                "turn_end",
                {
                    "usage": {
                        "input_tokens": 9,
                        "output_tokens": 5,
                        "total_tokens": 14,
                        "cache_read_input_tokens": 4,
                        "service_tier": "standard",
                        "vendor": {**USAGE, "output_tokens": 5},
                    }
                },
            ),
        ],
    ),
    "a call keeps the turn open; its arguments may arrive complete": (
        [
            message_start("m1"),
            block_start(0, call("t1", city="Rome")),
            block_stop(0),
            block_start(1, call("t2")),
            block_delta(1, type="input_json_delta", partial_json='{"a": 1'),
            block_delta(1, type="input_json_delta", partial_json="}"),
            block_stop(1),
            message_delta("tool_use"),
            STOP,
            {"role": "user", "content": [tool_result("t1"), tool_result("t2")]},
            message_start("m2"),
            block_start(0, text("")),
            block_delta(0, type="text_delta", text="Done."),
            block_stop(0),
            message_delta("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"city": "Rome"}}),
            ("tool_input_chunk", {"toolCallId": "t2", "toolName": "Read", "chunk": '{"a": 1', "offset": 0}),
            ("tool_input_chunk", {"toolCallId": "t2", "toolName": "Read", "chunk": "}", "offset": 7}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {"a": 1}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("tool_result", {"toolCallId": "t2", "result": "fine"}),
            ("assistant_chunk", {"text": "Done."}),
            answer("Done."),
            END,
        ],
    ),
    "server tools, and citations of a text": (
        [
            message_start(),
            block_start(0, {"type": "thinking", "thinking": "", "signature": ""}),
            block_delta(0, type="signature_delta", signature="sig"),
            block_stop(0),
            block_start(1, {"type": "redacted_thinking", "data": "x"}),
            block_stop(1),
            block_start(2, SEARCH),
            block_delta(2, type="input_json_delta", partial_json='{"query": "ash"}'),
            block_stop(2),
            block_start(3, SEARCH_RESULT),
            block_stop(3),
            block_start(4, {"type": "text", "text": "", "citations": []}),
            block_delta(4, type="text_delta", text="Ash is grey"),
            block_delta(4, type="citations_delta", citation=CITATION),
            block_delta(4, type="citations_delta", citation=CITATION),
            block_stop(4),
            message_delta("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("thinking_done", {"text": "", "signature": "sig"}),
            ("thinking_done", {"text": "", "redacted": True}),
            (
                "tool_input_chunk",
                {"toolCallId": "w1", "toolName": "web_search", "chunk": '{"query": "ash"}', "offset": 0},
            ),
            (
                "tool_call",
                {
                    "toolCallId": "w1",
                    "toolName": "web_search",
                    "args": {"query": "ash"},
                    "executor": "server",
                },
            ),
            ("tool_result", {"toolCallId": "w1", "result": None, "structured": SEARCH_RESULT["content"]}),
            ("assistant_chunk", {"text": "Ash is grey"}),
            answer("Ash is grey", citations=[CITATION, CITATION]),
            END,
        ],
    ),
    "a compaction by the API": (
        [
            message_start(),
            block_start(0, {"type": "compaction", "content": None}),
            block_delta(0, type="compaction_delta", content="We built it."),
            block_stop(0),
            message_delta("compaction"),
            STOP,
            message_start("m2"),
            block_start(0, text("")),
            block_delta(0, type="text_delta", text="On."),
            block_stop(0),
            message_delta("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "We built it.", "variant": "summary"}),
            answer("We built it.", variant="summary"),
            ("assistant_chunk", {"text": "On."}),
            answer("On."),
            END,
        ],
    ),
    "a refusal": (
        [message_start(), message_delta("refusal", stop_details={"explanation": "Not this."}), STOP],
        [
            SYSTEM_START,
            ("error", {"code": "refusal", "message": "Not this.", "details": {"explanation": "Not this."}}),
            END,
        ],
    ),
    "an error during the stream": (
        [
            message_start(),
            block_start(0, text("")),
            block_delta(0, type="text_delta", text="I be"),
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "I be"}),
            (
                "error",
                {
                    "code": "overloaded_error",
                    "message": "Overloaded",
                    "details": {"type": "overloaded_error", "message": "Overloaded"},
                },
            ),
            answer("I be", partial=True),
            *ABORTED,
        ],
    ),
    "a stream cut between two blocks": (
        [
            message_start(),
            block_start(0, text("")),
            block_delta(0, type="text_delta", text="So:"),
            block_stop(0),
        ],
        [SYSTEM_START, ("assistant_chunk", {"text": "So:"}), answer("So:"), *ABORTED],
    ),
    "an unknown delta, and an unknown block": (
        [
            message_start(),
            block_delta(0, type="glow_delta", glow=1),
            block_start(1, {"type": "glow"}),
            message_delta("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("raw", {"source": "claude", "raw": block_delta(0, type="glow_delta", glow=1)}),
            ("raw", {"source": "claude", "raw": {"type": "glow"}}),
            END,
        ],
    ),
    "a complete response, and one that waits for a tool": (
        [
            {"role": "user", "content": "Weather?"},
            {**assistant(call("t1"))["message"], "model": "m", "stop_reason": "tool_use"},
            {"role": "user", "content": [tool_result("t1")]},
            {**assistant(text("Fine."), id="m2")["message"], "model": "m", "stop_reason": "end_turn"},
            {"role": "user", "content": "Thanks."},
        ],
        [
            START,
            prompt("Weather?"),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            answer("Fine."),
            END,
            START,
            prompt("Thanks."),
            END,
        ],
    ),
}


@pytest.mark.parametrize("name", API)
def test_api_stream_events(name: str) -> None:
    records, events = API[name]

    assert (short_events if "usage" in name else without_usage)(*records) == events


def test_reads_server_sent_event_lines() -> None:
    """Each line is read without a declared source. A text that only looks similar is user input."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    sent: list[Record] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    lines = [line for event in sent for line in (f"event: {event['type']}", f"data: {json.dumps(event)}")]

    assert short_events(*lines) == short_events(*sent)
    assert [
        payload.get("text") for _, payload in short_events("event: my party", 'data: {"a": 1}', "data: {")
    ] == [None, "event: my party", 'data: {"a": 1}', "data: {", None]


def test_records_of_a_list_have_their_own_parent_calls() -> None:
    """A list of records has the events of its records, although its steps are followed as one line."""

    def records(parent: str | None, words: str) -> list[Record]:
        events = (message_start(words), block_delta(0, type="text_delta", text=words))
        return [stream_event(event, parent) for event in events]

    chunks = [*records("a1", "sub"), *records(None, "main")]

    parents = [
        payload.get("parentToolCallId")
        for lines in (chunks, [chunks])
        for wire_type, payload in short_events(*lines)
        if wire_type == "assistant_chunk"
    ]
    assert parents == ["a1", None] * 2


def test_complete_response_matches_its_stream() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {**text("Ash is grey"), "citations": [CITATION]},
        {**SEARCH, "input": {"query": "ash"}},
        SEARCH_RESULT,
        call("t1", a=[1, {"b": "c"}]),
    ]
    response = {"type": "message", "id": "m1", "role": "assistant", "model": "m", "content": blocks}

    streamed = without_usage(*api_stream(blocks), {"type": "message_stop"})

    assert content_events(streamed) == content_events(without_usage({**response, "stop_reason": "tool_use"}))


def api_stream(blocks: list[Record]) -> Iterator[Record]:
    yield message_start()
    for index, block in enumerate(blocks):
        yield from (event for event in block_events(index, block))
        yield block_stop(index)
    yield message_delta("tool_use")


CONTENT_TYPES = frozenset({"assistant_done", "thinking_done", "tool_call", "tool_result", "user_message"})


def content_events(events: list[ShortEvent]) -> list[ShortEvent]:
    return [event for event in events if event[0] in CONTENT_TYPES]


TASK_START = json.dumps({"task_id": "a9", "tool_use_id": "t1", "description": "Dig"})
COMMAND_START = json.dumps({"task_id": "b9", "tool_use_id": "t2", "task_type": "local_bash"})
TASK_REPORT = json.dumps({"task_id": "b1", "tool_use_id": "t1", "status": "completed", "summary": "Done."})
TASK_NOTIFICATION = "<task-notification>\n<task-id>b1</task-id>\n</task-notification>"
AGENT_NOTIFICATION = (
    "<task-notification>\n<task-id>a1f7</task-id>\n<tool-use-id>t1</tool-use-id>\n<status>completed</status>\n"
    '<summary>Agent "Dig" completed</summary>\n<result>Dug.</result>\n</task-notification>'
)


FILES: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "two turns, one of which reports its end": (
        [
            {"type": "summary", "summary": "Of another conversation", "leafUuid": "l"},
            user("One?"),
            assistant(text("One.")),
            {"type": "system", "subtype": "turn_duration", "durationMs": 9},
            {"type": "file-history-snapshot", "snapshot": {}},
            user("Two?"),
            assistant(text("Two."), id="m2"),
        ],
        [START, prompt("One?"), answer("One."), END, START, prompt("Two?"), answer("Two."), END],
    ),
    "the lines of one response, with results in between": (
        [
            user("Look."),
            assistant(call("t1")),
            user([tool_result("t1")], toolUseResult={"ok": True}),
            assistant(call("t2")),
            user([tool_result("t2")], toolUseResult=[text("x")]),
        ],
        [
            START,
            prompt("Look."),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine", "structured": {"ok": True}}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t2", "result": "fine", "structured": [text("x")]}),
            END,
        ],
    ),
    "an error between two prompts is a response": (
        [
            user("One?"),
            assistant(text("API Error: 500"), isApiErrorMessage=True)
            | {"message": {"model": "<synthetic>", "content": [text("API Error: 500")]}},
            user("Two?"),
        ],
        [
            START,
            prompt("One?"),
            ("error", {"code": "api_error", "message": "API Error: 500"}),
            END,
            START,
            prompt("Two?"),
            END,
        ],
    ),
    "one of two queued prompts is removed, the other, a command, becomes a separate turn": (
        [
            user("One?"),
            queued("enqueue", "/why now"),
            queued("enqueue", "Slower!"),
            queued("remove"),
            assistant(text("One.")),
            queued("dequeue"),
            user("<command-name>/why</command-name>\n<command-args>now</command-args>"),
            assistant(text("Because."), id="m2"),
        ],
        [
            START,
            prompt("One?"),
            prompt("Slower!"),
            answer("One."),
            END,
            START,
            prompt(
                "<command-name>/why</command-name>\n<command-args>now</command-args>", visibleText="/why now"
            ),
            answer("Because."),
            END,
        ],
    ),
    "two queued prompts that the agent receives, in a file that ends within the turn": (
        [
            user("One?"),
            assistant(call("t1")),
            queued("enqueue", "Slower!"),
            queued("enqueue", "Louder!"),
            queued("remove"),
            queued("remove"),
            user([tool_result("t1")]),
            assistant(call("t2"), id="m2"),
        ],
        [
            START,
            prompt("One?"),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            prompt("Slower!"),
            prompt("Louder!"),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {}}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a queued prompt that begins a turn although no line sends it": (
        [
            user("One?"),
            queued("enqueue", "Two?"),
            assistant(text("One.")),
            queued("dequeue"),
            assistant(text("Two."), id="m2"),
        ],
        [START, prompt("One?"), answer("One."), END, START, prompt("Two?"), answer("Two."), END],
    ),
    "a queued prompt sent by a line with another text": (
        [
            user("One?"),
            queued("enqueue", "[Pasted text #1]"),
            assistant(text("One.")),
            queued("dequeue"),
            user("The pasted words."),
        ],
        [START, prompt("One?"), answer("One."), END, START, prompt("The pasted words."), END],
    ),
    "a queued prompt that the person withdrew": (
        [
            user("One?"),
            queued("enqueue", "Tow?"),
            queued("enqueue", "Three?"),
            queued("popAll", "Tow?"),
            queued("popAll", "Three?"),
            queued("popAll", "A draft that never waited"),
            assistant(text("One.")),
        ],
        [
            START,
            prompt("One?"),
            prompt("Tow?"),
            ("retraction", {"eventIds": ["4/0"], "reason": "withdrawn"}),
            prompt("Three?"),
            ("retraction", {"eventIds": ["5/0"], "reason": "withdrawn"}),
            answer("One."),
            END,
        ],
    ),
    "a removed prompt without a delivery, where deliveries are recorded": (
        [
            user("One?"),
            {"type": "attachment", "attachment": {"type": "date_change"}},
            queued("enqueue", "Never mind."),
            queued("remove", "Never mind."),
            queued("enqueue", "Faster!"),
            queued("remove", "Faster!"),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Faster!"}},
            assistant(text("One.")),
        ],
        [
            START,
            prompt("One?"),
            prompt("Faster!"),
            answer("One."),
            prompt("Never mind."),
            ("retraction", {"eventIds": ["0/0"], "reason": "withdrawn"}),
            END,
        ],
    ),
    "a prompt that nothing sends before another one": (
        [
            user("One?"),
            queued("enqueue", "Two?"),
            assistant(text("One.")),
            user("Three?"),
            assistant(text("Three."), id="m2"),
            user("Four?"),
        ],
        [
            START,
            prompt("One?"),
            answer("One."),
            prompt("Two?"),
            END,
            START,
            prompt("Three?"),
            answer("Three."),
            END,
            START,
            prompt("Four?"),
            END,
        ],
    ),
    "the start of a subagent and of a command waits in the queue": (
        [
            user("One?"),
            assistant(call("t1", "Task"), call("t2", "Bash")),
            queued("enqueue", TASK_START),
            queued("dequeue"),
            queued("enqueue", COMMAND_START),
            queued("remove", COMMAND_START),
            assistant(text("Both run."), id="m2"),
        ],
        [
            START,
            prompt("One?"),
            ("tool_call", {"toolCallId": "t1", "toolName": "Task", "args": {}}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Bash", "args": {}}),
            prompt(COMMAND_START, synthetic=True),
            prompt(TASK_START, synthetic=True, agentId="a9", toolCallId="t1"),
            answer("Both run."),
            ("turn_end", {"partial": True}),
        ],
    ),
    "one of two queued prompts is received during the turn": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "How?"},
            {"type": "queue-operation", "operation": "enqueue", "content": "Now!"},
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Now!"}},
            {"type": "queue-operation", "operation": "remove"},
            assistant(text("One.")),
            {"type": "queue-operation", "operation": "dequeue"},
            user("How?"),
        ],
        [START, prompt("One?"), prompt("Now!"), answer("One."), END, START, prompt("How?"), END],
    ),
    "notifications of tasks, as JSON and in tags": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": TASK_REPORT},
            {"type": "queue-operation", "operation": "remove"},
            user(TASK_REPORT),
            user(TASK_NOTIFICATION),
            user(AGENT_NOTIFICATION),
            user('{"task_id": "b1"}'),
        ],
        [
            START,
            prompt("One?"),
            prompt(TASK_REPORT, synthetic=True),
            prompt(TASK_NOTIFICATION, visibleText="", synthetic=True),
            prompt(AGENT_NOTIFICATION, visibleText="", synthetic=True, agentId="a1f7", toolCallId="t1"),
            prompt('{"task_id": "b1"}'),
            END,
        ],
    ),
    "a queued prompt that becomes a separate turn": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Two?"},
            assistant(text("One.")),
            {"type": "queue-operation", "operation": "dequeue"},
            user("Two?"),
            assistant(text("Two."), id="m2"),
        ],
        [START, prompt("One?"), answer("One."), END, START, prompt("Two?"), answer("Two."), END],
    ),
    "a queued prompt received by the model during the turn": (
        [
            user("One?"),
            assistant(call("t1")),
            {"type": "queue-operation", "operation": "enqueue", "content": "Faster!"},
            user([tool_result("t1")]),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Faster!"}},
            assistant(text("Yes.")),
        ],
        [
            START,
            prompt("One?"),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            prompt("Faster!"),
            answer("Yes."),
            END,
        ],
    ),
    "a queued prompt dequeued during a turn": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Never mind."},
            {"type": "queue-operation", "operation": "remove"},
            assistant(text("One.")),
        ],
        [START, prompt("One?"), prompt("Never mind."), answer("One."), END],
    ),
    "a queued prompt that is never dequeued": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Never mind."},
            assistant(text("One.")),
        ],
        [START, prompt("One?"), answer("One."), prompt("Never mind."), END],
    ),
    "a subagent on lines of its caller, and on separate lines": (
        [
            user("Dig."),
            assistant(call("a1", "Task")),
            {
                "type": "progress",
                "parentToolUseID": "a1",
                "data": {"type": "agent_progress", "agentId": "x", "message": user([text("Dig!")])},
            },
            {
                "type": "progress",
                "parentToolUseID": "a1",
                "data": {"type": "agent_progress", "message": assistant(text("I dig."), id="m2")},
            },
            {"type": "progress", "parentToolUseID": "t9", "data": {"type": "bash_progress", "output": "x"}},
            user("Dig deeper.", isSidechain=True),
            user("As an agent.", isSidechain=True, agentId="x"),
        ],
        [
            START,
            prompt("Dig."),
            ("tool_call", {"toolCallId": "a1", "toolName": "Task", "args": {}}),
            prompt("Dig!", parentToolCallId="a1"),
            answer("I dig.", parentToolCallId="a1"),
            prompt("Dig deeper.", synthetic=True, sidechain=True),
            prompt("As an agent."),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a compaction": (
        [
            {
                "type": "system",
                "subtype": "compact_boundary",
                "content": "Conversation compacted",
                "compactMetadata": {"trigger": "manual"},
            },
            user(f"{CONTINUED} We built it.", isCompactSummary=True),
        ],
        [
            (
                "system_message",
                {"text": "Conversation compacted", "variant": "compact_boundary", "trigger": "manual"},
            ),
            ("summary", {"text": f"{CONTINUED} We built it."}),
        ],
    ),
    "user messages written by the tool": (
        [user("<local-command-caveat>…", isMeta=True), assistant(text("So."))],
        [prompt("<local-command-caveat>…", synthetic=True), SYSTEM_START, answer("So."), END],
    ),
    "the error of an unknown command, which has no flag": (
        [
            user("<local-command-caveat>…", isMeta=True, uuid="u1"),
            user("Unknown skill: look-around", uuid="u2", parentUuid="u1"),
        ],
        [
            prompt("<local-command-caveat>…", synthetic=True),
            prompt("Unknown skill: look-around", synthetic=True),
        ],
    ),
}


def test_line_that_follows_another_one_of_its_message_adds_its_block() -> None:
    """Other lines of a message may repeat a longer version."""
    first, second = (
        assistant(text("I look"), uuid="a1", requestId="r1"),
        assistant(text("I look closer."), uuid="a2", parentUuid="a1", requestId="r1"),
    )

    added, grown = follow([first, second]), follow([first, {**second, "parentUuid": "u0"}])

    done = ["turn_start", "assistant_done", "assistant_done"]
    assert [event["type"] for event in added] == [*done, "turn_end"]
    assert [event["type"] for event in grown] == [*done, "retraction", "turn_end"]


RESUMED: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a prompt in the queue before the prompts that a resumed session copies": (
        [queued("enqueue", "Two?"), user("One?"), assistant(text("One.")), queued("dequeue"), user("Two?")],
        [START, prompt("One?"), answer("One."), END, START, prompt("Two?"), END],
    ),
    "the same, which has left the queue": (
        [queued("enqueue", "Two?"), queued("dequeue"), user("One?"), assistant(text("One.")), user("Two?")],
        [START, prompt("One?"), answer("One."), END, START, prompt("Two?"), END],
    ),
}


REPEATED: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "the delivery of a prompt, recorded after its removal": (
        [
            user("One?"),
            queued("enqueue", "Go on."),
            queued("remove", "Go on."),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Go on."}},
            assistant(text("One.")),
        ],
        [START, prompt("One?"), prompt("Go on."), answer("One."), END],
    ),
    "a prompt with the text of one that the agent received during the turn before": (
        [
            user("One?"),
            queued("enqueue", "Go on."),
            queued("remove", "Go on."),
            assistant(text("One.")),
            user("Go on."),
            assistant(text("Two."), id="m2"),
        ],
        [
            START,
            prompt("One?"),
            prompt("Go on."),
            answer("One."),
            END,
            START,
            prompt("Go on."),
            answer("Two."),
            END,
        ],
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_text_of_a_removed_prompt_comes_again(name: str) -> None:
    """Its delivery is not a second prompt; a new prompt is."""
    records, events = REPEATED[name]

    assert without_usage(*records) == events


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_session(name: str) -> None:
    """Its file begins with the queue, followed by copies of the earlier prompts."""
    records, events = RESUMED[name]

    assert without_usage(*records) == events


@pytest.mark.parametrize("name", FILES)
def test_session_file_events(name: str) -> None:
    records, events = FILES[name]

    assert without_usage(*records) == events


@pytest.mark.parametrize(
    "records",
    [
        [INIT, assistant(text("So.")), result("So.")],
        [user("So?"), assistant(text("So.")), {"type": "system", "subtype": "turn_duration"}],
        [
            message_start(),
            block_start(0, text("So.")),
            block_stop(0),
            message_delta("end_turn", {"output_tokens": 2}),
            STOP,
        ],
        [{**assistant(text("So."))["message"], "model": "m", "stop_reason": "end_turn"}],
        [user("So?"), user([text("[Request interrupted by user]")])],
    ],
    ids=["result", "duration", "API stream", "API response", "interrupt"],
)
def test_turn_ends_with_its_end_record(records: list[Any]) -> None:
    assert short_events(*records, end=False)[-1][0] == "turn_end"


def test_turn_stays_open_after_pause_turn() -> None:
    stream = [message_start(), block_start(0, text("So.")), block_stop(0), message_delta("pause_turn"), STOP]

    assert [wire for wire, _ in short_events(*stream, end=False)] == [
        "turn_start",
        "assistant_chunk",
        "assistant_done",
    ]


def test_turn_costs() -> None:
    """The reported cost is the total of all turns so far, including interrupted ones."""
    records = [
        INIT,
        assistant(text("One.")),
        result("One.", total_cost_usd=0.25, usage={"input_tokens": 1, "output_tokens": 2}),
        INIT,
        user([text("[Request interrupted by user]")]),
        result(None, subtype="error_during_execution", total_cost_usd=0.5),
        INIT,
        assistant(text("Three."), id="m3"),
        result("Three.", total_cost_usd=1.25, usage={"input_tokens": 3, "output_tokens": 4}),
        INIT,
        result(
            None,
            terminal_reason="aborted_tools",
            total_cost_usd=2.25,
            usage={"input_tokens": 5, "output_tokens": 6},
        ),
    ]

    ends = [payload for wire, payload in short_events(*records) if wire == "turn_end"]

    assert [(end.get("costUsd"), end.get("usage", {}).get("total_tokens")) for end in ends] == [
        (0.25, 3),
        (0.25, None),
        (0.75, 7),
        (1.0, 11),
    ]


def test_edited_prompt_retracts_the_branch_of_its_first_version() -> None:
    records = [
        user("Hi.", uuid="u1", parentUuid="u0"),
        assistant(text("Hello."), uuid="u2", parentUuid="u1"),
        user("Build.", uuid="u3", parentUuid="u2"),
        assistant(text("I build."), id="m2", uuid="u4", parentUuid="u3"),
        user("Build it well.", uuid="u5", parentUuid="u2"),
    ]

    assert without_usage(*records) == [
        START,
        prompt("Hi."),
        answer("Hello."),
        END,
        START,
        prompt("Build."),
        answer("I build."),
        END,
        ("retraction", {"fromMessageId": "u3"}),
        START,
        prompt("Build it well."),
        END,
    ]


FIRST = user("Build.", uuid="u1", parentUuid=None, sessionId="s1")
ANSWER_TO_FIRST = assistant(text("I build."), uuid="u2", parentUuid="u1", sessionId="s1")
EDITED = user("Build it well.", uuid="u9", parentUuid=None, sessionId="s1")

ROOTS: dict[str, tuple[list[Record], list[str]]] = {
    "an edited first prompt": ([FIRST, ANSWER_TO_FIRST, EDITED], ["u1"]),
    "edited twice": ([FIRST, ANSWER_TO_FIRST, EDITED, {**FIRST, "uuid": "u10"}], ["u1", "u9"]),
    "edited after many prompts": (
        [FIRST, *(user(f"Step {n}.", uuid=f"p{n}", parentUuid=f"p{n - 1}") for n in range(1, 50)), EDITED],
        ["u1"],
    ),
    "the same line again": ([FIRST, ANSWER_TO_FIRST, FIRST], []),
    "a prompt of another session": ([FIRST, ANSWER_TO_FIRST, {**EDITED, "sessionId": "s2"}], []),
    "a prompt that does not say what it follows": (
        [FIRST, ANSWER_TO_FIRST, {key: value for key, value in EDITED.items() if key != "parentUuid"}],
        [],
    ),
    "a prompt of a subagent": ([FIRST, {**EDITED, "isSidechain": True}, {**EDITED, "agentId": "a1"}], []),
    "lines none of which follows another": ([FIRST, {**ANSWER_TO_FIRST, "parentUuid": None}, EDITED], []),
    "after a compaction": (
        [
            FIRST,
            {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "sessionId": "s1"},
            EDITED,
        ],
        [],
    ),
    "after a summary": ([FIRST, {**EDITED, "uuid": "u8", "isCompactSummary": True}, EDITED], []),
    "after /clear": (
        [FIRST, {**EDITED, "uuid": "u8", "message": {"role": "user", "content": "/clear"}}, EDITED],
        [],
    ),
    "after the note ahead of a command": ([FIRST, {**EDITED, "uuid": "u8", "isMeta": True}, EDITED], []),
}


@pytest.mark.parametrize(("records", "retracted"), ROOTS.values(), ids=ROOTS)
def test_edited_first_prompt_retracts_its_first_version(records: list[Record], retracted: list[str]) -> None:
    events = short_events(*records)

    assert [payload["fromMessageId"] for wire, payload in events if wire == "retraction"] == retracted


def test_usage_of_a_streamed_run_is_that_of_the_end_of_its_answers() -> None:
    """The lines repeat the usage of the beginning; a run that was cut has no total."""

    def streamed(id: str, tokens: int, parent: str | None = None) -> list[Record]:
        scope = {} if parent is None else {"parent_tool_use_id": parent}
        usage = {"input_tokens": 2, "output_tokens": 1}
        line = assistant(text("I look."), id=id, **scope)
        line["message"]["usage"] = usage
        events = [
            message_start(id=id, usage=usage),
            message_delta("end_turn", usage | {"output_tokens": tokens}),
        ]
        start, delta = ({"type": "stream_event", "event": event, **scope} for event in events)
        return [start, line, delta]

    (end,) = (
        payload
        for wire, payload in short_events(
            INIT, *streamed("m1", 30), *streamed("m2", 8, parent="t1"), *streamed("m3", 9)
        )
        if wire == "turn_end"
    )

    assert (end["usage"]["input_tokens"], end["usage"]["output_tokens"]) == (6, 47)


# A session imported from its file compared with the same session as a stream

TO_STREAM = {"toolUseResult": "tool_use_result", "agentId": "agent_id", "sessionId": "session_id"}
ON_DISK = {
    *("cwd", "gitBranch", "isCompactSummary", "isMeta", "isSidechain", "isVisibleInTranscriptOnly"),
    *("parentUuid", "requestId", "slug", "sourceToolAssistantUUID", "timestamp", "userType", "version"),
}


def test_turn_states_the_usage_in_copied_lines_of_subagents() -> None:
    """The answers of two subagents alternate, and each line of an answer has its usage."""

    def answer(id: str, output: int, **more: Any) -> Record:
        line = assistant(text(f"{id} {output}"), id=id, **more)
        return {**line, "message": {**line["message"], "usage": {"input_tokens": 1, "output_tokens": output}}}

    def copied(agent: str, id: str, output: int) -> Record:
        data = {"type": "agent_progress", "agentId": agent, "message": answer(id, output)}
        return {"type": "progress", "parentToolUseID": "a1", "data": data}

    calls = assistant(call("a1", "Task"), id="m0")
    copies = [copied("x", "m1", 2), copied("y", "m2", 30), copied("x", "m1", 4), copied("x", "m3", 500)]
    report = {"agentId": "x", "content": "Dug.", "totalTokens": 9_999}
    first = user([tool_result("a1")], toolUseResult=report)
    events = short_events(user("Dig."), calls, *copies, first, answer("m4", 6_000))
    (answered,) = [payload for wire, payload in events if wire == "tool_result"]
    wire, end = events[-1]

    assert answered["agentId"] == "x"
    assert (wire, end["usage"]["output_tokens"]) == ("turn_end", 4 + 30 + 500 + 6_000)
    assert {agent: counts["output_tokens"] for agent, counts in end["usageByAgent"].items()} == {
        "x": 504,
        "y": 30,
    }


def stream_of(records: list[Any]) -> Iterator[Record]:
    """Return the lines of a session file as the stream of a single process that ran all turns."""
    yield INIT
    text, failed = "", False
    for record in records:
        wire = record.get("type")
        if wire == "progress" and record["data"].get("type") == "agent_progress":
            yield {**line_of(record["data"]["message"]), "parent_tool_use_id": record["parentToolUseID"]}
        elif wire in ("assistant", "user"):
            line = line_of(record)
            if is_prompt(record) and text:
                yield result(text, uuid="r", is_error=failed)
                yield {**INIT, "uuid": "i"}
                text = ""
            yield line
            if last_text(record):
                text, failed = last_text(record), record.get("isApiErrorMessage") is True
        elif wire in ("queue-operation", "attachment"):
            yield record
    yield result(text, uuid="r", is_error=failed)


def line_of(record: Record) -> Record:
    line = {TO_STREAM.get(key, key): value for key, value in record.items() if key not in ON_DISK}
    marked = record.get("isMeta") or record.get("isVisibleInTranscriptOnly") or record.get("isCompactSummary")
    return {**line, "parent_tool_use_id": None, **({"isSynthetic": True} if marked else {})}


def is_prompt(record: Record) -> bool:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return record["type"] == "user" and isinstance(content, str) and not record.get("isMeta")


def last_text(record: Record) -> str:
    blocks = blocks_of(record)
    return next((block["text"] for block in reversed(blocks) if block.get("type") == "text"), "")


def blocks_of(record: Record) -> list[Any]:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    is_text_list = record["type"] == "assistant" and isinstance(content, list)
    return [block for block in content if isinstance(block, dict)] if is_text_list and content else []


def with_pieces(lines: Iterator[Record]) -> Iterator[Record]:
    """Return the stream with partial messages: each line comes before the stop event of its block."""
    positions: dict[Any, tuple[Any, int]] = {}
    for line in lines:
        blocks = blocks_of(line)
        if not blocks or line["message"].get("model") == "<synthetic>":
            yield line
            continue
        parent = line.get("parent_tool_use_id")
        id, index = positions.get(parent, (None, 0))
        if id != line["message"].get("id") or id is None:
            id, index = line["message"].get("id"), 0
            yield stream_event(message_start(id), parent)
        for position, block in enumerate(blocks, start=index):
            yield from (stream_event(event, parent) for event in block_events(position, block))
        yield line
        yield from (
            stream_event(block_stop(position), parent) for position in range(index, index + len(blocks))
        )
        positions[parent] = id, index + len(blocks)


def block_events(index: int, block: Record) -> Iterator[Record]:
    wire = block.get("type")
    if wire == "text":
        yield block_start(index, {"type": "text", "text": ""})
        yield from (block_delta(index, type="text_delta", text=some) for some in split(block["text"]))
        yield from (
            block_delta(index, type="citations_delta", citation=one) for one in block.get("citations") or []
        )
    elif wire == "thinking":
        yield block_start(index, {"type": "thinking", "thinking": "", "signature": ""})
        yield from (
            block_delta(index, type="thinking_delta", thinking=some) for some in split(block["thinking"])
        )
        yield block_delta(index, type="signature_delta", signature=block.get("signature") or "")
    elif wire in ("tool_use", "server_tool_use"):
        yield block_start(index, {**block, "input": {}})
        arguments = json.dumps(block["input"])
        yield from (
            block_delta(index, type="input_json_delta", partial_json=some) for some in split(arguments)
        )
    else:
        yield block_start(index, block)


def split(text: str, pieces: int = 4) -> list[str]:
    size = max(1, len(text) // pieces)
    return [text[start : start + size] for start in range(0, len(text), size)]


def in_one_array(lines: Iterator[Record]) -> Iterator[Any]:
    yield list(lines)


def in_envelopes(lines: Iterator[Record]) -> Iterator[Record]:
    """Return both kinds of envelopes: around the line, and around its message with the line as metadata."""
    for line in lines:
        data = {"content": line["message"], "metadata": line} if "message" in line else line
        is_wrapped = line["type"] not in ("attachment", "queue-operation")
        yield line if not is_wrapped else {"type": line["type"], "timestamp": 1_770_000_000_000, "data": data}


FORMS: dict[str, Callable[[list[Any]], Iterator[Any]]] = {
    "lines": stream_of,
    "pieces": lambda records: with_pieces(stream_of(records)),
    "array": lambda records: in_one_array(stream_of(records)),
    "envelopes": lambda records: in_envelopes(stream_of(records)),
}


def is_unattributed_sidechain(record: Any) -> bool:
    """Return True for a subagent's line that does not name its call; the stream does."""
    return record.get("isSidechain") is True and "agentId" not in record


def is_command_error(record: Record) -> bool:
    return '"content": "Unknown skill: ' in json.dumps(record)


OWN_SESSION = [
    record
    for records, _ in FILES.values()
    for record in records
    if not is_unattributed_sidechain(record) and not is_command_error(record)
] + [
    assistant({"type": "thinking", "thinking": "", "signature": "s"}, id="m7"),
    assistant(text("Said twice."), id="m7"),
    assistant(text("Said twice."), id="m7"),
    assistant({"type": "redacted_thinking", "data": "x"}, {"type": "glow"}, id="m8"),
]


def solid_events(records: Iterator[Any] | list[Any]) -> list[tuple[Any, ...]]:
    events = follow([json.dumps(record) for record in records])
    return [
        (event["type"], event["payload"], event.get("responseId"))
        for event in events
        if event["type"] in CONTENT_TYPES
    ]


@pytest.mark.parametrize("form", FORMS)
def test_file_matches_its_stream(form: str) -> None:
    assert solid_events(FORMS[form](OWN_SESSION)) == solid_events(OWN_SESSION)


def sessions() -> list[Path]:
    """Return the captured files, the largest first."""
    paths = sorted((CORPUS / "claude_code_jsonl").glob("*.jsonl"))
    return sorted(paths, key=lambda path: path.stat().st_size, reverse=True)


@cache
def events_of_file(path: Path) -> list[tuple[Any, ...]]:
    return solid_events(records_of(path))


@cache
def records_of(path: Path) -> list[Any]:
    """Return the records that both forms contain. Summaries without Claude Code's standard prefix and errors of unknown
    commands are not recognisable in the stream, and an answer that a file has twice was streamed once."""
    decoded = map(decode_line, path.read_bytes().decode(errors="replace").split("\n"))
    records = [record for record in decoded if isinstance(record, dict) and record.get("type") in IN_BOTH]
    answers = [record["message"] if record["type"] == "assistant" else None for record in records]
    return [
        record
        for index, record in enumerate(records)
        if not is_unattributed_sidechain(record)
        and (answers[index] is None or answers[index] not in answers[:index])
        and (not record.get("isCompactSummary") or CONTINUED in json.dumps(record))
        and not is_command_error(record)
    ]


IN_BOTH = frozenset({"assistant", "attachment", "progress", "queue-operation", "user"})


def decode_line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


@pytest.mark.parametrize("form", slow_unless(lambda form: form != "pieces", FORMS))
def test_captured_files_match_their_streams(form: str) -> None:
    """Pieces, which contain all lines, are compared for all files."""
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    for path in sessions() if form == "pieces" else spread(sessions(), 20):
        assert solid_events(FORMS[form](records_of(path))) == events_of_file(path), path.name


def test_chunks_join_to_the_complete_texts() -> None:
    """The joined chunks equal the complete text that follows them."""
    for path in spread(sessions(), 20):
        streamed: dict[tuple[str, Any], str] = {}
        lines = [json.dumps(record) for record in FORMS["pieces"](records_of(path))]
        for event in follow(lines):
            kind, payload = event["type"], event["payload"]
            key = (kind.partition("_")[0], payload.get("parentToolCallId"))
            if kind in ("assistant_chunk", "thinking_chunk"):
                streamed[key] = streamed.get(key, "") + payload["text"]
            elif kind in ("assistant_done", "thinking_done") and key in streamed:
                assert streamed.pop(key) == payload["text"], path.name
        assert not streamed, path.name


def test_api_error_in_the_name_of_a_model_is_only_an_error() -> None:
    events = short_events(user("Tides?"), assistant(text("API Error: 529"), isApiErrorMessage=True))

    assert [type for type, *_ in events if type in ("assistant_done", "error")] == ["error"]


@pytest.mark.parametrize("number", range(40))
def test_error_of_a_later_turn_is_emitted(number: int) -> None:
    """The digest of its message makes no difference."""
    words = f"The tide gauge {number} does not answer."
    failed = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [words]}

    events = short_events(
        user("Tides?"),
        assistant(text(words), isApiErrorMessage=True, error="unknown"),
        user("And now?"),
        failed,
    )

    assert [type for type, *_ in events if type == "error"] == ["error", "error"]
