"""Amazon Bedrock's Converse API: requests, responses and the events of ConverseStream.

Source: the `bedrock-runtime` service model. A content block is an object with one key, its kind; a
`type` may occur next to that key and inside its value. Bodies of InvokeModel are in the format of the model's
vendor.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    wire_name,
    with_extra,
    without,
)
from ash_shared.model.message import RecordHeader
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    Speaker,
    WireType,
    chunk_record,
)
from ash_shared.records.fingerprints import (
    BEDROCK_REQUEST_KEYS,
    CHAT_MESSAGE_KEYS,
    body_keys,
    is_cline_document,
)
from ash_shared.records.json_fields import (
    count_at,
    first_count,
    first_text,
    media_class,
    message_error,
    text_at,
    token_usage,
    value_at,
)
from ash_shared.records.steps import (
    Chunk,
    ChunkEnd,
    Emit,
    ResponseEnd,
    ResponseStart,
    Step,
    TurnEnd,
    usage_step,
)

_SpeakerBlocks = tuple[Speaker, list[Block]]

_ROLES: Mapping[str, Speaker] = {"user": "user", "assistant": "assistant"}

_DOCUMENT_TYPES: Mapping[str, str] = {
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def _with_extra_keys(block: Block, kind: str, typed: Block, *consumed: str) -> Block:
    """Return `typed` with the unconsumed keys of the object under `kind`, and of its block, in `extra`."""
    extended = {**typed, "source_type": kind}
    if isinstance(block[kind], dict):
        extended = with_extra(extended, without(block[kind], *consumed))
    return extended if len(block) == 1 else with_extra(extended, without(block, kind))


def _translate_tool_use(block: Block) -> Block:
    call = block["toolUse"]
    typed = {"type": "tool_use", **renamed(call, id="toolUseId"), **pick(call, "name", "input")}
    server = {"executor": "server"} if call.get("type") == "server_tool_use" else {}
    return _with_extra_keys(block, "toolUse", typed | server, "toolUseId", "name", "input")


def _translate_tool_result(block: Block) -> Block:
    result = block["toolResult"]
    json = [item["json"] for item in result["content"] if item.keys() == {"json"}]
    content = [item for item in result["content"] if item.keys() != {"json"}]
    typed = {
        "type": "tool_result",
        **renamed(result, tool_use_id="toolUseId"),
        **({"content": parse_list(content)} if content or not json else {}),
        **({"is_error": result["status"] == "error"} if "status" in result else {}),
        **({"structured": json[0] if len(json) == 1 else json} if json else {}),
    }
    code = count_at(json[0], "exitCode") if len(json) == 1 else None
    exit_code = {} if code is None else {"exit_code": code}
    return _with_extra_keys(block, "toolResult", typed | exit_code, "toolUseId", "content")


def _translate_reasoning(block: Block) -> Block:
    reasoning = block["reasoningContent"]
    if "redactedContent" in reasoning:
        typed = {"type": "thinking", "thinking": "", "redacted": True, "data": reasoning["redactedContent"]}
        return _with_extra_keys(block, "reasoningContent", typed, "redactedContent")
    signed_text = reasoning["reasoningText"]
    typed = {"type": "thinking", "thinking": signed_text["text"], **pick(signed_text, "signature")}
    typed = with_extra(typed, without(signed_text, "text", "signature"))
    return _with_extra_keys(block, "reasoningContent", typed, "reasoningText")


def _media_source(source: Record, media_type: str | None) -> Block:
    """Return the source of a media object: bytes, text or a URL, which is `s3://…` for an S3 object."""
    media_type_field = {} if media_type is None else {"media_type": media_type}
    if "bytes" in source:
        return {"type": "base64", **media_type_field, "data": source["bytes"], **_other_keys(source, "bytes")}
    if "s3Location" in source:
        location = source["s3Location"]
        return {"type": "url", **media_type_field, "url": location["uri"], **_other_keys(location, "uri")}
    if "text" in source:
        return {"type": "text", **media_type_field, "data": source["text"], **_other_keys(source, "text")}
    return {**source, "type": "content", "content": source["content"]}


def _other_keys(source: Record, consumed: str) -> Block:
    """Return the unconsumed keys. Raises KeyError if a block source has the same key."""
    rest = without(source, consumed)
    if rest.keys() & {"type", "media_type", "data", "url"}:
        raise KeyError(consumed)
    return rest


def _translate_image(block: Block) -> Block:
    image = block["image"]
    media_type = f"image/{image['format']}" if "format" in image else None
    typed = {"type": "image", "source": _media_source(image["source"], media_type)}
    return _with_extra_keys(block, "image", typed, "source")


def _media_translation(kind: str) -> Callable[[Block], Block]:
    def parse(block: Block) -> Block:
        media = block[kind]
        media_type = _media_type(kind, media.get("format"))
        typed = {
            "type": "file",
            **({} if media_type is None else {"mimeType": media_type}),
            "source": _media_source(media["source"], media_type),
            **renamed(media, filename="name"),
            **pick(media, "context"),
            "mediaClass": "document" if media_type is None or kind == "document" else media_class(media_type),
        }
        return _with_extra_keys(block, kind, typed, "source", "name", "context")

    return parse


def _media_type(kind: str, format: Any) -> str | None:
    if not isinstance(format, str):
        return None
    return _DOCUMENT_TYPES.get(format) if kind == "document" else f"{kind}/{format}"


def _translate_guard_content(block: Block) -> Block:
    """Translate a part of the prompt, a text or an image, that a guardrail checks."""
    content = block["guardContent"]
    if "image" in content:
        return _with_extra_keys(block, "guardContent", _translate_image(pick(content, "image")), "image")
    text = content["text"]
    block_text = with_extra(text_block(text["text"]), without(text, "text"))
    return _with_extra_keys(block, "guardContent", block_text, "text")


def _translate_citations(block: Block) -> list[Block]:
    """Translate cited texts; the first block gets all citations."""
    content = block["citationsContent"]
    texts = parse_list(content["content"])
    if not texts or texts[0]["type"] != "text":
        raise KeyError("content")
    typed = {**texts[0], **pick(content, "citations")}
    first = _with_extra_keys(block, "citationsContent", typed, "content", "citations")
    return [first, *texts[1:]]


def _translate_search_result(block: Block) -> Block:
    result = block["searchResult"]
    typed = {"type": "file", "source": {"type": "url", "url": result["source"]}, **pick(result, "title")}
    return _with_extra_keys(block, "searchResult", typed, "source", "title")


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "audio": _media_translation("audio"),
    "cachePoint": lambda block: raw_block("control", block, "cachePoint"),
    "citationsContent": _translate_citations,
    "document": _media_translation("document"),
    "guardContent": _translate_guard_content,
    "image": _translate_image,
    "reasoningContent": _translate_reasoning,
    "searchResult": _translate_search_result,
    "text": lambda block: _with_extra_keys(block, "text", text_block(block["text"])),
    "toolResult": _translate_tool_result,
    "toolUse": _translate_tool_use,
    "video": _media_translation("video"),
}
"""Translations of content blocks, by kind key."""


def _block_kind(block: Any) -> str | None:
    """Return the kind of a content block; None if it has no kind, or several."""
    kinds = block.keys() & _TRANSLATIONS.keys() if isinstance(block, dict) else ()
    return next(iter(kinds)) if len(kinds) == 1 else None


def _raw_type(block: Any) -> str | None:
    """Return the name of an unknown block: its only key, or its type."""
    if not isinstance(block, dict):
        return None
    return next(iter(block)) if len(block) == 1 else wire_name(block)


def _parse_blocks(block: Any) -> list[Block]:
    if is_native(block):
        return [block]
    if isinstance(block, str):
        return [text_block(block)]
    kind = _block_kind(block)
    if kind is None:
        return [raw_block("unknown_type", block, _raw_type(block))]
    return translate(kind, block, _TRANSLATIONS[kind])


def parse_block(block: Any) -> Block:
    """Parse one bare content block. If it translates to several blocks, it becomes a single `raw` block instead."""
    blocks = _parse_blocks(block)
    return blocks[0] if len(blocks) == 1 else raw_block("control", block, _block_kind(block))


def parse_list(content: list[Any]) -> list[Block]:
    if not isinstance(content, list):
        raise TypeError
    return bounded([parsed for block in content for parsed in _parse_blocks(block)])


def _speaker_blocks(message: Record) -> _SpeakerBlocks:
    return _ROLES[message["role"]], parse_list(message["content"])


def _request_messages(record: Record) -> list[_SpeakerBlocks]:
    """Return the messages of a request, starting with the system text; tools and parameters are not content."""
    system: list[_SpeakerBlocks] = [("system", parse_list(record["system"]))] if record.get("system") else []
    return system + [_speaker_blocks(message) for message in record["messages"]]


def _parse_request(record: Record) -> ParsedRecord:
    blocks = [block for _, blocks in _request_messages(record) for block in blocks]
    return ParsedRecord("message", "user", bounded(blocks))


def _parse_response(record: Record) -> ParsedRecord:
    role, blocks = _speaker_blocks({"role": "assistant", **record["output"]["message"]})
    return ParsedRecord("message", role, blocks)


def _parse_message(record: Record) -> ParsedRecord:
    role, blocks = _speaker_blocks(record)
    only_results = bool(blocks) and {block["type"] for block in blocks} == {"tool_result"}
    return ParsedRecord("message", "tool" if only_results and role == "user" else role, blocks)


def _parse_error(record: Record) -> ParsedRecord:
    typed = text_block(record["message"], "error")
    return ParsedRecord("record", "system", [with_extra(typed, without(record, "message"))])


def _parse_fragment(record: Record) -> ParsedRecord:
    return chunk_record(record, next(iter(record)))


def _is_usage(record: Record) -> bool:
    return count_at(record, "metadata", "usage", "inputTokens") is not None


def _is_content(content: Any) -> bool:
    """Return True for a content list with a block that has a kind key but no `type`, as in no other format."""
    return isinstance(content, list) and any(_block_kind(block) and "type" not in block for block in content)


def _is_message(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and isinstance(message.get("role"), str)
        and message["role"] in _ROLES
        and _FOREIGN_KEYS.isdisjoint(message)
        and _is_content(message.get("content"))
    )


_FOREIGN_KEYS = CHAT_MESSAGE_KEYS | {"message", "message_id"}
"""Keys of messages in other formats."""


def _is_request(record: Record) -> bool:
    messages = record["messages"]
    if not isinstance(messages, list):
        return False
    return not body_keys(record).isdisjoint(BEDROCK_REQUEST_KEYS) or any(map(_is_message, messages))


def _is_response(record: Record) -> bool:
    return isinstance(value_at(record, "output", "message"), dict)


def _is_error(record: Record) -> bool:
    return record.keys() <= {"message", "__type"} and text_at(record, "message") is not None


def _request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    sources = [record["system"], *record["messages"]] if record.get("system") else record["messages"]
    return [
        Part(role=role, blocks=blocks, original=source)
        for source, (role, blocks) in zip(sources, _request_messages(record), strict=True)
    ]


def _error_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, error=message_error(text_at(record, "__type") or "error", record["message"]))]


def _response_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    stop_sequence = text_at(record, "additionalModelResponseFields", "stop_sequence")
    return [
        Part(
            role="assistant",
            blocks=parsed.blocks,
            usage=_standard_usage(record),
            metadata={"stop_reason": text_at(record, "stopReason"), "stop_sequence": stop_sequence},
            error=_refusal_error(record),
        )
    ]


def _refusal_error(record: Record) -> Block | None:
    reason = text_at(record, "stopReason")
    if reason not in ("content_filtered", "guardrail_intervened"):
        return None
    return message_error(reason, text_at(record, "trace", "guardrail", "actionReason"))


def _standard_usage(record: Record) -> Block | None:
    """Return the usage. Bedrock's input count excludes cached tokens."""
    usage = value_at(record, "usage")
    return token_usage(
        usage,
        input=count_at(usage, "inputTokens"),
        output=count_at(usage, "outputTokens"),
        cache_read=first_count(usage, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_creation=first_count(usage, "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        service_tier=first_text(value_at(record, "serviceTier"), ("type",)),
    )


# Event log steps. Slots are the indexes of content blocks. The start of a text block is not always reported,
# and some writers omit the end.


def _response_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    [part] = _response_parts(record, parsed)
    return [ResponseStart(None), replace(part, error=None), *_end_response(record), TurnEnd(mode="if_over")]


def _exception_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    [(code, error)] = record.items()
    return [Emit("error", message_error(code, text_at(error, "message")))]


def _end_response(event: Record) -> list[Step]:
    """End the response, and the turn unless the caller has to respond to a call."""
    end = ResponseEnd(turn="continues" if text_at(event, "stopReason") == "tool_use" else "ends")
    error = _refusal_error(event)
    return [ChunkEnd(), end, *([] if error is None else [Emit("error", error)])]


def _slot(event: Record) -> str:
    return str(event["contentBlockIndex"])


def _begin_block(event: Record) -> list[Step]:
    start = event.get("start") or {}
    if "toolUse" in start:
        return [_begin_call(start["toolUse"], _slot(event))]
    return _begin_result(start["toolResult"], _slot(event)) if "toolResult" in start else []


def _begin_call(call: Record, slot: str) -> Step:
    """Begin a call. A call without arguments is streamed as empty text."""
    executor = {"executor": "server"} if call.get("type") == "server_tool_use" else {}
    typed = {"id": call["toolUseId"], "name": call["name"], "input": {}}
    return Chunk("input", "", slot, call=typed, fields=executor)


def _begin_result(result: Record, slot: str) -> list[Step]:
    """Begin the result of a tool run by Bedrock. Only this event contains the call id and the failure status."""
    begin: list[Step] = [Chunk("output", "", slot, call={"id": result["toolUseId"]})]
    if result.get("status") != "error":
        return begin
    failed = {"type": "tool_result", "tool_use_id": result["toolUseId"], "is_error": True}
    return [Part(role=None, blocks=[failed]), *begin]


def _continue_block(event: Record) -> list[Step]:
    slot, delta = _slot(event), event["delta"]
    delta_steps = [
        step for kind in delta if kind in _DELTA_STEPS for step in _DELTA_STEPS[kind](delta[kind], slot)
    ]
    unknown_keys = without(delta, *_DELTA_STEPS)
    if unknown_keys:
        delta_steps.append(Part(role="system", blocks=[raw_block("unknown_type", unknown_keys)]))
    return delta_steps


def _reasoning_steps(delta: Record, slot: str) -> list[Step]:
    redacted = {"redacted": True} if "redactedContent" in delta else {}
    more = {**pick(delta, "signature"), **redacted}
    return [Chunk("thinking", delta.get("text", ""), slot, fields=more)]


def _result_content_steps(content: list[Any], slot: str) -> list[Step]:
    result = _translate_tool_result({"toolResult": {"content": content}})
    return [Part(role="user", blocks=[result], slot=slot)]


_DELTA_STEPS: Mapping[str, Callable[[Any, str], list[Step]]] = {
    "citation": lambda delta, slot: [Chunk("text", "", slot, fields={"citations": [delta]})],
    "image": lambda delta, slot: [Part(role="assistant", blocks=[_translate_image({"image": delta})])],
    "reasoningContent": _reasoning_steps,
    "text": lambda delta, slot: [Chunk("text", delta, slot)],
    "toolResult": _result_content_steps,
    "toolUse": lambda delta, slot: [Chunk("input", delta["input"], slot)],
}
"""Functions that return the steps of a delta, by its key."""


def _event(
    make_steps: Callable[[Record], list[Step]], matches: Callable[[Record], bool] = lambda record: True
) -> WireType:
    """Return the row of a stream event, which is an object under its name."""
    return WireType(
        _parse_fragment, steps=lambda record, parsed: make_steps(*record.values()), matches=matches
    )


_EXCEPTION = WireType(_parse_fragment, steps=_exception_steps)

_EVENTS: Mapping[str, WireType] = {
    "contentBlockDelta": _event(_continue_block),
    "contentBlockStart": _event(lambda event: [ChunkEnd(), *_begin_block(event)]),
    "contentBlockStop": _event(lambda event: [ChunkEnd(_slot(event))]),
    "internalServerException": _EXCEPTION,
    "messageStart": _event(lambda event: [ResponseStart(None)]),
    "messageStop": _event(_end_response),
    "metadata": _event(lambda event: [usage_step(_standard_usage(event))], _is_usage),
    "modelStreamErrorException": _EXCEPTION,
    "serviceUnavailableException": _EXCEPTION,
    "throttlingException": _EXCEPTION,
    "validationException": _EXCEPTION,
}
_BODIES: Mapping[str, WireType] = {
    "output": WireType(_parse_response, _response_parts, _response_steps, _is_response),
    "messages": WireType(_parse_request, _request_parts, matches=_is_request),
    "message": WireType(_parse_error, _error_parts, matches=_is_error),
    "content": WireType(_parse_message, matches=_is_message),
}
"""Responses, requests, errors and messages, by a key that they all have; the first row that matches counts."""
_BLOCK = WireType(lambda record: ParsedRecord("record", "system", _parse_blocks(record)))


def wire_type(record: Record) -> WireType:
    return _event_row(record) or _body_row(record) or _BLOCK


def _event_row(record: Record) -> WireType | None:
    if len(record) != 1:
        return None
    [(name, event)] = record.items()
    row = _EVENTS.get(name)
    return row if row and isinstance(event, dict) and row.matches(record) else None


def _body_row(record: Record) -> WireType | None:
    for key, row in _BODIES.items():
        if key in record and row.matches(record):
            return row
    return None


def recognize(record: Record) -> WireType | None:
    """Return the row of a record of the Converse API. Its bodies have no `type`."""
    if row := _event_row(record):
        return row
    is_body = body_keys(record) - BEDROCK_REQUEST_KEYS in _BODY_KEY_SETS and not is_cline_document(record)
    return _body_row(record) if is_body else None


_BODY_KEY_SETS: tuple[frozenset[str], ...] = (frozenset(), frozenset({"messages"}), frozenset({"output"}))


PROVIDER = Provider(
    source="bedrock",
    recognize=recognize,
    marks=Marks(
        untyped_keys=_EVENTS.keys() | {"message", "messages", "output", "role"},
        body_keys=BEDROCK_REQUEST_KEYS.union(*_BODY_KEY_SETS),
    ),
    wire_type=wire_type,
    parse_block=parse_block,
    header=lambda record: RecordHeader(model=text_at(record, "modelId")),  # the API has it only in the URL
)
