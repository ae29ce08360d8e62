"""Turns as runs of AG-UI: each event, failures, and clients that join later."""

import json
from collections.abc import Sequence
from functools import partial
from importlib import resources
from typing import Any

import pytest
from ag_ui.core import Event as AgUiEvent
from pydantic import TypeAdapter

from ash_shared.eventlog import Normalizer, parse_line
from ash_shared.projections import AgUiStream
from ash_shared.projections.ui_stream import CHANGED
from ash_shared.providers.ag_ui import TYPES
from tests.shared.logs import context, follow
from tests.shared.records.events import Event, numbered, tool_call, tool_result, turn_start, wire_event

Json = dict[str, Any]

RUN = {"type": "RUN_STARTED", "threadId": "s", "runId": "t1", "protocolVersion": "1.0"}
FINISH = {"type": "RUN_FINISHED", "threadId": "s", "runId": "t1", "outcome": {"type": "success"}}
TEXT_START = {"type": "TEXT_MESSAGE_START", "messageId": "r1", "role": "assistant"}
TEXT_END = {"type": "TEXT_MESSAGE_END", "messageId": "r1"}
CALL_START = {
    "type": "TOOL_CALL_START",
    "toolCallId": "k0",
    "toolCallName": "tide",
    "parentMessageId": "r1",
}
CALL_END = {"type": "TOOL_CALL_END", "toolCallId": "k0"}

START = turn_start()
END = wire_event("turn_end")
CALL = tool_call("k0", "tide", {"a": 1})
RETURN = tool_result("k0", "09:10")


log = partial(numbered, first=0, timestamp=7, sessionId="s", turnId="t1", responseId="r1")
"""The events of a turn with one response, numbered."""


def run(*events: Event) -> list[Json]:
    """Return the events of the run without their times."""
    stream = AgUiStream()
    chunks = [*stream.begin([], "t1"), *(chunk for event in log(*events) for chunk in stream.add(event))]
    return [{name: value for name, value in chunk.items() if name != "timestamp"} for chunk in chunks]


def delta(words: str, kind: str = "TEXT_MESSAGE", id: str = "r1") -> Json:
    return {"type": f"{kind}_CONTENT", "messageId": id, "delta": words}


def arguments(text: str) -> Json:
    return {"type": "TOOL_CALL_ARGS", "toolCallId": "k0", "delta": text}


def returned(**more: Any) -> Json:
    return {
        "type": "TOOL_CALL_RESULT",
        "messageId": "e2",
        "toolCallId": "k0",
        "content": "09:10",
        "role": "tool",
        **more,
    }


