"""Events of trajectories in ATIF."""

from typing import Any

import pytest

from ash_shared.eventlog.state import MAX_SECTIONS
from ash_shared.projections.session_summary import to_session_summary
from tests.marking import slow_after
from tests.shared.logs import follow, short_events, state_answers
from tests.shared.records.atif import CALL, WITH_SUBAGENT, observed, result, step, trajectory

TURN = ("turn_start", {"trigger": "user"})
PROMPT = ("user_message", {"text": "How many?"})
CALLED = ("tool_call", {"toolCallId": "c1", "toolName": "count", "args": {"what": "knots"}})
USAGE = {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29, "cache_read_input_tokens": 100}
METRICS = {"prompt_tokens": 120, "completion_tokens": 9, "cached_tokens": 100, "cost_usd": 0.25}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            trajectory(
                step("system", "You tie knots."),
                step("user", "How many?"),
                step(
                    "agent",
                    "I count.",
                    reasoning_content="Look.",
                    tool_calls=[CALL],
                    observation=observed(result("7")),
                    metrics=METRICS,
                ),
            ),
            [
                ("system_message", {"text": "You tie knots."}),
                TURN,
                PROMPT,
                ("thinking_done", {"text": "Look."}),
                ("assistant_done", {"text": "I count."}),
                CALLED,
                ("tool_result", {"toolCallId": "c1", "result": "7"}),
                ("turn_end", {"usage": {**USAGE, "vendor": METRICS}, "costUsd": 0.25}),
            ],
            id="a turn",
        ),
        pytest.param(
            trajectory(
                step("user", "How many?"),
                step(
                    "system",
                    "Compacted.",
                    extra={"context_management": {"type": "compaction"}},
                    observation=observed(result("12 messages became 1", None)),
                ),
            ),
            [
                TURN,
                PROMPT,
                ("system_message", {"text": "Compacted.", "variant": "compact_boundary"}),
                ("system_message", {"text": "12 messages became 1", "variant": "notice"}),
                ("turn_end", {}),
            ],
            id="a compaction",
        ),
        pytest.param(
            trajectory(
                step(
                    "agent",
                    "",
                    tool_calls=[CALL],
                    llm_call_count=0,
                    observation=observed(result("7")),
                )
            ),
            [
                ("turn_start", {"trigger": "system"}),
                (CALLED[0], {**CALLED[1], "executor": "host"}),
                ("tool_result", {"toolCallId": "c1", "result": "7"}),
                ("turn_end", {}),
            ],
            id="calls of the program",
        ),
        pytest.param(
            trajectory(
                step("user", "How many?", is_copied_context=True),
                step("agent", "Six.", is_copied_context=True, metrics=METRICS),
                step("user", "And now?", is_copied_context=True),
                step("agent", "Seven.", metrics=METRICS),
                trajectory_id="t1",
                continued_trajectory_ref="trajectory.cont-2.json",
            ),
            [
                ("user_message", {"text": "How many?", "synthetic": True}),
                ("turn_start", {"trigger": "system"}),
                ("assistant_done", {"text": "Six."}, "t1/2"),
                ("user_message", {"text": "And now?", "synthetic": True}),
                ("assistant_done", {"text": "Seven."}, "t1/4"),
                ("system_message", {"text": "Continued in trajectory.cont-2.json", "variant": "notice"}),
                ("turn_end", {"usage": {**USAGE, "vendor": METRICS}, "costUsd": 0.25}),
            ],
            id="copied steps and a continuation",
        ),
    ],
)
def test_events(document: Any, expected: Any) -> None:
    assert short_events(follow([document])) == expected


def test_a_later_version_of_a_document_supersedes_what_has_changed() -> None:
    """Usage is counted once, and 60 steps that are the same add nothing."""

    def version(answer: str, count: str, *more: Any) -> Any:
        called = step("agent", "I count.", tool_calls=[CALL], observation=observed(result(count)))
        same = [step("agent", f"Knot {number}.") for number in range(60)]
        steps = [step("user", "How many?"), called, *same, step("agent", answer, metrics=METRICS), *more]
        return trajectory(*steps, trajectory_id="t1")

    first = version("Six.", "6")
    second = version("Seven.", "7", step("user", "Thanks."))

    log = follow([first, second])

    events = short_events(log)
    known = short_events(follow([first]))
    ids = {event["payload"].get("text", event["payload"].get("result")): event["id"] for event in log}
    assert events[: len(known)] == known
    assert events[len(known) :] == [
        ("retraction", {"eventIds": [ids["6"]], "reason": "superseded"}),
        ("tool_result", {"toolCallId": "c1", "result": "7"}),
        ("retraction", {"eventIds": [ids["Six."]], "reason": "superseded"}),
        ("assistant_done", {"text": "Seven."}, "t1/63"),
        TURN,
        ("user_message", {"text": "Thanks."}),
        ("turn_end", {}),
    ]


