"""Handle complete (non-streamed) messages of the user, the assistant and the system."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from ash_shared.eventlog import emit_messages, streaming, tool_calls, turns, usage
from ash_shared.eventlog.dedupe import copies, digests
from ash_shared.eventlog.dedupe.resent_messages import without_resent
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_REPLACEABLE_PARTS, MAX_SPEAKERS, Held, Place, State
from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Part, Settled, Speaker, TurnEnds, Whole

_REVOCABLE = frozenset({"assistant_done", "thinking_done", "user_message"})

_Unit = tuple[Block, Callable[[], None]]
"""A block or group of blocks of a part, and the function that emits it."""


def emit_whole(log: Log, step: Whole) -> None:
    part, uuid = step.part, log.facts.uuid
    if part.usage_of_turn and log.state.is_interrupted:
        _count_costs(log, part)
        return
    if part.id is not None or part.timestamp is not None:
        time = log.facts.timestamp if part.timestamp is None else part.timestamp
        log.facts = log.facts._replace(uuid=part.id or uuid, timestamp=time)
    speaker = _speaker_of(log.state, part)
    if part.blocks:
        new = part if part.original is None and log.state.sent is None else without_resent(log, part)
        if not new.blocks:
            return
        _EMITTERS[speaker](log, step if new is part else step._replace(part=new))
    _emit_annotations(log, part)
    if log.facts.uuid != uuid:
        log.facts = log.facts._replace(uuid=uuid)


def _speaker_of(state: State, part: Part) -> Speaker | None:
    """Return the speaker of a part. If a message and its parts are separate records, the message states the role."""
    if part.key is None or not part.keeps_key or part.role is None:
        return part.role
    speakers = state.speakers
    known = speakers.get(part.key, part.role)
    if not part.blocks:
        state.speakers = {**dict(list(speakers.items())[1 - MAX_SPEAKERS :]), part.key: known}
    return known


def _emit_annotations(log: Log, part: Part) -> None:
    """Emit retractions and errors of a part, and record its results and costs."""
    if part.retracts:
        log.emit("retraction", {"messageIds": list(part.retracts)})
    if part.rewinds_to is not None:
        log.emit("retraction", {"fromMessageId": part.rewinds_to})
    for call, more in part.results.items():
        tool_calls.add_to_result(log.state, call, more)
    if part.error is not None and not copies.is_duplicate_error(log.state, part, part.error["message"]):
        if part.role == "assistant":
            turns.activate_turn(log)
        log.emit("error", dict(part.error))
    _count_costs(log, part)


def _count_costs(log: Log, part: Part) -> None:
    turn = log.state.turn
    if part.metadata.get("costUsd") is not None:
        usage.add_cost(turn, part)
    if part.usage_of_turn:
        turns.end_explicit_turn(log, TurnEnds(part.usage, part.total_cost))
    elif part.usage is not None:
        usage.count_part(log.state, turn, part, part.usage)


# The assistant.


def _emit_assistant_part(log: Log, step: Whole) -> None:
    state, part, lane, text = log.state, step.part, _lane_of(step.part), _spoken_text(step.part)
    if step.slot is not None and state.response(lane).has_told_of(step.slot):
        return
    if step.sums_up and _was_streamed(state, text):
        streaming.end_slots(log, Settled(("text",)))
        return
    if text and part.echo:
        if not part.usage_of_turn:
            _hold_copy(log, "assistant", text, part)
            return
        if _has_spoken(state):
            return
    streaming.discard_slots(log, step, lane)
    if text and not part.echo and not emit_messages.accept_original(log, "assistant", text):
        return
    place = Place(lane, part.metadata.get("messageId") or part.key or state.response_id(lane))
    _emit_changes(
        log,
        step,
        [(block, partial(emit_messages.emit_block, log, step, block, place)) for block in part.blocks],
    )
    streaming.record_whole(state, step, lane)


def _was_streamed(state: State, text: str) -> bool:
    """True if this text is the whole text of the turn, which was streamed."""
    came = (state.turn.pieces, state.turn.checksum) if state.turn is not None else (0, 0)
    return bool(text) and came == (len(text), digests.checksum(text))


def _has_spoken(state: State) -> bool:
    """True if the turn has a text of the assistant, emitted or held."""
    is_held = any(copy.role == "assistant" and copy.blocks[0]["type"] == "text" for copy in state.held)
    return is_held or (state.turn is not None and state.turn.has_text)


def _hold_copy(log: Log, role: Literal["user", "assistant"], text: str, part: Part) -> None:
    held = Held(
        role,
        text,
        part.blocks,
        log.state.turns,
        response=part.key or part.metadata.get("messageId"),
        lane=_lane_of(part),
        record=log.facts.uuid,
        timestamp=log.facts.timestamp,
        synthetic=bool(part.metadata.get("synthetic")),
    )
    emit_messages.hold_copy(log, held)


def _lane_of(part: Part) -> str:
    lane = part.metadata.get("parentToolUseId")
    return lane if isinstance(lane, str) else ""


def _spoken_text(part: Part) -> str:
    """Return the text by which copies are matched: the text blocks, or else the reasoning."""
    return "".join(block["text"] for block in part.blocks if block["type"] == "text") or "".join(
        block["thinking"] for block in part.blocks if block["type"] == "thinking"
    )


# The user and the system.


def _emit_user_part(log: Log, step: Whole) -> None:
    part, lane, text = step.part, _lane_of(step.part), _spoken_text(step.part)
    results = [block for block in part.blocks if block["type"] == "tool_result"]
    others = [block for block in part.blocks if block["type"] != "tool_result"]
    if text and not results:
        if part.echo and step.holds:
            _hold_copy(log, "user", text, part)
            return
        is_new = (
            copies.accept_copy(log.state, "user", text)
            if part.echo
            else emit_messages.accept_original(log, "user", text)
        )
        if not is_new:
            return
    units: list[_Unit] = [
        (block, partial(tool_calls.emit_result, log, step, block, lane)) for block in results
    ]
    if others:
        synthetic = bool(part.metadata.get("synthetic"))
        is_prompt = not (results or lane or step.within or part.metadata.get("agentId"))
        emit = partial(
            emit_messages.emit_user_message,
            log,
            others,
            lane,
            is_prompt=is_prompt,
            synthetic=synthetic,
            more=step.more,
        )
        units.append(({"said": others}, emit))
    _emit_changes(log, step, units)


def _emit_system_part(log: Log, step: Whole) -> None:
    part = step.part
    for block in part.blocks:
        if block["type"] == "raw":
            emit_messages.emit_raw(log, block)
        elif block["type"] == "text" and not (block.get("variant") == "error" and part.error is not None):
            emit_messages.emit_system_text(log, block["text"], block.get("variant"))


_EMITTERS: Mapping[Speaker | None, Callable[[Log, Whole], None]] = {
    "assistant": _emit_assistant_part,
    "system": _emit_system_part,
    "user": _emit_user_part,
    None: lambda log, step: None,
}


# Parts that are written again when they change.


def _emit_changes(log: Log, step: Whole, units: Sequence[_Unit]) -> None:
    """Emit the new blocks of a part that replaces an earlier form of itself, and retract texts it no longer has."""
    part, state = step.part, log.state
    if not part.replaces or part.key is None:
        for _, emit in units:
            emit()
        return
    name, current = f"{part.role}/{part.key}", dict[str, str]()
    before = state.told.pop(name, None)
    was_streamed = step.repeats and before is None and part.metadata.get("messageId") in state.pieced
    before = before or {}
    for unit, emit in units:
        digest = digests.content_digest(unit)
        if was_streamed and _is_in_stream(state, unit):
            current[digest] = ""
        else:
            current[digest] = before[digest] if digest in before else _emit_revocable(log, emit)
    removed = [id for digest, id in before.items() if id and digest not in current]
    if removed:
        log.emit("retraction", {"eventIds": removed})
    log.state.told[name] = current
    if len(log.state.told) > MAX_REPLACEABLE_PARTS:
        del log.state.told[next(iter(log.state.told))]


def _emit_revocable(log: Log, emit: Callable[[], None]) -> str:
    """Emit a unit; return the id of its event if it can be retracted later, else an empty string."""
    count = len(log.events)
    emit()
    last = log.events[-1] if len(log.events) > count else {}
    return str(last["id"]) if last.get("type") in _REVOCABLE else ""


def _is_in_stream(state: State, unit: Block) -> bool:
    """True if a unit of a streamed answer was in the stream: all but results of pending calls."""
    if unit.get("type") != "tool_result":
        return "type" in unit
    call = state.calls.get(unit.get("tool_use_id") or "")
    return call is None or call.state == "answered"
