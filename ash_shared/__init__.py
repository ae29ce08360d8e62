"""Ash's library: reads any agent message, as it was stored, as typed content.

Pure functions and values: no input or output, no clock, no ids of its own making, no environment.
"""

from ash_shared.content import (
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
from ash_shared.execution import ExecutionResponse, parse_cli_output
from ash_shared.message import (
    Description,
    Drift,
    Facts,
    Kind,
    Message,
    MessageError,
    MessageMetadata,
    ParsedLine,
    Reading,
    Role,
    StandardMessage,
    StandardTokenUsage,
)
from ash_shared.parse import (
    PARSER_VERSION,
    describe_message,
    parse_jsonl,
    parse_message_content,
    parse_message_content_json,
    read_message,
    split_lines,
)
from ash_shared.standard import transform_messages
from ash_shared.visibility import filter_system_messages, is_system_message, visible_text

__all__ = [
    "PARSER_VERSION",
    "BlockSource",
    "Description",
    "Drift",
    "ExecutionResponse",
    "Facts",
    "FileContent",
    "ImageContent",
    "Kind",
    "Message",
    "MessageContent",
    "MessageError",
    "MessageMetadata",
    "ParsedLine",
    "RawContent",
    "RawReason",
    "Reading",
    "Role",
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
    "parse_message_content",
    "parse_message_content_json",
    "read_message",
    "split_lines",
    "transform_messages",
    "visible_text",
]
