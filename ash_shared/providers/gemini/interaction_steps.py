"""Steps that complete interactions and their stream events add to the event log.

A step of a response is one text, thought, call or result; events refer to it by its index in the response. A delta
contains only a fragment: the call id of a result is only in the event that begins the result. The interaction in the
final event usually contains no steps.
"""

from collections.abc import Callable, Mapping

import msgspec

from ash_shared.model.blocks import Block, pick
from ash_shared.providers.gemini.interactions import (
    SERVER_TOOLS,
    event_error,
    input_blocks,
    interaction_error,
    interaction_usage,
    parse_step,
    response_steps,
    step_speaker,
)
from ash_shared.records.contract import ParsedRecord, Part, Record
from ash_shared.records.json_fields import list_or_empty, text_at, value_at
from ash_shared.records.steps import (
    Chunk,
    ChunkEnd,
    Emit,
    ResponseEnd,
    ResponseStart,
    Step,
    TurnEnd,
    call_chunk,
    usage_step,
)

_Reader = Callable[[Record], list[Step]]
_DeltaReader = Callable[[Record, str], list[Step]]

# Deltas. `slot` identifies their step.


def _signature_delta(delta: Record, slot: str) -> list[Step]:
    return [Chunk("thinking", "", slot, fields=pick(delta, "signature"))]


def _call_delta(delta: Record, slot: str) -> list[Step]:
    """Return arguments that arrive in one piece."""
    arguments = delta.get("arguments")
    text = arguments if isinstance(arguments, str) else _encode(arguments).decode() if arguments else ""
    return [Chunk("input", text, slot, call={"id": text_at(delta, "id"), "name": text_at(delta, "name")})]


def _result_delta(delta: Record, slot: str) -> list[Step]:
    return [_assistant_part(parse_step(delta), slot)]


def _media_delta(delta: Record, slot: str) -> list[Step]:
    """Return complete media; text may precede and follow it."""
    return [ChunkEnd(slot), _assistant_part(parse_step(delta))]


_encode = msgspec.json.Encoder().encode
_TOOLS = (*SERVER_TOOLS, "function", "mcp_server_tool")

_DELTA_READERS: Mapping[str, _DeltaReader] = {
    **dict.fromkeys((f"{tool}_call" for tool in _TOOLS), _call_delta),
    **dict.fromkeys((f"{tool}_result" for tool in _TOOLS), _result_delta),
    **dict.fromkeys(("audio", "document", "image", "video"), _media_delta),
    **dict.fromkeys(("text_annotation", "text_annotation_delta"), lambda delta, slot: []),
    "arguments_delta": lambda delta, slot: [Chunk("input", text_at(delta, "arguments") or "", slot)],
    "text": lambda delta, slot: [Chunk("text", text_at(delta, "text") or "", slot, anonymous_slot=True)],
    "thought_signature": _signature_delta,
    "thought_summary": lambda delta, slot: [Chunk("thinking", text_at(delta, "content", "text") or "", slot)],
}


def _delta_steps(event: Record) -> list[Step]:
    delta = event["delta"]
    return _DELTA_READERS[delta["type"]](delta, _slot(event))


def _slot(event: Record) -> str:
    return str(event["index"])


def _begin_step(event: Record) -> list[Step]:
    """Begin a step, perhaps with content. Only this event has the id and name of a call, or the call id of a result."""
    step = event["step"] if "step" in event else event["content"]
    wire_type, slot = step["type"], _slot(event)
    if wire_type.endswith("_call"):
        return [call_chunk(parse_step(step)[0], slot)]
    if wire_type.endswith("_result"):
        result = _result_delta(step, slot) if step.get("result") else []
        return [Chunk("output", "", slot, call={"id": text_at(step, "call_id")}), *result]
    return _initial_content(step, slot)


def _initial_content(step: Record, slot: str) -> list[Step]:
    """Return the steps of the content in the event that begins a step; usually there is none."""
    items = {"text": [step], "model_output": list_or_empty(step.get("content"))}.get(step["type"], [])
    deltas = [delta for item in items for delta in _DELTA_READERS[item["type"]](item, slot)]
    summary = list_or_empty(step.get("summary"))
    thoughts = [Chunk("thinking", text_at(part, "text") or "", slot) for part in summary]
    return [*deltas, *thoughts, *(_signature_delta(step, slot) if step.get("signature") else [])]


