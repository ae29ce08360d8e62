"""Steps that Chat Completions chunks and responses add to the event log.

Slots are named by the indexes of choice and call: `0/thinking`, `0/text`, `0/refusal`, `0/audio`, `0/transcript`,
`0/call/2`.
Thinking ends when another item begins; all other items end with the choice. Events of choices other than the first
contain the index of the choice.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.providers.openai_chat.content import parse_block
from ash_shared.providers.openai_chat.messages import (
    choice_blocks,
    is_legacy_text,
    response_cost,
    response_usage,
    standard_error,
)
from ash_shared.records.contract import ParsedRecord, Part, Record
from ash_shared.records.json_fields import (
    first_text,
    is_integer,
    list_or_empty,
    message_error,
    text_at,
    value_at,
)
from ash_shared.records.steps import (
    ALL_KINDS,
    Chunk,
    ChunkEnd,
    Emit,
    ResponseEnd,
    ResponseStart,
    Step,
    TurnEnd,
    TurnState,
)

_CALLING_FINISH_REASONS = frozenset({"function_call", "tool_calls"})
"""Finish reasons after which the caller has to respond."""


def chunk_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    id, choices = text_at(record, "id"), list_or_empty(record["choices"])
    choice_steps = [step for choice in choices for step in _choice_delta_steps(choice, id)]
    is_last = not choices or any(text_at(choice, "finish_reason") for choice in choices)
    return [*choice_steps, *_error_steps(record), *(_usage_steps(record, id) if id or is_last else ())]


def _choice_delta_steps(choice: Record, response_id: str | None) -> list[Step]:
    delta, reason = choice.get("delta") or {}, text_at(choice, "finish_reason")
    prefix, more = _slot_prefix(choice), _choice_fields(choice)
    ends = _finish_steps(choice, reason) if reason else []
    if is_legacy_text(choice):
        text = Chunk("text", choice["text"], f"{prefix}text", fields=more, is_last=bool(reason))
        return [ResponseStart(response_id, begins="if_none_open"), text, *ends]
    delta_steps = _delta_steps(delta, prefix, more)
    if not (delta_steps or reason or "role" in delta):
        return []
    start = ResponseStart(response_id, begins="if_other_id" if "role" in delta else "if_none_open")
    return [start, *delta_steps, *ends]


def _choice_index(choice: Any) -> int:
    index = value_at(choice, "index")
    return index if is_integer(index) else 0


def _slot_prefix(choice: Any) -> str:
    return f"{_choice_index(choice)}/"


def _choice_fields(choice: Any) -> Block:
    return {"choiceIndex": index} if (index := _choice_index(choice)) else {}


def _finish_steps(choice: Record, reason: str) -> list[Step]:
    """End a choice, and the turn unless a call waits for the caller, regardless of the finish reason."""
    turn: TurnState = "ends_unless_call_pending" if reason not in _CALLING_FINISH_REASONS else "continues"
    end = ChunkEnd(_slot_prefix(choice), kinds=ALL_KINDS, fields={"stopReason": reason})
    return [end, ResponseEnd(turn), *_error_steps(choice, reason)]


def _error_steps(fields: Record, reason: str | None = None) -> list[Step]:
    error = standard_error(fields.get("error"))
    if error is None and reason == "content_filter":
        error = message_error(reason, None)
    return [Emit("error", error)] if error else []


def _usage_steps(record: Record, response_id: str | None) -> list[Step]:
    """Return the usage so far, which some vendors repeat in each chunk: the last counts, also without a response id."""
    usage = response_usage(record)
    if usage is None:
        return []
    return [Part(role=None, usage=usage, key=response_id, cost=response_cost(record))]


# Chunks


def _delta_steps(delta: Record, prefix: str, more: Block) -> list[Step]:
    thinking = _thinking_steps(delta, prefix, more)
    return thinking + [
        step
        for name, write in _DELTA_WRITERS.items()
        if delta.get(name)
        for step in write(delta[name], prefix, more)
    ]


def _thinking_steps(delta: Record, prefix: str, more: Block) -> list[Step]:
    """Return the reasoning, which has up to three keys; the details are used only if the other keys have no text."""
    text = first_text(delta, ("reasoning_content", "reasoning"))
    if text is not None:
        return [_thinking_delta(text, prefix, more)]
    details = delta.get("reasoning_details")
    if isinstance(details, list):
        return [_reasoning_detail_delta(detail, prefix, more) for detail in details]
    return []


def _thinking_delta(text: str, prefix: str, more: Block) -> Chunk:
    return Chunk("thinking", text, f"{prefix}thinking", fields=more, anonymous_slot=True)


def _reasoning_detail_delta(detail: Any, prefix: str, more: Block) -> Chunk:
    text = first_text(detail, ("text", "summary"))
    if text is None and text_at(detail, "data"):
        return Chunk("thinking", "", f"{prefix}thinking", fields={**more, "redacted": True})
    return _thinking_delta(text or "", prefix, more)


def _text_steps(text: str, prefix: str, more: Block, name: str = "text") -> list[Step]:
    return [_end_thinking(prefix), Chunk("text", text, f"{prefix}{name}", fields=more, anonymous_slot=True)]


def _end_thinking(prefix: str) -> ChunkEnd:
    return ChunkEnd(prefix, kinds=("thinking",))


def _variant_writer(variant: str) -> "_DeltaWriter":
    return lambda text, prefix, more: _text_steps(text, prefix, {**more, "variant": variant}, variant)


def _content_steps(content: Any, prefix: str, more: Block) -> list[Step]:
    """Return the steps of a text or a list of parts; one vendor writes its reasoning as a part."""
    if isinstance(content, str):
        return _text_steps(content, prefix, more)
    return [step for part in list_or_empty(content) for step in _part_steps(part, prefix, more)]


def _part_steps(part: Any, prefix: str, more: Block) -> list[Step]:
    block = parse_block(part)
    if block["type"] == "thinking":
        return [ChunkEnd(prefix, kinds=("text",)), _thinking_delta(block["thinking"], prefix, more)]
    if block["type"] != "text":
        return _complete_block_steps([block], prefix, more)
    write = _variant_writer("refusal") if block.get("variant") == "refusal" else _text_steps
    return write(block["text"], prefix, more)


def _complete_block_steps(blocks: list[Block], prefix: str, more: Block) -> list[Step]:
    """Return the steps of blocks that arrive in one chunk."""
    ends = ChunkEnd(prefix, kinds=("text", "thinking"))
    return [ends, Part(role="assistant", blocks=blocks, fields=more)]


def _image_steps(images: Any, prefix: str, more: Block) -> list[Step]:
    return _complete_block_steps([parse_block(image) for image in list_or_empty(images)], prefix, more)


def _citation_steps(annotations: Any, prefix: str, more: Block) -> list[Step]:
    return _text_steps("", prefix, {**more, "citations": list_or_empty(annotations)})


def _audio_steps(audio: Any, prefix: str, more: Block) -> list[Step]:
    """Return the steps of speech or its transcript, one in each delta; other deltas have the id or the expiry."""
    data, transcript = text_at(audio, "data"), text_at(audio, "transcript")
    speech = [Chunk("audio", data, f"{prefix}audio", fields=more, anonymous_slot=True)] if data else []
    words = _variant_writer("transcript")(transcript, prefix, more) if transcript else []
    return [_end_thinking(prefix), *speech, *words]


def _call_steps(calls: Any, prefix: str, more: Block) -> list[Step]:
    return [
        step
        for number, call in enumerate(list_or_empty(calls))
        for step in _call_delta_steps(call, number, prefix, more)
    ]


def _call_delta_steps(call: Record, number: int, prefix: str, more: Block) -> list[Step]:
    """Return the steps of a call delta. Its slot is named by its index, or else its id; without both it is complete."""
    inner = call.get("function") or call.get("custom") or {}
    id, index = text_at(call, "id"), call.get("index")
    slot_name = index if is_integer(index) else id
    if slot_name is not None:
        return [_end_thinking(prefix), _input_delta(inner, f"{prefix}call/{slot_name}", id, more)]
    slot = f"{prefix}call/-{number}"
    return [_end_thinking(prefix), _input_delta(inner, slot, None, more), ChunkEnd(slot, kinds=("input",))]


def _input_delta(function: Record, slot: str, id: str | None, more: Block) -> Chunk:
    """Return an input delta. Without a name it continues a call; some vendors write the arguments as an object."""
    name, arguments = text_at(function, "name"), function.get("arguments", function.get("input"))
    text, input = (arguments, "") if isinstance(arguments, str) else ("", arguments)
    call = {"id": id, "name": name, "input": "" if input is None else input}
    return Chunk("input", text, slot, call=call, fields=more, anonymous_slot=name is not None)


_DeltaWriter = Callable[[Any, str, Block], list[Step]]

_DELTA_WRITERS: Mapping[str, _DeltaWriter] = {
    "content": _content_steps,
    "annotations": _citation_steps,
    "images": _image_steps,
    "refusal": _variant_writer("refusal"),
    "audio": _audio_steps,
    "tool_calls": _call_steps,
    "function_call": lambda call, prefix, more: [_input_delta(call, f"{prefix}function_call", None, more)],
}
"""Functions that return the steps of a delta, by its keys, in the block order of a complete message."""


# Complete responses


def completion_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a complete response, which result in the same events as its chunks."""
    id, choices = text_at(record, "id"), list_or_empty(record["choices"])
    choice_steps = [step for choice in choices for step in _complete_choice_steps(choice, id)]
    is_calling = any(text_at(choice, "finish_reason") in _CALLING_FINISH_REASONS for choice in choices[:1])
    ends = ResponseEnd(turn="ends_unless_call_pending" if not is_calling else "continues")
    errors_and_usage = [*_error_steps(record), *_usage_steps(record, id)]
    return [ResponseStart(id), *choice_steps, ChunkEnd(), ends, *errors_and_usage, TurnEnd(mode="if_over")]


def _complete_choice_steps(choice: Any, response_id: str | None) -> list[Step]:
    reason = text_at(choice, "finish_reason")
    blocks = _with_stop_reason(choice_blocks(choice), reason)
    part = Part(role="assistant", blocks=blocks, key=response_id, fields=_choice_fields(choice))
    return [part, *_error_steps(choice, reason)]


def _with_stop_reason(blocks: list[Block], reason: str | None) -> list[Block]:
    """Add the finish reason to the texts at the end."""
    non_calls = [block for block in blocks if block["type"] != "tool_use"]
    last = max((index for index, block in enumerate(non_calls) if block["type"] != "text"), default=-1)
    final_texts = [id(block) for block in non_calls[last + 1 :]] if reason else []
    return [{**block, "stopReason": reason} if id(block) in final_texts else block for block in blocks]
