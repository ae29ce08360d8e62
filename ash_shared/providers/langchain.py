"""LangChain messages, and the streams of LangGraph.

Source: the message classes of `langchain-core` and `@langchain/core`, versions 0.3 and 1. A message has three
forms: a constructor (`{"lc": 1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {...}}`), `{"type":
"ai", "data": {...}}`, and flat (`{"type": "ai", "content": ...}`). A graph streams lists such as `["values",
{"messages": [...]}]` and `["messages", [message, metadata]]`. A state repeats all earlier messages completely;
a message of a `...Chunk` class streamed without a state is a fragment.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    bounded,
    control_block,
    is_native,
    is_valid,
    pick,
    raw_block,
    refusal_block,
    renamed,
    text_block,
    translate,
    translated,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import RecordHeader, Role
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    chunk_record,
    control_record,
    speaker_of_role,
    unknown_record,
)
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys, is_cline_document
from ash_shared.records.json_fields import (
    count_at,
    decode_arguments,
    first_text,
    input_at,
    is_one_of,
    list_or_empty,
    media_class,
    message_error,
    subtract_counts,
    text_at,
    token_usage,
    url_source,
    value_at,
)
from ash_shared.records.steps import Chunk, ChunkEnd, ResponseEnd, ResponseStart, Step, usage_step

_ROLES: Mapping[str, Role] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


class _Message(NamedTuple):
    wire_type: str
    """The type: human, ai, system, tool, function, chat, remove."""
    name: str
    """The type or class as written, e.g. AIMessageChunk."""
    is_chunk: bool
    fields: Record


def _decode_message(record: Any) -> _Message | None:
    """Return the message in any of its three forms; None for anything else."""
    if not isinstance(record, dict):
        return None
    name, fields = _constructor_fields(record) if "lc" in record else _typed_fields(record)
    if not isinstance(name, str) or not isinstance(fields, dict) or "content" not in fields:
        return None
    wire_type = name.removesuffix("Chunk").removesuffix("Message").lower()
    return _Message(wire_type, name, name.endswith("Chunk"), fields) if wire_type in _MESSAGE_TYPES else None


def _constructor_fields(record: Record) -> tuple[Any, Any]:
    path = record.get("id")
    return path[-1] if isinstance(path, list) and path else None, record.get("kwargs")


def _typed_fields(record: Record) -> tuple[Any, Any]:
    return record.get("type"), record["data"] if record.keys() == {"type", "data"} else record


_MESSAGE_TYPES = frozenset(_ROLES) | {"chat", "remove"}


def _translate_image(block: Block) -> Block:
    return translated(block, {"type": "image", "source": _block_source(block)}, _SOURCE_KEYS, block["type"])


def _file_translation(wire_type: str) -> Callable[[Block], Block]:
    def parse(block: Block) -> Block:
        name = _filename_key(block)
        mime_type = block.get("mime_type")
        typed = {
            "type": "file",
            **({"mimeType": mime_type} if mime_type is not None else {}),
            **({} if name is None else {"filename": block[name]}),
            "source": _block_source(block),
            "mediaClass": _MEDIA_CLASSES.get(wire_type) or media_class(mime_type or ""),
        }
        return translated(block, typed, {*_SOURCE_KEYS, *(() if name is None else (name,))}, wire_type)

    return parse


def _filename_key(block: Block) -> str | None:
    return next((name for name in ("filename", "name") if isinstance(block.get(name), str)), None)


_MEDIA_CLASSES = {"audio": "audio", "text-plain": "document", "video": "video"}
_SOURCE_KEYS = ("source_type", "mime_type", "data", "base64", "url", "file_id", "text")


def _block_source(block: Block) -> Block:
    """Return the source of the bytes. Version 0 has its kind in `source_type`; in version 1 the key implies it."""
    media_type_field = {"media_type": block["mime_type"]} if "mime_type" in block else {}
    version_0 = pick(block, "source_type")
    if version_0.get("source_type") == "id":
        return {"type": "file", **media_type_field, "file_id": block["id"]}
    if "url" in block:
        return {**media_type_field, **url_source(block["url"])}
    if "file_id" in block:
        return {"type": "file", **media_type_field, "file_id": block["file_id"]}
    if "text" in block or version_0.get("source_type") == "text":
        return {"type": "text", **media_type_field, "data": block["text" if "text" in block else "data"]}
    return {"type": "base64", **media_type_field, "data": block["base64" if "base64" in block else "data"]}


def _translate_image_url(block: Block) -> Block:
    image = block["image_url"]
    url, more = (image, {}) if isinstance(image, str) else (image["url"], image)
    typed = {"type": "image", "source": url_source(url), **pick(more, "detail")}
    rest = without(more, "url", "detail")
    return translated({**block, "image_url": rest}, typed, () if rest else ("image_url",), "image_url")


def _translate_reasoning(block: Block) -> Block | list[Block]:
    if "summary" in block:
        return _translate_summaries(block)
    typed = {"type": "thinking", "thinking": block["reasoning"], **_signature_field(block)}
    return translated(block, typed, ("reasoning", "signature"), "reasoning")


def _signature_field(block: Block) -> Block:
    """Return the signature; version 1 moves vendor fields into `extras`."""
    signature = block.get("signature", value_at(block, "extras", "signature"))
    return {} if signature is None else {"signature": signature}


def _translate_summaries(block: Block) -> list[Block]:
    """Translate reasoning in the form of OpenAI's Responses API: one block per summary part."""
    if not block["summary"]:
        return [translated(block, {"type": "thinking", "thinking": ""}, ("summary",), "reasoning")]
    blocks = [_translate_summary(part) for part in block["summary"]]
    return [with_extra(blocks[0], without(block, "type", "summary")), *blocks[1:]]


