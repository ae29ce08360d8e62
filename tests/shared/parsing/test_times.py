"""The first and the latest time that a record names."""

import json
from typing import Any

import pytest

from ash_shared.parsing.parse import describe_message
from tests.shared.records import claude

SECONDS = [f"2026-03-04T11:00:0{second}Z" for second in range(10)]
MILLISECONDS = [1_772_622_000_000 + 1000 * second for second in range(10)]

GEMINI = {"sessionId": "s", "projectHash": "0a", "startTime": SECONDS[1]}
OPENCODE = {"id": "ses_1", "projectID": "p", "directory": "/work", "title": "t"}
OPENCODE_MESSAGE = {
    "id": "msg_1",
    "sessionID": "ses_1",
    "role": "assistant",
    "time": {"created": MILLISECONDS[2]},
}
OPENCODE_TOOL = {
    "id": "prt_1",
    "messageID": "msg_1",
    "sessionID": "ses_1",
    "type": "tool",
    "tool": "bash",
    "callID": "c",
    "state": {
        "status": "completed",
        "input": {},
        "output": "",
        "time": {"start": MILLISECONDS[3], "end": MILLISECONDS[7]},
    },
}
CLAUDE = claude.line("user", "hi")

TIMES: dict[str, tuple[Any, tuple[int | None, int | None]]] = {
    "no time": (CLAUDE, (None, None)),
    "one time": ({**CLAUDE, "timestamp": SECONDS[4]}, (4, None)),
    "header of Gemini CLI": ({**GEMINI, "lastUpdated": SECONDS[6]}, (1, 6)),
    "update of Gemini CLI": ({"$set": {"lastUpdated": SECONDS[6]}}, (6, 6)),
    "document of Gemini CLI": (
        {
            **GEMINI,
            "lastUpdated": SECONDS[3],
            "messages": [
                {"id": "a", "type": "user", "content": "hi", "timestamp": SECONDS[2]},
                {"id": "b", "type": "user", "content": "hi", "timestamp": SECONDS[8]},
                {"id": "c", "type": "user", "content": "hi", "timestamp": "later"},
            ],
        },
        (1, 8),
    ),
    "session of OpenCode": (
        {**OPENCODE, "time": {"created": MILLISECONDS[1], "updated": MILLISECONDS[9]}},
        (1, 9),
    ),
    "message of OpenCode": (
        {**OPENCODE_MESSAGE, "time": {"created": MILLISECONDS[2], "completed": MILLISECONDS[5]}},
        (2, 5),
    ),
    "call of OpenCode": (OPENCODE_TOOL, (None, 7)),
    "document of OpenCode": (
        {
            "info": {**OPENCODE, "time": {"created": MILLISECONDS[1]}},
            "messages": [{"info": OPENCODE_MESSAGE, "parts": [OPENCODE_TOOL]}],
        },
        (1, 7),
    ),
    "response": (
        {
            "object": "response",
            "id": "resp_1",
            "output": [],
            "created_at": MILLISECONDS[1] // 1000,
            "completed_at": MILLISECONDS[2] // 1000,
        },
        (1, 2),
    ),
    "list": ([{**CLAUDE, "timestamp": SECONDS[4]}, CLAUDE, {**CLAUDE, "timestamp": SECONDS[8]}], (4, 8)),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_of_a_record(name: str) -> None:
    record, expected = TIMES[name]
    facts = describe_message(json.dumps(record)).header
    numbers = [
        None if time is None else MILLISECONDS.index(time) for time in (facts.timestamp, facts.last_timestamp)
    ]

    assert tuple(numbers) == expected
