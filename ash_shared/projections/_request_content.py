"""Message content as the APIs accept it: text, arguments, images, PDF files and tool results."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block, text_block
from ash_shared.model.events import failure_of

_IMAGE_TYPES: Mapping[str, str] = {
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "iVBORw0KGgo": "image/png",
}
"""Image types that both APIs accept, by the first base64 characters: the declared type may be wrong."""
_PDF = "JVBERi0"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MAX_IMAGE_LENGTH = 5 * 1024 * 1024
"""Base64 characters that Anthropic accepts for one image."""


class Inline(NamedTuple):
    """Base64 data and its media type."""

    media_type: str
    data: str


def whole_text(text: str) -> str:
    """Return the text with lone surrogates replaced: they cannot be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    return whole_text(json.dumps(value, ensure_ascii=False))


def arguments_of(args: Any) -> str:
    """Return the arguments as the JSON text of an object, as both APIs require; other values become its `input`."""
    return json_text(args if isinstance(args, dict) else {} if args is None else {"input": args})


def inline_picture(block: Block) -> Inline | None:
    """Return the data of an image if both APIs accept it."""
    data = _base64(block)
    media_types = [kind for start, kind in _IMAGE_TYPES.items() if data.startswith(start)]
    return Inline(media_types[0], data) if media_types and len(data) <= _MAX_IMAGE_LENGTH else None


def inline_pdf(block: Block) -> Inline | None:
    data = _base64(block)
    return Inline("application/pdf", data) if data.startswith(_PDF) else None


def address(block: Block) -> str:
    """Return the URL of an image if both APIs would fetch it, or else an empty string."""
    url = _source(block).get("url")
    return url if isinstance(url, str) and re.fullmatch(r"https://[!-~]+", url) else ""


def _base64(block: Block) -> str:
    source = _source(block)
    data = source.get("data") if source.get("type") == "base64" else None
    is_sound = isinstance(data, str) and len(data) % 4 == 0 and _BASE64.fullmatch(data)
    return str(data) if is_sound else ""


def _source(block: Block) -> Block:
    return block.get("source") or {}


def described(block: Block) -> str:
    """Return a block as text: images and files as type and name, text files with their text."""
    source = _source(block)
    if block["type"] == "text":
        return whole_text(block["text"])
    names = (block.get("filename"), block.get("title"), address(block), block.get("mimeType"))
    name = next((name for name in (*names, source.get("media_type")) if isinstance(name, str) and name), "")
    label = f"[{block['type']}: {name}]" if name else f"[{block['type']}]"
    is_text = source.get("type") == "text" and isinstance(source.get("data"), str)
    return whole_text(f"{label}\n{source['data']}" if is_text else label)


def as_text(block: Block) -> Block:
    return text_block(described(block))


def text_of(blocks: list[Block]) -> str:
    """Return blocks as one text, separated by blank lines."""
    return "\n\n".join(map(described, blocks))


def result_blocks(payload: Mapping[str, Any]) -> list[Block]:
    """Return a tool result as text, images and files without blank texts; the error text if there is nothing else."""
    result = payload["result"]
    if result is None and payload.get("structured") is not None:
        result = payload["structured"]
    blocks = [block for block in _result_blocks(result) if block["type"] != "text" or block["text"].strip()]
    return blocks or [text_block(text) for text in _failure(payload)][:1]


def _failure(payload: Mapping[str, Any]) -> Iterator[str]:
    failure = failure_of(payload)
    if failure is not None:
        texts = (failure.message, failure.code, "error")
        yield from (whole_text(text) for text in texts if text.strip())


def _result_blocks(result: Any) -> list[Block]:
    if result is None:
        return []
    if isinstance(result, str):
        return [text_block(result)]
    if isinstance(result, list) and all(map(_is_block, result)):
        return [_PIECES.get(block["type"], _other)(block) for block in result]
    return [text_block(json_text(result))]


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _text(block: Block) -> Block:
    return text_block(block["text"]) if isinstance(block.get("text"), str) else _other(block)


def _media(block: Block) -> Block:
    return block if isinstance(block.get("source") or {}, dict) else _other(block)


def _other(block: Block) -> Block:
    return text_block(json_text(block))


_PIECES: Mapping[str, Callable[[Block], Block]] = {"file": _media, "image": _media, "text": _text}
