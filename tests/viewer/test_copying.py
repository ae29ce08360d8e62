"""Copying texts, expanding and collapsing all items, and shell commands of the person."""

import json
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.shared.records import claude
from tests.viewer.sessions import Event, Session
from tests.viewer.test_turns import END, asked, call, called, event, gave

ANSWER = "Run this:\n\n```sh\nnpm ci\nnpm test\n```\n"
OUTPUT = "\x1b[1m\x1b[32mPASS\x1b[0m 10%\r\x1b[K100%\nhttps://a.example"
SHOWN = "PASS 10%\n100%\nhttps://a.example".replace("PASS 10%\n", "")
HIDDEN = "echo a\u200bb"


async def copied(page: Page, button: Locator) -> tuple[str, str]:
    """The clipboard and the notice after a press of a button by keyboard."""
    await page.evaluate("navigator.clipboard.writeText('')")
    await page.evaluate("document.querySelector('.toast').textContent = ''")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".toast")).not_to_be_empty()
    return await page.evaluate("navigator.clipboard.readText()"), await page.inner_text(".toast")


@pytest.mark.slow
async def test_copy_buttons(page: Page, session: Session) -> None:
    """On the exported page, which has the same modules."""
    bash = event("tool_call", toolCallId="a", toolName="Bash", args={"command": "npm test -- --color"})
    hidden = event("tool_call", toolCallId="b", toolName="Bash", args={"command": HIDDEN})
    result = event("tool_result", toolCallId="a", result=OUTPUT)
    read = event("tool_call", toolCallId="c", toolName="Read", args={"file_path": "a.py"})
    file = event("tool_result", toolCallId="c", result="1\ta = 1\n2\tb = 2")
    answer = event("assistant_done", text=ANSWER)
    await session.add_log(*asked(), answer, bash, result, hidden, gave("b"), read, file, END)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(f"{session.address}.html")
    await page.evaluate("document.querySelectorAll('.tool-call').forEach((call) => (call.open = true))")

    def button(selector: str) -> Locator:
        return page.locator(f".copyable:has({selector}) > button").first

    assert await copied(page, button("pre.code")) == ("npm ci\nnpm test", "Code copied")
    assert await copied(page, button("pre.command")) == ("npm test -- --color", "Command copied")
    assert await copied(page, button("pre.output")) == (SHOWN, "Output copied")
    assert await copied(page, button(".file-view")) == ("a = 1\nb = 2", "Code copied")
    of_hidden = page.locator("[data-tool-call-id=b] .copyable:has(pre.command) > button")
    assert await copied(page, of_hidden) == ("", "Not copied: the command has hidden characters")
    await page.locator("[data-tool-call-id=a] > summary").focus()
    assert await copied(page, page.locator(".item-toolbar [data-action=text]")) == (
        f"$ npm test -- --color\n{SHOWN}",
        "Text copied",
    )


async def test_copy_button_of_an_output_that_grows(blank: Page) -> None:
    """The elements are kept when the call is painted again; also long texts are copied to their end."""
    await blank.context.grant_permissions(["clipboard-read", "clipboard-write"])
    events = [event("tool_call", toolCallId="a", toolName="Bash", args={"command": "make"})]
    chunks = [event("tool_output_chunk", toolCallId="a", chunk="word " * 3_000)] * 2
    placed = [{"id": f"e{place}", "sequence": place, **each} for place, each in enumerate(events + chunks, 1)]

    lengths = await blank.evaluate(_COPY_TWICE, json.dumps(placed))

    assert lengths == [15_000, 30_000]


_COPY_TWICE = """async (input) => {
  const events = JSON.parse(input);
  const { settled, show } = await import("/harness.js");
  const renderer = await show(events.slice(0, 2));
  const log = renderer.container;
  renderer.setLive(true);
  log.querySelector(".tool-call").open = true;
  await settled();
  const copy = async () => {
    const done = new Promise((resolve) => log.addEventListener("copied", resolve, { once: true }));
    log.querySelector(".copyable:has(.output) > button").click();
    await done;
    return (await navigator.clipboard.readText()).length;
  };
  const first = await copy();
  renderer.handleNewEvent(events[2]);
  renderer.flush();
  return [first, await copy()];
}"""


