"""Ash's own events in the log: they pass unchanged, and derived events continue their turns."""

import json
from typing import Any

import pytest

from ash_shared import transform_messages
from ash_shared.eventlog import Event, Normalizer, parse_line
from ash_shared.model.events import read_event
from tests.shared.logs import SESSION, context, follow


def event(wire: str, payload: Any, **more: Any) -> Event:
    return {"id": f"e-{wire}", "timestamp": 1_770_000_000_000, "sessionId": "s1", "type": wire, **more} | {
        "payload": payload
    }


TURN = {"turnId": "t1"}
RESPONSE = {"turnId": "t1", "responseId": "r1"}
LOG = [
    event("turn_start", {"trigger": "user"}, **TURN),
    event("user_message", {"text": "Build it."}, **TURN),
    event("thinking_chunk", {"text": "Hm"}, **RESPONSE),
    event("thinking_done", {"text": "Hm", "signature": "s"}, **RESPONSE),
    event("assistant_chunk", {"text": "On "}, **RESPONSE),
    event("assistant_chunk", {"text": "it."}, **RESPONSE, id="e-2"),
    event("assistant_done", {"text": "On it.", "mood": "calm"}, **RESPONSE),
    event(
        "tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": "{}", "offset": 0}, **RESPONSE
    ),
    event("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {}}, **RESPONSE),
    event("tool_output_chunk", {"toolCallId": "c1", "chunk": "ok", "offset": 0, "stream": "stdout"}, **TURN),
    event("tool_result", {"toolCallId": "c1", "result": "ok", "exitCode": 0}, **TURN),
    event("agent_message", {"messageId": "m1", "message": "Test it.", "wait": False}, **TURN),
    event("agent_callback", {"messageId": "m1", "result": "It works."}, **TURN),
    event("applause", {"volume": 11}, **TURN, seat={"row": 1}),
    event("error", {"code": "busy", "message": "Later"}, **TURN),
    event("interrupt", {"reason": "user_cancel"}, **TURN),
    event("turn_end", {"usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}}, **TURN),
    event("summary", {"text": "Long ago."}),
    event("retraction", {"turns": 1}),
    event("raw", {"source": "codex", "raw": [1]}),
    event("reset", {}),
]


def test_passes_events_unchanged() -> None:
    events = follow(
        [{**each, "sequence": sequence, "messageSequence": 3} for sequence, each in enumerate(LOG, 1)]
    )

    assert events == [{**each, "sessionId": SESSION} for each in LOG]
    assert [read_event(each).type for each in events] == [each["type"] for each in LOG]


def test_passes_events_of_one_list() -> None:
    assert follow([LOG[:3]]) == [{**each, "sessionId": SESSION} for each in LOG[:3]]


@pytest.mark.parametrize(
    "broken",
    [
        event("tool_call", {"toolCallId": "c1", "args": {}}),
        event("assistant_done", {"text": 5}),
        event("interrupt", {"reason": "boredom"}),
        event("turn_start", {"trigger": "user"}, turnId=5),
        event("user_message", {"text": "Hi"}, timestamp="yesterday"),
        event("user_message", {"text": "Hi"}, id=""),
        event("tool_result", {"toolCallId": ["c1"], "result": None}),
    ],
    ids=json.dumps,
)
def test_emits_invalid_events_as_raw(broken: Event) -> None:
    [emitted] = follow([broken])

    assert (emitted["type"], emitted["payload"]) == ("raw", {"source": "ash", "raw": broken})
    read_event(emitted)


def test_adds_missing_id_and_time() -> None:
    posted = {"sessionId": "s1", "type": "user_message", "turnId": None, "payload": {"text": "Hi"}}

    [emitted] = follow([posted])

    assert emitted == {
        "id": "1/0",
        "timestamp": 7,
        "sessionId": SESSION,
        "type": "user_message",
        "payload": {"text": "Hi"},
    }


def test_derives_events_from_standard_message_blocks() -> None:
    def message(role: str, *content: Any) -> Event:
        return {"id": f"m-{role}", "role": role, "content": content, "metadata": {}, "_original": []}

    text, call = (
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "c1", "name": "bash", "input": {}},
    )
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "ok"}

    events = follow([message("user", text), message("assistant", text, call), message("user", result)])

    assert [(each["type"], each["payload"], each["recordId"]) for each in events] == [
        ("turn_start", {"trigger": "user"}, "m-user"),
        ("user_message", {"text": "Hi"}, "m-user"),
        ("assistant_done", {"text": "Hi"}, "m-assistant"),
        ("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {}}, "m-assistant"),
        ("tool_result", {"toolCallId": "c1", "result": "ok"}, "m-user"),
    ]


TEXT_LINE = {"type": "assistant", "uuid": "u1", "message": {"role": "assistant", "content": "Built."}}
RESULT_LINE = {
    "type": "user",
    "uuid": "u2",
    "message": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}],
    },
}
PROMPT_LINE = {"type": "user", "uuid": "u3", "message": {"role": "user", "content": "And test it."}}


