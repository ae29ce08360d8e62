"""Content of Responses API records: responses, requests, items and stream events."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ash_shared.model.blocks import Block, bounded, raw_block, read_content
from ash_shared.model.content import RawReason
from ash_shared.model.message import Role
from ash_shared.providers._kit.contract import Record, RecordReading, control_reading
from ash_shared.providers._kit.json_fields import list_or_empty
from ash_shared.providers._kit.responses_items import (
    ITEMS,
    PARTS,
    item_role,
    item_speaker,
    item_type,
    read_block,
    read_item,
    read_items,
)
from ash_shared.providers.openai_responses.recognition import is_response


def _read_bare_item(item: Record) -> RecordReading:
    if item_type(item) not in ITEMS:
        return RecordReading("record", "system", read_item(item))
    return RecordReading("message", item_role(item), bounded(read_item(item)))


def _read_response(record: Record) -> RecordReading:
    return RecordReading("message", "assistant", read_items(list_or_empty(record.get("output"))))


def request_messages(record: Record) -> Iterator[tuple[Role, Any, list[Block]]]:
    """Yield the messages of a request as role, original and blocks: the instructions, then the input, in which
    adjacent response items, and adjacent results, form one message."""
    input, instructions = record["input"], record.get("instructions")
    if instructions is not None:
        yield "system", instructions, _read_input(instructions)
    if input.__class__ is not list:
        yield "user", input, _read_input(input)
        return
    for (role, _), run in groupby(enumerate(input), key=lambda position: _grouping_key(*position)):
        items = [item for _, item in run]
        yield role, items, read_items(items)


def _read_input(input: Any) -> list[Block]:
    """Read instructions or input, which are a text or a list of items."""
    return read_items(input) if input.__class__ is list else read_content(input, read_block)


def _grouping_key(position: int, item: Any) -> tuple[Role, int]:
    """Return the key by which adjacent items are grouped into a message; user messages are never grouped."""
    role = item_speaker(item)
    return role, 0 if role in ("assistant", "tool") else position


def _read_request(record: Record) -> RecordReading:
    return RecordReading(
        "message", "user", bounded([block for _, _, blocks in request_messages(record) for block in blocks])
    )


def _read_event(record: Record) -> RecordReading:
    """Read a stream event as a fragment, except that the event of a completed item is read as the item."""
    wire_type = record["type"]
    if wire_type == "response.output_item.done" and record.get("item").__class__ is dict:
        return _read_bare_item(record["item"])
    reason: RawReason = "stream_fragment" if wire_type in _EVENT_TYPES else "unknown_type"
    return RecordReading("chunk", "assistant", [raw_block(reason, record, wire_type)])


def _read_part(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in ("output_text", "refusal") else "user"
    return RecordReading("message", role, [read_block(record)])


def read(record: Record) -> RecordReading:
    """Read any record of the format."""
    wire_type = record.get("type")
    if wire_type.__class__ is str:
        return _read_typed(wire_type, record)
    if is_response(record):
        return _read_response(record)
    if "input" in record:
        return _read_request(record)
    if record.get("error") is not None:
        return control_reading(record, "error")
    return _read_bare_item(record)


def _read_typed(wire_type: str, record: Record) -> RecordReading:
    if wire_type == "error" or wire_type.startswith("response."):
        return _read_event(record)
    return _read_part(record) if wire_type in PARTS else _read_bare_item(record)


def _event_names(group: str, *names: str) -> Iterator[str]:
    return (f"response.{group}{name}" for name in names)


_EVENT_TYPES = frozenset(
    {
        "error",
        *_event_names("", "completed", "created", "failed", "in_progress", "incomplete", "queued"),
        *_event_names("apply_patch_call.", "completed", "in_progress"),
        *_event_names("apply_patch_call_operation_diff.", "delta", "done"),
        *_event_names("audio.", "delta", "done", "transcript.delta", "transcript.done"),
        *_event_names("code_interpreter_call.", "completed", "in_progress", "interpreting"),
        *_event_names("code_interpreter_call_code.", "delta", "done"),
        *_event_names("compaction.", "compacting"),
        *_event_names("content_part.", "added", "done"),
        *_event_names("custom_tool_call_input.", "delta", "done"),
        *_event_names("file_search_call.", "completed", "in_progress", "searching"),
        *_event_names("function_call_arguments.", "delta", "done"),
        *_event_names("image_generation_call.", "completed", "generating", "in_progress", "partial_image"),
        *_event_names("mcp_call.", "completed", "failed", "in_progress"),
        *_event_names("mcp_call_arguments.", "delta", "done"),
        *_event_names("mcp_list_tools.", "completed", "failed", "in_progress"),
        *_event_names("output_item.", "added", "done"),
        *_event_names("output_text.", "annotation.added", "delta", "done"),
        *_event_names("reasoning_summary_part.", "added", "done"),
        *_event_names("reasoning_summary_text.", "delta", "done"),
        *_event_names("reasoning_text.", "delta", "done"),
        *_event_names("refusal.", "delta", "done"),
        *_event_names("shell_call_command.", "added", "delta", "done"),
        *_event_names("shell_call_output_content.", "delta", "done"),
        *_event_names("web_search_call.", "completed", "in_progress", "searching"),
    }
)
