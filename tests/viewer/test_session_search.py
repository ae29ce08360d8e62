"""Search within a session: it finds events that are not loaded, goes from hit to hit, and marks the words."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.marking import slow_after
from tests.shared.records.events import wire_event
from tests.viewer.browser import elapse
from tests.viewer.sessions import Event, Session
from tests.waiting import TIMEOUT

CURRENT = """() => {
  const [range] = CSS.highlights.get("current-hit") ?? [];
  if (!range) return null;
  const { top, bottom } = range.getBoundingClientRect();
  const item = range.startContainer.parentElement.closest("[data-event-id][id]");
  const isSeen = range.startContainer.parentElement.checkVisibility() && top > 0 && bottom < innerHeight;
  return [range.toString(), item.dataset.block, isSeen];
}"""
"""The current hit: its text, the kind of its item, and whether it is on the screen."""

SEEN = f"""async () => {{
  const current = {CURRENT};
  while (!current()?.[2]) await new Promise(requestAnimationFrame);
  return current();
}}"""


def event(type: str, turn: int, **payload: Any) -> Event:
    return wire_event(type, turnId=f"t{turn}", **payload)


def filler(start: int, count: int) -> list[Event]:
    return [
        each
        for turn in range(start, start + count)
        for each in (
            event("user_message", turn, text=f"Prompt {turn}"),
            event("assistant_done", turn, text="Done.\n\n" * 3),
            event("turn_end", turn),
        )
    ]


ONE_OF_EACH = [
    event("user_message", 1, text="Is it a grey heron?"),
    event("thinking_done", 1, text="A Heron, or a crane."),
    event("tool_call", 1, toolCallId="c", toolName="Grep", args={"pattern": "heron.jpg", "path": "birds"}),
    event("tool_result", 1, toolCallId="c", result="birds/list.txt: herons"),
    event("turn_end", 1),
    *filler(2, 500),
    event("user_message", 900, text="And now?"),
    event("assistant_done", 900, text="The **heron** left."),
    event("turn_end", 900),
]
SHOWN = [
    ["heron", "text", True],
    ["Heron", "thinking", True],
    ["heron", "tool", True],
    ["heron", "tool", True],
    ["heron", "text", True],
]


async def search(page: Page, session: Session, q: str) -> None:
    """Search from the first event on."""
    await page.goto(f"{session.address}?at=1")
    await expect(page.locator("[data-seq='1']").first).to_be_in_viewport()
    await page.keyboard.press("/")
    await page.keyboard.insert_text(q)


async def shown(page: Page, number: str) -> Any:
    """The current hit, once it has this number and does not move any more."""
    await expect(page.locator(".find-sum")).to_have_text(number)
    async with asyncio.timeout(TIMEOUT):
        return await page.evaluate(SEEN)


@pytest.mark.slow
async def test_goes_from_hit_to_hit_in_all_of_a_session(page: Page, session: Session) -> None:
    await session.add_events(*ONE_OF_EACH)
    await search(page, session, "heron")
    await expect(page.locator(".find-sum")).to_have_text("5 hits")
    kinds = await page.locator(".find-hit .find-where").evaluate_all(
        "(all) => all.map((each) => each.textContent.split(' · ')[0])"
    )

    await page.keyboard.press("Enter")
    forwards = [await shown(page, "1 of 5")]
    for number in (2, 3, 4, 5, 1):
        await page.keyboard.press("Enter")
        forwards.append(await shown(page, f"{number} of 5"))
    await page.keyboard.press("Shift+Enter")
    backwards = await shown(page, "5 of 5")

    assert kinds == ["User", "Thinking", "Tool call", "Tool result", "Assistant"]
    assert forwards == [*SHOWN, SHOWN[0]]
    assert backwards == SHOWN[-1]


@pytest.mark.slow
async def test_goes_from_hit_to_hit_in_a_long_session(page: Page, session: Session) -> None:
    """Its pages are short, some are empty, and the hits have no numbers."""
    visited = set[str]()

    async def answer_in_parts(route: Route) -> None:
        url = route.request.url
        query = parse_qs(urlsplit(url).query)
        if url not in visited and (query.keys() & {"after", "before"}):
            visited.add(url)
            cursors = {"nextAfter": query.get("after"), "prevBefore": query.get("before")}
            places = {name: int(value[0]) for name, value in cursors.items() if value}
            await route.fulfill(json={"hits": [], "total": 0, "atLeast": True, **places})
            return
        answer = await (await route.fetch(url=url.replace("limit=50", "limit=2"))).json()
        for hit in answer["hits"]:
            del hit["number"]
        await route.fulfill(json=answer | {"total": 1000, "atLeast": True})

    await session.add_events(*ONE_OF_EACH)
    await search(page, session, "heron")
    await expect(page.locator(".find-sum")).to_have_text("5 hits")
    sequences = await page.locator(".find-hit").evaluate_all(
        "(all) => all.map((each) => each.dataset.sequence)"
    )
    await page.route("**/search?*", answer_in_parts)
    await page.locator(".find-input").fill("Heron")
    await expect(page.locator(".find-sum")).to_have_text("1,000+ hits")

    keys = [("Enter", n) for n in (0, 1, 2, 3, 4, 0)] + [("Shift+Enter", n) for n in (4, 3, 2, 1, 0, 4)]
    for key, index in keys:
        await page.keyboard.press(key)
        current = f".find-hit[aria-current=true][data-sequence='{sequences[index]}']"
        await expect(page.locator(current)).to_have_count(1)
    assert await shown(page, "1,000+ hits") == SHOWN[-1]


@pytest.mark.slow
async def test_keys_go_from_hit_to_hit(page: Page, session: Session) -> None:
    await session.add_events(*ONE_OF_EACH)
    await search(page, session, "heron")
    await page.keyboard.press("Enter")
    await shown(page, "1 of 5")
    await page.locator("main").click(position={"x": 2, "y": 2})

    await page.keyboard.press("n")
    second = await shown(page, "2 of 5")
    await page.keyboard.press("N")
    first = await shown(page, "1 of 5")
    await page.keyboard.press("N")
    last = await shown(page, "5 of 5")
    await page.keyboard.press("Escape")

    assert (second, first, last) == (SHOWN[1], SHOWN[0], SHOWN[-1])
    await expect(page.locator(".find-input")).to_have_value("")
    await expect(page.locator(".find-results")).to_be_hidden()
    assert await page.evaluate("['hit', 'current-hit'].map((name) => CSS.highlights.get(name).size)") == [
        0,
        0,
    ]


@pytest.mark.slow
async def test_a_hit_is_chosen_in_the_list(page: Page, session: Session) -> None:
    await session.add_events(*ONE_OF_EACH)
    await search(page, session, '"grey heron"')

    await page.locator(".find-hit", has_text="grey heron").click()

    assert await shown(page, "1 of 1") == ["grey heron", "text", True]
    assert "?at=1#e-" in page.url


DEEP = {"a": {"b": {"c": [1, {"d": "a heron"}]}}, **{f"k{number}": number for number in range(50)}}
CLOSED: dict[str, tuple[str, list[Event]]] = {
    "the end of a long output": (
        "tool",
        [
            event("tool_call", 1, toolCallId="c", toolName="Bash", args={"command": "ls"}),
            event("tool_result", 1, toolCallId="c", result="a line\n" * 20_000 + "the heron\n"),
        ],
    ),
    "a level of a tree": (
        "tool",
        [event("tool_call", 1, toolCallId="c", toolName="mcp__birds__add", args={"value": DEEP})],
    ),
    "the end of a long list": (
        "tool",
        [
            event("tool_call", 1, toolCallId="c", toolName="mcp__birds__list", args={}),
            event("tool_result", 1, toolCallId="c", result=json.dumps([*range(400), "heron"])),
        ],
    ),
    "what a tool added": (
        "text",
        [event("user_message", 1, text="<system-reminder>heron</system-reminder>Go", visibleText="Go")],
    ),
    "a message of the tool": ("system", [event("user_message", 1, text="A\nheron", synthetic=True)]),
    "a filtered notice": ("system", [event("system_message", 1, text="The heron hook ran", variant="hook")]),
    "a record": ("raw", [event("raw", 1, source="claude", raw={"type": "bird", "is": DEEP})]),
    "a folded call": (
        "tool",
        [
            each
            for name in ("kite", "heron", "gull", "crane", "stork")
            for each in (
                event("tool_call", 1, toolCallId=name, toolName="Bash", args={"command": f"ls {name}"}),
                event("tool_result", 1, toolCallId=name, result=""),
            )
        ],
    ),
}


@pytest.mark.parametrize("name", slow_after(3, CLOSED))
async def test_a_hit_in_a_closed_part_is_opened_and_marked(page: Page, session: Session, name: str) -> None:
    kind, events = CLOSED[name]
    await session.add_events(event("user_message", 1, text="Go"), *events, event("turn_end", 1))
    await search(page, session, "heron")

    await page.keyboard.press("Enter")

    assert await shown(page, "1 of 1") == ["heron", kind, True]


@pytest.mark.slow
async def test_searches_again_while_events_are_pending(page: Page, session: Session) -> None:
    answers = [{"hits": [], "total": 0, "pending": 2}]

    async def answer_before_indexing(route: Route) -> None:
        await route.fulfill(json=answers.pop())

    await session.add_events(event("user_message", 1, text="A heron"))
    await page.route("**/search?*", answer_before_indexing, times=1)

    await search(page, session, "heron")

    await expect(page.locator(".find-sum")).to_have_text("1 hit")
    assert not answers


async def test_marks_stay_when_the_page_changes(page: Page, session: Session) -> None:
    await session.add_events(event("user_message", 1, text="A héron, another hero\u0301n"))
    await search(page, session, "heron")
    await page.keyboard.press("Enter")
    await shown(page, "1 of 1")

    await session.add_events(event("assistant_done", 1, text="No heron here."))
    await page.locator(".assistant-text").wait_for()

    assert await page.evaluate("[...CSS.highlights.get('hit')].map(String)") == ["héron", "hero\u0301n"]


@pytest.mark.slow
async def test_a_new_query_and_no_hits(page: Page, session: Session) -> None:
    await session.add_events(event("user_message", 1, text="A heron"))
    await search(page, session, "heron")
    await page.keyboard.press("Enter")
    await shown(page, "1 of 1")

    await page.keyboard.insert_text("s and kites")
    await expect(page.locator(".find-sum")).to_have_text("Nothing found")
    await page.keyboard.press("Enter")
    await elapse(page, 100)

    await expect(page.locator(".find-sum")).to_have_text("Nothing found")
    assert await page.evaluate(CURRENT) is None


@pytest.mark.slow
async def test_near_words_are_suggested(page: Page, session: Session) -> None:
    """Within a session, and for all sessions."""
    await session.add_events(event("user_message", 1, text="A grey merganser"))
    await search(page, session, "grey mergansr")
    await page.get_by_role("button", name="grey merganser").click()
    await expect(page.locator(".find-sum")).to_have_text("1 hit")
    await expect(page.locator(".find-input")).to_be_focused()

    await page.goto(session.address.replace(f"sessions/{session.id}", "?q=mergansr"))
    await page.get_by_role("button", name="merganser").click()
    await expect(page.locator(".hit mark")).to_have_text("merganser")
    assert page.url.endswith("/?q=merganser")


MATCHES = {
    "heron": ["Heron", "heron"],
    '"heron"': ["Heron"],
    "HERON grey": ["Heron", "grey", "heron"],
    "-heron grey": ["grey"],
    "grey or wing": ["grey", "wing"],
    "or": ["or"],
    "src/table.py": ["src/table.py"],
    "table": ["table", "table"],
    '"src table"': ["src/table"],
    "京": ["京"],
    "...": None,
    "a[(": ["a", "a"],
    "resume": ["Résumé", "re\u0301sume\u0301"],
    "RÉSUMÉ": ["Résumé", "re\u0301sume\u0301"],
    '"lodz"': ["Łódź"],
    "가": None,
    "か": ["か"],
}


async def test_patterns_of_queries(blank: Page) -> None:
    text = "A Heron or grey herons: src/table.py, my_table 東京 wing, Résumé re\u0301sume\u0301 Łódź 각 か が"

    found = await blank.evaluate(
        """async ([queries, text]) => {
          const { hitPattern } = await import("/viewer/session/hit-marks.js");
          const { replaceAccented } = await import("/viewer/lib/accents.js");
          const hits = (pattern) =>
            [...replaceAccented(text).matchAll(pattern)].map(({ 0: { length }, index }) => text.substr(index, length));
          return queries.map((q) => (hitPattern(q) && hits(hitPattern(q)).length ? hits(hitPattern(q)) : null));
        }""",
        [list(MATCHES), text.replace("A ", "a an ")],
    )

    assert dict(zip(MATCHES, found, strict=True)) == MATCHES
