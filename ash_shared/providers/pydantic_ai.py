"""Messages of Pydantic AI, the events of its runs, and the entries and records of its conversation stores.

Source: `pydantic-ai-slim` 2.68. A message is a `ModelRequest` or a `ModelResponse` as `ModelMessagesTypeAdapter` writes
it: `{"kind": "request", "parts": [{"part_kind": "user-prompt", …}], …}`. A stored conversation has an entry for each
message, `{"id": …, "parent_id": …, "message": …, "kind": "message"}`, and `ConversationRecord`s with its last entry.
An entry that Ash has copied from another conversation states that one in `copied_from`. The events of
`run_stream_events` have an `event_kind`; they contain each part in pieces and complete, and at the end all messages.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
)
from ash_shared.model.message import Identity, RecordHeader, Role
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
from ash_shared.records.fingerprints import DOCUMENT_KEYS, body_keys
from ash_shared.records.json_fields import (
    cost_at,
    count_at,
    first_count,
    input_at,
    is_one_of,
    items_at,
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
    Origin,
    ResponseEnd,
    ResponseStart,
    Step,
    TurnEnd,
    TurnState,
)


def _translated(part: Block, typed: Block, *consumed: str) -> Block:
    """Return `typed` with the remaining keys under `extra`."""
    return translated(_present(part), typed, consumed, part["part_kind" if "part_kind" in part else "kind"])


def _present(part: Block, *consumed: str) -> Block:
    """Return the keys besides the type and those that were consumed. Optional keys are written as null: left out."""
    used = {"kind", "part_kind", *consumed}
    return {key: value for key, value in part.items() if value is not None and key not in used}


# Items of a prompt, and files.


def _translate_text(item: Block) -> Block:
    return _translated(item, text_block(item["content"]), "content")


def _translate_image_url(item: Block) -> Block:
    return _translated(item, {"type": "image", "source": _url_source(item)}, "url", "media_type")


def _file_url_translation(class_name: str) -> Callable[[Block], Block]:
    def parse(item: Block) -> Block:
        mime_type = text_at(item, "media_type")
        mime = {} if mime_type is None else {"mimeType": mime_type}
        typed = {"type": "file", **mime, "source": _url_source(item), "mediaClass": class_name}
        return _translated(item, typed, "url", "media_type")

    return parse


def _url_source(item: Block) -> Block:
    return {**url_source(item["url"]), **_declared_type(item)}


def _declared_type(item: Block) -> Block:
    mime_type = text_at(item, "media_type")
    return {} if mime_type is None else {"media_type": mime_type}


def _translate_binary(item: Block) -> Block:
    source = {"type": "base64", "media_type": item["media_type"], "data": item["data"]}
    return _translated(item, _with_media_class(item["media_type"], source), "data", "media_type")


def _translate_uploaded_file(item: Block) -> Block:
    source = {"type": "file", **_declared_type(item), "file_id": item["file_id"]}
    return _translated(item, _with_media_class(text_at(item, "media_type"), source), "file_id", "media_type")


def _with_media_class(mime_type: str | None, source: Block) -> Block:
    """Return the block of a source: an image, or a file."""
    if mime_type is not None and mime_type.startswith("image/"):
        return {"type": "image", "source": source}
    return {"type": "file", **mime_fields(mime_type), "source": source}


_FILES: Mapping[str, Callable[[Block], Block]] = {
    "audio-url": _file_url_translation("audio"),
    "binary": _translate_binary,
    "document-url": _file_url_translation("document"),
    "image-url": _translate_image_url,
    "uploaded-file": _translate_uploaded_file,
    "video-url": _file_url_translation("video"),
}
"""Files in prompts, in results of tools and in answers, by `kind`."""
_ITEMS: Mapping[str, Callable[[Block], Block]] = {
    **_FILES,
    "cache-point": lambda item: raw_block("control", item, "cache-point"),
    "structured-content": _translate_text,
    "text-content": _translate_text,
}
"""Items of a prompt, by `kind`."""


def _parse_item(item: Any) -> Block:
    if isinstance(item, str):
        return text_block(item)
    kind = text_at(item, "kind")
    if kind is None or kind not in _ITEMS:
        return raw_block("unknown_type", item, kind)
    return translate(kind, item, _ITEMS[kind])[0]


def _translate_file(part: Block) -> Block:
    """Translate a file that the model created."""
    file = {**_translate_binary(part["content"]), "source_type": part["part_kind"]}
    return with_extra(file, _present(part, "content"))


# Parts of a request.


def _translate_prompt(part: Block) -> Block | list[Block]:
    content = part["content"]
    if isinstance(content, str):
        return _translated(part, text_block(content), "content")
    if not isinstance(content, list):
        raise TypeError
    blocks = bounded([_parse_item(item) for item in content])
    return [with_extra(blocks[0], _present(part, "content")), *blocks[1:]] if blocks else []


def _translate_return(part: Block) -> Block:
    outcome = {"is_error": part["outcome"] != "success"} if "outcome" in part else {}
    return _result_block(part, outcome)


def _result_block(part: Block, more: Block) -> Block:
    typed = {"type": "tool_result", **renamed(part, tool_use_id="tool_call_id"), **_output(part["content"])}
    return _translated(part, typed | more, "tool_call_id", "content")


def _output(content: Any) -> Block:
    """Return the fields of a tool's output: a text, files with other values, or any JSON."""
    if content is None:
        return {}
    if isinstance(content, str):
        return {"content": content}
    items = content if isinstance(content, list) else [content]
    if not any(is_one_of(value_at(item, "kind"), _FILES) for item in items):
        return {"structured": content}
    return {"content": bounded([_parse_output_item(item) for item in items])}


