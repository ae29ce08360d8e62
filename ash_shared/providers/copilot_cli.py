"""GitHub Copilot CLI: the event log of a session, and the events that its SDK streams.

Sources: the generated types of the Copilot SDK, and logs of versions 0.0.420 to 1.0.102. A line is
`{type, data, id, timestamp, parentId}`; lines of subagents have their `agentId`, and most the call that started them.

A turn of Copilot is one call of the model; a turn in Ash begins with a prompt. Tokens are reported by call in
`session.usage_record` (`assistant.usage` in the stream), and before that in `session.shutdown` alone, for all calls
since the start or the resumption. Costs are in units of a plan (AI credits, premium requests), never in money.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    Translation,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    before_dot,
    chunk_record,
    control_record,
    unknown_record,
)
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    input_at,
    is_integer,
    is_number,
    list_or_empty,
    message_error,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, Emit, MessageSender, Origin, Scope, Step, TurnEnd

_IDS = frozenset({"interactionId", "model", "parentToolCallId", "rte", "turnId"})
"""Keys of several events that are not content."""


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block, text_at(block, "type"))


def _control(record: Record) -> ParsedRecord:
    return control_record(record, text_at(record, "type"))


def _reader(role: Role, translation: Callable[[Record], list[Block]]) -> Callable[[Record], ParsedRecord]:
    """Return the parser of a message with this role, from the translation of its `data`."""

    def parse(record: Record) -> ParsedRecord:
        return ParsedRecord("message", role, translate(record["type"], record["data"], translation))

    return parse


def _translate_prompt(data: Record) -> list[Block]:
    """Return the text of the person, with the text that the model received in `extra`, and the attachments."""
    text = translated(data, text_block(data["content"]), _PROMPT_KEYS, "user.message")
    return [text, *map(_attachment, list_or_empty(data.get("attachments")))]


_PROMPT_KEYS = frozenset(
    {
        "agentMode",
        "attachments",
        "content",
        "delivery",
        "isAutopilotContinuation",
        "messageId",
        "parentAgentTaskId",
        "source",
        "supportedNativeDocumentMimeTypes",
        *_IDS,
    }
)


def _attachment(attachment: Any) -> Block:
    kind = text_at(attachment, "type")
    return translate(kind or "attachment", attachment, _ATTACHMENTS.get(kind or "", _translate_reference))[0]


def _translate_reference(attachment: Record) -> Block:
    """Return a file or an object of GitHub that is only named."""
    names = {"filename": "displayName", "size": "byteLength"}
    typed = {"type": "file", **renamed(attachment, **names), **mime_fields(text_at(attachment, "mimeType"))}
    consumed = {"displayName", "byteLength", *(("mimeType",) if "mimeType" in typed else ())}
    return translated(attachment, typed, consumed, attachment["type"])


def _translate_blob(attachment: Record) -> Block:
    mime_type, data = attachment["mimeType"], attachment["data"]
    source = {"type": "base64", "media_type": mime_type, "data": data}
    if not mime_type.startswith("image/"):
        return {**_translate_reference(without(attachment, "data")), "source": source}
    return translated(attachment, {"type": "image", "source": source}, {"mimeType", "data"}, "blob")


def _translate_selection(attachment: Record) -> Block:
    source = {"type": "text", "media_type": "text/plain", "data": attachment["text"]}
    typed = {"type": "file", **renamed(attachment, filename="displayName"), "source": source}
    return translated(attachment, typed, {"displayName", "text"}, "selection")


_ATTACHMENTS: Mapping[str, Translation] = {"blob": _translate_blob, "selection": _translate_selection}


def _translate_answer(data: Record) -> list[Block]:
    """Return thinking, text and calls in this order. Empty text has no block."""
    text = data.get("content") or ""
    blocks = [
        *_thinking(data),
        *([text_block(text)] if text != "" else []),
        *(_translate_call(call) for call in list_or_empty(data.get("toolRequests"))),
    ]
    rest = {name: value for name, value in without(data, *_ANSWER_KEYS).items() if value is not None}
    return with_extra_in_first(blocks, rest)


_ANSWER_KEYS = frozenset(
    {
        "apiCallId",
        "chunkCount",
        "chunkIndex",
        "clientRequestId",
        "content",
        "encryptedContent",
        "messageId",
        "originatingMessageId",
        "outputTokens",
        "providerId",
        "reasoningOpaque",
        "reasoningText",
        "requestId",
        "serviceRequestId",
        "toolRequests",
        *_IDS,
    }
)


def _thinking(data: Record) -> list[Block]:
    names = {"thinking": "reasoningText", "signature": "reasoningOpaque", "data": "encryptedContent"}
    fields = {new: data[old] for new, old in names.items() if data.get(old) not in (None, "")}
    return [{"type": "thinking", "thinking": "", **fields}] if fields else []


def _translate_call(call: Record) -> Block:
    """Return a call; its arguments are an object, or JSON text."""
    arguments, consumed = input_at(call, "arguments") if "arguments" in call else ({}, ())
    typed = {"type": "tool_use", **renamed(call, id="toolCallId"), "name": call["name"], "input": arguments}
    return translated(call, typed, {"toolCallId", "name", *consumed}, text_at(call, "type") or "toolRequest")


def _translate_user_call(data: Record) -> list[Block]:
    return [_translate_call({**without(data, "toolName"), "name": data["toolName"]})]


def _translate_reasoning(data: Record) -> list[Block]:
    thinking = {"type": "thinking", "thinking": data["content"]}
    return [translated(data, thinking, {"content", *_IDS}, "assistant.reasoning")]


def _translate_result(data: Record) -> list[Block]:
    """Return a result: the text that the model received. The form for the person (a diff) becomes `structured`."""
    result, error = data.get("result"), data.get("error")
    fields = _result_fields(result) if result is not None or error is None else _error_fields(error)
    code = value_at(data, "shellExecution", "exitCode")
    typed = {
        "type": "tool_result",
        "tool_use_id": data["toolCallId"],
        **fields,
        "is_error": data.get("success") is False,
        **({"exit_code": code} if is_integer(code) else {}),
    }
    consumed = _RESULT_KEYS - ({"error"} if result is not None and error is not None else set())
    return [translated(data, typed, consumed, "tool.execution_complete")]


_RESULT_KEYS = frozenset(
    {"error", "isUserRequested", "result", "shellExecution", "success", "toolCallId", "toolTelemetry", *_IDS}
)


def _result_fields(result: Any) -> Block:
    if not isinstance(result, dict) or not isinstance(result.get("content"), str):
        return {"content": "" if result is None else result}
    rest = without(result, "content")
    return {"content": result["content"], **({"structured": rest} if rest else {})}


def _error_fields(error: Any) -> Block:
    return {"content": text_at(error, "message") or "", "structured": error}


def _notice(variant: str | None) -> Callable[[Record], list[Block]]:
    """Return the translation of a text by the program."""

    def translation(data: Record) -> list[Block]:
        name = next((each for each in _NOTICE_KEYS if each in data), "content")
        block = translated(
            data, text_block(data[name], variant), {name, "interactionId"}, variant or "system"
        )
        return [without(block, "source_type")]

    return translation


_parse_notice = _reader("system", _notice("notice"))
_NOTICE_KEYS = ("content", "message", "errorMessage", "error")


def _parse_failure(record: Record) -> ParsedRecord:
    """Parse the failure of a call of the model or of a subagent, which may have no text."""
    is_described = first_text(record["data"], ("errorMessage", "error")) is not None
    return _parse_notice(record) if is_described else _control(record)


def _parse_summary(record: Record) -> ParsedRecord:
    if text_at(record, "data", "summaryContent") is None:
        return _control(record)
    return ParsedRecord("record", "system", translate(record["type"], record["data"], _translate_summary))


def _translate_summary(data: Record) -> list[Block]:
    return [translated(data, text_block(data["summaryContent"], "summary"), data.keys(), "compaction")]


# Parts


def _agent(record: Record) -> str | None:
    return text_at(record, "agentId")


def _parent_call(record: Record) -> str | None:
    return text_at(record, "data", "parentToolCallId")


def _prompt_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    data = record["data"]
    sender = _sender(text_at(data, "source")) if _agent(record) is None else None
    part = Part(
        role="user",
        blocks=parsed.blocks,
        origin=_origin(record, sender),
        sender=sender,
        parent_call=_parent_call(record),
        metadata={"agentId": _agent(record)},
    )
    return [*_subagent_links(record, part), part]


def _sender(source: str | None) -> MessageSender | None:
    """Return the sender of a prompt that a program wrote: `agent-<session>`, `skill-<name>`."""
    kind, dash, name = (source or "").partition("-")
    return MessageSender(kind, name) if dash and kind in _PROGRAMS else None


_PROGRAMS = frozenset({"agent", "schedule", "skill"})


def _origin(record: Record, sender: MessageSender | None) -> Origin:
    data = record["data"]
    if _agent(record) is not None:
        return "mid_turn"
    if data.get("isAutopilotContinuation") is True or (sender is not None and sender.kind == "skill"):
        return "synthetic"
    if sender is not None:
        return "program"
    return "mid_turn" if data.get("delivery") == "steering" else "prompt"


def _subagent_links(record: Record, part: Part) -> list[Part]:
    """Return the part that links the prompt of a subagent, which names the agent only, to the call with the prompt."""
    id = _uuid(record)
    if _agent(record) is None or part.parent_call is not None or id is None:
        return []
    texts = [block for block in part.blocks if block["type"] == "text"][:1]
    blocks = [text_block(block["text"]) for block in texts]
    return [Part(role=None, blocks=blocks, header=RecordHeader(uuid=id), relation="sidechain")]


def _prompt_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    links = _prompt_parts(record, parsed)[:-1]
    if not links:
        return None
    payload = {"text": parsed.blocks[0]["text"], "synthetic": True, "sidechain": True}
    return [Scope(), *links, Emit("user_message", payload)]


def _answer_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    data = record["data"]
    id = text_at(data, "messageId")
    return [
        Part(
            role="assistant",
            blocks=parsed.blocks,
            key=text_at(data, "apiCallId") or id,
            message_id=id,
            parent_call=_parent_call(record),
            metadata={"model": text_at(data, "model"), "agentId": _agent(record)},
        )
    ]


def _reasoning_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return reasoning that the answer in the next lines continues."""
    return [
        Part(
            role="assistant",
            blocks=parsed.blocks,
            relation="continuation",
            parent_call=_parent_call(record),
        )
    ]


