"""The state of the normaliser between two lines, and its limits.

It is small JSON: a stream may be split anywhere and continued in another process. Emitted texts are kept as digests.
The names of its fields are stored with sessions.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Speaker

MAX_SENT = 2000
MAX_HELD = 50
MAX_SAID = 16
MAX_STREAMED_ANSWERS = 32
MAX_SPEAKERS = 32
MAX_REPLACEABLE_PARTS = 32
MAX_CALLS = 1000
MAX_ANSWERED = 150
MAX_USAGES = 8
MAX_ADDED_UP = 100


class Place(NamedTuple):
    """The lane and response of an event."""

    lane: str = ""
    """The call that started the subagent; empty for the main conversation."""
    response: str | None = None
    """The id of the response."""


MAIN = Place()


class Turn(msgspec.Struct, omit_defaults=True):
    id: str
    ends_by_word: bool = False
    """True if the format marks the end of the turn."""
    phase: Literal["fresh", "running", "over", "stopped"] = "fresh"
    """fresh: only the prompt so far; running: the assistant works; over: only usage may follow; stopped: over after an
    interrupt."""
    has_text: bool = False
    usage: dict[str, Any] = {}
    """By answer; old ones are added up under an empty key."""
    added_up: dict[str, list[int]] = {}
    """Counts of the answers that were added up, by digest of their keys, to correct them if they are counted again."""
    cost: float | None = None
    costs: dict[str, float] = {}
    """Costs of the last answers, by digest of their keys."""
    pieces: int = 0
    """Characters of streamed text."""
    checksum: int = 0
    """Checksum of the streamed text."""

    @property
    def is_over(self) -> bool:
        return self.phase in _OVER


_OVER = ("over", "stopped")


class Response(msgspec.Struct, omit_defaults=True):
    id: str | None = None
    told: list[str] = []
    """Slots that were emitted."""
    outputs: dict[str, str] = {}
    """The call of each output slot."""
    is_begun: bool = False
    """True if the format marks the beginning of the response, and so its end."""
    is_over: bool = False
    is_pieced: bool = False
    """True if a fragment of it has come."""
    said: list[str] = []
    """Digests of its blocks."""

    def has_told(self, slot: str) -> bool:
        """True if the slot or a slot that contains it was emitted."""
        return any(slot == name or slot.startswith(f"{name}/") for name in self.told)

    def has_told_of(self, slot: str) -> bool:
        """True if the slot or a slot inside it was emitted."""
        return any(name == slot or name.startswith(f"{slot}/") for name in self.told)


class Slot(msgspec.Struct, omit_defaults=True):
    """A streamed item: a text, reasoning or the input of a call."""

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
    """True if `given` holds the arguments and `text` is only their rendering."""
    is_named: bool = True
    """False if the provider gave the call no id."""

    @property
    def place(self) -> Place:
        return Place(self.lane, self.response)

    def is_below(self, name: str, lane: str) -> bool:
        """True if the slot has this name or is inside the slot of this name."""
        return self.lane == lane and (self.name == name or self.name.startswith(f"{name}/"))


class Call(msgspec.Struct, omit_defaults=True):
    tool: str
    written: int = 0
    """Characters of output so far."""
    state: Literal["asked", "left", "lapsed", "answered"] = "asked"
    """asked: by the last answer; left: by an earlier answer, or incomplete; lapsed: in a turn that is over."""
    seen: Literal["whole", "copy", "output"] = "whole"
    """whole: the call itself was emitted; copy: its original may still come; output: only its output was."""
    is_hosted: bool = False
    """True if the provider runs the tool."""


class Held(msgspec.Struct, omit_defaults=True):
    """A copy that is held until its original comes."""

    role: Literal["user", "assistant"]
    text: str
    blocks: list[Block]
    turn: int
    """Number of turns when it came."""
    response: str | None = None
    lane: str = ""
    record: str | None = None
    timestamp: int | None = None
    synthetic: bool = False

    def is_part_of(self, text: str) -> bool:
        """True if this is a section of the reasoning that `text` repeats as a whole."""
        return self.blocks[0]["type"] == "thinking" and self.text in text


class Answer(msgspec.Struct, omit_defaults=True):
    """A streamed answer that is complete."""

    id: str | None
    said: list[str]
    """Digests of its blocks."""


class State(msgspec.Struct, omit_defaults=True):
    turn: Turn | None = None
    turns: int = 0
    responses: dict[str, Response] = {}
    """The last response of each lane."""
    slots: list[Slot] = []
    calls: dict[str, Call] = {}
    nameless: list[str] = []
    """Pending calls without an id of the provider, in order."""
    results: dict[str, dict[str, Any]] = {}
    """Fields of results that have not come yet, by call."""
    held: list[Held] = []
    said: list[str] = []
    """Digests of emitted originals whose copy has not come."""
    copied: list[str] = []
    """Digests of emitted copies whose original has not come."""
    told: dict[str, dict[str, str]] = {}
    """By key of a part that may be written again: digests of its blocks, with the ids of retractable events."""
    pieced: list[str] = []
    """Ids of completely streamed answers, which a part with `Part.replaces` may repeat."""
    streamed: Answer | None = None
    """The last streamed answer, which a record may repeat assembled."""
    sent: dict[str, int] | None = None
    """Number of occurrences of each digest, since the first record that held several messages: requests repeat the
    conversation."""
    once: list[str] = []
    """Digests of events that are emitted once per turn."""
    speakers: dict[str, Speaker] = {}
    """Roles of messages whose parts are separate records, by key."""
    counted: str = ""
    """Digest of the key of the last usage."""
    costs: float = 0.0
    """Total cost so far of the session `paid_by`."""
    paid_by: str = ""
    lag: int = 0
    """Milliseconds by which timestamps of the session are before the clock, for recordings."""
    is_interrupted: bool = False
    """True if the last turn was interrupted and no other has begun."""
    has_records: bool = False
    """True if a line of a known format has come."""

    def after_the_end(self) -> "State":
        """Return what remains of the state when everything is closed."""
        return State(
            turns=self.turns,
            costs=self.costs,
            paid_by=self.paid_by,
            has_records=self.has_records,
            sent=self.sent,
            streamed=self.streamed,
            lag=self.lag,
        )

    def may_answer(self, id: str, block: Block) -> bool:
        """True if a result without a known call may belong to this call: calls without ids are answered in order."""
        tool, call = (block.get("extra") or {}).get("name"), self.calls.get(id)
        return call is not None and (tool is None or tool == call.tool)

    def response(self, lane: str) -> Response:
        """Return the open or last response of a lane."""
        known = self.responses.get(lane)
        return self.responses.setdefault(lane, Response()) if known is None else known

    def response_id(self, lane: str) -> str | None:
        known = self.responses.get(lane)
        return known.id if known is not None else None

    def is_cut(self) -> bool:
        """True if an answer is incomplete."""
        is_open = any(slot.text and not slot.is_whole for slot in self.slots)
        return is_open or any(known.is_begun and not known.is_over for known in self.responses.values())


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(State).decode


def encode_state(state: State) -> str | None:
    """Return the state as JSON; None if nothing is open."""
    return None if state == State() else _encode(state).decode()


def decode_state(state: str | None) -> State:
    """Decode a state; one of another version that cannot be decoded is replaced by an empty state."""
    try:
        return State() if state is None else _decode(state)
    except msgspec.MsgspecError:
        return State()
