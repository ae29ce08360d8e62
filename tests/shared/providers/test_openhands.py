"""Conversations of OpenHands."""

from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.logs import follow, short_events
from tests.shared.transcripts import lines, short_messages

TIME = "2026-01-02T03:04:05.250000"


def event(id: str, kind: str, source: str = "agent", **fields: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": TIME, "source": source, "kind": kind, **fields}


def text(words: str) -> dict[str, Any]:
    return {"cache_prompt": False, "type": "text", "text": words}


def said(id: str, role: str, words: str, source: str = "agent", **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [text(words)], "thinking_blocks": []}
    return event(id, "MessageEvent", source, llm_message=message, **more)


def called(id: str, call: str, answer: str, **more: Any) -> dict[str, Any]:
    return event(
        id,
        "ActionEvent",
        action={"command": "count", "kind": "TerminalAction"},
        tool_name="terminal",
        tool_call_id=call,
        tool_call={"id": call, "name": "terminal", "arguments": '{"command": "count"}'},
        llm_response_id=answer,
        **more,
    )


def observed(id: str, call: str, words: str, **more: Any) -> dict[str, Any]:
    observation = {"content": [text(words)], "is_error": False, "exit_code": 0, **more}
    return event(id, "ObservationEvent", "environment", tool_call_id=call, observation=observation)


def state(*usages: Any) -> dict[str, Any]:
    return {
        "id": "s1",
        "agent": {"llm": {"model": "reef-1"}},
        "workspace": {"working_dir": "/home/ada/tern"},
        "persistence_dir": "/home/ada/.openhands",
        "execution_status": "finished",
        "stats": {"usage_to_metrics": {"agent": {"token_usages": [*usages]}}},
    }


def counts(answer: str) -> dict[str, Any]:
    return {
        "model": "reef-1",
        "prompt_tokens": 120,
        "completion_tokens": 9,
        "cache_read_tokens": 100,
        "reasoning_tokens": 4,
        "response_id": answer,
    }


EVENTS = [
    event("e0", "SystemPromptEvent", system_prompt=text("You tie knots."), tools=[]),
    said("e1", "user", "How many?", "user"),
    called("e2", "c1", "a1", thought=[text("I count.")], reasoning_content="Look."),
    called("e3", "c2", "a1"),
    observed("e4", "c1", "7"),
    event("e5", "AgentErrorEvent", tool_call_id="c2", tool_name="terminal", error="No such tool."),
    said("e6", "assistant", "Seven.", llm_response_id="a2"),
    event("e7", "Condensation", summary="Knots were counted.", forgotten_event_ids=["e1"]),
]


def test_messages_of_a_conversation() -> None:
    answered = {"messageId": "a1", "model": "reef-1", "usage": (20, 9, 100, 4)}

    assert short_messages(*EVENTS, state(counts("a1"))) == [
        ("system", [("text", "You tie knots.")]),
        ("user", [("text", "How many?")]),
        (
            "assistant",
            [("thinking", "Look."), ("text", "I count."), ("tool_use", "terminal"), ("tool_use", "terminal")],
            answered,
        ),
        ("user", [("tool_result", "7")]),
        ("user", [("tool_result", "No such tool.")]),
        ("assistant", [("text", "Seven.")], {"messageId": "a2"}),
        ("system", [("text", "Knots were counted.")]),
    ]


def test_a_later_state_counts_new_answers_once() -> None:
    messages = short_messages(*EVENTS, state(counts("a1")), state(counts("a1"), counts("a2")))

    assert [more["usage"] for *_, more in messages if isinstance(more, dict)] == [(20, 9, 100, 4)] * 2


def test_errors() -> None:
    failed = event("e2", "ConversationErrorEvent", "environment", code="TideError", detail="Too late.")

    assert short_messages(EVENTS[1], failed)[1] == ("system", [("text", "Too late.")], {"error": "TideError"})
    assert ("error", {"code": "TideError", "message": "Too late."}) in short_events(
        follow([EVENTS[1], failed])
    )


def test_usage_of_a_failed_turn_counts() -> None:
    """The state, which has the usage, is the last document."""
    failed = event("e4", "ConversationErrorEvent", "environment", code="TideError", detail="Too late.")
    prompt = said("e9", "user", "How many now?", "user")

    events = follow([*EVENTS[1:3], failed, state(counts("a1")), prompt])

    [usage] = [each["payload"]["usage"] for each in events if each["type"] == "turn_end"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 9)


@pytest.mark.parametrize("record", [*EVENTS, state()])
def test_records_are_recognized(record: Any) -> None:
    assert parse_message(lines(record)[0]).source == "openhands"


def test_names_of_a_conversation() -> None:
    header = describe_message(lines(state())[0]).header

    assert (header.session_id, header.model, header.folder) == ("s1", "reef-1", "/home/ada/tern")
