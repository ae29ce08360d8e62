"""Budgets of tenants, and notices that one was passed. Functions accept a connection of the owner."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from psycopg import AsyncConnection
from psycopg.rows import class_row

from ash_server.errors import AshError, InvalidBudget
from ash_server.store.access.keys import record
from ash_server.store.borrowed import Resource, administer
from ash_server.store.connections.tenants import Tenant
from ash_server.store.statements import statements
from ash_shared.model.usage.budgets import BudgetPeriod

MAX_BUDGETS = 100
"""Budgets of a tenant: each is checked every minute."""
RETRY_SECONDS = (60, 300, 900, 2100)
"""Delays between the attempts of a webhook: five within an hour."""

_MAX_NANO_USD = 2**63 - 1

SQL = statements(__file__)


class BudgetNotFound(AshError):
    status, code, title = 404, "budget_not_found", "The budget does not exist."


class StoredBudget(NamedTuple):
    id: UUID
    limit_nano_usd: int
    """In 10^-9 US dollars."""
    period: BudgetPeriod
    timezone: str
    project: str
    """Empty: all projects."""
    webhook_url: str | None


class Notice(NamedTuple):
    """A budget that was passed, for an attempt to send its webhook."""

    budget_id: UUID
    period_start: datetime
    spent_nano_usd: int
    attempts: int
    """The number of this attempt, from 1."""
    webhook_url: str
    limit_nano_usd: int
    period: BudgetPeriod
    timezone: str

    @property
    def id(self) -> UUID:
        """The same for every attempt."""
        return uuid5(self.budget_id, self.period_start.isoformat())

    @property
    def is_last_attempt(self) -> bool:
        return self.attempts > len(RETRY_SECONDS)


async def set_budget(
    conn: AsyncConnection, tenant: Tenant, new: StoredBudget, *, key_id: UUID | None = None
) -> None:
    """Set a budget, and delete the earlier one of its period and project. Raises InvalidBudget above MAX_BUDGETS."""
    budgets = await list_budgets(conn, tenant)
    is_new = (new.period, new.project) not in {(each.period, each.project) for each in budgets}
    if is_new and len(budgets) >= MAX_BUDGETS:
        raise InvalidBudget(f"a tenant has at most {MAX_BUDGETS} budgets: delete one first")
    async with conn.transaction():
        await conn.execute(SQL.delete_replaced, [tenant.number, new.period, new.project])
        await conn.execute(
            SQL.insert_budget,
            [
                new.id,
                tenant.number,
                new.limit_nano_usd,
                new.period,
                new.timezone,
                new.project,
                new.webhook_url,
            ],
        )
        await record(conn, tenant, key_id, "budget.set", str(new.id))


async def list_budgets(conn: AsyncConnection, tenant: Tenant) -> list[StoredBudget]:
    async with conn.cursor(row_factory=class_row(StoredBudget)) as cursor:
        return await (await cursor.execute(SQL.list_budgets, [tenant.number])).fetchall()


async def list_budget_tenants(conn: AsyncConnection) -> list[Tenant]:
    """Return the tenants that have budgets."""
    async with conn.cursor(row_factory=class_row(Tenant)) as cursor:
        return await (await cursor.execute(SQL.list_tenants)).fetchall()


async def delete_budget(
    conn: AsyncConnection, tenant: Tenant, budget_id: UUID, *, key_id: UUID | None = None
) -> None:
    """Raises BudgetNotFound."""
    async with conn.transaction():
        if not (await conn.execute(SQL.delete_budget, [budget_id, tenant.number])).rowcount:
            raise BudgetNotFound("list the budgets with `ash budget list` or GET /api/budgets")
        await record(conn, tenant, key_id, "budget.delete", str(budget_id))


async def record_passed(
    conn: AsyncConnection, budget_id: UUID, period_start: datetime, spent_nano_usd: int
) -> bool:
    """Record that a budget was passed. True for the first time in this period: its webhook is then due."""
    stored = await conn.execute(
        SQL.record_passed, [period_start, min(spent_nano_usd, _MAX_NANO_USD), budget_id]
    )
    return bool(stored.rowcount)


async def claim_notices(conn: AsyncConnection, tenant: Tenant) -> Sequence[Notice]:
    """Return the notices that are due. Another server does not get them before the next attempt is due."""
    async with conn.cursor(row_factory=class_row(Notice)) as cursor:
        return await (
            await cursor.execute(SQL.claim_notices, [list(RETRY_SECONDS), tenant.number])
        ).fetchall()


async def end_attempts(conn: AsyncConnection, tenant: Tenant, notice: Notice, *, is_delivered: bool) -> None:
    """Record the outcome of a webhook, after which it is not sent again."""
    async with conn.transaction():
        await conn.execute(SQL.end_attempts, [notice.budget_id, notice.period_start])
        action = "webhook.delivered" if is_delivered else "webhook.failed"
        await record(conn, tenant, None, action, str(notice.budget_id))


class BudgetStore(Resource):
    """Not restricted to a tenant, like `KeyStore`."""

    set = administer(set_budget)
    list_budgets = administer(list_budgets)
    list_tenants = administer(list_budget_tenants)
    delete = administer(delete_budget)
    record_passed = administer(record_passed)
    claim_notices = administer(claim_notices)
    end_attempts = administer(end_attempts)
