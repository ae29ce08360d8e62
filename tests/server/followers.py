"""Clients that follow a session, come back whenever they lose their connection, and remember what they were told."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from ash_server.db.connection import connect as connect_to_database
from ash_server.db.events import get_events_since

Told = list[tuple[int, str]]
"""Sequences and ids."""


class Follower:
    """Follows until it is cancelled."""

    def __init__(self, address: str, session_id: UUID) -> None:
        self.told: Told = []
        self.own: list[tuple[str, Any]] = []
        """What the server said of itself, and the topics."""
        self.connections = 0
        self._is_connected = False
        self._news = asyncio.Condition()
        self._url = f"{address}/api/sessions/{session_id}/events"
        self._connection: asyncio.Task[None] | None = None

    @property
    def after(self) -> int:
        return self.told[-1][0] if self.told else 0

    async def run(self) -> None:
        try:
            while True:
                self._connection = asyncio.create_task(self._try())
                await asyncio.wait([self._connection])
                self._is_connected = False
                await asyncio.sleep(0.02)
        finally:
            if self._connection:
                self._connection.cancel()
                await asyncio.wait([self._connection])

    def drop(self) -> None:
        """The connection is lost, if there is one: what is cancelled while it connects leaves its socket open."""
        if self._connection and self._is_connected:
            self._connection.cancel()

    async def reaches(self, sequence: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self.after >= sequence)

    async def hears(self, name: str) -> Any:
        """The data of the last that has this name."""
        async with self._news:
            await self._news.wait_for(lambda: name in dict(self.own))
        return dict(self.own)[name]

    async def _try(self) -> None:
        try:
            await self._read()
        except (httpx.HTTPError, WebSocketException, OSError, ConnectionError):
            await asyncio.sleep(0.05)

    def _connect(self) -> None:
        self.connections += 1
        self._is_connected = True

    async def _tell(self, log: list[Any], entry: Any) -> None:
        log.append(entry)
        async with self._news:
            self._news.notify_all()

    async def _read(self) -> None:
        raise NotImplementedError


class Browser(Follower):
    """Over server-sent events."""

    async def _read(self) -> None:
        headers = {"Last-Event-ID": str(self.after)}
        async with (
            httpx.AsyncClient(timeout=httpx.Timeout(5, read=None)) as client,
            client.stream("GET", f"{self._url}/stream", headers=headers) as answer,
        ):
            answer.raise_for_status()
            self._connect()
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                fields[name] = value
                if not line:
                    await self._hear(fields)
                    fields = {}

    async def _hear(self, fields: dict[str, str]) -> None:
        if "id" in fields:
            event = json.loads(fields["data"])
            assert (int(fields["id"]), fields["event"]) == (event["sequence"], event["type"])
            await self._tell(self.told, (event["sequence"], event["id"]))
        elif "event" in fields:
            await self._tell(self.own, (fields["event"], json.loads(fields["data"])))


class Socket(Follower):
    """Over a WebSocket."""

    async def _read(self) -> None:
        url = f"ws{self._url.removeprefix('http')}/ws?after={self.after}"
        async with connect(url, max_size=None, close_timeout=0.1) as socket:
            self._connect()
            async for frame in socket:
                told = json.loads(frame)
                if told["type"] == "event":
                    await self._tell(self.told, (told["data"]["sequence"], told["data"]["id"]))
                else:
                    await self._tell(self.own, (told["type"].rpartition(".")[2], told["data"]))


@asynccontextmanager
async def following(*followers: Follower) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in followers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def stored(url: str, session_id: UUID) -> Told:
    """What a reader from the beginning has to have been told."""
    found: Told = []
    async with await connect_to_database(url) as conn:
        while events := await get_events_since(conn, session_id, found[-1][0] if found else 0):
            found += [(each.sequence, json.loads(each.content)["id"]) for each in events]
    return found
