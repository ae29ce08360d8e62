"""What Ash adds to the ATIF documents that it writes: an object `ash` in `extra` of a step, a call or a result.

ATIF has one reasoning text, one message and one list of calls per step. The notes state how these were divided and
ordered, and contain the blocks and fields that have no place in ATIF. The projection writes them, and the provider
reads them, so that a document gives the same blocks again.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, is_valid, without
from ash_shared.records.json_fields import items_at, value_at

KEY = "ash"

STEP_NOTES: Mapping[str, type] = {
    "blocks": list,
    "error": dict,
    "id": str,
    "isEmpty": bool,
    "messageId": str,
    "metrics": dict,
    "order": list,
    "parts": list,
    "ranByToolUseId": str,
    "sender": str,
    "senderName": str,
    "stopReason": str,
    "stopSequence": str,
    "synthetic": bool,
    "thinking": list,
}
CALL_NOTES: Mapping[str, type] = {"block": dict, "hasBareInput": bool, "hasNoId": bool}
RESULT_NOTES: Mapping[str, type] = {
    "block": dict,
    "blocks": list,
    "hasNoCall": bool,
    "isInline": bool,
    "isJson": bool,
    "parts": list,
    "timestamp": str,
    "toolUseId": str,
}
"""The notes of steps, calls and results, with their types."""

SEPARATOR = "\n\n"
"""Between reasoning texts that are joined into one."""

MEDIA_TYPES: Mapping[str, frozenset[str]] = {
    "audio": frozenset(
        f"audio/{name}" for name in ("aac", "aiff", "flac", "mp4", "mpeg", "ogg", "wav", "webm")
    ),
    "image": frozenset(f"image/{name}" for name in ("gif", "jpeg", "png", "webp")),
}
"""The media types that ATIF accepts, by the type of the part."""


def notes_of(value: Any) -> Block:
    """Return the notes of a step, call or result; empty if it has none."""
    notes = value_at(value, "extra", KEY)
    return notes if isinstance(notes, dict) else {}


def without_notes(value: Block, known: Mapping[str, type]) -> Block:
    """Return a step, call or result without the known notes, and without `extra` if nothing else is in it."""
    notes = notes_of(value)
    if not notes:
        return value
    unknown = {name: note for name, note in notes.items() if not _is_known(name, note, known)}
    extra = {**without(value["extra"], KEY), **({KEY: unknown} if unknown else {})}
    rest = without(value, "extra")
    return {**rest, "extra": extra} if extra else rest


def _is_known(name: str, note: Any, known: Mapping[str, type]) -> bool:
    return name in known and (note is None or isinstance(note, known[name]))


def kind_of(block: Block) -> str:
    """Return where a step has a block: its type, or `text` for any part of the message."""
    return block["type"] if block["type"] in _ORDER else "text"


_ORDER = ("thinking", "text", "tool_use", "tool_result")
"""The order of a step without a note."""


def order_note(blocks: Iterable[Block]) -> list[str] | None:
    """Return the kinds of blocks in their order; None for the usual order."""
    order = [kind_of(block) for block in blocks]
    return None if order == sorted(order, key=_ORDER.index) else order


class NotesDoNotFit(ValueError):
    """The notes describe another step, call or result, because something has changed the document."""


def in_noted_order(blocks: list[Block], notes: Block) -> list[Block]:
    """Return the blocks of a step in the noted order. Raises NotesDoNotFit."""
    if "order" not in notes:
        return blocks
    order = [kind for kind in items_at(notes, "order") if isinstance(kind, str)]
    if sorted(order) != sorted(map(kind_of, blocks)):
        raise NotesDoNotFit
    of_kind = {kind: iter([block for block in blocks if kind_of(block) == kind]) for kind in order}
    return [next(of_kind[kind]) for kind in order]


def split_text(text: str, notes: Block) -> list[tuple[str, Block]]:
    """Return the reasoning in its pieces, with the noted fields of each. Raises NotesDoNotFit."""
    if "thinking" not in notes:
        return [(text, {})]
    thoughts = items_at(notes, "thinking")
    lengths = [value_at(thought, "length") for thought in thoughts]
    are_lengths = bool(lengths) and all(length.__class__ is int and length >= 0 for length in lengths)
    if not are_lengths or sum(lengths) + len(SEPARATOR) * (len(lengths) - 1) != len(text):
        raise NotesDoNotFit
    texts, start = list[tuple[str, Block]](), 0
    for thought, length in zip(thoughts, lengths, strict=True):
        texts.append((text[start : start + length], without(thought, "length")))
        start += length + len(SEPARATOR)
    return texts


def with_noted_blocks(blocks: list[Block], notes: Block) -> list[Block]:
    """Return the parts of a message or result with their noted fields, and the blocks that ATIF cannot contain.

    Raises NotesDoNotFit.
    """
    fields = items_at(notes, "parts") or [{}] * len(blocks)
    if len(fields) != len(blocks):
        raise NotesDoNotFit
    restored = [with_noted_fields(block, more) for block, more in zip(blocks, fields, strict=True)]
    for entry in items_at(notes, "blocks"):
        place, block = value_at(entry, "place"), value_at(entry, "block")
        has_type = isinstance(block, dict) and isinstance(block.get("type"), str)
        if place.__class__ is not int or not has_type or not is_valid(block):
            raise NotesDoNotFit
        restored.insert(place, block)
    return restored


def with_noted_fields(block: Block, fields: Any) -> Block:
    """Return the block with the noted fields of its original. Raises NotesDoNotFit."""
    if not fields:
        return block
    restored = {**without(block, "source_type"), **fields} if isinstance(fields, dict) else {}
    if restored.get("type") != block["type"] or not is_valid(restored):
        raise NotesDoNotFit
    return restored
