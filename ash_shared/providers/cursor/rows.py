"""Rows of Cursor's databases, each as one line of JSON with its table, primary key and columns.

Sources: programs that read the databases; there is no description and no sample. What only one of them reads stays in
`extra`. In the editor's `state.vscdb`, a conversation and each of its messages are a row with JSON, which changes in
place. In `store.db` of the command line, the description of a chat is JSON in hexadecimal digits, and each message is
JSON that never changes, in the form of Vercel's AI SDK.
"""

from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ash_shared.model.blocks import (
    Block,
    bounded,
    content_parser,
    parse_content,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Identity, RecordHeader, Role
from ash_shared.records.contract import (
    ParsedRecord,
    Part,
    Record,
    WireType,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.fingerprints import ROW_KEYS
from ash_shared.records.json_fields import (
    count_at,
    decode_arguments,
    first_text,
    input_at,
    is_integer,
    items_at,
    text_at,
    to_milliseconds,
    token_usage,
    value_at,
)

_CONVERSATION, _MESSAGE = "composerData:", "bubbleId:"
"""Beginnings of keys in the editor's table."""

# Messages of the editor.


def _object_in(row: Record) -> Record:
    """Return the object in the value of a row. Raises TypeError for anything else."""
    decoded = decode_arguments(row["columns"]["value"])
    if not isinstance(decoded, dict):
        raise TypeError
    return decoded


_PERSON, _MODEL = 1, 2
"""The values of `type` in a message."""


class _Spoken(NamedTuple):
    blocks: list[Block]
    results: list[Block]
    """Results of the call in the message."""


def _translate_message(message: Record, rest: Block) -> _Spoken:
    """Return the blocks of a message, or none. `rest` and the keys without a block are in `extra` of the first one."""
    blocks: list[Block] = []
    results: list[Block] = []
    consumed = ["type"]
    call = message.get("toolFormerData")
    if message["type"] == _MODEL and text_at(message, "thinking", "text") is not None:
        blocks += translate("thinking", message["thinking"], _translate_thinking)
        consumed.append("thinking")
    if (text := text_at(message, "text")) is not None:
        blocks.append(text_block(text))
        consumed.append("text")
    if message["type"] == _MODEL and isinstance(call, dict) and text_at(call, "name") is not None:
        blocks += translate("toolFormerData", call, _translate_call)
        results = translate("toolFormerData", call, _translate_result) if _is_done(call) else []
        consumed.append("toolFormerData")
    if not blocks:
        return _Spoken([], [])
    extra = {**without(message, *consumed), **rest}
    if blocks[0]["type"] == "raw":
        return _Spoken([*blocks, raw_block("control", extra, "bubble")], results)
    return _Spoken([with_extra(blocks[0], extra), *blocks[1:]], results)


def _translate_thinking(thinking: Record) -> Block:
    typed = {"type": "thinking", "thinking": thinking["text"], **pick(thinking, "signature")}
    return translated(thinking, typed, {"signature", "text"}, "thinking")


def _translate_call(call: Record) -> Block:
    """Translate a call. Its arguments are in `rawArgs`, as the model wrote them, or else in `params`."""
    name = "rawArgs" if text_at(call, "rawArgs") else "params"
    arguments, consumed = input_at(call, name) if name in call else ({}, ())
    typed = {
        "type": "tool_use",
        **renamed(call, id="toolCallId"),
        "name": call["name"],
        "input": arguments,
        **({"status": call["status"]} if text_at(call, "status") else {}),
    }
    shown = {"name", "status", "toolCallId", *consumed, *(("result",) if _is_done(call) else ())}
    return translated(call, typed, shown, "toolFormerData")


def _is_done(call: Record) -> bool:
    return bool(call.get("result")) or call.get("status") in _ENDS


_ENDS = frozenset({"cancelled", "completed", "error", "rejected"})


def _translate_result(call: Record) -> Block:
    """Translate the result of a call: JSON text, or any other text."""
    result = call.get("result")
    decoded = decode_arguments(result)
    content = first_text(decoded, _RESULT_TEXTS) or result
    code = value_at(decoded, "exitCode")
    status = call.get("status")
    failed = status == "error" or (is_integer(code) and code != 0)
    return {
        "type": "tool_result",
        **renamed(call, tool_use_id="toolCallId"),
        **({"content": content} if isinstance(content, str) and content else {}),
        **({"is_error": failed} if failed or status == "completed" else {}),
        **({"structured": decoded} if isinstance(decoded, dict) else {}),
        **({"exit_code": code} if is_integer(code) else {}),
        "source_type": "toolFormerData",
    }


_RESULT_TEXTS = ("output", "contents", "content")


def _rest(row: Record) -> Block:
    return {"row": {**row, "columns": without(row["columns"], "value")}}


def _parse_message(row: Record) -> ParsedRecord:
    message = _object_in(row)
    if message["type"] not in (_PERSON, _MODEL):
        return unknown_record(row, "bubble")
    spoken = _translate_message(message, _rest(row))
    if not spoken.blocks:
        return control_record(row, "bubble")
    role: Role = "user" if message["type"] == _PERSON else "assistant"
    return ParsedRecord("message", role, [*spoken.blocks, *spoken.results])


def _message_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    message = _object_in(row)
    model = text_at(message, "modelInfo", "modelName")
    return _parts(message, parsed.blocks, row["columns"]["key"], model)


def _parts(message: Record, blocks: list[Block], key: str, model: str | None) -> list[Part]:
    """Return the parts of a message; a later version of its row replaces them."""
    results = [block for block in blocks if block["type"] == "tool_result"]
    spoken = [block for block in blocks if block["type"] != "tool_result"]
    time = to_milliseconds(message.get("createdAt"))
    header = RecordHeader(uuid=key, timestamp=time)
    if message["type"] == _PERSON:
        return [Part(role="user", blocks=spoken, key=key, header=header, relation="new_version")]
    said = Part(
        role="assistant",
        blocks=spoken,
        key=key,
        header=header,
        usage=_usage(message),
        metadata={"model": model},
        relation="new_version",
    )
    returned = Part(
        role="user",
        blocks=results,
        key=f"{key}/result",
        header=RecordHeader(timestamp=time),
        relation="new_version",
    )
    return [said, returned] if results else [said]


def _usage(message: Record) -> Block | None:
    """Return the usage of a message. Newer versions of Cursor write zeros, because only its server knows the counts."""
    counts = message.get("tokenCount")
    input, output = count_at(counts, "inputTokens"), count_at(counts, "outputTokens")
    return token_usage(counts, input=input, output=output) if input or output else None


# Conversations of the editor.


def _own_messages(conversation: Record) -> list[tuple[str, Record]]:
    """Return the messages that older versions wrote into the row of the conversation, with their ids."""
    listed = items_at(conversation, "conversation")
    if listed:
        named = [(first_text(each, ("bubbleId",)) or str(number), each) for number, each in enumerate(listed)]
    else:
        headers = items_at(conversation, "fullConversationHeadersOnly")
        ids = [id for header in headers if (id := text_at(header, "bubbleId"))]
        messages = {id: value_at(conversation, "conversationMap", id) for id in ids}
        named = [(id, message) for id, message in messages.items() if message is not None]
    return [(id, each) for id, each in named if _says_something(each)]


def _says_something(message: Any) -> bool:
    return value_at(message, "type") in (_PERSON, _MODEL) and bool(_translate_message(message, {}).blocks)


def _parse_conversation(row: Record) -> ParsedRecord:
    conversation = _object_in(row)
    messages = _own_messages(conversation)
    if not messages:
        return control_record(row, "composerData")
    blocks: list[Block] = []
    for _, message in messages:
        spoken = _translate_message(message, {})
        blocks += [*spoken.blocks, *spoken.results]
    head = {**row, "columns": {**row["columns"], "value": _without_messages(conversation)}}
    return ParsedRecord("message", "user", bounded([raw_block("control", head, "composerData"), *blocks]))


def _without_messages(conversation: Record) -> Record:
    """Return a conversation without the messages that are blocks of their own."""
    known = {id(each) for _, each in _own_messages(conversation)}
    rest = without(conversation, "conversation", "conversationMap")
    listed, by_id = conversation.get("conversation"), conversation.get("conversationMap")
    others = [each for each in listed if id(each) not in known] if isinstance(listed, list) else listed
    others_by_id = (
        {name: each for name, each in by_id.items() if id(each) not in known}
        if isinstance(by_id, dict)
        else by_id
    )
    return {
        **rest,
        **({"conversation": others} if others else {}),
        **({"conversationMap": others_by_id} if others_by_id else {}),
    }


def _conversation_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    conversation = _object_in(row)
    name = row["columns"]["key"].removeprefix(_CONVERSATION)
    parts: list[Part] = []
    model: str | None = None
    for id, message in _own_messages(conversation):
        model = text_at(message, "modelInfo", "modelName") or model
        spoken = _translate_message(message, {})
        key = f"{_MESSAGE}{name}:{id}"
        parts += _parts(message, [*spoken.blocks, *spoken.results], key, model)
    return parts


def _conversation_header(columns: Record) -> RecordHeader:
    conversation = decode_arguments(columns.get("value"))
    return RecordHeader(
        timestamp=to_milliseconds(value_at(conversation, "createdAt")),
        last_timestamp=to_milliseconds(value_at(conversation, "lastUpdatedAt")),
        session_id=columns["key"].removeprefix(_CONVERSATION),
        model=text_at(conversation, "modelConfig", "modelName"),
        title=text_at(conversation, "name"),
        parent=text_at(conversation, "subagentInfo", "parentComposerId"),
        folder=text_at(conversation, "workspaceIdentifier", "uri", "fsPath")
        or text_at(conversation, "workspaceIdentifier", "uri", "path"),
    )


def _message_header(columns: Record) -> RecordHeader:
    message = decode_arguments(columns.get("value"))
    return RecordHeader(
        timestamp=to_milliseconds(value_at(message, "createdAt")),
        session_id=columns["key"].removeprefix(_MESSAGE).partition(":")[0],
        model=text_at(message, "modelInfo", "modelName"),
        folder=_folder(items_at(message, "workspaceUris")),
    )


def _folder(uris: Any) -> str | None:
    """Return the path of the first folder."""
    try:
        uri = urlsplit(uris[0]) if uris and isinstance(uris[0], str) else None
    except ValueError:
        return None
    return unquote(uri.path) if uri and uri.scheme == "file" else None


# Chats of the command line.


def _translate_reasoning(part: Record) -> Block:
    typed = {"type": "thinking", "thinking": part["text"], **pick(part, "signature")}
    return translated(part, typed, {"signature", "text"}, "reasoning")


def _translate_withheld(part: Record) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, **pick(part, "data")}
    return translated(part, typed, {"data"}, "redacted-reasoning")


def _translate_chat_call(part: Record) -> Block:
    arguments, consumed = input_at(part, "args")
    typed = {
        "type": "tool_use",
        **renamed(part, id="toolCallId"),
        "name": part["toolName"],
        "input": arguments,
    }
    return translated(part, typed, {"toolCallId", "toolName", *consumed}, "tool-call")


def _translate_chat_result(part: Record) -> Block:
    result = part["result"]
    is_text = isinstance(result, str)
    typed = {
        "type": "tool_result",
        **renamed(part, tool_use_id="toolCallId", is_error="isError"),
        **({"content": result} if is_text else {"structured": result}),
    }
    return translated(part, typed, {"isError", "result", "toolCallId"}, "tool-result")


_parse_chat_block = content_parser(
    {
        "reasoning": _translate_reasoning,
        "redacted-reasoning": _translate_withheld,
        "tool-call": _translate_chat_call,
        "tool-result": _translate_chat_result,
    }
)


def _parse_chat_message(row: Record) -> ParsedRecord:
    return ParsedRecord(
        "message", _chat_message(row)["role"], translate("blobs", row, _translate_chat_message)
    )


def _chat_message(row: Record) -> Record:
    decoded = decode_arguments(row["columns"]["data"])
    if not isinstance(decoded, dict) or decoded.get("role") not in _ROLES:
        raise TypeError
    return decoded


_ROLES = frozenset({"assistant", "system", "tool", "user"})


def _translate_chat_message(row: Record) -> list[Block]:
    message = _chat_message(row)
    blocks = parse_content(message["content"], _parse_chat_block)
    rest = {**without(message, "content", "role"), "row": {**row, "columns": without(row["columns"], "data")}}
    index = next((index for index, block in enumerate(blocks) if block["type"] != "raw"), None)
    if index is None:
        return [raw_block("control", rest, "blobs"), *blocks]
    return [*blocks[:index], with_extra(blocks[index], rest), *blocks[index + 1 :]]


def _chat_parts(row: Record, parsed: ParsedRecord) -> list[Part]:
    if parsed.kind != "message":
        return []
    key = f"blobs/{row['key']}"
    role = speaker_of_role(parsed.role)
    return [Part(role=role, blocks=parsed.blocks, key=key, header=RecordHeader(uuid=key))]


def _chat_description(columns: Record) -> Any:
    """Return the description of a chat; None for other values."""
    try:
        return decode_arguments(bytes.fromhex(columns["value"]).decode())
    except (KeyError, TypeError, ValueError):
        return None


def _description_header(columns: Record) -> RecordHeader:
    chat = _chat_description(columns)
    title = text_at(chat, "name")
    return RecordHeader(
        timestamp=to_milliseconds(value_at(chat, "createdAt")),
        session_id=text_at(chat, "agentId"),
        model=text_at(chat, "lastUsedModel"),
        title=None if title == _UNNAMED else title,
        parent=text_at(chat, "subagentInfo", "parentAgentId"),
    )


_UNNAMED = "New Agent"

# Recognition.

TABLES = frozenset({"blobs", "cursorDiskKV", "meta"})
_VALUE_COLUMNS = frozenset({"key", "value"})
_BLOB_COLUMNS = frozenset({"data", "id"})

_CONVERSATION_ROW = WireType(_parse_conversation, _conversation_parts)
_MESSAGE_ROW = WireType(_parse_message, _message_parts)
_CHAT_ROW = WireType(lambda row: control_record(row, "meta"))
_CHAT_MESSAGE_ROW = WireType(_parse_chat_message, _chat_parts)


def wire_type(record: Record) -> WireType | None:
    """Return the type of a row; None for other records."""
    columns = record.get("columns")
    if record.keys() != ROW_KEYS or not isinstance(columns, dict):
        return None
    if record["table"] == "cursorDiskKV" and columns.keys() == _VALUE_COLUMNS:
        return _editor_row(columns["key"])
    if record["table"] == "meta" and columns.keys() == _VALUE_COLUMNS:
        return _CHAT_ROW if text_at(_chat_description(columns), "agentId") else None
    if record["table"] == "blobs" and columns.keys() == _BLOB_COLUMNS:
        return _CHAT_MESSAGE_ROW if isinstance(columns["data"], str) else None
    return None


def _editor_row(key: Any) -> WireType | None:
    if not isinstance(key, str):
        return None
    if key.startswith(_CONVERSATION):
        return _CONVERSATION_ROW
    return _MESSAGE_ROW if key.startswith(_MESSAGE) else None


def header(row: Record) -> RecordHeader:
    """Return the header of a row that has a type."""
    columns = row["columns"]
    if row["table"] == "meta":
        return _description_header(columns)
    if row["table"] == "blobs":
        return RecordHeader()
    return (
        _conversation_header(columns)
        if columns["key"].startswith(_CONVERSATION)
        else _message_header(columns)
    )


def identify(row: Record) -> Identity:
    """Return the names of a row that has a type. Messages of the editor change, and have no body of their own."""
    columns = row["columns"]
    if row["table"] == "meta":
        return Identity(session=text_at(_chat_description(columns), "agentId"), body="")
    if row["table"] == "blobs":
        return Identity(record=text_at(columns, "id"))
    stated = header(row)
    return Identity(session=stated.session_id, project=stated.folder, body="")
