"""Goose: the rows of its database, `sessions.db`, each as one line of JSON with its table, primary key and columns.

Source: the tables of schema 15 and a test of another project. Rows change in place: a changed one is another line with
the same key, and supersedes the earlier one. The usage of a call is in a table of its own, without the message.
"""

from collections.abc import Mapping
from functools import partial

from ash_shared.model.blocks import (
    Block,
    Translation,
    content_parser,
    control_block,
    parse_content,
    pick,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
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
    cost_at,
    count_at,
    decode_arguments,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)
from ash_shared.records.steps import Origin, Speaker


def _translate_call(part: Record) -> Block:
    """Translate a call. One that Goose could not read has no name, and is a text."""
    call = part["toolCall"]
    if call["status"] == "error":
        return translated(part, text_block(call["error"], "error"), {"id", "toolCall"}, part["type"])
    value = call["value"]
    typed = {
        "type": "tool_use",
        **pick(part, "id"),
        "name": value["name"],
        "input": value.get("arguments", {}),
    }
    block = translated(part, typed, {"id", "toolCall"}, part["type"])
    return with_extra(block, without(value, "name", "arguments"))


def _translate_result(part: Record) -> Block:
    result = part["toolResult"]
    if result["status"] == "error":
        fields = {"content": result["error"], "is_error": True}
        return translated(part, _result(part) | fields, {"id", "toolResult"}, part["type"])
    if result["status"] != "success":
        return control_block(part)
    value = result["value"] if isinstance(result["value"], dict) else {"content": result["value"]}
    names = {"is_error": "isError", "structured": "structuredContent"}
    fields = {"content": parse_content(value["content"], parse_block), **renamed(value, **names)}
    block = translated(part, _result(part) | fields, {"id", "toolResult"}, part["type"])
    return with_extra(block, without(value, "content", *names.values()))


def _result(part: Record) -> Block:
    return {"type": "tool_result", **renamed(part, tool_use_id="id")}


def _translate_image(part: Record) -> Block:
    source = {"type": "base64", **renamed(part, media_type="mimeType"), "data": part["data"]}
    return translated(part, {"type": "image", "source": source}, {"data", "mimeType"}, "image")


def _translate_withheld(part: Record) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, "data": part["data"]}
    return translated(part, typed, {"data"}, "redactedThinking")


def _translate_reasoning(part: Record) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, "reasoning")


def _translate_notice(part: Record) -> Block:
    name = "msg" if "msg" in part else "message"
    return translated(part, text_block(part[name], "notice"), {name}, "systemNotification")


_TRANSLATIONS: Mapping[str, Translation] = {
    "actionRequired": control_block,
    "contextLengthExceeded": control_block,
    "frontendToolRequest": _translate_call,
    "image": _translate_image,
    "reasoning": _translate_reasoning,
    "redactedThinking": _translate_withheld,
    "summarizationRequested": control_block,
    "systemNotification": _translate_notice,
    "toolConfirmationRequest": control_block,
    "toolRequest": _translate_call,
    "toolResponse": _translate_result,
}
parse_block = content_parser(_TRANSLATIONS)


def _parse_message(row: Record) -> ParsedRecord:
    role = row["columns"]["role"]
    if role not in ("assistant", "user"):
        return unknown_record(row, "messages")
    blocks = translate("messages", row, _translate_message)
    is_tool = all(block["type"] in ("raw", "tool_result") for block in blocks) and blocks[0]["type"] != "raw"
    return ParsedRecord("message", "tool" if is_tool and role == "user" else role, blocks)


def _translate_message(row: Record) -> list[Block]:
    blocks = parse_content(decode_arguments(row["columns"]["content_json"]), parse_block)
    return with_row(blocks, row, "content_json")


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    columns = row["columns"]
    is_hidden = value_at(decode_arguments(columns.get("metadata_json")), "userVisible") is False
    origin: Origin = "synthetic" if is_hidden else "prompt"
    role: Speaker = "assistant" if parsed.role == "assistant" else "user"
    key = f"messages/{row['key']}"
    return [
        Part(
            role=role,
            blocks=parsed.blocks,
            key=key,
            header=RecordHeader(uuid=key),
            origin=origin,
            message_id=text_at(columns, "message_id") if role == "assistant" else None,
            relation="new_version",
        )
    ]


def _usage_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the usage of a call, which belongs to the last answer."""
    columns = row["columns"]
    usage = token_usage(
        {name: value for name, value in columns.items() if name in _COUNTS and value is not None},
        input=count_at(columns, "input_tokens"),
        output=count_at(columns, "output_tokens"),
        cache_read=count_at(columns, "cache_read_tokens"),
        cache_creation=count_at(columns, "cache_write_tokens"),
    )
    if usage is None:
        return []
    metadata = {"model": text_at(columns, "model")}
    return [Part(role=None, usage=usage, cost=cost_at(columns, "cost"), metadata=metadata)]


_COUNTS = frozenset(
    {
        "cache_read_tokens",
        "cache_write_tokens",
        "cost_source",
        "input_tokens",
        "output_tokens",
        "total_tokens",
    }
)


_TABLES: Mapping[str, RowTable] = {
    "messages": RowTable(
        frozenset({"content_json", "role", "session_id"}), WireType(_parse_message, _message_parts)
    ),
    "sessions": RowTable(
        frozenset({"session_type", "working_dir"}), WireType(lambda row: control_record(row, "sessions"))
    ),
    "usage_ledger": RowTable(
        frozenset({"input_tokens", "session_id"}),
        WireType(lambda row: control_record(row, "usage_ledger"), _usage_parts),
    ),
}


def header(row: Record) -> RecordHeader:
    columns = row.get("columns")
    if row.get("table") != "sessions":
        return RecordHeader(
            timestamp=to_milliseconds(value_at(columns, "created_timestamp")),
            session_id=text_at(columns, "session_id"),
        )
    return RecordHeader(
        timestamp=to_milliseconds(value_at(columns, "created_at")),
        last_timestamp=to_milliseconds(value_at(columns, "updated_at")),
        session_id=text_at(columns, "id"),
        model=text_at(decode_arguments(value_at(columns, "model_config_json")), "model_name"),
        title=text_at(columns, "name") or text_at(columns, "description"),
        is_title_of_person=value_at(columns, "user_set_name") == 1,
        parent=text_at(columns, "parent_session_id"),
        folder=text_at(columns, "working_dir"),
    )


def identify(row: Record) -> Identity:
    if row.get("table") != "sessions":
        return Identity()
    columns = row.get("columns")
    return Identity(session=text_at(columns, "id"), project=text_at(columns, "working_dir"), body="")


PROVIDER = Provider(
    source="goose",
    recognize=partial(recognize_row, tables=_TABLES),
    marks=Marks(tables=_TABLES),
    wire_type=partial(wire_type_of_row, tables=_TABLES),
    parse_block=parse_block,
    header=header,
    identify=identify,
)
