"""Chat events: one append-only log per session, which live view and replay both read.

An event says one discrete thing of a conversation. Its envelope is alike for all, its `type` tells what the payload
holds. Types and keys that are not named here are kept as they came: a reader ignores the keys it does not know and
shows the types it does not know.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.alias_generators import to_camel
from typing_extensions import TypeAliasType

from ash_shared.model.base import ABSENT, AshModel, Omittable
from ash_shared.model.blocks import Block, text_block
from ash_shared.model.content import MessageContent
from ash_shared.model.message import LAST_SEQUENCE, StandardTokenUsage

Sequence = Annotated[int, Field(ge=1, le=LAST_SEQUENCE)]


class _Wire(AshModel):
    model_config = ConfigDict(extra="allow", strict=True, alias_generator=to_camel)


class _Event(_Wire):
    id: str = Field(min_length=1, max_length=255)
    """Unique in its session: the writer's own, or derived from the stored line and its place among its events."""
    timestamp: int = Field(ge=0, le=LAST_SEQUENCE)
    """In milliseconds since 1970: of the record it was derived from where that names a time, else of its storing."""
    session_id: str
    turn_id: Omittable[str] = ABSENT
    """Of the turn it belongs to: from what the user said to the final answer."""
    response_id: Omittable[str] = ABSENT
    """Of the answer it is a part of, by the API's own name where it has one."""
    record_id: Omittable[str] = ABSENT
    """The provider's own id of the record it was derived from; the `id` of the standard message made of it."""
    sequence: Omittable[Sequence] = ABSENT
    """Place in the session's log of events: 1, 2, 3 … without a gap."""
    message_sequence: Omittable[Sequence] = ABSENT
    """The stored message it was derived from."""


class Empty(_Wire):
    """Nothing."""


class TurnStarted(_Wire):
    """Who began the turn."""

    trigger: Literal["user", "callback", "system"]
    """Whose doing it was: `system` where nobody was seen to ask."""


class TurnEnded(_Wire):
    """What the turn cost, and whether it came to its end."""

    usage: Omittable[StandardTokenUsage] = ABSENT
    """Of all answers of the turn."""
    cost_usd: Omittable[float] = ABSENT
    """Of this turn alone."""
    partial: Omittable[bool] = ABSENT
    """True where the turn was left before its end."""


class UserText(_Wire):
    """What was said, as text and, where it was more, as blocks."""

    text: str
    """Its text blocks, joined by blank lines."""
    visible_text: Omittable[str] = ABSENT
    """The text without what a tool wrapped into it in the user's name; empty where nothing else is there."""
    content: Omittable[list[MessageContent]] = ABSENT
    """All its blocks, where there is more than one text."""
    synthetic: Omittable[bool] = ABSENT
    """True where the tool wrote it in the user's name."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The call that started the subagent it was said to."""
    sidechain: Omittable[bool] = ABSENT
    """True where a subagent said or did it whose call is not known."""


class UserAudio(_Wire):
    """What was said, as it was understood."""

    transcription: str
    duration_ms: float


class AssistantText(_Wire):
    """A text of the assistant, or a piece of one."""

    text: str
    """Of a chunk: what is added. Of a done: the whole text, whatever chunks came before."""
    phase: Omittable[str] = ABSENT
    """`commentary` where it is said on the way, `final_answer` where it is the answer, if the vendor tells."""
    variant: Omittable[str] = ABSENT
    """What kind of text, where it is not plain speech: refusal, plan, notice."""
    stop_reason: Omittable[str] = ABSENT
    partial: Omittable[bool] = ABSENT
    """True where the stream ended before the text did."""
    content: Omittable[list[MessageContent]] = ABSENT
    """An image or a file, where that is what was answered."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The call that started the subagent that said it."""
    sidechain: Omittable[bool] = ABSENT
    """True where a subagent said or did it whose call is not known."""


class Thinking(_Wire):
    """Reasoning, or a piece of it; the text is empty where the provider withheld it."""

    text: str
    signature: str | None = ABSENT
    redacted: bool | None = ABSENT
    partial: Omittable[bool] = ABSENT
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True where a subagent said or did it whose call is not known."""


class ToolCall(_Wire):
    """Which tool is called, and with what."""

    tool_call_id: str
    tool_name: str
    args: Any
    """Decoded; the text itself where it is no JSON."""
    executor: str | None = ABSENT
    """Who runs it, where that is not the client."""
    partial: Omittable[bool] = ABSENT
    """True where the stream ended before the arguments did: it was never run."""
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True where a subagent said or did it whose call is not known."""


class ToolInputChunk(_Wire):
    """What is added to the text of a call's arguments."""

    tool_call_id: str
    tool_name: str
    chunk: str
    offset: int
    """Characters of the arguments before this chunk: lets a reader drop what it has."""


