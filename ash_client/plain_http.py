"""HTTP/1.1 without TLS for the asynchronous client.

A request takes a fifth of the CPU time of httpx2's own transport, which has several layers, and sends the headers and
the body separately.
"""

import asyncio
import re
import select
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_MAX_HEADER_BYTES = 256 * 1024
_RECEIVED_BYTES = 256 * 1024
_JOINED_BYTES = 64 * 1024
"""A body up to this size is sent together with the headers."""
_FORBIDDEN = re.compile(rb"[\r\n\0]")
_FINAL_STATUS = 200
"""Responses below this one are informational: another one follows."""


class PlainTransport(httpx2.AsyncBaseTransport):
    """Keeps idle connections open for `keepalive` seconds. Not for HEAD requests and proxies."""

    def __init__(self, keepalive: float) -> None:
        self._keepalive = keepalive
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        timeouts: Mapping[str, float | None] = request.extensions.get("timeout", {})
        head, body = _head(request), await request.aread()
        connection = self._take() or await _connect(request.url, timeouts.get("connect"))
        try:
            await connection.send(head, body, timeouts)
            while not connection.has_headers:
                await connection.receive(timeouts.get("read"))
        except BaseException:
            connection.close()
            raise
        stream: httpx2.AsyncByteStream
        if connection.is_complete:
            stream = httpx2.ByteStream(b"".join(connection.pieces))
            self.release(connection)
        else:
            stream = _Stream(self, connection, timeouts.get("read"))
        return httpx2.Response(connection.status, headers=connection.headers, stream=stream)

    def release(self, connection: "_Connection") -> None:
        """Keep a connection for another request, or close it."""
        if self._is_closed or not connection.is_reusable:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    async def aclose(self) -> None:
        self._is_closed = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take(self) -> "_Connection | None":
        """Return the last used connection that is open. Closes those that were idle for too long."""
        oldest = time.monotonic() - self._keepalive
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.pop(0).close()
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is loop and not connection.is_readable():
                connection.prepare()
                return connection
            connection.close()
        return None


class _Connection:
    """A connection, and the response that it receives: httptools calls the methods `on_…`."""

    def __init__(self, sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self._socket = sock
        self._parser = HttpResponseParser(self)
        self.prepare()

    def prepare(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.status = 0
        self.has_headers = self.is_complete = self.is_reusable = False
        self._header_bytes = 0

    def is_readable(self) -> bool:
        """True if the server has closed the idle connection, or sent something without a request."""
        poll = getattr(select, "poll", None)
        if poll is None:  # Windows
            return bool(select.select([self._socket], [], [], 0)[0])
        poller = poll()
        poller.register(self._socket, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        self._socket.close()

    async def send(self, head: bytes, body: bytes, timeouts: Mapping[str, float | None]) -> None:
        """Raises WriteError, unless the server has responded before it closed the connection."""
        try:
            async with asyncio.timeout(timeouts.get("write")):
                if len(body) <= _JOINED_BYTES:
                    await self.loop.sock_sendall(self._socket, head + body)
                else:
                    await self.loop.sock_sendall(self._socket, head)
                    await self.loop.sock_sendall(self._socket, body)
        except TimeoutError as error:
            raise httpx2.WriteTimeout(str(error)) from error
        except OSError as error:
            try:
                await self.receive(timeouts.get("read"))
            except httpx2.TransportError:
                raise httpx2.WriteError(str(error)) from error

    async def receive(self, seconds: float | None) -> None:
        """Read the next part of the response. Raises ReadError, ReadTimeout, RemoteProtocolError."""
        try:
            async with asyncio.timeout(seconds):
                received = await self.loop.sock_recv(self._socket, _RECEIVED_BYTES)
        except TimeoutError as error:
            raise httpx2.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpx2.ReadError(str(error)) from error
        if not received:
            self._end()
            return
        try:
            self._parser.feed_data(received)
        except (HttpParserError, HttpParserUpgrade) as error:
            raise httpx2.RemoteProtocolError(str(error)) from error
        if not self.has_headers:
            self._header_bytes += len(received)
            if self._header_bytes > _MAX_HEADER_BYTES:
                raise httpx2.RemoteProtocolError("The headers of the response are too large.")

    def _end(self) -> None:
        """Handle the end of the connection, which also ends a body without a length."""
        if not self.has_headers:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        names = {name.lower() for name, _ in self.headers}
        if not names.isdisjoint((b"content-length", b"transfer-encoding")):
            raise httpx2.RemoteProtocolError("peer closed connection without sending complete message body")
        self.is_complete = True

    def on_message_begin(self) -> None:
        if self.is_complete:  # more than the response
            self.is_reusable = False
        else:
            self.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_headers:  # otherwise a trailer
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if not self.has_headers:
            self.status = self._parser.get_status_code()
            self.has_headers = self.status >= _FINAL_STATUS

    def on_body(self, piece: bytes) -> None:
        if not self.is_complete:
            self.pieces.append(piece)

    def on_message_complete(self) -> None:
        if self.has_headers and not self.is_complete:
            self.is_complete = True
            self.is_reusable = self._parser.should_keep_alive()


class _Stream(httpx2.AsyncByteStream):
    """The rest of a response that did not arrive at once."""

    def __init__(self, transport: PlainTransport, connection: _Connection, seconds: float | None) -> None:
        self._transport = transport
        self._connection: _Connection | None = connection
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        connection = self._connection
        if connection is None:
            return
        while True:
            pieces, connection.pieces = connection.pieces, []
            for piece in pieces:
                yield piece
            if connection.is_complete:
                return
            await connection.receive(self._seconds)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.release(connection)


def _head(request: httpx2.Request) -> bytes:
    """Raises LocalProtocolError for a header that would end the line."""
    fields = [(request.method.encode("ascii"), request.url.raw_path), *request.headers.raw]
    if _FORBIDDEN.search(b"".join(part for field in fields for part in field)):
        raise httpx2.LocalProtocolError("Illegal header value")
    (method, path), *headers = fields
    lines = [method + b" " + path + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
    return b"\r\n".join((*lines, b"", b""))


async def _connect(url: httpx2.URL, seconds: float | None) -> _Connection:
    """Raises ConnectError, ConnectTimeout."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            return _Connection(await _open(loop, url.raw_host.decode("ascii"), url.port or 80), loop)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except OSError as error:
        raise httpx2.ConnectError(str(error)) from error


async def _open(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Connect to the first address of the host that answers. Raises OSError."""
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await _addresses(loop, host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[Any, ...]]:
    try:  # without a thread
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
