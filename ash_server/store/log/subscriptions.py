"""Session subscriptions: every event after a cursor, once and in order, then new events as they are stored.

The database rows are authoritative; notifications are hints. A subscriber reads the events after its cursor, waits for
a notification, and reads again. A notification may be lost: a periodic query over all subscribed sessions then finds
the change a little later. A subscriber holds its cursor and one page of events: slow readers cost neither memory nor a
connection, and subscribers at the same cursor share the query and the rendered output.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from itertools import count, groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4
from weakref import ref

import psycopg
from psycopg import AsyncConnection, OperationalError

from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.store.connections.pool import Pool, connect
from ash_server.store.connections.tenants import DEFAULT, Tenant
from ash_server.store.log.events import MAX_COLLAPSED, StoredEvent, get_collapsed, get_events_since
from ash_server.store.log.notify import CHANNEL, Last, last_sequences, notify, read_notification
from ash_server.store.pagination import may_have_more
from ash_server.tasks import SharedCalls, cancel_tasks, wait_for_event

HEARTBEAT_SECONDS = 15.0
"""Subscribers receive something at least this often."""

IDLE_SECONDS = 2.0
"""Maximum time between checks that a subscription without events may continue."""

POLL_SECONDS = 2.0
"""Interval of the queries that detect lost notifications."""

RETRY_SECONDS = 0.2
"""Delay before an unavailable database is tried again."""

_PROMPT_SUBSCRIBERS = 100
"""Up to this many subscribers of a session are woken for each change."""
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.0007, 0.3
"""Pause between two wake-ups per further subscriber, and its limit: many subscribers get several changes at once, which
leaves most of the time to writers."""
_NOTIFY_DELAY_SECONDS = 0.02
"""Notifications to other processes are collected for this long."""
_FLUSH_TIMEOUT_SECONDS = 1.0
"""Limit for sending the last notifications when the hub closes."""
_PAGE_SIZE, _MAX_PAGE_BYTES = 500, 256 * 1024

T = TypeVar("T")

_log = logging.getLogger(__name__)


class EventBatch:
    """Events read at one cursor, shared by all subscribers at that cursor."""

    def __init__(
        self, events: Sequence[StoredEvent], *, caught_up: bool, last_read: int | None = None
    ) -> None:
        self.events = events
        self.last_read = events[-1].sequence if events and last_read is None else last_read
        """Sequence after which the next batch begins; None for the same as this one."""
        self.caught_up = caught_up
        """True if no later event was stored when these were read."""
        self._rendered: dict[Callable[[Sequence[StoredEvent]], Any], Any] = {}

    def render(self, write: Callable[[Sequence[StoredEvent]], T]) -> T:
        """Return `write(events)`, computed once for all subscribers."""
        if write not in self._rendered:
            self._rendered[write] = write(self.events)
        rendered: T = self._rendered[write]
        return rendered


IDLE = EventBatch((), caught_up=False)
"""A batch without events: check the subscriber's key, and send nothing."""


class Subscriptions(NamedTuple):
    subscribers: int
    lag: int
    """Stored events that the slowest subscriber has not read, as of the latest poll."""


