"""Records of Claude Code outside the conversation: each type is known, and only few are shown."""

import json
from typing import Any

import pytest

from ash_shared import parse_message, to_session_summary, transform_messages
from ash_shared.eventlog import Event
from ash_shared.projections.search_text import passages
from tests.shared.providers.test_claude_events import follow
from tests.shared.records.claude import USAGE, assistant, call, line, text

Record = dict[str, Any]

SECRET = "You are a tide clerk."
USAGES = {"model-a": {"inputTokens": 900, "outputTokens": 40, "costUSD": 0.5}}
CONTROL: list[Record] = [
    {
        "type": "api-request",
        "id": "q1",
        "querySource": "main",
        "params": {"model": "model-a"},
        "tail": ["h1"],
    },
    {"type": "api-request-blob", "hash": "h1", "message": {"role": "user", "content": SECRET}},
    {"type": "api-request-blob", "hash": "h2", "message": {"role": "assistant", "content": [text(SECRET)]}},
    {"type": "api-request-resumed", "messageId": "m1", "pausedRequestId": "r1", "resumedRequestId": "r2"},
    {"type": "api-request-shape", "shapeHash": "h3", "shape": {"system": [text(SECRET)], "tools": []}},
    {"type": "artifact-autoreact-ledger", "v": 1, "artifacts": {}},
    {"type": "artifact-comment-monitor", "v": 1, "artifacts": {}},
    {"type": "cost-state", "totalCostUSD": 0.5, "modelUsage": USAGES},
    {"type": "data-flow-incomplete", "v": 1, "codes": ["lost"]},
    {"type": "data-flow-records", "v": 1, "records": [{"tool_name": "Bash", "tool_use_id": "t1"}]},
    {"type": "dev-mods", "folder": "/mods"},
    {"type": "file-history-delta", "messageId": "u1", "trackingPath": "a.md", "backup": {"version": 1}},
    {"type": "host-row", "ranByToolUseId": "t1", "withheld": True},
    {"type": "history-suppression", "cause": "migration", "ts": "2026-11-21T08:00:33Z"},
    {"type": "hybrid-organization", "organizationUuid": "o-1"},
    {"type": "isolation-latch", "side": "inside"},
    {"type": "memory-mode", "mode": "on", "afterUuid": None},
    {"type": "observer-ref", "agentId": "a1"},
    {"type": "repl-mode", "replMode": "off"},
    {"type": "resume-head-vouch", "sum": "0f"},
    {"type": "session-owner", "accountUuid": "o-2", "organizationUuid": "o-1"},
    {"type": "tools-used", "tools": ["Bash"]},
    {"type": "system", "subtype": "agents_killed"},
    {"type": "system", "subtype": "memory_saved", "writtenPaths": ["/m/a.md"]},
    {"type": "system", "subtype": "session_title_changed", "title": "Tides"},
]


def log(*records: Record) -> list[Event]:
    return follow([json.dumps({"sessionId": "s", **record}) for record in records])


@pytest.mark.parametrize("record", CONTROL, ids=lambda record: record.get("subtype", record["type"]))
def test_control_records_are_known_and_silent(record: Record) -> None:
    parsed = parse_message(json.dumps({"sessionId": "s", **record}))

    assert (parsed.source, parsed.kind) == ("claude", "record")
    assert [block.reason for block in parsed.parsed if block.type == "raw"] == ["control"]
    assert log(record) == []
    assert transform_messages([record]) == []


@pytest.mark.parametrize("type", ["session-owner", "hybrid-organization"])
def test_owners_of_sessions_are_not_shown(type: str) -> None:
    [block] = parse_message(
        json.dumps({"type": type, "accountUuid": "o-2", "organizationUuid": "o-1"})
    ).parsed

    assert block.model_dump() == {"type": "raw", "rawType": type, "reason": "control", "raw": {"type": type}}


def prompt(words: str) -> Record:
    return line("user", words, uuid="u1", parentUuid=None)


def answer(*blocks: Any, usage: Record = USAGE) -> Record:
    line = assistant(*blocks)
    return {**line, "message": {**line["message"], "usage": usage}, "uuid": "l1", "parentUuid": "u1"}


def test_repeated_requests_and_reported_costs_change_nothing() -> None:
    spoken = [prompt("When is high water?"), answer(text("At nine."))]

    events = log(spoken[0], *CONTROL, spoken[1], *CONTROL)

    assert [event["payload"] for event in events] == [event["payload"] for event in log(*spoken)]
    summary, plain = to_session_summary(events), to_session_summary(log(*spoken))
    assert (summary.usage, summary.cost_usd) == (plain.usage, None)
    words = [passage.text for event in events for passage in passages(event)]
    assert "When is high water?" in words
    assert not [text for text in words if SECRET in text]


