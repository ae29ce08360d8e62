"""The records of the Claude family, by `type`, with their parsers, parts, steps and recognition."""

from collections.abc import Mapping

from ash_shared.providers.claude import messages, recognition, records, steps
from ash_shared.providers.claude.content import BLOCK_TYPES
from ash_shared.records.contract import (
    ParsedRecord,
    Record,
    WireType,
    chunk_record,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS
from ash_shared.records.json_fields import text_at
from ash_shared.records.steps import CurrentAgent, Step, TurnEnd, TurnStart


def _agent_line_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a subagent's line; the stream writes the same lines with `parent_tool_use_id`."""
    data = record["data"]
    if text_at(data, "type") != "agent_progress":
        return []
    agent = {"agentId": data.get("agentId"), "parent_tool_use_id": record["parentToolUseID"]}
    line = {**data["message"], **agent}
    row = _line_type(line)
    return row.steps(line, row.parse(line)) or []


TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(
        (
            "active_goal",
            "agent-color",
            "agent-name",
            "ai-title",
            "atis-latch",
            "attribution-snapshot",
            "auth_status",
            "bridge-session",
            "companion_intro",
            "content-replacement",
            "control_cancel_request",
            "control_request",
            "control_response",
            "conversation_reset",
            "custom-title",
            "file-history-snapshot",
            "frame-link",
            "keep_alive",
            "last-prompt",
            "mode",
            "permission-mode",
            "pr-link",
            "prompt_suggestion",
            "rate_limit_event",
            "relocated",
            "session-env",
            "started",
            "tag",
            "tool_progress",
            "worktree-state",
        ),
        WireType(control_record),
    ),
    **dict.fromkeys(steps.API_EVENTS, WireType(chunk_record, steps=steps.api_event_steps)),
    **dict.fromkeys(BLOCK_TYPES, WireType(records.parse_bare_block, matches=recognition.is_block)),
    "agent-setting": WireType(
        control_record, steps=lambda record, parsed: [CurrentAgent(record["agentSetting"])]
    ),
    "assistant": WireType(
        records.parse_line, messages.assistant_parts, steps.assistant_steps, matches=recognition.is_line
    ),
    "attachment": WireType(control_record, messages.attachment_parts),
    "completion": WireType(
        records.parse_completion,
        steps=steps.completion_steps,
        matches=lambda record: isinstance(record.get("completion"), str),
    ),
    "error": WireType(control_record, messages.error_parts, steps.error_steps, matches=recognition.is_error),
    "message": WireType(
        records.parse_response, messages.message_parts, steps.response_steps, matches=recognition.is_response
    ),
    "message_start": WireType(
        chunk_record, steps=steps.api_event_steps, matches=recognition.is_message_start
    ),
    "progress": WireType(control_record, steps=_agent_line_steps),
    "queue-operation": WireType(records.parse_queued, messages.queued_parts),
    "result": WireType(
        records.parse_result, messages.result_parts, steps.result_steps, matches=recognition.is_result
    ),
    "stream_event": WireType(chunk_record, messages.stream_event_parts, steps.cli_event_steps),
    "summary": WireType(
        records.parse_summary,
        messages.text_parts,
        lambda record, parsed: [],  # the title of a conversation, often of a different one
    ),
    "system": WireType(records.parse_notice, messages.system_parts, matches=recognition.is_system),
    "tool_use_summary": WireType(records.parse_summary, messages.text_parts, steps.tool_summary_steps),
    "user": WireType(records.parse_line, messages.user_parts, steps.user_steps, matches=recognition.is_line),
}
_REQUEST = WireType(records.parse_request, messages.request_parts)
_UNKNOWN = WireType(unknown_record)
_UNTYPED = WireType(records.parse_untyped, messages.message_parts)
_UNKNOWN_SYSTEM = WireType(unknown_record, messages.system_parts)

SYSTEM_TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(
        (
            "background_tasks_changed",
            "bridge_status",
            "commands_changed",
            "control_request_progress",
            "elicitation_complete",
            "files_persisted",
            "hook_progress",
            "hook_response",
            "hook_started",
            "memory_recall",
            "microcompact_boundary",
            "mirror_error",
            "plugin_install",
            "scheduled_task_fire",
            "session_end",
            "session_start",
            "session_state_changed",
            "session_writes_lost",
            "status",
            "stop_hook_summary",
            "task_notification",
            "task_progress",
            "task_started",
            "task_updated",
            "thinking_tokens",
            "worker_shutting_down",
        ),
        WireType(control_record, messages.system_parts),
    ),
    **dict.fromkeys(("api_error", "api_retry", "error"), WireType(control_record, messages.error_parts)),
    **dict.fromkeys(
        (
            "api_refusal",
            "away_summary",
            "informational",
            "local_command",
            "local_command_output",
            "model_refusal_fallback",
            "model_refusal_no_fallback",
            "notification",
        ),
        TYPES["system"],
    ),
    "compact_boundary": WireType(control_record, messages.boundary_parts, steps.compaction_steps),
    "init": WireType(control_record, messages.system_parts, lambda record, parsed: [TurnStart()]),
    "permission_denied": WireType(records.parse_denial, messages.system_parts),
    "turn_duration": WireType(control_record, messages.system_parts, lambda record, parsed: [TurnEnd()]),
}
"""The `system` records by `subtype`; `TYPES` has the row for records without a subtype."""


def wire_type(record: Record) -> WireType:
    """Return the row of a record, or of the line inside its envelope."""
    line = records.unwrap(record)
    row = _line_type(line)
    if line is record:
        return row
    return WireType(
        lambda record: row.parse(line),
        lambda record, parsed: row.parts(line, parsed),
        lambda record, parsed: row.steps(line, parsed),
    )


def _line_type(line: Record) -> WireType:
    name = line.get("type")
    if not isinstance(name, str):
        return _REQUEST if "messages" in line else _UNTYPED
    if name == "system" and isinstance((subtype := line.get("subtype")), str):
        return SYSTEM_TYPES.get(subtype, _UNKNOWN_SYSTEM)
    return TYPES.get(name, _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    return wire_type(record) if _is_own(record) else None


def _is_own(record: Record) -> bool:
    name = record.get("type")
    if not isinstance(name, str):
        return recognition.is_untyped_record(record)
    return name in TYPES and TYPES[name].matches(record) and record.keys().isdisjoint(ENVELOPE_KEYS)
