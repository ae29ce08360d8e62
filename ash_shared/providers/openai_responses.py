"""OpenAI Responses: whole responses, requests, items by themselves, and stream events.

Sources: the stream event union of the `openai` package, and captured bodies of OpenAI, Azure, xAI, LM Studio and GitHub
Copilot. What an item says is in `_responses_items`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from ash_shared.blocks import Block, bounded, raw_block, read_content
from ash_shared.content import RawReason
from ash_shared.message import Facts, Role
from ash_shared.providers import Part, Provider, Record, RecordReading, control
from ash_shared.providers._marks import OWNERS, bodies_of
from ash_shared.providers._responses_items import (
    FILE_PLACES,
    ITEMS,
    PARTS,
    ROLES,
    UNTYPED,
    item_part,
    item_type,
    read_block,
    read_item,
    read_items,
    refused,
    role_of,
    speaker_of,
)
from ash_shared.visibility import is_system_message
from ash_shared.wire import (
    count_at,
    error,
    first_text,
    items_of,
    less,
    milliseconds,
    one_of,
    text_at,
    token_usage,
)

# Records.


def _read_bare(item: Record) -> RecordReading:
    if item_type(item) not in ITEMS:
        return RecordReading("record", "system", read_item(item))
    return RecordReading("message", role_of(item), bounded(read_item(item)))


def _read_response(record: Record) -> RecordReading:
    return RecordReading("message", "assistant", read_items(items_of(record.get("output"))))


def _turns(record: Record) -> Iterator[tuple[Role, Any, list[Block]]]:
    """The instructions, and then each message and each run of an answer's items, or of results: who wrote it, the piece
    of the request, and its blocks."""
    given, instructions = record["input"], record.get("instructions")
    if instructions is not None:
        yield "system", instructions, _read_input(instructions)
    if given.__class__ is not list:
        yield "user", given, _read_input(given)
        return
    for (role, _), run in groupby(enumerate(given), key=lambda place: _run_of(*place)):
        items = [item for _, item in run]
        yield role, items, read_items(items)


def _read_input(given: Any) -> list[Block]:
    """Instructions, or an input, are a text, or a list of items."""
    return read_items(given) if given.__class__ is list else read_content(given, read_block)


def _run_of(place: int, item: Any) -> tuple[Role, int]:
    """What neighbouring items of one message have in common: a message of a person is one by itself."""
    role = speaker_of(item)
    return role, 0 if role in ("assistant", "tool") else place


def _read_request(record: Record) -> RecordReading:
    return RecordReading(
        "message", "user", bounded([block for _, _, turn in _turns(record) for block in turn])
    )


def _read_event(record: Record) -> RecordReading:
    """A stream event: an item that is done is read as the item, all others are fragments."""
    wire = record["type"]
    if wire == "response.output_item.done" and record.get("item").__class__ is dict:
        return _read_bare(record["item"])
    reason: RawReason = "stream_fragment" if wire in _EVENTS else "unknown_type"
    return RecordReading("chunk", "assistant", [raw_block(reason, record, wire)])


def _read_part(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in ("output_text", "refusal") else "user"
    return RecordReading("message", role, [read_block(record)])


def read(record: Record) -> RecordReading:
    """Any record of the format."""
    wire = record.get("type")
    if wire.__class__ is str:
        return _read_typed(wire, record)
    if _is_response(record):
        return _read_response(record)
    if "input" in record:
        return _read_request(record)
    if record.get("error") is not None:
        return control(record, "error")
    return _read_bare(record)


def _read_typed(wire: str, record: Record) -> RecordReading:
    if wire == "error" or wire.startswith("response."):
        return _read_event(record)
    return _read_part(record) if wire in PARTS else _read_bare(record)


def _events(group: str, *names: str) -> Iterator[str]:
    return (f"response.{group}{name}" for name in names)


_EVENTS = frozenset(
    {
        "error",
        *_events("", "completed", "created", "failed", "in_progress", "incomplete", "queued"),
        *_events("apply_patch_call.", "completed", "in_progress"),
        *_events("apply_patch_call_operation_diff.", "delta", "done"),
        *_events("audio.", "delta", "done", "transcript.delta", "transcript.done"),
        *_events("code_interpreter_call.", "completed", "in_progress", "interpreting"),
        *_events("code_interpreter_call_code.", "delta", "done"),
        *_events("compaction.", "compacting"),
        *_events("content_part.", "added", "done"),
        *_events("custom_tool_call_input.", "delta", "done"),
        *_events("file_search_call.", "completed", "in_progress", "searching"),
        *_events("function_call_arguments.", "delta", "done"),
        *_events("image_generation_call.", "completed", "generating", "in_progress", "partial_image"),
        *_events("mcp_call.", "completed", "failed", "in_progress"),
        *_events("mcp_call_arguments.", "delta", "done"),
        *_events("mcp_list_tools.", "completed", "failed", "in_progress"),
        *_events("output_item.", "added", "done"),
        *_events("output_text.", "annotation.added", "delta", "done"),
        *_events("reasoning_summary_part.", "added", "done"),
        *_events("reasoning_summary_text.", "delta", "done"),
        *_events("reasoning_text.", "delta", "done"),
        *_events("refusal.", "delta", "done"),
        *_events("shell_call_command.", "added", "delta", "done"),
        *_events("shell_call_output_content.", "delta", "done"),
        *_events("web_search_call.", "completed", "in_progress", "searching"),
    }
)


# Recognition.


_FOREIGN_KEYS = frozenset({"model", "stop_reason", "timestamp", "usage", "uuid"})
_OWN_PARTS = PARTS.keys() - {"input_audio", "refusal"}
"""Parts that Chat Completions do not have."""
_MESSAGE_KEYS = frozenset({"content", "id", "phase", "role", "status", "type"})


def _is_message(record: Record) -> bool:
    """A message with parts, a phase or a status that only this format has, or one that names its type."""
    if not one_of(record.get("role"), ROLES) or not _FOREIGN_KEYS.isdisjoint(record):
        return False
    content = record.get("content")
    if content.__class__ is list and content:
        own = PARTS if "type" in record else _OWN_PARTS
        return any(part.__class__ is dict and one_of(part.get("type"), own) for part in content)
    return (
        content.__class__ in (str, list)
        and "type" in record
        and (content.__class__ is str or bool(record.keys() & {"phase", "status"}))
        and record.keys() <= _MESSAGE_KEYS
    )


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(
        (*ITEMS, *UNTYPED),
        lambda record: bool(record.keys() & {"id", "call_id", "status", "tools", "approval_request_id"}),
    ),
    "compaction": lambda record: record.get("encrypted_content").__class__ is str and "content" not in record,
    "computer_screenshot": lambda record: "image_url" in record or "file_id" in record,
    "error": lambda record: (
        record.get("sequence_number").__class__ is int
        and record.keys().isdisjoint(("content", "parts", "severity"))
    ),
    "function_call": lambda record: (
        record.get("arguments").__class__ is str
        and record.get("name").__class__ is str
        and record.keys().isdisjoint(("function", "result"))
    ),
    "function_call_output": lambda record: "output" in record,
    "custom_tool_call": lambda record: "input" in record and "name" in record,
    "custom_tool_call_output": lambda record: "output" in record and "call_id" in record,
    "input_audio": lambda record: "audio_url" in record,
    "input_file": lambda record: bool(record.keys() & FILE_PLACES.keys()),
    "input_image": lambda record: "image_url" in record or "file_id" in record,
    "input_text": lambda record: record.get("text").__class__ is str,
    "message": _is_message,
    "output_text": lambda record: record.get("text").__class__ is str,
    "reasoning": lambda record: record.get("summary").__class__ is list,
    "refusal": lambda record: record.get("refusal").__class__ is str,
}


_RESPONSES = frozenset({"response", "response.compaction"})


def _is_response(record: Record) -> bool:
    return one_of(record.get("object"), _RESPONSES) and record.get("output").__class__ in (list, type(None))


def _is_request(record: Record) -> bool:
    """A body with input for a model, or for an agent that Gemini's interactions name in the same place."""
    given = record["input"]
    if record.get("model").__class__ is not str and not record.keys() & {
        "instructions",
        "previous_response_id",
        "prompt",
    }:
        return False
    if given.__class__ is list:
        return all(_is_item(item) for item in given)
    return given.__class__ is str and not record.keys() & {"dimensions", "encoding_format", "voice"}


