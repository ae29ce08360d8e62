"""Chat events: an append-only log per session, which the live view and the replay both read.

All events have the same envelope; `type` determines the payload. Unknown types and keys are kept unchanged: readers
ignore unknown keys and show events of unknown types.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
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
    """Unique in its session: set by the sender, or derived from the stored message and the event's index in it."""
    timestamp: int = Field(ge=0, le=LAST_SEQUENCE)
    """Milliseconds since 1970: the time of the record, or else of storing."""
    session_id: str
    turn_id: Omittable[str] = ABSENT
    """The turn of the event: from the user's prompt to the final answer."""
    response_id: Omittable[str] = ABSENT
    """The response that the event belongs to: the API's id if there is one."""
    record_id: Omittable[str] = ABSENT
    """The provider's id of the source record, which is also the `id` of its standard message."""
    sequence: Omittable[Sequence] = ABSENT
    """Position in the session's event log: 1, 2, 3 … without gaps."""
    message_sequence: Omittable[Sequence] = ABSENT
    """The sequence of the stored message that the event is derived from."""


class Empty(_Wire):
    """An empty payload."""


class TurnStarted(_Wire):
    """The start of a turn."""

    trigger: Literal["user", "callback", "system"]
    """What started the turn; `system` if there is no prompt."""


class TurnEnded(_Wire):
    """The usage and cost of a turn, and whether it was cut off."""

    usage: Omittable[StandardTokenUsage] = ABSENT
    """The sum over all answers of the turn."""
    cost_usd: Omittable[float] = ABSENT
    """The cost of the turn only."""
    partial: Omittable[bool] = ABSENT
    """True if the turn did not finish."""
    usage_by_agent: Omittable[dict[str, StandardTokenUsage]] = ABSENT
    """The part of `usage` in lines of subagents that the transcript repeats, by the `agentId` of their sessions."""


class UserText(_Wire):
    """A message of the user."""

    text: str
    """The text blocks, joined by blank lines."""
    visible_text: Omittable[str] = ABSENT
    """The text without parts that the client added in the user's name or around the message of a program; empty if
    nothing else remains."""
    content: Omittable[list[MessageContent]] = ABSENT
    """All blocks, unless the message is a single text."""
    synthetic: Omittable[bool] = ABSENT
    """True if the client wrote the message in the user's name."""
    sender: Omittable[str] = ABSENT
    """Who sent the message, if the record states it: `person`, `script`, or a program such as `schedule`, `loop`,
    `channel`, `peer`, `plugin` or `task`. Messages of programs are `synthetic`."""
    sender_name: Omittable[str] = ABSENT
    """The name of the channel, the peer or the plugin."""
    agent_id: Omittable[str] = ABSENT
    """The `agentId` of the subagent's session, if the message reports the start or end of a subagent."""
    tool_call_id: Omittable[str] = ABSENT
    """The tool call that started this subagent."""
    from_agent_id: Omittable[str] = ABSENT
    """The agent that sent the message."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The tool call that started the subagent that receives the message."""
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class UserAudio(_Wire):
    """A spoken message of the user. Text of the same message is in a `user_message`."""

    transcription: str
    """Empty if it is not known."""
    duration_ms: Omittable[float] = ABSENT
    content: Omittable[list[MessageContent]] = ABSENT
    """The recording, as a file block."""
    synthetic: Omittable[bool] = ABSENT
    """True if the client sent the message in the user's name."""
    sender: Omittable[str] = ABSENT
    """Who sent the message, if the record states it; see `UserText`."""
    sender_name: Omittable[str] = ABSENT
    """The name of the channel, the peer or the plugin."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The tool call that started the subagent that receives the message."""
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class AssistantText(_Wire):
    """The assistant's text, or a chunk."""

    text: str
    """In a chunk, the added text; in `assistant_done`, the complete text."""
    phase: Omittable[str] = ABSENT
    """`commentary` during the work, `final_answer` for the answer, if the vendor reports it."""
    variant: Omittable[str] = ABSENT
    """The kind of text, if not an ordinary message: refusal, plan, notice."""
    stop_reason: Omittable[str] = ABSENT
    partial: Omittable[bool] = ABSENT
    """True if the stream ended before the text was complete."""
    content: Omittable[list[MessageContent]] = ABSENT
    """An image or a file in the answer."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The tool call that started the subagent that wrote the text."""
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class Thinking(_Wire):
    """Reasoning, or a chunk; the text is empty if the provider withheld it."""

    text: str
    signature: str | None = ABSENT
    redacted: bool | None = ABSENT
    partial: Omittable[bool] = ABSENT
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class ToolCall(_Wire):
    """A tool call with its arguments."""

    tool_call_id: str
    tool_name: str
    args: Any
    """The decoded arguments; a string if they are not JSON."""
    executor: str | None = ABSENT
    """Where the tool runs, if not in the client."""
    partial: Omittable[bool] = ABSENT
    """True if the stream ended before the arguments were complete: the call did not run."""
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class ToolInputChunk(_Wire):
    """A chunk of the text of a call's arguments."""

    tool_call_id: str
    tool_name: str
    chunk: str
    offset: int
    """Characters of the arguments before this chunk, so that readers can drop duplicates."""


