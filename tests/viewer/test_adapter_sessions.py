"""Sessions of the adapters for agent SDKs, in the viewer."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page, expect

from ash_stores import AshSession, AshSessionStore
from tests.stores.test_claude_agent_store import SESSION, run_fake
from tests.stores.test_openai_agents_session import ANSWER, CALL, OUTPUT, PROMPT

TEXTS = """
() => [...document.querySelectorAll('.user-message .text, .tool-args, .tool-result, .assistant-text')]
  .map((element) => [element.className, element.textContent])
"""


async def run_claude_agent(ash: str, folder: Path) -> str:
    """Return a part of the external id of the session."""
    sessions = AshSessionStore(ash)
    await run_fake(sessions, folder)
    await sessions.close()
    return SESSION


async def add_openai_items(ash: str, _: Path) -> str:
    session = AshSession("chat in the viewer", url=ash)
    await session.add_items([PROMPT, CALL, OUTPUT, ANSWER])
    await session.close()
    return session.session_id


@pytest.mark.parametrize(("write", "answer"), [(run_claude_agent, "Done."), (add_openai_items, "Two.")])
async def test_session_of_adapter_reads_right(
    page: Page,
    ash: str,
    client: httpx2.AsyncClient,
    tmp_path: Path,
    write: Callable[[str, Path], Awaitable[str]],
    answer: str,
) -> None:
    name = await write(ash, tmp_path)
    [session] = (await client.get("/api/sessions", params={"q": name})).json()["sessions"]
    await page.goto(f"{ash}/sessions/{session['id']}")
    await expect(page.locator(".chat-log")).to_contain_text(answer)

    assert session["title"] == "Which tests fail?"
    assert await page.evaluate(TEXTS) == [
        ["text", "Which tests fail?"],
        ["tool-args", "command: make test"],
        ["tool-result", "2 failed"],
        ["assistant-text", answer],
    ]
