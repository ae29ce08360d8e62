"""Messages of Vercel's AI SDK, and the chunks that its client builds them from; the client itself is in
tests/server/api/test_ui_stream.py."""

import gc
import json
from functools import partial
from importlib import resources
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ash_shared import to_anthropic_messages, to_openai_messages, to_ui_messages
from ash_shared.eventlog import Normalizer, parse_line
from ash_shared.model.event_types import CATALOGUE, CHUNKS
from ash_shared.projections import AnthropicFold, OpenAiFold, UiMessageFold, UiMessageStream
from ash_shared.projections._conversation import Answer
from ash_shared.projections._retractions import standing, wire_events
from ash_shared.projections.ui_messages import UiMessageReader
from tests.shared.event_examples import EXAMPLES, example
from tests.shared.logs import context
from tests.shared.projections.test_projections import LOGS
from tests.shared.records.events import numbered, tool_call, tool_result, turn_start, wire_event

Json = dict[str, Any]

FOLDER = resources.files("ash_server")
TRANSCRIPTS = {
    Path(path.name).stem: path.read_text()
    for folder in ("samples", "recordings")
    for path in (FOLDER / folder).iterdir()
}

log = partial(numbered, sessionId="s", turnId="t1")

R1, R2 = {"responseId": "r1"}, {"responseId": "r2"}
START = turn_start()
PROMPT = wire_event("user_message", text="Which tests fail?")
CALL = tool_call("c1", "sh", {"command": "pytest"}, **R1)
RESULT = tool_result("c1", "1 failed")
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PAGE = {
    "type": "file",
    "filename": "a.txt",
    "source": {"type": "text", "media_type": "text/plain", "data": "é"},
}
STORED = {"type": "file", "filename": "b.pdf", "source": {"type": "file", "file_id": "f1"}}
PNG_URL, PAGE_URL = "data:image/png;base64,iVBORw0KGgo=", "data:text/plain;base64,w6k="

STEP = {"type": "step-start"}
CALL_PART = {"type": "dynamic-tool", "toolName": "sh", "toolCallId": "c1", "input": {"command": "pytest"}}
DONE = {**CALL_PART, "state": "output-available", "output": "1 failed"}


def text_part(text: str, **more: Any) -> Json:
    return {"type": "text", "text": text, "state": "done", **more}


def test_messages_of_a_session() -> None:
    events = log(
        wire_event("system_message", text="Model changed."),
        START,
        PROMPT,
        wire_event("user_message", text="<context>", synthetic=True),
        wire_event("thinking_done", text="Hm.", signature="sig", **R1),
        wire_event("assistant_done", text="I run them.", stopReason="tool_use", **R1),
        CALL,
        RESULT,
        wire_event("error", code="overloaded", message="Later."),
        wire_event("assistant_done", text="One.", **R2),
        wire_event("turn_end", usage=USAGE, costUsd=0.5),
        wire_event("system_message", text="Bye."),
        wire_event("user_audio", transcription="Why?", durationMs=9, turnId="t2"),
        wire_event("assistant_done", text="A path.", turnId="t2"),
    )

    assert to_ui_messages(events) == [
        {
            "id": "e3",
            "role": "user",
            "metadata": {"createdAt": 3, "turnId": "t1"},
            "parts": [
                {"type": "data-system_message", "id": "e1", "data": {"text": "Model changed."}},
                {"type": "text", "text": "Which tests fail?"},
                {"type": "data-user_message", "id": "e4", "data": {"text": "<context>", "synthetic": True}},
            ],
        },
        {
            "id": "e3-answer",
            "role": "assistant",
            "metadata": {"createdAt": 3, "turnId": "t1", "finishedAt": 11, "usage": USAGE, "costUsd": 0.5},
            "parts": [
                STEP,
                {
                    "type": "reasoning",
                    "id": "reasoning-1",
                    "text": "Hm.",
                    "state": "done",
                    "providerMetadata": {"ash": {"signature": "sig"}},
                },
                text_part("I run them.", providerMetadata={"ash": {"stopReason": "tool_use"}}),
                DONE,
                {"type": "data-error", "id": "e9", "data": {"code": "overloaded", "message": "Later."}},
                STEP,
                text_part("One."),
                {"type": "data-system_message", "id": "e12", "data": {"text": "Bye."}},
            ],
        },
        {
            "id": "e13",
            "role": "user",
            "metadata": {"createdAt": 13, "turnId": "t2", "durationMs": 9},
            "parts": [{"type": "text", "text": "Why?"}],
        },
        {
            "id": "e13-answer",
            "role": "assistant",
            "metadata": {"createdAt": 13, "turnId": "t2"},
            "parts": [STEP, text_part("A path.")],
        },
    ]


