"""The AI SDK's `UIMessage`, and the chunks of a UI message stream.

Source: the types of the `ai` package, major versions 4 to 7. A tool part is one object that grows from the call
to its output. It is parsed as a `tool_use` and, once it has an output, a `tool_result` directly after it.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Literal

from msgspec.structs import replace

from ash_shared.model.blocks import (
    Block,
    bounded,
    control_block,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
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
from ash_shared.records.fingerprints import ENVELOPE_KEYS, body_keys
from ash_shared.records.json_fields import (
    count_at,
    first_text,
    list_or_empty,
    message_error,
    mime_fields,
    subtract_counts,
    text_at,
    to_milliseconds,
    token_usage,
    url_source,
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

_ROLES: Mapping[str, Speaker] = {"assistant": "assistant", "system": "system", "user": "user"}


def _translate_reasoning(part: Block) -> Block:
    """Translate reasoning. The signature has a different key for each vendor, and also stays in the vendor's metadata.
    Version 4 used the key `reasoning` for `text`."""
    text_key = "text" if "text" in part else "reasoning"
    vendors = [fields for fields in (part.get("providerMetadata") or {}).values() if isinstance(fields, dict)]
    signatures = [
        text for fields in vendors if (text := first_text(fields, ("signature", "thoughtSignature")))
    ]
    redacted = [text for fields in vendors if (text := text_at(fields, "redactedData"))]
    typed = {
        "type": "thinking",
        "thinking": part[text_key],
        **({"signature": signatures[0]} if signatures else {}),
        **({"redacted": True, "data": redacted[0]} if redacted else {}),
    }
    return translated(part, typed, {text_key}, "reasoning")


def _translate_file(part: Block) -> Block:
    return _translate_image(part) if part["mediaType"].startswith("image/") else _translate_document(part)


def _translate_image(part: Block) -> Block:
    source = {"media_type": part["mediaType"], **url_source(part["url"])}
    typed = {"type": "image", "source": source}
    consumed = {"url"} | ({"mediaType"} if source["media_type"] == part["mediaType"] else set())
    return translated(part, typed, consumed, part["type"])


def _translate_document(part: Block) -> Block:
    names = ("url", "mediaType", "filename")
    mime, source = mime_fields(part["mediaType"]), url_source(part["url"])
    typed = {"type": "file", **mime, **pick(part, "filename"), "source": source}
    return translated(part, typed, names, part["type"])


def _translate_tool(part: Block) -> list[Block]:
    """Translate a tool part to a call and, in an output state, its result."""
    wire_type = part["type"]
    name = part["toolName"] if wire_type == "dynamic-tool" else wire_type.removeprefix("tool-")
    result = _RESULT_FIELDS[part["state"]](part) if part["state"] in _RESULT_FIELDS else None
    input_key = "input" if "input" in part else "rawInput"
    typed = {
        "type": "tool_use",
        **renamed(part, id="toolCallId"),
        "name": name,
        "input": part.get(input_key),
        **({"executor": "server"} if part.get("providerExecuted") is True else {}),
        "status": part["state"],
    }
    consumed = {"toolCallId", "toolName", "state", "providerExecuted", input_key}
    call = translated(part, typed, consumed | (_RESULT_KEYS if result else set()), wire_type)
    return [call] if result is None else [call, _result_block(part, result)]


def _result_block(part: Block, result: Block) -> Block:
    typed = {"type": "tool_result", **renamed(part, tool_use_id="toolCallId"), **result}
    result_part = {key: value for key, value in part.items() if key in _RESULT_KEYS}
    return translated(result_part, typed, _OUTPUT_KEYS, part["type"])


_OUTPUT_KEYS = frozenset({"output", "errorText"})
_RESULT_KEYS = _OUTPUT_KEYS | {"preliminary", "resultProviderMetadata"}
"""Keys of a tool part that describe only its result."""


def _output_fields(part: Block) -> Block:
    """Return the output fields. A list is data, not content blocks, so it goes to `structured`."""
    output = part["output"]
    return {"structured" if isinstance(output, list) else "content": output, "is_error": False}


def _denied_fields(part: Block) -> Block:
    reason = text_at(part, "approval", "reason")
    return {**({} if reason is None else {"content": reason}), "is_error": True}


_RESULT_FIELDS: Mapping[str, Callable[[Block], Block]] = {
    "output-available": _output_fields,
    "output-denied": _denied_fields,
    "output-error": lambda part: {"content": part["errorText"], "is_error": True},
}


def _translate_invocation(part: Block) -> list[Block]:
    call = part["toolInvocation"]
    names = {"id": "toolCallId", "name": "toolName", "input": "args", "status": "state"}
    tool_use = {"type": "tool_use", **renamed(call, **names)}
    block = translated(call, tool_use, {*names.values(), "result"}, part["type"])
    blocks = [with_extra(block, without(part, "type", "toolInvocation"))]
    if "result" in call:
        output = _output_fields({"output": call["result"]})
        result = {"type": "tool_result", "tool_use_id": call["toolCallId"], **output}
        blocks.append({**result, "source_type": part["type"]})
    return blocks


def _translate_steering(part: Block) -> list[Block]:
    """Translate a user message sent while the response was being written."""
    inner_blocks = [block for inner in list_or_empty(part["parts"]) for block in _parse_blocks(inner)]
    blocks = [block | {"source_type": "steering-message"} for block in inner_blocks]
    if not blocks:
        return [control_block(part)]
    return [with_extra(blocks[0], without(part, "type", "parts")), *blocks[1:]]


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "custom": control_block,
    "dynamic-tool": _translate_tool,
    "file": _translate_file,
    "reasoning": _translate_reasoning,
    "reasoning-file": _translate_file,
    "source": control_block,
    "source-document": control_block,
    "source-url": control_block,
    "steering-message": _translate_steering,
    "step-start": control_block,
    "tool-invocation": _translate_invocation,
}
_PREFIX_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "data": control_block,
    "tool": _translate_tool,
}
"""Translations of `data-NAME` and `tool-NAME`, by the prefix."""


def _find_translation(wire_type: str) -> Callable[[Block], Block | list[Block]] | None:
    prefix, dash, _ = wire_type.partition("-")
    return _TRANSLATIONS.get(wire_type) or (_PREFIX_TRANSLATIONS.get(prefix) if dash else None)


def _parse_blocks(part: Any) -> list[Block]:
    name = text_at(part, "type") or ""
    if name == "text":
        return [part if is_native(part) else raw_block("malformed", part, "text")]
    translation = _find_translation(name)
    if translation is not None:
        return translate(name, part, translation)
    if isinstance(part, str):
        return [text_block(part)]
    return [part if is_native(part) else raw_block("unknown_type", part, wire_name(part) if name else None)]


def parse_block(part: Any) -> Block:
    """Parse one bare part. If it translates to several blocks, it becomes a single `raw` block instead."""
    blocks = _parse_blocks(part)
    return blocks[0] if len(blocks) == 1 else control_block(part)


def _parse_parts(parts: list[Block]) -> list[Block]:
    """Return the blocks of all parts. A source becomes a citation of the text before it."""
    if not isinstance(parts, list):
        raise TypeError
    blocks: list[Block] = []
    sources: dict[int, list[Block]] = {}
    text_index: int | None = None
    for part in bounded(parts):
        if text_index is not None and text_at(part, "type") in ("source-url", "source-document"):
            sources.setdefault(text_index, []).append(part)
            continue
        part_blocks = _parse_blocks(part)
        text_index = _last_text_index(part_blocks, len(blocks), text_index)
        blocks += part_blocks
    for index, cited in sources.items():
        blocks[index] = {**blocks[index], "citations": [*blocks[index].get("citations", ()), *cited]}
    return bounded(blocks)


def _last_text_index(new_blocks: list[Block], start: int, previous: int | None) -> int | None:
    """Return the index of the last text block that can get citations, counting the new blocks from `start`."""
    last = previous
    for index, block in enumerate(new_blocks, start):
        if block["type"] == "text":
            last = index if isinstance(block.get("citations", []), list) else None
    return last


def _parse_message(record: Record) -> ParsedRecord:
    return ParsedRecord("message", _ROLES[record["role"]], _parse_parts(record["parts"]))


def _is_message(record: Record) -> bool:
    """Return True for a record with a role and with parts that all have a type, as in no other format."""
    role, parts = record.get("role"), record.get("parts")
    if not isinstance(role, str) or role not in _ROLES or not isinstance(parts, list):
        return False
    have_types = all(isinstance(part, dict) and isinstance(part.get("type"), str) for part in parts)
    return have_types and (bool(parts) or role != "user")


def header(record: Record) -> RecordHeader:
    """Return the metadata of a message. Its id is not unique, because a message is stored again each time it grows."""
    metadata = record.get("metadata")
    created_at = record.get("createdAt") or value_at(metadata, "createdAt")
    return RecordHeader(
        timestamp=to_milliseconds(created_at), model=first_text(metadata, ("model", "modelId"))
    )


def _message_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    """Return the parts of each step: first the assistant's texts and calls, then the results of client tools."""
    if parsed.kind != "message":
        return []
    steps = _split_steps(parsed.blocks, "rawType")
    sources = [record, *_split_steps(record["parts"], "type")[1:]]
    step_parts = [
        replace(part, original=source)
        for number, (source, blocks) in enumerate(zip(sources, steps, strict=True))
        for part in _step_parts(record, parsed, number, blocks)
    ]
    last = max((index for index, part in enumerate(step_parts) if part.role == "assistant"), default=None)
    if last is not None:
        step_parts[last] = _with_usage(step_parts[last], record)
    return step_parts


