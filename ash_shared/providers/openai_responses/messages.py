"""Parts that Responses API records add to the standard messages of their session."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block
from ash_shared.model.message import Facts, Role
from ash_shared.providers._kit.contract import Part, Record, RecordReading
from ash_shared.providers._kit.json_fields import (
    count_at,
    first_text,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
)
from ash_shared.providers._kit.responses_items import (
    ITEMS,
    item_part,
    item_speaker,
    item_type,
    refusal_reason,
)
from ash_shared.providers.openai_responses.recognition import is_response
from ash_shared.providers.openai_responses.records import request_messages
from ash_shared.reading.system_text import is_system_message


def _contained_response(record: Record) -> Record:
    """Return the response that a record contains, or the record itself."""
    response = record.get("response")
    return response if response.__class__ is dict else record


def facts(record: Record) -> Facts:
    """Return the time and model of a response; items have neither."""
    response = _contained_response(record)
    return Facts(
        timestamp=to_milliseconds(response.get("created_at")),
        session_id=text_at(response, "conversation", "id") or text_at(response, "conversation"),
        model=text_at(response, "model"),
    )


def response_usage(response: Record) -> Block | None:
    """Return the usage. OpenAI's input tokens include cached ones, its output tokens include reasoning."""
    usage = response.get("usage")
    cache_read = count_at(usage, "input_tokens_details", "cached_tokens")
    cache_written = count_at(usage, "input_tokens_details", "cache_write_tokens")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "input_tokens"), cache_read, cache_written),
        output=count_at(usage, "output_tokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(usage, "output_tokens_details", "reasoning_tokens"),
        service_tier=text_at(response, "service_tier"),
    )


def standard_error(error: Any) -> Block | None:
    if error.__class__ is not dict:
        return None
    return message_error(first_text(error, ("code", "type")) or "error", text_at(error, "message"), error)


def _stop_reason(response: Record) -> str | None:
    return text_at(response, "incomplete_details", "reason") or text_at(response, "status")


def _response_part(response: Record, blocks: list[Block]) -> Part:
    return Part(
        role="assistant",
        blocks=blocks,
        key=text_at(response, "id"),
        usage=response_usage(response),
        message_id=text_at(response, "id"),
        metadata={
            "model": text_at(response, "model"),
            "stop_reason": refusal_reason(blocks) or _stop_reason(response),
        },
        error=standard_error(response.get("error")),
    )


def _item_part(role: Role, blocks: list[Block]) -> Part:
    is_prompt = role == "user" and bool(blocks) and all(block["type"] == "text" for block in blocks)
    synthetic = is_prompt and is_system_message("\n".join(block["text"] for block in blocks))
    return item_part(role, blocks, synthetic=synthetic)


def _request_parts(record: Record) -> list[Part]:
    return [
        replace(_item_part(role, blocks), original=source, relation="new")
        for role, source, blocks in request_messages(record)
    ]


def _event_parts(record: Record) -> list[Part]:
    """Return the parts of an event: the start of a response opens a message for the items that follow, and its end
    reports usage."""
    wire_type, response = record["type"], record.get("response")
    if wire_type == "error":
        nested = record.get("error")
        return [Part(role=None, error=standard_error(nested if nested.__class__ is dict else record))]
    if response.__class__ is not dict or wire_type not in _EVENT_PART_FIELDS:
        return []
    return [replace(_response_part(response, []), **_EVENT_PART_FIELDS[wire_type])]


_END_FIELDS: Mapping[str, Any] = {"role": None, "key": None}
_EVENT_PART_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "response.created": {"relation": "continuation", "usage": None, "error": None},
    "response.completed": _END_FIELDS,
    "response.failed": _END_FIELDS,
    "response.incomplete": _END_FIELDS,
}


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return one part for a response or an item, and one per message of a request."""
    if reading.kind == "chunk":
        return _event_parts(record)
    if record.get("type").__class__ is not str:
        if is_response(record):
            return [_response_part(record, reading.blocks)]
        if "input" in record:
            return _request_parts(record)
    error = standard_error(record.get("error")) if reading.kind == "record" else None
    if error is not None:
        return [Part(role="assistant", error=error)]
    return (
        [_item_part(_containing_message_role(record, reading), reading.blocks)]
        if reading.kind == "message"
        else []
    )


def _containing_message_role(record: Record, reading: RecordReading) -> Role:
    """Return the role of the message that contains a bare item or part. Items of a stream belong to the
    response."""
    if record.get("type") == "response.output_item.done":
        return "assistant" if reading.role == "tool" else reading.role
    return item_speaker(record) if item_type(record) in ITEMS else reading.role
