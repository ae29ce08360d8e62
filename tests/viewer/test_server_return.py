"""Pages retry by themselves when a server that was not reachable is back."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.marking import slow_after
from tests.shared.records import claude
from tests.viewer.sessions import Session
from tests.viewer.test_session_page import extended, turns

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


@pytest.mark.parametrize("query", slow_after(1, ["", "?q=windows"]))
async def test_list_loads(page: Page, session: Session, restart: tuple[Act, Act], query: str) -> None:
    stop, start = restart
    await stop()
    await page.goto(session.address.replace(f"sessions/{session.id}", query))
    await expect(page.locator(NOTICE)).to_contain_text("Is Ash still running?")

    await start()

    await expect(page.locator(".session-item").first).to_be_attached()
    await expect(page.locator(NOTICE)).to_have_count(0)


@pytest.mark.slow
async def test_next_page_loads(page: Page, session: Session, restart: tuple[Act, Act]) -> None:
    stop, start = restart
    await session.add_events(*turns(*range(120)))
    await page.goto(f"{session.address}?at=900")
    await extended(page, 550)
    await stop()
    await page.locator(".edge.older .load-more").click()
    progress = page.locator(".edge.older [role=status]")
    await expect(progress).to_contain_text("Is Ash still running?")

    await start()

    await expect(page.locator("#e-answer-1")).to_be_attached()
    await expect(progress).to_have_text("")


@pytest.mark.slow
async def test_page_and_stored_text_say_so(page: Page, session: Session, restart: tuple[Act, Act]) -> None:
    stop, start = restart
    line = claude.line("user", "Where is the heron?", uuid="u-1")
    await session.write(line)
    await page.goto(session.address)
    await expect(page.get_by_text("Where is the heron?").first).to_be_visible()
    notice, panel = page.locator(".connection"), page.locator(".stored")
    await expect(notice).to_be_hidden()
    await stop()
    await page.keyboard.press("j")
    await page.keyboard.press("r")

    await expect(panel.get_by_role("heading", name="Message 1")).to_be_visible()
    await expect(panel.get_by_role("alert")).to_contain_text("The server cannot be reached.")
    await expect(notice).to_have_text(
        "The server cannot be reached. Loaded content can still be read. Retry now"
    )
    await expect(notice.get_by_role("button")).to_be_hidden()

    await start()

    await expect(panel.locator(".stored-text")).to_contain_text("Where is the heron?")
    await expect(notice).to_be_hidden()
