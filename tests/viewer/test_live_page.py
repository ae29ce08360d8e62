"""The page of a session that is being written."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest
from playwright.async_api import Page, expect

from tests.viewer.sessions import Event, Session

TO_END = "() => Math.round(document.documentElement.scrollHeight - innerHeight - scrollY)"
LAST_NUMBER = "() => Number(document.querySelector('.chat-log').textContent.match(/(\\d+)\\s*$/)?.[1] ?? 0)"
UNSCROLLED = """
() => new Promise((done) => {
  let [last, same] = [scrollY, 0];
  const look = () => {
    same = scrollY === last ? same + 1 : 0;
    last = scrollY;
    if (same < 10) requestAnimationFrame(look);
    else done();
  };
  requestAnimationFrame(look);
})
"""
"""Wait until the page was scrolled and is not any more, while it grows."""


def stream_event(**event: object) -> Event:
    return {"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": None}


OPENING: list[Event] = [
    {"type": "system", "subtype": "init", "session_id": "s", "tools": [], "model": "claude-sonnet-4-5"},
    {"type": "user", "session_id": "s", "message": {"role": "user", "content": "Count."}},
    stream_event(type="message_start", message={"id": "m1", "role": "assistant", "content": []}),
    stream_event(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
]
"""The lines of a stream up to the beginning of an answer. None of them names a time."""


def number(value: int) -> Event:
    """Return a chunk of the open answer: a number, twenty in a paragraph."""
    text = f"{value}" + (" " if value % 20 else "\n\n")
    return stream_event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def old_prompt(value: int) -> Event:
    message = {"role": "user", "content": f"Prompt {value}"}
    return {"type": "user", "uuid": f"u{value}", "timestamp": "2026-03-10T11:00:00Z", "message": message}


async def write(session: Session, line: Callable[[int], Event], last: int) -> None:
    for first in range(1, last, 800):
        await session.write(*map(line, range(first, min(first + 800, last + 1))))


@asynccontextmanager
async def growing(session: Session, line: Callable[[int], Event], first: int) -> AsyncIterator[None]:
    """Write more lines, in one request after the other."""

    async def write() -> None:
        for start in count(first, 10):
            await session.write(*map(line, range(start, start + 10)))

    writing = asyncio.create_task(write())
    try:
        yield
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def expect_following(page: Page) -> None:
    """Wait until the page has shown more of the answer twice, at its end."""
    await expect(page.locator(".live-mark")).to_be_visible()
    for _ in range(2):
        last = await page.evaluate(LAST_NUMBER)
        await page.wait_for_function(f"(last) => ({LAST_NUMBER})() > last", arg=last)
        await page.wait_for_function(f"() => ({TO_END})() === 0")


@pytest.mark.parametrize("written", [400, 3600])
async def test_open_answer_is_shown_at_its_end_and_followed(
    page: Page, session: Session, written: int
) -> None:
    """Also if its beginning is not loaded, and after reloading the page."""
    await session.write(*OPENING)
    await write(session, number, written)

    async with growing(session, number, written + 1):
        await page.goto(session.address)
        await expect_following(page)
        await page.reload()
        await expect_following(page)

    assert await page.evaluate(LAST_NUMBER) > written


async def test_fast_growing_page_can_be_left_and_followed_again(page: Page, session: Session) -> None:
    """Scrolling up is not undone, and the last place is saved for reloading, while the page grows all the time."""
    await session.write(*OPENING)
    await write(session, number, 1600)

    async with growing(session, number, 1601):
        await page.goto(session.address)
        await expect_following(page)
        await page.mouse.wheel(0, -900)
        await page.wait_for_function(f"() => ({TO_END})() > 800")
        await page.evaluate(UNSCROLLED)
        assert await page.evaluate(TO_END) > 800
        await page.wait_for_function("() => history.state?.place")
        await page.keyboard.press("Shift+G")
        await expect_following(page)
        await page.wait_for_function("() => history.state?.isEnd")
        await page.reload()
        await expect_following(page)


async def test_long_replay_with_old_times_is_followed(page: Page, session: Session) -> None:
    """It looks finished, so it opens at its beginning, until it is found to grow."""
    await write(session, old_prompt, 1300)

    async with growing(session, old_prompt, 1301):
        await page.goto(session.address)
        await expect_following(page)

    assert await page.evaluate(LAST_NUMBER) > 1300
