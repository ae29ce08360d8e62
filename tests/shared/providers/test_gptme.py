"""Standard messages and events of gptme's conversations."""

import json
from typing import Any

import pytest

from ash_shared import describe_message, parse_message
from tests.shared.leaves import lost_leaves
from tests.shared.logs import follow, short_events
from tests.shared.sample_files import RECORDINGS
from tests.shared.transcripts import short_messages

Record = dict[str, Any]


def recorded() -> list[Record]:
    return [json.loads(line) for line in (RECORDINGS / "gptme" / "tides.jsonl").read_text().splitlines()]


def message(role: str, content: str, **fields: Any) -> Record:
    return {"role": role, "content": content, "timestamp": "2026-03-02T09:00:00.500000", **fields}


def blocks_of(record: Record) -> list[dict[str, Any]]:
    return [block.model_dump() for block in parse_message(json.dumps(record), "gptme").parsed]


def test_recorded_run() -> None:
    events = short_events(follow(recorded(), "gptme", ends=True))[3:]

    calls = [(payload["toolName"], payload["args"]) for type, payload, *_ in events if type == "tool_call"]
    assert [type for type, *_ in events] == [
        *("turn_start", "user_message", "thinking_done"),
        *("assistant_done", "tool_call", "tool_result") * 4,
        *("turn_end", "turn_start", "user_message", "tool_call", "tool_result"),
        *("assistant_done", "tool_call", "tool_result") * 2,
        *("system_message", "turn_end", "turn_start", "user_message", "error", "interrupt", "turn_end"),
    ]
    assert calls == [
        ("shell", {"command": "cat tides.py"}),
        ("save", {"path": "tides.py", "content": "START = 6\nprint(START)"}),
        ("shell", {"command": "ls nothing-here"}),
        ("complete", {"content": ""}),
        ("shell", {"command": "cat tides.py"}),
        ("shell", {"command": "wc -l tides.py"}),
        ("complete", {}),
    ]
    results = [payload for type, payload, *_ in events if type == "tool_result"]
    assert [each["toolCallId"] for each in results[-3:]] == ["call_5_0", "call_6_0", "call_7_0"]
    assert [each["result"] for each in results if "error" in each] == [
        "Ran allowlisted command: `ls nothing-here`\n\n"
        "`ls: cannot access 'nothing-here': No such file or directory`\n\nReturn code: 2\n"
    ]


def test_usage_of_the_recorded_run() -> None:
    ends = [
        payload.get("usage", {})
        for type, payload, *_ in short_events(follow(recorded(), "gptme"))
        if type == "turn_end"
    ]

    assert [(each.get("input_tokens"), each.get("output_tokens")) for each in ends] == [
        (201 + 202 + 203 + 204, 41 + 42 + 43 + 44),
        (205 + 206 + 207, 45 + 46 + 47),
        (None, None),
    ]


def test_prompts_of_the_recorded_run() -> None:
    prompts = [
        payload["text"]
        for type, payload, *_ in short_events(follow(recorded(), "gptme"))
        if type == "user_message"
    ]

    assert prompts == ["Start the table at six", "How long is it?", "Read it all"]


