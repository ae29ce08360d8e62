"""The browser that the viewer is seen in: Chromium as the system has it."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

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