class ToolOutputChunk(_Wire):
    """A chunk of the output of a call."""

    tool_call_id: str
    chunk: str
    offset: Omittable[int] = ABSENT
    """Characters of the output before this chunk. Without it, the chunk follows the previous one."""
    stream: Omittable[Literal["stdout", "stderr"]] = ABSENT


class ToolFailure(_Wire):
    """The failure of a tool."""

    code: str
    message: str


class ToolResult(_Wire):
    """The result of a tool call."""

    tool_call_id: str
    result: Any
    """The result given to the model: a text or blocks; null if the record has none."""
    error: Annotated[ToolFailure | Any, Field(union_mode="left_to_right")] = ABSENT
    """The failure: derived events have code and message, posted ones any JSON. Null, false and "" are none."""
    exit_code: int | None = ABSENT
    structured: Any = ABSENT
    """The machine-readable form of the result."""
    orphan: Omittable[bool] = ABSENT
    """True if the log has no earlier call with this id."""
    tool_name: Omittable[str] = ABSENT
    """The tool of an orphan, if its record names it."""
    agent_id: Omittable[str] = ABSENT
    """The subagent that the call started: the `agentId` of its session."""
    parent_tool_call_id: Omittable[str] = ABSENT
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class AgentMessage(_Wire):
    """A message to another agent; its callback has the same `messageId`."""

    message_id: str
    target_agent_id: Omittable[str] = ABSENT
    target_session_id: Omittable[str] = ABSENT
    message: str
    wait: bool


class AgentCallback(_Wire):
    """The answer of another agent to the message with this `messageId`."""

    message_id: str
    from_agent_id: Omittable[str] = ABSENT
    from_session_id: Omittable[str] = ABSENT
    result: Any
    """The answer: a text in derived events, any JSON in posted ones."""


class AgentSwitch(_Wire):
    """A handover from one agent to another."""

    from_agent_id: Omittable[str] = ABSENT
    """Absent if the log does not name it."""
    to_agent_id: str


class Interrupted(_Wire):
    """The reason for stopping a turn."""

    reason: Literal["user_cancel", "timeout", "error"]


class Failed(_Wire):
    """An error, with the provider's code if there is one."""

    code: str
    message: str
    details: Any = ABSENT
    """The vendor's error object, unchanged."""


class AudioChunk(_Wire):
    """A chunk of speech."""

    data: str
    """Base64."""
    seq: int
    """0, 1, 2 … in each recording."""
    mime_type: Omittable[str] = ABSENT
    parent_tool_call_id: Omittable[str] = ABSENT
    """The tool call that started the subagent that speaks."""


