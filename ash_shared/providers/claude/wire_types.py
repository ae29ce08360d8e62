"""The records of the Claude family, by `type`, with their parsers, parts, steps and recognition."""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from ash_shared.model.blocks import pick
from ash_shared.providers.claude import messages, recognition, records, steps
from ash_shared.providers.claude.content import BLOCK_TYPES, ROLES
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    WireType,
    chunk_record,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import CLAUDE_LINE_KEYS, ENVELOPE_KEYS
from ash_shared.records.json_fields import is_one_of, text_at
from ash_shared.records.steps import CurrentAgent, Step, TurnEnd, TurnStart


def _script_call_line(record: Record) -> Record:
    """Return a call that a script inside a tool made, or its result, as a line below the call of that tool."""
    line = record.get("message")
    if not isinstance(line, dict):
        block = record["block"]
        line = {"role": "user" if block["type"] == "tool_result" else "assistant", "content": [block]}
    if "message" not in line:
        line = {"type": line["role"], "message": line}
    known = pick(line, "type", "message", *records.TOOL_RESULTS)
    row = {"uuid": record["rowUuid"]} if "rowUuid" in record else {}
    return {**known, **row, **pick(record, "agentId"), "ranByToolUseId": record["ranByToolUseId"]}


def _parse_script_call(record: Record) -> ParsedRecord:
    """Parse a call of a script; a record that only withholds the calls of a script has no content."""
    if "block" not in record and "message" not in record:
        return control_record(record)
    line = _script_call_line(record)
    return records.parse_line(line) if is_one_of(line["type"], ROLES) else unknown_record(record)


