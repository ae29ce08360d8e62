"""The session page: loading, live updates, permalinks, filters and keys."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.async_api import CDPSession, Page, Route, expect

from ash_server.api.pages import viewer_pages
from ash_server.transfer.exporting.jsonl import FORMATS
from ash_server.transfer.exporting.trajectory import SUFFIX
from tests.marking import slow_unless
from tests.shared.records import claude
from tests.shared.records.events import tool_call, tool_result, turn_start, wire_event
from tests.viewer.browser import HeldAnswers, elapse, still, until_true
from tests.viewer.logs import SERVER
from tests.viewer.sessions import Event, Session, new_session

SHOWN = (
    "() => [...document.querySelectorAll('.chat-log [data-seq][id]')].map((item) => Number(item.dataset.seq))"
)
VISIBLE = """
() => [...document.querySelectorAll('.chat-log [data-event-id][id]')]
  .filter((item) => item.checkVisibility())
  .map((item) => item.classList[0] + ' ' + item.dataset.eventId)
"""
TO_END = "() => Math.round(document.documentElement.scrollHeight - innerHeight - scrollY)"
AT_END = f"() => ({TO_END})() === 0"
FOCUSED = "() => document.activeElement.closest('[data-event-id][id]')?.dataset.eventId"

DOWN = """
() => new Promise((done) => {
  const step = () => {
    scrollTo(0, document.documentElement.scrollHeight);
    if (document.querySelector('.edge.newer').hidden) done();
    else requestAnimationFrame(step);
  };
  step();
})
"""
"""Scroll until no more events load."""

WATCH = """
() => {
  const bar = document.querySelector('.page-bar').getBoundingClientRect().bottom;
  const seen = [...document.querySelectorAll('.chat-log [data-event-id][id]')]
    .find((item) => item.getBoundingClientRect().top >= bar);
  const at = seen.getBoundingClientRect().top;
  globalThis.moves = [];
  const look = () => {
    const by = seen.getBoundingClientRect().top - at;
    if (Math.abs(by) >= 1) moves.push([seen.id, by, scrollY, document.documentElement.scrollHeight]);
    requestAnimationFrame(look);
  };
  look();
}
"""
"""Record each frame that moved the first visible item, in `moves`."""


def turn(
    number: int, *, prompt: str | None = None, is_over: bool = True, at: int = 1_790_000_000_000
) -> list[Event]:
    """The events of a turn: prompt, thought, text, call with result, and answer."""
    inside = {
        "start": turn_start(),
        "user": wire_event("user_message", text=prompt or f"Prompt {number}"),
        "thinking": wire_event("thinking_done", text=f"Thought {number}"),
        "way": wire_event("assistant_done", text=f"On the way {number}"),
        "call": tool_call(f"c{number}", args={"command": f"ls {number}"}),
        "result": tool_result(f"c{number}", f"file {number}"),
        "notice": wire_event("system_message", text=f"Notice {number}"),
        "answer": wire_event("assistant_done", text=f"Answer {number}\n\n" + "and more of it. " * 60),
        "end": wire_event("turn_end"),
    }
    place = {"turnId": f"t{number}", "timestamp": at + number * 60_000}
    events = [{"id": f"{name}-{number}", **place, **event} for name, event in inside.items()]
    return events if is_over else events[:-1]


def turns(*numbers: int) -> list[Event]:
    return [event for number in numbers for event in turn(number)]


def recent_turns(count: int) -> list[Event]:
    """Turns; the last ended just now, so that the page opens at its end."""
    now = int(time.time() * 1000)
    return [event for number in range(count) for event in turn(number, at=now - count * 60_000)]


def user(content: str | list[Event], uuid: str) -> Event:
    return claude.line("user", content, uuid=uuid, timestamp="2026-03-10T11:00:00Z")


def assistant(id: str, uuid: str, *content: Event, **more: Any) -> Event:
    message = {"id": id, "type": "message", "model": "claude-sonnet-4-5", **more}
    return claude.line("assistant", list(content), message, uuid=uuid, timestamp="2026-03-10T11:00:05Z")


async def open_page(page: Page, address: str) -> None:
    await page.goto(address)
    await expect(page.locator(".chat-log .turn, .state").first).to_be_attached()
    await still(page)


async def extended(page: Page, first: int) -> None:
    """Wait until the short first page is extended to the event `first` or an older one."""
    await until_true(
        page,
        """(first) => [...document.querySelectorAll(".chat-log [data-seq]")]
             .some((element) => Number(element.dataset.seq) <= first)""",
        arg=first,
    )
    await still(page)


async def wheel(page: Page, by: int) -> None:
    before = await page.evaluate("scrollY")
    await page.mouse.wheel(0, by)
    await until_true(page, "(before) => scrollY !== before", arg=before)
    await still(page)


async def kept(page: Page) -> None:
    """Wait until the page has saved the scroll position, 250 ms of its clock after scrolling."""
    await page.evaluate("new Promise((done) => setTimeout(done, 400))")


async def position(page: Page, id: str) -> int:
    """Return the distance of an item from the bar."""
    script = """(id) => Math.round(document.getElementById('e-' + id).getBoundingClientRect().top
      - document.querySelector('.page-bar').getBoundingClientRect().bottom)"""
    return int(await page.evaluate(script, id))


# What is loaded


@pytest.mark.slow
async def test_loads_the_newest_events_and_shows_the_end(page: Page, session: Session) -> None:
    """The first page is short, so that it is shown soon."""
    await session.add_events(*recent_turns(120))
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))

    await open_page(page, session.address)
    await expect(page.locator(".chat-log [data-seq='583'][id]")).to_be_attached()
    await still(page)

    shown = await page.evaluate(SHOWN)
    assert (shown[0] > 1080 - 500, shown[-1], shown) == (True, 1079, sorted(shown))
    assert await page.evaluate(TO_END) == 0
    assert [urlsplit(url).query for url in asked if url.split("?")[0].endswith("/events")] == [
        "before=9007199254740991&limit=150&collapse=true",
        "before=931&limit=350&collapse=true",
    ]
    await expect(page.locator("h1")).to_have_text("Paths on Windows")
    await expect(page.locator(".edge.older .load-all")).to_have_text("Load all 1,080")


@pytest.mark.parametrize("scroll", slow_unless((700).__eq__, [0, 40, 700]))
async def test_loading_older_events_keeps_the_scroll_position(
    page: Page, session: Session, scroll: int
) -> None:
    await session.add_events(*recent_turns(120))
    may_come = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_come.wait()
        await route.continue_()

    await open_page(page, session.address)
    await extended(page, 600)
    await page.route("**/events?before=*", hold)
    await page.evaluate("(top) => scrollTo(0, top)", scroll)
    await still(page)

    await page.evaluate(WATCH)
    may_come.set()
    await expect(page.locator(".edge.older")).to_be_hidden()
    await still(page)

    shown = await page.evaluate(SHOWN)
    assert (shown[0], shown[-1], shown) == (2, 1079, sorted(shown))
    assert await page.evaluate("moves") == []


@pytest.mark.slow
async def test_page_next_to_replaced_events_is_discarded(page: Page, session: Session) -> None:
    """It would leave a gap."""
    await session.add_events(*turns(*range(400)))
    await open_page(page, f"{session.address}?at=1000")
    await expect(page.locator(".chat-log [data-seq='602'][id]")).to_be_attached()
    await still(page)
    end_asked, newer_asked, newer_answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold_end(route: Route) -> None:
        end_asked.set()
        await newer_asked.wait()
        await route.continue_()

    async def hold_newer(route: Route) -> None:
        newer_asked.set()
        await expect(page.locator(".chat-log [data-seq='3599'][id]")).to_be_attached()
        await route.continue_()
        newer_answered.set()

    await page.route("**/events?before=9007199254740991&*", hold_end)
    await page.route("**/events?after=*", hold_newer)
    await page.keyboard.press("Shift+G")
    await end_asked.wait()
    await page.locator(".edge.newer .load-more").evaluate("(button) => button.click()")
    await newer_answered.wait()
    await expect(page.locator(".edge.newer")).not_to_have_attribute("aria-busy", "true")
    await still(page)

    shown = await page.evaluate(SHOWN)
    assert (shown[0] > 2000, shown[-1]) == (True, 3599)


@pytest.mark.slow
async def test_first_page_is_extended_after_a_page_next_to_a_replaced_one(
    page: Page, session: Session
) -> None:
    """The end of a session without times is loaded first, and replaced by its start."""
    older_asked, may_come = asyncio.Event(), asyncio.Event()

    async def hold_start(route: Route) -> None:
        await older_asked.wait()
        await route.continue_()

    async def hold_older(route: Route) -> None:
        older_asked.set()
        await may_come.wait()
        await route.continue_()

    await page.route("**/events?after=0&*", hold_start)
    await page.route(re.compile(r"/events\?before=\d{1,6}&"), hold_older)
    await session.add_events(*turns(*range(20)))
    await page.goto(session.address)
    await expect(page.locator("#e-user-0")).to_be_in_viewport()
    await elapse(page, 400)
    may_come.set()

    await expect(page.locator(".edge.newer")).to_be_hidden()


@pytest.mark.slow
async def test_export_menu_has_all_formats_of_files(page: Page, session: Session) -> None:
    """Each link gives a file with the name and content of the command or the address with this suffix."""
    await session.add_events(*turns(1))
    await open_page(page, session.address)
    files = {}
    menu = page.locator(".menu.forms")
    for link in await menu.locator("a.menu-item").all():
        await menu.evaluate("(menu) => (menu.open = true)")
        async with page.expect_download() as expected:
            await link.click()
        download = await expected.value
        files[download.suggested_filename] = (await download.path()).read_bytes()

    suffixes = {*viewer_pages.FORMATS, *(each.suffix for each in FORMATS.values()), SUFFIX, ".otlp.json"}
    assert files.keys() == {f"{session.id}{suffix}" for suffix in suffixes}
    trajectory = json.loads(files[f"{session.id}{SUFFIX}"])
    assert trajectory["steps"][0]["source"] == "user"
    events = files[f"{session.id}.events.jsonl"].splitlines()
    assert [json.loads(each)["id"] for each in events] == [each["id"] for each in turns(1)]


@pytest.mark.slow
async def test_load_all(page: Page, session: Session) -> None:
    await session.add_events(*recent_turns(250))
    await open_page(page, session.address)
    await page.evaluate(WATCH)

    await page.locator(".edge.older .load-all").evaluate("(button) => button.click()")
    await expect(page.locator(".edge.older")).to_be_hidden()
    await still(page)

    shown = await page.evaluate(SHOWN)
    assert (len(shown), shown[0], shown[-1], shown) == (1_500, 2, 2249, sorted(shown))
    assert await page.evaluate(TO_END) == 0


async def test_load_all_needs_few_layouts_and_elements(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(250)))
    await open_page(page, session.address)
    await expect(page.locator(".outline-more", has_text="Newer")).to_be_visible()
    browser = await page.context.new_cdp_session(page)
    await browser.send("Performance.enable")
    layouts = await _layouts(browser)

    await page.locator(".edge.newer .load-all").evaluate("(button) => button.click()")
    await expect(page.locator(".edge.newer")).to_be_hidden()
    assert await _layouts(browser) - layouts <= 20
    assert await page.locator(".chat-log *").count() / 2_250 <= 3


async def _layouts(browser: CDPSession) -> int:
    metrics = (await browser.send("Performance.getMetrics"))["metrics"]
    return next(int(each["value"]) for each in metrics if each["name"] == "LayoutCount")


@pytest.mark.slow
async def test_load_all_from_the_start(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(250)))
    await open_page(page, session.address)
    await expect(page.locator(".outline-more", has_text="Newer")).to_be_visible()
    await page.evaluate(WATCH)

    await page.locator(".edge.newer .load-all").evaluate("(button) => button.click()")
    await expect(page.locator(".edge.newer")).to_be_hidden()
    await still(page)

    shown = await page.evaluate(SHOWN)
    assert (len(shown), shown[0], shown[-1], shown) == (1_500, 2, 2249, sorted(shown))
    assert (await page.evaluate("scrollY"), await page.evaluate("moves")) == (0, [])
    await expect(page.locator(".outline-more")).to_have_count(2)
    await expect(page.locator(".outline-more:visible")).to_have_count(0)


@pytest.mark.slow
async def test_finished_session_opens_at_its_start(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(20)))
    await open_page(page, session.address)
    await expect(page.locator("#e-user-0")).to_be_in_viewport()
    assert await page.evaluate("scrollY") == 0

    await page.keyboard.press("Shift+G")
    await until_true(page, AT_END)


async def test_page_and_preload_agree_on_finished_sessions(blank: Page) -> None:
    script = "async () => (await import('/viewer/lib/activity-text.js')).ABANDONED_MS"

    assert timedelta(milliseconds=await blank.evaluate(script)) == viewer_pages._ABANDONED


@pytest.mark.slow
async def test_long_finished_session_opens_at_its_start(page: Page, session: Session) -> None:
    """Its last events are not requested. A permalink comes first."""
    await session.write(*(user(f"Prompt {number}", f"u{number}") for number in range(600)))
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))

    await open_page(page, session.address)

    assert await page.evaluate("scrollY") == 0
    pages = [urlsplit(url).query for url in asked if url.split("?")[0].endswith("/events")]
    assert (pages[0], [each for each in pages if "before" in each]) == ("after=0&limit=150&collapse=true", [])
    shown = await page.evaluate(SHOWN)
    assert (shown[0] < 10, shown) == (True, sorted(shown))

    await open_page(page, f"{session.address}?message=590")
    await expect(page.locator(".user-message:focus")).to_contain_text("Prompt 589")


@pytest.mark.slow
async def test_finished_session_without_times_opens_at_its_start(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(120)))

    await open_page(page, session.address)

    await expect(page.locator("#e-user-0")).to_be_in_viewport()
    assert await page.evaluate("scrollY") == 0


@pytest.mark.slow
async def test_sender_of_a_prompt_is_on_the_page(page: Page, session: Session) -> None:
    prompts = [{"sender": "script"}, {"fromAgentId": "reviewer-of-long-names"}]
    await session.add_events(
        *(
            wire_event("user_message", text="Build it.", **each, id=f"e{place}")
            for place, each in enumerate(prompts)
        )
    )
    script = """(spans) => spans.map((span) => span.textContent.split(" · ")[0] + " " +
      (span.getBoundingClientRect().left >= 0 && span.getBoundingClientRect().right <= innerWidth))"""
    widths, seen = (390, 913, 1280, 1600), {}
    await open_page(page, session.address)
    await expect(page.locator(".sent-at")).to_have_count(2)

    for width in widths:
        await page.set_viewport_size({"width": width, "height": 900})
        await still(page)
        seen[width] = await page.locator(".sent-at").evaluate_all(script)

    senders = ["from a script true", "from reviewer-of-long-names true"]
    assert seen == dict.fromkeys(widths, senders)


async def test_live_session_opens_at_its_end(page: Page, session: Session) -> None:
    now = int(await page.evaluate("Date.now()"))
    await session.add_events(*turns(*range(20)), *turn(20, is_over=False, at=now - 20 * 60_000))

    await open_page(page, session.address)

    await until_true(page, AT_END)
    await expect(page.locator(".live-mark")).to_be_visible()
    await expect(page).to_have_title("● Paths on Windows · Ash")


async def test_empty_session_shows_a_notice(page: Page, session: Session) -> None:
    await open_page(page, session.address)
    await expect(page.locator(".state")).to_contain_text("No events yet")

    await session.add_events(*turns(1))

    await expect(page.locator(".assistant-text").last).to_contain_text("Answer 1")
    await expect(page.locator(".state")).to_have_count(0)


# What is new


@pytest.mark.slow
async def test_follows_the_end(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(10)))
    await open_page(page, session.address)
    await page.keyboard.press("Shift+G")

    for number in range(10, 14):
        await session.add_events(*turn(number))
        await expect(page.locator(f"#e-answer-{number}")).to_be_in_viewport()
        await still(page)
        assert await page.evaluate(TO_END) == 0
    await expect(page.locator(".to-end")).to_be_hidden()


@pytest.mark.slow
async def test_counts_new_items_when_scrolled_up(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(30)))
    await open_page(page, session.address)
    await extended(page, 2)
    await page.keyboard.press("Shift+G")
    await expect(page.locator("#e-answer-29")).to_be_in_viewport()
    await expect(page.locator(".edge.newer")).to_be_hidden()
    await still(page)
    await wheel(page, -1500)
    await page.evaluate(WATCH)

    await session.add_events(*turn(30), *turn(31)[:3])
    await expect(page.locator(".to-end")).to_have_text("↓ 7 new")
    pieces = [wire_event("assistant_chunk", text=f"piece {number} ", turnId="t31") for number in range(40)]
    await session.add_events(*pieces[:20])
    await expect(page.locator(".to-end")).to_have_text("↓ 8 new")
    await session.add_events(*pieces[20:])
    await expect(page.locator("[data-streaming]")).to_contain_text("piece 39")
    await expect(page.locator(".to-end")).to_have_text("↓ 8 new")
    assert await page.evaluate("moves") == []
    assert await page.locator("[data-unread]").get_attribute("id") == "e-user-30"
    assert (await page.locator("[data-unread]").get_attribute("data-unread") or "").startswith("New since ")

    await page.locator(".to-end").click()
    await until_true(page, AT_END)
    await expect(page.locator(".to-end")).to_be_hidden()
    await expect(page.locator("[data-unread]")).to_have_count(1)


@pytest.mark.slow
async def test_growing_card_above_keeps_the_scroll_position(page: Page, session: Session) -> None:
    call = tool_call("c", args={"command": "make"}, turnId="t")
    texts = [wire_event("user_message", text="line\n" * 20, turnId="t") for _ in range(12)]
    await session.add_events(turn_start(turnId="t"), call, *texts)
    await open_page(page, session.address)
    await page.locator("details.tool-call > summary").click()
    await page.evaluate("scrollTo(0, 1200)")
    await still(page)
    await page.evaluate(WATCH)

    for number in range(20):
        piece = f"{number:2} built\n" * 5
        chunk = {"toolCallId": "c", "chunk": piece, "offset": number * len(piece)}
        await session.add_events(wire_event("tool_output_chunk", **chunk, turnId="t"))
    await expect(page.locator(".tool-call")).to_contain_text("19 built")
    await still(page)

    assert await page.evaluate("moves") == []


@pytest.mark.slow
async def test_live_mark_while_events_arrive(page: Page, session: Session) -> None:
    await session.add_events(*turns(1))
    await page.clock.install()
    await open_page(page, session.address)
    log, mark = page.locator(".chat-log"), page.locator(".live-mark")
    states = list[tuple[bool, bool, str]]()

    async def look() -> None:
        live = await log.get_attribute("data-live") is not None
        states.append((live, await mark.is_visible(), (await page.title())[0]))

    await look()
    now = int(await page.evaluate("Date.now()"))
    await session.add_events(*turn(2, is_over=False, at=now - 120_000))
    await expect(log).to_have_attribute("data-live", "")
    await look()
    await page.clock.run_for(16_000)
    await look()
    await session.add_events(turn(2, at=now - 120_000)[-1])
    await expect(mark).to_be_hidden()
    await look()

    assert states == [(False, False, "P"), (True, True, "●"), (False, True, "●"), (False, False, "P")]


@pytest.mark.parametrize("is_timed", [True, False])
async def test_imported_session_is_not_live(
    page: Page, client: httpx2.AsyncClient, session: Session, is_timed: bool
) -> None:
    """If its records have no times, the file's time counts, although its events have the time of the import."""
    called = assistant("m", "u2", {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}})
    lines = [user("Look.", "u1"), called, user("Go on.", "u3"), {**called, "uuid": "u4"}]
    for line in lines if not is_timed else ():
        del line["timestamp"]
    await session.write(*lines[:2])
    if not is_timed:
        file = {"source": "test", "path": session.id, "modifiedAt": "2026-03-10T11:00:05Z", "hasGrown": True}
        completed = await client.post(f"/api/transcripts/{session.id}/complete", json=file)
        completed.raise_for_status()

    await open_page(page, session.address)
    await expect(page.locator(".tool-call .tool-outcome")).to_have_text("result missing")
    await expect(page.locator(".live-mark")).to_be_hidden()
    await expect(page).to_have_title("Paths on Windows · Ash")

    await session.write(*lines[2:])
    await expect(page.locator(".tool-call .tool-outcome").last).to_have_text("running")
    await expect(page.locator(".live-mark")).to_be_visible()


