"""Folding events into items and turns (event-log.js)."""

import json
import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from playwright.async_api import Page

from ash_shared import to_session_summary
from tests.shared.records.events import wire_event
from tests.viewer.logs import SERVER, Log, from_files

FOLD = "async (logs) => JSON.parse(logs).map((await import('/event-log.js')).fold)"

Row = tuple[list[dict[str, Any]], list[str]]
"""Events, numbered by their index, and the expected items."""

event = partial(wire_event, timestamp=0, sessionId="s")


def piece(text: str, kind: str = "assistant", **more: Any) -> dict[str, Any]:
    return event(f"{kind}_chunk", text=text, **more)


def done(text: str, kind: str = "assistant", **more: Any) -> dict[str, Any]:
    return event(f"{kind}_done", text=text, **more)


def call(id: str = "c", /, **more: Any) -> dict[str, Any]:
    return event("tool_call", toolCallId=id, toolName="Bash", args={}, **more)


def result(id: str = "c", /, **more: Any) -> dict[str, Any]:
    return event("tool_result", toolCallId=id, result="", **more)


def input_chunk(chunk: str, id: str = "c", **more: Any) -> dict[str, Any]:
    return event("tool_input_chunk", toolCallId=id, toolName="Bash", chunk=chunk, offset=0, **more)


def output(chunk: str, id: str = "c", **more: Any) -> dict[str, Any]:
    return event("tool_output_chunk", toolCallId=id, chunk=chunk, **more)


def asked(**more: Any) -> dict[str, Any]:
    return event("user_message", text="", **more)


def of(call: str) -> dict[str, str]:
    return {"parentToolCallId": call}


RESET = event("reset")

CITED = [{"cited_text": "so", "title": "t"}]

CALLS: dict[str, Row] = {
    "a call and its result": ([call(), result()], ["1 c, call e1, results e2"]),
    "a call without a result": ([call()], ["1 c, call e1"]),
    "a result without a call": ([result()], ["1 c, results e1"]),
    "a result before its call belongs to an earlier call": (
        [result(), call()],
        ["1 c, results e1", "2 c, call e2"],
    ),
    "two calls at once": (
        [call("a"), call("b"), result("b"), result("a")],
        ["1 a, call e1, results e4", "2 b, call e2, results e3"],
    ),
    "a reused id": (
        [call(), result(), call(), result()],
        ["1 c, call e1, results e2", "3 c, call e3, results e4"],
    ),
    "a reused id, in parallel": ([call(), call(), result()], ["1 c, call e1", "2 c, call e2, results e3"]),
    "a reused id, streamed": (
        [call(), result(), input_chunk("{"), call()],
        ["1 c, call e1, results e2", "4 c, call e4, input {"],
    ),
    "several results": ([call(), result(), result()], ["1 c, call e1, results e2 e3"]),
    "input before its call": ([input_chunk("{"), input_chunk("}"), call()], ["3 c, call e3, input {}"]),
    "input without a call": ([input_chunk("{"), input_chunk('"a')], ['1 c, input {"a']),
    "input without a call, and a result": ([input_chunk("{"), result()], ["1 c, input {, results e2"]),
    "input after a call belongs to the next call": (
        [call(), input_chunk("{")],
        ["1 c, call e1", "2 c, input {"],
    ),
    "output before the result": (
        [call(), output("a"), output("b"), result()],
        ["1 c, call e1, output ab, results e4"],
    ),
    "output at an offset that was already shown": (
        [
            call(),
            output("abc", offset=0),
            output("bc", offset=1),
            output("cde", offset=2),
            output("g", offset=6),
        ],
        ["1 c, call e1, output abcdeg"],
    ),
    "output after the result": ([call(), result(), output("a")], ["1 c, call e1, output a, results e2"]),
    "output without a result": ([call(), output("a")], ["1 c, call e1, output a"]),
    "output without a call": ([output("a"), result()], ["1 c, output a, results e2"]),
    "output before its call": ([output("a"), call()], ["2 c, call e2, output a"]),
    "names of object members": (
        [call("__proto__"), result("__proto__"), call("constructor")],
        ["1 __proto__, call e1, results e2", "3 constructor, call e3"],
    ),
}

