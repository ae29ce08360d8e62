"""A message as it is stored, and what reading it gives."""

from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.content import MessageContent

Kind = Literal["message", "record", "chunk"]
Role = Literal["user", "assistant", "system", "tool"]

LAST_SEQUENCE = 2**53 - 1
"""The largest place in a session: what every JSON reader knows exactly."""


class Message(AshModel):
    """One stored line or document of a session."""

    id: str
    """Unique in its session: the writer's own, or derived from where the message came from."""
    session_id: str = Field(alias="sessionId")
    role: Role
    kind: Kind
    """`message` carries conversation, `record` is what a provider writes beside it, `chunk` a piece of a stream."""
    source: str
    """The format it is written in, e.g. `claude`; `unknown` where no provider recognises it."""
    content: Omittable[str] = ABSENT
    """The text exactly as it came in."""
    sequence: int = Field(ge=1, le=LAST_SEQUENCE)
    """Place in the session: 1, 2, 3 … without a gap."""
    created_at: datetime = Field(alias="createdAt")
    """When it was stored."""
    parsed: Omittable[list[MessageContent]] = ABSENT
    """The content as typed blocks, computed when it is read."""


class Reading(AshModel):
    """What reading one text gives."""

    source: str
    """The format that was recognised, or given."""
    kind: Kind
    role: Role
    parsed: list[MessageContent]


class StandardTokenUsage(AshModel):
    """What an answer cost, counted alike for every vendor."""

    model_config = ConfigDict(extra="allow")

    input_tokens: int
    """What the model read, without what came from a cache or was written to one."""
    output_tokens: int
    """What the model wrote, reasoning included."""
    total_tokens: int
    """input_tokens + output_tokens; what a cache held is beside it."""
    cache_creation_input_tokens: Omittable[int] = ABSENT
    cache_read_input_tokens: Omittable[int] = ABSENT
    reasoning_tokens: Omittable[int] = ABSENT
    """Those of output_tokens that were reasoning, where the vendor tells."""
    service_tier: Omittable[str] = ABSENT
    vendor: Any = ABSENT
    """The vendor's own counts, as they were written."""


class MessageError(AshModel):
    """What went wrong."""

    code: str
    """The vendor's own name of it, or the type of the record that carried it."""
    message: str
    details: Any = ABSENT
    """The vendor's own error object."""


class MessageMetadata(AshModel):
    """What is known of a standard message beside its content. Keys that are unknown are absent."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    source: str
    """The format it was written in."""
    model: Omittable[str] = ABSENT
    session_id: Omittable[str] = Field(default=ABSENT, alias="sessionId")
    """The provider's own id of the session."""
    cli_version: Omittable[str] = Field(default=ABSENT, alias="cliVersion")
    message_id: Omittable[str] = Field(default=ABSENT, alias="messageId")
    """The id that the API gave the message."""
    stop_reason: Omittable[str] = ABSENT
    stop_sequence: Omittable[str] = ABSENT
    agent_id: Omittable[str] = Field(default=ABSENT, alias="agentId")
    """The subagent that wrote it."""
    parent_tool_use_id: Omittable[str] = Field(default=ABSENT, alias="parentToolUseId")
    """The call that started the subagent."""
    tool_use_result: Any = Field(default=ABSENT, alias="toolUseResult")
    """The machine-readable form of a tool's result, as the CLI wrote it beside the message."""
    cost_usd: Omittable[float] = Field(default=ABSENT, alias="costUsd")
    """What this message cost, or the run since the message that told last: adding them up counts nothing twice."""
    synthetic: Omittable[bool] = ABSENT
    """True where the tool wrote it, not the person or the model in whose name it stands."""
    retracted: Omittable[bool] = ABSENT
    """True where a later record revokes it."""
    shadow_of: Omittable[str] = Field(default=ABSENT, alias="shadowOf")
    """The id of the message whose text this one repeats. It is kept, and counts nothing."""


class StandardMessage(AshModel):
    """One message of a conversation, alike for every provider."""

    id: str
    """The provider's own; where it gives none, derived from the text."""
    role: Literal["user", "assistant", "system"]
    """Results of tools are the user's, as the Claude API has them."""
    timestamp: Omittable[int] = ABSENT
    """In milliseconds since 1970, where the record names a time."""
    content: list[MessageContent]
    usage: Omittable[StandardTokenUsage] = ABSENT
    metadata: MessageMetadata
    error: Omittable[MessageError] = ABSENT
    original: list[Any] = Field(alias="_original")
    """The records that it was made of, decoded; of a record that holds several messages, its piece."""


class Facts(NamedTuple):
    """What a record says of itself and of its session, beside its content. None where it says nothing."""

    uuid: str | None = None
    """The provider's own id of the record: no two records of a session share it by intent."""
    timestamp: int | None = None
    """In milliseconds since 1970."""
    session_id: str | None = None
    client_version: str | None = None
    model: str | None = None
    """The model of this record, or of all that follow where the record is not a message."""
    title: str | None = None
    """A name for the session, given by the person or the tool."""
    parent: str | None = None
    """The provider's own id of the session that this one was started from."""


class Drift(NamedTuple):
    """Blocks of one text that no table of Ash covers."""

    reason: Literal["unknown_type", "malformed"]
    raw_type: str
    """The wire's discriminator; empty where there is none."""
    times: int
    """How many such blocks."""


class Description(NamedTuple):
    """What storing a text needs to know of it."""

    source: str
    kind: Kind
    role: Role
    block_types: tuple[str, ...]
    """The types of its blocks, each once, sorted."""
    facts: Facts
    prompt: str | None
    """The beginning of what a person said: a name for a session that has no other."""
    drift: tuple[Drift, ...]
    digest: bytes
    """Sixteen bytes that change whenever the text reads differently."""


class ParsedLine(NamedTuple):
    """One line of a JSONL text."""

    number: int
    """Counted from 1, blank lines included."""
    raw: str
    reading: Reading
