"""Background task that compares budgets with costs every minute, and sends the webhooks of those that were passed."""

import asyncio
import json
import logging
import time
from datetime import UTC, datetime

import psycopg
from prometheus_client import Gauge

from ash_server.budgets.periods import period_at
from ash_server.budgets.spending import spent_nano_usd
from ash_server.budgets.webhook import Delivery, WebhookFailed, deliver
from ash_server.errors import AshError
from ash_server.keys.digests import webhook_secret
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.connections.tenants import Tenant
from ash_server.store.usage.budgets import Notice
from ash_server.store.usage.zones import zone_of
from ash_server.tasks import BackgroundTask
from ash_shared.model.usage.costs import NANO_DOLLARS

_CHECK_SECONDS = 60.0

_passed = Gauge(
    "ash_budgets_passed", "Budgets with a cost above their limit in this period.", multiprocess_mode="livemax"
)

_log = logging.getLogger(__name__)


class BudgetChecker(BackgroundTask):
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._has_failed = False

    async def _run(self) -> None:
        while True:
            await self._check()
            await asyncio.sleep(_CHECK_SECONDS)

    async def _check(self) -> None:
        try:
            _passed.set(await check_budgets(self._store, self._settings))
        except (AshError, psycopg.Error) as error:
            if not self._has_failed:  # once for each outage
                _log.warning("cannot check the budgets: %s", type(error).__name__)
            self._has_failed = True
        else:
            self._has_failed = False


async def check_budgets(store: Store, settings: Settings, now: datetime | None = None) -> int:
    """Record the budgets that were passed, and send the webhooks that are due. Return the number of passed budgets."""
    passed = 0
    for tenant in await store.budgets.list_tenants():
        passed += await _record_passed(store, tenant, now or datetime.now(UTC))
        notices = await store.budgets.claim_notices(tenant)
        await asyncio.gather(*(_send(store, tenant, notice, settings) for notice in notices))
    return passed


async def _record_passed(store: Store, tenant: Tenant, now: datetime) -> int:
    passed = 0
    for budget in await store.budgets.list_budgets(tenant):
        start = period_at(now, budget.period, zone_of(budget.timezone)).start
        spent = await spent_nano_usd(store.for_tenant(tenant), budget, start)
        if spent <= budget.limit_nano_usd:
            continue
        passed += 1
        if await store.budgets.record_passed(budget.id, start, spent):
            _log.warning("the budget %s of tenant %s was passed", budget.id, tenant.name)
    return passed


async def _send(store: Store, tenant: Tenant, notice: Notice, settings: Settings) -> None:
    secret = webhook_secret(settings, notice.budget_id)
    delivery = Delivery(notice.id, notice.webhook_url, secret, webhook_body(notice))
    try:
        await deliver(delivery, int(time.time()), settings.webhook_hosts)
    except WebhookFailed as error:
        _log.warning("the webhook of budget %s was not delivered: %s", notice.budget_id, error.detail)
        if notice.is_last_attempt:
            await store.budgets.end_attempts(tenant, notice, is_delivered=False)
    else:
        await store.budgets.end_attempts(tenant, notice, is_delivered=True)


def webhook_body(notice: Notice) -> bytes:
    """Return the body of the webhook: sums, without the names of projects or sessions."""
    start = notice.period_start.astimezone(zone_of(notice.timezone))
    return json.dumps(
        {
            "id": str(notice.id),
            "type": "budget.passed",
            "budget": str(notice.budget_id),
            "period": notice.period,
            "periodStart": start.isoformat(),
            "limitUsd": notice.limit_nano_usd / NANO_DOLLARS,
            "spentUsd": notice.spent_nano_usd / NANO_DOLLARS,
        }
    ).encode()
