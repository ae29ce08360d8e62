"""Conversations in a data export of Claude.ai: `conversations.json`, a list of documents, or a single one.

Source: samples of a viewer, test cases of a reader, and a schema of exports; the vendor documents no format. The blocks
have the types of Anthropic's API, and times. `text` repeats them, and is read only if a message has none. Most
exports have no branches; if messages state their parents, the branch that was last shown is the conversation, and the
messages of other branches are retracted.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    content_parser,
    is_native,
    parse_list,
    raw_block,
    text_block,
    translate,
    translated,
    without,
)
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.records.contract import Marks, ParsedRecord, Part, Provider, Record, Speaker, WireType
from ash_shared.records.documents import DocumentItem, UniqueKeys, document_type
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import (
    is_integer,
    items_at,
    latest_time,
    text_at,
    to_milliseconds,
    value_at,
)

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "human": "user"}
_UNSUPPORTED = frozenset({"tool_use", "tool_result"})
"""Blocks that some exports replace by an empty text."""


_parse_typed = content_parser({})


def parse_block(block: Any) -> Block:
    name = text_at(block, "type")
    if name in _UNSUPPORTED and block.keys() <= {"type", "text"}:
        return raw_block("control", block, name)
    return block if is_native(block) else _parse_typed(block)


def _message_blocks(message: Any) -> list[Block]:
    """Return the blocks of a message, then its attachments and files."""
    if not isinstance(message, dict):
        return [raw_block("malformed", message, "message")]
    blocks = translate("message", message, _translate_content)
    attached = [
        block
        for each in items_at(message, "attachments")
        for block in translate("attachment", each, _translate_attachment)
    ]
    files = [
        block
        for name in ("files", "files_v2", "sync_sources")
        for each in items_at(message, name)
        for block in translate("file", each, _translate_file)
    ]
    return [*blocks, *attached, *files]


def _translate_content(message: Record) -> list[Block]:
    content = message.get("content") or []
    blocks = parse_list(content, parse_block)
    has_content = any(block["type"] != "raw" or block["reason"] != "control" for block in blocks)
    text = message.get("text")
    return blocks if has_content or not text else [text_block(text), *blocks]


def _translate_attachment(attachment: Block) -> Block:
    """Translate an attached text. One without content is only a name."""
    text = attachment.get("extracted_content")
    typed: Block = {
        "type": "file",
        **({"filename": attachment["file_name"]} if "file_name" in attachment else {}),
        **({"size": attachment["file_size"]} if is_integer(attachment.get("file_size")) else {}),
        **({} if text is None else {"source": {"type": "text", "data": text}}),
    }
    consumed = {"file_name", "extracted_content", *(("file_size",) if "size" in typed else ())}
    return translated(attachment, typed, consumed, "attachment")


def _translate_file(file: Block) -> Block:
    id = file.get("file_uuid")
    name = file.get("file_name")
    typed: Block = {
        "type": "file",
        **({} if name is None else {"filename": name}),
        **({} if id is None else {"source": {"type": "file", "file_id": id}}),
    }
    return translated(file, typed, ("file_name", "file_uuid"), "file")


_ATTACHED: Mapping[str, Translation] = {
    "attachments": _translate_attachment,
    "files": _translate_file,
    "files_v2": _translate_file,
    "sync_sources": _translate_file,
}


# The conversation.


def _parse_conversation(record: Record) -> ParsedRecord:
    head = raw_block("control", without(record, "chat_messages"), "conversation")
    blocks = [block for message in record["chat_messages"] for block in _message_blocks(message)]
    return ParsedRecord("message", "user", bounded([head, *blocks]))


def _items(record: Record) -> list[DocumentItem]:
    """Return the messages, and after them the retraction of other branches."""
    keys, messages = UniqueKeys(), record["chat_messages"]
    items = [
        DocumentItem(keys.name(text_at(each, "uuid") or "message"), each, [_part(each)]) for each in messages
    ]
    chain = _current_chain(record)
    revoked = (
        []
        if chain is None
        else [id for each in messages if (id := text_at(each, "uuid")) and id not in chain]
    )
    if revoked:
        retraction = Part(role=None, relation="retraction", retracts=tuple(revoked))
        items.append(DocumentItem("branches", revoked, [retraction]))
    return items


def _current_chain(record: Record) -> set[str] | None:
    """Return the ids of the messages up to the current one; None if the messages state no parents or no leaf."""
    parents = {
        id: parent
        for each in record["chat_messages"]
        if (id := text_at(each, "uuid")) and (parent := text_at(each, "parent_message_uuid"))
    }
    node, chain = text_at(record, "current_leaf_message_uuid"), set[str]()
    if node not in parents:
        return None
    while node is not None and node not in chain:
        chain.add(node)
        node = parents.get(node)
    return chain


def _part(message: Any) -> Part:
    time = to_milliseconds(value_at(message, "created_at"))
    return Part(
        role=_ROLES.get(text_at(message, "sender") or "", "system"),
        blocks=_message_blocks(message),
        header=RecordHeader(timestamp=time),
        is_undated=time is None,
        original=message,
        metadata={"stop_reason": text_at(message, "stop_reason")},
    )


_CONVERSATION = document_type("conversation", _parse_conversation, _items)


def recognize(record: Record) -> WireType | None:
    is_own = isinstance(record.get("chat_messages"), list) and isinstance(record.get("uuid"), str)
    return (
        _CONVERSATION if is_own and body_keys(record) == {"chat_messages"} and "role" not in record else None
    )


def header(record: Record) -> RecordHeader:
    messages = record.get("chat_messages")
    values = messages if isinstance(messages, list) else []
    times = [time for each in values if (time := to_milliseconds(value_at(each, "created_at")))]
    return RecordHeader(
        timestamp=to_milliseconds(record.get("created_at")),
        session_id=text_at(record, "uuid"),
        title=text_at(record, "name"),
        model=text_at(record, "model"),
        last_timestamp=latest_time(times) or to_milliseconds(record.get("updated_at")),
    )


def identify(record: Record) -> Identity:
    return Identity(record=text_at(record, "uuid"))


PROVIDER = Provider(
    source="claude_ai_export",
    recognize=recognize,
    marks=Marks(untyped_keys={"chat_messages"}, body_keys={"chat_messages"}),
    wire_type=lambda record: _CONVERSATION,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
