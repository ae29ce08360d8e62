"""Tool calls, their output and their results.

A call is tracked from its first chunk to the end of the turn that has its result. A result without a tracked
call is marked as an orphan.
"""

from typing import Any

from ash_shared.eventlog import agents, turns
from ash_shared.eventlog.dedupe import copies
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import MAX_ANSWERED, MAX_CALLS, Call, Place, State, Turn
from ash_shared.model.blocks import Block, pick
from ash_shared.records.json_fields import first_text
from ash_shared.records.steps import RESULT_SECTION, Chunk, Part

_RESULT_KEYS = {"agent_id": "agentId", "exit_code": "exitCode", "structured": "structured"}


def record_call(state: State, id: str, tool: str, *, has_wire_id: bool = True) -> Call:
    tracked = state.calls
    tracked.pop(id, None)
    if len(tracked) >= MAX_ANSWERED:
        _evict_call(state)
    tracked[id] = call = Call(tool)
    if not has_wire_id:
        state.calls_without_id.append(id)
    return call


def _evict_call(state: State) -> None:
    """Evict the oldest answered call; a pending one only above `MAX_CALLS`."""
    tracked = state.calls
    oldest = next((id for id, call in tracked.items() if call.state == "answered"), None)
    if oldest is None and len(tracked) >= MAX_CALLS:
        oldest = next(iter(tracked))
    if oldest is not None:
        del tracked[oldest]
        _forget_without_id(state, oldest)


def _forget_without_id(state: State, id: str) -> None:
    if id in state.calls_without_id:
        state.calls_without_id.remove(id)


def mark_answered(state: State, id: str) -> None:
    """Mark a call as answered; it stays tracked until the turn ends."""
    state.calls[id].state = "answered"
    _forget_without_id(state, id)


def mark_left(state: State) -> None:
    """Mark the pending calls of the last answer as left: another answer begins."""
    for call in state.calls.values():
        if call.state == "asked":
            call.state = "left"


def has_pending(state: State) -> bool:
    """True if a call of the last answer waits for the client."""
    return any(call.state == "asked" and not call.is_hosted for call in state.calls.values())


def emit_output(output: LineOutput, chunk: Chunk) -> None:
    state, turn = output.state, turns.activate_turn(output)
    id = _call_of_output(output, turn, chunk)
    if not id:
        return
    call = state.calls.get(id)
    if call is None:
        call = record_call(state, id, chunk.call.get("name") or "")
        call.seen = "output"
    added = chunk.text[call.written :] if chunk.kind == "output_so_far" else chunk.text
    if added and call.state != "answered":
        payload = {"toolCallId": id, "chunk": added, "offset": call.written, **chunk.fields}
        call.written += len(added)
        output.emit("tool_output_chunk", payload, Place(output.parent_call))


def _call_of_output(output: LineOutput, turn: Turn, chunk: Chunk) -> str:
    """Return the id of the call that produces this output, which only the first chunk of a slot may contain."""
    wire_id = chunk.call.get("id")
    id = (turns.scoped_id(wire_id, turn) if output.has_local_ids else wire_id) or ""
    if not chunk.slot:
        return id
    calls_by_slot = output.state.response(output.parent_call).calls_by_output_slot
    id = id or calls_by_slot.get(chunk.slot) or _oldest_without_id(output.state, {}) or ""
    return calls_by_slot.setdefault(chunk.slot, id) if id else ""


# Results.


def emit_result(output: LineOutput, part: Part, block: Block, parent_call: str) -> None:
    state, id = output.state, _call_of_result(output, part, block, parent_call)
    if copies.is_duplicate_result(state, part, id):
        return
    if id is not None and copies.is_held_result(state, part, id):
        add_to_result(state, id, block)
        return
    if id is None and block.get("is_error") and part.role == "user":  # an error of the run, not of a call
        output.emit("error", {"code": "error", "message": _failure_text(block)})
        return
    event_id = output.new_id()
    if id in state.calls:
        output.tools[id] = state.calls[id].tool
    payload = _result_payload(state, part, block, id, event_id)
    output.emit("tool_result", payload, Place(parent_call), id=event_id)
    if id in state.calls and not parent_call and "error" not in payload:
        agents.follow_handoff(output, state.calls[id].tool, payload["result"])


def _result_payload(state: State, part: Part, block: Block, id: str | None, event_id: str) -> Block:
    """Mark the call as answered and return the payload of its result; without a call, the event's id stands for one."""
    later_fields = state.pending_results.pop(block.get("tool_use_id") or id or "", {})
    fields = {**_result_fields({**later_fields, **block}), **pick(part.fields, "sidechain")}
    payload = {"toolCallId": id or event_id, **fields}
    if not _answer_call(state, id):
        # The record of a result section has the call, too, although its turn may be over.
        return payload if part.section == RESULT_SECTION else {**payload, **_orphan_fields(part, block)}
    agent = agents.started_agent(state.calls[id or ""].tool, payload["result"])
    return payload if agent is None else {**payload, "agentId": agent}


def _orphan_fields(part: Part, block: Block) -> Block:
    """Return the fields of a result without a call, with the tool if its record names it."""
    tool = part.fields.get("toolName") or (block.get("extra") or {}).get("name")
    return {"orphan": True, **({"toolName": tool} if isinstance(tool, str) and tool else {})}


def _call_of_result(output: LineOutput, part: Part, block: Block, parent_call: str) -> str | None:
    """Return the id of the call of a result; a result without a known call answers the oldest call without an id."""
    state, turn = output.state, turns.activate_turn(output)
    id = block.get("tool_use_id")
    if output.has_local_ids:
        id = turns.scoped_id(id, turn)
    if id is None and part.slot is not None:
        id = state.response(parent_call).calls_by_output_slot.get(part.slot)
    if id is None or id not in state.calls:
        id = _oldest_without_id(state, block) or id
    if part.slot is not None and id is not None:
        state.response(parent_call).calls_by_output_slot[part.slot] = id
    return id


def _oldest_without_id(state: State, block: Block) -> str | None:
    """Return the oldest call without an id that a result may answer, if possible of the last answer."""
    oldest = None
    for id in state.calls_without_id:
        if state.may_answer(id, block):
            if state.calls[id].state == "asked":
                return id
            oldest = oldest or id
    return oldest


def _result_fields(block: Block) -> Block:
    fields: Block = {"result": block.get("content")}
    if block.get("is_error") or block.get("exit_code"):
        fields["error"] = {"code": "error", "message": _failure_text(block)}
    return {**fields, **{name: block[key] for key, name in _RESULT_KEYS.items() if key in block}}


def _answer_call(state: State, id: str | None) -> bool:
    """Mark the call of a result as answered. False if the call itself was not emitted."""
    known = state.calls.get(id or "")
    if known is None:
        return False
    if id is not None:
        mark_answered(state, id)
    return known.seen != "output"


def add_to_result(state: State, id: str, fields: Block) -> None:
    """Store fields of a result until it comes."""
    known = state.calls.get(id)
    if known is None or known.state != "answered":
        state.pending_results.setdefault(id, {}).update(fields)


def emit_held_results(output: LineOutput) -> None:
    """Emit held copies of results that have no original yet."""
    for id, block in list(output.state.pending_results.items()):
        known = output.state.calls.get(id)
        if known is not None and known.state != "answered" and block.get("type") == "tool_result":
            emit_result(output, Part(role="user"), block, "")


def _failure_text(block: Block) -> str:
    """Return the error text: the content sent to the model, or else a text of the structured result."""
    structured = block.get("structured")
    return _text_of(block.get("content")) or first_text(structured, ("message", "error", "status")) or ""


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
