"""A share link in a browser: its secret becomes a cookie, and the page shows only the session."""

import json
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID, uuid4

import pytest
from playwright.async_api import Page, expect

from ash_server.app import create_app
from ash_server.keys.digests import digest, new_key_text, shown_prefix
from ash_server.keys.shares import ShareOptions, share_session
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import NewKey
from tests.marking import slow_unless
from tests.server.api.conftest import served
from tests.shared.records import claude

SETTINGS = Settings(secret="a secret of the tests")


ENDED = "It has ended or is not complete: ask for a new one."


class Link(NamedTuple):
    address: str
    id: UUID


@pytest.fixture
async def link(page: Page, store: Store) -> AsyncIterator[Link]:
    text = new_key_text()
    new = NewKey(
        "all", shown_prefix(text), digest(str(SETTINGS.secret).encode(), text), ("read", "share"), None
    )
    await store.keys.create("default", new)
    session = await store.sessions.create(source="claude", title="Count the herons")
    line = claude.line("user", "How many herons?")
    await store.messages.append(session.id, [json.dumps(line)])
    share = await share_session(store, SETTINGS, session.id, ShareOptions())
    with served(create_app(SETTINGS, database_url=store.url)) as address:
        yield Link(f"{address}{share.path}", session.id)
        await page.goto("about:blank")  # before the server stops


async def test_link_is_exchanged_for_a_cookie_of_its_path(page: Page, link: Link) -> None:
    requested = list[str]()
    page.on(
        "request", lambda request: requested.append(f"{request.url} {request.headers.get('referer', '')}")
    )
    await page.goto(link.address)
    await expect(page.get_by_role("heading", name="Count the herons")).to_be_attached()
    await expect(page.get_by_text("How many herons?").first).to_be_visible()
    address, _, secret = link.address.partition("#")
    [cookie] = await page.context.cookies(address)
    sent = [each for each in requested if secret in each.partition("#")[0] or secret in each.split(" ")[1]]

    assert page.url == address
    assert sent == []
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (
        address[address.index("/shares") :],
        True,
        "Strict",
    )
    assert secret not in cookie["value"]
    assert await page.evaluate("document.cookie") == ""


@pytest.mark.parametrize("fragment", slow_unless("#e-1".__eq__, ["", "#", f"#{'x' * 43}", "#e-1"]))
async def test_invalid_links_say_so(page: Page, link: Link, fragment: str, complaints: list[str]) -> None:
    address = link.address.partition("#")[0]
    await page.goto(f"{address}{fragment}")
    await expect(page.get_by_role("heading")).to_have_text("This link does not work")
    await expect(page.get_by_role("status")).to_have_text(ENDED)
    complaints[:] = [each for each in complaints if "404" not in each]

    await page.goto(f"{address.rpartition('/')[0]}/{uuid4()}#{'x' * 43}")
    await expect(page.get_by_role("status")).to_have_text(ENDED)
    complaints[:] = [each for each in complaints if "404" not in each]