def _parse_output_item(item: Any) -> Block:
    is_known = isinstance(item, str) or is_one_of(value_at(item, "kind"), _FILES)
    return _parse_item(item) if is_known else raw_block("control", item)


def _translate_retry(part: Block) -> Block:
    """Translate an error of the model: as the result of its call, or as a notice about its output."""
    if part.get("tool_name") is not None:
        return _result_block(part, {"is_error": True})
    content = part["content"]
    if isinstance(content, str):
        return _translated(part, text_block(content, "notice"), "content")
    text = "\n".join(error["msg"] for error in content)
    return _translated(part, text_block(text, "notice"))


def _translate_instruction_change(part: Block) -> Block:
    """Translate a new instruction; an instruction that was withdrawn has no content."""
    return _control(part) if part["content"] is None else _translate_text(part)


def _translate_compaction(part: Block) -> Block:
    """Translate a summary, which is encrypted for the vendor if it has no content."""
    if part["content"] is None:
        return raw_block("opaque", part, part["part_kind"])
    return _translated(part, text_block(part["content"], "summary"), "content")


def _translate_speech(part: Block) -> Block:
    audio = part["audio"]
    if audio is None:
        return _translated(part, text_block(part["transcript"] or "", "transcript"), "transcript")
    file = _translate_binary(audio)
    transcript = {} if part["transcript"] is None else pick(part, "transcript")
    typed = {**pick(file, "type", "mimeType", "mediaClass", "source"), **transcript}
    return with_extra(_translated(part, typed, "audio", "transcript"), file.get("extra") or {})


def _control(part: Block) -> Block:
    return raw_block("control", part, part["part_kind"])


# Parts of a response.


def _translate_answer(part: Block) -> Block:
    citations = {} if part.get("citations") is None else pick(part, "citations")
    return _translated(part, text_block(part["content"]) | citations, "content", "citations")


def _translate_thinking(part: Block) -> Block:
    if part.get("id") == "redacted_thinking":
        typed = {"type": "thinking", "thinking": part["content"], "redacted": True, "data": part["signature"]}
    else:
        signature = {} if part.get("signature") is None else pick(part, "signature")
        typed = {"type": "thinking", "thinking": part["content"], **signature}
    return _translated(part, typed, "content", "signature")


