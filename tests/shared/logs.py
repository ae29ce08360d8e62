"""Event logs in a short form, for comparisons as a whole."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from ash_shared.eventlog import Context, Event, Line, Normalizer, parse_line
from ash_shared.eventlog.state import OpenTextMissing
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.events import read_event
from ash_shared.model.usage.answers import AnswerUsage, last_values

SESSION = "0f3c1c52-5a0e-4d0e-9a53-0d5b3c1f7a10"
CONTENT_EVENTS = frozenset({"assistant_done", "thinking_done", "tool_call", "tool_result", "user_message"})
"""Types of events with complete content."""


def context(line: int | str) -> Context:
    """Return a context with ids that consist of the line and a counter; the time is always 7 ms."""
    number = itertools.count()
    return Context(SESSION, lambda: f"{line}/{next(number)}", lambda: 7)


def follow(records: Sequence[Any], source: str | None = None, *, ends: bool = False) -> list[Event]:
    """Return the events of records, one per line; the state is saved and restored after each. `ends`: close the
    log."""
    state, events = None, list[Event]()
    continuous = Normalizer(source)
    for line, record in enumerate(records, start=1):
        parsed = parse_line(json.dumps(record), source)
        normalizer = Normalizer(source, state=state)
        line_events = normalizer.follow(parsed, context(line))
        assert line_events == continuous.follow(parsed, context(line))
        events += line_events
        state = normalizer.state()
    events += Normalizer(source, state=state).close(context("end")) if ends else []
    for event in events:
        read_event(event)
    return events


def state_answers(
    records: Sequence[Any], source: str | None = None, *, ends: bool = False
) -> list[AnswerUsage]:
    """Return the last value of each answer of records, one per line; the state is saved and restored after each."""
    state, values = None, list[AnswerUsage]()
    for line, record in enumerate(records, start=1):
        normalizer = Normalizer(source, state=state)
        normalizer.follow(parse_line(json.dumps(record), source), context(line))
        values += normalizer.answers
        state = normalizer.state()
    if ends:
        normalizer = Normalizer(source, state=state)
        normalizer.close(context("end"))
        values += normalizer.answers
    return last_values(values)


def short_events(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Return each event as type and payload, with its response id if it has one."""
    return [
        (event["type"], event["payload"], event["responseId"])
        if "responseId" in event
        else (event["type"], event["payload"])
        for event in events
    ]


def content_events(
    events: Sequence[Event], *, without: Callable[[str], bool] = lambda name: False
) -> list[Event]:
    """Return the payloads of content events sorted by type, for comparing two recordings of a session."""
    payloads = [
        {"type": event["type"]} | {key: value for key, value in event["payload"].items() if not without(key)}
        for event in events
        if event["type"] in CONTENT_EVENTS
    ]
    return sorted(payloads, key=lambda event: str(event["type"]))


def texts(events: Sequence[Event]) -> dict[str, str]:
    """Return the joined text of all chunks by type."""
    joined = dict[str, str]()
    for event in events:
        if event["type"] in CHUNKS:
            payload = event["payload"]
            joined[event["type"]] = joined.get(event["type"], "") + payload.get("text", payload.get("chunk"))
    return joined


class SavedSession:
    """A session as a store keeps it between two lines."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.texts: dict[int, str] = {}

    def follow(self, line: Line, number: int | str) -> list[Event]:
        return self._continue(lambda normalizer: normalizer.follow(line, context(number)))

    def close(self) -> list[Event]:
        return self._continue(lambda normalizer: normalizer.close(context("end")))

    def _continue(self, derive: Callable[[Normalizer], list[Event]]) -> list[Event]:
        normalizer = Normalizer(state=self.state)
        try:
            events = derive(normalizer)
        except OpenTextMissing:
            normalizer = Normalizer(state=self.state, open_texts=self.texts)
            events = derive(normalizer)
        self.state, added, ended = normalizer.save()
        for number in ended:
            del self.texts[number]
        for number, start, text in added:
            assert len(self.texts.get(number, "")) == start
            self.texts[number] = self.texts.get(number, "") + text
        return events
