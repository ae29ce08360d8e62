"""What a record adds to its session, as values: parts of standard messages, and steps of the log of events.

Providers make these, each of one record alone. `standard` puts parts together, `normalize` follows steps; there is no
state anywhere else.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from ash_shared.model.blocks import Block, is_valid
from ash_shared.model.events import is_payload

Speaker = Literal["user", "assistant", "system"]
"""In whose name a standard message stands."""


class Part(Struct, frozen=True, kw_only=True):
    """What a record adds to the standard messages of its session; most records add one, a request one per message.

    `standard.transform_messages` puts the parts of all records together. A part that has no role is not a message of
    its own: its usage, metadata and error go to the last assistant message.
    """

    role: Speaker | None
    blocks: list[Block] = []
    key: str | None = None
    """Parts of a turn with the same key and role are one message: an id that the API gave the message."""
    keeps_key: bool = False
    """Whether the key names one message in all of the session, and whoever came first with it tells the role: for
    formats that write a message and its parts apart."""
    replaces: bool = False
    """Whether the blocks take the place of those of an earlier part with this key: of an item that was completed."""
    adjoins: bool = False
    """Whether it goes on the message just before it, if that one adjoins, too, and has the same role: for formats that
    write the items of an answer one by one and do not say which answer they are of."""
    echo: bool = False
    """Whether the same text may stand in the turn once more, in the part that counts; of calls and results: the same
    call."""
    id: str | None = None
    """Where it is not the record's own `uuid`."""
    timestamp: int | None = None
    """Where it is not the record's own."""
    usage: Block | None = None
    """From `wire.token_usage`; of several for one message, the last counts."""
    usage_of_turn: bool = False
    """Whether the turn ends here, and the usage, if there is any, is that of all its answers: it counts only where none
    of them told its own."""
    usage_key: str | None = None
    """Usage with a key that was there before is a repetition, and counts nothing."""
    metadata: Mapping[str, Any] = {}
    """Keys of `MessageMetadata` by their wire names; those whose value is None are left out."""
    total_cost: float | None = None
    """In US dollars, of the whole session so far; told where a turn ends."""
    error: Block | None = None
    """The keys of `MessageError`."""
    original: Any = None
    """The piece of the record that is this message, where the record holds several."""
    results: Mapping[str, Block] = {}
    """By call id: keys to add to a tool result that another record holds."""
    retracts: tuple[str, ...] = ()
    """Ids of records that this one revokes."""
    rewinds_to: str | None = None
    """The id of a message that this record revokes with all that came after it, and all before if it is not known."""


class Fragment(NamedTuple):
    """A piece of something that is being written: a text, reasoning, the arguments of a call, what a tool writes."""

    kind: Literal["text", "thinking", "input", "output"]
    text: str
    """What is added; empty where it only begins."""
    slot: str = ""
    """Which of the things that the response has open, by its place on the wire, e.g. `0/1`. Of output: what it is the
    same call by, where not every piece, or the result, names it."""
    call: str | None = None
    """Of input: the id of the call, on the piece that begins it at least. Of output: the call that it is of."""
    name: str | None = None
    """Of input: the tool, on the piece that begins it at least."""
    is_whole: bool = False
    """Whether the text is all there is so far, and only its end is new."""
    given: Any = ""
    """Of input: the arguments, where no piece of them comes."""
    more: Mapping[str, Any] = {}
    """Further keys of the payload, of the chunk and of the whole: `variant`, `phase`, `stream`, `executor`. Those of
    later pieces are added, lists at their ends."""
    lane: str = ""
    """The call that started the subagent that writes; the main conversation has none."""
    scoped: bool = False
    """As of `Whole`."""
    is_last: bool = False
    """Whether the record that it is of also ends it: where nothing came before, the whole alone is told."""
    reopens: bool = False
    """Whether a slot of this name may have been told before: for formats that name no places. A call of another id and
    name takes the place of the one that has it."""
    path: str = ""
    """Of input that comes value by value: where in the arguments `value` goes, as a JSON path. Texts are added up."""
    value: Any = None
    response: str | None = None
    """The id of the answer that it is of, where every answer has one piece of its own."""


class Closed(NamedTuple):
    """What a slot holds is whole now."""

    slot: str
    text: str | None = None
    """All of it, where the wire says it once more: it wins over the pieces."""
    waits: bool = False
    """Whether it is not told yet: the record that holds it all follows, as a rule."""
    more: Mapping[str, Any] = {}
    lane: str = ""


class Settled(NamedTuple):
    """All that is open of these kinds is whole: something else has begun."""

    kinds: tuple[Literal["text", "thinking", "input"], ...] = ("text", "thinking", "input")
    lane: str = ""
    prefix: str = ""
    """Only slots whose names begin so."""


class Whole(NamedTuple):
    """A part of a message, at rest: it takes the place of the pieces that came of it."""

    part: Part
    slot: str | None = None
    """Which of the open things of the response it is, with all that are below it (`3` is `3/0`, too); it is left out
    where it was told before. Without one, each block stands for the first that is open of its kind."""
    holds: bool = False
    """Of an `echo` of the user, or of a result: whether it waits for the record that it announces, and is told when
    none comes."""
    scoped: bool = False
    """Whether ids of calls are unique in their turn only: they are told with the turn's id before them."""
    within: bool = False
    """Of the user: whether it is said in the midst of a turn, or to a subagent: no turn begins with it."""
    more: Mapping[str, Any] = {}
    """Further keys of the payload of what the assistant said, thought and called: `partial`."""
    repeats: bool = False
    """Of a part that may be told anew: whether it may hold what the answer that its `messageId` names said already,
    piece by piece and to the end."""
    sums_up: bool = False
    """Whether its text may be all that was said in the turn so far, once more: where that came piece by piece, it is
    no text of its own."""


