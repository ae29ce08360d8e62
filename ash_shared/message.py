"""A message as it is stored, and what reading it gives."""

from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import MISSING, BaseModel, ConfigDict, Field

from ash_shared.content import MessageContent

Kind = Literal["message", "record", "chunk"]
Role = Literal["user", "assistant", "system", "tool"]

LAST_SEQUENCE = 2**53 - 1
"""The largest place in a session: what every JSON reader knows exactly."""


class Message(BaseModel):
    """One stored line or document of a session."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, serialize_by_alias=True)

    id: str
    """Unique in its session: the writer's own, or derived from where the message came from."""
    session_id: str = Field(alias="sessionId")
    role: Role
    kind: Kind
    """`message` carries conversation, `record` is what a provider writes beside it, `chunk` a piece of a stream."""
    source: str
    """The format it is written in, e.g. `claude`; `unknown` where no provider recognises it."""
    content: str | MISSING = MISSING
    """The text exactly as it came in."""
    sequence: int = Field(ge=1, le=LAST_SEQUENCE)
    """Place in the session: 1, 2, 3 … without a gap."""
    created_at: datetime = Field(alias="createdAt")
    """When it was stored."""
    parsed: list[MessageContent] | MISSING = MISSING
    """The content as typed blocks, computed when it is read."""


class Reading(BaseModel):
    """What reading one text gives."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, serialize_by_alias=True)

    source: str
    """The format that was recognised, or given."""
    kind: Kind
    role: Role
    parsed: list[MessageContent]


class Description(NamedTuple):
    """What storing a text needs to know of it."""

    source: str
    kind: Kind
    role: Role
    block_types: tuple[str, ...]
    """The types of its blocks, each once, sorted."""
    uuid: str | None
    """The provider's own id of the record, where it carries one."""


class ParsedLine(NamedTuple):
    """One line of a JSONL text."""

    number: int
    """Counted from 1, blank lines included."""
    raw: str
    reading: Reading
