"""Compare the costs that agents state for whole sessions with the costs of their answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from ash_shared.model.usage.costs import NANO_DOLLARS
from ash_shared.model.usage.report import DifferenceReason, UsageReport, UsageRow
from ash_shared.projections.usage_report import UsageItem, ancestors_of, sum_items, to_dollars

CENT = 0.01
"""Dollars. Smaller differences need no reason."""


class StatedCost(NamedTuple):
    """The cost that an agent states for its session."""

    cost: int
    """In nano-dollars."""
    models: Sequence[str]
    """The models with a part of the cost."""
    has_copies: bool
    """True if the session begins with messages that count in another one."""


def add_stated_costs(
    report: UsageReport,
    stated: Mapping[UUID, StatedCost],
    items: Iterable[UsageItem],
    parents: Mapping[str, str],
) -> UsageReport:
    """Return the report with the stated costs in the rows of sessions.

    `items` are all usage of the sessions with a stated cost and of their subagents, `parents` the sessions that started
    subagents, by the session of the subagent.
    """
    trees: dict[UUID, list[UsageItem]] = {id: [] for id in stated}
    for item in items:
        session = item.values["session"] or ""
        for id in map(UUID, (session, *ancestors_of(session, parents))):
            if id in trees:
                trees[id].append(item)
    rows = [_with_stated(row, stated, trees) for row in report.rows]
    return report.model_copy(update={"rows": rows})


def _with_stated(
    row: UsageRow, stated: Mapping[UUID, StatedCost], trees: Mapping[UUID, Sequence[UsageItem]]
) -> UsageRow:
    if row.session is None or row.session.id not in stated:
        return row
    total, items = stated[row.session.id], trees[row.session.id]
    counts = sum_items(items)
    cost = None if counts.cost_usd is None else round(counts.cost_usd * NANO_DOLLARS)
    is_higher = total.cost - (cost or 0) > CENT * NANO_DOLLARS
    reason = _reason(total, items, has_unpriced=counts.unpriced_answers > 0) if is_higher else None
    return row.model_copy(
        update={
            "stated_cost_usd": to_dollars(total.cost),
            "stated_difference_usd": None if cost is None else to_dollars(total.cost - cost),
            "difference_reason": reason,
        }
    )


def _reason(stated: StatedCost, items: Iterable[UsageItem], *, has_unpriced: bool) -> DifferenceReason | None:
    if stated.has_copies:
        return "resumed_runs"
    if has_unpriced:
        return "unpriced"
    models = {_plain(item.model or "") for item in items}
    is_outside = any(not _is_among(_plain(model), models) for model in stated.models)
    return "calls_outside" if is_outside else None


def _plain(model: str) -> str:
    """Return the name without a context suffix such as `[1m]`."""
    return model.lower().partition("[")[0]


def _is_among(model: str, models: Iterable[str]) -> bool:
    """Return True if one of the models may be this one: with or without a date or the prefix of a provider, or an
    unknown one."""
    return any(model in other or other in model for other in models)
