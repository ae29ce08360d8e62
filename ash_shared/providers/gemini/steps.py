"""Steps that Gemini responses and stream chunks add to the event log.

A chunk has the form of a response. A record with a finish reason is the last chunk of its response, or a complete
response. The first models report STOP in every chunk, but neither an id nor usage; their texts stay open, because
the next chunk may continue them. Parts have no positions, so a text ends where a part of another kind begins.
"""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec.structs import replace

from ash_shared.model.blocks import Block, is_audio, pick, with_extra
from ash_shared.records.contract import Part, Record
from ash_shared.records.gemini_parts import value_in_either_case
from ash_shared.records.json_fields import first_text, list_or_empty
from ash_shared.records.steps import (
    ALL_KINDS,
    Chunk,
    ChunkEnd,
    ResponseEnd,
    ResponseStart,
    SlotKind,
    Step,
    usage_step,
)

_UNFINISHED = (None, "", "FINISH_REASON_UNSPECIFIED", 0)


def response_steps(record: Record, part: Part) -> list[Step]:
    """Return the steps of a record; `part` is the record's part of the standard messages."""
    ends = list(_end_steps(record, part))
    is_last = any(isinstance(step, ResponseEnd) for step in ends)
    block_steps = [step for block in part.blocks for step in _block_steps(block, part, is_last)]
    usage = _usage_steps(record, part, is_last)
    if part.error is not None and not block_steps:
        return [*_complete_without_turn_end(ends), Part(role="assistant", error=part.error), *ends, *usage]
    errors = [] if part.error is None else [Part(role=None, error=part.error)]
    start = [ResponseStart(part.key, begins="if_other_id")] if block_steps else []
    return [*start, *block_steps, *ends, *errors, *usage]


def _complete_without_turn_end(ends: list[Step]) -> list[Step]:
    """Return the end of the response alone. The error emitted next belongs to the turn, and may be its only content."""
    return [step._replace(turn="continues") if isinstance(step, ResponseEnd) else step for step in ends]


def _usage_steps(record: Record, part: Part, is_last: bool) -> list[Step]:
    """Return the usage so far, which each chunk repeats. Without an id only the last chunk counts."""
    if part.usage is None or not (part.key or is_last or not record.get("candidates")):
        return []
    return [usage_step(part.usage, part.key)]


def _end_steps(record: Record, part: Part) -> Iterator[Step]:
    """End the response if this is its last record."""
    candidates = list_or_empty(record.get("candidates"))
    reasons = [value_in_either_case(candidate, "finishReason", "finish_reason") for candidate in candidates]
    is_blocked = not candidates and part.error is not None
    if not is_blocked and (not reasons or any(reason in _UNFINISHED for reason in reasons)):
        return
    stop = next((reason for reason in reasons if isinstance(reason, str)), None)
    if _may_continue(part):
        for index in range(len(candidates)):
            yield ChunkEnd(f"{index}/text", wait_for_part=True, fields={"stopReason": stop})
    else:
        yield ChunkEnd(fields={} if stop is None else {"stopReason": stop})
        yield ResponseEnd(turn="ends_unless_call_pending")


def _may_continue(part: Part) -> bool:
    """Return True for a chunk of the first models, which report a finish reason in every chunk."""
    is_text = all(block["type"] == "text" for block in part.blocks)
    return part.key is None and part.usage is None and part.error is None and is_text


def _block_steps(block: Block, part: Part, is_last: bool) -> Iterator[Step]:
    extra = block.get("extra") or {}
    prefix = f"{extra.get('choice_index', 0)}/"
    if block["type"] in ("text", "thinking"):
        yield from _text_steps(block, prefix, is_last)
    elif is_audio(block) and (block.get("source") or {}).get("type") == "base64":
        yield from _audio_steps(block, prefix, is_last)
    elif block["type"] == "raw" and block.get("reason") == "stream_fragment":
        yield from _argument_steps(next(iter(block["raw"].values())), prefix)
    elif block["type"] == "tool_use" and _is_streamed(extra):
        call = {"id": block.get("id"), "name": block["name"], "input": block["input"]}
        yield ChunkEnd(prefix, kinds=("text", "thinking", "audio") if block.get("id") else ALL_KINDS)
        yield Chunk("input", "", f"{prefix}input", call=call, anonymous_slot=True)
        yield from _argument_steps(extra, prefix)
    elif block["type"] != "raw" or block.get("reason") not in ("opaque", "control"):
        yield ChunkEnd(prefix, kinds=ALL_KINDS)
        yield replace(part, blocks=[_with_tool_name(block)], usage=None, error=None, relation="new")


def _text_steps(block: Block, prefix: str, is_last: bool) -> Iterator[Step]:
    """Return the steps of a text or of thinking; a signature ends thinking."""
    kind: Literal["text", "thinking"] = block["type"]
    text = block[kind]
    if text:
        yield _end_others(kind, prefix)
        yield Chunk(kind, text, f"{prefix}{kind}", is_last=is_last, anonymous_slot=True)
    if "signature" in block:
        yield ChunkEnd(f"{prefix}{kind}", fields=pick(block, "signature"))


def _audio_steps(block: Block, prefix: str, is_last: bool) -> Iterator[Step]:
    """Return the steps of speech, which is streamed in several parts. Each is a whole recording by its form."""
    data, mime_type = block["source"]["data"], pick(block, "mimeType")
    yield _end_others("audio", prefix)
    yield Chunk(
        "audio",
        data,
        f"{prefix}audio",
        fields=mime_type,
        is_last=is_last,
        block=block,
        anonymous_slot=True,
    )


def _end_others(kind: SlotKind, prefix: str) -> Step:
    return ChunkEnd(prefix, kinds=tuple(other for other in ALL_KINDS if other != kind))


def _with_tool_name(block: Block) -> Block:
    """Add the tool name to a code execution result, which does not refer to a call."""
    is_code_result = block.get("source_type") in ("codeExecutionResult", "code_execution_result")
    return with_extra(block, {"name": "code_execution"}) if is_code_result else block


# Streamed call arguments


def _is_streamed(call: Record) -> bool:
    return _will_continue(call) or bool(value_in_either_case(call, "partialArgs", "partial_args"))


def _will_continue(call: Record) -> bool:
    return value_in_either_case(call, "willContinue", "will_continue") is True


def _argument_steps(call: Record, prefix: str) -> Iterator[Step]:
    """Return the steps of partial arguments, and of the end of the call unless `willContinue` is set."""
    for partial in list_or_empty(value_in_either_case(call, "partialArgs", "partial_args")):
        path = first_text(partial, ("jsonPath", "json_path"))
        if path is not None:
            yield Chunk("input", "", f"{prefix}input", call={"input": _partial_value(partial)}, path=path)
    if not _will_continue(call):
        yield ChunkEnd(f"{prefix}input")


_VALUE_KEYS = (("stringValue", "string_value"), ("numberValue", "number_value"), ("boolValue", "bool_value"))


def _partial_value(partial: Record) -> Any:
    values = (value_in_either_case(partial, camel, snake) for camel, snake in _VALUE_KEYS)
    return next((value for value in values if value is not None), None)