@pytest.mark.slow
async def test_expand_and_collapse_all(page: Page, session: Session) -> None:
    """Items near the screen, folds and subagents, also later ones; the boxes of open calls end at one line."""
    task = event("tool_call", toolCallId="t", toolName="Task", args={"prompt": "Do it."})
    inner = [each | {"payload": each["payload"] | {"parentToolCallId": "t"}} for each in call("inner")]
    edit = event(
        "tool_call", toolCallId="e", toolName="Edit", args={"file_path": "a", "old_string": "b" * 99}
    )
    thoughts = event("thinking_done", text="Let me see.")
    calls = [*call("a"), *call("b"), *call("c"), *call("d"), edit, task, *inner, gave("t")]
    await session.add_log(*asked(), thoughts, *calls, END)
    await page.set_viewport_size({"width": 1440, "height": 3000})
    await page.goto(session.address)
    closed = page.locator(".chat-log details:is([data-event-id], .subagent):not([open])")
    opened = page.locator(".chat-log details:is([data-event-id], .subagent)[open]")
    await expect(page.locator(".fold")).to_have_attribute("aria-expanded", "false")

    await page.keyboard.press("a")
    await expect(closed).to_have_count(0)
    await expect(page.locator(".fold")).to_have_attribute("aria-expanded", "true")
    boxes = page.locator(".tool-call > :is(.tool-args, .tool-result)")
    edges = await boxes.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().right)")
    assert len(edges) == 13
    assert max(edges) - min(edges) < 1
    later = [
        event("turn_start", "u", trigger="user"),
        event("thinking_done", "u", text="More."),
        called("z", "u"),
    ]
    await session.add_events(*({**each, "sessionId": session.id} for each in later))
    await expect(page.locator("[data-tool-call-id=z][open] pre.command")).to_be_attached()
    await expect(closed).to_have_count(0)
    await page.get_by_role("button", name="Collapse all").click()
    await expect(opened).to_have_count(0)
    await expect(page.locator(".fold")).to_have_attribute("aria-expanded", "false")
    await expect(page.get_by_role("button", name="Expand all")).to_be_visible()


def typed(text: str, uuid: str, at: int = 0) -> Event:
    times: dict[str, Any] = {"timestamp": f"2026-02-01T04:04:{at:02}Z", "sessionId": "s", "uuid": uuid}
    return claude.line("user", text, **times, version="2.1.29")


async def test_shell_commands_of_the_person(page: Page, session: Session) -> None:
    """The output is below the prompt; it is neither a prompt nor a system message."""
    lines = "".join(f"{number}\n" for number in range(30))
    await session.write(
        typed("<local-command-caveat>Caveat: …</local-command-caveat>", "a"),
        typed("<bash-input>git status *.py</bash-input>", "b", 1),
        typed("<bash-stdout>\x1b[31mM\x1b[m a.py\n</bash-stdout><bash-stderr>no\n</bash-stderr>", "c", 2),
        typed("<bash-input>seq 30</bash-input>", "d", 3),
        typed(f"<bash-stdout>{lines}</bash-stdout><bash-stderr></bash-stderr>", "e", 4),
        typed("<bash-stdout> is a tag", "f", 5),
    )
    await page.goto(session.address)

    await expect(page.locator(".user-message pre.command")).to_have_text(["git status *.py", "seq 30"])
    outputs = page.locator(".shell-output")
    await expect(outputs.nth(0).locator("pre")).to_have_text(["M a.py", "no"])
    assert await outputs.evaluate_all("(all) => all.map(({ open }) => open)") == [True, False]
    await expect(outputs.locator("[class^=ansi]")).to_have_text("M")
    await expect(page.locator(".user-message .wrapped")).to_have_count(0)
    await expect(page.locator(".outline-link")).to_have_text(
        ["! git status *.py", "! seq 30", "<bash-stdout> is a tag"]
    )
    await expect(page.locator(".filter-sum")).to_have_text("1 system message hidden")