@pytest.mark.parametrize("length", slow_after(1, [1, MAX_SECTIONS]))
def test_an_answer_of_a_later_version_continues_the_turn(length: int) -> None:
    """However long the document is, each of its steps is emitted and counted once."""
    answers = [step("agent", f"Knot {number}.", metrics=METRICS) for number in range(length + 2)]
    versions = [
        trajectory(step("user", "How many?"), *answers[: length + more], trajectory_id="t1")
        for more in range(3)
    ]

    log = follow(versions)

    known, whole = follow(versions[:1]), to_session_summary(follow(versions[2:]))
    summary = to_session_summary(log)
    assert short_events(log[len(known) :]) == [
        event
        for number in (length, length + 1)
        for event in [
            ("turn_start", {"trigger": "system"}),
            ("assistant_done", {"text": f"Knot {number}."}, f"t1/{number + 2}"),
            ("turn_end", {"usage": {**USAGE, "vendor": METRICS}, "costUsd": 0.25}),
        ]
    ]
    assert {event["turnId"] for event in log} == {"1/0"}
    assert (summary.turns, summary.usage, summary.cost_usd) == (1, whole.usage, whole.cost_usd)
    assert [each.cause for each in state_answers(versions)] == ["person"] * (length + 2)


def test_usage_that_only_a_later_version_states_counts() -> None:
    versions = [
        trajectory(step("user", "How many?"), step("agent", "Seven.", **metrics), trajectory_id="t1")
        for metrics in ({}, {"metrics": METRICS}, {"metrics": METRICS, "extra": {"seen": True}})
    ]

    summary = to_session_summary(follow(versions))

    assert summary.usage is not None
    assert (summary.turns, summary.usage.input_tokens, summary.cost_usd) == (1, 20, 0.25)
    assert [each.input_tokens for each in state_answers(versions)] == [20]


def test_changed_usage_of_a_step_counts_once() -> None:
    def version(tokens: int, *more: Any) -> Any:
        answer = step("agent", "Seven.", metrics={**METRICS, "prompt_tokens": tokens})
        return trajectory(step("user", "How many?"), answer, *more, trajectory_id="t1")

    summary = to_session_summary(follow([version(120), version(150, step("agent", "Or eight."))]))

    assert summary.usage is not None
    assert (summary.turns, summary.usage.input_tokens, summary.cost_usd) == (1, 50, 0.25)


def test_a_changed_answer_takes_the_result_of_its_call_along() -> None:
    def version(text: str) -> Any:
        called = step("agent", text, tool_calls=[CALL], observation=observed(result("7")))
        return trajectory(step("user", "How many?"), called, trajectory_id="t1")

    log = follow([version("I count."), version("I look.")])

    ids = {event["payload"].get("text", event["payload"].get("result")): event["id"] for event in log}
    superseded = [event["id"] for event in log if event["payload"].get("text") == "I count."]
    first_result = next(event["id"] for event in log if event["type"] == "tool_result")
    assert short_events(log)[-3:] == [
        ("retraction", {"eventIds": [*superseded, first_result], "reason": "superseded"}),
        ("assistant_done", {"text": "I look."}, "t1/2"),
        ("tool_result", {"toolCallId": "c1", "result": "7"}),
    ]
    assert ids["7"] != first_result
    assert {event.get("turnId") for event in log[-2:]} == {log[0].get("turnId")}


def test_the_result_of_a_call_states_the_trajectory_of_its_subagent() -> None:
    results = [event["payload"] for event in follow([WITH_SUBAGENT]) if event["type"] == "tool_result"]

    assert results == [{"toolCallId": "c1", "result": "Seven.", "agentId": "sub-a"}]
