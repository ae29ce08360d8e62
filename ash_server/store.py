"""The store: every read and write of sessions, messages and events.

```python
from ash_server import Store

async with Store.open(url) as store:  # None: the embedded PostgreSQL
    session = await store.sessions.create(source="claude", external_id="run-7")
    await store.messages.append(session.id, ['{"type": "user", ...}'])
    for message in await store.messages.list_messages_parsed(session.id, after=0, limit=100):
        print(message.content, message.parsed)
    async for event in store.events.subscribe(session.id, after=0):
        ...
```

The REST API, the command line and the exports use the same class. `Store.open` checks the schema; the server and the
commands, which check it themselves, use `Store.connect`. Routes receive the store as the dependency `store`.

Each method borrows a connection for as long as it runs, so many tasks may use the store concurrently. A write wakes the
subscribers of this process at once, and those of other processes within 20 ms or when the store closes. Every error is
an `ash_server.errors.AshError`; any method may raise DatabaseUnavailable and SchemaMismatch.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import OperationalError

from ash_server.db.connection import LOCK_TIMEOUT, check_schema, connect, open_pool
from ash_server.db.embedded.open import open_embedded
from ash_server.errors import DatabaseUnavailable
from ash_server.live.hub import Hub
from ash_server.repositories.connections import Connections
from ash_server.repositories.conversation import ConversationReader
from ash_server.repositories.drift import DriftRepository
from ash_server.repositories.events import EventStore
from ash_server.repositories.messages import MessageRepository
from ash_server.repositories.sessions import SessionRepository
from ash_server.repositories.statistics import Statistics
from ash_server.repositories.transcripts import TranscriptRepository
from ash_server.settings import Settings

if TYPE_CHECKING:
    from ash_server.repositories.search import SearchRepository

_MAX_STREAMS = 4
"""Connections of the pool for long reads (`Connections.stream`)."""


class Store:
    """The repositories of one database, as opened by `Store.open`."""

    sessions: SessionRepository
    messages: MessageRepository
    events: EventStore
    conversation: ConversationReader
    drift: DriftRepository
    transcripts: TranscriptRepository

    def __init__(self, connections: Connections, hub: Hub) -> None:
        self.hub = hub
        """Wakes subscribers. Also used by the live feeds of the server."""
        self._connections = connections
        self.sessions = SessionRepository(connections, hub.wake)
        self.messages = MessageRepository(connections, hub.wake)
        self.events = EventStore(connections, hub)
        self.conversation = ConversationReader(connections)
        self.drift = DriftRepository(connections)
        self.transcripts = TranscriptRepository(connections)

    @cached_property
    def search(self) -> "SearchRepository":
        from ash_server.repositories.search import SearchRepository  # takes long, and few commands search

        return SearchRepository(self._connections)

    @property
    def url(self) -> str:
        """The URL of the database, with which another process can open the same store."""
        return self.hub.url

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str | None = None, *, home: Path | None = None, lock_timeout: float | None = LOCK_TIMEOUT
    ) -> "AsyncGenerator[Store, None]":
        """Open the database at this PostgreSQL URL; without one, the embedded server below `home`.

        The embedded database is created and migrated as needed, and its server stops with its last user. `home` is
        ASH_HOME by default, and `~/.ash` if that is not set. Any other database must be migrated first
        (`ash db upgrade`). `lock_timeout` is the number of seconds that a write waits for other writers of its
        session; None means no limit.

        Raises DatabaseUnavailable, SchemaMismatch.
        """
        async with (
            _available_database(url, home) as database_url,
            cls.connect(database_url, lock_timeout) as store,
        ):
            yield store

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, url: str, lock_timeout: float | None = LOCK_TIMEOUT
    ) -> "AsyncGenerator[Store, None]":
        """Like `open`, but connect at the first use and without checking the schema (see `check_schema`)."""
        async with (
            open_pool(url, lock_timeout=lock_timeout) as pool,
            open_pool(url, min_size=0, max_size=_MAX_STREAMS, lock_timeout=lock_timeout) as stream_pool,
            Hub(url, pool) as hub,
        ):
            yield cls(Connections(pool, stream_pool), hub)

    async def check_schema(self) -> None:
        """Raises DatabaseUnavailable, SchemaMismatch."""
        async with self._connections.connection() as conn:
            await check_schema(conn)

    async def read_statistics(self) -> Statistics:
        """Read figures about the whole store. Raises DatabaseUnavailable, SchemaMismatch."""
        from ash_server.repositories.statistics import read_statistics  # imports the search index

        return await read_statistics(self._connections)


@asynccontextmanager
async def _available_database(url: str | None, home: Path | None) -> AsyncGenerator[str, None]:
    """Yield the URL of a database with the current schema; without a URL, run the embedded server while entered."""
    if url is None:
        folder = home or Settings.from_environment(os.environ).home
        # Starting and stopping the server would block the event loop, so both run in a thread.
        server = open_embedded(folder)
        embedded_url = await asyncio.to_thread(server.__enter__)
        try:
            yield embedded_url
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)
    else:
        await _check_schema(url)
        yield url


async def _check_schema(url: str) -> None:
    try:
        async with await connect(url) as conn:
            await check_schema(conn)
    except OperationalError as error:
        raise DatabaseUnavailable(f"the database does not answer: {error}") from error
