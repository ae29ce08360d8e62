"""Handle streamed answers. A response has slots: a text, reasoning or the input of a call.

Each chunk extends the slot of its name and is emitted. The complete content of a slot is emitted once,
when it ends: explicitly, with the response, when other content begins, or with the turn, then as `partial`. A later
record with the complete content discards the slot.
"""

from collections.abc import Mapping
from typing import Any, cast

from ash_shared.eventlog import emit_messages, queued_prompts, tool_calls, turns
from ash_shared.eventlog.built_input import add_value, json_end
from ash_shared.eventlog.dedupe import assembled_answers, repetitions
from ash_shared.eventlog.dedupe.resent_messages import count_sent
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import (
    MAX_OPEN_SLOTS,
    MAX_STREAMED_RESPONSES,
    Response,
    Slot,
    State,
    UnfinishedJson,
)
from ash_shared.eventlog.usage.answers import model_name
from ash_shared.model.blocks import Block, is_audio, without
from ash_shared.records import steps
from ash_shared.records.json_fields import decode_arguments, set_json_path

_EVENT_PREFIXES = {"audio": "audio", "text": "assistant", "thinking": "thinking", "input": "tool_input"}
"""Prefix of the event types by kind of slot."""
_SLOT_KINDS: Mapping[str, steps.SlotKind] = {"text": "text", "thinking": "thinking", "tool_use": "input"}
"""Kind of slot by block type."""


# Responses.


def start_response(output: LineOutput, step: steps.ResponseStart) -> None:
    known = output.state.responses.get(output.parent_call)
    model = "" if step.model is None else model_name(step.model)
    if known is not None and _continues(known, step):
        known.id = known.id or step.id
        known.model = known.model or model
        return
    if known is not None:
        end_response_slots(output, output.parent_call)
    turns.end_if_over(output)
    output.state.is_interrupted = False
    tool_calls.mark_left(output.state)
    is_explicit = step.begins in ("always", "unless_same_id")
    output.state.responses[output.parent_call] = Response(step.id, is_explicit=is_explicit, model=model)


def _continues(known: Response, step: steps.ResponseStart) -> bool:
    """True if the step continues the known response."""
    is_open, is_same = not known.is_over, step.id == known.id
    is_unnamed = step.id is None or known.id is None
    return {
        "always": False,
        "if_none_open": is_open or is_same or is_unnamed,
        "if_other_id": is_same or known.id is None or (is_unnamed and is_open),
        "unless_same_id": is_same and not is_unnamed,
    }[step.begins]


def end_response(output: LineOutput, step: steps.ResponseEnd) -> None:
    if any(slot.parent_call == output.parent_call for slot in output.state.slots):
        return
    response = output.state.response(output.parent_call)
    response.is_over = True
    if step.turn not in ("ends_incomplete", "restarts"):
        _record_response(output, response)
    waits = step.turn == "ends_unless_call_pending" and tool_calls.has_pending(output.state)
    if step.turn not in ("continues", "restarts") and not waits:
        turns.mark_over(output.state)


def _record_response(output: LineOutput, response: Response) -> None:
    """Record a completely streamed response, which later records may repeat."""
    state = output.state
    if response.id is not None and response.emitted_slots:
        known = [id for id in state.streamed_responses if id != response.id]
        state.streamed_responses = [*known, response.id][-MAX_STREAMED_RESPONSES:]
    if not output.parent_call:
        assembled_answers.record_end(state, response)


# Chunks.


def add_chunk(output: LineOutput, chunk: steps.Chunk) -> None:
    if chunk.kind in _OUTPUT_KINDS:
        tool_calls.emit_output(output, chunk)
        return
    slot = _find_or_open_slot(output, chunk)
    if slot is None:
        return
    slot.fields = _merge_fields(slot.fields, chunk.fields)
    added = _set_argument(slot, chunk) if chunk.path else _plain_text(slot, chunk)
    if chunk.is_last and (slot.is_complete or not slot.was_streamed):
        _add_complete(slot, chunk, added)
    elif added:
        _emit_chunk(output, slot, added, chunk.fields)


_OUTPUT_KINDS = ("output", "output_so_far")