TEXTS: dict[str, Row] = {
    "chunks": ([piece("a"), piece("b")], ["1 text: ab…"]),
    "chunks, then complete": ([piece("a"), piece("b"), done("abc")], ["3 text: abc"]),
    "complete": ([done("a")], ["1 text: a"]),
    "several complete texts": ([done("a"), done("b")], ["1 text: a", "2 text: b"]),
    "split at a citation": (
        [
            done("a", responseId="r"),
            done("b", responseId="r", citations=CITED),
            done("c", responseId="r"),
            done("d", responseId="r"),
        ],
        ["1 text: abc", "4 text: d"],
    ),
    "continues while streamed": (
        [done("a", responseId="r", citations=CITED), piece("b", responseId="r"), piece("c", responseId="r")],
        ["1 text: abc…"],
    ),
    "cited, with an event between": (
        [
            done("a", responseId="r", citations=CITED),
            call(),
            done("b", responseId="r"),
            piece("c", "thinking"),
            done("d"),
        ],
        ["1 text: a", "2 c, call e2", "3 text: b", "4 thinking: c…", "5 text: d"],
    ),
    "cited, with an event of another agent between": (
        [done("a", responseId="r", citations=CITED), call(parentToolCallId="x"), done("b", responseId="r")],
        ["1 text: ab", "x@? > 2 c, call e2"],
    ),
    "cited, with a mark of a turn between": (
        [done("a", responseId="r", citations=CITED), event("turn_start"), done("b", responseId="r")],
        ["1 text: ab"],
    ),
    "cited, of another answer": (
        [
            done("a", responseId="r", citations=CITED),
            done("b", responseId="q"),
            done("c", responseId="r", citations=[{"url": "u"}]),
        ],
        ["1 text: a", "2 text: b", "3 text: c"],
    ),
    "complete, then a new stream": ([piece("a"), done("a"), piece("b")], ["2 text: a", "3 text: b…"]),
    "of several answers": (
        [
            piece("a", responseId="r"),
            piece("1", responseId="q"),
            piece("b", responseId="r"),
            done("12", responseId="q"),
        ],
        ["1 text: ab…", "4 text: 12"],
    ),
    "with and without a response id": (
        [piece("a", responseId="r"), piece("1"), done("12")],
        ["1 text: a…", "3 text: 12"],
    ),
    "of several kinds": (
        [piece("t", "thinking"), piece("a"), done("think", "thinking"), event("audio_chunk", data="", seq=0)],
        ["2 text: a…", "3 thinking: think", "4 speech: …"],
    ),
    "of subagents, each in its call": (
        [
            call("x"),
            call("y"),
            piece("a", responseId="r", **of("x")),
            piece("1", responseId="r", **of("y")),
            piece("b", responseId="r", **of("x")),
            piece("main", responseId="r"),
            done("12", responseId="r", **of("y")),
        ],
        [
            "1 x, call e1",
            "2 y, call e2",
            "x@1 > 3 text: ab…",
            "6 text: main…",
            "y@2 > 7 text: 12",
        ],
    ),
    "of subagents with a reused call id": (
        [call("x"), done("a", **of("x")), result("x"), call("x"), done("b", **of("x"))],
        ["1 x, call e1, results e3", "x@1 > 2 text: a", "4 x, call e4", "x@4 > 5 text: b"],
    ),
    "of a subagent with a missing call": ([done("a", **of("x"))], ["x@? > 1 text: a"]),
    "calls of a subagent": (
        [call("x"), call("c", **of("x")), result("c", **of("x")), result("x")],
        ["1 x, call e1, results e4", "x@1 > 2 c, call e2, results e3"],
    ),
}