STOPPED_CLOCK = "const now = Date.now(); Date.now = () => now;"
"""Script for a page that follows a session only within some seconds after opening: a busy machine takes longer."""


@pytest.mark.slow
@pytest.mark.parametrize("is_end_loaded", [False, True])
async def test_follows_a_replay_with_old_timestamps(
    page: Page, session: Session, is_end_loaded: bool
) -> None:
    """Events that arrive are followed even if their timestamps are old, also between two pages of events."""
    added = asyncio.Event()

    async def hold(route: Route) -> None:
        if not is_end_loaded:
            await added.wait()
        await route.continue_()

    await page.add_init_script(STOPPED_CLOCK)
    await page.route("**/events?after=150&*", hold)
    await session.add_events(*turns(*range(20)))
    await open_page(page, session.address)
    await expect(page.locator("#e-user-0")).to_be_in_viewport()
    assert await page.evaluate("scrollY") == 0
    if is_end_loaded:
        await expect(page.locator(".edge.newer")).to_be_hidden()

    await session.add_events(*turn(20, is_over=False))
    added.set()

    await expect(page.locator("#e-answer-20")).to_be_in_viewport()
    await expect(page.locator(".live-mark")).to_be_visible()
    assert await page.evaluate(TO_END) == 0

    await wheel(page, -20_000)
    assert await page.evaluate("scrollY") == 0
    await session.add_events(*turn(21, is_over=False))
    await expect(page.locator(".to-end")).to_have_text("↓ 5 new")
    assert await page.evaluate("scrollY") == 0