@pytest.mark.parametrize(
    ("posted", "line", "derived"),
    [
        pytest.param([], TEXT_LINE, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="nothing posted"),
        pytest.param(LOG[:1], TEXT_LINE, [("assistant_done", "t1")], id="a turn"),
        pytest.param(
            [event("turn_start", {"trigger": "user"})],
            TEXT_LINE,
            [("assistant_done", "e-turn_start")],
            id="a turn named like its event",
        ),
        pytest.param(LOG[1:2], TEXT_LINE, [("assistant_done", "t1")], id="only a prompt"),
        pytest.param(LOG[4:5], TEXT_LINE, [("assistant_done", "t1")], id="only a response"),
        pytest.param(LOG[:1], PROMPT_LINE, [("user_message", "t1")], id="the prompt of a turn"),
        pytest.param(LOG[:7], PROMPT_LINE, [("user_message", "t1")], id="a prompt in a turn with an end"),
        pytest.param(
            LOG[1:7],
            PROMPT_LINE,
            [("turn_end", "t1"), ("turn_start", "1/1"), ("user_message", "1/1")],
            id="a prompt in a turn without an end",
        ),
        pytest.param(
            LOG[:17], TEXT_LINE, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="after the turn"
        ),
        pytest.param(
            [LOG[0], event("turn_end", {}, turnId="t0")],
            TEXT_LINE,
            [("assistant_done", "t1")],
            id="the end of another turn",
        ),
        pytest.param(
            [*LOG, LOG[0]][-2:], TEXT_LINE, [("assistant_done", "t1")], id="a turn after a re-read log"
        ),
        pytest.param(
            [LOG[0], LOG[-1]], TEXT_LINE, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="re-read log"
        ),
    ],
)
def test_derived_events_continue_the_posted_turn(
    posted: list[Event], line: Event, derived: list[tuple[str, str]]
) -> None:
    normalizer = Normalizer()
    for each in posted:
        normalizer.observe(each)
    normalizer = Normalizer(state=normalizer.state())

    events = normalizer.follow(parse_line(json.dumps(line)), context(1))

    assert [(each["type"], each["turnId"]) for each in events] == derived


def test_links_result_to_posted_call() -> None:
    events = follow([LOG[0], LOG[8], RESULT_LINE, RESULT_LINE])

    assert [each["payload"] for each in events[2:]] == [
        {"toolCallId": "c1", "result": "ok"},
        {"toolCallId": "c1", "result": "ok"},
    ]


def test_output_continues_after_posted_chunks() -> None:
    running = {
        "type": "tool_execution_update",
        "toolCallId": "c1",
        "toolName": "bash",
        "args": {},
        "partialResult": {"content": [{"type": "text", "text": "ok, done"}]},
    }

    [*_, emitted] = follow([LOG[0], LOG[8], LOG[9], running])

    assert emitted["payload"] == {"toolCallId": "c1", "chunk": ", done", "offset": 2}


def test_drops_output_at_an_offset_already_shown() -> None:
    def output(chunk: str, **more: Any) -> Event:
        return event("tool_output_chunk", {"toolCallId": "c1", "chunk": chunk, **more}, **TURN)

    shown = [output("ok", offset=0), output(", done", offset=2)]
    overlap, unnumbered, other = output("done.", offset=4), output("ok"), output("", offset=0)

    events = follow([LOG[0], LOG[8], *shown, *shown, overlap, unnumbered, other, LOG[10]])

    assert [each["payload"] for each in events[2:-1]] == [
        each["payload"] for each in (*shown, overlap, unnumbered, other)
    ]


@pytest.mark.parametrize("payload", [None, [], "text", {}, {"toolCallId": [], "toolName": {}, "offset": "1"}])
@pytest.mark.parametrize("wire", [each["type"] for each in LOG] + ["applause"])
@pytest.mark.parametrize("more", [{}, {"turnId": 5}, {"turnId": None}, {"turnId": "t9"}], ids=json.dumps)
def test_accepts_arbitrary_payloads(wire: str, payload: Any, more: Event) -> None:
    normalizer = Normalizer()
    normalizer.observe(LOG[0])

    normalizer.observe(event(wire, payload, **more))

    for each in Normalizer(state=normalizer.state()).follow(parse_line(json.dumps(TEXT_LINE)), context(1)):
        read_event(each)


def test_error_keeps_its_details() -> None:
    details = {"type": "overloaded_error", "request": "r1"}
    answer = event("assistant_done", {"text": "One."}, **TURN)
    error = event("error", {"code": "busy", "message": "Later", "details": details}, **TURN)

    messages = transform_messages([json.dumps(answer), json.dumps(error)])

    assert [message.error and message.error.details for message in messages] == [details]
