"""Retention policies, and the sessions scheduled for deletion. Functions accept a connection of the owner."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

from ash_server.errors import AshError
from ash_server.store.access.keys import record
from ash_server.store.borrowed import Resource, administer
from ash_server.store.connections.tenants import Tenant
from ash_server.store.statements import statements
from ash_shared.model.reports.retention import HeldReason, RetentionKeep

_LEASE_SECONDS = 600
"""A process that ends during a run keeps others from the policy for at most this long."""

SQL = statements(__file__)


class RetentionBusy(AshError):
    status, code, title = 409, "retention_busy", "Another process is applying the policy; try again later."


class StoredPolicy(NamedTuple):
    age: str
    keep: list[RetentionKeep]
    set_at: datetime
    checked_at: datetime | None
    waiting: int
    held: HeldReason | None


class Schedule(NamedTuple):
    sessions: int
    next_due_at: datetime | None


async def get_policy(conn: AsyncConnection, tenant: Tenant) -> StoredPolicy | None:
    async with conn.cursor(row_factory=class_row(StoredPolicy)) as cursor:
        return await (await cursor.execute(SQL.get_policy, [tenant.number])).fetchone()


async def set_policy(
    conn: AsyncConnection,
    tenant: Tenant,
    age: str,
    keep: Sequence[RetentionKeep],
    *,
    key_id: UUID | None = None,
) -> None:
    """Set the policy instead of an earlier one. Its first run by a server only reports."""
    async with conn.transaction():
        await conn.execute(SQL.set_policy, [tenant.number, age, list(keep)])
        await record(conn, tenant, key_id, "retention.set", age)


async def delete_policy(conn: AsyncConnection, tenant: Tenant, *, key_id: UUID | None = None) -> bool:
    """Delete the policy, and keep the sessions that it has scheduled. False if there was none."""
    async with conn.transaction():
        await conn.execute(SQL.unschedule_all, [tenant.number])
        is_deleted = bool((await conn.execute(SQL.delete_policy, [tenant.number])).rowcount)
        if is_deleted:
            await record(conn, tenant, key_id, "retention.off")
    return is_deleted


async def list_policy_tenants(conn: AsyncConnection) -> list[Tenant]:
    """Return the tenants that have a policy."""
    async with conn.cursor(row_factory=class_row(Tenant)) as cursor:
        return await (await cursor.execute(SQL.list_tenants)).fetchall()


async def get_database_time(conn: AsyncConnection) -> datetime:
    row = await (await conn.execute(SQL.now)).fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


async def extend_lease(conn: AsyncConnection, tenant: Tenant, *, is_own: bool = False) -> None:
    """Keep other processes from running the policy for some minutes. Raises RetentionBusy if one does."""
    params = {"tenant": tenant.number, "seconds": _LEASE_SECONDS, "is_own": is_own}
    if not (await conn.execute(SQL.extend_lease, params)).rowcount:
        raise RetentionBusy


async def end_lease(conn: AsyncConnection, tenant: Tenant) -> None:
    await conn.execute(SQL.end_lease, [tenant.number])


async def save_run(
    conn: AsyncConnection,
    tenant: Tenant,
    set_at: datetime,
    now: datetime,
    *,
    waiting: int = 0,
    held: HeldReason | None = None,
) -> None:
    """Save the result of a run, unless another policy was set after `set_at`: its first run only reports."""
    params = {"tenant": tenant.number, "set_at": set_at, "now": now, "waiting": waiting, "held": held}
    await conn.execute(SQL.save_run, params)


async def list_scheduled(conn: AsyncConnection, tenant: Tenant) -> dict[UUID, datetime]:
    """Return the scheduled sessions, each with the time of its deletion."""
    return dict(await (await conn.execute(SQL.list_scheduled, [tenant.number])).fetchall())


async def count_scheduled(conn: AsyncConnection, tenant: Tenant) -> Schedule:
    row = await (await conn.execute(SQL.count_scheduled, [tenant.number])).fetchone()
    assert row is not None
    return Schedule(*row)


async def list_next_scheduled(conn: AsyncConnection, tenant: Tenant, limit: int) -> list[UUID]:
    """Return the scheduled sessions that are deleted first."""
    return [id for (id,) in await (await conn.execute(SQL.list_next, [tenant.number, limit])).fetchall()]


async def schedule(conn: AsyncConnection, tenant: Tenant, ids: Sequence[UUID], due_at: datetime) -> None:
    await conn.execute(SQL.schedule, [tenant.number, due_at, list(ids)])


async def unschedule(conn: AsyncConnection, tenant: Tenant, ids: Sequence[UUID]) -> None:
    await conn.execute(SQL.unschedule, [tenant.number, list(ids)])


async def record_run(conn: AsyncConnection, tenant: Tenant, *, key_id: UUID | None = None) -> None:
    """Add to the audit log that a person ran the policy."""
    await record(conn, tenant, key_id, "retention.run")


async def record_expired(
    conn: AsyncConnection, tenant: Tenant, session_id: UUID, *, key_id: UUID | None = None
) -> None:
    """Add the deletion of a scheduled session to the audit log."""
    async with conn.transaction():
        await unschedule(conn, tenant, [session_id])
        await record(conn, tenant, key_id, "session.delete", str(session_id))


async def list_shared(conn: AsyncConnection, tenant: Tenant) -> set[UUID]:
    """Return the sessions with valid links."""
    return {id for (id,) in await (await conn.execute(SQL.list_shared, [tenant.number])).fetchall()}


class RetentionStore(Resource):
    """Not restricted to a tenant, like `KeyStore`."""

    get_policy = administer(get_policy)
    set_policy = administer(set_policy)
    delete_policy = administer(delete_policy)
    list_tenants = administer(list_policy_tenants)
    get_database_time = administer(get_database_time)
    extend_lease = administer(extend_lease)
    end_lease = administer(end_lease)
    save_run = administer(save_run)
    list_scheduled = administer(list_scheduled)
    count_scheduled = administer(count_scheduled)
    list_next_scheduled = administer(list_next_scheduled)
    schedule = administer(schedule)
    unschedule = administer(unschedule)
    record_run = administer(record_run)
    record_expired = administer(record_expired)
    list_shared = administer(list_shared)
