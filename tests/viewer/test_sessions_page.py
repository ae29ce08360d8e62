"""The sessions page: rows and their order, search, filters and live updates."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.marking import slow_after
from tests.shared.records import claude
from tests.viewer.browser import RECORD_FEED, HeldAnswers, elapse, still
from tests.viewer.hostile import PAYLOADS
from tests.viewer.tabs import Tabs

TODAY, YESTERDAY = "2026-03-10T11:00:00Z", "2026-03-09T12:00:00Z"
BEFORE, LONG_BEFORE = "2026-02-03T12:00:00Z", "2026-01-02T12:00:00Z"

SEEN = """
() => {
  const texts = (root, selector) => [...root.querySelectorAll(selector)].map((each) => each.textContent.trim());
  return [...document.querySelectorAll(".session-day")].map((day) => [
    day.querySelector(".day").textContent,
    [...day.querySelectorAll(":scope > ul > li")].map((item) => [
      ...texts(item, ":scope > a > .session-title"),
      ...texts(item, ":scope > a > .session-prompt"),
      ...texts(item, ":scope > a .fact"),
      ...texts(item, ":scope > details > summary"),
    ]),
  ]);
}
"""
"""The texts of the rows by day, without times and sources."""

TITLES = "() => [...document.querySelectorAll('.session-item > a > .session-title')].map((each) => each.textContent)"


@dataclass
class Store:
    """Sessions with a unique source, so that a test lists only its own."""

    client: httpx2.AsyncClient
    source: str = field(default_factory=lambda: f"test {uuid4()}")
    numbers: Any = field(default_factory=lambda: count(1))

    @property
    def address(self) -> str:
        return str(self.client.base_url.copy_with(path="/", params={"source": self.source}))

    async def make(self, title: str | None = None, *lines: dict[str, Any], **fields: Any) -> str:
        body = {"source": self.source, **({} if title is None else {"title": title}), **fields}
        created = (await self.client.post("/api/sessions", json=body)).raise_for_status().json()
        await self.post(created["id"], *lines)
        return str(created["id"])

    async def post(self, session_id: str, *lines: dict[str, Any]) -> None:
        address = f"/api/sessions/{session_id}/chunks"
        headers = {"Content-Type": "application/x-ndjson"}
        content = "\n".join(json.dumps({**line, "uuid": f"u{next(self.numbers)}"}) for line in lines)
        if lines:
            answer = await self.client.post(
                address, params={"source": "claude"}, headers=headers, content=content
            )
            answer.raise_for_status()


@pytest.fixture
async def store(ash: str) -> AsyncIterator[Store]:
    async with httpx2.AsyncClient(base_url=ash) as client:
        yield Store(client)


@pytest.fixture(scope="module")
def tabs(tabs_with_clock: Tabs) -> Tabs:
    return tabs_with_clock


def user(text: str, at: str) -> dict[str, Any]:
    return claude.line("user", text, timestamp=at)


def failed(at: str) -> dict[str, Any]:
    return claude.line("user", [claude.tool_result("t", "1 failed", is_error=True)], timestamp=at)


def unheard_of(at: str) -> dict[str, Any]:
    return {"type": "holo_frame", "timestamp": at, "frames": [1]}


async def open_list(page: Page, address: str) -> None:
    await page.goto(address)
    await expect(page.locator(".list-view")).to_have_attribute("aria-busy", "false")


async def test_rows_by_day(page: Page, store: Store) -> None:
    parent = await store.make("Fix the paths", user("Please.", TODAY))
    await store.make("Look at Windows", user("Look.", TODAY), parentId=parent)
    await store.make("Look at macOS", user("Look.", YESTERDAY), parentId=parent)
    await store.make(None, user("Which tests\n fail?", YESTERDAY), failed(YESTERDAY), unheard_of(YESTERDAY))
    await store.make("Of a session that is elsewhere", user("Go on.", BEFORE), parentId=str(uuid4()))
    await store.make(None, unheard_of(LONG_BEFORE), externalId="runs/7.jsonl")

    await open_list(page, store.address)

    assert await page.evaluate(SEEN) == [
        ["Today", [["Fix the paths", "Please.", "2 events", "2 subagents"]]],
        ["Yesterday", [["Which tests fail?", "4 events", "1 error", "1 not recognized"]]],
        [
            "Tue, Feb 3",
            [["Of a session that is elsewhere", "Go on.", "subagent", "2 events"]],
        ],
        ["Fri, Jan 2", [["7", "1 event", "1 not recognized"]]],
    ]
    assert await page.inner_text(".list-status") == "6 sessions"


@pytest.mark.slow
async def test_sources_have_display_names(page: Page, store: Store) -> None:
    named = Store(store.client, "gemini_cli")
    await named.make(f"Of {store.source}", user(f"Kites of {store.source}", TODAY))

    await open_list(page, named.address)
    await expect(page.locator(".session-row .session-source").first).to_have_text("Gemini CLI")
    await expect(page.locator("summary[data-filter=source]")).to_have_text("Source Gemini CLI")
    await page.fill(".search-box", f'"Kites of {store.source}"')
    await expect(page.locator(".hits .session-source")).to_have_text("Gemini CLI")


@pytest.mark.slow
async def test_agents_have_display_names(page: Page, store: Store) -> None:
    """In the list, in results, as a filter, and on the page of the session."""
    words = f"Ships of {store.source}"
    metadata = {"agent": "openclaude"}
    id = await store.make(f"By an agent of {store.source}", user(words, TODAY), metadata=metadata)

    await open_list(page, store.address)
    await expect(page.locator(".session-row .session-source").first).to_have_text("OpenClaude")
    await expect(page.locator("[data-value=openclaude] .choice-name")).to_have_text("OpenClaude")
    await page.fill(".search-box", f'"{words}"')
    await expect(page.locator(".hits .session-source")).to_have_text("OpenClaude")
    await page.goto(f"{store.address.partition('?')[0]}sessions/{id}")
    await expect(page.locator(".session-facts")).to_contain_text("OpenClaude")


@pytest.mark.slow
async def test_results_of_a_session_without_a_title_have_its_name(page: Page, store: Store) -> None:
    line = claude.line("assistant", [claude.text("A pelican.")], timestamp=TODAY)
    await store.make(None, line, externalId="runs/9.jsonl")

    await open_list(page, store.address)
    await page.fill(".search-box", "pelican")
    await expect(page.locator(".hits .session-title")).to_have_text("9")


async def test_subagents_unfold(page: Page, store: Store) -> None:
    parent = await store.make("Fix the paths", user("Please.", TODAY))
    for title, at in (("Windows", YESTERDAY), ("macOS", TODAY)):
        await store.make(title, user("Look.", at), parentId=parent)

    await open_list(page, store.address)
    await page.keyboard.press("j")
    await page.keyboard.press("e")

    nested = page.locator(".subagents .session-title")
    await expect(nested).to_have_text(["macOS", "Windows"])


@pytest.mark.slow
async def test_row_is_a_link(page: Page, store: Store) -> None:
    session_id = await store.make("Fix the paths", user("Please.", TODAY))

    await open_list(page, store.address)
    await page.click(".session-row")

    await expect(page).to_have_url(f"{store.client.base_url}/sessions/{session_id}")


@pytest.mark.slow
async def test_loads_all_pages(page: Page, store: Store) -> None:
    titles = [f"Session {number}" for number in range(130)]
    for title in titles:
        await store.make(title)

    await open_list(page, store.address)
    for _ in titles:
        await page.keyboard.press("j")
    await expect(page.locator(".list-status")).to_have_text("130 sessions")
    await expect(page.locator(".session-item")).to_have_count(
        130
    )  # changes are counted before they have a row

    assert await page.evaluate(TITLES) == titles[::-1]
    await expect(page.locator(".more")).to_be_hidden()


@pytest.mark.slow
async def test_going_back_restores_the_scroll_position(page: Page, store: Store) -> None:
    for number in range(130):
        await store.make(f"Session {number}")
    await open_list(page, store.address)
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await expect(page.locator(".list-status")).to_have_text("130 sessions")
    row = page.get_by_text("Session 3", exact=True)
    await row.scroll_into_view_if_needed()
    before = await top_of(page, row)

    await row.click()
    await page.wait_for_url("**/sessions/*")
    await page.go_back()
    await expect(page.locator(".list-view")).to_have_attribute("aria-busy", "false")

    assert await top_of(page, row) == pytest.approx(before, abs=2)


@pytest.mark.slow
async def test_filters_are_in_the_address(page: Page, store: Store) -> None:
    await store.make("Of today", user("Go on.", TODAY))
    await store.make("Of yesterday", user("Go on.", YESTERDAY), failed(YESTERDAY))
    await store.make("Of long ago", user("Go on.", BEFORE))
    await open_list(page, store.address)
    shown = page.locator(".session-item > a > .session-title")

    async def sees(query: dict[str, str], *titles: str) -> None:
        await expect(shown).to_have_text(titles)
        url = httpx2.URL(page.url)
        assert dict(url.params) == {"source": store.source, **query}

    await sees({}, "Of today", "Of yesterday", "Of long ago")
    await page.click("text=7 days")
    await sees({"since": "7d"}, "Of today", "Of yesterday")
    await page.click("text=Errors only")
    await sees({"since": "7d", "errors": "true"}, "Of yesterday")
    await page.go_back()
    await sees({"since": "7d"}, "Of today", "Of yesterday")
    await page.go_back()
    await sees({}, "Of today", "Of yesterday", "Of long ago")
    await page.go_forward()
    await sees({"since": "7d"}, "Of today", "Of yesterday")
    await page.reload()
    await sees({"since": "7d"}, "Of today", "Of yesterday")
    await page.click("summary:text-is('Dates')")
    await page.fill(".range input[name=since]", "2026-02-01")
    await page.fill(".range input[name=until]", "2026-02-28")
    await sees({"since": "2026-02-01", "until": "2026-02-28"}, "Of long ago")
    await page.click("text=Today")
    await sees({"since": "today"}, "Of today")


async def test_empty_results_show_a_notice(page: Page, store: Store) -> None:
    await store.make("Of long ago", user("Go on.", BEFORE))
    await page.goto(f"{store.address}&since=today")

    await expect(page.locator(".state-title")).to_have_text("No session matches")
    await page.click(".state .action")

    await expect(page.locator(".session-title").first).to_be_visible()
    assert httpx2.URL(page.url).query == b""


async def test_empty_store_shows_how_to_fill_it(page: Page, store: Store) -> None:
    await answer(page, "**/api/sessions?*", {"sessions": []})
    await page.route("**/api/sessions/stream", never)
    await page.goto(str(store.client.base_url))

    await expect(page.locator(".state-title")).to_have_text("Nothing here yet")
    lines = await page.locator(".command code").all_inner_texts()
    assert [line.split(" | ")[-1] for line in lines] == [
        "ash import --discover",
        "ash import --all",
        "ash ingest --session fix",
        "ash ingest --session fix",
    ]
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.clock.pause_at("2026-03-10T12:10:00Z")  # "Copied" is shown for two seconds of its clock
    await page.click(".command >> nth=0 >> button")
    await expect(page.locator(".command button").first).to_have_text("Copied")
    assert await page.evaluate("navigator.clipboard.readText()") == "ash import --discover"
    await page.clock.resume()


@pytest.mark.slow
async def test_failed_request_can_be_retried(page: Page, store: Store, complaints: list[str]) -> None:
    await store.make("Fix the paths")
    problem = {"title": "The database does not answer.", "status": 503, "code": "database_unavailable"}
    await answer(page, "**/api/sessions?*", problem, 503)
    await page.route("**/api/sessions/stream", never)
    await page.goto(store.address)

    await expect(page.locator(".state-title")).to_have_text("The database does not answer.")
    await page.unroute("**/api/sessions?*")
    await page.click(".state .action")

    await expect(page.locator(".session-title")).to_have_text("Fix the paths")
    assert all("503" in complaint for complaint in complaints)
    complaints.clear()


async def never(route: Route) -> None:
    """Leave the stream request unanswered; once connected, the page would retry without the user."""


async def answer(page: Page, address: str, document: object, status: int = 200) -> None:
    async def fulfil(route: Route) -> None:
        await route.fulfill(status=status, json=document)

    await page.route(address, fulfil)


@pytest.mark.slow
async def test_titles_are_text(page: Page, store: Store) -> None:
    texts = [text for text in map(one_line, PAYLOADS) if 0 < len(text) < 150][-100:]
    for number, text in enumerate(texts):
        at = f"2026-03-10T11:{59 - number // 60:02}:{59 - number % 60:02}Z"
        await store.make(text, user(f"Read: {text}", at), externalId=f"{store.source} {text}")

    await open_list(page, store.address)

    titles = await page.locator(".session-title").all_text_contents()
    assert list(map(unmarked, titles)) == list(map(unmarked, texts))
    prompts = await page.locator(".session-prompt").all_text_contents()
    assert list(map(unmarked, prompts)) == [unmarked(f"Read: {text}") for text in texts]


@pytest.mark.slow
async def test_titles_are_shown_without_markdown(page: Page, store: Store) -> None:
    await store.make("## Fix `a.py` and **all** of 2 * 3 ** 4", user("Look at `b.py`.", TODAY))
    await store.make(None, user("Run `make` `` `x` ``", BEFORE))
    await store.make(None, unheard_of(LONG_BEFORE), externalId="/home/dev/runs/7.jsonl")

    await open_list(page, store.address)

    names = page.locator(".session-title")
    assert await names.all_text_contents() == [
        "Fix a.py and all of 2 * 3 ** 4",
        "Run make `` x ``",
        "7 · runs",
    ]
    assert await names.last.get_attribute("title") == "/home/dev/runs/7.jsonl"
    assert await page.text_content(".session-prompt") == "Look at b.py. "

    await names.last.click()

    await expect(page.locator("h1")).to_have_text("7 · runs")
    assert await page.get_attribute("h1", "title") == "/home/dev/runs/7.jsonl"


PROMPT = "Fix the paths on Windows. " + "All of them, as far as you can see. " * 8


@pytest.mark.slow
async def test_first_prompt_is_shown_once(page: Page, store: Store) -> None:
    """The list and the page of a session show it once, and other titles with it."""
    titles = {
        "none": None,
        "cut": "Fix the paths on Windows. All of …",
        "longer": f"{PROMPT} {PROMPT}",
        "other": "Paths",
    }
    ids = {name: await store.make(title, user(PROMPT, TODAY)) for name, title in titles.items()}
    await open_list(page, store.address)

    rows = {name: page.locator(f"[data-session-id='{id}']") for name, id in ids.items()}
    shown = {name: await row.locator(".session-prompt").count() for name, row in rows.items()}
    assert shown == {"none": 0, "cut": 0, "longer": 0, "other": 1}
    visible = {}
    for name, row in rows.items():
        await row.locator("a").click()
        await expect(page.locator(".user-message")).to_have_count(1)
        visible[name] = (await page.locator("h1").bounding_box() or {"height": 0})["height"] > 1
        await page.go_back()
    assert visible == {"none": False, "cut": True, "longer": True, "other": True}


@pytest.mark.slow
async def test_title_is_shown_if_the_log_does_not_begin_with_it(page: Page, store: Store) -> None:
    await store.make(None, user("<command-name>/clear</command-name>", TODAY), user("Fix the paths.", TODAY))
    await open_list(page, store.address)
    await page.locator(".session-row").click()

    await expect(page.locator(".user-message").first).to_have_text(re.compile("/clear"))
    await expect(page.locator("h1:not(.visually-hidden)")).to_have_text("Fix the paths.")


@pytest.mark.parametrize("text", slow_after(2, PAYLOADS[::20]))
async def test_source_names_are_text(page: Page, store: Store, text: str) -> None:
    hostile = Store(store.client, f"{one_line(text)[:60]} {uuid4()}")
    await hostile.make("Fix the paths")

    await open_list(page, hostile.address)

    assert await page.text_content(".session-source") == hostile.source
    assert await page.text_content(".choice[data-set] summary bdi") == hostile.source


@pytest.mark.slow
async def test_search_finds_titles_and_messages(page: Page, store: Store) -> None:
    named = await store.make("Kingfisher at the lake", user("Count them.", TODAY))
    hit = await store.make("Herons", user("Where is the kingfisher <b>now</b>?", TODAY), *results(BEFORE, 4))
    await open_list(page, store.address)

    await page.keyboard.press("/")
    await page.keyboard.insert_text("-")
    await elapse(page, 300)
    await page.fill(".search-box", "kingfisher")
    await expect(page.locator(".hit")).to_have_count(1)

    assert await page.locator(".titles-found .session-row").evaluate_all(HREFS) == [f"/sessions/{named}"]
    assert [href.split("#e-")[0] for href in await page.locator(".hit").evaluate_all(HREFS)] == [
        f"/sessions/{hit}?message=1"
    ]
    assert await page.text_content(".snippet") == "Where is the kingfisher <b>now</b>?"
    assert await page.locator("mark").all_text_contents() == ["kingfisher"]
    assert httpx2.URL(page.url).params["q"] == "kingfisher"

    await page.get_by_label("in tool results too").check()
    await expect(page.locator(".hit")).to_have_count(3)
    await page.get_by_text("2 more in this session").click()
    await expect(page.locator(".hit")).to_have_count(5)

    await page.locator(".search-box").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        await page.keyboard.press(key)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/sessions/{hit}?message=1#e-*")
    await page.go_back()
    await expect(page.locator(".search-box")).to_have_value("kingfisher")
    await expect(page.locator(".hit").first).to_be_visible()


@pytest.mark.slow
async def test_typing_a_search_adds_one_history_entry(page: Page, store: Store) -> None:
    await store.make("Kingfisher")
    await open_list(page, store.address)

    await page.locator(".search-box").press_sequentially("king", delay=1)
    await expect(page.locator(".contents-found .state-title")).to_be_visible()
    await page.locator(".search-box").press_sequentially("fishers", delay=1)
    await expect(page.locator(".state-title")).to_have_text("Nothing found for “kingfishers”")
    await expect(page.get_by_role("heading", name="Messages")).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(page.locator(".session-days .session-title")).to_have_text("Kingfisher")
    urls = [page.url]
    for _ in range(2):
        await page.go_back()
        urls.append(page.url)

    assert [httpx2.URL(url).params.get("q") for url in urls] == [None, "kingfishers", None]


@pytest.mark.slow
async def test_rows_update_live(page: Page, store: Store) -> None:
    older = await store.make("Older", user("Go on.", YESTERDAY))
    newer = await store.make("Newer", user("Go on.", TODAY))
    await open_live(page, store.address)
    titles = page.locator(".session-item > a > .session-title")

    await store.post(older, user("Now.", now()))
    await expect(titles).to_have_text(["Older", "Newer"])
    await expect(page.locator(".session-item[data-live] .live-mark")).to_have_text("live")
    await expect(page.locator(".session-item >> nth=0 >> .fact >> nth=0")).to_have_text("3 events")
    newest = await store.make("Newest", user("Begin.", now()))
    await expect(titles).to_have_text(["Newest", "Older", "Newer"])
    await store.client.delete(f"/api/sessions/{newer}")
    await expect(titles).to_have_text(["Newest", "Older"])
    for id in (older, newest):
        await store.client.post(f"/api/sessions/{id}/end")
    await expect(page.locator(".session-row .activity")).to_have_count(0)
    await page.clock.fast_forward(20_000)
    await expect(page.locator("[data-live]")).to_have_count(0)


@pytest.mark.slow
async def test_rows_do_not_move_during_interaction(page: Page, store: Store) -> None:
    older = await store.make("Older", user("Go on.", YESTERDAY))
    await store.make("Newer", user("Go on.", TODAY))
    await open_live(page, store.address)
    titles = page.locator(".session-item > a > .session-title")
    await page.keyboard.press("j")

    await store.post(older, user("Now.", now()))
    await store.make("Newest", user("Begin.", now()))

    await expect(page.locator(".changed-pill")).to_have_text("2 changed")
    await expect(page.locator(".session-item[data-live]")).to_have_count(1)
    assert await titles.all_text_contents() == ["Newer", "Older"]
    assert await page.evaluate(FOCUSED) == "Newer"
    await page.click(".changed-pill")
    await expect(titles).to_have_text(["Newest", "Older", "Newer"])
    await expect(page.locator(".changed-pill")).to_be_hidden()
    assert await page.evaluate(FOCUSED) == "Newest"


@pytest.mark.slow
async def test_live_updates_respect_filters(page: Page, store: Store) -> None:
    await store.make("Here", failed(TODAY))
    await open_live(page, f"{store.address}&errors=true")

    await Store(store.client).make("Of another source", failed(now()))
    await store.make("Without errors", user("Go on.", now()))
    await store.make("There", failed(now()))

    await expect(page.locator(".session-item > a > .session-title")).to_have_text(["There", "Here"])


@pytest.mark.slow
async def test_archived_sessions_leave_the_list_and_are_found(page: Page, store: Store) -> None:
    kept = await store.make("A kept heron", user("Count them.", TODAY))
    archived = await store.make("An archived heron", user("Count them.", TODAY))
    await open_live(page, store.address)
    for id in (archived, kept):
        labels = {"archived": id == archived, "starred": True}
        await store.client.patch(f"/api/sessions/{id}/labels", json=labels)

    await expect(page.locator(".session-title")).to_have_text(["A kept heron"])
    await page.goto(f"{store.address}&q=archived heron")
    await expect(page.locator(".titles-found .session-title")).to_have_text(["An archived heron"])


@pytest.mark.slow
async def test_refreshes_after_reconnect(page: Page, store: Store, complaints: list[str]) -> None:
    """The test's stream reports only that it is connected again."""
    gone = await store.make("Gone")
    await store.make("Kept", user("Go on.", TODAY))
    await page.route("**/api/sessions/stream", lambda route: route.abort())
    await open_list(page, store.address)
    await expect(page.locator(".connection")).to_have_text("not connected")
    await store.make("Come")
    await store.client.delete(f"/api/sessions/{gone}")

    async def look(route: Route) -> None:
        await route.fulfill(content_type="text/event-stream", body="event: caught_up\ndata: {}\n\n")

    await page.route("**/api/sessions/stream", look)
    await page.clock.fast_forward(10_000)

    await expect(page.locator(".session-item > a > .session-title")).to_have_text(["Come", "Kept"])
    await expect(page.locator(".session-item[data-live] > a > .session-title")).to_have_text(["Come"])
    complaints.clear()


