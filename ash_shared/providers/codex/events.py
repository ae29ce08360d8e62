"""Events: `event_msg` payloads of a rollout file, and the `{"id", "msg"}` lines of the legacy `codex exec
--json`.

Source: `EventMsg` of Codex's protocol. In a rollout file most events repeat a response item.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ash_shared.model.blocks import Block, Translation, renamed, text_block, translate, translated
from ash_shared.model.message import Kind, Role
from ash_shared.providers.codex import messages, steps
from ash_shared.providers.codex.bodies import (
    BodyParser,
    BodyType,
    EventSteps,
    Steps,
    parse_control,
    parse_fragment,
    rows_under,
)
from ash_shared.providers.codex.content import generated_image_result, keep_item_keys, parse_block
from ash_shared.providers.codex.response_items import parse_item, row_of_item
from ash_shared.providers.codex.turn_items import dynamic_result_fields, mcp_result_fields, parse_turn_item
from ash_shared.records.contract import ParsedRecord, Record, WireType, control_record, unknown_record
from ash_shared.records.json_fields import list_or_empty, text_at
from ash_shared.records.steps import Emit, TurnEnd, TurnStart


def _translate_user_message(event: Record) -> list[Block]:
    """Translate the user's text and attachments."""
    text_key = "message" if "message" in event else "text"
    attached = {name: event[name] for name in _ATTACHMENTS if event.get(name)}
    used = {text_key, "images", "local_images", *attached}
    return [
        translated(event, text_block(event[text_key]), used, event["type"]),
        *(
            parse_block({"type": part_type, key: value})
            for name, (part_type, key) in _ATTACHMENTS.items()
            for value in list_or_empty(attached.get(name))
        ),
    ]


_ATTACHMENTS: Mapping[str, tuple[str, str]] = {
    "images": ("image", "image_url"),
    "file_ids": ("image", "file_id"),
    "local_images": ("local_image", "path"),
    "audio": ("audio", "audio_url"),
    "local_audio": ("local_audio", "path"),
}
"""Lists of a prompt's attachments: the type of the content part, and the key of its reference."""


def _translate_agent_message(event: Record) -> Block:
    typed = text_block(event["message"]) | renamed(event, phase="phase")
    return translated(event, typed, {"message", "phase"}, event["type"])


def _translate_agent_reasoning(event: Record) -> Block:
    summary = {"is_summary": True} if event["type"] == "agent_reasoning" else {}
    typed = {"type": "thinking", "thinking": event["text"], **summary}
    return translated(event, typed, {"text"}, event["type"])


def _notice_translation(variant: str) -> Translation:
    def parse(event: Record) -> Block:
        fields = event["error"] if "message" not in event and isinstance(event.get("error"), dict) else event
        rest = {key: value for key, value in fields.items() if key != "message"}
        extra = rest if fields is event else {**event, "error": rest}
        return translated(extra, text_block(fields["message"], variant), (), event["type"])

    return parse


def _begin_translation(name: str, *arguments: str, **more: str) -> Callable[[Record], Block]:
    def parse(event: Record) -> Block:
        input = {key: event[key] for key in arguments if key in event}
        typed = {"type": "tool_use", **renamed(event, id="call_id"), "name": name, "input": input, **more}
        return translated(event, typed, {"call_id", *arguments}, event["type"])

    return parse


def _translate_mcp_begin(event: Record) -> Block:
    invocation = event["invocation"]
    typed = {
        "type": "tool_use",
        **renamed(event, id="call_id"),
        "name": invocation["tool"],
        "input": invocation.get("arguments"),
        "executor": "mcp",
        "server_name": invocation["server"],
    }
    return translated(event, typed, {"call_id", "invocation"}, event["type"])


def _translate_dynamic_begin(event: Record) -> Block:
    id_key = "call_id" if "call_id" in event else "callId"
    typed = {"type": "tool_use", **renamed(event, id=id_key, name="tool", input="arguments")}
    return translated(event, typed, {id_key, "tool", "arguments"}, event["type"])


def _tool_result_block(event: Record, typed: Block, *used: str) -> Block:
    block = {"type": "tool_result", **renamed(event, tool_use_id="call_id"), **typed}
    return translated(event, block, {"call_id", *used}, event["type"])


