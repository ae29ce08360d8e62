"""Devin: the rows of the database of its command line, `sessions.db`, each as one line of JSON with its table, primary
key and columns.

Source: the schema and the values as two readers describe them; the program is closed. The messages of a session
are the nodes of a forest; a compaction copies messages to new nodes. The import adds `copy_of` to a node that repeats
an earlier one, and to the nodes of a subagent its id, `agent`, and the call that started it, `call`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ash_shared.model.blocks import (
    Block,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra_in_first,
    with_row,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    control_record,
    unknown_record,
)
from ash_shared.records.fingerprints import RowTable, recognize_row, wire_type_of_row
from ash_shared.records.json_fields import (
    count_at,
    decode_arguments,
    input_at,
    list_or_empty,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Origin, Speaker

_SPEAKERS: Mapping[str, Speaker] = {
    "assistant": "assistant",
    "system": "system",
    "tool": "user",
    "user": "user",
}


def _message_of(row: Record) -> Any:
    return decode_arguments(value_at(row, "columns", "chat_message"))


def _node_of(row: Record) -> Any:
    """Return the metadata of a node, which is not the metadata of its message."""
    return decode_arguments(value_at(row, "columns", "metadata"))


def _extensions(message: Any) -> Any:
    return value_at(message, "metadata", "extensions")


def _is_summary(row: Record) -> bool:
    return value_at(_node_of(row), "summarized_from") is not None


# Blocks of a message.


def _translate_message(row: Record) -> list[Block]:
    message = _message_of(row)
    role = message["role"]
    if role == "tool":
        blocks = [_translate_result(message)]
    else:
        variant = "summary" if _is_summary(row) else None
        thoughts = [_translate_thought(message["thinking"])] if message.get("thinking") else []
        calls = [block for call in list_or_empty(message.get("tool_calls")) for block in _call_blocks(call)]
        rest = without(message, "content", "thinking", "tool_calls")
        texts = _texts(message["content"], rest, variant)
        blocks = [*thoughts, *texts, *calls] if texts else with_extra_in_first([*thoughts, *calls], rest)
    return with_row(blocks or [raw_block("control", message, role)], row, "chat_message")


def _texts(content: str, rest: Block, variant: str | None) -> list[Block]:
    return [] if content == "" else [translated(rest, text_block(content, variant), (), "message")]


def _translate_thought(thought: Record) -> Block:
    typed = {"type": "thinking", "thinking": thought["thinking"], **pick(thought, "signature")}
    return translated(thought, typed, {"signature", "thinking"}, "thinking")


def _call_blocks(call: Any) -> list[Block]:
    return translate("tool_call", call, _translate_call)


def _translate_call(call: Record) -> Block:
    arguments, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **pick(call, "id", "name"), "input": arguments}
    return translated(call, typed, {"id", "name", *consumed}, "tool_call")


def _translate_result(message: Record) -> Block:
    typed: Block = {
        "type": "tool_result",
        **renamed(message, tool_use_id="tool_call_id"),
        "content": message["content"],
    }
    extensions = _extensions(message)
    is_failed = value_at(extensions, "chisel/tool_result_meta", "success") is False
    if is_failed or value_at(extensions, "chisel/tool_failure") is not None:
        typed["is_error"] = True
    return translated(message, typed, {"content", "tool_call_id"}, "tool")


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


# Rows.


def _parse_node(row: Record) -> ParsedRecord:
    if "copy_of" in row["columns"]:
        return control_record(row, "message_nodes")
    role = text_at(_message_of(row), "role") or ""
    if role not in _SPEAKERS:
        return unknown_record(row, "message_nodes")
    blocks = translate("message_nodes", row, _translate_message)
    return ParsedRecord("message", "tool" if role == "tool" else _SPEAKERS[role], blocks)


def _node_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the message of a node. A later version of it, in another node, has its id."""
    if parsed.kind != "message":
        return []
    message = _message_of(row)
    role = "system" if _is_summary(row) else _SPEAKERS[message["role"]]
    id = text_at(message, "message_id")
    is_answer = role == "assistant"
    return [
        Part(
            role=role,
            blocks=parsed.blocks,
            key=f"message_nodes/{row['key']}" if id is None else f"message/{id}",
            relation="new_version",
            origin=_origin(message),
            parent_call=text_at(row, "columns", "call") or text_at(row, "columns", "agent"),
            message_id=id if is_answer else None,
            usage=_usage(message) if is_answer else None,
            metadata={"model": text_at(message, "metadata", "generation_model")} if is_answer else {},
        )
    ]


def _origin(message: Record) -> Origin:
    is_user = message["role"] == "user"
    return "synthetic" if is_user and value_at(message, "metadata", "is_user_input") is not True else "prompt"


def _usage(message: Record) -> Block | None:
    """Return the usage of an answer. Its input excludes cached tokens, its output includes reasoning."""
    metrics = value_at(message, "metadata", "metrics")
    return token_usage(
        metrics,
        input=count_at(metrics, "input_tokens"),
        output=count_at(metrics, "output_tokens"),
        cache_read=count_at(metrics, "cache_read_tokens"),
        cache_creation=count_at(metrics, "cache_creation_tokens"),
    )


_TABLES: Mapping[str, RowTable] = {
    "message_nodes": RowTable(
        frozenset({"chat_message", "node_id", "session_id"}), WireType(_parse_node, _node_parts)
    ),
    "sessions": RowTable(
        frozenset({"agent_mode", "backend_type", "working_directory"}),
        WireType(lambda row: control_record(row, "sessions")),
    ),
}


def header(row: Record) -> RecordHeader:
    columns = row.get("columns")
    if row.get("table") != "sessions":
        message = _message_of(row)
        time = value_at(message, "metadata", "created_at") or value_at(columns, "created_at")
        return RecordHeader(
            uuid=None if row.get("key") is None else f"message_nodes/{row['key']}",
            timestamp=to_milliseconds(time),
            session_id=text_at(columns, "session_id"),
            model=text_at(message, "metadata", "generation_model"),
        )
    return RecordHeader(
        timestamp=to_milliseconds(value_at(columns, "created_at")),
        last_timestamp=to_milliseconds(value_at(columns, "last_activity_at")),
        session_id=text_at(columns, "id"),
        model=text_at(columns, "model") or None,
        title=text_at(columns, "title"),
        folder=text_at(columns, "working_directory"),
    )


def identify(row: Record) -> Identity:
    if row.get("table") != "sessions":
        return Identity()
    columns = row.get("columns")
    return Identity(session=text_at(columns, "id"), project=text_at(columns, "working_directory"), body="")


PROVIDER = Provider(
    source="devin_cli",
    recognize=partial(recognize_row, tables=_TABLES),
    marks=Marks(tables=_TABLES),
    wire_type=partial(wire_type_of_row, tables=_TABLES),
    parse_block=parse_block,
    header=header,
    identify=identify,
)
