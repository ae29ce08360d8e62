"""Summarise an event log for a list of sessions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from ash_shared.eventlog import OpenTurn
from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import failure_of
from ash_shared.model.message import StandardMessage, StandardTokenUsage
from ash_shared.model.times import datetime_of
from ash_shared.parsing.describe import prompt_name
from ash_shared.projections._retractions import (
    Events,
    WireEvent,
    count_turns,
    is_main,
    is_prompt,
    standing,
    wire_events,
)
from ash_shared.projections.spending import Spending, spending_of
from ash_shared.records.system_text import typed_text, visible_text

_MAX_TEXT = 200


class SessionSummary(AshModel):
    """A session at a glance.

    Retracted events are not counted, but their cost is. Calls and results of subagents are counted, their texts are
    not. The counts of `Session` include retracted calls and prompts, which took place, and calls with the same id once.
    """

    model_config = ConfigDict(alias_generator=to_camel)

    session_id: Omittable[str] = ABSENT
    """Absent if the log is empty, as are the times."""
    title: Omittable[str] = ABSENT
    """The beginning of the first prompt, in one line, as the person typed it. Commands that only control the client,
    such as `/clear`, are no title."""
    last_text: Omittable[str] = ABSENT
    """The beginning of the last text of the user or the assistant, in one line."""
    last_role: Omittable[str] = ABSENT
    """Role of the last text: user or assistant."""
    first_at: Omittable[datetime] = ABSENT
    """Time of the earliest event; absent if it is after the year 9999."""
    last_at: Omittable[datetime] = ABSENT
    """Time of the latest event; absent if it is after the year 9999."""
    turns: int = 0
    """Turns with text, thinking or calls, distinguished by their ids, or else by `turn_start`, or else by prompts."""
    user_messages: int = 0
    """Written and spoken messages of the user, without blank ones."""
    assistant_messages: int = 0
    """Answers with text that is not blank. All texts of one response count as one answer."""
    tool_calls: dict[str, int] = Field(default={})
    """Number of calls by tool, most used first."""
    tool_errors: dict[str, int] = Field(default={})
    """Number of failures by tool."""
    errors: dict[str, int] = Field(default={})
    """Number of errors other than tool failures, by code."""
    unrecognised: int = 0
    """Unrecognised records."""
    compactions: int = 0
    """Number of times the history was summarised."""
    subagents: int = 0
    """Number of calls that started a subagent."""
    models: dict[str, int] = Field(default={})
    """Number of answers by model, most first; empty if the models are unknown."""
    agents: list[str] = Field(default=[])
    """Other agents and sessions that took part, in order of appearance."""
    agent_callbacks: int = 0
    """Answers of other agents."""
    awaited_agents: int = 0
    """Messages to other agents without a callback."""
    usage: Omittable[StandardTokenUsage] = ABSENT
    """Total of the turns with known usage, including the open one."""
    cost_usd: Omittable[float] = ABSENT
    """Total of the turns with known cost, including the open one, in US dollars."""
    computed_cost_usd: Omittable[float] = ABSENT
    """The cost of `usage` at API prices; absent without prices or for a log that is not stored."""
    total_usage: Omittable[StandardTokenUsage] = ABSENT
    """`usage` plus the usage of stored subagent sessions, at any depth; absent without such sessions. A subagent's
    lines in another session's transcript count only once, in its own session."""
    total_cost_usd: Omittable[float] = ABSENT
    """`cost_usd` plus the costs of stored subagent sessions; absent without such sessions."""
    total_computed_cost_usd: Omittable[float] = ABSENT
    """The cost of `total_usage` at API prices."""
    is_open: bool = False
    """True if the last turn has neither ended nor been interrupted."""
    open_calls: list[str] = Field(default=[])
    """Tools with pending calls in the open turn."""
    is_interrupted: bool = False
    """True if the last turn was interrupted."""