def _translate_call(part: Block) -> Block:
    arguments, consumed = input_at(part, "args")
    typed = {"type": "tool_use", **renamed(part, id="tool_call_id", name="tool_name"), "input": arguments}
    return _translated(part, typed, "tool_call_id", "tool_name", *consumed)


def _translate_vendor_call(part: Block) -> Block:
    """Translate the call of a tool that the vendor of the model runs."""
    tool, _, server = part["tool_name"].partition(":")
    if tool == "mcp_server":
        return {**_translate_call(part), "executor": "mcp", "server_name": server}
    return {**_translate_call(part), "executor": "server"}


_TRANSLATIONS: Mapping[str, Callable[[Block], Block | list[Block]]] = {
    "builtin-tool-call": _translate_vendor_call,
    "builtin-tool-return": _translate_return,
    "capability-load-delta": _control,
    "compaction": _translate_compaction,
    "file": _translate_file,
    "instruction-baseline": _control,
    "instruction-delta": _translate_instruction_change,
    "model-settings-delta": _control,
    "retry-feedback": _translate_retry,
    "retry-prompt": _translate_retry,
    "speech": _translate_speech,
    "system-prompt": _translate_text,
    "text": _translate_answer,
    "thinking": _translate_thinking,
    "tool-availability-delta": _control,
    "tool-call": _translate_call,
    "tool-return": _translate_return,
    "user-prompt": _translate_prompt,
}
"""Translations of parts by `part_kind`."""


def _parse_part(part: Any) -> list[Block]:
    kind = text_at(part, "part_kind")
    if kind is None or kind not in _TRANSLATIONS:
        return [raw_block("unknown_type", part, kind)]
    return translate(kind, part, _TRANSLATIONS[kind])


def parse_block(block: Any) -> Block:
    """Parse one part, or one item of a prompt. If it translates to several blocks, it becomes a `raw` block instead."""
    if is_native(block):
        return block
    if text_at(block, "part_kind") is None:
        return _parse_item(block)
    blocks = _parse_part(block)
    return blocks[0] if len(blocks) == 1 else _control(block)


# Messages.


class _Section(NamedTuple):
    """The parts of a request that belong to one message."""

    role: Role
    origin: Origin
    blocks: list[Block]


_OF_USER = frozenset({"retry-feedback", "retry-prompt", "speech", "tool-return", "user-prompt"})
_OF_PROGRAM = frozenset({"retry-feedback", "retry-prompt"})
"""Parts that the program wrote in the user's name."""


def _message_of(record: Record) -> Any:
    """Return the message of an entry, or the record itself."""
    return record.get("message") if "parent_id" in record else record


def _sections(message: Record) -> list[_Section]:
    """Return the parts of a request, joined as long as they have one role and origin."""
    parts = _parts_of(message)
    has_results = any(text_at(part, "part_kind") == "tool-return" for part in parts)
    sections: list[_Section] = []
    for part in parts:
        blocks = _parse_part(part)
        section = _Section(_role_of(part, blocks), _origin_of(part, has_results=has_results), blocks)
        if sections and sections[-1][:2] == section[:2]:
            section = section._replace(blocks=sections.pop().blocks + blocks)
        sections.append(section)
    return sections


def _parts_of(message: Record) -> list[Any]:
    parts = message["parts"]
    if not isinstance(parts, list):
        raise TypeError
    return bounded(parts)


def _role_of(part: Any, blocks: list[Block]) -> Role:
    if not is_one_of(value_at(part, "part_kind"), _OF_USER):
        return "system"
    return "tool" if blocks and blocks[0]["type"] == "tool_result" else "user"


def _origin_of(part: Any, *, has_results: bool) -> Origin:
    """Return the origin of a part. Files that a tool returned come as a prompt after its result."""
    kind = text_at(part, "part_kind")
    items = items_at(part, "content") if has_results and kind == "user-prompt" else ()
    has_files = any(isinstance(item, dict) for item in items)
    return "synthetic" if has_files or kind in _OF_PROGRAM else "prompt"


