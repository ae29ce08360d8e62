"""Keys of clients, sign-ins of browsers with a key, and the log of what keys did.

The texts of keys and cookies are not stored, only their HMAC. Functions take a connection of the owner.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.errors import DiskFull, UniqueViolation
from psycopg.rows import args_row
from pydantic import Field

from ash_server.errors import AshError, InvalidParameter
from ash_server.ids import named_uuid7, uuid7
from ash_server.store.borrowed import Resource, administer
from ash_server.store.connections.tenants import DEFAULT, Tenant, get_or_create_tenant
from ash_server.store.statements import statements
from ash_shared.model.base import ABSENT, AshModel, Omittable

KeyScope = Literal["read", "write", "delete", "share", "admin"]
SCOPES: tuple[KeyScope, ...] = get_args(KeyScope)

_MAX_NAME = 100

SQL = statements(__file__)


class KeyExists(AshError):
    status, code, title = 409, "key_exists", "The tenant has a key with this name."


class CodeInvalid(AshError):
    """Also raised for codes of keys that are no longer valid, so that clients cannot distinguish the cases."""

    status, code, title = 404, "code_invalid", "The code is invalid, used or expired."


class Key(NamedTuple):
    """A key, without its text."""

    id: UUID
    tenant: Tenant
    name: str
    prefix: str
    scopes: frozenset[KeyScope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    redacts: bool
    """Everything is shown without tokens, keys and passwords."""


class NewKey(NamedTuple):
    name: str
    prefix: str
    """The first characters of its text."""
    digest: bytes
    scopes: Sequence[KeyScope]
    expires_at: datetime | None
    redacts: bool = False


class AuditEntry(AshModel):
    """An action with a key, or of a command on the database."""

    id: UUID
    at: datetime
    tenant: str
    """The name of the tenant."""
    key: Omittable[str] = ABSENT
    """The name of the key; absent for commands on the database, refused sign-ins, opened links, and what the
    server does by itself."""
    key_prefix: Omittable[str] = Field(default=ABSENT, alias="keyPrefix")
    """The first characters of the key."""
    action: str
    """`session.create`, `session.rename`, `session.label`, `session.delete`, `session.export`, `message.delete`,
    `key.create`, `key.revoke`, `sign_in`, `sign_in.code`, `sign_out`, `sign_in.refused`, `budget.set`, `budget.delete`,
    `webhook.delivered`, `webhook.failed`, `share.create`, `share.revoke`, `share.open`, `retention.set`,
    `retention.off` or `retention.run`."""
    target: Omittable[str] = ABSENT
    """The id of the session, key or budget, `SESSION/SEQUENCE` of a message, `SESSION/SHARE` of a link, or the address
    of a refused client; the age of a retention policy."""
    count: Omittable[int] = ABSENT
    """The number of refused sign-ins from the address within a minute; only for `sign_in.refused`."""


class AuditPage(AshModel):
    """Entries of the audit log, newest first."""

    audit: list[AuditEntry]
    next_before: Omittable[UUID] = Field(default=ABSENT, alias="nextBefore")
    """The `before` of the next page; absent on the last page."""


async def create_key(conn: AsyncConnection, tenant: str, new: NewKey) -> UUID:
    """Create a key, and its tenant if that is new, and return the id. Raises InvalidParameter, KeyExists."""
    if not (0 < len(new.name) <= _MAX_NAME and new.name.isprintable()):
        raise InvalidParameter(f"the name of a key has 1 to {_MAX_NAME} printable characters")
    if not new.scopes or not set(new.scopes) <= set(SCOPES):
        raise InvalidParameter(f"the scopes of a key are one or several of {', '.join(SCOPES)}")
    owner = await get_or_create_tenant(conn, tenant)
    id, scopes = uuid7(), sorted(set(new.scopes), key=SCOPES.index)
    async with conn.transaction():
        values = [id, owner.number, new.name, new.prefix, new.digest, scopes, new.expires_at, new.redacts]
        try:
            await conn.execute(SQL.create_key, values)
        except UniqueViolation:
            raise KeyExists(f"the tenant {owner.name} has a key {new.name!r}; revoke it first") from None
        await record(conn, owner, None, "key.create", str(id))
    return id


async def list_keys(conn: AsyncConnection) -> list[Key]:
    """Return the keys of all tenants, revoked ones last."""
    return [_to_key(row) for row in await (await conn.execute(SQL.list_keys)).fetchall()]


async def has_keys(conn: AsyncConnection) -> bool:
    """True if a key was ever created, even if all are revoked."""
    row = await (await conn.execute(SQL.has_keys)).fetchone()
    return bool(row and row[0])


async def find_key(conn: AsyncConnection, digest: bytes, *, is_cookie: bool = False) -> Key | None:
    """Return the active key with this digest, or the key of the sign-in with this digest."""
    row = await (
        await conn.execute(SQL.find_signed_in_key if is_cookie else SQL.find_key, [digest])
    ).fetchone()
    if row is None:
        return None
    key = _to_key(row)
    with suppress(DiskFull):  # reads must not fail
        await conn.execute(SQL.mark_used, [key.id])
    return key


async def revoke_key(conn: AsyncConnection, key: Key) -> None:
    """Revoke a key, and end the sign-ins with it."""
    async with conn.transaction():
        if (await conn.execute(SQL.revoke_key, [key.id])).rowcount:
            await conn.execute(SQL.end_sign_ins, [key.id])
            await conn.execute(SQL.end_codes, [key.id])
            await record(conn, key.tenant, None, "key.revoke", str(key.id))


async def sign_in(conn: AsyncConnection, key: Key, digest: bytes, expires_at: datetime) -> None:
    """Store a sign-in of a browser by the digest of its cookie."""
    async with conn.transaction():
        await conn.execute(SQL.sign_in, [digest, key.id, expires_at, None])
        await record(conn, key.tenant, key.id, "sign_in")


async def create_code(conn: AsyncConnection, key: Key, digest: bytes, expires_at: datetime) -> None:
    """Store a code that signs a browser in once, by its digest. An earlier code of the key is no longer valid."""
    async with conn.transaction():
        await conn.execute(SQL.end_codes, [key.id])
        await conn.execute(SQL.create_code, [digest, key.id, expires_at])
        await record(conn, key.tenant, key.id, "sign_in.code")


async def sign_in_with_code(
    conn: AsyncConnection, code: bytes, digest: bytes, expires_at: datetime, scopes: Sequence[KeyScope]
) -> None:
    """Sign a browser in by the digest of a code, which is then no longer valid. Raises CodeInvalid."""
    async with conn.transaction():
        used = await (await conn.execute(SQL.take_code, [code])).fetchone()
        row = await (await conn.execute(SQL.get_key, [used[0]])).fetchone() if used else None
        if row is not None:
            key = _to_key(row)
            allowed = [scope for scope in scopes if scope in key.scopes]
            await conn.execute(SQL.sign_in, [digest, key.id, expires_at, allowed])
            await record(conn, key.tenant, key.id, "sign_in")
    if row is None:  # after the transaction, so that a used code stays deleted
        raise CodeInvalid


async def sign_out(conn: AsyncConnection, key: Key, digest: bytes) -> None:
    """End the sign-in with this digest."""
    async with conn.transaction():
        await conn.execute(SQL.sign_out, [digest])
        await record(conn, key.tenant, key.id, "sign_out")


async def record(
    conn: AsyncConnection, tenant: Tenant, key_id: UUID | None, action: str, target: str | None = None
) -> None:
    """Add an entry to the audit log."""
    await conn.execute(SQL.record, [uuid7(), tenant.number, key_id, action, target])


async def record_refused_sign_in(conn: AsyncConnection, address: str, minute: int) -> None:
    """Count a refused sign-in in the audit log of the default tenant: one entry per address and minute."""
    id = named_uuid7(minute * 60_000, address)
    await conn.execute(SQL.record_refused_sign_in, [id, DEFAULT.number, address])


async def record_use(conn: AsyncConnection, key: Key, action: str, target: str | None = None) -> None:
    """Add to the audit log what was done with a key."""
    await record(conn, key.tenant, key.id, action, target)


async def record_uses(conn: AsyncConnection, key: Key, action: str, targets: Sequence[str]) -> None:
    """Add to the audit log what was done with a key to each target."""
    ids = [uuid7() for _ in targets]
    await conn.execute(SQL.record_uses, [key.tenant.number, key.id, action, ids, list(targets)])


async def list_audit(
    conn: AsyncConnection, tenant: Tenant | None, *, before: UUID | None = None, limit: int = 100
) -> AuditPage:
    """Return a page of the entries of a tenant, or of all, newest first."""
    params = {
        "tenant": tenant and tenant.number,
        "before": before or UUID(int=2**128 - 1),
        "limit": limit + 1,
    }
    async with conn.cursor(row_factory=args_row(_to_entry)) as cursor:
        entries = await (await cursor.execute(SQL.list_audit, params)).fetchall()
    page = entries[:limit]
    return AuditPage(audit=page, nextBefore=page[-1].id if len(entries) > limit else None)


def _to_key(row: Sequence[Any]) -> Key:
    id, number, tenant_id, tenant, name, prefix, scopes, *others = row
    return Key(id, Tenant(number, tenant_id, tenant), name, prefix, frozenset(scopes), *others)


def _to_entry(*values: Any) -> AuditEntry:
    names = ("id", "at", "tenant", "key", "key_prefix", "action", "target", "count")
    return AuditEntry(**{name: value for name, value in zip(names, values, strict=True) if value is not None})


class KeyStore(Resource):
    """Not restricted to a tenant: for the server, which finds the tenant by the key, and for commands."""

    create = administer(create_key)
    list_keys = administer(list_keys)
    has_keys = administer(has_keys)
    find = administer(find_key)
    revoke = administer(revoke_key)
    sign_in = administer(sign_in)
    sign_out = administer(sign_out)
    create_code = administer(create_code)
    sign_in_with_code = administer(sign_in_with_code)
    record = administer(record_use)
    record_each = administer(record_uses)
    record_refused_sign_in = administer(record_refused_sign_in)
    list_audit = administer(list_audit)
