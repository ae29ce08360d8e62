"""Subagents: one closed line each, apart from the main conversation."""

from typing import Any

from playwright.async_api import Page, expect

from tests.shared.records.events import Event
from tests.viewer.sessions import Session
from tests.viewer.test_turns import END, asked, call, evaluate, event

LINES = """
const line = ({ children: [summary] }) =>
  [...summary.children].map(({ textContent }) => textContent).filter(Boolean).join(" | ");
return all(".subagent[data-unlinked], .tool-call[data-subagent]").map((each) => [line(each), each.open]);
"""


def started(id: str, task: str) -> Event:
    args = {"description": f"{task} it", "prompt": f"{task} this, all of it.", "subagent_type": "Explore"}
    return event("tool_call", toolCallId=id, toolName="Task", args=args)


def ended(id: str, answer: Any, **report: Any) -> Event:
    return event("tool_result", at=72_000, toolCallId=id, result=answer, structured=report)


def of(id: str, *events: Event) -> list[Event]:
    return [{**each, "payload": {**each["payload"], "parentToolCallId": id}} for each in events]


def aside(*events: Event) -> list[Event]:
    return [{**each, "payload": {**each["payload"], "sidechain": True}} for each in events]


def said(text: str, at: int = 0) -> Event:
    return event("assistant_done", at=at, text=text)


def prompt(text: str) -> Event:
    return event("user_message", text=text, synthetic=True)


async def test_parallel_calls_are_a_closed_line_each(blank: Page) -> None:
    """They do not fold, unlike the other calls around them."""
    events = [
        *asked(),
        *(each for id in "abcd" for each in call(id)),
        *(started(id, task) for id, task in (("s", "Search"), ("r", "Review"), ("w", "Wait for"))),
        *of("s", *call("s1"), said("Found.")),
        ended("s", "Found.", totalToolUseCount=1, totalTokens=9120),
        ended("r", "Reviewed."),
        END,
    ]

    lines = await evaluate(blank, events, LINES)
    folds = await evaluate(blank, events, 'return [texts(".fold"), all("[hidden]").length];')

    assert lines == [
        ["Task | Search it · Explore | 1 call · 9,120 tokens · 1 min 12 s", False],
        ["Task | Review it · Explore | 1 min 12 s", False],
        ["Task | Wait for it · Explore | result missing", False],
    ]
    assert folds == [["4 tool calls"], 4]


async def test_subagents_without_a_call_are_a_closed_line_each(blank: Page) -> None:
    events = [
        *asked(),
        *aside(prompt("Search.\nAll of it."), *call("a"), said("Found.", at=5000)),
        *aside(prompt("Review."), prompt("Test."), said("Both.")),
        said("All is done."),
        *of("x", prompt("Read."), said("Read it.")),
        *of("y", said("Wrote it.")),
        *of("x", *call("b")),
        END,
    ]
    finals = 'return all("[data-final]").filter((each) => !each.closest(".subagent")).map((each) => each.innerText);'

    assert await evaluate(blank, events, LINES) == [
        ["Subagent | Search. | 1 call · 5.0 s", False],
        ["2 subagents | Review. · Test.", False],
        ["Subagent | Read. | 1 call", False],
        ["Subagent", False],
    ]
    assert await evaluate(blank, events, finals) == ["All is done."]


async def test_calls_of_a_script_have_their_names(blank: Page) -> None:
    """They are below the call that ran the script. A result without its call says at least who made the call."""
    lone = event("tool_result", toolCallId="s2", result="9", orphan=True)
    read = event("tool_call", toolCallId="s1", toolName="Read", args={"file_path": "a.txt"})
    events = [
        *asked(),
        event("tool_call", toolCallId="r", toolName="REPL", args={"code": "await Read('a.txt')"}),
        *of("r", read, event("tool_result", toolCallId="s1", result="8"), lone),
        event("tool_result", toolCallId="r", result="8"),
        started("t", "Search"),
        *of("t", {**lone, "payload": {**lone["payload"], "toolCallId": "t1"}}),
        ended("t", "Found."),
        END,
    ]
    script = """for (const each of all("details")) each.open = true;
      await settled();
      const callOf = (each) => each.parentElement.closest(".tool-call")?.dataset.toolCallId ?? "";
      const nameOf = (each) => each.querySelector(".tool-name").textContent;
      return all(".tool-call").map((each) => [callOf(each), nameOf(each)]);"""

    assert await evaluate(blank, events, script) == [
        ["", "REPL"],
        ["r", "Read"],
        ["r", "Call of a script"],
        ["", "Task"],
        ["t", "Unknown call"],
    ]


