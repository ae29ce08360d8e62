"""`ash mcp`: tools for agents to read the stored sessions."""

import asyncio
from typing import TYPE_CHECKING, Any, Self

import rich_click as click

from ash_client import AsyncAshClient, Retry
from ash_server.cli.common.client import default_url, key_for
from ash_server.cli.common.options import url_option

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_RETRY_SECONDS = 2.0
"""An agent waits for the result of its call."""


@click.command("mcp")
@url_option
def command(*, url: str | None) -> None:
    """Serve tools for agents to search and read the sessions.

    They speak the Model Context Protocol on standard input and output. The server is ASH_URL, with the key ASH_KEY or
    the saved key of this server; it has the same tools at the path /mcp.

    \b
    claude mcp add ash -- ash mcp
    """
    asyncio.run(_serve(url))


async def _serve(url: str | None) -> None:
    # Imported when needed: it takes a second.
    from mcp.server.stdio import stdio_server

    from ash_server.history_tools import create_server

    address = url or default_url()
    retry = Retry(_RETRY_SECONDS)
    async with (
        AsyncAshClient(address, key_for(address), retry=retry) as server,
        stdio_server() as (read, write),
    ):
        tools, requests = create_server(server.send), _OpenRequests()
        options = tools.create_initialization_options()
        await tools.run(_Received(read, requests), _Sent(write, requests), options)


class _OpenRequests:
    """The ids of unanswered requests."""

    def __init__(self) -> None:
        self._ids = set[Any]()
        self._are_answered = asyncio.Event()

    def note(self, message: "SessionMessage | Exception") -> None:
        """Record a message from the client."""
        received = getattr(message, "message", None)
        method, id = getattr(received, "method", None), getattr(received, "id", None)
        if method == "notifications/cancelled":  # never answered
            self._ids.discard((getattr(received, "params", None) or {}).get("requestId"))
        elif method is not None and id is not None:
            self._ids.add(id)

    def note_answer(self, message: "SessionMessage") -> None:
        answer = message.message
        if getattr(answer, "method", None) is None:
            self._ids.discard(getattr(answer, "id", None))
        if not self._ids:
            self._are_answered.set()

    async def wait(self) -> None:
        """Wait until all requests are answered."""
        while self._ids:
            self._are_answered.clear()
            await self._are_answered.wait()


class _Stream:
    """Wraps a stream of the library to observe its messages."""

    def __init__(self, stream: Any, requests: _OpenRequests) -> None:
        self._stream = stream
        self._requests = requests

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        ended: bool | None = await self._stream.__aexit__(*error)
        return ended


class _Received(_Stream):
    """The messages from the client. They end only after all requests are answered, because the library then cancels
    running ones."""

    async def receive(self) -> "SessionMessage | Exception":
        from anyio import EndOfStream

        try:
            message: SessionMessage | Exception = await self._stream.receive()
        except EndOfStream:
            await self._requests.wait()
            raise
        self._requests.note(message)
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        from anyio import EndOfStream

        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None


class _Sent(_Stream):
    """The messages to the client."""

    async def send(self, message: "SessionMessage") -> None:
        await self._stream.send(message)
        self._requests.note_answer(message)
