"""Pages in a real browser. Console errors, policy violations, dialogs and requests to other hosts fail the test."""

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request, expect

import ash_server
from ash_server.api.pages.viewer_pages import PAGE_POLICY
from ash_server.store import Store
from ash_server.viewer import viewer
from tests.server.cli.test_cli_serve import serving
from tests.viewer.browser import ABSENT, browsing, chromium, http_server
from tests.viewer.sessions import Session, new_session
from tests.viewer.tabs import Reached, Tabs
from tests.waiting import TIMEOUT

VIEWER = Path(ash_server.__file__).parent / "viewer"
HERE = Path(__file__).parent

expect.set_options(timeout=TIMEOUT * 1000)

NOW = "2026-03-10T12:00:00Z"
"""The time of pages with a clock: the date is then the same in nearly all time zones."""

_REPORT = """
addEventListener("securitypolicyviolation", (event) =>
  console.error("refused by the policy:", event.effectiveDirective, event.blockedURI, event.sample));
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set up the page last, so that it is closed first: a page without its server reports refused connections."""
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        if "page" in names:
            names.append(names.pop(names.index("page")))


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    program = chromium()
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(ABSENT)
    async with browsing(program) as browser:
        yield browser


@pytest.fixture(scope="session")
def all_complaints() -> list[str]:
    return []


@pytest.fixture
def complaints(all_complaints: list[str]) -> list[str]:
    """Errors and forbidden actions of the page; a test that expects some removes them."""
    all_complaints.clear()
    return all_complaints


@pytest.fixture(scope="session")
def reached() -> Iterator[Reached]:
    with pytest.MonkeyPatch.context() as patch:
        yield Reached(patch)


@pytest.fixture(scope="session")
def tabs(browser: Browser, all_complaints: list[str], assets: str, reached: Reached) -> Tabs:
    return Tabs(partial(watched_context, browser, all_complaints), assets, reached)


@pytest.fixture(scope="session")
def tabs_with_clock(browser: Browser, all_complaints: list[str], assets: str, reached: Reached) -> Tabs:
    return Tabs(partial(watched_context, browser, all_complaints), assets, reached, NOW)


@pytest.fixture(scope="session")
def tabs_without_policy(browser: Browser, all_complaints: list[str], assets: str, reached: Reached) -> Tabs:
    return Tabs(partial(watched_context, browser, all_complaints, bypass_csp=True), assets, reached)


@pytest.fixture
async def page(tabs: Tabs, complaints: list[str]) -> AsyncIterator[Page]:
    async with tabs.open() as page:
        yield page
        await settle(page)
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


async def watched_context(browser: Browser, complaints: list[str], **options: Any) -> BrowserContext:
    context = await browser.new_context(**options)
    context.set_default_timeout(TIMEOUT * 1000)
    await watch(context, complaints, pages=2)
    return context


async def settle(page: Page) -> None:
    """Wait for pending frames and timers, with a timeout for pages with a paused clock."""
    async with asyncio.timeout(TIMEOUT):
        await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


async def watch(context: BrowserContext, complaints: list[str], pages: int = 1) -> None:
    """Record errors, policy violations, dialogs, new windows, and requests to other hosts."""
    dismissed = list[asyncio.Future[None]]()

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"console: {message.text}")

    def on_dialog(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dismissed.append(asyncio.ensure_future(dialog.dismiss()))

    def on_page(page: Page) -> None:
        if len(context.pages) > pages:
            complaints.append(f"window: {page.url}")

    def on_request(request: Request) -> None:
        if is_external(request.url):
            complaints.append(f"request: {request.url}")

    context.on("console", on_console)
    context.on("dialog", on_dialog)
    context.on("page", on_page)
    context.on("request", on_request)
    context.on("weberror", lambda event: complaints.append(f"uncaught: {event.error}"))
    await context.add_init_script(_REPORT)


def is_external(url: str) -> bool:
    return urlsplit(url).scheme not in ("data", "blob", "about") and urlsplit(url).hostname != "127.0.0.1"


@pytest.fixture(scope="session")
def assets() -> Iterator[str]:
    """Serve the viewer's modules below /viewer/ with the policy of the pages, without a server of Ash."""
    with http_server(_Assets) as address:
        yield address


class BlankPage(NamedTuple):
    page: Page
    complaints: list[str]


@pytest.fixture(scope="session")
async def blank_page(browser: Browser) -> AsyncIterator[BlankPage]:
    """A page for all tests of modules, which stay in its cache: loading and compiling them takes half a second."""
    complaints = list[str]()
    async with await browser.new_context() as context:
        context.set_default_timeout(TIMEOUT * 1000)
        await watch(context, complaints)
        yield BlankPage(await context.new_page(), complaints)


@pytest.fixture
async def blank(blank_page: BlankPage, assets: str) -> AsyncIterator[Page]:
    """An empty page that can `import("/viewer/….js")`."""
    page, complaints = blank_page
    await page.goto(assets)
    yield page
    await settle(page)
    await page.evaluate("localStorage.clear()")
    await page.context.clear_permissions()
    found = list(complaints)
    complaints.clear()
    if found:
        pytest.fail("\n".join(found), pytrace=False)


class _Assets(BaseHTTPRequestHandler):
    # A page loads some 70 modules, faster over few connections.
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        name = "blank.html" if path == "/" else path
        body = _body(path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", mimetypes.guess_type(name)[0] or "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", PAGE_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "max-age=86400")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _body(path: str) -> bytes:
    if path.startswith("/viewer/bundled/"):
        return viewer().assets[path.removeprefix("/viewer/")].content
    file = HERE / "blank.html" if path == "/" else _file(path)
    return file.read_bytes() if file.is_file() else b""


def _file(path: str) -> Path:
    folder, name = (
        (VIEWER, path.removeprefix("/viewer/")) if path.startswith("/viewer/") else (HERE, path[1:])
    )
    file = (folder / name).resolve()
    return file if file.is_relative_to(folder) else folder


@pytest.fixture(scope="session")
def _addresses(
    server_url: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    with serving(server_url, template, tmp_path_factory.mktemp("viewer")) as addresses:
        yield addresses


@pytest.fixture(scope="session")
def ash(_addresses: tuple[str, str]) -> str:
    """The address of a server shared by all tests of the viewer; each test creates its own sessions."""
    return _addresses[0]


@pytest.fixture
async def ash_store(_addresses: tuple[str, str]) -> AsyncIterator[Store]:
    """The store of the server."""
    async with Store.connect(_addresses[1]) as store:
        yield store


@pytest.fixture
async def client(ash: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=ash) as client:
        yield client


@pytest.fixture
async def session(client: httpx2.AsyncClient) -> Session:
    """An empty session; events are posted before or while its page is open."""
    return await new_session(client)
