"""What records of this form add to the standard messages of their session."""

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
    """An answer tells when it was made, and by which model; its pieces share one id."""
    return Facts(timestamp=to_milliseconds(record.get("created")), model=text_at(record, "model"))


def usage_of(record: Record) -> Block | None:
    """Prompt tokens hold those of the cache. Some vendors count reasoning in the total alone."""
    usage = record.get("usage") or value_at(record, "x_groq", "usage")
    prompt, completion = count_at(usage, "prompt_tokens"), count_at(usage, "completion_tokens")
    hit = count_at(usage, "prompt_cache_hit_tokens")
    read = count_at(usage, "prompt_tokens_details", "cached_tokens")
    written = count_at(usage, "prompt_tokens_details", "cache_write_tokens")
    read = hit if read is None else read
    beside = subtract_counts(count_at(usage, "total_tokens"), prompt)
    return token_usage(
        usage,
        input=subtract_counts(prompt, read, written),
        output=completion if completion is None or beside is None else max(completion, beside),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "completion_tokens_details", "reasoning_tokens"),
        service_tier=text_at(record, "service_tier"),
    )


def cost_of(record: Record) -> float | None:
    """What a gateway took for an answer, in US dollars."""
    return cost_at(record, "usage", "cost")


def error_of(told: Any) -> Block | None:
    """The keys of a `MessageError`: a gateway's code may be the number of an HTTP status."""
    if told.__class__ is str and told:
        return message_error("error", told)
    if told.__class__ is not dict:
        return None
    number = told.get("code")
    code = first_text(told, ("code", "type")) or (str(number) if number.__class__ is int else "error")
    return message_error(code, text_at(told, "message"), told)


def _is_refused(blocks: list[Block]) -> bool:
    return any(block.get("variant") == "refusal" for block in blocks)


def _message_part(message: Any, blocks: list[Block]) -> Part:
    named = value_at(message, "role")
    role = ROLES.get(named, "user") if named.__class__ is str else "user"
    refused = "refusal" if _is_refused(blocks) else None
    return Part(role=speaker_of_role(role), blocks=blocks, metadata={"stop_reason": refused})


def completion_part(record: Record) -> Part:
    """The first answer; others stay in the record."""
    choice = next(iter(record["choices"]), None)
    blocks = choice_blocks(choice) if choice else []
    first = [block for block in blocks if "choice_index" not in (block.get("extra") or {})]
    return Part(
        role="assistant",
        blocks=first or blocks,
        key=text_at(record, "id"),
        usage=usage_of(record),
        metadata={
            "messageId": text_at(record, "id"),
            "model": text_at(record, "model"),
            "stop_reason": "refusal" if _is_refused(blocks) else text_at(choice, "finish_reason"),
            "costUsd": cost_of(record),
        },
        error=error_of(record.get("error") or value_at(choice, "error")),
    )


def _chunk_parts(record: Record) -> list[Part]:
    """A piece of an answer adds nothing to the messages, unless it tells that the answer failed."""
    failure = error_of(record.get("error"))
    return [Part(role="assistant", key=text_at(record, "id"), error=failure)] if failure else []


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """One part for each message of a request, and one for an answer."""
    if reading.kind == "chunk":
        return _chunk_parts(record)
    if "choices" in record:
        return [completion_part(record)]
    if "messages" in record:
        messages = list_or_empty(record["messages"])
        return [replace(_message_part(each, message_blocks(each)), original=each) for each in messages]
    if reading.kind == "message":
        message = record if is_one_of(record.get("role"), ROLES) else {"role": reading.role}
        return [_message_part(message, reading.blocks)]
    failure = error_of(record.get("error"))
    return [Part(role="assistant", error=failure)] if failure else []
