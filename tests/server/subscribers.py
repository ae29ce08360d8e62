"""Clients that subscribe to a session, reconnect, and record the events they receive."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from ash_server.store.connections.pool import connect as connect_to_database
from ash_server.store.log.events import get_events_since
from tests.waiting import TIMEOUT

EventIds = list[tuple[int, str]]
"""Sequences and ids."""


class Subscriber:
    """Reconnects until it is cancelled."""

    def __init__(self, address: str, session_id: UUID, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        self.events: EventIds = []
        self.other_events: list[tuple[str, Any]] = []
        """Control events and topics."""
        self.connections = 0
        self._is_connected = False
        self._received = asyncio.Condition()
        self._url = f"{address}/api/sessions/{session_id}/events"
        self._connection: asyncio.Task[None] | None = None

    @property
    def after(self) -> int:
        return self.events[-1][0] if self.events else 0

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
        """Drop the connection if there is one: cancelling while it connects would leave its socket open."""
        if self._connection and self._is_connected:
            self._connection.cancel()

    async def wait_for_sequence(self, sequence: int) -> None:
        async with self._received:
            await self._received.wait_for(lambda: self.after >= sequence)

    async def wait_for_event(self, name: str) -> Any:
        """Wait for a control event or topic and return its latest data."""
        async with self._received:
            await self._received.wait_for(lambda: name in dict(self.other_events))
        return dict(self.other_events)[name]

    async def _try(self) -> None:
        try:
            await self._read()
        except (httpx2.HTTPError, WebSocketException, OSError, ConnectionError):
            await asyncio.sleep(0.05)

    def _connect(self) -> None:
        self.connections += 1
        self._is_connected = True

    async def _append(self, log: list[Any], entry: Any) -> None:
        log.append(entry)
        async with self._received:
            self._received.notify_all()

    async def _read(self) -> None:
        raise NotImplementedError


class SseSubscriber(Subscriber):
    """Uses server-sent events."""

    async def _read(self) -> None:
        headers = {"Last-Event-ID": str(self.after), **self._headers}
        async with (
            httpx2.AsyncClient(timeout=httpx2.Timeout(TIMEOUT, read=None)) as client,
            client.stream("GET", f"{self._url}/stream", headers=headers) as answer,
        ):
            answer.raise_for_status()
            self._connect()
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                fields[name] = value
                if not line:
                    await self._handle(fields)
                    fields = {}

    async def _handle(self, fields: dict[str, str]) -> None:
        if "id" in fields:
            event = json.loads(fields["data"])
            assert (int(fields["id"]), fields["event"]) == (event["sequence"], event["type"])
            await self._append(self.events, (event["sequence"], event["id"]))
        elif "event" in fields:
            await self._append(self.other_events, (fields["event"], json.loads(fields["data"])))


class WebSocketSubscriber(Subscriber):
    """Uses a WebSocket."""

    async def _read(self) -> None:
        url = f"ws{self._url.removeprefix('http')}/ws?after={self.after}"
        options: Any = {"max_size": None, "open_timeout": TIMEOUT, "close_timeout": 0.1}
        async with connect(url, additional_headers=self._headers, **options) as socket:
            self._connect()
            async for frame in socket:
                message = json.loads(frame)
                if message["type"] == "event":
                    await self._append(self.events, (message["data"]["sequence"], message["data"]["id"]))
                else:
                    await self._append(
                        self.other_events, (message["type"].rpartition(".")[2], message["data"])
                    )


@asynccontextmanager
async def running(*subscribers: Subscriber) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in subscribers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def stored_events(url: str, session_id: UUID) -> EventIds:
    """Return the events a subscriber from the start must receive."""
    events: EventIds = []
    async with await connect_to_database(url) as conn:
        while page := await get_events_since(conn, session_id, events[-1][0] if events else 0):
            events += [(each.sequence, json.loads(each.content)["id"]) for each in page]
    return events
