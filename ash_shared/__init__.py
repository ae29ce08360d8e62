"""Ash's library: parse stored agent messages as typed content.

Pure functions and values: no I/O, no clock, no generated ids, no environment.
"""

from ash_shared.conversation.cli_result import ExecutionResponse, parse_cli_output
from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.eventlog import NORMALIZER_VERSION, Context, Normalizer
from ash_shared.model.content import (
    BlockSource,
    FileContent,
    ImageContent,
    MessageContent,
    RawContent,
    RawReason,
    TextContent,
    ThinkingContent,
    ToolResultContent,
    ToolUseContent,
)
from ash_shared.model.event_types import CHUNKS
from ash_shared.model.events import EVENT_TYPES, ChatEvent, KnownEvent, OtherEvent, read_event
from ash_shared.model.message import (
    Description,
    Drift,
    Kind,
    Message,
    MessageError,
    MessageMetadata,
    ParsedLine,
    ParsedMessage,
    RecordHeader,
    Role,
    StandardMessage,
    StandardTokenUsage,
)
from ash_shared.parsing.parse import (
    PARSER_VERSION,
    describe_message,
    parse_jsonl,
    parse_message,
    parse_message_content,
    parse_message_content_json,
)
from ash_shared.projections import (
    SessionSummary,
    to_anthropic_messages,
    to_atif,
    to_claude_prompt,
    to_codex_prompt,
    to_openai_messages,
    to_otel_genai,
    to_otlp,
    to_session_summary,
    to_ui_messages,
)
from ash_shared.records.json_text import split_lines
from ash_shared.records.system_text import filter_system_messages, is_system_message, visible_text

__all__ = [
    "CHUNKS",
    "EVENT_TYPES",
    "NORMALIZER_VERSION",
    "PARSER_VERSION",
    "BlockSource",
    "ChatEvent",
    "Context",
    "Description",
    "Drift",
    "ExecutionResponse",
    "FileContent",
    "ImageContent",
    "Kind",
    "KnownEvent",
    "Message",
    "MessageContent",
    "MessageError",
    "MessageMetadata",
    "Normalizer",
    "OtherEvent",
    "ParsedLine",
    "ParsedMessage",
    "RawContent",
    "RawReason",
    "RecordHeader",
    "Role",
    "SessionSummary",
    "StandardMessage",
    "StandardTokenUsage",
    "TextContent",
    "ThinkingContent",
    "ToolResultContent",
    "ToolUseContent",
    "describe_message",
    "filter_system_messages",
    "is_system_message",
    "parse_cli_output",
    "parse_jsonl",
    "parse_message",
    "parse_message_content",
    "parse_message_content_json",
    "read_event",
    "split_lines",
    "to_anthropic_messages",
    "to_atif",
    "to_claude_prompt",
    "to_codex_prompt",
    "to_openai_messages",
    "to_otel_genai",
    "to_otlp",
    "to_session_summary",
    "to_ui_messages",
    "transform_messages",
    "visible_text",
]