def _is_item(item: Any) -> bool:
    wire = item_type(item)
    return wire is not None and (wire in ITEMS or wire in UNTYPED or wire in PARTS)


def recognizes(record: Record) -> bool:
    """Whether a record is of this format."""
    wire = record.get("type")
    if wire.__class__ is str:
        if not record.keys().isdisjoint(OWNERS):
            return False
        return wire.startswith("response.") or (wire in _RECOGNIZED and _RECOGNIZED[wire](record))
    bodies = bodies_of(record)
    if "object" in record:
        return bodies <= _RESPONSE_BODIES and _is_response(record)
    if bodies == {"input"}:
        return _is_request(record)
    if bodies or "role" not in record or "content" not in record:
        return False
    return record.keys().isdisjoint(_CHAT_KEYS) and _is_message(record)


_CHAT_KEYS = frozenset(
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
"""What messages of Chat Completions hold beside their content."""


_RESPONSE_BODIES = frozenset({"error", "input", "object", "output", "stats"})


def _envelope(record: Record) -> Record:
    """The response that a record tells of: itself, or that of an event."""
    response = record.get("response")
    return response if response.__class__ is dict else record


def facts(record: Record) -> Facts:
    """A response says when it was made and by which model; items say neither."""
    response = _envelope(record)
    return Facts(
        timestamp=milliseconds(response.get("created_at")),
        session_id=text_at(response, "conversation", "id") or text_at(response, "conversation"),
        model=text_at(response, "model"),
    )


# Standard messages.


def _usage(response: Record) -> Block | None:
    """Input tokens hold those of the cache, and output tokens those of reasoning."""
    usage = response.get("usage")
    read = count_at(usage, "input_tokens_details", "cached_tokens")
    written = count_at(usage, "input_tokens_details", "cache_write_tokens")
    return token_usage(
        usage,
        input=less(count_at(usage, "input_tokens"), read, written),
        output=count_at(usage, "output_tokens"),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "output_tokens_details", "reasoning_tokens"),
        service_tier=text_at(response, "service_tier"),
    )


