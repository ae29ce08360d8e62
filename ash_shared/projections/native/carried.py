"""The part of a session that a new session of another agent can begin with.

Left out are reasoning, which is signed or encrypted for its vendor, texts that a program sent in the name of the user,
and events of subagents, which only their calls return. So a text that a tool returned never becomes a prompt.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ash_shared.model.blocks import text_block
from ash_shared.projections._conversation import (
    Answer,
    ConversationCall,
    Item,
    UserMessage,
    conversation,
)
from ash_shared.projections._retractions import Events, WireEvent, is_main, standing, wire_events

NO_PROMPT = "[What the user said is not recorded.]"
"""First message of a session that begins with an answer, because the agents expect a prompt."""
NO_RESULT = "[The result of this call is not recorded.]"

_SENDERS = (None, "person", "script", "schedule", "loop")
"""Senders of prompts. Others send texts of a program or another agent."""


class Carried(NamedTuple):
    """The messages of a session, and the kinds of events that were left out."""

    items: list[Item]
    """Begins with a message of the user. Every call has a result."""
    left_out: Mapping[str, int]
    """The number of each kind of event that was left out."""
    turns: int
    """The number of turns in the session, without subagents."""


def carry(events: Events, *, turns: int | None = None) -> Carried:
    """Return the first turns of a session; by default, all of it."""
    whole = standing(wire_events(events))
    starts = [place for place, event in enumerate(whole) if event["type"] == "turn_start" and is_main(event)]
    log = whole if turns is None or turns >= len(starts) else whole[: starts[turns]]
    kept = [event for event in log if _reason(event) is None]
    left_out = Counter(reason for event in log if (reason := _reason(event)) is not None)
    items = conversation(kept, keep_calls=True)
    if items and isinstance(items[0], Answer):
        items = [UserMessage([text_block(NO_PROMPT)]), *items]
    unanswered = [call for call in calls_of(items) if call.result is None]
    for call in unanswered:
        call.result = {"result": NO_RESULT}
    if unanswered:
        left_out["calls without a result, which get one that says so"] = len(unanswered)
    return Carried(items, dict(left_out), len(starts))


def calls_of(items: list[Item]) -> list[ConversationCall]:
    return [call for item in items if isinstance(item, Answer) for call in item.calls]


def _reason(event: WireEvent) -> str | None:
    """Return why an event of the conversation is left out; None if it is not, or is none."""
    if not is_main(event):
        return "events of subagents"
    leaves_out = _LEFT_OUT.get(event["type"])
    return None if leaves_out is None else leaves_out(event)


def _sender_reason(event: WireEvent) -> str | None:
    sender = event["payload"].get("sender")
    return None if sender in _SENDERS else "messages of programs and other agents"


def _phase_reason(event: WireEvent) -> str | None:
    return "remarks between calls" if event["payload"].get("phase") == "commentary" else None


_LEFT_OUT: Mapping[str, Callable[[WireEvent], str | None]] = {
    "agent_callback": lambda event: "callbacks of subagents",
    "assistant_done": _phase_reason,
    "thinking_done": lambda event: "reasoning",
    "user_message": _sender_reason,
}