def _split_steps(values: list[Block], key: str) -> list[list[Block]]:
    """Split parts, or their blocks, at the start of each step."""
    starts = [index for index, value in enumerate(values) if value.get(key) == "step-start"]
    cuts = [0, *(index for index in starts if index), len(values)]
    return [values[start:end] for start, end in pairwise(cuts)]


def _step_parts(record: Record, parsed: ParsedRecord, number: int, blocks: list[Block]) -> list[Part]:
    own_blocks: list[Block] = []
    user_blocks: list[Block] = []
    hosted = {block.get("id") for block in blocks if block.get("executor") == "server"}
    for block in blocks:
        (user_blocks if _belongs_to_user(block, hosted) else own_blocks).append(block)
    role: Any = parsed.role
    step_parts = [Part(role=role, blocks=own_blocks)] if own_blocks or not user_blocks else []
    step_parts += [Part(role="user", blocks=user_blocks)] if user_blocks else []
    message_id = text_at(record, "id")
    return [_with_key(part, message_id, number) for part in step_parts]


def _belongs_to_user(block: Block, hosted: set[Any]) -> bool:
    if block["type"] == "tool_result":
        return block.get("tool_use_id") not in hosted
    return block.get("source_type") == "steering-message"


def _with_key(part: Part, message_id: str | None, number: int) -> Part:
    """Set the key of a step's part, so that a later version of the message replaces it."""
    if message_id is None:
        return part
    id = f"{message_id}/{number}" if number else message_id
    return replace(
        part,
        key=f"{part.role} {id}",
        header=RecordHeader(uuid=id),
        message_id=message_id,
        relation="new_version",
    )


