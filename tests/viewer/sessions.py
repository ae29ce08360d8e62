"""Sessions of the tests' server."""

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx2

Event = dict[str, Any]

_NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass
class Session:
    """A session with events posted before or while its page is open."""

    client: httpx2.AsyncClient
    id: str
    numbers: Any = field(default_factory=lambda: count(1))

    @property
    def address(self) -> str:
        return f"{str(self.client.base_url).rstrip('/')}/sessions/{self.id}"

    async def add_events(self, *events: Event) -> None:
        for start in range(0, len(events), 500):
            body = "\n".join(json.dumps(event) for event in events[start : start + 500])
            await self.post("events", body)

    async def add_log(self, *events: Event) -> None:
        """Add events that were created without a session."""
        own = {"sessionId": self.id}
        await self.add_events(*({**event, **own, "id": f"e{place}"} for place, event in enumerate(events)))

    async def write(self, *lines: Event | str) -> None:
        await self.post(
            "messages", "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
        )

    async def post(self, route: str, body: str) -> None:
        answer = await self.client.post(f"/api/sessions/{self.id}/{route}", content=body, headers=_NDJSON)
        answer.raise_for_status()


async def new_session(client: httpx2.AsyncClient) -> Session:
    created = await client.post("/api/sessions", json={"source": "test", "title": "Paths on Windows"})
    return Session(client, created.json()["id"])
