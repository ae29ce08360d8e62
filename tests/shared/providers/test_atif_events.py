"""Events of trajectories in ATIF."""

from typing import Any

import pytest

from tests.shared.logs import follow, short_events
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
    ],
)
def test_events(document: Any, expected: Any) -> None:
    assert short_events(follow([document])) == expected


def test_the_result_of_a_call_states_the_trajectory_of_its_subagent() -> None:
    results = [event["payload"] for event in follow([WITH_SUBAGENT]) if event["type"] == "tool_result"]

    assert results == [{"toolCallId": "c1", "result": "Seven.", "agentId": "sub-a"}]
