"""AG-UI: streams of events, and snapshots that repeat them."""

from typing import Any

import pytest

from tests.shared.logs import follow, short_events
from tests.shared.short_events import ShortEvent, chunk, done, input_chunk, tool_call
from tests.shared.transcripts import short_messages

Record = dict[str, Any]

START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})


def event(type: str, **more: Any) -> Record:
    return {"type": type, **more}


RUN = event("RUN_STARTED", threadId="t1", runId="r1")
FINISH = event("RUN_FINISHED", threadId="t1", runId="r1")
PROMPT = {"id": "u1", "role": "user", "content": "Tides?"}
CALL = {"id": "k0", "type": "function", "function": {"name": "tide", "arguments": '{"a": 1}'}}
CALL_EVENTS = [
    event("TOOL_CALL_START", toolCallId="k0", toolCallName="tide", parentMessageId="m1"),
    event("TOOL_CALL_ARGS", toolCallId="k0", delta='{"a":'),
    event("TOOL_CALL_ARGS", toolCallId="k0", delta=" 1}"),
    event("TOOL_CALL_END", toolCallId="k0"),
]
CALLED: list[ShortEvent] = [input_chunk('{"a":'), input_chunk(" 1}", 5), tool_call()]
RESULT = event("TOOL_CALL_RESULT", messageId="m2", toolCallId="k0", content="09:10")
RETURNED: ShortEvent = ("tool_result", {"toolCallId": "k0", "result": "09:10"})


def text_events(*deltas: str, kind: str = "TEXT_MESSAGE", id: str = "m1", **more: Any) -> list[Record]:
    return [
        event(f"{kind}_START", messageId=id, **more),
        *(event(f"{kind}_CONTENT", messageId=id, delta=delta) for delta in deltas),
        event(f"{kind}_END", messageId=id),
    ]


SAID = text_events("I lo", "ok.")
LOOKED: list[ShortEvent] = [chunk("I lo"), chunk("ok."), done("I look.")]

