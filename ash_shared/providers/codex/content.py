"""Content parts of the Responses API, and their spellings in Codex items and MCP."""

from collections.abc import Mapping
from typing import Any

from ash_shared.model import blocks
from ash_shared.model.blocks import Block, Translation, content_parser, control_block, translated
from ash_shared.records.json_fields import mime_fields, url_source
from ash_shared.records.responses_items import (
    CONTENT,
    SourceMakers,
    generated_image,
    keep_unread_keys,
    media_translation,
    parse_text,
    uploaded_source,
)


def _translate_thinking(part: Block) -> Block:
    summary = {"is_summary": True} if part["type"] == "summary_text" else {}
    typed = {"type": "thinking", "thinking": part["text"], **summary}
    return translated(part, typed, {"text"}, part["type"])


_MEDIA_SOURCES: SourceMakers = {
    "image_url": url_source,
    "imageUrl": url_source,
    "audio_url": url_source,
    "url": url_source,
    "file_id": uploaded_source,
    "fileId": uploaded_source,
    "path": lambda path: {"type": "path", "path": path},
}
"""Sources of an image or a recording; a path is on the machine that Codex ran on."""


def _media_translation(kind: Block) -> Translation:
    """Return the translation of a media part, which has a reference or, as in MCP, inline data."""
    by_reference = media_translation(kind, _MEDIA_SOURCES)

    def parse(part: Block) -> Block | list[Block]:
        if "data" not in part:
            return by_reference(part)
        source = {"type": "base64", "media_type": part["mimeType"], "data": part["data"]}
        return translated(part, kind | {"source": source}, {"data", "mimeType"}, part["type"])

    return parse


def _translate_resource(part: Block) -> Block:
    inner = part["resource"]
    kind, name = ("text", "text") if "text" in inner else ("base64", "blob")
    source = {"type": kind, "data": inner[name], "url": inner["uri"]}
    rest = {key: value for key, value in inner.items() if key not in ("uri", name, "mimeType")}
    typed = {"type": "file", "source": source} | mime_fields(inner.get("mimeType"))
    return translated(
        {**part, "resource": rest} if rest else part, typed, () if rest else {"resource"}, "resource"
    )


def _translate_resource_link(part: Block) -> Block:
    typed = {"type": "file", "filename": part["name"], "source": {"type": "url", "url": part["uri"]}}
    kind = mime_fields(part.get("mimeType"))
    return translated(part, typed | kind, {"uri", "name", "mimeType"}, "resource_link")


_AUDIO = _media_translation({"type": "file", "mediaClass": "audio"})
_IMAGE = _media_translation({"type": "image"})

_PARTS: Mapping[str, Translation] = {
    **CONTENT,
    **dict.fromkeys(("Text", "inputText"), parse_text),
    **dict.fromkeys(("image", "inputImage", "localImage", "local_image"), _IMAGE),
    **dict.fromkeys(("audio", "inputAudio", "localAudio", "local_audio"), _AUDIO),
    **dict.fromkeys(("mention", "skill"), control_block),
    "reasoning_text": _translate_thinking,
    "resource": _translate_resource,
    "resource_link": _translate_resource_link,
    "summary_text": _translate_thinking,
}

parse_block = content_parser(_PARTS)


def parse_list(content: Any) -> list[Block]:
    return blocks.parse_list(content, parse_block)


def keep_item_keys(blocks: list[Block], item: Block, consumed: tuple[str, ...]) -> list[Block]:
    return keep_unread_keys(blocks, item, consumed, item["type"])


def generated_image_result(item: Block, link: Any) -> list[Block]:
    """Return the result of an image generation, if it has an image yet."""
    if not item.get("result"):
        return []
    content = [generated_image(item)]
    return [{"type": "tool_result", "tool_use_id": link, "content": content, "source_type": item["type"]}]
