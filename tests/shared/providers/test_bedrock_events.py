"""Events of Bedrock Converse streams, complete responses and requests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shared.logs import follow, short_events, texts
from tests.shared.sample_files import CORPUS

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]

START: ShortEvent = ("turn_start", {"trigger": "system"})
END: ShortEvent = ("turn_end", {})
ABORTED: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
OPEN: Record = {"messageStart": {"role": "assistant", "p": "abc"}}
USAGE: Record = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
METADATA: Record = {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 9}}}
USAGE_END: ShortEvent = (
    "turn_end",
    {"usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}},
)


def block_start_event(index: int, **block_start: Any) -> Record:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": block_start}}


def call_start(index: int, id: str = "k0", **more: Any) -> Record:
    return block_start_event(index, toolUse={"toolUseId": id, "name": "tide", **more})


def delta(index: int, **piece: Any) -> Record:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": piece, "p": "ab"}}


def input_delta(index: int, arguments: str) -> Record:
    return delta(index, toolUse={"input": arguments})


def reasoning_delta(index: int, **piece: Any) -> Record:
    return delta(index, reasoningContent=piece)


def block_stop(index: int) -> Record:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def message_stop(reason: str = "end_turn") -> Record:
    return {"messageStop": {"stopReason": reason}}


def chunk(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_chunk", {"text": text, **more})


def done(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_done", {"text": text, **more})


def input_chunk(id: str, text: str, offset: int = 0) -> ShortEvent:
    return ("tool_input_chunk", {"toolCallId": id, "toolName": "tide", "chunk": text, "offset": offset})


def tool_call(id: str, args: Any, **more: Any) -> ShortEvent:
    return ("tool_call", {"toolCallId": id, "toolName": "tide", "args": args, **more})


HOSTED: list[Any] = [
    call_start(0, type="server_tool_use"),
    input_delta(0, "{}"),
    block_stop(0),
]
HOSTED_CALL: list[ShortEvent] = [
    (
        "tool_input_chunk",
        {"toolCallId": "k0", "toolName": "tide", "chunk": "{}", "offset": 0},
    ),
    tool_call("k0", {}, executor="server"),
]

STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a text": (
        [OPEN, delta(0, text="Hi"), delta(0, text="gh"), block_stop(0), message_stop(), METADATA],
        [START, chunk("Hi"), chunk("gh"), done("High"), USAGE_END],
    ),
    "usage before the end": (
        [OPEN, delta(0, text="Hi"), block_stop(0), METADATA, message_stop()],
        [START, chunk("Hi"), done("Hi"), USAGE_END],
    ),
    "no usage": (
        [OPEN, delta(0, text="Hi"), block_stop(0), message_stop()],
        [START, chunk("Hi"), done("Hi"), END],
    ),
    "reasoning with a signature, after an empty text": (
        [
            OPEN,
            delta(0, text=""),
            block_stop(0),
            reasoning_delta(1, text="Sea"),
            reasoning_delta(1, text="."),
            reasoning_delta(1, signature="s"),
            block_stop(1),
            delta(2, text="Hi"),
            block_stop(2),
            message_stop(),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            chunk(".", "thinking"),
            done("Sea.", "thinking", signature="s"),
            chunk("Hi"),
            done("Hi"),
            END,
        ],
    ),
    "redacted reasoning": (
        [
            OPEN,
            reasoning_delta(0, redactedContent="QQ"),
            block_stop(0),
            reasoning_delta(1, redactedContent="QQ"),
            block_stop(1),
            message_stop(),
        ],
        [START, done("", "thinking", redacted=True), done("", "thinking", redacted=True), END],
    ),
    "sources": (
        [
            OPEN,
            delta(0, text="Hi"),
            delta(0, citation={"title": "a"}),
            delta(0, citation={"title": "b"}),
            block_stop(0),
            message_stop(),
        ],
        [START, chunk("Hi"), done("Hi", citations=[{"title": "a"}, {"title": "b"}]), END],
    ),
    "calls, one without arguments": (
        [
            OPEN,
            block_start_event(0),
            delta(0, text="Wait."),
            block_stop(0),
            call_start(1),
            input_delta(1, '{"a":'),
            input_delta(1, "1}"),
            block_stop(1),
            call_start(2, "k1"),
            input_delta(2, ""),
            block_stop(2),
            message_stop("tool_use"),
            METADATA,
        ],
        [
            START,
            chunk("Wait."),
            done("Wait."),
            input_chunk("k0", '{"a":'),
            input_chunk("k0", "1}", 5),
            tool_call("k0", {"a": 1}),
            tool_call("k1", {}),
            (USAGE_END[0], {**USAGE_END[1], "partial": True}),
        ],
    ),
    "blocks without an end event": (
        [
            delta(0, text="One."),
            delta(1, text="Two."),
            call_start(2),
            input_delta(2, "{}"),
            delta(3, text="Three."),
            message_stop("tool_use"),
        ],
        [
            START,
            chunk("One."),
            chunk("Two."),
            done("One."),
            done("Two."),
            input_chunk("k0", "{}"),
            chunk("Three."),
            tool_call("k0", {}),
            done("Three."),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a tool run by the vendor": (
        [
            OPEN,
            *HOSTED,
            block_start_event(1, toolResult={"toolUseId": "k0", "status": "success", "type": "tide_result"}),
            delta(1, toolResult=[{"json": {"exitCode": 0, "stdOut": "high"}}]),
            block_stop(1),
            delta(2, text="High"),
            block_stop(2),
            message_stop(),
            METADATA,
        ],
        [
            START,
            *HOSTED_CALL,
            (
                "tool_result",
                {
                    "toolCallId": "k0",
                    "result": None,
                    "exitCode": 0,
                    "structured": {"exitCode": 0, "stdOut": "high"},
                },
            ),
            chunk("High"),
            done("High"),
            USAGE_END,
        ],
    ),
    "a failing tool run by the vendor": (
        [
            OPEN,
            *HOSTED,
            block_start_event(1, toolResult={"toolUseId": "k0", "status": "error"}),
            delta(1, toolResult=[{"text": "no"}]),
            block_stop(1),
            message_stop(),
        ],
        [
            START,
            *HOSTED_CALL,
            (
                "tool_result",
                {
                    "toolCallId": "k0",
                    "result": [{"type": "text", "text": "no", "source_type": "text"}],
                    "error": {"code": "error", "message": "no"},
                },
            ),
            END,
        ],
    ),
    "an image, and an unknown delta": (
        [OPEN, delta(0, image={"source": {"bytes": "QQ=="}}), delta(1, hologram={"x": 1}), message_stop()],
        [
            START,
            done(
                "",
                content=[
                    {"type": "image", "source": {"type": "base64", "data": "QQ=="}, "source_type": "image"}
                ],
            ),
            ("raw", {"source": "bedrock", "raw": {"hologram": {"x": 1}}}),
            END,
        ],
    ),
    "a content filter": (
        [OPEN, delta(0, text="Hi"), block_stop(0), message_stop("guardrail_intervened")],
        [
            START,
            chunk("Hi"),
            done("Hi"),
            ("error", {"code": "guardrail_intervened", "message": "guardrail_intervened"}),
            END,
        ],
    ),
    "an error during the stream": (
        [OPEN, delta(0, text="Hi"), {"throttlingException": {"message": "Slow down"}}],
        [
            START,
            chunk("Hi"),
            ("error", {"code": "throttlingException", "message": "Slow down"}),
            done("Hi", partial=True),
            *ABORTED,
        ],
    ),
    "a stream cut between two blocks": (
        [OPEN, delta(0, text="Hi"), block_stop(0)],
        [START, chunk("Hi"), done("Hi"), *ABORTED],
    ),
    "a cut stream, and the next one": (
        [OPEN, delta(0, text="H"), OPEN, delta(0, text="Hi"), block_stop(0), message_stop()],
        [START, chunk("H"), done("H", partial=True), chunk("Hi"), done("Hi"), END],
    ),
    "an agent run": (
        [
            {"role": "user", "content": [{"text": "Tides?"}]},
            OPEN,
            call_start(0),
            input_delta(0, "{}"),
            block_stop(0),
            message_stop("tool_use"),
            METADATA,
            {"role": "user", "content": [{"toolResult": {"toolUseId": "k0", "content": [{"text": "high"}]}}]},
            OPEN,
            delta(0, text="High"),
            block_stop(0),
            message_stop(),
            METADATA,
            {"role": "user", "content": [{"text": "Thanks"}]},
        ],
        [
            ("turn_start", {"trigger": "user"}),
            ("user_message", {"text": "Tides?"}),
            input_chunk("k0", "{}"),
            tool_call("k0", {}),
            (
                "tool_result",
                {"toolCallId": "k0", "result": [{"type": "text", "text": "high", "source_type": "text"}]},
            ),
            chunk("High"),
            done("High"),
            ("turn_end", {"usage": {"input_tokens": 10, "output_tokens": 6, "total_tokens": 16}}),
            ("turn_start", {"trigger": "user"}),
            ("user_message", {"text": "Thanks"}),
            END,
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_stream_events(records: list[Any], events: list[ShortEvent]) -> None:
    assert short_events(follow(records, "bedrock", ends=True)) == events


# A complete response gives the same events as its stream.


def streamed(response: Record) -> Iterator[Record]:
    """Return the response as stream events."""
    yield OPEN
    for index, block in enumerate(response["output"]["message"]["content"]):
        yield from _streamed(index, block)
        yield block_stop(index)
    yield {"messageStop": {"stopReason": response.get("stopReason")}}
    yield {"metadata": {"usage": response.get("usage")}}


def _streamed(index: int, block: Record) -> Iterator[Record]:
    if "text" in block:
        yield from (delta(index, text=part) for part in (block["text"][:3], block["text"][3:]))
    elif "toolUse" in block:
        call = dict(block["toolUse"])
        yield block_start_event(index, toolUse={key: call[key] for key in call if key != "input"})
        yield input_delta(index, json.dumps(call["input"]) if call["input"] else "")
    elif "toolResult" in block:
        result = dict(block["toolResult"])
        yield block_start_event(index, toolResult={key: result[key] for key in result if key != "content"})
        yield delta(index, toolResult=result["content"])
    else:
        reasoning = block["reasoningContent"]
        yield from (
            reasoning_delta(index, **{key: reasoning[key]}) for key in reasoning if key == "redactedContent"
        )
        yield from (
            reasoning_delta(index, **{key: value})
            for key, value in reasoning.get("reasoningText", {}).items()
        )


BLOCKS: list[Record] = [
    {"reasoningContent": {"reasoningText": {"text": "Sea.", "signature": "s"}}},
    {"reasoningContent": {"redactedContent": "QQ"}},
    {"text": "Wait."},
    {"toolUse": {"toolUseId": "k0", "name": "tide", "input": {}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "k0", "content": [{"json": {"a": 1}}], "status": "error"}},
    {"toolUse": {"toolUseId": "k1", "name": "tide", "input": {"a": [1]}}},
]


def response(*blocks: Record, reason: str) -> Record:
    message = {"role": "assistant", "content": list(blocks)}
    return {"output": {"message": message}, "stopReason": reason, "usage": USAGE}


def captured_responses() -> list[Record]:
    paths = sorted(CORPUS.glob("bedrock_converse_response/*.jsonl"))
    records = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if "stopReason" in record and "output" in record]


@pytest.mark.parametrize(
    "body",
    [
        response(*BLOCKS, reason="tool_use"),
        response(BLOCKS[2], reason="content_filtered"),
        *captured_responses(),
    ],
)
def test_complete_response_matches_its_stream(body: Record) -> None:
    complete, stream = (
        [event for event in short_events(follow(records, ends=True)) if not event[0].endswith("_chunk")]
        for records in ([body], list(streamed(body)))
    )
    assert complete == stream
    assert complete[-1][0] == "turn_end"


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("bedrock_converse_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_emits_all_text_of_captured_streams(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    events = follow(records)
    deltas = [record["contentBlockDelta"]["delta"] for record in records if "contentBlockDelta" in record]
    expected = {
        "assistant_chunk": "".join(delta.get("text", "") for delta in deltas),
        "thinking_chunk": "".join(delta.get("reasoningContent", {}).get("text", "") for delta in deltas),
        "tool_input_chunk": "".join(delta.get("toolUse", {}).get("input", "") for delta in deltas),
    }
    assert texts(events) == {name: text for name, text in expected.items() if text}
    starts = [record["contentBlockStart"]["start"] for record in records if "contentBlockStart" in record]
    assert [event["payload"]["toolCallId"] for event in events if event["type"] == "tool_call"] == [
        start["toolUse"]["toolUseId"] for start in starts if "toolUse" in start
    ]