OTHERS: dict[str, Row] = {
    "every other type": (
        [
            asked(),
            event("user_audio", transcription="", durationMs=1),
            event("agent_switch", fromAgentId="a", toAgentId="b"),
            event("interrupt", reason="timeout"),
            event("error", code="", message=""),
            event("summary", text=""),
            event("system_message", text=""),
            event("raw", source="claude", raw=1),
            event("hologram"),
            event("__proto__"),
            event("toString"),
        ],
        [
            "1 user",
            "2 user",
            "3 agent_switch",
            "4 interrupt",
            "5 error",
            "6 summary",
            "7 system_message",
            "8 raw",
            "9 hologram",
            "10 __proto__",
            "11 toString",
        ],
    ),
    "a message to an agent, and its answers": (
        [event("agent_message", messageId="m"), *2 * [event("agent_callback", messageId="m")]],
        ["1 m: e1 -> e2 e3"],
    ),
    "an agent's answer without a message": ([event("agent_callback", messageId="m")], ["1 m: ? -> e1"]),
    "an answer before the message": (
        [event("agent_callback", messageId="m"), event("agent_message", messageId="m")],
        ["2 m: e2 -> e1"],
    ),
    "reset": ([asked(), call(), RESET, result(), asked()], ["4 c, results e4", "5 user"]),
    "two resets": ([asked(), RESET, asked(), RESET, asked()], ["5 user"]),
    "reset without later events": ([asked(), RESET], []),
    "reset without retractions": (
        [asked(), event("retraction", eventIds=["e1"]), RESET, asked()],
        ["4 user"],
    ),
    "events of a deleted message": (
        [asked(), call(), result(), asked(), event("retraction", eventIds=["e1", "e3"], reason="deleted")],
        ["2 c, call e2", "4 user"],
    ),
    "events of a deleted message, read later": (
        [
            event("retraction", sequence=4, eventIds=["a"], reason="deleted"),
            asked(sequence=2, id="a"),
            asked(sequence=3),
        ],
        ["3 user"],
    ),
    "events of a message that was deleted before": (
        [asked(), event("retraction", eventIds=["e2"], reason="deleted"), asked()],
        ["1 user", "3 user"],
    ),
    "nothing": ([], []),
}

TURNS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "first start and last end": (
        [
            event("turn_start", turnId="t", trigger="user"),
            event("turn_start", turnId="t", trigger="system"),
            event("turn_end", turnId="t"),
            asked(turnId="t"),
            event("turn_end", turnId="t", partial=True),
        ],
        ["t: 1-4, start e1, end e5"],
    ),
    "nested turns": (
        [
            asked(turnId="t"),
            event("turn_start", turnId="u", trigger="user"),
            event("turn_end", turnId="t"),
            asked(turnId="u"),
        ],
        ["t: 1-1, end e3", "u: 2-4, start e2"],
    ),
    "the last interruption": (
        [*2 * [event("interrupt", turnId="t", reason="timeout")], event("turn_end", turnId="t")],
        ["t: 1-2, end e3, interrupt e2"],
    ),
    "of streamed text": (
        [piece("a", turnId="t"), done("a", turnId="t"), call(turnId="u")],
        ["t: 1-2", "u: 3-3"],
    ),
    "marks without a turn id": ([event("turn_start", trigger="user"), event("turn_end")], []),
    "before a reset": (
        [event("turn_start", turnId="t", trigger="user"), RESET, event("turn_end", turnId="t")],
        ["t: 3-, end e3"],
    ),
    "a turn end with the time of the next turn": (
        [
            asked(turnId="t"),
            result(turnId="t"),
            done("", turnId="t", partial=True),
            event("interrupt", turnId="t", reason="error"),
            event("turn_end", turnId="t", partial=True),
        ],
        ["t: 1-2, end e5, interrupt e4"],
    ),
}

UNNUMBERED: dict[str, Row] = {
    "are after the existing events": (
        [asked(id="a"), asked(id="b"), call(id="c"), asked(id="a")],
        ["1 user", "2 user", "3 c, call c"],
    ),
    "stay next to one that gets their sequence": (
        [asked(sequence=1, id="a"), asked(id="b"), asked(sequence=2, id="c")],
        ["1 user", "2 user", "2 user"],
    ),
    "separate a cited text, next to one that gets their sequence": (
        [
            done("a", sequence=1, responseId="r", citations=CITED),
            asked(id="b"),
            call(sequence=2, id="c", **of("x")),
            done("d", sequence=3, responseId="r"),
        ],
        ["1 text: a", "2 user", "x@? > 2 c, call c", "3 text: d"],
    ),
    "are removed by a reset": ([asked(id="a"), event("reset", sequence=5), asked(id="b")], ["6 user"]),
}


START, END = event("turn_start", trigger="user"), event("turn_end")
STOP = event("interrupt", reason="user_cancel")


