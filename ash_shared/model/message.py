"""Stored messages, parsed messages, and standard messages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.content import MessageContent
from ash_shared.model.usage.answers import Cause

Kind = Literal["message", "record", "chunk"]
StoredKind = Literal["message", "record", "chunk", "deleted"]
Role = Literal["user", "assistant", "system", "tool"]

LAST_SEQUENCE = 2**53 - 1
"""The largest sequence number: every JSON reader represents it exactly."""


UNKNOWN_SOURCE = "unknown"
"""The source of messages that no provider recognises."""

RECORD_ID_PREFIX = "record:"
"""The beginning of the ids of messages that a program has stored one by one, not as the lines of a file."""

_MAX_RECORD_ID = 200


def record_message_id(record_id: object) -> str | None:
    """Return the id of the message with a record; None if the provider's id of the record is not usable."""
    is_usable = (
        isinstance(record_id, str) and record_id.isprintable() and 0 < len(record_id) <= _MAX_RECORD_ID
    )
    return f"{RECORD_ID_PREFIX}{record_id}" if is_usable else None


def declared_source(source: str) -> str | None:
    """Return the source to read a text with: None, so that it is detected, if the stored one is unknown."""
    return None if source == UNKNOWN_SOURCE else source


class Message(AshModel):
    """A stored line or document of a session."""

    id: str
    """Unique in its session: set by the sender, or derived from the text or its place in a file."""
    session_id: str = Field(alias="sessionId")
    role: Role
    kind: StoredKind
    """`message`: part of the conversation; `record`: other data of the provider; `chunk`: a fragment of a stream;
    `deleted`: the place of a deleted message, without content."""
    source: str
    """The format of the message, e.g. `claude`; `unknown` if no provider recognises it."""
    content: Omittable[str] = ABSENT
    """The text, byte for byte as received."""
    sequence: int = Field(ge=1, le=LAST_SEQUENCE)
    """Position in the session: 1, 2, 3 … without gaps."""
    created_at: datetime = Field(alias="createdAt")
    """The time of storing."""
    parsed: Omittable[list[MessageContent]] = ABSENT
    """The content as typed blocks, computed on read."""


class ParsedMessage(AshModel):
    """The result of parsing one message."""

    source: str
    """The declared format, or else the recognized one."""
    kind: Kind
    role: Role
    parsed: list[MessageContent]


class StandardTokenUsage(AshModel):
    """Token counts of an answer, with the same meaning for every vendor."""

    model_config = ConfigDict(extra="allow")

    input_tokens: int
    """Input tokens, without tokens read from or written to a cache."""
    output_tokens: int
    """Output tokens, including reasoning."""
    total_tokens: int
    """input_tokens + output_tokens, without cache tokens."""
    cache_creation_input_tokens: Omittable[int] = ABSENT
    cache_read_input_tokens: Omittable[int] = ABSENT
    reasoning_tokens: Omittable[int] = ABSENT
    """The part of output_tokens that is reasoning, if the vendor reports it."""
    service_tier: Omittable[str] = ABSENT
    vendor: Any = ABSENT
    """The vendor's own counts, unchanged."""


class MessageError(AshModel):
    """An error reported by a message."""

    code: str
    """The vendor's error code, or else the type of the record."""
    message: str
    details: Any = ABSENT
    """The vendor's error object, unchanged."""


class MessageMetadata(AshModel):
    """Metadata of a standard message. Unknown values are absent."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    source: str
    """The format of the message."""
    model: Omittable[str] = ABSENT
    session_id: Omittable[str] = Field(default=ABSENT, alias="sessionId")
    """The provider's id of the session."""
    cli_version: Omittable[str] = Field(default=ABSENT, alias="cliVersion")
    message_id: Omittable[str] = Field(default=ABSENT, alias="messageId")
    """The API's id of the message."""
    stop_reason: Omittable[str] = ABSENT
    stop_sequence: Omittable[str] = ABSENT
    agent_id: Omittable[str] = Field(default=ABSENT, alias="agentId")
    """The subagent that wrote the message."""
    parent_tool_use_id: Omittable[str] = Field(default=ABSENT, alias="parentToolUseId")
    """The tool call that started the subagent."""
    ran_by_tool_use_id: Omittable[str] = Field(default=ABSENT, alias="ranByToolUseId")
    """The tool call whose script made the call in this message, or received its result; no subagent did."""
    tool_use_result: Any = Field(default=ABSENT, alias="toolUseResult")
    """The machine-readable form of a tool's result, if the CLI wrote it next to the message."""
    cost_usd: Omittable[float] = Field(default=ABSENT, alias="costUsd")
    """The cost of this message, or of the run since the previous message with a cost; the values can be summed."""
    synthetic: Omittable[bool] = ABSENT
    """True if the client wrote the message, not the person or model that its role suggests."""
    sender: Omittable[str] = ABSENT
    """Who sent a message of the user, if the record states it: `person`, `script`, or a program such as `schedule`,
    `loop`, `channel`, `peer`, `plugin` or `task`. Messages of programs are `synthetic`."""
    sender_name: Omittable[str] = Field(default=ABSENT, alias="senderName")
    """The name of the channel, the peer or the plugin."""
    retracted: Omittable[bool] = ABSENT
    """True if a later record revokes the message."""
    shadow_of: Omittable[str] = Field(default=ABSENT, alias="shadowOf")
    """The id of the message that this one duplicates. Duplicates are kept, and have no usage."""
    inherited: Omittable[bool] = ABSENT
    """True if the transcript states that the message was copied from the session that started this one, or that this
    one is a fork of. Its usage counts there."""