def to_session_summary(
    events: Events,
    *,
    open_turn: OpenTurn | None = None,
    models: Mapping[str, int] | None = None,
    copied_messages: int = 0,
    is_subagent: bool = False,
) -> SessionSummary:
    """Return the summary of a log, complete or still growing.

    Values that are not in the log can be added: the open turn of the normaliser (`Normalizer.open_turn`), the number of
    answers by model (`count_models`), and the number of messages at the beginning that were copied from another
    session, where their usage counts. For a subagent (`is_subagent`), the title and counts also ignore these messages,
    because they are the history of its parent.
    """
    log = wire_events(events)
    stands = [event for event in standing(log) if not (is_subagent and _is_copied(event, copied_messages))]
    main = list(filter(is_main, stands))
    spent = _spent(spending_of(log, open_turn, copied_messages))
    parts = (_envelope(log), _texts(main), _counts(main), _tools(stands), _agents(stands), spent)
    known = {key: value for part in parts for key, value in part.items()}
    return SessionSummary.model_validate({**known, **_state(log, stands), "models": _ranked(models or {})})


def _is_copied(event: WireEvent, copied_messages: int) -> bool:
    place = event.get("messageSequence")
    return place is not None and place <= copied_messages


def count_models(messages: Iterable[StandardMessage]) -> Counter[str]:
    """Count these answers by model, without those that a tool wrote (`<synthetic>`)."""
    metadata = (message.metadata for message in messages if message.role == "assistant")
    models = (each.model for each in metadata if each.shadow_of is None)
    return Counter(name for name in models if name is not None and not name.startswith("<"))


def _of(events: Iterable[WireEvent], *types: str) -> list[WireEvent]:
    return [event for event in events if event["type"] in types]


def _envelope(log: list[WireEvent]) -> dict[str, Any]:
    if not log:
        return {}
    stamps = [event["timestamp"] for event in log]
    times = {"firstAt": datetime_of(min(stamps)), "lastAt": datetime_of(max(stamps))}
    known = {name: time for name, time in times.items() if time is not None}
    return {"sessionId": log[0]["sessionId"], **known}


def _text(event: WireEvent) -> str:
    """Return the beginning of a text in one line; from prompts, text added by clients is removed."""
    text = event["payload"][CATALOGUE[event["type"]].text]
    if is_prompt(event):
        text = visible_text(text) if _is_from_person(event) else typed_text(text)
    words = " ".join(text.split())
    return words if len(words) <= _MAX_TEXT else words[: _MAX_TEXT - 1] + "…"


def _texts(main: list[WireEvent]) -> dict[str, Any]:
    texts = [
        (text, event)
        for event in main
        if (is_prompt(event) or event["type"] == "assistant_done") and (text := _text(event))
    ]
    if not texts:
        return {}
    text, last = texts[-1]
    known = {"lastText": text, "lastRole": "user" if is_prompt(last) else "assistant"}
    title = next(filter(None, (_title(event) for _, event in texts if is_prompt(event))), None)
    return known if title is None else {**known, "title": title}


def _title(prompt: WireEvent) -> str:
    text = prompt["payload"][CATALOGUE[prompt["type"]].text]
    return prompt_name(text, is_typed=_is_from_person(prompt))


def _is_from_person(prompt: WireEvent) -> bool:
    """True if the record states that a person typed the text, whatever it looks like."""
    return bool(prompt["payload"].get("sender") == "person")


def _counts(main: list[WireEvent]) -> dict[str, Any]:
    texts = (event for event in _of(main, "assistant_done") if not _is_blank(event))
    answers = {event.get("responseId") or event["id"] for event in texts}
    return {
        "turns": count_turns(main),
        "userMessages": sum(is_prompt(event) and not _is_blank(event) for event in main),
        "assistantMessages": len(answers),
        "errors": _ranked(event["payload"]["code"] for event in _of(main, "error")),
        "unrecognised": len(_of(main, "raw")),
        "compactions": len(_of(main, "summary")),
    }


def _is_blank(event: WireEvent) -> bool:
    """True for a text of white space. A message without any text is a picture or a file."""
    text: str = event["payload"][CATALOGUE[event["type"]].text]
    return text.isspace()


def _ranked(names: Iterable[str] | Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(names).most_common())


