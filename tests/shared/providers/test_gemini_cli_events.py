"""Events of Gemini CLI: both forms of its session files, and its printed output."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shared.providers.test_gemini_events import Short, events_of, in_turns, short_event, short_events
from tests.shared.records.gemini_cli import TIME, call, event, function_response, line
from tests.shared.sample_files import CORPUS

HEADER = {"sessionId": "s", "projectHash": "p", "startTime": TIME, "lastUpdated": TIME, "kind": "main"}
BEGIN: Short = ("turn_start", {"trigger": "user"})
SYSTEM: Short = ("turn_start", {"trigger": "system"})
END: Short = ("turn_end", {})


def user_message(id: str, text: str) -> dict[str, Any]:
    return line("user", id, [{"text": text}])


def model_message(id: str, text: str, **more: Any) -> dict[str, Any]:
    return line("gemini", id, text, **more)


INIT = event("init", session_id="s", model="m")
STATS = {"total_tokens": 9, "input_tokens": 7, "output_tokens": 2, "cached": 0}
CALL: Short = ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {"at": "Oslo"}}, "g1")
PLAIN_CALL: Short = CALL[:2]


def delta_event(text: str) -> dict[str, Any]:
    return event("message", role="assistant", content=text, delta=True)


TABLE: dict[str, tuple[list[Any], list[Short]]] = {
    "a run": (
        [
            INIT,
            event("message", role="user", content="When?"),
            delta_event("I "),
            delta_event("look."),
            event("tool_use", tool_name="tide", tool_id="c1", parameters={"at": "Oslo"}),
            event("tool_result", tool_id="c1", status="success", output="low"),
            delta_event("Now."),
            event("result", status="success", stats=STATS),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_chunk", {"text": "I "}),
            ("assistant_chunk", {"text": "look."}),
            ("assistant_done", {"text": "I look."}),
            PLAIN_CALL,
            ("tool_result", {"toolCallId": "c1", "result": "low"}),
            ("assistant_chunk", {"text": "Now."}),
            ("assistant_done", {"text": "Now."}),
            ("turn_end", {"usage": (7, 2)}),
        ],
    ),
    "a failing run": (
        [
            INIT,
            event("message", role="user", content="When?"),
            event("tool_use", tool_name="tide", tool_id="c1", parameters={"at": "Oslo"}),
            event("tool_result", tool_id="c1", status="error", error={"type": "x", "message": "No sea"}),
            event("error", severity="warning", message="Going in circles"),
            event("error", severity="error", message="Too many turns"),
            event("result", status="error", error={"type": "Fatal", "message": "It broke"}, stats=STATS),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            PLAIN_CALL,
            (
                "tool_result",
                {"toolCallId": "c1", "result": "No sea", "error": {"code": "error", "message": "No sea"}},
            ),
            ("error", {"code": "warning", "message": "Going in circles"}),
            ("error", {"code": "error", "message": "Too many turns"}),
            ("error", {"code": "Fatal", "message": "It broke"}),
            ("turn_end", {"usage": (7, 2)}),
        ],
    ),
    "a run stopped by the user, and one that ends without output": (
        [
            INIT,
            event("message", role="user", content="When?"),
            delta_event("I"),
            event(
                "result",
                status="error",
                error={"type": "FatalCancellationError", "message": "Operation cancelled."},
                stats=STATS,
            ),
            INIT,
            event("message", role="user", content="And now?"),
            delta_event("Wai"),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_chunk", {"text": "I"}),
            ("assistant_done", {"text": "I"}),
            ("error", {"code": "FatalCancellationError", "message": "Operation cancelled."}),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"usage": (7, 2), "partial": True}),
            BEGIN,
            ("user_message", {"text": "And now?"}),
            ("assistant_chunk", {"text": "Wai"}),
            ("assistant_done", {"text": "Wai", "partial": True}),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a killed run": (
        [INIT, event("message", role="user", content="When?")],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a complete message in a stream": (
        [delta_event("a"), event("message", role="assistant", content="b")],
        [
            SYSTEM,
            ("assistant_chunk", {"text": "a"}),
            ("assistant_done", {"text": "a"}),
            ("assistant_done", {"text": "b"}),
            END,
        ],
    ),
    "a session, line by line": (
        [
            HEADER,
            user_message("u1", "When?"),
            {"$set": {"lastUpdated": TIME}},
            model_message("g1", "", thoughts=[{"subject": "Sea", "description": "It moves."}]),
            model_message(
                "g1",
                "I look.",
                thoughts=[{"subject": "Sea", "description": "It moves."}],
                toolCalls=[call("c1", "executing")],
                tokens={"input": 7, "output": 2},
            ),
            model_message(
                "g1",
                "I look.",
                thoughts=[{"subject": "Sea", "description": "It moves."}],
                toolCalls=[call("c1", "success", result=function_response("c1", output="low"))],
                tokens={"input": 7, "output": 3},
            ),
            line("info", "i1", "A new version is there."),
            line("warning", "w1", "Little space."),
            line("error", "e1", "No network"),
            model_message("g2", "Now.", tokens={"input": 9, "output": 1}),
            user_message("u2", "Thanks"),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("thinking_done", {"text": "**Sea**\n\nIt moves."}, "g1"),
            ("assistant_done", {"text": "I look."}, "g1"),
            CALL,
            ("tool_result", {"toolCallId": "c1", "result": "low", "structured": {"output": "low"}}),
            ("system_message", {"text": "A new version is there.", "variant": "notice"}),
            ("system_message", {"text": "Little space.", "variant": "notice"}),
            ("error", {"code": "error", "message": "No network"}),
            ("assistant_done", {"text": "Now."}, "g2"),
            ("turn_end", {"usage": (16, 4)}),
            BEGIN,
            ("user_message", {"text": "Thanks"}),
            END,
        ],
    ),
    "a rewritten text": (
        [user_message("u1", "When?"), model_message("g1", "No"), model_message("g1", "Now.")],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_done", {"text": "No"}, "g1"),
            ("assistant_done", {"text": "Now."}, "g1"),
            ("retraction", {"eventIds": ["e3"]}),
            END,
        ],
    ),
    "calls cancelled by the user": (
        [
            user_message("u1", "When?"),
            model_message(
                "g1", "", toolCalls=[call("c1", "cancelled", result=function_response("c1", error="Stopped"))]
            ),
            model_message(
                "g1", "", toolCalls=[call("c1", "cancelled", result=function_response("c1", error="Stopped"))]
            ),
            line("info", "i1", "Request cancelled."),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            CALL,
            (
                "tool_result",
                {
                    "toolCallId": "c1",
                    "result": "Stopped",
                    "error": {"code": "error", "message": "Stopped"},
                    "structured": {"error": "Stopped"},
                },
            ),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
            ("system_message", {"text": "Request cancelled.", "variant": "notice"}),
        ],
    ),
    "one of two calls cancelled by the user": (
        [
            user_message("u1", "When?"),
            model_message(
                "g1",
                "",
                toolCalls=[
                    call("c1", "cancelled"),
                    call("c2", "success", result=function_response("c2", output="low")),
                ],
            ),
            model_message("g2", "Now."),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            CALL,
            ("tool_call", {**CALL[1], "toolCallId": "c2"}, "g1"),
            ("tool_result", {"toolCallId": "c1", "result": None, "error": {"code": "error", "message": ""}}),
            ("tool_result", {"toolCallId": "c2", "result": "low", "structured": {"output": "low"}}),
            ("assistant_done", {"text": "Now."}, "g2"),
            END,
        ],
    ),
    "a response cancelled by the user": (
        [
            user_message("u1", "When?"),
            model_message("g1", "We"),
            line("info", "i1", "Request cancelled."),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_done", {"text": "We"}, "g1"),
            ("system_message", {"text": "Request cancelled.", "variant": "notice"}),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a rewind": (
        [
            user_message("u1", "When?"),
            model_message("g1", "Now."),
            user_message("u2", "Where?"),
            {"$rewindTo": "u2"},
            user_message("u3", "Why?"),
        ],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_done", {"text": "Now."}, "g1"),
            END,
            BEGIN,
            ("user_message", {"text": "Where?"}),
            END,
            ("retraction", {"fromMessageId": "u2"}),
            BEGIN,
            ("user_message", {"text": "Why?"}),
            END,
        ],
    ),
    "the document of a run": (
        [
            {
                "response": "Now.",
                "stats": {"models": {"m": {"tokens": {"prompt": 7, "candidates": 2}}}},
            },
        ],
        [SYSTEM, ("assistant_done", {"text": "Now."}), ("turn_end", {"usage": (7, 2)})],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_record_events(name: str) -> None:
    records, expected = TABLE[name]

    assert short_events(*records) == expected


def test_incomplete_records_of_a_declared_source() -> None:
    """The end of a run is recognised without its time; a rewind without an id is an unknown record."""
    records = [INIT, delta_event("Now."), {"type": "result", "status": "success"}, {"$rewindTo": 5}]

    assert short_events(*records, source="gemini_cli") == [
        BEGIN,
        ("assistant_chunk", {"text": "Now."}),
        ("assistant_done", {"text": "Now."}),
        END,
        ("raw", {"source": "gemini_cli", "raw": {"$rewindTo": 5}}),
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_turn_ends_with_its_run(ends: bool) -> None:
    records, expected = TABLE["a run"]

    assert short_events(*records, ends=ends) == expected


def test_events_have_id_and_time_of_their_message() -> None:
    later = {**model_message("g1", "Now."), "timestamp": "2026-03-02T08:15:01Z"}
    cancelled = {**line("info", "i1", "Request cancelled."), "timestamp": "2026-03-02T08:15:02Z"}

    events = events_of([json.dumps({**HEADER, "messages": [user_message("u1", "When?"), later, cancelled]})])

    first = 1772439300000
    assert [(each["type"], each.get("recordId"), each["timestamp"]) for each in events] == [
        ("turn_start", "u1", first),
        ("user_message", "u1", first),
        ("assistant_done", "g1", first + 1000),
        ("system_message", "i1", first + 2000),
        ("interrupt", None, first + 2000),
        ("turn_end", None, first + 2000),
    ]


# One session in its three forms


def as_lines(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the lines of newer versions, which rewrite grown messages."""
    yield {key: value for key, value in document.items() if key != "messages"}
    for message in document["messages"]:
        calls = message.get("toolCalls") or []
        if calls:
            yield {key: value for key, value in message.items() if key not in ("toolCalls", "tokens")}
            pending = [{key: call[key] for key in ("id", "name", "args")} for call in calls]
            yield {**message, "toolCalls": pending}
        yield {"$set": {"lastUpdated": message["timestamp"]}}
        yield message