def _translate_summary(part: Block) -> Block:
    typed = {"type": "thinking", "thinking": part["text"], "is_summary": True}
    return translated(part, typed, ("text",), "reasoning")


def _call_translation(wire_type: str, *, executor: str | None = None) -> Callable[[Block], Block]:
    def parse(call: Block) -> Block:
        arguments, consumed = input_at(call, "args")
        more = {} if executor is None else {"executor": executor}
        typed = {"type": "tool_use", **pick(call, "id", "name"), "input": arguments, **more}
        return translated(call, typed, ("id", "name", *consumed), wire_type)

    return parse


def _translate_server_result(block: Block) -> Block:
    typed = {
        "type": "tool_result",
        "tool_use_id": block["tool_call_id"],
        **({"is_error": block["status"] == "error"} if "status" in block else {}),
        **renamed(block, structured="output"),
    }
    return translated(block, typed, ("tool_call_id", "output"), "server_tool_result")


def _translate_text(block: Block) -> Block:
    return translated(block, text_block(block["text"]), ("text",), block["type"])


def _translate_redacted(block: Block) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, "data": block["data"]}
    return translated(block, typed, ("data",), "redacted_thinking")


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "audio": _file_translation("audio"),
    "file": _file_translation("file"),
    "image": _translate_image,
    "image_url": _translate_image_url,
    "input_text": _translate_text,
    "invalid_tool_call": _call_translation("invalid_tool_call"),
    "media": _file_translation("media"),
    "non_standard": control_block,
    "output_text": _translate_text,
    "reasoning": _translate_reasoning,
    "redacted_thinking": _translate_redacted,
    "refusal": refusal_block,
    "server_tool_call": _call_translation("server_tool_call", executor="server"),
    "server_tool_result": _translate_server_result,
    "text-plain": _file_translation("text-plain"),
    "tool_call": _call_translation("tool_call"),
    "video": _file_translation("video"),
}
"""Translations of the standard content blocks, and of vendor blocks that occur in their place."""


def _parse_blocks(block: Any) -> list[Block]:
    if isinstance(block, str):
        return [text_block(block)]
    wire_type = block.get("type") if isinstance(block, dict) else None
    if not isinstance(wire_type, str):
        return [raw_block("unknown_type", block)]
    if is_native(block) and not _is_standard_file(block):
        return [block]
    if wire_type in _TRANSLATIONS:
        return translate(wire_type, block, _TRANSLATIONS[wire_type])
    if wire_type == "tool_result":
        return _parse_tool_result(block)
    return [raw_block("unknown_type", block, wire_name(block))]


