"""The page of a session that is being written."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest
from playwright.async_api import Page, Route, expect

from tests.marking import slow_unless
from tests.shared.records import claude
from tests.viewer.browser import still, until_true
from tests.viewer.sessions import Event, Session
from tests.viewer.test_session_page import STOPPED_CLOCK

TO_END = "() => Math.round(document.documentElement.scrollHeight - innerHeight - scrollY)"
LAST_NUMBER = """() =>
  Number(document.querySelector('.chat-log').textContent.match(/(\\d+)\\s*(?:Working …)?$/)?.[1] ?? 0)"""
PAUSE = 0.05
"""Seconds between two requests, so that the page can keep up."""


def stream_event(**event: object) -> Event:
    return {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}


OPENING: list[Event] = [
    {"type": "system", "subtype": "init", "session_id": "s", "tools": [], "model": "claude-sonnet-4-5"},
    claude.line("user", "Count.", session_id="s"),
    stream_event(type="message_start", message={"id": "m1", "role": "assistant", "content": []}),
    stream_event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
]
"""The lines of a stream up to the beginning of an answer, without times."""


def number(value: int) -> Event:
    """Return a chunk of the open answer with a number; twenty numbers form a paragraph."""
    text = f"{value}" + (" " if value % 20 else "\n\n")
    return stream_event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def old_prompt(value: int) -> Event:
    return claude.line("user", f"Prompt {value}", uuid=f"u{value}", timestamp="2026-03-10T11:00:00Z")


async def write(session: Session, line: Callable[[int], Event], last: int) -> None:
    for first in range(1, last, 800):
        await session.write(*map(line, range(first, min(first + 800, last + 1))))


@asynccontextmanager
async def growing(session: Session, line: Callable[[int], Event], first: int) -> AsyncIterator[None]:
    """Write more lines, one request after the other."""

    async def write() -> None:
        for start in count(first, 10):
            await session.write(*map(line, range(start, start + 10)))
            await asyncio.sleep(PAUSE)

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def expect_following(page: Page) -> None:
    """Wait until the page has twice shown more of the answer and is at its end."""
    await expect(page.locator(".live-mark")).to_be_visible()
    for _ in range(2):
        last = await page.evaluate(LAST_NUMBER)
        await until_true(page, f"(last) => ({LAST_NUMBER})() > last", last)
        await until_true(page, f"() => ({TO_END})() === 0")


@pytest.mark.parametrize("written", slow_unless((400).__eq__, [400, 3600]))
async def test_open_answer_is_shown_at_its_end_and_followed(
    page: Page, session: Session, written: int
) -> None:
    """This works even if its beginning is not loaded, and after the page is reloaded."""
    await session.write(*OPENING)
    await write(session, number, written)

    async with growing(session, number, written + 1):
        await page.goto(session.address)
        await expect_following(page)
        await page.reload()
        await expect_following(page)

    assert await page.evaluate(LAST_NUMBER) > written


@pytest.mark.slow
async def test_input_upwards_stops_following_before_the_page_scrolls(page: Page, session: Session) -> None:
    """The page does not grow in every frame: it would be at its end again before the scroll event."""
    await session.write(*OPENING)
    await write(session, number, 600)
    await page.goto(session.address)
    await until_true(page, f"() => scrollY > 0 && ({LAST_NUMBER})() === 600 && ({TO_END})() === 0")

    await page.evaluate("() => dispatchEvent(new WheelEvent('wheel', { deltaY: -100 }))")
    await session.write(*map(number, range(601, 901)))

    await until_true(page, f"() => ({LAST_NUMBER})() === 900")
    assert await page.evaluate(TO_END) > 0


SHRINK_AND_GROW = f"""async () => {{
  const {{ style }} = document.querySelector(".chat-log");
  const resized = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  style.paddingBottom = "400px";
  await resized();
  style.paddingBottom = "0";
  const clamped = scrollY;
  style.paddingBottom = "800px";
  await resized();
  return [clamped > 0, ({TO_END})()];
}}"""
"""Reading the scroll position makes the browser scroll up to the end of the shorter page."""


async def test_page_that_shrinks_and_grows_between_frames_is_followed(page: Page, session: Session) -> None:
    await session.write(*OPENING)
    await write(session, number, 600)
    await page.goto(session.address)
    await until_true(page, f"() => scrollY > 0 && ({LAST_NUMBER})() === 600 && ({TO_END})() === 0")

    assert await page.evaluate(SHRINK_AND_GROW) == [True, 0]

    await session.write(*map(number, range(601, 901)))
    await until_true(page, f"() => ({LAST_NUMBER})() === 900 && ({TO_END})() === 0")


@pytest.mark.slow
async def test_place_is_saved_while_the_page_scrolls_all_the_time(page: Page, session: Session) -> None:
    await session.write(*OPENING, *map(number, range(1, 601)))
    await page.goto(session.address)
    await until_true(page, f"() => ({LAST_NUMBER})() === 600")
    await page.evaluate("() => history.replaceState(null, '')")

    await until_true(page, "() => { dispatchEvent(new Event('scroll')); return history.state?.isEnd; }")


@pytest.mark.slow
async def test_long_replay_with_old_times_is_followed(page: Page, session: Session) -> None:
    """It looks finished, so it opens at its beginning, and moves to its end once it grows."""
    await write(session, old_prompt, 1300)
    await page.add_init_script(STOPPED_CLOCK)

    async with growing(session, old_prompt, 1301):
        await page.goto(session.address)
        await expect_following(page)

    assert await page.evaluate(LAST_NUMBER) > 1300


IN_VIEW = "() => document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('p, li')?.textContent"


@pytest.mark.slow
async def test_wheel_stops_following_a_fast_answer(page: Page, session: Session) -> None:
    """The page stays where the reader scrolled, while some 200 chunks arrive each second."""
    await session.write(*OPENING)
    await write(session, number, 1200)

    async with growing(session, number, 1201):
        await page.goto(session.address)
        await expect_following(page)
        await page.mouse.move(600, 400)
        await page.mouse.wheel(0, -600)
        await until_true(page, f"() => ({TO_END})() > 200")
        seen = await page.evaluate(IN_VIEW)
        last = await page.evaluate(LAST_NUMBER)
        await until_true(page, f"(last) => ({LAST_NUMBER})() > last + 100", last)

    assert await page.evaluate(IN_VIEW) == seen


@pytest.mark.slow
async def test_reader_of_an_open_answer_stays_while_its_beginning_loads(page: Page, session: Session) -> None:
    """The older events change the text above, in the same item."""
    may_come = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_come.wait()
        await route.continue_()

    await session.write(*OPENING)
    await write(session, number, 1200)
    await page.route(re.compile(r"/events\?before=\d{4}&"), hold)
    await page.goto(session.address)
    await until_true(page, f"() => scrollY > 0 && ({LAST_NUMBER})() === 1200 && ({TO_END})() === 0")
    await page.mouse.move(600, 400)
    await page.mouse.wheel(0, -600)
    await until_true(page, f"() => ({TO_END})() > 100")
    await still(page)
    seen = await page.evaluate(IN_VIEW)

    may_come.set()
    await expect(page.locator(".chat-log")).to_contain_text(" 480 ")
    await still(page)

    assert await page.evaluate(IN_VIEW) == seen


@pytest.mark.slow
async def test_finished_paragraphs_of_an_open_answer_are_not_laid_out_again(
    page: Page, session: Session
) -> None:
    await session.write(*OPENING)
    await write(session, number, 100)
    await page.goto(session.address)
    await until_true(page, f"() => ({LAST_NUMBER})() === 100")
    await page.evaluate(
        "() => document.querySelectorAll('.assistant-text > p').forEach((part) => (part.isKept = true))"
    )

    await write_more(session, 101, 300)

    await until_true(page, f"() => ({LAST_NUMBER})() === 300")
    kept = "() => [...document.querySelectorAll('.assistant-text > p')].map((part) => part.isKept === true)"
    assert await page.evaluate(kept) == [True] * 5 + [False] * 10


async def write_more(session: Session, first: int, last: int) -> None:
    for start in range(first, last, 20):
        await session.write(*map(number, range(start, start + 20)))


CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q tests"}}
QUESTION = {
    "type": "tool_use",
    "id": "t2",
    "name": "AskUserQuestion",
    "input": {"questions": [{"question": "Which port?", "header": "Port", "options": [{"label": "4100"}]}]},
}


def answer(id: str, *content: Event) -> Event:
    return claude.line("assistant", [*content], {"id": id}, session_id="s", parent_tool_use_id=None)


def result(call: str, text: str) -> Event:
    content = [{"type": "tool_result", "tool_use_id": call, "content": text}]
    return claude.line("user", content, session_id="s", parent_tool_use_id=None)


@pytest.mark.slow
async def test_bar_says_what_the_session_does(page: Page, session: Session) -> None:
    """A turn without an open text or a running call works."""
    activity, working = page.locator(".page-bar .activity"), page.locator(".working")
    await session.write(*OPENING[:2])
    await page.goto(session.address)
    await expect(working).to_be_visible()
    await expect(activity).to_be_hidden()

    await session.write(answer("m1", CALL))
    await expect(activity).to_contain_text("Bash pytest -q tests")
    await expect(activity.locator(".activity-time")).to_contain_text("s")
    await expect(working).to_have_count(0)

    await session.write(result("t1", "3 passed"))
    await expect(working).to_be_visible()
    await expect(activity).to_be_hidden()

    await session.write(answer("m2", QUESTION))
    await expect(activity).to_contain_text("waits for you AskUserQuestion Which port?")

    await session.write(result("t2", "4100"), {"type": "result", "subtype": "success", "session_id": "s"})
    await expect(page.locator(".live-mark")).to_be_hidden()
    await expect(working).to_have_count(0)
    await expect(activity).to_be_hidden()
