"""What standard messages and events decide about the content of a session, in one form for comparison.

A unit is a text, a call or a result. Of each, a decision is the message of the API, the call of the subagent, the turn,
and whether it stands: not a copy, not superseded, not retracted.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ash_shared.conversation.standard_messages import Fold
from ash_shared.eventlog import Normalizer, parse_line
from ash_shared.model.usage.answers import AnswerUsage, last_values
from ash_shared.projections._retractions import standing, wire_events
from ash_shared.records.steps import Chunk, Step, TurnStart
from ash_shared.records.system_text import command_text
from tests.shared.logs import context


class Unit(NamedTuple):
    kind: str
    name: str
    """The id of a call, or the text without spaces, which the two join differently."""


class Decision(NamedTuple):
    key: str | None
    """The id of the message of the API."""
    parent_call: str
    turn: int | str | None
    stands: bool


class Reading(NamedTuple):
    """The decisions of one of the two."""

    units: Mapping[Unit, Sequence[Decision]]
    tokens: tuple[int, int]
    """Input and output of all answers."""
    cost: float
    has_total: bool = False
    """True if the usage of a turn was stated as a total, which replaces the sum of its answers in the log."""


def read_messages(lines: Sequence[str]) -> Reading:
    fold, units = Fold(), defaultdict[Unit, list[Decision]](list)
    for line in lines:
        fold.add(line, None)
    messages = fold.messages()
    for draft in fold.drafts:
        metadata = draft.metadata
        stands = not metadata.get("retracted") and not metadata.get("shadowOf")
        place = (metadata.get("parentToolUseId") or "", draft.turn, stands)
        for unit in _units(draft.role, draft.blocks):
            units[unit].append(Decision(metadata.get("messageId"), *place))
    counted = [message for message in messages if message.metadata.shadow_of is None]
    usages = [message.usage.model_dump() for message in counted if message.usage is not None]
    tokens = [sum(usage.get(name) or 0 for usage in usages) for name in ("input_tokens", "output_tokens")]
    return Reading(units, (tokens[0], tokens[1]), sum(message.metadata.cost_usd or 0 for message in counted))


def read_events(lines: Sequence[str]) -> Reading:
    normalizer, events, answers = Normalizer(), list[Any](), list[AnswerUsage]()
    for number, line in enumerate(lines):
        events += normalizer.follow(parse_line(line), context(number))
        answers += normalizer.answers
    events += normalizer.close(context("end"))
    answers += normalizer.answers
    wire = wire_events(events)
    left = {event["id"] for event in standing(wire)}
    units = defaultdict[Unit, list[Decision]](list)
    for event in wire:
        unit = _unit_of_event(event)
        if unit is not None:
            place = (event["payload"].get("parentToolCallId", ""), event.get("turnId"), event["id"] in left)
            units[unit].append(Decision(event.get("responseId"), *place))
    values = last_values(answers)
    tokens = sum(value.input_tokens for value in values), sum(value.output_tokens for value in values)
    cost = sum(value.reported_cost or 0 for value in values) / 1e9
    has_total = any(not value.is_request and value.input_tokens + value.output_tokens for value in values)
    return Reading(units, tokens, cost, has_total)


def _units(role: str, blocks: Sequence[Any]) -> Iterator[Unit]:
    if role == "user" and (prompt := "".join(block["text"] for block in blocks if block["type"] == "text")):
        yield _text("user", prompt)
    for block in blocks:
        if block["type"] == "text" and role == "assistant" and block["text"]:
            yield _text("text", block["text"])
        elif block["type"] == "thinking" and block["thinking"]:
            yield _text("thinking", block["thinking"])
        elif block["type"] == "tool_use" and block.get("id"):
            yield Unit("call", block["id"])
        elif block["type"] == "tool_result" and block.get("tool_use_id"):
            yield Unit("result", block["tool_use_id"])


def _unit_of_event(event: Mapping[str, Any]) -> Unit | None:
    payload, kind = event["payload"], event["type"]
    if kind in ("tool_call", "tool_result"):
        return Unit(kind.removeprefix("tool_"), payload["toolCallId"].rpartition("/")[2])
    if kind in ("assistant_done", "thinking_done") and payload["text"]:
        return _text("text" if kind == "assistant_done" else "thinking", payload["text"])
    if kind == "user_message" and payload["text"]:
        command = command_text(payload["text"])
        return _text("user", payload["text"] if command is None else command)
    return None


def _text(kind: str, text: str) -> Unit:
    return Unit(kind, "".join(text.split()))


def differences(lines: Sequence[str]) -> list[str]:
    """Return the decisions about which the two differ, as the kind of decision and the unit.

    Usage is not compared for streams, which may state it without a message.
    """
    messages, events = read_messages(lines), read_events(lines)
    both = [unit for unit in events.units if unit in messages.units]
    found = [text for unit in both for text in _compare(unit, messages.units[unit], events.units[unit])]
    if not has_step(lines, Chunk):
        found += (
            [f"usage {messages.tokens} and {events.tokens}"]
            if messages.tokens != events.tokens and not events.has_total
            else []
        )
        found += ["cost"] if round(messages.cost - events.cost, 6) else []
    has_ends = has_step(lines, TurnStart)
    return found + list(_compare_turns(both, messages, events, has_ends=has_ends))


def _compare(unit: Unit, ours: Sequence[Decision], theirs: Sequence[Decision]) -> Iterator[str]:
    """`ours` are of messages. A text may be a copy only of a message that contains it."""
    left, right = _standing(ours), _standing(theirs)
    if (
        bool(left) != bool(right)
        or len(left) > len(right) > 0
        or (unit.kind != "text" and len(right) > len(left))
    ):
        yield f"standing {unit.kind} {unit.name}: {len(left)} and {len(right)}"
    elif len(left) == len(right) == 1:
        (one,), (other,) = left, right
        if one.parent_call != other.parent_call:
            yield f"parent {unit.kind} {unit.name}"
        if one.key and other.key and one.key != other.key and unit.kind in ("text", "call", "thinking"):
            yield f"key {unit.kind} {unit.name}"


def _standing(decisions: Sequence[Decision]) -> list[Decision]:
    return [decision for decision in decisions if decision.stands]


def _compare_turns(
    both: Sequence[Unit], messages: Reading, events: Reading, *, has_ends: bool
) -> Iterator[str]:
    """Compare where prompts begin turns. The log may also begin turns without a prompt.

    `has_ends`: records end turns, and the log continues a turn although a prompt comes before its end.
    """
    places = [
        (unit, left[0], right[0])
        for unit in both
        if len(left := _standing(messages.units[unit])) == 1 == len(right := _standing(events.units[unit]))
    ]
    for (before, left_before, right_before), (unit, left_now, right_now) in pairwise(places):
        if unit.kind == "user" != before.kind and not right_now.parent_call:
            is_new = left_before.turn != left_now.turn
            is_new_in_log = right_before.turn != right_now.turn
            if is_new_in_log > is_new or (is_new > is_new_in_log and not has_ends):
                yield f"turn {unit.name}"


def has_step(lines: Sequence[str], kind: type[Step]) -> bool:
    return any(isinstance(step, kind) for line in lines for step in parse_line(line).steps)