@pytest.mark.slow
async def test_new_items_are_counted_at_the_start(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(20)))
    await open_page(page, session.address)
    await expect(page.locator("#e-user-0")).to_be_in_viewport()
    await page.keyboard.press("j")
    await expect(page.locator(".edge.newer")).to_be_hidden()

    await session.add_events(*turn(20, is_over=False))

    await expect(page.locator(".to-end")).to_have_text("↓ 5 new")
    await expect(page.locator("#e-user-0")).to_be_in_viewport()


@pytest.mark.slow
async def test_rebuilt_log_replaces_the_old_one(page: Page, session: Session) -> None:
    await session.add_events(*turns(1, 2))
    await open_page(page, session.address)

    await session.add_events(
        wire_event("reset"), *({**event, "id": f"new-{event['id']}"} for event in turn(3))
    )

    await expect(page.locator("#e-new-answer-3")).to_be_attached()
    assert await page.evaluate(SHOWN) == [21, 22, 23, 24, 26, 27]


@pytest.mark.parametrize("number", [2, 3])
async def test_deleted_message_vanishes(page: Page, session: Session, number: int) -> None:
    prompts = (user(f"Prompt {each}", f"u{each}") for each in (1, 2))
    answers = (
        assistant(f"m{each}", f"a{each}", {"type": "text", "text": f"Answer {each}"}) for each in (1, 2)
    )
    await session.write(*(line for pair in zip(prompts, answers, strict=True) for line in pair))
    await open_page(page, session.address)
    log, deleted = page.locator(".chat-log"), {2: "Answer 1", 3: "Prompt 2"}[number]
    await expect(log).to_contain_text(deleted)

    (await session.client.delete(f"/api/sessions/{session.id}/messages/{number}")).raise_for_status()

    await expect(log).not_to_contain_text(deleted)
    await expect(log).to_contain_text("Answer 2")
    live = [await page.evaluate(SHOWN), await log.inner_text()]
    await open_page(page, session.address)
    await expect(log).to_contain_text("Answer 2")
    assert [await page.evaluate(SHOWN), await log.inner_text()] == live
    assert deleted not in await page.locator("body").inner_text()


# Away and back


