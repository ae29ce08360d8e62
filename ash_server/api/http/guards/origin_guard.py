"""Protection against web pages of other sites, since the server asks local clients for no credentials.

DNS rebinding (a foreign name that resolves to 127.0.0.1) is detected by the Host header; forms and scripts of other
origins by the Origin header.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from litestar.config.cors import CORSConfig
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from ash_server.api.http.headers import get_header
from ash_server.errors import HostNotAllowed, OriginNotAllowed
from ash_server.settings import Settings, is_loopback

AnyConnection = ASGIConnection[Any, Any, Any, Any]
AsyncGuard = Callable[[AnyConnection, BaseRouteHandler], Awaitable[None]]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::\d*)?")
_ORIGIN = re.compile(rf"https?://({_AUTHORITY.pattern})")


def cors_config(settings: Settings) -> CORSConfig | None:
    """Return the CORS headers for the sites in ASH_CORS_ORIGINS. Their pages send a key, never the cookie."""
    if not settings.cors_origins:
        return None
    return CORSConfig(
        allow_origins=list(settings.cors_origins),
        allow_methods=["DELETE", "GET", "HEAD", "PATCH", "POST"],
        allow_headers=[
            "Ash-Sequence",
            "Authorization",
            "Content-Type",
            "If-None-Match",
            "Last-Event-ID",
            "X-Request-Id",
        ],
        expose_headers=["ETag", "Link", "Retry-After", "X-Request-Id"],
    )


def origin_guard(settings: Settings) -> AsyncGuard:
    """Return the guard of all routes.

    Host names are checked if the server listens on a loopback address, or knows the address of its proxy.

    Guards are coroutines because the framework runs plain functions in a thread.
    """
    names = _own_names(settings) if is_loopback(settings.host) or settings.public_url else None

    async def check_host_and_origin(connection: AnyConnection, handler: BaseRouteHandler) -> None:
        if names is not None and _host_name(_host(connection)) not in names:
            raise HostNotAllowed("Use localhost, 127.0.0.1, the host that Ash listens on or ASH_PUBLIC_URL.")
        if connection.scope.get("method") not in _SAFE_METHODS:  # a WebSocket has no method
            await check_origin(connection, handler)

    return check_host_and_origin


async def check_origin(connection: AnyConnection, _: BaseRouteHandler) -> None:
    """Reject requests from other sites' pages. Also guards subscriptions, which browsers let any page open."""
    if not (_has_own_origin(connection) or _has_listed_origin(connection)):
        raise OriginNotAllowed("The Origin header names another site.")


def has_same_origin(connection: AnyConnection) -> bool:
    """True if the Origin header names the address of the request itself."""
    match = _ORIGIN.fullmatch((get_header(connection.headers, "origin") or "").lower())
    return match is not None and match[1] == _host(connection)


def _own_names(settings: Settings) -> frozenset[str]:
    hosts = (settings.host, settings.public_host or settings.host)
    return _LOOPBACK.union(hosts, (f"[{host}]" for host in hosts))


def _host(connection: AnyConnection) -> str:
    return (get_header(connection.headers, "host") or "").lower()


def _host_name(authority: str) -> str | None:
    match = _AUTHORITY.fullmatch(authority)
    return match[1] if match else None


def _has_listed_origin(connection: AnyConnection) -> bool:
    """True for a request, but not for a WebSocket, of a page in ASH_CORS_ORIGINS."""
    settings: Settings = connection.app.state.settings
    is_websocket = "method" not in connection.scope
    return not is_websocket and get_header(connection.headers, "origin") in settings.cors_origins


def _has_own_origin(connection: AnyConnection) -> bool:
    """True without an Origin header: such requests do not come from a page."""
    origin = get_header(connection.headers, "origin")
    if origin is None:
        return True
    match = _ORIGIN.fullmatch(origin.lower())
    return match is not None and (match[1] == _host(connection) or match[2] in _LOOPBACK)
