"""From the lines of a session, or the pieces of a stream, to its events.

Providers say in `steps` what each record adds; here the steps are followed one after the other. All that has to be
remembered between two lines is the `state`, small JSON: a stream may be cut anywhere, and another process may go on
with it, and the events are the same.

Where the same thing is told twice (pieces and the whole, twins of two record kinds, a last text that repeats), it
becomes one event. What is open when a stream ends is closed with what is there, and nothing is made up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from ash_shared.blocks import Block, pick
from ash_shared.events import CHUNKS, ChatEvent, read_event
from ash_shared.message import Facts, Role
from ash_shared.parse import Read, read_raw
from ash_shared.steps import (
    Closed,
    Counted,
    Fragment,
    Interrupts,
    Part,
    Passes,
    ResponseEnds,
    ResponseStarts,
    Says,
    Settled,
    Speaker,
    Step,
    Stray,
    Taken,
    TurnEnds,
    TurnStarts,
    Whole,
)
from ash_shared.wire import input_of, placed, unfinished

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


NORMALIZER_VERSION = 1
"""Raised whenever stored lines give other events than before: `ash events rebuild` derives them anew."""


def read_line(raw: str | bytes, source: str | None = None, role: Role | None = None) -> Line:
    """What a stored text adds. `role` is what its writer said of it. Never raises."""
    return line_of(read_raw(raw, source), source, role)


def line_of(
    read: Read, source: str | None = None, role: Role | None = None, *, facts: Facts | None = None
) -> Line:
    """As `read_line`, for what was read already; `facts` are those of it, where they are at hand."""
    return Line(read.steps(source, role), read.facts() if facts is None else facts, read.source(source))


class _Slot(msgspec.Struct, omit_defaults=True):
    """Something that is being written."""

    name: str
    kind: Literal["text", "thinking", "input"]
    lane: str = ""
    response: str | None = None
    text: str = ""
    call: str = ""
    tool: str = ""
    given: Any = ""
    more: dict[str, Any] = {}
    is_whole: bool = False
    is_built: bool = False
    """Whether `given` holds the arguments, and the text only shows them."""
    is_named: bool = True
    """Of input: whether the provider gave the call an id."""


class _Response(msgspec.Struct, omit_defaults=True):
    id: str | None = None
    told: list[str] = []
    """The slots that became events."""
    outputs: dict[str, str] = {}
    """By slot: the call whose output it is."""
    is_begun: bool = False
    """Whether the wire said that it begins, and so will say that it ends."""
    is_over: bool = False


class _Call(msgspec.Struct, omit_defaults=True):
    tool: str
    written: int = 0
    """Characters of output so far."""
    is_named: bool = True
    """Whether the provider gave it an id."""
    is_hosted: bool = False
    """Whether the provider runs the tool itself."""
    is_left: bool = False
    """Whether another answer began without its result, or it was never written to its end."""
    is_answered: bool = False
    is_old: bool = False
    """Whether it is of a turn that is over."""
    is_unseen: bool = False
    """Whether only what it wrote was seen, and not the call."""
    is_copy: bool = False
    """Whether a copy was told, and the original may still come."""


class _Turn(msgspec.Struct, omit_defaults=True):
    id: str
    is_told: bool = False
    """Whether the format says when it ends."""
    is_fresh: bool = True
    """Whether nothing but the prompt was said yet."""
    has_text: bool = False
    is_over: bool = False
    """Whether nothing but usage may follow."""
    is_partial: bool = False
    usage: dict[str, Any] = {}
    """By answer; those of long ago are added up under an empty key."""
    cost: float | None = None
    costs: dict[str, float] = {}
    """Of its last answers."""
    pieces: int = 0
    """How many characters of text have come in pieces."""
    checksum: int = 0
    """Of all of these together."""


class _Held(msgspec.Struct, omit_defaults=True):
    """A copy of what may be told once more by the record that counts."""

    role: Literal["user", "assistant"]
    text: str
    blocks: list[Block]
    turn: int
    """How many turns there were when it came."""
    response: str | None = None
    lane: str = ""
    record: str | None = None
    timestamp: int | None = None
    synthetic: bool = False

    def is_part_of(self, text: str) -> bool:
        """Of reasoning, which is told once piece by piece and once in all."""
        return self.blocks[0]["type"] == "thinking" and self.text in text


class _State(msgspec.Struct, omit_defaults=True):
    turn: _Turn | None = None
    turns: int = 0
    responses: dict[str, _Response] = {}
    """By lane, which is the call that started a subagent; the main conversation has none."""
    slots: list[_Slot] = []
    calls: dict[str, _Call] = {}
    held: list[_Held] = []
    said: list[str] = []
    """Digests of texts that were told, and of which no copy has come yet."""
    copied: list[str] = []
    """Digests of copies that were told, and of which the original has not come yet."""
    told: dict[str, dict[str, str]] = {}
    """By key of a part that may be told anew: digests of what it said, with the ids of the events of texts."""
    pieced: list[str] = []
    """Answers that came whole, piece by piece: a part that may be told anew may repeat them."""
    results: dict[str, dict[str, Any]] = {}
    """By call: what belongs to a result that has not come yet."""
    once: list[str] = []
    """Digests of what is told once until the next turn begins."""
    counted: str = ""
    """Digest of the key of the usage that came last."""
    costs: float = 0.0
    paid_by: str = ""
    is_interrupted: bool = False
    """Whether the last turn was, and no other has begun."""
    sent: dict[str, int] | None = None
    """How often each thing was told, by digest, since a record held several messages: such a one may be followed by
    others that hold them again, as requests do."""
    speakers: dict[str, Speaker] = {}
    """By key of a message that is written apart from its parts."""
    has_records: bool = False
    """Whether a line of a known format has come."""


_MOST_SENT = 2000
_MOST_HELD, _MOST_SAID, _MOST_TOLD, _MOST_CALLS, _MOST_ANSWERED, _MOST_USAGES = 50, 16, 32, 1000, 100, 8

_encode_state = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(_State).decode
_encode = msgspec.json.Encoder(order="sorted").encode


class Normalizer:
    """The events of one stream, or of one session, in the order of its lines."""

    def __init__(self, source: str | None = None, *, state: str | None = None) -> None:
        """`source` names the format of texts that do not say it; `state` is what another one left."""
        self._source = source
        self._state = _restored(state)
        self._context = Context("", str, int)
        self._line = Line((), Facts(), "unknown")
        self._events: list[Event] = []
        self._again: dict[str, int] = {}
        """What this line may hold once more, and how often."""

    def normalize(self, chunk: str | bytes, context: Context) -> list[ChatEvent]:
        """The events of the next line, or piece of a stream. Never raises."""
        return list(map(read_event, self.follow(read_line(chunk, self._source), context)))

    def end(self, context: Context) -> list[ChatEvent]:
        """The events that close what is open: nothing follows."""
        return list(map(read_event, self.close(context)))

    def state(self) -> str | None:
        """What another normaliser needs to go on; None where nothing is open."""
        return None if self._state == _State() else _encode_state(self._state).decode()

    def follow(self, line: Line, context: Context) -> list[Event]:
        """As `normalize`, for what was read already, in wire form."""
        self._context, self._line, self._events = context, line, []
        self._again = dict(self._state.sent or ())
        for step in line.steps:
            _FOLLOW[step.__class__](self, step)
        if line.source != "unknown":
            self._state.has_records = True
        return self._events

    def close(self, context: Context) -> list[Event]:
        """As `end`, in wire form."""
        self._context, self._line, self._events = context, Line((), Facts(), "unknown"), []
        state = self._state
        is_cut = self._is_cut()
        self._close_all()
        self._release(state.held)
        if state.turn is not None:
            waits = any(not (call.is_answered or call.is_old) for call in state.calls.values())
            if (state.turn.is_told and not state.turn.is_over) or is_cut:
                self._emit("interrupt", {"reason": "error"})
                self._end_turn(partial=True)
            else:
                self._end_turn(partial=waits and not state.turn.is_over)
        self._state = _State(
            turns=state.turns,
            costs=state.costs,
            paid_by=state.paid_by,
            has_records=state.has_records,
            sent=state.sent,
        )
        return self._events

    def observe(self, event: Event) -> None:
        """Takes note of an event that somebody else put into the log: what is derived goes on in its turn. What is not
        as an event has it is not noted."""
        wire, payload = event["type"], event.get("payload")
        note = _NOTES.get(wire)
        if note is not None and payload.__class__ is dict:
            note(self, event, payload)

    def _note_begin(self, event: Event, payload: Block) -> None:
        turn = event.get("turnId")
        if turn.__class__ is not str and event["type"] == "turn_start":
            turn = event.get("id")
        if turn.__class__ is str and turn and turn != self._turn_id():
            if not self._state.slots:
                self._forget_turn()
            self._begin(turn, is_told=event["type"] == "turn_start")

    def _note_end(self, event: Event, payload: Block) -> None:
        if event.get("turnId", self._turn_id()) == self._turn_id():
            self._forget_turn()

    def _note_said(self, event: Event, payload: Block) -> None:
        """The assistant is at work, in the turn that it names where none is open."""
        if self._state.turn is None:
            self._note_begin(event, payload)
        turn = self._state.turn
        if turn is None or event.get("turnId", turn.id) != turn.id:
            return
        turn.is_fresh = False
        if event["type"] == "assistant_done" and "parentToolCallId" not in payload:
            turn.has_text = True
        id, tool = payload.get("toolCallId"), payload.get("toolName")
        if event["type"] == "tool_call" and id.__class__ is str and tool.__class__ is str:
            self._note_call(id, tool)

    def _note_output(self, event: Event, payload: Block) -> None:
        call = self._call_of(payload)
        chunk, offset = payload.get("chunk"), payload.get("offset")
        if call is not None and chunk.__class__ is str and offset.__class__ is int:
            call.written = max(call.written, offset + len(chunk))

    def _note_result(self, event: Event, payload: Block) -> None:
        if self._call_of(payload) is not None:
            self._answered(payload["toolCallId"])

    def _call_of(self, payload: Block) -> _Call | None:
        id = payload.get("toolCallId")
        return self._state.calls.get(id) if id.__class__ is str else None

    def _note_reset(self, event: Event, payload: Block) -> None:
        """What comes after is another reading of all."""
        self._state = _State(has_records=self._state.has_records)

    # --- Turns

    def _turn_id(self) -> str | None:
        return self._state.turn.id if self._state.turn is not None else None

    def _begin(self, id: str, *, is_told: bool) -> _Turn:
        self._state.turn = turn = _Turn(id, is_told=is_told)
        self._state.is_interrupted = False
        self._state.turns += 1
        self._state.once = []
        return turn

    def _start_turn(self, trigger: str, id: str | None = None, *, is_told: bool = False) -> _Turn:
        own = self._context.generate_event_id()
        turn = self._begin(id or own, is_told=is_told)
        self._emit("turn_start", {"trigger": trigger}, id=own)
        return turn

    def _starts_turn(self, step: TurnStarts) -> None:
        turn = self._state.turn
        if turn is not None and turn.is_fresh and not turn.is_over:
            turn.is_told = True
            return
        if turn is not None and step.id is not None and step.id == turn.id:
            return
        self._break_off()
        self._start_turn(step.trigger, step.id, is_told=True)

    def _break_off(self) -> None:
        """Something new begins: the turn before it is over, or was left."""
        turn = self._state.turn
        if turn is None:
            return
        is_cut = not turn.is_over and (turn.is_told or self._is_cut())
        if is_cut:
            self._close_all()
            self._emit("interrupt", {"reason": "error"})
        waits = any(not (call.is_answered or call.is_old) for call in self._state.calls.values())
        self._end_turn(partial=is_cut or (waits and not turn.is_over))

    def _is_cut(self) -> bool:
        """Whether an answer was left in the midst."""
        state = self._state
        is_open = any(slot.text and not slot.is_whole for slot in state.slots)
        return is_open or any(known.is_begun and not known.is_over for known in state.responses.values())

    def _ends_turn(self, step: TurnEnds, *, partial: bool = False) -> None:
        turn = self._state.turn
        cost = None
        if step.total_cost is not None:
            session, before = self._line.facts.session_id or "", self._state.costs
            told = before if session == self._state.paid_by and before <= step.total_cost else 0.0
            cost = step.total_cost - told
            self._state.costs, self._state.paid_by = step.total_cost, session
        if turn is None:
            return
        if step.usage is not None:
            turn.usage = {"": step.usage}
        turn.cost = turn.cost if cost is None else cost
        self._end_turn(partial=partial)

    def _end_turn(self, *, partial: bool = False) -> None:
        turn = self._state.turn
        if turn is None:
            return
        self._close_all()
        payload: Block = {}
        if turn.usage:
            payload["usage"] = _sum(turn.usage.values())
        if turn.cost is not None:
            payload["costUsd"] = turn.cost
        if partial or turn.is_partial:
            payload["partial"] = True
        self._emit("turn_end", payload)
        self._forget_turn()

    def _forget_turn(self) -> None:
        state = self._state
        state.turn = None
        state.responses, state.slots, state.results = {}, [], {}
        state.said = [text for text in state.said if not text.startswith("a")]
        state.copied = [text for text in state.copied if not text.startswith("a")]
        state.calls = {id: call for id, call in state.calls.items() if not call.is_answered}
        for call in state.calls.values():
            call.is_old = True

    def _interrupts(self, step: Interrupts) -> None:
        is_open = self._state.turn is not None and not self._state.turn.is_over
        if not is_open and (step.if_open or self._state.is_interrupted):
            self._ends_turn(step.end or TurnEnds())
            return
        self._ensure_turn()
        self._close_all()
        if step.error is not None:
            self._emit("error", step.error)
        self._emit("interrupt", {"reason": step.reason})
        turn = self._state.turn
        if step.ends or turn is None or not turn.is_told:
            self._ends_turn(step.end or TurnEnds(), partial=True)
        else:
            turn.is_over = turn.is_partial = True
        self._state.is_interrupted = True

    def _ensure_turn(self, trigger: Literal["user", "callback", "system"] = "system") -> _Turn:
        if self._state.turn is not None and self._state.turn.is_over:
            self._end_turn()
        return self._state.turn or self._start_turn(trigger)

    def _active(self) -> _Turn:
        """The turn of something that the assistant or a tool did."""
        turn = self._ensure_turn()
        turn.is_fresh = False
        return turn

    # --- Pieces

    def _response(self, lane: str) -> _Response:
        return self._state.responses.setdefault(lane, _Response())

    def _starts_response(self, step: ResponseStarts) -> None:
        known = self._state.responses.get(step.lane)
        if known is not None:
            is_nameless = step.id is None and not (step.is_stable and known.is_over)
            is_same = is_nameless or step.id == known.id or known.id is None
            if step.resumes and step.id is not None and step.id == known.id:
                return
            if not step.is_explicit and (is_same or not (known.is_over or step.is_stable)):
                known.id = known.id or step.id
                return
            self._leave(step.lane)
        if self._state.turn is not None and self._state.turn.is_over:
            self._end_turn()
        self._state.is_interrupted = False
        for call in self._state.calls.values():
            call.is_left = True
        self._state.responses[step.lane] = _Response(step.id, is_begun=step.is_explicit)

    def _ends_response(self, step: ResponseEnds) -> None:
        more = {} if step.stop_reason is None else {"stopReason": step.stop_reason}
        slots = [slot for slot in self._state.slots if slot.lane == step.lane]
        ended = [slot for slot in slots if slot.name.startswith(step.prefix)]
        for slot in ended:
            cut = {"partial": True} if step.is_partial and not slot.is_whole else {}
            self._tell(slot, {**more, **cut} if slot.kind == "text" else cut)
        if len(ended) < len(slots):
            return
        response = self._response(step.lane)
        response.is_over = True
        if response.id is not None and response.told and not step.is_partial:
            known = [id for id in self._state.pieced if id != response.id]
            self._state.pieced = [*known, response.id][-_MOST_TOLD:]
        if step.is_final and self._state.turn is not None and not (step.unless_called and self._waits()):
            self._state.turn.is_over = True

    def _counted(self, step: Counted) -> None:
        turn = self._state.turn
        if turn is None and step.revises and step.usage is not None:
            turn = self._ensure_turn()
        if turn is None:
            return
        if step.usage is not None and step.revises:
            key = step.key or self._open_response("") or "open"
            self._count(turn, key, _revised(turn.usage.get(key, {}), step.usage))
        elif step.usage is not None:
            self._count(turn, step.key, step.usage)
        if turn.is_over:
            self._end_turn()

    def _count(self, turn: _Turn, key: str, usage: Block) -> None:
        if not key:
            turn.usage[""] = _sum([turn.usage.get("", {}), usage])
            return
        turn.usage.pop(key, None)
        turn.usage[key] = usage
        if len(turn.usage) > _MOST_USAGES:
            oldest = next(name for name in turn.usage if name)
            turn.usage[""] = _sum([turn.usage.get("", {}), turn.usage.pop(oldest)])

    def _fragment(self, piece: Fragment) -> None:
        if piece.kind == "output":
            self._output(piece)
            return
        slot = self._slot(piece)
        if slot is None:
            return
        slot.more = _joined(slot.more, piece.more)
        added = piece.text[len(slot.text) :] if piece.is_whole else piece.text
        if piece.path:
            added = _built(slot, piece)
        if piece.is_last and (slot.is_whole or not slot.text):
            slot.text, slot.is_whole = slot.text + added, True
            return
        if not added:
            return
        payload: Block = {"text": added}
        if slot.kind == "input":
            payload = {
                "toolCallId": slot.call,
                "toolName": slot.tool,
                "chunk": added,
                "offset": len(slot.text),
            }
        slot.text += added
        if slot.kind == "text" and not slot.lane and (turn := self._state.turn) is not None:
            turn.pieces, turn.checksum = turn.pieces + len(added), _checksum(added, turn.checksum)
        self._emit(f"{_SPOKEN[slot.kind]}_chunk", {**payload, **piece.more}, slot.lane, slot.response)

    def _slot(self, piece: Fragment) -> _Slot | None:
        """The open one, which begins with its first piece; None for what was told already."""
        for slot in self._state.slots:
            if slot.name == piece.slot and slot.lane == piece.lane:
                if not _is_other_call(slot, piece):
                    return slot
                self._tell(slot)
                break
        response = self._response(piece.lane)
        if piece.kind == "output" or (_is_told(piece.slot, response) and not piece.reopens):
            return None
        if response.is_over and response.id is not None and self._state.turn is not None:
            response.is_over = self._state.turn.is_over = False  # that was the end of one of several
        turn = self._active()
        call = (self._scoped(piece.call, turn) if piece.scoped else piece.call) or ""
        is_named = piece.kind != "input" or bool(call)
        if not is_named:
            call = self._context.generate_event_id()
        slot = _Slot(
            piece.slot,
            piece.kind,
            lane=piece.lane,
            response=piece.response or response.id,
            call=call,
            tool=piece.name or "",
            given=piece.given,
            is_named=is_named,
        )
        self._state.slots.append(slot)
        return slot

    def _output(self, piece: Fragment) -> None:
        turn = self._active()
        id = (self._scoped(piece.call, turn) if piece.scoped else piece.call) or ""
        outputs = self._response(piece.lane).outputs if piece.slot else {}
        id = outputs.setdefault(piece.slot, id) if id else outputs.get(piece.slot, "")
        if not id:
            return
        call = self._state.calls.get(id)
        if call is None:
            call = self._note_call(id, piece.name or "")
            call.is_unseen = True
        added = piece.text[call.written :] if piece.is_whole else piece.text
        if added and not call.is_answered:
            payload = {"toolCallId": id, "chunk": added, "offset": call.written, **piece.more}
            call.written += len(added)
            self._emit("tool_output_chunk", payload, piece.lane)

    def _closed(self, step: Closed) -> None:
        for slot in self._state.slots:
            if slot.name == step.slot and slot.lane == step.lane:
                slot.text = slot.text if step.text is None else step.text
                slot.is_whole = True
                slot.more = {**slot.more, **step.more}
                if not step.waits:
                    self._tell(slot)
                return

    def _settled(self, step: Settled) -> None:
        for slot in list(self._state.slots):
            if slot.kind in step.kinds and slot.lane == step.lane and slot.name.startswith(step.prefix):
                self._tell(slot)

    def _close_all(self) -> None:
        """Of the turn that is left; what a person has asked for in it may be answered in the next."""
        for lane in dict.fromkeys(slot.lane for slot in self._state.slots):
            self._leave(lane)
        self._tell_copies()
        turns = self._state.turns
        self._release([held for held in self._state.held if held.role == "assistant" or held.turn < turns])

    def _leave(self, lane: str) -> None:
        """Closes what is open with what is there."""
        for slot in [slot for slot in self._state.slots if slot.lane == lane]:
            self._tell(slot, {} if slot.is_whole else {"partial": True})

    def _tell(self, slot: _Slot, more: Block | None = None) -> None:
        self._state.slots.remove(slot)
        self._response(slot.lane).told.append(slot.name)
        if self._state.sent is not None:
            self._note_sent(_sent_as("assistant", _block_of(slot)))
        beside = {**slot.more, **(more or {})}
        if slot.text:
            beside.pop("redacted", None)
        if slot.kind == "input":
            if slot.tool or slot.text:
                args = input_of(slot.text) if slot.text and not slot.is_built else slot.given
                self._call(slot.call, slot.tool, args, beside, slot.lane, slot.response)
                self._state.calls[slot.call].is_named = slot.is_named
        elif slot.text or not slot.more.keys().isdisjoint(("redacted", "signature")):
            self._speak(f"{_SPOKEN[slot.kind]}_done", {"text": slot.text, **beside}, slot.lane, slot.response)

    def _speak(self, wire: str, payload: Block, lane: str, response: str | None) -> None:
        turn = self._active()
        if wire == "assistant_done" and not lane:
            turn.has_text = True
        self._emit(wire, payload, lane, response)

    # --- Calls

    def _scoped(self, call: str | None, turn: _Turn) -> str | None:
        return call and f"{turn.id}/{call}"

    def _note_call(self, id: str, tool: str, *, is_named: bool = True) -> _Call:
        calls = self._state.calls
        calls.pop(id, None)
        if len(calls) >= _MOST_CALLS:
            del calls[next(iter(calls))]
        calls[id] = _Call(tool, is_named=is_named)
        return calls[id]

    def _waits(self) -> bool:
        """Whether a call of this answer waits for the user's side."""
        calls = self._state.calls.values()
        return any(not (call.is_answered or call.is_hosted or call.is_left) for call in calls)

    def _answered(self, id: str) -> None:
        """Those that were answered last are remembered until the turn ends."""
        calls = self._state.calls
        calls[id].is_answered = True
        answered = [known for known, call in calls.items() if call.is_answered]
        if len(answered) > _MOST_ANSWERED:
            del calls[answered[0]]

    def _call(  # one argument per part of the event
        self, id: str | None, tool: str, args: Any, more: Block, lane: str, response: str | None
    ) -> None:
        self._active()
        self._release_answers()
        own = self._context.generate_event_id()
        call = self._note_call(id or own, tool, is_named=bool(id))
        call.is_hosted = more.get("executor") is not None
        call.is_left = "partial" in more
        payload = {"toolCallId": id or own, "toolName": tool, "args": args, **more}
        self._emit("tool_call", payload, lane, response, id=own)

    def _result(self, step: Whole, block: Block, lane: str) -> None:
        turn, calls = self._active(), self._state.calls
        told = block.get("tool_use_id")
        id = self._scoped(told, turn) if step.scoped else told
        if id is None and step.slot is not None:
            id = self._response(lane).outputs.get(step.slot)
        if id is None or id not in calls:
            id = next((known for known, call in calls.items() if _may_answer(call, block)), id)
        if self._is_settled(step, id, block):
            return
        own = self._context.generate_event_id()
        block = {**self._state.results.pop(told or id or "", {}), **block}
        payload: Block = {"toolCallId": id or own, "result": block.get("content")}
        if block.get("is_error"):
            payload["error"] = {"code": "error", "message": _text_of(block.get("content"))}
        payload.update({name: block[key] for key, name in _RESULT_KEYS.items() if key in block})
        if id not in calls or calls[id].is_unseen:
            payload["orphan"] = True
        if id in calls:
            self._answered(id)
        self._emit("tool_result", payload, lane, id=own)

    def _is_settled(self, step: Whole, id: str | None, block: Block) -> bool:
        """Whether there is no result to tell: the log has it, or this copy waits for the original."""
        known = self._state.calls.get(id or "")
        if id is None or known is None:
            return False
        if known.is_answered:
            return step.part.replaces or step.part.echo or known.is_copy
        if step.holds and not known.is_copy:
            self._state.results.setdefault(id, {}).update(block)
            return True
        return False

    def _tell_copies(self) -> None:
        """Of results whose original has not come."""
        for id, block in list(self._state.results.items()):
            known = self._state.calls.get(id)
            if known is not None and not known.is_answered and block.get("type") == "tool_result":
                self._result(Whole(Part(role="user")), block, "")

    # --- Parts at rest

    def _whole(self, step: Whole) -> None:
        part, line = step.part, self._line
        if part.usage_of_turn and self._state.is_interrupted:
            self._account(part)
            return
        if part.id is not None or part.timestamp is not None:
            uuid, time = part.id or line.facts.uuid, part.timestamp
            time = line.facts.timestamp if time is None else time
            self._line = line._replace(facts=line.facts._replace(uuid=uuid, timestamp=time))
        speaker = self._speaker(part)
        if part.blocks:
            new = self._unsent(part)
            if not new.blocks:
                return
            _TELL[speaker](self, step if new is part else step._replace(part=new))
        self._beside(part)
        if self._line is not line:
            self._line = line._replace(facts=self._line.facts._replace(uuid=line.facts.uuid))

    def _unsent(self, part: Part) -> Part:
        """The part without what an earlier record held, where this one holds a whole conversation."""
        if part.original is not None and self._state.sent is None:
            self._state.sent = {}
        if self._state.sent is None or part.role is None:
            return part
        new = list[Block]()
        for block in part.blocks:
            digest = _sent_as(part.role, block)
            if part.original is not None and not part.replaces and self._again.get(digest):
                self._again[digest] -= 1
            else:
                new.append(block)
                self._note_sent(digest)
        return part if len(new) == len(part.blocks) else replace(part, blocks=new)

    def _note_sent(self, digest: str) -> None:
        sent = self._state.sent
        if sent is not None:
            sent[digest] = sent.get(digest, 0) + 1
            if len(sent) > _MOST_SENT:
                del sent[next(iter(sent))]

    def _speaker(self, part: Part) -> Speaker | None:
        """Where a message and its parts are written apart, the message tells whose they are."""
        if part.key is None or not part.keeps_key or part.role is None:
            return part.role
        speakers = self._state.speakers
        known = speakers.get(part.key, part.role)
        if not part.blocks:
            self._state.speakers = {**dict(list(speakers.items())[1 - _MOST_TOLD :]), part.key: known}
        return known

    def _beside(self, part: Part) -> None:
        """What a part says beside its blocks."""
        if part.retracts:
            self._emit("retraction", {"messageIds": list(part.retracts)})
        if part.rewinds_to is not None:
            self._emit("retraction", {"fromMessageId": part.rewinds_to})
        for call, more in part.results.items():
            known = self._state.calls.get(call)
            if known is None or not known.is_answered:
                self._state.results.setdefault(call, {}).update(more)
        if part.error is not None and not self._is_known(part.error, part):
            if part.role == "assistant":
                self._active()
            self._emit("error", dict(part.error))
        self._account(part)

    def _is_known(self, error: Block, part: Part) -> bool:
        """Whether an error that is a copy was told before."""
        said, digest = self._state.said, _digest(f"error{error['message']}".encode("utf-8", "replace"))
        if part.echo and digest in said:
            said.remove(digest)
            return True
        if not part.echo:
            self._state.said = [*said, digest][-_MOST_SAID:]
        return False

    def _account(self, part: Part) -> None:
        turn, cost = self._state.turn, part.metadata.get("costUsd")
        if turn is not None and isinstance(cost, int | float):
            self._pay(turn, part, float(cost))
        if part.usage_of_turn:
            self._ends_turn(TurnEnds(part.usage, part.total_cost))
        elif part.usage is not None and not self._was_counted(part) and turn is not None:
            key = part.usage_key or part.key or part.metadata.get("messageId")
            self._count(turn, key or "", part.usage)

    def _was_counted(self, part: Part) -> bool:
        """Whether this is the usage that came last, told once more, be it in another turn."""
        key = _digest(part.usage_key.encode("utf-8", "replace")) if part.usage_key is not None else ""
        is_known = bool(key) and key == self._state.counted
        self._state.counted = key or self._state.counted
        return is_known

    def _pay(self, turn: _Turn, part: Part, cost: float) -> None:
        """What a turn or one of its answers cost; an answer that is told once more is paid once."""
        if part.usage_of_turn:
            turn.cost = cost
            return
        key = part.usage_key or part.key or part.metadata.get("messageId") or ""
        turn.cost = round((turn.cost or 0.0) + cost - turn.costs.get(key, 0.0), 12)
        if key:
            turn.costs = {**dict(list(turn.costs.items())[1 - _MOST_USAGES :]), key: cost}

    def _answer(self, step: Whole) -> None:
        part, lane = step.part, _lane(step.part)
        if step.slot is not None and self._was_told(lane, step.slot):
            return
        said = _said(part)
        if step.sums_up and self._came_in_pieces(said):
            self._settled(Settled(("text",)))
            return
        if said and part.echo:
            if part.usage_of_turn:
                if self._has_text():
                    return
            else:
                self._copy("assistant", said, part)
                return
        self._take_slots(step, lane)
        if said and not part.echo and not self._counts("assistant", said):
            return
        response = part.metadata.get("messageId") or part.key or self._open_response(lane)
        self._tell_anew(
            step,
            [(block, partial(self._block, step, block, lane, response)) for block in part.blocks],
        )
        if step.slot is not None:
            self._response(lane).told.append(step.slot)

    def _came_in_pieces(self, text: str) -> bool:
        """Whether this is all that was said in the turn, which was told piece by piece."""
        turn = self._state.turn
        came = (turn.pieces, turn.checksum) if turn is not None else (0, 0)
        return bool(text) and came == (len(text), _checksum(text))

    def _has_text(self) -> bool:
        """Whether the turn has said something, or holds back what it said."""
        turn, held = self._state.turn, self._state.held
        is_held = any(copy.role == "assistant" and copy.blocks[0]["type"] == "text" for copy in held)
        return is_held or (turn is not None and turn.has_text)

    def _was_told(self, lane: str, slot: str) -> bool:
        known = self._state.responses.get(lane)
        return known is not None and any(told == slot or told.startswith(f"{slot}/") for told in known.told)

    def _open_response(self, lane: str) -> str | None:
        known = self._state.responses.get(lane)
        return known.id if known is not None else None

    def _take_slots(self, step: Whole, lane: str) -> None:
        """The pieces of what is told now as a whole are done with."""
        if step.slot is not None:
            self._state.slots = [
                slot
                for slot in self._state.slots
                if slot.lane != lane or not (slot.name == step.slot or slot.name.startswith(f"{step.slot}/"))
            ]
            return
        for block in step.part.blocks:
            kind = _SLOT_OF.get(block["type"])
            found = [slot for slot in self._state.slots if slot.kind == kind and slot.lane == lane]
            named = [slot for slot in found if kind == "input" and slot.call == block.get("id")]
            for slot in (named or found)[:1]:
                self._state.slots.remove(slot)
                self._response(lane).told.append(slot.name)

    def _block(self, step: Whole, block: Block, lane: str, response: str | None) -> None:
        """Of what the assistant said and did."""
        wire = block["type"]
        if wire == "text":
            if block["text"]:
                told = {"text": block["text"], **_beside(block, _OF_TEXT), **step.more}
                if told.get("phase").__class__ is not str:  # the vocabulary of blocks does not name it
                    told.pop("phase", None)
                self._speak("assistant_done", told, lane, response)
        elif wire == "thinking":
            told = {"text": block["thinking"], **pick(block, "signature", "redacted"), **step.more}
            self._speak("thinking_done", told, lane, response)
        elif wire == "tool_use":
            self._use(step, block, lane, response)
        elif wire == "tool_result":
            self._result(step, block, lane)
        elif wire == "raw":
            self._raw(block)
        else:
            self._speak("assistant_done", {"text": "", "content": [block]}, lane, response)

    def _use(self, step: Whole, block: Block, lane: str, response: str | None) -> None:
        id = block.get("id")
        id = self._scoped(id, self._active()) if step.scoped else id
        if self._is_called(step.part, id):
            return
        more = {**pick(block, "executor"), **step.more}
        self._call(id, block["name"], block["input"], more, lane, response)
        if step.part.echo and id is not None:
            self._state.calls[id].is_copy = True

    def _is_called(self, part: Part, id: str | None) -> bool:
        """Whether the log has this call: of an item that changes, or of a copy or its original."""
        known = self._state.calls.get(id or "")
        return known is not None and (part.replaces or part.echo or known.is_copy)

    def _raw(self, block: Block) -> None:
        if block["reason"] in _UNCOVERED:
            self._emit("raw", {"source": self._line.source, "raw": block.get("raw", block.get("text"))})

    def _user(self, step: Whole) -> None:
        part, lane, said = step.part, _lane(step.part), _said(step.part)
        results = [block for block in part.blocks if block["type"] == "tool_result"]
        others = [block for block in part.blocks if block["type"] != "tool_result"]
        if said and not results:
            if part.echo and step.holds:
                self._copy("user", said, part)
                return
            if not (self._copies("user", said) if part.echo else self._counts("user", said)):
                return
        units: list[_Unit] = [(block, partial(self._result, step, block, lane)) for block in results]
        if others:
            synthetic = bool(part.metadata.get("synthetic"))
            is_prompt = not (results or lane or step.within or part.metadata.get("agentId"))
            units.append(
                ({"said": others}, partial(self._say, others, lane, is_prompt=is_prompt, synthetic=synthetic))
            )
        self._tell_anew(step, units)

    def _say(self, blocks: list[Block], lane: str, *, is_prompt: bool, synthetic: bool) -> None:
        """What the user said, or the tool in the user's name."""
        for block in blocks:
            if block["type"] == "raw":
                self._raw(block)
        blocks = [block for block in blocks if block["type"] != "raw"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if blocks and all(block.get("variant") == "summary" for block in blocks):
            self._emit("summary", {"text": "\n\n".join(texts)})
        elif blocks:
            payload: Block = {"text": "\n\n".join(texts)}
            if len(blocks) > 1 or not texts:
                payload["content"] = blocks
            if synthetic:
                payload["synthetic"] = True
            else:
                self._release_answers()
                self._prompt() if is_prompt else self._ensure_turn()
            self._emit("user_message", payload, lane)

    def _prompt(self) -> None:
        """A turn begins, unless the open one has just begun, or its end will be told."""
        turn = self._state.turn
        if turn is not None and not turn.is_over and (turn.is_fresh or turn.is_told):
            return
        self._break_off()
        self._start_turn("user")

    def _system(self, step: Whole) -> None:
        part = step.part
        for block in part.blocks:
            if block["type"] == "raw":
                self._raw(block)
            elif block["type"] == "text" and not (block.get("variant") == "error" and part.error is not None):
                self._emit(*_system_event(block["text"], block.get("variant")))

    def _tell_anew(self, step: Whole, units: "Sequence[_Unit]") -> None:
        """Tells of a part that was told before in an earlier form only what is new, and revokes texts that it no
        longer holds."""
        part = step.part
        if not part.replaces or part.key is None:
            for _, tell in units:
                tell()
            return
        name, now = f"{part.role}/{part.key}", dict[str, str]()
        before = self._state.told.pop(name, None)
        is_pieced = step.repeats and before is None and part.metadata.get("messageId") in self._state.pieced
        before = before or {}
        for unit, tell in units:
            digest = _digest(_encode({key: unit[key] for key in unit if key not in _BESIDE}))
            if is_pieced and self._was_written(unit):
                now[digest] = ""
                continue
            if digest in before:
                now[digest] = before[digest]
                continue
            count = len(self._events)
            tell()
            last = self._events[-1] if len(self._events) > count else {}
            now[digest] = last["id"] if last.get("type") in _REVOCABLE else ""
        gone = [id for digest, id in before.items() if id and digest not in now]
        if gone:
            self._emit("retraction", {"eventIds": gone})
        self._state.told[name] = now
        if len(self._state.told) > _MOST_TOLD:
            del self._state.told[next(iter(self._state.told))]

    def _was_written(self, unit: Block) -> bool:
        """Of what an answer holds that came piece by piece: all but the results of calls that still wait."""
        if unit.get("type") != "tool_result":
            return "type" in unit
        call = self._state.calls.get(unit.get("tool_use_id") or "")
        return call is None or call.is_answered

    # --- Twins

    def _counts(self, role: Speaker, text: str) -> bool:
        """Whether this original is still to be told; copies that wait for it are done with."""
        state = self._state
        digest = role[0] + _digest(text.encode("utf-8", "replace"))
        if digest in state.copied:
            state.copied.remove(digest)
            return False
        waiting = [held for held in state.held if held.role == role]
        twins = [held for held in waiting if held.text == text]
        if twins:
            if role == "assistant":
                self._release(waiting[: waiting.index(twins[0])])
            state.held.remove(twins[0])
            return True
        parts_of_it = [held for held in waiting if role == "assistant" and held.is_part_of(text)]
        state.held = [held for held in state.held if held not in parts_of_it]
        if not parts_of_it:
            self._release([held for held in waiting if role == "assistant"])
            state.said = [*state.said, digest][-_MOST_SAID:]
        return True

    def _copies(self, role: Speaker, text: str) -> bool:
        """Whether this copy is still to be told: its original has not come."""
        state = self._state
        digest = role[0] + _digest(text.encode("utf-8", "replace"))
        if digest in state.said:
            state.said.remove(digest)
            return False
        state.copied = [*state.copied, digest][-_MOST_SAID:]
        return True

    def _copy(self, role: Literal["user", "assistant"], text: str, part: Part) -> None:
        """Keeps a copy until its original has come, or cannot come any more."""
        state, facts = self._state, self._line.facts
        digest = role[0] + _digest(text.encode("utf-8", "replace"))
        if digest in state.said:
            state.said.remove(digest)
            return
        held = _Held(
            role,
            text,
            part.blocks,
            state.turns,
            response=part.key or part.metadata.get("messageId"),
            lane=_lane(part),
            record=facts.uuid,
            timestamp=facts.timestamp,
            synthetic=bool(part.metadata.get("synthetic")),
        )
        state.held.append(held)
        if len(state.held) > _MOST_HELD:
            self._release(state.held[:1])

    def _release_answers(self) -> None:
        """What was said goes before what came of it; originals that come yet are left out."""
        self._release([held for held in self._state.held if held.role == "assistant"])

    def _release(self, waiting: Iterable[_Held]) -> None:
        """Tells copies whose original has not come."""
        line = self._line
        for held in list(waiting):
            self._state.held.remove(held)
            self._copies(held.role, held.text)
            self._line = line._replace(facts=Facts(uuid=held.record, timestamp=held.timestamp))
            if held.role == "user":
                self._say(held.blocks, held.lane, is_prompt=False, synthetic=held.synthetic)
            else:
                part = Part(role="assistant", blocks=held.blocks)
                for block in held.blocks:
                    self._block(Whole(part), block, held.lane, held.response)
        self._line = line

    # --- Events

    def _says(self, step: Says) -> None:
        digest = _digest(step.once.encode("utf-8", "replace")) if step.once else ""
        if digest in self._state.once:
            return
        payload = step.payload
        if step.type in _OF_TURN:
            turn = self._ensure_turn("callback" if step.type == "agent_callback" else "system")
            turn.is_fresh = False
            if step.scoped:
                payload = {**payload, "messageId": self._scoped(payload["messageId"], turn)}
        self._state.once += [digest] if digest else []
        self._emit(step.type, payload)

    def _taken(self, step: Taken) -> None:
        self._release([held for held in self._state.held if held.role == "user"][:1])

    def _stray(self, step: Stray) -> None:
        if step.in_stream or self._state.has_records:
            if step.text.strip():
                self._emit("raw", {"source": self._line.source, "raw": step.text})
        else:
            blocks = [{"type": "text", "text": step.text}]
            self._say(blocks, "", is_prompt=True, synthetic=False)

    def _passes(self, step: Passes) -> None:
        event = {**step.event, "sessionId": self._context.session_id}
        if "id" not in event:
            event = {"id": self._context.generate_event_id(), **event}
        if "timestamp" not in event:
            event["timestamp"] = self._context.timestamp()
        self._events.append(event)
        self.observe(event)

    def _emit(
        self, wire: str, payload: Block, lane: str = "", response: str | None = None, *, id: str | None = None
    ) -> None:
        facts, turn = self._line.facts, self._state.turn
        event: Event = {
            "id": id or self._context.generate_event_id(),
            "timestamp": self._context.timestamp() if facts.timestamp is None else max(0, facts.timestamp),
            "sessionId": self._context.session_id,
            "type": wire,
        }
        if turn is not None:
            event["turnId"] = turn.id
        if response:
            event["responseId"] = response
        if facts.uuid is not None:
            event["recordId"] = facts.uuid
        event["payload"] = {**payload, "parentToolCallId": lane} if lane else payload
        self._events.append(event)


_Unit = tuple[Block, Callable[[], None]]

_FOLLOW: Mapping[type, Callable[[Normalizer, Any], None]] = {
    Closed: Normalizer._closed,
    Counted: Normalizer._counted,
    Fragment: Normalizer._fragment,
    Interrupts: Normalizer._interrupts,
    Passes: Normalizer._passes,
    ResponseEnds: Normalizer._ends_response,
    ResponseStarts: Normalizer._starts_response,
    Says: Normalizer._says,
    Settled: Normalizer._settled,
    Stray: Normalizer._stray,
    Taken: Normalizer._taken,
    TurnEnds: Normalizer._ends_turn,
    TurnStarts: Normalizer._starts_turn,
    Whole: Normalizer._whole,
}

_NOTES: Mapping[str, Callable[[Normalizer, Event, Block], None]] = {
    **dict.fromkeys(("turn_start", "user_message"), Normalizer._note_begin),
    **dict.fromkeys(
        (
            "assistant_chunk",
            "assistant_done",
            "thinking_chunk",
            "thinking_done",
            "tool_call",
            "tool_input_chunk",
        ),
        Normalizer._note_said,
    ),
    "reset": Normalizer._note_reset,
    "tool_output_chunk": Normalizer._note_output,
    "tool_result": Normalizer._note_result,
    "turn_end": Normalizer._note_end,
}

NOTED = frozenset(_NOTES) - CHUNKS
"""The types of events that derived ones have to know of, where somebody else puts them into the log; of the pieces of a
stream, which come by the thousand, they need not."""

_TELL: Mapping[Speaker | None, Callable[[Normalizer, Whole], None]] = {
    "assistant": Normalizer._answer,
    "system": Normalizer._system,
    "user": Normalizer._user,
    None: lambda normalizer, step: None,
}

_SPOKEN = {"text": "assistant", "thinking": "thinking", "input": "tool_input"}
"""How the events of a slot of this kind begin."""
_SLOT_OF = {"text": "text", "thinking": "thinking", "tool_use": "input"}
_OF_TEXT = ("phase", "variant", "citations", "stopReason")
_RESULT_KEYS = {"exit_code": "exitCode", "structured": "structured"}
_REVOCABLE = frozenset({"assistant_done", "thinking_done", "user_message"})
_UNCOVERED = frozenset({"unknown_type", "malformed", "invalid_json", "limit"})
_BESIDE = frozenset({"extra", "source_type"})
_OF_TURN = frozenset({"agent_message", "agent_callback"})


def _restored(state: str | None) -> _State:
    """A state that another version left, and this one cannot read, is forgotten."""
    try:
        return _State() if state is None else _decode_state(state)
    except msgspec.MsgspecError:
        return _State()


def _built(slot: _Slot, piece: Fragment) -> str:
    """Puts a value into the arguments of a call; what that adds to their text, as far as it is written."""
    slot.given, slot.is_built = placed(slot.given, piece.path, piece.value), True
    text = unfinished(slot.given, piece.path, piece.value)
    return text[len(slot.text) :] if text.startswith(slot.text) else ""


def _is_told(slot: str, response: _Response) -> bool:
    """Whether it was told, or what it is a part of."""
    return any(slot == told or slot.startswith(f"{told}/") for told in response.told)


def _block_of(slot: _Slot) -> Block:
    """What it is at rest, as far as it takes to know it again."""
    if slot.kind == "input":
        return {"type": "tool_use", "id": slot.call, "name": slot.tool, "input": slot.given}
    return {"type": slot.kind, slot.kind: slot.text}


def _sent_as(role: Speaker, block: Block) -> str:
    """A digest of what is said, however it is written: of calls and results, by their ids where they have any."""
    wire = block["type"]
    told = block.get(_SENT_BY.get(wire, "type"))
    if wire not in _SENT_BY or told is None:
        told = {name: block[name] for name in block if name not in _BESIDE}
    return _digest(_encode([role, wire, told]))


_SENT_BY = {"text": "text", "thinking": "thinking", "tool_use": "id", "tool_result": "tool_use_id"}


def _checksum(text: str, before: int = 0) -> int:
    return crc32(text.encode("utf-8", "replace"), before)


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()


def _is_other_call(slot: _Slot, piece: Fragment) -> bool:
    """Whether a piece begins a call of its own in a place that another one has: some vendors number none."""
    return bool(piece.reopens and piece.call and piece.name and slot.is_named and piece.call != slot.call)


def _beside(block: Block, names: Iterable[str]) -> Block:
    """What a block says under these names, if it says anything."""
    return {name: block[name] for name in names if block.get(name)}


def _lane(part: Part) -> str:
    lane = part.metadata.get("parentToolUseId")
    return lane if isinstance(lane, str) else ""


def _said(part: Part) -> str:
    """Its texts, by which twins are found: what it reasoned, where it says nothing."""
    return "".join(block["text"] for block in part.blocks if block["type"] == "text") or "".join(
        block["thinking"] for block in part.blocks if block["type"] == "thinking"
    )


def _may_answer(call: _Call, block: Block) -> bool:
    """Whether a result that names no call that is known is of this one: they are answered in their order."""
    tool = (block.get("extra") or {}).get("name")
    return not (call.is_answered or call.is_named) and (tool is None or tool == call.tool)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))


