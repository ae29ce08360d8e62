"""Recognition of Claude records. Other formats overlap: Cursor reuses the line types, and many write plain messages."""

from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.providers.claude.content import BLOCK_TYPES, ROLES, parse_block
from ash_shared.providers.claude.records import is_token_count
from ash_shared.records.contract import Record
from ash_shared.records.fingerprints import (
    CHAT_MESSAGE_KEYS,
    CHAT_REQUEST_KEYS,
    CLAUDE_LINE_KEYS,
    CLAUDE_REQUEST_KEYS,
    PI_MESSAGE_KEYS,
    body_keys,
    is_cline_document,
    is_cursor_line,
    is_cursor_sdk_message,
    is_droid_line,
    is_gptme_message,
    is_grok_line,
    is_opencode_message,
    is_qwen_line,
    is_vibe_entry,
    is_vibe_message,
)
from ash_shared.records.json_fields import is_one_of, value_at

_RESPONSE_KEYS = frozenset({"model", "stop_reason", "usage"})
_FOREIGN_KEYS = CHAT_MESSAGE_KEYS | {"kwargs", "lc", "message", "parts", "stopReason"}


def _is_content(content: Any) -> bool:
    """Return True if this can be the content of a message: a string, or a list without blocks of another
    format.

    Unknown block types may be new ones, so they do not prevent recognition.
    """
    if isinstance(content, list):
        return all(
            isinstance(block, str) or (isinstance(block, dict) and _is_own_block(block)) for block in content
        )
    return isinstance(content, str)


def _is_own_block(block: Block) -> bool:
    """Return True if no other format writes such a block. OpenAI's parts have their content under their type."""
    wire_type = block.get("type")
    if not isinstance(wire_type, str) or wire_type in _FOREIGN_BLOCKS:
        return False
    is_text = wire_type in ("text", "thinking")
    return wire_type not in block or (is_text and not isinstance(block[wire_type], list))


_FOREIGN_BLOCKS = frozenset(
    {
        "computer_screenshot",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "input_text",
        "non_standard",
        "output_text",
        "reasoning",
        "reasoning_text",
        "refusal",
        "reference",
        "summary_text",
        "toolCall",
        "tool_call",
        "video_url",
    }
)


def _is_message(record: Any) -> bool:
    """Return True for a message parameter: role and content, and no keys of other formats."""
    return (
        isinstance(record, dict)
        and is_one_of(record.get("role"), ROLES)
        and record.get("type") in (None, "message")
        and _FOREIGN_KEYS.isdisjoint(record)
        and _is_content(record.get("content"))
    )


def _is_request(record: Record) -> bool:
    """Return True for a request body with a parameter that only this API has, or else with its block types, or else
    with a Claude model and no parameter of another API."""
    messages = record["messages"]
    if not isinstance(messages, list):
        return False
    if not CLAUDE_REQUEST_KEYS.isdisjoint(record):
        return any(map(_is_message, messages)) and not any(map(_is_foreign_message, messages))
    if not all(map(_is_message, messages)):
        return False
    return any(map(_has_own_blocks, messages)) or (
        _is_own_model(record) and not _has_foreign_parameters(record)
    )


def _is_own_model(record: Record) -> bool:
    """Return True for a Claude model, or for no model and only known parameters. Gateways of other formats prefix the
    model with the vendor: `anthropic/claude-…`."""
    model = record.get("model")
    if isinstance(model, str):
        return "claude" in model and "/" not in model
    return record.keys() <= _REQUEST_PARAMETERS


def _has_foreign_parameters(record: Record) -> bool:
    """Return True for parameters, or a form of tools, that only Chat Completions has."""
    tools = record.get("tools")
    has_functions = isinstance(tools, list) and any(value_at(tool, "function") is not None for tool in tools)
    return has_functions or not record.keys().isdisjoint(CHAT_REQUEST_KEYS)


def _is_foreign_message(message: Any) -> bool:
    """Return True if only another format writes such a message; False if it is merely invalid."""
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    return (
        is_one_of(message.get("role"), ("developer", "function", "tool"))
        or not message.keys().isdisjoint(_FOREIGN_KEYS)
        or (
            isinstance(content, list)
            and any(isinstance(block, dict) and not _is_own_block(block) for block in content)
        )
    )


