"""Drafts of standard messages, and the ids derived from the texts they come from."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from ash_shared.model.blocks import Block, with_variant
from ash_shared.model.usage.costs import MessageCosts
from ash_shared.records.repeated_blocks import MAX_FORMS, BlockForm, match_blocks
from ash_shared.records.steps import Part

_NAMESPACE = UUID("5c7bd6a0-6d5c-4a5e-9d0b-0f4d8e1f6b11")
"""Namespace of the ids derived from a text; must never change."""


@dataclass(slots=True)
class Draft:
    """A message that may still be extended."""

    number: int
    """Its position in the session."""
    line: int
    turn: int
    name: "PartName"
    """The source of its id, if the provider gives none."""
    id: str | None
    source: str
    role: str
    joins_previous: bool
    is_copy: bool
    is_queued: bool = False
    """True for a prompt in the queue, which the client writes again when it is sent."""
    begins_turn: bool = False
    """True for a prompt, unless it is a copy."""
    sent_as: "Draft | None" = None
    """The message that sends this queued prompt, or that this prompt repeats."""
    timestamp: int | None = None
    last_record: str | None = None
    """The id of the last record that added blocks to the message."""
    forms: list[BlockForm] = field(default_factory=list)
    """The forms of its last blocks, if the message may grow."""
    usage: Block | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Block | None = None
    originals: list[Any] = field(default_factory=list)
    _blocks: list[Block] | None = field(default_factory=list)
    """None if a section was replaced since they were read."""
    _sections: dict[str | int, list[Block]] = field(default_factory=dict)
    """The blocks of a message that is written in sections, by id, or by number without one."""
    costs: MessageCosts = field(default_factory=MessageCosts)
    variant: str | None = None
    """The variant of the texts in its sections."""
    typed_sections: set[str | None] = field(default_factory=set)
    """The sections of the user that the client did not write."""

    def put(self, part: Part) -> None:
        """Add a section, or replace its earlier version."""
        self.variant = part.fields.get("variant", self.variant)
        blocks = part.blocks if self.variant is None else with_variant(part.blocks, self.variant)
        self.put_section(part.section, blocks)
        self._put_costs(part.section, part.usage, part.cost)
        is_synthetic = part.origin == "synthetic"
        if is_synthetic or (part.blocks and part.role == "user"):
            (self.typed_sections.discard if is_synthetic else self.typed_sections.add)(part.section)
            self.metadata["synthetic"] = not self.typed_sections or None

    @property
    def blocks(self) -> list[Block]:
        if self._blocks is None:
            self._blocks = [block for section in self._sections.values() for block in section]
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: list[Block]) -> None:
        self._blocks = blocks

    def put_section(self, name: str | None, blocks: list[Block]) -> None:
        """Append the blocks of a section, or replace its earlier version."""
        key = len(self._sections) if name is None else name
        if self._sections.get(key):
            self._sections[key], self._blocks = blocks, None
            return
        self._sections.pop(key, None)
        self._sections[key] = blocks
        if self._blocks is not None:
            self._blocks += blocks

    def _put_costs(self, section: str | None, usage: Block | None, cost: float | None) -> None:
        """Update the usage and cost of the message; a section states them, or (None) the message as a whole."""
        self.costs.put(section, usage, cost)
        total = self.costs.total()
        if total.usage is not None:
            self.usage = total.usage
        if total.cost is not None:
            self.metadata["costUsd"] = total.cost

    def grow(self, blocks: list[Block], *, may_grow: bool = True) -> None:
        """Append blocks, or replace their earlier forms."""
        matches = match_blocks(self.forms, blocks, may_grow=may_grow)
        first = len(self.blocks) - len(self.forms)
        for block, form, index in matches:
            if index is None:
                self.blocks.append(block)
                self.forms.append(form)
            else:
                self.blocks[first + index], self.forms[index] = block, form
        del self.forms[:-MAX_FORMS]

    def text(self) -> str:
        return "".join(str(block.get(block["type"])) for block in self.blocks if block["type"] in _TEXT_TYPES)

    def id_name(self) -> str:
        """Return its id, unless another message has the same."""
        own_id = self.id or self.metadata.get("messageId")
        return own_id if own_id and isinstance(own_id, str) else self.name.id()

    def is_prompt(self) -> bool:
        """True if the message begins a turn."""
        return (
            self.role == "user"
            and not self.metadata.get("synthetic")
            and all(block["type"] != "tool_result" for block in self.blocks)
        )


_TEXT_TYPES = frozenset({"text", "thinking"})


class StoredText:
    """A stored text of the session."""

    def __init__(self, raw: str | bytes) -> None:
        self._raw = raw

    @cached_property
    def digest(self) -> str:
        raw = self._raw.encode("utf-8", "surrogatepass") if isinstance(self._raw, str) else self._raw
        return blake2b(raw, digest_size=16).hexdigest()


class PartName(NamedTuple):
    """Identifies a part by its line and its position among the parts of that line."""

    line: StoredText
    number: int

    def id(self) -> str:
        return derive_id(self.line.digest, self.number)


class IdAllocator:
    """Assigns unique message ids: the provider's id, or else one derived from the text."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    def take(self, draft: Draft) -> str:
        id = name = draft.id_name()
        while id in self._counts:
            self._counts[name] += 1
            id = derive_id(name, self._counts[name])
        self._counts[id] = 1
        return id


def derive_id(text: str, number: int) -> str:
    name = f"{text}\n{number}".encode("utf-8", "backslashreplace").decode()
    return str(uuid5(_NAMESPACE, name))
