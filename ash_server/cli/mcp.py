"""`ash mcp`: tools with which agents read the stored sessions."""

import asyncio

import rich_click as click

from ash_client import AsyncAshClient, Retry
from ash_server.cli.client import default_url, key_for
from ash_server.cli.options import url_option

_RETRY_SECONDS = 2.0
"""An agent waits for the result of its call."""


@click.command("mcp")
@url_option
def command(*, url: str | None) -> None:
    """Serve tools with which agents search and read the sessions.

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
        tools = create_server(server.send)
        await tools.run(read, write, tools.create_initialization_options())
