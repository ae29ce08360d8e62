"""Whether a record is of the family. Others write some of the same: Cursor its lines, everybody plain messages."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.providers._kit.contract import Record
from ash_shared.providers._kit.fingerprints import (
    CLAUDE_LINE_KEYS,
    ENVELOPE_KEYS,
    PI_MESSAGE_KEYS,
    body_keys,
    is_cursor_line,
)
from ash_shared.providers._kit.json_fields import is_one_of, value_at
from ash_shared.providers.claude.content import BLOCK_TYPES, ROLES, read_block
from ash_shared.providers.claude.records import RECORDS, STREAM, is_token_count

_ANSWER_KEYS = frozenset({"model", "stop_reason", "usage"})
_REQUEST_KEYS = frozenset(
    {"anthropic_version", "betas", "container", "context_management", "mcp_servers", "system", "thinking"}
)
_FOREIGN_KEYS = frozenset(
    {
        "annotations",
        "audio",
        "function_call",
        "kwargs",
        "lc",
        "message",
        "parts",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "stopReason",
        "tool_call_id",
        "tool_calls",
    }
)


def _is_content(content: Any) -> bool:
    """Whether this could be the content of a message: a string, or blocks of which none is another's.

    A type that nobody knows may be a new one: it does not hide the blocks beside it.
    """
    if content.__class__ is list:
        return all(
            block.__class__ is str or (block.__class__ is dict and _is_own_block(block)) for block in content
        )
    return content.__class__ is str


def _is_own_block(block: Block) -> bool:
    """Whether nobody else writes such a block. OpenAI holds what a part is about under the part's type."""
    wire = block.get("type")
    if wire.__class__ is not str or wire in _FOREIGN_BLOCKS:
        return False
    return wire not in block or (wire in ("text", "thinking") and block[wire].__class__ is not list)


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
    """A message parameter: role and content, and nothing that only others write."""
    return (
        record.__class__ is dict
        and is_one_of(record.get("role"), ROLES)
        and record.get("type") in (None, "message")
        and _FOREIGN_KEYS.isdisjoint(record)
        and _is_content(record.get("content"))
    )


def _is_request(record: Record) -> bool:
    """A body with marks of this API; without any, a model of its name, or none and no parameter of others."""
    messages = record["messages"]
    if messages.__class__ is not list:
        return False
    if not _REQUEST_KEYS.isdisjoint(record):
        return any(map(_is_message, messages)) and not any(map(_is_anothers, messages))
    if not all(map(_is_message, messages)):
        return False
    return any(map(_has_own_blocks, messages)) or (
        _is_own_model(record) and not _has_foreign_parameters(record)
    )


def _is_own_model(record: Record) -> bool:
    """Gateways of other forms name a model with its vendor: `anthropic/claude-…`."""
    model = record.get("model")
    if model.__class__ is str:
        return "claude" in model and "/" not in model
    return record.keys() <= _PARAMETERS


def _has_foreign_parameters(record: Record) -> bool:
    """Whether a request asks for what only Chat Completions can do, or has tools in their form."""
    tools = record.get("tools")
    wrapped = tools.__class__ is list and any(value_at(tool, "function") is not None for tool in tools)
    return wrapped or not record.keys().isdisjoint(_FOREIGN_PARAMETERS)


