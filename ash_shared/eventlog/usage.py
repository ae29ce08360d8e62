"""Usage and costs of turns. They are kept by answer: if an answer is counted again, the last count is used."""

from ash_shared.eventlog.dedupe import digests, repetitions
from ash_shared.eventlog.state import (
    MAX_AGENTS,
    MAX_COUNTED,
    MAX_TOTALLED,
    MAX_USAGES,
    AgentUsage,
    CountedMessage,
    State,
    Turn,
    evict_oldest,
)
from ash_shared.model.blocks import Block, without
from ash_shared.model.costs import Costs, total_usage
from ash_shared.records.json_fields import TOKEN_COUNTS
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


def is_counted(state: State, part: Part) -> bool:
    """True if the message of a part has been counted, possibly in an earlier turn."""
    return digests.text_digest(_answer_key(part)) in state.counted_messages


def put_section(state: State, part: Part) -> tuple[CountedMessage, Costs, Costs]:
    """Record the costs of a message or of its section; return the message, and its costs before and after."""
    key = digests.text_digest(_answer_key(part))
    known = state.counted_messages.pop(key, None) or CountedMessage(state.turn.id if state.turn else "")
    before = known.costs.total()
    counts = None if part.usage is None else without(part.usage, "vendor")
    known.costs.put(part.section, counts, part.cost)
    state.counted_messages[key] = known
    evict_oldest(state.counted_messages, MAX_COUNTED)
    return known, before, known.costs.total()


def count_message(turn: Turn, part: Part, before: Costs, after: Costs) -> None:
    """Count a message of this turn; `part` states the usage or cost of the message, or of a section."""
    counts = None if part.usage is None else without(part.usage, "vendor")
    if part.usage is not None and counts == after.usage:
        count_answer(turn, _answer_key(part), part.usage)
    elif after.usage is not None and after.usage != before.usage:
        count_answer(turn, _answer_key(part), after.usage)
    _add_cost_difference(turn, before, after)


def count_difference(turn: Turn, before: Costs, after: Costs) -> None:
    """Count the change in the usage and cost of a message that an earlier turn has counted."""
    earlier, later = before.usage or {}, after.usage or {}
    if earlier != later:
        names = [name for name in TOKEN_COUNTS if name in later]
        _add_to_total(turn, {name: later[name] - earlier.get(name, 0) for name in names})
    _add_cost_difference(turn, before, after)


def _add_cost_difference(turn: Turn, before: Costs, after: Costs) -> None:
    if after.cost is not None:
        turn.cost = round((turn.cost or 0.0) + after.cost - (before.cost or 0.0), 12)


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
