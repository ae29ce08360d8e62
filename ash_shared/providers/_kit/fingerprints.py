"""Keys that tell formats apart, whatever else a record has: no record may be of two formats.

Most keys are written by several formats. Of these, a record has those of its own format alone; one that has others,
too, is put together of two, and belongs to neither, or to the one whose mark is the stronger.
"""

import re
from typing import Any

ENVELOPE_KEYS = frozenset({"messageID", "payload", "projectID", "sessionID"})
"""Marks of OpenCode's documents, and of the envelope of Codex and of Ash: their `type` may be one that others have."""

BEDROCK_REQUEST_KEYS = frozenset(
    {
        "additionalModelRequestFields",
        "additionalModelResponseFieldPaths",
        "guardrailConfig",
        "inferenceConfig",
        "performanceConfig",
        "promptVariables",
        "toolConfig",
    }
)
"""Parameters of Bedrock's requests; Gemini's have one of them, too."""

GEMINI_CLI_SESSION_KEYS = frozenset({"lastUpdated", "projectHash", "startTime"})
"""What Gemini CLI says of a whole session."""

PI_MESSAGE_KEYS = frozenset(
    {"customType", "output", "provider", "stopReason", "summary", "timestamp", "toolCallId"}
)
"""Of these, every message of pi's has one; those of other vendors have them beside it, or are of type `message`."""

_BODIES = (
    ENVELOPE_KEYS
    | BEDROCK_REQUEST_KEYS
    | GEMINI_CLI_SESSION_KEYS
    | {
        "$rewindTo",
        "$set",
        "_original",
        "api",
        "candidates",
        "choices",
        "contents",
        "error",
        "event_type",
        "history",
        "info",
        "input",
        "messages",
        "method",
        "msg",
        "object",
        "output",
        "parts",
        "stats",
        "type",
    }
)


def body_keys(record: dict[str, Any]) -> frozenset[str]:
    """The keys of a record that say what it is, where its `type` does not; one that is null says nothing."""
    return frozenset([key for key in _BODIES.intersection(record) if record[key] is not None])


CLAUDE_LINE_KEYS = frozenset({"num_turns", "parent_tool_use_id", "tools", "uuid"})
"""Keys of which every line of Claude's stream has one: Cursor named the types of its lines after Claude's."""
_MESSAGE = frozenset({"role", "content"})
_SESSION_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_cursor_line(record: dict[str, Any]) -> bool:
    """Whether this is Cursor's: text in a message that has nothing else, of a session that has a UUID or at a time in
    milliseconds."""
    message = record.get("message")
    return (
        message.__class__ is dict
        and message.keys() == _MESSAGE
        and "session_id" in record
        and CLAUDE_LINE_KEYS.isdisjoint(record)
        and ("timestamp_ms" in record or _is_uuid(record["session_id"]))
        and message["content"].__class__ is list
        and all(block.__class__ is dict and block.get("type") == "text" for block in message["content"])
    )


def _is_uuid(value: Any) -> bool:
    return value.__class__ is str and _SESSION_ID.fullmatch(value) is not None
