"""Problem responses for rejected WebSocket upgrades."""

import sys
from typing import Any

from litestar import Request, Response
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ash_server.api.http.headers import add_default_headers
from ash_server.api.http.problems import HANDLERS


class WebSocketErrors(ASGIMiddleware):
    """Responds to a rejected upgrade with the same problem response as to a request; the framework would send 403.

    Wraps the whole application, because unknown paths are rejected outside of the routes.
    """

    scopes = (ScopeType.WEBSOCKET,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        is_accepted = False

        async def send_or_reject(message: Message) -> None:
            nonlocal is_accepted
            error = sys.exc_info()[1]  # the framework closes the socket while it handles the exception
            can_respond = not is_accepted and "websocket.http.response" in (scope.get("extensions") or {})
            if message["type"] == "websocket.close" and can_respond and isinstance(error, Exception):
                await _send_problem(error, scope, receive, send)
            else:
                is_accepted = is_accepted or message["type"] == "websocket.accept"
                await send(message)

        await next_app(scope, receive, send_or_reject)


async def _send_problem(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    http_scope: Any = {**scope, "type": "http", "method": "GET"}
    request: Request[Any, Any, Any] = Request(http_scope)
    handler: Any = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    response: Response[Any] = handler(request, error)

    async def send_as_websocket(message: Message) -> None:
        await add_default_headers(message, http_scope)
        await send({**message, "type": f"websocket.{message['type']}"})  # type: ignore[arg-type]

    await response.to_asgi_response(app=None, request=request)(http_scope, receive, send_as_websocket)
