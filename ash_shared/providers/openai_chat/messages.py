"""Content of Chat Completions records, and the parts that they add to the standard messages of their session."""

from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, bounded, text_block, translate, translated, with_extra
from ash_shared.model.message import RecordHeader, Role
from ash_shared.providers.openai_chat.content import ROLES, message_blocks, parse_block, parse_message
from ash_shared.records.contract import ParsedRecord, Part, Record, chunk_record, speaker_of_role
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    first_text,
    is_integer,
    is_one_of,
    list_or_empty,
    message_error,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)


def header(record: Record) -> RecordHeader:
    """Return the time and model of a response. Its id is not unique, because all chunks share it."""
    return RecordHeader(timestamp=to_milliseconds(record.get("created")), model=text_at(record, "model"))


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
    if isinstance(error, str) and error:
        return message_error("error", error)
    if not isinstance(error, dict):
        return None
    number = error.get("code")
    code = first_text(error, ("code", "type")) or (str(number) if is_integer(number) else "error")
    return message_error(code, text_at(error, "message"), error)


def _has_refusal(blocks: list[Block]) -> bool:
    return any(block.get("variant") == "refusal" for block in blocks)


def _message_part(message: Any, blocks: list[Block]) -> Part:
    role_name = value_at(message, "role")
    role = ROLES.get(role_name, "user") if isinstance(role_name, str) else "user"
    refused = "refusal" if _has_refusal(blocks) else None
    return Part(role=speaker_of_role(role), blocks=blocks, metadata={"stop_reason": refused})


def completion_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
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


def chunk_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return a part only if the chunk reports an error."""
    return [replace(part, key=text_at(record, "id")) for part in error_parts(record, parsed)]


def request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    messages = list_or_empty(record["messages"])
    return [
        replace(_message_part(message, message_blocks(message)), original=message) for message in messages
    ]


def message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a message, or of a bare content part or a transcription, which have no role."""
    if parsed.kind != "message":
        return error_parts(record, parsed)
    message = record if is_one_of(record.get("role"), ROLES) else {"role": parsed.role}
    return [_message_part(message, parsed.blocks)]


def error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    error = standard_error(record.get("error"))
    return [Part(role="assistant", error=error)] if error else []


def parse_request(record: Record) -> ParsedRecord:
    blocks = [block for message in list_or_empty(record["messages"]) for block in message_blocks(message)]
    return ParsedRecord("message", "user", bounded(blocks), is_checked=True)


def parse_completion(record: Record) -> ParsedRecord:
    blocks = [block for choice in list_or_empty(record["choices"]) for block in choice_blocks(choice)]
    return ParsedRecord("message", "assistant", bounded(blocks), is_checked=True)


def parse_chunk(record: Record) -> ParsedRecord:
    return chunk_record(record, text_at(record, "object"))


def is_chunk(record: Record) -> bool:
    """Return True if these choices are a chunk. Azure's first chunk has neither choices nor an `object`."""
    choices = record["choices"]
    if not choices:
        return text_at(record, "object") not in ("chat.completion", "text_completion")
    return isinstance(choices, list) and all(map(_is_delta, choices))


def _is_delta(choice: Any) -> bool:
    return isinstance(choice, dict) and "delta" in choice


def has_legacy_text(record: Record) -> bool:
    """Return True for the choices of the legacy completions API. Its chunks look like complete responses."""
    choices = record["choices"]
    return isinstance(choices, list) and any(map(is_legacy_text, choices))


def is_legacy_text(choice: Any) -> bool:
    return isinstance(choice, dict) and "text" in choice and "message" not in choice


def choice_blocks(choice: Any) -> list[Block]:
    """Return the blocks of a choice; all choices but the first are marked with their index."""
    blocks = translate("choice", choice, _parse_choice)
    index = choice.get("index") if isinstance(choice, dict) else None
    if not is_integer(index) or index == 0:
        return blocks
    return [with_extra(block, {"choice_index": index}) for block in blocks]


def _parse_choice(choice: Record) -> list[Block]:
    """Parse a message, or the bare text of the legacy completions API."""
    if "message" not in choice:
        return [text_block(choice["text"])]
    return parse_message({**choice["message"], "role": "assistant"})


def parse_message_record(record: Record) -> ParsedRecord:
    return ParsedRecord("message", ROLES[record["role"]], bounded(parse_message(record)))


def parse_bare_part(record: Record) -> ParsedRecord:
    role: Role = "assistant" if record["type"] == "refusal" else "user"
    return ParsedRecord("message", role, [parse_block(record)])


def parse_transcription(record: Record) -> ParsedRecord:
    """Parse a verbose transcription; its segments and times go to `extra`."""
    transcript = translated(record, text_block(record["text"], "transcript"), {"text"}, "transcription")
    return ParsedRecord("message", "assistant", [transcript])


def is_transcription(record: Record) -> bool:
    is_verbose = isinstance(record.get("segments"), list) and "language" in record
    return is_verbose and isinstance(record.get("text"), str)
