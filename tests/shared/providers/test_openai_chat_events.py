"""Events of OpenAI Chat Completions: streams, complete responses and requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.logs import follow, short_events, texts
from tests.shared.records.openai_chat import chunk_without_choices, delta_chunk
from tests.shared.sample_files import CORPUS

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]

START, USER_START = ("turn_start", {"trigger": "system"}), ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
ABORTED: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
PROMPT = {
    "role": "user",
    "content": [{"type": "text", "text": "Tides?"}, {"type": "image_url", "image_url": "x"}],
}
DONE = "[DONE]"
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
TOTALS = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}


def calls_delta(*deltas: Record) -> Record:
    return {"tool_calls": list(deltas)}


def call(index: int | None, arguments: Any, id: str | None = None, name: str | None = None) -> Record:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    fields = {"index": index, "id": id, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def chunk(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_chunk", {"text": text, **more}, "c1")


def done(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_done", {"text": text, **more}, "c1")


def input_chunk(id: str, text: str, offset: int = 0, name: str = "tide") -> ShortEvent:
    return ("tool_input_chunk", {"toolCallId": id, "toolName": name, "chunk": text, "offset": offset}, "c1")


def tool_call(id: str, args: Any, name: str = "tide", **more: Any) -> ShortEvent:
    return ("tool_call", {"toolCallId": id, "toolName": name, "args": args, **more}, "c1")


def turn_end(**more: Any) -> ShortEvent:
    return ("turn_end", {"usage": TOTALS, **more})


STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a text with usage in a separate chunk": (
        [
            delta_chunk({"role": "assistant", "content": ""}),
            delta_chunk({"content": "Hi"}),
            delta_chunk({"content": "gh"}),
            delta_chunk(reason="stop"),
            chunk_without_choices(usage=USAGE),
            DONE,
        ],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="stop"), turn_end()],
    ),
    "usage with the last choice, which also has the last text": (
        [delta_chunk({"content": "Hi"}), delta_chunk({"content": "gh"}, "length", usage=USAGE), DONE],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="length"), turn_end()],
    ),
    "usage so far in every chunk": (
        [
            delta_chunk({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1, "total_tokens": 6}),
            delta_chunk({"content": "gh"}, "stop", usage=USAGE),
        ],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="stop"), turn_end()],
    ),
    "the end repeated": (
        [
            delta_chunk({"content": "Hi"}, "stop"),
            delta_chunk({"content": "", "role": "assistant"}, "stop", usage=USAGE),
            chunk_without_choices(moderation={}),
        ],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), turn_end()],
    ),
    "usage next to a vendor's own id": (
        [delta_chunk({"content": "Hi"}, "stop", x_groq={"id": "q", "usage": USAGE})],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), turn_end()],
    ),
    "a cost": (
        [delta_chunk({"content": "Hi"}, "stop"), chunk_without_choices(usage={**USAGE, "cost": 0.25})],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            ("turn_end", {"usage": {**TOTALS, "vendor": {**USAGE, "cost": 0.25}}, "costUsd": 0.25}),
        ],
    ),
    "no usage": (
        [delta_chunk({"content": "Hi"}, "stop"), DONE],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "a first chunk without id or object": (
        [
            {"choices": [], "id": "", "object": "", "model": "", "prompt_filter_results": []},
            delta_chunk({"content": "Hi"}, "stop"),
        ],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "no id": (
        [
            delta_chunk({"content": "Hi"}, id=None, usage=USAGE),
            delta_chunk(reason="stop", id=None, usage=USAGE),
        ],
        [START, chunk("Hi")[:2], done("Hi", stopReason="stop")[:2], turn_end()],
    ),
    "reasoning under two names": (
        [
            delta_chunk(
                {"reasoning": "Sea", "reasoning_details": [{"type": "reasoning.text", "text": "Sea"}]}
            ),
            delta_chunk({"reasoning_content": "."}),
            delta_chunk({"content": "Hi"}),
            delta_chunk(reason="stop"),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            chunk(".", "thinking"),
            done("Sea.", "thinking"),
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            END,
        ],
    ),
    "reasoning only in details": (
        [
            delta_chunk(
                {"reasoning": None, "reasoning_details": [{"type": "reasoning.summary", "summary": "Sea"}]}
            ),
            delta_chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "QQ"}]}, "stop"),
        ],
        [START, chunk("Sea", "thinking"), done("Sea", "thinking"), END],
    ),
    "redacted reasoning": (
        [
            delta_chunk({"reasoning_details": [{"type": "reasoning.encrypted", "data": "QQ"}]}),
            delta_chunk({"content": "Hi"}, "stop"),
        ],
        [START, done("", "thinking", redacted=True), chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "reasoning that continues after a text began": (
        [
            delta_chunk({"reasoning": "Sea"}),
            delta_chunk({"content": "Hi"}),
            delta_chunk({"reasoning": "Moon"}),
            delta_chunk({"content": "gh"}, "stop"),
        ],
        [
            START,
            chunk("Sea", "thinking"),
            done("Sea", "thinking"),
            chunk("Hi"),
            chunk("Moon", "thinking"),
            done("Moon", "thinking"),
            chunk("gh"),
            done("High", stopReason="stop"),
            END,
        ],
    ),
    "content as a list of parts": (
        [
            delta_chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Se"}]}]}),
            delta_chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}),
            delta_chunk(
                {"content": [{"type": "text", "text": "Hi"}, {"type": "reference", "reference_ids": [1]}]}
            ),
            delta_chunk({"content": "gh"}),
            delta_chunk(
                {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "So."}]}, "!"]},
                "stop",
            ),
        ],
        [
            START,
            chunk("Se", "thinking"),
            chunk("a", "thinking"),
            done("Sea", "thinking"),
            chunk("Hi"),
            done("Hi"),
            chunk("gh"),
            done("gh"),
            chunk("So.", "thinking"),
            done("So.", "thinking"),
            chunk("!"),
            done("!", stopReason="stop"),
            END,
        ],
    ),
    "a refusal": (
        [delta_chunk({"refusal": "I"}), delta_chunk({"refusal": " won't"}), delta_chunk(reason="stop")],
        [
            START,
            chunk("I", variant="refusal"),
            chunk(" won't", variant="refusal"),
            done("I won't", variant="refusal", stopReason="stop"),
            END,
        ],
    ),
    "speech": (
        [
            delta_chunk({"audio": {"id": "a1"}}),
            delta_chunk({"audio": {"data": "QQ=="}}),
            delta_chunk({"audio": {"transcript": "Hi"}}, "stop"),
        ],
        [
            START,
            ("audio_chunk", {"data": "QQ==", "seq": 0}, "c1"),
            chunk("Hi", variant="transcript"),
            ("audio_done", {}, "c1"),
            done("Hi", variant="transcript", stopReason="stop"),
            END,
        ],
    ),
    "sources": (
        [
            delta_chunk({"content": "Hi"}),
            delta_chunk({"annotations": [{"url": "u"}]}),
            delta_chunk({"annotations": [{"url": "w"}]}),
            delta_chunk(reason="stop"),
        ],
        [START, chunk("Hi"), done("Hi", citations=[{"url": "u"}, {"url": "w"}], stopReason="stop"), END],
    ),
    "an image": (
        [
            delta_chunk({"content": "Look"}),
            delta_chunk({"images": [{"type": "image_url", "image_url": "http://x"}]}),
            delta_chunk(reason="stop"),
        ],
        [
            START,
            chunk("Look"),
            done("Look"),
            done(
                "",
                content=[
                    {
                        "type": "image",
                        "source": {"type": "url", "url": "http://x"},
                        "source_type": "image_url",
                    }
                ],
            ),
            END,
        ],
    ),
    "parallel calls, continued without id or with an empty name": (
        [
            delta_chunk({"content": "Wait."}),
            delta_chunk(calls_delta(call(0, "", "k0", "tide"), call(1, "", "k1", "wind"))),
            delta_chunk(calls_delta(call(1, '{"b":'), call(0, '{"a":', None, ""))),
            delta_chunk(calls_delta(call(0, "1}"), call(1, "2}"))),
            delta_chunk(reason="tool_calls"),
            chunk_without_choices(usage=USAGE),
            DONE,
        ],
        [
            START,
            chunk("Wait."),
            input_chunk("k1", '{"b":', name="wind"),
            input_chunk("k0", '{"a":'),
            input_chunk("k0", "1}", 5),
            input_chunk("k1", "2}", 5, "wind"),
            done("Wait.", stopReason="tool_calls"),
            tool_call("k0", {"a": 1}),
            tool_call("k1", {"b": 2}, "wind"),
            turn_end(partial=True),
        ],
    ),
    "complete calls in one chunk, without indexes": (
        [
            delta_chunk(calls_delta(call(None, "{}", "k0", "tide"), call(None, "{}", "k1", "tide"))),
            delta_chunk(reason="stop"),
        ],
        [
            START,
            input_chunk("k0", "{}"),
            input_chunk("k1", "{}"),
            tool_call("k0", {}),
            tool_call("k1", {}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "calls without index or id": (
        [
            delta_chunk(calls_delta(call(None, "{}", "", "tide"), call(None, "{}", "", "tide"))),
            delta_chunk(reason="tool_calls"),
        ],
        [
            START,
            input_chunk("1/1", "{}"),
            tool_call("1/1", {}),
            input_chunk("1/4", "{}"),
            tool_call("1/4", {}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "all calls with the same index": (
        [
            delta_chunk(calls_delta(call(0, "{}", "k0", "tide"))),
            delta_chunk(calls_delta(call(0, '{"a":1}', "k1", "tide"))),
            delta_chunk(reason="tool_calls"),
        ],
        [
            START,
            input_chunk("k0", "{}"),
            tool_call("k0", {}),
            input_chunk("k1", '{"a":1}'),
            tool_call("k1", {"a": 1}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "arguments that are invalid JSON, absent, or an object": (
        [
            delta_chunk(
                calls_delta(
                    call(0, "high?", "k0", "tide"), call(1, "", "k1", "tide"), call(2, {"a": 1}, "k2", "tide")
                )
            ),
            delta_chunk(reason="tool_calls"),
        ],
        [
            START,
            input_chunk("k0", "high?"),
            tool_call("k0", "high?"),
            tool_call("k1", ""),
            tool_call("k2", {"a": 1}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "the legacy function call, and its result": (
        [
            delta_chunk({"function_call": {"name": "tide", "arguments": ""}}),
            delta_chunk({"function_call": {"arguments": "{}"}}),
            delta_chunk(reason="function_call"),
            {"role": "function", "name": "tide", "content": "high"},
        ],
        [
            START,
            input_chunk("1/1", "{}"),
            tool_call("1/1", {}),
            ("tool_result", {"toolCallId": "1/1", "result": "high"}),
            END,
        ],
    ),
    "a content filter": (
        [delta_chunk({"content": "Hi"}), delta_chunk(reason="content_filter")],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="content_filter"),
            ("error", {"code": "content_filter", "message": "content_filter"}),
            END,
        ],
    ),
    "an error in a chunk after the end": (
        [
            delta_chunk({"content": "Hi"}),
            delta_chunk(reason="length"),
            delta_chunk({"content": ""}, error={"code": 400, "message": "Full"}, usage=USAGE),
        ],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="length"),
            ("error", {"code": "400", "message": "Full", "details": {"code": 400, "message": "Full"}}),
            turn_end(),
        ],
    ),
    "an error during the stream": (
        [delta_chunk({"content": "Hi"}), {"error": {"code": "server_error", "message": "Down"}}],
        [
            START,
            chunk("Hi"),
            (
                "error",
                {
                    "code": "server_error",
                    "message": "Down",
                    "details": {"code": "server_error", "message": "Down"},
                },
            ),
            done("Hi", partial=True),
            *ABORTED,
        ],
    ),
    "a cut stream": (
        [delta_chunk({"content": "Hi"})],
        [START, chunk("Hi"), done("Hi", partial=True), *ABORTED],
    ),
    "a cut call": (
        [delta_chunk(calls_delta(call(0, '{"a":', "k0", "tide")))],
        [START, input_chunk("k0", '{"a":'), tool_call("k0", '{"a":', partial=True), *ABORTED],
    ),
    "a cut and repeated stream": (
        [
            delta_chunk({"role": "assistant", "content": "H"}, id="c0"),
            delta_chunk({"role": "assistant", "content": "Hi"}),
            delta_chunk(reason="stop"),
        ],
        [
            START,
            (*chunk("H")[:2], "c0"),
            (*done("H", partial=True)[:2], "c0"),
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            END,
        ],
    ),
    "interleaved choices": (
        [
            delta_chunk({"content": "Hi"}),
            delta_chunk({"content": "Lo"}, index=1),
            delta_chunk(reason="stop"),
            delta_chunk({"content": "w"}, index=1),
            delta_chunk(reason="stop", index=1),
            chunk_without_choices(usage=USAGE),
        ],
        [
            START,
            chunk("Hi"),
            chunk("Lo", choiceIndex=1),
            done("Hi", stopReason="stop"),
            chunk("w", choiceIndex=1),
            done("Low", choiceIndex=1, stopReason="stop"),
            turn_end(),
        ],
    ),
    "consecutive choices": (
        [
            delta_chunk({"content": "Hi"}),
            delta_chunk(reason="stop"),
            delta_chunk({"content": "Low"}, "stop", index=1),
            chunk_without_choices(usage=USAGE),
            DONE,
        ],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            chunk("Low", choiceIndex=1),
            done("Low", choiceIndex=1, stopReason="stop"),
            turn_end(),
        ],
    ),
    "an agent run": (
        [
            {"role": "user", "content": "Tides?"},
            delta_chunk(calls_delta(call(0, "{}", "k0", "tide"))),
            delta_chunk(reason="tool_calls"),
            chunk_without_choices(usage=USAGE),
            DONE,
            {"role": "tool", "tool_call_id": "k0", "content": "high"},
            delta_chunk({"content": "High"}, id="c2"),
            delta_chunk(reason="stop", id="c2"),
            {**chunk_without_choices(usage=USAGE), "id": "c2"},
            DONE,
            {"role": "user", "content": "Thanks"},
            delta_chunk({"content": "!"}, "stop", id="c3"),
            DONE,
        ],
        [
            USER_START,
            ("user_message", {"text": "Tides?"}),
            input_chunk("k0", "{}"),
            tool_call("k0", {}),
            ("tool_result", {"toolCallId": "k0", "result": "high"}),
            (*chunk("High")[:2], "c2"),
            (*done("High", stopReason="stop")[:2], "c2"),
            ("turn_end", {"usage": {"input_tokens": 10, "output_tokens": 6, "total_tokens": 16}}),
            USER_START,
            ("user_message", {"text": "Thanks"}),
            (*chunk("!")[:2], "c3"),
            (*done("!", stopReason="stop")[:2], "c3"),
            END,
        ],
    ),
    "a cut stream, and the next prompt": (
        [
            delta_chunk({"content": "Hi"}),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Go on"},
                    {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                ],
            },
        ],
        [
            START,
            chunk("Hi"),
            done("Hi", partial=True),
            *ABORTED,
            USER_START,
            ("user_message", {"text": "Go on"}),
            (
                "user_audio",
                {
                    "transcription": "",
                    "content": [
                        {
                            "type": "file",
                            "source": {"type": "base64", "data": "QQ=="},
                            "mediaClass": "audio",
                            "source_type": "input_audio",
                            "extra": {"format": "wav"},
                        },
                    ],
                },
            ),
            END,
        ],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_stream_events(records: list[Any], events: list[ShortEvent]) -> None:
    assert short_events(follow(records, "openai_chat", ends=True)) == events


@pytest.mark.parametrize(
    ("texts", "events"),
    [
        (["High"], [done("High", stopReason="stop")]),
        (["Hi", "gh"], [chunk("Hi"), chunk("gh"), done("High", stopReason="stop")]),
        (["Hi", "gh", ""], [chunk("Hi"), chunk("gh"), done("High", stopReason="stop")]),
    ],
)
def test_legacy_text_completions(texts: list[str], events: list[ShortEvent]) -> None:
    chunks = [
        {
            "id": "c1",
            "object": "text_completion",
            "choices": [{"text": text, "index": 0, "finish_reason": reason}],
        }
        for text, reason in zip(texts, [*[None] * (len(texts) - 1), "stop"], strict=True)
    ]
    assert short_events(follow([*chunks, DONE])) == [START, *events, END]


def test_empty_response_has_usage() -> None:
    request = {"role": "tool", "tool_call_id": "k", "content": "high"}
    events = short_events(follow([request, delta_chunk(reason="stop"), chunk_without_choices(usage=USAGE)]))
    assert events[-1] == turn_end()


# A complete response gives the same events as its stream.

MESSAGES: dict[str, tuple[Record, str]] = {
    "a text": ({"content": "High"}, "stop"),
    "a text with citations": ({"content": "High", "annotations": [{"url": "u"}]}, "stop"),
    "reasoning and a text": ({"reasoning_content": "Sea", "content": "High"}, "length"),
    "redacted reasoning": ({"reasoning_details": [{"data": "QQ"}], "content": "High"}, "stop"),
    "a refusal": ({"content": None, "refusal": "No"}, "stop"),
    "a text and calls": (
        {"content": "Wait.", "tool_calls": [call(None, "{}", "k0", "tide"), call(None, "", "k1", "wind")]},
        "tool_calls",
    ),
    "calls with another finish reason": ({"tool_calls": [call(None, "{}", "k0", "tide")]}, "stop"),
    "the legacy function call": ({"function_call": {"name": "tide", "arguments": "{}"}}, "function_call"),
    "a content filter": ({"content": "Hi"}, "content_filter"),
    "nothing": ({"content": ""}, "stop"),
}


def completion(*choices: tuple[Record, str | None], **more: Any) -> Record:
    choice_list = [
        {"index": index, "message": {"role": "assistant", **message}, "finish_reason": reason}
        for index, (message, reason) in enumerate(choices)
    ]
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": choice_list, **more}


def streamed(body: Record) -> list[Record]:
    """Return the response as chunks: each text in two, each call started before its arguments."""
    chunks = [
        {**body, "object": "chat.completion.chunk", "usage": None, "choices": [choice]}
        for each in body["choices"]
        for choice in _choices(each)
    ]
    return [*chunks, {**body, "object": "chat.completion.chunk", "choices": []}]


def _choices(choice: Record) -> list[Record]:
    message = choice["message"]
    if any(message.get(name) for name in ("reasoning", "reasoning_content")):
        message = {key: value for key, value in message.items() if key != "reasoning_details"}
    deltas = [delta for key in _ORDER if message.get(key) for delta in _deltas(key, message[key])]
    shared = {"index": choice.get("index", 0)}
    end = {**shared, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
    return [*({**shared, "delta": delta, "finish_reason": None} for delta in deltas), end]


_ORDER = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "content",
    "annotations",
    "images",
    "refusal",
    "tool_calls",
    "function_call",
)


def _deltas(key: str, value: Any) -> list[Record]:
    if isinstance(value, str):
        return [{key: value[:3]}, {key: value[3:]}]
    if key == "tool_calls":
        return [delta for index, call in enumerate(value) for delta in _call_deltas(index, call)]
    return [{key: value}]


def _call_deltas(index: int, call: Record) -> list[Record]:
    arguments = call["function"]["arguments"]
    start = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
    return [calls_delta(start), calls_delta({"index": index, "function": {"arguments": arguments}})]


def assert_same_events(body: Record) -> None:
    """Compare the events of a response, turns included, with its stream's events."""
    complete, stream = (
        [event for event in follow(records, "openai_chat", ends=True) if not event["type"].endswith("_chunk")]
        for records in ([body], streamed(body))
    )
    assert [without_generated_ids(event) for event in complete] == [
        without_generated_ids(event) for event in stream
    ]


