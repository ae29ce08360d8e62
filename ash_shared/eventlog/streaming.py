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


def start_response(log: Log, step: steps.ResponseStarts) -> None:
    known = log.state.responses.get(step.lane)
    if known is not None:
        if _continues(known, step):
            return
        end_lane(log, step.lane)
    turns.end_if_over(log)
    log.state.is_interrupted = False
    tool_calls.mark_left(log.state)
    log.state.responses[step.lane] = Response(step.id, is_begun=step.is_explicit)


def _continues(known: Response, step: steps.ResponseStarts) -> bool:
    """True if the step continues the known response."""
    is_nameless = step.id is None and not (step.is_stable and known.is_over)
    is_same = is_nameless or step.id == known.id or known.id is None
    if step.resumes and step.id is not None and step.id == known.id:
        return True
    if step.is_explicit or not (is_same or not (known.is_over or step.is_stable)):
        return False
    known.id = known.id or step.id
    return True


def end_response(log: Log, step: steps.ResponseEnds) -> None:
    more = {} if step.stop_reason is None else {"stopReason": step.stop_reason}
    slots = [slot for slot in log.state.slots if slot.lane == step.lane]
    ended = [slot for slot in slots if slot.name.startswith(step.prefix)]
    for slot in ended:
        cut = {"partial": True} if step.is_partial and not slot.is_whole else {}
        end_slot(log, slot, {**more, **cut} if slot.kind == "text" else cut)
    if len(ended) < len(slots):
        return
    response = log.state.response(step.lane)
    response.is_over = True
    if response.id is not None and response.told and not step.is_partial:
        known = [id for id in log.state.pieced if id != response.id]
        log.state.pieced = [*known, response.id][-MAX_STREAMED_ANSWERS:]
    if not (step.is_partial or step.lane):
        assembled_answers.record_end(log.state, response)
    turn = log.state.turn
    if step.is_final and turn is not None and not turn.is_over:
        turn.phase = turn.phase if step.unless_called and tool_calls.has_pending(log.state) else "over"


# Fragments.


def add_fragment(log: Log, piece: steps.Fragment) -> None:
    if piece.kind == "output":
        tool_calls.emit_output(log, piece)
        return
    slot = _find_or_open_slot(log, piece)
    if slot is None:
        return
    slot.more = _merge_fields(slot.more, piece.more)
    added = piece.text[len(slot.text) :] if piece.is_whole else piece.text
    if piece.path:
        added = _set_argument(slot, piece)
    if piece.is_last and (slot.is_whole or not slot.text):
        slot.text, slot.is_whole = slot.text + added, True
    elif added:
        _emit_chunk(log, slot, added, piece.more)


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
    if slot.kind == "text" and not slot.lane and (turn := log.state.turn) is not None:
        turn.pieces, turn.checksum = turn.pieces + len(added), digests.checksum(added, turn.checksum)
    log.emit(f"{_EVENT_PREFIXES[slot.kind]}_chunk", {**payload, **more}, slot.place)


def _find_or_open_slot(log: Log, piece: steps.Fragment) -> Slot | None:
    """Return the slot of a fragment, opening it if necessary; None if it was emitted already."""
    state = log.state
    for slot in state.slots:
        if slot.name == piece.slot and slot.lane == piece.lane:
            if not _is_other_call(slot, piece):
                return slot
            end_slot(log, slot)
            break
    response = state.response(piece.lane)
    if not piece.reopens and response.has_told(piece.slot):
        return None
    if response.is_over and response.id is not None and state.turn is not None:
        response.is_over = False  # one of several parallel responses had ended
        if state.turn.is_over:
            state.turn.phase = "running"
    slot = _new_slot(log, piece, response)
    response.is_pieced = True
    state.streamed = None
    state.slots.append(slot)
    return slot


def _new_slot(log: Log, piece: steps.Fragment, response: Response) -> Slot:
    turns.activate_turn(log)
    call = piece.call or ""
    is_named = piece.kind != "input" or bool(call)
    return Slot(
        piece.slot,
        "text" if piece.kind == "output" else piece.kind,
        lane=piece.lane,
        response=piece.response or response.id,
        call=call if is_named else log.new_id(),
        tool=piece.name or "",
        given=piece.given,
        is_named=is_named,
    )


