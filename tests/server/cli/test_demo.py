"""The session that the demo writes while it is watched."""

import asyncio
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.app import create_app
from ash_server.cli import demo
from ash_server.cli.demo import LIVE, LiveSession
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.sessions import session_id_for
from ash_server.transfer.load import load_session
from tests.marking import slow_after
from tests.server.app_client import app_client
from tests.waiting import TIMEOUT

ID = session_id_for("claude", LIVE)
RECORDED = Path(str(files("ash_server") / "recordings" / "kite-wind.jsonl"))
LINES = RECORDED.read_text().splitlines()


@pytest.fixture
async def watched_demo(database_url: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The demo's server; every line of its recording is due at once."""
    monkeypatch.setattr(demo, "_LIVE_SECONDS", 0)
    assert await demo._recreate_live_session(store) == ID
    live = LiveSession(ID)
    app = create_app(Settings(), database_url=database_url, background=live.running)
    app.asgi_handler = live.watched(app.asgi_handler)
    async with app_client(app) as client:
        yield client


async def stored_lines(client: AsyncClient, count: int = len(LINES)) -> list[str]:
    """Wait until all lines are stored and return them."""
    async with asyncio.timeout(TIMEOUT):
        while len(lines := (await client.get(f"/sessions/{ID}.jsonl")).text.splitlines()) < count:
            pass
    return lines


@pytest.mark.parametrize(
    "address",
    slow_after(2, [f"/sessions/{ID}", f"/api/sessions/{ID}/events", f"/api/sessions/{ID}/events/ws", "/"]),
)
async def test_writing_starts_with_the_first_request_for_the_session(
    watched_demo: AsyncClient, address: str
) -> None:
    for unrelated in ("/health/live", "/api/sessions", f"/api/sessions/{ID}", "/docs"):
        await watched_demo.get(unrelated)
    assert (await watched_demo.get(f"/api/sessions/{ID}")).json()["messageCount"] == 0

    await watched_demo.get(address)
    lines = await stored_lines(watched_demo)

    assert list(map(without_time, lines)) == list(map(without_time, LINES))
    events = (await watched_demo.get(f"/api/sessions/{ID}/events?limit=1000")).json()["events"]
    assert (events[-1]["type"], events[-1]["payload"].get("partial")) == ("turn_end", None)
    session = (await watched_demo.get(f"/api/sessions/{ID}")).json()
    assert (session["title"], session["externalId"]) == ("Written while you watch", LIVE)
    assert session["firstAt"] >= session["createdAt"][:19]


def without_time(line: str) -> Any:
    return {name: value for name, value in json.loads(line).items() if name != "timestamp"}


async def test_closes_an_open_turn_at_the_end(
    watched_demo: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_recorded_lines", lambda: [(0.0, line.encode()) for line in LINES[:20]])

    await watched_demo.get("/")
    await stored_lines(watched_demo, 20)

    events = (await watched_demo.get(f"/api/sessions/{ID}/events?limit=1000")).json()["events"]
    assert (events[-1]["type"], events[-1]["payload"]["partial"]) == ("turn_end", True)


@pytest.mark.slow
async def test_recreating_empties_the_session(watched_demo: AsyncClient, store: Store) -> None:
    await watched_demo.get("/")
    await stored_lines(watched_demo)

    await demo._recreate_live_session(store)

    assert (await watched_demo.get(f"/api/sessions/{ID}")).json()["messageCount"] == 0


async def test_deleting_the_session_stops_writing(watched_demo: AsyncClient, store: Store) -> None:
    await store.sessions.delete(ID)
    for _ in range(3):
        await watched_demo.get("/")

    assert (await watched_demo.get("/api/sessions")).json() == {"sessions": []}


def test_the_recording_is_a_complete_conversation() -> None:
    roles = [message.role for message in load_session(RECORDED)]

    assert (roles[0], roles[-1]) == ("user", "assistant")
