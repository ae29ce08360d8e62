"""Emit only the new blocks of a part that is written again (`Part.is_revision`), or of a message that grows
(`Part.relation` growth)."""

from collections.abc import Callable, Mapping, Sequence

from ash_shared.eventlog.dedupe.digests import content_digest, text_digest
from ash_shared.eventlog.emitter import LineOutput
from ash_shared.eventlog.state import MAX_GROWING, MAX_REVISIONS, EmittedAnswer, State, evict_oldest
from ash_shared.model.blocks import Block
from ash_shared.model.event_types import types_where
from ash_shared.records.repeated_blocks import MAX_FORMS, match_blocks
from ash_shared.records.steps import Part

Unit = tuple[Block, Callable[[], None]]
"""A block or group of blocks of a part, and the function that emits it."""

_REVOCABLE = types_where(lambda row: row.is_revocable)


def emit_units(output: LineOutput, part: Part, units: Sequence[Unit]) -> None:
    """Emit the units of a part; of a revision, or for a message that grows, only those that the log does not have."""
    if part.is_revision and part.key is not None:
        _emit_revision(output, part, units)
    elif part.relation == "growth" and part.key is not None:
        _emit_growth(output, part, part.key, units)
    else:
        for _, emit in units:
            emit()


def _emit_revision(output: LineOutput, part: Part, units: Sequence[Unit]) -> None:
    """Emit the new units, and retract the texts of the earlier form that the part no longer has."""
    state, name = output.state, f"{part.role}/{part.key}"
    earlier = state.emitted_revisions.pop(name, None)
    was_streamed = earlier is None and part.message_id in state.streamed_responses
    known, current = earlier or {}, {}
    for unit, emit in units:
        digest = content_digest(unit)
        if digest in known:
            current[digest] = known[digest]
        else:
            current[digest] = (
                "" if was_streamed and _is_in_stream(state, unit) else _emit_revocable(output, emit)
            )
    _retract_removed(output, known, current)
    state.emitted_revisions[name] = current
    evict_oldest(state.emitted_revisions, MAX_REVISIONS)


def _retract_removed(output: LineOutput, known: Mapping[str, str], current: Mapping[str, str]) -> None:
    _retract(output, [id for digest, id in known.items() if digest not in current])


def _retract(output: LineOutput, event_ids: Sequence[str]) -> None:
    removed = list(filter(None, event_ids))
    if removed:
        output.emit("retraction", {"eventIds": removed})


def _emit_growth(output: LineOutput, part: Part, key: str, units: Sequence[Unit]) -> None:
    """Emit the new units of a message, and retract their earlier forms."""
    state, parent_call = output.state, part.parent_call or ""
    answer = state.emitted_answers.pop(parent_call, None)
    if answer is None or answer.key != key:
        answer = EmittedAnswer(key)
    replaced: list[str] = []
    may_grow = part.follows is None or text_digest(part.follows) != answer.record
    matches = match_blocks(answer.forms, [block for block, _ in units], may_grow=may_grow)
    answer.record = text_digest(output.header.uuid) if output.header.uuid is not None else ""
    for (_, form, index), (_, emit) in zip(matches, units, strict=True):
        if index is None:
            answer.forms.append(form)
            answer.events.append(_emit_revocable(output, emit, _GROWING))
        elif form != answer.forms[index] and not _is_answered(state, form.call):
            replaced.append(answer.events[index])
            answer.forms[index], answer.events[index] = form, _emit_revocable(output, emit, _GROWING)
    _retract(output, replaced)
    del answer.forms[:-MAX_FORMS], answer.events[:-MAX_FORMS]
    state.emitted_answers[parent_call] = answer
    evict_oldest(state.emitted_answers, MAX_GROWING)


_GROWING = _REVOCABLE | {"tool_call"}
"""Events that are retracted by the next form of their block. In revisions, calls are recognised by id instead."""


def _is_answered(state: State, call: str) -> bool:
    known = state.calls.get(call)
    return known is not None and known.state == "answered"


def _emit_revocable(output: LineOutput, emit: Callable[[], None], types: frozenset[str] = _REVOCABLE) -> str:
    """Emit a unit; return the id of its event if it can be retracted later, else an empty string."""
    count = len(output.events)
    emit()
    last = output.events[-1] if len(output.events) > count else {}
    return str(last["id"]) if last.get("type") in types else ""


def _is_in_stream(state: State, unit: Block) -> bool:
    """True if a unit of a streamed answer was in the stream: all but results of pending calls."""
    if unit.get("type") != "tool_result":
        return "type" in unit
    call = state.calls.get(unit.get("tool_use_id") or "")
    return call is None or call.state == "answered"
