"""Turn footers, and which items of a turn are folded, open or left open."""

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.shared.records.events import Event, wire_event
from tests.viewer.sessions import Session

START = 1_790_000_000_000
MINUTE = 60_000


def event(type: str, turn: str = "t", at: int = 0, **payload: Any) -> Event:
    return wire_event(type, turnId=turn, timestamp=START + at, sessionId="s", **payload)


def asked(turn: str = "t", at: int = 0) -> list[Event]:
    return [event("turn_start", turn, at, trigger="user"), event("user_message", turn, at, text="Build it.")]


def called(id: str, turn: str = "t", at: int = 0) -> Event:
    return event("tool_call", turn, at, toolCallId=id, toolName="Bash", args={"command": f"make {id}"})


def gave(id: str, error: str | None = None, at: int = 0) -> Event:
    failure: Event = {"error": {"code": "exit", "message": error}} if error else {}
    return event("tool_result", at=at, toolCallId=id, result=error or "built", **failure)


def call(id: str, error: str | None = None) -> list[Event]:
    return [called(id), gave(id, error)]


def thought(text: str = "Let me see.") -> Event:
    return event("thinking_done", text=text)


END = event("turn_end")


async def evaluate(page: Page, events: Iterable[Event], script: str, *, is_live: bool = False) -> Any:
    """The result of a script run with the log (`log`) of these events; `more` adds events."""
    placed = [{"id": f"e{place}", "sequence": place, **each} for place, each in enumerate(events, start=1)]
    return await page.evaluate(_EVALUATE % script, json.dumps([placed, is_live]))


_EVALUATE = """async (input) => {
  const [events, isLive] = JSON.parse(input);
  const { settled, show } = await import("/harness.js");
  const renderer = await show(events);
  const log = renderer.container;
  const all = (selector) => [...log.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((element) => element.textContent);
  renderer.setLive(isLive);
  await settled();
  %s
}"""


async def test_says_who_sent_a_prompt(blank: Page) -> None:
    """A script sends prompts. Messages of programs are no prompts, and closed to one line."""
    sent: list[dict[str, Any]] = [
        {"text": "Build it.", "sender": "person"},
        {"text": "Build it.", "sender": "script"},
        {"text": "Build it.", "sender": "schedule", "synthetic": True},
        {
            "text": "<wrapped>Look.</wrapped>",
            "visibleText": "Look.",
            "sender": "peer",
            "senderName": "Reviewer",
            "synthetic": True,
        },
        {"text": "A reminder.", "synthetic": True},
    ]
    script = """const prompts = texts(".user-message:not([data-synthetic]) .sent-at");
      return [prompts.map((line) => line.includes("from a script")),
      ...texts("[data-synthetic] > summary")];"""

    actual = await evaluate(blank, [event("user_message", **payload) for payload in sent], script)

    assert actual == [
        [False, True],
        "Sent by: scheduleBuild it.",
        "Sent by: peer ReviewerLook.",
        "Added by the toolA reminder.",
    ]


async def test_says_that_a_summary_has_no_text(blank: Page) -> None:
    """Codex encrypts its summaries."""
    events = [event("summary", text=text) for text in ("They fixed the *paths*.", "")]

    actual = await evaluate(blank, events, 'return texts(".summary .text")')

    assert [each.strip() for each in actual] == [
        "They fixed the paths.",
        "The summary is not in this session.",
    ]


@pytest.mark.parametrize("ended", [[], [event("interrupt", at=90 * MINUTE, reason="error")]])
async def test_gap_before_the_next_prompt(blank: Page, ended: list[Event]) -> None:
    """A turn end that the tool does not report has the time of the next prompt."""
    first = [*asked(), event("assistant_done", at=24_000, text="Built."), *ended]
    events = [*first, event("turn_end", at=90 * MINUTE), *asked("u", 90 * MINUTE)]

    actual = await evaluate(blank, events, 'return [texts(".turn-end"), texts(".gap")];')

    assert actual == [["24 s"], ["1 h 29 min later"]]


@pytest.mark.parametrize("is_live", [False, True])
async def test_unfinished_items_run_only_while_live(blank: Page, is_live: bool) -> None:
    events = [*asked(), event("thinking_chunk", text="Let me"), called("a"), event("audio_chunk", data="")]
    script = """return [all(".tool-call, .turn").map(({ dataset }) => dataset.state),
      ...texts(".thinking > summary, .speech, .tool-outcome"), all("[data-streaming]").length];"""

    actual = await evaluate(blank, events, script, is_live=is_live)

    left = [["interrupted", "interrupted"], "Thought · 2 words", "result missing", "Spoke", 0]
    assert actual == ([["running", "running"], "Thinking", "running", "Speaks", 2] if is_live else left)


