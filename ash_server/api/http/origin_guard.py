"""Who may ask: the defences of a server that answers everyone on this machine against pages from elsewhere.

A page whose name was pointed at 127.0.0.1 (DNS rebinding) is found out by its Host header, a page that sends a
form or a script's request across origins by its Origin header.
"""

import re
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.types import Guard

from ash_server.api.http.headers import header
from ash_server.errors import HostNotAllowed, OriginNotAllowed
from ash_server.settings import Settings, is_loopback

AnyConnection = ASGIConnection[Any, Any, Any, Any]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@\s]+)(?::\d*)?")
_ORIGIN = re.compile(rf"https?://({_AUTHORITY.pattern})")


def admission(settings: Settings) -> Guard:
    """Bound to this machine alone, the server answers to its own names only; elsewhere it cannot know them all.

    Guards are coroutines because the framework would send functions to a thread.
    """
    names = _LOOPBACK | {settings.host, f"[{settings.host}]"} if is_loopback(settings.host) else None

    async def admit(connection: AnyConnection, _: BaseRouteHandler) -> None:
        if names is not None and _host_name(_host(connection)) not in names:
            raise HostNotAllowed("Ask for localhost, 127.0.0.1 or the host that Ash was told to listen on.")
        if connection.scope.get("method") not in _SAFE_METHODS:  # a WebSocket has none
            await admit_own_origin(connection, _)

    return admit


async def admit_own_origin(connection: AnyConnection, _: BaseRouteHandler) -> None:
    """Also for what changes nothing: browsers let every page open a WebSocket, and keep a stream open for long."""
    if not _own_origin(connection):
        raise OriginNotAllowed("The Origin header names another site.")


def _host(connection: AnyConnection) -> str:
    return (header(connection.headers, "host") or "").lower()


def _host_name(authority: str) -> str | None:
    found = _AUTHORITY.fullmatch(authority)
    return found[1] if found else None


def _own_origin(connection: AnyConnection) -> bool:
    """Requests without an Origin do not come from a page."""
    origin = header(connection.headers, "origin")
    if origin is None:
        return True
    found = _ORIGIN.fullmatch(origin.lower())
    return found is not None and (found[1] == _host(connection) or found[2] in _LOOPBACK)