class StandardMessage(AshModel):
    """A message of a conversation, in the same form for every provider."""

    id: str
    """The provider's id, or else derived from the text."""
    role: Literal["user", "assistant", "system"]
    """Tool results have the role user, as in the Claude API."""
    timestamp: Omittable[int] = ABSENT
    """Milliseconds since 1970, if the record has a time."""
    content: list[MessageContent]
    usage: Omittable[StandardTokenUsage] = ABSENT
    metadata: MessageMetadata
    error: Omittable[MessageError] = ABSENT
    original: list[Any] = Field(alias="_original")
    """The decoded records of the message; for a record with several messages, the section of each."""


class StatedTotal(NamedTuple):
    """The cost that an agent states for its whole session, of the answers so far and of its other requests."""

    cost: int
    """In nano-dollars."""
    models: tuple[str, ...] = ()
    """The models with a part of the cost."""


class RecordHeader(NamedTuple):
    """Id, time, model and session of a record; None for values that the record does not contain."""

    uuid: str | None = None
    """The provider's id of the record, intended to be unique in its session."""
    timestamp: int | None = None
    """Milliseconds since 1970."""
    session_id: str | None = None
    client_version: str | None = None
    model: str | None = None
    """The model of this record, or, if it is not a message, of the next records."""
    title: str | None = None
    """A title of the session, set by the person or the tool."""
    is_title_of_person: bool = False
    """True if the person set the title in the tool."""
    parent: str | None = None
    """The provider's id of the parent session."""
    last_timestamp: int | None = None
    """Latest time in a record with several, such as the last update of a session; milliseconds since 1970."""
    agent: str | None = None
    """The subagent that wrote the session, by its id in the parent's transcript; empty for a main session."""
    ordinal: int | None = None
    """The number of the record in its transcript, if the format counts them."""
    own_ordinal: int | None = None
    """In the first record of a session: the ordinal of its first own record. It inherited the records before that one
    from the session that started it, or that it is a fork of."""
    folder: str | None = None
    """The working folder of the agent from here on."""
    branch: str | None = None
    """The Git branch of the folder."""
    root: str | None = None
    """The root of the repository, or of the original one of a worktree."""
    stated_total: StatedTotal | None = None
    continues: str | None = None
    """In the first record of a session that Ash wrote: the id of the stored session that it continues."""
    commit: str | None = None
    """The Git commit of the folder."""
    turn_ms: int | None = None
    """Milliseconds that the agent worked in the turn that ends here."""


def merge_headers(records: Sequence[RecordHeader]) -> RecordHeader:
    """Merge the headers of a text's records: the first value of each field, but the last title, time and total."""
    times = [time for each in records for time in (each.timestamp, each.last_timestamp) if time is not None]
    named = next((each for each in reversed(records) if each.title is not None), RecordHeader())
    totals = [each.stated_total for each in records if each.stated_total is not None]
    first = (
        next((value for value in values if value is not None), None) for values in zip(*records, strict=True)
    )
    return RecordHeader._make(first)._replace(
        uuid=None,
        title=named.title,
        is_title_of_person=named.is_title_of_person,
        last_timestamp=max(times, default=None),
        stated_total=totals[-1] if totals else None,
    )


class Identity(NamedTuple):
    """Names that identify a record and its transcript in another file; None for absent ones."""

    session: str | None = None
    """The provider's id of the session."""
    project: str | None = None
    """The agent's working folder, or the provider's id for the folder."""
    agent: str | None = None
    """The provider's id of the subagent that writes the transcript."""
    origin: str | None = None
    """The provider's id of the session that this one is a fork of."""
    record: str | None = None
    """The id of the record, the same in every copy."""
    body: str | None = None
    """The content that copies have in common, besides the id; None for the text of a record without one, empty for
    nothing."""


class Drift(NamedTuple):
    """Blocks of one message that are unknown or malformed, grouped by reason and type."""

    reason: Literal["unknown_type", "malformed"]
    raw_type: str
    """The original type; if there is none, the keys of the object, such as `{id, name}`; empty for other values."""
    times: int
    """The number of such blocks."""


class Description(NamedTuple):
    """Properties of a message that the store records."""

    source: str
    kind: Kind
    role: Role
    block_types: tuple[str, ...]
    """The distinct block types, sorted."""
    header: RecordHeader
    prompt: str | None
    """The beginning of the user's text, used as the title of a session without a title."""
    drift: tuple[Drift, ...]
    digest: bytes
    """A 16-byte digest of kind, role and blocks, which changes if the message parses differently."""
    cause: Cause | None = None
    """What sent the first prompt of the message; None without a prompt."""


class ParsedLine(NamedTuple):
    """A line of a JSONL text."""

    number: int
    """The line number from 1, including blank lines."""
    raw: str
    message: ParsedMessage
