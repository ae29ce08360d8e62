"""Policies of archiving, and the archives of sessions."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

from ash_server.errors import AshError
from ash_server.store.access.keys import record
from ash_server.store.borrowed import Resource, administer, change, read, write
from ash_server.store.cold.archiving import (
    archive_session,
    count_cold,
    list_archivable,
    list_changed_cold,
    list_cold,
    sum_archives,
    verify_archive,
)
from ash_server.store.connections.restoring import restore_session
from ash_server.store.connections.tenants import Tenant
from ash_server.store.statements import statements

_LEASE_SECONDS = 600
"""A process that ends during a run keeps others from the policy for at most this long."""

SQL = statements(__file__)


class ColdBusy(AshError):
    status, code, title = 409, "cold_busy", "Another process is archiving sessions; try again later."


class StoredColdPolicy(NamedTuple):
    age: str
    set_at: datetime
    checked_at: datetime | None


async def get_policy(conn: AsyncConnection, tenant: Tenant) -> StoredColdPolicy | None:
    async with conn.cursor(row_factory=class_row(StoredColdPolicy)) as cursor:
        return await (await cursor.execute(SQL.get_policy, [tenant.number])).fetchone()


async def set_policy(conn: AsyncConnection, tenant: Tenant, age: str, *, key_id: UUID | None = None) -> None:
    """Set the policy instead of an earlier one."""
    async with conn.transaction():
        await conn.execute(SQL.set_policy, [tenant.number, age])
        await record(conn, tenant, key_id, "cold.set", age)


async def delete_policy(conn: AsyncConnection, tenant: Tenant, *, key_id: UUID | None = None) -> bool:
    """Delete the policy. Cold sessions stay cold. False if there was none."""
    async with conn.transaction():
        is_deleted = bool((await conn.execute(SQL.delete_policy, [tenant.number])).rowcount)
        if is_deleted:
            await record(conn, tenant, key_id, "cold.off")
    return is_deleted


async def extend_lease(conn: AsyncConnection, tenant: Tenant, *, is_own: bool = False) -> None:
    """Keep other processes from running the policy for some minutes. Raises ColdBusy if one does."""
    params = {"tenant": tenant.number, "seconds": _LEASE_SECONDS, "is_own": is_own}
    if not (await conn.execute(SQL.extend_lease, params)).rowcount:
        raise ColdBusy


async def end_lease(conn: AsyncConnection, tenant: Tenant) -> None:
    await conn.execute(SQL.end_lease, [tenant.number])


async def save_run(conn: AsyncConnection, tenant: Tenant, set_at: datetime, now: datetime) -> None:
    await conn.execute(SQL.save_run, {"tenant": tenant.number, "set_at": set_at, "now": now})


async def restore(conn: AsyncConnection, session_id: UUID) -> bool:
    """Move the texts of a session back from its archive. False if it is not cold. Raises ArchiveDamaged."""
    return await restore_session(conn, session_id)


class ColdStore(Resource):
    """Archives of sessions, and the policies of tenants."""

    get_policy = administer(get_policy)
    set_policy = administer(set_policy)
    delete_policy = administer(delete_policy)
    extend_lease = administer(extend_lease)
    end_lease = administer(end_lease)
    save_run = administer(save_run)
    list_archivable = read(list_archivable)
    list_changed = read(list_changed_cold)
    list_cold = read(list_cold)
    count = read(count_cold)
    sum_archives = read(sum_archives)
    archive = change(archive_session)
    restore = write(restore)
    verify = read(verify_archive)
