"""Retracted events and turns: the viewer (retractions.js, event-log.js) and the projections have the same rules."""

import json
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Page

from ash_shared.model.event_types import CHUNKS, PROMPTS, types_where
from ash_shared.projections._retractions import WireEvent, standing, wire_events
from tests.marking import slow_unless
from tests.shared.records.events import wire_event
from tests.viewer.logs import COMPLETE_MATERIAL, Log, at_random, is_sample
from tests.viewer.test_event_log import asked, call, done, event, piece, placed

SEEDS = 1000

MAX_TURNS = 6
"""Number of last turns with compared starts."""

_TALK = [
    asked(turnId="t", recordId="u1"),
    done("", turnId="t", responseId="r1"),
    asked(turnId="u", recordId="u2"),
    call(turnId="u", responseId="r2"),
    done("", turnId="u", responseId="r2"),
]

RETRACTIONS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "events": ([*_TALK, event("retraction", eventIds=["e2", "e4"])], "e2 e4"),
    "an event that comes later": ([event("retraction", eventIds=["e2"]), asked()], ""),
    "records": ([*_TALK, event("retraction", messageIds=["u1", "r2"])], "e1 e4 e5"),
    "a record without its later events": (
        [*_TALK, event("retraction", messageIds=["r2"]), done("", turnId="u", responseId="r2")],
        "e4 e5",
    ),
    "from a record onwards": ([*_TALK, event("retraction", fromMessageId="u2")], "e3 e4 e5"),
    "from a missing record onwards": (
        [*_TALK, event("retraction", fromMessageId="x")],
        "e1 e2 e3 e4 e5",
    ),
    "the last turn": ([*_TALK, event("retraction", turns=1)], "e3 e4 e5"),
    "more turns than there are": ([*_TALK, event("retraction", turns=3)], "e1 e2 e3 e4 e5"),
    "no turn": ([*_TALK, event("retraction", turns=0)], ""),
    "the last turn twice": (
        [*_TALK, *2 * [event("retraction", turns=1)]],
        "e1 e2 e3 e4 e5",
    ),
    "the last turn with content": (
        [*_TALK, event("turn_start", turnId="v", trigger="user"), event("retraction", turns=1)],
        "e3 e4 e5 e6",
    ),
    "the last turn, by marks": (
        [event("turn_start"), asked(), event("turn_start"), asked(), event("retraction", turns=1)],
        "e3 e4",
    ),
    "the last turn, by prompts": (
        [asked(), done(""), asked(), asked(synthetic=True), done(""), event("retraction", turns=1)],
        "e3 e4 e5",
    ),
    "from the first complete event of a response onwards": (
        [
            piece("a", responseId="r"),
            asked(recordId="u"),
            done("ab", responseId="r"),
            event("retraction", fromMessageId="r"),
        ],
        "e3",
    ),
    "the last turn, after chunks of another": (
        [
            asked(recordId="u1"),
            done(""),
            piece("a", turnId="t"),
            asked(recordId="u2"),
            event("retraction", turns=1),
        ],
        "e4",
    ),
    "the last turn, with its chunks": (
        [*_TALK, piece("a", turnId="u"), event("retraction", turns=1)],
        "e3 e4 e5 e6",
    ),
    "before a reset": ([*_TALK, event("retraction", turns=1), event("reset"), asked()], ""),
    "in several ways at once": (
        [*_TALK, event("retraction", eventIds=["e1"], messageIds=["r1"], turns=1)],
        "e1 e2 e3 e4 e5",
    ),
}


FOLDED = """async ([logs, turns]) => {
  const { folded } = await import("/retractions.js");
  return JSON.parse(logs).map((log) => folded(log, turns));
}"""


async def folded(page: Page, logs: Iterable[Log]) -> list[dict[str, Any]]:
    """Return the viewer's result for each log, in the form of `expected`, but with chunks."""
    texts = json.dumps([shortened(log) for log in logs])
    results: list[dict[str, Any]] = await page.evaluate(FOLDED, [texts, MAX_TURNS])
    return results


def shortened(log: Log) -> Log:
    """Return the log without the payload fields that say nothing about turns and retractions."""
    return [{**event, "payload": {**_IDS, **_picked(event["payload"])}} for event in log]


_IDS = {"toolCallId": "c", "messageId": "m", "text": ""}
_PICKED = ("synthetic", "trigger", "eventIds", "messageIds", "fromMessageId", "turns")


