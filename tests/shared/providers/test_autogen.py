"""Messages, results and states of AutoGen."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from tests.shared.logs import follow, short_events, state_answers
from tests.shared.sample_files import RECORDINGS
from tests.shared.texts import texts_of
from tests.shared.transcripts import short_messages

TEXTS = [(where.partition(":")[0], text) for where, text in texts_of(RECORDINGS / "autogen")]


def records_of(file: str) -> list[Any]:
    return [json.loads(text) for name, text in TEXTS if name == file]


def said(*records: Any) -> list[tuple[Any, ...]]:
    """Return the author or the role of each message, and its content."""
    return [
        ((more[0] if more else {}).get("author", role), blocks)
        for role, blocks, *more in short_messages(*records)
    ]


TEAM = [
    ("user", [("text", "Which berth is free? Open the gate, too.")]),
    ("harbour", [("thinking", "I look at the list.")]),
    ("harbour", [("tool_use", "list_berths")]),
    ("harbour", [("tool_result", "berth-2")]),
    ("harbour", [("text", "Berth 2 is free.")]),
    ("rope_keeper", [("text", "There are seven ropes.")]),
    ("harbour", [("tool_use", "open_gate")]),
    ("harbour", [("tool_result", "Gate 3 is rusty.")]),
    ("harbour", [("text", "The gate did not open. DONE")]),
]


@pytest.mark.parametrize("file", ["team.messages.jsonl", "team.state.json"])
def test_a_team_in_its_stream_and_its_state(file: str) -> None:
    """The stream ends with the result, which repeats all messages."""
    records = records_of(file)

    assert said(*records) == TEAM
    assert said(records[-1]) == TEAM
    assert sum(each.input_tokens for each in state_answers(records, ends=True)) == 201 + 12 + 205 + 203 + 204


def test_events_of_a_team() -> None:
    events = short_events(follow(records_of("team.messages.jsonl")))

    assert [(name, payload.get("text")) for name, payload, *_ in events if name.startswith("assistant")] == [
        *(("assistant_chunk", text) for text in ("Berth ", "2 ", "is ", "free.")),
        ("assistant_done", "Berth 2 is free."),
        ("assistant_done", "There are seven ropes."),
        ("assistant_done", "The gate did not open. DONE"),
    ]
    assert [payload["toAgentId"] for name, payload, *_ in events if name == "agent_switch"] == [
        "rope_keeper",
        "harbour",
    ]
    assert [payload["error"]["message"] for name, payload, *_ in events if "error" in payload] == [
        "Gate 3 is rusty."
    ]


def test_streamed_text_has_the_id_of_its_message() -> None:
    events = follow(records_of("team.messages.jsonl"))

    streamed = {event["responseId"] for event in events if event["type"] == "assistant_chunk"}

    assert streamed == {
        event["responseId"] for event in events if event["payload"].get("text") == "Berth 2 is free."
    }


def test_the_context_of_an_agent() -> None:
    others = [each for each in TEAM if each[0] != "harbour"]

    messages = said(*records_of("agent.state.json"))

    assert messages[:2] == [TEAM[0], ("harbour", [*TEAM[1][1], *TEAM[2][1]])]
    assert [each for each in messages if each in others] == others


def test_a_swarm_hands_over() -> None:
    transferred = "Transferred to counter, adopting the role of counter immediately."

    assert said(*records_of("swarm.result.json")) == [
        ("user", [("text", "Count the sails.")]),
        ("guide", [("tool_use", "transfer_to_counter")]),
        ("guide", [("tool_result", transferred)]),
        ("guide", [("text", transferred)]),
        ("counter", [("text", "Four sails.")]),
        ("counter", [("text", "Four.")]),
    ]


def message(type: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    envelope: dict[str, Any] = {
        "id": "m1",
        "source": "pilot",
        "models_usage": None,
        "metadata": {},
        "type": type,
    }
    return {
        **envelope,
        "created_at": "2026-03-02T09:00:00Z",
        **fields,
        **({} if content is None else {"content": content}),
    }


@pytest.mark.parametrize(
    ("record", "blocks"),
    [
        (
            message("MultiModalMessage", ["See:", {"data": "aGk="}]),
            [("text", "See:"), ("image", {"type": "base64", "media_type": "image/png", "data": "aGk="})],
        ),
        (message("StructuredMessage[Tide]", {"high": 9}), [("text", '{"high":9}')]),
        (message("CodeGenerationEvent", "```py```", code_blocks=[], retry_attempt=0), [("text", "```py```")]),
        (
            message("CodeExecutionEvent", result={"exit_code": 1, "output": "Too late."}, retry_attempt=0),
            [("tool_result", "Too late.")],
        ),
        (message("ToolCallSummaryMessage", "berth-2", tool_calls=[], results=[]), [("text", "berth-2")]),
    ],
)
def test_other_messages(record: dict[str, Any], blocks: list[Any]) -> None:
    assert [each[1] for each in short_messages(record)] == [blocks]


@pytest.mark.parametrize(
    ("type", "content"),
    [
        ("MultiModalMessage", ["See:"]),
        ("TextMessage", "See:"),
        ("ToolCallExecutionEvent", [{"call_id": "c", "content": "b", "name": "n", "is_error": False}]),
        ("ToolCallRequestEvent", [{"id": "c", "name": "n", "arguments": "{}"}]),
    ],
)
def test_unknown_values_stay_with_the_first_block(type: str, content: Any) -> None:
    [block] = parse_message(json.dumps(message(type, content, harbour="north"))).parsed

    assert block.extra is not None
    assert block.extra["harbour"] == "north"


@pytest.mark.parametrize(
    "record",
    [
        message("TextMessage", 3),
        message("MultiModalMessage", 3),
        message("ToolCallRequestEvent", [{"name": "a"}, 3]),
        message("ModelClientStreamingChunkEvent", 3),
        message("CodeExecutionEvent", result=3),
        {"messages": [3, {"type": "TextMessage"}], "stop_reason": None},
        {"type": "TeamState", "agent_states": {"a": 3}},
        {"type": "AssistantAgentState", "llm_context": {"messages": [3, {"type": "UserMessage"}]}},
    ],
)
def test_malformed_records_give_a_result(record: dict[str, Any]) -> None:
    assert parse_message(json.dumps(record), source="autogen").source == "autogen"
    follow([record], source="autogen", ends=True)
    short_messages(record, source="autogen")


@pytest.mark.parametrize("content", ["Ahoy.", ["Ahoy."]])
def test_metadata_stays_in_the_first_block(content: Any) -> None:
    name = "TextMessage" if isinstance(content, str) else "MultiModalMessage"

    [block] = parse_message(json.dumps(message(name, content, metadata={"mood": "calm"}))).parsed

    assert block.model_dump()["extra"] == {"metadata": {"mood": "calm"}}
