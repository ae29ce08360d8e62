"""Steps that Responses API records add to the event log: stream chunks, and the start and end of responses.

Slots are named by position: the index of the item in the output, then the index of the part in the item. Ids are not
used, because one vendor changes the ids of items and responses with each event. A completed item overrides its
chunks and is emitted as in a complete response; items in the final event are emitted only if the stream omitted
them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick
from ash_shared.providers.openai_responses.messages import (
    item_parts,
    request_parts,
    response_usage,
    standard_error,
)
from ash_shared.records.contract import ParsedRecord, Part, Record
from ash_shared.records.json_fields import (
    decode_arguments,
    is_one_of,
    list_or_empty,
    message_error,
    text_at,
    value_at,
)
from ash_shared.records.responses_items import item_role, item_type, parse_item
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


def _item_slot(event: Record) -> str:
    return str(event["output_index"] if "output_index" in event else event["item_id"])


# Chunks


class _DeltaType(NamedTuple):
    """A pair of events, `.delta` with a delta and `.done` with the complete text."""

    kind: Literal["text", "thinking", "input"]
    text_key: str
    """The key of the complete text."""
    index_key: str | None = None
    """The key of the part index, for items with several parts."""
    more: Mapping[str, Any] = {}


DELTA_TYPES: Mapping[str, _DeltaType] = {
    "apply_patch_call_operation_diff": _DeltaType("input", "diff"),
    "code_interpreter_call_code": _DeltaType("input", "code"),
    "custom_tool_call_input": _DeltaType("input", "input"),
    "function_call_arguments": _DeltaType("input", "arguments"),
    "mcp_call_arguments": _DeltaType("input", "arguments"),
    "output_text": _DeltaType("text", "text", "content_index"),
    "reasoning_summary_text": _DeltaType("thinking", "text", "summary_index"),
    "reasoning_text": _DeltaType("thinking", "text", "content_index"),
    "refusal": _DeltaType("text", "refusal", "content_index", {"variant": "refusal"}),
}

_EventSteps = Callable[[Record, ParsedRecord], list[Step]]


def _slot(delta_type: _DeltaType, event: Record) -> str:
    item_slot, key = _item_slot(event), delta_type.index_key
    return item_slot if key is None else f"{item_slot}/{key}/{event[key]}"


def _make_chunk(delta_type: _DeltaType, event: Record, text: str) -> Chunk:
    """Return a chunk. Deltas name only their item; the event that began the item contained the id of its call."""
    call = {"id": text_at(event, "item_id")} if delta_type.kind == "input" else {}
    return Chunk(delta_type.kind, text, _slot(delta_type, event), call=call, fields=delta_type.more)


def delta_steps(delta_type: _DeltaType) -> _EventSteps:
    return lambda event, parsed: [_make_chunk(delta_type, event, text_at(event, "delta") or "")]


def done_steps(delta_type: _DeltaType) -> _EventSteps:
    """Return a parser of the complete text, which overrides the deltas and is emitted with its item."""

    def make_steps(event: Record, parsed: ParsedRecord) -> list[Step]:
        text = text_at(event, delta_type.text_key)
        closed = ChunkEnd(_slot(delta_type, event), text=text, wait_for_part=True)
        return [closed] if delta_type.kind == "input" else [_make_chunk(delta_type, event, ""), closed]

    return make_steps


def begin_command(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Begin a command of a shell call. Newlines separate the commands of a call."""
    return [Chunk("input", "\n", _item_slot(event))] if event.get("command_index") else []


