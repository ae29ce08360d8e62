"""Rows of OpenCode's database, `opencode.db`: each is one line of JSON with its table, primary key and columns.

Source: the tables of OpenCode 1.18.34, and files. Some columns contain JSON, which stays a text. A changed row is
another line with the same table and key, and supersedes the earlier one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import raw_block
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers.opencode import bus, documents, session_messages
from ash_shared.providers.opencode.documents import PartContext
from ash_shared.records.contract import ParsedRecord, Part, Record, WireType, control_record
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.records.inherited import with_continuation
from ash_shared.records.json_fields import decode_arguments, latest_time, text_at, to_milliseconds, value_at
from ash_shared.records.steps import Step

_STORED = PartContext(is_stored=True)


class _Table(NamedTuple):
    columns: frozenset[str]
    """Columns that every version of the table has, and that identify it."""
    document: Callable[[Record], Record] | None = None
    """Return the document of a row; None for tables outside the conversation."""
    row: WireType = WireType(lambda row: control_record(row, row["table"]))


def _json(columns: Record, name: str) -> Any:
    """Return the decoded JSON of a text column; other values unchanged."""
    return decode_arguments(columns.get(name))


def _decoded_data(columns: Record) -> Record:
    """Return the object in the column `data`. Raises TypeError for anything else."""
    data = _json(columns, "data")
    if not isinstance(data, dict):
        raise TypeError
    return data


def _message(columns: Record) -> Record:
    return {**_decoded_data(columns), "id": columns["id"], "sessionID": columns["session_id"]}


def _part(columns: Record) -> Record:
    ids = {"id": columns["id"], "messageID": columns["message_id"], "sessionID": columns["session_id"]}
    return {**_decoded_data(columns), **ids}


def _session_message(columns: Record) -> Record:
    return {**_decoded_data(columns), "id": columns["id"], "type": columns["type"]}


def _session(columns: Record) -> Record:
    renamed = {name: columns.get(column) for name, column in _SESSION_FIELDS.items()}
    times = {"created": columns.get("time_created"), "updated": columns.get("time_updated")}
    return {**{name: value for name, value in renamed.items() if value is not None}, "time": times}


_SESSION_FIELDS = {
    "id": "id",
    "projectID": "project_id",
    "parentID": "parent_id",
    "directory": "directory",
    "title": "title",
    "version": "version",
}


def _document(row: Record) -> Record:
    """Return the document in a row of the conversation. Raises LookupError, TypeError or AttributeError."""
    document: Record = TABLES[row["table"]].document(row["columns"])  # type: ignore[misc]  # checked by the row
    return document


# Messages and their parts.


def _parse_part(row: Record) -> ParsedRecord:
    document = _document(row)
    parsed = documents.parse_single_part(document)
    if parsed.kind == "record":
        return control_record(row, text_at(document, "type"))
    return ParsedRecord(parsed.kind, parsed.role, _with_columns(parsed.blocks, row))


def _with_columns(blocks: list[dict[str, Any]], row: Record) -> list[dict[str, Any]]:
    """Return blocks with the columns of their row that are neither ids nor content."""
    rest = {name: value for name, value in row["columns"].items() if name not in _CONTENT_COLUMNS}
    first = blocks[0]
    if first["type"] == "raw":
        return [_with_row(first, row), *blocks[1:]]
    return [{**first, "extra": {**first.get("extra", {}), "row": {**row, "columns": rest}}}, *blocks[1:]]


def _with_row(block: dict[str, Any], row: Record) -> dict[str, Any]:
    """Return a raw block with the whole row."""
    return raw_block(block["reason"], row, block.get("rawType"))


_CONTENT_COLUMNS = frozenset({"data", "id", "message_id", "session_id"})


def _part_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    return [documents.in_dialect(part) for part in documents.parts_of_part(_document(row), _STORED)]


def _part_steps(row: Record, parsed: ParsedRecord) -> list[Step]:
    return [documents.step_in_dialect(step) for step in documents.part_steps(_document(row), _STORED)]


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    return [documents.in_dialect(documents.info_part(_document(row)))]


def _message_steps(row: Record, parsed: ParsedRecord) -> list[Step]:
    return [documents.step_in_dialect(step) for step in documents.info_steps(_document(row))]


# Sessions.


def _revert_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the retraction of the messages that the person has reverted."""
    message = text_at(_json(row["columns"], "revert"), "messageID")
    until = to_milliseconds(row["columns"].get("time_updated"))
    if message is None:
        return []
    return [Part(role=None, relation="reversion", retracts=(message,), until=until)]


def _parse_session_message(row: Record) -> ParsedRecord:
    document = _document(row)
    parsed = session_messages.wire_type(document).parse(document)
    if all(block["type"] == "raw" for block in parsed.blocks):
        return ParsedRecord(parsed.kind, parsed.role, [_with_row(block, row) for block in parsed.blocks[:1]])
    return ParsedRecord(parsed.kind, parsed.role, _with_columns(parsed.blocks, row))


def _inner(row: Record) -> WireType:
    return session_messages.wire_type(_document(row))


