"""The chunks of a turn while it runs, for a client that follows it, such as Vercel's AI SDK."""

from collections.abc import Iterable
from itertools import dropwhile
from typing import Protocol

from ash_shared.model.event_types import CHUNKS
from ash_shared.projections._retractions import StandingLog, WireEvent
from ash_shared.projections.ui_chunks import Revised, UiChunk, UiChunks

CHANGED = "The message has changed. Load the messages again."


class Converter(Protocol):
    """Converts events in log order, without retracted ones, to the chunks of a protocol."""

    def add(self, event: WireEvent) -> list[UiChunk]:
        """Return the chunks of an event. Raises Revised."""
        ...

    def end(self) -> list[UiChunk]:
        """Return the chunks that end the turn."""
        ...

    def has_open_items(self) -> bool: ...
    def has_turn(self) -> bool:
        """True if a turn has begun."""
        ...

    def begins_turn(self, event: WireEvent) -> bool: ...
    def ends_turn(self, event: WireEvent) -> bool: ...


class TurnStream:
    """Converts the events of one turn, until it ends or something changes that was sent."""

    def __init__(self, chunks: Converter, revised: UiChunk) -> None:
        """`revised` is the chunk that reports a change."""
        self.is_over = False
        self.is_interrupted = False
        self._chunks, self._revised = chunks, revised
        self._log = StandingLog()
        """Outlines of the complete events, for retractions."""

    def begin(self, events: Iterable[WireEvent], turn: str) -> list[UiChunk]:
        """Return the chunks of the events so far, from the start of the turn with this id on."""
        own = list(dropwhile(lambda event: not _is_in_turn(event, turn), events))
        for event in own:
            self._record(event)
        standing = {event["id"] for event in self._log.events()}
        kept = (event for event in own if event["type"] in CHUNKS or event["id"] in standing)
        return [chunk for event in kept for chunk in self._add(event)]

    def add(self, event: WireEvent) -> list[UiChunk]:
        """Return the chunks of the next event; none once the turn is over."""
        if self._record(event) or event["type"] == "reset":
            return self._fail()
        return [] if event["type"] == "retraction" else self._add(event)

    def end(self) -> list[UiChunk]:
        """Return the chunks that end the message."""
        self.is_over = True
        return self._chunks.end()

    def has_open_items(self) -> bool:
        """True while a text is written, or a call has no result."""
        return self._chunks.has_open_items()

    def _record(self, event: WireEvent) -> bool:
        """Record a complete event; return True if it revokes others."""
        count = len(self._log)
        if event["type"] == "retraction":
            self._log.retract(event["payload"])
        elif event["type"] not in CHUNKS:
            self._log.add(_outline(event))
        return len(self._log) < count

    def _add(self, event: WireEvent) -> list[UiChunk]:
        if self.is_over:
            return []
        if self._chunks.has_turn() and self._chunks.begins_turn(event):
            return self.end()
        self.is_over = self._chunks.ends_turn(event)
        self.is_interrupted = self.is_interrupted or event["type"] == "interrupt"
        try:
            return self._chunks.add(event)
        except Revised:
            return self._fail()

    def _fail(self) -> list[UiChunk]:
        was_over, self.is_over = self.is_over, True
        return [] if was_over else [self._revised]


class UiMessageStream(TurnStream):
    """The turn for a client of Vercel's AI SDK."""

    def __init__(self) -> None:
        super().__init__(UiChunks(), {"type": "error", "errorText": CHANGED})


def _is_in_turn(event: WireEvent, turn: str) -> bool:
    is_start = event["type"] == "turn_start" and "turnId" not in event
    return turn == (event["id"] if is_start else event.get("turnId"))


def _outline(event: WireEvent) -> WireEvent:
    names = ("id", "type", "turnId", "recordId", "responseId")
    synthetic = {"synthetic": event["payload"].get("synthetic")}
    return {**{name: event[name] for name in names if name in event}, "payload": synthetic}