class Line:
    """A proxy between browser and server that can cut connections."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_cut = False
        self.ends = set[asyncio.StreamWriter]()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ends.add(writer)
        if not self.is_cut:
            there, back = await asyncio.open_connection("127.0.0.1", self.port)
            self.ends.add(back)
            await asyncio.gather(self.pass_on(reader, back), self.pass_on(there, writer))
        await self.hang_up(writer)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        await self.hang_up(writer)

    async def hang_up(self, writer: asyncio.StreamWriter) -> None:
        self.ends.discard(writer)
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()

    def cut(self) -> None:
        self.is_cut = True
        for writer in self.ends:
            writer.transport.abort()

    def mend(self) -> None:
        self.is_cut = False


@asynccontextmanager
async def line_to(address: str) -> AsyncIterator[tuple[Line, str]]:
    line = Line(urlsplit(address).port or 0)
    async with await asyncio.start_server(line.take, "127.0.0.1") as server:
        yield line, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        line.cut()


@pytest.mark.slow
async def test_reconnect_delivers_missed_events_once(
    page: Page, session: Session, ash: str, complaints: list[str]
) -> None:
    await session.add_events(*turns(1))
    await page.clock.install()
    streams = list[str]()
    page.on("request", lambda each: streams.append(each.url) if "/events/stream" in each.url else None)
    async with line_to(ash) as (line, address):
        await open_page(page, f"{address}/sessions/{session.id}")
        await session.add_events(*turns(2))
        await expect(page.locator("#e-answer-2")).to_be_attached()

        # While the clock is paused, a slow machine does not retry more often.
        await page.clock.pause_at(await page.evaluate("Date.now() + 1_000"))
        line.cut()
        await session.add_events(*turns(3))
        lost = page.locator(".connection[data-state=lost]")
        while await lost.is_hidden():
            await page.clock.run_for(500)
        await expect(lost).to_contain_text("Next try in")
        line.mend()
        await page.clock.resume()
        # A click would wait for the button, which is gone if the page has reconnected.
        await lost.locator("button").dispatch_event("click")
        await expect(page.locator("#e-answer-3")).to_be_attached()
        await expect(lost).to_be_hidden()
        await session.add_events(*turns(4))
        await expect(page.locator("#e-answer-4")).to_be_attached()

        shown = await page.evaluate(SHOWN)
        assert shown == [9 * number + place for number in range(4) for place in (2, 3, 4, 5, 7, 8)]
        await page.goto("about:blank")
    assert all("net::ERR" in each for each in complaints)
    assert len(streams) == 3
    complaints.clear()


@pytest.mark.slow
async def test_recreated_session_is_reloaded(
    page: Page, client: httpx2.AsyncClient, complaints: list[str]
) -> None:
    fields = {"source": "test", "externalId": "again"}
    session = Session(client, (await client.post("/api/sessions", json=fields)).json()["id"])
    await session.add_events(*turns(1))
    await open_page(page, session.address)

    await client.delete(f"/api/sessions/{session.id}")
    await client.post("/api/sessions", json=fields)
    await session.add_events(*turns(2, 3))

    await expect(page.locator("#e-answer-2")).to_be_attached()
    await expect(page.locator("#e-answer-1")).not_to_be_attached()
    assert await page.evaluate(SHOWN) == [2, 3, 4, 5, 7, 8, 11, 12, 13, 14, 16, 17]
    assert all("404" in each for each in complaints)  # for a moment it was not there
    complaints.clear()


@pytest.mark.slow
async def test_deleted_session_shows_a_notice(page: Page, session: Session, complaints: list[str]) -> None:
    await session.add_events(*turns(1))
    async with page.expect_response(re.compile("/events/stream")):
        await open_page(page, session.address)

    (await session.client.delete(f"/api/sessions/{session.id}")).raise_for_status()

    await expect(page.locator(".connection")).to_contain_text("This session was deleted.")
    await expect(page.locator(".connection button")).to_be_hidden()
    await expect(page.locator("#e-answer-1")).to_be_attached()
    assert [each for each in complaints if "404" not in each] == []
    complaints.clear()


# Places


LINES: list[Event] = [
    line
    for number in range(400)
    for line in (
        user(f"Prompt {number}", f"u{number}"),
        assistant(
            f"m{number}", f"a{number}", {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {}}
        ),
        user("", f"r{number}")
        | {
            "message": {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"found {number}"}
                ],
            }
        },
        assistant(f"n{number}", f"b{number}", {"type": "text", "text": f"Answer {number}. " * 20}),
    )
]


@pytest.fixture
async def long(client: httpx2.AsyncClient, ash: str) -> Session:
    """A long session, shared by tests that only read it."""
    fields = {"source": "claude", "externalId": "long", "title": "A long one"}
    created = await client.post("/api/sessions", json=fields)
    session = Session(client, created.json()["id"])
    if created.status_code == 201:
        for start in range(0, len(LINES), 800):
            await session.write(*LINES[start : start + 800])
    return session


async def event_of(session: Session, message: int, type: str) -> str:
    page = await session.client.get(f"/api/sessions/{session.id}/events?message={message}&limit=10")
    return next(
        str(each["id"])
        for each in page.json()["events"]
        if (each.get("messageSequence"), each["type"]) == (message, type)
    )


FLASHED = "(id) => flashed.includes(id)"
FLASHES = """
() => new Promise((done) => {
  const look = () => (flashed.length ? done() : requestAnimationFrame(look));
  look();
})
"""
"""Wait for the first flash; `wait_for_function` needs eval, which the policy of the page forbids."""


@pytest.fixture(autouse=True)
async def flashes(page: Page) -> None:
    """Record elements that flash."""
    await page.add_init_script("""window.flashed = [];
      new MutationObserver((changes) =>
        changes.forEach(({ target }) => target.hasAttribute("data-flash") && flashed.push(target.id)),
      ).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-flash"] });""")


@pytest.mark.parametrize(
    ("message", "type", "item"),
    [
        (41, "user_message", 41),
        pytest.param(1000, "assistant_done", 1000, marks=pytest.mark.slow),
        pytest.param(1599, "tool_result", 1598, marks=pytest.mark.slow),
        pytest.param(1, "user_message", 1, marks=pytest.mark.slow),
    ],
)
async def test_permalinks(page: Page, long: Session, message: int, type: str, item: int) -> None:
    event = await event_of(long, message, type)
    named = await event_of(long, item, {"tool_result": "tool_call"}.get(type, type))

    await open_page(page, f"{long.address}?message={message}#e-{event}")

    target = page.locator(f"[id='e-{named}']")
    await expect(target).to_be_in_viewport()
    await until_true(page, FLASHED, arg=f"e-{named}")
    await still(page)
    assert await page.evaluate(FOCUSED) == named
    assert (
        abs(await position(page, named) - 16) <= 1
        or await page.evaluate(TO_END) == 0
        or await page.evaluate("scrollY") == 0
    )
    await expect(target).not_to_have_attribute("data-flash", "")


@pytest.mark.slow
async def test_permalink_page_extends_in_both_directions(page: Page, long: Session) -> None:
    await open_page(page, f"{long.address}?message=800")
    await page.evaluate(FLASHES)
    await page.evaluate(WATCH)

    await page.keyboard.press("Shift+G")
    await expect(page.locator(".assistant-text").last).to_contain_text("Answer 399.")
    await until_true(page, AT_END)
    await page.keyboard.type("gg")
    await expect(page.locator(".user-message").first).to_contain_text("Prompt 0")
    assert await page.evaluate("scrollY") == 0
    await page.evaluate(DOWN)
    shown = await page.evaluate(SHOWN)
    assert shown == sorted(shown)
    assert len(shown) == 1200


@pytest.mark.slow
async def test_places_on_the_same_page_and_history(page: Page, long: Session) -> None:
    await open_page(page, long.address)
    await page.evaluate("scrollBy(0, -2000)")
    await still(page)
    await kept(page)
    script = """() => [...document.querySelectorAll('.user-message')]
      .find((each) => each.getBoundingClientRect().top > 100).dataset.eventId"""
    seen = str(await page.evaluate(script))
    before = await position(page, seen)

    far = await event_of(long, 101, "user_message")
    await page.evaluate("(id) => history.pushState(null, '', `?message=101#e-${id}`)", far)
    await page.evaluate("dispatchEvent(new PopStateEvent('popstate', { state: null }))")
    await expect(page.locator(f"[id='e-{far}']")).to_be_in_viewport()
    near = await event_of(long, 105, "user_message")
    await page.evaluate("(id) => (location.hash = `e-${id}`)", near)
    await until_true(page, FLASHED, arg=f"e-{near}")
    await expect(page.locator(f"[id='e-{near}']")).to_be_in_viewport()
    await still(page)
    await kept(page)

    await page.go_back()
    await expect(page.locator(f"[id='e-{far}']")).to_be_in_viewport()
    await kept(page)
    await page.go_back()
    await expect(page.locator(f"[id='e-{seen}']")).to_be_in_viewport()
    await still(page)
    assert abs(await position(page, seen) - before) <= 1

    await kept(page)
    await page.reload()
    await expect(page.locator(f"[id='e-{seen}']")).to_be_in_viewport()
    await still(page)
    assert abs(await position(page, seen) - before) <= 1


MISSING_PLACES = {
    "?message=41#e-nothing": "This place no longer exists: the nearest item is shown.",
    "#e-nothing": "This place no longer exists.",
    "?message=99999": "Message 99999 is not shown here: the nearest item is shown.",
    "?at=99999": "This place no longer exists: the nearest item is shown.",
}


@pytest.mark.slow
async def test_permalink_to_a_missing_place(page: Page, long: Session) -> None:
    for place, text in MISSING_PLACES.items():
        await open_page(page, long.address + place)

        await expect(page.locator(".toast")).to_have_text(text)
        assert await page.locator(".chat-log .turn").count() > 10


@pytest.mark.slow
async def test_copy_link(page: Page, long: Session) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_page(page, f"{long.address}?message=41&preset=everything")
    await page.keyboard.press("y")

    await expect(page.locator(".toast")).to_have_text("Link copied")
    event = await event_of(long, 41, "user_message")
    assert await page.evaluate("navigator.clipboard.readText()") == f"{long.address}?message=41#e-{event}"