def _translate_exec_end(event: Record) -> Block:
    keys = ("aggregated_output", "formatted_output", "stdout")
    output_key = next((key for key in keys if event.get(key)), "stdout")
    code = event["exit_code"]
    typed = {"content": event[output_key], "is_error": code != 0, "exit_code": code}
    return _tool_result_block(event, typed, output_key, "exit_code")


def _translate_patch_end(event: Record) -> Block:
    changes = {"structured": {"changes": event["changes"]}} if "changes" in event else {}
    typed = {"content": event["stdout"], "is_error": not event["success"], **changes}
    return _tool_result_block(event, typed, "stdout", "changes")


def _translate_mcp_end(event: Record) -> Block:
    """Translate a result, which Rust writes as `{"Ok": answer}` or `{"Err": text}`."""
    result = event["result"]
    if "Err" in result:
        return _tool_result_block(event, {"content": result["Err"], "is_error": True}, "result")
    fields = mcp_result_fields(result["Ok"])
    extra = fields.pop("extra", None)
    if extra is None:
        return _tool_result_block(event, fields, "result")
    return _tool_result_block({**event, "result": extra}, fields)


def _translate_dynamic_end(event: Record) -> Block:
    return _tool_result_block(event, dynamic_result_fields(event), "content_items", "error")


def _translate_search_end(event: Record) -> Block:
    results = {} if event.get("results") is None else {"structured": event["results"]}
    return _tool_result_block(event, results, "results")


def _translate_image_end(event: Record) -> Block:
    result = generated_image_result(event, event.get("call_id"))
    return _tool_result_block(event, {"content": result[0]["content"]} if result else {}, "result")


def _parser(kind: Kind, role: Role, translation: Translation) -> BodyParser:
    return lambda event, record, name: ParsedRecord(kind, role, translate(name, event, translation))


def _item_event_parser(parse: Callable[[Record, Record], ParsedRecord]) -> BodyParser:
    """Return the parser of events with an item; the times and ids of the event go to `extra`."""

    def parse_event(event: Record, record: Record, name: str) -> ParsedRecord:
        parsed = parse(event["item"], record)
        blocks = parsed.blocks
        if len(blocks) == 1 and blocks[0].get("raw") is record:
            return parsed
        return ParsedRecord(parsed.kind, parsed.role, keep_item_keys(blocks, event, ("item",)))

    return parse_event


def _no_steps(event: Record, parsed: ParsedRecord) -> Steps:
    return []


def _derived_steps(event: Record, parsed: ParsedRecord) -> Steps:
    return None


class _ToolEvent(NamedTuple):
    """A row of events about calls. A rollout file usually also has the call as an item; the legacy stream does not."""

    role: Role
    translation: Translation
    steps: EventSteps
    legacy_steps: EventSteps = _derived_steps

    def rollout_row(self) -> BodyType:
        parse = _parser("record", "system", self.translation)
        return BodyType(parse, messages.call_event_parts, self.steps)

    def legacy_row(self) -> BodyType:
        parse = _parser("message", self.role, self.translation)
        return BodyType(parse, messages.text_parts, self.legacy_steps)


def _call_begin(translation: Translation) -> _ToolEvent:
    return _ToolEvent("assistant", translation, _no_steps)


def _call_end(
    translation: Translation,
    translate_begin: Callable[[Record], Block],
    legacy_steps: EventSteps = _derived_steps,
) -> _ToolEvent:
    """Return the row of the end of a call, which contains all keys of its beginning."""
    end_steps = steps.call_end_steps(translate_begin, is_copy=True)
    return _ToolEvent("tool", translation, end_steps, legacy_steps)


def _hosted_begin(name: str) -> _ToolEvent:
    """Return the row of the beginning of a hosted call; its arguments are not known yet."""
    return _ToolEvent("assistant", _begin_translation(name, executor="server"), _no_steps, _no_steps)