def _add_complete(slot: Slot, chunk: steps.Chunk, added: str) -> None:
    slot.is_complete = True
    if chunk.block is None:
        slot.add_text(added)
    else:
        slot.fields = _merge_fields(slot.fields, {"content": [chunk.block]})


def _emit_chunk(output: LineOutput, slot: Slot, added: str, fields: Mapping[str, Any]) -> None:
    if slot.kind == "audio":
        output.emit("audio_chunk", {"data": added, "seq": slot.audio_chunks, **fields}, slot.place)
        slot.audio_chunks += 1
        return
    payload: Block = {"text": added}
    if slot.kind == "input":
        payload = {"toolCallId": slot.call, "toolName": slot.tool, "chunk": added, "offset": slot.length}
    slot.add_text(added)
    if slot.kind == "text" and not slot.parent_call:
        repetitions.record_streamed_text(output.state, added)
    output.emit(f"{_EVENT_PREFIXES[slot.kind]}_chunk", {**payload, **fields}, slot.place)


def _find_or_open_slot(output: LineOutput, chunk: steps.Chunk) -> Slot | None:
    """Return the slot of a chunk, opening it if necessary; None if it was emitted already."""
    state, parent_call = output.state, output.parent_call
    for slot in state.slots:
        if slot.name == chunk.slot and slot.parent_call == parent_call:
            if not _is_other_item(slot, chunk):
                return slot
            end_slot(output, slot)
            break
    response = state.response(parent_call)
    if not chunk.anonymous_slot and response.has_emitted(chunk.slot):
        return None
    return _open_slot(output, chunk, response)


def _open_slot(output: LineOutput, chunk: steps.Chunk, response: Response) -> Slot:
    state = output.state
    if response.is_over and response.id is not None and state.turn is not None:
        response.is_over = False  # one of several parallel responses had ended
        if state.turn.is_over:
            state.turn.phase = "running"
    slot = _new_slot(output, chunk, response)
    response.was_streamed = True
    state.last_streamed = None
    if len(state.slots) >= MAX_OPEN_SLOTS:
        _end_oldest_slot(output)
    state.slots.append(slot)
    return slot


def _end_oldest_slot(output: LineOutput) -> None:
    """End the oldest slot with the content it has; later chunks of an unfinished one begin another slot."""
    slot = output.state.slots[0]
    end_slot(output, slot, {} if slot.is_complete else {"partial": True}, may_continue=not slot.is_complete)


def _new_slot(output: LineOutput, chunk: steps.Chunk, response: Response) -> Slot:
    turns.activate_turn(output)
    call = chunk.call
    id = call.get("id") or ""
    has_call_id = chunk.kind != "input" or bool(id)
    return Slot(
        chunk.slot,
        cast("steps.SlotKind", chunk.kind),
        parent_call=output.parent_call,
        response=output.context.response_id or chunk.response or response.id,
        call=id if has_call_id else output.new_id(),
        tool=call.get("name") or "",
        arguments="" if chunk.path else call.get("input", ""),
        has_call_id=has_call_id,
        is_anonymous=chunk.anonymous_slot,
    )


def _is_other_item(slot: Slot, chunk: steps.Chunk) -> bool:
    """True if a chunk begins another item in the same slot: some vendors do not number calls, or end texts."""
    if not chunk.anonymous_slot or not slot.has_call_id:
        return False
    if chunk.kind != "input":
        return chunk.response is not None and slot.response not in (None, chunk.response)
    id = chunk.call.get("id")
    return bool(id and chunk.call.get("name")) and id != slot.call


def _plain_text(slot: Slot, chunk: steps.Chunk) -> str:
    if chunk.text:
        _stop_building_text(slot)
    return chunk.text


def _set_argument(slot: Slot, chunk: steps.Chunk) -> str:
    """Set a value in the arguments of a call; return the text that this adds to their JSON so far.

    A value that changes the text so far adds nothing, nor do those after it: the complete call has them.
    """
    value = chunk.call.get("input")
    if not (slot.has_built_arguments or slot.arguments or slot.length):
        slot.unfinished = UnfinishedJson([])
    added = None if slot.unfinished is None else add_value(slot.unfinished, chunk.path, value)
    if added is None:
        _stop_building_text(slot)
        slot.arguments, slot.has_built_arguments = set_json_path(slot.arguments, chunk.path, value), True
    return added or ""


