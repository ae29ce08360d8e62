"""Responses and streams without tokens, keys and passwords: with `?redact=1`, and for keys created with `--redact`."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl

from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ash_server.api.http.bodies import NDJSON
from ash_server.api.http.guards.access import shows_redacted
from ash_server.api.http.streaming import EVENT_STREAM
from ash_server.errors import InvalidParameter
from ash_server.redaction import MAX_INLINE, RedactedLines, redact, redact_text

PARAMETER = "redact"
VALUES = {"1": True, "true": True, "0": False, "false": False}

REDACTED_NAME = ".redacted"
"""Part of the names of redacted files."""

_IS_REDACTED = "ash.is_redacted"

Parameter = TypeVar("Parameter", str, str | None)


class Redaction(ASGIMiddleware):
    """Redacts whatever a route sends, so that no route can forget to.

    Routes that cut, escape or encode texts redact them first, because the remains of a secret are not recognized here.
    """

    scopes = (ScopeType.HTTP, ScopeType.WEBSOCKET)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        body: _Body | None = None

        async def send_redacted(message: Message) -> None:
            nonlocal body
            if message["type"] == "http.response.start" and is_redacted(scope) and not _is_done(scope):
                headers = MutableScopeHeaders.from_message(message)
                headers.pop("content-length", None)
                body = _Body(has_lines=headers.get("content-type", "").startswith(_TYPES_WITH_LINES))
            elif message["type"] == "http.response.body" and body is not None:
                message["body"] = await body.add(message.get("body", b""), message.get("more_body", False))
            elif message["type"] == "websocket.send" and is_redacted(scope):
                message["text"] = await _offload(redact_text, message["text"] or "")
            await send(message)

        await next_app(scope, receive, send_redacted)


_TYPES_WITH_LINES = (EVENT_STREAM, NDJSON)


class _Body:
    """The body of a response. Lines are redacted as they are sent, any other body when it is complete."""

    def __init__(self, *, has_lines: bool) -> None:
        self._lines = RedactedLines() if has_lines else None
        self._pieces = bytearray()

    async def add(self, piece: bytes, more: bool) -> bytes:
        """Return the next redacted part, which may be empty."""
        if self._lines is not None:
            is_small = len(piece) + self._lines.pending_bytes < MAX_INLINE
            add = partial(self._lines.add, piece, more=more)
            return add() if is_small else await asyncio.to_thread(add)
        self._pieces += piece
        if more:
            return b""
        text = self._pieces.decode("utf-8", "surrogateescape")
        return (await _offload(redact_text, text)).encode("utf-8", "surrogateescape")


async def _offload(edit: Callable[[str], str], text: str) -> str:
    return edit(text) if len(text) < MAX_INLINE else await asyncio.to_thread(edit, text)


def is_redacted(scope: Scope) -> bool:
    """True if the request or its key requires redaction. A request with an invalid parameter is also redacted."""
    try:
        return shows_redacted(scope) or check_parameter(scope)
    except InvalidParameter:
        return True


def check_parameter(scope: Scope) -> bool:
    """Return the value of the parameter, on every route. Raises InvalidParameter."""
    query = scope["query_string"]
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else ()
    values = [value if name == PARAMETER else "" for name, value in pairs if name.casefold() == PARAMETER]
    if not values:
        return False
    if len(values) > 1 or values[0] not in VALUES:
        message = "is repeated" if len(values) > 1 else "must be 0 or 1"
        raise InvalidParameter(
            f"{PARAMETER!r} {message}.", errors=[{"path": PARAMETER, "message": f"It {message}."}]
        )
    return VALUES[values[0]]


def compared(scope: Scope, text: Parameter) -> Parameter:
    """Redact a text that is compared for equality with stored texts, so that a text with a secret matches nothing.

    Words and prefixes are compared with redacted texts instead (`SessionFilter.redact`, `SearchFilter.redact`), because
    a client could otherwise guess a secret character by character.
    """
    return redact(text) if text and is_redacted(scope) else text


def compared_all(scope: Scope, texts: Sequence[str] | None) -> list[str] | None:
    """Like `compared`, for a parameter with several values."""
    return None if texts is None else [compared(scope, text) for text in texts]


def mark_as_redacted(scope: Scope) -> None:
    """Send the response unchanged, because it is built from redacted texts and may be too large to redact here."""
    scope[_IS_REDACTED] = True  # type: ignore[literal-required]


def _is_done(scope: Scope) -> bool:
    return bool(scope.get(_IS_REDACTED))