def _is_standard_file(block: Block) -> bool:
    """Return True for LangChain's `file` block; all keys of Ash's own file block are optional."""
    return block["type"] == "file" and not block.keys() & {"mimeType", "storagePath", "source"}


def _parse_tool_result(result: Block) -> list[Block]:
    """Parse a result in Anthropic's form, with its nested content list."""
    if not is_valid(result):
        return [raw_block("malformed", result, "tool_result")]
    return [{**result, "content": _parse_content(result["content"])}]


def parse_block(block: Any) -> Block:
    """Parse one bare content block. If it translates to several blocks, it becomes a single `raw` block instead."""
    blocks = _parse_blocks(block)
    return blocks[0] if len(blocks) == 1 else control_block(block)


def _parse_content(content: Any) -> list[Block]:
    if isinstance(content, str):
        return [text_block(content)]
    if not isinstance(content, list):
        raise TypeError
    return bounded([parsed for block in content for parsed in _parse_blocks(block)])


def _message_blocks(fields: Record) -> list[Block]:
    """Return the blocks of a message other than a tool result: reasoning, content, speech, and calls that the content
    lacks."""
    content = _parse_content(fields["content"])
    calls_in_content = {
        block["id"]: block for block in content if block["type"] == "tool_use" and block.get("id")
    }
    calls = [
        parsed
        for name, wire_type in (("tool_calls", "tool_call"), ("invalid_tool_calls", "invalid_tool_call"))
        for call in list_or_empty(fields.get(name))
        if not _is_same_call(calls_in_content.get(call.get("id")), call)
        for parsed in translate(wire_type, call, _TRANSLATIONS[wire_type])
    ]
    reasoning = [] if any(block["type"] == "thinking" for block in content) else _reasoning_blocks(fields)
    speech = _speech_blocks(fields)
    is_placeholder = fields["content"] == "" and bool(reasoning or speech or calls)
    return bounded(reasoning + ([] if is_placeholder else content) + speech + calls)


def _is_same_call(block: Block | None, call: Record) -> bool:
    """Return True if a block of the content has the same name and arguments as this call."""
    if block is None:
        return False
    arguments = decode_arguments(call.get("args"))
    return block.get("name") == call.get("name") and decode_arguments(block.get("input")) == arguments


def _reasoning_blocks(fields: Record) -> list[Block]:
    more = fields.get("additional_kwargs")
    text = text_at(more, "reasoning_content")
    if text is not None:
        return [{"type": "thinking", "thinking": text, "source_type": "reasoning_content"}]
    reasoning = value_at(more, "reasoning")
    return translate("reasoning", reasoning, _translate_summaries) if isinstance(reasoning, dict) else []


def _speech_blocks(fields: Record) -> list[Block]:
    """Return the recording of an answer of OpenAI's audio models, with its transcript."""
    audio = value_at(fields.get("additional_kwargs"), "audio")
    return translate("audio", audio, _translate_speech) if isinstance(audio, dict) else []


def _translate_speech(audio: Record) -> Block:
    source = {"source": {"type": "base64", "data": audio["data"]}} if "data" in audio else {}
    typed = {"type": "file", **source, "mediaClass": "audio", **pick(audio, "transcript")}
    return translated(audio, typed, {"data", "transcript"}, "audio")


def _translate_result(fields: Record) -> Block:
    """Translate a tool result; its `artifact` is for the program only."""
    content = fields["content"]
    typed = {
        "type": "tool_result",
        **renamed(fields, tool_use_id="tool_call_id"),
        "content": content if isinstance(content, str) else _parse_content(content),
        **({"is_error": fields["status"] == "error"} if "status" in fields else {}),
        **({"structured": fields["artifact"]} if fields.get("artifact") is not None else {}),
    }
    return translated(pick(fields, "name", "status"), typed, (), "tool")


