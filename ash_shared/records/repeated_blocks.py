"""Match the blocks of a record with earlier blocks of its message (`Part.relation` growth).

Most clients write one record for each block. Some write the message so far again, with a text or with the input of a
call that has grown since.
"""

from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from ash_shared.model.blocks import Block

MAX_FORMS = 64
"""Blocks at the end of a message that are compared."""
_MIN_REPEATED = 16
"""Minimum length of a text that is a repetition at any position; short texts, such as `.`, may occur twice."""
_TEXT_KINDS = frozenset({"text", "thinking"})

_encode = msgspec.json.Encoder().encode


class BlockForm(NamedTuple):
    """The identity of a block and of its content in a message."""

    kind: str
    call: str
    """The id of a call; empty for other blocks."""
    checksum: int
    length: int
    """Characters of a text."""


def form_of(block: Block) -> BlockForm:
    kind = block["type"]
    if kind in _TEXT_KINDS:
        text = block[kind]
        return BlockForm(kind, "", _checksum(text or str(block.get("signature") or "")), len(text))
    if kind == "tool_use" and block.get("id"):
        return BlockForm(kind, block["id"], crc32(_encode(block["input"])), 0)
    return BlockForm(kind, "", crc32(_encode(block)), _MIN_REPEATED)


def _checksum(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def match_blocks(
    known: Sequence[BlockForm], blocks: Sequence[Block], *, may_grow: bool = True
) -> list[tuple[Block, BlockForm, int | None]]:
    """Return each block with its form and the index of the known form that it repeats or replaces, if any.

    If `may_grow` is False, no text is treated as a longer version of an earlier one.
    """
    matches: list[tuple[Block, BlockForm, int | None]] = []
    taken: set[int | None] = set()
    for number, block in enumerate(blocks):
        form = form_of(block)
        index = _earlier_form(known, form, block, number, may_grow=may_grow) if known else None
        matches.append((block, form, None if index in taken else index))
        taken.add(index)
    return matches


def _earlier_form(
    known: Sequence[BlockForm], form: BlockForm, block: Block, number: int, *, may_grow: bool
) -> int | None:
    """Return the index of an earlier form of a block, which is the `number`th of its record."""
    if form.call:
        return next((index for index, each in enumerate(known) if each.call == form.call), None)
    if number < len(known) and known[number] == form:
        return number
    last = len(known) - 1
    if known[last] == form or (may_grow and _has_grown(known[last], form, block)):
        return last
    return known.index(form) if form.length >= _MIN_REPEATED and form in known else None


def _has_grown(earlier: BlockForm, form: BlockForm, block: Block) -> bool:
    """Return True if the block's text begins with the earlier text."""
    if earlier.kind != form.kind or form.kind not in _TEXT_KINDS or not 0 < earlier.length < form.length:
        return False
    return _checksum(block[form.kind][: earlier.length]) == earlier.checksum