@pytest.mark.slow
async def test_permalink_reveals_filtered_items(page: Page, session: Session) -> None:
    await session.add_events(*turns(1))
    await open_page(page, f"{session.address}?preset=read#e-notice-1")

    await expect(page.locator("#e-notice-1")).to_be_in_viewport()
    assert "system=1" in page.url


# What is shown


ALL = (
    "user-message user",
    "thinking thinking",
    "assistant-text way",
    "tool-call call",
    "notice notice",
    "assistant-text answer",
)


PRESETS: dict[tuple[str, str], tuple[Iterable[int], str]] = {
    ("", ""): ((0, 1, 2, 3, 5), ""),
    ("?preset=read", ""): ((0, 5), "?preset=read"),
    ("?preset=everything", ""): (range(6), "?preset=everything"),
    ("?preset=read&system=1", ""): ((0, 4, 5), "?preset=read&system=1"),
    ("?thinking=0&tools=0", ""): ((0, 2, 5), "?thinking=0&tools=0"),
    ("?preset=holo&holo=1", ""): ((0, 1, 2, 3, 5), "?preset=holo&holo=1"),
    ("", "1"): ((0, 5), "?preset=read"),
    ("?preset=read", "2"): ((0, 1, 2, 3, 5), ""),
    ("?thinking=0", "3"): (range(6), "?preset=everything"),
    ("", "s"): (range(6), "?system=1"),
    ("", "t"): ((0, 2, 3, 5), "?thinking=0"),
    ("", "tt"): ((0, 1, 2, 3, 5), ""),
    ("?errors=1", ""): ((), "?errors=1"),
}
"""The items shown and the query of the page after keys are pressed, by the first query and the keys."""


@pytest.mark.slow
async def test_presets_and_filters(page: Page, session: Session) -> None:
    await session.add_events(*turns(1))
    found = dict[tuple[str, str], tuple[list[str], str]]()

    for (query, pressed), (shown, _) in PRESETS.items():
        await open_page(page, session.address + query)
        for key in pressed:
            await page.keyboard.press(key)
        await expect(page.locator(".blank")).to_be_visible(visible=not shown)
        found[query, pressed] = await page.evaluate(VISIBLE), page.url.removeprefix(session.address)

    assert found == {
        case: ([f"{ALL[place]}-1" for place in shown], after) for case, (shown, after) in PRESETS.items()
    }


FOLD_LABELS = {
    "": "4 tool calls · 5 thoughts · 1 failed",
    "?thinking=0": "4 tool calls · 1 failed",
    "?tools=0": "5 thoughts",
    "?thinking=0&tools=0": "",
    "?errors=1": "",
}


@pytest.mark.slow
async def test_fold_label_omits_filtered_kinds(page: Page, session: Session) -> None:
    start, asked, thought, _, call, result, *_, answer, end = turn(1)
    steps = list[Event]()
    for number in range(4):
        failure = {"error": {"code": "exit", "message": "1"}} if number == 2 else {}
        for event, more in ((thought, {}), (call, {}), (result, failure)):
            payload = {**event["payload"], "toolCallId": f"c{number}", **more}
            steps.append({**event, "id": f"{event['id']}-{number}", "payload": payload})
    await session.add_events(start, asked, *steps, {**thought, "id": "last"}, answer, end)
    labels = {}

    for query in FOLD_LABELS:
        await open_page(page, session.address + query)
        labels[query] = await page.locator(".fold").evaluate(
            "(fold) => fold.checkVisibility() ? fold.innerText : ''"
        )
        await expect(page.locator(".tool-call").nth(2)).to_be_visible(visible="tools=0" not in query)

    assert labels == FOLD_LABELS


@pytest.mark.slow
async def test_counts_hidden_system_messages(page: Page, session: Session) -> None:
    await session.add_events(*turns(1, 2, 3))
    await open_page(page, session.address)
    sum = page.locator(".filter-sum")
    await expect(sum).to_have_text("3 system messages hidden")

    await session.add_events(*turns(4))
    await expect(sum).to_have_text("4 system messages hidden")
    await page.keyboard.press("s")
    await expect(sum).to_have_text("")


COUNTS = """
async (id) => {
  const answer = await fetch(`/api/sessions/${id}/item-counts`);
  const selectors = {
    thinking: ".thinking[data-event-id]",
    tools: ".tool-call, .agent-message",
    results: ".tool-result",
    answers: ".assistant-text:not([data-final])",
    system: ".notice, .user-message[data-synthetic]",
    raw: ".raw[data-event-id]",
  };
  const count = ([name, selector]) => [name, document.querySelectorAll(selector).length];
  return [await answer.json(), Object.fromEntries(Object.entries(selectors).map(count))];
}
"""
SAMPLES = {
    path.stem: path for folder in ("samples", "recordings") for path in SERVER.glob(f"{folder}/*.jsonl")
}


@pytest.mark.slow
async def test_counts_of_the_server_are_those_of_the_page(page: Page, client: httpx2.AsyncClient) -> None:
    of_server, of_page = dict[str, dict[str, int]](), dict[str, dict[str, int]]()

    for name, path in SAMPLES.items():
        session = await new_session(client)
        await session.post("messages", path.read_text())
        await open_page(page, session.address)
        of_server[name], of_page[name] = await page.evaluate(COUNTS, session.id)

    assert of_server == of_page
    assert [name for name, counts in of_server.items() if counts["tools"] == 0] == []


@pytest.mark.slow
async def test_filters_count_what_is_not_loaded(page: Page, long: Session) -> None:
    await open_page(page, long.address)
    await page.locator(".filters > summary").click()

    counts = page.locator(".filters .filter-count")
    await expect(counts.nth(1)).to_have_text("400")
    assert await page.locator(".tool-call").count() < 400
    assert await counts.all_inner_texts() == ["", "400", "400", "", "", "", ""]


async def test_empty_turns_take_no_space(page: Page, session: Session) -> None:
    notices = [wire_event("system_message", text=f"Notice {number}") for number in range(50)]
    await session.add_events(*notices, *turns(1))
    await open_page(page, session.address)

    await expect(page.locator(".turn").first).to_be_hidden()
    await expect(page.locator("#e-user-1")).to_be_in_viewport()


@pytest.mark.slow
async def test_filters_keep_the_scroll_position(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(30)))
    await open_page(page, f"{session.address}?at=140#e-user-15")
    await extended(page, 2)
    before = await position(page, "user-15")

    for key in ("3", "1", "2", "s"):
        await page.keyboard.press(key)
        await still(page)
        assert abs(await position(page, "user-15") - before) <= 1


# Keys, the rail, and what is stored


@pytest.mark.slow
async def test_keyboard_navigation(page: Page, session: Session) -> None:
    await session.add_events(*turns(*range(6)))
    await open_page(page, session.address)
    walked = list[Any]()
    for key in ("j", "j", "j", "j", "j", "k", "Shift+J", "Shift+J", "j", "Shift+K", "Shift+K"):
        await page.keyboard.press(key)
        walked.append(await page.evaluate(FOCUSED))

    assert walked == [
        *("user-0", "thinking-0", "way-0", "call-0", "answer-0", "call-0"),
        *("user-1", "user-2", "thinking-2", "user-2", "user-1"),
    ]
    await expect(page.locator("#e-user-1")).to_be_in_viewport()

    await page.keyboard.press("e")
    await page.keyboard.press("j")
    await page.keyboard.press("e")
    await expect(page.locator("#e-thinking-1")).to_have_attribute("open", "")
    await page.keyboard.press("Shift+E")
    await expect(page.locator("#e-call-1")).to_have_attribute("open", "")
    await page.keyboard.press("Shift+E")
    assert await page.locator(".turn details[open]").count() == 0

    await page.keyboard.press("?")
    await expect(page.locator("dialog.help")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("dialog.help")).to_be_hidden()
    await page.keyboard.press("/")
    await page.keyboard.type("jk1")
    assert await page.locator(".find-input").input_value() == "jk1"
    assert page.url == session.address


async def test_outline_shows_prompts_and_failures(page: Page, session: Session) -> None:
    await session.add_events(*turns(0))
    failed = [
        {**event, "payload": {**event["payload"], "error": {"code": "exit", "message": "1"}}}
        if event["type"] == "tool_result"
        else event
        for event in turn(1)
    ]
    await session.add_events(*failed, *turns(2), *turn(3, prompt="Two\nlines"))
    await open_page(page, session.address)
    links = page.locator(".outline-link")

    await expect(links).to_have_text(["Prompt 0", "Prompt 11", "Prompt 2", "Two"])
    await expect(page.locator(".outline-errors")).to_have_text(["1"])
    await expect(links.nth(0)).to_have_attribute("aria-current", "true")
    await links.nth(2).click()
    await expect(page.locator("#e-user-2")).to_be_in_viewport()
    await expect(links.nth(2)).to_have_attribute("aria-current", "true")


