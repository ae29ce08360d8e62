"""Summarise an event log for a list of sessions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from ash_shared.conversation.standard_messages import counted_model
from ash_shared.eventlog import OpenTurn
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.message import StandardMessage, StandardTokenUsage
from ash_shared.projections._retractions import (
    Events,
    standing,
    wire_events,
)
from ash_shared.projections.summary_fold import SummaryFold, SummaryState


class SessionSummary(AshModel):
    """A session at a glance.

    Retracted events are not counted, but their cost is. Calls and results of subagents are counted, their texts are
    not. The counts of `Session` include retracted calls and prompts, which took place, and calls with the same id once.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    session_id: Omittable[str] = ABSENT
    """Absent if the log is empty, as are the times."""
    title: Omittable[str] = ABSENT
    """The beginning of the first prompt, in one line, as the person typed it. Commands that only control the client,
    such as `/clear`, are no title."""
    last_text: Omittable[str] = ABSENT
    """The beginning of the last text of the user or the assistant, in one line."""
    last_role: Omittable[str] = ABSENT
    """Role of the last text: user or assistant."""
    first_at: Omittable[datetime] = ABSENT
    """Time of the earliest event; absent if it is after the year 9999."""
    last_at: Omittable[datetime] = ABSENT
    """Time of the latest event; absent if it is after the year 9999."""
    turns: int = 0
    """Turns with text, thinking or calls, distinguished by their ids, or else by `turn_start`, or else by prompts."""
    user_messages: int = 0
    """Written and spoken messages of the user, without blank ones."""
    assistant_messages: int = 0
    """Answers with text that is not blank. All texts of one response count as one answer."""
    tool_calls: dict[str, int] = Field(default={})
    """Number of calls by tool, most used first."""
    tool_errors: dict[str, int] = Field(default={})
    """Number of failures by tool."""
    errors: dict[str, int] = Field(default={})
    """Number of errors other than tool failures, by code."""
    unrecognised: int = 0
    """Unrecognized records."""
    compactions: int = 0
    """Number of times the history was summarised."""
    subagents: int = 0
    """Number of calls that started a subagent."""
    models: dict[str, int] = Field(default={})
    """Number of answers by model, most first; empty if the models are unknown. After an import of more than 2,000
    messages, only answers with known usage are counted until the server has counted all in the background."""
    agents: list[str] = Field(default=[])
    """Other agents and sessions that took part, in order of appearance."""
    agent_callbacks: int = 0
    """Answers of other agents."""
    awaited_agents: int = 0
    """Messages to other agents without a callback."""
    usage: Omittable[StandardTokenUsage] = ABSENT
    """Total of the turns with known usage, including the open one."""
    cost_usd: Omittable[float] = ABSENT
    """Total of the turns with known cost, including the open one, in US dollars."""
    computed_cost_usd: Omittable[float] = ABSENT
    """The cost of `usage` at API prices; absent without prices or for a log that is not stored."""
    total_usage: Omittable[StandardTokenUsage] = ABSENT
    """`usage` plus the usage of stored subagent sessions, at any depth; absent without such sessions. A subagent's
    lines in another session's transcript count only once, in its own session."""
    total_cost_usd: Omittable[float] = ABSENT
    """`cost_usd` plus the costs of stored subagent sessions; absent without such sessions."""
    total_computed_cost_usd: Omittable[float] = ABSENT
    """The cost of `total_usage` at API prices."""
    is_open: bool = False
    """True if the last turn has neither ended nor been interrupted."""
    open_calls: list[str] = Field(default=[])
    """Tools with pending calls in the open turn."""
    is_interrupted: bool = False
    """True if the last turn was interrupted."""


def to_session_summary(
    events: Events,
    *,
    open_turn: OpenTurn | None = None,
    models: Mapping[str, int] | None = None,
    copied_messages: int = 0,
    is_subagent: bool = False,
) -> SessionSummary:
    """Return the summary of a log, complete or still growing.

    Values that are not in the log can be added: the open turn of the normaliser (`Normalizer.open_turn`), the number of
    answers by model (`count_models`), and the number of messages at the beginning that were copied from another
    session, where their usage counts. For a subagent (`is_subagent`), the title and counts also ignore these messages,
    because they are the history of its parent.
    """
    log = wire_events(events)
    stands = set(map(id, standing(log)))
    fold = SummaryFold(SummaryState(copied=copied_messages, skips_copies=is_subagent))
    for event in log:
        fold.add(event, stands=id(event) in stands)
    return SessionSummary.model_validate(fold.fields(open_turn, models))


def count_models(messages: Iterable[StandardMessage]) -> Counter[str]:
    """Count these answers by model, without those that a tool wrote (`<synthetic>`)."""
    models = (counted_model(message.metadata) for message in messages if message.role == "assistant")
    return Counter(model for model in models if model is not None)