def _error_of(told: Any) -> Block | None:
    if told.__class__ is not dict:
        return None
    return error(first_text(told, ("code", "type")) or "error", text_at(told, "message"), told)


def _stop_reason(response: Record) -> str | None:
    return text_at(response, "incomplete_details", "reason") or text_at(response, "status")


def _response_part(response: Record, blocks: list[Block]) -> Part:
    return Part(
        role="assistant",
        blocks=blocks,
        key=text_at(response, "id"),
        usage=_usage(response),
        metadata={
            "messageId": text_at(response, "id"),
            "model": text_at(response, "model"),
            "stop_reason": refused(blocks) or _stop_reason(response),
        },
        error=_error_of(response.get("error")),
    )


def _item_part(role: Role, blocks: list[Block]) -> Part:
    prompt = role == "user" and bool(blocks) and all(block["type"] == "text" for block in blocks)
    injected = prompt and is_system_message("\n".join(block["text"] for block in blocks))
    return item_part(role, blocks, synthetic=injected)


def _request_parts(record: Record) -> list[Part]:
    return [
        replace(_item_part(role, blocks), adjoins=False, original=given)
        for role, given, blocks in _turns(record)
    ]


def _event_parts(record: Record) -> list[Part]:
    """A response that begins is a message, to which the items that follow belong; one that ends tells its usage."""
    wire, response = record["type"], record.get("response")
    if wire == "error":
        nested = record.get("error")
        return [Part(role=None, error=_error_of(nested if nested.__class__ is dict else record))]
    if response.__class__ is not dict or wire not in _PARTS_OF_EVENTS:
        return []
    return [replace(_response_part(response, []), **_PARTS_OF_EVENTS[wire])]


_ENDED: Mapping[str, Any] = {"role": None, "key": None}
_PARTS_OF_EVENTS: Mapping[str, Mapping[str, Any]] = {
    "response.created": {"adjoins": True, "usage": None, "error": None},
    "response.completed": _ENDED,
    "response.failed": _ENDED,
    "response.incomplete": _ENDED,
}


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """One part for a response, for an item, and for each message of a request."""
    if reading.kind == "chunk":
        return _event_parts(record)
    if record.get("type").__class__ is not str:
        if _is_response(record):
            return [_response_part(record, reading.blocks)]
        if "input" in record:
            return _request_parts(record)
    failure = _error_of(record.get("error")) if reading.kind == "record" else None
    if failure is not None:
        return [Part(role="assistant", error=failure)]
    return [_item_part(_author_of(record, reading), reading.blocks)] if reading.kind == "message" else []


def _author_of(record: Record, reading: RecordReading) -> Role:
    """In whose message a bare item or part stands; what a stream brings is the answer, whatever it is."""
    if record.get("type") == "response.output_item.done":
        return "assistant" if reading.role == "tool" else reading.role
    return speaker_of(record) if item_type(record) in ITEMS else reading.role


PROVIDER = Provider(
    source="openai_responses",
    recognizes=recognizes,
    marks={*_RECOGNIZED, "input", "object", "output", "response", "role"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
)
