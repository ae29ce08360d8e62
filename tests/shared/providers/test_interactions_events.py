"""The Interactions API of Gemini in the log: streams, and the same answers at rest."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shared.conftest import CORPUS
from tests.shared.logs import content_events, follow, short_events
from tests.shared.texts import texts_of

Record = dict[str, Any]
Short = tuple[Any, ...]


def told(*records: Any) -> list[Short]:
    return short_events(follow(records, "gemini", ends=True))


def answer(*steps: Record, status: str = "completed", id: str = "v1", **more: Any) -> Record:
    return {"id": id, "object": "interaction", "status": status, "steps": list(steps), **more}


def created(id: str = "v1") -> Record:
    interaction = {"id": id, "object": "interaction", "status": "in_progress"}
    return {"event_type": "interaction.created", "interaction": interaction}


def ended(status: str = "completed", **more: Any) -> Record:
    interaction = {"id": "v1", "object": "interaction", "status": status, **more}
    return {"event_type": "interaction.completed", "interaction": interaction}


def begun(wire: str, index: int = 0, **more: Any) -> Record:
    return {"event_type": "step.start", "index": index, "step": {"type": wire, **more}}


def delta(wire: str, index: int = 0, **more: Any) -> Record:
    return {"event_type": "step.delta", "index": index, "delta": {"type": wire, **more}}


def stopped(index: int = 0) -> Record:
    return {"event_type": "step.stop", "index": index}


USAGE = {"total_input_tokens": 5, "total_output_tokens": 2, "total_tokens": 7}
START: Short = ("turn_start", {"trigger": "system"})
USER_START: Short = ("turn_start", {"trigger": "user"})
END: Short = ("turn_end", {})
CUT: list[Short] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
COUNTED: Short = (
    "turn_end",
    {"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "vendor": USAGE}},
)


def chunk(text: str, kind: str = "assistant") -> Short:
    return f"{kind}_chunk", {"text": text}, "v1"


def spoken(text: str, **more: Any) -> Short:
    return "assistant_done", {"text": text, **more}, "v1"


def thought(text: str, **more: Any) -> Short:
    return "thinking_done", {"text": text, **more}, "v1"


def written(text: str, offset: int = 0, name: str = "weather") -> Short:
    payload = {"toolCallId": "c1", "toolName": name, "chunk": text, "offset": offset}
    return "tool_input_chunk", payload, "v1"


def used(args: Any, name: str = "weather", **more: Any) -> Short:
    return "tool_call", {"toolCallId": "c1", "toolName": name, "args": args, **more}, "v1"


def gave(result: Any, **more: Any) -> Short:
    return "tool_result", {"toolCallId": "c1", "result": result, **more}


TEXT = [
    created(),
    begun("model_output"),
    delta("text", text="Good "),
    delta("text", text="day"),
    stopped(),
]
CALL = [
    created(),
    begun("function_call", id="c1", name="weather", arguments={}),
    delta("arguments_delta", arguments='{"city":'),
    delta("arguments_delta", arguments='"Graz"}'),
    stopped(),
]
CALL_TOLD = [START, written('{"city":'), written('"Graz"}', 8), used({"city": "Graz"})]
PICTURE = {"type": "image", "mime_type": "image/png", "data": "AAAA"}
SHOWN = {
    "type": "image",
    "source": {"type": "base64", "data": "AAAA", "media_type": "image/png"},
    "source_type": "image",
}
FOUND = [{"url": "https://graz.example", "title": "Graz"}]
FAILURE = {"code": "internal", "message": "Oh."}
ERROR = {"event_type": "error", "error": FAILURE}
WENT_WRONG: Short = ("error", {**FAILURE, "details": FAILURE})
UNKNOWN = delta("hologram", light="~")
OUT_OF_MONEY = {"code": "budget_exceeded", "message": "budget_exceeded"}

STREAMS: dict[str, tuple[list[Record], list[Short]]] = {
    "a text": (
        [*TEXT, ended(usage=USAGE)],
        [START, chunk("Good "), chunk("day"), spoken("Good day"), COUNTED],
    ),
    "what was thought": (
        [
            created(),
            {"event_type": "interaction.status_update", "interaction_id": "v1", "status": "in_progress"},
            begun("thought"),
            delta("thought_summary", content={"type": "text", "text": "Hm, "}),
            delta("thought_summary", content={"type": "text", "text": "well"}),
            delta("thought_signature", signature="s1"),
            stopped(),
            begun("model_output", 1),
            delta("text", 1, text="Hi"),
            delta("text_annotation_delta", 1, annotations=[]),
            stopped(1),
            ended(),
        ],
        [
            START,
            chunk("Hm, ", "thinking"),
            chunk("well", "thinking"),
            thought("Hm, well", signature="s1"),
            chunk("Hi"),
            spoken("Hi"),
            END,
        ],
    ),
    "a call, and the answer to it": (
        [
            *CALL,
            ended("requires_action", usage=USAGE),
            {"model": "m", "input": [{"type": "function_result", "call_id": "c1", "result": "sunny"}]},
            created(),
            *TEXT[1:],
            ended(),
        ],
        [*CALL_TOLD, gave("sunny"), chunk("Good "), chunk("day"), spoken("Good day"), COUNTED],
    ),
    "a call cut off": (
        CALL[:4],
        [*CALL_TOLD[:3], used({"city": "Graz"}, partial=True), *CUT],
    ),
    "a call without arguments": (
        [created(), begun("function_call", id="c1", name="now", arguments={}), stopped(), ended()],
        [START, used({}, "now"), END],
    ),
    "a search by the vendor": (
        [
            created(),
            begun("google_search_call", id="c1"),
            delta("google_search_call", arguments={"queries": ["Graz"]}),
            stopped(),
            begun("google_search_result", 1, call_id="c1"),
            delta("google_search_result", 1, result=FOUND),
            stopped(1),
            ended(),
        ],
        [
            START,
            written('{"queries":["Graz"]}', name="google_search"),
            used({"queries": ["Graz"]}, "google_search", executor="server"),
            gave(FOUND, structured=FOUND),
            END,
        ],
    ),
    "code, of which the result is there at once": (
        [
            created(),
            begun("code_execution_call", id="c1", arguments={"code": "1/0"}),
            stopped(),
            begun("code_execution_result", 1, call_id="c1", result="no", is_error=True),
            stopped(1),
            ended(),
        ],
        [
            START,
            used({"code": "1/0"}, "code_execution", executor="server"),
            gave("no", error={"code": "error", "message": "no"}),
            END,
        ],
    ),
    "a picture in a text": (
        [
            created(),
            begun("model_output"),
            delta("text", text="Look: "),
            {**delta("image"), "delta": PICTURE},
            delta("text", text="nice"),
            stopped(),
            ended(),
        ],
        [
            START,
            chunk("Look: "),
            spoken("Look: "),
            spoken("", content=[SHOWN]),
            chunk("nice"),
            spoken("nice"),
            END,
        ],
    ),
    "a text that is there at once": (
        [created(), begun("model_output", content=[{"type": "text", "text": "Hi"}]), stopped(), ended()],
        [START, chunk("Hi"), spoken("Hi"), END],
    ),
    "events of the first version": (
        [
            {"event_type": "interaction.start", "interaction": {"id": "v1", "status": "in_progress"}},
            {"event_type": "content.start", "index": 0, "content": {"type": "text"}},
            {"event_type": "content.delta", "index": 0, "delta": {"type": "text", "text": "Hi"}},
            {"event_type": "content.stop", "index": 0},
            {"event_type": "content.start", "index": 1, "content": {"type": "function_call", "id": "c1"}},
            {
                "event_type": "content.delta",
                "index": 1,
                "delta": {"type": "function_call", "id": "c1", "name": "now", "arguments": {"a": 1}},
            },
            {"event_type": "content.stop", "index": 1},
            {"event_type": "interaction.complete", "interaction": {"id": "v1", "status": "requires_action"}},
        ],
        [
            START,
            chunk("Hi"),
            spoken("Hi"),
            written('{"a":1}', name="function"),
            used({"a": 1}, "function"),
            ("turn_end", {"partial": True}),
        ],
    ),
    "all in the last event": (
        [created(), ended(steps=[{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}])],
        [START, spoken("Hi"), END],
    ),
    "what was told before, in the last event": (
        [*TEXT, ended(steps=[{"type": "model_output", "content": [{"type": "text", "text": "Good day"}]}])],
        [START, chunk("Good "), chunk("day"), spoken("Good day"), END],
    ),
    "a failure that is told twice": (
        [*TEXT[:3], ERROR, ended("failed")],
        [START, chunk("Good "), spoken("Good ", partial=True), WENT_WRONG, *CUT],
    ),
    "somebody stops it": (
        [*TEXT[:3], ended("cancelled")],
        [
            START,
            chunk("Good "),
            spoken("Good ", partial=True),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "the money runs out": (
        [*TEXT[:3], ended("budget_exceeded", usage=USAGE)],
        [
            START,
            chunk("Good "),
            spoken("Good ", stopReason="budget_exceeded", partial=True),
            ("error", OUT_OF_MONEY),
            COUNTED,
        ],
    ),
    "the stream breaks": (
        TEXT,
        [START, chunk("Good "), chunk("day"), spoken("Good day"), *CUT],
    ),
    "a piece that nobody knows": (
        [*TEXT[:3], UNKNOWN, *TEXT[3:], ended()],
        [
            START,
            chunk("Good "),
            ("raw", {"source": "gemini", "raw": UNKNOWN}),
            chunk("day"),
            spoken("Good day"),
            END,
        ],
    ),
    "a stream that is not kept has no id": (
        [created(""), *TEXT[1:], ended(id="")],
        [START, *(event[:2] for event in (chunk("Good "), chunk("day"), spoken("Good day"))), END],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_a_stream(records: list[Record], events: list[Short]) -> None:
    assert told(*records) == events


SAYS = {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}
ASKS = {"type": "function_call", "id": "c1", "name": "now", "arguments": {}}
BODIES: dict[str, tuple[list[Record], list[Short]]] = {
    "an answer": (
        [answer({"type": "thought", "signature": "s1"}, SAYS, usage=USAGE)],
        [START, thought("", signature="s1"), spoken("Hi"), COUNTED],
    ),
    "with what was put in, which was told before": (
        [{"model": "m", "input": "Hello"}, answer(SAYS, input="Hello")],
        [USER_START, ("user_message", {"text": "Hello"}), spoken("Hi"), END],
    ),
    "with what was put in, which was not": (
        [answer({"type": "user_input", "content": [{"type": "text", "text": "Hello"}]}, SAYS)],
        [USER_START, ("user_message", {"text": "Hello"}), spoken("Hi"), END],
    ),
    "a call": (
        [answer(ASKS, status="requires_action"), answer(SAYS, id="v2")],
        [START, used({}, "now"), ("assistant_done", {"text": "Hi"}, "v2"), END],
    ),
    "in the background": (
        [answer(SAYS, status="in_progress"), answer(SAYS, usage=USAGE)],
        [START, spoken("Hi"), COUNTED],
    ),
    "one whose stream broke": (
        [*TEXT[:3], answer({**SAYS, "content": [{"type": "text", "text": "Good day"}]})],
        [START, chunk("Good "), spoken("Good day"), END],
    ),
    "a failure": (
        [answer(status="failed", error=FAILURE)],
        [START, WENT_WRONG, *CUT],
    ),
}


@pytest.mark.parametrize(("records", "events"), BODIES.values(), ids=BODIES)
def test_an_answer_at_rest(records: list[Record], events: list[Short]) -> None:
    assert told(*records) == events


def _samples(folder: str) -> Iterator[list[Record]]:
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus beside the repository")
    files: dict[str, list[Record]] = {}
    for where, text in texts_of(CORPUS / folder):
        files.setdefault(where.partition(":")[0], []).append(json.loads(text))
    yield from files.values()


def streamed(interaction: Record) -> list[Record]:
    """The stream that an answer might have come in."""
    pieces = [piece for index, step in enumerate(interaction["steps"]) for piece in _pieces(step, index)]
    end = {key: value for key, value in interaction.items() if key != "steps"}
    return [
        created(interaction.get("id", "")),
        *pieces,
        {"event_type": "interaction.completed", "interaction": end},
    ]


def _pieces(step: Record, index: int) -> list[Record]:
    signed = [delta("thought_signature", index, signature=step["signature"])] if "signature" in step else []
    texts = [delta("text", index, text=letter) for part in step.get("content", []) for letter in part["text"]]
    return [begun(step["type"], index), *texts, *signed, stopped(index)]


def test_an_answer_says_the_same_in_a_stream() -> None:
    for (interaction,) in _samples("gemini_interactions_response"):
        events = follow(streamed(interaction), ends=True)

        assert content_events(events) == content_events(follow([interaction], ends=True))
        assert len(content_events(events)) == len(interaction["steps"])


def test_a_stream_says_what_its_pieces_add_up_to() -> None:
    for records in _samples("gemini_interactions_stream"):
        events = follow(records, ends=True)

        deltas = [record["delta"] for record in records if "delta" in record]
        whole = "".join(each["text"] for each in deltas if each["type"] == "text")
        assert [e["payload"]["text"] for e in events if e["type"] == "assistant_done"] == [whole]
        assert [e["type"] for e in events].count("turn_end") == 1
        assert "usage" in events[-1]["payload"]
