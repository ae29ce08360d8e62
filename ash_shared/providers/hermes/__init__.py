"""Hermes: the documents of sessions, and, in newer versions, the rows of its database."""

from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers.hermes import documents, rows
from ash_shared.records.contract import Marks, Provider, Record, WireType, unknown_record

_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return rows.wire_type(record) or documents.wire_type(record) or _UNKNOWN


def recognize(record: Record) -> WireType | None:
    return rows.wire_type(record) or documents.recognize(record)


def header(record: Record) -> RecordHeader:
    return documents.header(record) if rows.wire_type(record) is None else rows.header(record)


def identify(record: Record) -> Identity:
    return documents.identify(record) if rows.wire_type(record) is None else rows.identify(record)


PROVIDER = Provider(
    source="hermes",
    recognize=recognize,
    marks=Marks(untyped_keys={"session_start"}, body_keys=documents.BODY_KEYS, tables=rows.TABLES),
    wire_type=wire_type,
    parse_block=documents.parse_block,
    header=header,
    identify=identify,
)
