"""Handle streamed answers. A response has slots: a text, reasoning or the input of a call.

Each fragment extends the slot of its name and is emitted as a chunk. The complete content of a slot is emitted once,
when it ends: explicitly, with the response, when other content begins, or with the turn, then as `partial`. A later
record with the complete content discards the slot.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.eventlog import emit_messages, tool_calls, turns
from ash_shared.eventlog.dedupe import assembled_answers, digests
from ash_shared.eventlog.dedupe.resent_messages import count_sent
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_STREAMED_ANSWERS, Response, Slot, State
from ash_shared.model.blocks import Block
from ash_shared.providers._kit import steps
from ash_shared.providers._kit.json_fields import decode_arguments, set_json_path, unfinished_json

_EVENT_PREFIXES = {"text": "assistant", "thinking": "thinking", "input": "tool_input"}
"""Prefix of the event types by kind of slot."""
_SLOT_KINDS = {"text": "text", "thinking": "thinking", "tool_use": "input"}
"""Kind of slot by block type."""


# Responses.


def start_response(log: Log, step: steps.ResponseStart) -> None:
    known = log.state.responses.get(step.parent_call)
    if known is not None:
        if _continues(known, step):
            return
        end_response_slots(log, step.parent_call)
    turns.end_if_over(log)
    log.state.is_interrupted = False
    tool_calls.mark_left(log.state)
    log.state.responses[step.parent_call] = Response(step.id, has_explicit_end=step.is_explicit)


def _continues(known: Response, step: steps.ResponseStart) -> bool:
    """True if the step continues the known response."""
    is_nameless = step.id is None and not (step.has_stable_id and known.is_over)
    is_same = is_nameless or step.id == known.id or known.id is None
    if step.continues_same_id and step.id is not None and step.id == known.id:
        return True
    if step.is_explicit or not (is_same or not (known.is_over or step.has_stable_id)):
        return False
    known.id = known.id or step.id
    return True


def end_response(log: Log, step: steps.ResponseEnd) -> None:
    more = {} if step.stop_reason is None else {"stopReason": step.stop_reason}
    slots = [slot for slot in log.state.slots if slot.parent_call == step.parent_call]
    ended = [slot for slot in slots if slot.name.startswith(step.slot_prefix)]
    for slot in ended:
        cut = {"partial": True} if step.is_partial and not slot.is_complete else {}
        end_slot(log, slot, {**more, **cut} if slot.kind == "text" else cut)
    if len(ended) < len(slots):
        return
    response = log.state.response(step.parent_call)
    response.is_over = True
    if response.id is not None and response.emitted_slots and not step.is_partial:
        known = [id for id in log.state.streamed_responses if id != response.id]
        log.state.streamed_responses = [*known, response.id][-MAX_STREAMED_ANSWERS:]
    if not (step.is_partial or step.parent_call):
        assembled_answers.record_end(log.state, response)
    turn = log.state.turn
    if step.ends_turn and turn is not None and not turn.is_over:
        turn.phase = turn.phase if step.unless_call_pending and tool_calls.has_pending(log.state) else "over"


# Fragments.


def add_fragment(log: Log, piece: steps.Chunk) -> None:
    if piece.kind == "output":
        tool_calls.emit_output(log, piece)
        return
    slot = _find_or_open_slot(log, piece)
    if slot is None:
        return
    slot.fields = _merge_fields(slot.fields, piece.fields)
    added = piece.text[len(slot.text) :] if piece.is_complete_so_far else piece.text
    if piece.path:
        added = _set_argument(slot, piece)
    if piece.is_last and (slot.is_complete or not slot.text):
        slot.text, slot.is_complete = slot.text + added, True
    elif added:
        _emit_chunk(log, slot, added, piece.fields)


def _emit_chunk(log: Log, slot: Slot, added: str, more: Mapping[str, Any]) -> None:
    payload: Block = {"text": added}
    if slot.kind == "input":
        payload = {
            "toolCallId": slot.call,
            "toolName": slot.tool,
            "chunk": added,
            "offset": len(slot.text),
        }
    slot.text += added
    if slot.kind == "text" and not slot.parent_call and (turn := log.state.turn) is not None:
        turn.streamed_length, turn.streamed_checksum = (
            turn.streamed_length + len(added),
            digests.checksum(added, turn.streamed_checksum),
        )
    log.emit(f"{_EVENT_PREFIXES[slot.kind]}_chunk", {**payload, **more}, slot.place)


def _find_or_open_slot(log: Log, piece: steps.Chunk) -> Slot | None:
    """Return the slot of a fragment, opening it if necessary; None if it was emitted already."""
    state = log.state
    for slot in state.slots:
        if slot.name == piece.slot and slot.parent_call == piece.parent_call:
            if not _is_other_call(slot, piece):
                return slot
            end_slot(log, slot)
            break
    response = state.response(piece.parent_call)
    if not piece.anonymous_slot and response.has_emitted(piece.slot):
        return None
    if response.is_over and response.id is not None and state.turn is not None:
        response.is_over = False  # one of several parallel responses had ended
        if state.turn.is_over:
            state.turn.phase = "running"
    slot = _new_slot(log, piece, response)
    response.was_streamed = True
    state.last_streamed = None
    state.slots.append(slot)
    return slot


def _new_slot(log: Log, piece: steps.Chunk, response: Response) -> Slot:
    turns.activate_turn(log)
    call = piece.call or ""
    has_call_id = piece.kind != "input" or bool(call)
    return Slot(
        piece.slot,
        "text" if piece.kind == "output" else piece.kind,
        parent_call=piece.parent_call,
        response=piece.response or response.id,
        call=call if has_call_id else log.new_id(),
        tool=piece.tool or "",
        arguments=piece.arguments,
        has_call_id=has_call_id,
    )


def _is_other_call(slot: Slot, piece: steps.Chunk) -> bool:
    """True if a fragment begins another call in the same slot: some vendors do not number calls."""
    return bool(
        piece.anonymous_slot and piece.call and piece.tool and slot.has_call_id and piece.call != slot.call
    )


def _set_argument(slot: Slot, piece: steps.Chunk) -> str:
    """Set a value in the arguments of a call; return the text that this adds to their JSON so far."""
    slot.arguments, slot.has_built_arguments = set_json_path(slot.arguments, piece.path, piece.value), True
    text = unfinished_json(slot.arguments, piece.path, piece.value)
    return text[len(slot.text) :] if text.startswith(slot.text) else ""


def _merge_fields(more: Block, added: Mapping[str, Any]) -> Block:
    """Merge the extra fields of a slot and of its next fragment; lists are concatenated."""
    if not added:
        return more
    lists = {
        name: more[name] + value
        for name, value in added.items()
        if value.__class__ is list and more.get(name).__class__ is list
    }
    return {**more, **{name: value for name, value in added.items() if name != "stream"}, **lists}


# Ends.


def close_slot(log: Log, step: steps.ChunkEnd) -> None:
    for slot in log.state.slots:
        if slot.name == step.slot and slot.parent_call == step.parent_call:
            slot.text = slot.text if step.text is None else step.text
            slot.is_complete = True
            slot.fields = {**slot.fields, **step.fields}
            if not step.wait_for_part:
                end_slot(log, slot)
            return


def end_slots(log: Log, step: steps.ChunksEnd) -> None:
    for slot in list(log.state.slots):
        if (
            slot.kind in step.kinds
            and slot.parent_call == step.parent_call
            and slot.name.startswith(step.slot_prefix)
        ):
            end_slot(log, slot)


def close_open(log: Log) -> None:
    """End all open slots and release copies. Copies of user messages of this turn stay held: their original may
    come in the next."""
    for parent_call in dict.fromkeys(slot.parent_call for slot in log.state.slots):
        end_response_slots(log, parent_call)
    tool_calls.emit_held_results(log)
    turn = log.state.turns
    emit_messages.release_copies(
        log, [held for held in log.state.held_copies if held.role == "assistant" or held.turn < turn]
    )


def end_response_slots(log: Log, parent_call: str) -> None:
    """End the open slots of a conversation with the content they have."""
    for slot in [slot for slot in log.state.slots if slot.parent_call == parent_call]:
        end_slot(log, slot, {} if slot.is_complete else {"partial": True})


def end_slot(log: Log, slot: Slot, more: Block | None = None) -> None:
    log.state.slots.remove(slot)
    response, block = log.state.response(slot.parent_call), _block_of_slot(slot)
    response.emitted_slots.append(slot.name)
    assembled_answers.record_blocks(response, [block])
    count_sent(log.state, "assistant", block)
    fields = {**slot.fields, **(more or {})}
    if slot.text:
        fields.pop("redacted", None)
    if slot.kind == "input":
        if slot.tool or slot.text:
            args = (
                decode_arguments(slot.text) if slot.text and not slot.has_built_arguments else slot.arguments
            )
            emit_messages.emit_call(log, slot.call, slot.tool, args, fields, slot.place)
            if not slot.has_call_id and slot.call not in log.state.calls_without_id:
                log.state.calls_without_id.append(slot.call)
    elif slot.text or not slot.fields.keys().isdisjoint(("redacted", "signature")):
        emit_messages.emit_text(
            log, f"{_EVENT_PREFIXES[slot.kind]}_done", {"text": slot.text, **fields}, slot.place
        )


def _block_of_slot(slot: Slot) -> Block:
    """Return the block of a slot, as far as its digest needs it."""
    if slot.kind == "input":
        return {"type": "tool_use", "id": slot.call, "name": slot.tool, "input": slot.arguments}
    return {"type": slot.kind, slot.kind: slot.text}


def discard_slots(log: Log, part: steps.Part, parent_call: str) -> None:
    """Discard the slots whose complete content a message has."""
    state, name = log.state, part.slot
    if name is not None:
        state.slots = [slot for slot in state.slots if not slot.is_below(name, parent_call)]
        return
    for block in part.blocks:
        kind = _SLOT_KINDS.get(block["type"])
        candidates = [slot for slot in state.slots if slot.kind == kind and slot.parent_call == parent_call]
        named = [slot for slot in candidates if kind == "input" and slot.call == block.get("id")]
        for slot in (named or candidates)[:1]:
            state.slots.remove(slot)
            state.response(parent_call).emitted_slots.append(slot.name)


def record_whole(state: State, part: steps.Part, parent_call: str) -> None:
    """Record the blocks of a complete message in its response, part of which may have been streamed."""
    known = state.responses.get(parent_call)
    if known is not None and known.was_streamed:
        assembled_answers.record_blocks(known, part.blocks)
    if part.slot is not None:
        state.response(parent_call).emitted_slots.append(part.slot)