def _read(row: Record) -> tuple[Record, ParsedRecord]:
    """Return the message in a row, and what it contains."""
    return _document(row), _inner(row).parse(_document(row))


# Events.


def _event(row: Record) -> Record:
    """Return the event in a row, with its data decoded."""
    columns = row["columns"]
    return {"table": row["table"], "key": row["key"], **columns, "data": _json(columns, "data")}


def _parse_event(row: Record) -> ParsedRecord:
    event = _event(row)
    parsed = bus.wire_type(event).parse(event)
    if any(block["type"] == "raw" for block in parsed.blocks):
        return ParsedRecord(parsed.kind, parsed.role, [_with_row(block, row) for block in parsed.blocks[:1]])
    return parsed


_EVENT = WireType(
    _parse_event,
    lambda row, parsed: bus.wire_type(_event(row)).parts(_event(row), parsed),
    lambda row, parsed: bus.wire_type(_event(row)).steps(_event(row), parsed),
)


TABLES: Mapping[str, _Table] = {
    "event": _Table(frozenset({"aggregate_id", "data", "type"}), row=_EVENT),
    "event_sequence": _Table(frozenset({"aggregate_id", "seq"})),
    "kilo_board": _Table(frozenset({"root_session_id"})),
    "kilo_board_message": _Table(frozenset({"board_root_session_id"})),
    "message": _Table(
        frozenset({"data", "id", "session_id"}),
        _message,
        WireType(lambda row: control_record(row, "message"), _message_parts, _message_steps),
    ),
    "part": _Table(
        frozenset({"data", "id", "message_id", "session_id"}),
        _part,
        WireType(_parse_part, _part_parts, _part_steps),
    ),
    "permission": _Table(frozenset({"project_id"})),
    "project": _Table(frozenset({"id", "worktree"})),
    "project_directory": _Table(frozenset({"project_id"})),
    "session": _Table(
        frozenset({"directory", "id", "project_id"}),
        _session,
        WireType(
            lambda row: control_record(row, "session"),
            _revert_parts,
            lambda row, parsed: [*_revert_parts(row, parsed)],
        ),
    ),
    "session_context_epoch": _Table(frozenset({"session_id"})),
    "session_input": _Table(frozenset({"id", "prompt", "session_id"})),
    "session_message": _Table(
        frozenset({"data", "id", "session_id", "type"}),
        _session_message,
        WireType(
            _parse_session_message,
            lambda row, parsed: _inner(row).parts(*_read(row)),
            lambda row, parsed: _inner(row).steps(*_read(row)),
        ),
    ),
    "session_share": _Table(frozenset({"session_id"})),
    "todo": _Table(frozenset({"content", "session_id", "status"})),
    "workspace": _Table(frozenset({"id"})),
}


def is_row(record: Record) -> bool:
    """Return True for the row of a table that OpenCode has."""
    if record.keys() != ROW_KEYS or not isinstance(record["columns"], dict):
        return False
    name = record["table"]
    table = TABLES.get(name) if isinstance(name, str) else None
    return table is not None and table.columns <= record["columns"].keys()


def wire_type(row: Record) -> WireType:
    return TABLES[row["table"]].row


def header(row: Record) -> RecordHeader:
    if row["table"] == "event":
        return bus.header(_event(row))
    columns = row["columns"]
    document = _conversation_document(row)
    known = documents.header(document) if document is not None else RecordHeader()
    key, times = row["key"], _row_times(row)
    mark = value_at(_json(columns, "metadata"), "ash") if row["table"] == "session" else None
    found = known._replace(
        uuid=key if isinstance(key, str) else None,
        timestamp=known.timestamp or (to_milliseconds(times[0]) if times else None),
        session_id=text_at(columns, "id" if row["table"] == "session" else "session_id"),
        last_timestamp=latest_time([known.last_timestamp, *times]),
        ordinal=_ordinal(key),
    )
    return with_continuation(found, mark)


def _ordinal(key: Any) -> int | None:
    """Return the time in the id of a message or of a part, by which OpenCode sorts them."""
    match = _SORTED_ID.match(key) if isinstance(key, str) else None
    return int(match[1], 16) if match else None


_SORTED_ID = re.compile(r"(?:msg|prt)_([0-9a-f]{12})")


def _row_times(row: Record) -> list[Any]:
    """Return the times of a row. The project has times of its own, in many sessions."""
    columns = row["columns"]
    return [] if row["table"] == "project" else [columns.get("time_created"), columns.get("time_updated")]


def _conversation_document(row: Record) -> Record | None:
    table = TABLES[row["table"]]
    if table.document is None:
        return None
    try:
        return table.document(row["columns"])
    except (LookupError, TypeError, AttributeError):
        return None


def identify(row: Record) -> Identity:
    """Return the names of a row. A fork copies messages with their times and parts, under new ids."""
    document = _conversation_document(row)
    if row["table"] in ("message", "part", "session") and document is not None:
        return documents.identify(document)
    return Identity(body="" if row["table"] != "session_message" else value_at(row, "columns", "data"))
