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
from ash_shared.message import Description, Kind, Message, ParsedLine, Reading, Role
from ash_shared.parse import (
    PARSER_VERSION,
    describe_message,
    parse_jsonl,
    parse_message_content,
    parse_message_content_json,
    read_message,
    split_lines,
)

__all__ = [
    "PARSER_VERSION",
    "BlockSource",
    "Description",
    "FileContent",
    "ImageContent",
    "Kind",
    "Message",
    "MessageContent",
    "ParsedLine",
    "RawContent",
    "RawReason",
    "Reading",
    "Role",
    "TextContent",
    "ThinkingContent",
    "ToolResultContent",
    "ToolUseContent",
    "describe_message",
    "parse_jsonl",
    "parse_message_content",
    "parse_message_content_json",
    "read_message",
    "split_lines",
]
