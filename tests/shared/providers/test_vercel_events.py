"""Events of Vercel UI messages: chunk streams, and messages that are stored again as they grow."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.logs import follow, short_events, texts
from tests.shared.sample_files import CORPUS
from tests.shared.short_events import chunk, done, input_chunk, tool_call

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]

START: ShortEvent = ("turn_start", {"trigger": "system"})
USER_START: ShortEvent = ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
ABORTED: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
PROMPT_MESSAGE = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Tides?"}]}
PROMPT: list[ShortEvent] = [USER_START, ("user_message", {"text": "Tides?"})]
USAGE = {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}
TOTALS = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}


def chunk_record(type: str, **more: Any) -> Record:
    return {"type": type, **more}


OPEN, STEP, STEP_END, CLOSE = (
    chunk_record("start", messageId="m1"),
    chunk_record("start-step"),
    chunk_record("finish-step"),
    chunk_record("finish"),
)


def text_chunks(*pieces: str, id: str = "0", kind: str = "text", **more: Any) -> list[Record]:
    deltas = [chunk_record(f"{kind}-delta", id=id, delta=piece) for piece in pieces]
    return [chunk_record(f"{kind}-start", id=id), *deltas, chunk_record(f"{kind}-end", id=id, **more)]


def call_chunk(id: str = "k0", **more: Any) -> Record:
    return chunk_record("tool-input-available", toolCallId=id, toolName="tide", input={"a": 1}, **more)


def output_chunk(output: Any, id: str = "k0", **more: Any) -> Record:
    return chunk_record("tool-output-available", toolCallId=id, output=output, **more)


def tool_result(result: Any, id: str = "k0", **more: Any) -> ShortEvent:
    return ("tool_result", {"toolCallId": id, "result": result, **more})


def failed_result(words: str) -> ShortEvent:
    return tool_result(words, error={"code": "error", "message": words})


STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a text": (
        [OPEN, STEP, *text_chunks("Hi", "gh"), STEP_END, CLOSE],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "a complete text in one line": (
        [[OPEN, STEP, *text_chunks("Hi", "gh"), STEP_END, CLOSE]],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "reasoning, and usage so far in the metadata": (
        [
            OPEN,
            *text_chunks("Sea", kind="reasoning", providerMetadata={"v": {"signature": "s"}}),
            chunk_record(
                "message-metadata", messageMetadata={"usage": {"inputTokens": 1, "outputTokens": 1}}
            ),
            *text_chunks("Hi"),
            chunk_record("finish", finishReason="stop", messageMetadata={"usage": USAGE}),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            done("Sea", "thinking", signature="s"),
            chunk("Hi"),
            done("Hi"),
            ("turn_end", {"usage": TOTALS}),
        ],
    ),
    "a tool run by the server, and a second text with the same id": (
        [
            OPEN,
            STEP,
            *text_chunks("Wait."),
            chunk_record("tool-input-start", toolCallId="k0", toolName="tide"),
            chunk_record("tool-input-delta", toolCallId="k0", inputTextDelta='{"a":'),
            chunk_record("tool-input-delta", toolCallId="k0", inputTextDelta="1}"),
            call_chunk(),
            output_chunk("no", preliminary=True),
            output_chunk("high"),
            STEP_END,
            STEP,
            *text_chunks("High"),
            STEP_END,
            CLOSE,
        ],
        [
            START,
            chunk("Wait."),
            done("Wait."),
            input_chunk('{"a":'),
            input_chunk("1}", 5),
            tool_call(),
            tool_result("high"),
            chunk("High"),
            done("High"),
            END,
        ],
    ),
    "a tool run by the vendor": (
        [
            OPEN,
            chunk_record("tool-input-start", toolCallId="k0", toolName="tide", providerExecuted=True),
            call_chunk(providerExecuted=True),
            CLOSE,
        ],
        [START, tool_call(executor="server"), END],
    ),
    "a tool run by the client, continued in another stream": (
        [
            PROMPT_MESSAGE,
            OPEN,
            call_chunk(),
            CLOSE,
            OPEN,
            output_chunk({"tide": "high"}),
            *text_chunks("High"),
            CLOSE,
        ],
        [*PROMPT, tool_call(), tool_result({"tide": "high"}), chunk("High"), done("High"), END],
    ),
    "failing calls": (
        [
            OPEN,
            chunk_record("tool-input-error", toolCallId="k0", toolName="tide", input="high?", errorText="No"),
            chunk_record("tool-output-error", toolCallId="k0", errorText="No"),
            call_chunk("k1"),
            chunk_record("tool-output-denied", toolCallId="k1"),
            CLOSE,
        ],
        [
            START,
            tool_call(args="high?"),
            failed_result("No"),
            tool_call("k1"),
            tool_result(None, "k1", error={"code": "error", "message": ""}),
            END,
        ],
    ),
    "files, sources, data and approvals": (
        [
            OPEN,
            chunk_record("file", url="https://x/a", mediaType="image/png"),
            chunk_record("source-url", sourceId="s", url="https://x"),
            chunk_record("data-x", data=1),
            chunk_record("tool-approval-request", approvalId="a", toolCallId="k"),
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
    "a step that is repeated": (
        [
            OPEN,
            STEP,
            chunk_record("tool-input-start", toolCallId="k0", toolName="tide"),
            chunk_record("tool-input-delta", toolCallId="k0", inputTextDelta='{"a'),
            chunk_record("reset-step"),
            STEP,
            *text_chunks("Hi"),
            CLOSE,
        ],
        [START, input_chunk('{"a'), tool_call(args='{"a', partial=True), chunk("Hi"), done("Hi"), END],
    ),
    "an error": (
        [OPEN, *text_chunks("Hi"), chunk_record("error", errorText="Down")],
        [START, chunk("Hi"), done("Hi"), ("error", {"code": "error", "message": "Down"}), *ABORTED],
    ),
    "an abort by the user": (
        [OPEN, *text_chunks("Hi")[:2], chunk_record("abort")],
        [START, chunk("Hi"), done("Hi", partial=True), ("interrupt", {"reason": "user_cancel"}), ABORTED[1]],
    ),
    "a cut stream": (
        [OPEN, *text_chunks("Hi")[:2]],
        [START, chunk("Hi"), done("Hi", partial=True), *ABORTED],
    ),
    "a stream without an id": (
        [chunk_record("start"), *text_chunks("Hi"), CLOSE],
        [START, chunk("Hi")[:2], done("Hi")[:2], END],
    ),
    "two prompts": (
        [
            PROMPT_MESSAGE,
            OPEN,
            *text_chunks("Hi"),
            CLOSE,
            {**PROMPT_MESSAGE, "id": "u2"},
            chunk_record("start", messageId="m2"),
            *text_chunks("Hi"),
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
def test_stream_events(records: list[Any], events: list[ShortEvent]) -> None:
    assert short_events(follow(records, "vercel", ends=True)) == events


# A complete message gives the same events as its stream, and none after its stream.

TEXT_PART = chunk_record("text", text="Wait.", state="done")
TOOL_PART = chunk_record(
    "tool-tide", toolCallId="k0", state="output-available", input={"a": 1}, output="high"
)
MESSAGES: dict[str, list[Record]] = {
    "texts": [
        chunk_record("step-start"),
        TEXT_PART,
        chunk_record("step-start"),
        chunk_record("text", text="High"),
    ],
    "reasoning": [
        chunk_record("reasoning", text="Sea", providerMetadata={"v": {"signature": "s"}}),
        TEXT_PART,
    ],
    "a tool": [
        chunk_record("step-start"),
        TEXT_PART,
        TOOL_PART,
        chunk_record("step-start"),
        chunk_record("text", text="High"),
    ],
    "a tool run by the vendor": [{**TOOL_PART, "providerExecuted": True}, TEXT_PART],
    "a failing tool": [
        {**TOOL_PART, "state": "output-error", "errorText": "No"},
        chunk_record("step-start"),
        TEXT_PART,
    ],
    "a tool without a result": [TEXT_PART, {**TOOL_PART, "state": "input-available"}],
    "a file": [chunk_record("file", url="https://x/a", mediaType="text/plain"), TEXT_PART],
}


def streamed(message: Record) -> list[Record]:
    chunks = [chunk for number, part in enumerate(message["parts"]) for chunk in _streamed(part, str(number))]
    return [chunk_record("start", messageId=message["id"]), *chunks, STEP_END, CLOSE]


def _streamed(part: Record, id: str) -> list[Record]:
    wire = part["type"]
    if wire in ("text", "reasoning"):
        more = {key: part[key] for key in ("providerMetadata",) if key in part}
        return text_chunks(part["text"][:2], part["text"][2:], id=id, kind=wire, **more)
    if not wire.startswith("tool-"):
        return [STEP if wire == "step-start" else part]
    more = {key: part[key] for key in ("providerExecuted", "output", "errorText", "input") if key in part}
    call = {"toolCallId": part["toolCallId"], "toolName": wire.removeprefix("tool-"), **more}
    call_chunks = [chunk_record("tool-input-start", **call), chunk_record("tool-input-available", **call)]
    return call_chunks + (
        [chunk_record(f"tool-{part['state']}", **call)] if part["state"].startswith("output") else []
    )


def complete_events(records: list[Any]) -> list[ShortEvent]:
    return [event for event in short_events(follow(records, ends=True)) if event[0] not in _IGNORED_TYPES]


_IGNORED_TYPES = {"assistant_chunk", "thinking_chunk", "tool_input_chunk", "turn_end"}


@pytest.mark.parametrize("parts", MESSAGES.values(), ids=MESSAGES)
def test_complete_message_matches_its_stream(parts: list[Record]) -> None:
    message = {"id": "m1", "role": "assistant", "parts": parts}
    complete = complete_events([PROMPT_MESSAGE, message])
    assert complete_events([PROMPT_MESSAGE, *streamed(message)]) == complete
    assert complete_events([PROMPT_MESSAGE, *streamed(message), message, message]) == complete
    assert complete_events([PROMPT_MESSAGE, message, message]) == complete


def test_emits_client_result_of_stored_message() -> None:
    """The result is not streamed; the message is stored again with it."""
    pending = {"id": "m1", "role": "assistant", "parts": MESSAGES["a tool without a result"]}
    finished = {**pending, "parts": [TEXT_PART, TOOL_PART]}
    assert complete_events([PROMPT_MESSAGE, *streamed(pending), pending, finished]) == [
        *PROMPT,
        done("Wait."),
        tool_call(),
        tool_result("high"),
    ]
    assert complete_events([PROMPT_MESSAGE, *streamed(pending), finished]) == [
        *PROMPT,
        done("Wait."),
        tool_call(),
        tool_result("high"),
    ]


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("vercel_uimessage_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_emits_all_text_of_captured_streams(path: Path) -> None:
    for line in path.read_text(encoding="utf-8").splitlines():
        chunks = json.loads(line)
        expected: dict[str, str] = {}
        for each in chunks:
            name = _EVENT_TYPES.get(each["type"])
            if name is not None:
                expected[name] = expected.get(name, "") + each.get("delta", each.get("inputTextDelta"))
        assert texts(follow([chunks])) == expected


_EVENT_TYPES = {
    "reasoning-delta": "thinking_chunk",
    "text-delta": "assistant_chunk",
    "tool-input-delta": "tool_input_chunk",
}


@pytest.mark.parametrize(
    "record",
    [
        {"id": "m1", "role": "assistant", "parts": "none"},
        {"id": "m1", "role": "narrator", "parts": []},
        {"type": "text-delta", "id": "0"},
        {"type": "tide-table", "rows": 3},
    ],
)
def test_malformed_and_unknown_records_are_raw_events(record: Record) -> None:
    assert short_events(follow([record], "vercel")) == [("raw", {"source": "vercel", "raw": record})]
