"""Bedrock's Converse in the log: streams, answers at rest, and what a caller says between them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import follow, short, texts

Record = dict[str, Any]
Told = tuple[Any, ...]

START: Told = ("turn_start", {"trigger": "system"})
END: Told = ("turn_end", {})
CUT: list[Told] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
OPEN: Record = {"messageStart": {"role": "assistant", "p": "abc"}}
USAGE: Record = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
METADATA: Record = {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 9}}}
ENDED: Told = (
    "turn_end",
    {"usage": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}},
)


def starts(index: int, **begun: Any) -> Record:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": begun}}


def calls(index: int, id: str = "k0", **more: Any) -> Record:
    return starts(index, toolUse={"toolUseId": id, "name": "tide", **more})


def delta(index: int, **piece: Any) -> Record:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": piece, "p": "ab"}}


def gives(index: int, arguments: str) -> Record:
    return delta(index, toolUse={"input": arguments})


def thinks(index: int, **piece: Any) -> Record:
    return delta(index, reasoningContent=piece)


def stops(index: int) -> Record:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def over(reason: str = "end_turn") -> Record:
    return {"messageStop": {"stopReason": reason}}


def chunk(text: str, kind: str = "assistant", **more: Any) -> Told:
    return (f"{kind}_chunk", {"text": text, **more})


def done(text: str, kind: str = "assistant", **more: Any) -> Told:
    return (f"{kind}_done", {"text": text, **more})


def written(id: str, text: str, offset: int = 0) -> Told:
    return ("tool_input_chunk", {"toolCallId": id, "toolName": "tide", "chunk": text, "offset": offset})


def called(id: str, args: Any, **more: Any) -> Told:
    return ("tool_call", {"toolCallId": id, "toolName": "tide", "args": args, **more})


HOSTED: list[Any] = [
    calls(0, type="server_tool_use"),
    gives(0, "{}"),
    stops(0),
]
HOSTED_CALL: list[Told] = [
    (
        "tool_input_chunk",
        {"toolCallId": "k0", "toolName": "tide", "chunk": "{}", "offset": 0},
    ),
    called("k0", {}, executor="server"),
]

STREAMS: dict[str, tuple[list[Any], list[Told]]] = {
    "a text": (
        [OPEN, delta(0, text="Hi"), delta(0, text="gh"), stops(0), over(), METADATA],
        [START, chunk("Hi"), chunk("gh"), done("High"), ENDED],
    ),
    "usage before the end": (
        [OPEN, delta(0, text="Hi"), stops(0), METADATA, over()],
        [START, chunk("Hi"), done("Hi"), ENDED],
    ),
    "no usage": ([OPEN, delta(0, text="Hi"), stops(0), over()], [START, chunk("Hi"), done("Hi"), END]),
    "reasoning with its proof, after a text that is empty": (
        [
            OPEN,
            delta(0, text=""),
            stops(0),
            thinks(1, text="Sea"),
            thinks(1, text="."),
            thinks(1, signature="s"),
            stops(1),
            delta(2, text="Hi"),
            stops(2),
            over(),
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
    "reasoning that is withheld": (
        [OPEN, thinks(0, redactedContent="QQ"), stops(0), thinks(1, redactedContent="QQ"), stops(1), over()],
        [START, done("", "thinking", redacted=True), done("", "thinking", redacted=True), END],
    ),
    "sources": (
        [
            OPEN,
            delta(0, text="Hi"),
            delta(0, citation={"title": "a"}),
            delta(0, citation={"title": "b"}),
            stops(0),
            over(),
        ],
        [START, chunk("Hi"), done("Hi", citations=[{"title": "a"}, {"title": "b"}]), END],
    ),
    "calls, one without arguments": (
        [
            OPEN,
            starts(0),
            delta(0, text="Wait."),
            stops(0),
            calls(1),
            gives(1, '{"a":'),
            gives(1, "1}"),
            stops(1),
            calls(2, "k1"),
            gives(2, ""),
            stops(2),
            over("tool_use"),
            METADATA,
        ],
        [
            START,
            chunk("Wait."),
            done("Wait."),
            written("k0", '{"a":'),
            written("k0", "1}", 5),
            called("k0", {"a": 1}),
            called("k1", {}),
            (ENDED[0], {**ENDED[1], "partial": True}),
        ],
    ),
    "blocks whose ends are not told": (
        [
            delta(0, text="One."),
            delta(1, text="Two."),
            calls(2),
            gives(2, "{}"),
            delta(3, text="Three."),
            over("tool_use"),
        ],
        [
            START,
            chunk("One."),
            chunk("Two."),
            done("One."),
            done("Two."),
            written("k0", "{}"),
            chunk("Three."),
            called("k0", {}),
            done("Three."),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a tool that the vendor runs": (
        [
            OPEN,
            *HOSTED,
            starts(1, toolResult={"toolUseId": "k0", "status": "success", "type": "tide_result"}),
            delta(1, toolResult=[{"json": {"exitCode": 0, "stdOut": "high"}}]),
            stops(1),
            delta(2, text="High"),
            stops(2),
            over(),
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
            ENDED,
        ],
    ),
    "a tool that the vendor runs and that fails": (
        [
            OPEN,
            *HOSTED,
            starts(1, toolResult={"toolUseId": "k0", "status": "error"}),
            delta(1, toolResult=[{"text": "no"}]),
            stops(1),
            over(),
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
    "a picture, and a piece that nobody knows": (
        [OPEN, delta(0, image={"source": {"bytes": "QQ=="}}), delta(1, hologram={"x": 1}), over()],
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
    "a filter": (
        [OPEN, delta(0, text="Hi"), stops(0), over("guardrail_intervened")],
        [
            START,
            chunk("Hi"),
            done("Hi"),
            ("error", {"code": "guardrail_intervened", "message": "guardrail_intervened"}),
            END,
        ],
    ),
    "an error instead of the rest": (
        [OPEN, delta(0, text="Hi"), {"throttlingException": {"message": "Slow down"}}],
        [
            START,
            chunk("Hi"),
            ("error", {"code": "throttlingException", "message": "Slow down"}),
            done("Hi", partial=True),
            *CUT,
        ],
    ),
    "a stream that is cut between two blocks": (
        [OPEN, delta(0, text="Hi"), stops(0)],
        [START, chunk("Hi"), done("Hi"), *CUT],
    ),
    "a stream that is cut, and the next": (
        [OPEN, delta(0, text="H"), OPEN, delta(0, text="Hi"), stops(0), over()],
        [START, chunk("H"), done("H", partial=True), chunk("Hi"), done("Hi"), END],
    ),
    "an agent at work": (
        [
            {"role": "user", "content": [{"text": "Tides?"}]},
            OPEN,
            calls(0),
            gives(0, "{}"),
            stops(0),
            over("tool_use"),
            METADATA,
            {"role": "user", "content": [{"toolResult": {"toolUseId": "k0", "content": [{"text": "high"}]}}]},
            OPEN,
            delta(0, text="High"),
            stops(0),
            over(),
            METADATA,
            {"role": "user", "content": [{"text": "Thanks"}]},
        ],
        [
            ("turn_start", {"trigger": "user"}),
            ("user_message", {"text": "Tides?"}),
            written("k0", "{}"),
            called("k0", {}),
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
def test_a_stream(records: list[Any], events: list[Told]) -> None:
    assert short(follow(records, "bedrock", is_whole=True)) == events


# An answer at rest says the same as its stream.


def streamed(answer: Record) -> Iterator[Record]:
    """The same answer in pieces."""
    yield OPEN
    for index, block in enumerate(answer["output"]["message"]["content"]):
        yield from _streamed(index, block)
        yield stops(index)
    yield {"messageStop": {"stopReason": answer.get("stopReason")}}
    yield {"metadata": {"usage": answer.get("usage")}}


def _streamed(index: int, block: Record) -> Iterator[Record]:
    if "text" in block:
        yield from (delta(index, text=piece) for piece in (block["text"][:3], block["text"][3:]))
    elif "toolUse" in block:
        call = dict(block["toolUse"])
        yield starts(index, toolUse={key: call[key] for key in call if key != "input"})
        yield gives(index, json.dumps(call["input"]) if call["input"] else "")
    elif "toolResult" in block:
        result = dict(block["toolResult"])
        yield starts(index, toolResult={key: result[key] for key in result if key != "content"})
        yield delta(index, toolResult=result["content"])
    else:
        told = block["reasoningContent"]
        yield from (thinks(index, **{key: told[key]}) for key in told if key == "redactedContent")
        yield from (thinks(index, **{key: value}) for key, value in told.get("reasoningText", {}).items())


BLOCKS: list[Record] = [
    {"reasoningContent": {"reasoningText": {"text": "Sea.", "signature": "s"}}},
    {"reasoningContent": {"redactedContent": "QQ"}},
    {"text": "Wait."},
    {"toolUse": {"toolUseId": "k0", "name": "tide", "input": {}, "type": "server_tool_use"}},
    {"toolResult": {"toolUseId": "k0", "content": [{"json": {"a": 1}}], "status": "error"}},
    {"toolUse": {"toolUseId": "k1", "name": "tide", "input": {"a": [1]}}},
]


def answer(*blocks: Record, reason: str) -> Record:
    message = {"role": "assistant", "content": list(blocks)}
    return {"output": {"message": message}, "stopReason": reason, "usage": USAGE}


def real() -> list[Record]:
    paths = sorted(CORPUS.glob("bedrock_converse_response/*.jsonl"))
    records = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return [record for record in records if "stopReason" in record and "output" in record]


@pytest.mark.parametrize(
    "body", [answer(*BLOCKS, reason="tool_use"), answer(BLOCKS[2], reason="content_filtered"), *real()]
)
def test_an_answer_at_rest_says_the_same(body: Record) -> None:
    at_rest, stream = (
        [event for event in short(follow(records, is_whole=True)) if not event[0].endswith("_chunk")]
        for records in ([body], list(streamed(body)))
    )
    assert at_rest == stream
    assert at_rest[-1][0] == "turn_end"


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("bedrock_converse_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_real_streams_are_told_whole(path: Path) -> None:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    events = follow(records)
    deltas = [record["contentBlockDelta"]["delta"] for record in records if "contentBlockDelta" in record]
    pieces = {
        "assistant_chunk": "".join(piece.get("text", "") for piece in deltas),
        "thinking_chunk": "".join(piece.get("reasoningContent", {}).get("text", "") for piece in deltas),
        "tool_input_chunk": "".join(piece.get("toolUse", {}).get("input", "") for piece in deltas),
    }
    assert texts(events) == {name: text for name, text in pieces.items() if text}
    opened = [record["contentBlockStart"]["start"] for record in records if "contentBlockStart" in record]
    assert [event["payload"]["toolCallId"] for event in events if event["type"] == "tool_call"] == [
        begun["toolUse"]["toolUseId"] for begun in opened if "toolUse" in begun
    ]
