"""The elements of a content list: those of the Responses API, and how Codex's own items and MCP spell them."""

from collections.abc import Mapping
from typing import Any

from ash_shared.model import blocks
from ash_shared.model.blocks import Block, Translation, raw_block, translated
from ash_shared.providers._kit.json_fields import mime_fields, url_source
from ash_shared.providers._kit.responses_items import (
    CONTENT,
    SourceMakers,
    content_reader,
    media_translation,
    read_text,
    uploaded_source,
)


def _thought(part: Block) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, part["type"])


def _summary(part: Block) -> Block:
    typed = {"type": "thinking", "thinking": part["text"], "is_summary": True}
    return translated(part, typed, {"text"}, part["type"])


_PLACES: SourceMakers = {
    "image_url": url_source,
    "imageUrl": url_source,
    "audio_url": url_source,
    "url": url_source,
    "file_id": uploaded_source,
    "fileId": uploaded_source,
    "path": lambda path: {"type": "path", "path": path},
}
"""Where a picture or a recording can be; a path is one of the machine that Codex ran on."""


def _media(kind: Block) -> Translation:
    """A picture or a recording somewhere, or, as MCP writes it, here."""
    elsewhere = media_translation(kind, _PLACES)

    def read(part: Block) -> Block | list[Block]:
        if "data" not in part:
            return elsewhere(part)
        source = {"type": "base64", "media_type": part["mimeType"], "data": part["data"]}
        return translated(part, kind | {"source": source}, {"data", "mimeType"}, part["type"])

    return read


def _resource(part: Block) -> Block:
    """A resource that MCP embeds: its text, or its bytes."""
    inner = part["resource"]
    kind, name = ("text", "text") if "text" in inner else ("base64", "blob")
    source = {"type": kind, "data": inner[name], "url": inner["uri"]}
    rest = {key: value for key, value in inner.items() if key not in ("uri", name, "mimeType")}
    typed = {"type": "file", "source": source} | mime_fields(inner.get("mimeType"))
    return translated(
        {**part, "resource": rest} if rest else part, typed, () if rest else {"resource"}, "resource"
    )


def _resource_link(part: Block) -> Block:
    typed = {"type": "file", "filename": part["name"], "source": {"type": "url", "url": part["uri"]}}
    kind = mime_fields(part.get("mimeType"))
    return translated(part, typed | kind, {"uri", "name", "mimeType"}, "resource_link")


def _control(part: Block) -> Block:
    return raw_block("control", part, part["type"])


_AUDIO = _media({"type": "file", "mediaClass": "audio"})
_IMAGE = _media({"type": "image"})

_PARTS: Mapping[str, Translation] = {
    **CONTENT,
    **dict.fromkeys(("Text", "inputText"), read_text),
    **dict.fromkeys(("image", "inputImage", "localImage", "local_image"), _IMAGE),
    **dict.fromkeys(("audio", "inputAudio", "localAudio", "local_audio"), _AUDIO),
    **dict.fromkeys(("mention", "skill"), _control),
    "reasoning_text": _thought,
    "resource": _resource,
    "resource_link": _resource_link,
    "summary_text": _summary,
}

read_block = content_reader(_PARTS)


def read_list(content: Any) -> list[Block]:
    """A content list, element by element."""
    return blocks.read_list(content, read_block)