def as_stream(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the printed events: a run per prompt, texts as deltas, without thoughts and CLI messages."""
    runs = 0
    for message in document["messages"]:
        content = message.get("content", message.get("parts")) or ""
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        if message["type"] == "user":
            yield from [event("result", status="success", stats=STATS)] if runs else []
            yield INIT
            yield event("message", role="user", content=text)
            runs += 1
        elif message["type"] in ("gemini", "model"):
            yield from (delta_event(text[start : start + 7]) for start in range(0, len(text), 7))
            for call in message.get("toolCalls") or []:
                call_fields = {"tool_id": call["id"], "tool_name": call["name"], "parameters": call["args"]}
                yield event("tool_use", **call_fields)
            for call in message.get("toolCalls") or []:
                status = "success" if call["status"] == "success" else "error"
                yield event(
                    "tool_result", tool_id=call["id"], status=status, output=call.get("resultDisplay")
                )
    yield event("result", status="success", stats=STATS)


SAMPLE: dict[str, Any] = {
    **HEADER,
    "messages": [
        TABLE["a session, line by line"][0][1],
        *TABLE["a session, line by line"][0][5:],
        *(
            {**record, "id": f"{record['id']}x"}
            for record in TABLE["one of two calls cancelled by the user"][0]
        ),
    ],
}

CONTENT_TYPES = ("user_message", "assistant_done", "thinking_done", "tool_call", "tool_result")
OMITTED_IN_STREAM = {
    "thinking_done": None,
    "tool_result": ("result", "structured", "error"),
}
"""Fields missing in a stream: thoughts and the results given to the model. The stream prints the displayed
text."""


def content_events(events: list[dict[str, Any]]) -> list[Short]:
    return [short_event(each)[:2] for each in in_turns(events) if each["type"] in CONTENT_TYPES]


def printed_events(events: list[dict[str, Any]]) -> list[Short]:
    """Return the events that the stream also contains; of a result, its call and whether it failed."""
    printed = []
    for wire, payload in content_events(events):
        omitted = OMITTED_IN_STREAM.get(wire, ())
        if omitted is not None:
            fields = {key: value for key, value in payload.items() if key not in omitted}
            printed.append(
                (
                    wire,
                    {**fields, "failed": "error" in payload} if wire == "tool_result" else fields,
                )
            )
    return printed


def documents() -> list[Any]:
    """Return sessions in one document. The oldest form, `history`, has no ids, no times and no lines."""
    paths = sorted((CORPUS / "gemini_cli_session").glob("*.json"))
    decoded = [(path, json.loads(path.read_text())) for path in paths]
    sessions = [pytest.param(value, id=path.stem) for path, value in decoded if "messages" in value]
    return [pytest.param(SAMPLE, id="sample"), *sessions]


@pytest.mark.parametrize("document", documents())
def test_document_matches_its_lines(document: dict[str, Any]) -> None:
    expected = events_of([json.dumps(document)])

    lines = events_of([json.dumps(record) for record in as_lines(document)])

    assert content_events(lines) == content_events(expected)
    assert [each["type"] for each in lines] == [each["type"] for each in expected]


@pytest.mark.parametrize("document", documents())
def test_session_matches_its_printed_runs(document: dict[str, Any]) -> None:
    expected = events_of([json.dumps(document)])

    stream = events_of([json.dumps(record) for record in as_stream(document)])

    assert printed_events(stream) == printed_events(expected)
