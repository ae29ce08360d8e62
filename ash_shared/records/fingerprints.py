"""Keys that distinguish formats, so that no record is claimed by two providers.

Most keys occur in several formats. A valid record has only the keys of its own format; a record with keys of two
formats is claimed by at most one provider.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.records.contract import WireType, unknown_record
from ash_shared.records.json_fields import text_at

ENVELOPE_KEYS = frozenset({"messageID", "payload", "projectID", "sessionID"})
"""Keys of OpenCode's documents and the envelopes of Codex and Ash. Their `type` may also occur in other formats."""

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
"""Parameters of Bedrock requests; Gemini requests also have `toolConfig`."""

CHAT_MESSAGE_KEYS = frozenset(
    {
        "annotations",
        "audio",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_call_id",
        "tool_calls",
    }
)
"""Keys of Chat Completions messages other than `role` and `content`."""

CHAT_REQUEST_KEYS = frozenset(
    {
        "frequency_penalty",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "modalities",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stream_options",
        "web_search_options",
    }
)
"""Parameters that only requests of Chat Completions have."""

CLAUDE_REQUEST_KEYS = frozenset(
    {"anthropic_version", "betas", "container", "context_management", "mcp_servers", "system", "thinking"}
)
"""Parameters that only requests of Anthropic's API have."""

ANTIGRAVITY_KEYS = frozenset({"columns", "conversation_id", "event", "workspace"})
"""Each record of Antigravity without a `type` has one of the keys; it may have an `error`, as error bodies of APIs."""

DOCUMENT_KEYS = frozenset(
    {
        *("agents", "display", "event", "instructions", "projection_state_version", "schema_version"),
        *("segments", "steps", "table", "title_source"),
    }
)
"""Keys of documents without a `type`: sessions, trajectories, transcriptions and prompts."""

ROW_KEYS = frozenset({"columns", "key", "table"})
"""The keys of a database row: its table, primary key and columns."""


class RowTable(NamedTuple):
    """A table of a program's database."""

    columns: frozenset[str]
    """Columns that identify the table."""
    row: WireType


_UNKNOWN_ROW = WireType(lambda record: unknown_record(record, text_at(record, "table")))


def recognize_row(record: dict[str, Any], tables: Mapping[str, RowTable]) -> WireType | None:
    """Return the wire type of a database row, if the row has the columns of its table."""
    if record.keys() != ROW_KEYS or not isinstance(record["columns"], dict):
        return None
    name = record["table"]
    table = tables.get(name) if isinstance(name, str) else None
    return table.row if table is not None and table.columns <= record["columns"].keys() else None


def wire_type_of_row(record: dict[str, Any], tables: Mapping[str, RowTable]) -> WireType:
    """Return the wire type of a row, whatever columns it has."""
    table = tables.get(text_at(record, "table") or "")
    return table.row if table else _UNKNOWN_ROW


GEMINI_CLI_SESSION_KEYS = frozenset({"lastUpdated", "projectHash", "startTime"})
"""Keys that Gemini CLI writes for a whole session."""

PI_MESSAGE_KEYS = frozenset(
    {"customType", "output", "provider", "stopReason", "summary", "timestamp", "toolCallId"}
)
"""Every pi message has one of the keys. Other formats have them elsewhere, or give the message the type `message`."""

BODY_KEYS = (
    ENVELOPE_KEYS
    | BEDROCK_REQUEST_KEYS
    | GEMINI_CLI_SESSION_KEYS
    | {
        "$rewindTo",
        "$set",
        "_original",
        "api",
        "candidates",
        "chat_messages",
        "choices",
        "contents",
        "error",
        "event_type",
        "history",
        "info",
        "input",
        "mapping",
        "messages",
        "messages_path",
        "method",
        "msg",
        "object",
        "output",
        "parts",
        "requests",
        "session_start",
        "stats",
        "type",
        "v",
    }
)


