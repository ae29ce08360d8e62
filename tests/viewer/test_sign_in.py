"""Signing in and out in a browser, and pages with a key that is no longer valid."""

from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import quote

import httpx2
import pytest
from playwright.async_api import Page, expect

from ash_server.app import create_app
from ash_server.keys import ring
from ash_server.keys.digests import digest, new_key_text, shown_prefix
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import NewKey
from tests.server.api.conftest import bearer, served

SECRET = "a secret of the tests"


class Keyed(NamedTuple):
    address: str
    key: str


@pytest.fixture
async def key(store: Store) -> str:
    text = new_key_text()
    await store.keys.create(
        "red", NewKey("all", shown_prefix(text), digest(SECRET.encode(), text), ("read", "write"), None)
    )
    red = store.for_tenant(await store.get_tenant("red"))
    await red.sessions.create(title="Red session")
    await store.sessions.create(title="Session of others")
    return text


@pytest.fixture
async def keyed(
    page: Page, database_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Keyed]:
    monkeypatch.setattr(ring, "_REMEMBERED_SECONDS", 0.1)
    monkeypatch.setattr("ash_server.live.session_feed.HEARTBEAT_SECONDS", 0.1)
    with served(create_app(Settings(secret=SECRET), database_url=database_url)) as address:
        yield Keyed(address, key)
        await page.goto("about:blank")  # before the server stops


@pytest.fixture(autouse=True)
async def expected_complaints(page: Page, complaints: list[str]) -> AsyncIterator[None]:
    yield
    unexpected = [each for each in complaints if "401" not in each]
    complaints[:] = unexpected


async def sign_in(page: Page, keyed: Keyed) -> None:
    await page.get_by_label("Key").fill(keyed.key)
    await page.get_by_role("button", name="Sign in").click()


async def test_returns_to_an_address_of_any_characters(page: Page, keyed: Keyed, store: Store) -> None:
    name = "ä \"b\" #1 ? 100% & '<c>'"
    red = store.for_tenant(await store.get_tenant("red"))
    session = await red.sessions.create(external_id=name)
    await page.goto(f"{keyed.address}/sessions/{quote(name, safe='')}?at=1")
    await sign_in(page, keyed)

    await expect(page).to_have_url(f"{keyed.address}/sessions/{session.id}?at=1")


@pytest.mark.slow
async def test_signs_in_and_out(page: Page, keyed: Keyed) -> None:
    await page.goto(f"{keyed.address}/?q=")
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    await page.get_by_label("Key").fill("ash_wrong")
    await page.get_by_role("button", name="Sign in").click()
    problem = page.get_by_role("alert")
    await expect(problem).to_have_text("This key is not valid.")
    await expect(page).to_have_title("Error: Sign in · Ash")
    await expect(page.get_by_label("Key")).to_have_accessible_description("This key is not valid.")
    await expect(page.get_by_label("Key")).to_have_attribute("aria-invalid", "true")
    assert await problem.evaluate("(each) => getComputedStyle(each).color") == "rgb(179, 38, 30)"

    await sign_in(page, keyed)
    await expect(page.get_by_text("Red session")).to_be_visible()
    await expect(page.get_by_text("Session of others")).to_have_count(0)

    await page.get_by_role("link", name="Sign out").click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert await page.context.cookies() == []


@pytest.mark.slow
async def test_empty_list_names_the_tenant(page: Page, keyed: Keyed, store: Store) -> None:
    red = store.for_tenant(await store.get_tenant("red"))
    for session_id in [session.id async for session in red.sessions.list_all()]:
        await red.sessions.delete(session_id)
    await page.goto(keyed.address)
    await sign_in(page, keyed)

    await expect(page.locator(".state-title")).to_have_text("The tenant red has no sessions yet")
    commands = page.locator(".command code")
    await expect(commands.first).to_have_text(f"export ASH_URL={keyed.address} ASH_KEY=ash_…")
    await expect(commands.nth(1)).to_have_text("ash push --discover")


@pytest.mark.slow
async def test_revoked_key_leads_to_sign_in(page: Page, keyed: Keyed, store: Store) -> None:
    await page.goto(keyed.address)
    await sign_in(page, keyed)
    await expect(page.get_by_text("Red session")).to_be_visible()

    [stored] = await store.keys.list_keys()
    await store.keys.revoke(stored)

    await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.slow
async def test_link_of_another_site_needs_no_second_sign_in(page: Page, keyed: Keyed) -> None:
    await page.goto(keyed.address)
    await sign_in(page, keyed)
    await expect(page.get_by_text("Red session")).to_be_visible()

    await page.goto("about:blank")
    await page.evaluate("(address) => { location.href = address }", f"{keyed.address}/")

    await expect(page.get_by_text("Red session")).to_be_visible()


@pytest.mark.slow
async def test_code_of_a_phone_leads_to_its_page(page: Page, keyed: Keyed, complaints: list[str]) -> None:
    async with httpx2.AsyncClient(base_url=keyed.address, headers=bearer(keyed.key)) as client:
        path = (await client.post("/api/sign-in-codes")).json()["path"]
    code, _, secret = path.partition("#")
    requested = list[str]()
    page.on("request", lambda request: requested.append(request.url))
    await page.goto(f"{keyed.address}{code}?next=/%3Fq%3DRed#{secret}")
    await page.get_by_role("button", name="Sign in on this device").click()

    await expect(page).to_have_url(f"{keyed.address}/?q=Red")
    await expect(page.get_by_text("Red session")).to_be_visible()
    assert not any(secret in each.partition("#")[0] for each in requested)

    await page.goto(f"{keyed.address}{code}#{secret}")
    await page.get_by_role("button", name="Sign in on this device").click()
    await expect(page.get_by_role("status")).to_contain_text("invalid or has expired")
    complaints[:] = [each for each in complaints if "404" not in each]