RECONNECT = "['pagehide', 'pageshow'].forEach((name) => dispatchEvent(new Event(name)))"


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["opened", "connected again"])
async def test_changes_while_the_list_loads_are_shown(page: Page, store: Store, moment: str) -> None:
    """The list was read before them, and arrives after them."""
    kept = await store.make("Kept", user("Go on.", TODAY))
    gone = await store.make("Gone", user("Go on.", TODAY))
    await page.add_init_script(RECORD_FEED)
    answers = HeldAnswers(page)
    if moment == "opened":
        await answers.hold("**/api/sessions?*")
        await page.goto(store.address)
    else:
        await open_live(page, store.address)
        await answers.hold("**/api/sessions?*")
        await page.evaluate(RECONNECT)
    await answers.wait()
    await expect(page.locator(".connection")).to_have_attribute("data-state", "live")
    come = await store.make("Come", user("Begin.", now()))
    await store.client.patch(f"/api/sessions/{kept}", json={"title": "Renamed"})
    await store.client.delete(f"/api/sessions/{gone}")
    await answers.send(come, kept, gone)

    await expect(page.locator(".session-item > a > .session-title")).to_have_text(["Come", "Renamed"])


@pytest.mark.slow
async def test_a_list_that_could_not_be_loaded_again_is_requested_once_more(
    page: Page, store: Store, complaints: list[str]
) -> None:
    await store.make("Kept", user("Go on.", TODAY))
    await open_live(page, store.address)
    await page.route("**/api/sessions/stream", lambda route: route.abort())
    await page.evaluate(RECONNECT)
    await expect(page.locator(".connection")).to_have_text("not connected")
    await store.make("Come", user("Begin.", TODAY))
    problem = {"title": "The database does not answer.", "status": 503, "code": "database_unavailable"}
    await answer(page, "**/api/sessions?*", problem, 503)
    await page.unroute("**/api/sessions/stream")
    async with page.expect_response(lambda response: response.status == 503):
        await page.clock.fast_forward(2_000)
    await page.unroute("**/api/sessions?*")
    await page.clock.fast_forward(5_000)

    await expect(page.locator(".session-item > a > .session-title")).to_have_text(["Come", "Kept"])
    complaints.clear()