def _parse_request(record: Record) -> ParsedRecord:
    sections = _sections(_message_of(record))
    roles = {section.role for section in sections}
    role: Role = roles.pop() if len(roles) == 1 else "user"
    return ParsedRecord("message", role, bounded([block for each in sections for block in each.blocks]))


def _parse_response(record: Record) -> ParsedRecord:
    parts = _parts_of(_message_of(record))
    return ParsedRecord(
        "message", "assistant", bounded([block for part in parts for block in _parse_part(part)])
    )


def _request_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    message = _message_of(record)
    metadata = {"instructions": text_at(message, "instructions")}
    sections = _sections(message)
    parts = [
        Part(role=speaker_of_role(each.role), blocks=each.blocks, origin=each.origin, metadata=metadata)
        for each in sections
        if each.blocks
    ]
    is_prompt = any((each.role, each.origin) == ("user", "prompt") for each in sections)
    return [*_place_parts(record, is_prompt=is_prompt), *parts]


def _place_parts(record: Record, *, is_prompt: bool) -> list[Part]:
    """Return the place of an entry in its conversation.

    A prompt or an answer replaces an earlier one after the same entry.
    """
    if "parent_id" not in record:
        return []
    parent = text_at(record, "parent_id")
    if parent is None:
        return [Part(role=None, relation="root", origin="prompt" if is_prompt else "synthetic")]
    return [Part(role=None, key=parent, relation="branch")] if is_prompt else []


def _response_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    message = _message_of(record)
    is_copy = "copied_from" in record and record is not message
    answer = Part(
        role="assistant",
        blocks=parsed.blocks,
        usage=None if is_copy else _standard_usage(message),
        cost=None if is_copy else _cost(value_at(message, "usage", "cost")),
        message_id=text_at(message, "provider_response_id"),
        metadata={"model": text_at(message, "model_name"), "stop_reason": text_at(message, "finish_reason")},
        error=_standard_error(message),
    )
    return [*_place_parts(record, is_prompt=True), answer]


def _standard_usage(message: Record) -> Block | None:
    """Return the usage. The input count includes cached tokens; before version 1, keys had other names."""
    usage = message.get("usage")
    if count_at(usage, "unmeasured_requests"):
        return None
    cache_read, cache_written = count_at(usage, "cache_read_tokens"), count_at(usage, "cache_write_tokens")
    reasoning = (count_at(usage, "output_reasoning_tokens"), count_at(usage, "details", "reasoning_tokens"))
    return token_usage(
        usage,
        input=subtract_counts(
            first_count(usage, "input_tokens", "request_tokens"), cache_read, cache_written
        ),
        output=first_count(usage, "output_tokens", "response_tokens"),
        cache_read=cache_read,
        cache_creation=cache_written,
        reasoning=max(filter(None, reasoning), default=None),
    )


def _cost(cost: Any) -> float | None:
    """Return the cost in US dollars, a decimal number as text."""
    try:
        amount = float(cost) if isinstance(cost, str) else cost
    except ValueError:
        return None
    return cost_at({"cost": amount}, "cost")


_ERRORS = ("content_filter", "error")


def _standard_error(message: Record) -> Block | None:
    reason = text_at(message, "finish_reason")
    return message_error(reason, None, message.get("provider_details")) if reason in _ERRORS else None


_TURNS: Mapping[str, TurnState] = {
    "incomplete": "ends_incomplete",
    "interrupted": "ends_incomplete",
    "suspended": "continues",
}
"""Effects of a response on its turn, by `state`. A complete one ends it, unless the program has to call tools."""


def _response_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    state = text_at(_message_of(record), "state")
    end = ResponseEnd(turn=_TURNS.get(state or "", "ends_unless_call_pending"))
    return [ResponseStart(None), *_response_parts(record, parsed), ChunkEnd(), end, TurnEnd(mode="if_over")]


