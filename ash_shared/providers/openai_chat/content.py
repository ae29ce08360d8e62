"""The blocks of Chat Completions messages.

A message keeps its content under several keys; blocks are returned in the order reasoning, content, images,
refusal, audio, calls. A part or call may contain an object under its type name (`image_url`, `function`); the keys
of that object are moved up into the part or call.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    is_native,
    is_valid,
    parse_content,
    parse_nested,
    pick,
    raw_block,
    refusal_block,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Role
from ash_shared.records.contract import Record
from ash_shared.records.json_fields import (
    first_text,
    input_at,
    list_or_empty,
    mime_fields,
    text_at,
    url_source,
)

ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


def parse_block(block: Any) -> Block:
    """Parse one part of a content list. An OpenAI `file` part has a `file` key; Ash's own file block does not."""
    if isinstance(block, str):
        return text_block(block)
    wire_type = block.get("type") if isinstance(block, dict) else None
    if wire_type == "file" and "file" in block:
        return translate(wire_type, block, _translate_file)[0]
    if is_native(block):
        return block
    if not isinstance(wire_type, str):
        return raw_block("unknown_type", block)
    if wire_type in PARTS:
        return translate(wire_type, block, PARTS[wire_type])[0]
    return _parse_untranslated(wire_type, block)


def _parse_untranslated(wire_type: str, block: Block) -> Block:
    if wire_type == "reference":
        return raw_block("control", block, wire_type)
    if wire_type == "tool_result" and is_valid(block):
        return parse_nested(block, parse_block)
    return raw_block("malformed" if wire_type in _NATIVE_TYPES else "unknown_type", block, wire_type)


def _flatten(record: Record, name: str) -> Record:
    """Return the record with the object under `name` flattened into it; keys that both have stay in the object."""
    inner = record[name]
    if not isinstance(inner, dict):
        raise TypeError
    rest = without(record, name)
    inner_only, shared = without(inner, *rest), pick(inner, *rest)
    return {**inner_only, **rest, **({name: shared} if shared else {})}


def _flatten_link(part: Record, wire_type: str) -> tuple[Record, Any]:
    """Return a part with a URL, flattened, and the URL. Some vendors write the bare URL instead of an object."""
    if isinstance(part[wire_type], str):
        return part, part[wire_type]
    return (flat := _flatten(part, wire_type)), flat["url"]


def _translate_image(part: Record) -> Block:
    flat, url = _flatten_link(part, "image_url")
    typed = {"type": "image", "source": url_source(url), **pick(flat, "detail")}
    consumed = ("image_url", "url", "detail") if flat is part else ("url", "detail")
    return translated(flat, typed, consumed, "image_url")


def _file_link_translation(wire_type: str, kind: str) -> Callable[[Record], Block]:

    def translation(part: Record) -> Block:
        flat, url = _flatten_link(part, wire_type)
        source = url_source(url)
        mime = mime_fields(source.get("media_type"))
        typed = {"type": "file", **mime, "source": source, "mediaClass": kind}
        return translated(flat, typed, {wire_type} if flat is part else {"url"}, wire_type)

    return translation


def _translate_audio(part: Record) -> Block:
    """Translate a recording in base64. Some vendors write it as a bare string without its format."""
    flat = {**part, "data": part["input_audio"]}
    if isinstance(part["input_audio"], str):
        del flat["input_audio"]
    else:
        flat = _flatten(part, "input_audio")
    source = {"type": "base64", "data": flat["data"]}
    typed = {"type": "file", "source": source, "mediaClass": "audio"}
    return translated(flat, typed, {"data"}, "input_audio")


def _translate_file(part: Record) -> Block:
    flat = _flatten(part, "file")
    source_key = next((name for name in ("file_data", "file_id") if flat.get(name) is not None), None)
    source = _FILE_SOURCES[source_key](flat[source_key]) if source_key else {}
    more = {"source": source} if source else {}
    typed = {"type": "file", **pick(flat, "filename"), **mime_fields(source.get("media_type")), **more}
    return translated(flat, typed, {"filename", source_key or "filename"}, "file")


