"""Keeps what can be found behind what is stored.

One of a server's tasks, woken by whatever is written; now and then it looks for what no hint told. Who searches lets it
come as far as it can in a moment, so that what was just said is found.
"""

import asyncio
import logging
import time

import psycopg

from ash_server.db.search.index import count_pending, index_pending
from ash_server.live.hub import Hub, Pool, Work
from ash_server.live.tasks import wait

_LOOKS = 2.0
"""Seconds between two looks for what no hint told."""
_GATHERED = 0.5
"""Seconds in which hints are gathered: who searches does not wait for them."""
_AT_ONCE = 0.25
"""Seconds after which others have their turn."""
_SHARE = 0.1
"""Of its time that this may take where there is little to do: it looks at all sessions."""

_log = logging.getLogger(__name__)


class Indexer(Work):
    """Entered, it works (`async with`)."""

    def __init__(self, hub: Hub, pool: Pool) -> None:
        self._hub = hub
        self._pool = pool
        self._one = asyncio.Lock()
        self._asked = 0
        """How often it was asked to catch up."""
        self._answered = 0
        self._pending = 0
        self._has_failed = False

    async def catch_up(self) -> int:
        """What was stored before can be found after it, unless that is much; how many events cannot. Who asks while it
        works waits for one other round, together with all who ask meanwhile."""
        self._asked += 1
        asked = self._asked
        async with self._one:
            if asked > self._answered:
                answered = self._asked
                async with self._pool.connection() as conn:
                    is_done = await index_pending(conn, seconds=_AT_ONCE)
                    self._pending = 0 if is_done else await count_pending(conn)
                self._answered = answered
        return self._pending

    async def _work(self) -> None:
        with self._hub.overhear() as overheard:
            while True:
                begun = time.monotonic()
                pending = await self._try()
                took = time.monotonic() - begun
                if pending:
                    await asyncio.sleep(took)
                else:
                    await asyncio.sleep(max(_GATHERED, took / _SHARE))
                    await wait(overheard.woken, _LOOKS)
                    overheard.take()

    async def _try(self) -> int:
        try:
            pending = await self.catch_up()
        except psycopg.Error as error:
            if not self._has_failed:  # told once
                _log.warning("what is stored cannot be searched yet: %s", type(error).__name__)
            self._has_failed = True
            return 0
        self._has_failed = False
        return pending