class AudioDone(_Wire):
    """The end of speech. Its words are in an `assistant_done` with the variant `transcript`."""

    duration_ms: Omittable[float] = ABSENT
    mime_type: Omittable[str] = ABSENT
    content: Omittable[list[MessageContent]] = ABSENT
    """The recording, as a file block, if it was not streamed; else it is in the `audio_chunk` events."""
    partial: Omittable[bool] = ABSENT
    """True if the stream ended before the speech was complete."""
    parent_tool_call_id: Omittable[str] = ABSENT
    """The tool call that started the subagent that speaks."""
    sidechain: Omittable[bool] = ABSENT
    """True if a subagent produced the event and its tool call is not known."""


class Summary(_Wire):
    """The text that replaces the earlier conversation."""

    text: str
    trigger: Omittable[str] = ABSENT


class SystemText(_Wire):
    """A notice of the system or the tool, and its kind."""

    text: str
    variant: Omittable[str] = ABSENT
    target_session_id: Omittable[str] = ABSENT
    """The session that this one continues in or comes from, by the provider's id."""


class Retracted(_Wire):
    """The revoked events, identified by one or more keys."""

    event_ids: Omittable[list[str]] = ABSENT
    message_ids: Omittable[list[str]] = ABSENT
    """Records, by the `recordId` or `responseId` of their events."""
    from_message_id: Omittable[str] = ABSENT
    """A record, by the `recordId` or `responseId` of its events, that is revoked with everything after it. If the log
    does not contain the record, everything before the retraction is revoked."""
    turns: Omittable[int] = ABSENT
    """The number of revoked turns, counted back from the last one."""
    message_sequences: Omittable[list[int]] = ABSENT
    """The deleted stored messages, if that is the reason."""
    reason: Omittable[str] = ABSENT
    """`deleted`: the events and their messages no longer exist. `withdrawn`: the person withdrew a message before the
    agent received it."""


class RawRecord(_Wire):
    """An unrecognized record and its format."""

    source: str
    raw: Any
    """The unrecognized record, or its unrecognized part."""


class TurnStartEvent(_Event):
    """A turn begins."""

    type: Literal["turn_start"] = "turn_start"
    payload: TurnStarted


class TurnEndEvent(_Event):
    """A turn ends."""

    type: Literal["turn_end"] = "turn_end"
    payload: TurnEnded


class UserMessageEvent(_Event):
    """A message of the user."""

    type: Literal["user_message"] = "user_message"
    payload: UserText


class UserAudioEvent(_Event):
    """Speech of the user."""

    type: Literal["user_audio"] = "user_audio"
    payload: UserAudio


class AssistantChunkEvent(_Event):
    """A chunk of a streamed answer."""

    type: Literal["assistant_chunk"] = "assistant_chunk"
    payload: AssistantText


class AssistantDoneEvent(_Event):
    """A complete text of the assistant."""

    type: Literal["assistant_done"] = "assistant_done"
    payload: AssistantText


class ThinkingChunkEvent(_Event):
    """A chunk of streamed reasoning."""

    type: Literal["thinking_chunk"] = "thinking_chunk"
    payload: Thinking


class ThinkingDoneEvent(_Event):
    """A complete block of reasoning."""

    type: Literal["thinking_done"] = "thinking_done"
    payload: Thinking


class ToolCallEvent(_Event):
    """The assistant calls a tool."""

    type: Literal["tool_call"] = "tool_call"
    payload: ToolCall


class ToolInputChunkEvent(_Event):
    """A chunk of the streamed arguments of a call."""

    type: Literal["tool_input_chunk"] = "tool_input_chunk"
    payload: ToolInputChunk


class ToolOutputChunkEvent(_Event):
    """A chunk of the output of a running tool."""

    type: Literal["tool_output_chunk"] = "tool_output_chunk"
    payload: ToolOutputChunk


class ToolResultEvent(_Event):
    """A tool returns its result."""

    type: Literal["tool_result"] = "tool_result"
    payload: ToolResult


class AgentMessageEvent(_Event):
    """A message to another agent, which has its own session."""

    type: Literal["agent_message"] = "agent_message"
    payload: AgentMessage


class AgentCallbackEvent(_Event):
    """The answer of another agent."""

    type: Literal["agent_callback"] = "agent_callback"
    payload: AgentCallback


class AgentSwitchEvent(_Event):
    """Another agent continues."""

    type: Literal["agent_switch"] = "agent_switch"
    payload: AgentSwitch


