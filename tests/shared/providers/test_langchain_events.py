"""LangChain's messages in the log: chunks of models, messages, and the states of a graph that repeat them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import follow, short

Record = dict[str, Any]
Told = tuple[Any, ...]

USER_START: Told = ("turn_start", {"trigger": "user"})
START: Told = ("turn_start", {"trigger": "system"})
END: Told = ("turn_end", {})
CUT: list[Told] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
COUNTED = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
USAGE = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}


def message(name: str, content: Any = "", id: str | None = "m1", **more: Any) -> Record:
    kwargs = {"content": content, "id": id, "additional_kwargs": {}, "response_metadata": {}, **more}
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name], "kwargs": kwargs}


def piece(content: Any = "", id: str | None = "m1", **more: Any) -> list[Any]:
    return ["messages", [message("AIMessageChunk", content, id, **more), {"langgraph_step": 1}]]


def call(args: str, index: int | None = 0, id: str | None = None, name: str | None = None) -> Record:
    return {"type": "tool_call_chunk", "args": args, "index": index, "id": id, "name": name}


def last(**more: Any) -> list[Any]:
    return piece([], response_metadata={"finish_reason": "stop"}, **more)


def state(*messages: Record) -> list[Any]:
    return ["values", {"messages": list(messages)}]


ASKED = message("HumanMessage", "Tides?", "u1")
SAID = message("AIMessageChunk", "High")
RESULT = message("ToolMessage", "high", "t1", tool_call_id="k0", status="success")
CALLED = message(
    "AIMessage", "", tool_calls=[{"type": "tool_call", "id": "k0", "name": "tide", "args": {"a": 1}}]
)
PROMPT: list[Told] = [USER_START, ("user_message", {"text": "Tides?"})]


def chunk(text: str, kind: str = "assistant") -> Told:
    return (f"{kind}_chunk", {"text": text}, "m1")


def done(text: str, kind: str = "assistant", **more: Any) -> Told:
    return (f"{kind}_done", {"text": text, **more}, "m1")


def written(text: str, offset: int = 0, id: str = "k0") -> Told:
    payload = {"toolCallId": id, "toolName": "tide", "chunk": text, "offset": offset}
    return ("tool_input_chunk", payload, "m1")


def called(id: str = "k0", args: Any = None, **more: Any) -> Told:
    return ("tool_call", {"toolCallId": id, "toolName": "tide", "args": args or {"a": 1}, **more}, "m1")


WRITTEN = written('{"a":1}')
ANSWERED: Told = ("tool_result", {"toolCallId": "k0", "result": "high"})

STREAMS: dict[str, tuple[list[Any], list[Told]]] = {
    "chunks, their end, and a state that repeats them": (
        [
            state(ASKED),
            piece("Hi"),
            piece("gh"),
            last(),
            piece(usage_metadata=USAGE),
            state(ASKED, SAID),
            state(ASKED, SAID),
        ],
        [
            *PROMPT,
            chunk("Hi"),
            chunk("gh"),
            done("High"),
            ("turn_end", {"usage": {**COUNTED, "vendor": USAGE}}),
        ],
    ),
    "chunks without an end, and a state that repeats them": (
        [state(ASKED), piece("Hi"), piece("gh"), state(ASKED, SAID)],
        [*PROMPT, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "chunks alone": (
        [piece("Hi"), piece("gh", chunk_position="last")],
        [START, chunk("Hi"), chunk("gh"), done("High"), END],
    ),
    "chunks as bare messages": (
        [piece("Hi")[1][0], last()[1][0]],
        [START, chunk("Hi"), done("Hi"), END],
    ),
    "reasoning beside the content": (
        [piece(additional_kwargs={"reasoning_content": "Sea"}), piece("Hi"), last()],
        [START, chunk("Sea", "thinking"), done("Sea", "thinking"), chunk("Hi"), done("Hi"), END],
    ),
    "summaries of reasoning": (
        [
            piece([], additional_kwargs={"reasoning": {"summary": [{"index": 0, "text": "Sea"}]}}),
            piece([], additional_kwargs={"reasoning": {"summary": [{"index": 0, "text": "."}]}}),
            piece([], additional_kwargs={"reasoning": {"summary": [{"index": 1, "text": "Moon"}]}}),
            piece([{"type": "text", "index": 0, "text": "Hi"}]),
            piece([{"type": "text", "index": 1, "text": "gh"}]),
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
    "reasoning in the content, with its proof": (
        [
            piece([{"type": "thinking", "index": 0, "thinking": "Sea"}]),
            piece([{"type": "thinking", "index": 0, "thinking": "", "signature": "s"}]),
            piece([{"type": "text", "index": 1, "text": "Hi"}]),
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
    "an agent at work": (
        [
            state(ASKED),
            piece([], tool_call_chunks=[call('{"a":', id="k0", name="tide")]),
            piece([{"type": "tool_use", "index": 0, "input": "1}"}], tool_call_chunks=[call("1}")]),
            last(),
            state(ASKED, CALLED),
            ["messages", [RESULT, {}]],
            state(ASKED, CALLED, RESULT),
            piece("High", "m2", chunk_position="last"),
            state(ASKED, CALLED, RESULT, message("AIMessage", "High", "m2")),
        ],
        [
            *PROMPT,
            written('{"a":'),
            written("1}", 5),
            called(),
            ANSWERED,
            (*chunk("High")[:2], "m2"),
            (*done("High")[:2], "m2"),
            END,
        ],
    ),
    "calls whose end is not told": (
        [piece(tool_call_chunks=[call('{"a":1}', id="k0", name="tide")]), ["messages", [RESULT, {}]]],
        [START, written('{"a":1}'), called(), ANSWERED, END],
    ),
    "calls without indices, and without arguments": (
        [piece(tool_call_chunks=[call("", None, "k0", "tide"), call('{"a":1}', None, "k1", "tide")]), last()],
        [
            START,
            written('{"a":1}', id="k1"),
            ("tool_call", {"toolCallId": "k0", "toolName": "tide", "args": {}}, "m1"),
            called("k1"),
            ("turn_end", {"partial": True}),
        ],
    ),
    "a call that the vendor runs": (
        [
            piece(
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
            piece([{"type": "server_tool_result", "tool_call_id": "k0", "output": 1, "status": "success"}]),
            last(),
        ],
        [
            START,
            (*WRITTEN[:1], {**WRITTEN[1], "executor": "server"}, "m1"),
            called(executor="server"),
            ("tool_result", {"toolCallId": "k0", "result": None, "structured": 1}),
            END,
        ],
    ),
    "the next prompt": (
        [state(ASKED), piece("High"), last(), state(ASKED, SAID, message("HumanMessage", "Thanks", "u2"))],
        [*PROMPT, chunk("High"), done("High"), END, USER_START, ("user_message", {"text": "Thanks"}), END],
    ),
    "two models, one after the other": (
        [piece("Hi"), piece("Low", "m2"), piece([], "m3")],
        [
            START,
            chunk("Hi"),
            done("Hi", partial=True),
            (*chunk("Low")[:2], "m2"),
            (*done("Low", partial=True)[:2], "m2"),
            *CUT,
        ],
    ),
    "a stream that is cut": ([piece("Hi")], [START, chunk("Hi"), done("Hi", partial=True), *CUT]),
    "chunks of others, and records of the graph": (
        [
            ["messages", [message("ToolMessageChunk", "high", "t1", tool_call_id="k0"), {}]],
            ["custom", {"x": 1}],
            ["messages", [{"x": 1}, {}]],
            ["values", {"__interrupt__": []}],
        ],
        [START, (ANSWERED[0], {**ANSWERED[1], "orphan": True}), END],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_a_stream(records: list[Any], events: list[Told]) -> None:
    assert short(follow(records, "langchain", is_whole=True)) == events


SOLID = {"assistant_done", "thinking_done", "tool_call", "tool_result", "turn_start", "user_message"}


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
def test_a_real_graph_says_the_same_with_and_without_chunks() -> None:
    paths = sorted(Path(CORPUS).glob("langchain_messages/*.jsonl"))
    records = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    states = [record for record in records if record[0] == "values"]
    chunks = [states[0], *(record for record in records if record[0] == "messages")]
    with_all, at_rest, in_pieces = (
        [event for event in short(follow(each, is_whole=True)) if event[0] in SOLID]
        for each in (records, states, chunks)
    )
    assert with_all == at_rest == in_pieces
    assert [event[0] for event in with_all] == [
        "turn_start",
        "user_message",
        "thinking_done",
        "tool_call",
        "tool_result",
        "assistant_done",
    ]
