"""The HTTP server: a port that is taken before anything else starts, and an end that waits for nobody long."""

import asyncio
import errno
import json
import logging
import socket
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from types import FrameType
from typing import Any, NamedTuple

import uvicorn
from litestar import Litestar

from ash_server.errors import AshError
from ash_server.live.hub import BEAT, FOLLOWS, LARGEST_FRAME

_GRACE_SECONDS = 1
_STALLED_SECONDS = 10
"""A follower that takes nothing of what it is sent for so long has its connection ended."""


class AddressUnavailable(AshError):
    status, code, title = 500, "address_unavailable", "Ash cannot listen on this address."


def listen(host: str, port: int) -> socket.socket:
    """Raises AddressUnavailable. Who connects before the server is ready is kept waiting."""
    try:
        return socket.create_server((host, port), family=_family(host))
    except OSError as error:
        raise AddressUnavailable(_reason(error, host, port)) from error


def address(listener: socket.socket) -> str:
    """As a browser on this machine would name it."""
    host, port = listener.getsockname()[:2]
    return _url({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)


def serve(app: Litestar, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Returns once the process was told to stop (SIGINT or SIGTERM)."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2 * _GRACE_SECONDS,  # what then still runs waits for no client
        ws_max_size=LARGEST_FRAME,
        ws_ping_interval=BEAT,
        ws_per_message_deflate=False,  # a window of memory for each client, and time for each of them
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_refused_upgrade)
    _Server(config, on_ready, lambda: app.state.hub.stop()).run(sockets=[listener])


class _Untaken(NamedTuple):
    """What waits for a client that does not take it."""

    size: int
    since: float


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._untaken: dict[Any, _Untaken] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Clients that take their answer too slowly lose it, as if they had gone: handlers know how to end then."""
        self._on_stop()
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._hang_up)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second."""
        if counter % 10 == 0:
            self._drop_stalled(time.monotonic())
        return await super().on_tick(counter)

    def _drop_stalled(self, now: float) -> None:
        """Followers alone: they come back with their cursor, whereas a download that is cut is lost."""
        untaken = {}
        for connection in filter(_is_followed_on, self.server_state.connections):
            known = self._untaken.get(connection)
            size = connection.transport.get_write_buffer_size()
            untaken[connection] = known if known and known.size == size else _Untaken(size, now)
        self._untaken = {each: waits for each, waits in untaken.items() if waits.size}
        for connection, waits in self._untaken.items():
            if now - waits.since >= _STALLED_SECONDS:
                connection.transport.abort()

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets answers that are under way end, the second does not.

        uvicorn waits for open connections before it tells the application that it ends: whoever keeps some open
        has to be told here. It would also raise the signal anew at the end; to stop when told is no failure.
        """
        self.force_exit = self.should_exit
        self.should_exit = True


def _is_no_refused_upgrade(record: logging.LogRecord) -> bool:
    """uvicorn takes an upgrade that was refused with an answer for one that was not answered."""
    return record.msg != "ASGI callable returned without completing handshake."


def _is_followed_on(connection: Any) -> bool:
    return FOLLOWS in (getattr(connection, "scope", None) or ())


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _reason(error: OSError, host: str, port: int) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {host} port {port}: {(error.strerror or str(error)).partition(' (')[0]}"
    if _is_ash(host, port):
        running = _url(host, port)
        return f"Ash runs already at {running}; for another one choose another port, for example ASH_PORT={port + 1}"
    return f"port {port} is taken by another program; choose another one, for example ASH_PORT={port + 1}"


def _is_ash(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=3)
    try:
        connection.request("GET", "/api/")  # nothing is there, which Ash says in words of its own
        return bool(json.load(connection.getresponse())["type"].startswith("urn:ash:"))
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return False
    finally:
        connection.close()
