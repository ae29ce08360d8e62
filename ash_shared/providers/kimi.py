"""Kimi: the event stream of an agent, `wire.jsonl`, in three forms.

Sources: files of protocols 1.3 (kimi-cli), 1.4 and 1.5 (Kimi Code), and the wire types of kimi-cli. Up to 1.3, a line
is `{timestamp, message: {type, payload}}`; later, events have dotted types. A prompt is written three times, and usage
twice: messages are read from `context.append_*`, and usage from the end of a step.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    content_parser,
    parse_content,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    chunk_record,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.records.json_fields import (
    count_at,
    input_at,
    is_number,
    list_or_empty,
    message_error,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.records.steps import Chunk, Origin, Step, TurnEnd


def _translate_thinking(part: Record) -> Block:
    encrypted = renamed(part, data="encrypted") if text_at(part, "encrypted") else {}
    typed = {"type": "thinking", "thinking": part["think"], **encrypted}
    return translated(part, typed, {"think", *(("encrypted",) if encrypted else ())}, "think")


def _translate_image(part: Record) -> Block:
    """Translate an image; its URL is in an object, with a name in each case."""
    name = "image_url" if "image_url" in part else "imageUrl"
    block = translated(part, {"type": "image", "source": url_source(part[name]["url"])}, {name}, "image_url")
    return with_extra(block, without(part[name], "url"))


parse_block = content_parser({"image_url": _translate_image, "think": _translate_thinking})


def _translate_call(call: Record) -> Block:
    """Translate a call in the form of Chat Completions."""
    function = call["function"]
    arguments, consumed = input_at(function, "arguments")
    typed = {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}
    block = translated(call, typed, {"id", "function"}, "ToolCall")
    return with_extra(block, without(function, "name", *consumed))


def _translate_result(id: Any, result: Record, wire_type: str) -> Block:
    """Translate a result; its form for the person becomes `structured`."""
    content = result.get("output")
    typed = {
        "type": "tool_result",
        "tool_use_id": id,
        "content": content if isinstance(content, str) else parse_content(content or [], parse_block),
        **renamed(result, is_error="is_error" if "is_error" in result else "isError", structured="display"),
    }
    return translated(result, typed, {"display", "is_error", "isError", "output"}, wire_type)


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage. Cached tokens are beside the input; the names have underscores up to 1.3."""
    old = "input_other" in usage or "input_cache_read" in usage if isinstance(usage, dict) else False
    input, cache = ("input_other", "input_cache") if old else ("inputOther", "inputCache")
    return token_usage(
        usage,
        input=count_at(usage, input),
        output=count_at(usage, "output"),
        cache_read=count_at(usage, f"{cache}_read" if old else f"{cache}Read"),
        cache_creation=count_at(usage, f"{cache}_creation" if old else f"{cache}Creation"),
    )


def _control(record: Record) -> ParsedRecord:
    return control_record(record, text_at(record, "type"))


# Protocol 1.4 and later.


def _parse_message(record: Record) -> ParsedRecord:
    role = _ROLES.get(text_at(record, "message", "role") or "")
    if role is None:
        return unknown_record(record, text_at(record, "type"))
    return ParsedRecord("message", role, translate(record["type"], record["message"], _translate_message))


_ROLES: Mapping[str, Role] = {"assistant": "assistant", "system": "system", "tool": "tool", "user": "user"}


def _translate_message(message: Record) -> list[Block]:
    if message["role"] == "tool":
        return [_translate_result(message.get("toolCallId"), {"output": message["content"]}, "tool")]
    calls = [_translate_stored_call(call) for call in list_or_empty(message.get("toolCalls"))]
    blocks = [*parse_content(message["content"], parse_block), *calls]
    rest = without(message, "role", "content", "toolCalls")
    return with_extra_in_first(blocks, rest)


def _translate_stored_call(call: Record) -> Block:
    return _translate_call(
        call if "function" in call else {"id": call.get("id"), "function": without(call, "id")}
    )


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    origin = value_at(record, "message", "origin")
    is_prompt = text_at(origin, "kind") in (None, "user") or text_at(origin, "name") == "subagent"
    stated: Origin = "prompt" if is_prompt else "synthetic"
    return [Part(role=speaker_of_role(parsed.role), blocks=parsed.blocks, origin=stated)]


def _parse_loop_event(record: Record) -> ParsedRecord:
    event = record["event"]
    name = text_at(event, "type")
    row = _LOOP_EVENTS.get(name or "")
    if row is None:
        return unknown_record(record, f"{record['type']}/{name}")
    role, translation = row
    if translation is None:
        return control_record(record, f"{record['type']}/{name}")
    return ParsedRecord("message", role, translate(str(name), event, translation))


def _translate_part(event: Record) -> Block:
    return parse_block(event["part"])


def _translate_loop_call(event: Record) -> Block:
    typed = {"type": "tool_use", "id": event["toolCallId"], "name": event["name"], "input": event["args"]}
    return translated(event, typed, {"toolCallId", "name", "args", *_LOOP_IDS}, "tool.call")


