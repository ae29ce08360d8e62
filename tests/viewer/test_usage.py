"""The page of usage: bars and table, filters in the address, links to sessions, notes, and use by keyboard."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from playwright.async_api import Page, Route, expect

from ash_server.app import create_app
from ash_server.settings import Settings
from ash_shared.model.usage.reasons import REASONS
from tests.server.api.conftest import served
from tests.shared.records import claude
from tests.viewer.tabs import Tabs

TODAY, YESTERDAY, BEFORE = "2026-03-10T11:00:00Z", "2026-03-09T12:00:00Z", "2026-01-12T12:00:00Z"
OPUS, HAIKU, UNPRICED = "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001", "gemini-of-nobody"
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"

TABLE = """
() => [...document.querySelectorAll(".usage-table tr")].slice(1).map((row) =>
  [...row.cells].slice(0, 3).map((cell) => cell.textContent.trim()))
"""
"""The names, costs and tokens of all rows, also of those that are folded."""

BARS = """
() => [...document.querySelectorAll(".chart-plot rect[data-part]")].map((rect) =>
  [rect.dataset.period, rect.dataset.part, Number(rect.getAttribute("height"))])
"""

EXACT = """
() => [...document.querySelectorAll(".usage-part")].map((row) =>
  [row.cells[0].textContent.trim(), Number(row.cells[1].title.slice(1))])
"""

TAB_STOPS = """
() => [...document.querySelectorAll(".chart a")].map((link) => [link.getAttribute("tabindex"),
  link.closest("svg").getAttribute("aria-hidden")])
"""


@dataclass
class Store:
    """Sessions with a unique source, so that a test counts only its own."""

    client: httpx2.AsyncClient
    source: str = field(default_factory=lambda: f"claude {uuid4()}")
    numbers: Any = field(default_factory=lambda: count(1))

    def address(self, **query: str) -> str:
        return str(self.client.base_url.copy_with(path="/usage", params={"source": self.source, **query}))

    async def make(self, title: str, *answers: dict[str, Any], **fields: str) -> str:
        body = {"source": self.source, "title": title, **fields}
        created = (await self.client.post("/api/sessions", json=body)).raise_for_status().json()
        if not answers:
            return str(created["id"])
        lines = [{**line, "uuid": f"u{next(self.numbers)}"} for line in answers]
        posted = await self.client.post(
            f"/api/sessions/{created['id']}/chunks",
            params={"source": "claude"},
            headers={"Content-Type": "application/x-ndjson"},
            content="\n".join(map(json.dumps, lines)),
        )
        posted.raise_for_status()
        return str(created["id"])


@pytest.fixture
async def store(ash: str) -> AsyncIterator[Store]:
    async with httpx2.AsyncClient(base_url=ash) as client:
        yield Store(client)


@pytest.fixture(scope="module")
def tabs(tabs_with_clock: Tabs) -> Tabs:
    return tabs_with_clock


def answer(model: str, at: str, tokens: int, *, cached: int = 0, cwd: str = "/srv/site") -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 0, "cache_read_input_tokens": cached}
    message = {"id": f"m{uuid4()}", "model": model, "usage": usage}
    return claude.line("assistant", [claude.text("Done.")], message, timestamp=at, cwd=cwd)


async def open_page(page: Page, address: str) -> None:
    await page.goto(address)
    await shown(page)


async def shown(page: Page) -> None:
    await expect(page.locator(".usage-contents")).to_have_attribute("aria-busy", "false")


async def two_days(store: Store) -> list[str]:
    """Opus costs $5 per million input tokens, Haiku $1."""
    return [
        await store.make("First", answer(OPUS, YESTERDAY, 400_000), answer(HAIKU, YESTERDAY, 1_000_000)),
        await store.make("Second", answer(OPUS, TODAY, 100_000, cached=900_000)),
    ]


async def test_bars_have_the_figures_of_the_table(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address())

    assert await page.evaluate(TABLE) == [
        ["Tue, Mar 10, 2026", "$0.95", "1\N{NO-BREAK SPACE}M"],
        [OPUS, "$0.95", "1\N{NO-BREAK SPACE}M"],
        ["Mon, Mar 9, 2026", "$3.00", "1.4\N{NO-BREAK SPACE}M"],
        [OPUS, "$2.00", "400\N{NO-BREAK SPACE}K"],
        [HAIKU, "$1.00", "1\N{NO-BREAK SPACE}M"],
        ["Total", "$3.95", "2.4\N{NO-BREAK SPACE}M"],
    ]
    bars = await page.evaluate(BARS)
    assert [bar[:2] for bar in bars] == [
        ["day 2026-03-09", OPUS],
        ["day 2026-03-09", HAIKU],
        ["day 2026-03-10", OPUS],
    ]
    costs = [cost for _, cost in await page.evaluate(EXACT)]
    heights = [height + 1 for *_, height in bars]  # a line separates segments
    assert [round(height / sum(heights), 2) for height in heights] == [
        round(cost / sum(costs), 2) for cost in (costs[1], costs[2], costs[0])
    ]
    label = await page.locator(".chart svg[role=img]").get_attribute("aria-label")
    assert label == (
        "Cost by day, stacked by model: Mon, Feb 9, 2026 to Tue, Mar 10, 2026; the most is $3.00 on Mon, Mar 9, "
        "2026. The table below has these figures."
    )
    totals = await page.locator(".usage-totals .total").all_text_contents()
    assert totals == ["$3.95", "2.4\N{NO-BREAK SPACE}M", "37.5%", "3"]


FIGURES = """
() => [...document.querySelectorAll(".usage-row, .usage-part, tfoot tr")].map((row) =>
  Object.fromEntries([...row.querySelectorAll("td")].map((cell) =>
    [cell.dataset.label, Number(cell.title.replace(/[$,]/g, ""))])))
