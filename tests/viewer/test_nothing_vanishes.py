"""Unknown content is shown and counted."""

import json
from typing import Any

import pytest
from playwright.async_api import Page

from tests.viewer.logs import numbered

_UNKNOWN = {"type": "hologram", "frames": [{"depth": 7, "of": "the harbour"}], "exact": 2**53 + 1}

EVENTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "an event": ("hologram", _UNKNOWN, 1),
    "an event with the name of something else": ("constructor", _UNKNOWN, 1),
    "an event without a payload": ("hologram", {}, 1),
    "a record": ("raw", {"source": "claude", "raw": _UNKNOWN}, 1),
    "a record that is no object": ("raw", {"source": "claude", "raw": "hologram, the harbour, 7"}, 1),
    "a block of the user": ("user_message", {"text": "", "content": [_UNKNOWN]}, 0),
    "a block next to a text": (
        "user_message",
        {"text": "See.", "content": [{"type": "text", "text": "See."}, _UNKNOWN]},
        0,
    ),
    "a block of the assistant": ("assistant_done", {"text": "", "content": [_UNKNOWN]}, 0),
    "a block of a result": ("tool_result", {"toolCallId": "c1", "result": [_UNKNOWN]}, 0),
    "a raw block": (
        "user_message",
        {"text": "", "content": [{"type": "raw", "reason": "opaque", "raw": _UNKNOWN}]},
        0,
    ),
    "arguments of an unknown tool": (
        "tool_call",
        {"toolCallId": "c1", "toolName": "Holo", "args": _UNKNOWN},
        0,
    ),
    "an unknown argument of a known tool": (
        "tool_call",
        {"toolCallId": "c1", "toolName": "Bash", "args": {"command": "ls", "extra": _UNKNOWN}},
        0,
    ),
    "the form of a result": ("tool_result", {"toolCallId": "c1", "result": None, "structured": _UNKNOWN}, 0),
    "the details of an error": ("error", {"code": "c", "message": "m", "details": _UNKNOWN}, 0),
}

_SHOWN = """async (input) => {
  const { show, opened } = await import("/harness.js");
  const renderer = await show(JSON.parse(input));
  await opened(renderer.container);
  return [renderer.container.textContent, renderer.container.querySelectorAll(".raw[data-event-id]").length];
}"""


@pytest.mark.parametrize("what", EVENTS)
async def test_unknown_content_is_shown_and_counted(blank: Page, what: str) -> None:
    type, payload, unrecognised = EVENTS[what]
    event = {"id": "e1", "timestamp": 1, "sessionId": "s", "turnId": "t1", "type": type, "payload": payload}

    text, count = await blank.evaluate(_SHOWN, json.dumps(numbered([event])))

    missing = [leaf for leaf in ("hologram", "7", "the harbour") if payload and leaf not in text]
    assert (missing, text != "", count) == ([], True, unrecognised)
