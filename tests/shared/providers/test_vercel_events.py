"""Vercel's UI messages in the log: streams of chunks, and messages that are stored anew as they grow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import follow, short, texts

Record = dict[str, Any]
Told = tuple[Any, ...]

START: Told = ("turn_start", {"trigger": "system"})
USER_START: Told = ("turn_start", {"trigger": "user"})
END: Told = ("turn_end", {})
CUT: list[Told] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
ASKED = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Tides?"}]}
PROMPT: list[Told] = [USER_START, ("user_message", {"text": "Tides?"})]
USAGE = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
COUNTED = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}


def of(type: str, **more: Any) -> Record:
    return {"type": type, **more}


OPEN, STEP, STEP_END, CLOSE = of("start", messageId="m1"), of("start-step"), of("finish-step"), of("finish")


def writes(*pieces: str, id: str = "0", kind: str = "text", **more: Any) -> list[Record]:
    deltas = [of(f"{kind}-delta", id=id, delta=piece) for piece in pieces]
    return [of(f"{kind}-start", id=id), *deltas, of(f"{kind}-end", id=id, **more)]


def calls(id: str = "k0", **more: Any) -> Record:
    return of("tool-input-available", toolCallId=id, toolName="tide", input={"a": 1}, **more)


def answers(output: Any, id: str = "k0", **more: Any) -> Record:
    return of("tool-output-available", toolCallId=id, output=output, **more)


def chunk(text: str, kind: str = "assistant", **more: Any) -> Told:
    return (f"{kind}_chunk", {"text": text, **more}, "m1")


def done(text: str, kind: str = "assistant", **more: Any) -> Told:
    return (f"{kind}_done", {"text": text, **more}, "m1")


def written(text: str, offset: int = 0, id: str = "k0") -> Told:
    payload = {"toolCallId": id, "toolName": "tide", "chunk": text, "offset": offset}
    return ("tool_input_chunk", payload, "m1")


def called(id: str = "k0", args: Any = None, **more: Any) -> Told:
    return ("tool_call", {"toolCallId": id, "toolName": "tide", "args": args or {"a": 1}, **more}, "m1")


def answered(result: Any, id: str = "k0", **more: Any) -> Told:
    return ("tool_result", {"toolCallId": id, "result": result, **more})


def failed(words: str) -> Told:
    return answered(words, error={"code": "error", "message": words})


STREAMS: dict[str, tuple[list[Any], list[Told]]] = {
    "a text": (
        [OPEN, STEP, *writes("Hi", "gh"), STEP_END, CLOSE],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "a line that is all of it": (
        [[OPEN, STEP, *writes("Hi", "gh"), STEP_END, CLOSE]],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "reasoning, and usage so far in the metadata": (
        [
            OPEN,
            *writes("Sea", kind="reasoning", providerMetadata={"v": {"signature": "s"}}),
            of("message-metadata", messageMetadata={"usage": {"inputTokens": 1, "outputTokens": 1}}),
            *writes("Hi"),
            of("finish", finishReason="stop", messageMetadata={"usage": USAGE}),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            done("Sea", "thinking", signature="s"),
            chunk("Hi"),
            done("Hi"),
            ("turn_end", {"usage": COUNTED}),
        ],
    ),
    "a tool that the server runs, and a text with the id of the one before": (
        [
            OPEN,
            STEP,
            *writes("Wait."),
            of("tool-input-start", toolCallId="k0", toolName="tide"),
            of("tool-input-delta", toolCallId="k0", inputTextDelta='{"a":'),
            of("tool-input-delta", toolCallId="k0", inputTextDelta="1}"),
            calls(),
            answers("no", preliminary=True),
            answers("high"),
            STEP_END,
            STEP,
            *writes("High"),
            STEP_END,
            CLOSE,
        ],
        [
            START,
            chunk("Wait."),
            done("Wait."),
            written('{"a":'),
            written("1}", 5),
            called(),
            answered("high"),
            chunk("High"),
            done("High"),
            END,
        ],
    ),
    "a tool that the vendor runs": (
        [
            OPEN,
            of("tool-input-start", toolCallId="k0", toolName="tide", providerExecuted=True),
            calls(providerExecuted=True),
            CLOSE,
        ],
        [START, called(executor="server"), END],
    ),
    "a tool that the client runs, and the stream that goes on": (
        [ASKED, OPEN, calls(), CLOSE, OPEN, answers({"tide": "high"}), *writes("High"), CLOSE],
        [*PROMPT, called(), answered({"tide": "high"}), chunk("High"), done("High"), END],
    ),
    "calls that fail": (
        [
            OPEN,
            of("tool-input-error", toolCallId="k0", toolName="tide", input="high?", errorText="No"),
            of("tool-output-error", toolCallId="k0", errorText="No"),
            calls("k1"),
            of("tool-output-denied", toolCallId="k1"),
            CLOSE,
        ],
        [
            START,
            called(args="high?"),
            failed("No"),
            called("k1"),
            answered(None, "k1", error={"code": "error", "message": ""}),
            END,
        ],
    ),
    "files, sources, data and approvals": (
        [
            OPEN,
            of("file", url="https://x/a", mediaType="image/png"),
            of("source-url", sourceId="s", url="https://x"),
            of("data-x", data=1),
            of("tool-approval-request", approvalId="a", toolCallId="k"),
            CLOSE,
        ],
        [
            START,
            done(
                "",
                content=[
                    {
                        "type": "image",
                        "source": {"media_type": "image/png", "type": "url", "url": "https://x/a"},
                        "source_type": "file",
                    }
                ],
            ),
            END,
        ],
    ),
    "a step that is made anew": (
        [
            OPEN,
            STEP,
            of("tool-input-start", toolCallId="k0", toolName="tide"),
            of("tool-input-delta", toolCallId="k0", inputTextDelta='{"a'),
            of("reset-step"),
            STEP,
            *writes("Hi"),
            CLOSE,
        ],
        [START, written('{"a'), called(args='{"a', partial=True), chunk("Hi"), done("Hi"), END],
    ),
    "an error": (
        [OPEN, *writes("Hi"), of("error", errorText="Down")],
        [START, chunk("Hi"), done("Hi"), ("error", {"code": "error", "message": "Down"}), *CUT],
    ),
    "a person who stops it": (
        [OPEN, *writes("Hi")[:2], of("abort")],
        [START, chunk("Hi"), done("Hi", partial=True), ("interrupt", {"reason": "user_cancel"}), CUT[1]],
    ),
    "a stream that is cut": ([OPEN, *writes("Hi")[:2]], [START, chunk("Hi"), done("Hi", partial=True), *CUT]),
    "a stream without an id": (
        [of("start"), *writes("Hi"), CLOSE],
        [START, chunk("Hi")[:2], done("Hi")[:2], END],
    ),
    "two prompts": (
        [
            ASKED,
            OPEN,
            *writes("Hi"),
            CLOSE,
            {**ASKED, "id": "u2"},
            of("start", messageId="m2"),
            *writes("Hi"),
            CLOSE,
        ],
        [
            *PROMPT,
            chunk("Hi"),
            done("Hi"),
            END,
            *PROMPT,
            (*chunk("Hi")[:2], "m2"),
            (*done("Hi")[:2], "m2"),
            END,
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_a_stream(records: list[Any], events: list[Told]) -> None:
    assert short(follow(records, "vercel", is_whole=True)) == events


# A message at rest says the same as its stream, and nothing more where that came before it.

SAID = of("text", text="Wait.", state="done")
TOOL = of("tool-tide", toolCallId="k0", state="output-available", input={"a": 1}, output="high")
MESSAGES: dict[str, list[Record]] = {
    "texts": [of("step-start"), SAID, of("step-start"), of("text", text="High")],
    "reasoning": [of("reasoning", text="Sea", providerMetadata={"v": {"signature": "s"}}), SAID],
    "a tool": [of("step-start"), SAID, TOOL, of("step-start"), of("text", text="High")],
    "a tool of the vendor": [{**TOOL, "providerExecuted": True}, SAID],
    "a tool that fails": [{**TOOL, "state": "output-error", "errorText": "No"}, of("step-start"), SAID],
    "a tool that nobody ran": [SAID, {**TOOL, "state": "input-available"}],
    "a file": [of("file", url="https://x/a", mediaType="text/plain"), SAID],
}


def streamed(message: Record) -> list[Record]:
    chunks = [chunk for number, part in enumerate(message["parts"]) for chunk in _streamed(part, str(number))]
    return [of("start", messageId=message["id"]), *chunks, STEP_END, CLOSE]


def _streamed(part: Record, id: str) -> list[Record]:
    wire = part["type"]
    if wire in ("text", "reasoning"):
        more = {key: part[key] for key in ("providerMetadata",) if key in part}
        return writes(part["text"][:2], part["text"][2:], id=id, kind=wire, **more)
    if not wire.startswith("tool-"):
        return [STEP if wire == "step-start" else part]
    more = {key: part[key] for key in ("providerExecuted", "output", "errorText", "input") if key in part}
    call = {"toolCallId": part["toolCallId"], "toolName": wire.removeprefix("tool-"), **more}
    opened = [of("tool-input-start", **call), of("tool-input-available", **call)]
    return opened + ([of(f"tool-{part['state']}", **call)] if part["state"].startswith("output") else [])


def solid(records: list[Any]) -> list[Told]:
    return [event for event in short(follow(records, is_whole=True)) if event[0] not in _BESIDE]


_BESIDE = {"assistant_chunk", "thinking_chunk", "tool_input_chunk", "turn_end"}


@pytest.mark.parametrize("parts", MESSAGES.values(), ids=MESSAGES)
def test_a_message_at_rest_says_the_same(parts: list[Record]) -> None:
    message = {"id": "m1", "role": "assistant", "parts": parts}
    at_rest = solid([ASKED, message])
    assert solid([ASKED, *streamed(message)]) == at_rest
    assert solid([ASKED, *streamed(message), message, message]) == at_rest
    assert solid([ASKED, message, message]) == at_rest


def test_the_client_answers_in_the_message() -> None:
    """Its result is in no stream: the message is stored again with it."""
    waits = {"id": "m1", "role": "assistant", "parts": MESSAGES["a tool that nobody ran"]}
    whole = {**waits, "parts": [SAID, TOOL]}
    assert solid([ASKED, *streamed(waits), waits, whole]) == [
        *PROMPT,
        done("Wait."),
        called(),
        answered("high"),
    ]
    assert solid([ASKED, *streamed(waits), whole]) == [*PROMPT, done("Wait."), called(), answered("high")]


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("vercel_uimessage_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_real_streams_are_told_whole(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        chunks = json.loads(line)
        told: dict[str, str] = {}
        for each in chunks:
            name = _PIECES.get(each["type"])
            if name is not None:
                told[name] = told.get(name, "") + each.get("delta", each.get("inputTextDelta"))
        assert texts(follow([chunks])) == told


_PIECES = {
    "reasoning-delta": "thinking_chunk",
    "text-delta": "assistant_chunk",
    "tool-input-delta": "tool_input_chunk",
}
