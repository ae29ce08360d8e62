"""Sessions, graphs and snapshots of Strands Agents."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.logs import follow, short_events, state_answers
from tests.shared.sample_files import RECORDINGS
from tests.shared.texts import texts_of
from tests.shared.transcripts import short_messages

TEXTS = [(where.partition(":")[0], text) for where, text in texts_of(RECORDINGS / "strands")]
SUMMARY = ("system", [("text", "The user asked for a berth: berth 2 is free.")])


def records_of(file: str) -> list[Any]:
    return [json.loads(text) for name, text in TEXTS if name == file]


def said(*records: Any) -> list[tuple[Any, ...]]:
    """Return the role and the content of each message, with the text of results."""
    return [(role, [shown(*block) for block in blocks]) for role, blocks, *_ in short_messages(*records)]


def shown(kind: str, value: Any) -> tuple[str, Any]:
    return (kind, value[0]["text"]) if kind == "tool_result" and isinstance(value, list) else (kind, value)


LAST = [
    ("user", [("text", "Let another agent count the ropes.")]),
    ("assistant", [("tool_use", "rope_counter")]),
    ("user", [("tool_result", "Seven ropes.\n")]),
    ("assistant", [("text", "There are seven.")]),
    ("user", [("text", "Are the sails dry?")]),
    ("assistant", [("text", "Yes.")]),
]


def test_messages_of_an_agent() -> None:
    """The state of the agent, with the summary, is the first file of the recording."""
    records = records_of("s-1.bundle.jsonl")

    assert said(*records) == [
        SUMMARY,
        ("user", [("text", "Which berth is free?")]),
        (
            "assistant",
            [
                ("thinking", "I look at the list."),
                ("text", "I list the berths."),
                ("tool_use", "list_berths"),
            ],
        ),
        ("user", [("tool_result", "berth-2")]),
        ("assistant", [("text", "Berth 2 is free.")]),
        ("user", [("text", "Please open the gate.")]),
        ("assistant", [("tool_use", "open_gate")]),
        ("user", [("tool_result", "Error: OSError - Gate 3 is rusty.")]),
        ("assistant", [("text", "The gate did not open: it is rusty.")]),
        *LAST,
    ]
    [failed] = [
        each for name, each, *_ in short_events(follow(records)) if name == "tool_result" and "error" in each
    ]
    assert failed["error"]["message"] == "Error: OSError - Gate 3 is rusty."


def test_usage_of_each_answer() -> None:
    counts = [
        record["message"]["metadata"]["usage"]
        for record in records_of("s-1.bundle.jsonl")
        if record.get("message", {}).get("metadata")
    ]

    answers = state_answers(records_of("s-1.bundle.jsonl"), ends=True)

    assert [(each.input_tokens, each.output_tokens, each.cache_read_tokens) for each in answers] == [
        (each["inputTokens"], each["outputTokens"], 1000) for each in counts
    ]


def test_a_snapshot_has_the_summary_in_its_place() -> None:
    assert said(*records_of("s-1.snapshot.json")) == [
        SUMMARY,
        ("assistant", [("text", "The gate did not open: it is rusty.")]),
        *LAST,
    ]


def test_titles_of_documents_are_prompts() -> None:
    [snapshot] = records_of("s-1.snapshot.json")
    graph = {"type": "graph", "current_task": "Watch the harbour.", "node_results": {}}

    prompts = [describe_message(json.dumps(each)).prompt for each in (snapshot, graph)]

    assert prompts == ["Let another agent count the ropes.", "Watch the harbour."]


def test_a_later_snapshot_adds_its_messages() -> None:
    [later] = records_of("s-1.snapshot.json")
    earlier = {**later, "data": {**later["data"], "messages": later["data"]["messages"][:3]}}

    assert said(earlier, later) == said(later)
    events = [short_events(follow(each, ends=True)) for each in ([earlier, later], [later])]
    assert [[name for name, *_ in each if name == "user_message"] for each in events] == [
        ["user_message"] * 2
    ] * 2


def test_last_answers_of_a_graph() -> None:
    answered = {"stop_reason": "end_turn"}

    assert short_messages(*records_of("s-2.bundle.jsonl")) == [
        ("user", [("text", "Watch the harbour.")]),
        (
            "assistant",
            [("text", "I see two ships.")],
            {**answered, "author": "north", "usage": (210, 30, 1000, None)},
        ),
        (
            "assistant",
            [("text", "I see two ships.")],
            {**answered, "author": "south", "usage": (211, 31, 1000, None)},
        ),
    ]


TIMES = {"created_at": "2026-03-02T09:00:00+00:00", "updated_at": "2026-03-02T09:00:00+00:00"}


def message(number: int, role: str, *content: Any, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": role, "content": [*content]}, "message_id": number, **TIMES, **fields}


@pytest.mark.parametrize(("total", "input"), [(120, 10), (220, 110)])  # OpenAI's input includes cached tokens
def test_cached_tokens_count_once(total: int, input: int) -> None:
    counts = {"inputTokens": 110, "outputTokens": 10, "totalTokens": total, "cacheReadInputTokens": 100}
    answer = message(0, "assistant", {"text": "Yes."})
    answer["message"]["metadata"] = {"usage": counts}

    assert short_messages(answer)[0][2]["usage"] == (input, 10, 100, None)


def test_nodes_that_failed_or_are_graphs() -> None:
    done = {"type": "agent_result", "message": {"role": "assistant", "content": [{"text": "Calm."}]}}
    inner = {"type": "multiagent_result", "results": {"wind": {"result": done}}}
    failed = {"type": "exception", "message": "Too dark."}
    run = {
        "type": "swarm",
        "id": "s",
        "current_task": [{"text": "Look."}],
        "node_results": {"night": {"result": failed}, "day": {"result": inner}},
    }

    assert short_messages(run) == [
        ("user", [("text", "Look.")]),
        ("system", [("text", "Too dark.")], {"error": "exception"}),
        ("assistant", [("text", "Calm.")], {"author": "wind"}),
    ]


def test_a_guardrail_replaces_a_message() -> None:
    original = message(0, "user", {"text": "Tell me the code."}, redact_message=None)
    replaced = {**original, "redact_message": {"role": "user", "content": [{"text": "[removed]"}]}}

    assert said(original, replaced) == [("user", [("text", "Tell me the code."), ("text", "[removed]")])]


def test_bytes_of_an_image() -> None:
    data = {"__bytes_encoded__": True, "data": "aGk="}
    image = {"image": {"format": "png", "source": {"bytes": data}}}

    assert short_messages(message(0, "user", image)) == [
        ("user", [("image", {"type": "base64", "media_type": "image/png", "data": "aGk="})])
    ]


@pytest.mark.parametrize(
    "record",
    [
        {"message": {"role": "user", "content": 3}, "message_id": 0},
        {"message": {"role": "pilot", "content": []}, "message_id": 0},
        {"message": 3},
        {"scope": "agent", "data": {"messages": [3, {"role": "user"}]}},
        {"scope": "agent", "data": 3},
        {"node_results": {"a": 3, "b": {"result": {"message": 3}}}, "current_task": 3},
        {"conversation_manager_state": 3},
    ],
)
def test_malformed_records_give_a_result(record: dict[str, Any]) -> None:
    assert parse_message(json.dumps(record), source="strands").source == "strands"
    follow([record], source="strands", ends=True)
    short_messages(record, source="strands")


def test_unknown_metadata_stays_in_the_first_block() -> None:
    record = message(1, "user", {"text": "Ahoy."})
    record["message"]["metadata"] = {"metrics": {"latencyMs": 5}, "mood": "calm"}

    [block] = parse_message(json.dumps(record)).parsed

    assert block.model_dump()["extra"] == {"metadata": {"mood": "calm"}}