def test_usage_of_earlier_versions() -> None:
    answer = message(
        "assistant", "Four.", metadata={"model": "m1", "input_tokens": 9, "output_tokens": 2, "cost": 0.5}
    )

    assert short_messages(answer, source="gptme") == [
        ("assistant", [("text", "Four.")], {"model": "m1", "costUsd": 0.5, "usage": (9, 2, None, None)})
    ]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("```shell\nls\n```", [("shell", {"command": "ls"})]),
        (
            "```save a.md\n```python\n1\n```\nend\n```",
            [("save", {"path": "a.md", "content": "```python\n1\n```\nend"})],
        ),
        ("````save a.md\n```\n1\n```\n````", [("save", {"path": "a.md", "content": "```\n1\n```"})]),
        ("```python\n1\n```", []),
        ("```shell\nls", []),
        ("```py\n1\n```\n```tmux new\n```", [("ipython", {"code": "1"}), ("tmux", {"arguments": "new"})]),
        ("<tool-use>\n<shell>\nls\n</shell>\n</tool-use>", [("shell", {"command": "ls"})]),
        (
            "<tool-use><save args='a.txt'>\n1\n</save></tool-use>",
            [("save", {"path": "a.txt", "content": "1"})],
        ),
        ('@save(c1): {"path": "a"}\n@read(c2): {broken', [("save", {"path": "a"}), ("read", "{broken")]),
    ],
)
def test_calls_in_a_text(text: str, calls: list[Any]) -> None:
    blocks = blocks_of(message("assistant", text))

    assert [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"] == calls


def test_only_calls_of_tools_that_ran() -> None:
    text = "Try\n```shell\nls\n```\nor\n```ipython\n1\n```"

    for names, calls in (({"ipython": 3.5}, ["ipython"]), ({}, [])):
        blocks = blocks_of(message("assistant", text, metadata={"timings": {"tool_ms_by_name": names}}))
        assert blocks[0]["text"] == text
        assert [block["name"] for block in blocks[1:]] == calls


def test_messages_of_the_program() -> None:
    """Hidden messages are for the model; a reminder in the user's name is no prompt."""
    hidden = message("system", "**Working Directory:** /work/shop\n", hide=True, pinned=True)
    reminder = message("user", "<system>No tool call detected.</system>")
    notice = message("system", "Loading", ui_only=True)
    files = message("user", "See", files=["/work/shop/oar.png"])

    assert describe_message(json.dumps(hidden)).header.folder == "/work/shop"
    assert [each[1] for each in short_messages(hidden, source="gptme")] == [
        [("text", "**Working Directory:** /work/shop\n")]
    ]
    assert [type for type, *_ in short_events(follow([reminder], "gptme"))].count("turn_start") == 0
    assert blocks_of(notice)[0]["variant"] == "notice"
    assert [block["type"] for block in blocks_of(files)] == ["text", "file"]
    assert blocks_of(files)[1]["filename"] == "oar.png"


COUNTED = {"metadata": {"usage": {"input_tokens": 9, "cache_read_tokens": 4}}}


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({}, "claude"),
        ({"metadata": {"model": "m1"}}, "claude"),
        ({"files": ["a.txt"]}, "claude"),
        ({"hide": False}, "claude"),
        ({"hide": True}, "gptme"),
        ({"hide": True, "timestamp": "2026-03-02T09:00:00"}, "gptme"),
        ({"hide": True, "timestamp": "2026-03-02T09:00:00.500000+00:00"}, "gptme"),
        ({"hide": True, "timestamp": "2026-03-02T09:00:00.5Z"}, "claude"),
        ({"hide": True, "other": 1}, "claude"),
        (COUNTED, "gptme"),
        ({"metadata": COUNTED["metadata"]["usage"]}, "gptme"),
        ({"call_id": "c1", "metadata": {"tool": "shell"}}, "gptme"),
    ],
    ids=json.dumps,
)
def test_recognition_needs_a_key_of_its_own(fields: Record, source: str) -> None:
    """Many programs write a role, a text and a time."""
    assert parse_message(json.dumps(message("user", "Count") | fields)).source == source


def test_files_of_a_result() -> None:
    result = message(
        "system", "Saved", files=["/work/shop/oar.png"], file_hashes={"/work/shop/oar.png": "f1"}
    )

    [block] = blocks_of(result)

    assert [part["type"] for part in block["content"]] == ["text", "file"]
    assert block["extra"] == {"file_hashes": {"/work/shop/oar.png": "f1"}}


@pytest.mark.parametrize(
    "record",
    [
        message("assistant", "Four", files=["a.png"], call_id="c1"),
        message("assistant", "Four", metadata={"usage": "x", "model": 5, "cost": "free"}),
        message("assistant", "", metadata={"served_model": "m1"}),
        message("user", "Count", pinned=True, metadata={"pinned": "yes"}),
        message("user", "Count", files="a.png"),
        message("system", "Done", metadata="x", call_id="c1"),
        message("assistant", '@read(c1): {"path": "a"}\nThen I wait.'),
    ],
    ids=lambda record: f"{record['role']} {sorted(record)}",
)
def test_no_value_is_lost(record: Record) -> None:
    content = {name: value for name, value in record.items() if name not in ("content", "role", "timestamp")}

    assert not lost_leaves(content, blocks_of(record))
    assert "Then I wait." not in record["content"] or blocks_of(record)[-1]["text"] == "\nThen I wait."


@pytest.mark.parametrize(
    ("text", "is_error", "exit_code"),
    [
        ("Ran command: `ls`\n\nReturn code: 2\n", True, 2),
        ("Ran command: `cat a`\n\n```stdout\nReturn code: 2\n```\n\n", None, None),
        ("Saved to a.md", None, None),
        ("Save aborted: Content contains placeholder lines.", True, None),
        ("Operation aborted: user chose not to run.", True, None),
    ],
)
def test_outcome_of_a_call(text: str, is_error: bool | None, exit_code: int | None) -> None:
    [block] = blocks_of(message("system", text, call_id="c1"))

    assert (block.get("is_error"), block.get("exit_code")) == (is_error, exit_code)


@pytest.mark.parametrize(
    "text",
    [
        "<tool-use><a>" * 60_000,
        "```save a\n" + "```python\n" * 60_000,
        "@save(c1): {\n" * 20_000,
    ],
    ids=["elements", "blocks of code", "calls"],
)
def test_hostile_answers_take_linear_time(text: str) -> None:
    """They would take minutes in quadratic time."""
    assert parse_message(json.dumps(message("assistant", text)), "gptme").parsed
