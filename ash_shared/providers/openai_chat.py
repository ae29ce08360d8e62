"""OpenAI Chat Completions, and what gateways and other vendors write in its form.

Sources: the message, part and tool call unions of the `openai` package, and captured bodies of OpenAI, Azure,
OpenRouter, Groq, DeepSeek, Mistral, xAI, Cerebras and Gemini behind this form. The content of a message lies in several
keys beside each other: blocks come in the order reasoning, content, images, refusal, audio, calls. An object that a
part or a call holds under its own name (`image_url`, `function`) is read as if its keys were the part's own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ash_shared.blocks import (
    Block,
    bounded,
    is_native,
    is_valid,
    pick,
    raw_block,
    read_content,
    read_nested,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.message import Facts, Role
from ash_shared.providers import Part, Provider, Record, RecordReading, control, fragment, speaker, unknown
from ash_shared.providers._marks import bodies_of
from ash_shared.wire import (
    cost_at,
    count_at,
    error,
    first_text,
    input_at,
    items_of,
    less,
    milliseconds,
    mime_of,
    one_of,
    source_of,
    text_at,
    token_usage,
    value_at,
)

ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


def read_block(block: Any) -> Block:
    """One part of a content list. A `file` of OpenAI holds its file under that name; Ash's own has no such key."""
    if block.__class__ is str:
        return text_block(block)
    wire = block.get("type") if block.__class__ is dict else None
    if wire == "file" and "file" in block:
        return translate(wire, block, _file)[0]
    if is_native(block):
        return block
    if wire.__class__ is not str:
        return raw_block("unknown_type", block)
    if wire == "reference":
        return raw_block("control", block, wire)
    return translate(wire, block, _PARTS[wire])[0] if wire in _PARTS else _untranslated(wire, block)


def _untranslated(wire: str, block: Block) -> Block:
    if wire == "tool_result" and is_valid(block):
        return read_nested(block, read_block)
    return raw_block("malformed" if wire in _NATIVE else "unknown_type", block, wire)


def _opened(record: Record, name: str) -> Record:
    """The record with the keys of the object that it holds under `name` in that object's place; a key that both have
    stays inside."""
    inner = record[name]
    if inner.__class__ is not dict:
        raise TypeError
    rest = without(record, name)
    own, both = without(inner, *rest), pick(inner, *rest)
    return {**own, **rest, **({name: both} if both else {})}


def _link(part: Record, wire: str) -> tuple[Record, Any]:
    """A part that points somewhere, opened, with its address: some vendors write the address alone."""
    if part[wire].__class__ is str:
        return part, part[wire]
    return (opened := _opened(part, wire)), opened["url"]


def _image(part: Record) -> Block:
    opened, url = _link(part, "image_url")
    typed = {"type": "image", "source": source_of(url), **pick(opened, "detail")}
    return translated(
        opened, typed, ("image_url", "url", "detail") if opened is part else ("url", "detail"), "image_url"
    )


def _linked(wire: str, kind: str) -> Callable[[Record], Block]:
    """A file at an address."""

    def translation(part: Record) -> Block:
        opened, url = _link(part, wire)
        source = source_of(url)
        typed = {"type": "file", **mime_of(source.get("media_type")), "source": source, "mediaClass": kind}
        return translated(opened, typed, {wire} if opened is part else {"url"}, wire)

    return translation


def _audio(part: Record) -> Block:
    """A recording in base64; some vendors write it alone, without its format."""
    opened = {**part, "data": part["input_audio"]}
    if part["input_audio"].__class__ is str:
        del opened["input_audio"]
    else:
        opened = _opened(part, "input_audio")
    source = {"type": "base64", "data": opened["data"]}
    return translated(
        opened, {"type": "file", "source": source, "mediaClass": "audio"}, {"data"}, "input_audio"
    )


def _file(part: Record) -> Block:
    opened = _opened(part, "file")
    where = next((name for name in ("file_data", "file_id") if opened.get(name) is not None), None)
    source = _FILE_SOURCES[where](opened[where]) if where else {}
    typed = {
        "type": "file",
        **pick(opened, "filename"),
        **mime_of(source.get("media_type")),
        **({"source": source} if source else {}),
    }
    return translated(opened, typed, {"filename", where or "filename"}, "file")


def inline_source(data: str) -> Block:
    """Where the bytes of a file are: at an address, or here, with or without a `data:` before them."""
    return (
        source_of(data) if data.startswith(("data:", "http:", "https:")) else {"type": "base64", "data": data}
    )