class ResponseStarts(NamedTuple):
    """An answer of the model begins."""

    id: str | None
    is_explicit: bool = True
    """False where every piece repeats the id: it begins an answer only where none is open."""
    lane: str = ""
    resumes: bool = False
    """Whether it goes on with the open answer, if that has this id."""
    is_stable: bool = False
    """Of an id that pieces repeat: whether another one always is another answer, and so is none after the end."""


class ResponseEnds(NamedTuple):
    """It is whole, and so is all that it has open."""

    stop_reason: str | None = None
    is_final: bool = False
    """Whether the turn ends with it; usage may still follow."""
    lane: str = ""
    prefix: str = ""
    """Where it is one of several that are written at once: only slots whose names begin so are whole, and the answer is
    once no other is open."""
    is_partial: bool = False
    """Whether what it has open was not finished."""
    unless_called: bool = False
    """Whether it is final only where no call waits for the user's side: for formats that do not say which it is."""


class Counted(NamedTuple):
    """What an answer cost so far."""

    usage: Block | None
    """From `wire.token_usage`."""
    key: str = ""
    """Of several with the same key the last counts."""
    revises: bool = False
    """Whether it brings up to date, count by count, what was told of the answer that is open."""


class TurnStarts(NamedTuple):
    """A turn begins, and its end will be told, too."""

    id: str | None = None
    trigger: Literal["user", "callback", "system"] = "user"


class TurnEnds(NamedTuple):
    usage: Block | None = None
    """Of the whole turn; without it, the sum of what its answers cost."""
    total_cost: float | None = None
    """In US dollars, of the whole session so far."""


class Interrupts(NamedTuple):
    """The turn was stopped: what is open is left as it is, and the turn ends."""

    reason: Literal["user_cancel", "timeout", "error"]
    error: Block | None = None
    """What went wrong, told before it."""
    if_open: bool = False
    """Whether it is told only where a turn is open: for records that may be told anew."""
    ends: bool = True
    """Whether the turn ends here; else a record that says so follows."""
    end: TurnEnds | None = None
    """What else the record says of the end of the turn."""


class Says(NamedTuple):
    """An event as it is, e.g. `error`."""

    type: str
    payload: Block
    once: str = ""
    """A name under which it is told once until the next turn begins, where records repeat it."""
    scoped: bool = False
    """Whether its `messageId` is unique in the turn only, as of `Whole`."""


class Taken(NamedTuple):
    """What was held of the user first is told now."""


class Stray(NamedTuple):
    """A text that is no record: of a session of plain texts what the user said, in the midst of records nobody's."""

    text: str
    in_stream: bool
    """Whether its writer said that it is a line of some format."""


class Passes(NamedTuple):
    """The record is an event already; where it has no id or time, it is given them."""

    event: Block


Step: TypeAlias = (
    Fragment
    | Closed
    | Settled
    | Whole
    | ResponseStarts
    | ResponseEnds
    | Counted
    | TurnStarts
    | TurnEnds
    | Interrupts
    | Says
    | Stray
    | Taken
    | Passes
)

_WITH_MORE = (Fragment, Closed, Whole)  # a union of them would be made anew at each step
_TEXT, _NAME, _KEYS = (str,), (str, type(None)), (dict,)

_FIELDS: Mapping[type, tuple[tuple[str, tuple[type, ...]], ...]] = {
    Fragment: (
        ("text", _TEXT),
        ("slot", _TEXT),
        ("call", _NAME),
        ("name", _NAME),
        ("more", _KEYS),
        ("lane", _TEXT),
        ("path", _TEXT),
        ("response", _NAME),
    ),
    Closed: (("slot", _TEXT), ("text", _NAME), ("more", _KEYS), ("lane", _TEXT)),
    Settled: (("lane", _TEXT), ("prefix", _TEXT)),
    Whole: (("slot", _NAME), ("more", _KEYS)),
    ResponseStarts: (("id", _NAME), ("lane", _TEXT)),
    ResponseEnds: (("stop_reason", _NAME), ("lane", _TEXT), ("prefix", _TEXT)),
    Counted: (("key", _TEXT),),
    TurnStarts: (("id", _NAME),),
    Says: (("type", _TEXT), ("payload", _KEYS), ("once", _TEXT)),
}
"""What a wrong type in a record could have put into a step."""

_MORE: Mapping[str, tuple[type, ...]] = {
    "executor": _NAME,
    "phase": _TEXT,
    "redacted": (bool, type(None)),
    "signature": _NAME,
    "stopReason": _TEXT,
    "stream": _TEXT,
    "variant": _TEXT,
}


def is_sound(step: Step) -> bool:
    """Whether what it holds is of the types that it promises, and can become events."""
    for name, allowed in _FIELDS.get(step.__class__, ()):
        if getattr(step, name).__class__ not in allowed:
            return False
    if isinstance(step, Says):
        return is_payload(step.type, step.payload)
    if isinstance(step, Whole) and not _is_sound_part(step.part):
        return False
    if not isinstance(step, _WITH_MORE) or not step.more:
        return True
    return all(value.__class__ in _MORE.get(name, (value.__class__,)) for name, value in step.more.items())


def _is_sound_part(part: Part) -> bool:
    if part.results and not all(call.__class__ is str for call in part.results):
        return False
    return all(map(is_valid, part.blocks))
