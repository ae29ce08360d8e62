"""Usage and costs of turns. They are kept by answer: if an answer is counted again, the last count is used."""

from collections.abc import Iterable

from ash_shared.eventlog.dedupe import digests
from ash_shared.eventlog.state import MAX_ADDED_UP, MAX_USAGES, State, Turn
from ash_shared.model.blocks import Block
from ash_shared.providers._kit import steps
from ash_shared.providers._kit.json_fields import TOKEN_COUNTS
from ash_shared.providers._kit.steps import Part


def count_answer(turn: Turn, key: str, usage: Block) -> None:
    if not key:
        _add_to_total(turn, usage)
        return
    turn.usage.pop(key, None)
    if turn.added_up:
        _subtract(turn, digests.text_digest(key))
    turn.usage[key] = usage
    if len(turn.usage) > MAX_USAGES:
        oldest = next(name for name in turn.usage if name)
        counts = turn.usage.pop(oldest)
        _add_to_total(turn, counts)
        added = {**turn.added_up, digests.text_digest(oldest): [counts.get(name, 0) for name in TOKEN_COUNTS]}
        turn.added_up = dict(list(added.items())[-MAX_ADDED_UP:])


def _add_to_total(turn: Turn, usage: Block) -> None:
    turn.usage[""] = total_usage([turn.usage.get("", {}), usage])


def _subtract(turn: Turn, digest: str) -> None:
    """Subtract the earlier counts of an answer from the total, because it is counted again."""
    counts = turn.added_up.pop(digest, None)
    if counts is not None:
        added = turn.usage[""]
        less = {
            name: added[name] - count
            for name, count in zip(TOKEN_COUNTS, counts, strict=False)
            if name in added
        }
        turn.usage[""] = {**added, **less}


def revise_answer(turn: Turn, key: str, usage: Block) -> None:
    """Replace earlier counts of an answer by later ones."""
    earlier = turn.usage.get(key, {})
    both = {**earlier, **usage}
    if earlier.get("vendor").__class__ is dict and usage.get("vendor").__class__ is dict:
        later = {name: count for name, count in usage["vendor"].items() if count is not None}
        both["vendor"] = {**earlier["vendor"], **later}
    both["total_tokens"] = both.setdefault("input_tokens", 0) + both.setdefault("output_tokens", 0)
    count_answer(turn, key, both)


def total_usage(usages: Iterable[Block]) -> Block:
    """Add up the counts of several answers; one answer is returned as it is, with all its fields."""
    counted = [usage for usage in usages if usage]
    if len(counted) == 1:
        return counted[0]
    total: Block = {}
    for usage in counted:
        for name, count in usage.items():
            if count.__class__ is int:
                total[name] = total.get(name, 0) + count
    return total


def costs_of_turn(turn: Turn) -> Block:
    """Return the known `usage` and `costUsd` of a turn."""
    costs: Block = {}
    if turn.usage:
        costs["usage"] = total_usage(turn.usage.values())
    if turn.cost is not None:
        costs["costUsd"] = turn.cost
    return costs


def count_part(state: State, turn: Turn | None, part: Part, usage: Block) -> None:
    if not _was_counted(state, part) and turn is not None:
        count_answer(turn, _answer_key(part), usage)


def _was_counted(state: State, part: Part) -> bool:
    """True if this repeats the last usage, possibly in another turn."""
    key = digests.text_digest(part.usage_key) if part.usage_key is not None else ""
    is_known = bool(key) and key == state.counted
    state.counted = key or state.counted
    return is_known


def add_cost(turn: Turn | None, part: Part) -> None:
    """Add the cost of a turn or of one of its answers; an answer that is written again is counted once."""
    cost = part.metadata.get("costUsd")
    if turn is None or not isinstance(cost, int | float):
        return
    if part.usage_of_turn:
        turn.cost = float(cost)
        return
    key = digests.text_digest(_answer_key(part)) if _answer_key(part) else ""
    turn.cost = round((turn.cost or 0.0) + cost - turn.costs.get(key, 0.0), 12)
    if key:
        turn.costs = {**dict(list(turn.costs.items())[1 - MAX_ADDED_UP :]), key: float(cost)}


def _answer_key(part: Part) -> str:
    """Return the key of the answer of a part."""
    return part.usage_key or part.key or part.metadata.get("messageId") or ""


def cost_since_last(state: State, end: steps.TurnEnds, session: str) -> float | None:
    """Return the increase of the session's total cost since it was last stated."""
    if end.total_cost is None:
        return None
    earlier = state.costs if session == state.paid_by and state.costs <= end.total_cost else 0.0
    state.costs, state.paid_by = end.total_cost, session
    return end.total_cost - earlier
