"""Streamed answers that are stored again as the client assembled them, and usage that is repeated."""

import json
from typing import Any

import pytest

from ash_shared.eventlog import Normalizer, parse_line
from tests.shared.logs import context, follow, short_events
from tests.shared.records import claude, pi
from tests.shared.records.openai_chat import delta_chunk

Record = dict[str, Any]

PROMPT = {"role": "user", "content": "Tides?"}
BEGIN = [("turn_start", {"trigger": "user"}), ("user_message", {"text": "Tides?"})]
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
TOTALS = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}


def body(message: Record, reason: str = "stop", id: str = "c1") -> Record:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": id, "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE}


def reply(text: str) -> Record:
    return {"role": "assistant", "content": text}


FUNCTION = {"name": "tide", "arguments": '{"day": 3}'}
CALL_MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "t1", "type": "function", "function": FUNCTION}],
}
CALL_DELTA = {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": FUNCTION}]}
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "09:10"}

TEXT = [
    delta_chunk({"role": "assistant", "content": "At "}),
    delta_chunk({"content": "ten."}),
    delta_chunk({}, "stop"),
]
USAGE_CHUNK = delta_chunk({}) | {"choices": [], "usage": USAGE}
CALL = [delta_chunk(CALL_DELTA), delta_chunk({}, "tool_calls", usage=USAGE)]

TEXT_EVENTS = [
    ("assistant_chunk", {"text": "At "}, "c1"),
    ("assistant_chunk", {"text": "ten."}, "c1"),
    ("assistant_done", {"text": "At ten.", "stopReason": "stop"}, "c1"),
]
CALL_EVENTS = [
    (
        "tool_input_chunk",
        {"toolCallId": "t1", "toolName": "tide", "chunk": '{"day": 3}', "offset": 0},
        "c1",
    ),
    ("tool_call", {"toolCallId": "t1", "toolName": "tide", "args": {"day": 3}}, "c1"),
]
RESULT_EVENT = ("tool_result", {"toolCallId": "t1", "result": "09:10"})
END: tuple[str, Any] = ("turn_end", {})
USAGE_END = ("turn_end", {"usage": TOTALS})
PARTIAL_END = ("turn_end", {"usage": TOTALS, "partial": True})


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        pytest.param([PROMPT, *TEXT, reply("At ten.")], [*BEGIN, *TEXT_EVENTS, END], id="a message"),
        pytest.param(
            [PROMPT, *TEXT, USAGE_CHUNK, reply("At ten.")],
            [*BEGIN, *TEXT_EVENTS, USAGE_END],
            id="a message after the turn",
        ),
        pytest.param(
            [PROMPT, *TEXT, body(reply("At ten."))],
            [*BEGIN, *TEXT_EVENTS, USAGE_END],
            id="usage only in the body",
        ),
        pytest.param(
            [PROMPT, *TEXT, USAGE_CHUNK, body(reply("At ten."))],
            [*BEGIN, *TEXT_EVENTS, USAGE_END],
            id="usage of an ended turn",
        ),
        pytest.param(
            [PROMPT, *TEXT, USAGE_CHUNK, reply("At ten."), body(reply("At ten."))],
            [*BEGIN, *TEXT_EVENTS, USAGE_END],
            id="a message and a body",
        ),
        pytest.param(
            [PROMPT, *CALL, CALL_MESSAGE, RESULT],
            [*BEGIN, *CALL_EVENTS, RESULT_EVENT, USAGE_END],
            id="a call",
        ),
        pytest.param(
            [PROMPT, *CALL, body(CALL_MESSAGE, "tool_calls"), RESULT],
            [*BEGIN, *CALL_EVENTS, RESULT_EVENT, USAGE_END],
            id="a call in a body",
        ),
        pytest.param(
            [PROMPT, *TEXT, USAGE_CHUNK, PROMPT, reply("At ten.")],
            [*BEGIN, *TEXT_EVENTS, USAGE_END, *BEGIN, ("assistant_done", {"text": "At ten."}), END],
            id="the same text after another prompt",
        ),
        pytest.param(
            [PROMPT, *TEXT, USAGE_CHUNK, body(reply("At ten."), id="c2")],
            [
                *BEGIN,
                *TEXT_EVENTS,
                USAGE_END,
                ("turn_start", {"trigger": "system"}),
                ("assistant_done", {"text": "At ten.", "stopReason": "stop"}, "c2"),
                USAGE_END,
            ],
            id="another answer",
        ),
        pytest.param(
            [PROMPT, *CALL, reply("At ten.")],
            [*BEGIN, *CALL_EVENTS, ("assistant_done", {"text": "At ten."}, "c1"), PARTIAL_END],
            id="another text",
        ),
    ],
)
def test_drops_the_stored_copy_of_a_streamed_answer(lines: list[Record], events: list[Any]) -> None:
    assert short_events(follow(lines, "openai_chat", ends=True)) == events


ITEM = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Ten.", "annotations": []}],
}
RESPONSE = {
    "id": "r1",
    "object": "response",
    "status": "completed",
    "output": [ITEM],
    "usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
}
MESSAGE = {
    "id": "a1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Ten."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 3},
}
BODIES: list[tuple[str, list[Record]]] = [
    (
        "openai_responses",
        [
            {"type": "response.created", "response": RESPONSE | {"status": "in_progress", "output": []}},
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "m1",
                "delta": "Ten.",
            },
            {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
            {"type": "response.completed", "response": RESPONSE},
            RESPONSE,
        ],
    ),
    (
        "claude",
        [
            {"type": "message_start", "message": MESSAGE | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Ten."}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 3},
            },
            {"type": "message_stop"},
            MESSAGE,
        ],
    ),
]


@pytest.mark.parametrize(("source", "lines"), BODIES, ids=[source for source, _ in BODIES])
def test_drops_an_answer_fetched_after_its_stream(source: str, lines: list[Record]) -> None:
    events = follow(lines, source, ends=True)

    assert events == follow(lines[:-1], source, ends=True)
    assert [event["type"] for event in events] == [
        "turn_start",
        "assistant_chunk",
        "assistant_done",
        "turn_end",
    ]


def answer(number: int, text: str) -> Record:
    """Return a line of an answer; each line repeats the usage of the answer."""
    return claude.line(
        "assistant",
        [claude.text(text)],
        {
            "id": f"msg_{number}",
            "type": "message",
            "model": "m",
            "usage": {"input_tokens": 10, "output_tokens": number},
        },
        uuid=f"u-{number}-{text}",
        sessionId="s",
    )


@pytest.mark.parametrize("between", [1, 8, 40, 100])
def test_counts_an_answer_once_with_others_between_its_lines(between: int) -> None:
    lines = [answer(number, "a") for number in range(between + 1)] + [answer(0, "b")]
    (end,) = (event for event in follow(lines, "claude", ends=True) if event["type"] == "turn_end")

    usage = end["payload"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (10 * (between + 1), sum(range(between + 1)))


def test_saves_the_same_state_after_later_calls_of_the_answer() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    message = pi.response(pi.text("At ten."), call)
    records = [
        pi.start(pi.response()),
        pi.update("text_delta", 0, message, delta="At ten."),
        pi.update("toolcall_end", 1, message, toolCall=call),
        pi.end(message),
        pi.execution("start", args={}),
    ]
    continuous = restored = Normalizer()
    for number, record in enumerate(records):
        line = parse_line(json.dumps(record))
        restored = Normalizer(state=restored.state())
        for normalizer in (continuous, restored):
            normalizer.follow(line, context(number))

        assert restored.state() == continuous.state()
