"""The facts of one line, or of one posted event: tool calls, and what is added to the counts of the session."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ash_shared.eventlog.emitter import Event, LineOutput
from ash_shared.eventlog.facts import tool_uses
from ash_shared.eventlog.facts.tool_uses import ToolOutcome, ToolUse
from ash_shared.model.event_types import CATALOGUE, CHUNKS, PROMPTS, types_where
from ash_shared.model.times import YEAR_10000

_YEAR_2000 = 946_684_800_000
"""Milliseconds since 1970."""


class LineFacts(NamedTuple):
    """What a line adds to the facts of its session."""

    calls: tuple[ToolUse | ToolOutcome, ...] = ()
    prompts: int = 0
    """Messages of a person in the main conversation."""
    turns: int = 0
    """Turns that have content since this line."""
    active_ms: int = 0
    """Time in which the agent worked until this line."""


NO_FACTS = LineFacts()


def facts_of_line(output: LineOutput, *, turns_before: int, is_running: bool) -> LineFacts:
    """Return the facts of the events of a line.

    `turns_before` is the number of turns before the line; `is_running` is true if the agent worked before it. Inherited
    records have none: they are facts of another session.
    """
    events, stated = output.events, output.line.header.turn_ms
    if output.state.own_ordinal is not None or not (events or stated is not None):
        return NO_FACTS
    if len(events) == 1 and output.undated_events and events[0]["type"] in CHUNKS:
        return NO_FACTS  # the most common line of a stream
    return _Reader(output, turns_before, is_running=is_running).read(events, turn_ms=stated)


def facts_of_posted(output: LineOutput, event: Event, *, is_new_turn: bool, is_running: bool) -> LineFacts:
    """Return the facts of a posted event, after the state was updated. `is_new_turn`: it began a turn."""
    turns = output.state.turns
    reader = _Reader(output, turns - 1 if event["type"] == "turn_start" else turns, is_running=is_running)
    if is_new_turn:
        output.state.is_turn_counted = False
    return reader.read([event])


class _Reader:
    def __init__(self, output: LineOutput, turns: int, *, is_running: bool) -> None:
        self._output = output
        self._state = output.state
        self._turns = turns
        self._is_running = is_running
        self._tools = output.tools
        self._calls: list[ToolUse | ToolOutcome] = []
        self._prompts = self._counted_turns = self._active = 0
        self._is_before_start = False
        """True for an event that ends a turn because another one begins."""

    def read(self, events: list[Event], turn_ms: int | None = None) -> LineFacts:
        """`turn_ms` is the stated time of the turn, which does not include questions about permissions."""
        types, undated = [event["type"] for event in events], self._output.undated_events
        retracted = _retracted(events) if "retraction" in types else ()
        starts = _next_starts(events) if "turn_start" in types else {}
        for place, event in enumerate(events):
            handler = _HANDLERS.get(types[place])
            if handler is None or (retracted and event.get("id") in retracted):
                continue
            if not isinstance(event.get("payload"), dict):
                continue
            time = None if place in undated else _time_of(event)
            self._is_before_start = time is not None and starts.get(place) == time
            handler(self, event, time)
        if turn_ms is not None and turn_ms < self._state.active_in_turn:
            self._active -= self._state.active_in_turn - turn_ms
            self._state.active_in_turn = turn_ms
        return LineFacts(tuple(self._calls), self._prompts, self._counted_turns, self._active)

    def start_turn(self, event: Event, time: int | None) -> None:
        self._turns += 1
        self._is_running = False
        self._state.is_turn_counted = False
        self._state.active_in_turn = 0
        last = abs(self._state.last_worked_at)
        self._state.last_worked_at = -last if time is None else max(last, time)

    def prompt(self, event: Event, time: int | None) -> None:
        if event["payload"].get("synthetic"):
            return
        if not _is_main(event):
            self.work(event, time)
            return
        text = event["payload"].get(CATALOGUE[event["type"]].text or "")
        self._prompts += not (isinstance(text, str) and text.isspace())
        self._count_turn()
        self._pass(time, is_active=self._is_running)

    def call(self, event: Event, time: int | None) -> None:
        payload, id = event["payload"], event["payload"].get("toolCallId")
        server = self._output.servers.get(id, "") if isinstance(id, str) else ""
        stated = None if time is None or time < _YEAR_2000 else time
        use = tool_uses.use_of(
            payload, time=stated, turn=self._turns, folder=self._state.folder, server=server
        )
        if use is not None:
            self._calls.append(use)
            self._tools[str(id)] = use.tool
        self.work(event, time)

    def result(self, event: Event, time: int | None) -> None:
        payload = event["payload"]
        tool = self._tools.get(str(payload.get("toolCallId")), "")
        result = tool_uses.result_of(payload, tool, self._state.folder)
        self._calls.append(result)
        waits = result.outcome == "denied" or tool_uses.asks_person(tool)
        self.work(event, time, waits=waits)

    def work(self, event: Event, time: int | None, *, waits: bool = False) -> None:
        if event["type"] in _CONTENT and _is_main(event):
            self._count_turn()
        self._pass(time, is_active=not waits)
        self._is_running = True

    def _count_turn(self) -> None:
        self._counted_turns += not self._state.is_turn_counted
        self._state.is_turn_counted = True

    def _pass(self, time: int | None, *, is_active: bool) -> None:
        """Count the time since the agent worked last; a clock may run backwards."""
        if time is None:
            return
        last = self._state.last_worked_at
        if is_active and 0 < last < time and not self._is_before_start:
            self._active += time - last
            self._state.active_in_turn += time - last
        if not self._is_before_start:
            self._state.last_worked_at = max(abs(last), time)


def _next_starts(events: list[Event]) -> dict[int, int | None]:
    """Return the time of the next start of a turn by the index of an event before it."""
    following: dict[int, int | None] = {}
    start: int | None = None
    for place in reversed(range(len(events))):
        following[place] = start
        if events[place]["type"] == "turn_start":
            start = _time_of(events[place])
    return following


def _retracted(events: list[Event]) -> set[str]:
    """Return the ids of events that events of the same line retract."""
    payloads = (event.get("payload") for event in events if event["type"] == "retraction")
    lists = (payload.get("eventIds") for payload in payloads if isinstance(payload, dict))
    return {id for ids in lists if isinstance(ids, list) for id in ids if isinstance(id, str)}


def _time_of(event: Event) -> int | None:
    time = event.get("timestamp")
    return time if isinstance(time, int) and 0 < time < YEAR_10000 else None


def _is_main(event: Event) -> bool:
    payload = event["payload"]
    return payload.get("parentToolCallId") is None and payload.get("sidechain") is not True


_CONTENT = types_where(lambda row: row.is_turn_content)
_WORK = types_where(lambda row: row.role in ("assistant", "tool")) | {"interrupt", "turn_end"}

_HANDLERS: Mapping[str, Callable[[_Reader, Event, int | None], None]] = {
    **dict.fromkeys(_WORK, _Reader.work),
    **dict.fromkeys(PROMPTS, _Reader.prompt),
    "turn_start": _Reader.start_turn,
    "tool_call": _Reader.call,
    "tool_result": _Reader.result,
}
"""Readers by type. Other events, such as notices of the client, may come long after the agent has stopped."""
