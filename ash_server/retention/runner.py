"""Background task that runs the retention policies every hour."""

import asyncio
import logging
import time
from datetime import datetime, timedelta

import psycopg

from ash_server.errors import AshError
from ash_server.retention.policy import NoRetention, check_retention
from ash_server.store import Store
from ash_server.store.retention.policies import RetentionBusy
from ash_server.tasks import BackgroundTask

_FIRST_SECONDS = 60.0
_CHECK_SECONDS = 3600.0
_MAX_JUMP = timedelta(days=1)

_log = logging.getLogger(__name__)


class ClockWatch:
    """Notices that the clock of the database jumped, by a clock that never does."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float] | None = None

    def has_jumped(self, now: datetime, seconds: float) -> bool:
        """Compare the times since the last call: of the database, and in seconds of this machine."""
        last, self._last = self._last, (now, seconds)
        return last is not None and abs((now - last[0]) - timedelta(seconds=seconds - last[1])) > _MAX_JUMP


class RetentionRunner(BackgroundTask):
    def __init__(self, store: Store) -> None:
        self._store = store
        self._clock = ClockWatch()
        self._is_first = True
        self._has_failed = False

    async def _run(self) -> None:
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            await self._check()
            await asyncio.sleep(_CHECK_SECONDS)

    async def _check(self) -> None:
        try:
            await self.run_all(await self._store.retention.get_database_time(), _machine_seconds())
        except (AshError, psycopg.Error) as error:
            if not self._has_failed:  # once for each outage
                _log.warning("cannot run the retention policies: %s", type(error).__name__)
            self._has_failed = True
        else:
            self._has_failed = False

    async def run_all(self, now: datetime, seconds: float) -> None:
        """Run the policies of all tenants at a time of the database, and of the machine in seconds."""
        has_jumped = self._clock.has_jumped(now, seconds)
        failure: AshError | psycopg.Error | None = None
        for tenant in await self._store.retention.list_tenants():
            try:
                held = await check_retention(
                    self._store.for_tenant(tenant), now=now, has_jumped=has_jumped, was_paused=self._is_first
                )
            except (RetentionBusy, NoRetention):  # another server, or deleted meanwhile
                continue
            except (AshError, psycopg.Error) as error:
                failure = failure or error  # the other tenants have policies, too
                continue
            if held:
                _log.warning(
                    "the retention of tenant %s waits for `ash retention run`: %s", tenant.name, held
                )
        if failure is not None:
            raise failure
        self._is_first = False


def _machine_seconds() -> float:
    """Return the seconds since the start of the machine, including the time it slept."""
    clock = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
    return time.monotonic() if clock is None else time.clock_gettime(clock)