def _translate_loop_result(event: Record) -> Block:
    block = _translate_result(event["toolCallId"], event["result"], "tool.result")
    return with_extra(block, without(event, "type", "toolCallId", "result", *_LOOP_IDS))


_LOOP_IDS = frozenset({"parentUuid", "step", "stepUuid", "turnId", "uuid"})
_LOOP_EVENTS: Mapping[str, tuple[Role, Callable[[Record], Block] | None]] = {
    "content.part": ("assistant", _translate_part),
    "step.begin": ("assistant", None),
    "step.end": ("assistant", None),
    "tool.call": ("assistant", _translate_loop_call),
    "tool.result": ("tool", _translate_loop_result),
}


def _loop_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an event; the events of a step are one answer, and its end has the usage."""
    event = record["event"]
    if parsed.role == "tool":
        return [Part(role="user", blocks=parsed.blocks)]
    if parsed.kind == "message":
        return [Part(role="assistant", blocks=parsed.blocks, key=text_at(event, "stepUuid"))]
    if event.get("type") != "step.end":
        return []
    reason = text_at(event, "finishReason")
    return [
        Part(
            role="assistant",
            key=text_at(event, "uuid"),
            usage=_standard_usage(event.get("usage")),
            message_id=text_at(event, "messageId"),
            metadata={"stop_reason": reason},
            error=message_error("error", None) if reason == "error" else None,
        )
    ]


def _parse_instructions(record: Record) -> ParsedRecord:
    """Parse a change of the agent's settings, which may have the system prompt."""
    if text_at(record, "systemPrompt") is None:
        return _control(record)
    return ParsedRecord("record", "system", translate(record["type"], record, _translate_instructions))


def _translate_instructions(record: Record) -> Block:
    return translated(record, text_block(record["systemPrompt"]), {"systemPrompt", "time"}, record["type"])


def _parse_summary(record: Record) -> ParsedRecord:
    if text_at(record, "summary") is None:
        return _control(record)
    return ParsedRecord("record", "system", translate(record["type"], record, _translate_summary))


def _translate_summary(record: Record) -> Block:
    typed = text_block(record["summary"], "summary")
    return translated(record, typed, {"summary", "time"}, record["type"])


def _text_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    return [Part(role="system", blocks=texts)] if texts else []


def _cancel_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [TurnEnd("user_cancel", mode="if_open")]


_CONTROL = WireType(_control)
_INSTRUCTIONS = WireType(_parse_instructions, _text_parts)

TYPES: Mapping[str, WireType] = {
    **dict.fromkeys(
        (
            "agent.message.appended",
            "agent.turn.ended",
            "agent.turn.started",
            "full_compaction.begin",
            "full_compaction.cancel",
            "full_compaction.complete",
            "llm.request",
            "llm.tools_snapshot",
            "metadata",
            "permission.record_approval_result",
            "permission.set_mode",
            "plan_mode.cancel",
            "plan_mode.enter",
            "plan_mode.exit",
            "plugin.session_start",
            "prompt.completed",
            "runtime.set_binding",
            "token_counting.measured",
            "token_counting.rebased",
            "token_counting.turn_recorded",
            "tools.set_active_tools",
            "turn.ended",
            "turn.prompt",
            "turn.steer",
            "usage.record",
        ),
        _CONTROL,
    ),
    "config.update": _INSTRUCTIONS,
    "context.append_loop_event": WireType(_parse_loop_event, _loop_parts),
    "context.append_message": WireType(_parse_message, _message_parts),
    "context.apply_compaction": WireType(_parse_summary, _text_parts),
    "profile.bind": _INSTRUCTIONS,
    "turn.cancel": WireType(_control, steps=_cancel_steps),
}
"""Records of protocol 1.4 and later, by `type`."""


# Up to protocol 1.3.


def _parse_wire_message(record: Record) -> ParsedRecord:
    """Parse a message in the old form; one of a subagent is nested in another."""
    message = record["message"]
    name = text_at(message, "type") or ""
    if name == "SubagentEvent":
        return _parse_wire_message({"message": message["payload"]["event"]})
    if name == "ToolCallPart":
        return chunk_record(record, name)
    if name not in _WIRE_MESSAGES:
        return control_record(record, name) if name in _WIRE_CONTROLS else unknown_record(record, name)
    role, translation = _WIRE_MESSAGES[name]
    return ParsedRecord("message", role, translate(name, message["payload"], translation))


def _translate_turn(payload: Record) -> list[Block]:
    blocks = parse_content(payload["user_input"], parse_block)
    return with_extra_in_first(blocks, without(payload, "user_input"))


def _translate_wire_result(payload: Record) -> Block:
    result = _translate_result(payload["tool_call_id"], payload["return_value"], "ToolResult")
    return with_extra(result, without(payload, "tool_call_id", "return_value"))