def inline_source(data: str) -> Block:
    """Return the source of a file: a URL, or inline base64 with or without a `data:` prefix."""
    if data.startswith(("data:", "http:", "https:")):
        return url_source(data)
    return {"type": "base64", "data": data}


_FILE_SOURCES: Mapping[str, Callable[[Any], Block]] = {
    "file_data": inline_source,
    "file_id": lambda file_id: {"type": "file", "file_id": file_id},
}


def translate_thinking(part: Record) -> Block:
    """Translate Mistral's reasoning, a list of parts; the list is kept if joining its texts loses data."""
    parts = part["thinking"]
    text = "".join(inner["text"] for inner in parts if inner["type"] == "text")
    is_text_only = parts == [{"type": "text", "text": text}] or not parts
    typed = {"type": "thinking", "thinking": text}
    return translated(part, typed, {"thinking"} if is_text_only else (), "thinking")


PARTS: Mapping[str, Callable[[Record], Block]] = {
    "audio_url": _file_link_translation("audio_url", "audio"),
    "document_url": _file_link_translation("document_url", "document"),
    "image_url": _translate_image,
    "input_audio": _translate_audio,
    "refusal": refusal_block,
    "thinking": translate_thinking,
    "video_url": _file_link_translation("video_url", "video"),
}
_NATIVE_TYPES = frozenset({"text", "image", "tool_use", "tool_result", "file", "raw"})


def parse_parts(content: Any) -> list[Block]:
    """Parse the `content` of a message: a string, a list of parts, or null if the message uses other keys."""
    return [] if content is None else parse_content(content, parse_block)


def parse_message(message: Record) -> list[Block]:
    """Return the blocks of one message. Raises KeyError, TypeError or AttributeError if it is not a message."""
    role = message.get("role")
    if role in ("tool", "function"):
        return [_translate_tool_result(message, role)]
    if role != "assistant":
        return parse_parts(message["content"])
    annotations = message.get("annotations")
    content, has_citations = _with_citations(parse_parts(message.get("content")), annotations)
    blocks = _parse_reasoning(message) + content
    for name, translation in _ASSISTANT_KEYS.items():
        if message.get(name) is not None:
            blocks += translation(message)
    return blocks if has_citations or not annotations else _with_annotations(blocks, annotations)


def _translate_tool_result(message: Record, role: str) -> Block:
    content = message["content"]
    typed: Block = {"type": "tool_result"}
    if role == "function" or "tool_call_id" in message:
        typed["tool_use_id"] = message["tool_call_id"] if role == "tool" else None
    typed["content"] = parse_parts(content) if isinstance(content, list) else content
    consumed = {"role", "content"} | ({"tool_call_id"} if role == "tool" else set())
    return translated(message, typed, consumed, role)


def _with_citations(blocks: list[Block], annotations: Any) -> tuple[list[Block], bool]:
    """Add the citations of a response to its first text block. The second value is False if there is none."""
    index = next((position for position, block in enumerate(blocks) if block["type"] == "text"), None)
    if index is None or not isinstance(annotations, list):
        return blocks, False
    return [*blocks[:index], {**blocks[index], "citations": annotations}, *blocks[index + 1 :]], True


def _with_annotations(blocks: list[Block], annotations: Any) -> list[Block]:
    extra = {"annotations": annotations}
    if not blocks:
        return [raw_block("control", extra, "annotations")]
    return [with_extra(blocks[0], extra), *blocks[1:]]


REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def _parse_reasoning(message: Record) -> list[Block]:
    """Parse the reasoning, which gateways repeat under up to three names: the first text; the others go to `extra`."""
    present = {name: message[name] for name in REASONING if message.get(name) is not None}
    texts = {name: text for name, text in present.items() if isinstance(text, str)}
    name = next((name for name in texts if texts[name]), None)
    if name is None and present.get("reasoning_details"):
        block = reasoning_details_block(present["reasoning_details"])
        return [translated(present, block, (), "reasoning_details")]
    if name is None and not texts:
        non_empty = {name: value for name, value in present.items() if value not in ([], {})}
        return [raw_block("malformed", non_empty, next(iter(non_empty)))] if non_empty else []
    name = name or next(iter(texts))
    return [translated(present, {"type": "thinking", "thinking": texts[name]}, {name}, name)]


def reasoning_details_block(details: Any) -> Block:
    """Return a thinking block for reasoning details, which may be encrypted."""
    texts = [text for detail in list_or_empty(details) if (text := first_text(detail, ("text", "summary")))]
    data = next((data for detail in details if (data := text_at(detail, "data"))), None)
    encrypted = {"redacted": True, "data": data} if data and not texts else {}
    return {"type": "thinking", "thinking": "\n\n".join(texts), **encrypted}


def _parse_audio(message: Record) -> list[Block]:
    """Parse an audio response: the recording and its transcript. Later requests refer to it by id."""
    audio = message["audio"]
    source = {"source": {"type": "base64", "data": audio["data"]}} if "data" in audio else {}
    typed = {"type": "file", **source, "mediaClass": "audio"}
    blocks = [translated(audio, typed, {"data", "transcript"}, "audio")]
    if audio.get("transcript") is not None:
        blocks.append({**text_block(audio["transcript"], "transcript"), "source_type": "audio"})
    return blocks


def parse_call(call: Any) -> list[Block]:
    wire_type = call.get("type") if isinstance(call, dict) else None
    if wire_type is None:
        wire_type = next(
            (name for name in _CALL_TRANSLATIONS if isinstance(call, dict) and name in call), None
        )
    if not isinstance(wire_type, str) or wire_type not in _CALL_TRANSLATIONS:
        return [raw_block("unknown_type", call, wire_type if isinstance(wire_type, str) else None)]
    return translate(wire_type, call, _CALL_TRANSLATIONS[wire_type])


def _translate_function_call(call: Record) -> Block:
    flat = _flatten(call, "function")
    return _tool_use_block(flat, pick(flat, "id"), "function")


def _tool_use_block(call: Record, link: Block, wire_type: str) -> Block:
    """Return a call with arguments as JSON text."""
    arguments, consumed = input_at(call, "arguments")
    typed = {"type": "tool_use", **link, "name": call["name"], "input": arguments}
    return translated(call, typed, ("id", "name", *consumed), wire_type)


def _translate_custom_call(call: Record) -> Block:
    flat = _flatten(call, "custom")
    typed = {"type": "tool_use", **pick(flat, "id"), "name": flat["name"], "input": flat["input"]}
    return translated(flat, typed, {"id", "name", "input"}, "custom")


_CALL_TRANSLATIONS: Mapping[str, Callable[[Record], Block]] = {
    "function": _translate_function_call,
    "custom": _translate_custom_call,
}

_ASSISTANT_KEYS: Mapping[str, Callable[[Record], list[Block]]] = {
    "images": lambda message: parse_parts(message["images"]),
    "refusal": lambda message: [refusal_block({"refusal": message["refusal"]})],
    "audio": _parse_audio,
    "tool_calls": lambda message: [
        block for call in list_or_empty(message["tool_calls"]) for block in parse_call(call)
    ],
    "function_call": lambda message: translate(
        "function_call",
        message["function_call"],
        lambda call: _tool_use_block(call, {"id": None}, "function_call"),
    ),
}
"""Parsers of an assistant message's keys other than `content`, in the order of their blocks."""


def message_blocks(message: Any) -> list[Block]:
    """Return the blocks of a message of a request; a malformed message becomes one raw block."""
    role = message.get("role") if isinstance(message, dict) else None
    return translate(role if isinstance(role, str) else "message", message, parse_message)
