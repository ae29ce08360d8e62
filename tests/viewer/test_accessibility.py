"""Accessibility of all pages: keyboard, screen readers, phones, reduced motion."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Page, Route, expect

import ash_server
from tests.marking import slow_unless
from tests.viewer.conftest import settle
from tests.viewer.tabs import Tabs

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
SAMPLES = sorted(Path(ash_server.__file__).with_name("samples").glob("*.jsonl"))
NDJSON = {"Content-Type": "application/x-ndjson"}
SOURCE = "shared samples"

WIDE, NARROW = (1440, 900), (390, 844)
SCREENS: Mapping[str, tuple[Any, tuple[int, int]]] = {"wide": ("light", WIDE), "narrow": ("dark", NARROW)}
"""Sizes of screens, each with one theme: a theme changes colours, which do not depend on the size."""

READY = ".turn, .session-row, .hit, .usage-totals, .compare-table, .refusal, .board .state, .opblock"

DIALOG = "dialog[open]"

VIOLATIONS = """
async (part) => {
  const rules = { "target-size": { enabled: true } };
  const { violations } = await axe.run(part ?? document, { resultTypes: ["violations"], rules });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.slice(0, 3).map(({ html, any: [why] }) => `${id}: ${html.slice(0, 160)} ${why?.message ?? ""}`));
}
"""
_SEVERE = '.filter(({ impact }) => impact === "serious" || impact === "critical")'
ALL_VIOLATIONS = VIOLATIONS.replace(_SEVERE, "")

OPEN = """
async () => {
  const breath = () => new Promise((done) => setTimeout(done));
  const root = document.querySelector("main");
  for (let depth = 0; depth < 20; depth++) {
    const closed = root.querySelectorAll("details:not([open]):not(.menu)");
    if (!closed.length) break;
    closed.forEach((details) => (details.open = true));
    await breath();
  }
  root.querySelectorAll("[aria-expanded=false]:not([aria-haspopup])").forEach((button) => button.click());
  await breath();
}
"""

TOO_WIDE = """
() => [...document.querySelectorAll("html, body")]
  .filter((each) => each.scrollWidth > innerWidth)
  .map((each) => `${each.localName}: ${each.scrollWidth}`)
"""

CONTROLS = """
() => {
  const selector = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const controls = [...document.querySelectorAll(selector)].filter(
    (each) => !each.disabled && each.tabIndex >= 0 && each.checkVisibility({ visibilityProperty: true }) &&
      !each.matches("input[type=radio]:not(:checked)"),
  );
  globalThis.unreached = new Set(controls);
  globalThis.steps = [];
  return controls.length;
}
"""

STEP = """
() => {
  const at = document.activeElement;
  if (at === document.body) return false;
  const { top, bottom, width } = at.getBoundingClientRect();
  const { outlineStyle, outlineWidth } = getComputedStyle(at);
  const isSeen = bottom > 0 && top < innerHeight && width > 0;
  const marksItsParts = at.type === "date";
  const isMarked = marksItsParts || (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1);
  const lacks = [!isSeen && "not in view", !isMarked && "not marked"].filter(Boolean);
  if (lacks.length) steps.push(`${lacks.join(", ")}: ${at.outerHTML.slice(0, 120)}`);
  unreached.delete(at);
  return true;
}
"""

END_TRANSITIONS = """
() => {
  for (let depth = 0; depth < 20; depth++) {
    const transitions = document.getAnimations().filter((each) => each instanceof CSSTransition);
    if (!transitions.length) return;
    transitions.forEach((each) => each.finish());
  }
}
"""
"""Those of content that is not rendered (`content-visibility`) do not end by themselves."""

MOVING = """
() => document.getAnimations()
  .filter(({ timeline, effect }) => timeline === document.timeline && effect.getComputedTiming().endTime > 50)
  .map(({ animationName, transitionProperty }) => animationName ?? transitionProperty)
