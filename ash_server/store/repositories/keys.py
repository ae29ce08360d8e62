"""Keys of clients, sign-ins of browsers, and the audit log, of all tenants."""

from datetime import datetime
from uuid import UUID

from ash_server.store import keys
from ash_server.store.borrowed import Connections
from ash_server.store.connections import tenants
from ash_server.store.connections.tenants import Tenant
from ash_server.store.keys import AuditPage, Key, NewKey


class KeyRepository:
    """Not restricted to a tenant: for the server, which finds the tenant by the key, and for commands."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def create(self, tenant: str, new: NewKey) -> UUID:
        """Create a key, and its tenant if that is new. Raises InvalidParameter, KeyExists."""
        async with self._connections.owner() as conn:
            return await keys.create_key(conn, await tenants.get_or_create_tenant(conn, tenant), new)

    async def list_keys(self) -> list[Key]:
        async with self._connections.owner() as conn:
            return await keys.list_keys(conn)

    async def has_keys(self) -> bool:
        """True if a key was ever created, even if all are revoked."""
        async with self._connections.owner() as conn:
            return await keys.has_keys(conn)

    async def find(self, digest: bytes, *, is_cookie: bool = False) -> Key | None:
        """Return the active key with this digest, or that of the sign-in with this digest."""
        async with self._connections.owner() as conn:
            return await keys.find_key(conn, digest, is_cookie=is_cookie)

    async def revoke(self, key: Key) -> None:
        """Revoke a key, and end the sign-ins with it."""
        async with self._connections.owner() as conn:
            await keys.revoke_key(conn, key)

    async def sign_in(self, key: Key, digest: bytes, expires_at: datetime) -> None:
        async with self._connections.owner() as conn:
            await keys.sign_in(conn, key, digest, expires_at)

    async def sign_out(self, key: Key, digest: bytes) -> None:
        async with self._connections.owner() as conn:
            await keys.sign_out(conn, key, digest)

    async def record(self, key: Key, action: str, target: str | None = None) -> None:
        """Add to the audit log what was done with a key."""
        async with self._connections.owner() as conn:
            await keys.record(conn, key.tenant, key.id, action, target)

    async def record_refused_sign_in(self, address: str, minute: int) -> None:
        """Count a refused sign-in in the audit log of the default tenant: one entry per address and minute."""
        async with self._connections.owner() as conn:
            await keys.record_refused_sign_in(conn, address, minute)

    async def list_audit(
        self, tenant: Tenant | None, *, before: UUID | None = None, limit: int = 100
    ) -> AuditPage:
        """Return a page of the entries of a tenant, or of all, newest first."""
        async with self._connections.owner() as conn:
            return await keys.list_audit(conn, tenant, before=before, limit=limit)
