"""Chat Completions records: messages, requests, responses, chunks and transcriptions."""

from ash_shared.model.blocks import Block, bounded, text_block, translate, translated, with_extra
from ash_shared.providers._kit.contract import (
    Record,
    RecordReading,
    chunk_reading,
    control_reading,
    unknown_reading,
)
from ash_shared.providers._kit.json_fields import is_one_of, list_or_empty, text_at
from ash_shared.providers.openai_chat.content import PARTS, ROLES, message_blocks, read_block, read_message


def _read_request(record: Record) -> RecordReading:
    blocks = [block for message in list_or_empty(record["messages"]) for block in message_blocks(message)]
    return RecordReading("message", "user", bounded(blocks))


def _read_completion(record: Record) -> RecordReading:
    if is_chunk(record):
        return chunk_reading(record, _object_type(record))
    blocks = [block for choice in list_or_empty(record["choices"]) for block in choice_blocks(choice)]
    return RecordReading("message", "assistant", bounded(blocks))


def _object_type(record: Record) -> str | None:
    return text_at(record, "object")


def is_chunk(record: Record) -> bool:
    """Return True if these choices are a chunk. Azure's first chunk has neither choices nor an `object`."""
    choices = record["choices"]
    if not choices:
        return _object_type(record) not in ("chat.completion", "text_completion")
    return all(choice.__class__ is dict and "delta" in choice for choice in choices)


def choice_blocks(choice: Record) -> list[Block]:
    """Return the blocks of a choice; all choices but the first are marked with their index."""
    blocks = translate("choice", choice, _read_choice)
    index = choice.get("index") if choice.__class__ is dict else None
    if index.__class__ is not int or index == 0:
        return blocks
    return [with_extra(block, {"choice_index": index}) for block in blocks]


def _read_choice(choice: Record) -> list[Block]:
    """Read a message, or the bare text of the legacy completions API."""
    if "message" not in choice:
        return [text_block(choice["text"])]
    return read_message({**choice["message"], "role": "assistant"})


def _read_message_record(record: Record) -> RecordReading:
    return RecordReading("message", ROLES[record["role"]], bounded(read_message(record)))


def _read_bare_part(record: Record) -> RecordReading:
    return RecordReading(
        "message", "assistant" if record["type"] == "refusal" else "user", [read_block(record)]
    )


def _read_transcription(record: Record) -> RecordReading:
    """Read a verbose transcription; its segments and times go to `extra`."""
    transcript = translated(record, text_block(record["text"], "transcript"), {"text"}, "transcription")
    return RecordReading("message", "assistant", [transcript])


def read(record: Record) -> RecordReading:
    """Read any record of the format."""
    if "choices" in record:
        return _read_completion(record)
    if "messages" in record:
        return _read_request(record)
    if is_one_of(record.get("role"), ROLES):
        return _read_message_record(record)
    if is_one_of(record.get("type"), PARTS) or ("file" in record and record.get("type") == "file"):
        return _read_bare_part(record)
    if is_transcription(record):
        return _read_transcription(record)
    return _read_other(record)


def _read_other(record: Record) -> RecordReading:
    """Read an error, or a record of another format."""
    if record.get("error") is not None:
        return control_reading(record, "error")
    return unknown_reading(record, text_at(record, "type"))


def is_transcription(record: Record) -> bool:
    """Return True for a response of the transcription API in its verbose form."""
    return (
        record.get("text").__class__ is str
        and record.get("segments").__class__ is list
        and "language" in record
    )