async def test_revoked_turn_is_closed_behind_its_prompt(blank: Page) -> None:
    """A partly revoked turn stays open."""
    turns = [
        [*asked(turn), event("assistant_done", turn, text=f"Built {turn}."), event("turn_end", turn)]
        for turn in ("t", "u", "v")
    ]
    revoked = ["e3", "e5", "e6", "e7"]
    script = f"""const shown = () => all(".turn").map((turn) => {{
        const details = turn.querySelector(":scope > .revoked");
        return details && [details.open, details.querySelector(".gist").textContent, details.children.length];
      }});
      const before = shown();
      renderer.handleNewEvent({{ id: "x", sequence: 100, type: "retraction", sessionId: "s", timestamp: {START},
        payload: {{ eventIds: {json.dumps(revoked)} }} }});
      await settled();
      return [before, shown()];"""

    actual = await evaluate(blank, [each for turn in turns for each in turn], script)

    assert actual == [[None] * 3, [None, [False, "Build it.", 3], None, None]]


RUNS: dict[str, tuple[list[Event], list[str], list[str]]] = {
    "calls and thoughts": (
        [thought(), *call("a"), thought(), *call("b"), *call("c", "No rule."), thought(), *call("d")],
        ["4 tool calls · 3 thoughts · 1 failed"],
        ["make c"],
    ),
    "one thought": ([thought(), *chain(*map(call, "abcd"))], ["4 tool calls · 1 thought"], []),
    "only calls": ([*chain(*map(call, "abcd"))], ["4 tool calls"], []),
    "few calls": ([thought(), *call("a"), thought(), *call("b"), thought()], [], ["make a", "make b"]),
    "split by a text": (
        [*chain(*map(call, "ab")), event("assistant_done", text="So far."), *chain(*map(call, "cd"))],
        [],
        ["make a", "make b", "make c", "make d"],
    ),
    "only thoughts": ([thought()] * 5, [], []),
}


@pytest.mark.parametrize("name", RUNS)
async def test_runs_of_calls_fold_after_their_turn(blank: Page, name: str) -> None:
    events, folds, in_sight = RUNS[name]
    script = """const seen = (selector) => all(selector).filter((element) => !element.closest("[hidden]"));
      return [texts(".fold"), seen(".tool-call .tool-gist").map(({ textContent }) => textContent),
        seen(".thinking").length];"""

    over = await evaluate(blank, [*asked(), *events, END], script)
    running = await evaluate(blank, [*asked(), *events], script, is_live=True)

    gists = [f"make {each['payload']['toolCallId']}" for each in events if each["type"] == "tool_call"]
    thoughts = sum(each["type"] == "thinking_done" for each in events)
    assert over == [folds, in_sight, 0 if folds else thoughts]
    assert running == [folds, gists, thoughts]


def of_response(id: str, *events: Event) -> list[Event]:
    return [{**each, "responseId": id} for each in events]