def _result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="user", blocks=parsed.blocks, parent_call=_parent_call(record))]


def _user_call_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="assistant", blocks=parsed.blocks)]


def _system_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return a text by the program; the system prompts of subagents are in the stored text only."""
    return [Part(role="system", blocks=parsed.blocks)] if _agent(record) is None else []


def _summary_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts)] if texts else []


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    data = record["data"]
    code = first_text(data, ("errorCode", "errorType")) or record["type"]
    error = message_error(code, text_at(data, "message"), data)
    return [Part(role=None, error=error, relation="interruption")]


def _failure_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the text of a failure, which is not an error of the session: the call may be repeated."""
    if parsed.kind != "message":
        return []
    return [Part(role="system", blocks=parsed.blocks, parent_call=_parent_call(record))]


def _usage_record_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of a call of the model, before its answer."""
    usage = value_at(record, "data", "usage") or record["data"]
    counts = _standard_usage(usage, usage)
    key = text_at(usage, "apiCallId")
    if counts is None or key is None:
        return []
    parent_call = text_at(usage, "parentToolCallId")
    metadata = {"model": text_at(usage, "model"), "agentId": _agent(record)}
    return [Part(role="assistant", key=key, usage=counts, parent_call=parent_call, metadata=metadata)]


def _shutdown_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage since the session was started or resumed, unless a version wrote it by call, and the costs.

    Counts of 0 say nothing: the session was resumed and left again, or its model is free.
    """
    data = record["data"]
    usages = {
        model: value_at(metrics, "usage") for model, metrics in (data.get("modelMetrics") or {}).items()
    }
    total = _total(list(usages.values()))
    is_by_call = "usageAccountingWatermarks" in data
    usage = None if is_by_call or not any(total.values()) else _standard_usage(total, pick(data, *_TOTALS))
    by_model = {model: known for model, each in usages.items() if (known := _standard_usage(each, None))}
    part = Part(role=None, usage=usage, usage_by_model=by_model if usage else {}, metadata=_costs(data))
    return [part] if usage or part.metadata else []