async def test_search_reports_what_it_does_not_find(page: Page, store: Store) -> None:
    await answer(page, "**/api/search?*", {"results": [], "pending": 12000, "coldSessions": 1000})
    await page.goto(f"{store.address}&q=kingfisher")

    await expect(page.locator(".pending")).to_have_text("12,000 events not indexed yet.")
    await expect(page.locator(".not-searched")).to_have_text(
        "1,000+ cold sessions not searched. Open one to find its words."
    )


@pytest.mark.slow
async def test_search_without_hits_is_repeated_while_events_are_pending(page: Page, store: Store) -> None:
    answers = [{"results": [], "pending": 8}]

    async def answer_before_indexing(route: Route) -> None:
        await route.fulfill(json=answers.pop())

    await store.make("A bird", user("A heron", TODAY))
    await page.route("**/api/search?*", answer_before_indexing, times=1)
    await page.goto(f"{store.address}&q=heron")

    await expect(page.locator(".hits mark")).to_have_text("heron")
    await expect(page.locator(".pending")).to_be_hidden()
    assert not answers


@pytest.mark.slow
async def test_theme_is_remembered(page: Page, store: Store) -> None:
    await open_list(page, store.address)
    chosen = list[str | None]()
    for _ in range(3):
        await page.click(".theme-toggle")
        await page.reload()
        chosen.append(await page.locator("html").get_attribute("data-theme"))

    assert chosen == ["light", "dark", None]