async def test_items_are_in_the_outline_when_they_are_shown(blank: Page) -> None:
    """Elements are built before they are shown while all events of a session are loaded."""
    events = [{**each, "sequence": number} for number, each in enumerate(turns(0, 1, 2), 1)]

    listed = await blank.evaluate(OUTLINES, [events[9:], events[:9]])

    assert listed == [
        [["Prompt 1", "Prompt 2"], False],
        [["Prompt 0", "Prompt 1", "Prompt 2"], True],
    ]


OUTLINES = """
async ([shown, prepared]) => {
  const [{ show }, { PromptOutline }, { findElement }] = await Promise.all(
    ["/harness.js", "/viewer/session/prompt-outline.js", "/viewer/session/permalinks.js"].map((path) => import(path)),
  );
  const renderer = await show(shown);
  const outline = new PromptOutline(renderer, () => {});
  const listed = () => {
    outline.fill();
    const prompts = [...outline.list.children].map((row) => row.textContent);
    return [prompts, findElement(renderer, { id: "user-0" }) !== undefined];
  };
  renderer.prepare(prepared);
  const before = listed();
  renderer.flush();
  return [before, listed()];
}
"""

STORED = (
    '{"type":"user","uuid":"s1",  "message":{"role":"user",'
    '"content":"a\\u0007b \\u202e é\u202e\u007f 9007199254740993"},"n":9007199254740993}'
)


@pytest.mark.slow
async def test_stored_panel_shows_the_exact_text(page: Page, session: Session) -> None:
    await session.write(user("Before", "s0"), STORED)
    await session.add_events(wire_event("user_message", text="Posted", id="posted"))
    await open_page(page, session.address)
    panel = page.locator(".stored")

    await page.locator(".user-message").nth(1).hover()
    await page.locator(".item-toolbar [data-action=stored]").click()
    await expect(panel.locator("h2")).to_have_text("Message 2")
    assert await panel.locator(".stored-text").evaluate("(pre) => pre.textContent") == STORED
    assert await panel.locator(".control").evaluate_all(
        "(all) => all.map((each) => each.dataset.symbol)"
    ) == ["<U+202E>␡"]
    await expect(panel.locator(".stored-tree")).to_contain_text("9007199254740993")

    await panel.locator("[data-action=prev]").click()
    await expect(panel.locator("h2")).to_have_text("Message 1")
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await page.locator(".user-message").nth(2).hover()
    await page.locator(".item-toolbar [data-action=stored]").click()
    await expect(panel.locator("h2")).to_have_text("Event 4")
    assert (
        json.loads(await panel.locator(".stored-text").evaluate("(pre) => pre.textContent"))["id"] == "posted"
    )


MIN_TARGET = 24
"""Pixels, more than one line of JSON and less than two."""


async def test_arrows_of_json_are_in_the_line_of_their_key(page: Page, session: Session) -> None:
    """The keys of an open value, which its line shows while it is closed, would take several lines."""
    usage = {f"a_long_name_of_a_number_of_tokens_{number}": number for number in range(6)}
    await session.write(assistant("a0", "a0", {"type": "text", "text": "Done."}, usage=usage))
    await open_page(page, session.address)

    await page.keyboard.press("j")
    await page.keyboard.press("r")
    usage_line = page.locator(".stored .json-node[open] > summary:has(> .json-key:text-is('usage'))")
    await expect(usage_line).to_be_visible()

    height = await usage_line.evaluate("(summary) => summary.getBoundingClientRect().height")
    assert height == MIN_TARGET


@pytest.mark.slow
async def test_stored_panel_shows_a_long_text_on_request(page: Page, session: Session) -> None:
    stored = user("🪁 and 7 words. " * 40_000, "s0")
    await session.write(stored)
    await open_page(page, session.address)

    await page.locator(".user-message").hover()
    await page.locator(".item-toolbar [data-action=stored]").click()
    text, more = page.locator(".stored-text"), page.locator(".stored-text .text-rest")
    await expect(more).to_have_text(re.compile(r"^Show all [\d,.]+ characters$"))
    assert len(await text.inner_text()) < 11_000
    await more.click()

    await expect(more).to_have_count(0)
    assert json.loads(await text.evaluate("(pre) => pre.textContent")) == stored
    copied = await text.evaluate("""(pre) => new Promise((done) => {
      addEventListener("copy", ({ clipboardData }) => done(clipboardData.getData("text/plain")), { once: true });
      getSelection().selectAllChildren(pre);
      document.execCommand("copy");
    })""")
    assert json.loads(copied) == stored


async def test_printing_shows_all_of_a_long_text(page: Page, session: Session) -> None:
    text = "One line of a long prompt.\n" * 10_000
    await session.write(user(text, "s0"))
    await open_page(page, session.address)
    shown = page.locator(".user-message pre.plain")
    assert len(await shown.inner_text()) < 20_000

    await page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert await shown.evaluate("(pre) => pre.textContent") == text


@pytest.mark.slow
async def test_long_file_is_shown_on_request(page: Page, session: Session) -> None:
    lines = [f"line {number}" for number in range(1, 3001)]
    call, result = called("c", "\n".join(f"{n}\t{line}" for n, line in enumerate(lines, 1)))
    read = {"toolCallId": "c", "toolName": "Read", "args": {"file_path": "kite.py"}}
    await session.add_events({**call, "payload": read}, result)
    await open_page(page, session.address)
    await page.locator(".tool-call > summary").click()
    view = page.locator(".file-view")
    numbers = """(view) => ["gutter", "source"].map((name) =>
      [...view.querySelectorAll(`.${name}`)].flatMap((each) => each.textContent.split("\\n")))"""

    gutter, source = await view.evaluate(numbers)
    assert (gutter, source) == ([str(n) for n in range(1, 1001)], lines[:1000])
    await view.locator(".text-rest").click()

    gutter, source = await view.evaluate(numbers)
    assert (gutter, source) == ([str(n) for n in range(1, 3001)], lines)


@pytest.mark.slow
async def test_usage_per_answer_in_preset_everything(page: Page, session: Session) -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 30,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 20,
    }
    await session.write(
        user("Go on.", "x0"),
        assistant("m1", "x1", {"type": "text", "text": "One"}, usage=usage),
        assistant("m1", "x2", {"type": "text", "text": "Two"}, usage=usage),
        assistant(
            "m2", "x3", {"type": "text", "text": "Three"}, usage={"input_tokens": 1, "output_tokens": 2}
        ),
    )
    await open_page(page, session.address)
    assert await page.locator("[data-usage]").count() == 0

    await page.keyboard.press("3")

    script = "(all) => all.map((each) => [each.textContent.trim(), each.dataset.usage])"
    await expect(page.locator("[data-usage]")).to_have_count(2)
    assert await page.locator("[data-usage]").evaluate_all(script) == [
        [
            "Two",
            "claude-sonnet-4-5 · 5 tokens in · 30 out · 1,000 read from the cache · 20 written to the cache"
            " · ≈$0.00084",
        ],
        ["Three", "claude-sonnet-4-5 · 1 token in · 2 out · ≈$0.000033"],
    ]


@pytest.mark.slow
async def test_footers_show_models_and_costs_of_turns(page: Page, session: Session) -> None:
    def turn(number: int, **more: Any) -> list[dict[str, Any]]:
        usage = {"input_tokens": number, "output_tokens": 0}
        text = {"type": "text", "text": "Done."}
        answers = [assistant(f"m{number}{n}", f"a{number}{n}", text, usage=usage, **more) for n in range(2)]
        return [user("Go on.", f"p{number}"), *answers]

    await session.write(*turn(100), *turn(1000, model="nobody"), *turn(10_000))
    await session.post("end", "")
    costs = "(all) => all.map((each) => each.dataset.cost)"
    await open_page(page, session.address)

    await expect(page.locator(".turn-end[data-cost]")).to_have_count(3)
    assert await page.locator(".turn-end").evaluate_all(costs) == [
        "claude-sonnet-4-5 · ≈$0.0006",
        "nobody · unpriced",
        "claude-sonnet-4-5 · ≈$0.06",
    ]


USAGE = "claude-sonnet-4-5 · 1,234 tokens in · 1,234 out · 1,234 read from the cache · ≈$0.0226"


