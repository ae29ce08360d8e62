"""Apply retractions: the log is append-only, and later events retract earlier ones.

The rules are in docs/events.md; the viewer has the same in render/retractions.js.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, TypeAlias

from pydantic import BaseModel

from ash_shared.model.event_types import CHUNKS, PROMPTS, types_where
from ash_shared.model.events import ChatEvent

WireEvent: TypeAlias = Mapping[str, Any]
"""A chat event in its wire form."""

Events: TypeAlias = Iterable[ChatEvent | WireEvent]

_CONTENT_TYPES = types_where(lambda row: row.is_turn_content)


def wire_events(events: Events) -> list[WireEvent]:
    """Return the events after the last `reset` in wire form, without chunks."""
    if isinstance(events, str | Mapping | BaseModel):
        raise TypeError(f"expected an iterable of events, got one {type(events).__name__}")
    last: list[WireEvent] = []
    for event in events:
        wire = event.model_dump() if isinstance(event, BaseModel) else event
        if wire["type"] == "reset":
            last = []
        elif wire["type"] not in CHUNKS:
            last.append(wire)
    return last


def standing(events: Iterable[WireEvent]) -> list[WireEvent]:
    """Return the events that are not retracted, without the retractions themselves."""
    log = StandingLog()
    for event in events:
        if event["type"] == "retraction":
            log.retract(event["payload"])
        else:
            log.add(event)
    return log.events()


def is_main(event: WireEvent) -> bool:
    """True if the event belongs to the main conversation and not to a subagent."""
    payload = event["payload"]
    return payload.get("parentToolCallId") is None and payload.get("sidechain") is not True


def is_prompt(event: WireEvent) -> bool:
    """True for a message of the user that no tool wrote."""
    return event["type"] in PROMPTS and not event["payload"].get("synthetic")


def count_turns(events: Iterable[WireEvent]) -> int:
    """Count the turns with content."""
    log = StandingLog()
    for event in events:
        log.add(event)
    return log.turns()


class StandingLog:
    """The events so far. Truncated events are removed, so that their indexes are used again."""

    def __init__(self) -> None:
        self._events: list[WireEvent] = []
        self._revoked: set[int] = set()
        self._places: dict[str, int] = {}
        self._first: dict[str, int] = {}
        """Index of the first event of each record and answer."""
        self._members: dict[str, list[int]] = defaultdict(list)
        """Indexes of the events of each record and answer."""
        self._turns = _Turns()

    def events(self) -> list[WireEvent]:
        return [event for place, event in enumerate(self._events) if place not in self._revoked]

    def __len__(self) -> int:
        return len(self._events) - len(self._revoked)

    def turns(self) -> int:
        return len(self._turns.counted)

    def add(self, event: WireEvent) -> None:
        place = len(self._events)
        self._events.append(event)
        self._places[event["id"]] = place
        for name in _names(event):
            self._first.setdefault(name, place)
            self._members[name].append(place)
        self._turns.add(event, place)

    def has(self, payload: Mapping[str, Any]) -> bool:
        """True if all that a retraction names is in the log, whatever precedes the log."""
        names, first, turns = (
            payload.get("messageIds") or (),
            payload.get("fromMessageId"),
            payload.get("turns") or 0,
        )
        has_events = self._places.keys() >= set(payload.get("eventIds") or ())
        has_records = self._first.keys() >= {*names, *([] if first is None else [first])}
        return has_events and has_records and turns < max(len(self._turns.counted), 1)

    def retract(self, payload: Mapping[str, Any]) -> None:
        names = payload.get("eventIds") or ()
        self._revoked.update(self._places[name] for name in names if name in self._places)
        for name in payload.get("messageIds") or ():
            self._revoked.update(self._members.pop(name, ()))
        if payload.get("fromMessageId") is not None:
            self._truncate(self._first.get(payload["fromMessageId"], 0))
        if (turns := payload.get("turns") or 0) > 0:
            self._truncate(self._turns.begin(turns))

    def _truncate(self, place: int) -> None:
        while len(self._events) > place:
            self._remove(len(self._events) - 1, self._events.pop())
        self._turns.truncate(place)

    def _remove(self, place: int, event: WireEvent) -> None:
        self._revoked.discard(place)
        _drop(self._places, event["id"], place)
        for name in _names(event):
            _drop(self._first, name, place)
            members = self._members.get(name)
            if members and members[-1] == place:
                members.pop()


class _Turns:
    """The turns of a log, to which events are added with their indexes."""

    def __init__(self) -> None:
        self.counted: list[tuple[int, int]] = []
        """Indexes of the first event and the first content of each turn with content."""
        self._begins: list[int] = []
        """Index of the first event of each turn."""
        self._known: dict[str, int] = {}
        self._has_marks = False

    def add(self, event: WireEvent, place: int) -> None:
        if self._begins_turn(event):
            self._begins.append(place)
        if event.get("turnId") is not None:
            self._known.setdefault(event["turnId"], place)
        begin = self._begins[-1] if self._begins else 0
        if event["type"] in _CONTENT_TYPES and (not self.counted or self.counted[-1][0] < begin):
            self.counted.append((begin, place))

    def _begins_turn(self, event: WireEvent) -> bool:
        """True if the event begins a turn: by turn id, or else by `turn_start`, or else, without either, by prompts."""
        turn, wire = event.get("turnId"), event["type"]
        self._has_marks = self._has_marks or turn is not None or wire == "turn_start"
        if turn is not None:
            return turn not in self._known
        return wire == "turn_start" or (not self._has_marks and is_prompt(event))

    def begin(self, turns: int) -> int:
        """Return the index of the first event of the last turns with content."""
        return self.counted[-turns][0] if turns <= len(self.counted) else 0

    def truncate(self, place: int) -> None:
        while self._begins and self._begins[-1] >= place:
            self._begins.pop()
        while self.counted and self.counted[-1][1] >= place:
            self.counted.pop()
        _drop_from(self._known, place)


class Truncations:
    """The spans of sequences that retractions of turns, or from a message on, remove.

    It has the rules of `StandingLog`, which needs more memory.
    """

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        """The first removed sequence, and the sequence of the retraction."""
        self._sequences = array("q")
        self._first: dict[str, int] = {}
        self._turns = _Turns()

    def __len__(self) -> int:
        """Return the number of names that are kept."""
        return len(self._first)

    def add(self, event: WireEvent) -> None:
        """Add an event with its sequence."""
        if event["type"] == "retraction":
            self._retract(event["payload"], event["sequence"])
            return
        place = len(self._sequences)
        for name in _names(event):
            self._first.setdefault(name, place)
        self._turns.add(event, place)
        self._sequences.append(event["sequence"])

    def _retract(self, payload: Mapping[str, Any], sequence: int) -> None:
        kept = len(self._sequences)
        if payload.get("fromMessageId") is not None:
            kept = self._truncate(self._first.get(payload["fromMessageId"], 0), kept)
        if (turns := payload.get("turns") or 0) > 0:
            kept = self._truncate(self._turns.begin(turns), kept)
        if kept < len(self._sequences):
            self.spans.append((self._sequences[kept], sequence))
            del self._sequences[kept:]

    def _truncate(self, place: int, kept: int) -> int:
        self._turns.truncate(place)
        _drop_from(self._first, place)
        return min(place, kept)


class RetractedEvents:
    """Finds the retracted events of a log that is read once.

    `spans` are the spans of `Truncations`; none are needed unless a retraction truncates.
    """

    def __init__(self, retractions: Iterable[WireEvent], spans: Iterable[tuple[int, int]] = ()) -> None:
        self._last: dict[str, int] = {}
        """The sequence of the last retraction of each event, record or answer."""
        for event in retractions:
            payload = event["payload"]
            for name in payload.get("eventIds") or ():
                self._last["event " + name] = event["sequence"]
            for name in payload.get("messageIds") or ():
                self._last["message " + name] = event["sequence"]
        self._spans: list[tuple[int, int]] = []
        for first, end in sorted(spans):
            if self._spans and first <= self._spans[-1][1]:
                self._spans[-1] = (self._spans[-1][0], max(end, self._spans[-1][1]))
            else:
                self._spans.append((first, end))

    def has(self, event: WireEvent) -> bool:
        sequence = event["sequence"]
        names = ["event " + event["id"], *("message " + name for name in _names(event))]
        return any(self._last.get(name, 0) > sequence for name in names) or self.skips(sequence)

    def skips(self, sequence: int) -> bool:
        """True for the sequence of a truncated event."""
        place = bisect_right(self._spans, sequence, key=itemgetter(0)) - 1
        return place >= 0 and sequence < self._spans[place][1]


def truncates(retraction: WireEvent) -> bool:
    """True if a retraction removes all events from a place on."""
    payload = retraction["payload"]
    return payload.get("fromMessageId") is not None or (payload.get("turns") or 0) > 0


def _names(event: WireEvent) -> set[str]:
    """Return the ids that a retraction may use for the record or answer of an event."""
    return {event[key] for key in ("recordId", "responseId") if event.get(key) is not None}


def _drop_from(places: dict[str, int], place: int) -> None:
    """Remove the last entries, from a place on: places are in ascending order."""
    while places and next(reversed(places.values())) >= place:
        places.popitem()


def _drop(places: dict[str, int], name: str | None, place: int) -> None:
    if name is not None and places.get(name) == place:
        del places[name]
