"""A page that is opened with `?redact=1` shows no tokens, neither stored nor live."""

from playwright.async_api import Page, expect

from tests.shared.records.events import Event, wire_event
from tests.viewer.sessions import Session

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3gH6"
REDACTED = "[redacted: github token]"


def prompt(text: str) -> Event:
    return wire_event("user_message", text=text)


async def test_redacted_session(page: Page, ash: str, session: Session) -> None:
    await session.add_events(prompt(f"Osprey {TOKEN}"))
    await page.goto(f"{session.address}?redact=1")
    log = page.get_by_role("main")
    await expect(log).to_contain_text(f"Osprey {REDACTED}")

    await session.add_events(prompt(f"Second {TOKEN}"))
    await expect(log).to_contain_text(f"Second {REDACTED}")
    assert TOKEN not in await page.content()

    await page.goto(f"{ash}/?redact=1&q=Osprey")
    await expect(page.get_by_role("main")).to_contain_text(REDACTED)
    assert TOKEN not in await page.content()
