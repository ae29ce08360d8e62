"""Full-text search over all sessions, and maintenance of its index."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Unpack
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.borrowed import Connections, Resource, change, read
from ash_server.store.connections.restoring import restore_session
from ash_server.store.search import index, query, within
from ash_server.store.search.query import SearchFilter
from ash_server.store.search.within import HitFilter, SessionHitPage
from ash_shared.model.pages import SearchPage

_CATCH_UP_SECONDS = 0.25
_PAUSE_SECONDS = 0.01
"""Time after which sessions that another task was indexing are looked at again."""
_END_SECONDS = 10.0
"""Time between two checks for sessions that no longer need upkeep."""


class SearchStore(Resource):
    """Searches the events of all sessions."""

    def __init__(self, connections: Connections, wake: Callable[[UUID], None]) -> None:
        super().__init__(connections, wake)
        self._lock = asyncio.Lock()
        self._requested = 0
        """Number of calls of `catch_up` so far."""
        self._completed = 0
        """How many calls the finished runs cover."""
        self._pending = 0
        self._end_due = 0.0

    _find = read(query.find)
    index_pending = read(index.index_pending)
    count_pending = read(index.count_pending)
    reindex = read(index.reindex_words)
    _find_in_session = read(within.find_in_session)
    _restore = change(restore_session)

    async def search(self, q: str, **filters: Unpack[SearchFilter]) -> SearchPage:
        """Index pending events for at most a quarter of a second, then return a page of results, newest first.

        Each word of `q` is matched as a prefix; `"…"` is a phrase, `-word` excludes, `or` separates alternatives.
        `pending` on the page counts events that are not indexed yet. Raises InvalidParameter, SessionNotFound.
        """
        pending = await self.catch_up()
        page = await self.find(q, **filters)
        return page.model_copy(update={"pending": pending}) if pending else page

    async def find(self, q: str, **filters: Unpack[SearchFilter]) -> SearchPage:
        """Like `search`, but index nothing first, except a cold session that `session_id` names."""
        page = await self._find(q, **filters)
        session_id = filters.get("session_id")
        if page.results or session_id is None or not await self._restore(session_id):
            return page
        await self.reindex(session_id)
        return await self._find(q, **filters)

    async def find_in_session(self, session_id: UUID, q: str, **filters: Unpack[HitFilter]) -> SessionHitPage:
        """Index pending events as `search` does, then return a page of hits in the order of the log.

        Raises InvalidParameter, SessionNotFound.
        """
        pending = await self.catch_up()
        page = await self._find_in_session(session_id, q, **filters)
        if not page.total and await self._restore(session_id):
            await self.reindex(session_id)
            page = await self._find_in_session(session_id, q, **filters)
        return page.model_copy(update={"pending": pending}) if pending else page

    async def catch_up(self) -> int:
        """Index pending events for at most a quarter of a second and return how many remain.

        Calls made during a run share the next run. On a replica, only count them.
        """
        if self._connections.is_replica:
            return await self.count_pending()
        self._requested += 1
        requested = self._requested
        async with self._lock:
            if requested > self._completed:
                covered = self._requested
                async with self._connections.connection() as conn:
                    is_done = await self._index_for_a_moment(conn)
                    self._pending = 0 if is_done else await index.count_pending(conn)
                self._completed = covered
        return self._pending

    async def _index_for_a_moment(self, conn: AsyncConnection) -> bool:
        end = time.monotonic() + _CATCH_UP_SECONDS
        while not (is_done := await index.index_pending(conn, seconds=end - time.monotonic())):
            if time.monotonic() >= end:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        if is_done and time.monotonic() >= self._end_due:
            await index.end_upkeep(conn)
            self._end_due = time.monotonic() + _END_SECONDS
        return is_done

    @asynccontextmanager
    async def indexer_lock(self) -> AsyncGenerator[bool, None]:
        """Yield True if no other server indexes in the background, and keep others from it until exit."""
        async with self._connections.stream() as conn, index.indexer_lock(conn) as is_held:
            yield is_held