@pytest.mark.parametrize(
    ("events", "parts"),
    [
        ([CALL], [{**CALL_PART, "state": "input-available"}]),
        (
            [tool_call("c1", "sh", "{", partial=True, **R1)],
            [
                {
                    **CALL_PART,
                    "state": "output-error",
                    "input": "{",
                    "errorText": "The arguments of this call are incomplete: it did not run.",
                    "resultProviderMetadata": {"ash": {"partial": True}},
                }
            ],
        ),
        (
            [tool_call("c1", "sh", {"command": "pytest"}, executor="server", **R1), RESULT],
            [{**DONE, "providerExecuted": True, "callProviderMetadata": {"ash": {"executor": "server"}}}],
        ),
        (
            [CALL, tool_result("c1", "1 failed", error={"code": "exit", "message": "no"}, exitCode=1)],
            [
                {
                    **CALL_PART,
                    "state": "output-error",
                    "errorText": "no",
                    "resultProviderMetadata": {"ash": {"exitCode": 1, "errorCode": "exit"}},
                },
                {"type": "data-tool_result", "id": "e2", "data": {"toolCallId": "c1", "result": "1 failed"}},
            ],
        ),
        (
            [CALL, tool_result("c1", "1 failed", structured={"failed": 1})],
            [
                DONE,
                {
                    "type": "data-tool_result",
                    "id": "e2",
                    "data": {"toolCallId": "c1", "structured": {"failed": 1}},
                },
            ],
        ),
        (
            [CALL, tool_result("c1", None, structured={"failed": 1})],
            [{**DONE, "output": {"failed": 1}}],
        ),
        ([CALL, RESULT, CALL, RESULT], [DONE, {**DONE, "toolCallId": "c1#2"}]),
        (
            [CALL, RESULT, RESULT],
            [DONE, {"type": "data-tool_result", "id": "e3", "data": RESULT["payload"]}],
        ),
        (
            [wire_event("assistant_done", text="", content=[IMAGE, PAGE, STORED], **R1)],
            [
                {"type": "file", "mediaType": "image/png", "url": PNG_URL},
                {
                    "type": "file",
                    "mediaType": "text/plain",
                    "url": PAGE_URL,
                    "providerMetadata": {"ash": {"filename": "a.txt"}},
                },
                {"type": "data-file", "data": STORED},
            ],
        ),
        (
            [wire_event("assistant_done", text="a", content=[{"type": "text", "text": "a"}, IMAGE], **R1)],
            [text_part("a"), {"type": "file", "mediaType": "image/png", "url": PNG_URL}],
        ),
        (
            [wire_event("assistant_done", text="", content=[IMAGE, {"type": "text", "text": "a"}], **R1)],
            [{"type": "file", "mediaType": "image/png", "url": PNG_URL}, text_part("a")],
        ),
        (
            [wire_event("assistant_done", text="Of a subagent.", parentToolCallId="c0"), CALL],
            [{**CALL_PART, "state": "input-available"}],
        ),
    ],
)
def test_parts_of_an_answer(events: list[Any], parts: list[Json]) -> None:
    [message] = [each for each in to_ui_messages(log(*events)) if each["id"].endswith("-answer")]

    assert message["parts"] == [STEP, *parts]


def test_parts_of_a_prompt() -> None:
    [message] = to_ui_messages(log(wire_event("user_message", text="See.", content=[IMAGE, PAGE, STORED])))

    assert message["parts"] == [
        {"type": "text", "text": "See."},
        {"type": "file", "mediaType": "image/png", "url": PNG_URL},
        {"type": "file", "mediaType": "text/plain", "url": PAGE_URL, "filename": "a.txt"},
        {"type": "data-file", "data": STORED},
    ]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://a.example/b.png", "file:///etc/passwd", ""])
def test_only_https_addresses_become_files(url: str) -> None:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    [message] = to_ui_messages(log(wire_event("user_message", text="", content=[block])))

    assert message["parts"] == [{"type": "data-image", "data": block}]


