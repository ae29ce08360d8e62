"""Trajectories in ATIF, for tests of their messages, events and imports."""

from typing import Any

Doc = dict[str, Any]

CALL: Doc = {"tool_call_id": "c1", "function_name": "count", "arguments": {"what": "knots"}}
METRICS: Doc = {
    "prompt_tokens": 120,
    "completion_tokens": 9,
    "cached_tokens": 100,
    "cost_usd": 0.25,
    "logprobs": [-0.5],
    "extra": {"cache_creation_input_tokens": 5, "reasoning_tokens": 4},
}


def trajectory(*steps: Doc, version: str = "ATIF-v1.7", **fields: Any) -> Doc:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    agent = {"name": "heron", "version": "1.4", "model_name": "m-large"}
    return {"schema_version": version, "session_id": "run-1", "agent": agent, **fields, "steps": numbered}


def step(source: str, message: Any, **fields: Any) -> Doc:
    return {"source": source, "message": message, **fields}


def observed(*results: Doc) -> Doc:
    return {"results": list(results)}


def result(content: Any, call: str | None = "c1", **fields: Any) -> Doc:
    return {"source_call_id": call, "content": content, **fields}


SUBAGENT = {
    "schema_version": "ATIF-v1.7",
    "trajectory_id": "sub-a",
    "agent": {"name": "wren", "version": "2", "model_name": "m-small"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "Count the knots.", "timestamp": "2026-10-02T09:00:02Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "Seven.",
            "metrics": {"prompt_tokens": 30, "completion_tokens": 2},
        },
    ],
}
WITH_SUBAGENT = trajectory(
    step("user", "How many knots?", timestamp="2026-10-02T09:00:01Z"),
    step(
        "agent",
        "I ask.",
        tool_calls=[CALL],
        observation=observed(result("Seven.", subagent_trajectory_ref=[{"trajectory_id": "sub-a"}])),
        metrics={"prompt_tokens": 120, "completion_tokens": 9},
    ),
    trajectory_id="root-1",
    subagent_trajectories=[SUBAGENT],
)
