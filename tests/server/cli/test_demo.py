"""What the demo writes while somebody watches."""

import asyncio
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from httpx import AsyncClient
from litestar.testing import AsyncTestClient
from psycopg import AsyncConnection

from ash_server.app import create_app
from ash_server.cli import demo
from ash_server.cli.demo import LIVE, Live
from ash_server.db.sessions import delete_session, session_id_for
from ash_server.settings import Settings
from ash_server.transfer.load import load_session

ID = session_id_for("claude", LIVE)
RECORDED = Path(str(files("ash_server") / "recordings" / "kite-wind.jsonl"))
LINES = RECORDED.read_text().splitlines()


@pytest.fixture
async def looking(database_url: str, connection: AsyncConnection, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The demo's server; each line of its recording is due at once."""
    monkeypatch.setattr(demo, "_LIVE_SECONDS", 0)
    assert await demo._make_anew(connection) == ID
    live = Live(ID)
    app = create_app(Settings(), database_url=database_url, background=live.running)
    app.asgi_handler = live.seen_by(app.asgi_handler)
    async with AsyncTestClient(app, base_url="http://127.0.0.1:4100") as client:
        yield client


async def whole(client: AsyncClient, count: int = len(LINES)) -> list[str]:
    """The stored lines, once all of them are."""
    async with asyncio.timeout(60):
        while len(lines := (await client.get(f"/sessions/{ID}.jsonl")).text.splitlines()) < count:
            pass
    return lines


@pytest.mark.parametrize(
    "address", ["/", f"/sessions/{ID}", f"/api/sessions/{ID}/events", f"/api/sessions/{ID}/events/ws"]
)
async def test_it_is_written_from_when_somebody_looks(looking: AsyncClient, address: str) -> None:
    for elsewhere in ("/health/live", "/api/sessions", f"/api/sessions/{ID}", "/docs"):
        await looking.get(elsewhere)
    assert (await looking.get(f"/api/sessions/{ID}")).json()["messageCount"] == 0

    await looking.get(address)
    lines = await whole(looking)

    assert list(map(without_time, lines)) == list(map(without_time, LINES))
    events = (await looking.get(f"/api/sessions/{ID}/events?limit=1000")).json()["events"]
    assert (events[-1]["type"], events[-1]["payload"].get("partial")) == ("turn_end", None)
    session = (await looking.get(f"/api/sessions/{ID}")).json()
    assert (session["title"], session["externalId"]) == ("Written while you watch", LIVE)
    assert session["firstAt"] >= session["createdAt"][:19]


def without_time(line: str) -> Any:
    return {name: value for name, value in json.loads(line).items() if name != "timestamp"}


async def test_what_is_open_at_the_end_is_closed(
    looking: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_recorded", lambda: [(0.0, line.encode()) for line in LINES[:20]])

    await looking.get("/")
    await whole(looking, 20)

    events = (await looking.get(f"/api/sessions/{ID}/events?limit=1000")).json()["events"]
    assert (events[-1]["type"], events[-1]["payload"]["partial"]) == ("turn_end", True)


async def test_each_demo_begins_anew(looking: AsyncClient, connection: AsyncConnection) -> None:
    await looking.get("/")
    await whole(looking)

    await demo._make_anew(connection)

    assert (await looking.get(f"/api/sessions/{ID}")).json()["messageCount"] == 0


async def test_it_may_be_deleted_meanwhile(looking: AsyncClient, connection: AsyncConnection) -> None:
    await delete_session(connection, ID)
    for _ in range(3):
        await looking.get("/")

    assert (await looking.get("/api/sessions")).json() == {"sessions": []}


def test_the_recording_is_a_whole_conversation() -> None:
    roles = [message.role for message in load_session(RECORDED)]

    assert (roles[0], roles[-1]) == ("user", "assistant")
