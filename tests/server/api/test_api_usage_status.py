"""The costs for status lines, over REST and as `ash statusline` reads them."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx2 import AsyncClient

from ash_server.cli.statusline import line
from ash_server.store import Store
from tests.shared.records.events import token_usage, wire_event

NOW = datetime.now(UTC)


async def spend(store: Store, usd: float, at: datetime, external_id: str) -> None:
    session = await store.sessions.create(source="claude", external_id=external_id)
    time = round(at.timestamp() * 1000)
    end = wire_event("turn_end", usage=token_usage(1, 1), costUsd=usd, turnId="t1", timestamp=time)
    await store.events.append(session.id, end)


async def status(client: AsyncClient, **query: Any) -> dict[str, float | None]:
    answer = (await client.get("/api/usage/status", params=query)).json()
    return {name: answer.get(name, {}).get("costUsd") for name in ("session", "today", "block")}


async def test_status(own_client: AsyncClient, store: Store) -> None:
    assert await status(own_client, session="s-1") == {"session": None, "today": None, "block": None}

    await spend(store, 1.5, NOW, "s-1")
    await spend(store, 2.25, NOW - timedelta(days=3), "s-2")
    since = int((NOW - timedelta(hours=1)).timestamp())
    assert [
        await status(own_client, session="s-1", since=since),
        await status(own_client, session="s-2", since=since),
        await status(own_client, session="s-3", since=int((NOW - timedelta(days=4)).timestamp())),
        await status(own_client, since=since),
    ] == [
        {"session": 1.5, "today": 1.5, "block": 1.5},
        {"session": 2.25, "today": 1.5, "block": 1.5},
        {"session": None, "today": 3.75, "block": 1.5},
        {"session": None, "today": 1.5, "block": 1.5},
    ]


@pytest.mark.parametrize("query", [{"session": ""}, {"since": -1}, {"since": "yesterday"}, {"since": 1e15}])
async def test_refused_queries(own_client: AsyncClient, query: dict[str, Any]) -> None:
    answer = await own_client.get("/api/usage/status", params=query)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")


async def test_line_of_a_real_server(server: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await spend(store, 1.5, datetime.now(UTC), "s-1")
    monkeypatch.setenv("ASH_URL", server)
    monkeypatch.delenv("ASH_KEY", raising=False)

    answer = line._answer("s-1", time.monotonic() + 60)
    assert answer is not None
    shown = line.status_line({"model": {"display_name": "Opus 5"}}, answer, time.time())
    assert shown.startswith("Opus 5 · session $1.50 · today $1.50 · block $1.50 (")
