"""Parts of messages in the GenAI conventions, and the parts that libraries wrote before them."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    bounded,
    is_native,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.message import Role
from ash_shared.records.json_fields import (
    decode_arguments,
    input_at,
    is_one_of,
    mime_fields,
    text_at,
    url_source,
)

ROLES: Mapping[str, Role] = {
    "ai": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}


def role_at(message: Any, default: Role) -> Role:
    return ROLES.get((text_at(message, "role") or "").lower(), default)


def _text(part: Block) -> Block:
    key = "content" if "content" in part else "text"
    return with_extra(text_block(part[key]), without(part, "type", key))


def _thinking(part: Block) -> Block:
    key = next(key for key in ("content", "thinking", "text") if key in part)
    signature = {"signature": part["signature"]} if isinstance(part.get("signature"), str) else {}
    typed = {"type": "thinking", "thinking": part[key], **signature}
    return translated(part, typed, {"type", key, *signature}, part["type"])


def call_block(part: Block, arguments: str = "arguments") -> Block:
    """Return a call; without recorded arguments, its input is an empty object."""
    wire = part.get("type", "tool_call")
    if arguments not in part:
        return translated(
            part,
            {"type": "tool_use", **renamed(part, id="id", name="name"), "input": {}},
            {"type", "id", "name"},
            wire,
        )
    input, consumed = input_at(part, arguments)
    typed = {"type": "tool_use", **renamed(part, id="id", name="name"), "input": input}
    return translated(part, typed, {"type", "id", "name", *consumed}, wire)


def result_fields(result: Any) -> Block:
    """Return the fields of the result of a tool: a text, or any other JSON."""
    if result is None:
        return {}
    return {"content": result} if isinstance(result, str) else {"structured": result}


def _response(part: Block) -> Block:
    key = next((key for key in ("response", "result", "content") if key in part), "")
    fields = result_fields(part.get(key))
    typed = {"type": "tool_result", **renamed(part, tool_use_id="id"), **fields}
    return translated(part, typed, {"type", "id", key}, part["type"])


def _server_call(part: Block) -> Block:
    call = part.get("server_tool_call")
    name = text_at(part, "name") or text_at(call, "type")
    typed = {"type": "tool_use", **renamed(part, id="id"), "name": name, "input": call, "executor": "server"}
    return translated(part, typed, {"type", "id", "name", "server_tool_call"}, part["type"])


def _server_response(part: Block) -> Block:
    result = part.get("server_tool_call_response")
    typed = {"type": "tool_result", **renamed(part, tool_use_id="id"), **result_fields(result)}
    return translated(part, typed, {"type", "id", "server_tool_call_response"}, part["type"])


def _file(part: Block, source: Block, *consumed: str) -> Block:
    mime = text_at(part, "mime_type") or text_at(part, "media_type")
    declared = source if mime is None else {**source, "media_type": mime}
    if text_at(part, "modality") == "image" or (mime or "").startswith("image/"):
        typed: Block = {"type": "image", "source": declared}
    else:
        typed = {"type": "file", **mime_fields(mime), "source": declared}
    used = {"type", "mime_type", "media_type", *consumed}
    return translated(part, typed, used, part["type"])


def _image_url(part: Block) -> Block:
    """Translate an image of OpenAI's API (`image_url`) or of an SDK (`url`)."""
    value = part.get("image_url", part.get("url"))
    url = text_at(value, "url") if isinstance(value, dict) else value
    if not isinstance(url, str):
        raise TypeError
    return translated(
        part, {"type": "image", "source": url_source(url)}, {"type", "url", "image_url"}, part["type"]
    )


def _compaction(part: Block) -> Block:
    if not isinstance(part.get("content"), str):
        return raw_block("opaque", part, part["type"])
    return translated(part, text_block(part["content"], "summary"), {"type", "content"}, part["type"])


def _tool_use(part: Block) -> Block:
    """Translate a call of Anthropic's API, which instrumentations pass on."""
    return call_block(part, "input")


_PARTS: Mapping[str, Callable[[Block], Block]] = {
    "binary": lambda part: _file(part, {"type": "base64", "data": part["content"]}, "content"),
    "blob": lambda part: _file(part, {"type": "base64", "data": part["content"]}, "content"),
    "compaction": _compaction,
    "file": lambda part: _file(part, {"type": "file", "file_id": part["file_id"]}, "file_id"),
    "image-url": _image_url,
    "image_url": _image_url,
    "input_text": _text,
    "output_text": _text,
    "reasoning": _thinking,
    "server_tool_call": _server_call,
    "server_tool_call_response": _server_response,
    "text": _text,
    "thinking": _thinking,
    "tool_call": call_block,
    "tool_call_response": _response,
    "tool_use": _tool_use,
    "uri": lambda part: _file(part, url_source(part["uri"]), "uri"),
}


def parse_part(part: Any) -> Block:
    if isinstance(part, str):
        return text_block(part)
    wire_type = part.get("type") if isinstance(part, dict) else None
    if is_one_of(wire_type, _PARTS):
        return translate(str(wire_type), part, _PARTS[str(wire_type)])[0]
    if isinstance(part, dict) and is_native(part):
        return part
    if isinstance(part, dict) and wire_type is None and isinstance(part.get("text"), str):
        return translated(part, text_block(part["text"]), {"text"}, "text")
    return raw_block("unknown_type", part, wire_type if isinstance(wire_type, str) else None)


def parse_content(content: Any) -> list[Block]:
    """Return the blocks of the content of a message: a text, the JSON of a list of parts, or a list."""
    if isinstance(content, str) and content.startswith("[{"):
        decoded = decode_arguments(content)
        if isinstance(decoded, list) and all(text_at(each, "type") for each in decoded):
            content = decoded
    if content is None or content == "":
        return []
    parts = content if isinstance(content, list) else [content]
    return [parse_part(part) for part in bounded(parts)]