def body_keys(record: dict[str, Any]) -> frozenset[str]:
    """Return the non-null keys that identify a record without a `type`."""
    present_keys = BODY_KEYS.intersection(record)
    for key in present_keys:
        if record[key] is None:
            return frozenset([key for key in present_keys if record[key] is not None])
    return present_keys


CLAUDE_LINE_KEYS = frozenset({"num_turns", "parent_tool_use_id", "tools", "uuid"})
"""Every line of Claude's stream has one of the keys; Cursor's lines have the same types but none of the keys."""
_CURSOR_MESSAGE_KEYS = frozenset({"role", "content"})
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_cursor_sdk_message(record: dict[str, Any]) -> bool:
    """Return True for a message of Cursor's SDK, which has the ids of its agent and run, and no id of its own."""
    if not isinstance(record.get("run_id"), str):
        return False
    is_typed = isinstance(record.get("agent_id"), str) and isinstance(record.get("type"), str)
    is_foreign = "session_id" in record or not CLAUDE_LINE_KEYS.isdisjoint(record.keys() - {"tools"})
    return is_typed and not is_foreign


def is_cursor_line(record: dict[str, Any]) -> bool:
    """Return True for a line of Cursor: only a role and text blocks, with a UUID session id or a `timestamp_ms`."""
    message = record.get("message")
    return (
        isinstance(message, dict)
        and message.keys() == _CURSOR_MESSAGE_KEYS
        and "session_id" in record
        and CLAUDE_LINE_KEYS.isdisjoint(record)
        and ("timestamp_ms" in record or _is_uuid(record["session_id"]))
        and isinstance(message["content"], list)
        and all(isinstance(block, dict) and block.get("type") == "text" for block in message["content"])
    )


def is_qwen_line(record: dict[str, Any]) -> bool:
    """Return True for a line of Qwen Code: Claude's envelope with the parts of Gemini, or with a payload."""
    if "uuid" not in record or "sessionId" not in record or not record.keys().isdisjoint(_NOT_QWEN_KEYS):
        return False
    message = record.get("message")
    if not isinstance(message, dict):
        return record.get("type") == "system" and "systemPayload" in record
    return "content" not in message and isinstance(message.get("parts"), list)


_NOT_QWEN_KEYS = ENVELOPE_KEYS | {"content", "function", "result", "tool_use_id"}


def is_grok_line(record: dict[str, Any]) -> bool:
    """Return True for a line of Grok Build with a type that Claude's lines also have. Its lines have no ids."""
    if not isinstance(record.get("content"), str | list) or not record.keys() <= _GROK_KEYS:
        return False
    return ("tool_call_id" in record) is (record["type"] == "tool_result")


_GROK_KEYS = frozenset(
    {
        *("content", "model_fingerprint", "model_id", "prior_turn_interrupt", "prompt_index"),
        *("reasoning_effort", "synthetic_reason", "tool_call_id", "tool_calls", "type"),
    }
)


def is_droid_line(record: dict[str, Any]) -> bool:
    """Return True for a line of Droid's stream with a type of Claude's lines: it has a time and no UUID."""
    session = record.get("session_id", record.get("sessionId"))
    if not (isinstance(session, str) and isinstance(record.get("timestamp"), str | int)):
        return False
    if record.get("type") == "error":
        return isinstance(record.get("source"), str) and isinstance(record.get("message"), str)
    is_first = isinstance(record.get("id"), str) and "model" in record and "parentUuid" not in record
    return record.get("type") == "system" and is_first and "uuid" not in record


def is_cline_document(record: dict[str, Any]) -> bool:
    """Return True for the messages of a session of Cline, which have the form of a request to Anthropic's API."""
    fields = (record.get("sessionId"), record.get("agent"), record.get("updated_at"))
    return isinstance(record.get("messages"), list) and all(isinstance(each, str) for each in fields)


def is_vibe_entry(record: dict[str, Any]) -> bool:
    """Return True for an entry of Mistral Vibe, which may have the type and content of a message of other APIs."""
    return record.keys() >= _VIBE_KEYS and record.keys() <= _VIBE_ENTRY_KEYS


