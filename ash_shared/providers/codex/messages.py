"""Parts that Codex lines add to the standard messages of their session."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick
from ash_shared.providers._kit.contract import Part, Record, RecordReading, Speaker, speaker_of_role
from ash_shared.providers._kit.json_fields import (
    count_at,
    is_one_of,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
    value_at,
)
from ash_shared.providers._kit.responses_items import ITEMS, item_part, item_speaker
from ash_shared.providers._kit.steps import Origin, Relation
from ash_shared.providers.codex.turn_items import SERVER_TOOLS, TEXT_ITEMS, item_type
from ash_shared.reading.system_text import starts_with_codex_context


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """Return the parts of a line: a message or part of a response, its usage, the end of a turn, or an
    error."""
    wire_type = record.get("type")
    if wire_type == "response_item":
        return _item_parts(record["payload"], reading)
    if wire_type == "event_msg":
        return _event_parts(record["payload"], reading, is_legacy_stream=False)
    if wire_type is None and record.get("msg").__class__ is dict:
        return _event_parts(record["msg"], reading, is_legacy_stream=True)
    if wire_type.__class__ is str and wire_type in _LINE_PARTS:
        return _LINE_PARTS[wire_type](record, reading)
    if wire_type is None and value_at(record, "params", "item").__class__ is dict:
        return _turn_item_parts(record["params"]["item"], reading)
    return _item_parts(record, reading)


def _item_parts(item: Record, reading: RecordReading) -> list[Part]:
    """Return the part of an item of the Responses API, or of a Codex item."""
    if reading.kind != "message":
        return []
    wire_type = item.get("type")
    role = item_speaker(item) if is_one_of(wire_type, ITEMS) else reading.role
    part = item_part(role, reading.blocks, synthetic=_is_codex_context(speaker_of_role(role), reading.blocks))
    if wire_type == "message":
        return [replace(part, message_id=text_at(item, "id"))]
    if wire_type == "agent_message":
        metadata = {**part.metadata, "agentId": text_at(item, "author")}
        return [replace(part, metadata=metadata, origin="synthetic")]
    return [part]


def _is_codex_context(role: Speaker, blocks: list[Block]) -> bool:
    first = blocks[0] if blocks else {}
    return role == "user" and starts_with_codex_context(text_at(first, "text") or "")


def _origin(role: Speaker, blocks: list[Block]) -> Origin:
    return "synthetic" if _is_codex_context(role, blocks) else "prompt"


def _event_parts(event: Record, reading: RecordReading, *, is_legacy_stream: bool) -> list[Part]:
    """Return the parts of an event. In a rollout file an item usually repeats the event; the legacy stream has no
    items."""
    wire_type = event["type"]
    if wire_type in _EVENT_PARTS:
        return _EVENT_PARTS[wire_type](event)
    if wire_type == "item_completed":
        return _completed_item_parts(event["item"], reading)
    if wire_type == "raw_response_item":
        return _item_parts(event["item"], reading)
    if wire_type == "item_started":
        return []
    if reading.kind == "message":
        return [_text_part(reading, is_copy=not is_legacy_stream)]
    return _call_end_parts(event.get("call_id"), reading.blocks)


def _text_part(reading: RecordReading, *, is_copy: bool) -> Part:
    role = speaker_of_role(reading.role)
    relation: Relation = "copy" if is_copy else "continuation" if role == "assistant" else "new"
    return Part(
        role=role,
        blocks=reading.blocks,
        origin=_origin(role, reading.blocks),
        relation=relation,
    )


def _call_end_parts(call: Any, blocks: list[Block]) -> list[Part]:
    """Return the details that an event adds to the result of a finished call."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    if call.__class__ is not str or not results:
        return []
    details = pick(results[0], "is_error", "exit_code", "structured")
    return [Part(role=None, blocks=[{"type": "tool_result", "tool_use_id": call, **details}])]


def _completed_item_parts(item: Record, reading: RecordReading) -> list[Part]:
    """Return the parts of a turn item in a rollout file. Most of them repeat response items; plans do not."""
    if item_type(item) in TEXT_ITEMS:
        return [_text_part(reading, is_copy=True)]
    if reading.kind == "message" and any(block["type"] == "text" for block in reading.blocks[:1]):
        return [_text_part(reading, is_copy=False)]
    return _call_end_parts(item.get("id"), reading.blocks)