"""
COLUMNS = {
    "Cost": ("costUsd",),
    "Tokens": ("total_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "Input": ("input_tokens",),
    "Cache read": ("cache_read_input_tokens",),
    "Cache written": ("cache_creation_input_tokens",),
    "Output": ("output_tokens",),
    "Answers": ("answers",),
}


async def test_table_has_the_figures_of_the_api(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address())
    shown = await page.evaluate(FIGURES)
    query = {"source": store.source, "since": "2026-02-09T00:00:00Z", "timezone": "UTC"}
    reports = [
        (await store.client.get("/api/usage", params={**query, "by": by})).json()
        for by in ("day", "day,model")
    ]
    days = {row["day"]: row for row in reports[0]["rows"]}
    rows = [
        counts
        for day in sorted(days, reverse=True)
        for counts in (days[day], *(row for row in reports[1]["rows"] if row["day"] == day))
    ]
    expected = [
        {name: sum(counts[field] for field in fields) for name, fields in COLUMNS.items()}
        for counts in (*rows, reports[0]["totals"])
    ]

    assert [{name: row[name] for name in COLUMNS} for row in shown] == expected


async def test_blocks_have_an_end(page: Page, store: Store) -> None:
    await store.make("First", answer(OPUS, TODAY, 100_000))
    await open_page(page, store.address(by="block"))

    names = [" ".join(row[0].split()) for row in await page.evaluate(TABLE)]
    assert names == ["Tue, Mar 10, 11:00 AM \u2013 4:00 PM", OPUS, "Total"]


async def test_names_show_marks_of_direction(page: Page, store: Store) -> None:
    await store.make("First", answer(OPUS, TODAY, 100_000, cwd="/srv/\u202egpj.exe"))
    await store.make("Second", answer(OPUS, TODAY, 100_000, cwd="/srv/other"))
    await open_page(page, store.address(by="project"))

    names = [row[0] for row in await page.evaluate(TABLE)]
    assert sorted(names) == ["Total", "srv/<U+202E>gpj.exe", "srv/other"]
    await expect(page.locator("select[name=project] option", has_text="<U+202E>")).to_have_count(1)
    assert "\u202e" not in await page.evaluate("document.body.innerText")


async def test_list_without_prices_names_the_reason(page: Page, store: Store) -> None:
    async def change(route: Route) -> None:
        answered = await route.fetch()
        await route.fulfill(
            response=answered, json={**await answered.json(), "pricesError": "line 3: no price"}
        )

    await two_days(store)
    await page.route("**/api/sessions?*", change)
    await page.goto(str(store.client.base_url.copy_with(path="/")))
    await expect(page.locator(".list-view .usage-note").first).to_have_text(
        "Costs are missing: line 3: no price"
    )
    await page.unroute_all(behavior="wait")


@pytest.mark.slow
async def test_list_by_cost_notes_that_costs_are_outdated(page: Page, store: Store) -> None:
    async def change(route: Route) -> None:
        answered = await route.fetch()
        await route.fulfill(response=answered, json={**await answered.json(), "costsOutdated": True})

    await two_days(store)
    await page.route("**/api/sessions?*", change)
    await page.goto(str(store.client.base_url.copy_with(path="/")))
    await expect(page.get_by_text("the order is approximate until the server")).to_be_visible()
    await page.unroute_all(behavior="wait")
    await page.reload()
    await expect(page.locator(".list-view .usage-note:visible")).to_have_count(0)


@pytest.mark.slow
async def test_filters_are_in_the_address(page: Page, store: Store) -> None:
    await two_days(store)
    await store.make("Long ago", answer(HAIKU, BEFORE, 2_000_000, cwd="/srv/other"))
    await open_page(page, store.address())
    total = page.locator(".usage-totals .total").first

    async def sees(cost: str, **query: str) -> None:
        await expect(total).to_have_text(cost)
        assert dict(httpx2.URL(page.url).params) == {"source": store.source, **query}

    await sees("$3.95")
    await page.click("text=90 days")
    await sees("$5.95", since="90d")
    await page.get_by_label("Model", exact=True).select_option(HAIKU)
    await sees("$3.00", since="90d", model=HAIKU)
    await page.get_by_label("Project").select_option("/srv/other")
    await sees("$2.00", since="90d", model=HAIKU, project="/srv/other")
    await page.get_by_role("button", name="Tokens").click()
    await sees("$2.00", since="90d", model=HAIKU, project="/srv/other", measure="tokens")
    await page.get_by_label("By", exact=True).select_option("project")
    await expect(page.locator(".usage-row .row-title")).to_have_text(["srv/other"])

    await page.go_back()
    await page.go_back()
    await page.go_back()
    await sees("$3.00", since="90d", model=HAIKU)
    await page.go_forward()
    await sees("$2.00", since="90d", model=HAIKU, project="/srv/other")
    await page.get_by_text("Dates").click()
    await page.locator("[name=until]").fill("2026-01-13")
    await sees("$2.00", model=HAIKU, project="/srv/other", until="2026-01-13")
    await page.locator(".range > summary").click()  # the panel covers what is below
    await page.click("text=Clear filters")
    await expect(page.get_by_label("Project")).to_have_value("")


@pytest.mark.slow
async def test_figures_lead_to_sessions(page: Page, store: Store) -> None:
    first, _ = await two_days(store)
    await open_page(page, store.address())

    await page.get_by_role("link", name="Mon, Mar 9, 2026").click()
    names = page.locator(".usage-row .row-title")
    await expect(names).to_have_text(["First"])
    assert dict(httpx2.URL(page.url).params) == {
        "source": store.source,
        "by": "session",
        "since": "2026-03-09",
        "until": "2026-03-09",
    }
    await page.go_back()
    await page.click(f".legend >> text={OPUS}")
    await expect(names).to_have_text(["First", "Second"])
    await page.click("text=First")
    await expect(page).to_have_url(f"{store.client.base_url}/sessions/{first}")


async def test_bar_leads_to_the_sessions_of_its_day(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address())

    await page.locator(".chart-links a").first.hover()
    await expect(page.locator(".chart-readout")).to_have_text(
        "Mon, Mar 9, 2026 $3.00 · 1.4\N{NO-BREAK SPACE}M tokens"
    )
    await page.locator(".chart-links a").first.click()
    await expect(page.locator(".usage-row .row-title")).to_have_text(["First"])


async def test_bars_are_no_tab_stops(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address())
    assert await page.evaluate(TAB_STOPS) == [["-1", "true"]] * 2


async def test_rows_unfold_by_keyboard(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address())
    parts = page.locator(".usage-part:visible .row-title")

    await page.get_by_role("button", name="Parts of Mon, Mar 9, 2026").focus()
    await page.keyboard.press("Enter")
    await expect(parts).to_have_text([OPUS, HAIKU])
    await page.keyboard.press("Enter")
    await expect(parts).to_have_count(0)
    await page.get_by_role("button", name="Each row by model").focus()
    await page.keyboard.press("Space")
    await expect(parts).to_have_text([OPUS, OPUS, HAIKU])


async def test_models_without_a_price(page: Page, store: Store) -> None:
    await store.make("Mixed", answer(HAIKU, TODAY, 1_000_000), answer(UNPRICED, TODAY, 3000))
    await store.make("Unpriced", answer(UNPRICED, YESTERDAY, 5000))
    await open_page(page, store.address())

    assert await page.evaluate(TABLE) == [
        ["Tue, Mar 10, 2026", "$1.00+", "1\N{NO-BREAK SPACE}M"],
        [HAIKU, "$1.00", "1\N{NO-BREAK SPACE}M"],
        [UNPRICED, "unpriced", "3\N{NO-BREAK SPACE}K"],
        ["Mon, Mar 9, 2026", "unpriced", "5\N{NO-BREAK SPACE}K"],
        [UNPRICED, "unpriced", "5\N{NO-BREAK SPACE}K"],
        ["Total", "$1.00+", "1.01\N{NO-BREAK SPACE}M"],
    ]
    note = page.locator("section:has(> #without-a-price) li")
    await expect(note).to_have_text(
        f"{UNPRICED} 8,000 tokens · 2 answers · {store.source} · {REASONS['unknown_model']}"
    )


async def test_other_dimensions_have_bars_in_their_rows(page: Page, store: Store) -> None:
    await two_days(store)
    await open_page(page, store.address(by="model"))

    await expect(page.locator(".chart")).to_have_count(0)
    widths = "() => [...document.querySelectorAll('.row-bar rect')].map((bar) => bar.getAttribute('width'))"
    assert await page.evaluate(TABLE) == [
        [OPUS, "$2.95", "1.4\N{NO-BREAK SPACE}M"],
        [HAIKU, "$1.00", "1\N{NO-BREAK SPACE}M"],
        ["Total", "$3.95", "2.4\N{NO-BREAK SPACE}M"],
    ]
    assert await page.evaluate(widths) == ["1000", "338.98"]


async def test_without_usage_in_the_time(page: Page, store: Store) -> None:
    await store.make("Long ago", answer(HAIKU, BEFORE, 1_000_000))
    await open_page(page, store.address(since="7d"))

    await expect(page.locator(".state-title")).to_have_text("No usage")
    await page.get_by_role("button", name="Show all").click()
    await expect(page.locator(".usage-totals")).to_be_visible()


@pytest.fixture
async def empty(page: Page, database_url: str) -> AsyncIterator[str]:
    with served(create_app(Settings(), database_url=database_url)) as address:
        yield address
        await page.goto("about:blank")  # before the server stops


@pytest.mark.slow
async def test_empty_store(page: Page, empty: str) -> None:
    await open_page(page, f"{empty}/usage?since=all")
    await expect(page.locator(".state-title")).to_have_text("No usage yet")
    await expect(page.locator(".command code")).to_have_text("ash import --all")


async def test_sessions_of_earlier_versions(page: Page, store: Store) -> None:
    async def change(route: Route) -> None:
        answered = await route.fetch()
        report = await answered.json()
        await route.fulfill(response=answered, json={**report, "sessionsWithoutFacts": 2, "omittedRows": 3})

    await two_days(store)
    await page.route("**/api/usage?*", change)
    await open_page(page, store.address())

    notes = page.locator(".usage-note")
    await expect(notes.first).to_contain_text("lack 2 sessions that an earlier version of Ash stored")
    await expect(notes.first.locator("code")).to_have_text("ash reindex")
    await expect(notes.nth(1)).to_contain_text("lack 3 rows")
    await page.unroute_all(behavior="wait")  # the page still loads the values of its filters


async def test_budgets(page: Page, store: Store) -> None:
    def budget(limit: float, project: str | None = None) -> dict[str, Any]:
        times = {"periodStart": "2026-03-01T00:00:00Z", "periodEnd": "2026-04-01T00:00:00Z"}
        of_project = {} if project is None else {"project": project}
        return {
            "limitUsd": limit,
            "spentUsd": 3,
            "isPassed": limit < 3,
            "period": "month",
            **times,
            **of_project,
        }

    async def fulfil(route: Route) -> None:
        await route.fulfill(json={"budgets": [budget(50), budget(2.5, "/srv/site")]})

    await two_days(store)
    await page.route("**/api/budgets", fulfil)
    await open_page(page, store.address())

    budgets = page.locator(".budget")
    await expect(budgets).to_have_text(
        ["This month $3.00 of $50.00 · 6.0%", "This month in srv/site $3.00 of $2.50 · 120.0% passed"]
    )
    await budgets.last.get_by_role("link").click()
    await page.wait_for_url("**/usage?*project=*")
    await expect(page.locator(".usage-totals")).to_be_visible()
    assert dict(httpx2.URL(page.url).params) == {
        "since": "2026-03-01T00:00:00Z",
        "until": "2026-04-01T00:00:00Z",
        "project": "/srv/site",
    }


async def test_failed_request_can_be_repeated(page: Page, store: Store, complaints: list[str]) -> None:
    async def fail(route: Route) -> None:
        await route.fulfill(status=503, json={"title": "The database is busy.", "status": 503})

    await two_days(store)
    await page.route("**/api/usage?*", fail)
    await open_page(page, store.address())
    await expect(page.locator(".state-title")).to_have_text("The database is busy.")
    await page.unroute("**/api/usage?*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.locator(".usage-totals .total").first).to_have_text("$3.95")
    complaints[:] = [each for each in complaints if "503" not in each]


async def test_redacted_page_stays_redacted(page: Page, store: Store) -> None:
    await store.make(f"With {TOKEN}", answer(HAIKU, TODAY, 1_000_000))
    await open_page(page, store.address(redact="1", by="session"))

    await expect(page.locator(".usage-row .row-title")).to_have_text(["With [redacted: github token]"])
    assert TOKEN not in await page.content()
    href = await page.locator(".usage-row a").get_attribute("href")
    assert str(href).endswith("?redact=1")
    await page.click("text=7 days")
    await shown(page)
    assert httpx2.URL(page.url).params["redact"] == "1"


async def with_subagent(store: Store) -> str:
    """A session of $1 with a subagent of $2."""
    parent = await store.make("Parent", answer(HAIKU, TODAY, 1_000_000))
    await store.make("Child", answer(OPUS, TODAY, 400_000), parentId=parent)
    return parent


async def test_list_shows_tokens_and_costs_with_subagents(page: Page, store: Store) -> None:
    await with_subagent(store)
    await store.make("Unpriced", answer(UNPRICED, YESTERDAY, 3000))
    await store.make("Silent")
    await page.goto(store.address().replace("/usage", "/"))
    await expect(page.locator(".list-view")).to_have_attribute("aria-busy", "false")

    rows = page.locator(".session-item > .session-row")
    amounts = [await row.locator(".amount").all_text_contents() for row in await rows.all()]
    assert sorted(amounts) == [
        ["", ""],
        ["1.4\N{NO-BREAK SPACE}M tokens", "≈$3.00"],
        ["3,000 tokens", "unpriced"],
    ]
    titles = (
        await rows.filter(has_text="Parent")
        .locator(".amount")
        .evaluate_all("(all) => all.map((each) => each.title)")
    )
    assert titles == ["1,400,000 tokens", "Computed at API prices; subagents $2.00 of $3.00"]


async def test_header_shows_the_cost_with_subagents(page: Page, store: Store) -> None:
    parent = await with_subagent(store)
    await page.goto(f"{store.client.base_url}/sessions/{parent}")
    fact = page.locator(".session-facts .fact", has_text="$")
    await expect(fact).to_have_text("≈$3.00, subagents $2.00 of $3.00")
    await expect(fact).to_have_attribute("title", "Computed at API prices")


@pytest.mark.slow
async def test_exported_page_shows_the_cost_of_the_session_page(page: Page, store: Store) -> None:
    parent = await store.make("Parent", answer(HAIKU, TODAY, 1_000_000), answer(UNPRICED, TODAY, 1))
    await store.make("Child", answer(OPUS, TODAY, 400_000), parentId=parent)
    fact = page.locator(".session-facts .fact", has_text="$")
    shown = []
    for suffix in ("", ".html"):
        await page.goto(f"{store.client.base_url}/sessions/{parent}{suffix}")
        await expect(fact).to_have_count(1)
        shown.append((await fact.text_content(), await fact.get_attribute("title")))

    hint = "Computed at API prices; 1 of 3 answers have no price"
    assert shown == [("≈$3.00+, subagents $2.00 of $3.00", hint)] * 2


@pytest.mark.slow
async def test_pages_lead_to_each_other(page: Page, ash: str) -> None:
    await page.goto(ash)
    await page.get_by_role("link", name="Usage").click()
    await expect(page).to_have_url(f"{ash}/usage")
    await page.get_by_role("link", name="Sessions").click()
    await expect(page).to_have_url(f"{ash}/")
