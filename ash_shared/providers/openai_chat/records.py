"""Every record of this form: a message, a request, an answer whole or piece by piece, a recording's transcription."""

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
        return chunk_reading(record, _object(record))
    blocks = [block for choice in list_or_empty(record["choices"]) for block in choice_blocks(choice)]
    return RecordReading("message", "assistant", bounded(blocks))


def _object(record: Record) -> str | None:
    return text_at(record, "object")


def is_chunk(record: Record) -> bool:
    """Whether these choices are a piece of an answer. Azure's first piece has neither choices nor an `object`."""
    choices = record["choices"]
    if not choices:
        return _object(record) not in ("chat.completion", "text_completion")
    return all(choice.__class__ is dict and "delta" in choice for choice in choices)


def choice_blocks(choice: Record) -> list[Block]:
    """An answer; of several, all but the first say which they are."""
    blocks = translate("choice", choice, _read_choice)
    index = choice.get("index") if choice.__class__ is dict else None
    if index.__class__ is not int or index == 0:
        return blocks
    return [with_extra(block, {"choice_index": index}) for block in blocks]


def _read_choice(choice: Record) -> list[Block]:
    """A message, or the bare text that the text completions of old answered with."""
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
    """What a recording says, with its parts and times beside the whole text."""
    said = translated(record, text_block(record["text"], "transcript"), {"text"}, "transcription")
    return RecordReading("message", "assistant", [said])


def read(record: Record) -> RecordReading:
    """Any record of the format."""
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
    return _read_beside(record)


def _read_beside(record: Record) -> RecordReading:
    """An error, or a record of another format."""
    if record.get("error") is not None:
        return control_reading(record, "error")
    return unknown_reading(record, text_at(record, "type"))


def is_transcription(record: Record) -> bool:
    """An answer of the transcription API, in its verbose form."""
    return (
        record.get("text").__class__ is str
        and record.get("segments").__class__ is list
        and "language" in record
    )
