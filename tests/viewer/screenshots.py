"""Take the screenshots in docs/screenshots: all pages, wide and on a phone, light and dark."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.async_api import Browser, Page

from ash_server.store.sessions import session_id_for
from tests.server.cli.test_cli_serve import running, stopped
from tests.viewer.browser import ABSENT, browsing, chromium

PICTURES = Path(__file__).parents[2] / "docs" / "screenshots"
MAX_BYTES = 400_000

DEVICES: Mapping[str, Mapping[str, Any]] = {
    "wide": {"viewport": {"width": 1440, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}
SCHEMES = ("light", "dark")
PAGES = {
    "sessions": "/",
    "usage": "/usage?since=2026-03-01&until=2026-11-15&by=month",
    "session": f"/sessions/{session_id_for('gemini_cli', 'samples/bird-counter.jsonl')}",
}
"""Paths of the pages, by the file names of their screenshots."""

_OPEN = "document.querySelectorAll('.tool-call[data-kind=edit][data-state=done]').forEach((card) => (card.open = true))"

_SETTLED = "document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300))))"


async def take(address: str, program: str) -> None:
    async with browsing(program) as browser:
        for (name, path), (device, size), scheme in product(PAGES.items(), DEVICES.items(), SCHEMES):
            await picture(browser, address + path, PICTURES / f"{name}-{device}-{scheme}.png", size, scheme)


async def picture(browser: Browser, address: str, file: Path, device: Mapping[str, Any], scheme: str) -> None:
    settings: dict[str, Any] = {
        **device,
        "color_scheme": scheme,
        "reduced_motion": "reduce",
        "locale": "en-GB",
        "timezone_id": "UTC",
    }
    async with await browser.new_context(**settings) as context:
        page = await context.new_page()
        await page.goto(address)
        await settle(page)
        taken = await page.screenshot(path=file)
    if len(taken) > MAX_BYTES:
        sys.exit(f"{file.name} has {len(taken)} bytes")


async def settle(page: Page) -> None:
    """Wait for the content, and open one diff."""
    await page.locator(".turn, .session-row, .usage-totals").first.wait_for()
    facts = page.locator(".conversation .session-facts")
    if await facts.count():
        await facts.get_by_text("tool calls").wait_for()
        await page.locator(".turn-end[data-cost]").first.wait_for()
    await page.evaluate(_OPEN)
    await page.evaluate(_SETTLED)


def main() -> None:
    program = chromium() or sys.exit(ABSENT)
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as home, running("demo", "--port", "0", home=Path(home)) as ash:
        asyncio.run(take(ash.address, program))
        stopped(ash.process, signal.SIGINT)


if __name__ == "__main__":
    main()
