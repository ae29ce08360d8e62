"""Messages of Cursor's SDK: the stream of a run, which its users print or store.

Source: `SDKMessage` of `@cursor/sdk`, and the code that builds them. Each message has the ids of
its agent and run. Texts and thoughts arrive only as deltas, so the deltas are the content; a call arrives again with
each change of its status, with its result in the end.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import Block, parse_content, pick, renamed, text_block, translate, translated
from ash_shared.providers.cursor.usage import standard_usage
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    Speaker,
    WireType,
    control_record,
    speaker_of_role,
)
from ash_shared.records.json_fields import count_at, message_error, text_at, value_at
from ash_shared.records.steps import Chunk, ChunkEnd, Step, TurnEnd, keyed_relation

_ENVELOPE = frozenset({"agent_id", "run_id", "type"})
"""Keys of every message; they are not content and stay in the stored text."""


def _parse_message(record: Record) -> ParsedRecord:
    role: Speaker = "user" if record["type"] == "user" else "assistant"
    return ParsedRecord("message", role, parse_content(record["message"]["content"], _parse_block))


def _parse_block(block: Any) -> Block:
    return text_block(block) if isinstance(block, str) else block


def _parse_thinking(record: Record) -> ParsedRecord:
    if not record["text"]:
        return control_record(record)
    return ParsedRecord("message", "assistant", translate("thinking", record, _translate_thinking))


def _translate_thinking(record: Record) -> Block:
    return translated(
        record, {"type": "thinking", "thinking": record["text"]}, {*_ENVELOPE, "text"}, "thinking"
    )


def _parse_tool(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", translate("tool_call", record, _translate_tool))


def _translate_tool(record: Record) -> list[Block]:
    common = renamed(record, id="call_id") | pick(record, "name", "status")
    typed = {"type": "tool_use", **common, "input": record.get("args", {})}
    call = translated(record, typed, {*_ENVELOPE, "call_id", "name", "status", "args", "result"}, "tool_call")
    has_ended = record["status"] in ("completed", "error")
    return [call, _result_block(record)] if has_ended or "result" in record else [call]


def _result_block(record: Record) -> Block:
    result = record.get("result")
    details = value_at(result, "value")
    text = (
        result
        if isinstance(result, str)
        else text_at(details, "stdout") or text_at(result, "error", "message")
    )
    code = count_at(details, "exitCode")
    return {
        "type": "tool_result",
        **renamed(record, tool_use_id="call_id"),
        **({} if text is None else {"content": text}),
        "is_error": record["status"] == "error" or value_at(result, "status") == "error",
        **({"structured": result} if isinstance(result, dict | list) else {}),
        **({} if code is None else {"exit_code": code}),
        "source_type": "tool_call",
    }


def _parse_task(record: Record) -> ParsedRecord:
    if not isinstance(record.get("text"), str):
        return control_record(record)
    return ParsedRecord("record", "system", [text_block(record["text"], "summary")])


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    role = speaker_of_role(parsed.role)
    return [Part(role=role, blocks=parsed.blocks, relation="new" if role == "user" else "continuation")]


def _tool_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of a call and of its result; a later status replaces an earlier one."""
    id = text_at(record, "call_id")
    calls = [block for block in parsed.blocks if block["type"] != "tool_result"]
    results = [block for block in parsed.blocks if block["type"] == "tool_result"]
    call = Part(role="assistant", blocks=calls, key=id, relation=keyed_relation(id))
    result = Part(role="user", blocks=results, key=id, relation=keyed_relation(id))
    return [part for part in (call, result) if part.blocks]


def _status_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    if record["status"] not in ("ERROR", "EXPIRED"):
        return []
    error = message_error(record["status"].lower(), text_at(record, "message"))
    return [Part(role=None, error=error, relation="turn_end")]


def _usage_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, usage=standard_usage(record["usage"]))]


def _assistant_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    chunks: list[Step] = [
        Chunk("text", block["text"], "text", anonymous_slot=True)
        for block in parsed.blocks
        if block["type"] == "text"
    ]
    calls = [part for part in _message_parts(record, parsed) if len(chunks) < len(part.blocks)]
    return [ChunkEnd(kinds=("thinking",)), *(calls or chunks)]


def _thinking_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    if not record["text"]:
        return [ChunkEnd(kinds=("thinking",))]
    return [ChunkEnd(kinds=("text",)), Chunk("thinking", record["text"], "thinking", anonymous_slot=True)]


def _ended_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [ChunkEnd(), *SDK_TYPES[record["type"]].parts(record, parsed)]


def _status_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """End a turn with its run. A prompt begins it, which may be before or after the run is running."""
    end = _ENDS.get(record["status"])
    ends: list[Step] = [*_status_parts(record, parsed), *([end] if end else [])]
    return [ChunkEnd(), *ends] if ends else []


_ENDS = {"CANCELLED": TurnEnd("user_cancel"), "FINISHED": TurnEnd()}

SDK_TYPES: Mapping[str, WireType] = {
    "assistant": WireType(_parse_message, _message_parts, _assistant_steps),
    "request": WireType(control_record),
    "status": WireType(control_record, _status_parts, _status_steps),
    "system": WireType(control_record),
    "task": WireType(_parse_task),
    "thinking": WireType(_parse_thinking, _message_parts, _thinking_steps),
    "tool_call": WireType(_parse_tool, _tool_parts, _ended_steps),
    "usage": WireType(control_record, _usage_parts, _ended_steps),
    "user": WireType(_parse_message, _message_parts, _ended_steps),
}
"""Messages by `type`."""
