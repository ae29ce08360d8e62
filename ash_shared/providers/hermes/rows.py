"""Rows of Hermes' database, `state.db`, each as one line of JSON with its table, primary key and columns.

Source: the schema in Hermes' public code, version 30, and programs that read it. A message has the
fields of Chat Completions as columns. A compaction copies messages; copies have the same `display_identity`, and are
shown once. Counts
of tokens are sums of the session by model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, raw_block, text_block, with_extra, with_variant
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers.hermes.documents import MESSAGES, message_blocks
from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, control_record, unknown_record
from ash_shared.records.documents import keyed_parts
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    decode_arguments,
    is_one_of,
    latest_time,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Origin, Speaker

_JSON = "\x00json:"
"""Prefix of the content of a message that is not a text."""

_NO_CONTENT = frozenset({"display_identity", "display_order", "id", "session_id", "timestamp"})
"""Columns that place a message in its session."""


def _message(columns: Record) -> Record:
    """Return a message as Chat Completions has it, with the further columns that have a value."""
    message = {
        name: value for name, value in columns.items() if name not in _NO_CONTENT and value is not None
    }
    content = message.get("content")
    if isinstance(content, str) and content.startswith(_JSON):
        message["content"] = decode_arguments(content.removeprefix(_JSON))
    if "tool_calls" in message:
        message["tool_calls"] = decode_arguments(message["tool_calls"])
    return message


def _parse_message(row: Record) -> ParsedRecord:
    message: Any = _message(row["columns"])
    if not is_one_of(message["role"], MESSAGES):
        return unknown_record(row, "messages")
    blocks = message_blocks(message)
    if not blocks:
        return control_record(row, "messages")
    place: Block = {
        "row": {**row, "columns": {name: row["columns"].get(name) for name in sorted(_NO_CONTENT)}}
    }
    if blocks[0]["type"] != "raw":
        blocks = [with_extra(blocks[0], place), *blocks[1:]]
    if message.get("_compressed_summary") == 1:
        blocks = with_variant(blocks, "summary")
    return ParsedRecord("message", message["role"], blocks)


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return a message, which a copy or a later version of its row replaces, and its retraction by a rewind."""
    if parsed.kind != "message":
        return []
    columns = row["columns"]
    identity = text_at(columns, "display_identity", "base64")
    key = f"messages/{identity or row['key']}"
    speaker: Speaker = MESSAGES[columns["role"]][0]
    is_hidden = columns.get("display_kind") == "hidden" or columns.get("_compressed_summary") == 1
    origin: Origin = "synthetic" if is_hidden else "prompt"
    part = Part(
        role=speaker,
        blocks=parsed.blocks,
        key=key,
        header=RecordHeader(uuid=key),
        origin=origin,
        metadata={"stop_reason": text_at(columns, "finish_reason")} if speaker == "assistant" else {},
        relation="new_version",
    )
    is_rewound = columns.get("active") == 0 and columns.get("compacted") == 0
    return [part, Part(role=None, relation="retraction", retracts=(key,))] if is_rewound else [part]


def _parse_prompt(row: Record) -> ParsedRecord:
    block = text_block(row["columns"]["prompt"])
    return ParsedRecord("message", "system", [with_extra(block, {"hash": row["columns"]["hash"]})])


def _usage_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of the session with a model. Tokens of a cache are not in the input."""
    columns = row["columns"]
    counts = {name: value for name, value in columns.items() if name.endswith("_tokens")}
    usage = token_usage(
        counts,
        input=count_at(columns, "input_tokens"),
        output=count_at(columns, "output_tokens"),
        cache_read=count_at(columns, "cache_read_tokens"),
        cache_creation=count_at(columns, "cache_write_tokens"),
        reasoning=count_at(columns, "reasoning_tokens"),
    )
    cost = cost_at(columns, "actual_cost_usd") or cost_at(columns, "estimated_cost_usd") or None
    part = Part(
        role="assistant",
        blocks=[raw_block("control", columns, "session_model_usage")],
        usage=usage,
        cost=cost,
        metadata={"model": text_at(columns, "model")},
    )
    return keyed_parts("/".join(("usage", *map(str, row["key"]))), [part])


class _Table(NamedTuple):
    columns: frozenset[str]
    """Columns that identify the table."""
    row: WireType


TABLES: Mapping[str, _Table] = {
    "messages": _Table(
        frozenset({"finish_reason", "role", "session_id", "tool_calls"}),
        WireType(_parse_message, _message_parts),
    ),
    "session_model_usage": _Table(
        frozenset({"api_call_count", "input_tokens", "model"}),
        WireType(lambda row: control_record(row, "session_model_usage"), _usage_parts),
    ),
    "sessions": _Table(
        frozenset({"api_call_count", "end_reason", "started_at"}),
        WireType(lambda row: control_record(row, "sessions")),
    ),
    "system_prompts": _Table(frozenset({"hash", "prompt"}), WireType(_parse_prompt)),
}


def wire_type(record: Record) -> WireType | None:
    """Return the type of a row; None for other records."""
    name, columns = record.get("table"), record.get("columns")
    if record.keys() != ROW_KEYS or not isinstance(columns, dict) or not isinstance(name, str):
        return None
    table = TABLES.get(name)
    return table.row if table is not None and table.columns <= columns.keys() else None


def header(row: Record) -> RecordHeader:
    columns = row["columns"]
    if row["table"] != "sessions":
        return RecordHeader(
            timestamp=to_milliseconds(columns.get("timestamp", columns.get("last_seen"))),
            session_id=text_at(columns, "session_id"),
        )
    return RecordHeader(
        timestamp=to_milliseconds(columns.get("started_at")),
        last_timestamp=latest_time([columns.get("ended_at"), columns.get("last_activity_at")]),
        session_id=text_at(columns, "id"),
        model=text_at(columns, "model"),
        title=text_at(columns, "title"),
        is_title_of_person=columns.get("title_source") == "user",
        parent=text_at(_config(columns), "_delegate_from"),
        folder=text_at(columns, "cwd"),
        branch=text_at(columns, "git_branch"),
        root=text_at(columns, "git_repo_root"),
    )


def _config(columns: Record) -> Any:
    return decode_arguments(value_at(columns, "model_config"))


def identify(row: Record) -> Identity:
    if row["table"] != "sessions":
        return Identity()
    columns = row["columns"]
    origin = text_at(_config(columns), "_branched_from")
    return Identity(session=text_at(columns, "id"), project=text_at(columns, "cwd"), origin=origin, body="")
