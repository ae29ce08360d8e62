"""Pages retry by themselves when a server that was not reachable is back."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.viewer.sessions import Session
from tests.viewer.test_session_page import turns

NOTICE = ".state[data-state=error]"

Act = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
async def restart(page: Page, complaints: list[str]) -> AsyncIterator[tuple[Act, Act]]:
    """Functions that stop and start the server, as the page sees it."""

    async def refuse(route: Route) -> None:
        await route.abort()

    async def stop() -> None:
        for path in ("**/api/**", "**/health/**"):
            await page.route(path, refuse)

    async def start() -> None:
        await page.unroute_all()

    yield stop, start
    assert all("net::ERR_FAILED" in each for each in complaints)
    complaints.clear()


async def test_session_loads(page: Page, session: Session, restart: tuple[Act, Act]) -> None:
    stop, start = restart
    await session.add_events(*turns(1))
    await stop()
    await page.goto(session.address)
    await expect(page.locator(NOTICE)).to_contain_text("Is Ash still running?")

    await start()

    await expect(page.locator("#e-answer-1")).to_be_attached()
    await expect(page.locator(NOTICE)).to_have_count(0)


@pytest.mark.parametrize("query", ["", "?q=windows"])
async def test_list_loads(page: Page, session: Session, restart: tuple[Act, Act], query: str) -> None:
    stop, start = restart
    await stop()
    await page.goto(session.address.replace(f"sessions/{session.id}", query))
    await expect(page.locator(NOTICE)).to_contain_text("Is Ash still running?")

    await start()

    await expect(page.locator(".session-item").first).to_be_attached()
    await expect(page.locator(NOTICE)).to_have_count(0)


async def test_next_page_loads(page: Page, session: Session, restart: tuple[Act, Act]) -> None:
    stop, start = restart
    await session.add_events(*turns(*range(120)))
    await page.goto(f"{session.address}?at=900")
    await expect(page.locator("#e-answer-100")).to_be_attached()
    await stop()
    await page.locator(".edge.older .load-more").click()
    progress = page.locator(".edge.older [role=status]")
    await expect(progress).to_contain_text("Is Ash still running?")

    await start()

    await expect(page.locator("#e-answer-1")).to_be_attached()
    await expect(progress).to_have_text("")