_TOTALS = ("modelMetrics", "totalNanoAiu", "totalPremiumRequests")


def _cost_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    costs = _costs(record["data"])
    return [Part(role=None, metadata=costs)] if costs else []


def _costs(data: Record) -> Block:
    """Return the costs of the whole session, in units of the plan."""
    return {
        name: data[name] for name in ("totalNanoAiu", "totalPremiumRequests") if is_number(data.get(name))
    }


def _total(usages: list[Any]) -> Block:
    counts = {name: [count_at(usage, name) for usage in usages] for name in _COUNTS}
    known = {name: [count for count in each if count is not None] for name, each in counts.items()}
    return {name: sum(each) for name, each in known.items() if each}


_COUNTS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")


def _standard_usage(usage: Any, vendor: Any) -> Block | None:
    """Return the usage. Copilot's input includes tokens read from and written to a cache."""
    cache_read, cache_written = count_at(usage, "cacheReadTokens"), count_at(usage, "cacheWriteTokens")
    return token_usage(
        vendor,
        input=subtract_counts(count_at(usage, "inputTokens"), cache_read, cache_written),
        output=count_at(usage, "outputTokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(usage, "reasoningTokens"),
    )


def _rewind_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the retraction of a prompt and everything after it."""
    id = text_at(record, "data", "upToEventId")
    return [] if id is None else [Part(role=None, retracts=(id,), relation="truncation")]


# Steps


def _shutdown_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [*_shutdown_parts(record, parsed), TurnEnd()]


def _text_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    id = text_at(record["data"], "messageId")
    return [Chunk("text", record["data"]["deltaContent"], f"{id}/text", anonymous_slot=True, response=id)]


def _thinking_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [Chunk("thinking", record["data"]["deltaContent"], "thinking", anonymous_slot=True)]


def _output_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    data = record["data"]
    stream = pick(data, "stream") if text_at(data, "stream") else {}
    return [Chunk("output", data["text"], call={"id": data["toolCallId"]}, fields=stream)]


def _partial_output_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    data = record["data"]
    return [Chunk("output_so_far", data["partialOutput"], call={"id": data["toolCallId"]})]


_CONTROL = WireType(_control)
_FAILURE = WireType(_parse_failure, _failure_parts)
_NOTICE = WireType(_parse_notice, _system_parts)

TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(
        (
            "agent.interrupted",
            "assistant.fusion_phase_activity",
            "assistant.fusion_phase_completed",
            "assistant.fusion_phase_failed",
            "assistant.fusion_phase_started",
            "assistant.idle",
            "assistant.intent",
            "assistant.server_tool_progress",
            "assistant.turn_end",
            "assistant.turn_retry",
            "assistant.turn_start",
            "auto_mode_switch.completed",
            "auto_mode_switch.requested",
            "capabilities.changed",
            "command.completed",
            "command.execute",
            "command.queued",
            "commands.changed",
            "elicitation.completed",
            "elicitation.requested",
            "exit_plan_mode.completed",
            "exit_plan_mode.requested",
            "factory.run_settled",
            "factory.run_started",
            "factory.run_updated",
            "external_tool.completed",
            "external_tool.requested",
            "hook.end",
            "hook.progress",
            "hook.start",
            "human_response.recorded",
            "mcp.headers_refresh_completed",
            "mcp.headers_refresh_required",
            "mcp.oauth_completed",
            "mcp.oauth_recovery_completed",
            "mcp.oauth_required",
            "mcp.prompts.list_changed",
            "mcp.resources.list_changed",
            "mcp.tools.list_changed",
            "mcp_app.tool_call_complete",
            "model.call_final_result",
            "model.call_finished",
            "model.call_start",
            "pending_messages.modified",
            "permission.assentDetected",
            "permission.carriedForward",
            "permission.completed",
            "permission.contextualAuthorization",
            "permission.messageAuthorization",
            "permission.messageAuthorizationDegraded",
            "permission.messageAuthorizationRead",
            "permission.requested",
            "prompt_cache_break",
            "sampling.completed",
            "sampling.requested",
            "sandbox.decision",
            "session.auto_mode_resolved",
            "session.auto_tier_recommendation",
            "session.auto_tier_switch_failed",
            "session.autopilot_objective_changed",
            "session.autopilot_stopped",
            "session.background_tasks_changed",
            "session.binary_asset",
            "session.canvas.closed",
            "session.canvas.opened",
            "session.canvas.recorded",
            "session.canvas.registry_changed",
            "session.canvas.removed",
            "session.canvas.unavailable",
            "session.compaction_start",
            "session.completion_receipt",
            "session.context_changed",
            "session.context_cleared",
            "session.custom_agents_updated",
            "session.custom_notification",
            "session.extensions.attachments_pushed",
            "session.extensions_loaded",
            "session.fusion_completed",
            "session.fusion_resolved",
            "session.fusion_route_failed",
            "session.fusion_route_started",
            "session.handoff",
            "session.idle",
            "session.indexed_search",
            "session.managed_plugin_progress",
            "session.managed_settings_enforced",
            "session.managed_settings_resolved",
            "session.mcp_server_needs_reconnect",
            "session.mcp_server_removed",
            "session.mcp_server_status_changed",
            "session.mcp_server_tools_loaded",
            "session.mcp_servers_loaded",
            "session.mode_changed",
            "session.mode_notice_delivered",
            "session.model_change",
            "session.model_deselected",
            "session.permission_recovery",
            "session.permissions_changed",
            "session.plan_changed",
            "session.quota_observation",
            "session.remote_steerable_changed",
            "session.resume",
            "session.schedule_cancelled",
            "session.schedule_created",
            "session.schedule_rearmed",
            "session.session_limits_changed",
            "session.skills_loaded",
            "session.start",
            "session.task_complete",
            "session.title_changed",
            "session.todos_changed",
            "session.tools_updated",
            "session.truncation",
            "session.usage_info",
            "session.workspace_file_changed",
            "session_limits_exhausted.completed",
            "session_limits_exhausted.requested",
            "skill.context_delivered",
            "skill.context_delivered_ref",
            "skill.invoked",
            "skill.invoked_ref",
            "subagent.completed",
            "subagent.configured",
            "subagent.deselected",
            "subagent.selected",
            "subagent.started",
            "tool.execution_progress",
            "tool.execution_start",
            "tool_search.activated",
            "ui.ephemeral_query",
            "user_input.completed",
            "user_input.requested",
            "workflow.run_settled",
            "workflow.run_started",
            "workflow.run_updated",
        ),
        _CONTROL,
    ),
    **dict.fromkeys(
        ("assistant.message_start", "assistant.streaming_delta", "assistant.tool_call_delta"),
        WireType(lambda record: chunk_record(record, record["type"]), steps=lambda record, parsed: []),
    ),
    "abort": WireType(_control, steps=lambda record, parsed: [TurnEnd("user_cancel")]),
    "assistant.message": WireType(_reader("assistant", _translate_answer), _answer_parts),
    "assistant.message_delta": WireType(
        lambda record: chunk_record(record, record["type"]), steps=_text_steps
    ),
    "assistant.reasoning": WireType(_reader("assistant", _translate_reasoning), _reasoning_parts),
    "assistant.reasoning_delta": WireType(
        lambda record: chunk_record(record, record["type"]), steps=_thinking_steps
    ),
    "assistant.usage": WireType(_control, _usage_record_parts),
    "instruction.update": WireType(_reader("system", _notice(None)), _system_parts),
    "model.call_failure": _FAILURE,
    "session.compaction_complete": WireType(_parse_summary, _summary_parts),
    "session.error": WireType(_reader("system", _notice("error")), _error_parts),
    "session.info": _NOTICE,
    "session.shutdown": WireType(_control, _shutdown_parts, _shutdown_steps),
    "session.snapshot_rewind": WireType(_control, _rewind_parts),
    "session.usage_checkpoint": WireType(_control, _cost_parts),
    "session.usage_record": WireType(_control, _usage_record_parts),
    "session.warning": _NOTICE,
    "subagent.failed": _FAILURE,
    "system.message": WireType(_reader("system", _notice(None)), _system_parts),
    "system.notification": _NOTICE,
    "tool.execution_complete": WireType(_reader("tool", _translate_result), _result_parts),
    "tool.execution_partial_result": WireType(
        lambda record: chunk_record(record, record["type"]), steps=_partial_output_steps
    ),
    "tool.shell_output": WireType(lambda record: chunk_record(record, record["type"]), steps=_output_steps),
    "tool.user_requested": WireType(_reader("assistant", _translate_user_call), _user_call_parts),
    "user.message": WireType(_reader("user", _translate_prompt), _prompt_parts, _prompt_steps),
}
"""Events by `type`: of the log, and those that are only streamed."""
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "type")))


def wire_type(record: Record) -> WireType:
    return TYPES.get(text_at(record, "type") or "", _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    """Return the row of an event. An unknown one belongs to a known family and states the event before it."""
    name = record.get("type")
    if not isinstance(name, str) or not isinstance(record.get("data"), dict) or not _has_envelope(record):
        return None
    if name in TYPES:
        return TYPES[name]
    is_event = "." in name and before_dot(name) in _FAMILIES and "parentId" in record
    return _UNKNOWN if is_event else None


def _has_envelope(record: Record) -> bool:
    return "timestamp" in record and record.keys() <= _KEYS


_FAMILIES = frozenset(map(before_dot, TYPES))
_KEYS = frozenset({"agentId", "data", "ephemeral", "id", "parentId", "timestamp", "type"})


def header(record: Record) -> RecordHeader:
    name = text_at(record, "type")
    data = record.get("data")
    is_start = name == "session.start"
    context = data if name == "session.context_changed" else value_at(data, "context")
    return RecordHeader(
        uuid=_uuid(record),
        timestamp=to_milliseconds(record.get("timestamp")),
        session_id=text_at(data, "sessionId") if is_start else None,
        client_version=text_at(data, "copilotVersion") if is_start else None,
        model=None if _agent(record) else first_text(data, ("model", "newModel", "selectedModel")),
        title=text_at(data, "title") if name == "session.title_changed" else None,
        folder=text_at(context, "cwd"),
        branch=text_at(context, "branch"),
        root=text_at(context, "gitRoot"),
        commit=text_at(context, "headCommit"),
    )


def _uuid(record: Record) -> str | None:
    """Return the id of an event, which tools that mask secrets may have replaced by a word."""
    id = text_at(record, "id")
    return id if id is not None and _UUID.fullmatch(id) else None


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def identify(record: Record) -> Identity:
    if text_at(record, "type") != "session.start":
        return Identity(record=_uuid(record))
    return Identity(project=text_at(record, "data", "context", "cwd"), record=_uuid(record), body="")


PROVIDER = Provider(
    source="copilot_cli",
    recognize=recognize,
    marks=Marks(typed_keys={"data"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
