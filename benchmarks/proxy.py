"""A proxy that distributes TCP connections to several servers."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class RoundRobinProxy:
    """Sends each connection to the next server that accepts it, while entered (`async with`)."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._next = 0
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy both directions until one side closes."""
        writers = [writer]
        with suppress(OSError):
            server_reader, server_writer = await self._connect()
            writers.append(server_writer)
            copies = [
                asyncio.create_task(each)
                for each in (_copy(reader, server_writer), _copy(server_reader, writer))
            ]
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
        for each in writers:
            each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the next server. Raises ConnectionRefusedError if none accepts."""
        for _ in self._addresses:
            address = urlsplit(self._addresses[self._next % len(self._addresses)])
            self._next += 1
            with suppress(ConnectionError):
                return await asyncio.open_connection(address.hostname, address.port)
        raise ConnectionRefusedError


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    writer.close()