_FILE_SOURCES: Mapping[str, Callable[[Any], Block]] = {
    "file_data": inline_source,
    "file_id": lambda file_id: {"type": "file", "file_id": file_id},
}


def _refusal(part: Record) -> Block:
    return translated(part, text_block(part["refusal"], "refusal"), {"refusal"}, "refusal")


def _thinking(part: Record) -> Block:
    """Mistral's reasoning: a list of parts; kept whole where joining their texts would lose something."""
    parts = part["thinking"]
    text = "".join(each["text"] for each in parts if each["type"] == "text")
    alone = parts == [{"type": "text", "text": text}] or not parts
    return translated(part, {"type": "thinking", "thinking": text}, {"thinking"} if alone else (), "thinking")


_PARTS: Mapping[str, Callable[[Record], Block]] = {
    "audio_url": _linked("audio_url", "audio"),
    "document_url": _linked("document_url", "document"),
    "image_url": _image,
    "input_audio": _audio,
    "refusal": _refusal,
    "thinking": _thinking,
    "video_url": _linked("video_url", "video"),
}
_NATIVE = frozenset({"text", "image", "tool_use", "tool_result", "file", "raw"})


def _read_content(content: Any) -> list[Block]:
    """The `content` of a message: a string, a list of parts, or null where what it says is in other keys."""
    return [] if content is None else read_content(content, read_block)


def read_message(message: Record) -> list[Block]:
    """The blocks of one message. Raises KeyError, TypeError or AttributeError where it is none."""
    role = message.get("role")
    if role in ("tool", "function"):
        return [_tool_result(message, role)]
    if role != "assistant":
        return _read_content(message["content"])
    annotations = message.get("annotations")
    said, cites = _cited(_read_content(message.get("content")), annotations)
    blocks = _reasoning(message) + said
    for name, translation in _BESIDE.items():
        if message.get(name) is not None:
            blocks += translation(message)
    return blocks if cites or not annotations else _annotated(blocks, annotations)


def _tool_result(message: Record, role: str) -> Block:
    content = message["content"]
    typed: Block = {"type": "tool_result"}
    if role == "function" or "tool_call_id" in message:
        typed["tool_use_id"] = message["tool_call_id"] if role == "tool" else None
    typed["content"] = _read_content(content) if content.__class__ is list else content
    return translated(
        message, typed, {"role", "content", "tool_call_id"} if role == "tool" else {"role", "content"}, role
    )


def _cited(blocks: list[Block], annotations: Any) -> tuple[list[Block], bool]:
    """The sources of an answer belong to its text, and whether it has one to which they could be given."""
    place = next((n for n, block in enumerate(blocks) if block["type"] == "text"), None)
    if place is None or annotations.__class__ is not list:
        return blocks, False
    return [*blocks[:place], {**blocks[place], "citations": annotations}, *blocks[place + 1 :]], True


def _annotated(blocks: list[Block], annotations: Any) -> list[Block]:
    """Sources that belong to no text stay beside the first block there is."""
    told = {"annotations": annotations}
    if not blocks:
        return [raw_block("control", told, "annotations")]
    return [with_extra(blocks[0], told), *blocks[1:]]


_REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def _reasoning(message: Record) -> list[Block]:
    """What gateways tell of reasoning: the same text under up to three names, of which one is read and the others
    stay beside it."""
    told = {name: message[name] for name in _REASONING if message.get(name) is not None}
    texts = {name: text for name, text in told.items() if text.__class__ is str}
    name = next((name for name in texts if texts[name]), None)
    if name is None and told.get("reasoning_details"):
        return [translated(told, _detailed(told["reasoning_details"]), (), "reasoning_details")]
    if name is None and not texts:
        other = {name: value for name, value in told.items() if value not in ([], {})}
        return [raw_block("malformed", other, next(iter(other)))] if other else []
    name = name or next(iter(texts))
    return [translated(told, {"type": "thinking", "thinking": texts[name]}, {name}, name)]


def _detailed(details: Any) -> Block:
    """Reasoning that is told in details alone, some or all of which may be encrypted."""
    texts = [text for detail in items_of(details) if (text := first_text(detail, ("text", "summary")))]
    data = next((data for detail in details if (data := text_at(detail, "data"))), None)
    withheld = {"redacted": True, "data": data} if data and not texts else {}
    return {"type": "thinking", "thinking": "\n\n".join(texts), **withheld}