def of_turn(turn: str, *events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**each, "turnId": turn} for each in events]


MARKS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a turn": (of_turn("t", START, asked(), done(""), END), "1110"),
    "an interrupt ends it, a result may follow": (of_turn("t", START, call(), STOP, result(), END), "11000"),
    "a turn without a start": (of_turn("t", asked(), done("")), "11"),
    "an interrupt alone": (of_turn("t", STOP, END), "00"),
    "a turn that began before the other ended": (
        [*of_turn("t", START), *of_turn("u", START), *of_turn("t", END), *of_turn("u", END)],
        "1110",
    ),
    "an unfinished turn before": ([*of_turn("t", START), *of_turn("u", START, END)], "110"),
    "the same turn again": (of_turn("t", START, END, START, done(""), END), "10110"),
    "turns without ids": ([START, asked(), STOP, START, END], "11010"),
    "an interrupt without the id of its turn": ([*of_turn("t", START), STOP], "10"),
    "a turn with an id after one without": ([START, *of_turn("t", asked(), END)], "110"),
    "events without turns": ([asked(), done("")], "00"),
    "a reset": ([*of_turn("t", START), RESET], "10"),
}
"""Events, and for each whether a turn is open after it."""


def placed(events: Iterable[dict[str, Any]]) -> Log:
    return [{"id": f"e{place}", "sequence": place, **event} for place, event in enumerate(events, start=1)]


async def fold(page: Page, *logs: Log) -> list[dict[str, list[str]]]:
    actual: list[dict[str, list[str]]] = await page.evaluate(FOLD, json.dumps(logs))
    return actual


async def fold_in_any_order(page: Page, log: Log) -> dict[str, list[str]]:
    """The result of a log, checked to be independent of order and duplicates."""
    orders = [log, log[::-1], [*log, *log], *(random.Random(seed).sample(log, len(log)) for seed in range(6))]
    first, *others = await fold(page, *orders)
    assert others == [first] * len(others)
    return first


@pytest.mark.parametrize("rows", [CALLS, TEXTS, OTHERS], ids=["calls", "texts", "others"])
async def test_items(blank: Page, rows: dict[str, Row]) -> None:
    actual = {name: await fold_in_any_order(blank, placed(events)) for name, (events, _) in rows.items()}

    assert actual == {name: {"items": items, "turns": []} for name, (_, items) in rows.items()}


async def test_turns(blank: Page) -> None:
    actual = {
        name: (await fold_in_any_order(blank, placed(events)))["turns"] for name, (events, _) in TURNS.items()
    }

    assert actual == {name: turns for name, (_, turns) in TURNS.items()}


async def test_events_without_a_sequence(blank: Page) -> None:
    actual = {name: (await fold(blank, events))[0]["items"] for name, (events, _) in UNNUMBERED.items()}

    assert actual == {name: items for name, (_, items) in UNNUMBERED.items()}


async def test_open_turn(blank: Page) -> None:
    logs = {name: placed(events) for name, (events, _) in MARKS.items()}

    assert await open_after_each(blank, logs) == {name: expected for name, (_, expected) in MARKS.items()}
    assert summarised_as_open(logs) == {name: expected for name, (_, expected) in MARKS.items()}


async def test_open_turn_of_samples_is_that_of_the_summary(blank: Page) -> None:
    logs = from_files(*sorted((SERVER / "samples").iterdir()))

    assert await open_after_each(blank, logs) == summarised_as_open(logs)


async def open_after_each(page: Page, logs: dict[str, Log]) -> dict[str, str]:
    rows: list[str] = await page.evaluate(_OPEN_AFTER_EACH, json.dumps(list(logs.values())))
    return dict(zip(logs, rows, strict=True))


_OPEN_AFTER_EACH = """async (logs) => {
  const { EventLog } = await import("/viewer/render/event-log.js");
  return JSON.parse(logs).map((events) => {
    const log = new EventLog();
    return events.map((event) => log.add(event) && Number(log.openTurn() !== undefined)).join("");
  });
}"""


def summarised_as_open(logs: dict[str, Log]) -> dict[str, str]:
    return {
        name: "".join(str(int(to_session_summary(log[:count]).is_open)) for count in range(1, len(log) + 1))
        for name, log in logs.items()
    }
