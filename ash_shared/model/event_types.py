"""The catalogue of event types: one row with all properties of each type.

Tables that depend on the type are derived from these rows once, at import. Functions that handle single types are in
the modules that use them; tests compare their tables with the catalogue. docs/adding-an-event-type.md is the guide.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from pydantic import BaseModel

from ash_shared.model import events
from ash_shared.model.message import Role

Weight = Literal["A", "B", "C", "D"]
"""A: texts of the user and the assistant; B: thinking; C: tool calls; D: tool results and all other texts."""


class ChunkGroup(NamedTuple):
    """The chunks that a complete event repeats have the same values in these fields."""

    kind: str
    """Part of the key under which chunks are stored: never change it."""
    fields: tuple[str, ...]


class EventType(NamedTuple):
    """The properties of a type."""

    model: type[BaseModel]
    role: Role = "system"
    """The speaker; `tool` for tool results, `system` for events without a speaker."""
    message_role: Role | None = None
    """The role of its message when a stored event is parsed; None if it has no blocks of its own."""
    text: str | None = None
    """The payload field with its text."""
    weight: Weight | None = None
    """Its weight in searches: A to C for the field `text`, D for all texts of the payload. None: not searched."""
    chunk_of: str | None = None
    """The type that repeats the content of these chunks. The names of chunk types end in `_chunk`."""
    chunks: ChunkGroup | None = None
    """For a complete type: its chunks."""
    turn: Literal["start", "end"] | None = None
    """start: the event starts a turn; end: it ends the turn."""
    trigger: Literal["user", "callback", "system"] | None = None
    """The trigger of the turn that it starts if none is open; `user` for prompts."""
    is_turn_content: bool = False
    """Counts as content of a turn: turns without content are not counted, and not revoked by their number."""
    is_noted: bool = False
    """Posted events of this type affect later derived events."""
    is_revocable: bool = False
    """Retracted by its id if a record is written again without the content."""
    is_topic: bool = False
    """The WebSocket topics contain it."""
    in_conversation: bool = False
    """Projections to messages and prompts read it."""
    is_hidden: bool = False
    """Requests, prompts and summaries do not read its payload."""
    issue: Literal["error", "failure", "unrecognised"] | None = None
    """How a session counts it; `failure`: as an error if its payload has one."""
    filter: str | None = None
    """The switch of the viewer's filter menu that hides it; None: always shown."""


_TEXT_CHUNKS = ("turnId", "responseId", "parentToolCallId")

CATALOGUE: Mapping[str, EventType] = {
    "turn_start": EventType(events.TurnStartEvent, turn="start", is_noted=True, in_conversation=True),
    "turn_end": EventType(events.TurnEndEvent, turn="end", is_noted=True, in_conversation=True),
    "user_message": EventType(
        events.UserMessageEvent,
        role="user",
        message_role="user",
        text="text",
        weight="A",
        trigger="user",
        is_turn_content=True,
        is_noted=True,
        is_revocable=True,
        is_topic=True,
        in_conversation=True,
    ),
    "user_audio": EventType(
        events.UserAudioEvent,
        role="user",
        message_role="user",
        text="transcription",
        weight="A",
        trigger="user",
        is_turn_content=True,
        is_revocable=True,
        is_topic=True,
        in_conversation=True,
    ),
    "assistant_chunk": EventType(
        events.AssistantChunkEvent,
        role="assistant",
        text="text",
        chunk_of="assistant_done",
        is_noted=True,
        filter="answers",
    ),
    "assistant_done": EventType(
        events.AssistantDoneEvent,
        role="assistant",
        message_role="assistant",
        text="text",
        weight="A",
        chunks=ChunkGroup("text", _TEXT_CHUNKS),
        is_turn_content=True,
        is_noted=True,
        is_revocable=True,
        is_topic=True,
        in_conversation=True,
        filter="answers",
    ),
    "thinking_chunk": EventType(
        events.ThinkingChunkEvent,
        role="assistant",
        text="text",
        chunk_of="thinking_done",
        is_noted=True,
        filter="thinking",
    ),
    "thinking_done": EventType(
        events.ThinkingDoneEvent,
        role="assistant",
        message_role="assistant",
        text="text",
        weight="B",
        chunks=ChunkGroup("thinking", _TEXT_CHUNKS),
        is_turn_content=True,
        is_noted=True,
        is_revocable=True,
        is_topic=True,
        is_hidden=True,
        filter="thinking",
    ),
    "tool_call": EventType(
        events.ToolCallEvent,
        role="assistant",
        message_role="assistant",
        weight="C",
        chunks=ChunkGroup("input", ("toolCallId",)),
        is_turn_content=True,
        is_noted=True,
        is_topic=True,
        in_conversation=True,
        filter="tools",
    ),
    "tool_input_chunk": EventType(
        events.ToolInputChunkEvent,
        role="assistant",
        text="chunk",
        chunk_of="tool_call",
        is_noted=True,
        filter="tools",
    ),
    "tool_output_chunk": EventType(
        events.ToolOutputChunkEvent,
        role="tool",
        text="chunk",
        chunk_of="tool_result",
        is_noted=True,
        filter="tools",
    ),
    "tool_result": EventType(
        events.ToolResultEvent,
        role="tool",
        message_role="tool",
        weight="D",
        chunks=ChunkGroup("output", ("toolCallId",)),
        is_noted=True,
        is_topic=True,
        in_conversation=True,
        issue="failure",
        filter="tools",
    ),
    "agent_message": EventType(
        events.AgentMessageEvent,
        role="assistant",
        message_role="assistant",
        text="message",
        weight="A",
        trigger="system",
        filter="tools",
    ),
    "agent_callback": EventType(
        events.AgentCallbackEvent,
        role="assistant",
        message_role="user",
        text="result",
        weight="A",
        trigger="callback",
        is_turn_content=True,
        in_conversation=True,
        filter="tools",
    ),
    "agent_switch": EventType(events.AgentSwitchEvent, is_noted=True, in_conversation=True),
    "interrupt": EventType(events.InterruptEvent, in_conversation=True),
    "error": EventType(events.ErrorEvent, message_role="system", text="message", weight="D", issue="error"),
    "audio_chunk": EventType(events.AudioChunkEvent, role="assistant", chunk_of="audio_done"),
    "audio_done": EventType(
        events.AudioDoneEvent,
        role="assistant",
        chunks=ChunkGroup("audio", ("turnId", "responseId")),
        is_turn_content=True,
        is_revocable=True,
    ),
    "summary": EventType(
        events.SummaryEvent, message_role="system", text="text", weight="D", in_conversation=True
    ),
    "system_message": EventType(
        events.SystemMessageEvent, message_role="system", text="text", weight="D", filter="system"
    ),
    "retraction": EventType(events.RetractionEvent),
    "raw": EventType(events.RawEvent, weight="D", is_hidden=True, issue="unrecognised", filter="raw"),
    "reset": EventType(events.ResetEvent, turn="end", is_noted=True),
}
"""All types, in the order of the API document."""


def types_where(holds: Callable[[EventType], object]) -> frozenset[str]:
    """Return the types with rows that fulfil a condition."""
    return frozenset(name for name, row in CATALOGUE.items() if holds(row))


CHUNKS = types_where(lambda row: row.chunk_of)
"""The types of stream chunks. A replay does not need them, because the complete event follows."""

PROMPTS = types_where(lambda row: row.trigger == "user")
"""The types of messages of the user, which start a turn unless a tool wrote them."""