def _parse_message(message: _Message) -> tuple[Role, list[Block]]:
    wire_type, fields = message.wire_type, message.fields
    role = _ROLES.get(wire_type) or _ROLES.get(fields.get("role", ""), "user")
    if role == "tool":
        return role, translate(wire_type, fields, _translate_result)
    return role, _message_blocks(fields)


class _RecordMessages(NamedTuple):
    """The messages of a record."""

    messages: list[_Message]
    """The messages of a state, or the single message of the record; empty if a streamed message is malformed."""
    is_state: bool
    metadata: Record
    """The metadata that a graph adds to a streamed message."""


def _record_messages(record: Record) -> _RecordMessages | None:
    """Return the messages of a record, or None if it has none."""
    mode, data = _stream_mode_and_data(record)
    if mode == "messages" and isinstance(data, list) and len(data) == 2:
        metadata = data[1] if isinstance(data[1], dict) else {}
        return _RecordMessages(_decode_messages(data[:1]), False, metadata)
    if not isinstance(data, dict):
        return None
    message = _decode_message(data)
    if message is not None:
        return _RecordMessages([message], False, {})
    states = [*data.values(), data] if mode == "updates" else [data]
    messages = next(filter(None, map(_state_messages, states)), None)
    return _RecordMessages(messages, True, {}) if messages else None


def _stream_mode_and_data(record: Record) -> tuple[str | None, Any]:
    """Return the mode and data of a streamed list, which begins with a namespace if a subgraph streams it."""
    values = record.get("list")
    if not isinstance(values, list):
        return None, record
    return (values[-2], values[-1]) if len(values) > 1 else (None, None)


def _decode_messages(values: list[Any]) -> list[_Message]:
    return [message for value in values if (message := _decode_message(value))]


def _state_messages(data: Any) -> list[_Message]:
    """Return the messages of a state; none for other data."""
    values = data.get("messages") if isinstance(data, dict) else None
    messages: list[_Message] = []
    for value in values if isinstance(values, list) else ():
        message = _decode_message(value)
        if message is None:
            return []
        messages.append(message)
    return messages


def _parse_messages(messages: list[_Message]) -> ParsedRecord:
    results = [_parse_message(message) for message in messages]
    all_blocks = [block for _, blocks in results for block in blocks]
    return ParsedRecord("message", results[0][0], bounded(all_blocks))


def _original_value(record: Record) -> Any:
    return record["list"] if record.keys() == {"list"} else record


_MODES = frozenset({"checkpoints", "custom", "debug", "messages", "tasks", "updates", "values"})


def recognizes_list(values: Any) -> bool:
    """Return True for a stream mode and its data, optionally after the namespace of a subgraph."""
    if not isinstance(values, list) or len(values) not in (2, 3):
        return False
    mode, payload = values[-2:]
    if not isinstance(mode, str) or mode not in _MODES or not isinstance(payload, dict | list):
        return False
    return len(values) == 2 or isinstance(values[0], list)


_DISTINCTIVE_TYPES = frozenset({"ai", "human"})
"""Types that no other format uses."""
_DISTINCTIVE_KEYS = frozenset({"additional_kwargs", "response_metadata"})


def recognize(record: Record) -> WireType | None:
    return wire_type(record) if _is_own(record) else None


def _is_own(record: Record) -> bool:
    """Return True for a message in any of its three forms, or a state of a graph."""
    if record.get("type") is None and "messages" in record:
        messages = _state_messages(record)
        return (
            bool(messages)
            and body_keys(record) == {"messages"}
            and not is_cline_document(record)
            and all(map(_is_own_message, record["messages"], messages))
        )
    message = _decode_message(record)
    return message is not None and _is_own_message(record, message)


def _is_own_message(record: Record, message: _Message) -> bool:
    if not record.keys().isdisjoint(ENVELOPE_KEYS):
        return False
    type_name = record.get("type")
    if "lc" in record:
        return type_name == "constructor"
    has_own_key = not _DISTINCTIVE_KEYS.isdisjoint(message.fields)
    has_own_key = has_own_key or (type_name == "tool" and "tool_call_id" in message.fields)
    return message.is_chunk or has_own_key or type_name in _DISTINCTIVE_TYPES


