"""Facts of a session in the list and on its page: its place, changes, labels."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from playwright.async_api import Page, expect

from tests.server.edited_session import edited_lines
from tests.shared.records import claude

MODEL = "claude-opus-4-5-20251101"


def place(project: str) -> dict[str, Any]:
    return {
        "cwd": f"/srv/{project}",
        "gitBranch": "fix-dates",
        "sessionId": "6f1e4c1a-9f0e-4d61-8a53-0f1d2b3c4d5e",
    }


def transcript(project: str) -> list[dict[str, Any]]:
    """An edit in two minutes, and a prompt an hour later."""
    edit = {"file_path": f"/srv/{project}/dates.py", "old_string": "a = 1", "new_string": "a = 2\nb = 3"}
    answer = {"id": "m1", "model": MODEL, "usage": {"input_tokens": 1, "output_tokens": 1}}
    lines = [
        ("user", "Put the dates right", None, "12:00"),
        ("assistant", [claude.call("toolu_1", "Edit", **edit)], answer, "12:01"),
        ("user", [claude.tool_result("toolu_1", "Edited.")], None, "12:02"),
        ("user", "Thanks", None, "13:02"),
    ]
    return [
        claude.line(
            kind, content, message, uuid=f"u{number}", timestamp=f"2026-03-10T{clock}:00Z", **place(project)
        )
        for number, (kind, content, message, clock) in enumerate(lines)
    ]


@pytest.fixture
async def client(ash: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=ash) as client:
        yield client


@pytest.fixture
def project() -> str:
    return f"project-{uuid4()}"


@pytest.fixture
async def session(client: httpx2.AsyncClient, project: str) -> str:
    created = (
        await client.post("/api/sessions", json={"source": "claude", "title": "Dates"})
    ).raise_for_status()
    id: str = created.json()["id"]
    stored = await client.post(
        f"/api/sessions/{id}/chunks",
        headers={"Content-Type": "application/x-ndjson"},
        content="\n".join(map(json.dumps, transcript(project))),
    )
    stored.raise_for_status()
    labels = {"starred": True, "tags": ["flaky"], "note": "Look **again**."}
    (await client.patch(f"/api/sessions/{id}/labels", json=labels)).raise_for_status()
    return id


async def test_row(page: Page, client: httpx2.AsyncClient, session: str, project: str) -> None:
    await page.goto(f"{client.base_url}/?project={project}")

    row = page.locator(f".session-item[data-session-id='{session}']")
    await expect(row).to_be_visible()
    facts = await row.locator(".session-place > span").all_text_contents()
    assert facts == ["★", project, "fix-dates", MODEL, "2 prompts", "1 h 2 min, 2 min 0 s active", "flaky"]


@pytest.mark.slow
async def test_filters_of_a_link_are_chips(
    page: Page, client: httpx2.AsyncClient, session: str, project: str
) -> None:
    await page.goto(f"{client.base_url}/?project={project}&branch=fix-dates&tag=other")
    await expect(page.locator(".state-title")).to_have_text("No session matches")

    chosen = page.locator(".choice[data-set] summary")
    assert await chosen.all_text_contents() == [f"Project {project}", "Branch fix-dates"]
    await page.get_by_role("group", name="Other filters").get_by_role("button", name="Tag other").click()
    await expect(page.locator(f".session-item[data-session-id='{session}']")).to_be_visible()
    await page.get_by_role("button", name="Starred").click()
    await expect(page.locator(".session-item")).to_have_count(1)


async def test_header(page: Page, client: httpx2.AsyncClient, session: str, project: str) -> None:
    await page.goto(f"{client.base_url}/sessions/{session}")

    where = page.locator(".session-header > .session-place")
    await expect(where.locator(".project a")).to_have_attribute("href", f"/?project=%2Fsrv%2F{project}")
    in_row = [project, "fix-dates", MODEL, "2 prompts", "1 h 2 min, 2 min 0 s active"]
    await expect(where.locator("> span")).to_have_text(in_row)
    facts = page.locator(".session-header > .session-facts > .fact")
    await expect(facts.last).to_have_text("1 changed file +2 \N{MINUS SIGN}1")
    shown = await facts.all_text_contents()
    assert shown[0] == "Claude"
    assert shown[2:4] == ["7 events", "1 tool call"]
    assert not [text for text in shown if "recognized" in text]
    labels = page.locator(".session-labels")
    await expect(labels.locator(".tag")).to_have_attribute("href", "/?tag=flaky")
    await expect(labels.locator(".session-note strong")).to_have_text("again")


@pytest.mark.slow
async def test_changes_lead_to_the_call(
    page: Page, client: httpx2.AsyncClient, session: str, project: str
) -> None:
    await page.goto(f"{client.base_url}/sessions/{session}")
    changed = page.locator(".session-facts .changes")
    await expect(changed).to_have_text("1 changed file +2 \N{MINUS SIGN}1")
    await expect(page.locator(".turn-changes")).to_be_visible()  # after the last update of the header
    await changed.click()

    panel = page.get_by_role("complementary", name="Changed files")
    await expect(panel.locator(".side-panel-facts")).to_contain_text("1 file · +2 \N{MINUS SIGN}1")
    await panel.locator("summary", has_text=f"/srv/{project}/dates.py").click()
    await expect(panel.locator(".diff-added")).to_have_text(["+a = 2", "+b = 3"])
    await panel.get_by_role("button", name="Turn 1 · Edit").click()
    await expect(page).to_have_url(re.compile(rf"/sessions/{session}\?message=2#e-.+"))
    await expect(page.locator("details.tool-call[open]")).to_contain_text("dates.py")
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()


TODOS = [
    {"content": "Write", "status": "completed", "activeForm": "Writing"},
    {"content": "Return", "status": "in_progress", "activeForm": "Returning"},
]
PLAN = json.dumps(claude.assistant(claude.call("toolu_9", "TodoWrite", todos=TODOS), uuid="u99"))
FOOTERS = ["1 changed file +2", "1 changed file +1 \N{MINUS SIGN}1"]


@pytest.fixture
async def edited(client: httpx2.AsyncClient) -> str:
    """The address of a session with edits in two turns, and a plan."""
    created = await client.post("/api/sessions", json={"source": "claude", "title": "Herons"})
    id = created.raise_for_status().json()["id"]
    body = [{"content": each} for each in (*edited_lines(), PLAN)]
    (await client.post(f"/api/sessions/{id}/messages", json=body)).raise_for_status()
    return f"{client.base_url}/sessions/{id}"


@pytest.mark.parametrize("suffix", ["", ".html"])
async def test_changes_of_a_turn_and_plan(page: Page, edited: str, suffix: str) -> None:
    """Also on an exported page."""
    await page.goto(f"{edited}{suffix}")
    footers = page.locator(".turn-end .turn-changes")
    await expect(footers).to_have_text(FOOTERS)
    await footers.nth(1).click()

    panel = page.locator(".side-panel.changes")
    await expect(panel.locator(".side-panel-facts")).to_contain_text("Turn 2 · 1 file · +1 \N{MINUS SIGN}1")
    await expect(panel.locator(".changed-commands")).to_have_count(0)
    await panel.get_by_role("button", name="Expand all").click()
    await expect(panel.locator(".diff-removed")).to_have_text(["\N{MINUS SIGN}    return 1"])
    await expect(panel.locator(".changed-call")).to_have_text(["Turn 2 · Edit"])
    await panel.get_by_role("button", name="All turns").click()
    await expect(panel.locator(".side-panel-facts")).to_contain_text(
        "1 file · +3 \N{MINUS SIGN}1 · 1 edit not counted"
    )
    await expect(panel.locator(".changed-commands")).to_contain_text("1 command that may have changed files")
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="plan 1 of 2").click()
    steps = panel.locator(".todo-list > li")
    await expect(steps).to_have_text(["done: Write", "being done: Return"])
    await expect(panel).to_have_attribute("aria-label", "Plan and changed files")


@pytest.mark.slow
async def test_edit_that_is_filtered_and_not_loaded(page: Page, client: httpx2.AsyncClient) -> None:
    created = await client.post("/api/sessions", json={"source": "claude", "title": "Herons"})
    id = created.raise_for_status().json()["id"]
    prompts = [json.dumps(claude.user(f"Prompt {number}", uuid=f"p{number}")) for number in range(900)]
    body = [{"content": each} for each in (*prompts, *edited_lines())]
    (await client.post(f"/api/sessions/{id}/messages", json=body)).raise_for_status()
    await page.goto(f"{client.base_url}/sessions/{id}?message=1")
    await page.locator(".session-facts .changes").click()
    panel = page.locator(".side-panel.changes")
    await panel.get_by_role("button", name="Expand all").click()
    link = panel.locator(".changed-file .changed-call").last
    await expect(link).to_be_visible()
    await expect(page.locator(".tool-call")).to_have_count(0)
    await link.click()

    call = page.locator("details.tool-call[data-state=done]", has_text="heron.py").last
    await expect(call).to_have_attribute("open", "")
    await expect(call).to_be_in_viewport()
    await page.keyboard.press("1")
    await expect(call).to_be_hidden()
    await link.click()
    await expect(call).to_be_in_viewport()


@pytest.mark.slow
async def test_phone_shows_the_edit_instead_of_the_panel(page: Page, edited: str) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(edited)
    await page.locator(".turn-changes").first.click()
    panel = page.locator(".side-panel.changes")
    await panel.get_by_role("button", name="Expand all").click()
    await panel.get_by_role("button", name="Turn 1 · Write").click()

    await expect(panel).to_be_hidden()
    await expect(page.locator("details.tool-call[open]").first).to_be_in_viewport()
