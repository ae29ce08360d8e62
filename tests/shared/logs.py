"""Logs of events in a short form, to compare them whole."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from ash_shared.eventlog import Context, Event, Normalizer, read_line
from ash_shared.model.events import CHUNKS, read_event

SESSION = "0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10"
SAID = frozenset({"assistant_done", "thinking_done", "tool_call", "tool_result", "user_message"})
"""What a session says, however it came."""


def context(line: int | str) -> Context:
    """Ids tell the line and the place among what it gave; it is always 7 ms past."""
    number = itertools.count()
    return Context(SESSION, lambda: f"{line}/{next(number)}", lambda: 7)


def follow(records: Sequence[Any], source: str | None = None, *, is_whole: bool = False) -> list[Event]:
    """The events of records, one a line; the state is written down after each. `is_whole`: nothing follows."""
    state, events = None, list[Event]()
    steady = Normalizer(source)
    for line, record in enumerate(records, start=1):
        read = read_line(json.dumps(record), source)
        normalizer = Normalizer(source, state=state)
        told = normalizer.follow(read, context(line))
        assert told == steady.follow(read, context(line))
        events += told
        state = normalizer.state()
    events += Normalizer(source, state=state).close(context("end")) if is_whole else []
    for event in events:
        read_event(event)
    return events


def short(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Each as type and payload, with the answer it is of where it tells one."""
    return [
        (event["type"], event["payload"], event["responseId"])
        if "responseId" in event
        else (event["type"], event["payload"])
        for event in events
    ]


def said(events: Sequence[Event], *, without: Callable[[str], bool] = lambda name: False) -> list[Event]:
    """What two ways to write a session agree in, in the order of each type."""
    kept = [
        {"type": event["type"]} | {key: value for key, value in event["payload"].items() if not without(key)}
        for event in events
        if event["type"] in SAID
    ]
    return sorted(kept, key=lambda event: str(event["type"]))


def texts(events: Sequence[Event]) -> dict[str, str]:
    """What all pieces of a type add up to."""
    joined = dict[str, str]()
    for event in events:
        if event["type"] in CHUNKS:
            payload = event["payload"]
            joined[event["type"]] = joined.get(event["type"], "") + payload.get("text", payload.get("chunk"))
    return joined
