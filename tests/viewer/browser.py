"""The browser that the viewer is seen in: Chromium as the system has it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page, async_playwright

ABSENT = "no Chromium: install it (Debian: apt install chromium), or name its program in ASH_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = ("--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


def chromium() -> str | None:
    """Where it is."""
    return os.environ.get("ASH_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)


@asynccontextmanager
async def browsing(program: str) -> AsyncIterator[Browser]:
    """It finds no host but this one."""
    sandbox = ("--no-sandbox",) if os.getuid() == 0 else ()
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=program, args=[*_ARGUMENTS, *sandbox]) as browser,
    ):
        yield browser


_STILL = """
() => new Promise((done) => {
  const isAwaited = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    const [inside] = element.children;
    const isSkipped = inside?.checkVisibility() && !inside.checkVisibility({ contentVisibilityAuto: true });
    return isSkipped && bottom > 0 && top < innerHeight;
  };
  let [last, same] = ["", 0];
  const look = () => {
    const now = `${scrollY} ${document.documentElement.scrollHeight}`;
    const isStill = now === last && ![...document.querySelectorAll(".turn, .session-item")].some(isAwaited);
    same = isStill ? same + 1 : 0;
    last = now;
    if (same < 6) requestAnimationFrame(look);
    else done();
  };
  look();
})
"""


async def still(page: Page) -> None:
    """What is on the screen is drawn, and nothing has moved for some frames."""
    await page.evaluate(_STILL)
