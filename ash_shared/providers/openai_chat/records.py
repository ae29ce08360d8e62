"""Chat Completions records: messages, requests, responses, chunks and transcriptions."""

from typing import Any

from ash_shared.model.blocks import Block, bounded, text_block, translate, translated, with_extra
from ash_shared.providers._kit.contract import Record, RecordReading, chunk_reading
from ash_shared.providers._kit.json_fields import list_or_empty, text_at
from ash_shared.providers.openai_chat.content import ROLES, message_blocks, read_block, read_message


def read_request(record: Record) -> RecordReading:
    blocks = [block for message in list_or_empty(record["messages"]) for block in message_blocks(message)]
    return RecordReading("message", "user", bounded(blocks))


def read_completion(record: Record) -> RecordReading:
    blocks = [block for choice in list_or_empty(record["choices"]) for block in choice_blocks(choice)]
    return RecordReading("message", "assistant", bounded(blocks))


def read_chunk(record: Record) -> RecordReading:
    return chunk_reading(record, text_at(record, "object"))


def is_chunk(record: Record) -> bool:
    """Return True if these choices are a chunk. Azure's first chunk has neither choices nor an `object`."""
    choices = record["choices"]
    if not choices:
        return text_at(record, "object") not in ("chat.completion", "text_completion")
    return choices.__class__ is list and all(
        choice.__class__ is dict and "delta" in choice for choice in choices
    )


def has_legacy_text(record: Record) -> bool:
    """Return True for the choices of the legacy completions API, whose chunks look like complete responses."""
    choices = record["choices"]
    return choices.__class__ is list and any(map(is_legacy_text, choices))


def is_legacy_text(choice: Any) -> bool:
    return choice.__class__ is dict and "text" in choice and "message" not in choice


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


def read_message_record(record: Record) -> RecordReading:
    return RecordReading("message", ROLES[record["role"]], bounded(read_message(record)))


def read_bare_part(record: Record) -> RecordReading:
    return RecordReading(
        "message", "assistant" if record["type"] == "refusal" else "user", [read_block(record)]
    )


def read_transcription(record: Record) -> RecordReading:
    """Read a verbose transcription; its segments and times go to `extra`."""
    transcript = translated(record, text_block(record["text"], "transcript"), {"text"}, "transcription")
    return RecordReading("message", "assistant", [transcript])


def is_transcription(record: Record) -> bool:
    """Return True for a response of the transcription API in its verbose form."""
    return (
        record.get("text").__class__ is str
        and record.get("segments").__class__ is list
        and "language" in record
    )
