"""The viewer's tables cover all event types as the catalogue describes them."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page

from ash_shared.model.event_types import CATALOGUE, types_where
from tests.shared.event_examples import EXAMPLES, example
from tests.viewer.conftest import VIEWER
from tests.viewer.logs import numbered

EVENT_LOG, PAINTERS, SEARCH = (
    (VIEWER / path).read_text(encoding="utf-8")
    for path in ("render/event-log.js", "render/painters.js", "session/session-search.js")
)


def table(module: str, name: str) -> dict[str, str]:
    """Return the keys and values of an object literal at the top level of a module, as texts."""
    (body,) = re.findall(rf"^(?:export )?const {name} = {{\n(.*?)^}};", module, re.MULTILINE | re.DOTALL)
    return {key: value or key for key, value in re.findall(r"^  (\w+)(?:: (.*?))?,?$", body, re.MULTILINE)}


HANDLERS = table(EVENT_LOG, "HANDLERS")


def test_every_type_has_a_handler_or_a_painter() -> None:
    assert HANDLERS.keys() | table(PAINTERS, "EVENT_PAINTERS").keys() == CATALOGUE.keys()


def test_chunks_and_complete_events_are_folded_together() -> None:
    streamed = {name for name, handler in HANDLERS.items() if handler.startswith("addStreamed(")}
    of_calls = {name for name, handler in HANDLERS.items() if handler == "addToToolCall"}
    complete = types_where(lambda row: row.chunks)

    assert streamed | of_calls == complete | types_where(lambda row: row.chunk_of)
    assert of_calls == table(EVENT_LOG, "TOOL_UPDATES").keys()
    assert streamed & complete == table(EVENT_LOG, "COMPLETE").keys()
    assert {name: HANDLERS[row.chunk_of] for name, row in CATALOGUE.items() if row.chunk_of} == {
        name: HANDLERS[name] for name, row in CATALOGUE.items() if row.chunk_of
    }


def test_search_results_name_searched_types() -> None:
    assert table(SEARCH, "TYPE_NAMES").keys() <= types_where(lambda row: row.weight)


_FILTERED = """async (input) => {
  const [{ show }, { Filters }] = await Promise.all([import("/harness.js"), import("/viewer/session/filters.js")]);
  const href = "/viewer/styles/filters.css";
  const styles = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  await new Promise((done) => document.head.append(Object.assign(styles, { onload: done })));
  const hidden = {};
  for (const [type, events] of Object.entries(JSON.parse(input))) {
    const { container } = await show(events);
    const item = container.querySelector('[data-event-id="e1"][id]');
    const filters = new Filters(container, () => {});
    filters.choose("everything");
    const hides = (name) => {
      filters.toggle(name);
      const isHidden = !item.checkVisibility();
      filters.toggle(name);
      return isHidden;
    };
    hidden[type] = item && {
      isShown: item.checkVisibility(),
      isUnrecognised: item.matches(".raw"),
      counted: Object.keys(filters.shows).filter((name) => filters.countOf(name) && name !== "results"),
      hiddenBy: [...Object.keys(filters.shows), "errors"].filter(hides),
    };
    container.parentElement.remove();
  }
  return hidden;
}"""

SHOWN_WITH_ERRORS = types_where(lambda row: row.role == "user" or row.issue in ("error", "failure")) | {
    "interrupt"
}
"""Types with examples that are shown among errors only: prompts, failures and reasons why a turn stopped."""


@pytest.mark.slow
async def test_every_type_is_painted_and_filtered(blank: Page) -> None:
    """Paint the example of each type, before the final answer and an error of the same turn."""
    answer = {**example("assistant_done", "e2", turnId="t", responseId="r2"), "payload": {"text": "Done."}}
    error = example("error", "e3", turnId="t")
    logs = {name: numbered([example(name, turnId="t", responseId="r1"), answer, error]) for name in EXAMPLES}

    items: dict[str, Any] = await blank.evaluate(_FILTERED, json.dumps(logs))

    assert {name for name, item in items.items() if item is None} == types_where(lambda row: row.turn)
    assert {name: item for name, item in items.items() if item} == {
        name: {
            "isShown": True,
            "isUnrecognised": name == "raw",
            "counted": [row.filter] if row.filter else [],
            "hiddenBy": [
                *([row.filter] if row.filter else []),
                *([] if name in SHOWN_WITH_ERRORS else ["errors"]),
            ],
        }
        for name, row in CATALOGUE.items()
        if row.turn is None
    }
