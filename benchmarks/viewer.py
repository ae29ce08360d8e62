"""P11: a long session in the viewer, in a real browser, compared with a page with a plain element per event."""

import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from playwright.async_api import Browser, Page, ViewportSize

import ash_server
from ash_server.store import Store
from ash_server.store.connections.pool import connect
from ash_server.transfer.importing.file_import import import_file
from benchmarks.database import settle
from benchmarks.following import serving
from benchmarks.samples import dump
from benchmarks.table import Row
from tests.viewer.browser import ABSENT, browsing, chromium

_SAMPLES = Path(ash_server.__file__).with_name("samples")
_NAMES = frozenset({"uuid", "parentUuid", "id", "tool_use_id", "requestId", "parentToolUseID", "messageId"})
_SCREEN: ViewportSize = {"width": 1440, "height": 900}


class Size(NamedTuple):
    messages: int
    rounds: int
    """The first of several is a warm-up."""


FULL = Size(messages=10_000, rounds=6)
SMOKE = Size(messages=700, rounds=1)


class Round(NamedTuple):
    """Measurements of a round, in milliseconds unless stated otherwise."""

    first: float
    whole: float
    plain_first: float
    plain_whole: float
    elements: int
    appended_px: float
    prepended_px: float


async def measure(url: str, size: Size) -> list[Row]:
    program = chromium()
    if program is None:
        return [Row("P11", f"a session of {size.messages:,} messages in the viewer", None, note=ABSENT)]
    session_id, events = await _fill(url, size)
    with serving(url) as (host, port):
        async with browsing(program) as browser:
            viewed = _Viewed(browser, f"http://{host}:{port}", session_id)
            rounds = [await viewed.round(number) for number in range(size.rounds)]
    return _rows(rounds[1:] or rounds, size, events)


def _rows(rounds: list[Round], size: Size, events: int) -> list[Row]:
    def typical(of: Callable[[Round], float]) -> float:
        return median(map(of, rounds))

    what = f"of a session of {size.messages:,} messages"
    ms, px = " ms", " px"
    return [
        Row("P11", f"first screen {what}", typical(lambda r: r.first), 350, bound="<=", unit=ms),
        Row("P11", f"first screen {what}, against a plain page", typical(lambda r: r.first / r.plain_first)),
        Row(
            "P11",
            f"all {what}",
            typical(lambda r: r.whole),
            1000,
            bound="<=",
            unit=ms,
            note=f"{events:,} events",
        ),
        Row("P11", f"all {what}, against a plain page", typical(lambda r: r.whole / r.plain_whole)),
        Row("P11", f"elements {what}, per event", rounds[-1].elements / events, 6, bound="<=", unit=""),
        Row(
            "P11",
            "shift when events are appended",
            max(r.appended_px for r in rounds),
            0,
            bound="<=",
            unit=px,
        ),
        Row(
            "P11",
            "shift when older events are loaded",
            max(r.prepended_px for r in rounds),
            0,
            bound="<=",
            unit=px,
        ),
    ]


async def _fill(url: str, size: Size) -> tuple[UUID, int]:
    with tempfile.TemporaryDirectory(prefix="ash-bench-") as folder:
        path = Path(folder) / "long.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in islice(_lines(), size.messages)))
        async with Store.open(url, lock_timeout=None) as store, await connect(url) as conn:
            imported = await import_file(store, path, "long")
            await settle(conn)
            counted = await conn.execute(
                "SELECT count(*) FROM events WHERE session_id = %s", [imported.session_id]
            )
            [events] = await counted.fetchone() or [0]
    return imported.session_id, events


def _lines() -> Iterator[bytes]:
    """Yield the lines of the Claude Code samples repeatedly, with new ids each time, as one conversation."""
    samples = [_records(path) for path in sorted(_SAMPLES.glob("*.jsonl"))]
    end: str | None = None
    for number in count():
        for records in filter(None, samples):
            lines = [_renamed(record, f"-{number}") for record in records]
            yield from (dump(line | {"parentUuid": line.get("parentUuid") or end}) for line in lines)
            end = lines[-1]["uuid"]


def _records(path: Path) -> list[Any]:
    records = map(json.loads, path.read_bytes().splitlines())
    return [record for record in records if "uuid" in record and "message" in record]


def _renamed(value: Any, ending: str) -> Any:
    if isinstance(value, list):
        return [_renamed(each, ending) for each in value]
    if isinstance(value, dict):
        return {
            key: each + ending if key in _NAMES and isinstance(each, str) else _renamed(each, ending)
            for key, each in value.items()
        }
    return value


