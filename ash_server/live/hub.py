"""Following sessions: every entry once and in order, from a cursor on, and then whatever comes.

Rows are the truth, notifications a hint. A follower reads what lies behind its cursor, waits to be woken, and reads
again. Now and then one query for all sessions that are followed finds out what hints were lost, so that a lost hint is
only a late one. A follower keeps nothing but its cursor and the page that it is telling: a slow reader holds neither
memory nor a connection, and followers at the same place share what they read and how it is written.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Self, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection, OperationalError
from psycopg_pool import AsyncConnectionPool

from ash_server.db.connection import connect
from ash_server.db.events import StoredEvent, get_events_since
from ash_server.db.notify import CHANNEL, Last, last_sequences, notify, read_notification
from ash_server.db.pagination import may_go_on
from ash_server.live.tasks import end, wait

FOLLOWS = "ash.follows"
"""Marks the scope of a connection on which somebody follows: who does not take what it is sent can be hung up on, since
it comes back with its cursor."""

LARGEST_FRAME = 1024
"""Bytes of what a follower may send over a WebSocket: it has nothing to say."""

BEAT = 15.0
"""Seconds after which a follower is told that there is nothing to tell."""

_COALESCED = 0.02
"""Seconds in which wakes of other processes are gathered."""
_LOOKS = 2.0
"""Seconds between two looks for what no hint told."""
_AGAIN = 0.2
"""Seconds before a database that did not answer is asked again."""
_FLUSH_TIMEOUT = 1.0
"""Seconds that closing waits for the last notification."""
_PAGE, _PAGE_BYTES = 500, 256 * 1024

Pool = AsyncConnectionPool[AsyncConnection]
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Work:
    """Goes on in a task of its own while it is entered (`async with`)."""

    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task:
            await end(self._task)

    async def _work(self) -> None:
        raise NotImplementedError


class News:
    """What followers at one place are told."""

    def __init__(self, events: Sequence[StoredEvent], *, caught_up: bool) -> None:
        self.events = events
        self.caught_up = caught_up
        """Whether nothing lay behind these when they were read."""
        self._forms: dict[Callable[[Sequence[StoredEvent]], Any], Any] = {}

    def form(self, write: Callable[[Sequence[StoredEvent]], T]) -> T:
        """The events as they are written, once for all who are told."""
        if write not in self._forms:
            self._forms[write] = write(self.events)
        written: T = self._forms[write]
        return written


@dataclass(slots=True)
class _Followed:
    """A session that somebody follows."""

    version: int = 0
    """Another one after each wake, and for each who begins to follow: what was asked before may have missed it."""
    followers: set[asyncio.Event] = field(default_factory=set)
    last: Last | None = None
    """When it was looked at."""
    is_gone: bool = False
    """Whether the session was deleted."""


class Overheard:
    """Which sessions were written to, whoever follows them, since that was last taken."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self._session_ids: set[UUID] = set()
        self._has_lost = False

    def add(self, session_id: UUID) -> None:
        self._session_ids.add(session_id)
        self.woken.set()

    def lose(self) -> None:
        self._has_lost = True
        self.woken.set()

    def take(self) -> tuple[set[UUID], bool]:
        """With whether hints of others may have been lost: the rest is then for the reader to find out."""
        taken = self._session_ids, self._has_lost
        self._session_ids, self._has_lost = set(), False
        self.woken.clear()
        return taken