def _hosted_end(translation: Translation, name: str, *arguments: str) -> _ToolEvent:
    """Return the row of the end of a hosted call, which in a rollout file only extends the result of its item."""
    parse_call = steps.hosted_call_parser(name, *arguments)
    legacy_steps = steps.call_end_steps(parse_call, is_copy=False)
    return _ToolEvent("assistant", translation, _derived_steps, legacy_steps)


_translate_exec_begin = _begin_translation("shell", "command", "cwd")
_translate_patch_begin = _begin_translation("apply_patch", "changes")
_translate_image_view = _begin_translation("view_image", "path")

_TOOL_EVENTS: Mapping[str, _ToolEvent] = {
    "dynamic_tool_call_request": _ToolEvent("assistant", _translate_dynamic_begin, steps.copied_call_steps),
    "dynamic_tool_call_response": _call_end(_translate_dynamic_end, _translate_dynamic_begin),
    "exec_command_begin": _call_begin(_translate_exec_begin),
    "exec_command_end": _call_end(_translate_exec_end, _translate_exec_begin),
    "image_generation_begin": _hosted_begin("image_generation"),
    "image_generation_end": _hosted_end(_translate_image_end, "image_generation", "revised_prompt"),
    "mcp_tool_call_begin": _call_begin(_translate_mcp_begin),
    "mcp_tool_call_end": _call_end(_translate_mcp_end, _translate_mcp_begin),
    "patch_apply_begin": _call_begin(_translate_patch_begin),
    "patch_apply_end": _call_end(_translate_patch_end, _translate_patch_begin, steps.patch_end_steps),
    "view_image_tool_call": _ToolEvent("assistant", _translate_image_view, steps.copied_call_steps),
    "web_search_begin": _hosted_begin("web_search"),
    "web_search_end": _hosted_end(_translate_search_end, "web_search", "query", "action"),
}

_CONTROL = BodyType(parse_control)
_NOTICE = BodyType(_parser("record", "system", _notice_translation("notice")))
_NOTICE_ERROR = _parser("record", "system", _notice_translation("error"))
_REASONING = BodyType(_parser("message", "assistant", _translate_agent_reasoning), messages.copied_text_parts)
_REPEATED_DELTA = BodyType(parse_fragment, steps=_no_steps)
_TASK_END = BodyType(parse_control, messages.task_end_parts, steps.task_end_steps)
_TASK_START = BodyType(parse_control, steps=lambda event, parsed: [TurnStart(text_at(event, "turn_id"))])