_FOREIGN_PARAMETERS = frozenset(
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


def _is_anothers(message: Any) -> bool:
    """Whether only another format writes such a message, as against one that is only wrong."""
    if message.__class__ is not dict:
        return False
    content = message.get("content")
    return (
        is_one_of(message.get("role"), _FOREIGN_ROLES)
        or not message.keys().isdisjoint(_FOREIGN_KEYS)
        or (
            content.__class__ is list
            and any(block.__class__ is dict and not _is_own_block(block) for block in content)
        )
    )


_FOREIGN_ROLES = frozenset({"developer", "function", "tool"})


_PARAMETERS = frozenset(
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
    return content.__class__ is list and any(
        block.__class__ is dict and is_one_of(block.get("type"), _OWN_BLOCKS) for block in content
    )


_OWN_BLOCKS = BLOCK_TYPES - {"file", "raw", "text", "thinking"}


def _recognizes_untyped(record: Record) -> bool:
    bodies = body_keys(record)
    if bodies == {"messages"}:
        return _is_request(record)
    return not bodies and (_is_message(record) or is_token_count(record))


def _is_answer(record: Record) -> bool:
    content = record.get("content")
    if not record.keys().isdisjoint(("message", "parentId")):
        return False
    if not _ANSWER_KEYS.isdisjoint(record):
        return content.__class__ in (str, list)
    return content.__class__ is list and record.keys().isdisjoint(_ITEM_KEYS) and _is_message(record)


_ITEM_KEYS = frozenset({"phase", "status"})
"""What an item of OpenAI's Responses says of itself, where an answer of Claude's has its model."""


def _is_line(record: Record) -> bool:
    if "message" in record:
        return not is_cursor_line(record)
    return (
        not _is_gemini_clis(record)
        and not record.keys() & {"parts", "kwargs"}
        and _is_content(record.get("content", ""))
    )


def _is_gemini_clis(record: Record) -> bool:
    """Whether this is a message of Gemini CLI's: its own id, a time, and no session."""
    return {"id", "timestamp"} <= record.keys() and record.keys().isdisjoint(_SESSION_KEYS)


_SESSION_KEYS = frozenset({"parentUuid", "role", "sessionId", "session_id", "uuid"})


def _is_result(record: Record) -> bool:
    """Cursor's has both of these keys and none of Claude's own; Gemini CLI's has counts, or a status, of its own."""
    if "stats" in record:
        return False
    if {"status", "timestamp"} <= record.keys() and record.keys().isdisjoint(("session_id", "uuid")):
        return False
    return not CLAUDE_LINE_KEYS.isdisjoint(record) or not {"session_id", "duration_ms"} <= record.keys()


def _is_system(record: Record) -> bool:
    return (
        record.get("subtype") != "init"
        or "permissionMode" not in record
        or not CLAUDE_LINE_KEYS.isdisjoint(record)
    )


def _is_block(record: Record) -> bool:
    """A bare block, with what tells that it is no other's: Vercel's files have a media type, Gemini CLI's events the id
    of a tool, and results of tools are written by many."""
    if record["type"] == "tool_result" and not record.keys() & {"content", "tool_use_id"}:
        return False
    return (
        record.keys().isdisjoint(_NOT_OF_BLOCKS)
        and _is_own_block(record)
        and read_block(record)["type"] != "raw"
    )


_NOT_OF_BLOCKS = frozenset({"lc", "mediaType", "subtype", "tool_id"})


def _is_anothers_error(record: Record) -> bool:
    return _is_gemini_clis(record) or not record.keys().isdisjoint(_ERROR_KEYS)


_ERROR_KEYS = frozenset({"errorText", "sequence_number", "severity"})
"""What errors of others have beside their type: Vercel's, those of OpenAI's Responses, and Gemini CLI's."""


def _is_start(record: Record) -> bool:
    """The start of a streamed answer; pi names its own the same."""
    message = record.get("message")
    if message.__class__ is not dict or "usage" not in message:
        return False
    return message.get("type") == "message" or PI_MESSAGE_KEYS.isdisjoint(message)


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(RECORDS, lambda record: True),
    **dict.fromkeys(STREAM, lambda record: True),
    **dict.fromkeys(BLOCK_TYPES, _is_block),
    "assistant": _is_line,
    "completion": lambda record: record.get("completion").__class__ is str,
    "error": lambda record: record.get("error").__class__ is dict and not _is_anothers_error(record),
    "message": _is_answer,
    "message_start": _is_start,
    "result": _is_result,
    "system": _is_system,
    "user": _is_line,
}


MARKS = {*_RECOGNIZED, "input_tokens", "messages", "role"}


def recognizes(record: Record) -> bool:
    """Whether a record is of the Claude family."""
    wire = record.get("type")
    if wire.__class__ is not str:
        return _recognizes_untyped(record)
    return wire in _RECOGNIZED and _RECOGNIZED[wire](record) and record.keys().isdisjoint(ENVELOPE_KEYS)
