"""Kiro CLI: the conversations in its database, each one JSON value in a row, which is rewritten at each turn.

Source: the table of a test of another project. The value is written by Rust: the only key of an object is its type. An
element of the history is a prompt or the results of tools, with the answer to it.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    pick,
    raw_block,
    text_block,
    translate,
    translated,
    with_extra,
    with_extra_in_first,
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
    unknown_record,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import ROW_KEYS, body_keys
from ash_shared.records.json_fields import (
    decode_arguments,
    items_at,
    list_or_empty,
    text_at,
    to_milliseconds,
    value_at,
)


def parse_block(block: Any) -> Block:
    return raw_block("unknown_type", block)


def _document(record: Record) -> Record:
    """Return the conversation in a row, or the record itself. Raises TypeError for a value that is not an object."""
    value = decode_arguments(record["columns"]["value"]) if "columns" in record else record
    if not isinstance(value, dict):
        raise TypeError
    return value


def _translate_user(user: Record) -> list[Block]:
    """Return the prompt, or the results of tools; a cancelled call has both."""
    [(kind, content)] = user["content"].items()
    results = [_translate_result(each) for each in list_or_empty(content.get("tool_use_results"))]
    texts = [text_block(content["prompt"])] if content.get("prompt") is not None else []
    if kind not in _USER_KINDS or not (results or texts):
        raise KeyError(kind)
    blocks = [*results, *texts]
    rest = {**without(user, "content", "timestamp"), **without(content, "prompt", "tool_use_results")}
    return [with_extra({**blocks[0], "source_type": kind}, rest), *blocks[1:]]


_USER_KINDS = frozenset({"CancelledToolUses", "Prompt", "ToolUseResults"})


def _translate_result(result: Record) -> Block:
    status = result.get("status")
    typed = {
        "type": "tool_result",
        "tool_use_id": result["tool_use_id"],
        "content": [_translate_content(each) for each in result["content"]],
        **({"is_error": status != "Success"} if isinstance(status, str) else {}),
    }
    return translated(result, typed, {"content", "tool_use_id"}, "ToolUseResult")


def _translate_content(content: Record) -> Block:
    return (
        text_block(content["Text"]) if isinstance(content.get("Text"), str) else raw_block("control", content)
    )


def _translate_answer(assistant: Record) -> list[Block]:
    [(kind, answer)] = assistant.items()
    if kind not in ("Response", "ToolUse"):
        raise KeyError(kind)
    texts = [text_block(answer["content"])] if answer["content"] != "" else []
    blocks = [*texts, *map(_translate_call, list_or_empty(answer.get("tool_uses")))]
    rest = without(answer, "content", "message_id", "tool_uses")
    return with_extra_in_first(blocks, rest)


def _translate_call(call: Record) -> Block:
    typed = {"type": "tool_use", **pick(call, "id"), "name": call["name"], "input": call["args"]}
    return translated(call, typed, {"args", "id", "name"}, "tool_use")


def _turn_blocks(turn: Any) -> Iterator[tuple[str, list[Block]]]:
    """Yield the speakers of an element of the history, each with its blocks."""
    for speaker, translation in (("user", _translate_user), ("assistant", _translate_answer)):
        value = value_at(turn, speaker)
        if value is not None:
            yield speaker, translate(speaker, value, translation)


def _parse(record: Record) -> ParsedRecord:
    document = _document(record)
    head: Record = without(document, "history")
    if "columns" in record:
        head = {**record, "columns": {**record["columns"], "value": head}}
    blocks = [block for turn in document["history"] for block in _blocks_of(turn)]
    return ParsedRecord("message", "user", bounded([raw_block("control", head, "conversation"), *blocks]))


def _blocks_of(turn: Any) -> list[Block]:
    if not isinstance(turn, dict):
        return [raw_block("malformed", turn, "history")]
    rest = without(turn, "assistant", "user")
    blocks = [block for _, found in _turn_blocks(turn) for block in found]
    return [*blocks, *([raw_block("control", rest, "history")] if rest else [])]


def _items(record: Record) -> list[DocumentItem]:
    document = _document(record)
    model = text_at(document, "model_info", "model_id")
    turns = enumerate(items_at(document, "history"))
    return [DocumentItem(str(number), turn, [*_turn_parts(turn, model)]) for number, turn in turns]


def _turn_parts(turn: Any, model: str | None) -> Iterator[Part]:
    for speaker, blocks in _turn_blocks(turn):
        is_answer = speaker == "assistant"
        metadata = value_at(turn, "request_metadata")
        time = (
            value_at(metadata, "stream_end_timestamp_ms")
            if is_answer
            else value_at(turn, "user", "timestamp")
        )
        milliseconds = to_milliseconds(time)
        part = Part(
            role="user",
            blocks=blocks,
            header=RecordHeader(timestamp=milliseconds),
            is_undated=milliseconds is None,
            original=turn,
        )
        if not is_answer:
            yield part
            continue
        answer = next(iter(turn["assistant"].values()), None) if isinstance(turn["assistant"], dict) else None
        yield replace(
            part,
            role="assistant",
            message_id=text_at(answer, "message_id"),
            metadata={"model": text_at(metadata, "model_id") or model},
        )


def header(record: Record) -> RecordHeader:
    columns = record.get("columns")
    document = decode_arguments(value_at(columns, "value")) if isinstance(columns, dict) else record
    turns = items_at(document, "history")
    first = turns[0] if turns else None
    folder = text_at(columns, "key") or text_at(
        first, "user", "env_context", "env_state", "current_working_directory"
    )
    return RecordHeader(
        timestamp=to_milliseconds(value_at(columns, "created_at"))
        or to_milliseconds(value_at(first, "user", "timestamp")),
        last_timestamp=to_milliseconds(value_at(columns, "updated_at")),
        session_id=text_at(columns, "conversation_id") or text_at(document, "conversation_id"),
        model=text_at(document, "model_info", "model_id"),
        folder=folder,
    )


def identify(record: Record) -> Identity:
    found = header(record)
    return Identity(session=found.session_id, project=found.folder, record=found.session_id)


_CONVERSATION = document_type("conversation", _parse, _items, is_over=False)
_UNKNOWN = WireType(unknown_record)


def wire_type(record: Record) -> WireType:
    return _CONVERSATION if "columns" in record or "history" in record else _UNKNOWN


def recognize(record: Record) -> WireType | None:
    if record.get("table") == "conversations_v2":
        columns = record.get("columns")
        is_row = record.keys() == ROW_KEYS and isinstance(columns, dict) and "value" in columns
        return _CONVERSATION if is_row else None
    is_document = (
        isinstance(record.get("history"), list)
        and text_at(record, "conversation_id") is not None
        and body_keys(record) == {"history"}
        and all(isinstance(value_at(turn, "user", "content"), dict) for turn in record["history"])
    )
    return _CONVERSATION if is_document else None


PROVIDER = Provider(
    source="kiro",
    recognize=recognize,
    marks=Marks(untyped_keys={"conversation_id"}, body_keys={"history"}, tables={"conversations_v2"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
