"""The browser of the viewer's tests, the Chromium of the system, and servers for its pages."""

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, Route, async_playwright

from tests.waiting import TIMEOUT, until

ABSENT = "no Chromium: install it (Debian: apt install chromium-headless-shell), or name its program in ASH_CHROMIUM"
INSTALLED = Path(__file__).parents[2] / ".chromium" / "chromium"
"""The program that `make test` installs on systems without Chromium."""
# The headless shell opens a page four times as fast as the whole browser.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


def chromium() -> str | None:
    """Return the path of the program, or None."""
    candidates = (os.environ.get("ASH_CHROMIUM"), *map(shutil.which, _NAMES), shutil.which(INSTALLED))
    return next(filter(None, candidates), None)


@asynccontextmanager
async def browsing(program: str) -> AsyncIterator[Browser]:
    """Run a browser that resolves no host but this machine."""
    sandbox = ("--no-sandbox",) if os.getuid() == 0 else ()
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(
            executable_path=program, args=[*_ARGUMENTS, *sandbox], timeout=TIMEOUT * 1000
        ) as browser,
    ):
        yield browser


@contextmanager
def http_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve requests in a thread; yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def until_true(page: Page, predicate: str, arg: Any = None) -> None:
    """Wait until an expression or a function of the page returns a true value.

    `Page.wait_for_function` needs eval from its second look on, which the policy of the pages forbids.
    """
    await until(lambda: page.evaluate(predicate, arg))


RECORD_FEED = """
  globalThis.received = [];
  globalThis.EventSource = class extends EventSource {
    constructor(address) {
      super(address);
      for (const name of ["session", "deleted"]) {
        this.addEventListener(name, ({ data }) => received.push(JSON.parse(data).id));
      }
    }
  };
"""
"""Script for a page: record the sessions that its stream names."""


class HeldAnswers:
    """Answers of the server that a page receives later."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._are_read, self._are_sent = asyncio.Event(), asyncio.Event()

    async def hold(self, address: str, times: int | None = None) -> None:
        await self._page.route(address, self._answer, times=times)

    async def wait(self) -> None:
        """Wait until the server has answered."""
        await self._are_read.wait()

    async def send(self, *session_ids: str) -> None:
        """Send the answers once the stream has named these sessions; needs RECORD_FEED."""
        for id in session_ids:
            await until_true(self._page, "(id) => received.includes(id)", id)
        self._are_sent.set()

    async def _answer(self, route: Route) -> None:
        answer = await route.fetch()
        self._are_read.set()
        await self._are_sent.wait()
        await route.fulfill(response=answer)


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
    """Wait until the screen is drawn and nothing has moved for some frames."""
    await page.evaluate(_STILL)


async def elapse(page: Page, milliseconds: int) -> None:
    """Wait until all timers of the page up to this delay have fired, even on a busy machine."""
    await page.evaluate("(after) => new Promise((done) => setTimeout(done, after))", milliseconds)
