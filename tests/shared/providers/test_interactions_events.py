"""Events of Gemini's Interactions API: streams and complete responses."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shared.logs import content_events, follow, short_events
from tests.shared.sample_files import CORPUS
from tests.shared.texts import texts_of

Record = dict[str, Any]
Short = tuple[Any, ...]


def short_response_events(*records: Any) -> list[Short]:
    return short_events(follow(records, "gemini", ends=True))


def interaction(*steps: Record, status: str = "completed", id: str = "v1", **more: Any) -> Record:
    return {"id": id, "object": "interaction", "status": status, "steps": list(steps), **more}


def created(id: str = "v1") -> Record:
    interaction = {"id": id, "object": "interaction", "status": "in_progress"}
    return {"event_type": "interaction.created", "interaction": interaction}


def completed(status: str = "completed", **more: Any) -> Record:
    interaction = {"id": "v1", "object": "interaction", "status": status, **more}
    return {"event_type": "interaction.completed", "interaction": interaction}


def step_start(wire: str, index: int = 0, **more: Any) -> Record:
    return {"event_type": "step.start", "index": index, "step": {"type": wire, **more}}


def delta(wire: str, index: int = 0, **more: Any) -> Record:
    return {"event_type": "step.delta", "index": index, "delta": {"type": wire, **more}}


def step_stop(index: int = 0) -> Record:
    return {"event_type": "step.stop", "index": index}


USAGE = {"total_input_tokens": 5, "total_output_tokens": 2, "total_tokens": 7}
START: Short = ("turn_start", {"trigger": "system"})
USER_START: Short = ("turn_start", {"trigger": "user"})
END: Short = ("turn_end", {})
ABORTED: list[Short] = [("interrupt", {"reason": "error"}), ("turn_end", {"partial": True})]
USAGE_END: Short = (
    "turn_end",
    {"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7, "vendor": USAGE}},
)


def chunk(text: str, kind: str = "assistant") -> Short:
    return f"{kind}_chunk", {"text": text}, "v1"


def text_done(text: str, **more: Any) -> Short:
    return "assistant_done", {"text": text, **more}, "v1"


def thinking_done(text: str, **more: Any) -> Short:
    return "thinking_done", {"text": text, **more}, "v1"


def input_chunk(text: str, offset: int = 0, name: str = "weather") -> Short:
    payload = {"toolCallId": "c1", "toolName": name, "chunk": text, "offset": offset}
    return "tool_input_chunk", payload, "v1"


def tool_call(args: Any, name: str = "weather", **more: Any) -> Short:
    return "tool_call", {"toolCallId": "c1", "toolName": name, "args": args, **more}, "v1"


def tool_result(result: Any, **more: Any) -> Short:
    return "tool_result", {"toolCallId": "c1", "result": result, **more}


TEXT = [
    created(),
    step_start("model_output"),
    delta("text", text="Good "),
    delta("text", text="day"),
    step_stop(),
]
CALL = [
    created(),
    step_start("function_call", id="c1", name="weather", arguments={}),
    delta("arguments_delta", arguments='{"city":'),
    delta("arguments_delta", arguments='"Graz"}'),
    step_stop(),
]
CALL_EVENTS = [START, input_chunk('{"city":'), input_chunk('"Graz"}', 8), tool_call({"city": "Graz"})]
IMAGE = {"type": "image", "mime_type": "image/png", "data": "AAAA"}
IMAGE_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "data": "AAAA", "media_type": "image/png"},
    "source_type": "image",
}
SEARCH_RESULTS = [{"url": "https://graz.example", "title": "Graz"}]
SERVER_ERROR = {"code": "internal", "message": "Oh."}
ERROR = {"event_type": "error", "error": SERVER_ERROR}
ERROR_EVENT: Short = ("error", {**SERVER_ERROR, "details": SERVER_ERROR})
UNKNOWN = delta("hologram", light="~")
BUDGET_ERROR = {"code": "budget_exceeded", "message": "budget_exceeded"}

STREAMS: dict[str, tuple[list[Record], list[Short]]] = {
    "a text": (
        [*TEXT, completed(usage=USAGE)],
        [START, chunk("Good "), chunk("day"), text_done("Good day"), USAGE_END],
    ),
    "thoughts": (
        [
            created(),
            {"event_type": "interaction.status_update", "interaction_id": "v1", "status": "in_progress"},
            step_start("thought"),
            delta("thought_summary", content={"type": "text", "text": "Hm, "}),
            delta("thought_summary", content={"type": "text", "text": "well"}),
            delta("thought_signature", signature="s1"),
            step_stop(),
            step_start("model_output", 1),
            delta("text", 1, text="Hi"),
            delta("text_annotation_delta", 1, annotations=[]),
            step_stop(1),
            completed(),
        ],
        [
            START,
            chunk("Hm, ", "thinking"),
            chunk("well", "thinking"),
            thinking_done("Hm, well", signature="s1"),
            chunk("Hi"),
            text_done("Hi"),
            END,
        ],
    ),
    "a call and its result": (
        [
            *CALL,
            completed("requires_action", usage=USAGE),
            {"model": "m", "input": [{"type": "function_result", "call_id": "c1", "result": "sunny"}]},
            created(),
            *TEXT[1:],
            completed(),
        ],
        [*CALL_EVENTS, tool_result("sunny"), chunk("Good "), chunk("day"), text_done("Good day"), USAGE_END],
    ),
    "a cut call": (
        CALL[:4],
        [*CALL_EVENTS[:3], tool_call({"city": "Graz"}, partial=True), *ABORTED],
    ),
    "a call without arguments": (
        [created(), step_start("function_call", id="c1", name="now", arguments={}), step_stop(), completed()],
        [START, tool_call({}, "now"), END],
    ),
    "a search by the vendor": (
        [
            created(),
            step_start("google_search_call", id="c1"),
            delta("google_search_call", arguments={"queries": ["Graz"]}),
            step_stop(),
            step_start("google_search_result", 1, call_id="c1"),
            delta("google_search_result", 1, result=SEARCH_RESULTS),
            step_stop(1),
            completed(),
        ],
        [
            START,
            input_chunk('{"queries":["Graz"]}', name="google_search"),
            tool_call({"queries": ["Graz"]}, "google_search", executor="server"),
            tool_result(SEARCH_RESULTS, structured=SEARCH_RESULTS),
            END,
        ],
    ),
    "code whose result arrives complete": (
        [
            created(),
            step_start("code_execution_call", id="c1", arguments={"code": "1/0"}),
            step_stop(),
            step_start("code_execution_result", 1, call_id="c1", result="no", is_error=True),
            step_stop(1),
            completed(),
        ],
        [
            START,
            tool_call({"code": "1/0"}, "code_execution", executor="server"),
            tool_result("no", error={"code": "error", "message": "no"}),
            END,
        ],
    ),
    "an image in a text": (
        [
            created(),
            step_start("model_output"),
            delta("text", text="Look: "),
            {**delta("image"), "delta": IMAGE},
            delta("text", text="nice"),
            step_stop(),
            completed(),
        ],
        [
            START,
            chunk("Look: "),
            text_done("Look: "),
            text_done("", content=[IMAGE_BLOCK]),
            chunk("nice"),
            text_done("nice"),
            END,
        ],
    ),
    "a text that arrives complete": (
        [
            created(),
            step_start("model_output", content=[{"type": "text", "text": "Hi"}]),
            step_stop(),
            completed(),
        ],
        [START, chunk("Hi"), text_done("Hi"), END],
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
            text_done("Hi"),
            input_chunk('{"a":1}', name="function"),
            tool_call({"a": 1}, "function"),
            ("turn_end", {"partial": True}),
        ],
    ),
    "everything in the last event": (
        [created(), completed(steps=[{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}])],
        [START, text_done("Hi"), END],
    ),
    "content repeated in the last event": (
        [
            *TEXT,
            completed(steps=[{"type": "model_output", "content": [{"type": "text", "text": "Good day"}]}]),
        ],
        [START, chunk("Good "), chunk("day"), text_done("Good day"), END],
    ),
    "a failure reported twice": (
        [*TEXT[:3], ERROR, completed("failed")],
        [START, chunk("Good "), text_done("Good ", partial=True), ERROR_EVENT, *ABORTED],
    ),
    "cancelled by the user": (
        [*TEXT[:3], completed("cancelled")],
        [
            START,
            chunk("Good "),
            text_done("Good ", partial=True),
            ("interrupt", {"reason": "user_cancel"}),
            ("turn_end", {"partial": True}),
        ],
    ),
    "budget exceeded": (
        [*TEXT[:3], completed("budget_exceeded", usage=USAGE)],
        [
            START,
            chunk("Good "),
            text_done("Good ", stopReason="budget_exceeded", partial=True),
            ("error", BUDGET_ERROR),
            USAGE_END,
        ],
    ),
    "a broken stream": (
        TEXT,
        [START, chunk("Good "), chunk("day"), text_done("Good day"), *ABORTED],
    ),
    "an unknown delta": (
        [*TEXT[:3], UNKNOWN, *TEXT[3:], completed()],
        [
            START,
            chunk("Good "),
            ("raw", {"source": "gemini", "raw": UNKNOWN}),
            chunk("day"),
            text_done("Good day"),
            END,
        ],
    ),
    "an unstored stream without id": (
        [created(""), *TEXT[1:], completed(id="")],
        [START, *(event[:2] for event in (chunk("Good "), chunk("day"), text_done("Good day"))), END],
    ),
}


@pytest.mark.parametrize(("records", "events"), STREAMS.values(), ids=STREAMS)
def test_stream_events(records: list[Record], events: list[Short]) -> None:
    assert short_response_events(*records) == events


TEXT_STEP = {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}
CALL_STEP = {"type": "function_call", "id": "c1", "name": "now", "arguments": {}}
BODIES: dict[str, tuple[list[Record], list[Short]]] = {
    "a response": (
        [interaction({"type": "thought", "signature": "s1"}, TEXT_STEP, usage=USAGE)],
        [START, thinking_done("", signature="s1"), text_done("Hi"), USAGE_END],
    ),
    "with input that was emitted before": (
        [{"model": "m", "input": "Hello"}, interaction(TEXT_STEP, input="Hello")],
        [USER_START, ("user_message", {"text": "Hello"}), text_done("Hi"), END],
    ),
    "with input that was not emitted before": (
        [interaction({"type": "user_input", "content": [{"type": "text", "text": "Hello"}]}, TEXT_STEP)],
        [USER_START, ("user_message", {"text": "Hello"}), text_done("Hi"), END],
    ),
    "a call": (
        [interaction(CALL_STEP, status="requires_action"), interaction(TEXT_STEP, id="v2")],
        [START, tool_call({}, "now"), ("assistant_done", {"text": "Hi"}, "v2"), END],
    ),
    "a background response in progress": (
        [interaction(TEXT_STEP, status="in_progress"), interaction(TEXT_STEP, usage=USAGE)],
        [START, text_done("Hi"), USAGE_END],
    ),
    "a response whose stream broke": (
        [*TEXT[:3], interaction({**TEXT_STEP, "content": [{"type": "text", "text": "Good day"}]})],
        [START, chunk("Good "), text_done("Good day"), END],
    ),
    "a failure": (
        [interaction(status="failed", error=SERVER_ERROR)],
        [START, ERROR_EVENT, *ABORTED],
    ),
}


@pytest.mark.parametrize(("records", "events"), BODIES.values(), ids=BODIES)
def test_complete_response_events(records: list[Record], events: list[Short]) -> None:
    assert short_response_events(*records) == events


def _samples(folder: str) -> Iterator[list[Record]]:
    if not CORPUS.is_dir():
        pytest.skip("no ../shared/corpus next to the repository")
    files: dict[str, list[Record]] = {}
    for location, text in texts_of(CORPUS / folder):
        files.setdefault(location.partition(":")[0], []).append(json.loads(text))
    yield from files.values()


def streamed(interaction: Record) -> list[Record]:
    """Return a possible stream of the response."""
    step_events = [
        event for index, step in enumerate(interaction["steps"]) for event in _step_events(step, index)
    ]
    end = {key: value for key, value in interaction.items() if key != "steps"}
    return [
        created(interaction.get("id", "")),
        *step_events,
        {"event_type": "interaction.completed", "interaction": end},
    ]


def _step_events(step: Record, index: int) -> list[Record]:
    signature_deltas = (
        [delta("thought_signature", index, signature=step["signature"])] if "signature" in step else []
    )
    texts = [delta("text", index, text=letter) for part in step.get("content", []) for letter in part["text"]]
    return [step_start(step["type"], index), *texts, *signature_deltas, step_stop(index)]


def test_complete_response_matches_its_stream() -> None:
    for (interaction,) in _samples("gemini_interactions_response"):
        events = follow(streamed(interaction), ends=True)

        assert content_events(events) == content_events(follow([interaction], ends=True))
        assert len(content_events(events)) == len(interaction["steps"])


def test_text_equals_its_joined_deltas() -> None:
    for records in _samples("gemini_interactions_stream"):
        events = follow(records, ends=True)

        deltas = [record["delta"] for record in records if "delta" in record]
        joined = "".join(each["text"] for each in deltas if each["type"] == "text")
        assert [e["payload"]["text"] for e in events if e["type"] == "assistant_done"] == [joined]
        assert [e["type"] for e in events].count("turn_end") == 1
        assert "usage" in events[-1]["payload"]