def _spoken(message: Record) -> list[Block]:
    """An answer in speech: the recording, and what it says. A later request names it by its id alone."""
    audio = message["audio"]
    source = {"source": {"type": "base64", "data": audio["data"]}} if "data" in audio else {}
    typed = {"type": "file", **source, "mediaClass": "audio"}
    blocks = [translated(audio, typed, {"data", "transcript"}, "audio")]
    if audio.get("transcript") is not None:
        blocks.append({**text_block(audio["transcript"], "transcript"), "source_type": "audio"})
    return blocks


def _call(call: Any) -> list[Block]:
    wire = call.get("type") if call.__class__ is dict else None
    if wire is None:
        wire = next((name for name in _CALLS if call.__class__ is dict and name in call), None)
    if wire.__class__ is not str or wire not in _CALLS:
        return [raw_block("unknown_type", call, wire if wire.__class__ is str else None)]
    return translate(wire, call, _CALLS[wire])


def _function(call: Record) -> Block:
    opened = _opened(call, "function")
    return _called(opened, pick(opened, "id"), "function")


def _called(call: Record, link: Block, wire: str) -> Block:
    """A call whose arguments are JSON text."""
    given, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **link, "name": call["name"], "input": given}
    return translated(call, typed, ("id", "name", *consumed), wire)


def _custom(call: Record) -> Block:
    opened = _opened(call, "custom")
    typed = {"type": "tool_use", **pick(opened, "id"), "name": opened["name"], "input": opened["input"]}
    return translated(opened, typed, {"id", "name", "input"}, "custom")


_CALLS: Mapping[str, Callable[[Record], Block]] = {"function": _function, "custom": _custom}

_BESIDE: Mapping[str, Callable[[Record], list[Block]]] = {
    "images": lambda message: _read_content(message["images"]),
    "refusal": lambda message: [_refusal({"refusal": message["refusal"]})],
    "audio": _spoken,
    "tool_calls": lambda message: [
        block for call in items_of(message["tool_calls"]) for block in _call(call)
    ],
    "function_call": lambda message: translate(
        "function_call", message["function_call"], lambda call: _called(call, {"id": None}, "function_call")
    ),
}
"""What an assistant's message holds beside its content, in the order in which it is read."""


def _message_blocks(message: Any) -> list[Block]:
    """The blocks of a message among others: one that cannot be read costs only itself."""
    role = message.get("role") if message.__class__ is dict else None
    return translate(role if role.__class__ is str else "message", message, read_message)


def _read_request(record: Record) -> RecordReading:
    blocks = [block for message in items_of(record["messages"]) for block in _message_blocks(message)]
    return RecordReading("message", "user", bounded(blocks))


def _read_completion(record: Record) -> RecordReading:
    if _is_chunk(record):
        return fragment(record, _object(record))
    blocks = [block for choice in items_of(record["choices"]) for block in _choice_blocks(choice)]
    return RecordReading("message", "assistant", bounded(blocks))


def _object(record: Record) -> str | None:
    return text_at(record, "object")


def _is_chunk(record: Record) -> bool:
    """Whether these choices are a piece of an answer. Azure's first piece has neither choices nor an `object`."""
    choices = record["choices"]
    if not choices:
        return _object(record) not in ("chat.completion", "text_completion")
    return all(choice.__class__ is dict and "delta" in choice for choice in choices)


def _choice_blocks(choice: Record) -> list[Block]:
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
    if one_of(record.get("role"), ROLES):
        return _read_message_record(record)
    if one_of(record.get("type"), _PARTS) or ("file" in record and record.get("type") == "file"):
        return _read_bare_part(record)
    if _is_transcription(record):
        return _read_transcription(record)
    return _read_beside(record)


def _read_beside(record: Record) -> RecordReading:
    """An error, or a record of another format."""
    if record.get("error") is not None:
        return control(record, "error")
    return unknown(record, text_at(record, "type"))


# Recognition. A message that has nothing but a role and a text could be of several formats; it is claimed here only
# with a role, a key or a part that others do not write.

