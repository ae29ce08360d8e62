"""Tabs that tests use in turn: none shows what another one has left."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.viewer.conftest import NOW
from tests.viewer.tabs import Reached, Tabs

LEAVE = """
async () => {
  localStorage.left = sessionStorage.left = document.cookie = "left=1";
  name = "left";
  history.pushState(null, "", "/left");
  await caches.open("left");
  await new Promise((done) => (indexedDB.open("left").onsuccess = done));
  await (await navigator.storage.getDirectory()).getFileHandle("left", { create: true });
}
"""

LEFT = """
async () => {
  const names = async (all) => Array.fromAsync(await all, (each) => each.name ?? each);
  return {
    local: localStorage.length,
    session: sessionStorage.length,
    cookies: document.cookie,
    caches: await names(caches.keys()),
    databases: await names(indexedDB.databases()),
    files: await names((await navigator.storage.getDirectory()).keys()),
    name,
    history: history.length,
    width: innerWidth,
    isPrinted: matchMedia("print").matches,
    script: globalThis.left ?? null,
  };
}
"""

CHANGES: dict[str, Callable[[Page, Browser], Any]] = {
    "clock": lambda page, _: page.clock,
    "context": lambda page, _: page.context,
    "all contexts": lambda _, browser: browser.contexts,
}


async def left(page: Page, address: str) -> dict[str, Any]:
    await page.goto(address)
    found: dict[str, Any] = await page.evaluate(LEFT)
    return found


async def context_of_a_tab(tabs: Tabs) -> Page | None:
    """Return the page that is open in the context all the time."""
    async with tabs.open() as page:
        return await page.opener()


async def test_closed_tab_leaves_nothing(tabs: Tabs, assets: str) -> None:
    async with tabs.open() as page:
        before, opener = await left(page, assets), await page.evaluate("opener")

    async with tabs.open() as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.emulate_media(media="print")
        await page.add_init_script("globalThis.left = 1")
        await page.goto(assets)
        await page.evaluate(LEAVE)
        changed = await left(page, assets)

    async with tabs.open() as page:
        after = await left(page, assets)

    assert [name for name in before if changed[name] == before[name]] == []
    assert after == before
    assert opener is None


@pytest.mark.slow
async def test_tabs_share_a_context_unless_a_test_reaches_it(tabs: Tabs, browser: Browser) -> None:
    first = await context_of_a_tab(tabs)
    assert await context_of_a_tab(tabs) is first

    for reach in CHANGES.values():
        before = await context_of_a_tab(tabs)
        async with tabs.open() as page:
            reach(page, browser)
        assert await context_of_a_tab(tabs) is not before


async def test_context_of_a_test_that_fails_to_end_is_closed(tabs: Tabs) -> None:
    before = await context_of_a_tab(tabs)

    with pytest.raises(ZeroDivisionError):
        async with tabs.open():
            raise ZeroDivisionError

    assert await context_of_a_tab(tabs) is not before


async def test_clock_is_set_again_for_each_tab(tabs_with_clock: Tabs, assets: str, reached: Reached) -> None:
    hours = []
    async with tabs_with_clock.open() as page:
        await page.clock.fast_forward("10:00:00")
        reached.context = False
    async with tabs_with_clock.open() as page:
        for _ in range(2):
            await page.goto(assets)
            hours.append(
                await page.evaluate("(now) => Math.round((Date.now() - Date.parse(now)) / 3_600_000)", NOW)
            )

    assert hours == [0, 0]
