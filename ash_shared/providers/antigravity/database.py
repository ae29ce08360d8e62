"""Rows of the SQLite file of a conversation, and lines of the prompt history.

The blobs are protobuf; the field numbers are from the descriptors in the program. Only `gen_metadata` is read: each row
is one response of the model, with its usage and the steps that it produced.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, raw_block
from ash_shared.providers.antigravity.transcript import response_key
from ash_shared.records import protobuf
from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, control_record
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.records.json_fields import is_integer, text_at, token_usage, value_at
from ash_shared.records.protobuf import integer_at, integers_at, message_at

_CHAT_MODEL, _STEPS = 1, 2
_USAGE, _RESPONSE_MODEL, _DISPLAY_NAME = 4, 19, 21
"""Fields of the chat model."""
_COUNTS: Mapping[str, int] = {
    "input_tokens": 2,
    "output_tokens": 3,
    "cache_write_tokens": 4,
    "cache_read_tokens": 5,
    "thinking_tokens": 9,
    "response_tokens": 10,
}
"""Fields of the usage."""


class Generation(NamedTuple):
    """One response of the model."""

    step_index: int | None
    """The step of the response."""
    usage: Block | None
    model: str | None


def read_generation(data: bytes) -> Generation:
    """Read the `data` of a row of `gen_metadata`. Never raises."""
    fields = protobuf.decode_fields(data)
    chat = message_at(fields, _CHAT_MODEL)
    model = protobuf.text_at(chat, _DISPLAY_NAME) or protobuf.text_at(chat, _RESPONSE_MODEL)
    first = next(integers_at(fields, _STEPS), None)
    return Generation(first, _standard_usage(message_at(chat, _USAGE)), model)


def _standard_usage(fields: protobuf.Fields) -> Block | None:
    """Return the usage. The input excludes cached tokens, and the output includes thinking; zeros are left out."""
    counts = {
        name: count for name, number in _COUNTS.items() if (count := _count(fields, number)) is not None
    }
    if not counts:
        return None
    return token_usage(
        counts,
        input=counts.get("input_tokens", 0),
        output=counts.get("output_tokens", 0),
        cache_read=counts.get("cache_read_tokens"),
        reasoning=counts.get("thinking_tokens"),
    )


def _count(fields: protobuf.Fields, number: int) -> int | None:
    count = integer_at(fields, number)
    return count if count is not None and count < 2**53 else None


def blob(value: Any) -> bytes:
    """Return the bytes of a column; empty if it has none."""
    try:
        return base64.b64decode(text_at(value, "base64") or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _generation_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of the response of a row."""
    generation = read_generation(blob(value_at(row, "columns", "data")))
    if generation.usage is None:
        return []
    step = generation.step_index
    key = f"gen_metadata/{row.get('key')}" if step is None else response_key(step)
    metadata = {"model": generation.model}
    return [Part(role="assistant", key=key, usage=generation.usage, metadata=metadata, relation="section")]


def _parse_opaque(row: Record) -> ParsedRecord:
    return ParsedRecord(
        "record", "system", [raw_block("opaque", row, text_at(row, "table"))], is_checked=True
    )


_OPAQUE = WireType(_parse_opaque)

TABLES: Mapping[str, WireType] = {
    **dict.fromkeys(
        (
            "battle_mode_infos",
            "executor_metadata",
            "parent_references",
            "steps",
            "trajectory_meta",
            "trajectory_metadata_blob",
        ),
        _OPAQUE,
    ),
    "gen_metadata": WireType(_parse_opaque, _generation_parts),
}
"""Rows by `table`."""

_HISTORY_KEYS = frozenset({"display", "timestamp", "workspace"})

HISTORY = WireType(lambda record: control_record(record, "history"))
"""A line of `history.jsonl`, which has the workspace of a conversation."""


def is_row(record: Record) -> bool:
    """Return True for a row of a conversation. Never raises."""
    table = record.get("table")
    return record.keys() >= ROW_KEYS and isinstance(table, str) and table in TABLES


def is_history(record: Record) -> bool:
    """Return True for a line of the history. Never raises."""
    return (
        record.keys() >= _HISTORY_KEYS
        and is_integer(record["timestamp"])
        and isinstance(record["display"], str)
    )