def without_generated_ids(event: Record) -> Any:
    """Return an event without generated call ids."""
    payload = event["payload"]
    if "/" in str(payload.get("toolCallId")):
        payload = {**payload, "toolCallId": "?"}
    return event["type"], payload, event.get("responseId")


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_complete_response_matches_its_stream(message: tuple[Record, str]) -> None:
    assert_same_events(completion(message, usage=USAGE))
    assert_same_events(completion(message, MESSAGES["a text"], usage={**USAGE, "cost": 0.5}))


def test_complete_response_events() -> None:
    body = completion(MESSAGES["a text and calls"], usage=USAGE)
    result = {"role": "tool", "tool_call_id": "k0", "content": "high"}
    assert short_events(follow([body, result, completion(MESSAGES["a text"])], ends=True)) == [
        START,
        done("Wait.", stopReason="tool_calls"),
        tool_call("k0", {}),
        tool_call("k1", "", "wind"),
        ("tool_result", {"toolCallId": "k0", "result": "high"}),
        done("High", stopReason="stop"),
        turn_end(),
    ]


def bodies() -> list[Any]:
    return [
        pytest.param(body, id=f"{path.stem}:{number}")
        for path in sorted(CORPUS.glob("openai_chat_response/*.jsonl"))
        for number, body in enumerate(_lines(path), start=1)
        if is_streamable(body)
    ]


