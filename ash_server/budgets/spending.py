"""The cost that counts against a budget."""

from datetime import datetime

from ash_server.store import Store
from ash_server.store.usage.budgets import StoredBudget
from ash_shared.model.usage.costs import NANO_DOLLARS


async def spent_nano_usd(store: Store, budget: StoredBudget, start: datetime) -> int:
    """Return the cost since the start of the budget's period: as reported, or else at API prices."""
    usage = await store.usage.sum_since(start, project=budget.project or None)
    return round((usage.cost_usd or 0) * NANO_DOLLARS)
