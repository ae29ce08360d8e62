"""The normaliser: dispatches each step of a line to its handler."""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice, product
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ash_shared.eventlog import (
    agents,
    complete_messages,
    documents,
    emit_messages,
    posted_events,
    queued_prompts,
    streaming,
    turns,
)
from ash_shared.eventlog.dedupe import assembled_answers, repetitions
from ash_shared.eventlog.emitter import EMPTY_LINE, Context, Event, Line, LineOutput, parse_line
from ash_shared.eventlog.facts.lines import NO_FACTS, LineFacts, facts_of_line, facts_of_posted
from ash_shared.eventlog.state import (
    OpenTextMissing,
    Place,
    State,
    decode_state,
    encode_state,
    with_whole_texts,
)
from ash_shared.eventlog.usage import answers, counting
from ash_shared.eventlog.usage.details import MAX_NAME
from ash_shared.model.blocks import Block
from ash_shared.model.event_types import CATALOGUE
from ash_shared.model.events import ChatEvent, read_event
from ash_shared.model.message import RecordHeader
from ash_shared.model.usage.answers import AnswerUsage
from ash_shared.records import steps
from ash_shared.records.inherited import next_own_ordinal
from ash_shared.records.json_text import RawMessage
from ash_shared.relations import RESOLVERS

NORMALIZER_VERSION = 15
"""Raised whenever stored lines give other events, usage or facts than before: `ash reindex` derives them again."""

FIRST_LINES = 50
"""Lines at the start of a session that are searched for a timestamp."""


MAX_FOLDER = 1000
"""Characters of the path of a working folder; a longer one is cut off."""


class OpenTurn(NamedTuple):
    """A turn without an end. Most tools do not record the end of the last turn."""

    id: str
    spent: Block
    """The `usage` and `costUsd` that its end would have now."""
    is_over: bool = False
    """True if its answer is complete, and only usage may follow."""
    calls: Mapping[str, str] = MappingProxyType({})
    """The tools of calls without a result, by the id of the call, in order."""
    open_text: Literal["text", "thinking"] | None = None
    """The kind of the last text that is still streamed."""


class OpenText(NamedTuple):
    """A part of the beginning of an open text."""

    number: int
    """Identifies the text in its session."""
    start: int
    """Offset in characters."""
    text: str


class SavedState(NamedTuple):
    """The state for a store, which keeps the beginnings of open texts apart: they only grow."""

    state: str | None
    """The state as JSON; None if nothing is open."""
    added: list[OpenText]
    """The parts after the beginnings that are stored."""
    ended: list[int]
    """The texts that are no longer open."""


