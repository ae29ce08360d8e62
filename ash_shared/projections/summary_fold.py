"""Summarise a log event by event, with a state that can be stored."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from ash_shared.eventlog import OpenTurn
from ash_shared.model.event_types import CATALOGUE, types_where
from ash_shared.model.events import failure_of
from ash_shared.model.times import datetime_of
from ash_shared.parsing.describe import prompt_name
from ash_shared.projections._retractions import WireEvent, is_main, is_prompt
from ash_shared.projections.spending import COPY_MARKS, Counts, Spending, add_counts
from ash_shared.records.digests import evict_oldest, short_digest
from ash_shared.records.system_text import typed_text, visible_text

T = TypeVar("T")

MAX_KEPT = 200
"""Agents, and calls and messages without an answer, that later events may refer to, if the state is stored."""

_MAX_RECENT = 20
"""Turns, answers, subagents and calls with a result that later events may refer to, if the state is stored."""

_MAX_TEXT, _MAX_NAME = 200, 1000

_MAX_START = 2 * _MAX_TEXT
"""Characters of a text that usually contain the words that are kept."""

_CONTENT_TYPES = types_where(lambda row: row.is_turn_content)


class _Call(NamedTuple):
    """A call without a result."""

    turn: str
    tool: str


class SummaryState(msgspec.Struct, array_like=True):
    """Everything that later events may change. Ids are digests."""

    copied: int = 0
    """The first messages, which were copied from another session."""
    skips_copies: bool = False
    """True: copies are not counted at all; false: only their usage is not."""
    session_id: str | None = None
    first_at: int | None = None
    last_at: int | None = None
    opened: list[str] = []  # msgspec copies it
    """The open turn, if any."""
    turns_of_log: dict[str, None] = {}
    ended: dict[str, bool] = {}
    """True if the last mark of a turn is its end."""
    own_turns: dict[str, None] = {}
    """Turns that are not copies and have not ended."""
    usage: Counts | None = None
    cost: int | float | None = None
    usage_by_agent: dict[str, Counts] = {}
    turns: int = 0
    is_turn_counted: bool = False
    has_marks: bool = False
    main_turns: dict[str, None] = {}
    user_messages: int = 0
    answers: int = 0
    last_answers: dict[str, None] = {}
    errors: dict[str, int] = {}
    unrecognised: int = 0
    compactions: int = 0
    tools: dict[str, int] = {}
    tool_errors: dict[str, int] = {}
    calls: dict[str, _Call] = {}
    ended_calls: dict[str, str] = {}
    """The tools of calls with a result."""
    failures: dict[str, int] = {}
    """Failed results without a call so far."""
    subagents: int = 0
    last_parents: dict[str, None] = {}
    agents: dict[str, None] = {}
    """By name."""
    callbacks: int = 0
    awaited: dict[str, list[str]] = {}
    """Messages without a callback, with their agents."""
    title: str | None = None
    last_text: str | None = None
    last_role: str | None = None
    is_interrupted: bool = False


class SummaryFold:
    """Summarises a log event by event."""

    def __init__(self, state: SummaryState | None = None, *, most: int | None = None) -> None:
        """`state` continues another fold, and changes with this one. `most` limits what is kept of each kind."""
        self._state = state or SummaryState()
        self._most = most
        self._last_answer: WireEvent | None = None
        """An answer that is not yet in `last_text`: only the last one counts, and to shorten a text takes long."""

    @property
    def state(self) -> SummaryState:
        answer, self._last_answer = self._last_answer, None
        if answer is not None:
            self._state.last_text, self._state.last_role = _text(answer), "assistant"
        return self._state

    def add(self, event: WireEvent, *, stands: bool = True) -> None:
        """Add an event other than a chunk; `stands` is false if it is retracted, or is a retraction."""
        if event["type"] == "reset":
            self._last_answer = None
            self._state = SummaryState(copied=self._state.copied, skips_copies=self._state.skips_copies)
            return
        id = event.get("turnId")
        turn = "" if id is None else short_digest(id)
        self._add_to_log(event, turn)
        if stands and not self._is_skipped(event):
            self._add_standing(event, turn)

    def spending(self, open_turn: OpenTurn | None = None) -> Spending:
        """Return what the log has spent, including the open turn."""
        state = self._state
        spent = Spending(state.usage, state.cost, state.usage_by_agent)
        if open_turn is None:
            return spent
        turn = short_digest(open_turn.id)
        if state.ended.get(turn) or (state.copied and turn not in state.own_turns):
            return spent
        return _with_end(spent, open_turn.spent)

    def fields(
        self, open_turn: OpenTurn | None = None, models: Mapping[str, int] | None = None
    ) -> dict[str, Any]:
        """Return the known fields of a `SessionSummary`."""
        state, spent = self.state, self.spending(open_turn)
        times = {"firstAt": state.first_at, "lastAt": state.last_at}
        known = {
            "sessionId": state.session_id,
            **{name: None if time is None else datetime_of(time) for name, time in times.items()},
            "title": state.title,
            "lastText": state.last_text,
            "lastRole": state.last_role,
            "usage": spent.usage,
            "costUsd": spent.cost_usd,
        }
        return {name: value for name, value in known.items() if value is not None} | {
            "turns": state.turns,
            "userMessages": state.user_messages,
            "assistantMessages": state.answers,
            "errors": _ranked(state.errors),
            "unrecognised": state.unrecognised,
            "compactions": state.compactions,
            "toolCalls": _ranked(state.tools),
            "toolErrors": _ranked(state.tool_errors),
            "subagents": state.subagents,
            "agents": list(state.agents),
            "agentCallbacks": state.callbacks,
            "awaitedAgents": len(state.awaited),
            "isOpen": bool(state.opened),
            "openCalls": [call.tool for call in state.calls.values() if call.turn in state.opened],
            "isInterrupted": state.is_interrupted,
            "models": _ranked(models or {}),
        }

    def _is_skipped(self, event: WireEvent) -> bool:
        place = event.get("messageSequence")
        return self._state.skips_copies and place is not None and place <= self._state.copied

    def _add_standing(self, event: WireEvent, turn: str) -> None:
        kind = event["type"]
        parent = event["payload"].get("parentToolCallId")
        if parent is not None:
            self._state.subagents += self._is_new(self._state.last_parents, short_digest(parent))
        if kind == "tool_call":
            self._add_call(event, turn)
        elif kind == "tool_result":
            self._add_result(event)
        elif kind.startswith("agent_"):
            self._add_agent(event)
        elif kind in ("turn_start", "interrupt"):
            self._state.is_interrupted = kind == "interrupt"
        if is_main(event):
            self._add_main(event, turn)

    def _add_to_log(self, event: WireEvent, turn: str) -> None:
        state, kind, time = self._state, event["type"], event["timestamp"]
        if state.session_id is None:
            state.session_id = event.get("sessionId")
        state.first_at = time if state.first_at is None else min(state.first_at, time)
        state.last_at = time if state.last_at is None else max(state.last_at, time)
        if kind == "turn_start" or (turn and turn not in state.turns_of_log):
            state.opened = [turn]
        if kind in ("turn_end", "interrupt") and (not turn or turn in state.opened):
            state.opened = []
        if turn:
            self._is_new(state.turns_of_log, turn)
        self._add_spending(event, turn)

    def _add_spending(self, event: WireEvent, turn: str) -> None:
        state, kind, place = self._state, event["type"], event.get("messageSequence")
        if kind in ("turn_start", "turn_end") and turn:
            self._keep_recent(state.ended, turn, kind == "turn_end")
        if kind == "turn_end":
            if not state.copied or turn in state.own_turns or place is None:
                spent = Spending(state.usage, state.cost, state.usage_by_agent)
                state.usage, state.cost, by_agent = _with_end(spent, event["payload"])
                state.usage_by_agent = dict(by_agent)
            state.own_turns.pop(turn, None)
        elif state.copied and kind in COPY_MARKS and (place is None or place > state.copied):
            self._keep(state.own_turns, turn, None)

    def _add_main(self, event: WireEvent, turn: str) -> None:
        state, kind, payload = self._state, event["type"], event["payload"]
        self._count_turn(event, turn)
        if kind == "error":
            _count(state.errors, payload["code"])
        state.unrecognised += kind == "raw"
        state.compactions += kind == "summary"
        if is_prompt(event):
            state.user_messages += not _is_blank(event)
            if text := _text(event):
                self._last_answer = None
                state.last_text, state.last_role = text, "user"
                if state.title is None:
                    state.title = _title(event) or None
        elif kind == "assistant_done" and not _is_blank(event):
            answer = short_digest(event.get("responseId") or event["id"])
            state.answers += self._is_new(state.last_answers, answer)
            if event["payload"][CATALOGUE[kind].text]:
                self._last_answer = event

    def _count_turn(self, event: WireEvent, turn: str) -> None:
        """Count a turn with its first content. It begins by turn id, or else by `turn_start`, or else by prompts."""
        state, kind = self._state, event["type"]
        state.has_marks = state.has_marks or bool(turn) or kind == "turn_start"
        if turn:
            begins = self._is_new(state.main_turns, turn)
        else:
            begins = kind == "turn_start" or (not state.has_marks and is_prompt(event))
        if begins:
            state.is_turn_counted = False
        if kind in _CONTENT_TYPES and not state.is_turn_counted:
            state.turns += 1
            state.is_turn_counted = True

    def _add_call(self, event: WireEvent, turn: str) -> None:
        state, payload = self._state, event["payload"]
        if payload.get("partial"):
            return
        id, name = short_digest(payload["toolCallId"]), payload["toolName"][:_MAX_NAME]
        self._keep(state.calls, id, _Call(turn, name))
        state.ended_calls.pop(id, None)
        if name.strip():
            _count(state.tools, name)
            if failures := state.failures.pop(id, 0):
                _count(state.tool_errors, name, failures)

    def _add_result(self, event: WireEvent) -> None:
        state, payload = self._state, event["payload"]
        id = short_digest(payload["toolCallId"])
        call = state.calls.pop(id, None)
        name = state.ended_calls.get(id) if call is None else call.tool
        if name is not None:
            self._keep_recent(state.ended_calls, id, name)
        if failure_of(payload) is None:
            return
        if name is None:
            self._keep(state.failures, id, state.failures.get(id, 0) + 1)
        elif name.strip():
            _count(state.tool_errors, name)

    def _add_agent(self, event: WireEvent) -> None:
        state, payload, kind = self._state, event["payload"], event["type"]
        for name in _partners(event):
            if self._most is None or len(state.agents) < self._most:
                state.agents.setdefault(name[:_MAX_NAME])
        state.callbacks += kind == "agent_callback"
        if kind == "agent_message":
            agents = sorted(_agent_names(payload, "targetAgentId", "targetSessionId"))
            self._keep(state.awaited, short_digest(payload["messageId"]), agents)
        elif kind == "agent_callback" and short_digest(payload["messageId"]) in state.awaited:
            del state.awaited[short_digest(payload["messageId"])]
        elif kind == "agent_callback":
            names = _agent_names(payload, "fromAgentId", "fromSessionId")
            state.awaited = {
                message: agents for message, agents in state.awaited.items() if names.isdisjoint(agents)
            }

    def _is_new(self, recent: dict[str, None], name: str) -> bool:
        """Keep a name; return True if it was not kept."""
        if name == next(reversed(recent), None):  # consecutive events have the same ids
            return False
        is_new = name not in recent
        if not is_new and self._most is not None:
            del recent[name]  # it is the last one then
        self._keep_recent(recent, name, None)
        return is_new

    def _keep_recent(self, recent: dict[str, T], name: str, value: T) -> None:
        recent[name] = value
        if self._most is not None:
            evict_oldest(recent, _MAX_RECENT)

    def _keep(self, kept: dict[str, T], name: str, value: T) -> None:
        kept[name] = value
        if self._most is not None:
            evict_oldest(kept, self._most)


def _with_end(spent: Spending, end: Mapping[str, Any]) -> Spending:
    """Add the end of a turn."""
    usage, cost, by_agent = spent
    if end.get("usage") is not None:
        usage = add_counts([usage or {}, end["usage"]])
    if end.get("costUsd") is not None:
        cost = (cost or 0) + end["costUsd"]
    agents = dict(by_agent)
    for agent, counts in (end.get("usageByAgent") or {}).items():
        agents[agent] = add_counts([agents.get(agent, {}), counts])
    return Spending(usage, cost, agents)


def _text(event: WireEvent) -> str:
    """Return the beginning of a text in one line; from prompts, text added by clients is removed."""
    text = event["payload"][CATALOGUE[event["type"]].text]
    if is_prompt(event):
        text = visible_text(text) if _is_from_person(event) else typed_text(text)
    words = " ".join(text[:_MAX_START].split())
    if len(words) <= _MAX_TEXT and len(text) > _MAX_START:
        words = " ".join(text.split())
    return words if len(words) <= _MAX_TEXT else words[: _MAX_TEXT - 1] + "…"


def _title(prompt: WireEvent) -> str:
    text = prompt["payload"][CATALOGUE[prompt["type"]].text]
    return prompt_name(text, is_typed=_is_from_person(prompt))


def _is_from_person(prompt: WireEvent) -> bool:
    """True if the record states that a person typed the text, whatever it looks like."""
    return bool(prompt["payload"].get("sender") == "person")


def _is_blank(event: WireEvent) -> bool:
    """True for a text of white space. A message without any text is a picture or a file."""
    text: str = event["payload"][CATALOGUE[event["type"]].text]
    return text.isspace()


def _count(counts: dict[str, int], name: str, number: int = 1) -> None:
    name = name[:_MAX_NAME]
    counts[name] = counts.get(name, 0) + number


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(counts).most_common())


def _agent_names(payload: Mapping[str, Any], *keys: str) -> set[str]:
    return {short_digest(payload[key]) for key in keys if payload.get(key)}


def _partners(event: WireEvent) -> Iterator[str]:
    payload = event["payload"]
    keys: Iterable[tuple[str, ...]] = _PARTNERS.get(event["type"], ())
    for agent in keys:
        name = next((payload[key] for key in agent if payload.get(key)), None)
        if name is not None:
            yield name


_PARTNERS = {
    "agent_callback": (("fromAgentId", "fromSessionId"),),
    "agent_message": (("targetAgentId", "targetSessionId"),),
    "agent_switch": (("fromAgentId",), ("toAgentId",)),
}