class Hub:
    """Wakes the followers of this process, and those of others, while it is entered (`async with`).

    It listens to other processes from the first follower on."""

    def __init__(self, url: str, pool: Pool) -> None:
        self._url = url
        self._pool = pool
        self._name = uuid4().hex
        self._numbers = count()
        self._followed: dict[UUID, _Followed] = {}
        self._overheard: set[Overheard] = set()
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        self._to_tell: set[UUID] = set()
        self._has_news = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Hub":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await end(*self._tasks.values())
        with suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(_FLUSH_TIMEOUT):
                await self._notify()

    def stop(self) -> None:
        """Ends every follower: the server is going, and they come back to the next one."""
        self._stopped.set()
        self._wake_all()

    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def pause(self, seconds: float) -> None:
        """As long, unless it stops."""
        await wait(self._stopped, seconds)

    def wake(self, session_id: UUID) -> None:
        """Something was committed to this session, by this process."""
        self._wake(session_id)
        self._to_tell.add(session_id)
        self._has_news.set()
        self._start(self._tell)

    async def follow(
        self, session_id: UUID, after: int, *, collapse: bool = False
    ) -> AsyncGenerator[News, None]:
        """What lies behind the cursor, and what comes, until the hub stops or the session is deleted.

        Goes on where the database is away for a while. That nothing more lies behind is told at once, and then
        something at least every `BEAT` seconds, if need be without events. To collapse is to leave out the pieces of
        what is whole when it is read.
        """
        self._start_listening()
        time = asyncio.get_running_loop().time
        due, behind = time(), True
        with self._following(session_id) as (followed, woken):
            await self._identify(session_id, followed)
            while not self.is_stopped() and not followed.is_gone:
                woken.clear()
                news = await self._read(session_id, after, followed.version, collapse)
                if news.events or time() >= due or (behind and news.caught_up):
                    after = news.events[-1].sequence if news.events else after
                    yield news
                    due, behind = time() + BEAT, not news.caught_up
                if news.caught_up:
                    await wait(woken, due - time())

    @contextmanager
    def overhear(self) -> Iterator[Overheard]:
        self._start_listening()
        overheard = Overheard()
        self._overheard.add(overheard)
        try:
            yield overheard
        finally:
            self._overheard.discard(overheard)

    async def ask(self, answer: Callable[[AsyncConnection], Awaitable[T]]) -> T | None:
        """What the database answers. None where it does not, which takes a moment to tell."""
        try:
            async with self._pool.connection() as conn:
                return await answer(conn)
        except OperationalError as error:
            _log.warning("the database does not answer: %s", type(error).__name__)
            await asyncio.sleep(_AGAIN)
            return None

    async def share(self, work: Hashable, do: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Done once for all who want the same done meanwhile."""
        if work not in self._shared:
            task = asyncio.create_task(do())
            self._shared[work] = task
            task.add_done_callback(lambda _: self._shared.pop(work, None))
        done: T = await asyncio.shield(self._shared[work])
        return done

    def _start_listening(self) -> None:
        self._start(self._listen)
        self._start(self._look)

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs it in the background, once, unless the hub has stopped."""
        if work.__name__ not in self._tasks and not self.is_stopped():
            self._tasks[work.__name__] = asyncio.create_task(work())

    async def _identify(self, session_id: UUID, followed: _Followed) -> None:
        """Ahead of all that is read of it: whether it is still the same is told by this."""

        async def look(conn: AsyncConnection) -> dict[UUID, Last]:
            return await last_sequences(conn, [session_id])

        if followed.last is None:
            lasts = await self.share((session_id, "last"), lambda: self.ask(look))
            followed.last = (lasts or {}).get(session_id)

    async def _read(self, session_id: UUID, after: int, version: int, collapse: bool) -> News:
        async def read(conn: AsyncConnection) -> News:
            events = await get_events_since(
                conn, session_id, after, limit=_PAGE, most_bytes=_PAGE_BYTES, collapse=collapse
            )
            return News(events, caught_up=not may_go_on(events, _PAGE, _PAGE_BYTES))

        place = (session_id, after, version, collapse)
        return await self.share(place, lambda: self.ask(read)) or _AWAY

    @contextmanager
    def _following(self, session_id: UUID) -> Iterator[tuple[_Followed, asyncio.Event]]:
        woken = asyncio.Event()
        followed = self._followed.setdefault(session_id, _Followed())
        followed.version = next(self._numbers)
        followed.followers.add(woken)
        try:
            yield followed, woken
        finally:
            followed.followers.discard(woken)
            if not followed.followers and self._followed.get(session_id) is followed:
                del self._followed[session_id]

    def _wake(self, session_id: UUID) -> None:
        for overheard in self._overheard:
            overheard.add(session_id)
        if followed := self._followed.get(session_id):
            followed.version = next(self._numbers)
            for woken in followed.followers:
                woken.set()

    def _wake_all(self) -> None:
        for overheard in self._overheard:
            overheard.lose()
        for session_id in self._followed:
            self._wake(session_id)

    async def _tell(self) -> None:
        """Other processes, of all that was written within a moment."""
        while True:
            await self._has_news.wait()
            await asyncio.sleep(_COALESCED)
            self._has_news.clear()
            with suppress(psycopg.Error):
                await self._notify()

    async def _notify(self) -> None:
        written, self._to_tell = self._to_tell, set()
        if written:
            async with self._pool.connection() as conn:
                await notify(conn, written, self._name)

    async def _listen(self) -> None:
        """On a connection of its own; when it is lost, everything may have happened meanwhile."""
        while True:
            with suppress(psycopg.Error):
                async with await connect(self._url) as conn:
                    await conn.execute(f"LISTEN {CHANNEL}")
                    self._wake_all()
                    async for notification in conn.notifies():
                        self._hear(notification.payload)
            await asyncio.sleep(_AGAIN)

    def _hear(self, payload: str) -> None:
        with suppress(ValueError):  # not of Ash
            sender, session_ids = read_notification(payload)
            if sender != self._name:
                for session_id in session_ids:
                    self._wake(session_id)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS)
            asked = dict(self._followed)
            with suppress(psycopg.Error):
                async with self._pool.connection() as conn:
                    lasts = await last_sequences(conn, asked)
                for session_id, followed in asked.items():
                    self._compare(session_id, followed, lasts.get(session_id))

    def _compare(self, session_id: UUID, followed: _Followed, last: Last | None) -> None:
        """A session that was made anew under its id is another one, whose sequences say nothing of the old one's."""
        known = followed.last
        followed.is_gone = last is None or (known is not None and last.created_at != known.created_at)
        if followed.is_gone and self._followed.get(session_id) is followed:
            self._wake(session_id)
            del self._followed[session_id]  # who comes from now on follows the new one
        elif last != followed.last:
            followed.last = last
            self._wake(session_id)


_AWAY = News((), caught_up=False)