@pytest.mark.slow
async def test_all_filters_are_visible_on_phones(page: Page, store: Store) -> None:
    for source in ("claude", "codex", "gemini_cli", "cursor", "opencode", "openai_responses"):
        await Store(store.client, source).make("Fix the paths")
    await page.set_viewport_size({"width": 390, "height": 844})
    await open_list(page, store.address.split("?")[0])

    ends = "(all) => all.map((each) => each.getBoundingClientRect()).map(({left, right}) => [left, right])"
    chips = await page.locator(".chip:visible").evaluate_all(ends)

    assert len(chips) > 6
    assert all(0 <= left < right <= 390 for left, right in chips)
    await page.click("summary[data-filter=source]")
    panel = await page.locator(".choice-panel:visible").bounding_box()
    assert panel is not None
    assert 0 <= panel["x"] < panel["x"] + panel["width"] <= 390


async def test_no_horizontal_scrolling_on_narrow_screens(page: Page, store: Store) -> None:
    parent = await store.make("Title " * 100, user("prompt" * 200, TODAY))
    await store.make("unbroken" * 60, user("Look.", TODAY), parentId=parent)
    await page.set_viewport_size({"width": 390, "height": 844})
    await open_list(page, store.address)
    await page.click(".subagents > summary")

    assert await page.evaluate("document.documentElement.scrollWidth") == 390


