"""The menu of a session, in the list and on its page: resume, continue, labels, share. Redacted exports."""

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import uuid4

import httpx2
import pytest
from playwright.async_api import Locator, Page, Route, expect

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_server.store import Store
from ash_server.store.access.keys import KeyScope
from tests.server.api.conftest import SECRET, bearer, create_key, served
from tests.shared.records import claude

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
PLACE = {"cwd": "/srv/site", "sessionId": "6f1e4c1a-9f0e-4d61-8a53-0f1d2b3c4d5e"}
COMMAND = f"cd /srv/site && claude --resume {PLACE['sessionId']}"
MENU = [
    "Copy the resume command",
    "Continue in another agent…",
    "Compare with…",
    "Star",
    "Tags…",
    "Note…",
    "Rename…",
    "Archive",
    "Share…",
]


class Labelled(NamedTuple):
    """A session of Claude Code, alone in its list."""

    client: httpx2.AsyncClient
    id: str
    list: str

    @property
    def page(self) -> str:
        return f"{self.client.base_url}/sessions/{self.id}"

    async def labels(self) -> dict[str, object]:
        session = (await self.client.get(f"/api/sessions/{self.id}")).json()
        return {"title": session.get("title"), **session.get("labels", {})}


async def add_session(client: httpx2.AsyncClient, title: str, project: str) -> Labelled:
    created = await client.post("/api/sessions", json={"source": "claude", "title": title})
    id = created.raise_for_status().json()["id"]
    place: dict[str, Any] = {**PLACE, "cwd": f"/srv/{project}"} if project else PLACE
    line = claude.line("user", f"Use {TOKEN}", uuid="u1", timestamp="2026-03-10T12:00:00Z", **place)
    headers = {"Content-Type": "application/x-ndjson"}
    (
        await client.post(f"/api/sessions/{id}/chunks", headers=headers, content=json.dumps(line))
    ).raise_for_status()
    return Labelled(client, id, f"{client.base_url}/?project={project}")


@pytest.fixture
async def labelled(client: httpx2.AsyncClient) -> Labelled:
    return await add_session(client, "Dates", f"project-{uuid4()}")


def opener(page: Page) -> Locator:
    return page.get_by_role("button", name="Actions: Dates")


def menu(page: Page) -> Locator:
    return page.get_by_role("menu", name="Actions")


async def open_menu(page: Page) -> None:
    await expect(page.get_by_role("dialog")).to_have_count(0)  # closed once its change is saved
    await page.keyboard.press("m")


async def choose(page: Page, name: str) -> None:
    await menu(page).get_by_role("menuitem", name=name).click()


@pytest.mark.slow
async def test_menu_by_keyboard_in_the_list(page: Page, labelled: Labelled) -> None:
    await page.goto(labelled.list)
    row = page.locator(f".session-item[data-session-id='{labelled.id}']")
    await expect(row).to_be_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("m")
    await expect(menu(page).locator(".action-label")).to_have_text(MENU)
    await expect(opener(page)).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("End")
    await expect(menu(page).get_by_role("menuitem", name="Share…")).to_be_focused()
    await page.keyboard.press("s")
    await expect(menu(page).get_by_role("menuitem", name="Star")).to_be_focused()
    async with page.expect_response("**/labels"):
        await page.keyboard.press("Enter")

    await expect(row.locator(".star")).to_be_visible()
    await expect(opener(page)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(menu(page).get_by_role("menuitem", name="Remove the star")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(menu(page)).to_be_hidden()
    assert (await labelled.labels())["starred"] is True
    box = await opener(page).bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 24
    assert await row.locator("a button").count() == 0


@pytest.mark.slow
async def test_failure_restores_what_was_shown(page: Page, labelled: Labelled, complaints: list[str]) -> None:
    async def refuse(route: Route) -> None:
        changed = ".star" if "starred" in str(route.request.post_data) else ".session-note"
        await expect(page.locator(f".session-labels {changed}")).to_be_visible()  # shown at once
        problem = {"title": "The disk is full.", "status": 507}
        await route.fulfill(status=507, content_type="application/problem+json", body=json.dumps(problem))

    await page.route("**/labels", refuse)
    await page.goto(labelled.page)
    await open_menu(page)
    await choose(page, "Star")

    await expect(page.locator(".toast")).to_have_text("Not changed: The disk is full.")
    await expect(page.locator(".session-labels .star")).to_have_count(0)
    await open_menu(page)
    await choose(page, "Note…")
    await page.get_by_label("Markdown; empty removes the note").fill("Kept while it fails")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_have_text("The disk is full.")
    await expect(page.get_by_label("Markdown; empty removes the note")).to_have_value("Kept while it fails")
    complaints[:] = [each for each in complaints if "507" not in each]


async def test_labels_on_the_page(page: Page, labelled: Labelled) -> None:
    await page.goto(labelled.page)
    await page.get_by_role("button", name="Actions").click()
    await choose(page, "Rename…")
    await page.get_by_label("Title").fill("The dates of the greenhouse")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("The dates of the greenhouse")

    await open_menu(page)
    await choose(page, "Tags…")
    await page.get_by_label("New tag").fill(" flaky ")
    await page.keyboard.press("Enter")
    await expect(page.locator(".session-labels .tag")).to_have_text(["flaky"])
    await page.get_by_label("New tag").fill("ui")
    await page.get_by_role("button", name="Add").click()
    await page.get_by_role("button", name="Remove flaky").click()
    await expect(page.locator(".session-labels .tag")).to_have_text(["ui"])
    await page.get_by_role("button", name="Done").click()

    await open_menu(page)
    await choose(page, "Note…")
    await page.get_by_label("Markdown; empty removes the note").fill("Look **again**.")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".session-note strong")).to_have_text("again")
    await open_menu(page)
    async with page.expect_response("**/labels"):
        await choose(page, "Archive")
    await expect(page.locator(".session-labels")).to_contain_text("Archived")
    await open_menu(page)
    await expect(menu(page).get_by_role("menuitem", name="Unarchive")).to_be_visible()
    assert await labelled.labels() == {
        "title": "The dates of the greenhouse",
        "starred": False,
        "archived": True,
        "tags": ["ui"],
        "note": "Look **again**.",
    }


