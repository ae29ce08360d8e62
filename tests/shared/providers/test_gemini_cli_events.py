"""The events of Gemini CLI: of its session files in both forms, and of what it prints."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.providers.test_gemini_events import Short, events_of, in_turns, short, told

TIME = "2026-01-02T03:04:05.000Z"
HEAD = {"sessionId": "s", "projectHash": "p", "startTime": TIME, "lastUpdated": TIME, "kind": "main"}
BEGIN: Short = ("turn_start", {"trigger": "user"})
SYSTEM: Short = ("turn_start", {"trigger": "system"})
END: Short = ("turn_end", {})


def asked(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": "user", "content": [{"text": text}]}


def answer(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": "gemini", "content": text, **more}


def ran(id: str, status: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "name": "tide", "args": {"at": "Oslo"}, "status": status, **more}


def gave(id: str, **response: str) -> list[Any]:
    return [{"functionResponse": {"id": id, "name": "tide", "response": response}}]


def says(id: str, wire: str, text: str) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "type": wire, "content": text}


def event(wire: str, **more: Any) -> dict[str, Any]:
    return {"type": wire, "timestamp": TIME, **more}


INIT = event("init", session_id="s", model="m")
STATS = {"total_tokens": 9, "input_tokens": 7, "output_tokens": 2, "cached": 0}
CALL: Short = ("tool_call", {"toolCallId": "c1", "toolName": "tide", "args": {"at": "Oslo"}}, "g1")
PLAIN_CALL: Short = CALL[:2]


def piece(text: str) -> dict[str, Any]:
    return event("message", role="assistant", content=text, delta=True)


TABLE: dict[str, tuple[list[Any], list[Short]]] = {
    "a run": (
        [
            INIT,
            event("message", role="user", content="When?"),
            piece("I "),
            piece("look."),
            event("tool_use", tool_name="tide", tool_id="c1", parameters={"at": "Oslo"}),
            event("tool_result", tool_id="c1", status="success", output="low"),
            piece("Now."),
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
    "a run that fails": (
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
    "a run that the person stops, and one that ends without a word": (
        [
            INIT,
            event("message", role="user", content="When?"),
            piece("I"),
            event(
                "result",
                status="error",
                error={"type": "FatalCancellationError", "message": "Operation cancelled."},
                stats=STATS,
            ),
            INIT,
            event("message", role="user", content="And now?"),
            piece("Wai"),
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
    "a run that was killed": (
        [INIT, event("message", role="user", content="When?")],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a message that is no piece": (
        [piece("a"), event("message", role="assistant", content="b")],
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
            HEAD,
            asked("u1", "When?"),
            {"$set": {"lastUpdated": TIME}},
            answer("g1", "", thoughts=[{"subject": "Sea", "description": "It moves."}]),
            answer(
                "g1",
                "I look.",
                thoughts=[{"subject": "Sea", "description": "It moves."}],
                toolCalls=[ran("c1", "executing")],
                tokens={"input": 7, "output": 2},
            ),
            answer(
                "g1",
                "I look.",
                thoughts=[{"subject": "Sea", "description": "It moves."}],
                toolCalls=[ran("c1", "success", result=gave("c1", output="low"))],
                tokens={"input": 7, "output": 3},
            ),
            says("i1", "info", "A new version is there."),
            says("w1", "warning", "Little space."),
            says("e1", "error", "No network"),
            answer("g2", "Now.", tokens={"input": 9, "output": 1}),
            asked("u2", "Thanks"),
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
    "a text that is written anew": (
        [asked("u1", "When?"), answer("g1", "No"), answer("g1", "Now.")],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_done", {"text": "No"}, "g1"),
            ("assistant_done", {"text": "Now."}, "g1"),
            ("retraction", {"eventIds": ["e3"]}),
            END,
        ],
    ),
    "calls that the person stops": (
        [
            asked("u1", "When?"),
            answer("g1", "", toolCalls=[ran("c1", "cancelled", result=gave("c1", error="Stopped"))]),
            answer("g1", "", toolCalls=[ran("c1", "cancelled", result=gave("c1", error="Stopped"))]),
            says("i1", "info", "Request cancelled."),
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
    "one call of two that the person stops": (
        [
            asked("u1", "When?"),
            answer(
                "g1",
                "",
                toolCalls=[ran("c1", "cancelled"), ran("c2", "success", result=gave("c2", output="low"))],
            ),
            answer("g2", "Now."),
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
    "an answer that the person stops": (
        [asked("u1", "When?"), answer("g1", "We"), says("i1", "info", "Request cancelled.")],
        [
            BEGIN,
            ("user_message", {"text": "When?"}),
            ("assistant_done", {"text": "We"}, "g1"),
            ("system_message", {"text": "Request cancelled.", "variant": "notice"}),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "back to an earlier place": (
        [
            asked("u1", "When?"),
            answer("g1", "Now."),
            asked("u2", "Where?"),
            {"$rewindTo": "u2"},
            asked("u3", "Why?"),
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
def test_what_records_add_to_the_log(name: str) -> None:
    records, expected = TABLE[name]

    assert told(*records) == expected


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_ends_its_turn_at_once(ends: bool) -> None:
    records, expected = TABLE["a run"]

    assert told(*records, ends=ends) == expected


def test_events_carry_the_id_and_the_time_of_their_message() -> None:
    later = {**answer("g1", "Now."), "timestamp": "2026-01-02T03:04:06.000Z"}
    cancelled = {**says("i1", "info", "Request cancelled."), "timestamp": "2026-01-02T03:04:07.000Z"}

    events = events_of([json.dumps({**HEAD, "messages": [asked("u1", "When?"), later, cancelled]})])

    first = 1767323045000
    assert [(each["type"], each.get("recordId"), each["timestamp"]) for each in events] == [
        ("turn_start", "u1", first),
        ("user_message", "u1", first),
        ("assistant_done", "g1", first + 1000),
        ("system_message", "i1", first + 2000),
        ("interrupt", None, first + 2000),
        ("turn_end", None, first + 2000),
    ]


# --- One session in its three forms


def as_lines(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """As newer versions write it: what has grown is written anew."""
    yield {key: value for key, value in document.items() if key != "messages"}
    for message in document["messages"]:
        calls = message.get("toolCalls") or []
        if calls:
            yield {key: value for key, value in message.items() if key not in ("toolCalls", "tokens")}
            waiting = [{key: call[key] for key in ("id", "name", "args")} for call in calls]
            yield {**message, "toolCalls": waiting}
        yield {"$set": {"lastUpdated": message["timestamp"]}}
        yield message


def as_stream(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """As it is printed: a run for each prompt, texts in pieces, and neither thoughts nor what the CLI itself says."""
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
            yield from (piece(text[place : place + 7]) for place in range(0, len(text), 7))
            for call in message.get("toolCalls") or []:
                given = {"tool_id": call["id"], "tool_name": call["name"], "parameters": call["args"]}
                yield event("tool_use", **given)
            for call in message.get("toolCalls") or []:
                status = "success" if call["status"] == "success" else "error"
                yield event(
                    "tool_result", tool_id=call["id"], status=status, output=call.get("resultDisplay")
                )
    yield event("result", status="success", stats=STATS)


SAMPLE: dict[str, Any] = {
    **HEAD,
    "messages": [
        TABLE["a session, line by line"][0][1],
        *TABLE["a session, line by line"][0][5:],
        *(
            {**record, "id": f"{record['id']}x"}
            for record in TABLE["one call of two that the person stops"][0]
        ),
    ],
}

AGREE = ("user_message", "assistant_done", "thinking_done", "tool_call", "tool_result")
NOT_PRINTED = {
    "thinking_done": None,
    "tool_result": ("result", "structured", "error"),
}
"""What a stream does not hold: thoughts, and what a tool gave to the model. It prints what the person was shown."""


def agreed(events: list[dict[str, Any]]) -> list[Short]:
    return [short(each)[:2] for each in in_turns(events) if each["type"] in AGREE]


def printed(events: list[dict[str, Any]]) -> list[Short]:
    """What the stream holds, too: of a result, which call it is of, and whether it failed."""
    kept = []
    for wire, payload in agreed(events):
        left_out = NOT_PRINTED.get(wire, ())
        if left_out is not None:
            told = {key: value for key, value in payload.items() if key not in left_out}
            kept.append((wire, {**told, "failed": "error" in payload} if wire == "tool_result" else told))
    return kept


def documents() -> list[Any]:
    """Sessions that are one document. The oldest form, `history`, has neither ids nor times, and no lines."""
    paths = sorted((CORPUS / "gemini_cli_session").glob("*.json"))
    found = [(path, json.loads(path.read_text())) for path in paths]
    sessions = [pytest.param(value, id=path.stem) for path, value in found if "messages" in value]
    return [pytest.param(SAMPLE, id="sample"), *sessions]


@pytest.mark.parametrize("document", documents())
def test_a_document_and_its_lines_tell_the_same(document: dict[str, Any]) -> None:
    whole = events_of([json.dumps(document)])

    lines = events_of([json.dumps(record) for record in as_lines(document)])

    assert agreed(lines) == agreed(whole)
    assert [each["type"] for each in lines] == [each["type"] for each in whole]


@pytest.mark.parametrize("document", documents())
def test_a_session_and_what_its_runs_print_tell_the_same(document: dict[str, Any]) -> None:
    whole = events_of([json.dumps(document)])

    stream = events_of([json.dumps(record) for record in as_stream(document)])

    assert printed(stream) == printed(whole)
