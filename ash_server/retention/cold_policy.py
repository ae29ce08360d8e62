"""The policy of cold sessions: set, show and run it, for routes, commands and the server's background task.

A run archives the texts of sessions without a change for the age of the policy, and restores cold sessions that were
changed. A session that was restored by a reader stays for the same time.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated
from uuid import UUID

import psycopg
from msgspec import Meta, Struct

from ash_server.errors import ArchiveDamaged, AshError, SessionNotFound
from ash_server.retention.ages import parse_age
from ash_server.retention.hourly import MIN_INTERVAL
from ash_server.store import Store
from ash_server.store.access.keys import Key
from ash_server.store.cold.policies import StoredColdPolicy
from ash_shared.model.reports.cold import ColdPolicy, ColdRun

_log = logging.getLogger(__name__)


class NoColdPolicy(AshError):
    status, code, title = 404, "no_cold_policy", "The tenant has no policy for cold sessions."


class NewColdPolicy(Struct, forbid_unknown_fields=True, rename="camel"):
    """A policy to set. It replaces the earlier one."""

    age: Annotated[
        str,
        Meta(
            max_length=10,
            description="Sessions without a change for this long are archived: days, weeks, months of 30 days or "
            "years of 365 days, such as `90d`, `8w`, `18mo` or `2y`.",
        ),
    ]


class NewColdRun(Struct, forbid_unknown_fields=True, rename="camel"):
    """A run of the policy for cold sessions."""

    dry_run: Annotated[bool, Meta(description="Change nothing.")] = False


async def set_cold_policy(store: Store, new: NewColdPolicy, key: Key | None = None) -> ColdPolicy:
    """Set the policy of the store's tenant. Raises InvalidRetention."""
    parse_age(new.age)
    await store.cold.set_policy(store.tenant, new.age, key_id=key.id if key else None)
    return await get_cold_policy(store)


async def get_cold_policy(store: Store) -> ColdPolicy:
    """Return the policy of the store's tenant, and the size of its archives."""
    policy, totals = await store.cold.get_policy(store.tenant), await store.cold.sum_archives()
    known = {} if policy is None else {"age": policy.age, "setAt": policy.set_at}
    if policy is not None and policy.checked_at is not None:
        known["checkedAt"] = policy.checked_at
    return ColdPolicy(
        sessions=totals.sessions, textBytes=totals.size, archiveBytes=totals.archive_size, **known
    )


async def end_cold_policy(store: Store, key: Key | None = None) -> None:
    """Delete the policy. Cold sessions stay cold until they are read or restored. Raises NoColdPolicy."""
    if not await store.cold.delete_policy(store.tenant, key_id=key.id if key else None):
        raise NoColdPolicy


async def run_cold_policy(
    store: Store,
    *,
    is_dry_run: bool = False,
    now: datetime | None = None,
    max_archived: int | None = None,
    is_gentle: bool = False,
) -> ColdRun:
    """Run the policy now. `is_gentle` waits as long as each session took. Raises NoColdPolicy, ColdBusy."""
    policy = await _get_policy(store)
    at = now or await store.retention.get_database_time()
    before = at - parse_age(policy.age)
    if is_dry_run:
        archived = [id async for id in _list_archivable(store, before)]
        restored = len(await store.cold.list_changed())
        total = await store.cold.count() + len(archived) - restored
        return ColdRun(is_dry_run=True, archived=len(archived), restored=restored, total=total)
    await store.cold.extend_lease(store.tenant)
    try:
        restored = await restore_sessions(store, await store.cold.list_changed())
        count = 0
        async for session_id in _list_archivable(store, before):
            if max_archived is not None and count >= max_archived:
                break
            started = time.monotonic()
            await store.cold.extend_lease(store.tenant, is_own=True)
            current = await store.cold.get_policy(store.tenant)
            if current is None or current.set_at != policy.set_at:
                break
            count += await _archive(store, session_id, before)
            if is_gentle:
                await asyncio.sleep(time.monotonic() - started)
        await store.cold.save_run(store.tenant, policy.set_at, at)
    finally:
        await store.cold.end_lease(store.tenant)
    total = await store.cold.count()
    return ColdRun(is_dry_run=False, archived=count, restored=restored, total=total)


async def _archive(store: Store, session_id: UUID, before: datetime) -> bool:
    """Archive a session. One that fails is skipped, since it would fail in each run, before the others."""
    try:
        return await store.cold.archive(session_id, before)
    except (AshError, psycopg.Error, ValueError) as error:
        _log.warning("cannot archive session %s: %s", session_id, type(error).__name__)
        return False


async def check_cold_policy(store: Store, *, now: datetime) -> None:
    """Run the policy of the store's tenant for a server, unless it has just run. Raises ColdBusy.

    Without a policy, only restore changed sessions, so that searches find their new messages.
    """
    policy = await store.cold.get_policy(store.tenant)
    if policy is None:
        await restore_sessions(store, await store.cold.list_changed())
    elif policy.checked_at is None or now - policy.checked_at >= MIN_INTERVAL:
        await run_cold_policy(store, now=now, is_gentle=True)


async def restore_sessions(store: Store, ids: list[UUID]) -> int:
    """Restore cold sessions, and return their number. Damaged archives are left as they are."""
    restored = 0
    for id in ids:
        try:
            restored += await store.cold.restore(id)
        except (ArchiveDamaged, SessionNotFound):
            continue
    return restored


async def restore_all(store: Store) -> AsyncGenerator[UUID, None]:
    """Restore all cold sessions, and yield their ids. Raises ArchiveDamaged."""
    async for id in list_cold_sessions(store):
        if await store.cold.restore(id):
            yield id


async def list_cold_sessions(store: Store) -> AsyncGenerator[UUID, None]:
    """Yield the ids of all cold sessions."""
    last = UUID(int=0)
    while page := await store.cold.list_cold(last):
        for last in page:
            yield last


async def _get_policy(store: Store) -> StoredColdPolicy:
    policy = await store.cold.get_policy(store.tenant)
    if policy is None:
        raise NoColdPolicy("set one with `ash cold set 180d`")
    return policy


async def _list_archivable(store: Store, before: datetime) -> AsyncGenerator[UUID, None]:
    after = None
    while True:
        page = await store.cold.list_archivable(before, after)
        for id in page.ids:
            yield id
        after = page.last
        if after is None:
            return
