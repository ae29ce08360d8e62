"""Relations are decided once: standard messages and events of the same lines agree."""

import json
from collections.abc import Sequence
from typing import Any

from ash_shared import transform_messages
from ash_shared.model.message import StandardMessage
from ash_shared.model.usage.answers import last_values
from tests.shared.logs import follow, state_answers
from tests.shared.records import claude, codex


def messages_of(records: Sequence[Any], source: str | None = None) -> list[StandardMessage]:
    return transform_messages([json.dumps(record) for record in records], source)


def codex_turn(prompt: str, answer: str) -> list[dict[str, Any]]:
    return [
        codex.event("task_started"),
        codex.event("user_message", message=prompt),
        codex.message_item("assistant", answer),
        codex.event("task_complete", last_agent_message=None),
    ]


def test_rollback_retracts_the_last_turns() -> None:
    turns = [*codex_turn("One", "First."), *codex_turn("Two", "Second."), *codex_turn("Three", "Third.")]
    rollback = codex.event("thread_rolled_back", num_turns=2)

    messages = messages_of([*turns, rollback, *codex_turn("Four", "Fourth.")])

    assert [
        (message.content[0].text, message.metadata.retracted is True)
        for message in messages
        if message.content[0].type == "text"
    ] == [
        ("One", False),
        ("First.", False),
        ("Two", True),
        ("Second.", True),
        ("Three", True),
        ("Third.", True),
        ("Four", False),
        ("Fourth.", False),
    ]


def test_second_rollback_counts_turns_that_stand() -> None:
    rollback = codex.event("thread_rolled_back", num_turns=1)
    turns = [*codex_turn("One", "First."), *codex_turn("Two", "Second."), *codex_turn("Three", "Third.")]

    messages = messages_of([*turns, rollback, rollback])

    assert [message.metadata.retracted is True for message in messages] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]


def test_rewind_is_no_record_of_the_message_that_it_retracts() -> None:
    answer = {"id": "4", "timestamp": "2026-01-01T00:00:00Z", "type": "gemini", "content": "Second."}

    (message,) = messages_of([answer, {"$rewindTo": "4"}], "gemini_cli")

    assert message.metadata.retracted
    assert message.model_dump()["_original"] == [answer]


def result(session: str, total: float) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    outcome = {"type": "result", "subtype": "success", "is_error": False, "result": "Hi."}
    return {**outcome, "session_id": session, "total_cost_usd": total, "usage": usage}


def answer(id: str, session: str = "s") -> dict[str, Any]:
    return claude.line(
        "assistant",
        [claude.text(f"{id}.")],
        {"id": id, "type": "message"},
        session_id=session,
        parent_tool_use_id=None,
    )


def stated_costs(records: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return the costs of messages, and the costs of turns."""
    ends = [event["payload"].get("costUsd") for event in follow(records) if event["type"] == "turn_end"]
    return [message.metadata.cost_usd for message in messages_of(records) if message.metadata.cost_usd], ends


def test_a_lower_total_cost_is_from_a_restarted_client() -> None:
    records = [answer("a"), result("s", 0.5), answer("b"), result("s", 0.25)]

    assert stated_costs(records) == ([0.5, 0.25], [0.5, 0.25])


def test_total_costs_are_those_of_each_session() -> None:
    records = [
        answer("a"),
        result("s", 0.5),
        answer("b", "t"),
        result("t", 0.25),
        answer("c"),
        result("s", 0.75),
    ]

    assert stated_costs(records) == ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25])


def token_count(last: int, total: int) -> dict[str, Any]:
    counts = {"cached_input_tokens": 0, "output_tokens": 1, "reasoning_output_tokens": 0}
    usages = ({"input_tokens": each, **counts, "total_tokens": each + 1} for each in (total, last))
    return codex.token_count(*usages)


def test_usage_counts_once_although_other_usage_came_between() -> None:
    counts = [token_count(10, 10), token_count(20, 30)]
    first, second = codex_turn("Go", "Gone."), codex_turn("Again", "Gone again.")
    records = [*first[:-1], *counts, first[-1], *second[:-1], *counts, second[-1]]

    assert sum(value.input_tokens for value in last_values(state_answers(records, ends=True))) == 30


def test_late_usage_completes_the_counts_of_its_answer() -> None:
    line = answer("a")
    line["message"]["usage"] = {"input_tokens": 6, "output_tokens": 1}
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}

    (message,) = messages_of([line, {"type": "stream_event", "event": delta, "session_id": "s"}])

    assert [block.type for block in message.content] == ["text"]
    assert message.usage is not None
    assert (message.usage.input_tokens, message.usage.output_tokens, message.usage.total_tokens) == (6, 9, 15)


def test_answers_of_two_turns_are_two_messages() -> None:
    messages = messages_of([*codex_turn("One", "First."), *codex_turn("Two", "Second.")])

    assert [len(message.content) for message in messages] == [1, 1, 1, 1]
