"""Background task that keeps the costs of sessions and the totals of their logs before readers need them."""

import asyncio
import logging
import time
from contextlib import suppress
from uuid import UUID

import psycopg

from ash_server.errors import AshError, SessionNotFound
from ash_server.prices import PriceFiles
from ash_server.prices.errors import PricesError
from ash_server.store import Store
from ash_server.store.log.subscriptions import POLL_SECONDS
from ash_server.tasks import BackgroundTask, wait_for_event

_COLLECT_SECONDS = 5.0
"""Changes are collected for this long: lists compute the costs of changed sessions meanwhile."""
_QUIET_SECONDS = 60.0
"""Costs of sessions that changed in this time wait."""
_MAX_LOAD = 0.2
"""Maximum share of time spent on rounds."""
_ROUND_SECONDS = 0.25
_MAX_KNOWN = 1000
"""Sessions with totals that are remembered as derived."""
_MAX_DERIVED = 20
"""Sessions with totals that a round derives."""

_log = logging.getLogger(__name__)


class SessionUpkeep(BackgroundTask):
    def __init__(self, store: Store, prices: PriceFiles) -> None:
        self._store = store
        self._prices = prices
        self._has_failed = False
        self._derived = set[tuple[UUID, int]]()
        """Sessions with derived totals, and their last events: not all totals can be kept, so some are listed again."""

    async def _run(self) -> None:
        with self._store.hub.watch_changes() as changes:
            while True:
                started = time.monotonic()
                is_done = await self.keep()
                pause = (time.monotonic() - started) / _MAX_LOAD
                await asyncio.sleep(max(_COLLECT_SECONDS, pause) if is_done else pause)
                if is_done:
                    await wait_for_event(changes.changed, POLL_SECONDS)
                    changes.take()

    async def keep(self) -> bool:
        """Keep costs and totals for a limited time, and return True if none are outdated."""
        try:
            tenants = await self._store.list_tenants()
            done = [await self._keep(self._store.for_tenant(each)) for each in tenants]
        except (AshError, psycopg.Error) as error:
            if not self._has_failed:  # once for each outage
                _log.warning("cannot keep the costs and totals of sessions: %s", type(error).__name__)
            self._has_failed = True
            return True
        self._has_failed = False
        return all(done)

    async def _keep(self, store: Store) -> bool:
        has_costs = await self._keep_costs(store)
        return await self._derive_totals(store) and has_costs

    async def _keep_costs(self, store: Store) -> bool:
        try:
            prices = await self._prices.get()
        except PricesError:  # requests state the error
            return True
        return await store.usage.keep_costs(prices=prices, seconds=_ROUND_SECONDS, quiet=_QUIET_SECONDS)

    async def _derive_totals(self, store: Store) -> bool:
        if len(self._derived) > _MAX_KNOWN:
            self._derived.clear()
        listed = await store.conversation.list_behind(_MAX_DERIVED + len(self._derived))
        new = [each for each in listed if each not in self._derived][:_MAX_DERIVED]
        for session, last in new:
            with suppress(SessionNotFound):
                await store.conversation.read_summary(session)
            self._derived.add((session, last))
        return len(new) < _MAX_DERIVED
