"""Collect the edits of a session from its events, one by one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ash_shared.model.event_types import PROMPTS
from ash_shared.model.reports.changes import CallOutcome
from ash_shared.parsing.changes import (
    CHANGING_KINDS,
    CallFacts,
    facts_of_call,
    kind_of_call,
    may_change_files,
    outcome_of,
)
from ash_shared.parsing.describe import prompt_name
from ash_shared.projections._retractions import is_main, is_prompt

EVENT_TYPES = ("reset", "retraction", "turn_start", *sorted(PROMPTS), "tool_call", "tool_result")
"""The types of the events that edits are collected from."""
_OVERHEAD = 200
"""Characters that a call, a change or a hunk counts in addition to its lines."""
_MAX_RESULT = 1_000_000
"""Characters of the text of a result that may contain a report of changes."""


class EditTurn(NamedTuple):
    """A turn and its first prompt."""

    number: int
    prompt: str = ""
    sequence: int | None = None
    timestamp: int | None = None


@dataclass(slots=True)
class CallEdits:
    """A call that changes files, or a shell command that may."""

    turn: EditTurn
    event: Mapping[str, Any]
    """The event of the call, without its arguments."""
    tool: str
    facts: CallFacts
    outcome: CallOutcome = "pending"
    is_retracted: bool = False
    arguments: Any = None
    """Until the call has a result."""

    @property
    def counts(self) -> bool:
        return self.outcome == "ok" and not self.is_retracted

    @property
    def sequence(self) -> int:
        return self.event.get("sequence") or 0


class EditLog:
    """The edits of the events so far, in wire form and log order. `size`: their characters.

    Calls in the first `copied_messages`, which another session made, are left out. `turn` selects a turn.
    """

    def __init__(self, copied_messages: int = 0, turn: int | None = None) -> None:
        self._copied, self._only = copied_messages, turn
        self._clear()

    def expects(self, call_id: Any) -> bool:
        """True if the log needs the result of this call."""
        return str(call_id) in self._last

    def _clear(self) -> None:
        self.calls: list[CallEdits] = []
        self.size = 0
        self._turn = EditTurn(0)
        self._turn_starts: list[int] = []
        """The sequence of the first event of each turn."""
        self._turn_ids: set[str] = set()
        self._last: dict[str, CallEdits] = {}
        """The last call with each id."""
        self._records: dict[str, int] = {}
        """The first sequence of each record and answer with a prompt or a collected call."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event; those with other types than `EVENT_TYPES` are ignored."""
        read = _READERS.get(event["type"])
        if read is not None:
            read(self, event, event["payload"])

    def _reset(self, _event: Mapping[str, Any], _payload: Mapping[str, Any]) -> None:
        self._clear()

    def _start_turn(self, event: Mapping[str, Any], _payload: Mapping[str, Any]) -> None:
        turn_id = event.get("turnId")
        if turn_id is None or turn_id not in self._turn_ids:
            self._turn_ids |= set() if turn_id is None else {turn_id}
            self._turn_starts.append(event.get("sequence") or 0)
            self._turn = EditTurn(self._turn.number + 1)

    def _add_prompt(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        self._note_record(event)
        if self._turn.prompt or not is_prompt(event) or not is_main(event):
            return
        text = payload.get("text", payload.get("transcription"))
        is_typed = payload.get("sender") == "person"
        prompt = prompt_name(text, is_typed=is_typed) if isinstance(text, str) else ""
        if prompt:
            self._turn = EditTurn(self._turn.number, prompt, event.get("sequence"), event.get("timestamp"))
            self._name_turn()

    def _name_turn(self) -> None:
        """Add the prompt to calls of its turn that came before it."""
        for call in reversed(self.calls):
            if call.turn.number != self._turn.number:
                return
            call.turn = self._turn

    def _add_call(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        if self._only not in (None, self._turn.number):
            return
        tool, arguments = payload.get("toolName"), payload.get("args")
        if self._is_copy(event) or not may_change(tool, arguments):
            return
        facts = facts_of_call(str(tool), arguments)
        is_command = facts.command is not None
        self._note_record(event)
        envelope = {name: value for name, value in event.items() if name != "payload"}
        parents = {name: payload[name] for name in ("parentToolCallId", "sidechain") if name in payload}
        call = CallEdits(
            self._turn,
            {**envelope, "payload": {**parents, "toolCallId": payload.get("toolCallId")}},
            str(tool),
            facts,
        )
        call.arguments = None if is_command else arguments
        self.size += _size(call)
        self.calls.append(call)
        self._last[str(payload.get("toolCallId"))] = call

    def _is_copy(self, event: Mapping[str, Any]) -> bool:
        place = event.get("messageSequence")
        return place is not None and place <= self._copied

    def _add_result(self, _event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        call = self._last.get(str(payload.get("toolCallId")))
        if call is None:
            return
        call.outcome = outcome_of(payload)
        if call.arguments is not None:
            self.size -= _size(call)
            call.facts = facts_of_call(call.tool, call.arguments, _report_of(payload))
            call.arguments = None
            self.size += _size(call)

    def _retract(self, _event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        ids = {id for id in payload.get("eventIds") or () if isinstance(id, str)}
        if payload.get("reason") == "superseded":
            self.calls = [call for call in self.calls if call.event.get("id") not in ids]
            return
        names = set(payload.get("messageIds") or ())
        since = self._first_retracted(payload)
        for call in self.calls:
            is_named = call.event.get("id") in ids or not names.isdisjoint(_names(call.event))
            call.is_retracted = (
                call.is_retracted or is_named or (since is not None and call.sequence >= since)
            )

    def _first_retracted(self, payload: Mapping[str, Any]) -> int | None:
        """Return the sequence of the first retracted event, if all later ones are retracted, too."""
        record, turns = payload.get("fromMessageId"), payload.get("turns")
        if isinstance(record, str):
            return self._records.get(record)
        if isinstance(turns, int) and turns > 0:
            return self._turn_starts[-turns] if turns <= len(self._turn_starts) else 0
        return None

    def _note_record(self, event: Mapping[str, Any]) -> None:
        for name in _names(event):
            self._records.setdefault(name, event.get("sequence") or 0)


def may_change(tool: Any, arguments: Any) -> bool:
    """True for a call that changes files, or may."""
    kind = kind_of_call(tool, arguments)
    if kind != "shell":
        return kind in CHANGING_KINDS
    command = facts_of_call(tool, arguments).command
    return command is None or may_change_files(command)


_READERS = {
    "reset": EditLog._reset,
    "retraction": EditLog._retract,
    "turn_start": EditLog._start_turn,
    **dict.fromkeys(PROMPTS, EditLog._add_prompt),
    "tool_call": EditLog._add_call,
    "tool_result": EditLog._add_result,
}


def _report_of(payload: Mapping[str, Any]) -> Any:
    """Return the structured result, or else its text."""
    structured, result = payload.get("structured"), payload.get("result")
    if structured is not None:
        return structured
    return result[:_MAX_RESULT] if isinstance(result, str) else None


def _names(event: Mapping[str, Any]) -> list[str]:
    return [event[key] for key in ("recordId", "responseId") if isinstance(event.get(key), str)]


def _size(call: CallEdits) -> int:
    hunks = [hunk for change in call.facts.changes for hunk in change.hunks]
    values = sum(len(line) + 1 for hunk in hunks for line in hunk.lines) + len(call.facts.command or "")
    own = _OVERHEAD * (1 + len(call.facts.changes) + len(hunks))
    return own + values + _size_of_arguments(call.arguments)


def _size_of_arguments(arguments: Any) -> int:
    if isinstance(arguments, str):
        return len(arguments)
    values = arguments.values() if isinstance(arguments, dict) else ()
    return sum(len(value) for value in values if isinstance(value, str | list | dict))
