"""Background task that archives old sessions, and restores changed ones, every hour."""

import asyncio
import logging
from datetime import datetime

import psycopg

from ash_server.errors import AshError
from ash_server.retention.cold_policy import NoColdPolicy, check_cold_policy
from ash_server.store import Store
from ash_server.store.cold.policies import ColdBusy
from ash_server.tasks import BackgroundTask

_FIRST_SECONDS = 120.0
_CHECK_SECONDS = 3600.0

_log = logging.getLogger(__name__)


class ColdRunner(BackgroundTask):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._has_failed = False

    async def _run(self) -> None:
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            await self._check()
            await asyncio.sleep(_CHECK_SECONDS)

    async def _check(self) -> None:
        try:
            await self.run_all(await self._store.cold.get_database_time())
        except (AshError, psycopg.Error) as error:
            if not self._has_failed:  # once for each outage
                _log.warning("cannot archive old sessions: %s", type(error).__name__)
            self._has_failed = True
        else:
            self._has_failed = False

    async def run_all(self, now: datetime) -> None:
        """Run the policies of all tenants at a time of the database."""
        failure: AshError | psycopg.Error | None = None
        for tenant in await self._store.list_tenants():
            try:
                await check_cold_policy(self._store.for_tenant(tenant), now=now)
            except (ColdBusy, NoColdPolicy):  # another server, or deleted meanwhile
                continue
            except (AshError, psycopg.Error) as error:
                failure = failure or error  # the other tenants have policies, too
        if failure is not None:
            raise failure
