"""Names that identify a record and its transcript in another file."""

import json
from typing import Any

import pytest

from ash_shared.model.message import Identity
from ash_shared.parsing.parsed_text import identify, parse_raw
from tests.shared.records import codex

MESSAGE = {"role": "user", "content": "hi"}
LINE = {"type": "user", "uuid": "u1", "sessionId": "s1", "cwd": "/work", "message": MESSAGE}
BODY = '[{"text": "hi", "type": "text"}]'
FORK = {"sessionId": "s0", "messageUuid": "u0"}
ITEM: dict[str, Any] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
META: dict[str, Any] = {"id": "c2", "cwd": "/work", "originator": "cli", "cli_version": "1"}
STAMP = "2026-03-03T10:00:00Z"


RECORDS: dict[str, tuple[dict[str, Any], Identity]] = {
    "claude": (LINE, Identity("s1", "/work", record="u1", body=BODY)),
    "claude, a subagent": ({**LINE, "agentId": "a1"}, Identity("s1", "/work", "a1", record="u1", body=BODY)),
    "claude, a fork": (
        {**LINE, "forkedFrom": FORK},
        Identity("s1", "/work", origin="s0", record="u0", body=BODY),
    ),
    "claude, a prompt as a block": (
        {**LINE, "message": {"content": [{"type": "text", "text": "hi"}]}},
        Identity("s1", "/work", record="u1", body=BODY),
    ),
    "claude, a line without an id": (
        {"type": "summary", "summary": "S", "leafUuid": "u1"},
        Identity(body=""),
    ),
    "codex, a header": (codex.line("session_meta", **META), Identity("c2", "/work", body="")),
    "codex, the header of a fork": (
        codex.line("session_meta", **META, forked_from_id="c1"),
        Identity("c2", "/work", origin="c1", body=""),
    ),
    "codex, an item": (
        codex.line("response_item", **ITEM),
        Identity(body=json.dumps(["response_item", ITEM])),
    ),
    "codex exec": ({"type": "thread.started", "thread_id": "c1"}, Identity("c1", body="")),
    "codex exec, an item": (
        {"type": "item.completed", "item": {"id": "item_0", "type": "reasoning"}},
        Identity(),
    ),
    "gemini cli": (
        {"sessionId": "g1", "projectHash": "p", "startTime": STAMP, "messages": []},
        Identity("g1", "p"),
    ),
    "opencode": (
        {
            "id": "ses_1",
            "projectID": "p",
            "title": "T",
            "version": "1",
            "directory": "/w",
            "time": {"created": 1},
        },
        Identity("ses_1", "p", body=""),
    ),
    "opencode, a message": (
        {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 5}, "summary": {}},
        Identity("ses_1", record="user 5", body=""),
    ),
    "opencode, a part": (
        {"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": "hi"},
        Identity("ses_1", body='{"text": "hi", "type": "text"}'),
    ),
    "opencode, an event of a run": (
        {"type": "text", "sessionID": "ses_1", "part": {"id": "prt_1", "type": "text", "text": "hi"}},
        Identity("ses_1"),
    ),
    "pi, a header": (
        {
            "type": "session",
            "version": 3,
            "id": "p2",
            "timestamp": STAMP,
            "cwd": "/work",
            "parentSession": "/x/2026_12345678-1234-1234-1234-123456789abc.jsonl",
        },
        Identity("p2", "/work", origin="12345678-1234-1234-1234-123456789abc", body=""),
    ),
    "pi, a header of version 1": (
        {
            "type": "session",
            "id": "p2",
            "timestamp": STAMP,
            "cwd": "/work",
            "branchedFrom": "/x/2026_12345678-1234-1234-1234-123456789abc.jsonl",
        },
        Identity("p2", "/work", origin="12345678-1234-1234-1234-123456789abc", body=""),
    ),
    "pi, an entry": (
        {
            "type": "message",
            "id": "e1",
            "parentId": None,
            "timestamp": STAMP,
            "message": {**MESSAGE, "timestamp": 1},
        },
        Identity(record="e1"),
    ),
    "unknown": ({"a": 1}, Identity()),
}


@pytest.mark.parametrize("name", RECORDS)
def test_identifies_records(name: str) -> None:
    record, expected = RECORDS[name]
    text = json.dumps(record)

    assert identify(text, None) == expected
    assert parse_raw(text, None).identity() == expected


HOSTILE: list[Any] = [
    None,
    "text",
    [LINE],
    {**LINE, "uuid": 5, "cwd": [], "agentId": {}, "sessionId": None, "forkedFrom": "s0"},
    {**LINE, "forkedFrom": {"sessionId": 5, "messageUuid": []}},
    codex.line("session_meta", id=[], cwd={}, forked_from_id=1),
    codex.line("response_item", number=int("9" * 4000), surrogate="\ud800"),
    {"type": "session", "id": {}, "parentSession": 5},
    {"ev": "message", "data": {"ev": "message", "data": LINE}},
    {"projectID": 5, "sessionID": [], "info": "x"},
    {"id": "m", "sessionID": "s", "role": [], "time": {"created": int("9" * 4000)}},
]


@pytest.mark.parametrize("source", [None, "claude", "codex", "gemini_cli", "opencode", "pi", "ash", "other"])
def test_never_raises(source: str | None) -> None:
    texts = [*map(json.dumps, HOSTILE), "", "{", '{"a":1e999}', '{"type":"session_meta","payload":{"n":NaN}}']
    for text in texts:
        assert identify(text, source) == parse_raw(text, source).identity()
        json.dumps(identify(text, source))