def _stop_building_text(slot: Slot) -> None:
    """Keep built arguments as such instead of as text, which something else changes."""
    if slot.unfinished is not None:
        slot.arguments, slot.has_built_arguments, slot.unfinished = _arguments_of(slot), True, None


def _arguments_of(slot: Slot) -> Any:
    if slot.unfinished is not None:
        return decode_arguments(slot.whole_text() + json_end(slot.unfinished))
    if slot.length and not slot.has_built_arguments:
        return decode_arguments(slot.whole_text())
    return slot.arguments


def _merge_fields(fields: Block, added: Mapping[str, Any]) -> Block:
    """Merge the fields of a slot and of its next chunk; lists are concatenated."""
    if not added:
        return fields
    lists = {
        name: fields[name] + value
        for name, value in added.items()
        if isinstance(value, list) and isinstance(fields.get(name), list)
    }
    return {**fields, **{name: value for name, value in added.items() if name != "stream"}, **lists}


# Ends.


def end_chunks(output: LineOutput, step: steps.ChunkEnd) -> None:
    for slot in list(output.state.slots):
        if slot.parent_call == output.parent_call and _is_ended(slot, step):
            _complete_slot(output, slot, step)


def _is_ended(slot: Slot, step: steps.ChunkEnd) -> bool:
    if step.kinds is not None:
        return slot.kind in step.kinds and slot.name.startswith(step.slot)
    return step.slot in ("", slot.name)


def needs_whole_text(slot: Slot, step: steps.Step) -> bool:
    """True if the step completes the slot with the text of its chunks."""
    if not isinstance(step, steps.ChunkEnd) or step.wait_for_part or step.text is not None:
        return False
    return _is_ended(slot, step)


def _complete_slot(output: LineOutput, slot: Slot, step: steps.ChunkEnd) -> None:
    if step.text is not None:
        _stop_building_text(slot)
        slot.replace_text(step.text)
    slot.fields = {**slot.fields, **_end_fields(slot, step.fields)}
    slot.is_complete = True
    if not step.wait_for_part:
        end_slot(output, slot)