_EVENTS: Mapping[str, BodyType] = {
    **dict.fromkeys(
        (
            "account/rateLimits/updated",
            "agent_reasoning_section_break",
            "apply_patch_approval_request",
            "background_event",
            "collab_agent_interaction_begin",
            "collab_agent_spawn_begin",
            "collab_close_begin",
            "collab_close_end",
            "collab_resume_begin",
            "collab_resume_end",
            "collab_waiting_begin",
            "context_compacted",
            "conversation_path",
            "deprecation_notice",
            "elicitation_abandoned",
            "elicitation_request",
            "entered_review_mode",
            "environment_connected",
            "environment_disconnected",
            "exec_approval_request",
            "exited_review_mode",
            "get_history_entry_response",
            "guardian_assessment",
            "guardian_warning",
            "hook_completed",
            "hook_started",
            "list_custom_prompts_response",
            "list_skills_response",
            "mcp_list_tools_response",
            "mcp_startup_complete",
            "mcp_startup_update",
            "model_reroute",
            "model_verification",
            "patch_apply_updated",
            "plan_update",
            "raw_response_completed",
            "realtime_conversation_closed",
            "realtime_conversation_list_voices_response",
            "realtime_conversation_realtime",
            "realtime_conversation_sdp",
            "realtime_conversation_started",
            "request_permissions",
            "safety_buffering",
            "session_configured",
            "shutdown_complete",
            "skills_update_available",
            "terminal_interaction",
            "thread_goal_updated",
            "thread_name_updated",
            "thread_queue_changed",
            "thread_settings_applied",
            "turn_diff",
            "turn_moderation_metadata",
            "undo_started",
        ),
        _CONTROL,
    ),
    "agent_message": BodyType(
        _parser("message", "assistant", _translate_agent_message), messages.copied_text_parts
    ),
    "agent_message_content_delta": _REPEATED_DELTA,
    "agent_message_delta": BodyType(parse_fragment, steps=steps.delta_steps("message")),
    "agent_reasoning": _REASONING,
    "agent_reasoning_delta": BodyType(parse_fragment, steps=steps.delta_steps("reasoning")),
    "agent_reasoning_raw_content": _REASONING,
    "agent_reasoning_raw_content_delta": BodyType(parse_fragment, steps=steps.delta_steps("raw reasoning")),
    **dict.fromkeys(("auth_recovery_completed", "auth_recovery_started", "warning"), _NOTICE),
    "collab_agent_interaction_end": BodyType(parse_control, steps=steps.agent_prompt_steps),
    "collab_agent_spawn_end": BodyType(parse_control, steps=steps.agent_prompt_steps),
    "collab_waiting_end": BodyType(parse_control, steps=steps.agent_wait_steps),
    "error": BodyType(_NOTICE_ERROR, messages.error_parts, steps.error_steps),
    "exec_command_output_delta": BodyType(parse_fragment, steps=steps.output_delta_steps),
    "item_completed": BodyType(
        _item_event_parser(parse_turn_item),
        lambda event, parsed: messages.completed_item_parts(event["item"], parsed),
        lambda event, parsed: steps.completed_item_steps(event["item"], parsed),
    ),
    "item_started": BodyType(_item_event_parser(parse_turn_item), steps=_no_steps),
    "plan_delta": BodyType(parse_fragment, steps=steps.plan_delta_steps),
    "raw_response_item": BodyType(
        _item_event_parser(parse_item),
        lambda event, parsed: row_of_item(event["item"]).parts(event["item"], parsed),
        _no_steps,
    ),
    "reasoning_content_delta": _REPEATED_DELTA,
    "reasoning_raw_content_delta": _REPEATED_DELTA,
    "request_user_input": BodyType(parse_control, steps=steps.question_steps),
    "stream_error": BodyType(_NOTICE_ERROR),
    "sub_agent_activity": BodyType(parse_control, steps=steps.agent_activity_steps),
    "task_complete": _TASK_END,
    "task_started": _TASK_START,
    "thread_rolled_back": BodyType(parse_control, messages.rollback_parts),
    "token_count": BodyType(parse_control, messages.token_count_parts),
    "turn.completed": BodyType(parse_control, messages.turn_end_parts),
    "turn_aborted": BodyType(
        parse_control, messages.abort_parts, lambda event, parsed: [TurnEnd("user_cancel")]
    ),
    "turn_complete": _TASK_END,
    "turn_started": _TASK_START,
    "undo_completed": BodyType(parse_control, messages.undo_parts),
    "user_message": BodyType(
        _parser("message", "user", _translate_user_message), messages.copied_text_parts, steps.prompt_steps
    ),
}
"""Events by type. Repeated deltas, and calls before their arguments are known, have no steps."""

_LEGACY_EVENTS: Mapping[str, BodyType] = {
    **{
        name: row._replace(parts=messages.text_parts) if row.parts is messages.copied_text_parts else row
        for name, row in _EVENTS.items()
    },
    **{name: row.legacy_row() for name, row in _TOOL_EVENTS.items()},
    "context_compacted": BodyType(parse_control, steps=lambda event, parsed: [Emit("summary", {"text": ""})]),
}
"""Events of the legacy stream, which has no items. Some events repeat another line only in a rollout file."""


def _unknown_row(key: str, prefix: str) -> WireType:
    def parse(record: Record) -> ParsedRecord:
        name = record[key]["type"]
        is_known = name.startswith("codex/event/")
        return (control_record if is_known else unknown_record)(record, f"{prefix}/{name}")

    return WireType(parse)


EVENT_LINES = rows_under(
    "payload", "event_msg", {**_EVENTS, **{name: row.rollout_row() for name, row in _TOOL_EVENTS.items()}}
)
UNKNOWN_EVENT_LINE = _unknown_row("payload", "event_msg")
LEGACY_EVENT_LINES = rows_under("msg", "msg", _LEGACY_EVENTS)
UNKNOWN_LEGACY_EVENT_LINE = _unknown_row("msg", "msg")