def _is_other_call(slot: Slot, piece: steps.Fragment) -> bool:
    """True if a fragment begins another call in the same slot: some vendors do not number calls."""
    return bool(piece.reopens and piece.call and piece.name and slot.is_named and piece.call != slot.call)


def _set_argument(slot: Slot, piece: steps.Fragment) -> str:
    """Set a value in the arguments of a call; return the text that this adds to their JSON so far."""
    slot.given, slot.is_built = set_json_path(slot.given, piece.path, piece.value), True
    text = unfinished_json(slot.given, piece.path, piece.value)
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


def close_slot(log: Log, step: steps.Closed) -> None:
    for slot in log.state.slots:
        if slot.name == step.slot and slot.lane == step.lane:
            slot.text = slot.text if step.text is None else step.text
            slot.is_whole = True
            slot.more = {**slot.more, **step.more}
            if not step.waits:
                end_slot(log, slot)
            return


def end_slots(log: Log, step: steps.Settled) -> None:
    for slot in list(log.state.slots):
        if slot.kind in step.kinds and slot.lane == step.lane and slot.name.startswith(step.prefix):
            end_slot(log, slot)


def close_open(log: Log) -> None:
    """End the slots of all lanes and release copies. Copies of user messages of this turn stay held: their original may
    come in the next."""
    for lane in dict.fromkeys(slot.lane for slot in log.state.slots):
        end_lane(log, lane)
    tool_calls.emit_held_results(log)
    turn = log.state.turns
    emit_messages.release_copies(
        log, [held for held in log.state.held if held.role == "assistant" or held.turn < turn]
    )


def end_lane(log: Log, lane: str) -> None:
    """End the slots of a lane with the content they have."""
    for slot in [slot for slot in log.state.slots if slot.lane == lane]:
        end_slot(log, slot, {} if slot.is_whole else {"partial": True})


def end_slot(log: Log, slot: Slot, more: Block | None = None) -> None:
    log.state.slots.remove(slot)
    response, block = log.state.response(slot.lane), _block_of_slot(slot)
    response.told.append(slot.name)
    assembled_answers.record_blocks(response, [block])
    count_sent(log.state, "assistant", block)
    fields = {**slot.more, **(more or {})}
    if slot.text:
        fields.pop("redacted", None)
    if slot.kind == "input":
        if slot.tool or slot.text:
            args = decode_arguments(slot.text) if slot.text and not slot.is_built else slot.given
            emit_messages.emit_call(log, slot.call, slot.tool, args, fields, slot.place)
            if not slot.is_named and slot.call not in log.state.nameless:
                log.state.nameless.append(slot.call)
    elif slot.text or not slot.more.keys().isdisjoint(("redacted", "signature")):
        emit_messages.emit_text(
            log, f"{_EVENT_PREFIXES[slot.kind]}_done", {"text": slot.text, **fields}, slot.place
        )


def _block_of_slot(slot: Slot) -> Block:
    """Return the block of a slot, as far as its digest needs it."""
    if slot.kind == "input":
        return {"type": "tool_use", "id": slot.call, "name": slot.tool, "input": slot.given}
    return {"type": slot.kind, slot.kind: slot.text}


def discard_slots(log: Log, step: steps.Whole, lane: str) -> None:
    """Discard the slots whose complete content a message has."""
    state, name = log.state, step.slot
    if name is not None:
        state.slots = [slot for slot in state.slots if not slot.is_below(name, lane)]
        return
    for block in step.part.blocks:
        kind = _SLOT_KINDS.get(block["type"])
        candidates = [slot for slot in state.slots if slot.kind == kind and slot.lane == lane]
        named = [slot for slot in candidates if kind == "input" and slot.call == block.get("id")]
        for slot in (named or candidates)[:1]:
            state.slots.remove(slot)
            state.response(lane).told.append(slot.name)


def record_whole(state: State, step: steps.Whole, lane: str) -> None:
    """Record the blocks of a complete message in its response, part of which may have been streamed."""
    known = state.responses.get(lane)
    if known is not None and known.is_pieced:
        assembled_answers.record_blocks(known, step.part.blocks)
    if step.slot is not None:
        state.response(lane).told.append(step.slot)
