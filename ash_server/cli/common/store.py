"""Access to the local store for commands."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.embedded.open import open_database

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