class ToolOutputChunk(_Wire):
    """What is added to the output of a call."""

    tool_call_id: str
    chunk: str
    offset: int
    """Characters of the output before this chunk."""
    stream: Omittable[Literal["stdout", "stderr"]] = ABSENT


class ToolFailure(_Wire):
    """How a tool failed."""

    code: str
    message: str


class ToolResult(_Wire):
    """What a call gave."""

    tool_call_id: str
    result: Any
    """What the model was given: a text, or blocks; null where the record has none."""
    error: Omittable[ToolFailure] = ABSENT
    exit_code: int | None = ABSENT
    structured: Any = ABSENT
    """The machine-readable form beside it."""
    orphan: Omittable[bool] = ABSENT
    """True where the log has no call of that id before it."""
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True where a subagent said or did it whose call is not known."""


class AgentMessage(_Wire):
    """What another agent is told; its callback has the same `messageId`."""

    message_id: str
    target_agent_id: Omittable[str] = ABSENT
    target_session_id: Omittable[str] = ABSENT
    message: str
    wait: bool


class AgentCallback(_Wire):
    """What the other agent answered to the message of this `messageId`."""

    message_id: str
    from_agent_id: Omittable[str] = ABSENT
    from_session_id: Omittable[str] = ABSENT
    result: str


class AgentSwitch(_Wire):
    """Which agent hands over to which."""

    from_agent_id: str
    to_agent_id: str


class Interrupted(_Wire):
    """Why the turn was stopped."""

    reason: Literal["user_cancel", "timeout", "error"]


class Failed(_Wire):
    """What failed, by its code where the provider gives one."""

    code: str
    message: str
    details: Any = ABSENT
    """The vendor's own error object."""


class AudioChunk(_Wire):
    """What is added to the speech."""

    data: str
    """Base64."""
    seq: int


class AudioDone(_Wire):
    """How long the speech is."""

    duration_ms: float


class Summary(_Wire):
    """The text that takes the place of what was said before it."""

    text: str
    trigger: Omittable[str] = ABSENT


class SystemText(_Wire):
    """What was said, and what kind of notice it is."""

    text: str
    variant: Omittable[str] = ABSENT


class Retracted(_Wire):
    """What is revoked: named by one of these keys or by several."""

    event_ids: Omittable[list[str]] = ABSENT
    message_ids: Omittable[list[str]] = ABSENT
    """Records: the `recordId` or `responseId` of their events."""
    from_message_id: Omittable[str] = ABSENT
    """A record that is revoked with all that came after it; all that came before where it is not known."""
    turns: Omittable[int] = ABSENT
    """How many turns are revoked, counted from the last one back."""
    reason: Omittable[str] = ABSENT


class RawRecord(_Wire):
    """The record, and the format it came in."""

    source: str
    raw: Any
    """The record, or the piece of it, that no table knows."""


class TurnStartEvent(_Event):
    """A turn begins."""

    type: Literal["turn_start"] = "turn_start"
    payload: TurnStarted


class TurnEndEvent(_Event):
    """A turn is over."""

    type: Literal["turn_end"] = "turn_end"
    payload: TurnEnded


class UserMessageEvent(_Event):
    """What the user said."""

    type: Literal["user_message"] = "user_message"
    payload: UserText


class UserAudioEvent(_Event):
    """What the user said aloud."""

    type: Literal["user_audio"] = "user_audio"
    payload: UserAudio


class AssistantChunkEvent(_Event):
    """A piece of an answer that is being written."""

    type: Literal["assistant_chunk"] = "assistant_chunk"
    payload: AssistantText


class AssistantDoneEvent(_Event):
    """A whole text of the assistant."""

    type: Literal["assistant_done"] = "assistant_done"
    payload: AssistantText


class ThinkingChunkEvent(_Event):
    """A piece of reasoning that is being written."""

    type: Literal["thinking_chunk"] = "thinking_chunk"
    payload: Thinking


class ThinkingDoneEvent(_Event):
    """A whole piece of reasoning."""

    type: Literal["thinking_done"] = "thinking_done"
    payload: Thinking


class ToolCallEvent(_Event):
    """The assistant calls a tool."""

    type: Literal["tool_call"] = "tool_call"
    payload: ToolCall


class ToolInputChunkEvent(_Event):
    """A piece of the arguments of a call that is being written."""

    type: Literal["tool_input_chunk"] = "tool_input_chunk"
    payload: ToolInputChunk


class ToolOutputChunkEvent(_Event):
    """A piece of what a running tool writes."""

    type: Literal["tool_output_chunk"] = "tool_output_chunk"
    payload: ToolOutputChunk


class ToolResultEvent(_Event):
    """A tool has answered."""

    type: Literal["tool_result"] = "tool_result"
    payload: ToolResult


class AgentMessageEvent(_Event):
    """A message to another agent, in a session of its own."""

    type: Literal["agent_message"] = "agent_message"
    payload: AgentMessage