_REQUEST_PARAMETERS = frozenset(
    {
        "max_tokens",
        "messages",
        "metadata",
        "stop_sequences",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)


def _has_own_blocks(message: Record) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(
        isinstance(block, dict) and is_one_of(block.get("type"), _OWN_BLOCKS) for block in content
    )


_OWN_BLOCKS = BLOCK_TYPES - {"file", "raw", "text", "thinking"}


def is_untyped_record(record: Record) -> bool:
    present_keys = body_keys(record)
    if present_keys == {"messages"}:
        return _is_request(record) and not is_cline_document(record)
    is_own = not present_keys and (_is_message(record) or is_token_count(record))
    return is_own and not is_vibe_message(record) and not is_gptme_message(record)


def is_response(record: Record) -> bool:
    """Return True for a response; items of OpenAI's Responses API have a phase or a status instead of a model."""
    content = record.get("content")
    if not record.keys().isdisjoint(("message", "parentId")) or is_vibe_entry(record):
        return False
    if not _RESPONSE_KEYS.isdisjoint(record):
        return isinstance(content, str | list)
    return isinstance(content, list) and record.keys().isdisjoint(("phase", "status")) and _is_message(record)


def is_line(record: Record) -> bool:
    if "tool_call_id" in record:
        return False
    if "message" in record:
        return not (is_cursor_line(record) or is_cursor_sdk_message(record) or is_qwen_line(record))
    return (
        not (_is_gemini_cli_message(record) or is_opencode_message(record) or is_grok_line(record))
        and not record.keys() & {"parts", "kwargs"}
        and _is_content(record.get("content", ""))
    )


def _is_gemini_cli_message(record: Record) -> bool:
    """Return True for a message of Gemini CLI, which has its own id and a time but no session."""
    return {"id", "timestamp"} <= record.keys() and record.keys().isdisjoint(
        ("parentUuid", "role", "sessionId", "session_id", "uuid")
    )


def is_result(record: Record) -> bool:
    """Return False for results of Gemini CLI (`stats` or a `status`) and of Cursor (no key of Claude's lines)."""
    if "stats" in record:
        return False
    if {"status", "timestamp"} <= record.keys() and record.keys().isdisjoint(("session_id", "uuid")):
        return False
    return not CLAUDE_LINE_KEYS.isdisjoint(record) or not {"session_id", "duration_ms"} <= record.keys()


def is_system(record: Record) -> bool:
    if (
        "tool_call_id" in record
        or is_cursor_sdk_message(record)
        or is_qwen_line(record)
        or is_grok_line(record)
        or is_droid_line(record)
    ):
        return False
    has_own_key = not CLAUDE_LINE_KEYS.isdisjoint(record)
    is_cursor_init = record.get("subtype") == "init" and "permissionMode" in record
    return has_own_key or not (is_cursor_init or is_opencode_message(record))


def is_block(record: Record) -> bool:
    """Return True for a bare block that no other format writes. Files of Vercel have a `mediaType`, events of Gemini
    CLI a `tool_id`, and tool results of other formats lack Claude's keys."""
    if record["type"] == "tool_result" and (
        not record.keys() & {"content", "tool_use_id"} or is_grok_line(record)
    ):
        return False
    return (
        record.keys().isdisjoint(("lc", "mediaType", "parentId", "subtype", "tool_id"))
        and not is_opencode_message(record)
        and _is_own_block(record)
        and parse_block(record)["type"] != "raw"
    )


def is_error(record: Record) -> bool:
    """Return True for an error body of the API, or an error that a run prints; Codex prints only a `message`."""
    error = record.get("error")
    is_printed = isinstance(error, str) or (isinstance(record.get("message"), str) and len(record) > 2)
    return not is_droid_line(record) and (
        (is_printed or isinstance(error, dict))
        and not _is_gemini_cli_message(record)
        and record.keys().isdisjoint(_FOREIGN_ERROR_KEYS)
    )


_FOREIGN_ERROR_KEYS = frozenset({"errorText", "param", "sequence_number", "severity"})
"""Keys of errors in other formats: Vercel, OpenAI Responses and Gemini CLI."""


def is_message_start(record: Record) -> bool:
    """Return True for the start of a streamed response of Claude; pi uses the same `type`."""
    message = record.get("message")
    if not isinstance(message, dict) or "usage" not in message:
        return False
    return message.get("type") == "message" or PI_MESSAGE_KEYS.isdisjoint(message)
