"""Access to the store for commands, and lookup of sessions by reference."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

from ash_server.errors import SessionNotFound
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.embedded.open import open_database
from ash_server.store.sessions import AmbiguousSession
from ash_shared.model.session import Session

Result = TypeVar("Result")


def with_store(work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Run `work` with the store of the environment."""
    with open_database(Settings.load()) as url:
        return asyncio.run(run_with_store(url, work))


async def run_with_store(url: str, work: Callable[[Store], Awaitable[Result]]) -> Result:
    """Run `work` with the store at this URL, for the tenant ASH_TENANT. Writes wait for others without a limit."""
    tenant = Settings.load().tenant
    # An interrupted write closes its connection; psycopg would warn of that.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    async with Store.connect(url, lock_timeout=None) as store:
        return await work(
            store if tenant == store.tenant.name else store.for_tenant(await store.get_tenant(tenant))
        )


async def resolve_session(store: Store, reference: str) -> Session:
    """Return the session with this id, id prefix, or name. Raises SessionNotFound, AmbiguousSession."""
    matches = await store.sessions.find(reference)
    if not matches:
        raise SessionNotFound(f"no session matches {reference!r}; `ash sessions` lists them")
    if len(matches) > 1:
        raise AmbiguousSession.named(reference, matches)
    return matches[0]


async def select_sessions(store: Store, references: Sequence[str]) -> AsyncGenerator[UUID, None]:
    """Yield the ids of the referenced sessions; of all sessions if there is no reference."""
    if references:
        for session in [await resolve_session(store, reference) for reference in references]:
            yield session.id
    else:
        async for session_id in store.sessions.list_ids():
            yield session_id
