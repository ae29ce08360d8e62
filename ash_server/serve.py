"""The HTTP server: a port that is taken before anything else starts, and an end that waits for nobody long."""

import asyncio
import errno
import json
import socket
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from types import FrameType

import uvicorn
from litestar import Litestar

from ash_server.errors import AshError

_GRACE_SECONDS = 2


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
    )
    _Server(config, on_ready).run(sockets=[listener])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Clients that take their answer too slowly lose it, as if they had gone: handlers know how to end then."""
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._hang_up)
        await super().shutdown(sockets)

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
    connection = HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/openapi.json")
        return bool(json.load(connection.getresponse())["info"]["title"] == "Ash")
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return False
    finally:
        connection.close()