def _system_event(text: str, variant: str | None) -> tuple[str, Block]:
    if variant == "error":
        return "error", {"code": "error", "message": text}
    if variant == "summary":
        return "summary", {"text": text}
    return "system_message", {"text": text} if variant is None else {"text": text, "variant": variant}


def _joined(more: Block, added: Mapping[str, Any]) -> Block:
    """Further keys of a slot with those of its next piece: of lists, the items of both."""
    lists = {
        name: more[name] + value
        for name, value in added.items()
        if value.__class__ is list and more.get(name).__class__ is list
    }
    return {**more, **{name: value for name, value in added.items() if name != "stream"}, **lists}


def _revised(told: Block, usage: Block) -> Block:
    """Counts of an answer with the later ones in their places."""
    both = {**told, **usage}
    if told.get("vendor").__class__ is dict and usage.get("vendor").__class__ is dict:
        later = {name: count for name, count in usage["vendor"].items() if count is not None}
        both["vendor"] = {**told["vendor"], **later}
    both["total_tokens"] = both.setdefault("input_tokens", 0) + both.setdefault("output_tokens", 0)
    return both


def _sum(usages: Iterable[Block]) -> Block:
    """Of several answers: counts added up; of one, all that it tells."""
    told = [usage for usage in usages if usage]
    if len(told) == 1:
        return told[0]
    total: Block = {}
    for usage in told:
        for name, count in usage.items():
            if count.__class__ is int:
                total[name] = total.get(name, 0) + count
    return total