class _Viewed:
    """A session in a browser; every page is opened with an empty cache."""

    def __init__(self, browser: Browser, address: str, session_id: UUID) -> None:
        self._browser = browser
        self._page = f"{address}/sessions/{session_id}"
        self._api = f"{address}/api/sessions/{session_id}"

    async def round(self, number: int) -> Round:
        async with self._opened(self._page, _MARK) as page:
            first = await self._number(page, "first")
            whole = await page.evaluate(_LOAD_ALL)
            elements = await page.evaluate("document.querySelectorAll('.chat-log *').length")
        async with self._opened(self._api, _PLAIN) as page:
            plain_first = await self._number(page, "first")
            plain_whole = await self._number(page, "whole")
        async with self._opened(self._page, _MARK) as page:
            await self._number(page, "first")
            await page.evaluate(_TO_END)
            appended = await self._moved(page, number)
            prepended = await page.evaluate(_PREPEND)
        return Round(first, whole, plain_first, plain_whole, elements, appended, prepended)

    @asynccontextmanager
    async def _opened(self, address: str, script: str) -> AsyncIterator[Page]:
        async with await self._browser.new_context(viewport=_SCREEN, bypass_csp=True) as context:
            await context.add_init_script(script)
            page = await context.new_page()
            await page.goto(address)
            yield page

    async def _number(self, page: Page, name: str) -> float:
        number: float = await (
            await page.wait_for_function(f"globalThis.{name}", timeout=120_000)
        ).json_value()
        return number

    async def _moved(self, page: Page, number: int) -> float:
        """Return how far the first visible element moves while events are appended below."""
        events = [
            {
                "id": f"{number}-{place}",
                "timestamp": 1793611915002,
                "type": "system_message",
                "payload": {"text": "One more."},
            }
            for place in range(5)
        ]
        await page.mouse.move(700, 500)
        await page.mouse.wheel(0, -2000)
        await page.wait_for_timeout(300)
        moved: float = await page.evaluate(_APPEND, [f"{self._api}/events", events])
        return moved


_MARK = """
const look = () => {
  const shown = [...document.querySelectorAll(".chat-log [data-event-id][id]")].some((item) => {
    const { top, bottom, height } = item.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < innerHeight;
  });
  if (!shown) requestAnimationFrame(look);
  else requestAnimationFrame(() => setTimeout(() => (globalThis.first = performance.now())));
};
requestAnimationFrame(look);
"""

_LOAD_ALL = """
async () => {
  const began = performance.now();
  const edge = document.querySelector(".edge.newer");
  const all = edge.querySelector(".load-all");
  while (!edge.hidden) {
    if (all.textContent !== "Stop") all.click();
    await new Promise((done) => setTimeout(done));
  }
  document.documentElement.getBoundingClientRect();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}
"""

_TO_END = """
async () => {
  const edge = document.querySelector(".edge.newer");
  if (edge.hidden) return;
  edge.querySelector(".load-end").click();
  while (!edge.hidden) await new Promise((done) => setTimeout(done, 20));
}
"""

_PLAIN = """
addEventListener("DOMContentLoaded", async () => {
  const log = document.createElement("main");
  document.body.replaceChildren(log);
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
  const show = async (query) => {
    const page = await (await fetch(`${location.pathname}/events?collapse=true&${query}`)).json();
    const elements = page.events.map(({ payload }) => {
      const element = document.createElement("div");
      element.textContent = payload.text ?? JSON.stringify(payload);
      return element;
    });
    log.prepend(...elements);
    return page.prevBefore;
  };
  let before = await show(`before=${Number.MAX_SAFE_INTEGER}&limit=500`);
  globalThis.first = await painted();
  const began = performance.now();
  while (before !== undefined) before = await show(`before=${before}&limit=1000`);
  document.documentElement.getBoundingClientRect();
  globalThis.whole = (await painted()) - began;
});
"""

_WATCHED = """
  const log = document.querySelector(".chat-log");
  const bar = document.querySelector(".page-bar").getBoundingClientRect().bottom;
  const seen = [...log.querySelectorAll("[data-event-id][id]")].find((each) => each.getBoundingClientRect().top >= bar);
  const at = seen.getBoundingClientRect().top;
  let most = 0;
  const look = () => {
    most = Math.max(most, Math.abs(seen.getBoundingClientRect().top - at));
    requestAnimationFrame(look);
  };
  look();
  const frames = async (number) => {
    while (number--) await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  };
  const until = async (isSo) => {
    while (!isSo()) await frames(1);
    await frames(5);
    return Math.round(most * 10) / 10;
  };
"""

_APPEND = f"""
async ([address, events]) => {{
  {_WATCHED}
  await fetch(address, {{
    method: "POST",
    headers: {{ "Content-Type": "application/x-ndjson" }},
    body: events.map((event) => JSON.stringify(event)).join("\\n"),
  }});
  const last = events.at(-1).id;
  return until(() => log.querySelector(`[data-event-id="${{last}}"]`));
}}
"""

_PREPEND = f"""
async () => {{
  {_WATCHED}
  const edge = document.querySelector(".edge.older");
  const before = log.querySelectorAll("[data-event-id]").length;
  if (edge.hidden) return 0;
  edge.querySelector(".load-more").click();
  return until(() => edge.hidden || log.querySelectorAll("[data-event-id]").length > before);
}}
"""