def test_late_result_completes_an_earlier_message() -> None:
    turns = [
        START,
        PROMPT,
        CALL,
        wire_event("turn_end"),
        PROMPT,
        wire_event("assistant_done", text="Wait."),
        RESULT,
    ]
    first, answer, second, last = to_ui_messages(log(*turns))

    assert (first["role"], second["role"]) == ("user", "user")
    assert answer["parts"] == [STEP, DONE]
    assert last["parts"] == [STEP, text_part("Wait.")]


def test_session_without_messages() -> None:
    data = {"source": "a", "raw": 1}
    note = {"type": "data-raw", "id": "e1", "data": data}

    assert to_ui_messages(log(wire_event("raw", **data))) == [
        {"id": "e1-notes", "role": "assistant", "parts": [note]}
    ]
    assert to_ui_messages([]) == []


@pytest.mark.parametrize("name", sorted(CATALOGUE.keys() - CHUNKS - {"reset", "retraction", "turn_start"}))
def test_every_type_is_shown(name: str) -> None:
    """Every text of a payload is in the messages."""
    messages = json.dumps(to_ui_messages([example(name)]), ensure_ascii=False)

    for text in strings_of(EXAMPLES[name]):
        assert json.dumps(text, ensure_ascii=False)[1:-1] in messages


