"""Crush: the rows of its database, `crush.db`, each as one line of JSON with its table, primary key and columns.

Source: the tables of a test of another project, and the types of the parts in Crush's public code; no sample has parts.
Rows change in place: a changed one is another line with the same key, and supersedes the earlier one.
"""

from collections.abc import Mapping
from functools import partial

from msgspec.structs import replace

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
    with_extra,
    with_row,
    with_variant,
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
    decode_arguments,
    input_at,
    items_at,
    media_class,
    message_error,
    text_at,
    to_milliseconds,
    url_source,
    value_at,
)
from ash_shared.records.steps import Origin, Speaker


def _typed(part: Record, typed: Block, *consumed: str) -> Block:
    """Return `typed` with the other keys of the part and of its data in `extra`."""
    block = {**typed, "source_type": part["type"]}
    return with_extra(with_extra(block, without(part["data"], *consumed)), without(part, "data", "type"))


def _translate_text(part: Record) -> Block:
    return _typed(part, text_block(part["data"]["text"]), "text")


def _translate_reasoning(part: Record) -> Block:
    data = part["data"]
    typed = {"type": "thinking", "thinking": data["thinking"], **pick(data, "signature")}
    return _typed(part, typed, "thinking", "signature")


def _translate_link(part: Record) -> Block:
    data = part["data"]
    typed = {"type": "image", "source": url_source(data["url"]), **pick(data, "detail")}
    return _typed(part, typed, "url", "detail")


def _translate_binary(part: Record) -> Block:
    """Translate an attachment. Its keys are the names of fields in Go."""
    data = part["data"]
    mime_type = data["MIMEType"]
    source = {"type": "base64", "media_type": mime_type, "data": data["Data"]}
    if mime_type.startswith("image/"):
        return _typed(part, {"type": "image", "source": source}, "MIMEType", "Data")
    fields = {"mediaClass": media_class(mime_type), **renamed(data, filename="Path")}
    return _typed(part, {"type": "file", "source": source, **fields}, "MIMEType", "Data", "Path")


def _translate_call(part: Record) -> Block:
    data = part["data"]
    arguments, consumed = input_at(data, "input")
    typed = {
        "type": "tool_use",
        **pick(data, "id"),
        "name": data["name"],
        "input": arguments,
        **({"executor": "server"} if data.get("provider_executed") is True else {}),
    }
    return _typed(part, typed, "id", "name", *consumed)


def _translate_result(part: Record) -> Block:
    """Translate a result, which may have the bytes of an image beside its text."""
    data = part["data"]
    fields = renamed(data, tool_use_id="tool_call_id", content="content", is_error="is_error")
    mime_type = text_at(data, "mime_type")
    if text_at(data, "data") is None or mime_type is None or not mime_type.startswith("image/"):
        return _typed(part, {"type": "tool_result", **fields}, "tool_call_id", "content", "is_error")
    texts = [text_block(data["content"])] if data.get("content") else []
    image = {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data["data"]}}
    typed = {"type": "tool_result", **fields, "content": [*texts, image]}
    return _typed(part, typed, "tool_call_id", "content", "is_error", "data", "mime_type")


_TRANSLATIONS: Mapping[str, Translation] = {
    "binary": _translate_binary,
    "finish": control_block,
    "image_url": _translate_link,
    "reasoning": _translate_reasoning,
    "text": _translate_text,
    "tool_call": _translate_call,
    "tool_result": _translate_result,
}
_parse_typed = content_parser({})


def parse_block(block: object) -> Block:
    """Parse a part, or a block of another format; those with `data` have the same types, but not the same fields."""
    wire_type = text_at(block, "type")
    if wire_type is not None and wire_type in _TRANSLATIONS:
        return translate(wire_type, block, _TRANSLATIONS[wire_type])[0]
    return _parse_typed(block)


def _parse_message(row: Record) -> ParsedRecord:
    role = row["columns"]["role"]
    if role not in _SPEAKERS:
        return unknown_record(row, "messages")
    blocks = translate("messages", row, _translate_message)
    is_summary = row["columns"].get("is_summary_message") == 1
    return ParsedRecord("message", role, with_variant(blocks, "summary") if is_summary else blocks)


_SPEAKERS: Mapping[str, Speaker] = {
    "assistant": "assistant",
    "system": "system",
    "tool": "user",
    "user": "user",
}


def _translate_message(row: Record) -> list[Block]:
    blocks = parse_content(decode_arguments(row["columns"]["parts"]), parse_block)
    return with_row(blocks, row, "parts")


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    columns = row["columns"]
    parts = items_at({"parts": decode_arguments(columns["parts"])}, "parts")
    is_hidden = any(value_at(part, "data", "hidden") is True for part in parts)
    origin: Origin = "synthetic" if is_hidden else "prompt"
    role = _SPEAKERS[columns["role"]]
    key = f"messages/{row['key']}"
    part = Part(
        role=role,
        blocks=parsed.blocks,
        key=key,
        header=RecordHeader(uuid=key),
        origin=origin,
        relation="new_version",
    )
    if role != "assistant":
        return [part]
    finish = next((part["data"] for part in parts if text_at(part, "type") == "finish"), None)
    reason = text_at(finish, "reason")
    metadata = {"model": text_at(columns, "model"), "stop_reason": reason}
    error = message_error("error", text_at(finish, "message"), finish) if reason == "error" else None
    return [replace(part, metadata=metadata, error=error)]


_TABLES: Mapping[str, RowTable] = {
    "files": RowTable(
        frozenset({"content", "path", "version"}), WireType(lambda row: control_record(row, "files"))
    ),
    "messages": RowTable(
        frozenset({"parts", "role", "session_id"}), WireType(_parse_message, _message_parts)
    ),
    "sessions": RowTable(
        frozenset({"completion_tokens", "prompt_tokens", "title"}),
        WireType(lambda row: control_record(row, "sessions")),
    ),
}
_OTHERS = frozenset({"content_json", "session_type"})
"""Columns of tables of other programs with the same names."""


def header(row: Record) -> RecordHeader:
    columns = row.get("columns")
    created = to_milliseconds(value_at(columns, "created_at"))
    if row.get("table") != "sessions":
        return RecordHeader(timestamp=created, session_id=text_at(columns, "session_id"))
    return RecordHeader(
        timestamp=created,
        last_timestamp=to_milliseconds(value_at(columns, "updated_at")),
        session_id=text_at(columns, "id"),
        title=text_at(columns, "title"),
        parent=text_at(columns, "parent_session_id"),
    )


def identify(row: Record) -> Identity:
    if row.get("table") != "sessions":
        return Identity()
    return Identity(session=text_at(row.get("columns"), "id"), body="")


def recognize(row: Record) -> WireType | None:
    wire_type = recognize_row(row, _TABLES)
    return wire_type if wire_type and _OTHERS.isdisjoint(row["columns"]) else None


PROVIDER = Provider(
    source="crush",
    recognize=recognize,
    marks=Marks(tables=_TABLES),
    wire_type=partial(wire_type_of_row, tables=_TABLES),
    parse_block=parse_block,
    header=header,
    identify=identify,
)