async def test_final_answer_is_the_last_of_the_turn(blank: Page) -> None:
    """A subagent between two texts does not make the first one final."""
    events = [*asked(), said("Wait."), *aside(prompt("Search."), said("Found.")), said("Done."), END]
    script = """return all(".assistant-text").map((each) =>
      [each.innerText, "final" in each.dataset, each.closest(".subagent") !== null]);"""

    assert await evaluate(blank, events, script) == [
        ["Wait.", False, False],
        ["", True, True],
        ["Done.", True, False],
    ]


async def test_last_text_is_not_repeated_as_the_answer(blank: Page) -> None:
    agent_id = "agentId: a1"
    blocks = [{"type": "text", "text": "Found *it*."}, {"type": "text", "text": agent_id}]
    events = [
        *asked(),
        started("s", "Search"),
        *of(
            "s", event("user_message", text="Search this, all of it."), said("Looking."), said("Found *it*.")
        ),
        ended("s", "Found *it*.\n"),
        started("r", "Review"),
        *of("r", said("Found *it*.")),
        ended("r", blocks),
        started("w", "Write"),
        *of("w", said("Wrote.")),
        ended("w", "It was written."),
        END,
    ]
    script = """for (const each of all("details")) each.open = true;
      await settled();
      const parts = ({ children }) => [...children].slice(1).map((each) => [each.className, each.innerText]);
      return all(".tool-call").map((each) => parts(each).map(([name, text]) => `${name}: ${text}`));"""
    note = "The answer is the subagent's last text, above."

    cards = await evaluate(blank, events, script)

    assert [[part.replace("\n\n", " | ") for part in parts] for parts in cards] == [
        [
            "tool-args: Explore · Search it | Search this, all of it.",
            "subagent: The task, as in the call\nSearch this, all of it. | Looking. | Found it.",
            f"tool-result: {note}",
        ],
        [
            "tool-args: Explore · Review it | Review this, all of it.",
            "subagent: Found it.",
            f"tool-result: {note} | Answer | agentId: a1",
        ],
        [
            "tool-args: Explore · Write it | Write this, all of it.",
            "subagent: Wrote.",
            "tool-result: Answer | It was written.",
        ],
    ]


async def test_read_shows_the_main_conversation_alone(page: Page, session: Session) -> None:
    events = [
        *asked(),
        said("Let me see."),
        *aside(prompt("Search."), said("Found by the subagent.")),
        started("s", "Review"),
        *of("s", said("Reviewed by the subagent.")),
        ended("s", "Reviewed."),
        said("All is done."),
        END,
    ]
    await session.add_log(*events)

    await page.goto(f"{session.address}?preset=read")

    visible = page.locator(".chat-log :is(.user-message > .text, .assistant-text):visible")
    await expect(visible).to_have_text(["Build it.", "All is done."])
    await expect(page.locator(".tool-call:visible")).to_have_count(0)
    await expect(page.locator(".subagent:visible")).to_have_count(0)


async def test_errors_of_subagents_are_in_sight(page: Page, session: Session) -> None:
    """Among errors only, the line of a subagent with an error stays."""
    events = [
        *asked(),
        *(each for id in "ab" for each in (started(id, "Do"), *of(id, *call(f"{id}1")), ended(id, "Did."))),
        started("s", "Review"),
        *of("s", *call("s1", "No rule.")),
        ended("s", "Reviewed."),
        *aside(prompt("Search."), *call("c", "Not found.")),
        *aside(prompt("Look."), *call("d")),
        END,
    ]
    await session.add_log(*events)

    await page.goto(f"{session.address}?errors=1")

    lines = page.locator(":is(.tool-call, .subagent) > summary:visible > .tool-gist")
    await expect(lines).to_have_text(["Review it · Explore", "Search."])


async def test_prompt_of_another_agent_names_it(page: Page, session: Session) -> None:
    await session.add_log(event("user_message", text="Test it.", fromAgentId="planner"))
    await page.goto(session.address)

    await expect(page.locator(".user-message .sent-at")).to_contain_text("from planner")