def _with_usage(part: Part, record: Record) -> Part:
    fields = record.get("metadata")
    model, stop_reason = first_text(fields, ("model", "modelId")), text_at(fields, "finishReason")
    metadata = {"model": model, "stop_reason": stop_reason}
    return replace(part, usage=_metadata_usage(fields), metadata=metadata)


def _metadata_usage(metadata: Any) -> Block | None:
    """Return the usage, which applications store in the metadata of a message."""
    fields = metadata if isinstance(metadata, dict) else {}
    return _standard_usage(fields.get("totalUsage", fields.get("usage")))


def _standard_usage(usage: Any) -> Block | None:
    """Return the usage. The SDK's input count includes cached tokens."""
    cache_read = count_at(usage, "inputTokenDetails", "cacheReadTokens")
    cached = count_at(usage, "cachedInputTokens") if cache_read is None else cache_read
    cache_written = count_at(usage, "inputTokenDetails", "cacheWriteTokens")
    reasoning = count_at(usage, "outputTokenDetails", "reasoningTokens")
    return token_usage(
        usage,
        input=subtract_counts(count_at(usage, "inputTokens"), cached, cache_written),
        output=count_at(usage, "outputTokens"),
        cache_read=cached,
        cache_creation=cache_written,
        reasoning=count_at(usage, "reasoningTokens") if reasoning is None else reasoning,
    )


