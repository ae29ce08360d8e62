"""What the pieces of an answer, or all of it, add to the log of events.

An answer has a place for each thing that it writes: `0/thinking`, `0/text`, `0/refusal`, `0/transcript`, `0/call/2`,
by the index of the choice and that of the call. Reasoning is over when something else begins, all else when the choice
is finished. Choices after the first say which they are.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import first_text, list_or_empty, message_error, text_at, value_at
from ash_shared.providers._kit.steps import (
    Counted,
    Fragment,
    ResponseEnds,
    ResponseStarts,
    Says,
    Settled,
    Step,
    Whole,
)
from ash_shared.providers.openai_chat.content import read_block
from ash_shared.providers.openai_chat.messages import cost_of, error_of, usage_of
from ash_shared.providers.openai_chat.records import choice_blocks

_ASKS = frozenset({"function_call", "tool_calls"})
"""Reasons to stop after which the caller has to answer."""


def steps(record: Record, reading: RecordReading) -> list[Step] | None:
    """Pieces and whole answers; what else there is says all in its parts."""
    if "choices" not in record:
        return None
    is_piece = reading.kind == "chunk" or any(_is_text(choice) for choice in list_or_empty(record["choices"]))
    return _of_chunk(record) if is_piece else _of_completion(record)


def _is_text(choice: Any) -> bool:
    """Whether it is one of the text completions of old, whose pieces look like an answer at rest."""
    return "text" in choice and "message" not in choice


def _of_chunk(record: Record) -> list[Step]:
    name, choices = text_at(record, "id"), list_or_empty(record["choices"])
    told = [step for choice in choices for step in _of_piece(choice, name)]
    is_last = not choices or any(text_at(choice, "finish_reason") for choice in choices)
    return [*told, *_failed(record), *(_spent(record, name) if name or is_last else ())]


def _of_piece(choice: Record, name: str | None) -> list[Step]:
    delta, reason = choice.get("delta") or {}, text_at(choice, "finish_reason")
    if _is_text(choice):
        text = Fragment(
            "text", choice["text"], f"{_place(choice)}text", more=_beside(choice), is_last=bool(reason)
        )
        return [ResponseStarts(name, is_explicit=False), text, *(_finished(choice, reason) if reason else ())]
    written = _written(delta, _place(choice), _beside(choice))
    if not (written or reason or "role" in delta):
        return []
    begins = ResponseStarts(name, is_explicit=False, is_stable="role" in delta)
    return [begins, *written, *(_finished(choice, reason) if reason else ())]


def _index(choice: Any) -> int:
    index = value_at(choice, "index")
    return index if index.__class__ is int else 0


def _place(choice: Any) -> str:
    return f"{_index(choice)}/"


def _beside(choice: Any) -> Block:
    return {"choiceIndex": index} if (index := _index(choice)) else {}


def _finished(choice: Record, reason: str) -> list[Step]:
    """The end of a choice; that of the turn, unless the caller has to answer a call, whatever the reason says."""
    ends = ResponseEnds(reason, is_final=reason not in _ASKS, prefix=_place(choice), unless_called=True)
    return [ends, *_failed(choice, reason)]


def _failed(told: Record, reason: str | None = None) -> list[Step]:
    failure = error_of(told.get("error"))
    if failure is None and reason == "content_filter":
        failure = message_error(reason, None)
    return [Says("error", failure)] if failure else []


def _spent(record: Record, name: str | None) -> list[Step]:
    """Some vendors repeat with each piece what was spent so far: the last one counts, which without an id is that of
    the end."""
    usage = usage_of(record)
    if usage is None:
        return []
    spent = Part(role=None, usage=usage, key=name, metadata={"costUsd": cost_of(record)})
    return [Whole(spent), Counted(None)]


# What a piece writes.


def _written(delta: Record, place: str, more: Block) -> list[Step]:
    thought = _thought(delta, place, more)
    return thought + [
        step
        for name, write in _WRITTEN.items()
        if delta.get(name)
        for step in write(delta[name], place, more)
    ]


def _thought(delta: Record, place: str, more: Block) -> list[Step]:
    """Reasoning is told under up to three names; details are read where no other has a text."""
    text = first_text(delta, ("reasoning_content", "reasoning"))
    if text is not None:
        return [_thinking(text, place, more)]
    details = delta.get("reasoning_details")
    return [_detail(detail, place, more) for detail in details] if details.__class__ is list else []


def _thinking(text: str, place: str, more: Block) -> Fragment:
    return Fragment("thinking", text, f"{place}thinking", more=more, reopens=True)


def _detail(detail: Any, place: str, more: Block) -> Fragment:
    text = first_text(detail, ("text", "summary"))
    if text is None and text_at(detail, "data"):
        return Fragment("thinking", "", f"{place}thinking", more={**more, "redacted": True})
    return _thinking(text or "", place, more)


def _text(text: str, place: str, more: Block, name: str = "text") -> list[Step]:
    return [_thought_ends(place), Fragment("text", text, f"{place}{name}", more=more, reopens=True)]


def _thought_ends(place: str) -> Settled:
    return Settled(("thinking",), prefix=place)


def _variant(variant: str) -> "_Write":
    return lambda text, place, more: _text(text, place, {**more, "variant": variant}, variant)


def _content(content: Any, place: str, more: Block) -> list[Step]:
    """A text, or a list of parts, as one vendor writes what it thinks."""
    if content.__class__ is str:
        return _text(content, place, more)
    return [step for part in list_or_empty(content) for step in _part(part, place, more)]


def _part(part: Any, place: str, more: Block) -> list[Step]:
    block = read_block(part)
    if block["type"] == "thinking":
        return [Settled(("text",), prefix=place), _thinking(block["thinking"], place, more)]
    if block["type"] != "text":
        return _at_once([block], place, more)
    write = _variant("refusal") if block.get("variant") == "refusal" else _text
    return write(block["text"], place, more)


def _at_once(blocks: list[Block], place: str, more: Block) -> list[Step]:
    """What comes in one piece."""
    ends = Settled(("text", "thinking"), prefix=place)
    return [ends, Whole(Part(role="assistant", blocks=blocks), more=more)]


def _images(images: Any, place: str, more: Block) -> list[Step]:
    return _at_once([read_block(image) for image in list_or_empty(images)], place, more)


def _cited(annotations: Any, place: str, more: Block) -> list[Step]:
    return _text("", place, {**more, "citations": list_or_empty(annotations)})


def _spoken(audio: Any, place: str, more: Block) -> list[Step]:
    """What it says in speech; the recording stays in the records."""
    return _variant("transcript")(text_at(audio, "transcript") or "", place, more)


def _calls(calls: Any, place: str, more: Block) -> list[Step]:
    return [
        step for number, call in enumerate(list_or_empty(calls)) for step in _call(call, number, place, more)
    ]


def _call(call: Record, number: int, place: str, more: Block) -> list[Step]:
    """A call whose pieces are told by its index. One without is whole, and has its place by its id, if it has one."""
    inner = call.get("function") or call.get("custom") or {}
    id, index = text_at(call, "id"), call.get("index")
    name = index if index.__class__ is int else id
    if name is not None:
        return [_thought_ends(place), _input(inner, f"{place}call/{name}", id, more)]
    slot = f"{place}call/-{number}"
    return [_thought_ends(place), _input(inner, slot, None, more), Settled(("input",), prefix=slot)]


def _input(function: Record, slot: str, id: str | None, more: Block) -> Fragment:
    """A piece that names no function goes on; some vendors write the arguments as an object."""
    name, given = text_at(function, "name"), function.get("arguments", function.get("input"))
    text, given = (given, "") if given.__class__ is str else ("", "" if given is None else given)
    return Fragment("input", text, slot, call=id, name=name, given=given, more=more, reopens=name is not None)


_Write = Callable[[Any, str, Block], list[Step]]

_WRITTEN: Mapping[str, _Write] = {
    "content": _content,
    "annotations": _cited,
    "images": _images,
    "refusal": _variant("refusal"),
    "audio": _spoken,
    "tool_calls": _calls,
    "function_call": lambda call, place, more: [_input(call, f"{place}function_call", None, more)],
}
"""By the keys of a delta, in the order in which a message at rest is read."""


# An answer at rest.


def _of_completion(record: Record) -> list[Step]:
    """The same as its pieces would give."""
    name, choices = text_at(record, "id"), list_or_empty(record["choices"])
    told = [step for choice in choices for step in _at_rest(choice, name)]
    asks = any(text_at(choice, "finish_reason") in _ASKS for choice in choices[:1])
    ends = ResponseEnds(is_final=not asks, unless_called=True)
    return [ResponseStarts(name), *told, ends, *_failed(record), *_spent(record, name), Counted(None)]


def _at_rest(choice: Any, name: str | None) -> list[Step]:
    reason = text_at(choice, "finish_reason")
    part = Part(role="assistant", blocks=_ended(choice_blocks(choice), reason), key=name)
    return [Whole(part, more=_beside(choice)), *_failed(choice, reason)]


def _ended(blocks: list[Block], reason: str | None) -> list[Block]:
    """The texts with which it ended say why."""
    said = [block for block in blocks if block["type"] != "tool_use"]
    last = max((place for place, block in enumerate(said) if block["type"] != "text"), default=-1)
    ended = [id(block) for block in said[last + 1 :]] if reason else []
    return [{**block, "stopReason": reason} if id(block) in ended else block for block in blocks]
