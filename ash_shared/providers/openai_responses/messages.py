"""Content of Responses API records, and the parts that they add to the standard messages of their session."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, bounded, parse_content, raw_block
from ash_shared.model.message import RecordHeader, Role
from ash_shared.records.contract import ParsedRecord, Part, Record, chunk_record
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
)
from ash_shared.records.responses_items import (
    ITEMS,
    item_part,
    item_role,
    item_speaker,
    item_type,
    parse_block,
    parse_item,
    parse_items,
    refusal_reason,
)
from ash_shared.records.system_text import is_client_text


def _contained_response(record: Record) -> Record:
    response = record.get("response")
    return response if isinstance(response, dict) else record


def header(record: Record) -> RecordHeader:
    """Return the time and model of a response; items have neither."""
    response = _contained_response(record)
    return RecordHeader(
        timestamp=to_milliseconds(response.get("created_at")),
        session_id=text_at(response, "conversation", "id") or text_at(response, "conversation"),
        model=text_at(response, "model"),
        last_timestamp=to_milliseconds(response.get("completed_at")),
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
    if not isinstance(error, dict):
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
    return item_part(role, blocks, synthetic=role == "user" and is_client_text(blocks))


def response_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [_response_part(record, parsed.blocks)]


def request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [
        replace(_item_part(role, blocks), original=source, relation="new")
        for role, source, blocks in request_messages(record)
    ]


def start_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the start of a response, which opens a message for the items that follow."""
    return [replace(part, relation="continuation", usage=None, error=None) for part in _event_parts(event)]


def end_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage and the error of a response that has ended."""
    return [replace(part, role=None, key=None) for part in _event_parts(event)]


def _event_parts(event: Record) -> list[Part]:
    response = event.get("response")
    return [_response_part(response, [])] if isinstance(response, dict) else []


def error_event_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    nested = event.get("error")
    return [Part(role=None, error=standard_error(nested if isinstance(nested, dict) else event))]


def error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    error = standard_error(record.get("error"))
    return [Part(role="assistant", error=error)] if error else []


def item_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return error_parts(item, parsed)
    return [_item_part(item_speaker(item) if item_type(item) in ITEMS else parsed.role, parsed.blocks)]


def item_end_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an item of a stream, which belongs to the response."""
    if parsed.kind != "message":
        return []
    return [_item_part("assistant" if parsed.role == "tool" else parsed.role, parsed.blocks)]


def parse_bare_item(item: Record) -> ParsedRecord:
    if item_type(item) not in ITEMS:
        return ParsedRecord("record", "system", parse_item(item))
    return ParsedRecord("message", item_role(item), bounded(parse_item(item)))


def parse_response(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", parse_items(list_or_empty(record.get("output"))))


def request_messages(record: Record) -> Iterator[tuple[Role, Any, list[Block]]]:
    """Yield the messages of a request as role, original and blocks: the instructions, then the input.
    Adjacent response items form one message, and so do adjacent results."""
    input, instructions = record["input"], record.get("instructions")
    if instructions is not None:
        yield "system", instructions, _parse_input(instructions)
    if not isinstance(input, list):
        yield "user", input, _parse_input(input)
        return
    for (role, _), run in groupby(enumerate(input), key=lambda position: _grouping_key(*position)):
        items = [item for _, item in run]
        yield role, items, parse_items(items)


def _parse_input(input: Any) -> list[Block]:
    return parse_items(input) if isinstance(input, list) else parse_content(input, parse_block)


def _grouping_key(position: int, item: Any) -> tuple[Role, int]:
    """Return the key that groups adjacent items into a message; user messages are never grouped."""
    role = item_speaker(item)
    return role, 0 if role in ("assistant", "tool") else position


def parse_request(record: Record) -> ParsedRecord:
    instructions = record.get("instructions")
    blocks = [] if instructions is None else _parse_input(instructions)
    return ParsedRecord("message", "user", bounded(blocks + _parse_input(record["input"])))


def parse_item_end(event: Record) -> ParsedRecord:
    """Parse the event of a completed item as the item."""
    item = event.get("item")
    return parse_bare_item(item) if isinstance(item, dict) else chunk_record(event)


def parse_unknown_event(event: Record) -> ParsedRecord:
    return ParsedRecord("chunk", "assistant", [raw_block("unknown_type", event, event["type"])])


def parse_part(record: Record) -> ParsedRecord:
    role: Role = "assistant" if record["type"] in ("output_text", "refusal") else "user"
    return ParsedRecord("message", role, [parse_block(record)])
