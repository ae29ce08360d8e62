"""Open the configured database: ASH_DATABASE_URL, else an embedded PostgreSQL below ASH_HOME."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ash_server.settings import Settings
from ash_server.store.connections.pool import PooledUrl, connect
from ash_server.store.embedded.binaries import EmbeddedPostgresError
from ash_server.store.embedded.server import EmbeddedPostgres
from ash_server.store.schema.migrations import check_schema, upgrade

_WATCH_SECONDS = 1


@contextmanager
def open_database(settings: Settings, *, migrate: bool = False) -> Iterator[str]:
    """Yield the URL of a database with this version's schema.

    The embedded database is migrated if needed, any other one only with `migrate`, since other processes may use it.
    Raises SchemaMismatch.
    """
    if settings.database_url is None:
        with open_embedded(settings.home) as url:
            yield url
    else:
        url = _configured_url(settings.database_url, settings.direct_url)
        if migrate:
            upgrade(url)
        else:
            asyncio.run(_check_schema(url))
        yield url


@contextmanager
def open_without_schema(settings: Settings) -> Iterator[str]:
    """Yield the URL of the database as it is; an embedded one is created if needed, without tables."""
    if settings.database_url is not None:
        yield _configured_url(settings.database_url, settings.direct_url)
        return
    with EmbeddedPostgres(settings.home / "postgres") as server:
        server.ensure_database("ash")
        yield server.url("ash")


@contextmanager
def open_embedded(home: Path) -> Iterator[str]:
    """Run the embedded PostgreSQL below this folder and yield the URL of its database, created and migrated."""
    with EmbeddedPostgres(home / "postgres") as server:
        server.ensure_database("ash")
        url = server.url("ash")
        upgrade(url)
        with _watched(server):
            yield url


@contextmanager
def _watched(server: EmbeddedPostgres) -> Iterator[None]:
    """Restart PostgreSQL if it was stopped from outside."""
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(_WATCH_SECONDS):
            with suppress(EmbeddedPostgresError):
                server.start()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stopped.set()
        watcher.join()


def _configured_url(url: str, direct: str | None) -> str:
    return url if direct is None else PooledUrl(url, direct)


async def _check_schema(url: str) -> None:
    async with await connect(url) as conn:
        await check_schema(conn)
