"""Emit only what is new in a part that replaces an earlier form of itself (`Part.is_revision`)."""

from collections.abc import Callable, Mapping, Sequence

from ash_shared.eventlog.dedupe.digests import content_digest
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import MAX_REVISIONS, State, evict_oldest
from ash_shared.model.blocks import Block
from ash_shared.model.event_types import types_where
from ash_shared.providers._kit.steps import Part

Unit = tuple[Block, Callable[[], None]]
"""A block or group of blocks of a part, and the function that emits it."""

_REVOCABLE = types_where(lambda row: row.is_revocable)


def emit_units(log: Log, part: Part, units: Sequence[Unit]) -> None:
    """Emit the units of a part; of a revision only those that an earlier form of it did not have."""
    if part.is_revision and part.key is not None:
        _emit_revision(log, part, units)
        return
    for _, emit in units:
        emit()


def _emit_revision(log: Log, part: Part, units: Sequence[Unit]) -> None:
    """Emit the new units, and retract the texts of the earlier form that the part no longer has."""
    state, name = log.state, f"{part.role}/{part.key}"
    earlier = state.emitted_revisions.pop(name, None)
    was_streamed = earlier is None and part.message_id in state.streamed_responses
    known, current = earlier or {}, dict[str, str]()
    for unit, emit in units:
        digest = content_digest(unit)
        if digest in known:
            current[digest] = known[digest]
        else:
            current[digest] = (
                "" if was_streamed and _is_in_stream(state, unit) else _emit_revocable(log, emit)
            )
    _retract_removed(log, known, current)
    state.emitted_revisions[name] = current
    evict_oldest(state.emitted_revisions, MAX_REVISIONS)


def _retract_removed(log: Log, known: Mapping[str, str], current: Mapping[str, str]) -> None:
    removed = [id for digest, id in known.items() if id and digest not in current]
    if removed:
        log.emit("retraction", {"eventIds": removed})


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