@pytest.mark.slow
async def test_item_toolbar_stays_in_the_window(page: Page, session: Session) -> None:
    usage = {"input_tokens": 1234, "output_tokens": 1234, "cache_read_input_tokens": 1234}
    await session.write(user("Go", "p1"), assistant("m1", "x1", {"type": "text", "text": "One"}, usage=usage))
    await open_page(page, session.address)
    usage_text, tools = page.locator(".item-usage"), page.locator(".item-toolbar")
    ends = "element => [element.getBoundingClientRect(), innerWidth]"

    for width, (preset, words) in product((1280, 1024, 390), (("3", USAGE), ("2", ""))):
        await page.set_viewport_size({"width": width, "height": 800})
        await page.keyboard.press(preset)
        await expect(page.locator("[data-usage]")).to_have_count(1 if words else 0)
        await page.locator(".assistant-text").click()
        await page.locator(".user-message").click()
        await page.locator(".assistant-text").click()
        await expect(usage_text).to_have_text(words)
        box, window = await tools.evaluate(ends)
        assert 0 <= box["left"] < box["right"] <= window


async def test_printing_opens_calls(page: Page, session: Session) -> None:
    change = {"file_path": "a.py", "old_string": "one", "new_string": "two"}
    await session.write(
        user("Go", "p1"),
        assistant("m1", "x1", {"type": "tool_use", "id": "t", "name": "Edit", "input": change}),
    )
    await open_page(page, session.address)
    assert await page.locator(".diff").count() == 0

    await page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert await page.locator(".tool-call:not([open]) .diff").count() == 1


@pytest.mark.slow
async def test_theme_and_help_are_in_the_menu_on_phones(page: Page, session: Session) -> None:
    await session.write(user("Go", "p1"))
    await page.set_viewport_size({"width": 390, "height": 844})
    await open_page(page, session.address)
    await page.click(".menu.filters > summary")

    await page.click(".on-phones .theme-toggle")
    assert await page.get_attribute("html", "data-theme") == "light"
    await page.click(".on-phones .help-button")
    await expect(page.locator("dialog")).to_be_visible()


async def test_highlighting_keeps_the_text(page: Page, session: Session) -> None:
    text = "```py\nx = 1  # <b>\n```\n\n```holo\nx\n```"
    await session.add_events(wire_event("assistant_done", text=text, turnId="t"))
    await open_page(page, session.address)

    await expect(page.locator("code[data-coloured]")).to_have_count(2)
    assert await page.locator("pre.code code").evaluate_all(
        "(all) => all.map((each) => each.textContent)"
    ) == [
        "x = 1  # <b>\n",
        "x\n",
    ]
    assert await page.locator("pre.code span").count() > 0


async def test_event_types_named_like_object_members(page: Page, session: Session) -> None:
    await open_page(page, session.address)
    names = ("hologram", "caught_up", "closed", "message", "error ", "a: b", "__proto__")

    await session.add_events(*(wire_event(name, frames=[1]) for name in names))

    await expect(page.locator(".raw-type")).to_have_text([f"Not recognized: {name}" for name in names])


@pytest.mark.slow
async def test_links_to_parent_and_child_sessions(page: Page, session: Session) -> None:
    for title in ("Look at Windows", "Look at macOS"):
        child = await session.client.post("/api/sessions", json={"title": title, "parentId": session.id})
    await open_page(page, session.address)
    relations = page.locator(".session-relations")

    await relations.locator("summary").click()
    await expect(relations.locator("li")).to_have_text(["Look at macOS", "Look at Windows"])
    await relations.get_by_text("Look at macOS").click()
    await expect(page).to_have_url(session.address.replace(session.id, child.json()["id"]))
    await expect(relations).to_have_text("Started by Paths on Windows")


@pytest.mark.slow
async def test_links_to_the_session_of_which_it_is_a_copy(page: Page, session: Session) -> None:
    original = await session.client.post("/api/sessions", json={"title": "Look at Windows"})

    async def mark(route: Route) -> None:
        response = await route.fetch()
        marks = {"copyOf": original.json()["id"], "copiedMessages": 1200}
        await route.fulfill(response=response, json={**await response.json(), **marks})

    await page.route(f"**/api/sessions/{session.id}", mark)
    await open_page(page, session.address)
    relations = page.locator(".session-relations")

    await expect(relations).to_have_text(
        "Copy of Look at Windows up to message 1,200 · Compare with the original"
    )
    await relations.get_by_role("link", name="Look at Windows").click()
    await expect(page).to_have_url(session.address.replace(session.id, original.json()["id"]))
    await expect(relations).to_be_hidden()


@pytest.mark.slow
async def test_call_and_session_of_a_subagent_link_to_each_other(page: Page, session: Session) -> None:
    """A subagent without a stored session has no link."""
    task = {"description": "Dig", "prompt": "Dig."}
    calls = [
        {"type": "tool_use", "id": f"c-{agent}", "name": "Task", "input": task} for agent in ("dig", "gone")
    ]
    results = [
        {
            **user([{"type": "tool_result", "tool_use_id": f"c-{agent}", "content": "Dug."}], f"r-{agent}"),
            "toolUseResult": {"agentId": agent},
        }
        for agent in ("dig", "gone")
    ]
    await session.write(user("Go on.", "p"), assistant("a", "a", *calls), *results)
    asked = {
        "messageId": "m",
        "targetAgentId": "Newton",
        "targetSessionId": "dig",
        "message": "Dig.",
        "wait": False,
    }
    await session.add_events(wire_event("agent_message", **asked))
    notice = '<task-id>dig</task-id><summary>Agent "Dig" completed</summary>'
    await session.write(user(f"<task-notification>{notice}</task-notification>", "n"))
    fields = {"source": "claude", "title": "Dig", "parentId": session.id}
    child = Session(session.client, (await session.client.post("/api/sessions", json=fields)).json()["id"])
    usage = {"input_tokens": 0, "output_tokens": 700}
    answer = assistant("d", "d", {"type": "text", "text": "Dug."}, usage=usage)
    await child.write(
        *({**line, "isSidechain": True, "agentId": "dig"} for line in (user("Dig.", "q"), answer))
    )

    await open_page(page, session.address)
    await expect(page.locator(".fact", has_text="token")).to_have_text("700 tokens")
    await expect(page.get_by_role("link", name="Newton")).to_have_attribute("href", f"/sessions/{child.id}")
    await page.keyboard.press("3")
    await page.locator(".user-message[data-synthetic] > summary").click()
    report = page.get_by_role("link", name="Open the session of the subagent")
    await expect(report).to_have_attribute("href", f"/sessions/{child.id}")
    links = page.get_by_role("link", name="Open its session")
    for agent in ("gone", "dig"):
        await page.locator(f"[data-tool-call-id=c-{agent}] > summary").click()
        await expect(links).to_have_count(int(agent == "dig"))
    await links.click()
    await expect(page).to_have_url(child.address)
    await page.locator(".session-relations a").click()

    await expect(page).to_have_url(re.compile(f"{session.address}[?]message=3#e-"))
    await expect(page.locator("[data-tool-call-id=c-dig]")).to_have_attribute("open", "")
    assert await page.evaluate(FOCUSED) == await page.get_attribute(
        "[data-tool-call-id=c-dig]", "data-event-id"
    )


async def test_header_facts(page: Page, session: Session) -> None:
    usage = {"input_tokens": 5, "output_tokens": 30, "cache_read_input_tokens": 1000}
    await session.write(
        user("Go on.", "f0"),
        assistant("f1", "f1", {"type": "text", "text": "One"}, usage=usage),
        {"type": "holo_frame", "uuid": "f2", "timestamp": "2026-03-10T11:00:06Z"},
    )
    await session.post("end", "")
    await open_page(page, session.address)

    facts = page.locator(".session-facts .fact")
    await expect(page.locator(".session-place .model")).to_have_text("claude-sonnet-4-5")
    await expect(facts.filter(has_text="$")).to_have_count(1)
    assert [text for text in await facts.all_inner_texts() if "2026" not in text] == [
        "test",
        "5 events",
        "35 tokens + 1,000 read from the cache",
        "≈$0.000765",
        "1 not recognized",
    ]
    await facts.last.click()
    await expect(page.locator(".raw[data-event-id]")).to_be_focused()
    assert page.url.startswith(f"{session.address}?message=3#e-")


async def test_header_lists_all_models(page: Page, session: Session) -> None:
    models = ["sonnet", "opus", "haiku", "opus", "haiku", "opus", "<synthetic>"]
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 20}
    answers = [
        assistant(f"m{number}", f"u{number}", {"type": "text", "text": str(number)}, model=model, usage=usage)
        for number, model in enumerate(models)
    ]
    await session.write(user("Go on.", "u"), *answers)
    await open_page(page, session.address)

    models_fact = page.locator(".session-place .model", has_text="opus")
    await expect(models_fact).to_have_text("opus +2")
    await expect(models_fact).to_have_attribute("title", "Answers: opus 3 · haiku 2 · sonnet 1")
    await expect(page.locator(".fact", has_text="token")).to_have_text("14 tokens + 140 written to the cache")


