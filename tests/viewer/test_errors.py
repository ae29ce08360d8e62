"""Errors of a session page: their number, the keys to go through them, and their colour."""

import asyncio
from collections.abc import Mapping

import pytest
from playwright.async_api import Page, Route, expect

from tests.viewer.browser import still, until_true
from tests.viewer.sessions import Event, Session
from tests.viewer.test_turns import END, asked, call, called, event

FOCUSED = "document.activeElement.closest('[data-event-id][id]')"


async def go(page: Page, key: str) -> str | None:
    """Press a key that goes to an error; return its call."""
    before = await page.evaluate(f"() => {FOCUSED}?.id")
    await page.keyboard.press(key)
    await until_true(page, f"(before) => {FOCUSED} && {FOCUSED}.id !== before", arg=before)
    await still(page)
    id: str | None = await page.evaluate(f"() => {FOCUSED}.dataset.toolCallId")
    return id


@pytest.mark.slow
async def test_keys_and_count_go_to_errors(page: Page, session: Session) -> None:
    """Folded errors, errors of subagents and errors that a preset hides are included."""
    task = event("tool_call", toolCallId="t", toolName="Task", args={"prompt": "Do it."})
    inner = [
        each | {"payload": each["payload"] | {"parentToolCallId": "t"}} for each in call("nested", "No.")
    ]
    calls = [
        *call("a"),
        *call("first", "No rule."),
        task,
        *inner,
        event("tool_result", toolCallId="t", result="Ok."),
    ]
    await session.add_log(*asked(), *calls, event("error", code="overloaded", message="Wait."), END)
    await page.goto(f"{session.address}?preset=read")
    await expect(page.locator(".fact.errors")).to_have_text("3 errors")
    toast = page.locator(".toast")

    assert await go(page, "x") == "first"
    await expect(toast).to_have_text("Error 1 of 3")
    assert await go(page, "x") == "nested"
    assert await page.locator(".tool-call:has(> .subagent)").get_attribute("open") == ""
    assert await go(page, "x") is None
    await expect(page.locator(".error-banner")).to_be_focused()
    await page.keyboard.press("x")
    await expect(toast).to_have_text("No error after this")
    await page.locator(".error-banner").focus()
    assert await go(page, "X") == "nested"
    assert await go(page, "X") == "first"
    await page.keyboard.press("X")
    await expect(toast).to_have_text("No error before this")

    for expected in ("Error 1 of 3", "Error 2 of 3", "Error 3 of 3", "No error after this", "Error 1 of 3"):
        await page.locator(".fact.errors").click()
        await expect(toast).to_have_text(expected)


@pytest.mark.slow
async def test_errors_that_are_not_loaded(page: Page, session: Session) -> None:
    fillers = [event("assistant_done", text=f"Text {number}.") for number in range(1400)]
    success = event("tool_result", toolCallId="success", result="Ok.", error=False)
    middle = [called("success"), success, *call("middle", "No.")]
    halves = [*fillers[:700], *middle, *fillers[700:]]
    await session.add_log(*asked(), *call("first", "No."), *halves, *call("last", "No."), END)
    await page.goto(f"{session.address}?at=1")
    await expect(page.locator(".fact.errors")).to_have_text("3 errors")

    assert [await go(page, key) for key in ("x", "x", "x", "X", "X")] == [
        "first",
        "middle",
        "last",
        "middle",
        "first",
    ]


async def test_key_is_pressed_before_the_events_are_loaded(page: Page, session: Session) -> None:
    """The number of errors is shown first."""
    pressed = asyncio.Event()

    async def wait(route: Route) -> None:
        await pressed.wait()
        await route.continue_()

    await session.add_log(*asked(), *call("first", "No."), END)
    await page.route("**/events?*", wait)
    await page.goto(f"{session.address}?at=1")
    await expect(page.locator(".fact.errors")).to_have_text("1 error")
    await page.keyboard.press("x")
    pressed.set()

    await expect(page.locator(".tool-call > summary")).to_be_focused()


async def test_shortcuts_are_in_the_help(page: Page, session: Session) -> None:
    await session.add_log(*asked())
    await page.goto(session.address)
    await page.keyboard.press("?")

    row = page.locator(".help .keys > div", has_text="next, previous error")
    await expect(row.locator("kbd")).to_have_text(["x", "X"])


DENIED = {"code": "error", "message": "The user doesn't want to proceed with this tool use."}
STOPPED = {"code": "error", "message": "[Request interrupted by user for tool use]"}

RESULTS: Mapping[str, Event] = {
    "failed": {"result": "No.", "error": {"code": "exit", "message": "No."}},
    "denied": {"result": None, "error": DENIED},
    "stopped": {"result": None, "error": STOPPED},
    "not approved": {"result": "", "structured": {"approve": False}},
    "exit code 1": {"result": "", "exitCode": 1},
    "success": {"result": "built"},
}

RED_CALLS = """
() => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--err)";
  const red = getComputedStyle(probe).color;
  const dot = (call) => getComputedStyle(call.querySelector("summary"), "::after").borderTopColor;
  const calls = [...document.querySelectorAll(".tool-call")].filter((call) => dot(call) === red);
  return calls.map(({ dataset }) => dataset.toolCallId);
}
"""


async def test_red_calls_are_those_that_count(page: Page, session: Session) -> None:
    """The server counts results with an error; a provider decides whether an exit code is one."""
    results = [(id, event("tool_result", toolCallId=id, **result)) for id, result in RESULTS.items()]
    await session.add_log(*asked(), *(each for id, result in results for each in (called(id), result)), END)
    await page.goto(session.address)
    await expect(page.locator(".fact.errors")).to_have_text("3 errors")
    await expect(page.locator(".turn")).to_have_attribute("data-state", "done")

    assert await page.evaluate(RED_CALLS) == ["failed", "denied", "stopped"]