class Normalizer:
    """Derives the events of a stream or session, line by line."""

    def __init__(
        self,
        source: str | None = None,
        *,
        state: str | None = None,
        open_texts: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """`source` is the declared format of the texts; `state` continues another normaliser.

        After `save`, `open_texts` are the stored beginnings of open texts by number. Only the end of a text needs them:
        without them it raises OpenTextMissing, and this normaliser cannot be used any more.
        """
        self._source = source
        self._output = LineOutput(decode_state(state), streaming.close_open)
        self._stored_lengths = {
            slot.text_number: slot.beginning_length for slot in self._output.state.slots if slot.text_number
        }
        self._facts = NO_FACTS
        for slot in self._output.state.slots:
            if slot.text_number in open_texts:
                slot.beginning.append(open_texts[slot.text_number])

    def expect(self, lines: Iterable[Line], now: int) -> None:
        """Read the first timestamp of a session ahead, for the lines before it that have none."""
        timestamps = (line.header.timestamp for line in islice(lines, FIRST_LINES))
        if (first := next(filter(None, timestamps), None)) is not None:
            self._output.set_lag(first, now)

    def check_open_texts(self, lines: Iterable[Line]) -> None:
        """Raise OpenTextMissing if one of the next lines needs the beginning of an open text, instead of in `follow`.

        Without it, `follow` may still raise: a text also ends with its turn.
        """
        missing = [slot for slot in self._output.state.slots if slot.is_beginning_missing]
        if not missing:
            return
        for slot, line in product(missing, lines):
            if any(streaming.needs_whole_text(slot, step) for step in line.steps):
                raise OpenTextMissing

    def normalize(self, chunk: RawMessage, context: Context) -> list[ChatEvent]:
        """Return the events of the next message, or chunk of a stream: a text, or the decoded object or list.

        Never raises on texts; raises TypeError for anything but a text or JSON.
        """
        return list(map(read_event, self.follow(parse_line(chunk, self._source), context)))

    def end(self, context: Context) -> list[ChatEvent]:
        """Return the events that close open items at the end of the input."""
        return list(map(read_event, self.close(context)))

    def state(self) -> str | None:
        """Return the state for another normaliser to continue with; None if nothing is open."""
        return encode_state(with_whole_texts(self._output.state))

    def state_without_texts(self) -> str | None:
        """Return the state without the beginnings of long open texts; None if nothing is open."""
        return encode_state(self._output.state)

    def save(self) -> SavedState:
        """Return the state in parts of bounded size, for another normaliser to continue with."""
        state = self._output.state
        added: list[OpenText] = []
        for slot in state.slots:
            if slot.beginning_length and not slot.text_number:
                state.stored_texts += 1
                slot.text_number = state.stored_texts
            start = self._stored_lengths.get(slot.text_number, 0)
            if slot.beginning_length > start:
                beginning = "".join(slot.beginning)
                added.append(OpenText(slot.text_number, start, beginning[start - slot.beginning_length :]))
        ended = self._stored_lengths.keys() - {slot.text_number for slot in state.slots}
        return SavedState(encode_state(state), added, sorted(ended))

    def open_turn(self) -> OpenTurn | None:
        """Return the open turn, if any."""
        state = self._output.state
        turn = state.turn
        if turn is None:
            return None
        calls = {id: call.tool for id, call in state.calls.items() if call.state in ("asked", "left")}
        return OpenTurn(turn.id, counting.costs_of_turn(turn), turn.is_over, calls, _open_text(state))

    @property
    def is_inherited(self) -> bool:
        """True if the last line was inherited from another session."""
        return self._output.state.own_ordinal is not None

    def follow(self, line: Line, context: Context) -> list[Event]:
        """Same as `normalize`, for a parsed line; events in wire form."""
        output = self._output
        state = output.state
        output.start_line(line, context)
        turns_before, is_running = state.turns, _is_running(state)
        _follow_header(state, line.header)
        if state.own_ordinal is not None or not state.has_records:
            state.own_ordinal = next_own_ordinal(
                state.own_ordinal, line.header, is_first=not state.has_records
            )
        if context.turn_id is not None:
            turns.leave_other_turn(output)
        answer = state.last_streamed
        new_steps = (
            line.steps if answer is None else assembled_answers.without_copy(state, answer, line.steps)
        )
        has_documents = steps.DocumentStart in map(type, new_steps)
        for step in documents.changed_steps(output, new_steps) if has_documents else new_steps:
            if not output.state.replay or _is_link(step):
                _HANDLERS[step.__class__](output, step)
        self._facts = facts_of_line(output, turns_before=turns_before, is_running=is_running)
        if output.state.has_records:
            return output.events
        if line.source != "unknown" or any(step.__class__ in _STREAM_STEPS for step in line.steps):
            output.state.has_records = True
        return output.events

    def close(self, context: Context) -> list[Event]:
        """Same as `end`, with events in wire form.

        An end without events does not change the state, since a rebuild could not repeat it.
        """
        output, before = self._output, encode_state(self._output.state)
        output.start_line(EMPTY_LINE, context)
        is_cut = output.state.is_cut()
        output.close_open(output)
        emit_messages.release_answers(output)
        queued_prompts.emit_all_unsent(output)
        turn = output.state.turn
        if turn is not None:
            is_cut = is_cut or (turn.has_explicit_end and not turn.is_over)
            turns.end_unfinished_turn(output, turn, is_cut=is_cut)
        self._facts = facts_of_line(output, turns_before=output.state.turns, is_running=False)
        output.state = output.state.after_the_end() if output.events else decode_state(before)
        return output.events

    def observe(self, event: Event) -> None:
        """Update the state with an event that a client posted: derived events continue its turn."""
        output, state = self._output, self._output.state
        output.answers, output.tools, output.servers = [], _tools_of(state, event), {}
        turns_before, is_running = state.turns, _is_running(state)
        posted_events.observe(output, event)
        self._facts = NO_FACTS
        if event["type"] in posted_events.NOTED and isinstance(event.get("payload"), dict):
            is_new_turn = output.state.turns > turns_before
            output.undated_events = set()
            self._facts = facts_of_posted(output, event, is_new_turn=is_new_turn, is_running=is_running)

    @property
    def answers(self) -> list[AnswerUsage]:
        """The usage of the answers that the last line, posted event or end states or corrects, in order.

        A key may occur several times: the last value replaces the others (`last_values`).
        """
        return self._output.answers

    @property
    def facts(self) -> LineFacts:
        """What the last line, posted event or end adds to the facts of the session."""
        return self._facts


def _open_text(state: State) -> Literal["text", "thinking"] | None:
    kinds = [slot.kind for slot in state.slots if slot.kind in ("text", "thinking")]
    return kinds[-1] if kinds else None


def _is_running(state: State) -> bool:
    return state.turn is not None and state.turn.phase == "running"


def _tools_of(state: State, event: Event) -> dict[str, str]:
    """Return the tool of the call of a posted result, by the id of the call."""
    payload = event.get("payload")
    id = payload.get("toolCallId") if event["type"] == "tool_result" and isinstance(payload, dict) else None
    return {id: state.calls[id].tool} if isinstance(id, str) and id in state.calls else {}


def _is_link(step: steps.Step) -> bool:
    return isinstance(step, steps.Part) and step.relation in RESOLVERS


_STREAM_STEPS = (steps.Chunk, steps.ResponseStart, steps.ResponseEnd)

_TURN_TRIGGERS: Mapping[str, turns.Trigger] = {
    name: row.trigger for name, row in CATALOGUE.items() if row.trigger in ("callback", "system")
}
"""Events that belong to a turn, with the trigger of the turn that they start if none is open."""


def _emit_event(output: LineOutput, step: steps.Emit) -> None:
    payload = step.payload
    once_key = f"agent/{payload['messageId']}" if step.type == "agent_message" else ""
    if repetitions.is_repeated_event(output.state, once_key):
        return
    if step.key and not repetitions.is_first_of_session(output.state, step.key):
        return
    if step.type in _TURN_TRIGGERS:
        turn = turns.activate_turn(output, _TURN_TRIGGERS[step.type])
        if output.has_local_ids:
            payload = {**payload, "messageId": turns.scoped_id(payload["messageId"], turn)}
    repetitions.record_event(output.state, once_key)
    output.emit(step.type, payload, Place(output.sidechain_call))


def _set_scope(output: LineOutput, step: steps.Scope) -> None:
    output.parent_call, output.has_local_ids = step.parent_call, step.has_local_ids
    output.sidechain_call = ""


def _set_header(output: LineOutput, step: steps.RecordStart) -> None:
    output.header = step.header
    _follow_header(output.state, step.header)


def _follow_header(state: State, header: RecordHeader) -> None:
    """Record the model and the folder for the answers of later records."""
    if header.model is not None:
        state.model = answers.model_name(header.model) or state.model
    folder, branch = header.folder, header.branch
    if folder is not None and folder != state.folder and folder[:MAX_FOLDER] != state.folder:
        state.folder, state.branch = folder[:MAX_FOLDER], ""
    if branch is not None and branch != state.branch:
        state.branch = branch[:MAX_NAME]
    if header.agent:
        state.is_of_subagent = True


_HANDLERS: Mapping[type, Callable[[LineOutput, Any], None]] = {
    steps.Chunk: streaming.add_chunk,
    steps.ChunkEnd: streaming.end_chunks,
    steps.CurrentAgent: agents.follow_agent,
    steps.Emit: _emit_event,
    steps.Part: complete_messages.emit_part,
    steps.RecordStart: _set_header,
    steps.ResponseEnd: streaming.end_response,
    steps.ResponseStart: streaming.start_response,
    steps.Scope: _set_scope,
    steps.TurnEnd: turns.end_turn_explicitly,
    steps.TurnStart: lambda output, step: turns.start_explicit_turn(output, step.trigger, step.id),
}