def header(record: Record) -> RecordHeader:
    """Return the metadata of a record. Message ids are not unique: chunks and later states repeat them."""
    contents = _record_messages(record)
    if contents is None:
        return RecordHeader()
    message = None if contents.is_state or not contents.messages else contents.messages[0]
    model = _model_name(message.fields) if message else None
    return RecordHeader(session_id=text_at(contents.metadata, "thread_id"), model=model)


def _model_name(fields: Record) -> str | None:
    return first_text(fields.get("response_metadata"), ("model_name", "model", "model_id"))


def _message_parts(contents: _RecordMessages, parsed: ParsedRecord) -> list[Part]:
    """Return one part per message; earlier messages that a state repeats have the same ids."""
    return list(map(_message_part, contents.messages)) if parsed.kind == "message" else []


def _message_part(message: _Message) -> Part:
    role, blocks = _parse_message(message)
    message_id, response_metadata = text_at(message.fields, "id"), message.fields.get("response_metadata")
    return Part(
        role=speaker_of_role(role),
        blocks=blocks,
        key=None if message_id is None else f"{role} {message_id}",
        header=RecordHeader(uuid=message_id),
        usage=_standard_usage(message.fields.get("usage_metadata"), response_metadata),
        message_id=message_id if role == "assistant" else None,
        metadata={
            "model": _model_name(message.fields),
            "stop_reason": first_text(response_metadata, _FINISH_REASON_KEYS),
        },
        error=_standard_error(value_at(response_metadata, "error")),
        original=message.fields,
        relation="new_version" if message_id is not None else "new",
    )


_FINISH_REASON_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def _standard_usage(usage: Any, response_metadata: Any) -> Block | None:
    """Return the usage. LangChain's input count includes cached tokens."""
    cache_read = count_at(usage, "input_token_details", "cache_read")
    cache_written = count_at(usage, "input_token_details", "cache_creation")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "input_tokens"), cache_read, cache_written),
        output=count_at(usage, "output_tokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=count_at(usage, "output_token_details", "reasoning"),
        service_tier=text_at(response_metadata, "service_tier"),
    )


def _standard_error(error: Any) -> Block | None:
    message = text_at(error, "message")
    return None if message is None else message_error(text_at(error, "code") or "error", message, error)


# Event log steps. Chunks use the slots `thinking/INDEX`, `text/INDEX` and `call/INDEX`. A state repeats the content
# of chunks and may arrive before the last chunk. The end of a graph is not reported, so a turn stays open until the
# next user message.


def _message_steps(contents: _RecordMessages, parsed: ParsedRecord) -> list[Step] | None:
    if parsed.kind != "message":
        return None
    keeps_chunks_open = contents.is_state or parsed.role == "assistant"
    return [*([] if keeps_chunks_open else [ChunkEnd()]), *_message_parts(contents, parsed)]


def _chunk_steps(message: _Message) -> list[Step]:
    if _ROLES.get(message.wire_type) == "assistant":
        return _fragment_steps(message.fields)
    return [_message_part(message)]


def _fragment_steps(fields: Record) -> list[Step]:
    message_id = text_at(fields, "id")
    usage = _standard_usage(fields.get("usage_metadata"), fields.get("response_metadata"))
    content = [*_reasoning_steps(fields), *_content_steps(fields["content"]), *_call_steps(fields)]
    end: list[Step] = [ChunkEnd(), ResponseEnd()] if _is_last(fields) else []
    key = f"assistant {message_id}" if message_id else None
    counted: list[Step] = [] if usage is None else [usage_step(usage, key)]
    begin: list[Step] = [ResponseStart(message_id, begins="if_other_id")] if content or end else []
    return [*begin, *content, *end, *counted]


def _is_last(fields: Record) -> bool:
    """Return True for the last chunk of a message with content; a chunk with usage may follow."""
    response_metadata = fields.get("response_metadata")
    return (
        fields.get("chunk_position") == "last"
        or first_text(response_metadata, _FINISH_REASON_KEYS) is not None
        or is_one_of(value_at(response_metadata, "status"), ("completed", "failed", "incomplete"))
    )


