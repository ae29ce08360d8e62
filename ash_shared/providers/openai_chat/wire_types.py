"""The wire types of Chat Completions, which are recognised by their keys."""

from ash_shared.providers._kit.contract import Record, WireType, control_reading, unknown_reading
from ash_shared.providers._kit.json_fields import is_one_of, text_at
from ash_shared.providers.openai_chat import messages, records, steps
from ash_shared.providers.openai_chat.content import PARTS, ROLES

_CHUNK = WireType(records.read_chunk, messages.chunk_parts, steps.chunk_steps)
_COMPLETION = WireType(records.read_completion, messages.completion_parts, steps.completion_steps)
_ERROR = WireType(lambda record: control_reading(record, "error"), messages.error_parts)
_LEGACY_COMPLETION = WireType(records.read_completion, messages.completion_parts, steps.chunk_steps)
_MESSAGE = WireType(records.read_message_record, messages.message_parts)
_PART = WireType(records.read_bare_part, messages.message_parts)
_REQUEST = WireType(records.read_request, messages.request_parts)
_TRANSCRIPTION = WireType(records.read_transcription, messages.message_parts)
_UNKNOWN = WireType(lambda record: unknown_reading(record, text_at(record, "type")))


def wire_type(record: Record) -> WireType:
    """Return the row of a record."""
    if "choices" in record:
        return _completion_row(record)
    if "messages" in record:
        return _REQUEST
    if is_one_of(record.get("role"), ROLES):
        return _MESSAGE
    if is_one_of(record.get("type"), PARTS) or ("file" in record and record.get("type") == "file"):
        return _PART
    if records.is_transcription(record):
        return _TRANSCRIPTION
    return _ERROR if record.get("error") is not None else _UNKNOWN


def _completion_row(record: Record) -> WireType:
    if records.is_chunk(record):
        return _CHUNK
    return _LEGACY_COMPLETION if records.has_legacy_text(record) else _COMPLETION
