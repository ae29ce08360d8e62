"""Content of Responses API records: responses, requests, items and stream events."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ash_shared.model.blocks import Block, bounded, raw_block, read_content
from ash_shared.model.message import Role
from ash_shared.providers._kit.contract import Record, RecordReading, chunk_reading
from ash_shared.providers._kit.json_fields import list_or_empty
from ash_shared.providers._kit.responses_items import (
    ITEMS,
    item_role,
    item_speaker,
    item_type,
    read_block,
    read_item,
    read_items,
)


def read_bare_item(item: Record) -> RecordReading:
    if item_type(item) not in ITEMS:
        return RecordReading("record", "system", read_item(item))
    return RecordReading("message", item_role(item), bounded(read_item(item)))


def read_response(record: Record) -> RecordReading:
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


def read_request(record: Record) -> RecordReading:
    return RecordReading(
        "message", "user", bounded([block for _, _, blocks in request_messages(record) for block in blocks])
    )


def read_item_end(event: Record) -> RecordReading:
    """Read the event of a completed item as the item."""
    item = event.get("item")
    return read_bare_item(item) if item.__class__ is dict else chunk_reading(event)


def read_unknown_event(event: Record) -> RecordReading:
    return RecordReading("chunk", "assistant", [raw_block("unknown_type", event, event["type"])])


def read_part(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in ("output_text", "refusal") else "user"
    return RecordReading("message", role, [read_block(record)])