RUNS: dict[str, tuple[list[Event], list[Json]]] = {
    "a prompt and a text": (
        [START, wire_event("user_message", text="Tides?"), wire_event("assistant_chunk", text="I lo"),
         wire_event("assistant_done", text="I look."), END],
        [
            RUN,
            {"type": "TEXT_MESSAGE_START", "messageId": "e1", "role": "user"},
            delta("Tides?", id="e1"),
            {"type": "TEXT_MESSAGE_END", "messageId": "e1"},
            TEXT_START,
            delta("I lo"),
            delta("ok."),
            TEXT_END,
            FINISH,
        ],
    ),
    "reasoning with a signature": (
        [START, wire_event("thinking_done", text="Sea", signature="c2Vh"), END],
        [
            RUN,
            {"type": "REASONING_START", "messageId": "r1-reasoning"},
            {"type": "REASONING_MESSAGE_START", "messageId": "r1-reasoning", "role": "reasoning"},
            delta("Sea", "REASONING_MESSAGE", "r1-reasoning"),
            {"type": "REASONING_MESSAGE_END", "messageId": "r1-reasoning"},
            {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "message",
                "entityId": "r1-reasoning",
                "encryptedValue": "c2Vh",
            },
            {"type": "REASONING_END", "messageId": "r1-reasoning"},
            FINISH,
        ],
    ),
    "a streamed call": (
        [
            START,
            wire_event("tool_input_chunk", toolCallId="k0", toolName="tide", chunk='{"a":', offset=0),
            wire_event("tool_input_chunk", toolCallId="k0", toolName="tide", chunk=" 1}", offset=5),
            CALL,
            END,
        ],
        [RUN, CALL_START, arguments('{"a":'), arguments(" 1}"), CALL_END, FINISH],
    ),
    "a complete call, and the fields of its result": (
        [START, CALL, tool_result("k0", "09:10", exitCode=2), END],
        [RUN, CALL_START, arguments('{"a":1}'), CALL_END, returned(metadata={"exitCode": 2}), FINISH],
    ),
    "a subagent": (
        [
            START,
            CALL,
            wire_event("assistant_done", text="Deep", parentToolCallId="k0"),
            RETURN,
            END,
        ],
        [
            RUN,
            CALL_START,
            arguments('{"a":1}'),
            CALL_END,
            {"type": "SUBAGENT_STARTED", "subagentRunId": "k0", "name": "tide", "parentToolCallId": "k0"},
            {**TEXT_START, "subagentRunId": "k0"},
            {**delta("Deep"), "subagentRunId": "k0"},
            {**TEXT_END, "subagentRunId": "k0"},
            {"type": "SUBAGENT_FINISHED", "subagentRunId": "k0"},
            returned(messageId="e3"),
            FINISH,
        ],
    ),
    "usage and cost": (
        [
            START,
            wire_event(
                "turn_end", costUsd=0.5,
                usage={"input_tokens": 20, "cache_read_input_tokens": 80, "output_tokens": 9},
            ),
        ],
        [
            RUN,
            {
                **FINISH,
                "usage": [
                    {"inputTokens": 100, "outputTokens": 9, "totalTokens": 109, "cachedInputTokens": 80}
                ],
                "metadata": {"costUsd": 0.5},
            },
        ],
    ),
    "a turn that fails": (
        [
            START,
            wire_event("error", code="E1", message="The model broke."),
            wire_event("interrupt", reason="error"),
            wire_event("turn_end", partial=True),
        ],
        [
            RUN,
            {"type": "CUSTOM", "name": "error", "value": {"code": "E1", "message": "The model broke."}},
            {"type": "CUSTOM", "name": "interrupt", "value": {"reason": "error"}},
            {"type": "RUN_ERROR", "message": "The model broke.", "code": "E1"},
        ],
    ),
    "a turn that the person cancels": (
        [START, wire_event("assistant_chunk", text="I lo"), wire_event("interrupt", reason="user_cancel"), END],
        [
            RUN,
            TEXT_START,
            delta("I lo"),
            {"type": "CUSTOM", "name": "interrupt", "value": {"reason": "user_cancel"}},
            TEXT_END,
            {**FINISH, "outcome": {"type": "cancelled"}},
        ],
    ),
    "a text that changes after it was sent": (
        [START, wire_event("assistant_chunk", text="Hi"), wire_event("assistant_done", text="No"), END],
        [
            RUN,
            TEXT_START,
            delta("Hi"),
            {
                "type": "RUN_ERROR",
                "message": "The message has changed. Load the messages again.",
                "code": "changed",
            },
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RUNS)
def test_runs(case: str) -> None:
    events, expected = RUNS[case]

    assert run(*events) == expected


def recorded() -> list[Json]:
    """Return the events of a recorded turn."""
    text = (resources.files("ash_server") / "recordings" / "kite-wind.jsonl").read_text()
    normalizer = Normalizer()
    lines = enumerate(filter(str.strip, text.splitlines()))
    events = [each for number, line in lines for each in normalizer.follow(parse_line(line), context(number))]
    return [dict(event) for event in [*events, *normalizer.close(context("end"))]]


def joined(chunks: Sequence[Json]) -> dict[str, str]:
    """Return the text of each message, and the arguments of each call, by its id."""
    texts = dict[str, str]()
    for chunk in chunks:
        if "delta" in chunk:
            id = chunk.get("messageId") or chunk["toolCallId"]
            texts[id] = texts.get(id, "") + chunk["delta"]
    return texts


def test_a_client_that_joins_later_has_the_same_messages() -> None:
    events = recorded()
    turn = next(event["turnId"] for event in events if "turnId" in event)
    whole = AgUiStream()
    expected = [chunk for event in events for chunk in whole.add(event)]
    assert expected[-1]["type"] == "RUN_FINISHED"

    for cut in range(0, len(events), 20):
        stream = AgUiStream()
        chunks = stream.begin(events[:cut], turn)
        chunks += [chunk for event in events[cut:] for chunk in stream.add(event)]
        assert joined(chunks) == joined(expected)


def test_the_provider_reads_a_run_as_the_same_events() -> None:
    stream, events = AgUiStream(), recorded()
    lines = [chunk for event in events for chunk in stream.add(event)]
    assert all(TYPES[line["type"]].matches(line) for line in lines)

    assert contents(follow(lines)) == contents(events) != []


def contents(events: Sequence[Json]) -> list[Any]:
    """Return the texts and arguments of complete events, without prompts, which AG-UI streams as texts."""
    types = ("assistant_done", "thinking_done", "tool_call")
    payloads = [event["payload"] for event in events if event["type"] in types]
    return [
        payload.get("text", payload.get("args")) for payload in payloads if payload.get("variant") != "user"
    ]


def test_runs_are_valid_for_the_package_of_the_protocol() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(AgUiEvent)
    stream = AgUiStream()
    chunks = [chunk for event in recorded() for chunk in stream.add(event)]
    chunks += [chunk for events, _ in RUNS.values() for chunk in run(*events)]

    for chunk in json.loads(json.dumps(chunks)):
        event = adapter.validate_python(chunk)
        assert not event.model_extra, chunk


def test_arguments_that_nest_too_deep_to_decode_are_changed_arguments() -> None:
    deep = wire_event("tool_input_chunk", toolCallId="k0", toolName="tide", chunk="[" * 100_000, offset=0)

    assert run(START, deep, CALL)[-1] == {"type": "RUN_ERROR", "message": CHANGED, "code": "changed"}


def test_events_of_unknown_types_may_have_any_payload() -> None:
    payload = {"parentToolCallId": ["x"]}
    note = wire_event("x-note", **payload)

    assert run(START, note) == [
        RUN,
        {"type": "CUSTOM", "name": "x-note", "value": payload},
    ]