def _tools(stands: list[WireEvent]) -> dict[str, Any]:
    payloads = (event["payload"] for event in _of(stands, "tool_call"))
    calls = [call for call in payloads if call["toolName"].strip() and not call.get("partial")]
    names = {call["toolCallId"]: call["toolName"] for call in calls}
    results = [event["payload"] for event in _of(stands, "tool_result")]
    failed = [result["toolCallId"] for result in results if failure_of(result) is not None]
    parents = {event["payload"].get("parentToolCallId") for event in stands} - {None}
    return {
        "toolCalls": _ranked(call["toolName"] for call in calls),
        "toolErrors": _ranked(names[call] for call in failed if call in names),
        "subagents": len(parents),
    }


def _agents(stands: list[WireEvent]) -> dict[str, Any]:
    callbacks = _of(stands, "agent_callback")
    named = (name for event in stands if event["type"].startswith("agent_") for name in _partners(event))
    return {
        "agents": list(dict.fromkeys(named)),
        "agentCallbacks": len(callbacks),
        "awaitedAgents": len(_awaited_messages(stands)),
    }


def _awaited_messages(stands: list[WireEvent]) -> set[str]:
    """Return the ids of the messages without a callback. A callback of no known message answers all to its agent."""
    awaited: set[str] = set()
    by_agent: dict[str, list[str]] = {}
    for event in _of(stands, "agent_message", "agent_callback"):
        payload, message = event["payload"], event["payload"]["messageId"]
        if event["type"] == "agent_message":
            awaited.add(message)
            for agent in _agent_names(payload, "targetAgentId", "targetSessionId"):
                by_agent.setdefault(agent, []).append(message)
        elif message in awaited:
            awaited.remove(message)
        else:
            for agent in _agent_names(payload, "fromAgentId", "fromSessionId"):
                awaited.difference_update(by_agent.pop(agent, ()))
    return awaited


def _agent_names(payload: Mapping[str, Any], *keys: str) -> set[str]:
    return {payload[key] for key in keys if payload.get(key)}


def _partners(event: WireEvent) -> Iterator[str]:
    payload = event["payload"]
    keys = _PARTNERS.get(event["type"], ())
    for agent in keys:
        name = next((payload[key] for key in agent if payload.get(key)), None)
        if name is not None:
            yield name


_PARTNERS = {
    "agent_callback": (("fromAgentId", "fromSessionId"),),
    "agent_message": (("targetAgentId", "targetSessionId"),),
    "agent_switch": (("fromAgentId",), ("toAgentId",)),
}


def _spent(spent: Spending) -> dict[str, Any]:
    known = {"usage": spent.usage, "costUsd": spent.cost_usd}
    return {name: value for name, value in known.items() if value is not None}


def _state(log: list[WireEvent], stands: list[WireEvent]) -> dict[str, Any]:
    """Return the open turn and its pending calls; a retracted `turn_end` still ends its turn."""
    opened = _open_turn(log)
    marks = _of(stands, "turn_start", "interrupt")
    return {
        "isOpen": bool(opened),
        "openCalls": [call["toolName"] for call in _waiting(stands, opened)],
        "isInterrupted": bool(marks) and marks[-1]["type"] == "interrupt",
    }


def _open_turn(log: list[WireEvent]) -> list[str | None]:
    """Return the id of the last turn, unless it has ended; the viewer has the same rule (`EventLog.openTurn`)."""
    opened: list[str | None] = []
    known: set[str | None] = {None}
    for event in log:
        turn, wire = event.get("turnId"), event["type"]
        if wire == "turn_start" or turn not in known:
            opened = [turn]
        if wire in ("turn_end", "interrupt") and (turn is None or turn in opened):
            opened = []
        known.add(turn)
    return opened


def _waiting(stands: list[WireEvent], opened: Iterable[str | None]) -> list[Mapping[str, Any]]:
    waiting: dict[str, Mapping[str, Any]] = {}
    for event in _of(stands, "tool_call", "tool_result"):
        payload = event["payload"]
        if event["type"] == "tool_result":
            waiting.pop(payload["toolCallId"], None)
        elif event.get("turnId") in opened and not payload.get("partial"):
            waiting[payload["toolCallId"]] = payload
    return list(waiting.values())
