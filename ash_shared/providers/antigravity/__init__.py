"""Antigravity: the transcripts of its CLI, editor and app, the output of `agy -p`, and rows of its databases.

Sources: captured transcripts, the documentation of the output formats, and the descriptors in the program. A
transcript is a log of steps without ids, model, usage or working folder; the usage is in the database of the
conversation, and the folder in the history of prompts.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import Block, is_native, raw_block
from ash_shared.model.message import RecordHeader
from ash_shared.providers.antigravity import database, stream, transcript
from ash_shared.records.contract import Marks, Provider, Record, WireType, unknown_record
from ash_shared.records.fingerprints import ANTIGRAVITY_KEYS, body_keys
from ash_shared.records.json_fields import text_at

_UNKNOWN = WireType(unknown_record)

_UNTYPED_FORMS: Mapping[Callable[[Record], bool], Callable[[Record], WireType]] = {
    stream.is_event: lambda record: stream.EVENTS[record["event"]],
    stream.is_output: lambda record: stream.OUTPUT,
    database.is_row: lambda record: database.TABLES[record["table"]],
    database.is_history: lambda record: database.HISTORY,
}


_BODY_KEYS = frozenset({"error"})
_FOREIGN_KEYS = frozenset({"id", "message", "role", "schema_version"})
"""Keys of other formats, besides `fingerprints.body_keys`."""


def recognize(record: Record) -> WireType | None:
    if isinstance(record.get("type"), str):
        return transcript.wire_type(record) if transcript.is_step(record) else None
    if not (body_keys(record) <= _BODY_KEYS and _FOREIGN_KEYS.isdisjoint(record)):
        return None
    return next((row_of(record) for is_own, row_of in _UNTYPED_FORMS.items() if is_own(record)), None)


def wire_type(record: Record) -> WireType:
    return recognize(record) or (transcript.wire_type(record) if "step_index" in record else _UNKNOWN)


def parse_block(block: Any) -> Block:
    return block if is_native(block) else raw_block("unknown_type", block)


def header(record: Record) -> RecordHeader:
    """Return the metadata of a record. The model is the one that was selected with the last prompt."""
    if "event" in record:
        session = stream.conversation_id(record)
        model, folder = text_at(record, "init", "model"), text_at(record, "init", "cwd")
        return RecordHeader(session_id=session, model=model, folder=folder)
    if "step_index" in record:
        return RecordHeader(timestamp=transcript.time_of(record), model=transcript.selected_model(record))
    folder = text_at(record, "workspace") if database.is_history(record) else None
    return RecordHeader(session_id=text_at(record, "conversation_id"), folder=folder)


PROVIDER = Provider(
    source="antigravity",
    recognize=recognize,
    marks=Marks(
        typed_keys={"step_index"},
        untyped_keys=ANTIGRAVITY_KEYS,
        body_keys=_BODY_KEYS,
        tables=database.TABLES,
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
