"""Events: `event_msg` payloads of a rollout file, and the `{"id", "msg"}` lines of the legacy `codex exec
--json`.

Source: `EventMsg` of Codex's protocol. In a rollout file most events repeat a response item.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, Translation, raw_block, renamed, text_block, translate, translated
from ash_shared.model.message import Kind, Role
from ash_shared.providers._kit.contract import Record, RecordReading
from ash_shared.providers._kit.json_fields import list_or_empty
from ash_shared.providers.codex.content import read_block
from ash_shared.providers.codex.response_items import generated_image_result, keep_item_keys, read_item
from ash_shared.providers.codex.turn_items import dynamic_result_fields, mcp_result_fields, read_turn_item


class _EventReader(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def read_event(event: Record, record: Record, envelope: str) -> RecordReading:
    """Read the event in a record; `envelope` is the record's type, or the key of the event."""
    wire_type = event["type"]
    if wire_type in _ITEM_EVENTS:
        return _read_item_event(event, record)
    if wire_type in _DELTAS:
        return RecordReading(
            "chunk", "assistant", [raw_block("stream_fragment", record, f"{envelope}/{wire_type}")]
        )
    if wire_type in _EVENTS:
        kind, role, translation = _EVENTS[wire_type]
        return RecordReading(kind, role, translate(f"{envelope}/{wire_type}", event, translation))
    if wire_type in TOOL_EVENTS:
        return _read_tool_event(event, envelope)
    is_known = wire_type in _CONTROL_EVENTS or wire_type.startswith("codex/event/")
    reason: Any = "control" if is_known else "unknown_type"
    return RecordReading("record", "system", [raw_block(reason, record, f"{envelope}/{wire_type}")])


def _read_item_event(event: Record, record: Record) -> RecordReading:
    """Read the item of an event; the times and ids of the event go to `extra`."""
    reader = read_item if event["type"] == "raw_response_item" else read_turn_item
    kind, role, blocks = reader(event["item"], record)
    return RecordReading(
        kind, role, blocks if _is_raw_record(blocks, record) else keep_item_keys(blocks, event, ("item",))
    )


def _is_raw_record(blocks: list[Block], record: Record) -> bool:
    return len(blocks) == 1 and blocks[0].get("raw") is record


def _read_tool_event(event: Record, envelope: str) -> RecordReading:
    """Read an event about a call. Rollout files also have the call as an item; the legacy stream does not."""
    role, translation = TOOL_EVENTS[event["type"]]
    blocks = translate(f"{envelope}/{event['type']}", event, translation)
    return (
        RecordReading("record", "system", blocks)
        if envelope == "event_msg"
        else RecordReading("message", role, blocks)
    )


_ITEM_EVENTS = frozenset({"item_completed", "item_started", "raw_response_item"})
_DELTAS = frozenset(
    {
        "agent_message_content_delta",
        "agent_message_delta",
        "agent_reasoning_delta",
        "agent_reasoning_raw_content_delta",
        "exec_command_output_delta",
        "plan_delta",
        "reasoning_content_delta",
        "reasoning_raw_content_delta",
    }
)
_CONTROL_EVENTS = frozenset(
    {
        "account/rateLimits/updated",
        "agent_reasoning_section_break",
        "apply_patch_approval_request",
        "background_event",
        "collab_agent_interaction_begin",
        "collab_agent_interaction_end",
        "collab_agent_spawn_begin",
        "collab_agent_spawn_end",
        "collab_close_begin",
        "collab_close_end",
        "collab_resume_begin",
        "collab_resume_end",
        "collab_waiting_begin",
        "collab_waiting_end",
        "context_compacted",
        "conversation_path",
        "deprecation_notice",
        "elicitation_request",
        "entered_review_mode",
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
        "realtime_conversation_closed",
        "realtime_conversation_list_voices_response",
        "realtime_conversation_realtime",
        "realtime_conversation_sdp",
        "realtime_conversation_started",
        "request_permissions",
        "request_user_input",
        "safety_buffering",
        "session_configured",
        "shutdown_complete",
        "skills_update_available",
        "sub_agent_activity",
        "task_complete",
        "task_started",
        "terminal_interaction",
        "thread_goal_updated",
        "thread_name_updated",
        "thread_rolled_back",
        "thread_settings_applied",
        "token_count",
        "turn.completed",
        "turn_aborted",
        "turn_complete",
        "turn_diff",
        "turn_moderation_metadata",
        "turn_started",
        "undo_completed",
        "undo_started",
    }
)


