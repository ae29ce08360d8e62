"""The output of `agy -p` with `--output-format stream-json` and `json`.

The prompt is not in the stream. The final `response` repeats the last text, and its usage covers all prompts of the
process.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick, text_block, translate, translated
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    Speaker,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    is_one_of,
    message_error,
    text_at,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, ResponseStart, Step, TurnEnd, TurnStart

_ENDED = frozenset({"DONE", "ERROR"})
_RESULT_KEYS = ("output", "error")
_STOPPED = frozenset({"CANCELED", "CANCELLED", "INTERRUPTED"})
_COMPLETE = frozenset({"SUCCESS", "WAITING"})
_CONTROL_STEPS = frozenset({"agent_response", "checkpoint", "subagent", "user_input"})
"""Types of steps that may have neither text nor a tool."""
_OUTPUT_KEYS = frozenset({"conversation_id", "duration_seconds", "num_turns", "status"})


def _step_name(update: Record) -> str:
    return f"step_update/{text_at(update, 'step_type')}"


def _parse_update(record: Record) -> ParsedRecord:
    update = record["step_update"]
    if isinstance(update.get("tool_info"), dict):
        blocks = translate("tool", update, _translate_tool)
        return ParsedRecord("message", "assistant", blocks)
    if isinstance(update.get("text_delta"), str):
        return ParsedRecord("message", "assistant", [text_block(update["text_delta"])])
    is_known = update.get("step_type") in _CONTROL_STEPS
    return (control_record if is_known else unknown_record)(record, _step_name(update))


def _translate_tool(update: Record) -> list[Block]:
    """Return the call of a tool and, if it has ended, its result. Both have the index of their step."""
    info, id = update["tool_info"], str(update["step_index"])
    stated, has_ended = text_at(info, "name"), is_one_of(update.get("state"), _ENDED)
    name = stated or update["tool_name"]
    typed = {"type": "tool_use", "id": id, "name": name, "input": info.get("parameters", {})}
    consumed = ("parameters", *(("name",) if stated else ()), *(_RESULT_KEYS if has_ended else ()))
    call = translated(info, typed, consumed, "tool")
    return [call, _result_block(update, info, id)] if has_ended else [call]


def _result_block(update: Record, info: Record, id: str) -> Block:
    error = info.get("error")
    has_failed = update["state"] == "ERROR" or error is not None
    message = text_at(error, "message") or (error if isinstance(error, str) else None)
    content = pick(info, "output") or ({} if message is None else {"output": message})
    return {
        "type": "tool_result",
        "tool_use_id": id,
        **({"content": content["output"]} if content else {}),
        "is_error": has_failed,
        **({"structured": error} if isinstance(error, dict) else {}),
        "source_type": "tool",
    }


def _parts_of_tool(update: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of a call and of its result. A step is written again when it ends."""
    key = str(update["step_index"])
    calls = [block for block in parsed.blocks if block["type"] == "tool_use"]
    results = [block for block in parsed.blocks if block["type"] == "tool_result"]
    call_part = Part(role="assistant", blocks=calls, key=key, relation="revision")
    result_part = Part(role="user", blocks=results, key=key, relation="revision")
    return [part for part in (call_part, result_part) if part.blocks]


def _update_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    update = record["step_update"]
    if isinstance(update.get("tool_info"), dict):
        return _parts_of_tool(update, parsed)
    if update.get("step_type") != "agent_response":
        return []
    texts = [block for block in parsed.blocks if block["type"] == "text" and block["text"]]
    usage = standard_usage(update.get("usage"))
    if not texts and usage is None:
        return []
    key = str(update["step_index"])
    return [Part(role="assistant", blocks=texts, key=key, usage=usage, relation="section")]


def standard_usage(usage: Any) -> Block | None:
    """Return the usage. The input excludes cached tokens, and the output includes thinking."""
    return token_usage(
        usage,
        input=count_at(usage, "input_tokens"),
        output=count_at(usage, "output_tokens"),
        cache_read=count_at(usage, "cache_read_tokens"),
        reasoning=count_at(usage, "thinking_tokens"),
    )