def _lines(path: Path) -> list[Any]:
    records = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def is_streamable(body: Any) -> bool:
    """Return True for a completion with an id and with messages that a stream can represent."""
    if not isinstance(body, dict) or not body.get("id") or "choices" not in body or "error" in body:
        return False
    return all(
        "message" in choice and not isinstance(choice["message"].get("content"), list)
        for choice in body["choices"]
    )


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is missing")
@pytest.mark.parametrize("body", bodies())
def test_captured_responses_match_their_streams(body: Record) -> None:
    assert_same_events(body)


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("openai_chat_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_emits_all_text_of_captured_streams(path: Path) -> None:
    records = _lines(path)
    events = follow(records, "openai_chat")
    deltas = [choice.get("delta") or {} for record in records for choice in record.get("choices") or []]
    expected = {
        "assistant_chunk": "".join(delta.get("content") or "" for delta in deltas),
        "thinking_chunk": "".join(
            delta.get("reasoning_content") or delta.get("reasoning") or "" for delta in deltas
        ),
        "tool_input_chunk": "".join(
            call["function"].get("arguments") or ""
            for delta in deltas
            for call in delta.get("tool_calls") or []
        ),
    }
    assert texts(events) == {name: text for name, text in expected.items() if text}
    complete_texts = {
        name: "".join(event["payload"]["text"] for event in events if event["type"] == f"{name}_done")
        for name in ("assistant", "thinking")
    }
    assert complete_texts == {name: expected[f"{name}_chunk"] for name in complete_texts}
    is_calling = bool(expected["tool_input_chunk"])
    assert [event["type"] for event in events].count("turn_end") == (0 if is_calling else 1)


def test_request_emits_only_new_messages() -> None:
    """In an agent loop each request repeats the whole conversation."""

    call = {"id": "t1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    first_request = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "High tide?"}]
    second_request = [
        *first_request,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "06:12"},
    ]
    third_request = [
        *second_request,
        {"role": "assistant", "content": "At 06:12."},
        {"role": "user", "content": "High tide?"},
    ]
    events = follow(
        [
            {"model": "m", "messages": first_request},
            delta_chunk({"role": "assistant", "tool_calls": [{"index": 0, **call}]}, "tool_calls", "r1"),
            {"model": "m", "messages": second_request},
            delta_chunk({"role": "assistant", "content": "At 06:12."}, "stop", "r2"),
            {"model": "m", "messages": third_request},
        ],
        ends=True,
    )

    assert [event["type"] for event in events if not event["type"].endswith("chunk")] == [
        "system_message",
        "turn_start",
        "user_message",
        "tool_call",
        "tool_result",
        "assistant_done",
        "turn_end",
        "turn_start",
        "user_message",
        "turn_end",
    ]
