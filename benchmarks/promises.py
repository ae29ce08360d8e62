"""Promises to the writers and readers of a session, and how often each is broken."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from ash_client import ApiError, AsyncAshClient
from benchmarks.deployment import Deployment

_SETTLE_SECONDS = 180

EventIds = list[tuple[int, str]]
"""Sequences and ids."""


@dataclass(eq=False)
class Log:
    """A session, and the texts of its writers."""

    tenant: str
    id: UUID
    acknowledged: dict[str, int | None] = field(default_factory=dict)
    """The sequences of texts; None for the lines of a file: the writer never learns their sequences."""
    path: Path | None = None
    """The file that is pushed into the session."""


class Counts(NamedTuple):
    acknowledged: int = 0
    lost: int = 0
    """Acknowledged texts that are missing or have another sequence."""
    altered: int = 0
    """Stored texts that nobody sent, and exports that differ from their file."""
    gaps: int = 0
    duplicates: int = 0
    delivered: int = 0
    """Events that readers received."""
    missed: int = 0
    disordered: int = 0
    leaked: int = 0
    """Answers that reveal the session to another tenant."""

    def __or__(self, other: "Counts") -> "Counts":
        return Counts(*map(sum, zip(self, other, strict=True)))

    def broken(self) -> list[str]:
        """Return the broken promises."""
        numbers = self._asdict()
        return [name for name, number in numbers.items() if number and name not in _NOT_PROMISES]


_NOT_PROMISES = ("acknowledged", "delivered")


class Reader:
    """Follows a session, across lost connections, and records its events."""

    def __init__(self, deployment: Deployment, client: AsyncAshClient, log: Log) -> None:
        self.log = log
        self.events: EventIds = []
        self._deployment = deployment
        self._client = client

    async def wait_for(self, sequence: int) -> None:
        while not self.events or self.events[-1][0] < sequence:  # noqa: ASYNC110  # polls a list
            await asyncio.sleep(0.05)

    async def run(self) -> None:
        """Follow with the Python client, over server-sent events."""
        async for event in self._client.follow(self.log.id):
            self.events.append((event.sequence or 0, event.id))


class WebSocketReader(Reader):
    async def run(self) -> None:
        while True:
            with suppress(WebSocketException, OSError, TimeoutError):
                await self._read()
            await asyncio.sleep(0.2)

    async def _read(self) -> None:
        after = self.events[-1][0] if self.events else 0
        address = self._deployment.address.removeprefix("http")
        url = f"ws{address}/api/sessions/{self.log.id}/events/ws?after={after}"
        key = {"Authorization": f"Bearer {self._deployment.keys[self.log.tenant]}"}
        async with connect(
            url, additional_headers=key, max_size=None, close_timeout=0.1, proxy=None
        ) as socket:
            async for frame in socket:
                message = json.loads(frame)
                if message["type"] == "event":
                    self.events.append((message["data"]["sequence"], message["data"]["id"]))


async def check(client: AsyncAshClient, log: Log, readers: Sequence[Reader]) -> Counts:
    """Compare a session with the texts of its writers, and the events of its readers with the session."""
    stored = [each async for each in client.messages(log.id, parsed=False)]
    events = [(each.sequence or 0, each.id) async for each in client.events(log.id)]
    sequences = {each.content or "": each.sequence for each in stored}
    with suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            await asyncio.gather(*(reader.wait_for(len(events)) for reader in readers))
    return Counts(
        acknowledged=len(log.acknowledged),
        lost=sum(
            text not in sequences or sequence not in (None, sequences[text])
            for text, sequence in log.acknowledged.items()
        ),
        altered=len(sequences.keys() - log.acknowledged.keys()) + await _differs(client, log),
        gaps=_gaps([each.sequence for each in stored]) + _gaps([sequence for sequence, _ in events]),
        duplicates=len(stored) - len(sequences) + _repeated([id for _, id in events]),
        delivered=sum(len(reader.events) for reader in readers),
        missed=sum(len(set(events) - set(reader.events)) for reader in readers),
        disordered=sum(later <= earlier for reader in readers for earlier, later in pairwise(reader.events)),
    )


async def _differs(client: AsyncAshClient, log: Log) -> bool:
    """True if the export is not the pushed file."""
    if log.path is None:
        return False
    async with asyncio.timeout(_SETTLE_SECONDS):
        return await _export(client, log) != log.path.read_bytes()


async def _export(client: AsyncAshClient, log: Log) -> bytes:
    """Repeat the export while the server opens its connections again: the client does not."""
    while True:
        try:
            return b"".join([chunk async for chunk in client.export(log.id)])
        except ApiError as error:
            if error.status != 503:
                raise
            await asyncio.sleep(0.2)


def _gaps(sequences: list[int]) -> int:
    return max(sequences, default=0) - len(set(sequences))


def _repeated(ids: list[str]) -> int:
    return sum(times - 1 for times in Counter(ids).values())
