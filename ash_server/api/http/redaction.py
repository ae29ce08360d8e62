"""Responses and streams without tokens, keys and passwords: with `?redact=1`, and for keys created with `--redact`."""

import asyncio
from urllib.parse import parse_qsl

from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ash_server.api.http.access import shows_redacted
from ash_server.api.http.streaming import EVENT_STREAM
from ash_server.redaction import RedactedStream, redact

PARAMETER = "redact"
VALUES = {"1": True, "true": True, "0": False, "false": False}

_MAX_INLINE = 16 * 1024
"""Bytes or characters; longer texts are redacted in a thread."""


class Redaction(ASGIMiddleware):
    """Redacts whatever a route sends, so that no route can forget to.

    A secret that the agent wrote in several chunks is found in the complete text, but not in the events of its chunks.
    """

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        stream: RedactedStream | None = None

        async def send_redacted(message: Message) -> None:
            nonlocal stream
            if message["type"] == "http.response.start" and is_redacted(scope):
                headers = MutableScopeHeaders.from_message(message)
                headers.pop("content-length", None)
                # An event is on one line, and must not wait for the next one.
                has_keys_on_one_line = headers.get("content-type", "").startswith(EVENT_STREAM)
                stream = RedactedStream(has_keys_on_one_line=has_keys_on_one_line)
            elif message["type"] == "http.response.body" and stream is not None:
                message["body"] = await _redact_body(
                    stream, message.get("body", b""), message.get("more_body", False)
                )
            elif message["type"] == "websocket.send" and is_redacted(scope):
                message["text"] = await _redact_text(message["text"] or "")
            await send(message)

        await next_app(scope, receive, send_redacted)


def is_redacted(scope: Scope) -> bool:
    """True if the request asks for it, or its key shows nothing else."""
    return shows_redacted(scope) or _is_requested(scope["query_string"])


def _is_requested(query: bytes) -> bool:
    pairs = parse_qsl(query.decode("latin-1")) if query else ()
    return any(name == PARAMETER and VALUES.get(value) for name, value in pairs)


async def _redact_body(stream: RedactedStream, body: bytes, more: bool) -> bytes:
    if len(body) + stream.pending_bytes < _MAX_INLINE:
        return stream.add(body, more=more)
    return await asyncio.to_thread(stream.add, body, more=more)


async def _redact_text(text: str) -> str:
    return redact(text) if len(text) < _MAX_INLINE else await asyncio.to_thread(redact, text)
