"""Content blocks of Bedrock's Converse API, which Strands Agents stores, too.

Source: the `bedrock-runtime` service model. A content block is an object with one key, its kind; a `type` may occur
next to that key and inside its value.
"""

from collections.abc import Callable, Mapping
from typing import Any

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
from ash_shared.records.json_fields import count_at, media_class

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


def translate_tool_result(block: Block) -> Block:
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


def _media_source(source: Block, media_type: str | None) -> Block:
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


def _other_keys(source: Block, consumed: str) -> Block:
    """Return the unconsumed keys. Raises KeyError if a block source has the same key."""
    rest = without(source, consumed)
    if rest.keys() & {"type", "media_type", "data", "url"}:
        raise KeyError(consumed)
    return rest


def translate_image(block: Block) -> Block:
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
        return _with_extra_keys(block, "guardContent", translate_image(pick(content, "image")), "image")
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
    "image": translate_image,
    "reasoningContent": _translate_reasoning,
    "searchResult": _translate_search_result,
    "text": lambda block: _with_extra_keys(block, "text", text_block(block["text"])),
    "toolResult": translate_tool_result,
    "toolUse": _translate_tool_use,
    "video": _media_translation("video"),
}
"""Translations of content blocks, by kind key."""


def block_kind(block: Any) -> str | None:
    """Return the kind of a content block; None if it has no kind, or several."""
    kinds = block.keys() & _TRANSLATIONS.keys() if isinstance(block, dict) else ()
    return next(iter(kinds)) if len(kinds) == 1 else None


def _raw_type(block: Any) -> str | None:
    """Return the name of an unknown block: its only key, or its type."""
    if not isinstance(block, dict):
        return None
    return next(iter(block)) if len(block) == 1 else wire_name(block)


def parse_blocks(block: Any) -> list[Block]:
    if is_native(block):
        return [block]
    if isinstance(block, str):
        return [text_block(block)]
    kind = block_kind(block)
    if kind is None:
        return [raw_block("unknown_type", block, _raw_type(block))]
    return translate(kind, block, _TRANSLATIONS[kind])


def parse_block(block: Any) -> Block:
    """Parse one bare content block. If it translates to several blocks, it becomes a single `raw` block instead."""
    blocks = parse_blocks(block)
    return blocks[0] if len(blocks) == 1 else raw_block("control", block, block_kind(block))


def parse_list(content: list[Any]) -> list[Block]:
    if not isinstance(content, list):
        raise TypeError
    return bounded([parsed for block in content for parsed in parse_blocks(block)])
