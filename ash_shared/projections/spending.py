"""Usage and costs of sessions, and their totals with the sessions of subagents."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ash_shared.eventlog import OpenTurn
from ash_shared.model.event_types import types_where
from ash_shared.projections._retractions import Events, WireEvent, wire_events
from ash_shared.records.json_fields import TOKEN_COUNTS

Counts = dict[str, int]

TURN_MARKS = ("reset", "turn_start", "turn_end")
"""The types of the events that contain the spending of a session."""
COPY_MARKS = (*TURN_MARKS, *sorted(types_where(lambda row: row.is_turn_content)))
"""`TURN_MARKS` and the content of turns, for a session that begins with copies from another one."""


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


def spending_of(events: Events, open_turn: OpenTurn | None = None, copied_messages: int = 0) -> Spending:
    """Return the sum over the turns of a log, including the open one. Events of `TURN_MARKS` are sufficient.

    Turns in the first `copied_messages` are left out; then events of `COPY_MARKS` are necessary.
    """
    log = wire_events(events)
    ends, own_open_turns = _own_ends(log, copied_messages)
    if open_turn is not None and not _has_ended(log, open_turn.id):
        is_own = not copied_messages or open_turn.id in own_open_turns
        ends += [open_turn.spent] if is_own else []
    costs = [end["costUsd"] for end in ends if end.get("costUsd") is not None]
    by_agent: dict[str, Counts] = {}
    for end in ends:
        for agent, counts in (end.get("usageByAgent") or {}).items():
            by_agent[agent] = add_counts([by_agent.get(agent, {}), counts])
    usages = [end["usage"] for end in ends if end.get("usage") is not None]
    return Spending(add_counts(usages) if usages else None, sum(costs) if costs else None, by_agent)


def total_spending(sessions: Iterable[AgentSpending]) -> Spending:
    """Return the total of a session and the sessions of its subagents, at any depth.

    A transcript may repeat lines of a subagent. These count only in the subagent's session if that has any usage.
    """
    sessions = list(sessions)
    agents = {each.agent_id for each in sessions if each.spending.usage is not None}
    usages = [_own_usage(*each, agents) for each in sessions if each.spending.usage is not None]
    costs = [each.spending.cost_usd for each in sessions if each.spending.cost_usd is not None]
    return Spending(add_counts(usages) if usages else None, sum(costs) if costs else None)


def _own_usage(agent_id: str | None, spent: Spending, agents: set[str | None]) -> Counts:
    """Return the usage of a session without the lines of other listed agents."""
    others = agents - {agent_id}
    repeated = add_counts(counts for agent, counts in spent.usage_by_agent.items() if agent in others)
    return {name: max(0, count - repeated.get(name, 0)) for name, count in (spent.usage or {}).items()}


def _own_ends(log: list[WireEvent], copied: int) -> tuple[list[Mapping[str, Any]], set[str | None]]:
    """Return the ends of turns that are not copies, and the turns without an end that are not copies.

    A turn is a copy if its content is in copied messages. Its end may follow from the first prompt after them. Posted
    events are not copies.
    """
    ends = list[Mapping[str, Any]]()
    own = set[str | None]()
    for event in log:
        turn, place = event.get("turnId"), event.get("messageSequence")
        if event["type"] == "turn_end":
            if not copied or turn in own or place is None:
                ends.append(event["payload"])
            own.discard(turn)
        elif event["type"] in COPY_MARKS and (place is None or place > copied):
            own.add(turn)
    return ends, own


def _has_ended(log: list[WireEvent], turn: str) -> bool:
    marks = (event for event in log if event["type"] in TURN_MARKS)
    ends = [event["type"] == "turn_end" for event in marks if event.get("turnId") == turn]
    return bool(ends) and ends[-1]


def add_counts(usages: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the sums of the known counts."""
    usages = list(usages)
    names = [name for name in TOKEN_COUNTS if any(usage.get(name) is not None for usage in usages)]
    return {name: sum(usage.get(name) or 0 for usage in usages) for name in names}