_WIRE_MESSAGES: Mapping[str, tuple[Role, Callable[[Any], Block | list[Block]]]] = {
    "ContentPart": ("assistant", parse_block),
    "SteerInput": ("user", _translate_turn),
    "ToolCall": ("assistant", _translate_call),
    "ToolResult": ("tool", _translate_wire_result),
    "TurnBegin": ("user", _translate_turn),
}
_WIRE_CONTROLS = frozenset(
    {
        "ApprovalRequest",
        "ApprovalRequestResolved",
        "ApprovalResponse",
        "CompactionBegin",
        "CompactionEnd",
        "HookResolved",
        "HookTriggered",
        "MCPLoadingBegin",
        "MCPLoadingEnd",
        "Notification",
        "PlanDisplay",
        "QuestionRequest",
        "StatusUpdate",
        "StepBegin",
        "StepInterrupted",
        "StepRetry",
        "ToolCallRequest",
        "TurnEnd",
    }
)


def _wire_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    message = record["message"]
    name, payload = message["type"], message["payload"]
    if name == "SubagentEvent":
        call = text_at(payload, "task_tool_call_id") or text_at(payload, "parent_tool_call_id")
        nested = {"message": payload["event"]}
        return [replace(part, parent_call=call, relation="new") for part in _wire_parts(nested, parsed)]
    if name == "StatusUpdate":
        usage = _standard_usage(payload.get("token_usage"))
        return [] if usage is None else [Part(role="assistant", usage=usage, relation="continuation")]
    if parsed.kind != "message":
        return []
    if parsed.role == "assistant":
        return [Part(role="assistant", blocks=parsed.blocks, relation="continuation")]
    origin: Origin = "mid_turn" if name == "SteerInput" else "prompt"
    return [Part(role="user", blocks=parsed.blocks, origin=origin)]


def _wire_steps(record: Record, parsed: ParsedRecord) -> list[Step] | None:
    name = record["message"]["type"]
    if name == "ToolCallPart":
        text = text_at(record, "message", "payload", "arguments_part") or ""
        return [Chunk("input", text, anonymous_slot=True)]
    if name in ("StepInterrupted", "TurnEnd"):
        return [TurnEnd("user_cancel", mode="if_open") if name == "StepInterrupted" else TurnEnd()]
    return None


_WIRE_MESSAGE = WireType(_parse_wire_message, _wire_parts, _wire_steps)
_STATE = WireType(lambda record: control_record(record, "state"))
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "type")))


def _is_wire_message(record: Record) -> bool:
    message = record.get("message")
    return (
        record.keys() == _WIRE_KEYS
        and isinstance(message, dict)
        and message.keys() == _MESSAGE_KEYS
        and isinstance(message["type"], str)
        and isinstance(message["payload"], dict)
        and is_number(record["timestamp"])
    )


_WIRE_KEYS = frozenset({"message", "timestamp"})
_MESSAGE_KEYS = frozenset({"payload", "type"})


_OTHERS = frozenset({"display", "event", "message", "role", "schema_version", "segments"})
"""Keys of other formats."""


def _is_state(record: Record) -> bool:
    """Return True for `state.json`, with the title of a session."""
    is_state = isinstance(record.get("agents"), dict) and "custom" in record and "isCustomTitle" in record
    return is_state and not body_keys(record) and _OTHERS.isdisjoint(record)


def _is_event(record: Record) -> bool:
    """Return True for an event with the keys of its type; similar types of other formats have `data`."""
    if record["type"] == "metadata":
        return isinstance(record.get("protocol_version"), str) and record.keys().isdisjoint(ENVELOPE_KEYS)
    has_time = is_number(record.get("time")) or is_number(record.get("timestamp"))
    return has_time and "data" not in record and record.keys().isdisjoint(ENVELOPE_KEYS)


def header(record: Record) -> RecordHeader:
    if _is_state(record):
        return RecordHeader(
            timestamp=to_milliseconds(record.get("createdAt")),
            session_id=text_at(record, "id"),
            title=text_at(record, "title"),
            is_title_of_person=record.get("isCustomTitle") is True,
            folder=text_at(record, "workDir") or text_at(record, "cwd"),
        )
    agent = text_at(record, "agentId")
    time = record.get("time") or record.get("created_at") or record.get("timestamp")
    return RecordHeader(
        timestamp=to_milliseconds(time),
        model=text_at(record, "model") if record.get("type") == "llm.request" else None,
        agent="" if agent == "main" else agent,
        folder=text_at(record, "environmentDisclosure", "cwd") or text_at(record, "cwd"),
    )


def wire_type(record: Record) -> WireType:
    if "message" in record and "type" not in record:
        return _WIRE_MESSAGE
    return TYPES.get(text_at(record, "type") or "") or (_STATE if _is_state(record) else _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    name = record.get("type")
    if isinstance(name, str):
        row = TYPES.get(name)
        return row if row is not None and _is_event(record) else None
    return _WIRE_MESSAGE if _is_wire_message(record) else _STATE if _is_state(record) else None


PROVIDER = Provider(
    source="kimi",
    recognize=recognize,
    marks=Marks(TYPES, untyped_keys={"agents", "message"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