_OWN_ROLES = frozenset({"developer", "function", "tool"})
_OWN_KEYS = frozenset(
    {
        "annotations",
        "audio",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_call_id",
        "tool_calls",
    }
)
_FOREIGN_KEYS = frozenset({"kwargs", "lc", "message", "parts", "payload", "stopReason", "toolCalls"})
_ANTHROPIC_KEYS = frozenset(
    {
        "anthropic_version",
        "betas",
        "container",
        "context_management",
        "mcp_servers",
        "output_config",
        "system",
        "thinking",
    }
)
_ANTHROPIC_PARTS = frozenset(
    {"document", "image", "redacted_thinking", "search_result", "server_tool_use", "tool_result", "tool_use"}
)
_REQUEST_KEYS = frozenset(
    {
        "frequency_penalty",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "modalities",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "prediction",
        "reasoning_effort",
        "response_format",
        "seed",
        "stream_options",
        "web_search_options",
    }
)
_RESPONSES_PARTS = frozenset(
    {"computer_screenshot", "input_file", "input_image", "input_text", "output_text"}
)
_PART_TYPES = frozenset(_PARTS) | _ANTHROPIC_PARTS | {"file", "reference", "text"}


def _types_of(content: Any) -> Iterable[Any]:
    """The types of the parts in a content."""
    if content.__class__ is not list:
        return ()
    return (
        part.get("type") if part.__class__ is dict else None for part in content if part.__class__ is not str
    )


def _is_own_part(part: Any) -> bool:
    """Whether nobody else writes such a part."""
    if part.__class__ is not dict or not one_of(wire := part.get("type"), _PART_TYPES):
        return False
    return wire in part and (wire != "thinking" or part[wire].__class__ is list) and wire != "text"


def _could_be_message(message: Any) -> bool:
    return (
        message.__class__ is dict
        and one_of(message.get("role"), ROLES)
        and _FOREIGN_KEYS.isdisjoint(message)
        and message.get("type").__class__ is not str
        and (message.get("content") is None or message["content"].__class__ in (str, list))
    )


def _has_known_parts(message: Record) -> bool:
    return all(one_of(wire, _PART_TYPES) for wire in _types_of(message.get("content")))


def _is_marked(message: Record) -> bool:
    return (
        (message["role"] in _OWN_ROLES and _has_known_parts(message))
        or not _OWN_KEYS.isdisjoint(message)
        or (
            message.get("content").__class__ is list
            and any(map(_is_own_part, message["content"]))
            and not any(one_of(wire, _RESPONSES_PARTS) for wire in _types_of(message["content"]))
        )
    )


def _is_anthropic(record: Record) -> bool:
    return not _ANTHROPIC_KEYS.isdisjoint(record) or any(
        one_of(wire, _ANTHROPIC_PARTS)
        for message in record["messages"]
        for wire in _types_of(message.get("content"))
    )


def _is_request(record: Record) -> bool:
    """A body whose messages have marks, or the keys or tools of this API, or else a model that is not Anthropic's."""
    messages = record["messages"]
    if messages.__class__ is not list or not messages or record.get("type").__class__ is str:
        return False
    if not all(map(_could_be_message, messages)):
        return False
    if any(map(_is_marked, messages)):
        return True
    if _is_anthropic(record) or not all(map(_has_known_parts, messages)):
        return False
    return _has_request_marks(record) or _is_own_model(record.get("model"))


def _has_request_marks(record: Record) -> bool:
    tools = record.get("tools")
    return not _REQUEST_KEYS.isdisjoint(record) or (
        tools.__class__ is list and any(value_at(tool, "function") is not None for tool in tools)
    )


def _is_own_model(model: Any) -> bool:
    """Gateways of this form name a model with its vendor: `anthropic/claude-…`."""
    return model.__class__ is str and ("claude" not in model or "/" in model)


def _is_completion(record: Record) -> bool:
    choices = record["choices"]
    if choices.__class__ is not list:
        return False
    if not choices:
        return "object" in record or "model" in record
    return all(
        choice.__class__ is dict and ("delta" in choice or "message" in choice or "text" in choice)
        for choice in choices
    )


def _is_transcription(record: Record) -> bool:
    """An answer of the transcription API, in its verbose form."""
    return (
        record.get("text").__class__ is str
        and record.get("segments").__class__ is list
        and "language" in record
    )


def _is_error(told: Any) -> bool:
    """An error body of this API or of a gateway; Gemini's has a `status`, Anthropic's has a `type` around it."""
    return (
        told.__class__ is dict
        and told.get("message").__class__ is str
        and "status" not in told
        and ("code" in told or "param" in told)
    )


def recognizes(record: Record) -> bool:
    """Whether a record is of this format."""
    bodies = bodies_of(record)
    if "choices" in bodies:
        return bodies <= _COMPLETION_BODIES and _is_completion(record)
    return bodies in _RECOGNIZED and _RECOGNIZED[bodies](record)


_COMPLETION_BODIES = frozenset({"choices", "error", "object", "stats"})


