"""All that has to be remembered between two lines, and how much of it at most.

It is small JSON: a stream may be cut anywhere, and another process may go on with it. Texts that were told are kept as
digests.
"""

from typing import Any, Literal, NamedTuple

import msgspec

from ash_shared.model.blocks import Block
from ash_shared.providers._kit.steps import Speaker

MAX_SENT = 2000
MAX_HELD, MAX_SAID, MAX_TOLD, MAX_CALLS, MAX_ANSWERED, MAX_USAGES, MAX_ADDED_UP = (
    50,
    16,
    32,
    1000,
    150,
    8,
    100,
)


class Place(NamedTuple):
    """Where in a session something is said."""

    lane: str = ""
    """The call that started the subagent that says it; the main conversation has none."""
    response: str | None = None
    """The answer that it is of."""


MAIN = Place()


class Turn(msgspec.Struct, omit_defaults=True):
    id: str
    ends_by_word: bool = False
    """Whether the format says when it ends."""
    phase: Literal["fresh", "running", "over", "stopped"] = "fresh"
    """Nothing but the prompt was said yet; the assistant is at work; nothing but usage may follow; as that, and it was
    interrupted."""
    has_text: bool = False
    usage: dict[str, Any] = {}
    """By answer; those of long ago are added up under an empty key."""
    added_up: dict[str, list[int]] = {}
    """By digest of their keys, the counts of those: one that is told once more does not count twice."""
    cost: float | None = None
    costs: dict[str, float] = {}
    """Of its last answers, by digest of their keys."""
    pieces: int = 0
    """How many characters of text have come in pieces."""
    checksum: int = 0
    """Of all of these together."""

    @property
    def is_over(self) -> bool:
        return self.phase in _OVER


_OVER = ("over", "stopped")


class Response(msgspec.Struct, omit_defaults=True):
    id: str | None = None
    told: list[str] = []
    """The slots that became events."""
    outputs: dict[str, str] = {}
    """By slot: the call whose output it is."""
    is_begun: bool = False
    """Whether the wire said that it begins, and so will say that it ends."""
    is_over: bool = False
    is_pieced: bool = False
    """Whether a piece of it has come."""
    said: list[str] = []
    """Digests of all that it said."""

    def has_told(self, slot: str) -> bool:
        """Whether it was told, or what it is a part of."""
        return any(slot == told or slot.startswith(f"{told}/") for told in self.told)

    def has_told_of(self, slot: str) -> bool:
        """Whether it was told, or a part of it."""
        return any(told == slot or told.startswith(f"{slot}/") for told in self.told)


class Slot(msgspec.Struct, omit_defaults=True):
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

    @property
    def place(self) -> Place:
        return Place(self.lane, self.response)

    def is_below(self, name: str, lane: str) -> bool:
        """Whether it has this name, or is a part of what has it."""
        return self.lane == lane and (self.name == name or self.name.startswith(f"{name}/"))


class Call(msgspec.Struct, omit_defaults=True):
    tool: str
    written: int = 0
    """Characters of output so far."""
    state: Literal["asked", "left", "lapsed", "answered"] = "asked"
    """By the last answer; before another answer began, or never to its end; in a turn that is over."""
    seen: Literal["whole", "copy", "output"] = "whole"
    """What of it came: the call itself, a copy whose original may still come, or only what it wrote."""
    is_hosted: bool = False
    """Whether the provider runs the tool itself."""


class Held(msgspec.Struct, omit_defaults=True):
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


class Answer(msgspec.Struct, omit_defaults=True):
    """An answer that came piece by piece, to its end."""

    id: str | None
    said: list[str]
    """Digests of its texts, reasoning and calls."""


class State(msgspec.Struct, omit_defaults=True):
    turn: Turn | None = None
    turns: int = 0
    responses: dict[str, Response] = {}
    """By lane."""
    slots: list[Slot] = []
    calls: dict[str, Call] = {}
    nameless: list[str] = []
    """Those without an id of the provider that wait, in their order."""
    results: dict[str, dict[str, Any]] = {}
    """By call: what belongs to a result that has not come yet."""
    held: list[Held] = []
    said: list[str] = []
    """Digests of texts that were told, and of which no copy has come yet."""
    copied: list[str] = []
    """Digests of copies that were told, and of which the original has not come yet."""
    told: dict[str, dict[str, str]] = {}
    """By key of a part that may be told anew: digests of what it said, with the ids of the events of texts."""
    pieced: list[str] = []
    """Answers that came whole, piece by piece: a part that may be told anew may repeat them."""
    streamed: Answer | None = None
    """The last one: a record that follows may hold it once more, assembled."""
    sent: dict[str, int] | None = None
    """How often each thing was told, by digest, since a record held several messages: such a one may be followed by
    others that hold them again, as requests do."""
    once: list[str] = []
    """Digests of what is told once until the next turn begins."""
    speakers: dict[str, Speaker] = {}
    """By key of a message that is written apart from its parts."""
    counted: str = ""
    """Digest of the key of the usage that came last."""
    costs: float = 0.0
    """Of the session that `paid_by` names, so far."""
    paid_by: str = ""
    lag: int = 0
    """By how many milliseconds the session's own times lie before the clock: a recording is told in its own time."""
    is_interrupted: bool = False
    """Whether the last turn was, and no other has begun."""
    has_records: bool = False
    """Whether a line of a known format has come."""

    def after_the_end(self) -> "State":
        """What holds on when nothing is open any more."""
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
        """Whether a result that names no call that is known may be of this one: they are answered in their order."""
        tool, call = (block.get("extra") or {}).get("name"), self.calls.get(id)
        return call is not None and (tool is None or tool == call.tool)

    def response(self, lane: str) -> Response:
        """The one that is open, or the last."""
        known = self.responses.get(lane)
        return self.responses.setdefault(lane, Response()) if known is None else known

    def response_id(self, lane: str) -> str | None:
        known = self.responses.get(lane)
        return known.id if known is not None else None

    def is_cut(self) -> bool:
        """Whether an answer was left in the midst."""
        is_open = any(slot.text and not slot.is_whole for slot in self.slots)
        return is_open or any(known.is_begun and not known.is_over for known in self.responses.values())


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(State).decode


def encode_state(state: State) -> str | None:
    """None where nothing is open."""
    return None if state == State() else _encode(state).decode()


def decode_state(state: str | None) -> State:
    """A state that another version left, and this one cannot read, is forgotten."""
    try:
        return State() if state is None else _decode(state)
    except msgspec.MsgspecError:
        return State()
