"""Recognition of Chat Completions records.

A message with only a role and a text fits several formats; it is claimed here only if it has a role, key or
part that no other format uses.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.providers.openai_chat.content import PARTS, ROLES
from ash_shared.providers.openai_chat.messages import is_transcription
from ash_shared.records.contract import Record
from ash_shared.records.fingerprints import (
    ANTIGRAVITY_KEYS,
    CHAT_MESSAGE_KEYS,
    CHAT_REQUEST_KEYS,
    CLAUDE_REQUEST_KEYS,
    body_keys,
    is_cline_document,
    is_vibe_message,
)
from ash_shared.records.json_fields import is_one_of, value_at

_FOREIGN_KEYS = frozenset({"kwargs", "lc", "message", "parts", "payload", "stopReason", "toolCalls"})
_NOT_ERROR_KEYS = ANTIGRAVITY_KEYS | {"id", "jsonrpc"}
_ANTHROPIC_KEYS = CLAUDE_REQUEST_KEYS | {"output_config"}
_ANTHROPIC_PARTS = frozenset(
    {"document", "image", "redacted_thinking", "search_result", "server_tool_use", "tool_result", "tool_use"}
)
_RESPONSES_PARTS = frozenset(
    {"computer_screenshot", "input_file", "input_image", "input_text", "output_text"}
)
PART_TYPES = frozenset(PARTS) | _ANTHROPIC_PARTS | {"file", "reference", "text"}


def _part_types(content: Any) -> Iterable[Any]:
    if not isinstance(content, list):
        return ()
    return (
        part.get("type") if isinstance(part, dict) else None for part in content if not isinstance(part, str)
    )


def _is_own_part(part: Any) -> bool:
    """Return True if no other format writes such a part."""
    if not isinstance(part, dict) or not is_one_of(wire_type := part.get("type"), PART_TYPES):
        return False
    return (
        wire_type in part
        and (wire_type != "thinking" or isinstance(part[wire_type], list))
        and wire_type != "text"
    )


def _could_be_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and is_one_of(message.get("role"), ROLES)
        and _FOREIGN_KEYS.isdisjoint(message)
        and not isinstance(message.get("type"), str)
        and (message.get("content") is None or isinstance(message["content"], str | list))
    )


def _has_known_parts(message: Record) -> bool:
    return all(is_one_of(wire_type, PART_TYPES) for wire_type in _part_types(message.get("content")))


def _is_distinctive(message: Record) -> bool:
    has_own_role = message["role"] in {"developer", "function", "tool"}
    if (has_own_role and _has_known_parts(message)) or not CHAT_MESSAGE_KEYS.isdisjoint(message):
        return True
    content = message.get("content")
    has_own_parts = isinstance(content, list) and any(map(_is_own_part, content))
    return has_own_parts and not any(is_one_of(each, _RESPONSES_PARTS) for each in _part_types(content))


def _is_anthropic(record: Record) -> bool:
    return not _ANTHROPIC_KEYS.isdisjoint(record) or any(
        is_one_of(wire_type, _ANTHROPIC_PARTS)
        for message in record["messages"]
        for wire_type in _part_types(message.get("content"))
    )


def _is_request(record: Record) -> bool:
    """Return True for a body with a message that only this API has, or else, unless it has keys or parts of Anthropic's
    API, with one of the API's parameters or models."""
    messages = record["messages"]
    if not isinstance(messages, list) or not messages:
        return False
    if isinstance(record.get("type"), str) or is_cline_document(record):
        return False
    if not all(map(_could_be_message, messages)):
        return False
    if any(map(_is_distinctive, messages)):
        return True
    if _is_anthropic(record) or not all(map(_has_known_parts, messages)):
        return False
    return _has_own_parameters(record) or _is_own_model(record.get("model"))


def _has_own_parameters(record: Record) -> bool:
    tools = record.get("tools")
    return not CHAT_REQUEST_KEYS.isdisjoint(record) or (
        isinstance(tools, list) and any(value_at(tool, "function") is not None for tool in tools)
    )


def _is_own_model(model: Any) -> bool:
    """Return True for any model name but Claude's own. Gateways prefix the vendor: `anthropic/claude-…`."""
    return isinstance(model, str) and ("claude" not in model or "/" in model)


def _is_completion(record: Record) -> bool:
    choices = record["choices"]
    if not isinstance(choices, list):
        return False
    if not choices:
        return "object" in record or "model" in record
    return all(map(_is_choice, choices))


def _is_choice(choice: Any) -> bool:
    return isinstance(choice, dict) and ("delta" in choice or "message" in choice or "text" in choice)


def _is_error(error: Any) -> bool:
    """Return True for an error body of the API or a gateway. Gemini's has a `status`, Anthropic's record a `type`."""
    return (
        isinstance(error, dict)
        and isinstance(error.get("message"), str)
        and "status" not in error
        and ("code" in error or "param" in error)
    )


def is_own(record: Record) -> bool:
    """Return True for a record of this format."""
    present_keys = body_keys(record)
    if "choices" in present_keys:
        return present_keys <= {"choices", "error", "object", "stats"} and _is_completion(record)
    return present_keys in _RECOGNIZERS and _RECOGNIZERS[present_keys](record)


def _is_bare_part(record: Record) -> bool:
    return (
        "role" not in record
        and not is_one_of(record["type"], ("refusal", "thinking"))
        and _is_own_part(record)
    )


def _is_message_or_transcription(record: Record) -> bool:
    if "role" in record:
        return _could_be_message(record) and _is_distinctive(record) and not is_vibe_message(record)
    is_foreign = not record.keys().isdisjoint(ANTIGRAVITY_KEYS)
    return "segments" in record and not is_foreign and is_transcription(record)


_RECOGNIZERS: Mapping[frozenset[str], Callable[[Record], bool]] = {
    frozenset(): _is_message_or_transcription,
    frozenset({"error"}): lambda record: (
        record.keys().isdisjoint(_NOT_ERROR_KEYS) and _is_error(record["error"])
    ),
    frozenset({"messages"}): _is_request,
    frozenset({"type"}): _is_bare_part,
}
"""Checks of records by their `body_keys`."""