def command_delta(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [Chunk("input", text_at(event, "delta") or "", _item_slot(event))]


def command_output(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the output of a command. The event that began the output item contained the call id."""
    return [
        Chunk("output", text, _item_slot(event), fields={"stream": stream})
        for stream in ("stdout", "stderr")
        if (text := text_at(event, "delta", stream)) is not None
    ]


def partial_image(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Return a partial image; each one is a complete image in base64."""
    number = pick(event, "partial_image_index").get("partial_image_index", 0)
    image = text_at(event, "partial_image_b64") or ""
    return [Chunk("output", image, call={"id": event["item_id"]}, fields={"partialImageIndex": number})]


# Speech. Events of the Realtime API identify their item, events of the Responses API do not.


def _speech_slot(event: Record, name: str) -> str:
    keys = [key for key in ("output_index", "content_index") if key in event]
    return "/".join([*(str(event[key]) for key in keys), name])


def audio_delta(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [Chunk("audio", event["delta"], _speech_slot(event, "audio"), anonymous_slot=True)]


def audio_end(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [ChunkEnd(_speech_slot(event, "audio"))]


def transcript_delta(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [_transcript_chunk(event, event["delta"])]


def transcript_end(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the end of a transcript, which the Realtime API repeats."""
    text = text_at(event, "transcript")
    first = [] if text is None else [_transcript_chunk(event, "")]
    return [*first, ChunkEnd(_speech_slot(event, "transcript"), text=text)]


def _transcript_chunk(event: Record, text: str) -> Chunk:
    slot = _speech_slot(event, "transcript")
    return Chunk("text", text, slot, fields={"variant": "transcript"}, anonymous_slot=True)


# Items


def _visible_blocks(blocks: list[Block]) -> list[Block]:
    """Drop empty reasoning, and represent permission requests and replies as calls and results."""
    return [_approval_as_call(block) for block in blocks if block["type"] != "thinking" or block["thinking"]]


def _approval_as_call(block: Block) -> Block:
    """Represent a permission request as a call that waits for the user; the requested call follows if it is granted."""
    wire_type = block.get("rawType") if block["type"] == "raw" else None
    return _APPROVAL_BLOCKS[wire_type](block["raw"]) if is_one_of(wire_type, _APPROVAL_BLOCKS) else block


def _approval_request(item: Record) -> Block:
    arguments = {**pick(item, "server_label", "name"), "arguments": decode_arguments(item.get("arguments"))}
    return {"type": "tool_use", **pick(item, "id"), "name": item["type"], "input": arguments}


def _approval_response(item: Record) -> Block:
    decision = pick(item, "approve", "reason")
    return {"type": "tool_result", "tool_use_id": item["approval_request_id"], "structured": decision}


_APPROVAL_BLOCKS: Mapping[Any, Callable[[Record], Block]] = {
    "mcp_approval_request": _approval_request,
    "mcp_approval_response": _approval_response,
}


def _item_steps(item: Any, item_slot: str) -> list[Step]:
    """Return the steps of a complete item; none for items of the user or system, which are not part of a response."""
    if item_role(item) in ("user", "system"):
        return []
    partial = {"partial": True} if value_at(item, "status") == "incomplete" else {}
    return [Part(role="assistant", blocks=_visible_blocks(parse_item(item)), slot=item_slot, fields=partial)]


_CALL_DEFAULTS = {"arguments": "", "code": "", "input": "", "queries": []}
"""Keys that a call may lack when it begins, with their default values."""


def begin_item(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Begin a call or an output. Only this event contains the call id."""
    item, item_slot = event["item"], _item_slot(event)
    for block in parse_item({**_CALL_DEFAULTS, **item}):
        if block["type"] == "tool_use":
            return [call_chunk(block, item_slot)]
        if block["type"] == "tool_result":
            return [Chunk("output", "", item_slot, call={"id": block.get("tool_use_id")})]
    return []


def end_item(event: Record, parsed: ParsedRecord) -> list[Step]:
    return _item_steps(event["item"], _item_slot(event))


# Responses


_CLIENT_CALLS = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
        "tool_search_call",
    }
)
"""Items of calls that wait for the client, unless the response contains their output."""


def _is_waiting(items: list[Any]) -> bool:
    """Return True if the turn continues with a result from the client."""
    answered_calls = {value_at(item, "call_id") for item in items if item_role(item) == "tool"} - {None}
    return any(
        is_one_of(item_type(item), _CLIENT_CALLS)
        and value_at(item, "execution") != "server"
        and value_at(item, "call_id") not in answered_calls
        for item in items
    )


def _usage_step(response: Record) -> Step:
    return usage_step(response_usage(response), text_at(response, "id"))


def _complete_response(response: Record) -> list[Step]:
    """Complete a response. If the final event has no items, the log determines whether calls are pending."""
    items = list_or_empty(response.get("output"))
    if _is_waiting(items):
        return [ChunkEnd(), ResponseEnd(), _usage_step(response)]
    end = ResponseEnd(turn="ends" if items else "ends_unless_call_pending")
    return [ChunkEnd(), end, _usage_step(response)]


def _end_incomplete_response(response: Record) -> list[Step]:
    reason = text_at(response, "incomplete_details", "reason") or "incomplete"
    end = ChunkEnd(fields={"stopReason": reason, "partial": True})
    error = Emit("error", message_error(reason, None, response.get("incomplete_details")))
    return [end, ResponseEnd(turn="ends_incomplete"), error, _usage_step(response)]


def _fail_response(response: Record) -> list[Step]:
    error = standard_error(response.get("error")) or message_error("failed", None)
    return [_usage_step(response), Part(role=None, error=error, relation="interruption")]


_END_STEPS: Mapping[str, Callable[[Record], list[Step]]] = {
    "cancelled": lambda response: [_usage_step(response), TurnEnd("user_cancel")],
    "completed": _complete_response,
    "failed": _fail_response,
    "incomplete": _end_incomplete_response,
}
"""Readers of ended responses, by status."""


def response_steps(response: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the steps of a complete response, or the completed items while it is in progress."""
    status = text_at(response, "status") or "completed"
    is_over = status in _END_STEPS
    items = [
        step
        for index, item in enumerate(list_or_empty(response.get("output")))
        if is_over or value_at(item, "status") == "completed"
        for step in _item_steps(item, str(index))
    ]
    ends = _END_STEPS[status](response) if is_over else []
    return [ResponseStart(text_at(response, "id"), begins="unless_same_id"), *items, *ends]


def compaction_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    """Return an empty summary event, because the compacted history is encrypted, and the usage."""
    return [Emit("summary", {"text": ""}), _usage_step(record)]


def begin_response(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [ResponseStart(text_at(event, "response", "id"), begins="unless_same_id")]


def continue_response(event: Record, parsed: ParsedRecord) -> list[Step]:
    return [ResponseStart(text_at(event, "response", "id"), begins="if_none_open")]


def end_steps(name: str | None = None) -> _EventSteps:
    """Return a parser of the final event of a response with this status, or else the one that the response states.
    Items of a failed response are ignored: it may already have ended."""

    def make_steps(event: Record, parsed: ParsedRecord) -> list[Step]:
        response = event["response"]
        status = name or response["status"]
        if status == "failed":
            return _fail_response(response)
        items = enumerate(list_or_empty(response.get("output")))
        item_steps = [step for index, item in items for step in _item_steps(item, str(index))]
        start = ResponseStart(text_at(response, "id"), begins="if_none_open")
        return [start, *item_steps, *_END_STEPS[status](response)]

    return make_steps


def error_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    nested = record.get("error")
    error = standard_error(nested if isinstance(nested, dict) else record)
    return [Part(role=None, error=error, relation="interruption")]


def item_steps(item: Record, parsed: ParsedRecord) -> list[Step] | None:
    if parsed.kind != "message":
        return None
    return [replace(part, blocks=_visible_blocks(part.blocks)) for part in item_parts(item, parsed)]


def request_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [replace(part, blocks=_visible_blocks(part.blocks)) for part in request_parts(record, parsed)]


def approval_steps(item: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the step of a permission request or of the reply to it."""
    return [Part(role="assistant", blocks=_visible_blocks(parse_item(item)))]


def repeated_steps(event: Record, parsed: ParsedRecord) -> list[Step]:
    """Return the raw block of an event that is unknown or only repeats content."""
    return [Part(role="system", blocks=parsed.blocks)]
