"""Budgets: limits of the cost of a day, week or month."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args
from uuid import UUID

from pydantic import Field

from ash_shared.model.base import ABSENT, AshModel, Omittable

BudgetPeriod: TypeAlias = Literal["day", "week", "month"]
BUDGET_PERIODS: tuple[BudgetPeriod, ...] = get_args(BudgetPeriod)
MIN_BUDGET_USD, MAX_BUDGET_USD = 0.01, 1_000_000_000
"""The smallest and the largest limit."""


class Budget(AshModel):
    """A budget, and the cost of its current period."""

    id: UUID
    limit_usd: float = Field(alias="limitUsd")
    period: BudgetPeriod
    timezone: str
    project: Omittable[str] = ABSENT
    has_webhook: bool = Field(default=False, alias="hasWebhook")
    period_start: datetime = Field(alias="periodStart")
    """The start of the current period."""
    period_end: datetime = Field(alias="periodEnd")
    spent_usd: float = Field(alias="spentUsd")
    """The cost since then: as reported, or else at API prices."""
    is_passed: bool = Field(alias="isPassed")
    """True if the cost is above the limit."""


class SetBudget(Budget):
    """A budget that was set."""

    webhook_secret: Omittable[str] = Field(default=ABSENT, alias="webhookSecret")
    """The secret that signs the webhook's requests; shown only now."""


class BudgetPage(AshModel):
    """The budgets of a tenant."""

    budgets: list[Budget]