def _translate_user_message(event: Record) -> list[Block]:
    """Translate the user's text and images; images are URLs or local paths."""
    text_key = "message" if "message" in event else "text"
    images = [read_block({"type": "image", "image_url": url}) for url in list_or_empty(event.get("images"))]
    paths = list_or_empty(event.get("local_images"))
    local = [read_block({"type": "local_image", "path": path}) for path in paths]
    used = {text_key, "images", "local_images"}
    return [translated(event, text_block(event[text_key]), used, event["type"]), *images, *local]


def _translate_agent_message(event: Record) -> Block:
    typed = text_block(event["message"]) | renamed(event, phase="phase")
    return translated(event, typed, {"message", "phase"}, event["type"])


def _translate_agent_reasoning(event: Record) -> Block:
    summary = {"is_summary": True} if event["type"] == "agent_reasoning" else {}
    typed = {"type": "thinking", "thinking": event["text"], **summary}
    return translated(event, typed, {"text"}, event["type"])


def _notice_translation(variant: str) -> Translation:
    def read(event: Record) -> Block:
        fields = event["error"] if "message" not in event and event.get("error").__class__ is dict else event
        rest = {key: value for key, value in fields.items() if key != "message"}
        extra = rest if fields is event else {**event, "error": rest}
        return translated(extra, text_block(fields["message"], variant), (), event["type"])

    return read


def _begin_translation(name: str, *arguments: str, **more: str) -> Translation:
    def read(event: Record) -> Block:
        input = {key: event[key] for key in arguments if key in event}
        typed = {"type": "tool_use", **renamed(event, id="call_id"), "name": name, "input": input, **more}
        return translated(event, typed, {"call_id", *arguments}, event["type"])

    return read


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
    output_key = next(
        (key for key in ("aggregated_output", "formatted_output", "stdout") if event.get(key)), "stdout"
    )
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
    return _tool_result_block(
        event if extra is None else {**event, "result": extra}, fields, *(() if extra else ("result",))
    )


def _translate_dynamic_end(event: Record) -> Block:
    return _tool_result_block(event, dynamic_result_fields(event), "content_items", "error")


def _translate_search_end(event: Record) -> Block:
    results = {} if event.get("results") is None else {"structured": event["results"]}
    return _tool_result_block(event, results, "results")


def _translate_image_end(event: Record) -> Block:
    result = generated_image_result(event, event.get("call_id"))
    return _tool_result_block(event, {"content": result[0]["content"]} if result else {}, "result")


_EVENTS: Mapping[str, _EventReader] = {
    **dict.fromkeys(
        ("agent_reasoning", "agent_reasoning_raw_content"),
        _EventReader("message", "assistant", _translate_agent_reasoning),
    ),
    **dict.fromkeys(
        ("error", "stream_error"), _EventReader("record", "system", _notice_translation("error"))
    ),
    "agent_message": _EventReader("message", "assistant", _translate_agent_message),
    "user_message": _EventReader("message", "user", _translate_user_message),
    "warning": _EventReader("record", "system", _notice_translation("notice")),
}

TOOL_EVENTS: Mapping[str, tuple[Role, Translation]] = {
    "dynamic_tool_call_request": ("assistant", _translate_dynamic_begin),
    "dynamic_tool_call_response": ("tool", _translate_dynamic_end),
    "exec_command_begin": ("assistant", _begin_translation("shell", "command", "cwd")),
    "exec_command_end": ("tool", _translate_exec_end),
    "image_generation_begin": ("assistant", _begin_translation("image_generation", executor="server")),
    "image_generation_end": ("assistant", _translate_image_end),
    "mcp_tool_call_begin": ("assistant", _translate_mcp_begin),
    "mcp_tool_call_end": ("tool", _translate_mcp_end),
    "patch_apply_begin": ("assistant", _begin_translation("apply_patch", "changes")),
    "patch_apply_end": ("tool", _translate_patch_end),
    "view_image_tool_call": ("assistant", _begin_translation("view_image", "path")),
    "web_search_begin": ("assistant", _begin_translation("web_search", executor="server")),
    "web_search_end": ("assistant", _translate_search_end),
}
"""Readers of events about calls, by the event's type."""
