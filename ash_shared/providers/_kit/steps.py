"""Values that describe what one record adds to its session: parts of standard messages and steps of the event
log.

Providers return these for each record alone. `conversation.standard_messages` assembles parts and
`eventlog.normalizer` applies steps; all state is kept there.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from ash_shared.model.blocks import Block, is_valid
from ash_shared.model.events import is_payload

Speaker = Literal["user", "assistant", "system"]
"""The speaker of a standard message."""


class Part(Struct, frozen=True, kw_only=True):
    """A contribution of a record to the standard messages of its session. Most records add one part; a request adds one
    per message.

    `transform_messages` assembles the parts of all records. A part without a role is not a message: its usage,
    metadata and error go to the last assistant message.
    """

    role: Speaker | None
    blocks: list[Block] = []
    key: str | None = None
    """Parts of a turn with the same key and role form one message. Usually the message id of the API."""
    keeps_key: bool = False
    """True if the key names one message in the whole session and its first part sets the role. For formats that
    write a message and its parts separately."""
    replaces: bool = False
    """True if the blocks replace those of an earlier part with this key: a completed item."""
    adjoins: bool = False
    """True if the part is appended to the previous message when that also adjoins and has the same role. For
    formats that write the items of a response one by one without naming the response."""
    echo: bool = False
    """True if a later part of the turn may contain the same text, or the same call or result; the later part is
    then the authoritative one."""
    id: str | None = None
    """The message id, if it is not the `uuid` of the record."""
    timestamp: int | None = None
    """The time in milliseconds, if it is not that of the record."""
    usage: Block | None = None
    """From `token_usage`; if several parts report usage for one message, the last one counts."""
    usage_of_turn: bool = False
    """True if the turn ends here. The usage, if any, is the total of the turn; it counts only if none of its
    responses reported usage."""
    usage_key: str | None = None
    """Usage with a key that already occurred is a repetition and is not counted."""
    metadata: Mapping[str, Any] = {}
    """Keys of `MessageMetadata` by their wire names; keys with the value None are left out."""
    total_cost: float | None = None
    """Cost of the whole session so far in US dollars, reported at the end of a turn."""
    error: Block | None = None
    """The keys of `MessageError`."""
    original: Any = None
    """The piece of the record that holds this message, if the record holds several."""
    results: Mapping[str, Block] = {}
    """By call id: keys to add to a tool result that is in another record."""
    retracts: tuple[str, ...] = ()
    """Ids of records that this record retracts."""
    rewinds_to: str | None = None
    """The id of a message that this record retracts together with everything after it; if the id is unknown,
    everything before this record is retracted."""


class Fragment(NamedTuple):
    """A delta of something being streamed: text, thinking, tool input or tool output."""

    kind: Literal["text", "thinking", "input", "output"]
    text: str
    """The text to append; empty if the fragment only opens the slot."""
    slot: str = ""
    """The open item of the response that the fragment belongs to, named by its position on the wire, e.g.
    `0/1`. For output: the key that identifies the call if not every fragment, or not the result, carries its
    id."""
    call: str | None = None
    """For input: the call id, at least on the first fragment. For output: the id of the call that writes it."""
    name: str | None = None
    """For input: the tool name, at least on the first fragment."""
    is_whole: bool = False
    """True if the text is the complete text so far, of which only the end is new."""
    given: Any = ""
    """For input: the arguments, if none of them are streamed."""
    more: Mapping[str, Any] = {}
    """Further payload keys of the chunk and of the complete item: `variant`, `phase`, `stream`, `executor`.
    Keys of later fragments are merged; lists are concatenated."""
    lane: str = ""
    """The id of the call that started the writing subagent; empty for the main conversation."""
    scoped: bool = False
    """Same as `Whole.scoped`."""
    is_last: bool = False
    """True if the record of this fragment also ends the item. If nothing was streamed before, only the complete
    item is emitted."""
    reopens: bool = False
    """True if the slot name may already have been used, for formats that do not name positions. A call with
    another id and name replaces the call in the slot."""
    path: str = ""
    """For input streamed value by value: the JSON path at which `value` is set. Strings are concatenated."""
    value: Any = None
    response: str | None = None
    """The id of the response, if every response has one fragment of its own."""


class Closed(NamedTuple):
    """The content of a slot is complete."""

    slot: str
    text: str | None = None
    """The complete text, if the wire repeats it; it overrides the fragments."""
    waits: bool = False
    """True if the complete item is not emitted yet, because the record that holds it normally follows."""
    more: Mapping[str, Any] = {}
    lane: str = ""


class Settled(NamedTuple):
    """All open items of these kinds are complete, because another item has begun."""

    kinds: tuple[Literal["text", "thinking", "input"], ...] = ("text", "thinking", "input")
    lane: str = ""
    prefix: str = ""
    """Restricts the step to slots whose names start with this prefix."""


class Whole(NamedTuple):
    """A complete (non-streamed) part of a message; it replaces the fragments that were streamed for it."""

    part: Part
    slot: str | None = None
    """The open item of the response that the part completes, including nested items (`3` covers `3/0`); the
    part is dropped if that item was already emitted. If None, each block completes the first open item of its
    kind."""
    holds: bool = False
    """For an `echo` of the user or for a tool result: True if it waits for the record that it announces, and is
    emitted only if none follows."""
    scoped: bool = False
    """True if call ids are unique only within a turn; they are emitted with the turn id as prefix."""
    within: bool = False
    """For the user: True if the text is sent during a turn, or to a subagent, so that it does not start a
    turn."""
    more: Mapping[str, Any] = {}
    """Further payload keys for the assistant's text, thinking and calls: `partial`."""
    repeats: bool = False
    """True if a repeated part may contain what the response named by its `messageId` already streamed
    completely."""
    sums_up: bool = False
    """True if the text may repeat all text of the turn so far; if that was streamed, it is not emitted again."""