def _picked(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {key: payload[key] for key in _PICKED if key in payload}


def expected(log: Log) -> dict[str, Any]:
    """Return the turns, and the ids of the retracted events, according to the projections."""
    return {"turns": turns(log), "retracted": retracted(wire_events(log))}


def turns(log: Log) -> dict[str, list[str | None]]:
    """Return the start, its trigger and the end of each turn; of several, the first start and the last end count."""
    starts = dict[str, WireEvent]()
    ends = dict[str, WireEvent]()
    for each in wire_events(log):
        if each["type"] == "turn_start" and "turnId" in each:
            starts.setdefault(each["turnId"], each)
        if each["type"] == "turn_end" and "turnId" in each:
            ends[each["turnId"]] = each
    return {
        turn: [*_of_start(starts.get(turn)), ends[turn]["id"] if turn in ends else None]
        for turn in {**starts, **ends}
    }


def _of_start(start: WireEvent | None) -> list[str | None]:
    return [start["id"], start["payload"].get("trigger")] if start else [None, None]


def retracted(log: list[WireEvent]) -> list[list[str]]:
    """Return the retracted events, and the events that each further retraction of a turn adds: these show the turns."""
    one = wire_event("retraction", turns=1)
    everything = [event for event in log if event["type"] != "retraction"]
    standings = [everything, *(standing([*log, *count * [one]]) for count in range(MAX_TURNS + 1))]
    ids = [{event["id"] for event in events} for events in standings]
    return [sorted(before - after) for before, after in pairwise(ids)]


async def disagreements(page: Page, logs: Mapping[str, Log]) -> dict[str, Any]:
    """Return the results of the viewer and of the projections where they differ, without chunks."""
    result = dict[str, Any]()
    for (name, log), actual in zip(logs.items(), await folded(page, logs.values()), strict=True):
        actual["retracted"] = [without_chunks(log, ids) for ids in actual["retracted"]]
        result |= {name: (actual, expected(log))} if actual != expected(log) else {}
    return result


def without_chunks(log: Log, ids: Iterable[str]) -> list[str]:
    chunks = {event["id"] for event in log if event["type"] in CHUNKS}
    return [id for id in ids if id not in chunks]


async def test_retractions(blank: Page) -> None:
    logs = {name: placed(events) for name, (events, _) in RETRACTIONS.items()}

    results = await folded(blank, logs.values())

    assert {name: each["retracted"][0] for name, each in zip(logs, results, strict=True)} == {
        name: ids.split() for name, (_, ids) in RETRACTIONS.items()
    }
    assert await disagreements(blank, logs) == {}


async def test_viewer_has_the_types_of_the_catalogue(blank: Page) -> None:
    types = await blank.evaluate("""async () => {
      const { CHUNKS, CONTENT, PROMPTS } = await import("/viewer/render/retractions.js");
      return [CHUNKS, CONTENT, PROMPTS].map((each) => [...each].sort());
    }""")

    assert types == [sorted(CHUNKS), sorted(types_where(lambda row: row.is_turn_content)), sorted(PROMPTS)]


@pytest.mark.parametrize("material", slow_unless(is_sample, COMPLETE_MATERIAL))
async def test_viewer_and_projections_agree(blank: Page, material: str) -> None:
    logs = COMPLETE_MATERIAL[material]()

    assert logs
    assert await disagreements(blank, logs) == {}


@pytest.mark.parametrize("first", slow_unless(lambda first: first == 0, range(0, SEEDS, 100)))
async def test_viewer_and_projections_agree_on_random_events(blank: Page, first: int) -> None:
    seeds = range(first, first + 100)
    logs = {f"{make.__name__} {seed}": make(seed) for seed in seeds for make in (talk, at_random)}

    assert await disagreements(blank, logs) == {}


def talk(seed: int) -> Log:
    """A random log with retractions; turns have ids, marks or neither."""
    choose = random.Random(seed)
    has_turns, has_marks = choose.random() * (seed % 3 > 0), seed % 2
    forms: list[Callable[..., dict[str, Any]]] = [asked, call, partial(done, ""), partial(piece, "")]

    def one(place: int) -> dict[str, Any]:
        if choose.random() < 0.15:
            return event("retraction", **taken(choose, place))
        fields = {"turn": "t", "record": "u", "answer": "r"}
        often = {"turn": has_turns, "record": 0.5, "answer": 0.5}
        named = {
            key: f"{short}{choose.randrange(5)}"
            for key, short in fields.items()
            if choose.random() < often[key]
        }
        if has_marks and choose.random() < 0.2:
            return event("turn_start", **named)
        return choose.choice(forms)(**named)

    return placed(map(one, range(1, 30)))


def taken(choose: random.Random, place: int) -> dict[str, Any]:
    return choose.choice(
        (
            {"eventIds": [f"e{choose.randint(1, place + 3)}"]},
            {"messageIds": [f"u{choose.randrange(5)}", f"r{choose.randrange(5)}"]},
            {"fromMessageId": choose.choice("ur") + str(choose.randrange(6))},
            {"turns": choose.randrange(4)},
        )
    )