def _is_bare_part(record: Record) -> bool:
    return (
        "role" not in record and not one_of(record["type"], ("refusal", "thinking")) and _is_own_part(record)
    )


def _is_lone(record: Record) -> bool:
    """A message, or what a recording says."""
    if "role" in record:
        return _could_be_message(record) and _is_marked(record)
    return "segments" in record and _is_transcription(record)


_RECOGNIZED: Mapping[frozenset[str], Callable[[Record], bool]] = {
    frozenset(): _is_lone,
    frozenset({"error"}): lambda record: (
        "id" not in record and "jsonrpc" not in record and _is_error(record["error"])
    ),
    frozenset({"messages"}): _is_request,
    frozenset({"type"}): _is_bare_part,
}
"""By the keys that say what a record is."""


def facts(record: Record) -> Facts:
    """An answer tells when it was made, and by which model; its pieces share one id."""
    return Facts(timestamp=milliseconds(record.get("created")), model=text_at(record, "model"))


# Standard messages.


def _usage(record: Record) -> Block | None:
    """Prompt tokens hold those of the cache. Some vendors count reasoning in the total alone."""
    usage = record.get("usage")
    prompt, completion = count_at(usage, "prompt_tokens"), count_at(usage, "completion_tokens")
    hit = count_at(usage, "prompt_cache_hit_tokens")
    read = count_at(usage, "prompt_tokens_details", "cached_tokens")
    written = count_at(usage, "prompt_tokens_details", "cache_write_tokens")
    read = hit if read is None else read
    beside = less(count_at(usage, "total_tokens"), prompt)
    return token_usage(
        usage,
        input=less(prompt, read, written),
        output=completion if completion is None or beside is None else max(completion, beside),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "completion_tokens_details", "reasoning_tokens"),
        service_tier=text_at(record, "service_tier"),
    )


def error_of(told: Any) -> Block | None:
    """The keys of a `MessageError`: a gateway's code may be the number of an HTTP status."""
    if told.__class__ is str and told:
        return error("error", told)
    if told.__class__ is not dict:
        return None
    number = told.get("code")
    code = first_text(told, ("code", "type")) or (str(number) if number.__class__ is int else "error")
    return error(code, text_at(told, "message"), told)


def _is_refused(blocks: list[Block]) -> bool:
    return any(block.get("variant") == "refusal" for block in blocks)


def _message_part(message: Any, blocks: list[Block]) -> Part:
    named = value_at(message, "role")
    role = ROLES.get(named, "user") if named.__class__ is str else "user"
    refused = "refusal" if _is_refused(blocks) else None
    return Part(role=speaker(role), blocks=blocks, metadata={"stop_reason": refused})


def _completion_part(record: Record) -> Part:
    """The first answer; others stay in the record."""
    choice = next(iter(record["choices"]), None)
    blocks = _choice_blocks(choice) if choice else []
    first = [block for block in blocks if "choice_index" not in (block.get("extra") or {})]
    return Part(
        role="assistant",
        blocks=first or blocks,
        key=text_at(record, "id"),
        usage=_usage(record),
        metadata={
            "messageId": text_at(record, "id"),
            "model": text_at(record, "model"),
            "stop_reason": "refusal" if _is_refused(blocks) else text_at(choice, "finish_reason"),
            "costUsd": cost_at(record, "usage", "cost"),
        },
        error=error_of(record.get("error") or value_at(choice, "error")),
    )


def _chunk_parts(record: Record) -> list[Part]:
    """A piece of an answer adds nothing to the messages, unless it tells that the answer failed."""
    failure = error_of(record.get("error"))
    return [Part(role="assistant", key=text_at(record, "id"), error=failure)] if failure else []


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """One part for each message of a request, and one for an answer."""
    if reading.kind == "chunk":
        return _chunk_parts(record)
    if "choices" in record:
        return [_completion_part(record)]
    if "messages" in record:
        messages = items_of(record["messages"])
        return [replace(_message_part(each, _message_blocks(each)), original=each) for each in messages]
    if reading.kind == "message":
        message = record if one_of(record.get("role"), ROLES) else {"role": reading.role}
        return [_message_part(message, reading.blocks)]
    failure = error_of(record.get("error"))
    return [Part(role="assistant", error=failure)] if failure else []


PROVIDER = Provider(
    source="openai_chat",
    recognizes=recognizes,
    marks=_PART_TYPES | {"choices", "error", "messages", "role", "segments"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
)
