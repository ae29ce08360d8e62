"""Parts that Chat Completions records add to the standard messages of their session."""

from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block
from ash_shared.model.message import Facts
from ash_shared.providers._kit.contract import Part, Record, RecordReading, speaker_of_role
from ash_shared.providers._kit.json_fields import (
    cost_at,
    count_at,
    first_text,
    is_one_of,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.providers.openai_chat.content import ROLES, message_blocks
from ash_shared.providers.openai_chat.records import choice_blocks


def facts(record: Record) -> Facts:
    """Return the time and model of a response. Its id is not unique, because all chunks share it."""
    return Facts(timestamp=to_milliseconds(record.get("created")), model=text_at(record, "model"))


def response_usage(record: Record) -> Block | None:
    """Return the usage. Prompt tokens include cached ones. Some vendors count reasoning only in the total."""
    usage = record.get("usage") or value_at(record, "x_groq", "usage")
    prompt, completion = count_at(usage, "prompt_tokens"), count_at(usage, "completion_tokens")
    cache_hits = count_at(usage, "prompt_cache_hit_tokens")
    cache_read = count_at(usage, "prompt_tokens_details", "cached_tokens")
    cache_written = count_at(usage, "prompt_tokens_details", "cache_write_tokens")
    cache_read = cache_hits if cache_read is None else cache_read
    non_prompt = subtract_counts(count_at(usage, "total_tokens"), prompt)
    return token_usage(
        usage,
        input=subtract_counts(prompt, cache_read, cache_written),
        output=completion if completion is None or non_prompt is None else max(completion, non_prompt),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(usage, "completion_tokens_details", "reasoning_tokens"),
        service_tier=text_at(record, "service_tier"),
    )


def response_cost(record: Record) -> float | None:
    """Return the cost that a gateway reports for a response, in US dollars."""
    return cost_at(record, "usage", "cost")


def standard_error(error: Any) -> Block | None:
    """Return the keys of a `MessageError`. A gateway's code may be an HTTP status number."""
    if error.__class__ is str and error:
        return message_error("error", error)
    if error.__class__ is not dict:
        return None
    number = error.get("code")
    code = first_text(error, ("code", "type")) or (str(number) if number.__class__ is int else "error")
    return message_error(code, text_at(error, "message"), error)


def _has_refusal(blocks: list[Block]) -> bool:
    return any(block.get("variant") == "refusal" for block in blocks)


def _message_part(message: Any, blocks: list[Block]) -> Part:
    role_name = value_at(message, "role")
    role = ROLES.get(role_name, "user") if role_name.__class__ is str else "user"
    refused = "refusal" if _has_refusal(blocks) else None
    return Part(role=speaker_of_role(role), blocks=blocks, metadata={"stop_reason": refused})


def completion_parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return the part of the first choice; other choices stay in the record."""
    choice = next(iter(record["choices"]), None)
    blocks = choice_blocks(choice) if choice else []
    first = [block for block in blocks if "choice_index" not in (block.get("extra") or {})]
    return [
        Part(
            role="assistant",
            blocks=first or blocks,
            key=text_at(record, "id"),
            usage=response_usage(record),
            cost=response_cost(record),
            message_id=text_at(record, "id"),
            metadata={
                "model": text_at(record, "model"),
                "stop_reason": "refusal" if _has_refusal(blocks) else text_at(choice, "finish_reason"),
            },
            error=standard_error(record.get("error") or value_at(choice, "error")),
        )
    ]


def chunk_parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return a part only if the chunk reports an error."""
    return [replace(part, key=text_at(record, "id")) for part in error_parts(record, reading)]


def request_parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return one part per message of a request."""
    return [
        replace(_message_part(message, message_blocks(message)), original=message)
        for message in list_or_empty(record["messages"])
    ]


def message_parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return the part of a message, or of a bare content part or a transcription, which have no role."""
    if reading.kind != "message":
        return error_parts(record, reading)
    message = record if is_one_of(record.get("role"), ROLES) else {"role": reading.role}
    return [_message_part(message, reading.blocks)]


def error_parts(record: Record, reading: RecordReading) -> list[Part]:
    error = standard_error(record.get("error"))
    return [Part(role="assistant", error=error)] if error else []