NOTICES: dict[str, tuple[Record, dict[str, Any]]] = {
    "continued": (
        {"type": "continued-in", "continuedInSessionId": "s2"},
        {"text": "Continued in session s2", "targetSessionId": "s2"},
    ),
    "derived": (
        {
            "type": "derived-from",
            "v": 1,
            "sessions": [{"type": "claude_code_session", "id": "s0", "via": "branch"}],
        },
        {"text": "Derived from session s0 (branch)", "targetSessionId": "s0"},
    ),
    "derived in an unknown way": (
        {"type": "derived-from", "v": 1, "sessions": [{"type": "claude_code_session", "id": "s0"}]},
        {"text": "Derived from session s0", "targetSessionId": "s0"},
    ),
    "context of the parent": (
        {"type": "fork-context-ref", "agentId": "a1", "parentSessionId": "s0", "parentLastUuid": "u9"},
        {"text": "Begins with the context of session s0", "targetSessionId": "s0"},
    ),
    "ended": ({"type": "ended-by-model"}, {"text": "The model ended the conversation"}),
    "another model": (
        {
            "type": "system",
            "subtype": "model_fallback",
            "content": "Now model-b.",
            "fallbackModel": "model-b",
        },
        {"text": "Now model-b."},
    ),
    "a choice of another model": (
        {"type": "system", "subtype": "model_consent_fallback", "content": "Now model-b.", "choice": "yes"},
        {"text": "Now model-b."},
    ),
    "while the person was away": (
        {"type": "system", "subtype": "away_summary", "content": "The tests passed."},
        {"text": "The tests passed."},
    ),
    "a scheduled task": (
        {"type": "system", "subtype": "scheduled_task_fire", "content": "Fired."},
        {"text": "Fired."},
    ),
}


@pytest.mark.parametrize("name", NOTICES)
def test_records_that_are_shown_as_notices(name: str) -> None:
    record, payload = NOTICES[name]

    parsed = parse_message(json.dumps(record))

    assert parsed.source == "claude"
    assert {block.reason for block in parsed.parsed if block.type == "raw"} <= {"control"}
    assert [(event["type"], event["payload"]) for event in log(record)] == [
        ("system_message", {**payload, "variant": "notice"})
    ]


def test_records_that_a_resumed_session_repeats_are_shown_once() -> None:
    links = [
        record for record, payload in NOTICES.values() if record["type"] in ("derived-from", "ended-by-model")
    ]

    assert [event["payload"] for event in log(*links, *links)] == [event["payload"] for event in log(*links)]


def test_malformed_links_are_silent() -> None:
    assert log({"type": "derived-from", "sessions": None}, {"type": "continued-in"}) == []


def host_row(**content: Any) -> Record:
    return {"type": "host-row", "ranByToolUseId": "t1", **content}


def test_calls_of_a_script_belong_to_the_call_that_ran_it() -> None:
    inner_result = {"type": "tool_result", "tool_use_id": "t1-in0", "content": "Nine."}
    rows = [
        host_row(rowUuid="r1", block=call("t1-in0")),
        host_row(rowUuid="r2", block=inner_result),
        host_row(message={"type": "assistant", "message": answer(call("t1-in1"))["message"]}),
        host_row(message={"role": "user", "content": "A line of the script."}),
        host_row(withheld=True),
    ]
    records = [prompt("Go on."), answer(call("t1", "Bash")), *rows]

    events, messages = log(*records), transform_messages([*records])

    shown = [(event["type"], event["payload"].get("parentToolCallId")) for event in events]
    assert shown == [
        ("turn_start", None),
        ("user_message", None),
        ("tool_call", None),
        ("tool_call", "t1"),
        ("tool_result", "t1"),
        ("tool_call", "t1"),
        ("user_message", "t1"),
        ("turn_end", None),
    ]
    summary = to_session_summary(events)
    assert (summary.turns, summary.user_messages) == (1, 1)
    assert summary.usage is not None
    assert summary.usage.input_tokens == USAGE["input_tokens"]
    assert [each.metadata.parent_tool_use_id for each in messages] == [None, None, "t1", "t1", "t1", "t1"]
    assert [each.usage is not None for each in messages] == [False, True, False, False, False, False]


def test_calls_of_a_script_are_read_once_with_their_lines() -> None:
    """The rows come while the script runs; when it has ended, the lines of the calls have the ids of their rows."""
    unsaved = "This call finished. Its result was not saved."
    inner = {"type": "tool_result", "tool_use_id": "t1-in0", "content": unsaved, "is_error": False}
    rows = [host_row(rowUuid="r1", block=call("t1-in0")), host_row(rowUuid="r2", block=inner)]
    virtual: Record = {"isVirtual": True, "sessionId": "s"}
    lines = [
        {**answer(call("t1-in0")), **virtual, "uuid": "r1", "ranByToolUseId": "t1"},
        line("user", [{**inner, "content": "Nine."}], **virtual, uuid="r2"),
    ]
    records = [prompt("Go on."), answer(call("t1", "REPL"))]

    for written in ([*rows, *lines], lines):
        events, messages = log(*records, *written), transform_messages([*records, *written])

        assert [
            (event["type"], event["payload"].get("result"), event["payload"].get("parentToolCallId"))
            for event in events
            if event["payload"].get("toolCallId") == "t1-in0"
        ] == [("tool_call", None, "t1"), ("tool_result", "Nine.", None)]
        assert [
            (block.type, each.metadata.ran_by_tool_use_id) for each in messages[2:] for block in each.content
        ] == [("tool_use", "t1"), ("tool_result", None)]