# Events of a run.


def _begin_part(record: Record, parsed: ParsedRecord) -> list[Step]:
    part, slot = record["part"], str(record["index"])
    begin = [] if record["index"] else [ResponseStart(None)]
    kind = part["part_kind"]
    if kind == "tool-call":
        call = {"id": part["tool_call_id"], "name": part["tool_name"]}
        arguments = part["args"]
        more = {"input": arguments} if isinstance(arguments, dict) else {}
        return [*begin, Chunk("input", _text_of(arguments), slot, call=call | more)]
    if kind in ("text", "thinking"):
        return [*begin, Chunk(kind, part["content"], slot)]
    return [*begin]


def _continue_part(record: Record, parsed: ParsedRecord) -> list[Step]:
    delta, slot = record["delta"], str(record["index"])
    kind = delta["part_delta_kind"]
    if kind == "tool_call":
        return [Chunk("input", _text_of(delta["args_delta"]), slot)]
    if kind in ("text", "thinking"):
        return [Chunk(kind, _text_of(delta["content_delta"]), slot)]
    return []


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parse_part_end(record: Record) -> ParsedRecord:
    return ParsedRecord("message", "assistant", _parse_part(record["part"]))


def _part_end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    slot = str(record["index"])
    return [Part(role="assistant", blocks=parsed.blocks, relation="continuation", slot=slot)]


def _part_end_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    is_last = record.get("next_part_kind") is None
    return [*_part_end_parts(record, parsed), *([ResponseEnd()] if is_last else [])]


def _parse_event_result(record: Record) -> ParsedRecord:
    """Parse the result of a tool, and the prompt that the tool added to it."""
    added = [] if record.get("content") is None else _parse_part(_prompt_part(record["content"]))
    return ParsedRecord("message", "tool", bounded([*_parse_part(record["part"]), *added]))


def _prompt_part(content: Any) -> Block:
    return {"part_kind": "user-prompt", "content": content}


def _event_result_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role="user", blocks=parsed.blocks, origin="synthetic")]


def _run_end_parts(record: Record, parsed: ParsedRecord) -> list[Part]:
    return [Part(role=None, relation="turn_end", usage=_standard_usage(record["result"]))]


def _run_end_steps(record: Record, parsed: ParsedRecord) -> list[Step]:
    return [ChunkEnd(), *_run_end_parts(record, parsed)]


def _event(record: Record) -> ParsedRecord:
    return control_record(record, text_at(record, "event_kind"))


def _piece(record: Record) -> ParsedRecord:
    return chunk_record(record, text_at(record, "event_kind"))


_RESULT = WireType(_parse_event_result, _event_result_parts)
_EVENTS: Mapping[str, tuple[str, WireType]] = {
    "agent_run_result": ("result", WireType(_event, _run_end_parts, _run_end_steps)),
    "deferred_tool_requests": ("requests", WireType(_event)),
    "deferred_tool_results": ("results", WireType(_event)),
    "final_result": ("tool_name", WireType(_event)),
    "function_tool_call": ("part", WireType(_event)),
    "function_tool_result": ("part", _RESULT),
    "output_tool_call": ("part", WireType(_event)),
    "output_tool_result": ("part", _RESULT),
    "part_delta": ("delta", WireType(_piece, steps=_continue_part)),
    "part_end": ("part", WireType(_parse_part_end, _part_end_parts, _part_end_steps)),
    "part_start": ("part", WireType(_piece, steps=_begin_part)),
}
"""Events by `event_kind`, with a key that they all have. A call is repeated when it runs."""
_UNKNOWN_EVENT = WireType(lambda record: unknown_record(record, text_at(record, "event_kind")))


def _event_type(record: Record) -> WireType:
    _, row = _EVENTS.get(text_at(record, "event_kind") or "", ("", _UNKNOWN_EVENT))
    return row


