"""Recognise duplicates of tool calls and results by call id."""

from ash_shared.eventlog.state import Call, State
from ash_shared.providers._kit.steps import Part


def is_duplicate_call(state: State, part: Part, id: str | None) -> bool:
    """True if the call was emitted: for a revision, a copy, or the original of a copy."""
    known = state.calls.get(id or "")
    return known is not None and _is_duplicate(part, known)


def is_duplicate_result(state: State, part: Part, id: str | None) -> bool:
    """True if the result was emitted."""
    known = _known_call(state, id)
    return known is not None and known.state == "answered" and _is_duplicate(part, known)


def is_held_result(state: State, part: Part, id: str | None) -> bool:
    """True if the result is a copy that waits for its original: a call that is itself a copy has none."""
    known = _known_call(state, id)
    return part.relation == "held_copy" and known is not None and known.seen != "copy"


def _known_call(state: State, id: str | None) -> Call | None:
    return None if id is None else state.calls.get(id)


def _is_duplicate(part: Part, known: Call) -> bool:
    return part.is_revision or part.is_copy or known.seen == "copy"
