"""uvicorn's HTTP/1 protocol with header limits, timeouts, problem documents, and HTTP/1.0 without chunks.

With httptools, uvicorn has no header limit. It has no timeouts for headers and bodies, and returns its own errors as
plain text.
"""

import asyncio
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ash_server.api.http.problems import MEDIA_TYPE, encode_problem
from ash_server.errors import AshError, BodyTimeout, HeadersTimeout, HeadersTooLarge, InvalidRequest

MAX_HEADER_BYTES = 64 * 1024
"""Limit for the request line and all headers together."""
HEADER_TIMEOUT_SECONDS = 10.0
"""Time for the whole header of a request, and for the first byte of a connection."""
BODY_TIMEOUT_SECONDS = 30.0
"""Time for the whole request body, even if the application does not read it or has already responded."""
_LINGER_SECONDS = 2.0


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._is_in_header = True
        self._is_in_body = False
        self._received = self._parsed = 0
        """Bytes of the header that were received before its end, and of its complete lines."""
        self._error: AshError = InvalidRequest()
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_body_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self._is_in_header:
            self._received += len(data)
            if self._received > MAX_HEADER_BYTES:
                self._refuse(HeadersTooLarge())
        elif self._is_in_body and self._body_timer is None:  # incomplete, unlike most bodies
            self._start_body_timer()

    def handle_websocket_upgrade(self) -> None:
        self._is_in_body = False
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_header, self._received, self._parsed = True, 0, 0
        if self._header_timer is None:
            self._start_timer()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._is_in_header, self._is_in_body = False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_body = False
        self._stop_body_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn if the parser or one of its callbacks fails."""
        self._refuse(self._error)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle.scope["http_version"] == "1.0":
            app = partial(_without_chunks, cycle, app)
        super()._start_asgi_task(cycle, app)

    def _count(self, size: int) -> None:
        """Raise an error, which ends the parsing, if the header is too large."""
        self._parsed += size
        if self._parsed > MAX_HEADER_BYTES:
            self._error = HeadersTooLarge()
            raise self._error

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(HEADER_TIMEOUT_SECONDS, self._end_header_time)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _end_header_time(self) -> None:
        """Refuse an incomplete header. Close connections without a request, which browsers open in advance."""
        if self._received:
            self._refuse(HeadersTimeout())
        elif not self.transport.is_closing():
            self.transport.close()

    def _start_body_timer(self) -> None:
        self._body_timer = self.loop.call_later(BODY_TIMEOUT_SECONDS, self._end_body_time)

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _end_body_time(self) -> None:
        """Refuse a request with an incomplete body, or close the connection if it was already answered."""
        cycle: RequestResponseCycle = self.cycle
        if self.flow.read_paused:  # the application is slow, not the client
            self._start_body_timer()
        elif cycle.response_started:
            self.transport.close()
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            self._refuse(BodyTimeout(f"It took longer than {BODY_TIMEOUT_SECONDS:g} seconds."))

    def _refuse(self, error: AshError) -> None:
        """Answer with a problem document, and close the connection."""
        if self._is_refused or self.transport.is_closing():
            return
        self._stop_timer()
        self._stop_body_timer()
        body = encode_problem(error)
        headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), "connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(STATUS_LINE[error.status] + lines.encode() + b"\r\n" + body)
        self._close_after_answer()

    def _close_after_answer(self) -> None:
        """Close at once if a response is being sent; otherwise discard the rest of the request first.

        A connection that is closed with unread data is reset, and the client loses the answer.
        """
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not (cycle.response_complete or cycle.disconnected):
            self.transport.close()
            return
        self._is_refused = True
        self.transport.write_eof()
        self._header_timer = self.loop.call_later(_LINGER_SECONDS, self.transport.close)


async def _without_chunks(cycle: RequestResponseCycle, app: Any, scope: Any, receive: Any, send: Any) -> None:
    """Run the application for a client of HTTP/1.0: a response of unknown length ends with the connection."""
    is_of_unknown_length = False

    async def send_unchunked(message: Any) -> None:
        nonlocal is_of_unknown_length
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            is_of_unknown_length = b"content-length" not in names
            cycle.chunked_encoding = False if is_of_unknown_length else None
        elif is_of_unknown_length:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    await app(scope, receive, send_unchunked)