def _is_event(record: Record) -> bool:
    key, _ = _EVENTS.get(text_at(record, "event_kind") or "", ("", _UNKNOWN_EVENT))
    is_foreign = not (body_keys(record) <= {key} and _NOT_EVENT_KEYS.isdisjoint(record))
    return key in record and not isinstance(record[key], list) and not is_foreign


_NOT_EVENT_KEYS = DOCUMENT_KEYS | {"kind", "message", "role"}
"""Keys of other records."""


# Records.

TYPES: Mapping[str, WireType] = {
    "request": WireType(_parse_request, _request_parts),
    "response": WireType(_parse_response, _response_parts, _response_steps),
}
"""Messages, also in an entry, by `kind`."""
_RECORD = WireType(lambda record: control_record(record, "conversation"))
_UNKNOWN = WireType(lambda record: unknown_record(record, text_at(record, "kind")))

_RECORD_KEYS = frozenset({"conversation_id", "format_version", "head_id", "revision"})
_MESSAGE_KEYS = frozenset({"instructions", "run_id", "state", "usage"})
"""Every message has one."""


def _is_conversation(record: Record) -> bool:
    return record.keys() >= _RECORD_KEYS


def wire_type(record: Record) -> WireType:
    if _is_conversation(record):
        return _RECORD
    if "event_kind" in record:
        return _event_type(record)
    return TYPES.get(text_at(_message_of(record), "kind") or "", _UNKNOWN)


def recognize(record: Record) -> WireType | None:
    if _is_conversation(record):
        return None if body_keys(record) or "event_kind" in record else _RECORD
    if "event_kind" in record:
        return _event_type(record) if _is_event(record) else None
    is_entry = record.get("kind") == "message" and "parent_id" in record and "id" in record
    message = record.get("message") if is_entry else record
    if not _is_message(message) or body_keys(record) - {"parts"}:
        return None
    return wire_type(record)


def _is_message(message: Any) -> bool:
    """Return True for an object with parts that have a `part_kind`."""
    if not isinstance(message, dict) or not is_one_of(message.get("kind"), TYPES) or "role" in message:
        return False
    parts = message.get("parts")
    if not isinstance(parts, list):
        return False
    return text_at(parts[0], "part_kind") is not None if parts else not _MESSAGE_KEYS.isdisjoint(message)


def header(record: Record) -> RecordHeader:
    if _is_conversation(record):
        return RecordHeader(session_id=text_at(record, "conversation_id"))
    if "event_kind" in record:
        time = to_milliseconds(value_at(record, "part", "timestamp"))
        return RecordHeader(timestamp=time, session_id=text_at(record, "result", "conversation_id"))
    message = _message_of(record)
    times = (
        value_at(message, "timestamp"),
        *(value_at(part, "timestamp") for part in items_at(message, "parts")),
    )
    return RecordHeader(
        uuid=text_at(record, "id") if "parent_id" in record else None,
        timestamp=next(filter(None, map(to_milliseconds, times)), None),
        session_id=None if "copied_from" in record else text_at(message, "conversation_id"),
        model=text_at(message, "model_name"),
    )


def identify(record: Record) -> Identity:
    """Return the names of a record. A fork has copies of the entries of its origin, with their ids."""
    if _is_conversation(record):
        session, origin = text_at(record, "conversation_id"), text_at(record, "forked_from")
        return Identity(session=session, origin=origin, body="")
    if "parent_id" not in record:
        return Identity(session=text_at(record, "conversation_id"))
    body = json.dumps(record.get("message"), sort_keys=True, default=str)
    return Identity(
        session=header(record).session_id,
        origin=text_at(record, "copied_from"),
        record=text_at(record, "id"),
        body=body,
    )


PROVIDER = Provider(
    source="pydantic_ai",
    recognize=recognize,
    marks=Marks(untyped_keys={"event_kind", "head_id", "kind"}, body_keys={"parts", "requests"}),
    wire_type=wire_type,
    parse_block=parse_block,
    header=header,
    identify=identify,
)