class ResponseStarts(NamedTuple):
    """A response of the model begins."""

    id: str | None
    is_explicit: bool = True
    """False if every fragment repeats the id; the step then begins a response only if none is open."""
    lane: str = ""
    resumes: bool = False
    """True if the step continues the open response when that has the same id."""
    is_stable: bool = False
    """For ids repeated by fragments: True if a different id always means a different response, and
    the id begins no other one after its end."""


class ResponseEnds(NamedTuple):
    """The response and all its open items are complete."""

    stop_reason: str | None = None
    is_final: bool = False
    """True if the turn ends with the response; usage may still follow."""
    lane: str = ""
    prefix: str = ""
    """For one of several responses written in parallel: only slots whose names start with this prefix are
    complete. The response ends when no other slot is open."""
    is_partial: bool = False
    """True if the open items were not finished."""
    unless_called: bool = False
    """True if the response is final only if no call waits for the client. For formats that do not report
    which."""


class Counted(NamedTuple):
    """Token usage of a response so far."""

    usage: Block | None
    """From `token_usage`."""
    key: str = ""
    """Steps with the same key replace each other; the last one counts."""
    revises: bool = False
    """True if it updates, count by count, the usage reported for the open response."""


class TurnStarts(NamedTuple):
    """A turn begins whose end is reported explicitly."""

    id: str | None = None
    trigger: Literal["user", "callback", "system"] = "user"


class TurnEnds(NamedTuple):
    usage: Block | None = None
    """Total usage of the turn; if None, the sum over its responses."""
    total_cost: float | None = None
    """Cost of the whole session so far in US dollars."""


class Interrupts(NamedTuple):
    """The turn was stopped: open items stay incomplete and the turn ends."""

    reason: Literal["user_cancel", "timeout", "error"]
    error: Block | None = None
    """The error to emit before the interruption."""
    if_open: bool = False
    """True if it is emitted only while a turn is open, for records that may be repeated."""
    ends: bool = True
    """True if the turn ends here; otherwise a separate record ends it."""
    end: TurnEnds | None = None
    """Usage and cost that the record reports for the turn."""


class Says(NamedTuple):
    """An event to emit unchanged, e.g. `error`."""

    type: str
    payload: Block
    once: str = ""
    """A name under which the event is emitted once per turn, for formats whose records repeat it."""
    scoped: bool = False
    """True if its `messageId` is unique only within the turn, as in `Whole`."""


class Taken(NamedTuple):
    """Emit the oldest pending user message (see `Whole.holds`)."""


class Stray(NamedTuple):
    """A text that is not a record: user input in a session of plain texts, ignored between records."""

    text: str
    in_stream: bool
    """True if its writer declared it as a line of some format."""


class Passes(NamedTuple):
    """The record already is an event; a missing id or time is added."""

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

_STEPS_WITH_MORE = (Fragment, Closed, Whole)  # built once; a union would be rebuilt for each step
_STR, _OPTIONAL_STR, _DICT = (str,), (str, type(None)), (dict,)

_FIELD_TYPES: Mapping[type, tuple[tuple[str, tuple[type, ...]], ...]] = {
    Fragment: (
        ("text", _STR),
        ("slot", _STR),
        ("call", _OPTIONAL_STR),
        ("name", _OPTIONAL_STR),
        ("more", _DICT),
        ("lane", _STR),
        ("path", _STR),
        ("response", _OPTIONAL_STR),
    ),
    Closed: (("slot", _STR), ("text", _OPTIONAL_STR), ("more", _DICT), ("lane", _STR)),
    Settled: (("lane", _STR), ("prefix", _STR)),
    Whole: (("slot", _OPTIONAL_STR), ("more", _DICT)),
    ResponseStarts: (("id", _OPTIONAL_STR), ("lane", _STR)),
    ResponseEnds: (("stop_reason", _OPTIONAL_STR), ("lane", _STR), ("prefix", _STR)),
    Counted: (("key", _STR),),
    TurnStarts: (("id", _OPTIONAL_STR),),
    Says: (("type", _STR), ("payload", _DICT), ("once", _STR)),
}
"""Allowed types of step fields whose values come from a record unchecked."""

_MORE_TYPES: Mapping[str, tuple[type, ...]] = {
    "executor": _OPTIONAL_STR,
    "phase": _STR,
    "redacted": (bool, type(None)),
    "signature": _OPTIONAL_STR,
    "stopReason": _STR,
    "stream": _STR,
    "variant": _STR,
}


def is_sound(step: Step) -> bool:
    """Return True if the values of a step have their declared types and can become events."""
    for name, allowed in _FIELD_TYPES.get(step.__class__, ()):
        if getattr(step, name).__class__ not in allowed:
            return False
    if isinstance(step, Says):
        return is_payload(step.type, step.payload)
    if isinstance(step, Whole) and not _is_sound_part(step.part):
        return False
    if not isinstance(step, _STEPS_WITH_MORE) or not step.more:
        return True
    return all(
        value.__class__ in _MORE_TYPES.get(name, (value.__class__,)) for name, value in step.more.items()
    )


def _is_sound_part(part: Part) -> bool:
    if part.results and not all(call.__class__ is str for call in part.results):
        return False
    return all(map(is_valid, part.blocks))