def _end_fields(slot: Slot, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields that apply to this slot: only texts have a stop reason, only unfinished items are partial."""
    if not fields:
        return fields
    others = [] if slot.kind == "text" else ["stopReason"]
    return without(dict(fields), *others, *(["partial"] if slot.is_complete else []))


def close_open(output: LineOutput) -> None:
    """End all open slots and release copies within the turn.

    Queued prompts stay held, because they begin another turn.
    """
    turn = output.state.turn
    phase = None if turn is None else turn.phase
    if turn is not None and turn.is_over:
        turn.phase = "running"  # else the first event would end it
    _end_all_slots(output)
    if turn is not None and phase is not None:
        turn.phase = phase


def _end_all_slots(output: LineOutput) -> None:
    for parent_call in dict.fromkeys(slot.parent_call for slot in output.state.slots):
        end_response_slots(output, parent_call)
    tool_calls.emit_held_results(output)
    emit_messages.release_answers(output)
    queued_prompts.emit_removed(output)


def end_response_slots(output: LineOutput, parent_call: str) -> None:
    """End the open slots of a conversation with the content they have."""
    for slot in [slot for slot in output.state.slots if slot.parent_call == parent_call]:
        end_slot(output, slot, {} if slot.is_complete else {"partial": True})


def end_slot(
    output: LineOutput, slot: Slot, end_fields: Block | None = None, *, may_continue: bool = False
) -> None:
    output.state.slots.remove(slot)
    text = slot.whole_text()
    response, block = output.state.response(slot.parent_call), _block_of_slot(slot, text)
    if not may_continue:
        response.record_emitted(slot.name)
    assembled_answers.record_blocks(response, [block])
    count_sent(output.state, "assistant", block)
    fields = {**slot.fields, **(end_fields or {})}
    if text:
        fields.pop("redacted", None)
    if slot.kind == "input":
        _emit_call_of_slot(output, slot, fields)
    elif slot.kind == "audio":
        blocks = fields.pop("content", [])
        if slot.audio_chunks or blocks:
            emit_messages.emit_audio(output, blocks, fields, slot.place)
    elif text or not slot.fields.keys().isdisjoint(_READABLE_WITHOUT_TEXT):
        wire = f"{_EVENT_PREFIXES[slot.kind]}_done"
        emit_messages.emit_text(output, wire, {"text": text, **fields}, slot.place)


_READABLE_WITHOUT_TEXT = ("redacted", "signature")
"""Fields of reasoning that is emitted even if its text is empty."""


def _emit_call_of_slot(output: LineOutput, slot: Slot, fields: Block) -> None:
    if not (slot.tool or slot.length):
        return
    emit_messages.emit_call(output, slot.call, slot.tool, _arguments_of(slot), fields, slot.place)
    if not slot.has_call_id and slot.call not in output.state.calls_without_id:
        output.state.calls_without_id.append(slot.call)


def _block_of_slot(slot: Slot, text: str) -> Block:
    """Return the block of a slot, as far as its digest needs it."""
    if slot.kind == "input":
        return {"type": "tool_use", "id": slot.call, "name": slot.tool, "input": slot.arguments}
    if slot.kind == "audio":
        return {"type": "file", "mediaClass": "audio"}
    return {"type": slot.kind, slot.kind: text}


def discard_slots(output: LineOutput, part: steps.Part) -> None:
    """Discard the slots that a complete message supersedes. End earlier slots and slots of another answer, since no
    message replaces them."""
    state, parent_call = output.state, part.parent_call or ""
    if part.slot is not None:
        state.slots = [slot for slot in state.slots if not slot.is_below(part.slot, parent_call)]
        return
    if not state.slots:
        return
    if _has_other_answer(state, part, parent_call):
        end_response_slots(output, parent_call)
    for block in part.blocks:
        slot = _find_slot_of(state, part, block)
        if slot is not None:
            end_complete_slots(output, parent_call, before=slot)
            state.slots.remove(slot)
            state.response(parent_call).record_emitted(slot.name)
        elif block["type"] != "thinking":
            end_complete_slots(output, parent_call, kind="thinking")


def blocks_streamed_without_id(state: State, part: steps.Part) -> list[int]:
    """Return the numbers of the blocks that supersede chunks without an id, of their own or of a response."""
    if not state.slots:
        return []
    slots = [_find_slot_of(state, part, block) for block in part.blocks]
    return [number for number, slot in enumerate(slots) if slot is not None and _has_no_id(slot)]


def _has_no_id(slot: Slot) -> bool:
    return slot.was_streamed and slot.is_anonymous and slot.response is None


def _has_other_answer(state: State, part: steps.Part, parent_call: str) -> bool:
    """True if this part does not belong to the answer of the open slots."""
    if state.turn is None or state.turn.is_over:
        return False  # the end of the turn ends its slots
    return part.message_id is not None and state.response_id(parent_call) not in (None, part.message_id)


def end_complete_slots(
    output: LineOutput, parent_call: str, *, before: Slot | None = None, kind: steps.SlotKind | None = None
) -> None:
    """End the slots that wait for a message (all, or of one kind), because later content follows."""
    turn = output.state.turn
    if turn is None or turn.is_over:
        return  # the end of the turn ends its slots
    slots = [slot for slot in output.state.slots if slot.parent_call == parent_call]
    for slot in slots if before is None else slots[: slots.index(before)]:
        if slot.is_complete and kind in (None, slot.kind):
            end_slot(output, slot)


def _find_slot_of(state: State, part: steps.Part, block: Block) -> Slot | None:
    """Return the slot that a complete block supersedes, by its call or its message, or else the first of its kind."""
    parent_call, response = part.parent_call or "", part.message_id or part.key
    kind = "audio" if is_audio(block) else _SLOT_KINDS.get(block["type"])
    candidates = [slot for slot in state.slots if slot.kind == kind and slot.parent_call == parent_call]
    if kind == "input":
        candidates.sort(key=lambda slot: slot.call != block.get("id"))
    else:
        candidates.sort(key=lambda slot: slot.response != response)
    return candidates[0] if candidates else None


def record_complete(state: State, part: steps.Part) -> None:
    """Record the blocks of a complete message in its response, which may have been streamed in part."""
    parent_call = part.parent_call or ""
    known = state.responses.get(parent_call)
    if known is not None and known.was_streamed:
        assembled_answers.record_blocks(known, part.blocks)
    if part.slot is not None:
        state.response(parent_call).record_emitted(part.slot)
