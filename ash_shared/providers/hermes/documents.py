"""Hermes: the document of a session, with messages as in Chat Completions.

Source: files of another project. The document is rewritten at each message, and its messages have no ids.
"""

from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    raw_block,
    text_block,
    translate,
    translated,
    with_extra_in_first,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.chat_completions import translate_image_url, translate_tool_call
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    Speaker,
    WireType,
)
from ash_shared.records.documents import DocumentItem, document_type
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    first_text,
    latest_time,
    list_or_empty,
    text_at,
    to_milliseconds,
    value_at,
)

parse_block = content_parser({"image_url": translate_image_url})


def _translate_text(message: Record) -> list[Block]:
    content = message.get("content")
    return [] if content in (None, "") else parse_content(content, parse_block)


def _translate_prompt(message: Record) -> list[Block]:
    return with_extra_in_first(_translate_text(message), without(message, "role", "content"))


def _translate_answer(message: Record) -> list[Block]:
    """Return thinking, text and calls. The thinking may be written twice, under two keys."""
    name = next((key for key in ("reasoning_content", "reasoning") if text_at(message, key)), None)
    thinking = [] if name is None else [{"type": "thinking", "thinking": message[name]}]
    calls = map(translate_tool_call, list_or_empty(message.get("tool_calls")))
    rest = without(message, "role", "content", "tool_calls", *([] if name is None else [name]))
    return with_extra_in_first([*thinking, *_translate_text(message), *calls], rest)


def _translate_result(message: Record) -> list[Block]:
    content = message["content"]
    typed = {
        "type": "tool_result",
        "tool_use_id": message["tool_call_id"],
        "content": content if isinstance(content, str) else parse_content(content, parse_block),
        **({"is_error": True} if message.get("finish_reason") == "error" else {}),
    }
    return [translated(message, typed, {"role", "content", "tool_call_id"}, "tool")]


MESSAGES: Any = {
    "assistant": ("assistant", _translate_answer),
    "system": ("system", _translate_prompt),
    "tool": ("user", _translate_result),
    "user": ("user", _translate_prompt),
}
"""Speaker and translation of a message, by its `role`."""


def message_blocks(message: Any) -> list[Block]:
    role = text_at(message, "role")
    if role == "session_meta":
        return [raw_block("control", message, role)]
    if role is None or role not in MESSAGES:
        return [raw_block("malformed" if role is None else "unknown_type", message, role)]
    return translate(role, message, MESSAGES[role][1])


def _parse(record: Record) -> ParsedRecord:
    prompt = text_at(record, "system_prompt")
    head = without(record, "messages", *([] if prompt is None else ["system_prompt"]))
    texts = [] if prompt is None else [text_block(prompt)]
    blocks = [block for message in record["messages"] for block in message_blocks(message)]
    return ParsedRecord("message", "user", bounded([raw_block("control", head, "session"), *texts, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    prompt = text_at(record, "system_prompt")
    first = [] if prompt is None else [_system_item(prompt)]
    model = text_at(record, "model")
    return [*first, *(_item(number, each, model) for number, each in enumerate(record["messages"]))]


def _system_item(prompt: str) -> DocumentItem:
    part = Part(role="system", blocks=[text_block(prompt)], is_undated=True, original=prompt)
    return DocumentItem("system", prompt, [part])


def _item(number: int, message: Any, model: str | None) -> DocumentItem:
    role = text_at(message, "role") or ""
    if role not in MESSAGES:
        return DocumentItem(str(number), message, [])
    speaker: Speaker = MESSAGES[role][0]
    time = to_milliseconds(value_at(message, "timestamp"))
    metadata = {"model": model, "stop_reason": text_at(message, "finish_reason")}
    part = Part(
        role=speaker,
        blocks=message_blocks(message),
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
        metadata=metadata if speaker == "assistant" else {},
    )
    return DocumentItem(str(number), message, [part])


def header(record: Record) -> RecordHeader:
    times = ("last_updated", "session_start")
    return RecordHeader(
        timestamp=to_milliseconds(record.get("session_start")),
        last_timestamp=latest_time(record.get(name) for name in times),
        session_id=text_at(record, "session_id"),
        model=text_at(record, "model"),
        title=text_at(record, "title"),
        folder=_folder(record),
    )


def _folder(record: Record) -> str | None:
    return text_at(record, "cwd") or text_at(record, "model_config", "cwd")


def identify(record: Record) -> Identity:
    id = text_at(record, "session_id")
    return Identity(session=id, project=_folder(record), record=id)


_DOCUMENT = document_type("session", _parse, _items)


def wire_type(record: Record) -> WireType | None:
    return _DOCUMENT if isinstance(record.get("messages"), list) else None


def recognize(record: Record) -> WireType | None:
    is_own = (
        isinstance(record.get("messages"), list)
        and first_text(record, ("session_start",)) is not None
        and text_at(record, "session_id") is not None
        and body_keys(record) == BODY_KEYS
    )
    return _DOCUMENT if is_own else None


BODY_KEYS = frozenset({"messages", "session_start"})
