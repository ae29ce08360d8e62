"""Counts of a session's items by the filters of the viewer."""

import json
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from httpx2 import AsyncClient

from tests.shared.records.events import Event, tool_call, tool_result, wire_event

event = partial(wire_event, turnId="t")
call = partial(tool_call, turnId="t")
result = partial(tool_result, turnId="t")


def user(text: str, **payload: Any) -> Event:
    return event("user_message", text=text, **payload)


def said(text: str, **payload: Any) -> Event:
    return event("assistant_done", text=text, **payload)


def cited(text: str, *citations: str, response: str = "r") -> Event:
    return event(
        "assistant_done",
        responseId=response,
        text=text,
        citations=[{"cited_text": each} for each in citations],
    )


SESSIONS: dict[str, tuple[list[Event], dict[str, int]]] = {
    "nothing": ([], {}),
    "the last text is the answer": (
        [user("Go"), said("1"), call("a"), said("2"), said("3")],
        {"tools": 1, "answers": 2},
    ),
    "each prompt has an answer": ([said("0"), user("Go"), said("1"), user("On"), said("2")], {}),
    "declared answers": ([said("1", phase="final_answer"), said("2"), said("3")], {"answers": 2}),
    "texts of subagents": (
        [said("1"), call("a"), said("2", parentToolCallId="a"), said("3", parentToolCallId="a"), said("4")],
        {"tools": 1, "answers": 2},
    ),
    "parts of a cited text": ([cited("1"), cited("2", "x"), cited("3"), said("4")], {"answers": 1}),
    "a thought between the parts": (
        [cited("1"), event("thinking_done", text="x"), cited("2", "x")],
        {"thinking": 1, "answers": 1},
    ),
    "texts and thoughts in chunks": (
        [
            *(event("thinking_chunk", text="a") for _ in range(3)),
            event("thinking_done", text="aaa"),
            *(event("assistant_chunk", text="a") for _ in range(3)),
            *(event("thinking_chunk", turnId="u", text="a") for _ in range(3)),
        ],
        {"thinking": 2},
    ),
    "calls and results": (
        [
            *(event("tool_input_chunk", toolCallId="a", toolName="x", chunk="{", offset=0) for _ in range(2)),
            event("tool_input_chunk", toolCallId="b", toolName="x", chunk="{", offset=0),
            call("c"),
            result("c"),
            result("c"),
            call("c"),
            result("d"),
        ],
        {"tools": 5, "results": 3},
    ),
    "other agents": (
        [
            event("agent_message", messageId="m", targetAgentId="a", message="Go", wait=True),
            event("agent_callback", messageId="m", result="Done"),
            event("agent_callback", messageId="n", result="Done"),
        ],
        {"tools": 2},
    ),
    "system messages": (
        [
            event("system_message", text="A hook", variant="hook"),
            user("Added", synthetic=True),
            user("<system-reminder>x</system-reminder>", visibleText=""),
            user("", content=[{"type": "image", "source": {"type": "url", "url": "x"}}]),
            user("<tag>", visibleText="", content=[{"type": "image", "source": {"type": "url", "url": "x"}}]),
            user("Go"),
        ],
        {"system": 3},
    ),
    "not recognized": (
        [event("raw", source="claude", raw=1), event("hologram"), event("hologram", reason="deleted")],
        {"raw": 3},
    ),
    "superseded events": (
        [
            user("Go"),
            said("1", id="1"),
            call("a"),
            result("a", id="2"),
            event("raw", source="opencode", raw=1, id="3"),
            event("retraction", eventIds=["1", "2", "3", "4"], reason="superseded"),
            said("2"),
            result("a"),
            said("3", id="4"),
        ],
        {"tools": 1, "results": 1, "answers": 1},
    ),
    "a retraction without a newer version": (
        [user("Go"), said("1", id="1"), event("retraction", eventIds=["1"]), said("2")],
        {"answers": 1},
    ),
}
NONE = dict.fromkeys(("thinking", "tools", "results", "answers", "system", "raw"), 0)


@pytest.mark.parametrize("name", SESSIONS)
async def test_counts(client: AsyncClient, name: str) -> None:
    events, expected = SESSIONS[name]
    session = (await client.post("/api/sessions", json={})).json()["id"]
    if events:
        posted = await client.post(
            f"/api/sessions/{session}/events",
            content=json.dumps(events),
            headers={"Content-Type": "application/json"},
        )
        assert posted.status_code == 201, posted.text

    counts = await client.get(f"/api/sessions/{session}/item-counts")

    assert (counts.status_code, counts.json()) == (200, {**NONE, **expected})


async def test_counts_of_an_unknown_session(client: AsyncClient) -> None:
    response = await client.get(f"/api/sessions/{uuid4()}/item-counts")
    assert (response.status_code, response.json()["code"]) == (404, "session_not_found")