@dataclass(slots=True, eq=False)
class _Subscriber:
    cursor: int
    """Sequence of the last event that the subscriber took."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _SubscribedSession:
    version: int = 0
    """Changes with each wake-up and each new subscriber, so that a subscriber never shares a query that started before
    and may miss events."""
    subscribers: set[_Subscriber] = field(default_factory=set)
    known_last: Last | None = None
    """The last sequence as of the latest poll."""
    is_deleted: bool = False
    output: Callable[[], Any] = lambda: None
    """A weak reference to the object that the subscribers share."""
    pause_end: float = 0.0
    """Time of the loop before which the subscribers are not woken."""
    delayed_wake: asyncio.TimerHandle | None = None
    tenant: Tenant = DEFAULT

    def wake(self) -> None:
        """Wake the subscribers, at the end of the pause after the last time."""
        loop = asyncio.get_running_loop()
        if self.delayed_wake is not None:
            return
        if loop.time() < self.pause_end:
            self.delayed_wake = loop.call_at(self.pause_end, self._wake_now)
        else:
            self._wake_now()

    def _wake_now(self) -> None:
        further = max(0, len(self.subscribers) - _PROMPT_SUBSCRIBERS)
        pause = min(further * _PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        self.delayed_wake, self.pause_end = None, asyncio.get_running_loop().time() + pause
        for subscriber in self.subscribers:
            subscriber.changed.set()

    def lag(self) -> int:
        last = self.known_last.sequence if self.known_last else 0
        return max(0, last - min(subscriber.cursor for subscriber in self.subscribers))


class ChangedSessions:
    """Ids of a tenant's sessions changed since the last `take`, subscribed or not; None: for all tenants."""

    def __init__(self, tenant: Tenant | None) -> None:
        self._tenant = None if tenant is None else tenant.number
        self.changed = asyncio.Event()
        self._session_ids: set[UUID] = set()
        self._is_incomplete = False

    def add(self, session_id: UUID, tenant: int) -> None:
        if self._tenant in (None, tenant):
            self._session_ids.add(session_id)
            self.changed.set()

    def mark_incomplete(self) -> None:
        self._is_incomplete = True
        self.changed.set()

    def take(self) -> tuple[set[UUID], bool]:
        """Return and clear the ids, and True if notifications of other processes may have been lost."""
        taken = self._session_ids, self._is_incomplete
        self._session_ids, self._is_incomplete = set(), False
        self.changed.clear()
        return taken


