"""Drafts of standard messages, and the ids derived from the texts they come from."""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from ash_shared.model.blocks import Block

_NAMESPACE = UUID("5c7bd6a0-6d5c-4a5e-9d0b-0f4d8e1f6b11")
"""Of the ids that are derived from a text; never to be changed."""


@dataclass(slots=True)
class Draft:
    """A message that may still grow."""

    line: int
    turn: int
    name: "PartName"
    """What its id is derived from, if it has none of its own."""
    id: str | None
    source: str
    role: str
    adjoins: bool
    echo: bool
    timestamp: int | None = None
    blocks: list[Block] = field(default_factory=list)
    usage: Block | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: Block | None = None
    originals: list[Any] = field(default_factory=list)

    def said(self) -> str:
        return "".join(str(block.get(block["type"])) for block in self.blocks if block["type"] in _TEXT_TYPES)

    def is_prompt(self) -> bool:
        """Whether a turn begins with it."""
        return (
            self.role == "user"
            and not self.metadata.get("synthetic")
            and all(block["type"] != "tool_result" for block in self.blocks)
        )


_TEXT_TYPES = frozenset({"text", "thinking"})


class Line:
    """A text of the session."""

    def __init__(self, raw: str | bytes) -> None:
        self._raw = raw

    @cached_property
    def digest(self) -> str:
        raw = self._raw.encode("utf-8", "surrogatepass") if isinstance(self._raw, str) else self._raw
        return blake2b(raw, digest_size=16).hexdigest()


class PartName(NamedTuple):
    """A part by the line it was read in, and its place among the parts of that line."""

    line: Line
    number: int

    def id(self) -> str:
        return derive_id(self.line.digest, self.number)


def derive_id(text: str, number: int) -> str:
    name = f"{text}\n{number}".encode("utf-8", "backslashreplace").decode()
    return str(uuid5(_NAMESPACE, name))
