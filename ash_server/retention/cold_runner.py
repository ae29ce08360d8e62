"""Background task that archives old sessions, and restores changed ones, every hour."""

from datetime import datetime

from ash_server.retention.cold_policy import NoColdPolicy, check_cold_policy
from ash_server.retention.hourly import HourlyPolicies, run_each
from ash_server.store import Store
from ash_server.store.cold.policies import ColdBusy
from ash_server.store.connections.tenants import Tenant


class ColdRunner(HourlyPolicies):
    purpose = "archive old sessions"
    first_seconds = 120.0

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run_now(self) -> None:
        await self.run_all(await self._store.retention.get_database_time())

    async def run_all(self, now: datetime) -> None:
        """Run the policies of all tenants at a time of the database."""

        async def run(tenant: Tenant) -> None:
            await check_cold_policy(self._store.for_tenant(tenant), now=now)

        await run_each(await self._store.list_tenants(), run, (ColdBusy, NoColdPolicy))
