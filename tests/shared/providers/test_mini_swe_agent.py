"""Standard messages and events of mini-swe-agent's trajectories."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from ash_shared.parsing.parsed_text import identify
from tests.shared.logs import follow, short_events
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


def recorded(name: str) -> Record:
    record: Record = json.loads((RECORDINGS / "mini_swe_agent" / f"{name}.traj.json").read_text())
    return record


def trajectory(*messages: Record) -> Record:
    config = {"model": {"model_name": "m1"}, "environment": {"cwd": "/work/shop"}}
    info = {"config": config, "mini_version": "2.4.6", "exit_status": "", "submission": ""}
    return {"info": info, "messages": list(messages), "trajectory_format": "mini-swe-agent-1.1"}


def answer(text: str, *, number: int = 1, **extra: Any) -> Record:
    choice = {"finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}
    response = {"id": f"r{number}", "model": "m1-a", "choices": [choice], "usage": usage}
    return {
        "role": "assistant",
        "content": text,
        "extra": {"response": response, "cost": 0.5, "timestamp": 1772442000.0 + number, **extra},
    }


PROMPT = {"role": "user", "content": "Count the oars"}
MORE = {"model": "m1-a", "stop_reason": "stop", "messageId": "r1", "costUsd": 0.5, "usage": (10, 5, 20, None)}


def usage_of(message: tuple[Any, ...]) -> Any:
    return message[2].get("usage") if len(message) > 2 else None


def test_recorded_run() -> None:
    messages = short_messages(recorded("v2-1"))

    assert [(message[0], [kind for kind, _ in message[1]], usage_of(message)) for message in messages] == [
        ("system", ["text"], None),
        ("user", ["text"], None),
        ("assistant", ["text", "tool_use"], (201, 41, 1000, 0)),
        ("user", ["tool_result"], None),
        ("assistant", ["text", "tool_use"], (202, 42, 1000, 0)),
        ("user", ["tool_result"], None),
        ("assistant", ["text", "tool_use"], (203, 43, 1000, 0)),
        ("user", ["tool_result"], None),
        ("assistant", ["text"], (204, 44, 1000, 0)),
        ("user", ["text"], None),
        ("assistant", ["text", "tool_use"], (205, 45, 1000, 0)),
        ("user", ["tool_result"], None),
    ]
    assert messages[8][1] == [("text", "I forget the tool.")]


def test_recorded_run_that_failed() -> None:
    *_, answered, _ = short_messages(recorded("v2-2"))

    assert answered[2]["error"] == "ContextWindowExceededError"


def test_recorded_run_of_version_1() -> None:
    messages = short_messages(recorded("v1"))

    assert [(message[0], [kind for kind, _ in message[1]]) for message in messages[2:]] == [
        *[("assistant", ["text", "tool_use"]), ("user", ["tool_result"])] * 3,
        ("assistant", ["text"]),
        ("user", ["text"]),
        ("assistant", ["text", "tool_use"]),
    ]
    header = describe_message(json.dumps(recorded("v1"))).header
    assert (header.timestamp, header.last_timestamp) == (1795965919245, 1795965921025)
    assert sum(usage_of(message)[1] for message in messages if usage_of(message)) == 41 + 42 + 43 + 44 + 45


def test_what_the_agent_answers_to_a_refused_answer_is_synthetic() -> None:
    for name in ("v1", "v2-1"):
        events = short_events(follow([recorded(name)]))
        prompts = [payload["text"] for type, payload, *_ in events if type == "user_message"]
        assert prompts[:1] == ["Start the table at six"]
        assert sum(type == "turn_start" for type, *_ in events) == 1


def test_results_have_exit_codes() -> None:
    blocks = [block.model_dump() for block in parse_message(json.dumps(recorded("v2-1"))).parsed]

    results = [block for block in blocks if block["type"] == "tool_result"]
    outcomes = [(each["tool_use_id"], each.get("exit_code"), each.get("is_error")) for each in results]
    assert outcomes == [
        ("call_1_0", 0, False),
        ("call_2_0", 0, False),
        ("call_3_0", 2, True),
        ("call_5_0", None, None),
    ]


def test_header() -> None:
    header = describe_message(json.dumps(trajectory(PROMPT, answer("Four.")))).header

    assert (header.model, header.folder, header.client_version) == ("m1", "/work/shop", "2.4.6")
    assert (header.timestamp, header.last_timestamp) == (1772442001000, 1772442001000)


@pytest.mark.parametrize(
    "observation",
    [
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno\n</output>"},
        {"role": "user", "content": "no", "extra": {"raw_output": "no", "returncode": 1}},
    ],
)
def test_commands_in_the_text_of_an_answer(observation: Record) -> None:
    document = trajectory(PROMPT, answer("I look.\n\n```bash\nls oars\n```"), observation)

    *_, call, result = [block.model_dump() for block in parse_message(json.dumps(document)).parsed]

    assert (call["name"], call["input"]) == ("bash", {"command": "ls oars"})
    assert (result["type"], result["exit_code"], result["is_error"]) == ("tool_result", 1, True)


def test_a_later_version_adds_messages() -> None:
    first = trajectory(PROMPT, answer("Four."))
    later = trajectory(PROMPT, answer("Four."), {"role": "user", "content": "Thanks"})

    assert identify(json.dumps(first), None) == identify(json.dumps(later), None)
    assert identify(json.dumps(trajectory(PROMPT, answer("Four.", number=2))), None) != identify(
        json.dumps(first), None
    )
    assert [message[:2] for message in short_messages(first, later)] == [
        ("user", [("text", "Count the oars")]),
        ("assistant", [("text", "Four.")]),
        ("user", [("text", "Thanks")]),
    ]


def test_events() -> None:
    failed = {"role": "exit", "content": "Too long", "extra": {"exit_status": "LimitsExceeded"}}

    events = short_events(follow([trajectory(PROMPT, answer("Four."), failed)]))

    assert [(type, payload.get("text") or payload.get("code")) for type, payload, *_ in events] == [
        ("turn_start", None),
        ("user_message", "Count the oars"),
        ("assistant_done", "Four."),
        ("error", "LimitsExceeded"),
        ("interrupt", None),
        ("turn_end", None),
    ]


@pytest.mark.parametrize(
    "message", [7, {}, {"role": "pilot"}, {"role": "tool", "content": 7}, {"role": "exit"}]
)
def test_other_messages_are_kept(message: Any) -> None:
    blocks = [block.model_dump() for block in parse_message(json.dumps(trajectory(message))).parsed]

    assert blocks[1]["type"] in ("raw", "tool_result")
