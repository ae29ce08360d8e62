"""Images and files as the parts of a `UIMessage`."""

import re
from base64 import b64encode
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.projections._request_content import address, whole_text

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+*-]+", re.ASCII)
_UNKNOWN_TYPES = {"file": "application/octet-stream", "image": "image/*"}


def file_part(block: Block) -> dict[str, Any] | None:
    """Return the `file` part of an image or a file; None if its bytes have no URL that a page may load."""
    if block["type"] not in _UNKNOWN_TYPES:
        return None
    media_type = _media_type(block)
    url = address(block) or _data_url(block.get("source") or {}, media_type)
    return {"type": "file", "mediaType": media_type, "url": url} if url else None


def file_name(block: Block) -> str | None:
    names = (block.get("filename"), block.get("title"))
    return next((name for name in names if isinstance(name, str) and name), None)


def data_part(block: Block) -> dict[str, Any]:
    return {"type": f"data-{block['type']}", "data": block}


def _media_type(block: Block) -> str:
    types = (block.get("mimeType"), (block.get("source") or {}).get("media_type"))
    known = (name for name in types if isinstance(name, str) and _MEDIA_TYPE.fullmatch(name))
    return next(known, _UNKNOWN_TYPES[block["type"]])


def _data_url(source: Block, media_type: str) -> str:
    kind, data = source.get("type"), source.get("data")
    if kind == "text" and isinstance(data, str):
        data = b64encode(whole_text(data).encode()).decode()
    is_inline = kind in ("base64", "text") and isinstance(data, str)
    return f"data:{media_type};base64,{data}" if is_inline else ""