def _item_line_parts(record: Record, reading: RecordReading) -> list[Part]:
    return _turn_item_parts(record["item"], reading)


def _turn_item_parts(item: Record, reading: RecordReading) -> list[Part]:
    """Return the parts of an item that is reported when it starts, changes and ends; the last report counts."""
    if item_type(item) == "error":
        return [Part(role=None, error=_standard_error("error", item))]
    if reading.kind != "message":
        return []
    role, key = speaker_of_role(reading.role), text_at(item, "id")
    keeps_results = item_type(item) in SERVER_TOOLS or role == "user"
    content = [block for block in reading.blocks if keeps_results or block["type"] != "tool_result"]
    results = [block for block in reading.blocks if not keeps_results and block["type"] == "tool_result"]
    message = [
        Part(
            role=role,
            blocks=content,
            key=key,
            origin=_origin(role, content),
            relation="revision" if key is not None else "new",
        )
    ]
    return message + (
        [Part(role="user", blocks=results, key=key, relation="revision" if key is not None else "new")]
        if results
        else []
    )


def _standard_usage(counts: Any) -> Block | None:
    """Return the usage. Codex's input count includes tokens read from and written to a cache."""
    cache_read, cache_written = (
        count_at(counts, "cached_input_tokens"),
        count_at(counts, "cache_write_input_tokens"),
    )
    return token_usage(
        counts,
        input=subtract_counts(count_at(counts, "input_tokens"), cache_read, cache_written),
        output=count_at(counts, "output_tokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(counts, "reasoning_output_tokens"),
    )


def _token_count_parts(event: Record) -> list[Part]:
    """Return the usage of the last response. Codex repeats it when it reports rate limits."""
    info = event.get("info")
    if info.__class__ is not dict:
        usage = _standard_usage(event)
        return [Part(role=None, usage=usage)] if usage else []
    return usage_parts(info.get("last_token_usage"), info.get("total_token_usage"))


def usage_parts(last: Any, total: Any) -> list[Part]:
    """Return the usage of the last response; it was already reported if the total is unchanged."""
    usage = _standard_usage(last)
    if usage is None:
        return []
    return [Part(role=None, usage=usage, key=json.dumps(total, sort_keys=True), relation="copy")]


def _turn_end_parts(record: Record, reading: RecordReading | None = None) -> list[Part]:
    return [Part(role=None, usage=_standard_usage(record.get("usage")), relation="turn_end")]


def _turn_failure_parts(record: Record, reading: RecordReading) -> list[Part]:
    error_block = _standard_error("turn.failed", record["error"])
    return [Part(role=None, error=error_block, relation="turn_end")]


def _error_parts(record: Record, reading: RecordReading | None = None) -> list[Part]:
    return [Part(role=None, error=_standard_error("error", record))]


def _task_end_parts(event: Record) -> list[Part]:
    return [Part(role=None, error=turn_error(event))] if event.get("error") else []


def turn_error(record: Record) -> Block:
    """Return the error that ended a turn."""
    return _standard_error("error", record["error"])


def _abort_parts(event: Record) -> list[Part]:
    return [Part(role=None, error=_standard_error("turn_aborted", event))]


def _standard_error(code: str, record: Any) -> Block:
    """Return the keys of a `MessageError`; `code` is the default if the record has none."""
    fields = record["error"] if value_at(record, "error").__class__ is dict else record
    texts = (text_at(fields, name) for name in ("message", "text", "reason"))
    return message_error(_error_code(fields) or code, next(filter(None, texts), code), record)


def _error_code(fields: Any) -> str | None:
    """Return the error code: `codex_error_info` is a name, or an object whose only key is the name."""
    info = value_at(fields, "codex_error_info")
    name = next(iter(info), None) if info.__class__ is dict else info
    return name if name.__class__ is str and name else text_at(fields, "kind")


_EVENT_PARTS: Mapping[str, Callable[[Record], list[Part]]] = {
    "error": _error_parts,
    "task_complete": _task_end_parts,
    "token_count": _token_count_parts,
    "turn.completed": _turn_end_parts,
    "turn_aborted": _abort_parts,
    "turn_complete": _task_end_parts,
}

_LINE_PARTS: Mapping[str, Callable[[Record, RecordReading], list[Part]]] = {
    **dict.fromkeys(("item.completed", "item.started", "item.updated"), _item_line_parts),
    "error": _error_parts,
    "turn.completed": _turn_end_parts,
    "turn.failed": _turn_failure_parts,
}