SESSIONS = [
    {"id": "a", "updatedAt": "2026-03-10T12:00:00Z"},
    {"id": "b", "updatedAt": "2026-03-10T11:00:00Z", "parentId": "c"},
    {"id": "c", "updatedAt": "2026-03-10T10:00:00Z", "lastAt": "2026-03-01T10:00:00Z"},
    {"id": "d", "updatedAt": "2026-03-10T09:00:00Z", "parentId": "elsewhere"},
    {"id": "e", "updatedAt": "2026-03-10T09:30:00Z", "parentId": "d"},
    {"id": "f", "updatedAt": "2026-03-10T08:00:00Z", "parentId": "g"},
    {"id": "g", "updatedAt": "2026-03-10T07:00:00Z", "parentId": "f"},
    {"id": "h", "updatedAt": "2026-03-10T06:00:00Z", "parentId": "h"},
    {"id": "i", "updatedAt": "2026-03-10T05:00:00Z", "parentExternalId": "not stored"},
    {"id": "j", "updatedAt": "2026-03-10T04:00:00Z", "parentExternalId": "not stored"},
]


async def test_groups_sessions_with_their_subagents(blank: Page) -> None:
    """Groups are ordered by activity; circular parents are ignored."""
    group_script = """async (sessions) => {
        const { groupSessions } = await import("/viewer/sessions/session-groups.js");
        const groups = groupSessions(sessions, new Map(sessions.map((session) => [session.id, session])));
        return groups.map(({ lead, children }) => [lead, ...children].map(({ id }) => id).join(" "));
    }"""

    assert await blank.evaluate(group_script, SESSIONS) == ["a", "c b", "e d", "f", "g", "h", "i j"]


