"""The exported page, opened from disk under its own policy, shows the same as the session page."""

from pathlib import Path

import httpx2
import pytest
from playwright.async_api import Page, expect

import ash_server
from ash_server.viewer.bundle import bundle
from tests.marking import slow_unless
from tests.shared.records.events import turn_start, wire_event

SERVER = Path(ash_server.__file__).parent
FILES = sorted([*(SERVER / "samples").iterdir(), *(SERVER / "recordings").iterdir()])

NDJSON = {"Content-Type": "application/x-ndjson"}

SHOWN = """
(() => {
  const log = document.querySelector(".chat-log").cloneNode(true);
  for (const control of log.querySelectorAll(".turn-changes")) {
    if (control.previousSibling?.data === " · ") control.previousSibling.remove();
    control.remove();
  }
  log.querySelectorAll("[data-cost]").forEach((footer) => footer.removeAttribute("data-cost"));
  log.querySelectorAll(".turn-end:empty").forEach((footer) => footer.remove());
  return log.innerHTML;
})()
"""
"""The log without the changes and costs of turns, which the session page loads later."""


@pytest.fixture
def session(ash: str, request: pytest.FixtureRequest) -> str:
    """The address of a session with a transcript."""
    with httpx2.Client(base_url=ash) as client:
        id = client.post("/api/sessions", json={}).json()["id"]
        path: Path = request.param
        client.post(
            f"/api/sessions/{id}/messages", content=path.read_bytes(), headers=NDJSON
        ).raise_for_status()
    return f"{ash}/sessions/{id}"


@pytest.fixture
def file(session: str, tmp_path: Path) -> str:
    """The file URL of the exported page."""
    file = tmp_path / "session.html"
    file.write_bytes(httpx2.get(f"{session}.html").raise_for_status().content)
    return file.as_uri()


async def drawn(page: Page, address: str) -> str:
    await page.goto(address)
    await page.wait_for_selector(".chat-log .turn")
    html: str = await page.evaluate(SHOWN)
    return html


@pytest.mark.parametrize(
    "session",
    slow_unless(lambda path: path.stem == "kite-wind", FILES),
    ids=lambda path: path.name,
    indirect=True,
)
async def test_exported_page_equals_the_session_page(
    page: Page, complaints: list[str], session: str, file: str
) -> None:
    live = await drawn(page, session)
    from_server = await drawn(page, f"{session}.html")
    from_disk = await drawn(page, file)

    assert from_server == from_disk == live
    facts = page.locator(".session-facts .fact")
    alone = await facts.all_inner_texts()
    await page.goto(session)
    await expect(facts).to_have_text(alone)
    assert any(text.endswith(("event", "events")) for text in alone)
    complaints.remove(f"request: {file}")


@pytest.mark.slow
async def test_exported_page_draws_formulas(page: Page, ash: str) -> None:
    async with httpx2.AsyncClient(base_url=ash) as client:
        id = (await client.post("/api/sessions", json={})).json()["id"]
        event = wire_event("assistant_done", text="$x_1$")
        (await client.post(f"/api/sessions/{id}/events", json=[event])).raise_for_status()

    shown = list[str]()
    for ending in ("", ".html"):
        await page.goto(f"{ash}/sessions/{id}{ending}")
        await expect(page.locator(".math-drawn > math")).to_have_count(1)
        shown.append(await page.inner_html(".assistant-text"))
    assert shown[0] == shown[1]


@pytest.mark.slow
async def test_exported_page_is_never_live(page: Page, ash: str) -> None:
    """A session that was written just before the export is not shown as live either."""
    async with httpx2.AsyncClient(base_url=ash) as client:
        id = (await client.post("/api/sessions", json={})).json()["id"]
        call = {"toolCallId": "c", "toolName": "Bash", "args": {"command": "make"}}
        events = [
            turn_start(turnId="t"),
            wire_event("tool_call", **call, turnId="t"),
        ]
        (await client.post(f"/api/sessions/{id}/events", json=events)).raise_for_status()

    outcomes = list[str | None]()
    for ending in ("", ".html"):
        await page.goto(f"{ash}/sessions/{id}{ending}")
        outcomes.append(await page.text_content(".tool-outcome"))
    assert outcomes == ["running", "result missing"]


HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>\u2028 $events https://evil.example/x.png"


async def test_exported_page_escapes_hostile_text(page: Page, ash: str) -> None:
    async with httpx2.AsyncClient(base_url=ash) as client:
        created = await client.post("/api/sessions", json={"title": HOSTILE, "metadata": {HOSTILE: HOSTILE}})
        id = created.json()["id"]
        events = [wire_event(type, text=HOSTILE) for type in ("user_message", "assistant_done", HOSTILE)]
        (await client.post(f"/api/sessions/{id}/events", json=events)).raise_for_status()

    await page.goto(f"{ash}/sessions/{id}.html")

    assert await page.text_content("h1") == " ".join(HOSTILE.split())
    assert "</script><img src=x onerror=alert(1)><!--<script>" in await page.inner_text(".user-message")
    assert await page.evaluate("document.scripts.length") == 6


MODULES = {
    "a.js": 'import { b } from "./b.js";\nimport { default as c, two as zwei } from "./lib/c.mjs";\n'
    'export function a() {\n  return "a";\n}\nexport const done = [a(), b(), c, zwei];\nglobalThis.ran = done;\n',
    "b.js": 'import { one } from "./d.js";\nconst early = b();\nexport function b() {\n  return `${one}b`;\n}\n',
    "d.js": "export const one = 1;\n",
    "lib/c.mjs": "var $c=3,two='export default 1; </script><!--';export{$c as default,two};\n"
    "//# sourceMappingURL=c.mjs.map\n",
}


async def test_bundled_modules_run_like_modules(blank: Page) -> None:
    """Names are local to modules, and functions are hoisted."""
    script = bundle(MODULES, "a.js")

    await blank.evaluate(f"() => {{ {script} }}")

    assert await blank.evaluate("ran") == ["a", "1b", 3, "export default 1; </script><!--"]
    assert await blank.evaluate("typeof a + typeof early + typeof $c") == "undefined" * 3


async def test_bundled_modules_load_without_stacks_of_errors(blank: Page) -> None:
    script = bundle({"a.js": "globalThis.early = Error().stack;\n"}, "a.js")

    await blank.evaluate(f"() => {{ {script} }}")

    assert await blank.evaluate("[early, typeof Error().stack]") == [None, "string"]
