"""Parts that Codex lines add to the standard messages of their session."""

import json
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import Block, pick
from ash_shared.model.message import Role
from ash_shared.providers.codex.turn_items import SERVER_TOOLS, TEXT_ITEMS, item_type
from ash_shared.records.contract import ParsedRecord, Part, Record, Speaker, speaker_of_role
from ash_shared.records.json_fields import (
    count_at,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
    value_at,
)
from ash_shared.records.responses_items import item_part, item_speaker
from ash_shared.records.steps import Origin, Relation, keyed_relation
from ash_shared.records.system_text import is_codex_context


def own_item_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an item that the Responses API does not have."""
    return _item_parts(parsed.role, parsed)


def item_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of an item of the Responses API."""
    return _item_parts(item_speaker(item), parsed)


def message_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    return [replace(part, message_id=text_at(item, "id")) for part in item_parts(item, parsed)]


def agent_message_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    agent = {"agentId": text_at(item, "author")}
    own_parts = own_item_parts(item, parsed)
    return [replace(part, metadata={**part.metadata, **agent}, origin="synthetic") for part in own_parts]


def _item_parts(role: Role, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    synthetic = _is_codex_context(speaker_of_role(role), parsed.blocks)
    return [item_part(role, parsed.blocks, synthetic=synthetic)]


def _is_codex_context(role: Speaker, blocks: list[Block]) -> bool:
    first = blocks[0] if blocks else {}
    return role == "user" and is_codex_context(text_at(first, "text") or "")


def _origin(role: Speaker, blocks: list[Block]) -> Origin:
    return "synthetic" if _is_codex_context(role, blocks) else "prompt"


def copied_text_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a text that an item usually repeats."""
    return _text_parts(parsed, "copy")


def spoken_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of spoken words; consecutive segments of one speaker form one message."""
    return _text_parts(parsed, "continuation")


def text_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the part of a text or call that no item repeats."""
    return _text_parts(parsed, "continuation" if parsed.role == "assistant" else "new")


def _text_parts(parsed: ParsedRecord, relation: Relation) -> list[Part]:
    if parsed.kind != "message":
        return []
    role, blocks = speaker_of_role(parsed.role), parsed.blocks
    return [Part(role=role, blocks=blocks, origin=_origin(role, blocks), relation=relation)]


def call_event_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    return _call_end_parts(event.get("call_id"), parsed.blocks)


def _call_end_parts(call: Any, blocks: list[Block]) -> list[Part]:
    """Return the details that an event adds to the result of a finished call."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    if not isinstance(call, str) or not results:
        return []
    details = pick(results[0], "is_error", "exit_code", "structured")
    return [Part(role=None, blocks=[{"type": "tool_result", "tool_use_id": call, **details}])]


def completed_item_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of a turn item in a rollout file. Most repeat response items; plans do not."""
    if item_type(item) in TEXT_ITEMS:
        return copied_text_parts(item, parsed)
    if parsed.kind == "message" and any(block["type"] == "text" for block in parsed.blocks[:1]):
        return text_parts(item, parsed)
    return _call_end_parts(item.get("id"), parsed.blocks)


def turn_item_parts(item: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of an item that is reported when it starts, changes and ends; the last report counts."""
    if item_type(item) == "error":
        return [Part(role=None, error=_standard_error("error", item))]
    if parsed.kind != "message":
        return []
    role, key = speaker_of_role(parsed.role), text_at(item, "id")
    keeps_results = item_type(item) in SERVER_TOOLS or role == "user"
    content = [block for block in parsed.blocks if keeps_results or block["type"] != "tool_result"]
    results = [block for block in parsed.blocks if not keeps_results and block["type"] == "tool_result"]
    origin, relation = _origin(role, content), keyed_relation(key)
    message = Part(role=role, blocks=content, key=key, origin=origin, relation=relation)
    result = Part(role="user", blocks=results, key=key, relation=relation)
    return [message, result] if results else [message]


def _standard_usage(counts: Any) -> Block | None:
    """Return the usage. Codex's input count includes tokens read from and written to a cache."""
    cache_read = count_at(counts, "cached_input_tokens")
    cache_written = count_at(counts, "cache_write_input_tokens")
    return token_usage(
        counts,
        input=subtract_counts(count_at(counts, "input_tokens"), cache_read, cache_written),
        output=count_at(counts, "output_tokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(counts, "reasoning_output_tokens"),
    )


def token_count_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of the last response. Codex repeats it when it reports rate limits."""
    info = event.get("info")
    if not isinstance(info, dict):
        usage = _standard_usage(event)
        return [Part(role=None, usage=usage)] if usage else []
    return usage_parts(info.get("last_token_usage"), info.get("total_token_usage"))


def usage_parts(last: Any, total: Any) -> list[Part]:
    """Return the usage of the last response; it was already reported if the total is unchanged, or by a
    `token_usage_record` since the last total."""
    usage = _standard_usage(last)
    return [Part(role=None, usage=usage, key=_usage_key(total), relation="recount")] if usage else []


def usage_record_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of a response. Its key is the total of the thread, because a `token_count` with the same total
    states the same usage."""
    payload = record["payload"]
    usage, total = _standard_usage(payload["usage"]), payload.get("thread_token_usage")
    return [Part(role=None, usage=usage, key=_usage_key(total), relation="copy")] if usage else []


def _usage_key(total: Any) -> str:
    return json.dumps(total, sort_keys=True)


def rollback_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, relation="rollback", turns=count_at(event, "num_turns") or 0)]


def undo_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, relation="rollback", turns=int(event.get("success") is True))]


def turn_end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, usage=_standard_usage(record.get("usage")), relation="turn_end")]


def turn_failure_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    error_block = _standard_error("turn.failed", record["error"])
    return [Part(role=None, error=error_block, relation="turn_end")]


def error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, error=_standard_error("error", record))]


def task_end_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, error=_standard_error("error", event["error"]))] if event.get("error") else []


def abort_parts(event: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, error=_standard_error("turn_aborted", event))]


def _standard_error(code: str, record: Any) -> Block:
    """Return the keys of a `MessageError`; `code` is the default if the record has none."""
    fields = record["error"] if isinstance(value_at(record, "error"), dict) else record
    texts = (text_at(fields, name) for name in ("message", "text", "reason"))
    return message_error(_error_code(fields) or code, next(filter(None, texts), code), record)


def _error_code(fields: Any) -> str | None:
    """Return the error code: `codex_error_info` is a name, or an object with the name as its only key."""
    info = value_at(fields, "codex_error_info")
    name = next(iter(info), None) if isinstance(info, dict) else info
    return name if isinstance(name, str) and name else text_at(fields, "kind")
