"""Request ids, and a log entry for each request, without ids or contents of messages."""

import logging
import re
import time
from contextvars import ContextVar
from uuid import uuid4

from litestar.datastructures import MutableScopeHeaders
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request: that of its header, else a new one."""

_VALID_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")

_log = logging.getLogger(__name__)


class RequestLog(ASGIMiddleware):
    """Adds the id to the response and, once it is sent, logs the request with its duration.

    Wraps the whole application, because unknown paths are rejected outside of the routes.
    """

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        started, status = time.perf_counter(), 500
        id = _id_of(scope)
        token = request_id.set(id)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableScopeHeaders.from_message(message)[HEADER] = id
            await send(message)

        try:
            await next_app(scope, receive, send_with_id)
        finally:
            if _log.isEnabledFor(logging.INFO):
                _log.info("request", extra=_entry(scope, status, time.perf_counter() - started))
            request_id.reset(token)


def _id_of(scope: Scope) -> str:
    """Return the id of a proxy or client, so that its log entries can be matched with these."""
    values = [value for name, value in scope["headers"] if name == b"x-request-id"]
    is_valid = len(values) == 1 and _VALID_ID.fullmatch(values[0])
    return values[0].decode() if is_valid else uuid4().hex


def _entry(scope: Scope, status: int, seconds: float) -> dict[str, object]:
    """Return the fields of the log entry. The path is logged as its template, since it may contain ids."""
    return {
        "method": scope.get("method"),
        "route": scope.get("path_template"),
        "status": status,
        "milliseconds": round(seconds * 1000, 1),
    }