def _fragment_index(fragment: Record) -> Any:
    """Return the index of a fragment in its message; 0 if it has none."""
    index = fragment.get("index")
    return 0 if index is None else index


def _reasoning_steps(fields: Record) -> list[Step]:
    return [
        step
        for block in _reasoning_blocks(fields)
        for step in _block_steps(block, _fragment_index(block.get("extra") or {}))
    ]


def _content_steps(content: Any) -> list[Step]:
    if isinstance(content, str):
        return _block_steps(text_block(content), 0) if content else []
    return [
        step
        for fragment in list_or_empty(content)
        if not is_one_of(value_at(fragment, "type"), _CALL_PART_TYPES)
        for step in _content_part_steps(fragment)
    ]


def _content_part_steps(fragment: Any) -> list[Step]:
    if value_at(fragment, "type") == "server_tool_call_chunk":
        return [_call_fragment(fragment, executor="server")]
    index = _fragment_index(fragment) if isinstance(fragment, dict) else 0
    return [step for block in _parse_blocks(fragment) for step in _block_steps(block, index)]


_CALL_PART_TYPES = frozenset({"input_json_delta", "tool_call", "tool_call_chunk", "tool_use"})
"""Types of content parts that are repeated in `tool_call_chunks`."""


def _block_steps(block: Block, index: Any) -> list[Step]:
    wire_type = block["type"]
    if wire_type == "thinking":
        more = pick(block, "signature", "redacted")
        return [Chunk("thinking", block["thinking"], f"thinking/{index}", fields=more, anonymous_slot=True)]
    if wire_type == "text":
        more = pick(block, "variant")
        text = Chunk("text", block["text"], f"text/{index}", fields=more, anonymous_slot=True)
        return [ChunkEnd(kinds=("thinking",)), text]
    return [ChunkEnd(), Part(role="assistant", blocks=[block])]


def _call_steps(fields: Record) -> list[Step]:
    """Return call fragments by index; a call without an index is complete."""
    calls = [_call_fragment(fragment) for fragment in list_or_empty(fields.get("tool_call_chunks"))]
    return [ChunkEnd(kinds=("thinking",)), *calls] if calls else []


def _call_fragment(fragment: Record, **more: str) -> Step:
    id, name, index = (fragment.get(key) for key in ("id", "name", "index"))
    slot, text = f"call/{id if index is None else index}", fragment.get("args") or ""
    call: Block = {"id": id, "name": name, "input": {}}
    return Chunk("input", text, slot, call=call, fields=more, anonymous_slot=bool(name))


def _chunk_type(messages: list[_Message]) -> WireType:
    return WireType(
        lambda record: chunk_record(_original_value(record), messages[0].name if messages else None),
        steps=lambda record, parsed: [step for message in messages for step in _chunk_steps(message)],
    )


def _message_type(contents: _RecordMessages) -> WireType:
    return WireType(
        lambda record: _parse_messages(contents.messages),
        lambda record, parsed: _message_parts(contents, parsed),
        lambda record, parsed: _message_steps(contents, parsed),
    )


_CONTROL = WireType(lambda record: control_record(_original_value(record), wire_name(record)))
_REMOVAL = WireType(lambda record: control_record(_original_value(record), "remove"))
_UNKNOWN = WireType(lambda record: unknown_record(_original_value(record), wire_name(record)))


def wire_type(record: Record) -> WireType:
    """Return the row of a message, a state, or a list streamed by a graph, given as `{"list": [...]}`."""
    contents = _record_messages(record)
    if contents is None:
        return _CONTROL if recognizes_list(record.get("list")) else _UNKNOWN
    messages = contents.messages
    if not contents.is_state and (not messages or messages[0].is_chunk):
        return _chunk_type(messages)
    return _REMOVAL if messages[0].wire_type == "remove" else _message_type(contents)


PROVIDER = Provider(
    source="langchain",
    recognize=recognize,
    marks=Marks(
        typed_keys={"content", "data", "lc"},
        foreign_keys=ENVELOPE_KEYS,
        untyped_keys={"messages"},
        body_keys={"messages"},
    ),
    recognizes_list=recognizes_list,
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