# Event log steps. A response is everything between `start` and `finish`, with all its steps. Slots are
# `text/ID`, `reasoning/ID` and `tool/CALL`. A complete message may repeat what was streamed in chunks.


def _end_response(chunk: Record) -> list[Step]:
    """End the turn, unless a call waits for the client; the turn then continues in another stream."""
    end = ResponseEnd(turn="ends_unless_call_pending")
    return [ChunkEnd(), end, *_usage_steps(chunk), TurnEnd(mode="if_over")]


def _usage_steps(chunk: Record) -> list[Step]:
    usage = _metadata_usage(chunk.get("messageMetadata"))
    return [] if usage is None else [usage_step(usage, "message")]


_KINDS: Mapping[str, Literal["text", "thinking"]] = {"reasoning": "thinking", "text": "text"}


def _text_chunk(chunk: Record, text: str = "", *, begins: bool = False) -> Chunk:
    name = chunk["type"].partition("-")[0]
    slot = f"{name}/{chunk['id']}"
    return Chunk(_KINDS[name], text, slot, fields=_signature_fields(chunk), anonymous_slot=begins)


def _begin_text(chunk: Record) -> list[Step]:
    return [_text_chunk(chunk, begins=True)]


def _continue_text(chunk: Record) -> list[Step]:
    return [_text_chunk(chunk, chunk["delta"])]


def _end_text(chunk: Record) -> list[Step]:
    last = _text_chunk(chunk)
    return [last, ChunkEnd(last.slot)]


def _signature_fields(chunk: Record) -> Block:
    if not chunk["type"].startswith("reasoning"):
        return {}
    thinking = _translate_reasoning({"text": "", **pick(chunk, "providerMetadata")})
    return pick(thinking, "signature", "redacted")


def _call_slot(chunk: Record) -> str:
    return f"tool/{chunk['toolCallId']}"


def _begin_call(chunk: Record) -> list[Step]:
    executor = {"executor": "server"} if chunk.get("providerExecuted") is True else {}
    id, name = chunk["toolCallId"], chunk["toolName"]
    return [Chunk("input", "", _call_slot(chunk), call={"id": id, "name": name}, fields=executor)]


def _continue_call(chunk: Record) -> list[Step]:
    return [Chunk("input", chunk["inputTextDelta"], _call_slot(chunk), call={"id": chunk["toolCallId"]})]


def _complete_call(chunk: Record, state: str = "input-available") -> list[Step]:
    """Return the steps of the complete call and, if its input is invalid, of the error, which may be repeated."""
    blocks = _translate_tool({**chunk, "type": "dynamic-tool", "state": state})
    call = Part(role="assistant", blocks=blocks[:1], slot=_call_slot(chunk))
    return [call, *(_result_step(result) for result in blocks[1:])]


def _complete_result(chunk: Record) -> list[Step]:
    if chunk.get("preliminary") is True:
        return []
    state = chunk["type"].removeprefix("tool-")
    return [_result_step(_result_block(chunk, _RESULT_FIELDS[state](chunk)))]


def _result_step(result: Block) -> Step:
    return Part(role="user", blocks=[result], relation="revision")


def _file_steps(chunk: Record) -> list[Step]:
    return [Part(role="assistant", blocks=[_translate_file(chunk)])]


def _chunk_type(*keys: str, steps: Callable[[Record], list[Step]] = lambda chunk: []) -> WireType:
    """Return the row of a chunk by its required keys, and the steps that follow from the chunk alone."""
    required = frozenset(keys)
    return WireType(
        chunk_record,
        steps=lambda chunk, parsed: steps(chunk),
        matches=lambda chunk: chunk.keys() >= required if required else chunk.keys() <= _OPTIONAL_KEYS,
    )


