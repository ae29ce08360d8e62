"""Costs that agents state for whole sessions, beside the costs of their answers."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from ash_shared.model.usage.report import UsageRow
from ash_shared.projections.stated_costs import StatedCost, add_stated_costs
from ash_shared.projections.usage_report import ReportOptions, UsageItem, build_usage_report

SESSION, CHILD, OTHER = (UUID(int=number) for number in (1, 2, 3))
PARENTS = {str(CHILD): str(SESSION)}
OPTIONS = ReportOptions(("session",), "UTC", UTC, datetime(2026, 11, 28, tzinfo=UTC))
DOLLAR = 1_000_000_000


def used(cost: int | None, session: UUID = SESSION, model: str | None = "claude-opus-5") -> UsageItem:
    return UsageItem(
        quarter=None,
        source="claude",
        model=model,
        values={"session": str(session)},
        answers=1,
        input_tokens=1,
        computed_cost=cost,
    )


def stated(cost: int, *models: str, has_copies: bool = False) -> StatedCost:
    return StatedCost(cost, models or ("claude-opus-5",), has_copies)


def row_of(items: Sequence[UsageItem], total: StatedCost) -> UsageRow:
    report = add_stated_costs(build_usage_report(items, OPTIONS), {SESSION: total}, items, PARENTS)
    rows = {row.session.id: row for row in report.rows if row.session}
    assert {id for id, row in rows.items() if row.stated_cost_usd is not None} == {SESSION}
    return rows[SESSION]


ANSWER, BY_SUBAGENT = used(DOLLAR), used(DOLLAR, CHILD, "claude-haiku-4-5-20251001")

CASES: dict[str, tuple[list[UsageItem], StatedCost, tuple[Any, ...]]] = {
    "equal": ([ANSWER], stated(DOLLAR, "other"), (1, 0, None)),
    "a cent above": ([ANSWER], stated(1_010_000_000, "other"), (1.01, 0.01, None)),
    "below": ([ANSWER], stated(0, "other", has_copies=True), (0, -1, None)),
    "above, for no known reason": ([ANSWER], stated(3 * DOLLAR), (3, 2, None)),
    "another model": ([ANSWER], stated(3 * DOLLAR, "claude-haiku-4-5"), (3, 2, "calls_outside")),
    "the model with its context": ([ANSWER], stated(3 * DOLLAR, "Claude-Opus-5[1m]"), (3, 2, None)),
    "the model with a prefix": ([ANSWER], stated(3 * DOLLAR, "us.anthropic.claude-opus-5-v1"), (3, 2, None)),
    "an answer without a model": ([ANSWER, used(0, model=None)], stated(3 * DOLLAR, "other"), (3, 2, None)),
    "with subagents": (
        [ANSWER, BY_SUBAGENT],
        stated(3 * DOLLAR, "claude-opus-5", "claude-haiku-4-5"),
        (3, 1, None),
    ),
    "without other sessions": ([ANSWER, used(DOLLAR, OTHER, "other")], stated(DOLLAR), (1, 0, None)),
    "unpriced": ([ANSWER, used(None)], stated(3 * DOLLAR, "other"), (3, 2, "unpriced")),
    "all unpriced": ([used(None)], stated(3 * DOLLAR), (3, None, "unpriced")),
    "copies": (
        [ANSWER, used(None)],
        stated(3 * DOLLAR, "other", has_copies=True),
        (3, 2, "resumed_runs"),
    ),
}


@pytest.mark.parametrize(("items", "total", "expected"), CASES.values(), ids=CASES)
def test_stated_cost(items: list[UsageItem], total: StatedCost, expected: tuple[Any, ...]) -> None:
    row = row_of(items, total)
    assert (row.stated_cost_usd, row.stated_difference_usd, row.difference_reason) == expected