class Hub:
    """Wakes the subscribers in this process and in others while entered (`async with`).

    Listens to other processes from the first subscriber or watcher on.
    """

    def __init__(self, url: str, pool: Pool) -> None:
        self.url = url
        self._pool = pool
        self._name = uuid4().hex
        self._versions = count()
        self._sessions: dict[UUID, _SubscribedSession] = {}
        self._watchers: set[ChangedSessions] = set()
        self._shared = SharedCalls()
        self._unsent: set[tuple[int, UUID]] = set()
        """Numbers of tenants, and their sessions."""
        self._has_unsent = asyncio.Event()
        self._stopped = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> "Hub":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await cancel_tasks(*self._tasks.values())
        with suppress(psycopg.Error, DatabaseUnavailable, SchemaMismatch, TimeoutError):
            async with asyncio.timeout(_FLUSH_TIMEOUT_SECONDS):
                await self._notify_others()

    def stop(self) -> None:
        """End all subscriptions. Clients reconnect to the next server with their cursor."""
        self._stopped.set()
        self._wake_all_here()

    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    async def sleep(self, seconds: float) -> None:
        """Sleep, or return early when the hub stops."""
        await wait_for_event(self._stopped, seconds)

    def wake(self, session_id: UUID, tenant: Tenant = DEFAULT) -> None:
        """Announce that this process committed a change to the session."""
        self._wake_here(session_id, tenant.number)
        self._unsent.add((tenant.number, session_id))
        self._has_unsent.set()
        self._start_task(self._send_notifications)

    async def subscribe(
        self, session_id: UUID, after: int, *, collapse: bool = False, tenant: Tenant = DEFAULT
    ) -> AsyncGenerator[EventBatch, None]:
        """Yield the events after the cursor, then new ones, until the hub stops or the session is deleted.

        A session of another tenant counts as deleted.

        Survives database outages. The first batch that is caught up comes immediately, even if it has no events. If
        there are none for `HEARTBEAT_SECONDS`, a batch without events follows, and in between `IDLE`, every
        `IDLE_SECONDS`. `collapse` omits the chunks of messages that are complete when the chunks are read.
        """
        self._start_listening()
        time = asyncio.get_running_loop().time
        heartbeat_due, is_behind = time(), True
        with self._register(session_id, after, tenant) as (session, subscriber):
            await self._load_known_last(session_id, session)
            while not self.is_stopped() and not session.is_deleted:
                subscriber.changed.clear()
                batch = await self._read_batch(
                    session_id, subscriber.cursor, session.version, collapse, tenant
                )
                if batch.events or time() >= heartbeat_due or (is_behind and batch.caught_up):
                    yield batch
                    heartbeat_due, is_behind = time() + HEARTBEAT_SECONDS, not batch.caught_up
                subscriber.cursor = subscriber.cursor if batch.last_read is None else batch.last_read
                while batch.caught_up and time() < heartbeat_due:
                    if await wait_for_event(subscriber.changed, min(IDLE_SECONDS, heartbeat_due - time())):
                        break
                    yield IDLE

    @contextmanager
    def watch_changes(self, tenant: Tenant | None = None) -> Iterator[ChangedSessions]:
        """Collect the ids of the sessions of a tenant, or of all, that change while entered."""
        self._start_listening()
        changes = ChangedSessions(tenant)
        self._watchers.add(changes)
        try:
            yield changes
        finally:
            self._watchers.discard(changes)

    def count_subscriptions(self) -> Subscriptions:
        sessions = self._sessions.values()
        return Subscriptions(
            subscribers=sum(len(session.subscribers) for session in sessions),
            lag=max((session.lag() for session in sessions), default=0),
        )

    async def _query(self, tenant: Tenant, run: Callable[[AsyncConnection], Awaitable[T]]) -> T | None:
        """Return the result of the query, or None, after a short delay, if the database is unavailable."""
        try:
            async with self._pool.connection(tenant=tenant) as conn:
                return await run(conn)
        except (OperationalError, DatabaseUnavailable, SchemaMismatch) as error:
            _log.warning("database unavailable: %s", type(error).__name__)
            await asyncio.sleep(RETRY_SECONDS)
            return None

    async def share(self, key: Hashable, run: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine once for all concurrent callers with the same key."""
        return await self._shared.run(key, run)

    def share_output(self, session_id: UUID, own: T, is_usable: Callable[[T], bool]) -> T:
        """Return the object that the current subscribers of the session share; if it is not usable, this one."""
        session = self._sessions.get(session_id)
        shared: T | None = session.output() if session else None
        if shared is not None and is_usable(shared):
            return shared
        if session:
            session.output = ref(own)
        return own

    def _start_listening(self) -> None:
        self._start_task(self._listen)
        self._start_task(self._poll)

    def _start_task(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the background task unless it is running or the hub has stopped.

        It has an empty context, because it outlives the request or the import that needs it first.
        """
        if run.__name__ not in self._tasks and not self.is_stopped():
            self._tasks[run.__name__] = asyncio.create_task(run(), context=Context())

    async def _load_known_last(self, session_id: UUID, session: _SubscribedSession) -> None:
        """Store the last sequence before events are read, so that `_apply_poll` detects a recreated session."""

        async def load(conn: AsyncConnection) -> dict[UUID, Last]:
            return await last_sequences(conn, [session_id])

        if session.known_last is None:
            last_by_session = await self.share(
                (session.tenant, session_id, "last"), lambda: self._query(session.tenant, load)
            )
            session.known_last = (last_by_session or {}).get(session_id)

    async def _read_batch(
        self, session_id: UUID, after: int, version: int, collapse: bool, tenant: Tenant
    ) -> EventBatch:
        session = self._sessions.get(session_id)
        known_last = session.known_last.sequence if session and session.known_last else 0
        end = after + MAX_COLLAPSED if collapse and known_last > after + MAX_COLLAPSED else None

        async def read(conn: AsyncConnection) -> EventBatch:
            size = {"limit": _PAGE_SIZE, "max_bytes": _MAX_PAGE_BYTES}
            if end is None:
                events = await get_events_since(conn, session_id, after, collapse=collapse, **size)
            else:
                events = await get_collapsed(conn, session_id, after, end, **size)
            is_full = may_have_more(events, _PAGE_SIZE, _MAX_PAGE_BYTES)
            last_read = None if is_full else end
            return EventBatch(events, caught_up=not is_full and end is None, last_read=last_read)

        key = (tenant, session_id, after, end, version, collapse)
        return await self.share(key, lambda: self._query(tenant, read)) or _UNAVAILABLE

    @contextmanager
    def _register(
        self, session_id: UUID, after: int, tenant: Tenant
    ) -> Iterator[tuple[_SubscribedSession, _Subscriber]]:
        subscriber = _Subscriber(after)
        session = self._sessions.setdefault(session_id, _SubscribedSession(tenant=tenant))
        session.version = next(self._versions)
        session.subscribers.add(subscriber)
        try:
            yield session, subscriber
        finally:
            session.subscribers.discard(subscriber)
            if not session.subscribers and self._sessions.get(session_id) is session:
                del self._sessions[session_id]

    def _wake_here(self, session_id: UUID, tenant: int) -> None:
        for changes in self._watchers:
            changes.add(session_id, tenant)
        if session := self._sessions.get(session_id):
            session.version = next(self._versions)
            session.wake()

    def _wake_all_here(self) -> None:
        for changes in self._watchers:
            changes.mark_incomplete()
        for session_id, session in self._sessions.items():
            self._wake_here(session_id, session.tenant.number)

    async def _send_notifications(self) -> None:
        while True:
            await self._has_unsent.wait()
            await asyncio.sleep(_NOTIFY_DELAY_SECONDS)
            self._has_unsent.clear()
            try:
                await self._notify_others()
            except (psycopg.Error, DatabaseUnavailable, SchemaMismatch):
                await asyncio.sleep(RETRY_SECONDS)
                self._has_unsent.set()

    async def _notify_others(self) -> None:
        unsent, self._unsent = self._unsent, set()
        if not unsent:
            return
        try:
            # A notification sets this for itself; an import would have to set its connection again.
            async with self._pool.connection(sets_deferral=False) as conn:
                for tenant, changed in groupby(sorted(unsent), key=itemgetter(0)):
                    await notify(conn, [session_id for _, session_id in changed], self._name, tenant)
        except BaseException:
            self._unsent |= unsent  # others may poll for changes, but not for deletions
            raise

    async def _listen(self) -> None:
        """Receive notifications on a dedicated connection. Wake all when it opens: earlier ones may have been lost."""
        while True:
            with suppress(psycopg.Error):
                try:
                    conn = await connect(self.url)
                except DatabaseUnavailable as error:  # a pooler
                    _log.warning("no notifications of other processes: %s", error)
                    return
                async with conn:
                    await conn.execute(f"LISTEN {CHANNEL}")
                    self._wake_all_here()
                    async for notification in conn.notifies():
                        self._receive(notification.payload)
            await asyncio.sleep(RETRY_SECONDS)

    def _receive(self, payload: str) -> None:
        with suppress(ValueError):  # not sent by Ash
            notification = read_notification(payload)
            if notification.sender != self._name:
                for session_id in notification.session_ids:
                    self._wake_here(session_id, notification.tenant)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for tenant in {session.tenant for session in self._sessions.values()}:
                with suppress(psycopg.Error, DatabaseUnavailable, SchemaMismatch):
                    await self._poll_tenant(tenant)

    async def _poll_tenant(self, tenant: Tenant) -> None:
        sessions = {id: session for id, session in self._sessions.items() if session.tenant == tenant}
        async with self._pool.connection(tenant=tenant) as conn:
            last_by_session = await last_sequences(conn, sessions)
        for session_id, session in sessions.items():
            self._apply_poll(session_id, session, last_by_session.get(session_id))

    def _apply_poll(self, session_id: UUID, session: _SubscribedSession, last: Last | None) -> None:
        """Wake the subscribers of a session with new events; end subscriptions to one that was deleted or recreated.

        A session recreated under the same id has its own sequences, so cursors into the old one do not apply.
        """
        known = session.known_last
        session.is_deleted = last is None or (known is not None and last.created_at != known.created_at)
        if session.is_deleted and self._sessions.get(session_id) is session:
            self._wake_here(session_id, session.tenant.number)
            del self._sessions[session_id]  # new subscribers get the recreated session
        elif last != known:
            session.known_last = last
            self._wake_here(session_id, session.tenant.number)


_UNAVAILABLE = EventBatch((), caught_up=False)
