"""What happens to sessions, whichever they are: for those who show a list of them.

Hints say which sessions changed. These are read once for all who watch, a second's worth at a time. Who is slow finds
the last state of each session that changed meanwhile, and nothing in between.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from functools import partial
from uuid import UUID

import msgspec
import psycopg
from psycopg import AsyncConnection

from ash_server.db.sessions import Session, get_sessions, recent_sessions
from ash_server.live import hub as live
from ash_server.live.hub import Hub, Work
from ash_server.live.tasks import wait

_log = logging.getLogger(__name__)

_GATHERED = 1.0
"""Seconds in which changes are gathered: no session is told more than once in this time."""
_LOOKS = 2.0
"""Seconds between two looks for what no hint told."""


class Board(Work):
    """Entered, it looks what there is to tell (`async with`)."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._watchers: set[_Watcher] = set()
        self._seen: Mapping[UUID, datetime] = {}
        """The sessions that changed lately, and when they did."""
        self._has_missed = False

    async def watch(self) -> AsyncGenerator[bytes, None]:
        """As server-sent events, until the hub stops: at first that from now on all is told, and that again whenever
        something may have been missed. Something comes at least every `live.BEAT` seconds."""
        watcher = _Watcher()
        self._watchers.add(watcher)
        try:
            while not self._hub.is_stopped():
                yield watcher.take()
                await wait(watcher.woken, live.BEAT)
        finally:
            self._watchers.discard(watcher)

    async def _work(self) -> None:
        with self._hub.overhear() as overheard:
            while not self._hub.is_stopped():
                await wait(overheard.woken, _LOOKS)
                hinted, has_lost = overheard.take()
                if self._watchers:
                    await self._tell(hinted, has_lost=has_lost)
                await self._hub.pause(_GATHERED)
        for watcher in self._watchers:
            watcher.woken.set()

    async def _tell(self, hinted: set[UUID], *, has_lost: bool) -> None:
        self._has_missed |= has_lost
        try:
            changed = await self._hub.ask(partial(self._read, hinted=hinted))
        except psycopg.Error as error:
            _log.warning("the list of sessions cannot be read: %s", type(error).__name__)
            changed = None
        if changed is None:  # what was hinted at is forgotten
            self._has_missed = True
            return
        notes = {id: _session(session) if session else _gone(id) for id, session in changed.items()}
        if notes or self._has_missed:
            for watcher in self._watchers:
                watcher.tell(notes, has_missed=self._has_missed)
        self._has_missed = False

    async def _read(self, conn: AsyncConnection, hinted: set[UUID]) -> dict[UUID, Session | None]:
        """What changed; None is a session that is gone."""
        recent = await recent_sessions(conn)
        found = {id for id, at in recent.items() if self._seen.get(id) != at}
        self._seen = recent
        wanted = hinted | found
        there = await get_sessions(conn, wanted) if wanted else []
        return {**dict.fromkeys(wanted), **{session.id: session for session in there}}


class _Watcher:
    """Somebody who shows sessions."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self._notes: dict[UUID, bytes] = {}
        self._has_missed = True

    def tell(self, notes: Mapping[UUID, bytes], *, has_missed: bool) -> None:
        self._notes.update(notes)
        self._has_missed |= has_missed
        self.woken.set()

    def take(self) -> bytes:
        """What there is to tell; a comment where there is nothing."""
        told = b"".join([*self._notes.values(), *([_CAUGHT_UP] if self._has_missed else [])])
        self._notes, self._has_missed = {}, False
        self.woken.clear()
        return told or b":\n\n"


_CAUGHT_UP = b"event: caught_up\ndata: {}\n\n"


def _session(session: Session) -> bytes:
    return f"event: session\ndata: {session.model_dump_json()}\n\n".encode()


def _gone(id: UUID) -> bytes:
    return b"event: deleted\ndata: " + msgspec.json.encode({"id": id}) + b"\n\n"