def strings_of(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        return [text for each in values for text in strings_of(each)]
    return [value] if isinstance(value, str) else []


# --- Chunks


def test_chunks_of_a_turn() -> None:
    more = {"toolCallId": "c1", "toolName": "sh"}
    events = log(
        START,
        PROMPT,
        wire_event("thinking_chunk", text="H", **R1),
        wire_event("thinking_done", text="Hm.", **R1),
        wire_event("tool_input_chunk", **more, chunk='{"command":', offset=0, **R1),
        wire_event("tool_input_chunk", **more, chunk='d":"pytest"}', offset=8, **R1),
        CALL,
        wire_event("tool_output_chunk", toolCallId="c1", chunk="1"),
        RESULT,
        wire_event("assistant_chunk", text="On", **R2),
        wire_event("assistant_chunk", text="e.", **R2),
        wire_event("assistant_done", text="One.", **R2),
        wire_event("turn_end", costUsd=0.5),
    )
    stream = UiMessageStream()
    chunks = [
        *stream.begin(events[:2], "t1"),
        *(chunk for event in events[2:] for chunk in stream.add(event)),
    ]

    prompt = {"id": "e2", "role": "user", "metadata": {"createdAt": 2, "turnId": "t1"}}
    parts = [{"type": "text", "text": "Which tests fail?"}]
    assert (chunks, stream.is_over) == (
        [
            {"type": "data-message", "id": "e2", "data": {**prompt, "parts": parts}, "transient": True},
            {
                "type": "start",
                "messageId": "e2-answer",
                "messageMetadata": {"createdAt": 2, "turnId": "t1"},
            },
            {"type": "start-step"},
            {"type": "reasoning-start", "id": "reasoning-1"},
            {"type": "reasoning-delta", "id": "reasoning-1", "delta": "H"},
            {"type": "reasoning-delta", "id": "reasoning-1", "delta": "m."},
            {"type": "reasoning-end", "id": "reasoning-1"},
            {"type": "tool-input-start", "toolCallId": "c1", "toolName": "sh", "dynamic": True},
            {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"command":'},
            {"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '"pytest"}'},
            {
                "type": "tool-input-available",
                "toolCallId": "c1",
                "toolName": "sh",
                "input": {"command": "pytest"},
                "dynamic": True,
            },
            {
                "type": "data-tool_output_chunk",
                "id": "e8",
                "data": {"toolCallId": "c1", "chunk": "1"},
                "transient": True,
            },
            {"type": "tool-output-available", "output": "1 failed", "toolCallId": "c1", "dynamic": True},
            {"type": "finish-step"},
            {"type": "start-step"},
            {"type": "text-start", "id": "text-1"},
            {"type": "text-delta", "id": "text-1", "delta": "On"},
            {"type": "text-delta", "id": "text-1", "delta": "e."},
            {"type": "text-end", "id": "text-1"},
            {"type": "finish-step"},
            {"type": "finish", "messageMetadata": {"finishedAt": 13, "costUsd": 0.5}},
        ],
        True,
    )


CHANGED = [{"type": "error", "errorText": "The message has changed. Load the messages again."}]
TURN = [START, PROMPT, wire_event("assistant_chunk", text="On", **R1)]


@pytest.mark.parametrize(
    ("event", "types", "is_over"),
    [
        (wire_event("retraction", eventIds=["e2"]), ["error"], True),
        (wire_event("retraction", turns=1), ["error"], True),
        (wire_event("retraction", eventIds=["other"]), [], False),
        (wire_event("reset"), ["error"], True),
        (wire_event("assistant_done", text="Other.", **R1), ["error"], True),
        (wire_event("turn_start", trigger="user", turnId="t2"), ["text-end", "finish-step", "finish"], True),
        (wire_event("assistant_done", text="A", turnId="t2"), ["text-end", "finish-step", "finish"], True),
        (wire_event("turn_end", turnId="t0"), [], False),
        (wire_event("turn_end"), ["text-end", "finish-step", "finish"], True),
        (wire_event("interrupt", reason="user_cancel"), ["data-interrupt"], False),
    ],
)
def test_end_of_a_stream(event: Any, types: list[str], is_over: bool) -> None:
    *known, new = log(*TURN, event)
    stream = UiMessageStream()
    stream.begin([*log(wire_event("assistant_done", text="Old.", turnId="t0")), *known], "t1")

    chunks = stream.add(new)

    assert ([chunk["type"] for chunk in chunks], stream.is_over) == (types, is_over)
    assert stream.is_interrupted == (event["type"] == "interrupt")
    assert [chunk for chunk in chunks if chunk["type"] == "error"] == (CHANGED if "error" in types else [])


def test_retracted_events_are_not_sent() -> None:
    stream = UiMessageStream()
    chunks = stream.begin(log(*TURN[:2], CALL, wire_event("retraction", eventIds=["e3"])), "t1")

    assert ([chunk["type"] for chunk in chunks], stream.is_over) == (["data-message"], False)


# --- The messages of a stream equal the projection


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_stream_equals_projection(name: str) -> None:
    events = events_of(TRANSCRIPTS[name])
    starts = [number for number, event in enumerate(events) if event["type"] == "turn_start"]
    for start, end in zip(starts, [*starts[1:], len(events)], strict=True):
        expected = [each for each in to_ui_messages(events[:end]) if each["id"].endswith("-answer")]
        for cut in range(start, end, max(1, (end - start) // 7)):
            followed = follow(events[start:end], cut - start)
            assert followed == [
                each for each in expected if each["metadata"].get("turnId") == events[start]["turnId"]
            ]


def events_of(text: str) -> list[Json]:
    normalizer = Normalizer()
    events = [
        event
        for number, line in enumerate(text.splitlines())
        for event in normalizer.follow(parse_line(line), context(number))
    ]
    return [*events, *normalizer.close(context("end"))]


def follow(turn: list[Json], cut: int) -> list[Json]:
    """Return the answers of a client that joins after the first events of a turn, without completed chunks."""
    stream, reader = UiMessageStream(), UiMessageReader()
    chunks = stream.begin(collapsed(turn[: cut + 1]), turn[0]["turnId"])
    chunks += [chunk for event in turn[cut + 1 :] for chunk in stream.add(event)]
    for chunk in chunks if stream.is_over else [*chunks, *stream.end()]:
        reader.add(json.loads(json.dumps(chunk)))
    return [each for each in reader.messages if each["id"].endswith("-answer")]


def collapsed(events: list[Json]) -> list[Json]:
    """Return the events without chunks that a complete event follows."""
    complete, kept = set[Any](), list[Json]()
    for event in reversed(events):
        row, payload = CATALOGUE[event["type"]], event["payload"]
        whole = row.chunk_of or event["type"]
        group = CATALOGUE[whole].chunks
        fields = () if group is None else group.fields
        key = (whole, *(event.get(name, payload.get(name)) for name in fields))
        if row.chunks:
            complete.add(key)
        if not (row.chunk_of and key in complete):
            kept.append(event)
    return kept[::-1]


@settings(max_examples=50, deadline=None)
@given(LOGS)
def test_folds_return_the_same_messages_part_by_part(events: list[Json]) -> None:
    """A summary, which replaces messages, comes first."""
    log = [event for event in events if event["type"] != "summary"]
    expected = [to_ui_messages(log), to_openai_messages(log), to_anthropic_messages(log)]
    folds: list[Any] = [UiMessageFold(), OpenAiFold(), AnthropicFold()]

    shown = [list[Json]() for _ in folds]
    for event in standing(wire_events(log)):
        for fold, messages in zip(folds, shown, strict=True):
            fold.add(event)
            messages += json.loads(json.dumps(fold.take()))
    for fold, messages in zip(folds, shown, strict=True):
        messages += fold.end()

    assert shown == json.loads(json.dumps(expected))


def test_calls_without_a_result_do_not_wait_for_ever() -> None:
    prompts = [wire_event("user_message", text=str(number)) for number in range(1100)]
    events = log(START, CALL, wire_event("turn_end"), *prompts, RESULT)
    counts = {}
    for fold in (UiMessageFold(), OpenAiFold()):
        for event in events[:1000]:
            fold.add(event, 1)
        waiting = len(fold.take()), len(fold.take(500))
        for event in events[1000:]:
            fold.add(event, 1)
        counts[type(fold)] = (*waiting, len(fold.end()))

    assert counts == {UiMessageFold: (997, 0, 104), OpenAiFold: (0, 996, 104)}


def test_the_oldest_calls_stop_waiting_when_messages_are_large() -> None:
    """Otherwise a call would lose a result that comes next."""
    old = tool_call("old")
    talk = [wire_event("user_message", text="Go on."), wire_event("assistant_done", text="Yes.")] * 10
    events = log(START, old, wire_event("turn_end"), *talk, START, CALL, RESULT)
    for fold in (UiMessageFold(), OpenAiFold(), AnthropicFold()):
        for event in events[:-1]:
            fold.add(event, 100)
        taken, size = json.dumps(fold.take(1500)), fold.size()
        fold.add(events[-1], 100)
        rest = json.dumps(fold.end())

        assert 0 < size <= 1500, fold
        assert ("Go on." in taken, RESULT["payload"]["result"] in rest) == (True, True), fold


def test_folds_forget_calls_without_a_result() -> None:
    folds: list[Any] = [OpenAiFold(), AnthropicFold()]
    for number, fold in enumerate(folds):
        for turn in range(200):
            for event in log(wire_event("user_message", text="Go on."), tool_call(f"{number}-{turn}")):
                fold.add(event, 100)
            fold.take(1000)

        assert count_reachable(fold, Answer) < 20, fold


def count_reachable(root: object, kind: type) -> int:
    """Return the number of objects of a type that an object keeps alive."""
    seen, rest = dict[int, object](), [root]
    while rest:
        each = rest.pop()
        if id(each) not in seen and not isinstance(each, type | FunctionType | ModuleType):
            seen[id(each)] = each
            rest += gc.get_referents(each)
    return sum(isinstance(each, kind) for each in seen.values())


@settings(max_examples=50, deadline=None)
@given(LOGS, st.integers(0, 40))
def test_any_log_has_messages_and_chunks(events: list[Json], cut: int) -> None:
    messages = to_ui_messages(events)
    stream = UiMessageStream()
    chunks = stream.begin(events[:cut], "t1")
    chunks += [chunk for event in events[cut:] for chunk in stream.add(event)]

    json.dumps([messages, chunks], allow_nan=False)
    assert len({message["id"] for message in messages}) == len(messages)
    for message in messages:
        calls = [part["toolCallId"] for part in message["parts"] if "toolCallId" in part]
        assert len(set(calls)) == len(calls)
        assert message["parts"] or message["role"] == "assistant"
        assert {part.get("state") for part in message["parts"]} <= {
            None, "done", "input-available", "output-available", "output-error"
        }  # fmt: skip


@pytest.mark.slow
def test_hostile_logs_take_linear_time() -> None:
    calls = [CALL, RESULT] * 5_000
    pieces = [wire_event("assistant_chunk", text="x" * 50, **R2)] * 20_000
    stream = UiMessageStream()
    stream.begin(log(START), "t1")

    messages = to_ui_messages(log(*calls))
    for event in log(*calls, *[wire_event("retraction", eventIds=["other"])] * 5_000, *pieces):
        stream.add(event)

    assert len(messages[0]["parts"]) == 10_001 - 5_000