WITHOUT_TIMES = {"source": "cursor", "eventCount": 1, "updatedAt": "2026-03-10T12:00:00Z"}
SHOWN_TIMES: list[tuple[dict[str, Any], list[str | None]]] = [
    ({**WITHOUT_TIMES, "lastAt": "2026-03-10T11:30:00Z"}, ["11:30 AM", None]),
    ({**WITHOUT_TIMES, "lastAt": "2026-03-09T12:00:00Z"}, ["Mar 9, 2026, 12:00 PM", None]),
    ({**WITHOUT_TIMES, "fileModifiedAt": "2026-03-10T09:00:00Z"}, ["", "file changed 09:00 AM"]),
    (WITHOUT_TIMES, ["", "stored 12:00 PM"]),
]
"""Sessions below the heading of a day, with the time in their column and the mark of others."""


async def test_the_column_of_times_has_only_times_of_messages(blank: Page) -> None:
    show_script = """async (sessions) => {
        const { rowLink } = await import("/viewer/sessions/session-row.js");
        const day = new Date("2026-03-10T12:00:00Z").toDateString();
        const rows = sessions.map((session) => rowLink(session, { day }));
        const textOf = (row, selector) => row.querySelector(selector)?.textContent ?? null;
        return rows.map((row) => [textOf(row, ".session-when"), textOf(row, ".stored")]);
    }"""

    shown = await blank.evaluate(show_script, [session for session, _ in SHOWN_TIMES])
    assert [[text and re.sub(r"\s", " ", text) for text in row] for row in shown] == [
        expected for _, expected in SHOWN_TIMES
    ]


