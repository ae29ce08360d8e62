"""Links that show one session without a key. Functions accept a connection of the owner.

The secret of a link is not stored, only its HMAC.
"""

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.errors import AshError, ShareRefused
from ash_server.store.access.keys import has_keys, record
from ash_server.store.borrowed import Resource, administer
from ash_server.store.connections.tenants import Tenant
from ash_server.store.statements import statements
from ash_shared.model.session import Session

MAX_SHARES = 100
"""Valid links of a session."""

SQL = statements(__file__)


class SessionEnd(NamedTuple):
    """The last sequences of a session, and the last event that a rebuild dropped."""

    message: int
    event: int
    dropped_event: int


class ShareNotFound(AshError):
    """The same for unknown, expired and revoked links, and links to deleted sessions."""

    status, code, title = 404, "share_not_found", "The link is invalid, revoked or expired."


class StoredShare(NamedTuple):
    id: UUID
    tenant: Tenant
    session_id: UUID
    session_created_at: datetime
    """Another session with the same id is not the shared one."""
    title_digest: bytes
    """The digest of the title when it was shared: a deleted title is not kept."""
    last_message: int | None
    """None: also later messages."""
    last_event: int
    last_dropped_event: int
    with_subagents: bool
    redacts: bool
    key_id: UUID | None
    created_at: datetime
    expires_at: datetime
    digest: bytes


class ShareToCreate(NamedTuple):
    id: UUID
    digest: bytes
    expires_at: datetime
    follows: bool
    with_subagents: bool
    redacts: bool


async def create_share(
    conn: AsyncConnection,
    tenant: Tenant,
    session: Session,
    end: SessionEnd,
    new: ShareToCreate,
    *,
    key_id: UUID | None = None,
) -> StoredShare:
    """Share a session. Raises ShareRefused while there is no key, and above MAX_SHARES."""
    if not await has_keys(conn):
        raise ShareRefused(
            "Create a key first, with `ash keys create`: until then the server has no secrets."
        )
    if len(await list_shares(conn, tenant, session)) >= MAX_SHARES:
        raise ShareRefused(f"A session has at most {MAX_SHARES} links: revoke one first.")
    values = [
        new.id,
        tenant.number,
        new.digest,
        session.id,
        session.created_at,
        title_digest(new.id, session.title),
        None if new.follows else end.message,
        end.event,
        end.dropped_event,
        new.with_subagents,
        new.redacts,
        key_id,
        new.expires_at,
    ]
    async with conn.transaction():
        await conn.execute(SQL.create_share, values)
        await record(conn, tenant, key_id, "share.create", f"{session.id}/{new.id}")
    return await get_share(conn, new.id)


def title_digest(share_id: UUID, title: str | None) -> bytes:
    return sha256(f"{share_id}/{title}".encode("utf-8", "surrogatepass")).digest()


async def get_share(conn: AsyncConnection, share_id: UUID) -> StoredShare:
    """Raises ShareNotFound."""
    row = await (await conn.execute(SQL.get_share, [share_id])).fetchone()
    if row is None:
        raise ShareNotFound
    return _to_share(row)


async def list_shares(conn: AsyncConnection, tenant: Tenant, session: Session) -> list[StoredShare]:
    """Return the valid links of a session, newest first."""
    cursor = await conn.execute(SQL.list_shares, [tenant.number, session.id, session.created_at])
    return [_to_share(row) for row in await cursor.fetchall()]


async def revoke_share(
    conn: AsyncConnection, tenant: Tenant, session_id: UUID, share_id: UUID, *, key_id: UUID | None = None
) -> None:
    """Raises ShareNotFound."""
    async with conn.transaction():
        if not (await conn.execute(SQL.revoke_share, [share_id, tenant.number, session_id])).rowcount:
            raise ShareNotFound
        await record(conn, tenant, key_id, "share.revoke", f"{session_id}/{share_id}")


async def record_opening(conn: AsyncConnection, share: StoredShare) -> None:
    """Add to the audit log that a link was opened."""
    await record(conn, share.tenant, None, "share.open", f"{share.session_id}/{share.id}")


def _to_share(row: Sequence[Any]) -> StoredShare:
    id, number, tenant_id, tenant, *others = row
    return StoredShare(id, Tenant(number, tenant_id, tenant), *others)


class ShareStore(Resource):
    """Not restricted to a tenant: the server finds the tenant by the link."""

    create = administer(create_share)
    get = administer(get_share)
    list_shares = administer(list_shares)
    revoke = administer(revoke_share)
    record_opening = administer(record_opening)
