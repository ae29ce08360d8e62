"""Usage and costs of sessions, and their totals with the sessions of subagents."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ash_shared.eventlog import OpenTurn
from ash_shared.projections._retractions import Events, WireEvent, wire_events
from ash_shared.providers._kit.json_fields import TOKEN_COUNTS

Counts = dict[str, int]

TURN_MARKS = ("reset", "turn_start", "turn_end")
"""The types of the events from which the spending of a session follows."""


class Spending(NamedTuple):
    """The usage and cost of a session, as far as its transcript has them."""

    usage: Counts | None = None
    cost_usd: float | None = None
    usage_by_agent: Mapping[str, Counts] = {}
    """The part of the usage in lines of subagents that the transcript repeats, by agent."""


class AgentSpending(NamedTuple):
    """The spending of a session, with the id of its subagent; None for any other session."""

    agent_id: str | None
    spending: Spending


def spending_of(events: Events, open_turn: OpenTurn | None = None) -> Spending:
    """Return the sum over the turns of a log, including the open one. Events of `TURN_MARKS` are sufficient."""
    marks = [event for event in wire_events(events) if event["type"] in TURN_MARKS]
    ends = [event["payload"] for event in marks if event["type"] == "turn_end"]
    if open_turn is not None and not _has_ended(marks, open_turn.id):
        ends.append(open_turn.spent)
    costs = [end["costUsd"] for end in ends if end.get("costUsd") is not None]
    by_agent: dict[str, Counts] = {}
    for end in ends:
        for agent, counts in (end.get("usageByAgent") or {}).items():
            by_agent[agent] = _sum([by_agent.get(agent, {}), counts])
    usages = [end["usage"] for end in ends if end.get("usage") is not None]
    return Spending(_sum(usages) if usages else None, sum(costs) if costs else None, by_agent)


def total_spending(sessions: Iterable[AgentSpending]) -> Spending:
    """Return the total of a session and the sessions of its subagents, at any depth.

    A transcript may repeat lines of a subagent that has a session: these count only in that session.
    """
    sessions = list(sessions)
    agents = {each.agent_id for each in sessions}
    usages = [_own_usage(*each, agents) for each in sessions if each.spending.usage is not None]
    costs = [each.spending.cost_usd for each in sessions if each.spending.cost_usd is not None]
    return Spending(_sum(usages) if usages else None, sum(costs) if costs else None)


def _own_usage(agent_id: str | None, spent: Spending, agents: set[str | None]) -> Counts:
    """Return the usage of a session without the lines of other agents that have a session."""
    others = agents - {agent_id}
    repeated = _sum(counts for agent, counts in spent.usage_by_agent.items() if agent in others)
    return {name: max(0, count - repeated.get(name, 0)) for name, count in (spent.usage or {}).items()}


def _has_ended(marks: list[WireEvent], turn: str) -> bool:
    ends = [event["type"] == "turn_end" for event in marks if event.get("turnId") == turn]
    return bool(ends) and ends[-1]


def _sum(usages: Iterable[Mapping[str, Any]]) -> Counts:
    usages = list(usages)
    names = [name for name in TOKEN_COUNTS if any(usage.get(name) is not None for usage in usages)]
    return {name: sum(usage.get(name) or 0 for usage in usages) for name in names}