STREAMS: dict[str, tuple[list[Record], list[ShortEvent]]] = {
    "reasoning, a text, a call and its result": (
        [RUN, *text_events("Sea", kind="REASONING_MESSAGE"), *SAID, *CALL_EVENTS, RESULT, FINISH],
        [START, chunk("Sea", "thinking"), done("Sea", "thinking"), *LOOKED, *CALLED, RETURNED, END],
    ),
    "texts of two messages at once": (
        [
            RUN,
            event("TEXT_MESSAGE_START", messageId="m1"),
            event("TEXT_MESSAGE_START", messageId="m2", role="system"),
            event("TEXT_MESSAGE_CONTENT", messageId="m2", delta="Fog"),
            event("TEXT_MESSAGE_CONTENT", messageId="m1", delta="Hi"),
            event("TEXT_MESSAGE_END", messageId="m1"),
            event("TEXT_MESSAGE_END", messageId="m2"),
            FINISH,
        ],
        [
            START,
            ("assistant_chunk", {"text": "Fog"}, "m2"),
            chunk("Hi"),
            done("Hi"),
            ("assistant_done", {"text": "Fog", "variant": "notice"}, "m2"),
            END,
        ],
    ),
    "chunks, which the next message ends": (
        [
            RUN,
            event("REASONING_MESSAGE_CHUNK", messageId="m1", delta="Sea"),
            event("TEXT_MESSAGE_CHUNK", messageId="m1", delta="I lo"),
            event("TEXT_MESSAGE_CHUNK", delta="ok."),
            event("TEXT_MESSAGE_CHUNK", messageId="m2", delta="Hm"),
            event("TOOL_CALL_CHUNK", toolCallId="k0", toolCallName="tide", parentMessageId="m1"),
            event("TOOL_CALL_CHUNK", delta='{"a": 1}'),
            RESULT,
            FINISH,
        ],
        [
            START,
            chunk("Sea", "thinking"),
            done("Sea", "thinking"),
            *LOOKED,
            ("assistant_chunk", {"text": "Hm"}, "m2"),
            ("assistant_done", {"text": "Hm"}, "m2"),
            input_chunk('{"a": 1}'),
            tool_call(),
            RETURNED,
            END,
        ],
    ),
    "thinking of versions before 1.0": (
        [
            RUN,
            event("THINKING_START", title="Tides"),
            event("THINKING_TEXT_MESSAGE_START"),
            event("THINKING_TEXT_MESSAGE_CONTENT", delta="Sea"),
            event("THINKING_TEXT_MESSAGE_END"),
            event("THINKING_END"),
            FINISH,
        ],
        [START, ("thinking_chunk", {"text": "Sea"}), ("thinking_done", {"text": "Sea"}), END],
    ),
    "a snapshot of a run without input": (
        [
            RUN,
            *SAID,
            event("MESSAGES_SNAPSHOT", messages=[{"id": "m1", "role": "assistant", "content": "I look."}]),
        ],
        [START, *LOOKED],
    ),
    "a run that fails": (
        [RUN, *SAID[:2], event("RUN_ERROR", message="The model broke.", code="E1")],
        [
            START,
            chunk("I lo"),
            done("I lo", partial=True),
            ("error", {"code": "E1", "message": "The model broke."}),
            ("interrupt", {"reason": "error"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a run that the person cancels": (
        [RUN, *SAID, {**FINISH, "outcome": {"type": "cancelled"}}],
        [START, *LOOKED, ("interrupt", {"reason": "user_cancel"}), ("turn_end", {"partial": True})],
    ),
    "a subagent": (
        [
            RUN,
            event("SUBAGENT_STARTED", subagentRunId="s1", name="pilot", description="Looks."),
            *({**each, "subagentRunId": "s1"} for each in SAID),
            event("SUBAGENT_FINISHED", subagentRunId="s1", result="09:10"),
            FINISH,
        ],
        [
            START,
            ("tool_call", {"toolCallId": "s1", "toolName": "pilot", "args": {"description": "Looks."}}),
            chunk("I lo", parentToolCallId="s1"),
            chunk("ok.", parentToolCallId="s1"),
            done("I look.", parentToolCallId="s1"),
            ("tool_result", {"toolCallId": "s1", "result": "09:10"}),
            END,
        ],
    ),
    "states, steps and activities, which are no content": (
        [
            RUN,
            event("STEP_STARTED", stepName="look"),
            event("STATE_SNAPSHOT", snapshot={"tide": 1}),
            event("STATE_DELTA", delta=[{"op": "replace", "path": "/tide", "value": 2}]),
            event("ACTIVITY_SNAPSHOT", messageId="a1", activityType="plan", content={"done": 0}),
            event("CUSTOM", name="flag", value="red"),
            event("STEP_FINISHED", stepName="look"),
            FINISH,
        ],
        [START, END],
    ),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams(case: str) -> None:
    records, expected = STREAMS[case]

    assert short_events(follow(records)) == expected


def test_a_snapshot_adds_only_what_was_not_streamed() -> None:
    snapshot = [
        PROMPT,
        {"id": "m1", "role": "assistant", "content": "I look.", "toolCalls": [CALL]},
        {"id": "m2", "role": "tool", "toolCallId": "k0", "content": "09:10"},
        {"id": "m3", "role": "assistant", "content": "At ten."},
    ]
    records = [
        {**RUN, "input": {"threadId": "t1", "runId": "r1", "messages": [PROMPT], "tools": []}},
        *SAID,
        *CALL_EVENTS,
        RESULT,
        event("MESSAGES_SNAPSHOT", messages=snapshot),
        FINISH,
        {"threadId": "t1", "runId": "r2", "messages": [*snapshot, {**PROMPT, "id": "u2"}], "tools": []},
        RUN,
    ]

    assert short_events(follow(records)) == [
        START,
        ("user_message", {"text": "Tides?"}),
        *LOOKED,
        *CALLED,
        RETURNED,
        ("assistant_done", {"text": "At ten."}, "m3"),
        END,
        START,
        ("user_message", {"text": "Tides?"}),
    ]
    assert short_messages(*records) == [
        ("user", [("text", "Tides?")], {"messageId": "u1"}),
        ("user", [("tool_result", "09:10")], {"messageId": "m2"}),
        ("assistant", [("text", "I look."), ("tool_use", "tide")], {"messageId": "m1"}),
        ("assistant", [("text", "At ten.")], {"messageId": "m3"}),
        ("user", [("text", "Tides?")], {"messageId": "u2"}),
    ]


def test_the_usage_of_a_run_is_the_sum_of_its_models() -> None:
    usages = [
        {"model": "a", "inputTokens": 100, "cachedInputTokens": 80, "outputTokens": 9},
        {"model": "b", "inputTokens": 10, "outputTokens": 1, "reasoningTokens": 1},
    ]
    [*_, end] = short_events(follow([RUN, *SAID, {**FINISH, "usage": usages}]))

    assert end[1]["usage"] == {
        "input_tokens": 30,
        "output_tokens": 10,
        "total_tokens": 40,
        "cache_read_input_tokens": 80,
        "reasoning_tokens": 1,
        "vendor": usages,
    }
