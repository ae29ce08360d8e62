"""Tools for agents that read sessions, served over HTTP with the Model Context Protocol, without its sessions."""

import asyncio
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2
from litestar import Controller, Request, post
from litestar.types import ASGIApp, Receive, Scope
from litestar.types import Send as SendMessage

from ash_client import requests as client_requests
from ash_client.errors import answer_error
from ash_server.api.http.guards.access import needs
from ash_server.api.http.redaction import PARAMETER, is_redacted

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_ADDRESS = "http://127.0.0.1"

_http: ContextVar[httpx2.AsyncClient] = ContextVar("http")
"""Sends requests to the API in the same process, with the key of the current request."""


class McpController(Controller):
    path = "/mcp"
    include_in_schema = False

    @post(opt=needs("read"), status_code=200)
    async def answer(self, request: Request[Any, Any, Any]) -> ASGIApp:
        """Answer one message of the protocol. The tools send requests to the API, which checks the key again."""
        key = request.headers.get("authorization")
        headers = {} if key is None else {"Authorization": key}
        params = {PARAMETER: "1"} if is_redacted(request.scope) else {}
        api = httpx2.ASGITransport(app=request.app, raise_app_exceptions=False)  # type: ignore[arg-type]

        async def answer(scope: Scope, receive: Receive, send: SendMessage) -> None:
            manager, protocol = _new_protocol(await asyncio.to_thread(_tool_server))
            async with (
                httpx2.AsyncClient(transport=api, base_url=_ADDRESS, headers=headers, params=params) as http,
                manager.run(),
            ):
                _http.set(http)
                await protocol(scope, receive, send)

        return answer


def _new_protocol(server: "Server[Any]") -> "tuple[StreamableHTTPSessionManager, Any]":
    """Return the manager and the ASGI application for one message. The route's guards check Host and Origin."""
    from mcp.server.transport_security import TransportSecuritySettings

    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    protocol = server.streamable_http_app(
        stateless_http=True, json_response=True, transport_security=unchecked
    )
    return server.session_manager, protocol  # the server only keeps the manager of the last message


@cache
def _tool_server() -> "Server[Any]":
    # Imported with the first message, in a thread: it takes a second.
    from ash_server.history_tools import create_server

    return create_server(_send)


async def _send(request: client_requests.Request[str]) -> str:
    response = await _http.get().get(request.path, params=request.params)
    if response.is_error:
        raise answer_error(response.status_code, response.headers, response.content)
    return request.answer(response.content)
