"""The projection to ATIF: valid documents, and the same conversation when they are read again."""

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ash_shared import StandardMessage, to_atif, transform_messages
from ash_shared.projections import SubagentMessages
from tests.shared.logs import follow
from tests.shared.projections.atif_schema import Trajectory
from tests.shared.records.atif import WITH_SUBAGENT, step, trajectory
from tests.shared.sample_files import sample_folders
from tests.shared.texts import files_of

PNG = b64encode(b"\x89PNG\r\n\x1a\n").decode()
COUNTS = (
    *("input_tokens", "output_tokens", "reasoning_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)
MARKS = ("inherited", "ran_by_tool_use_id", "sender", "sender_name", "synthetic")
CALL = {"type": "tool_use", "id": "c1", "name": "count", "input": {"what": "knots"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "7"}


def message(role: str, *blocks: Any, usage: Any = None, **metadata: Any) -> StandardMessage:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    known = {"id": f"{role} {len(content)}", "role": role, "content": content, "_original": []}
    fields = {"timestamp": 1790931601000, "metadata": {"source": "claude", **metadata}}
    return StandardMessage.model_validate({**known, **fields, **({} if usage is None else {"usage": usage})})


def usage(**counts: int) -> dict[str, int]:
    return {"input_tokens": 20, "output_tokens": 9, "total_tokens": 29, **counts}


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


def document_of(messages: Iterable[StandardMessage], **options: Any) -> dict[str, Any]:
    """Return a valid trajectory as another program reads it."""
    document: dict[str, Any] = json.loads(json.dumps(to_atif(messages, **options).document))
    assert not Trajectory.model_validate(document).unresolved()
    return document


def test_a_conversation_becomes_a_trajectory() -> None:
    messages = [
        message("system", "You tie knots."),
        message("user", "How many?"),
        message(
            "assistant",
            {"type": "thinking", "thinking": "Look."},
            "I count.",
            CALL,
            model="m-large",
            cliVersion="2.1",
            costUsd=0.25,
            usage=usage(cache_read_input_tokens=100, cache_creation_input_tokens=5, reasoning_tokens=4),
        ),
        message("user", RESULT),
    ]
    time = "2026-10-02T09:00:01.000+00:00"

    assert document_of(messages, session_id="s1") == {
        "schema_version": "ATIF-v1.7",
        "session_id": "s1",
        "trajectory_id": "s1",
        "agent": {"name": "claude-code", "version": "2.1", "model_name": "m-large"},
        "steps": [
            {
                "step_id": 1,
                "timestamp": time,
                "source": "system",
                "message": "You tie knots.",
                "extra": {"ash": {"id": "system 1"}},
            },
            {
                "step_id": 2,
                "timestamp": time,
                "source": "user",
                "message": "How many?",
                "extra": {"ash": {"id": "user 1"}},
            },
            {
                "step_id": 3,
                "timestamp": time,
                "source": "agent",
                "model_name": "m-large",
                "message": "I count.",
                "reasoning_content": "Look.",
                "tool_calls": [
                    {"tool_call_id": "c1", "function_name": "count", "arguments": {"what": "knots"}}
                ],
                "metrics": {
                    "prompt_tokens": 125,
                    "completion_tokens": 9,
                    "cached_tokens": 100,
                    "extra": {"cache_creation_input_tokens": 5, "reasoning_tokens": 4},
                    "cost_usd": 0.25,
                },
                "observation": {"results": [{"source_call_id": "c1", "content": "7"}]},
                "extra": {"ash": {"id": "assistant 3"}},
            },
        ],
        "final_metrics": {
            "total_prompt_tokens": 125,
            "total_completion_tokens": 9,
            "total_cached_tokens": 100,
            "total_cost_usd": 0.25,
            "total_steps": 3,
        },
    }


def test_copies_and_retracted_messages_are_left_out() -> None:
    messages = [
        message("user", "How many?"),
        message("assistant", "Six.", retracted=True),
        message("assistant", "Seven.", shadowOf="m"),
    ]

    assert [each["message"] for each in document_of(messages)["steps"]] == ["How many?"]


def test_an_empty_session_has_a_step_that_reads_as_no_message() -> None:
    document = document_of([])

    assert len(document["steps"]) == 1
    assert transform_messages(json.dumps(document)) == []


def test_calls_of_a_script_stay_in_the_trajectory() -> None:
    """Also a result without its call."""
    of_script = {"parentToolUseId": "c0", "ranByToolUseId": "c0"}
    script = {"type": "tool_use", "id": "c0", "name": "REPL", "input": {"code": "count()"}}
    messages = [
        message("assistant", "I count.", script),
        message("assistant", CALL, **of_script),
        message("user", RESULT, **of_script),
        message("user", {**RESULT, "tool_use_id": "c2"}, **of_script),
        message("user", {**RESULT, "tool_use_id": "c0"}),
    ]

    document = document_of(messages)

    assert "subagent_trajectories" not in document
    assert [
        (
            each.get("llm_call_count"),
            [call["function_name"] for call in each.get("tool_calls", ())],
            [result.get("source_call_id") for result in each["observation"]["results"]],
        )
        for each in document["steps"]
    ] == [(None, ["REPL"], ["c0"]), (0, ["count"], ["c1"]), (None, [], [None])]
    assert_equal(messages, transform_messages(json.dumps(document)))


@pytest.mark.parametrize(
    "sender",
    [
        {"sender": "person"},
        {"sender": "script"},
        {"sender": "channel", "senderName": "builds", "synthetic": True},
        {"sender": "schedule", "synthetic": True, "inherited": True},
        {"inherited": True},
    ],
)
def test_senders_are_the_same_when_read_again(sender: Any) -> None:
    messages = [message("user", "How many?", **sender), message("assistant", "Seven.")]

    document = document_of(messages)

    assert_equal(messages, transform_messages(json.dumps(document)))
    starts = [event["payload"] for event in follow([document]) if event["type"] == "turn_start"]
    is_person = "synthetic" not in sender and "inherited" not in sender
    assert starts == [{"trigger": "user" if is_person else "system"}]


def test_images_and_recordings_are_files_in_the_folder() -> None:
    recording = {
        "type": "file",
        "mimeType": "audio/mp3",
        "mediaClass": "audio",
        "source": {"type": "base64", "data": b64encode(b"ID3").decode()},
    }
    messages = [
        message("user", "Look", image(type="base64", media_type="image/png", data=PNG)),
        message(
            "user", recording, image(type="url", media_type="image/webp", url="https://example.com/1.webp")
        ),
    ]

    trajectory = to_atif(messages, media_folder="run.media")

    Trajectory.model_validate(json.loads(json.dumps(trajectory.document)))
    sources = [
        part["source"]
        for each in trajectory.document["steps"]
        for part in each["message"]
        if "source" in part
    ]
    assert trajectory.document["schema_version"] == "ATIF-v1.8"
    assert sources == [
        {"media_type": "image/png", "path": "run.media/1.png"},
        {"media_type": "audio/mpeg", "path": "run.media/2.mpeg"},
        {"media_type": "image/webp", "path": "https://example.com/1.webp"},
    ]
    assert trajectory.files == {"run.media/1.png": b"\x89PNG\r\n\x1a\n", "run.media/2.mpeg": b"ID3"}


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param(["One.", {"type": "text", "text": "Two.", "citations": [{"url": "u"}]}], id="texts"),
        pytest.param([image(type="base64", media_type="image/png", data=PNG)], id="image"),
        pytest.param([image(type="base64", media_type="image/png", data="not base64")], id="no base64"),
        pytest.param([image(type="base64", media_type="image/tiff", data=PNG)], id="type that ATIF rejects"),
        pytest.param([image(type="file", file_id="f1")], id="file of a vendor"),
        pytest.param(
            [
                {"type": "file", "mimeType": "application/pdf", "source": {"type": "base64", "data": PNG}},
                "This?",
            ],
            id="document",
        ),
        pytest.param(
            [
                {"type": "thinking", "thinking": "A", "signature": "s"},
                "One.",
                {"type": "thinking", "thinking": ""},
                CALL,
                "Two.",
            ],
            id="order of blocks",
        ),
        pytest.param([{**CALL, "id": None, "input": "knots", "executor": "mcp"}], id="call without an id"),
        pytest.param([{**CALL, "executor": "host"}], id="call of the program"),
        pytest.param([{**CALL, "executor": "server"}, RESULT, "Seven."], id="tool of the vendor"),
        pytest.param([{"type": "raw", "reason": "control", "raw": {"type": "x"}}], id="raw"),
        pytest.param([""], id="blank text"),
        pytest.param([], id="no content"),
    ],
)
def test_blocks_are_the_same_when_read_again(blocks: list[Any]) -> None:
    original = message("assistant", *blocks, model="m", messageId="r1", stop_reason="end_turn")

    assert_equal([original], transform_messages(json.dumps(document_of([original]))))


@pytest.mark.parametrize(
    "result",
    [
        pytest.param({**RESULT, "is_error": True, "exit_code": 2, "structured": {"n": 7}}, id="failure"),
        pytest.param({**RESULT, "content": {"n": [7, None]}}, id="JSON"),
        pytest.param(
            {
                **RESULT,
                "content": [
                    {"type": "text", "text": "7", "variant": "notice"},
                    image(type="base64", media_type="image/png", data=PNG),
                    {"type": "raw", "reason": "control", "raw": 7},
                ],
            },
            id="blocks",
        ),
        pytest.param({"type": "tool_result", "tool_use_id": "c1"}, id="no content"),
        pytest.param({**RESULT, "tool_use_id": "c9"}, id="unknown call"),
        pytest.param({**RESULT, "tool_use_id": None}, id="no call"),
    ],
)
def test_results_are_the_same_when_read_again(result: dict[str, Any]) -> None:
    later = message("user", result)
    messages = [message("assistant", CALL), later.model_copy(update={"timestamp": 1790931609000})]

    assert_equal(messages, transform_messages(json.dumps(document_of(messages))))


def test_sessions_of_subagents_are_embedded() -> None:
    task = {"type": "tool_result", "tool_use_id": "c1", "content": "Seven."}
    messages = [
        message("assistant", CALL, costUsd=0.5),
        message("assistant", "Repeated.", agentId="a1"),
        message("user", task, toolUseResult={"agentId": "a1"}),
        message("assistant", "Inline.", parentToolUseId="c2"),
    ]
    own = [message("assistant", "Seven.", agentId="a1", usage=usage(), costUsd=0.25)]

    document = document_of(messages, subagents=[SubagentMessages("a1", own)])

    results = document["steps"][0]["observation"]["results"]
    assert results[0]["subagent_trajectory_ref"] == [{"trajectory_id": "a1"}]
    assert document["final_metrics"]["total_cost_usd"] == 0.75
    assert [
        (each["trajectory_id"], [one["message"] for one in each["steps"]])
        for each in document["subagent_trajectories"]
    ] == [("a1", ["Seven."]), ("c2", ["Inline."])]


def test_messages_of_a_subagent_with_one_of_its_two_ids_are_together() -> None:
    """In Copilot CLI, a subagent's prompt has its id, a result the call that started it, and an answer has both."""
    task = {"type": "tool_use", "id": "c0", "name": "task", "input": {}}
    document = document_of(
        [
            message("assistant", task),
            message("user", "Count.", agentId="a1"),
            message("assistant", CALL, agentId="a1", parentToolUseId="c0"),
            message("user", RESULT, parentToolUseId="c0"),
            message("user", {**RESULT, "tool_use_id": "c0"}),
        ]
    )

    [subagent] = document["subagent_trajectories"]
    [result] = document["steps"][0]["observation"]["results"]
    assert [step["source"] for step in subagent["steps"]] == ["user", "agent"]
    assert [each["source_call_id"] for each in subagent["steps"][1]["observation"]["results"]] == ["c1"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": subagent["trajectory_id"]}]


def test_subagents_of_subagents_are_next_to_them() -> None:
    started = message("user", {**RESULT, "content": "Seven."}, toolUseResult={"agentId": "a2"})
    inner = SubagentMessages("a2", [message("assistant", "Seven.")])
    outer = SubagentMessages("a1", [message("assistant", CALL), started])

    document = document_of([message("user", "How many?")], subagents=[outer, inner])

    first, second = document["subagent_trajectories"]
    [result] = first["steps"][0]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": second["trajectory_id"]}]


def test_copied_messages_have_no_usage() -> None:
    messages = [
        message("assistant", "Six.", usage=usage(), costUsd=0.5),
        message("assistant", "Seven.", "Or so.", usage=usage()),
    ]

    document = document_of(messages, copied={messages[0].id})

    assert [each.get("is_copied_context") for each in document["steps"]] == [True, None]
    assert document["final_metrics"] == {
        "total_prompt_tokens": 20,
        "total_completion_tokens": 9,
        "total_steps": 2,
    }
    assert [each.usage is None for each in transform_messages(json.dumps(document))] == [True, False]


def test_the_agent_and_its_tools_come_from_the_records() -> None:
    tools = [{"name": "count", "description": "Count things", "input_schema": {"type": "object"}}]
    request = {"model": "m", "tools": tools, "messages": []}
    function = {"name": "count", "description": "Count things", "parameters": {"type": "object"}}
    imported = trajectory(step("user", "How many?"))

    assert document_of([message("user", "How many?")], records=[request])["agent"] == {
        "name": "claude-code",
        "version": "unknown",
        "tool_definitions": [{"type": "function", "function": function}],
    }
    assert (
        document_of(transform_messages(json.dumps(imported)), records=[imported])["agent"]
        == imported["agent"]
    )


def test_an_imported_trajectory_keeps_the_reference_to_its_subagent() -> None:
    [subagent] = WITH_SUBAGENT["subagent_trajectories"]
    own = SubagentMessages("sub-a", transform_messages(json.dumps(subagent)))

    document = document_of(transform_messages(json.dumps(WITH_SUBAGENT)), subagents=[own])

    [result] = document["steps"][1]["observation"]["results"]
    assert result["subagent_trajectory_ref"] == [{"trajectory_id": "sub-a"}]


def test_samples_are_the_same_when_read_again(corpus_folder: Path) -> None:
    for path, messages in conversations(corpus_folder):
        document = document_of(messages)

        embedded = {each["trajectory_id"]: each for each in document.get("subagent_trajectories", ())}
        names = agents_of(messages)
        agents = set(names)
        main = [each for each, name in zip(messages, names, strict=True) if len(agents) == 1 or name is None]
        assert embedded.keys() == (agents - {None} if len(agents) > 1 else set()), path
        assert_equal(main, transform_messages(json.dumps(document)), path)
        for agent, of_agent in embedded.items():
            own = [each for each, name in zip(messages, names, strict=True) if name == agent]
            assert_equal(own, transform_messages(json.dumps(of_agent)), path)


def test_samples_are_valid_by_the_models_of_harbor() -> None:
    harbor = pytest.importorskip(
        "harbor.models.trajectories", reason="harbor is not installed: pip install --no-deps harbor"
    )

    documents = [
        document_of(messages) for folder in sample_folders() for _, messages in conversations(folder)
    ]

    assert documents
    for document in documents:
        harbor.Trajectory.model_validate(document)


def conversations(folder: Path) -> Iterable[tuple[Path, list[StandardMessage]]]:
    """Yield the messages of each file that the projection contains."""
    for path, text in files_of(folder):
        messages = transform_messages(text)
        yield path, [each for each in messages if not (each.metadata.shadow_of or each.metadata.retracted)]


def agents_of(messages: Sequence[StandardMessage]) -> list[str | None]:
    """The subagent of each message; the call that started it if no message of the call names one."""
    ids = [
        (each.metadata.agent_id, each.metadata.parent_tool_use_id)
        if each.metadata.ran_by_tool_use_id is None
        else (each.metadata.agent_id, None)
        for each in messages
    ]
    started = {call: agent for agent, call in ids if agent and call}
    return [agent or started.get(call or "", call) for agent, call in ids]


def assert_equal(
    messages: Sequence[StandardMessage], read: Sequence[StandardMessage], where: Any = None
) -> None:
    assert statements(read) == statements(messages), where
    assert results(read) == results(messages), where


def statements(messages: Sequence[StandardMessage]) -> list[Any]:
    """Return what each message states, without results, and without messages that only contain results."""
    return [
        (
            each.role,
            each.timestamp,
            own,
            each.usage and [getattr(each.usage, name) for name in COUNTS],
            each.metadata.model if each.role == "assistant" else None,
            each.metadata.cost_usd,
            *(getattr(each.metadata, name) for name in MARKS),
            each.metadata.stop_reason,
            each.id,
            each.error and (each.error.code, each.error.message),
        )
        for each in messages
        if (own := [block for block in blocks_of(each) if block["type"] != "tool_result"])
        or not each.content
        or each.usage
        or each.error
    ]


def results(messages: Sequence[StandardMessage]) -> Counter[str]:
    """Count the results, with their times. In ATIF they follow the call, whenever they came."""
    return Counter(
        json.dumps([without_reference(block), each.timestamp], sort_keys=True)
        for each in messages
        for block in blocks_of(each)
        if block["type"] == "tool_result"
    )


def without_reference(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out the reference to the trajectory of a subagent, which only ATIF has."""
    extra = {
        name: value for name, value in result.get("extra", {}).items() if name != "subagent_trajectory_ref"
    }
    rest = {name: value for name, value in result.items() if name != "extra"}
    return {**rest, "extra": extra} if extra else rest


def blocks_of(message: StandardMessage) -> list[Any]:
    return [without_source_type(block.model_dump()) for block in message.content]


def without_source_type(value: Any) -> Any:
    """Leave out the type on the wire, which is ATIF's when a trajectory is read."""
    if isinstance(value, list):
        return [without_source_type(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: without_source_type(each) for key, each in value.items() if key != "source_type"}
