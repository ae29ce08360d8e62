"""The page of docs/chat-renderer.md, loaded from another origin than Ash's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Page, expect

from tests.shared.records.events import Event
from tests.viewer.browser import http_server
from tests.viewer.sessions import Session
from tests.viewer.test_turns import END, asked, called, event, gave

GUIDE = Path(__file__).parents[2] / "docs" / "chat-renderer.md"


@contextmanager
def serving(page: str) -> Iterator[str]:
    """Serve one page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

    with http_server(Handler) as address:
        yield f"{address}/log.html"


def example(session: Session) -> str:
    """Return the page of the guide, for this session."""
    shown = re.search(r"```html\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert shown is not None
    page = shown[1].replace("localhost:4100", urlsplit(session.address).netloc)
    return re.sub(r'SESSION = "[^"]*"', f'SESSION = "{session.id}"', page)


def of_response(id: str, *events: Event) -> list[Event]:
    return [{**each, "responseId": id} for each in events]


async def test_example_shows_stored_and_new_events(page: Page, session: Session) -> None:
    sent = event("agent_message", messageId="m1", targetAgentId="helper", message="Look.", wait=True)
    answered = event("agent_callback", messageId="m1", fromAgentId="helper", result="Done.")
    await session.add_log(*asked(), *of_response("r1", called("c1")), gave("c1"))
    with serving(example(session)) as address:
        await page.goto(address)
        await expect(page.locator(".tool-call")).to_have_attribute("data-state", "done")
        assert await page.locator(".turn").get_attribute("data-state") == "running"

        new = [*of_response("r2", sent, event("assistant_done", text="Built.")), answered, END]
        own = {"sessionId": session.id}
        await session.add_events(*({**each, **own, "id": f"n{place}"} for place, each in enumerate(new)))

        await expect(page.locator(".turn")).to_have_attribute("data-state", "done")
        assert await page.evaluate(_SHAPE) == SHAPE
        assert await page.locator(".assistant-text").inner_text() == "Built."
        width = await page.locator(".user-message").evaluate("({ offsetWidth }) => offsetWidth < innerWidth")
        assert width, "the style sheet applies"


_SHAPE = """() => {
  const named = { turn: "", "tool-calls": "", "agent-messages": "", "user-message": "eventId",
    "assistant-response": "responseId", "tool-call": "toolCallId", "tool-result": "eventId",
    "agent-message": "messageId", "agent-result": "eventId", "assistant-text": "eventId" };
  const children = (element) => [...element.children].flatMap((child) => {
    const name = [...child.classList].find((each) => each in named);
    if (!name) return children(child);
    return [[`${name} ${child.dataset[named[name]] ?? ""}`.trim(), ...children(child)]];
  });
  return children(document.querySelector(".chat-log"));
}"""

SHAPE = [
    [
        "turn",
        ["user-message e1"],
        ["assistant-response r1", ["tool-calls", ["tool-call c1", ["tool-result e3"]]]],
        [
            "assistant-response r2",
            ["agent-messages", ["agent-message m1", ["agent-result n2"]]],
            ["assistant-text n1"],
        ],
    ]
]
"""The elements of unified chat events, by their ids."""


async def test_second_example_needs_no_server(page: Page, session: Session) -> None:
    events = re.search(r"```js\n(renderer.*?)```", GUIDE.read_text(), re.DOTALL)
    assert events is not None
    html = re.sub(r"follow\(\);\n</script>", f"{events[1]}</script>", example(session))
    with serving(html) as address:
        await page.goto(address)

        await expect(page.locator(".assistant-text")).to_have_text("None.")
        await expect(page.locator(".user-message .text")).to_have_text("Which tests fail?")