_OPTIONAL_KEYS = frozenset({"type", "messageId", "messageMetadata", "finishReason", "reason"})
"""All allowed keys of chunk types that have no required keys."""

TYPES: Mapping[str, WireType] = {
    "abort": _chunk_type(steps=lambda chunk: [TurnEnd("user_cancel")]),
    "custom": _chunk_type("kind"),
    "error": _chunk_type(
        "errorText", steps=lambda chunk: [Emit("error", message_error("error", chunk["errorText"]))]
    ),
    "file": _chunk_type("url", "mediaType", steps=_file_steps),
    "finish": _chunk_type(steps=_end_response),
    "finish-step": _chunk_type(steps=lambda chunk: [ChunkEnd()]),
    "message-metadata": _chunk_type("messageMetadata", steps=_usage_steps),
    "reasoning-delta": _chunk_type("id", "delta", steps=_continue_text),
    "reasoning-end": _chunk_type("id", steps=_end_text),
    "reasoning-file": _chunk_type("url", "mediaType", steps=_file_steps),
    "reasoning-start": _chunk_type("id", steps=_begin_text),
    "reset-step": _chunk_type(
        steps=lambda chunk: [ChunkEnd(fields={"partial": True}), ResponseEnd(turn="restarts")]
    ),
    "source-document": _chunk_type("sourceId", "mediaType"),
    "source-url": _chunk_type("sourceId", "url"),
    "start": _chunk_type(
        steps=lambda chunk: [ResponseStart(text_at(chunk, "messageId")), *_usage_steps(chunk)]
    ),
    "start-step": _chunk_type(),
    "text-delta": _chunk_type("id", "delta", steps=_continue_text),
    "text-end": _chunk_type("id", steps=_end_text),
    "text-start": _chunk_type("id", steps=_begin_text),
    "tool-approval-request": _chunk_type("approvalId"),
    "tool-approval-response": _chunk_type("approvalId"),
    "tool-input-available": _chunk_type("toolCallId", "input", steps=_complete_call),
    "tool-input-delta": _chunk_type("toolCallId", "inputTextDelta", steps=_continue_call),
    "tool-input-error": _chunk_type(
        "toolCallId", "errorText", steps=lambda chunk: _complete_call(chunk, "output-error")
    ),
    "tool-input-start": _chunk_type("toolCallId", "toolName", steps=_begin_call),
    "tool-output-available": _chunk_type("toolCallId", "output", steps=_complete_result),
    "tool-output-denied": _chunk_type("toolCallId", steps=_complete_result),
    "tool-output-error": _chunk_type("toolCallId", "errorText", steps=_complete_result),
}
"""The chunks by `type`. Step boundaries, sources, application data and approvals have no steps."""
_DATA = _chunk_type("data")
_MESSAGE = WireType(_parse_message, _message_parts, matches=_is_message)
_BARE_PART = WireType(lambda record: ParsedRecord("record", "system", _parse_blocks(record)))


def _find_chunk_type(record: Record) -> WireType | None:
    name = record.get("type")
    if not isinstance(name, str):
        return None
    row = _DATA if name.startswith("data-") else TYPES.get(name)
    return row if row is not None and row.matches(record) else None


def wire_type(record: Record) -> WireType:
    if "parts" in record and "role" in record:
        return _MESSAGE
    return _find_chunk_type(record) or _BARE_PART


def recognize(record: Record) -> WireType | None:
    if "parts" in record:
        return _MESSAGE if body_keys(record) == {"parts"} and _MESSAGE.matches(record) else None
    return _find_chunk_type(record) if record.keys().isdisjoint(_FOREIGN_KEYS) else None


_FOREIGN_KEYS = ENVELOPE_KEYS | {"customType", "file", "message", "parentId", "sequence_number", "severity"}
"""Keys of records in other formats that share types with the chunks."""


PROVIDER = Provider(
    source="vercel",
    recognize=recognize,
    marks=Marks(TYPES, typed_keys={"data"}, untyped_keys={"parts"}, body_keys={"parts"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
)
