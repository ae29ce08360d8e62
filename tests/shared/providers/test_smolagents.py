"""Steps in the memory of agents of smolagents."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message, transform_messages
from ash_shared.parsing.parsed_text import identify
from tests.shared.logs import follow, short_events, state_answers
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_messages

FOLDER = RECORDINGS / "smolagents"
RUSTY = "Error executing tool 'open_gate' with arguments {'gate': 3}: OSError: Gate 3 is rusty."


def steps_of(file: str) -> list[Any]:
    steps: list[Any] = json.loads((FOLDER / file).read_text())
    return steps


def said(*steps: Any) -> list[tuple[Any, ...]]:
    """Return the role and the content of each message, with the first line of results."""
    return [
        (role, [(kind, str(value).partition("\nPlease")[0]) for kind, value in blocks])
        for role, blocks, *_ in short_messages(*steps)
    ]


def test_an_agent_that_calls_tools() -> None:
    steps = steps_of("tools.json")

    assert said(*steps) == [
        ("user", [("text", "Which berth is free?")]),
        ("assistant", [("text", steps[1]["plan"])]),
        ("assistant", [("tool_use", "list_berths")]),
        ("user", [("tool_result", "berth-2")]),
        ("assistant", [("tool_use", "open_gate")]),
        ("user", [("tool_result", RUSTY)]),
        ("assistant", [("tool_use", "final_answer")]),
        ("user", [("tool_result", "Berth 2 is free.")]),
    ]
    usages = state_answers(steps, ends=True)
    assert [(each.input_tokens, each.output_tokens) for each in usages] == [
        (step["token_usage"]["input_tokens"], step["token_usage"]["output_tokens"]) for step in steps[1:]
    ]


def test_an_agent_that_writes_code() -> None:
    events = short_events(follow(steps_of("code.json")))

    calls = [payload for name, payload, *_ in events if name == "tool_call"]
    assert [(call["toolName"], call["args"]) for call in calls] == [
        ("python_interpreter", "print(list_berths(size='small'))"),
        ("python_interpreter", "open_gate(3)"),
        ("python_interpreter", "final_answer('Berth 2.')"),
    ]
    results = [payload for name, payload, *_ in events if name == "tool_result"]
    assert [("error" in result, result["toolCallId"]) for result in results] == [
        (False, calls[0]["toolCallId"]),
        (True, calls[1]["toolCallId"]),
        (False, calls[2]["toolCallId"]),
    ]
    assert events[-1][:2] == ("assistant_done", {"text": "Berth 2.", "variant": "result"})


def test_a_document_of_steps() -> None:
    """The memory is written as one list."""
    [message, *_] = transform_messages((FOLDER / "code.json").read_text())

    assert (message.role, message.metadata.source) == ("user", "smolagents")


def test_a_later_version_of_a_memory_adds_its_steps() -> None:
    steps = steps_of("tools.json")
    whole = short_messages(steps)

    assert short_messages(steps[:3], steps) == whole
    assert identify(json.dumps(steps[:3]), None) == identify(json.dumps(steps), None)
    assert identify(json.dumps(steps), None).record is not None
    calls = [
        payload["toolName"]
        for name, payload, *_ in short_events(follow([steps[:3], steps]))
        if name == "tool_call"
    ]
    assert calls == ["list_berths", "open_gate", "final_answer"]


def action(**fields: Any) -> dict[str, Any]:
    step = {"step_number": 1, "timing": {"start_time": 1_772_442_000.5}, "tool_calls": [], "error": None}
    return {**step, "model_output": None, "observations": None, **fields}


def test_an_error_without_a_call() -> None:
    failed = {"type": "AgentParsingError", "message": "No code."}

    assert short_messages(action(model_output=[{"type": "text", "text": "Hm."}], error=failed)) == [
        ("assistant", [("text", "Hm.")]),
        ("system", [("text", "No code.")], {"error": "AgentParsingError"}),
    ]


@pytest.mark.parametrize(
    "step",
    [
        {"task": 3, "task_images": None},
        {"plan": 3, "timing": {}},
        action(tool_calls=[3, {"id": "a", "function": 3}]),
        action(model_output=3),
        action(model_output=[3]),
        action(tool_calls=3, model_output_message={"tool_calls": [{"function": {"name": "a"}}]}, error="E"),
    ],
)
def test_malformed_steps_give_a_result(step: dict[str, Any]) -> None:
    memory = [step, {"task": "Sail.", "task_images": None}]
    for record in (step, memory):
        assert parse_message(json.dumps(record), source="smolagents").source == "smolagents"
        describe_message(json.dumps(record), source="smolagents")
        follow([record], source="smolagents", ends=True)
        short_messages(record, source="smolagents")
