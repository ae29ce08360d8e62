"""Budgets with the cost of their current periods, for routes and commands."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct

from ash_server.budgets.periods import period_at
from ash_server.budgets.spending import spent_nano_usd
from ash_server.budgets.webhook import check_webhook_url
from ash_server.errors import InvalidBudget, InvalidParameter
from ash_server.ids import uuid7
from ash_server.keys.digests import webhook_secret
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import Key
from ash_server.store.text import check_text
from ash_server.store.usage.budgets import StoredBudget
from ash_server.store.usage.groups import plain_project
from ash_server.store.usage.zones import zone_of
from ash_shared.model.usage.budgets import (
    MAX_BUDGET_USD,
    MIN_BUDGET_USD,
    Budget,
    BudgetPage,
    BudgetPeriod,
    SetBudget,
)
from ash_shared.model.usage.costs import NANO_DOLLARS


class NewBudget(Struct, forbid_unknown_fields=True, rename="camel"):
    """A budget to set. It replaces the budget of the same period and project."""

    limit_usd: Annotated[float, Meta(ge=MIN_BUDGET_USD, le=MAX_BUDGET_USD, description="In US dollars.")]
    period: BudgetPeriod
    timezone: Annotated[
        str,
        Meta(max_length=100, description="The IANA name of the time zone, where periods begin at midnight."),
    ] = "UTC"
    project: (
        Annotated[
            str,
            Meta(min_length=1, max_length=4000, description="Only the cost of this project; absent: of all."),
        ]
        | None
    ) = None
    webhook_url: (
        Annotated[
            str,
            Meta(
                max_length=2000,
                description="Where to send a request when the budget is passed: https, or on the server's machine.",
            ),
        ]
        | None
    ) = None


async def set_budget(store: Store, settings: Settings, new: NewBudget, key: Key | None = None) -> SetBudget:
    """Set a budget of the store's tenant. Raises InvalidBudget, NulByte, InvalidUtf8, SecretMissing."""
    try:
        zone_of(new.timezone)
    except InvalidParameter as error:
        raise InvalidBudget(error.detail) from None
    check_text(new.project or "", "project")
    url = check_webhook_url(new.webhook_url) if new.webhook_url else None
    limit = int(Decimal(str(new.limit_usd)) * NANO_DOLLARS)
    project = plain_project(new.project or "")
    budget = StoredBudget(uuid7(), limit, new.period, new.timezone, project, url)
    secret = webhook_secret(settings, budget.id) if url else None
    await store.budgets.set(store.tenant, budget, key_id=key.id if key else None)
    shown = await _with_spending(store, budget, datetime.now(UTC))
    return SetBudget(**shown.model_dump(), **({"webhook_secret": secret} if secret else {}))


async def list_budgets(store: Store) -> BudgetPage:
    """Return the budgets of the store's tenant."""
    now = datetime.now(UTC)
    budgets = await store.budgets.list_budgets(store.tenant)
    return BudgetPage(budgets=[await _with_spending(store, budget, now) for budget in budgets])


async def _with_spending(store: Store, budget: StoredBudget, now: datetime) -> Budget:
    start, end = period_at(now, budget.period, zone_of(budget.timezone))
    spent = await spent_nano_usd(store, budget, start)
    return Budget(
        id=budget.id,
        limit_usd=budget.limit_nano_usd / NANO_DOLLARS,
        period=budget.period,
        timezone=budget.timezone,
        has_webhook=budget.webhook_url is not None,
        period_start=start,
        period_end=end,
        spent_usd=spent / NANO_DOLLARS,
        is_passed=spent > budget.limit_nano_usd,
        **({"project": budget.project} if budget.project else {}),
    )
