"""Usage and costs of turns. They are kept by answer: if an answer is counted again, the last count is used."""

from collections.abc import Iterable

from ash_shared.eventlog.dedupe import digests, repetitions
from ash_shared.eventlog.state import (
    MAX_AGENTS,
    MAX_TOTALLED,
    MAX_USAGES,
    AgentUsage,
    State,
    Turn,
    evict_oldest,
)
from ash_shared.model.blocks import Block
from ash_shared.records.json_fields import TOKEN_COUNTS, is_integer
from ash_shared.records.steps import Part


def count_answer(turn: Turn, key: str, usage: Block) -> None:
    if not key:
        _add_to_total(turn, usage)
        return
    turn.usage_by_answer.pop(key, None)
    if turn.totalled_counts:
        _subtract(turn, digests.text_digest(key))
    turn.usage_by_answer[key] = usage
    if len(turn.usage_by_answer) > MAX_USAGES:
        oldest = next(name for name in turn.usage_by_answer if name)
        counts = turn.usage_by_answer.pop(oldest)
        _add_to_total(turn, counts)
        turn.totalled_counts[digests.text_digest(oldest)] = [counts.get(name, 0) for name in TOKEN_COUNTS]
        evict_oldest(turn.totalled_counts, MAX_TOTALLED)


def _add_to_total(turn: Turn, usage: Block) -> None:
    turn.usage_by_answer[""] = total_usage([turn.usage_by_answer.get("", {}), usage])


def _subtract(turn: Turn, digest: str) -> None:
    """Subtract the earlier counts of an answer from the total, because it is counted again."""
    counts = turn.totalled_counts.pop(digest, None)
    if counts is not None:
        added = turn.usage_by_answer[""]
        less = {
            name: added[name] - count
            for name, count in zip(TOKEN_COUNTS, counts, strict=False)
            if name in added
        }
        turn.usage_by_answer[""] = {**added, **less}


def revise_answer(turn: Turn, key: str, usage: Block) -> None:
    """Replace earlier counts of an answer by later ones."""
    earlier = turn.usage_by_answer.get(key, {})
    both = {**earlier, **usage}
    if isinstance(earlier.get("vendor"), dict) and isinstance(usage.get("vendor"), dict):
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
            if is_integer(count):
                total[name] = total.get(name, 0) + count
    return total


def costs_of_turn(turn: Turn) -> Block:
    """Return the known `usage` and `costUsd` of a turn."""
    costs: Block = {}
    if turn.usage_by_answer:
        costs["usage"] = total_usage(turn.usage_by_answer.values())
    if turn.usage_by_agent:
        costs["usageByAgent"] = {
            agent: total_usage([counted.earlier, counted.last])
            for agent, counted in turn.usage_by_agent.items()
        }
    if turn.cost is not None:
        costs["costUsd"] = turn.cost
    return costs


def count_part(state: State, turn: Turn | None, part: Part, usage: Block) -> None:
    is_new = repetitions.accept_usage(state, part)
    if not is_new or turn is None or state.own_ordinal is not None:
        return
    count_answer(turn, _answer_key(part), usage)
    agent = part.metadata.get("agentId")
    if part.parent_call is not None and agent is not None:
        _count_for_agent(turn, agent, _answer_key(part), usage)


def _count_for_agent(turn: Turn, agent: str, key: str, usage: Block) -> None:
    """Count an answer of a subagent. Its lines with the same answer follow each other."""
    counted = turn.usage_by_agent.setdefault(agent, AgentUsage())
    answer = digests.text_digest(key) if key else ""
    if answer == "" or answer != counted.answer:
        counted.earlier = total_usage([counted.earlier, counted.last])
    counted.answer = answer
    counted.last = {name: usage[name] for name in TOKEN_COUNTS if name in usage}
    evict_oldest(turn.usage_by_agent, MAX_AGENTS)


def add_cost(turn: Turn | None, part: Part) -> None:
    """Add the cost of an answer; an answer that is written again is counted once."""
    cost = part.cost
    if turn is None or cost is None:
        return
    key = digests.text_digest(_answer_key(part)) if _answer_key(part) else ""
    turn.cost = round((turn.cost or 0.0) + cost - turn.cost_by_answer.get(key, 0.0), 12)
    if key:
        turn.cost_by_answer[key] = float(cost)
        evict_oldest(turn.cost_by_answer, MAX_TOTALLED)


def _answer_key(part: Part) -> str:
    return part.key or part.message_id or ""


def cost_since_last(state: State, total: float | None, session: str) -> float | None:
    """Return the increase of the session's total cost since it was last stated."""
    if total is None:
        return None
    earlier = state.session_cost if session == state.cost_session and state.session_cost <= total else 0.0
    state.session_cost, state.cost_session = total, session
    return total - earlier
