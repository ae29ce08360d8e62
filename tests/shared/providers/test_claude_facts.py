"""Metadata of lines of the Claude family."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ash_shared.model.message import Facts
from ash_shared.providers.claude.messages import facts

FACTS: list[tuple[dict[str, Any], Facts]] = [
    ({}, Facts()),
    ({"type": "content_block_delta", "index": 0, "delta": {"text": "a"}}, Facts()),
    ({"uuid": "u"}, Facts(uuid="u")),
    ({"timestamp": "1970-01-01T00:00:01Z"}, Facts(timestamp=1000)),
    ({"sessionId": "s"}, Facts(session_id="s")),
    ({"session_id": "s"}, Facts(session_id="s")),
    ({"version": "2.1.0"}, Facts(client_version="2.1.0")),
    ({"claude_code_version": "2.1.0"}, Facts(client_version="2.1.0")),
    ({"model": "m"}, Facts(model="m")),
    ({"type": "message_start", "message": {"model": "m"}}, Facts(model="m")),
    ({"type": "ai-title", "aiTitle": "t"}, Facts(title="t")),
    ({"type": "ai-title", "title": "t"}, Facts(title="t")),
    ({"type": "summary", "summary": "t"}, Facts(title="t")),
    ({"type": "custom-title", "customTitle": "t"}, Facts(title="t", is_title_of_person=True)),
    ({"subtype": "local_command", "content": "/rename t"}, Facts(title="t", is_title_of_person=True)),
    ({"isSidechain": False}, Facts(agent="")),
    ({"isSidechain": True, "agentId": "a"}, Facts(agent="a")),
]


@pytest.mark.parametrize(("record", "expected"), FACTS)
def test_facts_of_a_line(record: dict[str, Any], expected: Facts) -> None:
    assert facts(record) == expected


def test_lines_without_facts_are_known_by_their_keys(claude_family: list[Path]) -> None:
    """An empty model adds no facts, but is one of the keys of facts."""
    lines = (
        raw for folder in claude_family for path in folder.iterdir() for raw in path.read_bytes().splitlines()
    )
    records = filter(None, map(_decode_record, lines))
    parts = [{"type": record.get("type"), name: record[name]} for record in records for name in record]

    assert [part for part in parts if facts(part) != facts({"model": "", **part})] == []
    assert len(parts) > 1000


def _decode_record(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
