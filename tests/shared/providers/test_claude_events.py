"""The Claude family in the log: streams with and without pieces, the API's own stream, and session files."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ash_shared.eventlog import Context, Event, Normalizer, read_line
from ash_shared.model.events import read_event
from tests.shared.conftest import CORPUS

Told = tuple[str, dict[str, Any]]
Record = dict[str, Any]


def follow(lines: list[str], *, end: bool = True) -> list[Event]:
    """The events of lines, with the state written down after each."""
    state, events = None, list[Event]()
    for line, raw in enumerate(lines, start=1):
        normalizer = Normalizer(state=state)
        events += normalizer.follow(read_line(raw), context(line))
        state = normalizer.state()
    return events + (Normalizer(state=state).close(context(0)) if end else [])


def context(line: int) -> Context:
    number = itertools.count()
    return Context("s1", lambda: f"{line}/{next(number)}", lambda: 7)


def told(*records: Any, end: bool = True) -> list[Told]:
    """Each event as type and payload; all are valid, and each turn has one beginning."""
    events = follow([json.dumps(record) for record in records], end=end)
    for event in events:
        read_event(event)
    assert [event["type"] for event in events].count("turn_start") == len({turn_of(e) for e in events} - {""})
    return [(event["type"], event["payload"]) for event in events]


def turn_of(event: Event) -> str:
    return str(event.get("turnId", ""))


CONTINUED = "This session is being continued from a previous conversation that ran out of context."
INIT = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "i1", "tools": []}
START: Told = ("turn_start", {"trigger": "user"})
END: Told = ("turn_end", {})
SYSTEM_START: Told = ("turn_start", {"trigger": "system"})
CUT: list[Told] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
CANCELLED: list[Told] = [("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})]


def user(content: Any, **more: Any) -> Record:
    return {"type": "user", "message": {"role": "user", "content": content}, "session_id": "s", **more}


def assistant(*blocks: Any, id: str | None = "m1", **more: Any) -> Record:
    message = {"id": id, "type": "message", "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "message": message, "session_id": "s", **more}


def text(said: str) -> Record:
    return {"type": "text", "text": said}


def call(id: str, name: str = "Read", **given: Any) -> Record:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def answered(id: str, content: Any = "fine", **more: Any) -> Record:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def result(said: str | None = None, **more: Any) -> Record:
    return {"type": "result", "subtype": "success", "is_error": False, "session_id": "s"} | (
        {"result": said, **more} if said is not None else more
    )


def piece(event: Record, parent: str | None = None) -> Record:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent, "session_id": "s"}


def starts(id: str = "m1", **message: Any) -> Record:
    message = {"type": "message", "role": "assistant", "content": [], "usage": USAGE, **message}
    return {"type": "message_start", "message": {"id": id, **message}}


def opens(index: int, block: Record) -> Record:
    return {"type": "content_block_start", "index": index, "content_block": block}


def adds(index: int, **delta: Any) -> Record:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stops(index: int) -> Record:
    return {"type": "content_block_stop", "index": index}


def ends(reason: str | None, usage: Record | None = None, **more: Any) -> Record:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage or {}}


STOP = {"type": "message_stop"}
USAGE = {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4, "service_tier": "standard"}


STREAMS: dict[str, tuple[list[Any], list[Told]]] = {
    "a run, whose prompt is not on the wire, and whose result repeats": (
        [INIT, assistant(text("Yes.")), result("Yes.")],
        [START, ("assistant_done", {"text": "Yes."}), END],
    ),
    "a result whose text nobody said": (
        [INIT, result("Four.")],
        [START, ("assistant_done", {"text": "Four.", "variant": "result"}), END],
    ),
    "the prompt before and after init": (
        [user("Hello?"), INIT, user("Still there?"), assistant(text("Yes.")), result("Yes.")],
        [
            START,
            ("user_message", {"text": "Hello?"}),
            ("user_message", {"text": "Still there?"}),
            ("assistant_done", {"text": "Yes."}),
            END,
        ],
    ),
    "a long-lived process, with a turn that began by itself": (
        [
            INIT,
            assistant(text("One.")),
            result("One."),
            INIT,
            assistant(text("Two."), id="m2"),
            result("Two."),
        ],
        [
            START,
            ("assistant_done", {"text": "One."}),
            END,
            START,
            ("assistant_done", {"text": "Two."}),
            END,
        ],
    ),
    "what comes after the result begins a turn": (
        [INIT, assistant(text("One.")), result("One."), assistant(text("And by the way."), id="m2")],
        [
            START,
            ("assistant_done", {"text": "One."}),
            END,
            SYSTEM_START,
            ("assistant_done", {"text": "And by the way."}),
            END,
        ],
    ),
    "a call and its result, with the structured twin": (
        [
            INIT,
            assistant({"type": "thinking", "thinking": "Look.", "signature": "sig"}),
            assistant(text("I look.")),
            assistant(call("t1", file="a.txt")),
            user([answered("t1", "1 line")], tool_use_result={"file": {"numLines": 1}}),
            assistant(call("t2")),
            user([answered("t2", "no such file", is_error=True)], tool_use_result="Error: no such file"),
            result("I look."),
        ],
        [
            START,
            ("thinking_done", {"text": "Look.", "signature": "sig"}),
            ("assistant_done", {"text": "I look."}),
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
    "a twin beside two results is of neither": (
        [INIT, user([answered("t1"), answered("t2")], tool_use_result={"x": 1}), result("")],
        [
            START,
            ("tool_result", {"toolCallId": "t1", "result": "fine", "orphan": True}),
            ("tool_result", {"toolCallId": "t2", "result": "fine", "orphan": True}),
            END,
        ],
    ),
    "a run that was killed": (
        [INIT, assistant(call("t1"))],
        [START, ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}), *CUT],
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
    "an error of the API, worded as an answer and once more as the result": (
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
    "the user stops it, and the result comes still": (
        [
            INIT,
            assistant(text("I be")),
            user([text("[Request interrupted by user]")]),
            result(None, subtype="error_during_execution", is_error=True, errors=["aborted"]),
        ],
        [START, ("assistant_done", {"text": "I be"}), *CANCELLED],
    ),
    "the user stops it, as the result alone tells": (
        [
            INIT,
            assistant(text("I be"), aborted=True),
            result(None, subtype="error_during_execution", terminal_reason="aborted_streaming"),
        ],
        [START, ("assistant_done", {"text": "I be", "partial": True}), *CANCELLED],
    ),
    "the user stops it, told twice; and goes on": (
        [
            user("Go."),
            user([text("[Request interrupted by user]")]),
            user([text("[Request interrupted by user for tool use]")]),
            user("Go on."),
        ],
        [
            START,
            ("user_message", {"text": "Go."}),
            *CANCELLED,
            START,
            ("user_message", {"text": "Go on."}),
            END,
        ],
    ),
    "the result of a tool that was stopped, on the same line": (
        [
            INIT,
            assistant(call("t1")),
            user(
                [
                    answered("t1", "No.", is_error=True),
                    text("[Request interrupted by user for tool use]"),
                ]
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
            user([answered("a1")]),
            result("Done."),
        ],
        [
            START,
            ("tool_call", {"toolCallId": "a1", "toolName": "Task", "args": {"prompt": "Dig."}}),
            ("user_message", {"text": "Dig.", "parentToolCallId": "a1"}),
            ("assistant_done", {"text": "I dig.", "parentToolCallId": "a1"}),
            ("user_message", {"text": "[Request interrupted by user]", "parentToolCallId": "a1"}),
            ("tool_result", {"toolCallId": "a1", "result": "fine"}),
            ("assistant_done", {"text": "Done.", "variant": "result"}),
            END,
        ],
    ),
    "pieces before their lines: an answer of three blocks": (
        [
            INIT,
            piece(starts()),
            piece(opens(0, {"type": "thinking", "thinking": "", "signature": ""})),
            piece(adds(0, type="thinking_delta", thinking="Lo")),
            piece(adds(0, type="thinking_delta", thinking="ok.")),
            piece(adds(0, type="thinking_delta", thinking="", estimated_tokens=4)),
            piece(adds(0, type="signature_delta", signature="sig")),
            assistant({"type": "thinking", "thinking": "Look.", "signature": "sig"}),
            piece(stops(0)),
            piece(opens(1, text(""))),
            piece(adds(1, type="text_delta", text="I look.")),
            piece(stops(1)),  # a client that tells the line late
            assistant(text("I look.")),
            piece(opens(2, call("t1"))),
            piece(adds(2, type="input_json_delta", partial_json="")),
            piece(adds(2, type="input_json_delta", partial_json='{"file":')),
            piece(adds(2, type="input_json_delta", partial_json=' "a"}')),
            assistant(call("t1", file="a")),
            piece(stops(2)),
            piece(ends("tool_use", {"output_tokens": 7})),
            piece(STOP),
            user([answered("t1")]),
            result("I look."),
        ],
        [
            START,
            ("thinking_chunk", {"text": "Lo"}),
            ("thinking_chunk", {"text": "ok."}),
            ("thinking_done", {"text": "Look.", "signature": "sig"}),
            ("assistant_chunk", {"text": "I look."}),
            ("assistant_done", {"text": "I look."}),
            (
                "tool_input_chunk",
                {"toolCallId": "t1", "toolName": "Read", "chunk": '{"file":', "offset": 0},
            ),
            (
                "tool_input_chunk",
                {"toolCallId": "t1", "toolName": "Read", "chunk": ' "a"}', "offset": 8},
            ),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"file": "a"}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            END,
        ],
    ),
    "pieces of two lanes at once": (
        [
            INIT,
            piece(starts("m1")),
            piece(opens(0, text(""))),
            piece(starts("m2"), "a1"),
            piece(opens(0, text("")), "a1"),
            piece(adds(0, type="text_delta", text="main")),
            piece(adds(0, type="text_delta", text="sub"), "a1"),
            assistant(text("sub"), id="m2", parent_tool_use_id="a1"),
            piece(stops(0), "a1"),
            assistant(text("main")),
            piece(stops(0)),
            result("main"),
        ],
        [
            START,
            ("assistant_chunk", {"text": "main"}),
            ("assistant_chunk", {"text": "sub", "parentToolCallId": "a1"}),
            ("assistant_done", {"text": "sub", "parentToolCallId": "a1"}),
            ("assistant_done", {"text": "main"}),
            END,
        ],
    ),
    "pieces that were cut": (
        [INIT, piece(starts()), piece(opens(0, text(""))), piece(adds(0, type="text_delta", text="I be"))],
        [
            START,
            ("assistant_chunk", {"text": "I be"}),
            ("assistant_done", {"text": "I be", "partial": True}),
            *CUT,
        ],
    ),
    "pieces that the user stopped": (
        [
            INIT,
            piece(starts()),
            piece(opens(0, text(""))),
            piece(adds(0, type="text_delta", text="I be")),
            user([text("[Request interrupted by user]")]),
            result(None, subtype="error_during_execution", is_error=True),
        ],
        [
            START,
            ("assistant_chunk", {"text": "I be"}),
            ("assistant_done", {"text": "I be", "partial": True}),
            *CANCELLED,
        ],
    ),
    "a piece of a type nobody has seen, and one that is not what it says": (
        [INIT, piece({"type": "sparkle"}), piece(adds(0, type="text_delta", text=7)), result("")],
        [
            START,
            ("raw", {"source": "claude", "raw": piece({"type": "sparkle"})}),
            ("raw", {"source": "claude", "raw": piece(adds(0, type="text_delta", text=7))}),
            END,
        ],
    ),
    "pieces of which nobody says that the turn ends": (
        [
            piece(starts()),
            piece(opens(0, text(""))),
            piece(adds(0, type="text_delta", text="So.")),
            assistant(text("So.")),
            piece(stops(0)),
            piece(ends("end_turn")),
            piece(STOP),
        ],
        [SYSTEM_START, ("assistant_chunk", {"text": "So."}), ("assistant_done", {"text": "So."}), END],
    ),
    "the stop of a turn that is not there": (
        [result(None, subtype="error_during_execution", terminal_reason="aborted_tools")],
        [],
    ),
    "control records say nothing": (
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
    "a retry, and what a fallback takes back": (
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
            (
                "error",
                {"code": "api_retry", "message": "Busy.", "details": {"message": "Busy."}},
            ),
            ("assistant_done", {"text": "No."}),
            ("retraction", {"messageIds": ["u1"]}),
            ("assistant_done", {"text": "Yes."}),
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
            ("assistant_done", {"text": "On it goes."}),
            END,
        ],
    ),
    "what several calls did, in a word": (
        [{"type": "tool_use_summary", "summary": "Read two files", "preceding_tool_use_ids": ["t1"]}],
        [("system_message", {"text": "Read two files", "variant": "tool_use_summary"})],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream(name: str) -> None:
    records, events = STREAMS[name]

    assert uncounted(*records) == events


def uncounted(*records: Any) -> list[Told]:
    return [
        (wire, {key: value for key, value in payload.items() if key not in ("usage", "costUsd")})
        for wire, payload in told(*records)
    ]


SEARCH = {"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "w1",
    "content": [{"type": "web_search_result", "title": "Ash", "url": "https://example.com"}],
}
CITATION = {"type": "web_search_result_location", "cited_text": "grey", "url": "https://example.com"}

API: dict[str, tuple[list[Any], list[Told]]] = {
    "the usage of two events is one": (
        [
            starts(usage=USAGE),
            {"type": "ping"},
            opens(0, text("H")),
            adds(0, type="text_delta", text="i."),
            stops(0),
            ends("end_turn", {"output_tokens": 5, "cache_read_input_tokens": None}),
            STOP,
        ],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "H"}),
            ("assistant_chunk", {"text": "i."}),
            ("assistant_done", {"text": "Hi."}),
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
    "a call keeps the turn open; its arguments may come whole": (
        [
            starts("m1"),
            opens(0, call("t1", city="Rome")),
            stops(0),
            opens(1, call("t2")),
            adds(1, type="input_json_delta", partial_json='{"a": 1'),
            adds(1, type="input_json_delta", partial_json="}"),
            stops(1),
            ends("tool_use"),
            STOP,
            {"role": "user", "content": [answered("t1"), answered("t2")]},
            starts("m2"),
            opens(0, text("")),
            adds(0, type="text_delta", text="Done."),
            stops(0),
            ends("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {"city": "Rome"}}),
            (
                "tool_input_chunk",
                {"toolCallId": "t2", "toolName": "Read", "chunk": '{"a": 1', "offset": 0},
            ),
            ("tool_input_chunk", {"toolCallId": "t2", "toolName": "Read", "chunk": "}", "offset": 7}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {"a": 1}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("tool_result", {"toolCallId": "t2", "result": "fine"}),
            ("assistant_chunk", {"text": "Done."}),
            ("assistant_done", {"text": "Done."}),
            END,
        ],
    ),
    "what runs at Anthropic, and where a text is from": (
        [
            starts(),
            opens(0, {"type": "thinking", "thinking": "", "signature": ""}),
            adds(0, type="signature_delta", signature="sig"),
            stops(0),
            opens(1, {"type": "redacted_thinking", "data": "x"}),
            stops(1),
            opens(2, SEARCH),
            adds(2, type="input_json_delta", partial_json='{"query": "ash"}'),
            stops(2),
            opens(3, FOUND),
            stops(3),
            opens(4, {"type": "text", "text": "", "citations": []}),
            adds(4, type="text_delta", text="Ash is grey"),
            adds(4, type="citations_delta", citation=CITATION),
            adds(4, type="citations_delta", citation=CITATION),
            stops(4),
            ends("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("thinking_done", {"text": "", "signature": "sig"}),
            ("thinking_done", {"text": "", "redacted": True}),
            (
                "tool_input_chunk",
                {
                    "toolCallId": "w1",
                    "toolName": "web_search",
                    "chunk": '{"query": "ash"}',
                    "offset": 0,
                },
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
            ("tool_result", {"toolCallId": "w1", "result": None, "structured": FOUND["content"]}),
            ("assistant_chunk", {"text": "Ash is grey"}),
            ("assistant_done", {"text": "Ash is grey", "citations": [CITATION, CITATION]}),
            END,
        ],
    ),
    "a compaction of the API's own": (
        [
            starts(),
            opens(0, {"type": "compaction", "content": None}),
            adds(0, type="compaction_delta", content="We built it."),
            stops(0),
            ends("compaction"),
            STOP,
            starts("m2"),
            opens(0, text("")),
            adds(0, type="text_delta", text="On."),
            stops(0),
            ends("end_turn"),
            STOP,
        ],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "We built it.", "variant": "summary"}),
            ("assistant_done", {"text": "We built it.", "variant": "summary"}),
            ("assistant_chunk", {"text": "On."}),
            ("assistant_done", {"text": "On."}),
            END,
        ],
    ),
    "a refusal": (
        [starts(), ends("refusal", stop_details={"explanation": "Not this."}), STOP],
        [
            SYSTEM_START,
            (
                "error",
                {"code": "refusal", "message": "Not this.", "details": {"explanation": "Not this."}},
            ),
            END,
        ],
    ),
    "an error in the midst": (
        [
            starts(),
            opens(0, text("")),
            adds(0, type="text_delta", text="I be"),
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
            ("assistant_done", {"text": "I be", "partial": True}),
            *CUT,
        ],
    ),
    "cut between two blocks": (
        [starts(), opens(0, text("")), adds(0, type="text_delta", text="So:"), stops(0)],
        [
            SYSTEM_START,
            ("assistant_chunk", {"text": "So:"}),
            ("assistant_done", {"text": "So:"}),
            *CUT,
        ],
    ),
    "a piece whose delta nobody knows, and a block": (
        [starts(), adds(0, type="glow_delta", glow=1), opens(1, {"type": "glow"}), ends("end_turn"), STOP],
        [
            SYSTEM_START,
            ("raw", {"source": "claude", "raw": adds(0, type="glow_delta", glow=1)}),
            ("raw", {"source": "claude", "raw": {"type": "glow"}}),
            END,
        ],
    ),
    "an answer in one piece, and the one that waits for a tool": (
        [
            {"role": "user", "content": "Weather?"},
            {**assistant(call("t1"))["message"], "model": "m", "stop_reason": "tool_use"},
            {"role": "user", "content": [answered("t1")]},
            {**assistant(text("Fine."), id="m2")["message"], "model": "m", "stop_reason": "end_turn"},
            {"role": "user", "content": "Thanks."},
        ],
        [
            START,
            ("user_message", {"text": "Weather?"}),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("assistant_done", {"text": "Fine."}),
            END,
            START,
            ("user_message", {"text": "Thanks."}),
            END,
        ],
    ),
}


@pytest.mark.parametrize("name", API)
def test_the_stream_of_the_api(name: str) -> None:
    records, events = API[name]

    assert (told if "usage" in name else uncounted)(*records) == events


def test_the_stream_of_the_api_as_it_is_sent() -> None:
    """Nobody says what it is; each line stands alone. A text that only looks alike is what the user said."""
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

    assert told(*lines) == told(*sent)
    assert [payload.get("text") for _, payload in told("event: my party", 'data: {"a": 1}', "data: {")] == [
        None,
        "event: my party",
        'data: {"a": 1}',
        "data: {",
        None,
    ]


def test_the_same_answer_streamed_and_whole() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {**text("Ash is grey"), "citations": [CITATION]},
        {**SEARCH, "input": {"query": "ash"}},
        FOUND,
        call("t1", a=[1, {"b": "c"}]),
    ]
    whole = {"type": "message", "id": "m1", "role": "assistant", "model": "m", "content": blocks}

    streamed = uncounted(*api_stream(blocks), {"type": "message_stop"})

    assert solid(streamed) == solid(uncounted({**whole, "stop_reason": "tool_use"}))


def api_stream(blocks: list[Record]) -> Iterator[Record]:
    yield starts()
    for index, block in enumerate(blocks):
        yield from (event for event in pieces_of(index, block))
        yield stops(index)
    yield ends("tool_use")


SOLID = frozenset({"assistant_done", "thinking_done", "tool_call", "tool_result", "user_message"})


def solid(events: list[Told]) -> list[Told]:
    return [event for event in events if event[0] in SOLID]


FILES: dict[str, tuple[list[Any], list[Told]]] = {
    "two turns, of which one tells its end": (
        [
            {"type": "summary", "summary": "Of another conversation", "leafUuid": "l"},
            user("One?"),
            assistant(text("One.")),
            {"type": "system", "subtype": "turn_duration", "durationMs": 9},
            {"type": "file-history-snapshot", "snapshot": {}},
            user("Two?"),
            assistant(text("Two."), id="m2"),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("assistant_done", {"text": "One."}),
            END,
            START,
            ("user_message", {"text": "Two?"}),
            ("assistant_done", {"text": "Two."}),
            END,
        ],
    ),
    "the lines of one answer, with results between": (
        [
            user("Look."),
            assistant(call("t1")),
            user([answered("t1")], toolUseResult={"ok": True}),
            assistant(call("t2")),
            user([answered("t2")], toolUseResult=[text("x")]),
        ],
        [
            START,
            ("user_message", {"text": "Look."}),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine", "structured": {"ok": True}}),
            ("tool_call", {"toolCallId": "t2", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t2", "result": "fine", "structured": [text("x")]}),
            END,
        ],
    ),
    "an error between two prompts is an answer": (
        [
            user("One?"),
            assistant(text("API Error: 500"), isApiErrorMessage=True)
            | {"message": {"model": "<synthetic>", "content": [text("API Error: 500")]}},
            user("Two?"),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("error", {"code": "api_error", "message": "API Error: 500"}),
            END,
            START,
            ("user_message", {"text": "Two?"}),
            END,
        ],
    ),
    "a queued prompt that became a turn of its own": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Two?"},
            assistant(text("One.")),
            {"type": "queue-operation", "operation": "dequeue"},
            user("Two?"),
            assistant(text("Two."), id="m2"),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("assistant_done", {"text": "One."}),
            END,
            START,
            ("user_message", {"text": "Two?"}),
            ("assistant_done", {"text": "Two."}),
            END,
        ],
    ),
    "a queued prompt that the model was given in the midst": (
        [
            user("One?"),
            assistant(call("t1")),
            {"type": "queue-operation", "operation": "enqueue", "content": "Faster!"},
            user([answered("t1")]),
            {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "Faster!"}},
            assistant(text("Yes.")),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("tool_call", {"toolCallId": "t1", "toolName": "Read", "args": {}}),
            ("tool_result", {"toolCallId": "t1", "result": "fine"}),
            ("user_message", {"text": "Faster!"}),
            ("assistant_done", {"text": "Yes."}),
            END,
        ],
    ),
    "a queued prompt that is taken in the midst of a turn": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Never mind."},
            {"type": "queue-operation", "operation": "remove"},
            assistant(text("One.")),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("user_message", {"text": "Never mind."}),
            ("assistant_done", {"text": "One."}),
            END,
        ],
    ),
    "a queued prompt that nobody takes": (
        [
            user("One?"),
            {"type": "queue-operation", "operation": "enqueue", "content": "Never mind."},
            assistant(text("One.")),
        ],
        [
            START,
            ("user_message", {"text": "One?"}),
            ("assistant_done", {"text": "One."}),
            ("user_message", {"text": "Never mind."}),
            END,
        ],
    ),
    "a subagent in a line of its caller, and in one beside it": (
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
            ("user_message", {"text": "Dig."}),
            ("tool_call", {"toolCallId": "a1", "toolName": "Task", "args": {}}),
            ("user_message", {"text": "Dig!", "parentToolCallId": "a1"}),
            ("assistant_done", {"text": "I dig.", "parentToolCallId": "a1"}),
            ("user_message", {"text": "Dig deeper.", "synthetic": True, "sidechain": True}),
            ("user_message", {"text": "As an agent."}),
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
    "what the tool says in the user's name": (
        [user("<local-command-caveat>…", isMeta=True), assistant(text("So."))],
        [
            ("user_message", {"text": "<local-command-caveat>…", "synthetic": True}),
            SYSTEM_START,
            ("assistant_done", {"text": "So."}),
            END,
        ],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_session_file(name: str) -> None:
    records, events = FILES[name]

    assert uncounted(*records) == events


@pytest.mark.parametrize(
    "records",
    [
        [INIT, assistant(text("So.")), result("So.")],
        [user("So?"), assistant(text("So.")), {"type": "system", "subtype": "turn_duration"}],
        [starts(), opens(0, text("So.")), stops(0), ends("end_turn", {"output_tokens": 2}), STOP],
        [{**assistant(text("So."))["message"], "model": "m", "stop_reason": "end_turn"}],
        [user("So?"), user([text("[Request interrupted by user]")])],
    ],
    ids=["result", "duration", "stream of the API", "answer of the API", "interrupt"],
)
def test_a_turn_ends_when_its_end_is_told(records: list[Any]) -> None:
    assert told(*records, end=False)[-1][0] == "turn_end"


def test_a_turn_goes_on_while_the_api_waits() -> None:
    stream = [starts(), opens(0, text("So.")), stops(0), ends("pause_turn"), STOP]

    assert [wire for wire, _ in told(*stream, end=False)] == [
        "turn_start",
        "assistant_chunk",
        "assistant_done",
    ]


def test_what_each_turn_cost() -> None:
    """The cost of a run is that of all its turns so far, also of those that the user stopped."""
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

    ends = [payload for wire, payload in told(*records) if wire == "turn_end"]

    assert [(end.get("costUsd"), end.get("usage", {}).get("total_tokens")) for end in ends] == [
        (0.25, 3),
        (0.25, None),
        (0.75, 7),
        (1.0, 11),
    ]


# --- A session imported from its file, and the same one as a stream

TO_STREAM = {"toolUseResult": "tool_use_result", "agentId": "agent_id", "sessionId": "session_id"}
ON_DISK = {
    *("cwd", "gitBranch", "isCompactSummary", "isMeta", "isSidechain", "isVisibleInTranscriptOnly"),
    *("parentUuid", "requestId", "slug", "sourceToolAssistantUUID", "timestamp", "userType", "version"),
}


def stream_of(records: list[Any]) -> Iterator[Record]:
    """The lines of a session file as the stream of one process that went through all of its turns."""
    yield INIT
    said, failed = "", False
    for record in records:
        wire = record.get("type")
        if wire == "progress" and record["data"].get("type") == "agent_progress":
            yield {**line_of(record["data"]["message"]), "parent_tool_use_id": record["parentToolUseID"]}
        elif wire in ("assistant", "user"):
            line = line_of(record)
            if is_prompt(record) and said:
                yield result(said, uuid="r", is_error=failed)
                yield {**INIT, "uuid": "i"}
                said = ""
            yield line
            if last_text(record):
                said, failed = last_text(record), record.get("isApiErrorMessage") is True
        elif wire in ("queue-operation", "attachment"):
            yield record
    yield result(said, uuid="r", is_error=failed)


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
    is_said = record["type"] == "assistant" and isinstance(content, list)
    return [block for block in content if isinstance(block, dict)] if is_said and content else []


def with_pieces(lines: Iterator[Record]) -> Iterator[Record]:
    """The same stream with partial messages: each line comes before its block is said to have stopped."""
    places: dict[Any, tuple[Any, int]] = {}
    for line in lines:
        blocks = blocks_of(line)
        if not blocks or line["message"].get("model") == "<synthetic>":
            yield line
            continue
        lane = line.get("parent_tool_use_id")
        id, index = places.get(lane, (None, 0))
        if id != line["message"].get("id") or id is None:
            id, index = line["message"].get("id"), 0
            yield piece(starts(id), lane)
        for place, block in enumerate(blocks, start=index):
            yield from (piece(event, lane) for event in pieces_of(place, block))
        yield line
        yield from (piece(stops(place), lane) for place in range(index, index + len(blocks)))
        places[lane] = id, index + len(blocks)


def pieces_of(index: int, block: Record) -> Iterator[Record]:
    wire = block.get("type")
    if wire == "text":
        yield opens(index, {"type": "text", "text": ""})
        yield from (adds(index, type="text_delta", text=some) for some in cut(block["text"]))
        yield from (adds(index, type="citations_delta", citation=one) for one in block.get("citations") or [])
    elif wire == "thinking":
        yield opens(index, {"type": "thinking", "thinking": "", "signature": ""})
        yield from (adds(index, type="thinking_delta", thinking=some) for some in cut(block["thinking"]))
        yield adds(index, type="signature_delta", signature=block.get("signature") or "")
    elif wire in ("tool_use", "server_tool_use"):
        yield opens(index, {**block, "input": {}})
        given = json.dumps(block["input"])
        yield from (adds(index, type="input_json_delta", partial_json=some) for some in cut(given))
    else:
        yield opens(index, block)


def cut(said: str, pieces: int = 4) -> list[str]:
    size = max(1, len(said) // pieces)
    return [said[start : start + size] for start in range(0, len(said), size)]


def in_one_array(lines: Iterator[Record]) -> Iterator[Any]:
    yield list(lines)


def in_envelopes(lines: Iterator[Record]) -> Iterator[Record]:
    """Both kinds of them: around the line, and around its message with the line beside it."""
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


def is_aside(record: Any) -> bool:
    """Of a subagent that stands in the file of its caller and does not say so: the stream names the caller."""
    return record.get("isSidechain") is True and "agentId" not in record


OWN_SESSION = [record for records, _ in FILES.values() for record in records if not is_aside(record)] + [
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
        if event["type"] in SOLID
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_file_and_its_stream_agree(form: str) -> None:
    assert solid_events(FORMS[form](OWN_SESSION)) == solid_events(OWN_SESSION)


def sessions() -> list[Path]:
    return sorted((CORPUS / "claude_code_jsonl").glob("*.jsonl")) if CORPUS.is_dir() else []


def records_of(path: Path) -> list[Any]:
    """What both forms have; a summary that does not begin as those of Claude Code do is no such in the stream."""
    decoded = map(decoded_line, path.read_bytes().decode(errors="replace").split("\n"))
    records = [record for record in decoded if isinstance(record, dict) and record.get("type") in IN_BOTH]
    return [
        record
        for record in records
        if not is_aside(record) and (not record.get("isCompactSummary") or CONTINUED in json.dumps(record))
    ]


IN_BOTH = frozenset({"assistant", "attachment", "progress", "queue-operation", "user"})


def decoded_line(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


@pytest.mark.parametrize("form", FORMS)
def test_all_files_and_their_streams_agree(form: str) -> None:
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus beside the repository")
    for path in sessions():
        records = records_of(path)
        assert solid_events(FORMS[form](records)) == solid_events(records), path.name


def test_pieces_are_what_is_told_in_the_end() -> None:
    """Whoever follows the pieces has read the whole when it comes."""
    for path in sessions():
        heard: dict[tuple[str, Any], str] = {}
        lines = [json.dumps(record) for record in FORMS["pieces"](records_of(path))]
        for event in follow(lines):
            kind, payload = event["type"], event["payload"]
            place = (kind.partition("_")[0], payload.get("parentToolCallId"))
            if kind in ("assistant_chunk", "thinking_chunk"):
                heard[place] = heard.get(place, "") + payload["text"]
            elif kind in ("assistant_done", "thinking_done") and place in heard:
                assert heard.pop(place) == payload["text"], path.name
        assert not heard, path.name
