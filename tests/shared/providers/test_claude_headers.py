"""Metadata of lines of the Claude family."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ash_shared.model.message import RecordHeader, StatedTotal
from ash_shared.parsing.parse import describe_message
from ash_shared.providers.claude.messages import MAX_STATED_COST, header

FACTS: list[tuple[dict[str, Any], RecordHeader]] = [
    ({}, RecordHeader()),
    ({"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}, RecordHeader()),
    ({"uuid": "u"}, RecordHeader(uuid="u")),
    ({"timestamp": "1970-01-01T00:00:01Z"}, RecordHeader(timestamp=1000)),
    ({"sessionId": "s"}, RecordHeader(session_id="s")),
    ({"session_id": "s"}, RecordHeader(session_id="s")),
    ({"version": "2.1.0"}, RecordHeader(client_version="2.1.0")),
    ({"claude_code_version": "2.1.0"}, RecordHeader(client_version="2.1.0")),
    ({"model": "m"}, RecordHeader(model="m")),
    ({"type": "message_start", "message": {"model": "m"}}, RecordHeader(model="m")),
    ({"type": "ai-title", "aiTitle": "t"}, RecordHeader(title="t")),
    ({"type": "ai-title", "title": "t"}, RecordHeader(title="t")),
    ({"type": "summary", "summary": "t"}, RecordHeader(title="t")),
    ({"type": "custom-title", "customTitle": "t"}, RecordHeader(title="t", is_title_of_person=True)),
    ({"subtype": "local_command", "content": "/rename t"}, RecordHeader(title="t", is_title_of_person=True)),
    ({"isSidechain": False}, RecordHeader(agent="")),
    ({"isSidechain": True, "agentId": "a"}, RecordHeader(agent="a")),
    ({"cwd": "/w"}, RecordHeader(folder="/w")),
    ({"gitBranch": "main"}, RecordHeader(branch="main")),
    ({"worktreeSession": {"originalCwd": "/w"}}, RecordHeader(root="/w")),
    (
        {"type": "cost-state", "totalCostUSD": 0.0815, "modelUsage": {"opus": {}, "haiku": {}}},
        RecordHeader(stated_total=StatedTotal(81_500_000, ("haiku", "opus"))),
    ),
    ({"type": "cost-state", "totalCostUSD": 0, "modelUsage": []}, RecordHeader(stated_total=StatedTotal(0))),
    ({"type": "cost-state"}, RecordHeader()),
    ({"type": "cost-state", "totalCostUSD": -1}, RecordHeader()),
    ({"type": "cost-state", "totalCostUSD": "1"}, RecordHeader()),
    ({"type": "cost-state", "totalCostUSD": True}, RecordHeader()),
    ({"type": "cost-state", "totalCostUSD": 2.0 * MAX_STATED_COST}, RecordHeader()),
    ({"type": "other", "totalCostUSD": 1}, RecordHeader()),
]


@pytest.mark.parametrize(("record", "expected"), FACTS)
def test_header_of_a_line(record: dict[str, Any], expected: RecordHeader) -> None:
    assert header(record) == expected


def test_last_cost_of_a_line_counts() -> None:
    texts = [json.dumps({"type": "cost-state", "totalCostUSD": cost}) for cost in (1, 2)]
    assert describe_message("".join(texts), "claude").header.stated_total == StatedTotal(2_000_000_000)


@pytest.mark.slow
def test_lines_without_a_header_are_known_by_their_keys(claude_family: list[Path]) -> None:
    """An empty model adds nothing to the header, but is one of its keys."""
    lines = (
        raw for folder in claude_family for path in folder.iterdir() for raw in path.read_bytes().splitlines()
    )
    records = filter(None, map(_decode_record, lines))
    parts = [{"type": record.get("type"), name: record[name]} for record in records for name in record]

    assert [part for part in parts if header(part) != header({"model": "", **part})] == []
    assert len(parts) > 1000


def _decode_record(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