def _script_call_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the content, which is never a prompt. Its usage is not the session's.

    A call has a line of its own when the script has ended, with `rowUuid` as its id; other content may have one.
    """
    if parsed.kind != "message" or _is_unsaved_result(record):
        return []
    parts = messages.line_parts(_script_call_line(record), parsed)
    return [
        replace(part, origin="mid_turn", usage=None)
        if part.relation == "new_version"
        else replace(part, key=None, relation="copy", origin="mid_turn", usage=None)
        for part in parts
    ]


def _is_unsaved_result(record: Record) -> bool:
    """True for the end of a call without its result, which only the line of the result has."""
    return _UNSAVED.fullmatch(text_at(record, "block", "content") or "") is not None


_UNSAVED = re.compile(r"This call (finished|failed or was stopped)\. Its result was not saved\.")


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
            "api-request",
            "api-request-blob",
            "api-request-resumed",
            "api-request-shape",
            "artifact-autoreact-ledger",
            "artifact-comment-monitor",
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
            "cost-state",
            "custom-title",
            "dev-mods",
            "file-history-delta",
            "file-history-snapshot",
            "frame-link",
            "history-suppression",
            "isolation-latch",
            "keep_alive",
            "last-prompt",
            "memory-mode",
            "mode",
            "observer-ref",
            "permission-mode",
            "pr-link",
            "prompt_suggestion",
            "rate_limit_event",
            "relocated",
            "repl-mode",
            "resume-head-vouch",
            "session-env",
            "started",
            "tag",
            "tool_progress",
            "tools-used",
            "worktree-state",
        ),
        WireType(control_record),
    ),
    **dict.fromkeys(
        ("data-flow-incomplete", "data-flow-records"),
        WireType(control_record, matches=lambda record: "data" not in record),  # unlike a part of Vercel's
    ),
    **dict.fromkeys(
        (
            "apply_flag_settings",
            "autocompact_state",
            "bash_command",
            "command_lifecycle",
            "compact_progress",
            "env_manager_log",
            "hint_clears",
            "open_message_selector",
            "os_notification",
            "queued_notification",
            "refusal_continuation",
            "response_length",
            "session_notice",
            "set_expanded_view",
            "set_in_progress_tool_use_ids",
            "stream_mode",
            "thinking_signature",
            "tombstone",
        ),
        WireType(control_record, matches=lambda record: not CLAUDE_LINE_KEYS.isdisjoint(record)),
    ),
    **dict.fromkeys(steps.API_EVENTS, WireType(chunk_record, steps=steps.api_event_steps)),
    **dict.fromkeys(BLOCK_TYPES, WireType(records.parse_bare_block, matches=recognition.is_block)),
    **dict.fromkeys(("hybrid-organization", "session-owner"), WireType(records.parse_private)),
    "agent-setting": WireType(
        control_record, steps=lambda record, parsed: [CurrentAgent(record["agentSetting"])]
    ),
    "assistant": WireType(
        records.parse_line, messages.assistant_parts, steps.assistant_steps, matches=recognition.is_line
    ),
    "ash-continued": WireType(control_record),
    "attachment": WireType(control_record, messages.attachment_parts),
    "completion": WireType(
        records.parse_completion,
        steps=steps.completion_steps,
        matches=lambda record: isinstance(record.get("completion"), str),
    ),
    "continued-in": WireType(control_record, steps=steps.continuation_steps),
    **dict.fromkeys(
        ("data-flow-incomplete", "data-flow-records"),
        # Parts of Vercel's AI SDK have types such as `data-NAME`, and `data`.
        WireType(control_record, matches=lambda record: "data" not in record),
    ),
    "derived-from": WireType(control_record, steps=steps.derivation_steps),
    "ended-by-model": WireType(control_record, steps=steps.ending_steps),
    "error": WireType(control_record, messages.error_parts, steps.error_steps, matches=recognition.is_error),
    "fork-context-ref": WireType(control_record, steps=steps.inheritance_steps),
    "host-row": WireType(_parse_script_call, _script_call_parts),
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
            "agents_killed",
            "background_tasks_changed",
            "bridge_state",
            "bridge_status",
            "checkpoint_done",
            "cloud_session_delta",
            "cloud_session_status",
            "code_change_published",
            "commands_changed",
            "control_request_progress",
            "dev_intent",
            "elicitation_complete",
            "feedback_draft_queued",
            "file_attachments_missing",
            "file_snapshot",
            "files_persisted",
            "hook_progress",
            "hook_response",
            "hook_started",
            "inherited_asks_settled",
            "init_milestone",
            "instruction_size_warning",
            "late_allow_not_run",
            "memory_recall",
            "memory_saved",
            "microcompact_boundary",
            "mirror_error",
            "peer_message_hold",
            "per_turn_effort_changed",
            "permission_check_status",
            "placed",
            "plugin_install",
            "post_turn_summary",
            "session_end",
            "session_metadata",
            "session_start",
            "session_state_changed",
            "session_title_changed",
            "session_writes_lost",
            "shell_cwd",
            "start_folder",
            "status",
            "stop_hook_summary",
            "task_list_statuses",
            "task_notification",
            "task_progress",
            "task_started",
            "task_summary",
            "task_updated",
            "thinking",
            "thinking_tokens",
            "tool_host_result",
            "turn_began_before_init",
            "turn_handoff_available",
            "turn_preempted",
            "turn_starting",
            "ui_copy",
            "ui_focus",
            "ui_invalidate",
            "ui_log",
            "ui_notify",
            "ui_notify_cancel",
            "ui_panes",
            "ui_placed",
            "ui_prompt_fill",
            "ui_prompt_paint",
            "ui_prompt_read",
            "ui_prompt_suggest",
            "ui_read_selection",
            "ui_scroll",
            "ui_status",
            "ui_toast",
            "upgrade_relay_marker",
            "vcs_state_changed",
            "voice_call_talk",
            "worker_shutting_down",
            "workflow_launch_result",
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
            "model_consent_fallback",
            "model_fallback",
            "model_refusal_fallback",
            "model_refusal_no_fallback",
            "notification",
            "permission_retry",
            "rewind_stand_in",
            "scheduled_task_fire",
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
