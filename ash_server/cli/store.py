"""How commands reach the store: one connection, and sessions by what a person calls them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from psycopg import AsyncConnection

from ash_server.db.connection import connect
from ash_server.db.embedded.open import open_database
from ash_server.db.sessions import AmbiguousSession, Session, find_sessions
from ash_server.errors import SessionNotFound
from ash_server.settings import Settings

Result = TypeVar("Result")


def with_store(work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
    """Runs the work on a connection to the store of the environment."""
    with open_database(Settings.from_environment(os.environ)) as url:
        return asyncio.run(_connected(url, work))


async def one_session(conn: AsyncConnection, reference: str) -> Session:
    """The session that a person means. Raises SessionNotFound or AmbiguousSession."""
    found = await find_sessions(conn, reference)
    if not found:
        raise SessionNotFound(f"no session goes by {reference!r}: `ash sessions` lists those that are there")
    if len(found) > 1:
        raise AmbiguousSession(reference, found)
    return found[0]


async def _connected(url: str, work: Callable[[AsyncConnection], Awaitable[Result]]) -> Result:
    async with await connect(url) as conn:
        return await work(conn)
