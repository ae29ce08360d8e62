"""Large messages do not block the event loop: work on each of their blocks is done in threads.

The work is measured in Python functions called in the thread of the loop, not in time.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest
from httpx2 import ASGITransport, AsyncClient, Response
from litestar import Litestar

from tests.marking import slow_unless
from tests.shared.records import claude

MAX_CALLS = 80_000
"""Per callback of the loop, for the largest texts; about 30 ms."""


def claude_line(blocks: int) -> str:
    content = [{"type": "text", "text": "a"}] * blocks
    return json.dumps(claude.line("assistant", content, {"id": "msg_1"}), separators=(",", ":"))


TEXTS = {
    "40,000 of 120,000 empty lists": (f"[{'[],' * 40_000}[]]", MAX_CALLS // 3),
    "4,300 of 10,000 blocks": (claude_line(4_300), MAX_CALLS * 43 // 100),
    "blocks of 60 KB": (claude_line(2_200), MAX_CALLS),
}
"""Texts and their number of calls. Those larger than 64 KB are read in threads."""


class Calls:
    """The Python functions that a callback of the loop calls."""

    current = 0
    most = 0


@contextmanager
def counted_calls() -> Iterator[Calls]:
    """Count the calls in this thread, for each callback of its loop."""
    calls = Calls()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            is_next_callback = frame.f_code is _RUN_CALLBACK
            calls.current = 0 if is_next_callback else calls.current + 1
            calls.most = max(calls.most, calls.current)

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


_RUN_CALLBACK = asyncio.Handle._run.__code__

REQUESTS: dict[str, Any] = {
    "append": lambda client, session, text: client.post(f"{session}/messages", json={"content": text}),
    "append text": lambda client, session, text: client.post(
        f"{session}/messages", content=text, headers={"Content-Type": "text/plain"}
    ),
    "append chunks": lambda client, session, text: client.post(
        f"{session}/chunks", content=text, headers={"Content-Type": "application/x-ndjson"}
    ),
    "page": lambda client, session, text: client.get(f"{session}/messages?parsed=true"),
    "message": lambda client, session, text: client.get(f"{session}/messages/1"),
    "events": lambda client, session, text: client.get(f"{session}/events?limit=1000"),
    "standard messages": lambda client, session, text: client.get(f"{session}/standard-messages"),
    "summary": lambda client, session, text: client.get(f"{session}/projections/session-summary"),
    "answers": lambda client, session, text: client.get(f"{session}/answers"),
    "changes": lambda client, session, text: client.get(f"{session}/changes"),
    "facts": lambda client, session, text: client.get(f"{session}/facts"),
    "comparison": lambda client, session, text: client.get(
        "/api/compare", params=dict.fromkeys("ab", session.rpartition("/")[2])
    ),
    "item counts": lambda client, session, text: client.get(f"{session}/item-counts"),
    "parse": lambda client, session, text: client.post("/api/parse", json={"content": text}),
}


@pytest.mark.parametrize("name", slow_unless("blocks of 60 KB".__eq__, TEXTS))
async def test_large_messages_are_read_in_threads(app: Litestar, name: str) -> None:
    text, max_calls = TEXTS[name]
    calls = dict[str, int]()
    statuses = set[int]()
    async with (
        app.lifespan(),
        AsyncClient(transport=ASGITransport(cast("Any", app)), base_url="http://127.0.0.1:4100") as client,
    ):
        session = f"/api/sessions/{(await client.post('/api/sessions', json={})).json()['id']}"
        for request, send in REQUESTS.items():
            with counted_calls() as counted:
                response: Response = await send(client, session, text)
            statuses.add(response.status_code)
            calls[request] = counted.most
    assert {request: count for request, count in calls.items() if count > max_calls} == {}
    assert statuses == {200, 201}