"""


@pytest.fixture(scope="module")
async def samples(ash: str) -> dict[str, str]:
    """The addresses of sessions with sample content, by name."""
    addresses = {}
    async with httpx2.AsyncClient(base_url=ash) as client:
        for path in SAMPLES:
            created = await client.post("/api/sessions", json={"source": SOURCE, "title": path.stem})
            id = created.raise_for_status().json()["id"]
            posted = await client.post(
                f"/api/sessions/{id}/messages", content=path.read_bytes(), headers=NDJSON
            )
            posted.raise_for_status()
            addresses[path.stem] = f"{ash}/sessions/{id}"
    return addresses


@asynccontextmanager
async def visiting(
    tabs_without_policy: Tabs, complaints: list[str], address: str, screen: str
) -> AsyncIterator[Page]:
    """A page with axe, which its policy would refuse."""
    scheme, (width, height) = SCREENS[screen]
    async with tabs_without_policy.open() as page:
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme=scheme)
        await page.goto(address)
        await expect(page.locator(READY).first).to_be_visible()
        await page.evaluate(AXE)
        yield page
        await settle(page)
    assert complaints == []


async def problems(page: Page, violations: str = VIOLATIONS, part: str | None = None) -> list[str]:
    """Return what axe finds in the page or a part, such as a dialog, and what is wider than the screen."""
    return [*await page.evaluate(violations, part), *await page.evaluate(TOO_WIDE)]


async def problems_on_all_screens(page: Page, violations: str = VIOLATIONS) -> dict[str, list[str]]:
    found = {}
    for screen, (theme, (width, height)) in SCREENS.items():
        await page.emulate_media(color_scheme=theme)
        await page.set_viewport_size({"width": width, "height": height})
        await settle(page)
        await page.evaluate(END_TRANSITIONS)
        found[screen] = await problems(page, violations)
    return found


@pytest.mark.parametrize("sample", slow_unless("recipe-scaler".__eq__, [path.stem for path in SAMPLES]))
async def test_session_page_with_everything_open(
    tabs_without_policy: Tabs, complaints: list[str], samples: dict[str, str], sample: str
) -> None:
    async with visiting(tabs_without_policy, complaints, samples[sample], "wide") as page:
        await page.keyboard.press("3")
        await page.evaluate(OPEN)
        violations = await problems_on_all_screens(page)

    assert violations == {screen: [] for screen in SCREENS}


@pytest.mark.parametrize("screen", slow_unless("narrow".__eq__, SCREENS))
async def test_dialogs_and_panels_of_a_session_page(
    tabs_without_policy: Tabs, complaints: list[str], samples: dict[str, str], screen: str
) -> None:
    violations = {}

    async with visiting(tabs_without_policy, complaints, samples["tide-clock"], screen) as page:

        async def see(what: str, part: str | None = None) -> None:
            await settle(page)
            violations[what] = await problems(page, part=part)

        await see("the page as it comes")
        await page.keyboard.press("?")
        await expect(page.locator("dialog[open]")).to_be_visible()
        await see("the list of keys", DIALOG)
        await page.keyboard.press("Escape")
        await page.keyboard.press("j")
        await page.keyboard.press("r")
        await expect(page.locator(".stored")).to_be_visible()
        await see("what is stored")
        await page.keyboard.press("Escape")
        await page.locator(".turn-changes").first.click()
        await page.locator(".changes").get_by_role("button", name="Expand all").click()
        await see("changed files")
        await page.keyboard.press("Escape")
        await page.keyboard.press("/")
        await page.keyboard.type("the")
        await expect(page.locator(".find-hit").first).to_be_visible()
        await see("search results")

    assert violations == {what: [] for what in violations}


@pytest.mark.parametrize("screen", slow_unless("narrow".__eq__, SCREENS))
async def test_menus_of_a_session_page(
    tabs_without_policy: Tabs, complaints: list[str], samples: dict[str, str], screen: str
) -> None:
    violations = {}

    async with visiting(tabs_without_policy, complaints, samples["tide-clock"], screen) as page:

        async def see(what: str, part: str | None = None) -> None:
            await settle(page)
            violations[what] = await problems(page, part=part)

        await page.locator(".menu-opener").click()
        await expect(page.get_by_role("menu")).to_be_visible()
        await see("actions", "[role=menu]")
        await page.keyboard.press("Escape")
        for action in ("Continue in another agent…", "Tags…", "Note…"):
            await page.locator(".menu-opener").click()
            await page.get_by_role("menuitem", name=action).click()
            await see(action, DIALOG)
            await page.keyboard.press("Escape")
        await page.locator(".menu.forms > summary").click()
        await page.get_by_role("button", name="Show the secrets…").click()
        await expect(page.locator(".findings-total")).to_be_visible()
        await see("the secrets", DIALOG)

    assert violations == {what: [] for what in violations}


@pytest.mark.parametrize("screen", slow_unless("wide".__eq__, SCREENS))
async def test_sessions_page(
    tabs_without_policy: Tabs, complaints: list[str], ash: str, samples: dict[str, str], screen: str
) -> None:
    violations = {}
    for what, query in {"all": {"source": SOURCE}, "a search": {"source": SOURCE, "q": "the"}}.items():
        address = str(httpx2.URL(ash, path="/", params=query))
        async with visiting(tabs_without_policy, complaints, address, screen) as page:
            await page.evaluate(OPEN)
            await settle(page)
            violations[what] = await problems(page)
            await page.keyboard.press("?")
            await settle(page)
            violations[f"{what}, and the list of keys"] = await problems(page, part=DIALOG)

    assert violations == {what: [] for what in violations}


@pytest.mark.slow
async def test_usage_page(
    tabs_without_policy: Tabs, complaints: list[str], ash: str, samples: dict[str, str]
) -> None:
    violations = {}
    for by in ("month", "session"):
        async with visiting(tabs_without_policy, complaints, usage_address(ash, by), "wide") as page:
            await page.get_by_text("Dates").click()
            await page.get_by_role("button", name="Each row by model").click()
            violations[by] = await problems_on_all_screens(page)

    assert violations == {by: {screen: [] for screen in SCREENS} for by in ("month", "session")}


@pytest.mark.slow
async def test_comparison_page(
    tabs_without_policy: Tabs, complaints: list[str], samples: dict[str, str]
) -> None:
    async with visiting(tabs_without_policy, complaints, comparison_address(samples), "wide") as page:
        await page.evaluate("scrollTo(0, 0)")
        violations = await problems_on_all_screens(page)

    assert violations == {screen: [] for screen in SCREENS}


def comparison_address(samples: dict[str, str]) -> str:
    ash, _, a = samples["tide-clock"].rpartition("/sessions/")
    return f"{ash}/compare?a={a}&b={samples['bread-timer'].rpartition('/')[2]}"


def usage_address(ash: str, by: str) -> str:
    query = {"source": SOURCE, "since": "all", "by": by, "parts": "model"}
    return str(httpx2.URL(ash, path="/usage", params=query))


@pytest.mark.parametrize(
    "path",
    [
        "/login",
        "/login/code",
        "/logout",
        "/sessions/nothing",
        "/live",
        "/shares/9a86fd4d-b317-4b90-99d9-ea1060d644d2/",
    ],
)
async def test_pages_without_sessions(
    tabs_without_policy: Tabs, complaints: list[str], ash: str, path: str
) -> None:
    async with visiting(tabs_without_policy, complaints, ash + path, "wide") as page:
        violations = await problems_on_all_screens(page)
        complaints[:] = [each for each in complaints if "404" not in each]

    assert violations == {screen: [] for screen in SCREENS}


@pytest.mark.slow
async def test_documentation_of_the_api(tabs_without_policy: Tabs, complaints: list[str], ash: str) -> None:
    """The page has one operation of each method, since they look alike, and one with its description open."""
    async with visiting(tabs_without_policy, complaints, f"{ash}/login", "wide") as page:
        await page.route("**/openapi.json", answer_with_few_operations)
        await page.goto(f"{ash}/docs")
        await expect(page.locator(READY).first).to_be_visible()
        await page.evaluate(AXE)
        await page.locator("#operations-search-search .opblock-summary-control").click()
        await expect(page.locator(".opblock-body").first).to_be_visible()
        await settle(page)
        violations = await problems_on_all_screens(page, ALL_VIOLATIONS)

    assert violations == {screen: [] for screen in SCREENS}


async def answer_with_few_operations(route: Route) -> None:
    document = await (await route.fetch()).json()
    paths = document["paths"]
    first = {method: path for path in reversed(paths) for method in paths[path]}
    document["paths"] = {path: paths[path] for path in paths if path in {*first.values(), "/api/search"}}
    await route.fulfill(json=document)


@pytest.mark.parametrize("place", ["a session", "all sessions", "usage", "a comparison"])
@pytest.mark.parametrize("screen", slow_unless("wide".__eq__, SCREENS))
async def test_keyboard_reaches_every_control(
    tabs_without_policy: Tabs,
    complaints: list[str],
    ash: str,
    samples: dict[str, str],
    place: str,
    screen: str,
) -> None:
    addresses = {
        "a session": samples["tide-clock"],
        "all sessions": str(httpx2.URL(ash, path="/", params={"source": SOURCE})),
        "usage": usage_address(ash, "month"),
        "a comparison": comparison_address(samples),
    }
    async with visiting(tabs_without_policy, complaints, addresses[place], screen) as page:
        if place == "a session":  # the facts that take longer replace the others
            await expect(page.locator(".fact", has_text="token")).to_be_attached()
        await page.evaluate(OPEN)
        await page.evaluate("scrollTo(0, 0)")
        await settle(page)
        count = await page.evaluate(CONTROLS)
        for _ in range(2 * count + 50):
            await page.keyboard.press("Tab")
            if not await page.evaluate(STEP):
                break
        unreached = await page.evaluate("[...unreached].map((each) => each.outerHTML.slice(0, 160))")
        steps = await page.evaluate("steps")

    assert count > 10
    assert (unreached, steps) == ([], [])


@pytest.mark.slow
async def test_respects_reduced_motion(tabs_without_policy: Tabs, complaints: list[str], ash: str) -> None:
    address = await unfinished(ash)
    moving = {}

    async with visiting(tabs_without_policy, complaints, address, "wide") as page:
        for motion in ("no-preference", "reduce"):
            await page.emulate_media(reduced_motion=motion)
            await page.goto(f"{address}?at=3")
            await expect(page.locator(".assistant-text")).to_be_visible()
            await settle(page)
            moving[motion] = await page.evaluate(MOVING)

    assert moving["no-preference"] != []
    assert moving["reduce"] == []


async def unfinished(ash: str) -> str:
    """The address of a live session."""
    inside: list[tuple[str, dict[str, Any]]] = [
        ("turn_start", {"trigger": "user"}),
        ("user_message", {"text": "Where is it?"}),
        ("tool_call", {"toolCallId": "c", "toolName": "Bash", "args": {"command": "ls"}}),
        ("assistant_chunk", {"text": "It is"}),
    ]
    events = [
        {"id": f"e{n}", "turnId": "t", "timestamp": int(time.time() * 1000), "type": type, "payload": payload}
        for n, (type, payload) in enumerate(inside)
    ]
    async with httpx2.AsyncClient(base_url=ash) as client:
        created = await client.post("/api/sessions", json={"source": "test", "title": "Unfinished"})
        id = created.raise_for_status().json()["id"]
        body = "\n".join(map(json.dumps, events))
        (await client.post(f"/api/sessions/{id}/events", content=body, headers=NDJSON)).raise_for_status()
    return f"{ash}/sessions/{id}"
