"""Keys and scopes of requests: every route needs a key unless it is marked as public."""

import asyncio
import time
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Network, ip_address

from litestar.handlers import BaseRouteHandler
from litestar.types import Scope as RequestScope

from ash_server.api.http.guards.origin_guard import AnyConnection, has_same_origin
from ash_server.api.http.guards.rate_limit import RateLimit
from ash_server.api.http.headers import get_header
from ash_server.errors import AshError, DatabaseUnavailable, OriginNotAllowed, ScopeMissing
from ash_server.keys.ring import Client, KeyRing
from ash_server.store.access.keys import SCOPES, KeyScope
from ash_server.store.connections.tenants import DEFAULT

PUBLIC = {"public": True}
"""Route option of health checks, static files, and signing in and out."""

WITHOUT_DATABASE = {"without_database": True}
"""Option of routes that respond while the database is unavailable, to keys that were valid before."""

COOKIE, SECURE_COOKIE = "ash_session", "__Host-ash_session"

_RECALL_AFTER_SECONDS = 1.0

_SCOPES = "scopes"
_CLIENT = "ash.client"
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def needs(*scopes: KeyScope) -> dict[str, tuple[KeyScope, ...]]:
    """Return the route option for scopes other than the default, which is `read` for GET and `write` otherwise."""
    return {_SCOPES: scopes}


async def check_key(connection: AnyConnection, handler: BaseRouteHandler) -> None:
    """Guard of all routes. Raises KeyRequired, KeyInvalid, RateLimited, ScopeMissing, OriginNotAllowed."""
    if PUBLIC.items() <= handler.opt.items():
        return
    recalls = WITHOUT_DATABASE.items() <= handler.opt.items()
    client = await (_identify_or_recall if recalls else identify)(connection)
    rate_limit: RateLimit | None = connection.app.state.rate_limit
    if rate_limit is not None and client.key is not None:
        rate_limit.take(client.key.id, time.monotonic())
    method = connection.scope.get("method")
    is_websocket = method is None
    if client.is_browser and method not in _READ_METHODS:
        _check_same_origin(connection)
    default: KeyScope = "read" if is_websocket or method in _READ_METHODS else "write"
    _check_scopes(client, handler.opt.get(_SCOPES, (default,)))
    connection.scope[_CLIENT] = client  # type: ignore[literal-required]


def _check_scopes(client: Client, needed: Sequence[KeyScope]) -> None:
    """Raises ScopeMissing with the command that creates a sufficient key."""
    missing = [scope for scope in needed if scope not in client.scopes]
    if missing:
        names = ("scopes " if len(missing) > 1 else "scope ") + " and ".join(
            f"`{scope}`" for scope in missing
        )
        scopes = ",".join(scope for scope in SCOPES if scope in client.scopes.union(missing))
        tenant = "" if client.tenant == DEFAULT else f" --tenant {client.tenant.name}"
        raise ScopeMissing(
            f"This key has no {names}; create one with `ash keys create NAME{tenant} --scopes {scopes}`."
        )


def _check_same_origin(connection: AnyConnection) -> None:
    """Reject requests that pages of other sites or ports make the browser send with the cookie."""
    if not has_same_origin(connection):
        raise OriginNotAllowed("Requests with a cookie need the Origin of this server.")


async def identify(connection: AnyConnection) -> Client:
    """Return the client that sends the request. Raises KeyRequired, KeyInvalid."""
    key_ring: KeyRing = connection.app.state.key_ring
    key = _bearer_key(connection)
    return await key_ring.identify(key, session_cookie(connection) if key is None else None)


async def _identify_or_recall(connection: AnyConnection) -> Client:
    try:
        async with asyncio.timeout(_RECALL_AFTER_SECONDS):
            return await identify(connection)
    except (DatabaseUnavailable, TimeoutError) as error:
        key_ring: KeyRing = connection.app.state.key_ring
        key = _bearer_key(connection)
        client = key_ring.recall(key, session_cookie(connection) if key is None else None)
        if client is None:
            raise DatabaseUnavailable from error
        return client


def client_of(scope: RequestScope) -> Client:
    """Return the client that the guard identified. Fails for public routes."""
    client: Client = scope[_CLIENT]  # type: ignore[literal-required]
    return client


def may_read(scope: RequestScope) -> bool:
    """True if the key of the request has the scope `read`."""
    return "read" in client_of(scope).scopes


def shows_redacted(scope: RequestScope) -> bool:
    """True if the key of the request shows everything redacted."""
    client: Client | None = scope.get(_CLIENT)  # type: ignore[assignment]  # none for public routes
    return client is not None and client.key is not None and client.key.redacts


async def find_refusal(connection: AnyConnection) -> AshError | None:
    """Return the error that ends a stream if its client may no longer read, otherwise None."""
    key_ring: KeyRing = connection.app.state.key_ring
    return await key_ring.find_refusal(client_of(connection.scope))


async def record(connection: AnyConnection, action: str, target: object) -> None:
    """Add an action of the request's key to the audit log."""
    if (key := client_of(connection.scope).key) is not None:
        await connection.app.state.store.keys.record(key, action, str(target))


async def record_each(connection: AnyConnection, action: str, targets: Sequence[object]) -> None:
    """Add an action on each target to the audit log."""
    if targets and (key := client_of(connection.scope).key) is not None:
        await connection.app.state.store.keys.record_each(key, action, [*map(str, targets)])


def session_cookie(connection: AnyConnection) -> str | None:
    return connection.cookies.get(SECURE_COOKIE if is_secure(connection) else COOKIE)


def client_address(connection: AnyConnection) -> str:
    """Return the client's IP address, including from `X-Forwarded-For` of a proxy on this machine.

    An IPv6 address is reduced to its /64 network, because a client may use all addresses in it.
    """
    client = connection.scope.get("client")
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Network((int(address), 64), strict=False))


def is_secure(connection: AnyConnection) -> bool:
    """True behind TLS, including a TLS proxy on this machine (`X-Forwarded-Proto`)."""
    return connection.scope["scheme"] in ("https", "wss")


def _bearer_key(connection: AnyConnection) -> str | None:
    """Return the key in the header, empty if the header is malformed, None without a header."""
    authorization = get_header(connection.headers, "authorization")
    if authorization is None:
        return None
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