@pytest.mark.slow
async def test_nine_days_fit_a_screen(page: Page, store: Store) -> None:
    for number in range(1, 10):
        await store.make(f"Fix {number}", user("Count the herons.", f"2026-03-0{number}T12:00:00Z"))
    await page.set_viewport_size({"width": 1440, "height": 900})
    await open_list(page, store.address)

    await expect(page.locator(".session-day")).to_have_count(9)
    row, day = page.locator(".session-row").last, page.locator(".session-day").last
    end = await row.evaluate("(row) => row.getBoundingClientRect().bottom")
    assert end <= 900
    assert await day.evaluate("(day) => day.offsetHeight") < 10 + await row.evaluate(
        "(row) => row.offsetHeight"
    )


@pytest.mark.slow
async def test_choosing_a_value_of_a_filter(page: Page, store: Store) -> None:
    """Counts are those under the other filters. The keyboard chooses and removes a value."""
    for title, name, line in (
        ("One", "main", user("A heron", TODAY)),
        ("Two", "main", failed(TODAY)),
        ("Three", "herons", failed(TODAY)),
    ):
        await store.make(title, {**line, "gitBranch": name})
    await open_list(page, store.address)
    branch = page.locator("summary[data-filter=branch]")
    shown = page.locator(".choice:has([data-filter=branch]) .menu-item")
    titles = page.locator(".session-item > a > .session-title")

    await expect(branch).to_be_visible()  # counts are loaded after the list
    await branch.focus()
    await page.keyboard.press("Enter")
    await expect(shown).to_have_text(["main 2", "herons 1"])
    await page.keyboard.press("Tab")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(titles).to_have_text(["Three"])
    assert httpx2.URL(page.url).params["branch"] == "herons"
    await expect(branch).to_have_text("Branch herons")
    await page.get_by_role("button", name="Remove the filter: Branch herons").click()
    await expect(titles).to_have_count(3)
    await page.click("text=Errors only")
    await branch.click()
    await expect(shown).to_have_text(["herons 1", "main 1"])


async def test_searching_keeps_the_filters(page: Page, store: Store) -> None:
    await store.make("One", user("A heron", TODAY), failed(TODAY))
    await store.make("Two", user("A heron", TODAY))
    await store.make(
        "Three",
        claude.line("assistant", [claude.text("No heron.")], timestamp=TODAY),
        failed(TODAY),
    )
    await page.goto(f"{store.address}&errors=true&q=heron")

    await expect(page.locator(".hits .session-title")).to_have_text(["Three", "One"])
    await expect(page.get_by_role("button", name="Errors only")).to_have_attribute("aria-pressed", "true")
    assert await page.locator(".hit-role").all_text_contents() == ["answer", "prompt"]
    await expect(page.locator(".hit time").first).to_have_text("Mar 10, 2026, 11:00 AM")
    assert await page.inner_text(".list-status") == "2 hits in 2 sessions"
    heights = await page.locator(".hits-session").evaluate_all(
        "(all) => all.map((each) => each.offsetHeight)"
    )
    assert min(heights) >= 24


@pytest.mark.slow
async def test_names_of_sessions_tell_them_apart(page: Page, store: Store) -> None:
    """In the list and on their pages, as far as a person chose the names."""
    for name in ("fix-1", "fix-2", f"runs/{uuid4()}.jsonl"):
        await store.make(None, user("Fix the *tests*", TODAY), externalId=name)
    await open_list(page, store.address)

    await expect(page.locator(".session-title")).to_have_text(["Fix the tests"] * 3)
    names = [
        await row.locator(".own-name").all_text_contents() for row in await page.locator(".session-row").all()
    ]
    assert sorted(names) == [[], ["fix-1"], ["fix-2"]]
    await page.locator(".session-row", has_text="fix-2").click()
    await expect(page.locator(".session-header .own-name")).to_have_text("fix-2")


@pytest.mark.slow
async def test_rows_show_people_and_machines_if_there_are_several(page: Page, store: Store) -> None:
    machines = ("herons", "kites")
    for machine in machines:
        body = {"source": store.source, "title": machine}
        created = await store.client.post("/api/sessions", json=body, headers={"Ash-Machine": machine})
        created.raise_for_status()
    await open_list(page, store.address)
    await expect(page.locator(".session-place .machine")).to_have_text(list(reversed(machines)))

    await page.goto(f"{store.address}&q=kites")
    await expect(page.locator(".session-place .machine")).to_have_text(["kites"])
    await page.goto(f"{store.address}&since=2099-01-01")
    await expect(page.locator("summary[data-filter=machine]")).to_be_hidden()


