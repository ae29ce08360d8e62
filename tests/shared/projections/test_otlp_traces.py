"""A session as traces: a span for each turn, answer and call, with the conventions' names."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ash_shared import StandardMessage, to_otlp, transform_messages
from ash_shared.projections import otlp
from ash_shared.projections.otlp import TraceFold, TraceSurvey
from tests.shared.projections.test_otel_genai import ATTRIBUTES, Fields, problems, wrong_fields
from tests.shared.records.claude import line, text
from tests.shared.texts import files_of

Json = dict[str, Any]
FAILED_STATUS = 2
AS_JSON = {
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.definitions",
}
BASH = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "pytest"}}
FAILED = {"type": "tool_result", "tool_use_id": "c1", "content": "1 failed", "is_error": True}
USAGE = {"input_tokens": 3, "output_tokens": 40, "cache_read_input_tokens": 100}


def said(second: int, role: str, *blocks: Json, **fields: Any) -> Json:
    time = f"2026-11-02T09:00:{second:02}Z"
    return line(role, list(blocks), uuid=f"{role}-{second}", timestamp=time, **fields)


def answered(id: str) -> Json:
    return {"id": id, "model": "claude-opus-4-5", "stop_reason": "end_turn", "usage": USAGE}


RECORDS = (
    said(1, "user", text("Which tests fail?")),
    said(3, "assistant", text("Let me see."), BASH, message=answered("m1")),
    said(7, "user", FAILED),
    said(9, "assistant", text("One."), message=answered("m2")),
    said(20, "user", text("Why?")),
    said(22, "assistant", text("A path."), message=answered("m3")),
    said(30, "user", text("Thank you.")),
)


def exported(*records: Json, **options: Any) -> list[Json]:
    """Return the spans, with their attributes by name and decoded."""
    return spans_of("\n".join(map(json.dumps, records)), **options)


def spans_of(text: str, **options: Any) -> list[Json]:
    document = to_otlp(transform_messages(text), session_id="s", **options)
    json.dumps(document, ensure_ascii=False).encode()  # without lone surrogates
    [scoped] = document["resourceSpans"][0]["scopeSpans"]
    spans = [{**span, "attributes": decoded(span["attributes"])} for span in scoped["spans"]]
    for span in spans:
        assert list(span_problems(span)) == []
    return spans


def decoded(attributes: list[Json]) -> Json:
    return {each["key"]: value_of(each["value"], is_json=each["key"] in AS_JSON) for each in attributes}


def value_of(value: Json, *, is_json: bool = False) -> Any:
    [(kind, inner)] = value.items()
    if kind == "arrayValue":
        return [value_of(each) for each in inner["values"]]
    if kind == "intValue":
        return int(inner)
    return json.loads(inner) if is_json else inner


# Kind, required and further attributes by operation, in v0.1.0 of the conventions.
COMMON: Fields = {"gen_ai.operation.name": str, "gen_ai.conversation.id": str}
OPERATIONS: Mapping[str, tuple[int, Fields, Fields]] = {
    "chat": (3, {**COMMON, "gen_ai.provider.name": str}, {**ATTRIBUTES, "error.type": str}),
    "execute_tool": (
        1,
        {**COMMON, "gen_ai.tool.name": str},
        {
            "error.type": str,
            "gen_ai.tool.call.arguments": object,
            "gen_ai.tool.call.id": str,
            "gen_ai.tool.call.result": object,
            "gen_ai.tool.type": str,
        },
    ),
    "invoke_agent": (
        1,
        {**COMMON, "gen_ai.provider.name": str, "gen_ai.agent.name": str},
        {"gen_ai.agent.version": str, "gen_ai.input.messages": list},
    ),
}
SUBJECTS = {
    "chat": ("gen_ai.request.model", "gen_ai.response.model"),
    "execute_tool": ("gen_ai.tool.name",),
    "invoke_agent": ("gen_ai.agent.name",),
}


def span_problems(span: Json) -> Iterator[str]:
    attributes = span["attributes"]
    operation = attributes["gen_ai.operation.name"]
    kind, required, optional = OPERATIONS[operation]
    yield from wrong_fields(operation, attributes, required, optional)
    if operation == "chat":
        yield from problems({name: attributes[name] for name in attributes if name != "error.type"})
    subject = next((attributes[name] for name in SUBJECTS[operation] if name in attributes), None)
    if span["name"] != (f"{operation} {subject}" if subject else operation):
        yield f"name {span['name']!r}"
    if span["kind"] != kind:
        yield f"kind {span['kind']}"
    if ("error.type" in attributes) != (span["status"].get("code") == FAILED_STATUS):
        yield f"status {span['status']}"


def named(spans: list[Json], name: str) -> list[Json]:
    return [span for span in spans if span["name"].startswith(name)]


def test_each_turn_is_a_trace_of_its_answers_and_calls() -> None:
    spans = exported(*RECORDS)

    traces = list(dict.fromkeys(span["traceId"] for span in spans))
    assert [[span["name"] for span in spans if span["traceId"] == trace] for trace in traces] == [
        ["chat claude-opus-4-5", "execute_tool Bash", "chat claude-opus-4-5", "invoke_agent claude"],
        ["chat claude-opus-4-5", "invoke_agent claude"],
        ["invoke_agent claude"],
    ]
    roots = {span["traceId"]: span["spanId"] for span in spans if "parentSpanId" not in span}
    assert all(span.get("parentSpanId", roots[span["traceId"]]) == roots[span["traceId"]] for span in spans)
    assert len({span["spanId"] for span in spans}) == len(spans)


def test_spans_are_complete_before_the_session_ends() -> None:
    late = said(35, "user", {"type": "tool_result", "tool_use_id": "c9", "content": "Late."})
    call = {"type": "tool_use", "id": "c9", "name": "Read", "input": {}}
    first = said(2, "assistant", call, message=answered("m0"))
    messages = transform_messages("\n".join(map(json.dumps, [RECORDS[0], first, *RECORDS[1:], late])))
    survey, parts = streamed(messages)

    [scoped] = to_otlp(messages, session_id="s")["resourceSpans"][0]["scopeSpans"]
    assert [span for spans in parts for span in spans] == scoped["spans"]
    assert (survey.size(), list(map(len, parts))) == (2, [0, 0, 1, 1, 1, 1, 1, 1, 1, 2])


def streamed(messages: list[StandardMessage]) -> tuple[TraceSurvey, list[list[Json]]]:
    """Return the survey, and the spans after each message and at the end."""
    survey = TraceSurvey()
    for message in messages:
        survey.add(message, 1)
    fold, parts = TraceFold(survey.facts(), session_id="s"), list[list[Json]]()
    for message in messages:
        fold.add(message)
        parts.append(fold.take())
    return survey, [*parts, fold.end()]


def test_a_call_of_a_model_has_only_new_input() -> None:
    chats = [span["attributes"] for span in named(exported(*RECORDS), "chat")]

    assert [
        [(each["role"], each["parts"][0].get("content")) for each in chat["gen_ai.input.messages"]]
        for chat in chats
    ] == [[("user", "Which tests fail?")], [("tool", None)], [("user", "Why?")]]
    assert [chat["gen_ai.output.messages"][0]["parts"][0]["content"] for chat in chats] == [
        "Let me see.",
        "One.",
        "A path.",
    ]
    assert [chat["gen_ai.usage.input_tokens"] for chat in chats] == [103, 103, 103]


def test_a_failed_call_has_its_arguments_result_and_status() -> None:
    [span] = named(exported(*RECORDS), "execute_tool")

    assert span["attributes"] == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.conversation.id": "s",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": {"command": "pytest"},
        "gen_ai.tool.call.result": "1 failed",
        "error.type": "tool_error",
    }
    assert (span["kind"], span["status"]) == (1, {"code": 2})
    seconds = [int(span[f"{name}TimeUnixNano"]) // 10**9 % 60 for name in ("start", "end")]
    assert seconds == [3, 7]


def test_a_prompt_without_an_answer_is_in_the_span_of_its_turn() -> None:
    last = exported(*RECORDS)[-1]

    assert last["attributes"] == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "s",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "claude",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "Thank you."}]}],
    }


def test_a_longer_session_has_the_same_spans_for_finished_turns() -> None:
    longer = exported(*RECORDS, said(40, "assistant", text("You are welcome."), message=answered("m4")))

    assert longer[:6] == exported(*RECORDS)[:6]
    assert exported(*RECORDS) == exported(*RECORDS)


def test_an_answer_divided_by_a_result_counts_its_usage_once() -> None:
    spans = exported(
        said(1, "assistant", text("Let me see."), BASH, FAILED, text("One."), message=answered("m"))
    )

    chats = [span["attributes"] for span in named(spans, "chat")]
    counts = [chat["gen_ai.usage.input_tokens"] for chat in chats if "gen_ai.usage.input_tokens" in chat]
    assert (len(chats), counts) == (2, [103])


def test_results_that_are_not_text_are_json() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    [span] = named(
        exported(
            said(1, "assistant", BASH),
            said(2, "user", {"type": "tool_result", "tool_use_id": "c1", "content": [text("Drawn."), image]}),
        ),
        "execute_tool",
    )

    assert json.loads(span["attributes"]["gen_ai.tool.call.result"]) == [text("Drawn."), image]


def test_lone_surrogates_are_replaced() -> None:
    messages = transform_messages(json.dumps(line("assistant", [text("Hi")])))

    document = to_otlp(messages, session_id="s\udfff")

    [resource] = json.loads(json.dumps(document, ensure_ascii=False).encode())["resourceSpans"]
    attributes = decoded(resource["scopeSpans"][0]["spans"][0]["attributes"])
    assert attributes["gen_ai.conversation.id"] == "s?"


def test_a_session_without_times_has_the_default_one() -> None:
    spans = exported(
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, default_time=7
    )

    assert {span["startTimeUnixNano"] for span in spans} == {"7000000"}


def test_an_empty_session_has_no_spans() -> None:
    assert exported() == []


def test_corpus_follows_the_conventions_of_spans(corpus_folder: Path) -> None:
    for path, lines in files_of(corpus_folder):
        ids = [span["spanId"] for span in spans_of(lines)]
        assert len(ids) == len({*ids}), path.name


def test_a_call_without_arguments_is_exported() -> None:
    [span] = named(
        exported(
            {"type": "tool_use", "id": "c1", "name": "wait", "input": None},
            {"type": "tool_result", "tool_use_id": "c1", "content": "Done."},
        ),
        "execute_tool",
    )

    assert "gen_ai.tool.call.arguments" not in span["attributes"]


def test_spans_keep_their_ids_when_messages_are_retracted() -> None:
    later = said(40, "assistant", text("You are welcome."), message=answered("m4"))
    whole, without_first = exported(*RECORDS, later), exported(*RECORDS[4:], later)

    assert [span["spanId"] for span in without_first] == [span["spanId"] for span in whole[4:]]


def test_the_agent_has_its_version() -> None:
    spans = exported(said(1, "user", text("Hi"), version="2.1.330"))

    assert spans[0]["attributes"]["gen_ai.agent.version"] == "2.1.330"


@pytest.mark.parametrize(
    ("limit", "value", "calls", "ends"),
    [
        ("MAX_LATE_ENDS", 2, ["c1", "c2"], [7, 8, 8]),
        ("MAX_LATE_ENDS", 1, ["c1", "c2"], [2, 8, 8]),
        ("MAX_WAITING_CALLS", 1, ["c2"], [2, 8, 8]),
        ("MAX_WAITING_CHARACTERS", 30, ["c2"], [2, 8, 8]),
    ],
)
def test_late_results_beyond_a_limit(
    limit: str, value: int, calls: list[str], ends: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, limit, value)
    results = [{"type": "tool_result", "tool_use_id": id, "content": "Late."} for id in ("c1", "c2")]
    records = (
        said(1, "user", text("First.")),
        said(2, "assistant", BASH, message=answered("m1")),
        said(3, "user", text("Second.")),
        said(4, "assistant", {**BASH, "id": "c2"}, message=answered("m2")),
        said(5, "user", text("Third.")),
        said(6, "assistant", text("Wait."), message=answered("m3")),
        said(7, "user", results[0]),
        said(8, "user", results[1]),
    )
    _, parts = streamed(transform_messages("\n".join(map(json.dumps, records))))
    spans = [{**span, "attributes": decoded(span["attributes"])} for part in parts for span in part]

    assert [span["attributes"]["gen_ai.tool.call.id"] for span in named(spans, "execute_tool")] == calls
    seconds = [int(span["endTimeUnixNano"]) // 10**9 % 60 for span in named(spans, "invoke_agent")]
    assert seconds == ends