RESPONSES: dict[str, tuple[list[Event], list[list[Any]]]] = {
    "several": (
        [
            *of_response("r1", thought(), called("a")),
            gave("a"),
            *of_response("r2", event("assistant_done", text="Built.")),
        ],
        [["r1", ["thinking", "tool-call"]], ["r2", ["assistant-text"]]],
    ),
    "events without a response belong to the one before": (
        [
            event("system_message", text="Ready."),
            *of_response("r1", called("a")),
            event("error", code="e", message="Lost."),
            *of_response("r2", called("b")),
        ],
        [["r1", ["notice", "tool-call", "error-banner"]], ["r2", ["tool-call"]]],
    ),
    "no response is known": ([thought(), *call("a")], [[None, ["thinking", "tool-call"]]]),
    "around a prompt": (
        [
            *of_response("r1", called("a")),
            event("user_message", text="Faster."),
            *of_response("r1", called("b")),
        ],
        [["r1", ["tool-call"]], ["r1", ["tool-call"]]],
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
async def test_each_response_is_an_element(blank: Page, name: str) -> None:
    events, expected = RESPONSES[name]
    script = """return all(".assistant-response").map((each) => [each.dataset.responseId ?? null,
      [...each.querySelectorAll("[data-seq]")].map(({ className }) => className)]);"""

    assert await evaluate(blank, [*asked(), *events, END], script) == expected


async def test_runs_of_calls_fold_across_responses(blank: Page) -> None:
    """One button for the run, in its first group."""
    calls = [
        *of_response("r1", event("assistant_done", text="Let me see."), called("a")),
        *of_response("r2", thought(), called("b")),
        *of_response("r3", thought()),
        *of_response("r4", called("c"), called("d")),
        *map(gave, "abcd"),
        *of_response("r5", event("assistant_done", text="Built.")),
    ]
    script = """const seen = () => all(".tool-call, .thinking").filter((each) => !each.closest("[hidden]")).length;
      const folded = () => all(".steps").map((each) => "folded" in each.dataset);
      const actual = [texts(".fold"), seen(), folded()];
      all(".fold")[0].click();
      actual.push(seen(), folded(), all(".fold")[0].ariaExpanded);
      all(".fold")[0].click();
      return [...actual, seen(), all(".steps").map(({ className }) => className)];"""

    actual = await evaluate(blank, [*asked(), *calls, END], script)

    groups = ["steps tool-calls", "steps tool-calls", "steps", "steps tool-calls"]
    assert actual == [["4 tool calls · 2 thoughts"], 0, [True] * 4, 6, [False] * 4, "true", 0, groups]


async def test_unfolding_shows_thoughts(blank: Page) -> None:
    events = [*asked(), thought(), *chain(*map(call, "abcd")), thought(), END]
    script = """const hidden = () => all("[hidden]").length;
      const before = hidden();
      all(".fold")[0].click();
      return [before, hidden(), all(".fold")[0].ariaExpanded, all(".tool-calls > *").length];"""

    assert await evaluate(blank, events, script) == [6, 0, "true", 7]


async def test_failed_calls_are_open_until_closed(blank: Page) -> None:
    denied = "The user doesn't want to proceed with this tool use."
    calls = [*call("a"), *call("b", "No rule."), *call("c", denied), *call("d", "Stop."), called("e")]
    script = """const [a, b, c, d, e] = all(".tool-call");
      const open = () => [a, b, c, d, e].map(({ open }) => open);
      const actual = [open(), b.querySelector("pre.command") !== null];
      b.open = false;
      a.open = true;
      await settled();
      const more = (sequence, toolCallId) => renderer.handleNewEvent({ id: `f${sequence}`, sequence,
        type: "tool_result", turnId: "t", timestamp: 0, payload: { toolCallId, result: "No.",
        error: { code: "exit", message: "No." } } });
      ["a", "b", "e"].forEach((id, place) => more(100 + place, id));
      await settled();
      return [...actual, open(), e.querySelector("pre.command") !== null];"""

    actual = await evaluate(blank, [*asked(), *calls], script, is_live=True)

    assert actual == [[False, True, False, True, False], True, [True, False, False, True, True], True]


MESSAGES: dict[str, tuple[str, Any, bool]] = {
    "a question": ("AskUserQuestion", {"questions": [{"question": "Which kite?", "options": ["Red"]}]}, True),
    "a plan": ("ExitPlanMode", {"plan": "Build it."}, True),
    "a final answer": ("StructuredOutput", {"kites": 2}, True),
    "a plan mode without a plan": ("EnterPlanMode", {}, False),
    "another call": ("Bash", {"command": "make"}, False),
}


async def test_messages_to_the_reader_are_open_and_do_not_fold(page: Page, session: Session) -> None:
    """Also in the preset that hides calls."""
    tools = enumerate(MESSAGES.values())
    messages = [
        event("tool_call", toolCallId=f"m{at}", toolName=tool, args=args) for at, (tool, args, _) in tools
    ]
    events = [*asked(), *chain(*map(call, "abcd")), *messages, END]
    await session.add_log(*events)
    await page.goto(f"{session.address}?preset=read")
    await expect(page.locator(".user-message")).to_be_visible()
    visible = page.locator(".tool-call:visible")
    expected = [tool for tool, _, is_message in MESSAGES.values() if is_message]

    await expect(visible.locator(".tool-name")).to_have_text(expected)
    await page.keyboard.press("2")

    await expect(visible.locator(".tool-name")).to_have_text(expected)
    assert await page.locator(".tool-call[open]").count() == len(expected)
    await expect(page.locator(".fold")).to_have_text("6 tool calls")


async def test_line_of_a_call_without_arguments_shows_its_result(blank: Page) -> None:
    lonely = event("tool_result", toolCallId="x", result="Two kites.\nOne is red.")
    bare = [event("tool_call", toolCallId="y", toolName="list_kites", args={}), gave("y")]

    lines = await evaluate(blank, [*asked(), lonely, *bare, END], 'return texts(".tool-gist");')

    assert lines == ["Two kites. …", "built"]
