"""What a line of Codex adds to the standard messages of its session."""

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
from ash_shared.providers.codex.turn_items import SERVER_TOOLS, WITH_TEXT, item_type
from ash_shared.reading.system_text import begins_injected


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """What a line adds: most are a message or a part of an answer, others its usage, its end, or its error."""
    wire = record.get("type")
    if wire == "response_item":
        return _of_item(record["payload"], reading)
    if wire == "event_msg":
        return _of_event(record["payload"], reading, alone=False)
    if wire is None and record.get("msg").__class__ is dict:
        return _of_event(record["msg"], reading, alone=True)
    if wire.__class__ is str and wire in _LINES:
        return _LINES[wire](record, reading)
    if wire is None and value_at(record, "params", "item").__class__ is dict:
        return _of_turn_item(record["params"]["item"], reading)
    return _of_item(record, reading)


def _of_item(item: Record, reading: RecordReading) -> list[Part]:
    """An item of the Responses API, and Codex's own beside them."""
    if reading.kind != "message":
        return []
    wire = item.get("type")
    role = item_speaker(item) if is_one_of(wire, ITEMS) else reading.role
    part = item_part(role, reading.blocks, synthetic=_is_injected(speaker_of_role(role), reading.blocks))
    if wire == "message":
        return [replace(part, metadata={**part.metadata, "messageId": text_at(item, "id")})]
    if wire == "agent_message":
        told = {"agentId": text_at(item, "author"), "synthetic": True}
        return [replace(part, metadata={**part.metadata, **told})]
    return [part]


def _is_injected(role: Speaker, blocks: list[Block]) -> bool:
    first = blocks[0] if blocks else {}
    return role == "user" and begins_injected(text_at(first, "text") or "")


def _synthetic(role: Speaker, blocks: list[Block]) -> dict[str, Any]:
    return {"synthetic": True} if _is_injected(role, blocks) else {}


def _of_event(event: Record, reading: RecordReading, *, alone: bool) -> list[Part]:
    """An event. In a rollout file an item says the same, as a rule; in the stream of old it stands alone."""
    wire = event["type"]
    if wire in _TOLD:
        return _TOLD[wire](event)
    if wire == "item_completed":
        return _of_completed(event["item"], reading)
    if wire == "raw_response_item":
        return _of_item(event["item"], reading)
    if wire == "item_started":
        return []
    if reading.kind == "message":
        return [_of_text(reading, echo=not alone)]
    return _of_end(event.get("call_id"), reading.blocks)


def _of_text(reading: RecordReading, *, echo: bool) -> Part:
    role = speaker_of_role(reading.role)
    adjoins = role == "assistant" and not echo
    metadata = _synthetic(role, reading.blocks)
    return Part(role=role, blocks=reading.blocks, echo=echo, adjoins=adjoins, metadata=metadata)


def _of_end(call: Any, blocks: list[Block]) -> list[Part]:
    """What an event tells of a call that has ended: it goes to the result that the model was given."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    if call.__class__ is not str or not results:
        return []
    return [Part(role=None, results={call: pick(results[0], "is_error", "exit_code", "structured")})]


def _of_completed(item: Record, reading: RecordReading) -> list[Part]:
    """An item of a turn in a rollout file: a twin of response items, but for plans and the like."""
    if item_type(item) in WITH_TEXT:
        return [_of_text(reading, echo=True)]
    if reading.kind == "message" and any(block["type"] == "text" for block in reading.blocks[:1]):
        return [_of_text(reading, echo=False)]
    return _of_end(item.get("id"), reading.blocks)


def _of_item_line(record: Record, reading: RecordReading) -> list[Part]:
    return _of_turn_item(record["item"], reading)


def _of_turn_item(item: Record, reading: RecordReading) -> list[Part]:
    """An item that is told when it starts, when it changes and when it ends: the last form counts."""
    if item_type(item) == "error":
        return [Part(role=None, error=_error("error", item))]
    if reading.kind != "message":
        return []
    role, key = speaker_of_role(reading.role), text_at(item, "id")
    own = item_type(item) in SERVER_TOOLS or role == "user"
    said = [block for block in reading.blocks if own or block["type"] != "tool_result"]
    results = [block for block in reading.blocks if not own and block["type"] == "tool_result"]
    made = [Part(role=role, blocks=said, key=key, replaces=key is not None, metadata=_synthetic(role, said))]
    return made + ([Part(role="user", blocks=results, key=key, replaces=key is not None)] if results else [])


def _usage(counts: Any) -> Block | None:
    """Codex counts what was read from a cache, or written to one, as input, too."""
    read, written = count_at(counts, "cached_input_tokens"), count_at(counts, "cache_write_input_tokens")
    return token_usage(
        counts,
        input=subtract_counts(count_at(counts, "input_tokens"), read, written),
        output=count_at(counts, "output_tokens"),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(counts, "reasoning_output_tokens"),
    )


def _of_token_count(event: Record) -> list[Part]:
    """What the last answer cost. The same count is often written again, when limits are told anew."""
    info = event.get("info")
    if info.__class__ is not dict:
        usage = _usage(event)
        return [Part(role=None, usage=usage)] if usage else []
    return used(info.get("last_token_usage"), info.get("total_token_usage"))


def used(last: Any, total: Any) -> list[Part]:
    """What the last answer cost, and all of them: the same total is the same answer."""
    usage = _usage(last)
    return [Part(role=None, usage=usage, usage_key=json.dumps(total, sort_keys=True))] if usage else []


def _of_turn_end(record: Record, reading: RecordReading | None = None) -> list[Part]:
    return [Part(role=None, usage=_usage(record.get("usage")), usage_of_turn=True)]


def _of_failure(record: Record, reading: RecordReading) -> list[Part]:
    failure = _error("turn.failed", record["error"])
    return [Part(role=None, error=failure, usage_of_turn=True)]


def _of_error(record: Record, reading: RecordReading | None = None) -> list[Part]:
    return [Part(role=None, error=_error("error", record))]


def _of_task_end(event: Record) -> list[Part]:
    return [Part(role=None, error=failure(event))] if event.get("error") else []


def failure(told: Record) -> Block:
    """The error that ended a turn, of what tells the end."""
    return _error("error", told["error"])


def _of_abort(event: Record) -> list[Part]:
    return [Part(role=None, error=_error("turn_aborted", event))]


def _error(code: str, record: Any) -> Block:
    """What went wrong, by the name that Codex gives it, if it gives one."""
    told = record["error"] if value_at(record, "error").__class__ is dict else record
    texts = (text_at(told, name) for name in ("message", "text", "reason"))
    return message_error(_code(told) or code, next(filter(None, texts), code), record)


def _code(told: Any) -> str | None:
    """`codex_error_info` is a name, or an object with the name as its one key."""
    info = value_at(told, "codex_error_info")
    named = next(iter(info), None) if info.__class__ is dict else info
    return named if named.__class__ is str and named else text_at(told, "kind")


_TOLD: Mapping[str, Callable[[Record], list[Part]]] = {
    "error": _of_error,
    "task_complete": _of_task_end,
    "token_count": _of_token_count,
    "turn.completed": _of_turn_end,
    "turn_aborted": _of_abort,
    "turn_complete": _of_task_end,
}

_LINES: Mapping[str, Callable[[Record, RecordReading], list[Part]]] = {
    **dict.fromkeys(("item.completed", "item.started", "item.updated"), _of_item_line),
    "error": _of_error,
    "turn.completed": _of_turn_end,
    "turn.failed": _of_failure,
}
