"""Streaming responses and subscriptions."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import Response
from litestar.response import Stream
from litestar.types import Scope

from ash_server.errors import AshError

EVENT_STREAM = "text/event-stream"
SSE_HEADERS = {"X-Accel-Buffering": "no"}
SSE_RETRY = b"retry: 1000\n\n"
"""Browsers reconnect after this many milliseconds."""

MAX_CLIENT_FRAME_BYTES = 1024
"""WebSocket clients have nothing to send but pings."""

FindRefusal = Callable[[], Awaitable[AshError | None]]
"""Returns the error that ends a stream if its client may no longer read, otherwise None."""

_MIN_CHUNK_BYTES = 64 * 1024
_SUBSCRIPTION = "ash.subscription"


def mark_as_subscription(scope: Scope) -> None:
    """Allow the server to disconnect this client if it does not read: it can resume from its cursor."""
    scope[_SUBSCRIPTION] = True  # type: ignore[literal-required]


def is_subscription(scope: Scope | None) -> bool:
    return _SUBSCRIPTION in (scope or ())


def closed_event(reason: AshError, **fields: int) -> bytes:
    """Return the last event of a stream, with the reason for its end."""
    data = {**fields, "code": reason.code, "detail": reason.detail}
    return b"event: closed\ndata: %b\n\n" % msgspec.json.encode(data)


async def buffered(texts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Join small texts into chunks of a reasonable size; yields at least one chunk."""
    chunk = bytearray()
    async with aclosing(texts):
        async for text in texts:
            chunk += text
            if len(chunk) >= _MIN_CHUNK_BYTES:
                yield bytes(chunk)
                chunk.clear()
    yield bytes(chunk)


async def start_stream(chunks: AsyncGenerator[bytes, None], **options: Any) -> Stream:
    """Return the response once the first chunk is ready: an error before that becomes a problem response."""
    first = await anext(chunks)
    return Stream(_prepend(first, chunks), **options)


async def start_response(chunks: AsyncGenerator[bytes, None], *, media_type: str) -> Response[bytes] | Stream:
    """Return a `buffered` body whole if it has one chunk, otherwise as a stream. Errors before that as above."""
    first = await anext(chunks)
    if len(first) < _MIN_CHUNK_BYTES:
        return Response(first, media_type=media_type)
    return Stream(_prepend(first, chunks), media_type=media_type)


async def _prepend(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk
