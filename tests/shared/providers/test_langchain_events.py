"""Events of LangChain messages: model chunks, complete messages, and graph states that repeat them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.logs import follow, short_events
from tests.shared.sample_files import CORPUS
from tests.shared.short_events import chunk, done, input_chunk, tool_call

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]

USER_START: ShortEvent = ("turn_start", {"trigger": "user"})
START: ShortEvent = ("turn_start", {"trigger": "system"})
END: ShortEvent = ("turn_end", {})
ABORTED: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
TOTALS = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
USAGE = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}


def message(name: str, content: Any = "", id: str | None = "m1", **more: Any) -> Record:
    kwargs = {"content": content, "id": id, "additional_kwargs": {}, "response_metadata": {}, **more}
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name], "kwargs": kwargs}


def chunk_record(content: Any = "", id: str | None = "m1", **more: Any) -> list[Any]:
    return ["messages", [message("AIMessageChunk", content, id, **more), {"langgraph_step": 1}]]


def call(args: str, index: int | None = 0, id: str | None = None, name: str | None = None) -> Record:
    return {"type": "tool_call_chunk", "args": args, "index": index, "id": id, "name": name}


def last(**more: Any) -> list[Any]:
    return chunk_record([], response_metadata={"finish_reason": "stop"}, **more)


def state(*messages: Record) -> list[Any]:
    return ["values", {"messages": list(messages)}]


PROMPT_MESSAGE = message("HumanMessage", "Tides?", "u1")
TEXT_CHUNK = message("AIMessageChunk", "High")
RESULT = message("ToolMessage", "high", "t1", tool_call_id="k0", status="success")
CALL_MESSAGE = message(
    "AIMessage", "", tool_calls=[{"type": "tool_call", "id": "k0", "name": "tide", "args": {"a": 1}}]
)
PROMPT: list[ShortEvent] = [USER_START, ("user_message", {"text": "Tides?"})]


INPUT_CHUNK = input_chunk('{"a":1}')
RESULT_EVENT: ShortEvent = ("tool_result", {"toolCallId": "k0", "result": "high"})

STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "chunks with an end, and a state that repeats them": (
        [
            state(PROMPT_MESSAGE),
            chunk_record("Hi"),
            chunk_record("gh"),
            last(),
            chunk_record(usage_metadata=USAGE),
            state(PROMPT_MESSAGE, TEXT_CHUNK),
            state(PROMPT_MESSAGE, TEXT_CHUNK),
        ],
        [
            *PROMPT,
            chunk("Hi"),
            chunk("gh"),
            done("High"),
            ("turn_end", {"usage": {**TOTALS, "vendor": USAGE}}),
        ],
    ),
    "chunks without an end, and a state that repeats them": (
        [state(PROMPT_MESSAGE), chunk_record("Hi"), chunk_record("gh"), state(PROMPT_MESSAGE, TEXT_CHUNK)],
        [*PROMPT, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "chunks alone": (
        [chunk_record("Hi"), chunk_record("gh", chunk_position="last")],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "chunks as bare messages": (
        [chunk_record("Hi")[1][0], last()[1][0]],
        [START, chunk("Hi"), done("Hi"), END],
    ),
    "reasoning outside the content": (
        [chunk_record(additional_kwargs={"reasoning_content": "Sea"}), chunk_record("Hi"), last()],
        [START, chunk("Sea", "thinking"), done("Sea", "thinking"), chunk("Hi"), done("Hi"), END],
    ),
    "summaries of reasoning": (
        [
            chunk_record([], additional_kwargs={"reasoning": {"summary": [{"index": 0, "text": "Sea"}]}}),
            chunk_record([], additional_kwargs={"reasoning": {"summary": [{"index": 0, "text": "."}]}}),
            chunk_record([], additional_kwargs={"reasoning": {"summary": [{"index": 1, "text": "Moon"}]}}),
            chunk_record([{"type": "text", "index": 0, "text": "Hi"}]),
            chunk_record([{"type": "text", "index": 1, "text": "gh"}]),
            last(),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            chunk(".", "thinking"),
            chunk("Moon", "thinking"),
            done("Sea.", "thinking"),
            done("Moon", "thinking"),
            chunk("Hi"),
            chunk("gh"),
            done("Hi"),
            done("gh"),
            END,
        ],
    ),
    "reasoning in the content, with its signature": (
        [
            chunk_record([{"type": "thinking", "index": 0, "thinking": "Sea"}]),
            chunk_record([{"type": "thinking", "index": 0, "thinking": "", "signature": "s"}]),
            chunk_record([{"type": "text", "index": 1, "text": "Hi"}]),
            last(),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            done("Sea", "thinking", signature="s"),
            chunk("Hi"),
            done("Hi"),
            END,
        ],
    ),
    "an agent run": (
        [
            state(PROMPT_MESSAGE),
            chunk_record([], tool_call_chunks=[call('{"a":', id="k0", name="tide")]),
            chunk_record([{"type": "tool_use", "index": 0, "input": "1}"}], tool_call_chunks=[call("1}")]),
            last(),
            state(PROMPT_MESSAGE, CALL_MESSAGE),
            ["messages", [RESULT, {}]],
            state(PROMPT_MESSAGE, CALL_MESSAGE, RESULT),
            chunk_record("High", "m2", chunk_position="last"),
            state(PROMPT_MESSAGE, CALL_MESSAGE, RESULT, message("AIMessage", "High", "m2")),
        ],
        [
            *PROMPT,
            input_chunk('{"a":'),
            input_chunk("1}", 5),
            tool_call(),
            RESULT_EVENT,
            (*chunk("High")[:2], "m2"),
            (*done("High")[:2], "m2"),
            END,
        ],
    ),
    "calls without an end": (
        [chunk_record(tool_call_chunks=[call('{"a":1}', id="k0", name="tide")]), ["messages", [RESULT, {}]]],
        [START, input_chunk('{"a":1}'), tool_call(), RESULT_EVENT, END],
    ),
    "calls without indexes, and without arguments": (
        [
            chunk_record(
                tool_call_chunks=[call("", None, "k0", "tide"), call('{"a":1}', None, "k1", "tide")]
            ),
            last(),
        ],
        [
            START,
            input_chunk('{"a":1}', id="k1"),
            ("tool_call", {"toolCallId": "k0", "toolName": "tide", "args": {}}, "m1"),
            tool_call("k1"),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a call run by the vendor": (
        [
            chunk_record(
                [
                    {
                        "type": "server_tool_call_chunk",
                        "index": 0,
                        "id": "k0",
                        "name": "tide",
                        "args": '{"a":1}',
                    }
                ]
            ),
            chunk_record(
                [{"type": "server_tool_result", "tool_call_id": "k0", "output": 1, "status": "success"}]
            ),
            last(),
        ],
        [
            START,
            (*INPUT_CHUNK[:1], {**INPUT_CHUNK[1], "executor": "server"}, "m1"),
            tool_call(executor="server"),
            ("tool_result", {"toolCallId": "k0", "result": None, "structured": 1}),
            END,
        ],
    ),
    "the next prompt": (
        [
            state(PROMPT_MESSAGE),
            chunk_record("High"),
            last(),
            state(PROMPT_MESSAGE, TEXT_CHUNK, message("HumanMessage", "Thanks", "u2")),
        ],
        [*PROMPT, chunk("High"), done("High"), END, USER_START, ("user_message", {"text": "Thanks"}), END],
    ),
    "two models, one after the other": (
        [chunk_record("Hi"), chunk_record("Low", "m2"), chunk_record([], "m3")],
        [
            START,
            chunk("Hi"),
            done("Hi", partial=True),
            (*chunk("Low")[:2], "m2"),
            (*done("Low", partial=True)[:2], "m2"),
            *ABORTED,
        ],
    ),
    "a cut stream": ([chunk_record("Hi")], [START, chunk("Hi"), done("Hi", partial=True), *ABORTED]),
    "other chunks and graph records": (
        [
            ["messages", [message("ToolMessageChunk", "high", "t1", tool_call_id="k0"), {}]],
            ["custom", {"x": 1}],
            ["messages", [{"x": 1}, {}]],
            ["values", {"__interrupt__": []}],
        ],
        [START, (RESULT_EVENT[0], {**RESULT_EVENT[1], "orphan": True}), END],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_stream_events(records: list[Any], events: list[ShortEvent]) -> None:
    assert short_events(follow(records, "langchain", ends=True)) == events


COMPLETE_TYPES = {"assistant_done", "thinking_done", "tool_call", "tool_result", "turn_start", "user_message"}


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is missing")
def test_captured_graph_gives_same_events_with_and_without_chunks() -> None:
    paths = sorted(Path(CORPUS).glob("langchain_messages/*.jsonl"))
    records = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    states = [record for record in records if record[0] == "values"]
    chunks = [states[0], *(record for record in records if record[0] == "messages")]
    from_all, from_states, from_chunks = (
        [event for event in short_events(follow(each, ends=True)) if event[0] in COMPLETE_TYPES]
        for each in (records, states, chunks)
    )
    assert from_all == from_states == from_chunks
    assert [event[0] for event in from_all] == [
        "turn_start",
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]
