"""The page of two sessions side by side, and the ways to it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, Route, expect

from tests.server.edited_session import edited_lines
from tests.shared.records import claude


@pytest.fixture
async def client(ash: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=ash) as client:
        yield client


async def create(client: httpx2.AsyncClient, title: str, *lines: str) -> str:
    created = await client.post("/api/sessions", json={"source": "claude", "title": title})
    id: str = created.raise_for_status().json()["id"]
    body = [{"content": each} for each in lines]
    (await client.post(f"/api/sessions/{id}/messages", json=body)).raise_for_status()
    return id


def prompts(*texts: str) -> list[str]:
    return [json.dumps(claude.user(text, uuid=f"u{place}")) for place, text in enumerate(texts)]


BEGINNING = ["Write a function.", "One.", "Two.", "Three.", "Four."]


@pytest.fixture
async def pair(client: httpx2.AsyncClient) -> list[str]:
    return [
        await create(client, "Herons", *prompts(*BEGINNING, "Count the herons in the north.")),
        await create(
            client, "Herons again", *prompts(*BEGINNING, "Count the herons in the south."), *edited_lines()
        ),
    ]


@pytest.mark.slow
async def test_tables(page: Page, client: httpx2.AsyncClient, pair: list[str]) -> None:
    a, b = pair
    await page.goto(f"{client.base_url}/compare?a={a}&b={b}")

    facts = page.get_by_role("table", name="Facts")
    await expect(facts.get_by_role("row", name="Prompts")).to_have_text("Prompts (differs)68")
    await expect(facts.locator("tr[data-equal]", has_text="Agent")).to_have_text("AgentClaudeClaude")
    files = page.get_by_role("table", name="Changed files").locator("tbody tr")
    await expect(files).to_have_text("heron.py (differs)\N{EN DASH}+3 \N{MINUS SIGN}1")
    rows = page.get_by_role("table", name="Prompts").locator("tbody tr:not([hidden])")
    await expect(rows.first).to_have_text("Show 5 equal prompts")
    await expect(rows.nth(1).locator("mark")).to_have_text(["north", "south"])

    await rows.first.get_by_role("button").press("Enter")
    await expect(rows).to_have_count(8)
    await expect(page.locator(".compare-prompt:focus")).to_have_text("Write a function.")
    await page.keyboard.press("d")
    await expect(facts.locator("tr[data-equal]").first).to_be_hidden()
    await expect(page.get_by_role("button", name="Only differences")).to_have_attribute(
        "aria-pressed", "true"
    )
    await rows.nth(5).locator("a").last.click()
    await expect(page).to_have_url(f"{client.base_url}/sessions/{b}?message=6")


@pytest.mark.slow
async def test_fork_and_its_original(page: Page, client: httpx2.AsyncClient, pair: list[str]) -> None:
    """The page of a fork leads to the comparison, which states the common beginning."""
    a, b = pair
    marks = {"copyOf": a, "copiedMessages": 5}

    async def mark(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json={**await response.json(), **marks})

    async def mark_common(route: Route) -> None:
        response = await route.fetch()
        found: dict[str, Any] = await response.json()
        copied = [{**each, "isCopied": each["isEqual"]} for each in found["prompts"]]
        common = {"messages": 5, "original": a}
        await route.fulfill(response=response, json={**found, "common": common, "prompts": copied})

    await page.route(f"**/api/sessions/{b}", mark)
    await page.route("**/api/compare?*", mark_common)
    await page.goto(f"{client.base_url}/sessions/{b}")
    await page.get_by_role("link", name="Compare with the original").click()

    await expect(page).to_have_url(f"{client.base_url}/compare?a={a}&b={b}")
    note = page.locator(".compare-note")
    await expect(note).to_contain_text("The first 5 messages of B are the same as in A.")
    await note.get_by_role("link", name="Next prompt in A").click()
    await expect(page).to_have_url(f"{client.base_url}/sessions/{a}?message=6")


@pytest.mark.slow
async def test_choose_sessions(page: Page, client: httpx2.AsyncClient, pair: list[str]) -> None:
    """A beginning of an id is enough, and a search finds the other session."""
    a, b = pair
    await page.goto(f"{client.base_url}/compare?a={a[:30]}")
    await expect(page).to_have_url(f"{client.base_url}/compare?a={a}")
    await page.get_by_text("Choose the session to compare with").get_by_role("link").click()
    await expect(page.locator(".session-header")).to_contain_text("6 prompts")
    await page.keyboard.press("m")
    await page.get_by_role("menuitem", name="Compare with…").press("Enter")
    await expect(page).to_have_url(f"{client.base_url}/compare?a={a}")

    await page.get_by_role("searchbox", name="Find a session").fill(b)
    choices = page.locator(".compare-choices a")
    await expect(choices).to_have_text(["Herons again"])
    await choices.press("Enter")
    await expect(page).to_have_url(f"{client.base_url}/compare?a={a}&b={b}")
    await page.get_by_role("link", name="Swap A and B").click()
    await expect(page.locator(".compare-side h2 a")).to_have_text(["Herons again", "Herons"])
    await page.get_by_role("region", name="A").get_by_role("link", name="Choose another").click()
    await expect(page).to_have_url(f"{client.base_url}/compare?b={a}")


async def test_unknown_session(
    page: Page, client: httpx2.AsyncClient, pair: list[str], complaints: list[str]
) -> None:
    response = await page.goto(f"{client.base_url}/compare?a={pair[0]}&b=unknown")

    assert response is not None
    assert response.status == 404
    await expect(page.get_by_role("heading", name="No session has this id.")).to_be_visible()
    complaints.clear()  # the browser reports the status
