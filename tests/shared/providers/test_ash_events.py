"""Ash's own lines in the log: events pass as they are, and what is derived after them goes on in their turns."""

import json
from typing import Any

import pytest

from ash_shared.eventlog import Event, Normalizer, read_line
from ash_shared.model.events import read_event
from tests.shared.logs import SESSION, context, follow


def event(wire: str, payload: Any, **more: Any) -> Event:
    return {"id": f"e-{wire}", "timestamp": 1_770_000_000_000, "sessionId": "s1", "type": wire, **more} | {
        "payload": payload
    }


TURN = {"turnId": "t1"}
ANSWER = {"turnId": "t1", "responseId": "r1"}
LOG = [
    event("turn_start", {"trigger": "user"}, **TURN),
    event("user_message", {"text": "Build it."}, **TURN),
    event("thinking_chunk", {"text": "Hm"}, **ANSWER),
    event("thinking_done", {"text": "Hm", "signature": "s"}, **ANSWER),
    event("assistant_chunk", {"text": "On "}, **ANSWER),
    event("assistant_chunk", {"text": "it."}, **ANSWER, id="e-2"),
    event("assistant_done", {"text": "On it.", "mood": "calm"}, **ANSWER),
    event("tool_input_chunk", {"toolCallId": "c1", "toolName": "bash", "chunk": "{}", "offset": 0}, **ANSWER),
    event("tool_call", {"toolCallId": "c1", "toolName": "bash", "args": {}}, **ANSWER),
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


def test_a_log_comes_out_as_it_went_in() -> None:
    events = follow([{**each, "sequence": place, "messageSequence": 3} for place, each in enumerate(LOG, 1)])

    assert events == [{**each, "sessionId": SESSION} for each in LOG]
    assert [read_event(each).type for each in events] == [each["type"] for each in LOG]


def test_events_in_one_list_pass_one_by_one() -> None:
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
def test_what_is_not_as_its_type_promises_is_shown_as_it_is(broken: Event) -> None:
    [told] = follow([broken])

    assert (told["type"], told["payload"]) == ("raw", {"source": "ash", "raw": broken})
    read_event(told)


def test_an_event_without_id_and_time_is_given_them() -> None:
    given = {"sessionId": "s1", "type": "user_message", "turnId": None, "payload": {"text": "Hi"}}

    [told] = follow([given])

    assert told == {
        "id": "1/0",
        "timestamp": 7,
        "sessionId": SESSION,
        "type": "user_message",
        "payload": {"text": "Hi"},
    }


def test_a_standard_message_is_told_by_its_blocks() -> None:
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


SAYS = {"type": "assistant", "uuid": "u1", "message": {"role": "assistant", "content": "Built."}}
RAN = {
    "type": "user",
    "uuid": "u2",
    "message": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}],
    },
}
ASKED = {"type": "user", "uuid": "u3", "message": {"role": "user", "content": "And test it."}}


@pytest.mark.parametrize(
    ("posted", "line", "derived"),
    [
        pytest.param([], SAYS, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="nothing posted"),
        pytest.param(LOG[:1], SAYS, [("assistant_done", "t1")], id="a turn"),
        pytest.param(
            [event("turn_start", {"trigger": "user"})],
            SAYS,
            [("assistant_done", "e-turn_start")],
            id="a turn that has the event's name",
        ),
        pytest.param(LOG[1:2], SAYS, [("assistant_done", "t1")], id="only a prompt"),
        pytest.param(LOG[4:5], SAYS, [("assistant_done", "t1")], id="only an answer"),
        pytest.param(LOG[:1], ASKED, [("user_message", "t1")], id="the prompt of a turn"),
        pytest.param(LOG[:7], ASKED, [("user_message", "t1")], id="a prompt in a turn whose end is told"),
        pytest.param(
            LOG[1:7],
            ASKED,
            [("turn_end", "t1"), ("turn_start", "1/1"), ("user_message", "1/1")],
            id="a prompt in a turn whose end is not told",
        ),
        pytest.param(LOG[:17], SAYS, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="after the turn"),
        pytest.param(
            [LOG[0], event("turn_end", {}, turnId="t0")],
            SAYS,
            [("assistant_done", "t1")],
            id="the end of another turn",
        ),
        pytest.param(
            [*LOG, LOG[0]][-2:], SAYS, [("assistant_done", "t1")], id="a turn after what was read anew"
        ),
        pytest.param(
            [LOG[0], LOG[-1]], SAYS, [("turn_start", "1/0"), ("assistant_done", "1/0")], id="read anew"
        ),
    ],
)
def test_what_is_derived_goes_on_in_the_turn_that_was_posted(
    posted: list[Event], line: Event, derived: list[tuple[str, str]]
) -> None:
    normalizer = Normalizer()
    for each in posted:
        normalizer.observe(each)
    normalizer = Normalizer(state=normalizer.state())

    events = normalizer.follow(read_line(json.dumps(line)), context(1))

    assert [(each["type"], each["turnId"]) for each in events] == derived


def test_the_result_of_a_posted_call_is_no_orphan() -> None:
    events = follow([LOG[0], LOG[8], RAN, RAN])

    assert [each["payload"] for each in events[2:]] == [
        {"toolCallId": "c1", "result": "ok"},
        {"toolCallId": "c1", "result": "ok"},
    ]


def test_output_goes_on_where_the_posted_pieces_ended() -> None:
    running = {
        "type": "tool_execution_update",
        "toolCallId": "c1",
        "toolName": "bash",
        "args": {},
        "partialResult": {"content": [{"type": "text", "text": "ok, done"}]},
    }

    [*_, told] = follow([LOG[0], LOG[8], LOG[9], running])

    assert told["payload"] == {"toolCallId": "c1", "chunk": ", done", "offset": 2}


@pytest.mark.parametrize("payload", [None, [], "text", {}, {"toolCallId": [], "toolName": {}, "offset": "1"}])
@pytest.mark.parametrize("wire", [each["type"] for each in LOG] + ["applause"])
@pytest.mark.parametrize("more", [{}, {"turnId": 5}, {"turnId": None}, {"turnId": "t9"}], ids=json.dumps)
def test_foreign_payloads_do_no_harm(wire: str, payload: Any, more: Event) -> None:
    normalizer = Normalizer()
    normalizer.observe(LOG[0])

    normalizer.observe(event(wire, payload, **more))

    for each in Normalizer(state=normalizer.state()).follow(read_line(json.dumps(SAYS)), context(1)):
        read_event(each)
