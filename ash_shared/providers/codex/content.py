"""The elements of a content list, in the spellings of the Responses API, of Codex's own items and of MCP."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.blocks import (
    CLASSES,
    MAX_BLOCKS,
    Block,
    LimitExceeded,
    Translation,
    is_native,
    is_valid,
    raw_block,
    text_block,
    translate,
    translated,
)
from ash_shared.wire import media_class, source_of, text_at


def read_block(block: Any) -> Block:
    """One element of a content list."""
    if is_native(block):
        return block  # type: ignore[no-any-return]  # a dict, as is_native says
    if block.__class__ is str:
        return text_block(block)
    wire = text_at(block, "type")
    if wire is None:
        return raw_block("unknown_type", block)
    if wire in _PARTS:
        return translate(wire, block, _PARTS[wire])[0]
    if wire not in CLASSES:
        return raw_block("unknown_type", block, wire)
    return _read_nested(block) if is_valid(block) else raw_block("malformed", block, wire)


def _read_nested(block: Block) -> Block:
    """A tool result of our vocabulary with a list in it, which is read like any content list."""
    blocks = read_list(block["content"])
    same = all(read is wire for read, wire in zip(blocks, block["content"], strict=True))
    return block if same else {**block, "content": blocks}


def read_list(content: list[Any]) -> list[Block]:
    """A content list, element by element."""
    if content.__class__ is not list:
        raise TypeError
    if len(content) > MAX_BLOCKS:
        raise LimitExceeded
    return [read_block(block) for block in content]


def read_content(content: Any) -> list[Block]:
    """The content of a message: a string, or a list of elements."""
    return [text_block(content)] if content.__class__ is str else read_list(content)


def _text(part: Block) -> Block:
    cited = {"citations": part["annotations"]} if "annotations" in part else {}
    return translated(part, text_block(part["text"]) | cited, {"text", "annotations"}, part["type"])


def _refusal(part: Block) -> Block:
    return translated(part, text_block(part["refusal"], "refusal"), {"refusal"}, "refusal")


def _thought(part: Block) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, part["type"])


def _summary(part: Block) -> Block:
    typed = {"type": "thinking", "thinking": part["text"], "is_summary": True}
    return translated(part, typed, {"text"}, part["type"])


_PLACES: Mapping[str, Callable[[Any], Block]] = {
    "image_url": source_of,
    "imageUrl": source_of,
    "audio_url": source_of,
    "url": source_of,
    "file_id": lambda file_id: {"type": "file", "file_id": file_id},
    "fileId": lambda file_id: {"type": "file", "file_id": file_id},
    "path": lambda path: {"type": "path", "path": path},
}
"""Where a picture or a recording can be; a path is one of the machine that Codex ran on."""


def _media(typed: Block) -> Translation:
    def read(part: Block) -> Block:
        if "data" in part:
            source = {"type": "base64", "media_type": part["mimeType"], "data": part["data"]}
            return translated(part, typed | {"source": source}, {"data", "mimeType"}, part["type"])
        place = next((name for name in _PLACES if part.get(name) is not None), None)
        if place is None:  # null where Codex took a picture out of a history
            raise KeyError(part["type"])
        detail = {"detail": part["detail"]} if "detail" in part else {}
        made = typed | {"source": _PLACES[place](part[place])} | detail
        return translated(part, made, {place, "detail"}, part["type"])

    return read


def _resource(part: Block) -> Block:
    """A resource that MCP embeds: its text, or its bytes."""
    inner = part["resource"]
    kind, name = ("text", "text") if "text" in inner else ("base64", "blob")
    source = {"type": kind, "data": inner[name], "url": inner["uri"]}
    rest = {key: value for key, value in inner.items() if key not in ("uri", name, "mimeType")}
    typed = {"type": "file", "source": source} | _mime_type(inner)
    return translated(
        {**part, "resource": rest} if rest else part, typed, () if rest else {"resource"}, "resource"
    )


def _resource_link(part: Block) -> Block:
    typed = {"type": "file", "filename": part["name"], "source": {"type": "url", "url": part["uri"]}}
    return translated(part, typed | _mime_type(part), {"uri", "name", "mimeType"}, "resource_link")


def _mime_type(part: Block) -> Block:
    mime_type = part.get("mimeType")
    return {} if mime_type is None else {"mimeType": mime_type, "mediaClass": media_class(mime_type)}


def _opaque(part: Block) -> Block:
    return raw_block("opaque", part, part["type"])


def _control(part: Block) -> Block:
    return raw_block("control", part, part["type"])


_AUDIO = _media({"type": "file", "mediaClass": "audio"})
_IMAGE = _media({"type": "image"})

_PARTS: Mapping[str, Translation] = {
    **dict.fromkeys(("Text", "inputText", "input_text", "output_text"), _text),
    **dict.fromkeys(("image", "inputImage", "input_image", "localImage", "local_image"), _IMAGE),
    **dict.fromkeys(("audio", "inputAudio", "input_audio", "localAudio", "local_audio"), _AUDIO),
    **dict.fromkeys(("mention", "skill"), _control),
    "encrypted_content": _opaque,
    "reasoning_text": _thought,
    "refusal": _refusal,
    "resource": _resource,
    "resource_link": _resource_link,
    "summary_text": _summary,
}