class InterruptEvent(_Event):
    """The turn is stopped."""

    type: Literal["interrupt"] = "interrupt"
    payload: Interrupted


class ErrorEvent(_Event):
    """An error occurs."""

    type: Literal["error"] = "error"
    payload: Failed


class AudioChunkEvent(_Event):
    """A chunk of speech."""

    type: Literal["audio_chunk"] = "audio_chunk"
    payload: AudioChunk


class AudioDoneEvent(_Event):
    """The speech is complete."""

    type: Literal["audio_done"] = "audio_done"
    payload: AudioDone


class SummaryEvent(_Event):
    """The earlier conversation is summarised."""

    type: Literal["summary"] = "summary"
    payload: Summary


class SystemMessageEvent(_Event):
    """A notice of the system or the tool, to the model or to the person."""

    type: Literal["system_message"] = "system_message"
    payload: SystemText


class RetractionEvent(_Event):
    """A record revokes earlier ones; the log keeps all events."""

    type: Literal["retraction"] = "retraction"
    payload: Retracted


class RawEvent(_Event):
    """An unrecognized record: shown, never dropped."""

    type: Literal["raw"] = "raw"
    payload: RawRecord


class ResetEvent(_Event):
    """The log was rebuilt: discard the events received so far and continue with the following ones."""

    type: Literal["reset"] = "reset"
    payload: Empty


def _exclude_known_types(schema: dict[str, Any]) -> None:
    schema["not"] = {"enum": sorted(EVENT_TYPES)}


class OtherEvent(_Event):
    """An event of an unknown type, kept unchanged."""

    type: str = Field(min_length=1, max_length=100, json_schema_extra=_exclude_known_types)
    payload: dict[str, Any]

    @field_validator("type")
    @classmethod
    def _reject_known_type(cls, name: str) -> str:
        if name in EVENT_TYPES:
            raise ValueError(f"is not a valid event of type {name}")
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
"""Any event, of a known or an unknown type."""

EVENT_TYPES = frozenset(
    model.model_fields["type"].default for model in get_args(get_args(KnownEvent.__value__)[0])
)
"""The known types; event_types.py has their properties."""

_known: TypeAdapter[KnownEvent] = TypeAdapter(KnownEvent, config=ConfigDict(defer_build=True))
_other: TypeAdapter[OtherEvent] = TypeAdapter(OtherEvent)


def read_event(event: Any) -> ChatEvent:
    """Return the typed event of a decoded JSON object with the JSON names as keys.

    Raises pydantic.ValidationError for any other value, and for a known type with an invalid payload.
    """
    event_type = event.get("type") if isinstance(event, dict) else None
    is_known = isinstance(event_type, str) and event_type in EVENT_TYPES
    adapter = _known if is_known else _other
    return adapter.validate_python(event, strict=True, by_alias=True, by_name=False)


def is_payload(event_type: str, payload: Any) -> bool:
    """True if the payload is valid for this type of event."""
    try:
        read_event({"id": "-", "timestamp": 0, "sessionId": "-", "type": event_type, "payload": payload})
    except ValidationError:
        return False
    return True


def blocks_of(payload: Mapping[str, Any]) -> list[Block]:
    """Return the content of a user or assistant payload as blocks, including its text if no block has it."""
    text, blocks = payload["text"], list(payload.get("content") or ())
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    is_repeated = text in ("", "\n\n".join(texts), *texts)
    return blocks if blocks and is_repeated else [text_block(text), *blocks]


def failure_of(payload: Mapping[str, Any]) -> ToolFailure | None:
    """Return the failure in a `tool_result` payload in wire form; None without one."""
    error = payload.get("error")
    if error is None or error is False or error == "":
        return None
    fields = error if isinstance(error, dict) else {"message": error}
    code, message = fields.get("code"), fields.get("message")
    return ToolFailure.model_construct(
        code=code if isinstance(code, str) else "error",
        message=message if isinstance(message, str) else text_of_json(error),
    )


def text_of_json(value: Any) -> str:
    """Return a text as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
