"""Running sessions in the list and on their board, and the address of a session that has not begun."""

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from playwright.async_api import Page, expect

from tests.shared.records import claude
from tests.viewer.browser import RECORD_FEED, HeldAnswers, until_true
from tests.viewer.sessions import Session

QUESTION = {"questions": [{"question": "Which port?", "header": "Port", "options": [{"label": "4100"}]}]}
END = claude.result()


@pytest.fixture
async def running(client: httpx2.AsyncClient) -> Session:
    """A session with a call that runs, and a title that no other test has."""
    created = await client.post("/api/sessions", json={"title": f"Run {uuid4()}"})
    session = Session(client, created.json()["id"])
    await session.write(claude.user("Test it."), call("t1", "Bash", command="pytest -q"))
    return session


def call(id: str, name: str, **input: Any) -> Any:
    return claude.assistant(claude.call(id, name, **input), id=f"m{id}")


def returned(id: str) -> Any:
    return claude.user([claude.tool_result(id)])


@pytest.mark.slow
async def test_list_and_board_say_what_a_session_does(page: Page, running: Session) -> None:
    address = running.address.partition("/sessions/")[0]
    await page.goto(f"{address}/")
    row = page.locator(f"[data-session-id='{running.id}']")
    await expect(row.locator(".activity")).to_contain_text("Bash pytest -q")
    await page.goto(f"{address}/live")
    await expect(page.locator("[data-group=running]").locator(row)).to_contain_text("Bash pytest -q")

    await running.write(returned("t1"), call("t2", "AskUserQuestion", **QUESTION))
    await expect(page.locator("[data-group=waiting]").locator(row)).to_contain_text("waits for you")
    assert await page.locator(".session-day").first.get_attribute("data-group") == "waiting"

    await running.write(returned("t2"), END)
    await expect(page.locator("[data-group=ended]").locator(row)).to_be_visible()
    await expect(row.locator(".activity")).to_have_count(0)


@pytest.mark.slow
async def test_changes_while_the_board_loads_are_shown(page: Page, running: Session) -> None:
    """The list was read before them, and arrives after them."""
    await page.add_init_script(RECORD_FEED)
    answers = HeldAnswers(page)
    await answers.hold("**/api/sessions?*")
    await page.goto(f"{running.address.partition('/sessions/')[0]}/live")
    await answers.wait()
    await running.write(returned("t1"), call("t2", "AskUserQuestion", **QUESTION))
    await answers.send(running.id)

    row = page.locator(f"[data-session-id='{running.id}']")
    await expect(page.locator("[data-group=waiting]").locator(row)).to_be_visible()


@pytest.mark.slow
async def test_a_board_that_cannot_be_loaded_stays_an_error(
    page: Page, running: Session, complaints: list[str]
) -> None:
    """A change alone would look like the whole board."""
    await page.add_init_script(RECORD_FEED)
    await page.route("**/api/sessions?*", lambda route: route.fulfill(status=503, json={"title": "Busy."}))
    await page.goto(f"{running.address.partition('/sessions/')[0]}/live")
    await expect(page.locator(".state-title")).to_have_text("Busy.")
    await running.write(returned("t1"), call("t2", "AskUserQuestion", **QUESTION))
    await until_true(page, "(id) => received.includes(id)", arg=running.id)

    assert await page.inner_text(".state-title") == "Busy."
    await page.unroute("**/api/sessions?*")
    await page.click(".state .action")
    row = page.locator(f"[data-session-id='{running.id}']")
    await expect(page.locator("[data-group=waiting]").locator(row)).to_be_visible()
    complaints.clear()


NOTIFICATIONS = """
  globalThis.shown = [];
  globalThis.Notification = class extends EventTarget {
    static permission = "default";
    static requestPermission() {
      Notification.permission = "granted";
      return Promise.resolve("granted");
    }
    constructor(title, { body }) {
      super();
      shown.push([title, body]);
    }
  };
"""
"""The headless browser refuses notifications."""


@pytest.mark.slow
async def test_notifications_are_shown_after_a_click(page: Page, running: Session) -> None:
    await page.add_init_script(NOTIFICATIONS)
    await page.goto(f"{running.address.partition('/sessions/')[0]}/live")
    row = page.locator(f"[data-session-id='{running.id}']")
    title = await row.locator(".session-title").text_content()
    button = page.get_by_role("button", name="Notify me")
    await expect(button).to_have_attribute("aria-pressed", "false")

    await running.write(returned("t1"), call("t2", "AskUserQuestion", **QUESTION))
    await expect(page.locator("[data-group=waiting]").locator(row)).to_be_visible()
    await button.click()
    await expect(button).to_have_attribute("aria-pressed", "true")
    await running.write(returned("t2"), call("t3", "AskUserQuestion", **QUESTION))
    await running.write(returned("t3"), END)
    await expect(page.locator("[data-group=ended]").locator(row)).to_be_visible()

    assert [f"Ended: {title}", ""] in await page.evaluate("shown")
    assert ["Which port?"] not in await page.evaluate("shown.map(([title]) => [title])")


@pytest.mark.slow
async def test_address_of_a_session_that_has_not_begun_waits_for_it(
    page: Page, client: httpx2.AsyncClient, complaints: list[str]
) -> None:
    name = f"run {uuid4()}"
    await page.goto(f"{client.base_url}/sessions/{name}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("No session has this name or id")
    await expect(page.get_by_role("status")).to_contain_text("it opens here")

    lines = "\n".join(map(json.dumps, [claude.user("Begin."), *claude.streamed_text("Hello")]))
    created = await client.post("/api/sessions", json={"externalId": name, "title": name})
    await client.post(
        f"/api/sessions/{created.json()['id']}/messages",
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
    )

    await expect(page.locator(".assistant-text")).to_have_text("Hello")
    complaints[:] = [each for each in complaints if "404" not in each]


@pytest.mark.slow
async def test_page_of_a_missing_session_does_not_reload_forever(
    page: Page, client: httpx2.AsyncClient, complaints: list[str]
) -> None:
    """The list has a session that has no page: a proxy answers, or another server is behind."""
    address = f"{client.base_url}/sessions/{uuid4()}"
    loads = list[str]()
    page.on("request", lambda request: loads.append(request.url) if request.url == address else None)
    await page.route("**/api/sessions?reference=*", lambda route: route.fulfill(json={"sessions": [{}]}))
    await page.clock.install()

    await page.goto(address)
    retry = page.get_by_role("button", name="Try again")
    for _ in range(20):
        await page.clock.run_for(1_000)
    await expect(page.get_by_role("status")).to_have_text(
        "The session is stored, but its page does not open."
    )
    assert len(loads) == 5

    await page.unroute_all()
    await retry.click()
    await expect(page.get_by_role("status")).to_contain_text("it opens here")
    complaints[:] = [each for each in complaints if "404" not in each]


async def test_page_of_a_missing_session_stops_waiting(
    page: Page, client: httpx2.AsyncClient, complaints: list[str]
) -> None:
    await page.clock.install()
    await page.goto(f"{client.base_url}/sessions/{uuid4()}")
    await expect(page.get_by_role("status")).to_contain_text("it opens here")

    await page.clock.fast_forward("01:00:01")

    await expect(page.get_by_role("status")).to_have_text("This page no longer waits for the session.")
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    complaints[:] = [each for each in complaints if "404" not in each]
