"""Following sessions: every entry once and in order, from a cursor on, and then whatever comes.

Rows are the truth, notifications a hint. A follower reads what lies behind its cursor, waits to be woken, and reads
again; it also looks by itself now and then, so that a lost hint is only a late one. It keeps nothing but its cursor:
a slow reader holds neither memory nor a connection, and followers at the same place share what they read.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple
from uuid import UUID, uuid4

from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from ash_server.db.engine import connect
from ash_server.db.events import StoredEvent, get_events_since
from ash_server.db.wake import CHANNEL, notify, told

_COALESCED = 0.02
"""Seconds in which wakes of other processes are gathered."""
_LOOKS = 5.0
"""Seconds after which a follower looks by itself."""
_AGAIN = 0.2
"""Seconds before a database that did not answer is asked again."""
_PAGE, _PAGE_BYTES = 500, 1024 * 1024

Pool = AsyncConnectionPool[AsyncConnection]

_log = logging.getLogger(__name__)


class News(NamedTuple):
    """What a follower is told."""

    events: list[StoredEvent]
    caught_up: bool
    """Whether nothing lay behind these when they were read."""


class Hub:
    """Wakes the followers of this process, and those of others. Entered, it listens (`async with`)."""

    def __init__(self, url: str, pool: Pool) -> None:
        self._url = url
        self._pool = pool
        self._name = uuid4().hex
        self._followers: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._versions: dict[UUID, int] = defaultdict(int)
        self._reads: dict[tuple[UUID, int, int], asyncio.Task[list[StoredEvent]]] = {}
        self._to_tell: set[UUID] = set()
        self._has_news = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Hub":
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tell())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """Ends every follower: the server is going, and they come back to the next one."""
        self._stopped.set()
        self._wake_all()

    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def wake(self, session_id: UUID) -> None:
        """Something was committed to this session, by this process."""
        self._wake(session_id)
        self._to_tell.add(session_id)
        self._has_news.set()

    async def follow(self, session_id: UUID, after: int) -> AsyncGenerator[News, None]:
        """What lies behind the cursor, and what comes, until the hub stops. Also where the database is away for a
        while. Yields news without events where it has caught up with nothing, once, and when it has looked in vain."""
        async with self._following(session_id) as woken:
            while not self.is_stopped():
                woken.clear()
                events = await self._read(session_id, after)
                if events is None:
                    await asyncio.sleep(_AGAIN)
                    continue
                after = events[-1].sequence if events else after
                goes_on = _goes_on(events)
                yield News(events, caught_up=not goes_on)
                if not goes_on:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(woken.wait(), _LOOKS)

    @contextlib.asynccontextmanager
    async def _following(self, session_id: UUID) -> AsyncIterator[asyncio.Event]:
        woken = asyncio.Event()
        self._followers[session_id].add(woken)
        try:
            yield woken
        finally:
            self._followers[session_id].discard(woken)
            if not self._followers[session_id]:
                del self._followers[session_id]
                self._versions.pop(session_id, None)

    async def _read(self, session_id: UUID, after: int) -> list[StoredEvent] | None:
        """Shared by those who ask the same after the same wake: an earlier reading may have missed what woke them.
        None where the database does not answer."""
        key = (session_id, after, self._versions[session_id])
        if key not in self._reads:
            task = asyncio.create_task(self._ask(session_id, after))
            self._reads[key] = task
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        try:
            return await asyncio.shield(self._reads[key])
        except (OperationalError, PoolTimeout) as error:
            _log.warning("the database does not answer: %s", type(error).__name__)
            return None

    async def _ask(self, session_id: UUID, after: int) -> list[StoredEvent]:
        async with self._pool.connection() as conn:
            return await get_events_since(conn, session_id, after, limit=_PAGE, most_bytes=_PAGE_BYTES)

    def _wake(self, session_id: UUID) -> None:
        if session_id in self._followers:
            self._versions[session_id] += 1
            for woken in self._followers[session_id]:
                woken.set()

    def _wake_all(self) -> None:
        for session_id in list(self._followers):
            self._wake(session_id)

    async def _tell(self) -> None:
        """Other processes, of all that was written within a moment."""
        while True:
            await self._has_news.wait()
            await asyncio.sleep(_COALESCED)
            self._has_news.clear()
            written, self._to_tell = self._to_tell, set()
            with contextlib.suppress(OperationalError, PoolTimeout):
                async with self._pool.connection() as conn:
                    await notify(conn, written, self._name)

    async def _listen(self) -> None:
        """On a connection of its own; when it is lost, everything may have happened meanwhile."""
        while True:
            with contextlib.suppress(OperationalError):
                async with await connect(self._url) as conn:
                    await conn.execute(f"LISTEN {CHANNEL}")
                    self._wake_all()
                    async for notification in conn.notifies():
                        self._hear(notification.payload)
            await asyncio.sleep(_AGAIN)

    def _hear(self, payload: str) -> None:
        with contextlib.suppress(ValueError):  # not of Ash
            sender, session_ids = told(payload)
            if sender != self._name:
                for session_id in session_ids:
                    self._wake(session_id)


def _goes_on(events: list[StoredEvent]) -> bool:
    return len(events) == _PAGE or sum(len(event.content) for event in events) * 4 >= _PAGE_BYTES
