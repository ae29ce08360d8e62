"""Session change feed. Slow subscribers get only the latest state of each session.

Notifications name the sessions that changed. Changes are collected for a second, then these sessions are read once for
all subscribers.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Self
from uuid import UUID

import msgspec
import psycopg

from ash_server.errors import DatabaseUnavailable, SchemaMismatch
from ash_server.store.connections.tenants import Tenant
from ash_server.store.log.subscriptions import HEARTBEAT_SECONDS, IDLE_SECONDS, POLL_SECONDS, Hub
from ash_server.store.sessions import SessionStore
from ash_server.tasks import BackgroundTask, wait_for_event
from ash_shared.model.session import Session

_log = logging.getLogger(__name__)

_COLLECT_SECONDS = 1.0
"""Changes are collected for this long: each session is sent at most once in this time."""

_CAUGHT_UP = b"event: caught_up\ndata: {}\n\n"
_COMMENT = b":\n\n"


class SessionFeed(BackgroundTask):
    """Changes to a tenant's sessions."""

    def __init__(self, hub: Hub, sessions: SessionStore) -> None:
        self._hub = hub
        self._sessions = sessions
        self._subscribers: set[_Subscriber] = set()
        self._recent: Mapping[UUID, datetime] = {}
        """The sessions that the last poll returned, with the time of their change."""
        self._is_incomplete = False

    @property
    def subscriber_count(self) -> int:
        return len(self._subscribers)

    async def subscribe(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events until the hub stops, at least one every `HEARTBEAT_SECONDS`.

        `caught_up` comes first, and again whenever changes may have been missed. An empty text every `IDLE_SECONDS`
        means that nothing has happened.
        """
        time = asyncio.get_running_loop().time
        subscriber = _Subscriber()
        self._subscribers.add(subscriber)
        try:
            while not self._hub.is_stopped():
                yield subscriber.take()
                heartbeat_due = time() + HEARTBEAT_SECONDS
                while (rest := heartbeat_due - time()) > 0:
                    if await wait_for_event(subscriber.pending, min(IDLE_SECONDS, rest)):
                        break
                    yield b""
        finally:
            self._subscribers.discard(subscriber)

    async def _run(self) -> None:
        with self._hub.watch_changes(self._sessions.tenant) as changes:
            while not self._hub.is_stopped():
                await wait_for_event(changes.changed, POLL_SECONDS)
                session_ids, is_incomplete = changes.take()
                if self._subscribers:
                    await self._broadcast(session_ids, is_incomplete=is_incomplete)
                await self._hub.sleep(_COLLECT_SECONDS)
        for subscriber in self._subscribers:
            subscriber.pending.set()

    async def _broadcast(self, session_ids: set[UUID], *, is_incomplete: bool) -> None:
        self._is_incomplete |= is_incomplete
        try:
            changes = await self._read_changes(session_ids)
        except (DatabaseUnavailable, SchemaMismatch, psycopg.Error) as error:
            _log.warning("cannot read changed sessions: %s", type(error).__name__)
            self._is_incomplete = True  # these ids are lost
            return
        events = {
            id: _session_event(session) if session else _deleted_event(id) for id, session in changes.items()
        }
        if events or self._is_incomplete:
            for subscriber in self._subscribers:
                subscriber.put(events, is_incomplete=self._is_incomplete)
        self._is_incomplete = False

    async def _read_changes(self, notified: set[UUID]) -> dict[UUID, Session | None]:
        """Return the changed sessions by id; None for one that is deleted or replaced."""
        recent = await self._sessions.list_changed()
        polled = {id for id, changed_at in recent.items() if self._recent.get(id) != changed_at}
        self._recent = recent
        changed = notified | polled
        sessions = await self._sessions.get_many(changed) if changed else []
        sessions = await self._sessions.with_activity(sessions)
        shown = {session.id: session for session in sessions if session.replaced_by is None}
        return {**dict.fromkeys(changed), **shown}


class SessionFeeds:
    """The feed of each tenant, started by its first subscriber and ended on exit (`async with`)."""

    def __init__(self) -> None:
        self._feeds: dict[Tenant, SessionFeed] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def subscriber_count(self) -> int:
        return sum(feed.subscriber_count for feed in self._feeds.values())

    async def get(self, hub: Hub, sessions: SessionStore) -> SessionFeed:
        feed = self._feeds.get(sessions.tenant)
        if feed is None:
            self._feeds[sessions.tenant] = feed = SessionFeed(hub, sessions)
            await self._stack.enter_async_context(feed)
        return feed


class _Subscriber:
    """The latest unsent event of each session."""

    def __init__(self) -> None:
        self.pending = asyncio.Event()
        self._events: dict[UUID, bytes] = {}
        self._is_incomplete = True

    def put(self, events: Mapping[UUID, bytes], *, is_incomplete: bool) -> None:
        self._events.update(events)
        self._is_incomplete |= is_incomplete
        self.pending.set()

    def take(self) -> bytes:
        """Return and clear the pending events; an SSE comment if there are none."""
        pending = b"".join([*self._events.values(), *([_CAUGHT_UP] if self._is_incomplete else [])])
        self._events, self._is_incomplete = {}, False
        self.pending.clear()
        return pending or _COMMENT


def _session_event(session: Session) -> bytes:
    return f"event: session\ndata: {session.model_dump_json()}\n\n".encode()


def _deleted_event(id: UUID) -> bytes:
    return b"event: deleted\ndata: " + msgspec.json.encode({"id": id}) + b"\n\n"
