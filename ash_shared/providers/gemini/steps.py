"""What the answers of the Gemini API, whole or in chunks, add to the log of events.

A chunk has the shape of an answer. A record that names why it finished is the last of its answer, and where nothing
came before, it is all of it. The first models named STOP in every chunk, and then neither an id nor usage: such a text
stays open, for the next chunk may go on with it. Parts have no places: what is one text is known by what comes between.
"""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick, with_extra
from ash_shared.providers._kit.contract import Part, Record
from ash_shared.providers._kit.gemini_parts import value_in_either_case
from ash_shared.providers._kit.json_fields import first_text, list_or_empty
from ash_shared.providers._kit.steps import (
    Closed,
    Counted,
    Fragment,
    ResponseEnds,
    ResponseStarts,
    Settled,
    Step,
    Whole,
)

_Kind = Literal["text", "thinking", "input"]
_KINDS: tuple[_Kind, ...] = ("text", "thinking", "input")
_UNFINISHED = (None, "", "FINISH_REASON_UNSPECIFIED", 0)


def answer_steps(record: Record, part: Part) -> list[Step]:
    """`part` is what the record adds to the standard messages."""
    ends = list(_ends(record, part))
    is_last = any(step.__class__ is ResponseEnds for step in ends)
    said = [step for block in part.blocks for step in _said(block, part, is_last)]
    counted = _counted(record, part, is_last)
    if part.error is not None and not said:
        return [*_before_error(ends), Whole(Part(role="assistant", error=part.error)), *ends, *counted]
    trouble = [] if part.error is None else [Whole(Part(role=None, error=part.error))]
    starts = [ResponseStarts(part.key, is_explicit=False, is_stable=True)] if said else []
    return [*starts, *said, *ends, *trouble, *counted]


def _before_error(ends: list[Step]) -> list[Step]:
    """What was said is whole; the turn is not over before what went wrong is told, which may be all there is of it."""
    return [step._replace(is_final=False) for step in ends if isinstance(step, ResponseEnds)]


def _counted(record: Record, part: Part, is_last: bool) -> list[Step]:
    """Each chunk says what it was so far; where no id tells whose counts go together, the last chunk counts."""
    if part.usage is None or not (part.key or is_last or not record.get("candidates")):
        return []
    return [Counted(part.usage, part.key or "")]


def _ends(record: Record, part: Part) -> Iterator[Step]:
    """The end of the answer, where this is it."""
    candidates = list_or_empty(record.get("candidates"))
    reasons = [value_in_either_case(candidate, "finishReason", "finish_reason") for candidate in candidates]
    is_blocked = not candidates and part.error is not None
    if not is_blocked and (not reasons or any(reason in _UNFINISHED for reason in reasons)):
        return
    stop = next((reason for reason in reasons if reason.__class__ is str), None)
    if _may_go_on(part):
        places = range(len(candidates))
        yield from (Closed(f"{place}/text", waits=True, more={"stopReason": stop}) for place in places)
    else:
        yield ResponseEnds(stop, is_final=True, unless_called=True)


def _may_go_on(part: Part) -> bool:
    """Whether a chunk of the first models is like this one, which all name a reason to stop."""
    is_said = all(block["type"] == "text" for block in part.blocks)
    return part.key is None and part.usage is None and part.error is None and is_said


def _said(block: Block, part: Part, is_last: bool) -> Iterator[Step]:
    extra = block.get("extra") or {}
    place = f"{extra.get('choice_index', 0)}/"
    if block["type"] in ("text", "thinking"):
        yield from _text(block, place, is_last)
    elif block["type"] == "raw" and block["reason"] == "stream_fragment":
        yield from _pieces(next(iter(block["raw"].values())), place)
    elif block["type"] == "tool_use" and _is_streamed(extra):
        slot = f"{place}input"
        yield Settled(("text", "thinking") if block.get("id") else _KINDS, prefix=place)
        yield Fragment("input", "", slot, block.get("id"), block["name"], given=block["input"], reopens=True)
        yield from _pieces(extra, place)
    elif block["type"] != "raw" or block["reason"] not in ("opaque", "control"):
        yield Settled(prefix=place)
        yield Whole(replace(part, blocks=[_named(block)], usage=None, error=None, adjoins=False))


def _text(block: Block, place: str, is_last: bool) -> Iterator[Step]:
    """A text, or what was thought; a signature ends a thought."""
    kind: _Kind = block["type"]
    text = block[kind]
    if text:
        yield Settled(tuple(other for other in _KINDS if other != kind), prefix=place)
        yield Fragment(kind, text, f"{place}{kind}", is_last=is_last, reopens=True)
    if "signature" in block:
        yield Closed(f"{place}{kind}", more=pick(block, "signature"))


def _named(block: Block) -> Block:
    """What code gave out names no call, and is never what a function answered."""
    is_outcome = block.get("source_type") in ("codeExecutionResult", "code_execution_result")
    return with_extra(block, {"name": "code_execution"}) if is_outcome else block


# --- Arguments of calls that come value by value


def _is_streamed(call: Record) -> bool:
    return _goes_on(call) or bool(value_in_either_case(call, "partialArgs", "partial_args"))


def _goes_on(call: Record) -> bool:
    return value_in_either_case(call, "willContinue", "will_continue") is True


def _pieces(call: Record, place: str) -> Iterator[Step]:
    """Values of arguments; the call is whole once it does not go on."""
    for piece in list_or_empty(value_in_either_case(call, "partialArgs", "partial_args")):
        path = first_text(piece, ("jsonPath", "json_path"))
        if path is not None:
            yield Fragment("input", "", f"{place}input", path=path, value=_value(piece))
    if not _goes_on(call):
        yield Closed(f"{place}input")


_VALUES = (
    ("stringValue", "string_value"),
    ("numberValue", "number_value"),
    ("boolValue", "bool_value"),
)


def _value(piece: Record) -> Any:
    values = (value_in_either_case(piece, camel, snake) for camel, snake in _VALUES)
    return next((value for value in values if value is not None), None)
