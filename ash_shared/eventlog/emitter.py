"""What comes in, a line at a time, and the log to which its events go."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ash_shared.eventlog.state import MAIN, Place, State
from ash_shared.model.blocks import Block
from ash_shared.model.message import Facts, Role
from ash_shared.providers._kit.steps import Step
from ash_shared.reading.json_text import RawMessage
from ash_shared.reading.read import Read, read_raw

Event = dict[str, Any]
"""A chat event in its wire form, not yet typed."""


class Context(NamedTuple):
    """What a normaliser needs and must not make itself, so that the same input gives the same events."""

    session_id: str
    generate_event_id: Callable[[], str]
    timestamp: Callable[[], int]
    """Milliseconds since 1970, for records that name no time."""


class Line(NamedTuple):
    """What one stored text adds to the log; it depends on the text alone."""

    steps: Sequence[Step]
    facts: Facts
    source: str


_MAX_LIVE_LAG = 60_000
"""Milliseconds by which the times of a session that is happening differ from the clock, at most."""

EMPTY_LINE = Line((), Facts(), "unknown")


def read_line(raw: RawMessage, source: str | None = None, role: Role | None = None) -> Line:
    """Return what a message adds to the log; `role` is the role its sender stated. Never raises on texts."""
    return line_of(read_raw(raw, source), source, role)


def line_of(
    read: Read, source: str | None = None, role: Role | None = None, *, facts: Facts | None = None
) -> Line:
    """As `read_line`, for what was read already; `facts` are those of it, where they are at hand."""
    return Line(read.steps(source, role), read.facts() if facts is None else facts, read.source(source))


class Log:
    """The events of the line that is followed, and the state of its session."""

    __slots__ = ("again", "close_open", "context", "events", "facts", "line", "state")

    def __init__(self, state: State, close_open: "Callable[[Log], None]") -> None:
        """`close_open` tells all that is open: a turn ends with it, and each thing that is told needs a turn."""
        self.state, self.close_open = state, close_open
        self.start_line(EMPTY_LINE, Context("", str, int))

    def start_line(self, line: Line, context: Context) -> None:
        self.line, self.context = line, context
        self.facts = line.facts
        """Of what is told just now: a line may hold several messages, and copies are told later than they came."""
        self.events: list[Event] = []
        if line.facts.timestamp is not None:
            self.set_lag(line.facts.timestamp, context.timestamp())
        self.again = dict(self.state.sent) if self.state.sent else {}
        """What this line may hold once more, and how often."""

    def set_lag(self, told: int, now: int) -> None:
        """What names no time is told in that of what did."""
        lag = now - told
        self.state.lag = lag if abs(lag) > _MAX_LIVE_LAG else 0

    def new_id(self) -> str:
        return self.context.generate_event_id()

    def _now(self) -> int:
        return self.context.timestamp() - self.state.lag

    def emit(self, wire: str, payload: Block, place: Place = MAIN, *, id: str | None = None) -> None:
        facts, turn, (lane, response) = self.facts, self.state.turn, place
        event: Event = {
            "id": id or self.context.generate_event_id(),
            "timestamp": max(0, self._now() if facts.timestamp is None else facts.timestamp),
            "sessionId": self.context.session_id,
            "type": wire,
        }
        if turn is not None:
            event["turnId"] = turn.id
        if response:
            event["responseId"] = response
        if facts.uuid is not None:
            event["recordId"] = facts.uuid
        event["payload"] = {**payload, "parentToolCallId": lane} if lane else payload
        self.events.append(event)
