"""Events, sessions, rows and streams of Google ADK."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ash_shared import parse_message
from tests.shared.logs import follow, short_events, state_answers
from tests.shared.sample_files import RECORDINGS
from tests.shared.texts import texts_of
from tests.shared.transcripts import short_messages

TEXTS = [(where.partition(":")[0], text) for where, text in texts_of(RECORDINGS / "google_adk")]

BERTH = [
    ("user", [("text", "Which berth is free?")]),
    (
        "assistant",
        [("thinking", "I look at the list."), ("text", "I list the berths."), ("tool_use", "list_berths")],
    ),
    ("user", [("tool_result", "berth-2")]),
    ("assistant", [("text", "Berth 2 is free.")]),
]
DAY = [
    *BERTH,
    ("user", [("text", "Please open the gate.")]),
    ("assistant", [("tool_use", "open_gate")]),
    ("user", [("tool_result", "Gate 3 is rusty.")]),
    ("assistant", [("text", "The gate did not open: it is rusty.")]),
    ("user", [("text", "When is high water?")]),
    ("assistant", [("tool_use", "tide_reader")]),
    ("user", [("tool_result", "09:10")]),
    ("assistant", [("text", "High water is at ten past nine.")]),
    ("user", [("text", "Say something forbidden.")]),
    ("system", [("text", "SAFETY")]),
    ("user", [("text", "Nothing works.")]),
    ("system", [("text", "The model is closed today.")]),
    ("user", [("text", "Count the ropes.")]),
    ("assistant", [("tool_use", "transfer_to_agent")]),
    ("user", [("tool_result", None)]),
    ("assistant", [("tool_use", "count_ropes")]),
    ("user", [("tool_result", None)]),
    ("assistant", [("text", "There are seven ropes.")]),
]
"""The session that was recorded, without summaries."""
SUMMARY = ("system", [("text", "The user asked for a berth, a gate and the ropes: berth 2 is free.")])


def records_of(file: str, session: str = "") -> list[Any]:
    """Return the records of a recording; of a database, the rows of a session."""
    records = [json.loads(text) for name, text in TEXTS if name == file]
    return [each for each in records if not session or session in each["key"]]


def said(records: list[Any]) -> list[tuple[Any, ...]]:
    """Return the role and the content of each message; texts that a server sent in two parts are one."""
    return [(role, joined(blocks)) for role, blocks, *_ in short_messages(*records)]


def joined(blocks: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    texts = [value for kind, value in blocks if kind == "text"]
    if len(texts) == len(blocks) > 1:
        return [("text", "".join(texts))]
    return [
        (kind, "The model is closed today." if "closed" in str(value) else value) for kind, value in blocks
    ]


def more(records: list[Any], name: str) -> list[Any]:
    """Return a property of the messages that have it."""
    return [each[2][name] for each in short_messages(*records) if len(each) > 2 and name in each[2]]


@pytest.mark.parametrize(
    "records",
    [
        records_of("s-1.session.json"),
        records_of("s-1.sse.txt"),
        records_of("s-2.sse.txt"),
        records_of("api_server.sql", "s-1"),
        records_of("api_server.sql", "s-2"),
    ],
    ids=["document", "stream of fragments", "stream", "rows of s-1", "rows of s-2"],
)
def test_a_session_in_all_forms(records: list[Any]) -> None:
    """The stream also ends with the error, which the event before it has."""
    messages = [each for each in said(records) if each != SUMMARY]

    assert [each for number, each in enumerate(messages) if each != messages[number - 1]] == DAY


@pytest.mark.parametrize("file", ["s-1.sse.txt", "version_1.events.jsonl"])
def test_a_streamed_text_and_its_fragments_have_the_same_response(file: str) -> None:
    """Fragments of version 1 have no common id, so the whole text has none either."""
    responses: dict[str, set[Any]] = {"assistant_chunk": set(), "assistant_done": set()}

    for event in follow(records_of(file)):
        responses.get(event["type"], set()).add(event.get("responseId"))

    assert responses["assistant_chunk"] == responses["assistant_done"]


@pytest.mark.parametrize("session", ["s-1", "s-4"])
def test_a_session_as_document_and_as_rows(session: str) -> None:
    """Both may be imported, into the same session."""
    file = "api_server.sql" if session == "s-1" else "database_service.sql"
    document, rows = records_of(f"{session}.session.json"), records_of(file, session)

    assert said([*document, *rows]) == said([*rows, *document]) == said(document)
    prompts = [
        [each["payload"]["text"] for each in follow(records, ends=True) if each["type"] == "user_message"]
        for records in (document, rows, [*document, *rows], [*rows, *document])
    ]
    assert prompts == [prompts[0]] * 4


def test_the_error_of_a_fragment_is_no_text_of_the_answer() -> None:
    events = follow(records_of("s-1.sse.txt"), ends=True)

    streamed = [each["payload"]["text"] for each in events if each["type"] == "assistant_chunk"]

    assert "Berth 2 " in streamed
    assert "SAFETY" not in streamed


def test_agents_that_stream_at_the_same_time() -> None:
    node = {"node_info": {"path": "harbour"}}
    north, south = ({**node, "author": name, "id": name} for name in ("north", "south"))

    events = follow(
        [
            event(**north, partial=True, content=text("Two ")),
            event(**south, partial=True, content=text("No ")),
            event(**north, partial=True, content=text("ships.")),
            event(**south, content=text("No ship.")),
            event(**north, content=text("Two ships.")),
        ],
        ends=True,
    )

    assert [
        (each["type"], each["responseId"], each["payload"]["text"])
        for each in events
        if each["type"].startswith("assistant")
    ] == [
        ("assistant_chunk", "north", "Two "),
        ("assistant_chunk", "south", "No "),
        ("assistant_chunk", "north", "ships."),
        ("assistant_done", "south", "No ship."),
        ("assistant_done", "north", "Two ships."),
    ]


def counts_in(value: Any) -> tuple[int, int]:
    """Return the tokens of all answers of a session: prompts, and answers with their reasoning."""
    counts = [event.get("usageMetadata") for event in value["events"] if event.get("usageMetadata")]
    return (
        sum(each["promptTokenCount"] for each in counts),
        sum(each["candidatesTokenCount"] + each["thoughtsTokenCount"] for each in counts),
    )


@pytest.mark.parametrize("file", ["s-1.session.json", "api_server.sql"])
def test_usage_of_answers_and_compactions(file: str) -> None:
    records = records_of(file, "s-1" if file.endswith(".sql") else "")

    usages = state_answers(records, ends=True)

    prompts = sum(each.input_tokens + each.cache_read_tokens for each in usages)
    assert (prompts, sum(each.output_tokens for each in usages)) == counts_in(
        records_of("s-1.session.json")[0]
    )


EVENT: Mapping[str, Any] = {
    "id": "e1",
    "invocation_id": "i1",
    "author": "pilot",
    "actions": {"state_delta": {}},
    "timestamp": 1_772_442_000.5,
}


def event(**fields: Any) -> dict[str, Any]:
    return {**EVENT, **fields}


def text(words: str, role: str = "model") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": words}]}


@pytest.mark.parametrize(
    ("total", "output"),
    [(135, 25), (130, 20)],  # Gemini's answer excludes the reasoning, LiteLLM's includes it
)
def test_reasoning_counts_once(total: int, output: int) -> None:
    counts = {"prompt_token_count": 110, "cached_content_token_count": 100, "candidates_token_count": 20}
    usage = {**counts, "thoughts_token_count": 5, "total_token_count": total}

    assert more([event(content=text("Yes."), usage_metadata=usage)], "usage") == [(10, output, 100, 5)]


def test_fragments_are_superseded_by_the_whole_event() -> None:
    events = short_events(follow(records_of("version_1.events.jsonl")))

    assert [each[:2] for each in events if each[0] != "turn_start"][:7] == [
        ("thinking_chunk", {"text": "I look at the list."}),
        ("assistant_chunk", {"text": "I list the berths."}),
        ("thinking_done", {"text": "I look at the list."}),
        ("assistant_done", {"text": "I list the berths."}),
        ("tool_call", events[5][1]),
        ("tool_result", events[6][1]),
        ("assistant_chunk", {"text": "Berth 2 "}),
    ]


def test_an_answer_of_version_1_in_two_events_counts_once() -> None:
    records = records_of("version_1.events.jsonl")
    whole = [each for each in records if not each.get("partial")]
    document = {"id": "s", "appName": "a", "userId": "u", "state": {}, "events": whole}

    answers = [state_answers(each, ends=True) for each in (records, [document])]

    assert [sum(each.input_tokens for each in answer) for answer in answers] == [606, 606]


def test_columns_of_version_1() -> None:
    messages = said(records_of("columns.sql"))

    calls = [("assistant", BERTH[1][1][:2]), ("assistant", BERTH[1][1][2:])]
    assert messages == [
        BERTH[0],
        *calls,
        *BERTH[2:],
        ("user", [("text", "Say something forbidden.")]),
        DAY[13],
    ]


def test_a_transfer_switches_the_agent() -> None:
    switches = [
        payload
        for name, payload, *_ in short_events(follow(records_of("s-1.session.json")))
        if name == "agent_switch"
    ]

    assert switches == [{"fromAgentId": "harbour", "toAgentId": "rope_keeper"}]


def test_the_events_of_a_task_belong_to_its_call() -> None:
    rows = records_of("database_service.sql", "s-4")

    events = short_events(follow(rows))

    calls = {payload["toolName"]: payload for name, payload, *_ in events if name == "tool_call"}
    task = calls["sail_counter"]["toolCallId"]
    assert {name: call.get("parentToolCallId") for name, call in calls.items()} == {
        "sail_counter": None,
        "finish_task": task,
        "ask_master": None,
        "list_berths": None,
    }
    assert set(more(rows, "agentId")) == {"sail_counter"}


@pytest.mark.parametrize("file", ["database_service.sql", "s-4.session.json"])
def test_a_rewind_retracts_its_invocation_and_what_followed(file: str) -> None:
    messages = short_messages(*records_of(file, "s-4" if file.endswith(".sql") else ""))

    retracted = [blocks[0][1] for _, blocks, *rest in messages if rest and rest[0].get("retracted")]
    assert retracted == [
        "Which berth is free?",
        "I look at the list.",
        "berth-2",
        "Berth 2 ",
        SUMMARY[1][0][1],
    ]


def test_an_error_ends_the_turn_and_is_reported_once() -> None:
    failed = event(error_code="TideError", error_message="Too late.")
    details = {"error_type": "TideError", "error_message": "Too late.", "timestamp": 1.5}
    prompt = event(author="user", content=text("Sail!", "user"))

    events = short_events(
        follow([prompt, failed, {"error": "TideError: Too late.", "error_details": details}], ends=True)
    )

    assert [each[0] for each in events] == [
        "turn_start",
        "user_message",
        "error",
        "interrupt",
        "turn_end",
    ]


def test_words_of_a_spoken_conversation() -> None:
    asked = event(author="user", input_transcription={"text": "Is it calm?", "finished": True})
    answered = event(output_transcription={"text": "It is.", "finished": True})

    assert said([asked, answered]) == [
        ("user", [("text", "Is it calm?")]),
        ("assistant", [("text", "It is.")]),
    ]


def test_a_text_with_an_error_keeps_both() -> None:
    cut = event(content=text("Once upon"), error_code="MAX_TOKENS")

    assert short_messages(cut)[0][1:] == (
        [("text", "Once upon")],
        {"author": "pilot", "messageId": "e1", "error": "MAX_TOKENS"},
    )


@pytest.mark.parametrize(
    "record",
    [
        {**EVENT, "content": {"parts": [{"text": 3}]}},
        {**EVENT, "content": {"parts": 3}},
        {**EVENT, "content": [], "partial": True},
        {**EVENT, "actions": {"compaction": 3}},
        {**EVENT, "error_code": "E", "author": "user"},
        {"id": "s", "app_name": "a", "user_id": "u", "state": {}, "events": [3, {}, {**EVENT, "content": 3}]},
        {"table": "events", "key": [1], "columns": {"event_data": "[3]"}},
        {"table": "events", "key": [1], "columns": {"content": "{"}},
    ],
)
def test_malformed_records_give_a_result(record: dict[str, Any]) -> None:
    assert parse_message(json.dumps(record), source="google_adk").source == "google_adk"
    follow([record], source="google_adk", ends=True)
    short_messages(record, source="google_adk")


@pytest.mark.parametrize(
    ("details", "source"),
    [
        ({"error_type": "TideError", "error_message": "Too late."}, "google_adk"),
        ("Too late.", "unknown"),
        ({"code": 1}, "unknown"),
    ],
)
def test_an_error_needs_the_details_of_its_server(details: Any, source: str) -> None:
    record = {"error": "TideError: Too late.", "error_details": details}

    assert parse_message(json.dumps(record)).source == source


def test_unknown_keys_of_objects_stay_in_the_first_block() -> None:
    content = {**text("Ahoy."), "mood": "calm"}
    record = event(content=content, nodeInfo={"path": "a@1", "deck": 3})

    [block] = parse_message(json.dumps(record)).parsed

    assert block.model_dump()["extra"] == {"content": {"mood": "calm"}, "nodeInfo": {"deck": 3}}
