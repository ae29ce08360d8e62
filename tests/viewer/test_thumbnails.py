"""Thumbnails of images that tools read or made: in the line of the call, loaded near the screen, never fetched."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.shared.records.events import tool_call, tool_result, wire_event
from tests.viewer.sessions import Event, Session
from tests.viewer.test_tools import PIXEL


def image(data: str = PIXEL, **source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data, **source}}


def call(id: str, result: Any) -> list[Event]:
    args = {"file_path": f"{id}.png"}
    return [tool_call(id, "Read", args, turnId="t"), tool_result(id, result, turnId="t")]


RESULTS: dict[str, tuple[Any, list[str]]] = {
    "an image": ([image()], ["Picture"]),
    "a named image after a text": (
        [{"type": "text", "text": "Here"}, {**image(), "filename": "kite.png"}],
        ["kite.png"],
    ),
    "many images": ([image()] * 7, ["Picture"] * 4),
    "a data address": (
        [{"type": "image", "source": {"type": "url", "url": f"data:image/png;base64,{PIXEL}"}}],
        ["Picture"],
    ),
    "a web address": (
        [{"type": "image", "source": {"type": "url", "url": "https://evil.example/a.png"}}],
        [],
    ),
    "an image with another type": ([image(media_type="image/jpeg")], []),
    "a drawing": ([image("PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=")], []),
    "no base64": ([image("<b onclick=x>a picture, of a kite in the wind</b>")], []),
    "a large image": ([image(PIXEL.rstrip("=") + "A" * 6_000_000)], []),
    "a text": ("image", []),
}


@pytest.mark.parametrize("name", RESULTS)
async def test_thumbnails_of_a_result(blank: Page, name: str) -> None:
    result, alternatives = RESULTS[name]
    events = [
        {**event, "id": event["type"], "sequence": n, "timestamp": 1, "sessionId": "s"}
        for n, event in enumerate(call("c", result), 1)
    ]

    shown = await blank.evaluate(
        """async (events) => {
          const { show } = await import("/harness.js");
          const { container } = await show(events);
          return [...container.querySelectorAll(".thumbnail")].map((image) => [image.alt, image.hasAttribute("src")]);
        }""",
        events,
    )

    assert shown == [[alternative, False] for alternative in alternatives]


@pytest.mark.slow
async def test_thumbnails_are_loaded_near_the_screen(page: Page, session: Session) -> None:
    answer = wire_event("assistant_done", text="Line\n\n" * 400, turnId="t")
    end = wire_event("turn_end", turnId="t")
    await session.add_events(*call("first", [image()]), answer, *call("last", [image()] * 6), end)
    await page.goto(f"{session.address}?at=1")
    first, last = page.locator(".thumbnails").first, page.locator(".thumbnails").last

    await expect(first.locator("[src]")).to_have_count(1)
    assert await last.locator("[src]").count() == 0
    before = await last.bounding_box()
    await last.scroll_into_view_if_needed()
    await expect(last.locator("[src]")).to_have_count(4)
    after = await last.bounding_box()

    await expect(last).to_have_text("+2")
    assert before
    assert after
    assert (before["width"], before["height"]) == (after["width"], after["height"])
    assert await first.locator("img").get_attribute("src") == f"data:image/png;base64,{PIXEL.rstrip('=')}"


async def test_an_open_call_shows_the_images_instead(page: Page, session: Session) -> None:
    await session.add_events(*call("a", [image()]))
    await page.goto(f"{session.address}?at=1")
    thumbnail = page.locator(".thumbnail")
    await expect(thumbnail).to_have_attribute("src", "data:image/png;base64," + PIXEL.rstrip("="))

    await thumbnail.click()
    await expect(page.locator(".picture img")).to_be_visible()
    await expect(thumbnail).to_be_hidden()
    await page.locator(".tool-call > summary").click()

    await expect(thumbnail).to_be_visible()
    await expect(thumbnail).to_have_attribute("src", "data:image/png;base64," + PIXEL.rstrip("="))