_VIBE_KEYS = frozenset({"createdAt", "generationStatus", "id", "sessionId", "turnId", "type"})
_VIBE_ENTRY_KEYS = _VIBE_KEYS | {
    *("content", "detail", "inputEntryId", "outcome", "relatedEntryId", "role", "source", "state", "summary"),
    *("text", "title", "updatedAt", "userDisplayContent"),
}


def is_vibe_message(record: dict[str, Any]) -> bool:
    """Return True for a message of Mistral Vibe 2: one of Chat Completions with an id."""
    is_named = isinstance(record.get("message_id"), str) and isinstance(record.get("role"), str)
    return is_named and record["role"] in _ROLES and record.keys() <= _VIBE_MESSAGE_KEYS


_ROLES = ("assistant", "system", "tool", "user")
_VIBE_MESSAGE_KEYS = frozenset(
    {
        *("content", "injected", "message_id", "model", "name", "reasoning_content", "role"),
        *("reasoning_message_id", "reasoning_signature", "reasoning_state", "tool_call_id", "tool_calls"),
    }
)


def is_gptme_message(record: dict[str, Any]) -> bool:
    """Return True for a message of gptme with a key that only gptme writes.

    Its other messages have a role, a text and a time in Python's form, which many programs write.
    """
    time, role = record.get("timestamp"), record.get("role")
    return (
        isinstance(time, str)
        and isinstance(role, str)
        and role in _GPTME_ROLES
        and isinstance(record.get("content"), str)
        and record.keys() <= _GPTME_KEYS
        and _has_gptme_mark(record)
        and _PYTHON_TIME.fullmatch(time) is not None
    )


def _has_gptme_mark(record: dict[str, Any]) -> bool:
    if any(record.get(key) is True for key in _GPTME_FLAGS) or isinstance(record.get("file_hashes"), dict):
        return True
    metadata = record.get("metadata")
    if not isinstance(metadata, dict):
        return False
    usage = metadata.get("usage", metadata)  # earlier versions write the counts beside the model
    has_counts = isinstance(usage, dict) and not _GPTME_COUNTS.isdisjoint(usage)
    is_result = "call_id" in record and "tool" in metadata
    return has_counts or is_result or not _GPTME_METADATA.isdisjoint(metadata)


_PYTHON_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?(?:[+-]\d\d:\d\d)?")
_GPTME_ROLES = ("assistant", "system", "user")
_GPTME_FLAGS = ("hide", "pinned", "ui_only")
"""Written only if they are true."""
_GPTME_METADATA = frozenset({"error_class", "input_log_digest", "served_model", "timings"})
_GPTME_COUNTS = frozenset({"cache_creation_tokens", "cache_read_tokens"})
_GPTME_KEYS = frozenset(
    {
        *("call_id", "content", "ephemeral_ttl", "file_hashes", "files", "metadata", "role", "timestamp"),
        *_GPTME_FLAGS,
    }
)


def has_tool_blocks(message: dict[str, Any]) -> bool:
    """Return True for a message with calls or results in the form of Anthropic's API, as Droid writes them. Lines of pi
    and of its relatives look the same otherwise."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return any(
        isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result") for block in blocks
    )


def is_opencode_message(record: dict[str, Any]) -> bool:
    """Return True for a message of OpenCode's second model, with the same types as Claude's lines."""
    id = record.get("id")
    is_typed = isinstance(id, str) and id.startswith("msg_") and isinstance(record.get("type"), str)
    return is_typed and isinstance(record.get("time"), dict) and record.keys().isdisjoint(_FOREIGN_KEYS)


_FOREIGN_KEYS = CLAUDE_LINE_KEYS | {
    *("encrypted_content", "message", "parentId", "role", "subtype", "timestamp"),
}
"""Keys of other messages with such a type."""


def _is_uuid(value: Any) -> bool:
    return isinstance(value, str) and _UUID.fullmatch(value) is not None
