"""Standard messages and headers of trajectories in ATIF."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, transform_messages
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.parsing.parsed_text import identify
from ash_shared.providers.atif import header
from tests.shared.records.atif import CALL, METRICS, WITH_SUBAGENT, observed, result, step, trajectory
from tests.shared.sample_files import CORPUS_NEXT
from tests.shared.transcripts import short_messages

MODEL = {"model": "m-large"}
COPIED = {"inherited": True}
CALLED = ("assistant", [("tool_use", "count")], MODEL)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(
            trajectory(step("system", "You tie knots."), step("user", "How many?"), version="ATIF-v1.0"),
            [("system", [("text", "You tie knots.")]), ("user", [("text", "How many?")])],
            id="system and user",
        ),
        pytest.param(
            trajectory(
                step(
                    "agent",
                    "I count.",
                    model_name="m-small",
                    reasoning_content="Look.",
                    tool_calls=[CALL],
                    observation=observed(result("7"), result("the wind rises", None)),
                    metrics=METRICS,
                )
            ),
            [
                (
                    "assistant",
                    [("thinking", "Look."), ("text", "I count."), ("tool_use", "count")],
                    {"model": "m-small", "costUsd": 0.25, "usage": (15, 9, 100, 4)},
                ),
                ("user", [("tool_result", "7")]),
                ("system", [("text", "the wind rises")]),
            ],
            id="answer, result, and a report of the environment",
        ),
        pytest.param(
            trajectory(
                step("user", "How many?", is_copied_context=True),
                step("agent", "Seven.", is_copied_context=True, metrics=METRICS),
                step("agent", "Still seven."),
            ),
            [
                ("user", [("text", "How many?")], COPIED),
                ("assistant", [("text", "Seven.")], {**MODEL, **COPIED}),
                ("assistant", [("text", "Still seven.")], MODEL),
            ],
            id="copied steps have no usage and no cost",
        ),
        pytest.param(
            trajectory(step("agent", "", tool_calls=[CALL], llm_call_count=0, metrics=METRICS)),
            [CALLED],
            id="no usage without the model",
        ),
        pytest.param(
            trajectory(step("agent", "Seven."), final_metrics={"total_prompt_tokens": 9, "total_steps": 1}),
            [("assistant", [("text", "Seven.")], MODEL)],
            id="totals of the document are not added",
        ),
        pytest.param(
            trajectory(step("agent", "", metrics={"completion_tokens": 3})),
            [("assistant", [("text", "")], {**MODEL, "usage": (0, 3, None, None)})],
            id="empty answer with usage",
        ),
        pytest.param(
            trajectory(
                step("user", "Hi.", metadata={"is_user_input": False, "created_at": "2026-10-02T09:00:00Z"}),
                step(
                    "agent",
                    "Hello.",
                    metadata={
                        "generation_model": "m-2",
                        "request_id": "r1",
                        "metrics": {"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 3},
                    },
                ),
            ),
            [
                ("user", [("text", "Hi.")], {"synthetic": True}),
                (
                    "assistant",
                    [("text", "Hello.")],
                    {"model": "m-2", "messageId": "r1", "usage": (5, 2, 3, None)},
                ),
            ],
            id="Devin's own fields",
        ),
        pytest.param(
            WITH_SUBAGENT,
            [
                ("user", [("text", "How many knots?")]),
                (
                    "assistant",
                    [("text", "I ask."), ("tool_use", "count")],
                    {**MODEL, "usage": (120, 9, None, None)},
                ),
                ("user", [("tool_result", "Seven.")]),
            ],
            id="an embedded trajectory is not part of the conversation",
        ),
    ],
)
def test_messages(document: Any, expected: Any) -> None:
    assert short_messages(document) == expected


def test_usage_has_the_counts_without_the_values_of_each_token() -> None:
    [answer] = transform_messages(json.dumps(trajectory(step("agent", "Seven.", metrics=METRICS))))

    assert answer.usage is not None
    assert answer.usage.cache_creation_input_tokens == 5
    assert answer.usage.vendor == {name: METRICS[name] for name in METRICS if name != "logprobs"}
    assert answer.original[0]["metrics"] == METRICS


def test_a_step_without_a_time_has_none() -> None:
    document = trajectory(step("user", "Hi.", timestamp="2026-10-02T09:00:01Z"), step("agent", "Hello."))

    assert [message.timestamp for message in transform_messages(json.dumps(document))] == [
        1790931601000,
        None,
    ]


@pytest.mark.parametrize(
    ("id", "time"),
    [
        pytest.param({"trajectory_id": "t1"}, {}, id="with an id"),
        pytest.param({}, {"timestamp": "2026-10-02T09:00:01Z"}, id="by run and first time"),
    ],
)
def test_a_later_version_of_a_document_replaces_its_steps(id: Any, time: Any) -> None:
    called = step("agent", "I count.", tool_calls=[CALL], observation=observed(result("6")))
    recounted = {**called, "observation": observed(result("7"))}
    steps = [step("user", "How many?", **time), called, step("agent", "Six.")]
    later = [*steps[:1], recounted, step("agent", "Seven.", metrics=METRICS), step("user", "Thanks.")]
    documents = [trajectory(*each, **id) for each in (steps, later)]

    assert short_messages(*documents) == short_messages(documents[1])


@pytest.mark.parametrize("times", [({}, {}), ({"timestamp": "2026-10-02T09:00:01Z"}, {})])
def test_steps_of_other_documents_of_a_run_are_added(times: Any) -> None:
    prompts = [step("user", "How many?", **times[0]), step("user", "And now?", **times[1])]

    assert short_messages(*map(trajectory, prompts)) == [
        ("user", [("text", "How many?")]),
        ("user", [("text", "And now?")]),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, RecordHeader(session_id="run-1", client_version="1.4", model="m-large")),
        (
            {"trajectory_id": "t1"},
            RecordHeader(session_id="run-1", client_version="1.4", model="m-large"),
        ),
        (
            {"trajectory_id": "t1", "session_id": None},
            RecordHeader(session_id="t1", client_version="1.4", model="m-large", agent="t1"),
        ),
    ],
)
def test_header(fields: Any, expected: RecordHeader) -> None:
    steps = [
        step("user", "Hi.", timestamp="2026-10-02T09:00:01Z"),
        step("agent", "Hello."),
        step("user", "Bye.", timestamp="2026-10-02T09:00:03+00:00"),
    ]

    assert header(trajectory(*steps, **fields)) == expected._replace(
        timestamp=1790931601000, last_timestamp=1790931603000
    )


def test_usage_of_samples_equals_their_totals() -> None:
    folder = CORPUS_NEXT / "atif"
    if not folder.is_dir():
        pytest.skip("no ../shared/corpus-next next to the repository")
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        totals = document.get("final_metrics", {})
        if "continuation_index" in document["agent"].get("extra", {}):
            continue  # its totals include the trajectory before
        embedded = document.get("subagent_trajectories", ())
        messages = [each for part in (document, *embedded) for each in transform_messages(json.dumps(part))]
        used = [each.usage for each in messages if each.usage is not None]
        prompts = sum(each.input_tokens + (each.cache_read_input_tokens or 0) for each in used)

        assert totals.get("total_prompt_tokens", prompts) == prompts, path.name
        outputs = sum(each.output_tokens for each in used)
        assert totals.get("total_completion_tokens", outputs) == outputs, path.name


def test_identity_and_prompt() -> None:
    steps = [step("user", "How few?", is_copied_context=True), step("user", "How many?")]
    text = json.dumps(trajectory(step("system", "You tie knots."), *steps, trajectory_id="t1"))

    assert identify(text, None) == Identity(session="run-1", agent="t1", record="t1")
    assert describe_message(text).prompt == "How many?"
