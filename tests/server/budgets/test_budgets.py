"""Budgets: set, compared with costs, and reported to webhooks, on a real store."""

import asyncio
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Self
from uuid import UUID

import psycopg
import pytest

from ash_server.budgets.budgets import NewBudget, list_budgets, set_budget
from ash_server.budgets.checker import check_budgets
from ash_server.budgets.webhook import signature
from ash_server.errors import InvalidBudget, NulByte
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.connections.pool import direct_url
from ash_server.store.connections.tenants import Tenant, get_or_create_tenant
from ash_server.store.usage.budgets import MAX_BUDGETS, RETRY_SECONDS, BudgetNotFound, Notice
from tests.shared.records.events import token_usage, turn_start, wire_event

NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
"""Noon of today, so that a minute later is the same day."""
EVE = NOON - timedelta(days=1)
"""The day before: usage later than a day from now has no time."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


async def spend(store: Store, usd: float, at: datetime = NOON) -> None:
    session = await store.sessions.create(source="claude")
    turn: dict[str, Any] = {"turnId": "t1", "timestamp": round(at.timestamp() * 1000)}
    events = [turn_start(**turn), wire_event("turn_end", usage=token_usage(1, 1), costUsd=usd, **turn)]
    await store.events.append_batch(session.id, events)


async def audit(store: Store) -> list[str]:
    page = await store.keys.list_audit(None)
    return [entry.action for entry in reversed(page.audit) if entry.action.startswith(("budget", "webhook"))]


class Receiver:
    """A server that answers each request with a status, and keeps the requests."""

    def __init__(self, status: int = 204) -> None:
        self.requests: list[tuple[dict[str, str], Any]] = []
        self._status = status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/hook"
        self._thread = Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with connection, connection.makefile("rb") as file:
                file.readline()
                lines = iter(file.readline, b"\r\n")
                headers = {
                    name.lower(): value
                    for name, value in (line.decode().strip().split(": ", 1) for line in lines)
                }
                self.requests.append((headers, json.loads(file.read(int(headers["content-length"])))))
                connection.sendall(f"HTTP/1.1 {self._status} Status\r\nContent-Length: 0\r\n\r\n".encode())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


async def test_budget_replaces_the_one_of_the_same_period_and_project(
    store: Store, settings: Settings
) -> None:
    await set_budget(store, settings, NewBudget(50, "month"))
    await set_budget(store, settings, NewBudget(5, "day", project="/work/site"))
    await set_budget(store, settings, NewBudget(80.25, "month", timezone="Europe/Berlin"))

    budgets = (await list_budgets(store)).budgets
    shown = [
        (each.limit_usd, each.period, each.timezone, each.model_dump().get("project")) for each in budgets
    ]
    assert shown == [(80.25, "month", "Europe/Berlin", None), (5.0, "day", "UTC", "/work/site")]
    assert await audit(store) == ["budget.set"] * 3


async def test_list_shows_the_cost_of_the_period(store: Store, settings: Settings) -> None:
    await spend(store, 1.25, at=datetime.now(UTC))
    await spend(store, 100, at=NOON - timedelta(days=400))
    await set_budget(store, settings, NewBudget(1, "day"))
    await set_budget(store, settings, NewBudget(1.25, "month"))

    [day, month] = (await list_budgets(store)).budgets
    assert [(each.spent_usd, each.is_passed) for each in (day, month)] == [(1.25, True), (1.25, False)]
    assert day.period_end - day.period_start == timedelta(days=1)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (NewBudget(1, "day", timezone="Mars"), "time zone"),
        (NewBudget(1, "day", webhook_url="http://hooks.example.com/"), "begins with https://"),
        (NewBudget(1, "day", project="a\0b"), "NUL character"),
    ],
)
async def test_refused_budgets(store: Store, settings: Settings, new: NewBudget, message: str) -> None:
    with pytest.raises((InvalidBudget, NulByte), match=message):
        await set_budget(store, settings, new)

    assert (await list_budgets(store)).budgets == []


@pytest.mark.slow
async def test_number_of_budgets_is_limited(store: Store, settings: Settings) -> None:
    for number in range(MAX_BUDGETS):
        await set_budget(store, settings, NewBudget(1, "day", project=f"/work/{number}"))

    with pytest.raises(InvalidBudget, match=f"at most {MAX_BUDGETS} budgets"):
        await set_budget(store, settings, NewBudget(1, "week"))
    await set_budget(store, settings, NewBudget(2, "day", project="/work/7"))


async def test_deleted_budget(store: Store, settings: Settings) -> None:
    budget = await set_budget(store, settings, NewBudget(1, "day"))
    await store.budgets.delete(store.tenant, budget.id)

    with pytest.raises(BudgetNotFound):
        await store.budgets.delete(store.tenant, budget.id)
    assert await audit(store) == ["budget.set", "budget.delete"]


async def test_passed_budget_is_reported_once_for_each_period(
    store: Store, settings: Settings, receiver: Receiver
) -> None:
    budget = await set_budget(store, settings, NewBudget(2, "day", webhook_url=receiver.url))
    await spend(store, 2, at=EVE)
    await check_budgets(store, settings, EVE)
    assert receiver.requests == []

    await spend(store, 0.5, at=EVE)
    for _ in range(3):
        await check_budgets(store, settings, EVE)
    [(headers, body)] = receiver.requests
    assert body == {
        "id": headers["ash-delivery"],
        "type": "budget.passed",
        "budget": str(budget.id),
        "period": "day",
        "periodStart": f"{EVE:%Y-%m-%d}T00:00:00+00:00",
        "limitUsd": 2.0,
        "spentUsd": 2.5,
    }
    timestamp = int(headers["ash-signature"].partition(",")[0].removeprefix("t="))
    assert budget.webhook_secret
    assert headers["ash-signature"] == signature(budget.webhook_secret, json.dumps(body).encode(), timestamp)
    assert await audit(store) == ["budget.set", "webhook.delivered"]

    await spend(store, 3)
    await check_budgets(store, settings, NOON)
    assert [request[1]["spentUsd"] for request in receiver.requests] == [2.5, 3.0]


async def test_parallel_servers_send_one_webhook(
    store: Store, settings: Settings, receiver: Receiver
) -> None:
    await set_budget(store, settings, NewBudget(1, "day", webhook_url=receiver.url))
    await spend(store, 2)

    await asyncio.gather(*(check_budgets(store, settings, NOON) for _ in range(8)))
    assert len(receiver.requests) == 1


@pytest.mark.slow
async def test_webhook_is_tried_five_times_within_an_hour(
    store: Store, settings: Settings, database_url: str
) -> None:
    with Receiver(status=500) as receiver:
        await set_budget(store, settings, NewBudget(1, "day", webhook_url=receiver.url))
        await spend(store, 2)
        await check_budgets(store, settings, NOON)
        delays = [await _delay(database_url)]
        for _ in range(6):
            await _make_due(database_url)
            await check_budgets(store, settings, NOON)
            delays.append(await _delay(database_url))

    assert delays == [*RETRY_SECONDS, None, None, None]
    assert sum(RETRY_SECONDS) < 3600
    ids = {headers["ash-delivery"] for headers, _ in receiver.requests}
    assert (len(receiver.requests), len(ids)) == (5, 1)
    assert await audit(store) == ["budget.set", "webhook.failed"]


async def _delay(database_url: str) -> int | None:
    """Return the seconds until the next attempt, to the minute."""
    async with await psycopg.AsyncConnection.connect(direct_url(database_url)) as conn:
        rows = await conn.execute("SELECT extract(epoch FROM next_attempt_at - now()) FROM budget_notices")
        [(seconds,)] = await rows.fetchall()
    return None if seconds is None else 60 * -(-int(seconds) // 60)


async def _make_due(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(direct_url(database_url)) as conn:
        await conn.execute(
            "UPDATE budget_notices SET next_attempt_at = now() WHERE next_attempt_at IS NOT NULL"
        )


async def test_tenants_have_their_own_budgets(store: Store, settings: Settings, database_url: str) -> None:
    tenant = await _create_tenant(database_url, "blue")
    theirs = store.for_tenant(tenant)
    await set_budget(store, settings, NewBudget(1, "day"))
    other = await set_budget(theirs, settings, NewBudget(2, "day"))
    await spend(store, 5)

    assert [(each.limit_usd, each.spent_usd) for each in (await list_budgets(theirs)).budgets] == [(2.0, 0.0)]
    with pytest.raises(BudgetNotFound):
        await store.budgets.delete(store.tenant, other.id)


async def _create_tenant(database_url: str, name: str) -> Tenant:

    async with await psycopg.AsyncConnection.connect(direct_url(database_url), autocommit=True) as conn:
        return await get_or_create_tenant(conn, name)


def test_ids_of_notices_are_stable() -> None:
    notice = Notice(UUID(int=1), NOON, 1, 1, "https://a.example", 1, "day", "UTC")
    assert notice.id == notice._replace(attempts=3, spent_nano_usd=9).id
