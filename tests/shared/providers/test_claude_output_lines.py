"""Lines that Claude Code prints only to the programs that run it."""

import json
from typing import Any

import pytest

from ash_shared import parse_message
from ash_shared.providers import discover

IDS = {"uuid": "u1", "session_id": "s1"}

LINES: list[dict[str, Any]] = [
    {"type": "apply_flag_settings", "settings": {"fastMode": True}},
    {"type": "command_lifecycle", "command_uuid": "u2", "state": "queued"},
    {"type": "compact_progress", "event": {"type": "compact_start"}},
    {"type": "os_notification", "message": "Waiting for you", "notification_type": "idle"},
    {"type": "stream_mode", "mode": "responding"},
    {"type": "tombstone", "message": {"role": "assistant", "content": [{"type": "text", "text": "Half"}]}},
    {"type": "system", "subtype": "init_milestone", "message": "cloned"},
    {"type": "system", "subtype": "task_list_statuses", "statuses": [{"id": "1", "status": "pending"}]},
    {"type": "system", "subtype": "thinking", "content": "Rendered again."},
    {"type": "system", "subtype": "upgrade_relay_marker", "content": "{}", "level": "info"},
    {"type": "system", "subtype": "workflow_launch_result", "artifact_line": "ok"},
]


@pytest.mark.parametrize("fields", LINES, ids=json.dumps)
def test_output_lines_are_control_records(fields: dict[str, Any]) -> None:
    line = {**fields, **IDS}
    parsed = parse_message(json.dumps(line))

    assert [name for name, provider in discover().items() if provider.recognize(line)] == ["claude"]
    assert [(block.type, getattr(block, "reason", None)) for block in parsed.parsed] == [("raw", "control")]
    assert parsed.kind == "record"


@pytest.mark.parametrize("name", ["bash_command", "command_lifecycle", "session_notice", "tombstone"])
def test_such_lines_of_other_programs_are_not_claimed(name: str) -> None:
    assert parse_message(json.dumps({"type": name, "id": "1"})).source == "unknown"
