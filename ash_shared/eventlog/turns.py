"""Turns: from a prompt, or another trigger, to the last event it caused.

A turn that the format ends explicitly (`TurnStart`, `TurnEnd`) ends there; any other ends with the final answer or
when the next one begins. Usage may follow a final answer, so `turn_end` is emitted after it, or before the next event.
"""

from typing import Literal

from ash_shared.eventlog import usage
from ash_shared.eventlog.emitter import Log
from ash_shared.eventlog.state import State, Turn
from ash_shared.model.blocks import Block
from ash_shared.records import steps

Trigger = Literal["user", "callback", "system"]


def scoped_id(id: str | None, turn: Turn) -> str | None:
    """Prefix an id that is unique only in its turn with the id of the turn."""
    return id and f"{turn.id}/{id}"


# Begin.


def open_turn(log: Log, id: str, *, has_explicit_end: bool) -> Turn:
    state = log.state
    state.turn = turn = Turn(id, has_explicit_end=has_explicit_end)
    state.is_interrupted = False
    state.turns += 1
    state.once_digests = []
    state.last_streamed = None
    return turn


def start_turn(log: Log, trigger: Trigger, id: str | None = None, *, has_explicit_end: bool = False) -> Turn:
    event_id = log.new_id()
    turn = open_turn(log, log.context.turn_id or id or event_id, has_explicit_end=has_explicit_end)
    log.emit("turn_start", {"trigger": trigger}, id=event_id)
    return turn


def leave_other_turn(log: Log) -> None:
    """End the open turn if the caller names another one."""
    turn = log.state.turn
    if turn is not None and log.context.turn_id is not None and not _is_named(log, turn):
        end_unfinished_turn(log, turn, is_cut=log.state.is_cut())


def _is_named(log: Log, turn: Turn) -> bool:
    """True if the caller names the turn, which then lasts as long as it does."""
    return turn.id == log.context.turn_id


def start_explicit_turn(log: Log, trigger: Trigger, id: str | None = None) -> None:
    turn = log.state.turn
    if turn is not None and (turn.phase == "fresh" or _is_named(log, turn)):
        turn.has_explicit_end = True
    elif turn is None or id is None or id != turn.id:
        end_previous_turn(log)
        start_turn(log, trigger, id, has_explicit_end=True)


def start_prompted_turn(log: Log) -> None:
    """Start a turn for a prompt, unless the open one has just begun or will be ended explicitly."""
    turn = log.state.turn
    if turn is not None and _is_named(log, turn):
        return
    if turn is None or turn.is_over or not (turn.phase == "fresh" or turn.has_explicit_end):
        end_previous_turn(log)
        start_turn(log, "user")


def ensure_turn(log: Log, trigger: Trigger = "system") -> Turn:
    """Return the turn of the next event; start one if none is open."""
    end_if_over(log)
    return log.state.turn or start_turn(log, trigger)


def activate_turn(log: Log, trigger: Trigger = "system") -> Turn:
    """Return the turn of an event of the assistant or a tool, marked as running."""
    turn = ensure_turn(log, trigger)
    turn.phase = "running"
    return turn


# End.


def end_turn(log: Log, *, partial: bool = False) -> None:
    turn = log.state.turn
    if turn is None:
        return
    log.close_open(log)
    payload = usage.costs_of_turn(turn)
    if partial or turn.phase == "stopped":
        payload["partial"] = True
    log.emit("turn_end", payload)
    clear_turn(log)


def end_if_over(log: Log) -> None:
    turn = log.state.turn
    if turn is not None and turn.is_over and not _is_named(log, turn):
        end_turn(log)


def mark_over(state: State) -> None:
    """Mark the turn as over: only usage may follow."""
    if state.turn is not None and not state.turn.is_over:
        state.turn.phase = "over"


def clear_turn(log: Log) -> None:
    """Clear the state of the turn. Pending calls stay: they may be answered later. So do originals of the user, whose
    copies may follow in the next turn; those of answers (a) and errors (e) have their copies in the same turn."""
    state = log.state
    state.turn = None
    state.responses, state.slots, state.pending_results = {}, [], {}
    state.emitted_answers = {}
    state.original_digests = [text for text in state.original_digests if text[0] not in "ae"]
    state.copy_digests = []
    state.calls = {id: call for id, call in state.calls.items() if call.state != "answered"}
    for call in state.calls.values():
        call.state = "lapsed"
    state.calls_without_id = [id for id in state.calls_without_id if id in state.calls]


def end_previous_turn(log: Log) -> None:
    """End the turn before another begins; it is interrupted if it is incomplete."""
    turn = log.state.turn
    if turn is not None:
        is_cut = not turn.is_over and (turn.has_explicit_end or log.state.is_cut())
        end_unfinished_turn(log, turn, is_cut=is_cut)


def end_unfinished_turn(log: Log, turn: Turn, *, is_cut: bool) -> None:
    if is_cut:
        log.close_open(log)
        log.emit("interrupt", {"reason": "error"})
    waits = any(call.state in ("asked", "left") for call in log.state.calls.values())
    end_turn(log, partial=is_cut or (waits and not turn.is_over))


def end_turn_explicitly(log: Log, step: steps.TurnEnd) -> None:
    if step.interrupt is not None:
        interrupt_turn(log, step.interrupt, step.mode)
    elif step.mode == "if_over":
        end_if_over(log)
    else:
        end_explicit_turn(log)


def interrupt_turn(log: Log, reason: str, mode: str, error: Block | None = None) -> None:
    """Interrupt the turn; if none is open and a repetition is possible, only end it."""
    turn = log.state.turn
    is_open = turn is not None and not turn.is_over
    if is_open or not (mode in _IF_OPEN or log.state.is_interrupted):
        _emit_interrupt(log, reason, mode, error)
    elif mode != "stop_if_open":
        end_explicit_turn(log)


_IF_OPEN = ("if_open", "stop_if_open")


def _emit_interrupt(log: Log, reason: str, mode: str, error: Block | None) -> None:
    turn = ensure_turn(log)
    log.close_open(log)
    if error is not None:
        log.emit("error", error)
    log.emit("interrupt", {"reason": reason})
    waits_for_end = mode == "stop" and turn.has_explicit_end
    if waits_for_end or mode == "stop_if_open":
        turn.phase = "stopped"
    else:
        end_explicit_turn(log, partial=True)
    log.state.is_interrupted = True


def end_explicit_turn(
    log: Log, total: Block | None = None, total_cost: float | None = None, *, partial: bool = False
) -> None:
    """End the turn with its total usage, or else the sum of its answers, and with the total cost of the session."""
    turn, cost = log.state.turn, usage.cost_since_last(log.state, total_cost, log.facts.session_id or "")
    if turn is None:
        return
    if total is not None:
        turn.usage_by_answer, turn.usage_by_agent = {"": total}, {}
    turn.cost = turn.cost if cost is None else cost
    end_turn(log, partial=partial)


def count_usage(log: Log, part: steps.Part, counts: Block) -> None:
    """Count the usage of a part; usage of the open response may be the first sign of a turn."""
    if part.role is None and part.relation == "revision":
        open_response = log.state.response_id(log.parent_call) or "open"
        usage.revise_answer(log.state.turn or ensure_turn(log), open_response, counts)
    else:
        usage.count_part(log.state, log.state.turn, part, counts)
    if part.role is None and part.relation != "copy":
        end_if_over(log)
