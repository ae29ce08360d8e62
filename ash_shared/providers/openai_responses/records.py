"""What stands in a record: a response, a request, an item, or an event of a stream."""

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


def _read_bare(item: Record) -> RecordReading:
    if item_type(item) not in ITEMS:
        return RecordReading("record", "system", read_item(item))
    return RecordReading("message", item_role(item), bounded(read_item(item)))


def _read_response(record: Record) -> RecordReading:
    return RecordReading("message", "assistant", read_items(list_or_empty(record.get("output"))))


def turns_of(record: Record) -> Iterator[tuple[Role, Any, list[Block]]]:
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
    role = item_speaker(item)
    return role, 0 if role in ("assistant", "tool") else place


def _read_request(record: Record) -> RecordReading:
    return RecordReading(
        "message", "user", bounded([block for _, _, turn in turns_of(record) for block in turn])
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
    if is_response(record):
        return _read_response(record)
    if "input" in record:
        return _read_request(record)
    if record.get("error") is not None:
        return control_reading(record, "error")
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
