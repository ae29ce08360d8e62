"""OpenAI Chat Completions in the log: streams, answers at rest, and what a caller says between them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import follow, short_events, texts

Record = dict[str, Any]
ShortEvent = tuple[Any, ...]

START, USER_START = ("turn_start", {"trigger": "system"}), ("turn_start", {"trigger": "user"})
END: ShortEvent = ("turn_end", {})
CUT: list[ShortEvent] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
ASKED = {
    "role": "user",
    "content": [{"type": "text", "text": "Tides?"}, {"type": "image_url", "image_url": "x"}],
}
DONE = "[DONE]"
USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
COUNTED = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8, "vendor": USAGE}


def piece(delta: Any = None, reason: str | None = None, *, id: str | None = "c1", **more: Any) -> Record:
    """A chunk of one choice, the first where `index` names no other."""
    choice = {"index": more.pop("index", 0), "delta": delta or {}, "finish_reason": reason}
    return {"id": id, "object": "chat.completion.chunk", "model": "m", "choices": [choice]} | more


def beside(**more: Any) -> Record:
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [], **more}


def calls(*pieces: Record) -> Record:
    return {"tool_calls": list(pieces)}


def call(index: int | None, arguments: Any, id: str | None = None, name: str | None = None) -> Record:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    told = {"index": index, "id": id, "function": function}
    return {key: value for key, value in told.items() if value is not None}


def chunk(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_chunk", {"text": text, **more}, "c1")


def done(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_done", {"text": text, **more}, "c1")


def written(id: str, text: str, offset: int = 0, name: str = "tide") -> ShortEvent:
    return ("tool_input_chunk", {"toolCallId": id, "toolName": name, "chunk": text, "offset": offset}, "c1")


def called(id: str, args: Any, name: str = "tide", **more: Any) -> ShortEvent:
    return ("tool_call", {"toolCallId": id, "toolName": name, "args": args, **more}, "c1")


def ended(**more: Any) -> ShortEvent:
    return ("turn_end", {"usage": COUNTED, **more})


STREAMS: dict[str, tuple[list[Any], list[ShortEvent]]] = {
    "a text, its usage in a chunk of its own": (
        [
            piece({"role": "assistant", "content": ""}),
            piece({"content": "Hi"}),
            piece({"content": "gh"}),
            piece(reason="stop"),
            beside(usage=USAGE),
            DONE,
        ],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="stop"), ended()],
    ),
    "its usage with the last choice, which also holds the last text": (
        [piece({"content": "Hi"}), piece({"content": "gh"}, "length", usage=USAGE), DONE],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="length"), ended()],
    ),
    "usage so far with each piece": (
        [
            piece({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1, "total_tokens": 6}),
            piece({"content": "gh"}, "stop", usage=USAGE),
        ],
        [START, chunk("Hi"), chunk("gh"), done("High", stopReason="stop"), ended()],
    ),
    "the end told twice": (
        [
            piece({"content": "Hi"}, "stop"),
            piece({"content": "", "role": "assistant"}, "stop", usage=USAGE),
            beside(moderation={}),
        ],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), ended()],
    ),
    "usage beside a vendor's own id": (
        [piece({"content": "Hi"}, "stop", x_groq={"id": "q", "usage": USAGE})],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), ended()],
    ),
    "a price": (
        [piece({"content": "Hi"}, "stop"), beside(usage={**USAGE, "cost": 0.25})],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            ("turn_end", {"usage": {**COUNTED, "vendor": {**USAGE, "cost": 0.25}}, "costUsd": 0.25}),
        ],
    ),
    "no usage": (
        [piece({"content": "Hi"}, "stop"), DONE],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "a first chunk without id or object": (
        [
            {"choices": [], "id": "", "object": "", "model": "", "prompt_filter_results": []},
            piece({"content": "Hi"}, "stop"),
        ],
        [START, chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "no id at all": (
        [piece({"content": "Hi"}, id=None, usage=USAGE), piece(reason="stop", id=None, usage=USAGE)],
        [START, chunk("Hi")[:2], done("Hi", stopReason="stop")[:2], ended()],
    ),
    "reasoning under two names": (
        [
            piece({"reasoning": "Sea", "reasoning_details": [{"type": "reasoning.text", "text": "Sea"}]}),
            piece({"reasoning_content": "."}),
            piece({"content": "Hi"}),
            piece(reason="stop"),
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
    "reasoning in details alone": (
        [
            piece(
                {"reasoning": None, "reasoning_details": [{"type": "reasoning.summary", "summary": "Sea"}]}
            ),
            piece({"reasoning_details": [{"type": "reasoning.encrypted", "data": "QQ"}]}, "stop"),
        ],
        [START, chunk("Sea", "thinking"), done("Sea", "thinking"), END],
    ),
    "reasoning that is withheld": (
        [
            piece({"reasoning_details": [{"type": "reasoning.encrypted", "data": "QQ"}]}),
            piece({"content": "Hi"}, "stop"),
        ],
        [START, done("", "thinking", redacted=True), chunk("Hi"), done("Hi", stopReason="stop"), END],
    ),
    "reasoning that goes on after a text began": (
        [
            piece({"reasoning": "Sea"}),
            piece({"content": "Hi"}),
            piece({"reasoning": "Moon"}),
            piece({"content": "gh"}, "stop"),
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
            piece({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Se"}]}]}),
            piece({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}),
            piece({"content": [{"type": "text", "text": "Hi"}, {"type": "reference", "reference_ids": [1]}]}),
            piece({"content": "gh"}),
            piece(
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
        [piece({"refusal": "I"}), piece({"refusal": " won't"}), piece(reason="stop")],
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
            piece({"audio": {"id": "a1"}}),
            piece({"audio": {"data": "QQ=="}}),
            piece({"audio": {"transcript": "Hi"}}, "stop"),
        ],
        [START, chunk("Hi", variant="transcript"), done("Hi", variant="transcript", stopReason="stop"), END],
    ),
    "sources": (
        [
            piece({"content": "Hi"}),
            piece({"annotations": [{"url": "u"}]}),
            piece({"annotations": [{"url": "w"}]}),
            piece(reason="stop"),
        ],
        [START, chunk("Hi"), done("Hi", citations=[{"url": "u"}, {"url": "w"}], stopReason="stop"), END],
    ),
    "a picture": (
        [
            piece({"content": "Look"}),
            piece({"images": [{"type": "image_url", "image_url": "http://x"}]}),
            piece(reason="stop"),
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
    "calls side by side, continued without id or with an empty name": (
        [
            piece({"content": "Wait."}),
            piece(calls(call(0, "", "k0", "tide"), call(1, "", "k1", "wind"))),
            piece(calls(call(1, '{"b":'), call(0, '{"a":', None, ""))),
            piece(calls(call(0, "1}"), call(1, "2}"))),
            piece(reason="tool_calls"),
            beside(usage=USAGE),
            DONE,
        ],
        [
            START,
            chunk("Wait."),
            written("k1", '{"b":', name="wind"),
            written("k0", '{"a":'),
            written("k0", "1}", 5),
            written("k1", "2}", 5, "wind"),
            done("Wait.", stopReason="tool_calls"),
            called("k0", {"a": 1}),
            called("k1", {"b": 2}, "wind"),
            ended(partial=True),
        ],
    ),
    "whole calls in one chunk, without indices": (
        [piece(calls(call(None, "{}", "k0", "tide"), call(None, "{}", "k1", "tide"))), piece(reason="stop")],
        [
            START,
            written("k0", "{}"),
            written("k1", "{}"),
            called("k0", {}),
            called("k1", {}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "calls without index or id": (
        [
            piece(calls(call(None, "{}", "", "tide"), call(None, "{}", "", "tide"))),
            piece(reason="tool_calls"),
        ],
        [
            START,
            written("1/1", "{}"),
            called("1/1", {}),
            written("1/4", "{}"),
            called("1/4", {}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "all calls at one index": (
        [
            piece(calls(call(0, "{}", "k0", "tide"))),
            piece(calls(call(0, '{"a":1}', "k1", "tide"))),
            piece(reason="tool_calls"),
        ],
        [
            START,
            written("k0", "{}"),
            called("k0", {}),
            written("k1", '{"a":1}'),
            called("k1", {"a": 1}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "arguments that are no JSON, none, or an object": (
        [
            piece(
                calls(
                    call(0, "high?", "k0", "tide"), call(1, "", "k1", "tide"), call(2, {"a": 1}, "k2", "tide")
                )
            ),
            piece(reason="tool_calls"),
        ],
        [
            START,
            written("k0", "high?"),
            called("k0", "high?"),
            called("k1", ""),
            called("k2", {"a": 1}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "the one call of old, and its result": (
        [
            piece({"function_call": {"name": "tide", "arguments": ""}}),
            piece({"function_call": {"arguments": "{}"}}),
            piece(reason="function_call"),
            {"role": "function", "name": "tide", "content": "high"},
        ],
        [
            START,
            written("1/1", "{}"),
            called("1/1", {}),
            ("tool_result", {"toolCallId": "1/1", "result": "high"}),
            END,
        ],
    ),
    "a filter": (
        [piece({"content": "Hi"}), piece(reason="content_filter")],
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
            piece({"content": "Hi"}),
            piece(reason="length"),
            piece({"content": ""}, error={"code": 400, "message": "Full"}, usage=USAGE),
        ],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="length"),
            ("error", {"code": "400", "message": "Full", "details": {"code": 400, "message": "Full"}}),
            ended(),
        ],
    ),
    "an error instead of the rest": (
        [piece({"content": "Hi"}), {"error": {"code": "server_error", "message": "Down"}}],
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
            *CUT,
        ],
    ),
    "a stream that is cut": (
        [piece({"content": "Hi"})],
        [START, chunk("Hi"), done("Hi", partial=True), *CUT],
    ),
    "a call that is cut": (
        [piece(calls(call(0, '{"a":', "k0", "tide")))],
        [START, written("k0", '{"a":'), called("k0", '{"a":', partial=True), *CUT],
    ),
    "a stream that is cut and made anew": (
        [
            piece({"role": "assistant", "content": "H"}, id="c0"),
            piece({"role": "assistant", "content": "Hi"}),
            piece(reason="stop"),
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
    "choices that take turns": (
        [
            piece({"content": "Hi"}),
            piece({"content": "Lo"}, index=1),
            piece(reason="stop"),
            piece({"content": "w"}, index=1),
            piece(reason="stop", index=1),
            beside(usage=USAGE),
        ],
        [
            START,
            chunk("Hi"),
            chunk("Lo", choiceIndex=1),
            done("Hi", stopReason="stop"),
            chunk("w", choiceIndex=1),
            done("Low", choiceIndex=1, stopReason="stop"),
            ended(),
        ],
    ),
    "choices one after the other": (
        [
            piece({"content": "Hi"}),
            piece(reason="stop"),
            piece({"content": "Low"}, "stop", index=1),
            beside(usage=USAGE),
            DONE,
        ],
        [
            START,
            chunk("Hi"),
            done("Hi", stopReason="stop"),
            chunk("Low", choiceIndex=1),
            done("Low", choiceIndex=1, stopReason="stop"),
            ended(),
        ],
    ),
    "an agent at work": (
        [
            {"role": "user", "content": "Tides?"},
            piece(calls(call(0, "{}", "k0", "tide"))),
            piece(reason="tool_calls"),
            beside(usage=USAGE),
            DONE,
            {"role": "tool", "tool_call_id": "k0", "content": "high"},
            piece({"content": "High"}, id="c2"),
            piece(reason="stop", id="c2"),
            {**beside(usage=USAGE), "id": "c2"},
            DONE,
            {"role": "user", "content": "Thanks"},
            piece({"content": "!"}, "stop", id="c3"),
            DONE,
        ],
        [
            USER_START,
            ("user_message", {"text": "Tides?"}),
            written("k0", "{}"),
            called("k0", {}),
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
    "a stream that is cut, and the next prompt": (
        [
            piece({"content": "Hi"}),
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
            *CUT,
            USER_START,
            (
                "user_message",
                {
                    "text": "Go on",
                    "content": [
                        {"type": "text", "text": "Go on"},
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
def test_a_stream(records: list[Any], events: list[ShortEvent]) -> None:
    assert short_events(follow(records, "openai_chat", ends=True)) == events


@pytest.mark.parametrize(
    ("texts", "events"),
    [
        (["High"], [done("High", stopReason="stop")]),
        (["Hi", "gh"], [chunk("Hi"), chunk("gh"), done("High", stopReason="stop")]),
        (["Hi", "gh", ""], [chunk("Hi"), chunk("gh"), done("High", stopReason="stop")]),
    ],
)
def test_text_completions(texts: list[str], events: list[ShortEvent]) -> None:
    pieces = [
        {
            "id": "c1",
            "object": "text_completion",
            "choices": [{"text": text, "index": 0, "finish_reason": reason}],
        }
        for text, reason in zip(texts, [*[None] * (len(texts) - 1), "stop"], strict=True)
    ]
    assert short_events(follow([*pieces, DONE])) == [START, *events, END]


def test_an_empty_answer_tells_what_it_cost() -> None:
    asked = {"role": "tool", "tool_call_id": "k", "content": "high"}
    told = short_events(follow([asked, piece(reason="stop"), beside(usage=USAGE)]))
    assert told[-1] == ended()


# An answer at rest says the same as its stream.

MESSAGES: dict[str, tuple[Record, str]] = {
    "a text": ({"content": "High"}, "stop"),
    "a text with sources": ({"content": "High", "annotations": [{"url": "u"}]}, "stop"),
    "reasoning and a text": ({"reasoning_content": "Sea", "content": "High"}, "length"),
    "withheld reasoning": ({"reasoning_details": [{"data": "QQ"}], "content": "High"}, "stop"),
    "a refusal": ({"content": None, "refusal": "No"}, "stop"),
    "a text and calls": (
        {"content": "Wait.", "tool_calls": [call(None, "{}", "k0", "tide"), call(None, "", "k1", "wind")]},
        "tool_calls",
    ),
    "calls, and another reason": ({"tool_calls": [call(None, "{}", "k0", "tide")]}, "stop"),
    "the one call of old": ({"function_call": {"name": "tide", "arguments": "{}"}}, "function_call"),
    "a filter": ({"content": "Hi"}, "content_filter"),
    "nothing": ({"content": ""}, "stop"),
}


def completion(*choices: tuple[Record, str | None], **more: Any) -> Record:
    told = [
        {"index": index, "message": {"role": "assistant", **message}, "finish_reason": reason}
        for index, (message, reason) in enumerate(choices)
    ]
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": told, **more}


def streamed(body: Record) -> list[Record]:
    """The same answer in pieces: each text in two, each call opened before its arguments come."""
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
    ends = {**shared, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
    return [*({**shared, "delta": delta, "finish_reason": None} for delta in deltas), ends]


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
    opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
    return [calls(opened), calls({"index": index, "function": {"arguments": arguments}})]


def check_agreement(body: Record) -> None:
    """The stream of an answer says the same as the answer, turns and all."""
    at_rest, stream = (
        [event for event in follow(records, "openai_chat", ends=True) if not event["type"].endswith("_chunk")]
        for records in ([body], streamed(body))
    )
    assert [told(event) for event in at_rest] == [told(event) for event in stream]


def told(event: Record) -> Any:
    """An event without the ids that are given to what has none."""
    payload = event["payload"]
    if "/" in str(payload.get("toolCallId")):
        payload = {**payload, "toolCallId": "?"}
    return event["type"], payload, event.get("responseId")


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_an_answer_at_rest_says_the_same(message: tuple[Record, str]) -> None:
    check_agreement(completion(message, usage=USAGE))
    check_agreement(completion(message, MESSAGES["a text"], usage={**USAGE, "cost": 0.5}))


def test_an_answer_at_rest() -> None:
    body = completion(MESSAGES["a text and calls"], usage=USAGE)
    result = {"role": "tool", "tool_call_id": "k0", "content": "high"}
    assert short_events(follow([body, result, completion(MESSAGES["a text"])], ends=True)) == [
        START,
        done("Wait.", stopReason="tool_calls"),
        called("k0", {}),
        called("k1", "", "wind"),
        ("tool_result", {"toolCallId": "k0", "result": "high"}),
        done("High", stopReason="stop"),
        ended(),
    ]


def bodies() -> list[Any]:
    return [
        pytest.param(body, id=f"{path.stem}:{number}")
        for path in sorted(CORPUS.glob("openai_chat_response/*.jsonl"))
        for number, body in enumerate(_lines(path), start=1)
        if is_plain(body)
    ]


def _lines(path: Path) -> list[Any]:
    records = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records


def is_plain(body: Any) -> bool:
    """A completion whose messages a stream can hold as they are, under an id."""
    if not isinstance(body, dict) or not body.get("id") or "choices" not in body or "error" in body:
        return False
    return all(
        "message" in choice and not isinstance(choice["message"].get("content"), list)
        for choice in body["choices"]
    )


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is missing")
@pytest.mark.parametrize("body", bodies())
def test_real_answers_and_their_streams_say_the_same(body: Record) -> None:
    check_agreement(body)


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("openai_chat_stream/*.jsonl")), ids=lambda path: path.stem
)
def test_real_streams_are_told_whole(path: Path) -> None:
    records = _lines(path)
    events = follow(records, "openai_chat")
    deltas = [choice.get("delta") or {} for record in records for choice in record.get("choices") or []]
    pieces = {
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
    assert texts(events) == {name: text for name, text in pieces.items() if text}
    wholes = {
        name: "".join(event["payload"]["text"] for event in events if event["type"] == f"{name}_done")
        for name in ("assistant", "thinking")
    }
    assert wholes == {name: pieces[f"{name}_chunk"] for name in wholes}
    asks = bool(pieces["tool_input_chunk"])
    assert [event["type"] for event in events].count("turn_end") == (0 if asks else 1)


def test_a_request_tells_only_what_it_does_not_hold_once_more() -> None:
    """An agent's loop: each request holds the whole conversation so far."""

    def piece(id: str, delta: Any, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": id, "object": "chat.completion.chunk", "choices": [choice]}

    call = {"id": "t1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "High tide?"}]
    called = [
        *asked,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "06:12"},
    ]
    answered = [
        *called,
        {"role": "assistant", "content": "At 06:12."},
        {"role": "user", "content": "High tide?"},
    ]
    events = follow(
        [
            {"model": "m", "messages": asked},
            piece("r1", {"role": "assistant", "tool_calls": [{"index": 0, **call}]}, "tool_calls"),
            {"model": "m", "messages": called},
            piece("r2", {"role": "assistant", "content": "At 06:12."}, "stop"),
            {"model": "m", "messages": answered},
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