def called(name: str, result: str = "", **more: Any) -> list[Event]:
    return [tool_call(name, turnId="t"), tool_result(name, result, turnId="t", **more)]


ERRORS = [
    wire_event("user_message", text="Go on.", turnId="t"),
    *called("fine"),
    *called("failed", error={"code": "1", "message": "1 failed"}),
    *called("denied", error={"code": "error", "message": "The user doesn't want to proceed with this."}),
    *called("stopped", error={"code": "error", "message": "[Request interrupted by user for tool use]"}),
    tool_result("x", 1, error={"code": "1", "message": "x"}, turnId="t"),
    wire_event("interrupt", reason="user_cancel", turnId="t"),
    wire_event("error", code="overloaded", message="Wait.", turnId="t"),
    wire_event("turn_end", turnId="t"),
]


@pytest.mark.slow
async def test_error_counts_agree(page: Page, session: Session) -> None:
    await session.add_events(*ERRORS)
    await page.goto(session.address.replace(f"sessions/{session.id}", "?source=test"))
    row = page.locator(f".session-item[data-session-id='{session.id}']")
    await expect(row.locator(".errors")).to_have_text("5 errors")

    await open_page(page, session.address)
    await expect(page.locator(".fact.errors")).to_have_text("5 errors")
    await expect(page.locator(".fact.errors")).to_have_attribute(
        "title", "Bash 3 · overloaded 1. Go to the next"
    )
    await expect(page.locator(".outline-errors")).to_have_text(["5"])
    await page.locator(".filters summary").click()
    errors = page.locator(".filter", has=page.locator("[name=errors]"))
    await expect(errors.locator(".filter-count")).to_have_text("5")
    await errors.click()
    assert await page.locator(".tool-call:visible, .error-banner:visible").count() == 5


async def test_header_is_filled_before_the_log(page: Page, session: Session) -> None:
    """A header that is filled later would move the log while it is read."""
    events_came = asyncio.Event()

    async def late(route: Route) -> None:
        await events_came.wait()
        await route.continue_()

    await session.add_events(*turns(1))
    page.on("response", lambda response: events_came.set() if "/events" in response.url else None)
    await page.route(f"**/api/sessions/{session.id}", late)
    await page.goto(session.address)

    await expect(page.locator(".chat-log .turn")).to_be_attached()
    assert await page.locator(".session-facts").inner_text() != ""


SHOW_TAB = "document.dispatchEvent(new Event('visibilitychange'))"


async def test_names_that_were_changed_elsewhere_are_shown_with_the_tab(page: Page, session: Session) -> None:
    await session.add_events(*turns(1))
    await open_page(page, session.address)
    await session.client.patch(f"/api/sessions/{session.id}", json={"title": "Renamed"})
    await page.evaluate(SHOW_TAB)

    await expect(page.locator("h1")).to_have_text("Renamed")


async def test_an_earlier_state_of_the_session_does_not_replace_a_later_one(
    page: Page, session: Session
) -> None:
    """The first of two requests is answered last: the page asks once more."""
    await session.add_events(*turns(1))
    await open_page(page, session.address)
    answers = HeldAnswers(page)
    address = f"**/api/sessions/{session.id}"
    await answers.hold(address, times=1)
    await page.evaluate(SHOW_TAB)
    await answers.wait()
    await session.client.patch(f"/api/sessions/{session.id}", json={"title": "Renamed"})
    await page.evaluate(SHOW_TAB)
    await expect(page.locator("h1")).to_have_text("Renamed")
    async with page.expect_request(address):
        await answers.send()

    await expect(page.locator("h1")).to_have_text("Renamed")


@pytest.mark.slow
async def test_header_counts_new_events(page: Page, session: Session) -> None:
    await session.add_events(*turn(1, is_over=False))
    await open_page(page, session.address)
    facts = page.locator(".session-facts")
    await expect(facts).to_contain_text("1 tool call")

    await session.add_events(
        wire_event("error", code="a", message="b", turnId="t1"),
        wire_event("raw", source="claude", raw={}, turnId="t1"),
        tool_call("2", turnId="t1"),
    )
    await expect(facts).to_contain_text("1 error")
    await expect(facts).to_contain_text("1 not recognized")
    await expect(facts).to_contain_text("2 tool calls")


@pytest.mark.slow
async def test_header_links_to_unrecognised_records(page: Page, session: Session) -> None:
    """Ignored records are recognized, and events of unknown types are not records."""
    unknown = {"type": "holo_frame", "uuid": "n2", "timestamp": "2026-03-10T11:00:06Z"}
    await session.write(
        {"type": "file-history-snapshot", "messageId": "n0", "snapshot": {}}, user("Go on.", "n1")
    )
    await session.add_events(wire_event("hologram"))
    await session.write(unknown)
    await session.add_events(*turns(*range(120)))
    await open_page(page, f"{session.address}?at=1000")
    assert min(await page.evaluate(SHOWN)) > 100

    await page.locator(".fact.unrecognised").click()

    await expect(page.locator(".raw-type", has_text="holo_frame")).to_be_in_viewport()
    await expect(page.locator(".raw:focus")).to_contain_text("holo_frame")


FRAMES = """
async ([text, size]) => {
  const { parseFrames } = await import("/viewer/session/sse-parser.js");
  const bytes = new TextEncoder().encode(text);
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size);
  }
  const frames = [];
  for await (const frame of parseFrames(chunks())) frames.push(frame);
  return frames;
}
"""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_parses_sse_frames_split_anywhere(blank: Page, size: int) -> None:
    text = 'retry: 9\n\n:\n\nid: 7\nevent: a: b\ndata: {"é":"🪁"}\ndata:\n\nid:8\ndata: \ndata:  2\nodd\n\nid: 9\n'

    assert await blank.evaluate(FRAMES, [text, size]) == [
        {"retry": "9"},
        {},
        {"id": "7", "event": "a: b", "data": '{"é":"🪁"}\n'},
        {"id": "8", "data": "\n 2", "odd": ""},
    ]


@pytest.mark.slow
async def test_exported_page_controls(
    page: Page, session: Session, tmp_path: Path, complaints: list[str]
) -> None:
    await session.add_events(*turns(*range(3)))
    file = tmp_path / "session.html"
    file.write_bytes((await session.client.get(f"/sessions/{session.id}.html")).content)

    await page.goto(f"{file.as_uri()}?preset=read#e-answer-1")

    await expect(page.locator("#e-answer-1")).to_be_focused()
    visible = [
        f"{name}-{number}" for number in range(3) for name in ("user-message user", "assistant-text answer")
    ]
    assert await page.evaluate(VISIBLE) == visible
    await page.keyboard.press("2")
    await page.keyboard.press("Shift+K")
    assert await page.evaluate(FOCUSED) == "user-1"
    await page.keyboard.press("r")
    await expect(page.locator(".stored-text")).to_contain_text('"id": "user-1"')
    await page.keyboard.press("Escape")
    await page.locator(".outline-link").first.click()
    assert page.url == f"{file.as_uri()}#e-user-0"
    await page.go_back()
    assert page.url == f"{file.as_uri()}#e-answer-1"
    assert [each for each in complaints if each != f"request: {file.as_uri()}?preset=read"] == []
    complaints.clear()


@pytest.mark.slow
async def test_long_session_stays_at_its_top_while_the_header_grows(page: Page, session: Session) -> None:
    """The header's facts arrive after the first events, and need several lines on a narrow screen."""
    usage = {"input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 2000}
    text = {"type": "text", "text": "Answer. " * 50}
    answers = [assistant(f"m{number}", f"a{number}", text, usage=usage) for number in range(500)]
    prompts = [user(f"Prompt {number}", f"u{number}") for number in range(500)]
    lines = [line for pair in zip(prompts, answers, strict=True) for line in pair]
    await session.write(*lines[:600])
    await session.write(*lines[600:])
    await page.set_viewport_size({"width": 390, "height": 844})
    summarised = asyncio.Event()

    async def hold(route: Route) -> None:
        await summarised.wait()
        await route.continue_()

    await page.route("**/projections/session-summary", hold)
    await open_page(page, session.address)
    facts = page.locator(".session-facts")
    before = await facts.bounding_box()
    summarised.set()
    await expect(facts).to_contain_text("tokens")
    await still(page)

    after = await facts.bounding_box()
    assert before is not None
    assert after is not None
    assert after["height"] > before["height"]
    assert await page.evaluate("scrollY") == 0
