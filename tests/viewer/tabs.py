"""Tabs of one process of the browser, one for each test: the process keeps the viewer's modules compiled."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, CDPSession, Page

_WAYS_TO_A_CONTEXT = ((Page, "context"), (Page, "clock"), (Browser, "contexts"))


class Reached:
    """Records whether a test has reached a context, and so its clock, permissions, scripts and routes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.context = False
        for owner, name in _WAYS_TO_A_CONTEXT:
            patch.setattr(owner, name, property(self._noting(getattr(owner, name).fget)))

    def _noting(self, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def noting(owner: Any) -> Any:
            self.context = True
            return read(owner)

        return noting


class _Shared(NamedTuple):
    context: BrowserContext
    opener: Page
    """An empty page, never closed: its process shows the tabs that it opens."""
    devtools: CDPSession
    addresses: set[str]
    """The addresses that its pages have requested."""


class Tabs:
    """Opens tabs in a context that tests share.

    A closed tab leaves no history, listeners, routes, scripts or emulation, and what it has stored is deleted. Changes
    of the context itself cannot be undone: if a test has reached it, or fails to end, the context is closed.
    """

    def __init__(
        self,
        new_context: Callable[[], Awaitable[BrowserContext]],
        empty: str,
        reached: Reached,
        now: str | None = None,
    ) -> None:
        self._new_context = new_context
        self._empty = empty
        self._reached = reached
        self._now = now
        self._idle: _Shared | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Page]:
        """Open a tab, with a clock set to `now` if there is one."""
        shared = self._idle or await self._share()
        self._idle = None
        try:
            tab = await _open_tab(shared)
            if self._now:
                await shared.context.clock.install(time=self._now)
            self._reached.context = False
            yield tab
            await _clear(shared)
            if not self._reached.context:
                self._idle = shared
        finally:
            if self._idle is not shared:
                await shared.context.close()

    async def _share(self) -> _Shared:
        context = await self._new_context()
        addresses = set[str]()
        context.on("request", lambda request: addresses.add(request.url))
        opener = await context.new_page()
        await opener.goto(self._empty)
        return _Shared(context, opener, await context.new_cdp_session(opener), addresses)


async def _open_tab(shared: _Shared) -> Page:
    async with shared.context.expect_page() as opening:
        await shared.opener.evaluate("void (open('about:blank').opener = null)")
    return await opening.value


async def _clear(shared: _Shared) -> None:
    for page in shared.context.pages:
        if page is not shared.opener:
            await page.close()
    await shared.context.clear_cookies()
    for origin in {_origin(address) for address in (shared.opener.url, *shared.addresses)}:
        await shared.devtools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    shared.addresses.clear()


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