def _update_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    update = record["step_update"]
    parts = _update_parts(record, parsed)
    if update.get("step_type") == "user_input":
        return [ChunkEnd(), TurnStart()]
    if update.get("step_type") != "agent_response":
        return [ChunkEnd(), *parts]
    key, delta = str(update["step_index"]), text_at(update, "text_delta")
    chunks: list[Step] = [Chunk("text", delta, key)] if delta else []
    ends: list[Step] = [ChunkEnd(key)] if is_one_of(update.get("state"), _ENDED) else []
    usages = [replace(part, blocks=[]) for part in parts if part.usage is not None]
    return [ResponseStart(key, "if_other_id"), *chunks, *ends, *usages]


def _parse_result(record: Record) -> ParsedRecord:
    response = text_at(record, "result", "response")
    if response is None:
        return control_record(record, "result")
    return ParsedRecord("record", "system", [text_block(response, "result")])


def _result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    result = record["result"]
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    usage, error = standard_usage(result.get("usage")), _run_error(result)
    role: Speaker | None = "assistant" if texts else None
    return [Part(role=role, blocks=texts, usage=usage, error=error, relation="turn_end")]


def _run_error(result: Record) -> Block | None:
    status, error = text_at(result, "status"), result.get("error")
    if error is None and (status is None or status in _COMPLETE):
        return None
    message = error if isinstance(error, str) else text_at(error, "message")
    code = first_text(error, ("type", "code")) or status or "error"
    return message_error(code, message, error if isinstance(error, dict) else None)


def _result_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """End a run. Its usage is the sum of its steps, or of several runs; only the former may be counted."""
    [part] = _result_parts(record, parsed)
    if count_at(record, "result", "num_turns") != 1:
        part = replace(part, usage=None)
    if part.error is None:
        return [ChunkEnd(), part]
    error, end = Part(role=None, error=part.error), replace(part, error=None)
    if text_at(record, "result", "status") in _STOPPED:
        return [ChunkEnd(), error, TurnEnd("user_cancel", mode="stop_if_open"), end]
    return [ChunkEnd(), error, end]


EVENTS: Mapping[str, WireType] = {
    "init": WireType(
        lambda record: control_record(record, "init"), steps=lambda record, parsed: [ChunkEnd()]
    ),
    "result": WireType(_parse_result, _result_parts, _result_steps),
    "step_update": WireType(_parse_update, _update_parts, _update_steps),
}
"""Records by `event`, which is also the key of their content."""


def is_event(record: Record) -> bool:
    """Return True for a line of the stream. Never raises."""
    name = record.get("event")
    return isinstance(name, str) and name in EVENTS and isinstance(record.get(name), dict) and _has_id(record)


def _has_id(record: Record) -> bool:
    return text_at(record, "conversation_id") is not None or conversation_id(record) is not None


def conversation_id(record: Record) -> str | None:
    inner = value_at(record, text_at(record, "event") or "")
    return text_at(record, "conversation_id") or text_at(inner, "conversation_id")


def is_output(record: Record) -> bool:
    """Return True for the only object of the format `json`. Never raises."""
    return record.keys() >= _OUTPUT_KEYS and "event" not in record and isinstance(record["status"], str)


def _parse_output(record: Record) -> ParsedRecord:
    response = text_at(record, "response")
    if response is None:
        return control_record(record, "result")
    return ParsedRecord("message", "assistant", [text_block(response)])


def _output_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    texts = [block for block in parsed.blocks if block["type"] == "text"]
    usage, error = standard_usage(record.get("usage")), _run_error(record)
    return [Part(role="assistant", blocks=texts, usage=usage, error=error)]


OUTPUT = WireType(
    _parse_output, _output_parts, lambda record, parsed: [*_output_parts(record, parsed), TurnEnd()]
)