@pytest.mark.slow
async def test_commands_are_copied(page: Page, client: httpx2.AsyncClient) -> None:
    labelled = await add_session(client, "Dates", "")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(labelled.page)
    await open_menu(page)
    await expect(menu(page).locator(".action-detail")).to_have_text(COMMAND)
    await choose(page, "Copy the resume command")
    await expect(page.locator(".toast")).to_have_text("Command copied")
    assert await page.evaluate("navigator.clipboard.readText()") == COMMAND

    await open_menu(page)
    await choose(page, "Continue in another agent…")
    dialog = page.get_by_role("dialog", name="Continue in another agent")
    commands = [f"ash continue {labelled.id} --in {agent}" for agent in ("claude", "codex", "opencode", "pi")]
    await expect(dialog.locator("code")).to_have_text(commands)
    await expect(dialog).to_contain_text("Not carried: reasoning")


@pytest.mark.slow
async def test_actions_that_are_not_possible_say_why(page: Page, client: httpx2.AsyncClient) -> None:
    created = await client.post("/api/sessions", json={"source": "vercel", "title": "Dates"})
    await page.route(
        "**/api/key",
        lambda route: route.fulfill(
            json={"tenant": "red", "name": "r", "scopes": ["read"], "redacts": False}
        ),
    )
    await page.goto(f"{client.base_url}/sessions/{created.json()['id']}")
    await open_menu(page)
    disabled = menu(page).locator("[aria-disabled]")
    await expect(disabled.locator(".action-label")).to_have_text([MENU[0], *MENU[3:]])
    write, share = ("This key has no scope “write”.", "This key has no scope “share”.")
    await expect(disabled.locator(".action-reason")).to_have_text(
        ["No command is known that continues a session of vercel.", *[write] * 5, share]
    )
    await disabled.nth(1).click(force=True)
    await expect(menu(page)).to_be_visible()


@pytest.mark.slow
async def test_redacted_export(page: Page, labelled: Labelled) -> None:
    await page.goto(labelled.page)
    export = page.locator(".menu.forms")
    await export.locator("summary").click()
    await export.get_by_role("button", name="Show the secrets…").click()
    found = page.get_by_role("dialog", name="Secrets in this session")
    await expect(found.locator(".findings li")).to_have_text(["github token 1: message 1"])
    await page.keyboard.press("Escape")

    markdown = export.get_by_role("link", name="Markdown")
    texts = []
    for is_redacted in (False, True):
        await export.get_by_label("Redacted").set_checked(is_redacted)
        async with page.expect_download() as download:
            await markdown.click()
        texts.append((await (await download.value).path()).read_text())
        name = (await download.value).suggested_filename
        assert name == f"{labelled.id}{'.redacted' if is_redacted else ''}.md"
    assert [TOKEN in text for text in texts] == [True, False]
    assert "[redacted: github token]" in texts[1]


@pytest.fixture
async def keyed(page: Page, store: Store) -> AsyncIterator[Labelled]:
    """A session of a server with keys, in a browser that is signed in with the scopes to share."""
    scopes: tuple[KeyScope, ...] = ("read", "write", "share")
    key = await create_key(store, "all", "default", *scopes)
    with served(create_app(Settings(secret=SECRET), database_url=store.url)) as address:
        async with httpx2.AsyncClient(base_url=address, headers=bearer(key)) as client:
            labelled = await add_session(client, "Dates", "site")
            await page.goto(f"{address}/login")
            await page.get_by_label("Key").fill(key)
            await page.get_by_role("button", name="Sign in").click()
            await expect(opener(page)).to_be_visible()
            yield labelled
        await page.goto("about:blank")  # before the server stops


async def test_share_after_the_list_of_secrets(page: Page, keyed: Labelled) -> None:
    await opener(page).click()
    await choose(page, "Share…")
    dialog = page.get_by_role("dialog", name="Share")
    await expect(dialog.locator(".findings li")).to_have_text(["github token 1: message 1"])
    await dialog.get_by_label("Valid for").select_option("30 days")
    await dialog.get_by_role("button", name="Create link").click()
    link = await dialog.locator("code").text_content()
    await expect(dialog.locator(".action-links li")).to_have_count(1)
    [share] = (await keyed.client.get(f"/api/sessions/{keyed.id}/shares")).json()["shares"]
    assert str(link).startswith(f"{str(keyed.client.base_url).rstrip('/')}/shares/{share['id']}#")
    assert share["redacted"] is True

    await dialog.get_by_role("button", name="Revoke the link").click()
    await expect(dialog.locator(".action-links li")).to_have_count(0)
    assert (await keyed.client.get(f"/api/sessions/{keyed.id}/shares")).json() == {"shares": []}


@pytest.mark.slow
async def test_shared_and_exported_pages_have_no_actions(page: Page, keyed: Labelled) -> None:
    share = (await keyed.client.post(f"/api/sessions/{keyed.id}/shares", json={})).json()
    for address in (f"{keyed.page}.html", str(keyed.client.base_url).rstrip("/") + share["path"]):
        await page.goto(address)
        await expect(page.get_by_role("main")).to_contain_text("Use ")
        await expect(page.get_by_role("button", name="Actions")).to_have_count(0)
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        await expect(page.get_by_text("actions: resume")).to_have_count(0)