class AgentCallbackEvent(_Event):
    """The answer of another agent."""

    type: Literal["agent_callback"] = "agent_callback"
    payload: AgentCallback


class AgentSwitchEvent(_Event):
    """Another agent goes on."""

    type: Literal["agent_switch"] = "agent_switch"
    payload: AgentSwitch


class InterruptEvent(_Event):
    """The turn was stopped."""

    type: Literal["interrupt"] = "interrupt"
    payload: Interrupted


class ErrorEvent(_Event):
    """Something failed."""

    type: Literal["error"] = "error"
    payload: Failed


class AudioChunkEvent(_Event):
    """A piece of speech."""

    type: Literal["audio_chunk"] = "audio_chunk"
    payload: AudioChunk


class AudioDoneEvent(_Event):
    """The speech is whole."""

    type: Literal["audio_done"] = "audio_done"
    payload: AudioDone


class SummaryEvent(_Event):
    """The history before it was summarised."""

    type: Literal["summary"] = "summary"
    payload: Summary


class SystemMessageEvent(_Event):
    """What the system or the tool said, to the model or to the person."""

    type: Literal["system_message"] = "system_message"
    payload: SystemText


class RetractionEvent(_Event):
    """A later record revokes earlier ones; the log itself stays as it is."""

    type: Literal["retraction"] = "retraction"
    payload: Retracted


class RawEvent(_Event):
    """A record that no table knows: shown, never dropped."""

    type: Literal["raw"] = "raw"
    payload: RawRecord


class ResetEvent(_Event):
    """What came before was an older reading: clear, and go on with what follows."""

    type: Literal["reset"] = "reset"
    payload: Empty


def _without_known(schema: dict[str, Any]) -> None:
    schema["not"] = {"enum": sorted(EVENT_TYPES)}


class OtherEvent(_Event):
    """An event of a type that this version does not know, kept as it came."""

    type: str = Field(min_length=1, max_length=100, json_schema_extra=_without_known)
    payload: dict[str, Any]

    @field_validator("type")
    @classmethod
    def _is_unknown(cls, name: str) -> str:
        if name in EVENT_TYPES:
            raise ValueError(f"is not what the type {name} promises")
        return name


KnownEvent = TypeAliasType(
    "KnownEvent",
    Annotated[
        TurnStartEvent
        | TurnEndEvent
        | UserMessageEvent
        | UserAudioEvent
        | AssistantChunkEvent
        | AssistantDoneEvent
        | ThinkingChunkEvent
        | ThinkingDoneEvent
        | ToolCallEvent
        | ToolInputChunkEvent
        | ToolOutputChunkEvent
        | ToolResultEvent
        | AgentMessageEvent
        | AgentCallbackEvent
        | AgentSwitchEvent
        | InterruptEvent
        | ErrorEvent
        | AudioChunkEvent
        | AudioDoneEvent
        | SummaryEvent
        | SystemMessageEvent
        | RetractionEvent
        | RawEvent
        | ResetEvent,
        Field(discriminator="type"),
    ],
)

ChatEvent = TypeAliasType("ChatEvent", Annotated[KnownEvent | OtherEvent, Field(union_mode="left_to_right")])
"""Any event: of a type that this version knows, or of another."""

EVENTS: Mapping[str, type[BaseModel]] = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in get_args(get_args(KnownEvent.__value__)[0])
}
"""The model of each type that this version knows."""

EVENT_TYPES = frozenset(EVENTS)

CHUNKS = frozenset(
    {"assistant_chunk", "audio_chunk", "thinking_chunk", "tool_input_chunk", "tool_output_chunk"}
)
"""The types of pieces of a stream: the whole follows, and a replay needs none of them."""

_known: TypeAdapter[KnownEvent] = TypeAdapter(KnownEvent, config=ConfigDict(defer_build=True))
_other: TypeAdapter[OtherEvent] = TypeAdapter(OtherEvent)


def read_event(event: Any) -> ChatEvent:
    """The typed event of a decoded JSON object. Raises pydantic.ValidationError where it is none, also for a known type
    whose payload is not what it promises. Keys have their wire names."""
    wire = event.get("type") if isinstance(event, dict) else None
    is_known = isinstance(wire, str) and wire in EVENT_TYPES
    read = _known if is_known else _other
    return read.validate_python(event, strict=True, by_alias=True, by_name=False)


def is_payload(wire: str, payload: Any) -> bool:
    """Whether an event of this type may have this payload."""
    try:
        read_event({"id": "-", "timestamp": 0, "sessionId": "-", "type": wire, "payload": payload})
    except ValidationError:
        return False
    return True


def blocks_of(payload: Mapping[str, Any]) -> list[Block]:
    """What a text of the user or of the assistant says, as blocks: its text is among them."""
    blocks: list[Block] = list(payload.get("content") or ())
    has_text = any(block["type"] == "text" for block in blocks)
    return blocks if has_text or (blocks and not payload["text"]) else [text_block(payload["text"]), *blocks]