MOVES: list[tuple[dict[str, int], dict[str, int], str, list[str]]] = [
    ({"a": 2, "b": 1}, {"a": 2, "b": 1}, "", []),
    ({"a": 2, "b": 1}, {"a": 2, "b": 3}, "", ["b"]),
    ({"a": 2, "b": 1}, {"a": 3, "b": 1}, "", []),
    ({"a": 2, "b": 1}, {"a": 3, "b": 4}, "a b", []),
    ({"a": 3, "b": 2, "c": 1}, {"a": 4, "b": 2, "c": 5}, "a c", ["c"]),
    ({"a": 2}, {"a": 2, "b": 1}, "", ["b"]),
]
"""Positions by group, activity by group, live groups, and the groups to move."""


@pytest.mark.parametrize(("places", "active", "live", "moved"), MOVES)
async def test_groups_to_move(
    blank: Page, places: dict[str, int], active: dict[str, int], live: str, moved: list[str]
) -> None:
    move_script = """async ([places, active, live]) => {
        const { groupsToMove } = await import("/viewer/sessions/session-groups.js");
        const groups = Object.entries(active).map(([key, time]) => ({ key, time }));
        const isLive = ({ key }) => live.includes(key);
        return groupsToMove(groups, new Map(Object.entries(places)), isLive).map(({ key }) => key);
    }"""

    assert await blank.evaluate(move_script, [places, active, live.split()]) == moved


HREFS = "(links) => links.map((link) => link.getAttribute('href'))"
FOCUSED = "document.activeElement.querySelector('.session-title')?.textContent"


async def top_of(page: Page, row: Locator) -> float:
    await still(page)
    return float(await row.evaluate("(row) => row.getBoundingClientRect().top"))


async def open_live(page: Page, address: str) -> None:
    await open_list(page, address)
    await expect(page.locator(".connection")).to_have_attribute("data-state", "live")


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def results(at: str, number: int) -> list[dict[str, Any]]:
    blocks = [
        {"type": "tool_result", "tool_use_id": f"t{each}", "content": "a kingfisher"}
        for each in range(number)
    ]
    return [claude.line("user", [each], timestamp=at) for each in blocks]


def unmarked(text: str) -> str:
    return re.sub(r"^#+ |\*\*|`", "", one_line(text))


def one_line(text: str) -> str:
    return re.sub(r"[\s\ufeff]+", " ", text).strip()


@pytest.mark.slow
async def test_a_transcript_replaces_a_session_of_prompts(page: Page, store: Store) -> None:
    name = str(uuid4())
    prompts = await store.make(f"Prompts {name}", source="claude_history", externalId=name)
    await open_list(page, str(store.client.base_url.copy_with(path="/", params={"source": "claude_history"})))
    row = page.locator(".session-row", has_text=name)
    await expect(row.locator(".relation")).to_have_text("prompts only")
    await expect(row.locator(".session-source")).to_have_text("Claude")

    transcript = await store.make(None, {**user("Go on.", TODAY), "sessionId": name}, source="claude")
    await expect(row).to_have_count(0)
    await page.goto(str(store.client.base_url.join(f"/sessions/{prompts}")))

    await expect(page.locator(".session-facts")).to_contain_text("prompts only")
    await page.get_by_role("link", name="Open the transcript").click()
    await expect(page).to_have_url(re.compile(f"/sessions/{transcript}"))
    await expect(page.locator(".session-replacement")).to_be_hidden()


@pytest.mark.slow
async def test_warns_of_transcripts_that_are_not_stored(page: Page, store: Store) -> None:
    counts = {
        "agent": "claude",
        "name": "Claude Code",
        "expiring": 12,
        "keptDays": 30,
        "lost": 3,
        "newPrompts": 1,
    }

    async def answer(route: Route) -> None:
        await route.fulfill(json={"days": 7, "agents": [counts]})

    await page.route("**/api/transcripts/unstored", answer)
    await open_list(page, store.address)
    notice = page.get_by_role("complementary", name="Transcripts that are not stored")

    await expect(notice.locator("p")).to_have_text(
        "Within 7 days, Claude Code deletes 12 transcripts that are not stored. "
        "Claude Code has deleted 1 transcript; only the prompts can still be stored. Run ash import --all."
    )
    await notice.get_by_role("button", name="Hide").click()
    await expect(notice).to_be_hidden()
    async with page.expect_response("**/api/transcripts/unstored"):
        await page.reload()
    await expect(notice).to_be_hidden()
    counts["expiring"] = 13
    await page.reload()
    await expect(notice).to_contain_text("13 transcripts")


@pytest.mark.slow
async def test_headers_link_the_other_pages(page: Page, ash: str) -> None:
    links = dict[str, list[str]]()
    for path in ("/", "/live", "/usage", "/compare"):
        await page.goto(ash + path)
        links[path] = await page.locator(".header-links > a").all_inner_texts()

    assert links == {
        "/": ["Live", "Usage", "API"],
        "/live": ["Sessions", "Usage", "API"],
        "/usage": ["Sessions", "Live", "API"],
        "/compare": ["Sessions", "Live", "Usage", "API"],
    }
