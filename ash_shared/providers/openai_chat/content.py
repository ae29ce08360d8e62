"""The blocks of messages of this form.

The content of a message lies in several keys beside each other: blocks come in the order reasoning, content, images,
refusal, audio, calls. An object that a part or a call holds under its own name (`image_url`, `function`) is read as if
its keys were the part's own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
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
from ash_shared.model.message import Role
from ash_shared.providers._kit.contract import Record
from ash_shared.providers._kit.json_fields import (
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
    return translate(wire, block, PARTS[wire])[0] if wire in PARTS else _untranslated(wire, block)


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
    typed = {"type": "image", "source": url_source(url), **pick(opened, "detail")}
    return translated(
        opened, typed, ("image_url", "url", "detail") if opened is part else ("url", "detail"), "image_url"
    )


def _linked(wire: str, kind: str) -> Callable[[Record], Block]:
    """A file at an address."""

    def translation(part: Record) -> Block:
        opened, url = _link(part, wire)
        source = url_source(url)
        typed = {
            "type": "file",
            **mime_fields(source.get("media_type")),
            "source": source,
            "mediaClass": kind,
        }
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
        **mime_fields(source.get("media_type")),
        **({"source": source} if source else {}),
    }
    return translated(opened, typed, {"filename", where or "filename"}, "file")


def inline_source(data: str) -> Block:
    """Where the bytes of a file are: at an address, or here, with or without a `data:` before them."""
    return (
        url_source(data)
        if data.startswith(("data:", "http:", "https:"))
        else {"type": "base64", "data": data}
    )


_FILE_SOURCES: Mapping[str, Callable[[Any], Block]] = {
    "file_data": inline_source,
    "file_id": lambda file_id: {"type": "file", "file_id": file_id},
}


def _refusal(part: Record) -> Block:
    return translated(part, text_block(part["refusal"], "refusal"), {"refusal"}, "refusal")


def thinking(part: Record) -> Block:
    """Mistral's reasoning: a list of parts; kept whole where joining their texts would lose something."""
    parts = part["thinking"]
    text = "".join(each["text"] for each in parts if each["type"] == "text")
    alone = parts == [{"type": "text", "text": text}] or not parts
    return translated(part, {"type": "thinking", "thinking": text}, {"thinking"} if alone else (), "thinking")


PARTS: Mapping[str, Callable[[Record], Block]] = {
    "audio_url": _linked("audio_url", "audio"),
    "document_url": _linked("document_url", "document"),
    "image_url": _image,
    "input_audio": _audio,
    "refusal": _refusal,
    "thinking": thinking,
    "video_url": _linked("video_url", "video"),
}
_NATIVE = frozenset({"text", "image", "tool_use", "tool_result", "file", "raw"})


def read_parts(content: Any) -> list[Block]:
    """The `content` of a message: a string, a list of parts, or null where what it says is in other keys."""
    return [] if content is None else read_content(content, read_block)


def read_message(message: Record) -> list[Block]:
    """The blocks of one message. Raises KeyError, TypeError or AttributeError where it is none."""
    role = message.get("role")
    if role in ("tool", "function"):
        return [_tool_result(message, role)]
    if role != "assistant":
        return read_parts(message["content"])
    annotations = message.get("annotations")
    said, cites = _cited(read_parts(message.get("content")), annotations)
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
    typed["content"] = read_parts(content) if content.__class__ is list else content
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


REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def _reasoning(message: Record) -> list[Block]:
    """What gateways tell of reasoning: the same text under up to three names, of which one is read and the others
    stay beside it."""
    told = {name: message[name] for name in REASONING if message.get(name) is not None}
    texts = {name: text for name, text in told.items() if text.__class__ is str}
    name = next((name for name in texts if texts[name]), None)
    if name is None and told.get("reasoning_details"):
        return [translated(told, detailed(told["reasoning_details"]), (), "reasoning_details")]
    if name is None and not texts:
        other = {name: value for name, value in told.items() if value not in ([], {})}
        return [raw_block("malformed", other, next(iter(other)))] if other else []
    name = name or next(iter(texts))
    return [translated(told, {"type": "thinking", "thinking": texts[name]}, {name}, name)]


def detailed(details: Any) -> Block:
    """Reasoning that is told in details alone, some or all of which may be encrypted."""
    texts = [text for detail in list_or_empty(details) if (text := first_text(detail, ("text", "summary")))]
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


def read_call(call: Any) -> list[Block]:
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
    "images": lambda message: read_parts(message["images"]),
    "refusal": lambda message: [_refusal({"refusal": message["refusal"]})],
    "audio": _spoken,
    "tool_calls": lambda message: [
        block for call in list_or_empty(message["tool_calls"]) for block in read_call(call)
    ],
    "function_call": lambda message: translate(
        "function_call", message["function_call"], lambda call: _called(call, {"id": None}, "function_call")
    ),
}
"""What an assistant's message holds beside its content, in the order in which it is read."""


def message_blocks(message: Any) -> list[Block]:
    """The blocks of a message among others: one that cannot be read costs only itself."""
    role = message.get("role") if message.__class__ is dict else None
    return translate(role if role.__class__ is str else "message", message, read_message)