# Responses


def _assistant_part(blocks: list[Block], slot: str | None = None) -> Part:
    return Part(role="assistant", blocks=blocks, slot=slot)


def _is_visible(block: Block) -> bool:
    return block["type"] != "thinking" or bool(block["thinking"] or block.get("signature"))


def _output_steps(interaction: Record) -> list[Step]:
    """Return the steps of the response items. Indexes of the stream do not count user input, which may be a copy."""
    emitted: list[Step] = []
    slot = 0
    for step in response_steps(interaction):
        blocks = [block for block in parse_step(step) if _is_visible(block)]
        if value_at(step, "type") == "user_input":
            emitted.append(Part(role="user", blocks=blocks, relation="copy"))
        else:
            emitted.append(Part(role=step_speaker(step), blocks=blocks, slot=str(slot)))
            slot += 1
    return emitted


def _usage_step(interaction: Record) -> Step:
    return usage_step(interaction_usage(interaction), text_at(interaction, "id"))


def _end_incomplete_response(interaction: Record) -> list[Step]:
    end = ChunkEnd(fields={"stopReason": text_at(interaction, "status"), "partial": True})
    error = Emit("error", interaction_error(interaction) or {})
    return [end, ResponseEnd(turn="ends_incomplete"), error, _usage_step(interaction)]


def _fail_response(interaction: Record) -> list[Step]:
    error = Part(role=None, error=interaction_error(interaction), relation="interruption")
    return [_usage_step(interaction), error]


_END_STEPS: Mapping[str | None, _Reader] = {
    "budget_exceeded": _end_incomplete_response,
    "cancelled": lambda interaction: [_usage_step(interaction), TurnEnd("user_cancel")],
    "completed": lambda interaction: [ChunkEnd(), ResponseEnd(turn="ends"), _usage_step(interaction)],
    "failed": _fail_response,
    "incomplete": _end_incomplete_response,
    "requires_action": lambda interaction: [ChunkEnd(), ResponseEnd(), _usage_step(interaction)],
}
"""Readers of ended responses, by status."""


def interaction_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    end_parser = _END_STEPS.get(text_at(record, "status"))
    input_steps = [
        Part(role=role, blocks=blocks, relation="copy" if role == "user" else "new")
        for role, blocks in input_blocks(record)
    ]
    start = ResponseStart(text_at(record, "id"), begins="unless_same_id")
    output = [*_output_steps(record), *end_parser(record)] if end_parser is not None else []
    return [*input_steps, start, *output]


def _begin_response(event: Record) -> list[Step]:
    return [ResponseStart(text_at(event, "interaction", "id"), begins="unless_same_id")]


def _end_response(event: Record) -> list[Step]:
    """End a response. The steps of a failed response are ignored, because it may already have ended."""
    interaction = event["interaction"]
    end_parser = _END_STEPS.get(text_at(interaction, "status"))
    if end_parser is _fail_response:
        return _fail_response(interaction)
    start = ResponseStart(text_at(interaction, "id"), begins="if_none_open")
    return [start, *_output_steps(interaction), *(end_parser(interaction) if end_parser is not None else [])]


_EVENT_READERS: Mapping[str, _Reader] = {
    **dict.fromkeys(("interaction.complete", "interaction.completed"), _end_response),
    **dict.fromkeys(("interaction.created", "interaction.start"), _begin_response),
    **dict.fromkeys(("content.start", "step.start"), _begin_step),
    **dict.fromkeys(("content.delta", "step.delta"), _delta_steps),
    **dict.fromkeys(("content.stop", "step.stop"), lambda event: [ChunkEnd(_slot(event))]),
    "error": lambda event: [Part(role=None, error=event_error(event), relation="interruption")],
    "interaction.status_update": lambda event: [],
}
"""Parsers of events of the current and the first version of the API."""


def event_steps(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of an event; unknown events and deltas are emitted as raw."""
    wire_type, delta = event["event_type"], event.get("delta")
    is_known = wire_type in _EVENT_READERS and (delta is None or value_at(delta, "type") in _DELTA_READERS)
    return _EVENT_READERS[wire_type](event) if is_known else [Emit("raw", {"source": "gemini", "raw": event})]
