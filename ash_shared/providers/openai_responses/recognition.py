"""Recognition of Responses API records."""

from typing import Any

from ash_shared.records.contract import Record
from ash_shared.records.fingerprints import CHAT_MESSAGE_KEYS, body_keys
from ash_shared.records.json_fields import is_one_of
from ash_shared.records.responses_items import ITEMS, PARTS, ROLES, UNTYPED, item_type

_FOREIGN_KEYS = frozenset({"model", "stop_reason", "timestamp", "usage", "uuid"})
_OWN_PARTS = PARTS.keys() - {"input_audio", "refusal"}
"""Content parts that Chat Completions does not have."""


def is_message(record: Record) -> bool:
    """Return True for a message with parts, a phase or a status that only this format has, or with a `type`."""
    if not is_one_of(record.get("role"), ROLES) or not _FOREIGN_KEYS.isdisjoint(record):
        return False
    content = record.get("content")
    if isinstance(content, list) and content:
        part_types = PARTS if "type" in record else _OWN_PARTS
        return any(isinstance(part, dict) and is_one_of(part.get("type"), part_types) for part in content)
    return (
        isinstance(content, str | list)
        and "type" in record
        and (isinstance(content, str) or bool(record.keys() & {"phase", "status"}))
        and record.keys() <= {"content", "id", "phase", "role", "status", "type"}
    )


_RESPONSE_OBJECTS = frozenset({"response", "response.compaction"})


def is_response(record: Record) -> bool:
    has_items = isinstance(record.get("output"), list | None)
    return has_items and is_one_of(record.get("object"), _RESPONSE_OBJECTS)


def _is_request(record: Record) -> bool:
    """Return True for a body with input for a model. Gemini's interactions use the same key for an agent's input."""
    input = record["input"]
    if not isinstance(record.get("model"), str) and not record.keys() & {
        "instructions",
        "previous_response_id",
        "prompt",
    }:
        return False
    if isinstance(input, list):
        return all(_is_item(item) for item in input)
    return isinstance(input, str) and not record.keys() & {"dimensions", "encoding_format", "voice"}


def _is_item(item: Any) -> bool:
    wire_type = item_type(item)
    return wire_type is not None and (wire_type in ITEMS or wire_type in UNTYPED or wire_type in PARTS)


def recognizes_untyped(record: Record) -> bool:
    """Return True for a response, a request or a message without a `type`."""
    present_keys = body_keys(record)
    if "object" in record:
        return present_keys <= {"error", "input", "object", "output", "stats"} and is_response(record)
    if present_keys == {"input"}:
        return _is_request(record)
    if present_keys or "role" not in record or "content" not in record:
        return False
    return record.keys().isdisjoint(CHAT_MESSAGE_KEYS) and is_message(record)
