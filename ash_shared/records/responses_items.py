"""The items of OpenAI's Responses API and the parts of their content, as in API bodies and the lines of Codex.

Sources: the output item, input item and content unions of the `openai` package, and `ResponseItem` of Codex's
protocol. A call and its result are linked by `call_id`; the item's own `id` differs and stays in `extra`. The item
of a hosted tool (one that runs at OpenAI) contains both call and result, which become two blocks linked by the
item's `id`. If an item becomes several blocks, its untyped keys go to `extra` of the first one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    Translation,
    bounded,
    content_parser,
    parse_content,
    parse_list,
    pick,
    raw_block,
    refusal_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.model.content import RawReason
from ash_shared.model.message import Role
from ash_shared.records.contract import Part, Record, speaker_of_role
from ash_shared.records.json_fields import (
    count_at,
    input_at,
    is_one_of,
    list_or_empty,
    mime_fields,
    text_at,
    url_source,
    value_at,
)

ROLES: Mapping[Any, Role] = {
    "assistant": "assistant",
    "developer": "system",
    "system": "system",
    "tool": "tool",
    "user": "user",
}

# Content parts of messages and tool outputs.


def parse_text(part: Record) -> Block:
    """Parse text with its citations, which only responses have."""
    citations = {"citations": part["annotations"]} if "annotations" in part else {}
    return translated(part, {**text_block(part["text"]), **citations}, {"text", "annotations"}, part["type"])


def _parse_encrypted(part: Record) -> Block:
    return raw_block("opaque", part, part["type"])


SourceMakers = Mapping[str, Callable[[Any], Block]]
"""Functions that return the source of a file, by the key of their argument. The first non-null key is used."""


def _source_key(part: Record, makers: SourceMakers) -> str | None:
    return next((name for name in makers if part.get(name) is not None), None)


def media_translation(kind: Block, makers: SourceMakers) -> Translation:
    """Return the translation of an image or audio part; `kind` contains the constant keys of its block."""
    image_keys = ("detail",) if kind["type"] == "image" else ()

    def translation(part: Record) -> Block:
        source_key = _source_key(part, makers)
        if source_key is None:  # Codex nulls images that it removed from a history
            raise KeyError(part["type"])
        source = makers[source_key](part[source_key])
        mime = {} if image_keys or "media_type" not in source else {"mimeType": source["media_type"]}
        typed = {**kind, **mime, "source": source, **pick(part, *image_keys)}
        return translated(part, typed, {source_key, *image_keys}, part["type"])

    return translation


def _translate_file(part: Record) -> Block:
    source_key = _source_key(part, FILE_SOURCES)
    source = None if source_key is None else FILE_SOURCES[source_key](part[source_key])
    mime = mime_fields((source or {}).get("media_type"))
    typed = {"type": "file", **pick(part, "filename"), **mime, **({"source": source} if source else {})}
    return translated(part, typed, {"filename", source_key or "file_data"}, "input_file")


def uploaded_source(file_id: Any) -> Block:
    """Return the source of bytes stored by the vendor."""
    return {"type": "file", "file_id": file_id}


def _inline_source(data: str) -> Block:
    return url_source(data) if data.startswith("data:") else {"type": "base64", "data": data}


_AUDIO_SOURCES: SourceMakers = {
    "audio": _inline_source,
    "audio_url": url_source,
    "data": _inline_source,
    "file_id": uploaded_source,
    "input_audio": lambda audio: _inline_source(audio["data"]),
}


def _translate_audio(part: Record) -> Block:
    """Translate a recording; the Realtime API stores only its transcript."""
    source_key = _source_key(part, _AUDIO_SOURCES)
    if source_key is None:
        source, typed = None, {"transcript": part["transcript"]}
    else:
        source, typed = _AUDIO_SOURCES[source_key](part[source_key]), pick(part, "transcript")
    mime = {"mimeType": source["media_type"]} if source and "media_type" in source else {}
    typed |= {"type": "file", **mime, **({"source": source} if source else {}), "mediaClass": "audio"}
    block = translated(part, typed, {source_key or "transcript", "transcript"}, part["type"])
    return with_extra(block, without(part["input_audio"], "data")) if source_key == "input_audio" else block


FILE_SOURCES: SourceMakers = {"file_data": _inline_source, "file_url": url_source, "file_id": uploaded_source}

_IMAGE = media_translation({"type": "image"}, {"image_url": url_source, "file_id": uploaded_source})

PARTS: Mapping[str, Translation] = {
    "computer_screenshot": _IMAGE,
    "input_audio": _translate_audio,
    "input_file": _translate_file,
    "input_image": _IMAGE,
    "input_text": parse_text,
    "output_audio": _translate_audio,
    "output_text": parse_text,
    "refusal": refusal_block,
}
CONTENT: Mapping[str, Translation] = {**PARTS, "encrypted_content": _parse_encrypted}
"""All content parts; encrypted ones are opaque."""

parse_block = content_parser(CONTENT)


def parse_tool_output(output: Any) -> Any:
    """Parse a tool output: a list of parts becomes blocks; a string or other JSON stays as is."""
    return parse_list(output, parse_block) if isinstance(output, list) else output


# Items.


def keep_unread_keys(
    blocks: list[Block], item: Record, consumed: Iterable[str], wire_type: str
) -> list[Block]:
    """Add the unconsumed keys of an item to its first block. An item without blocks becomes a control block."""
    rest = without(item, "type", *consumed)
    if not rest:
        return blocks
    return [with_extra(blocks[0], rest), *blocks[1:]] if blocks else [raw_block("control", item, wire_type)]


def _translate_message(item: Record) -> list[Block]:
    """Return the blocks of a message; `item_role` returns its role."""
    phase = pick(item, "phase")
    content = parse_content(item["content"], parse_block)
    blocks = [{**block, **phase} if block["type"] == "text" else block for block in content]
    used = ("content", *phase) if any(block["type"] == "text" for block in blocks) else ("content",)
    rest = item.keys() - {"type", "role", *used}
    return keep_unread_keys(blocks, item, used, "message") if rest else blocks


def _translate_reasoning(item: Record) -> list[Block]:
    """Return one block per summary and per text, or a redacted one. The first block gets the encrypted data."""
    thoughts = [_thinking_block(part, {"is_summary": True}) for part in list_or_empty(item["summary"])]
    thoughts += [_thinking_block(part, {}) for part in list_or_empty(item.get("content"))]
    redacted = {"type": "thinking", "thinking": "", "redacted": True, "source_type": "reasoning"}
    first, *rest = thoughts or [redacted]
    data = {"data": item["encrypted_content"]} if "encrypted_content" in item else {}
    names = ("summary", "content", "encrypted_content")
    return keep_unread_keys([{**first, **data}, *rest], item, names, "reasoning")


def _thinking_block(part: Record, fields: Block) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"], **fields}, {"text"}, "reasoning")


def _tool_use_block(
    item: Record, wire_type: str, typed: Block, consumed: Iterable[str], link: str = "call_id"
) -> Block:
    """Return a call; `link` is the key of the id that its result refers to."""
    block = {"type": "tool_use", **renamed(item, id=link), **typed, **pick(item, "status")}
    return translated(item, block, {link, "status", *consumed}, wire_type)


def _inline_result_block(item: Record, wire_type: str, typed: Block) -> Block:
    """Return the result of a call that is in the same item."""
    return {"type": "tool_result", **renamed(item, tool_use_id="id"), **typed, "source_type": wire_type}


def _non_null(item: Record, *names: str) -> set[str]:
    """Return the given keys without null values, which produce no block and stay in `extra`."""
    return {name for name in names if item.get(name) is not None}


def _named_call(wire_type: str, **fields: str) -> Translation:
    """Return the translation of a call by name with arguments as JSON text."""

    def translation(item: Record) -> Block:
        arguments, consumed = input_at(item, "arguments")
        typed = {"name": item["name"], "input": arguments, **fields}
        return _tool_use_block(item, wire_type, typed, ("name", *consumed))

    return translation


def _translate_custom_call(item: Record) -> Block:
    return _tool_use_block(item, "custom_tool_call", pick(item, "name", "input"), {"name", "input"})


def _unnamed_call(wire_type: str, name: str, *keys: str, **fields: str) -> Translation:
    """Return the translation of a call without a tool name; its input is the first given key that is not null."""

    def translation(item: Record) -> Block:
        key = next((key for key in keys if item.get(key) is not None), keys[0])
        return _tool_use_block(item, wire_type, {"name": name, "input": item[key], **fields}, {key})

    return translation


def _translate_local_shell(item: Record) -> Block:
    """Translate a shell call; it is linked by the item's `id` if it has no `call_id`."""
    link = "id" if item.get("call_id") is None and "id" in item else "call_id"
    typed = {"name": "shell", "input": item["action"]}
    return _tool_use_block(item, "local_shell_call", typed, {"action"}, link)


def _translate_tool_search(item: Record) -> Block:
    executor = {"executor": "server"} if item.get("execution") == "server" else {}
    arguments, consumed = input_at(item, "arguments")
    typed = {"name": "tool_search", "input": arguments, **executor}
    return _tool_use_block(item, "tool_search_call", typed, consumed)


def _translate_program(item: Record) -> Block:
    typed = {"name": "program", "input": {"code": item["code"]}, "executor": "server"}
    return _tool_use_block(item, "program", typed, {"code"})


def _translate_web_search(item: Record) -> list[Block]:
    action, wire_type = item.get("action"), "web_search_call"
    typed = {"name": "web_search", "input": action, "executor": "server"}
    tool_use = _tool_use_block(item, wire_type, typed, {"action"}, "id")
    sources = value_at(action, "sources")
    if sources is None:
        return [tool_use]
    return [tool_use, _inline_result_block(item, wire_type, {"structured": sources})]


def _translate_file_search(item: Record) -> list[Block]:
    wire_type = "file_search_call"
    typed = {"name": "file_search", "input": {"queries": item["queries"]}, "executor": "server"}
    tool_use = _tool_use_block(item, wire_type, typed, {"queries", *_non_null(item, "results")}, "id")
    results = item.get("results")
    if results is None:
        return [tool_use]
    return [tool_use, _inline_result_block(item, wire_type, {"structured": results})]


def _translate_code_interpreter(item: Record) -> list[Block]:
    wire_type = "code_interpreter_call"
    typed = {"name": "code_interpreter", "input": {"code": item["code"]}, "executor": "server"}
    tool_use = _tool_use_block(item, wire_type, typed, {"code", *_non_null(item, "outputs")}, "id")
    if item.get("outputs") is None:
        return [tool_use]
    outputs = [_parse_interpreter_output(output) for output in bounded(item["outputs"])]
    return [tool_use, _inline_result_block(item, wire_type, {"content": outputs})]


def _parse_interpreter_output(output: Any) -> Block:
    wire_type = output.get("type")
    if not isinstance(wire_type, str) or wire_type not in _INTERPRETER_OUTPUTS:
        return raw_block("unknown_type", output, wire_type if isinstance(wire_type, str) else None)
    return translate(wire_type, output, _INTERPRETER_OUTPUTS[wire_type])[0]


_INTERPRETER_OUTPUTS: Mapping[str, Translation] = {
    "logs": lambda output: translated(output, text_block(output["logs"]), {"logs"}, "logs"),
    "image": lambda output: translated(
        output, {"type": "image", "source": url_source(output["url"])}, {"url"}, "image"
    ),
}

_IMAGE_INPUT_KEYS = ("action", "background", "quality", "revised_prompt", "size")


def _translate_image_generation(item: Record) -> list[Block]:
    """Translate a call and its image. The input contains all parameters, whether they were requested or used."""
    wire_type, error = "image_generation_call", item.get("error")
    typed = {"name": "image_generation", "input": pick(item, *_IMAGE_INPUT_KEYS), "executor": "server"}
    image = {"content": [generated_image(item)]} if item.get("result") else {}
    error_flag = {} if error is None else {"is_error": True, "structured": error}
    used = {*_IMAGE_INPUT_KEYS, *(("result",) if image else ()), *_non_null(item, "error")}
    tool_use = _tool_use_block(item, wire_type, typed, used, "id")
    if image or error_flag:
        return [tool_use, _inline_result_block(item, wire_type, {**image, **error_flag})]
    return [tool_use]


def generated_image(item: Record) -> Block:
    """Return the image in the item's `result`; the media type is set if the item has a format."""
    return {"type": "image", "source": _image_source(item["result"], item)}


def _image_source(picture: str, item: Record) -> Block:
    source, format = _inline_source(picture), text_at(item, "output_format")
    if not format or source["type"] != "base64":
        return source
    return {"media_type": f"image/{_SUBTYPES.get(format, format)}", **source}


_SUBTYPES: Mapping[str, str] = {"svg": "svg+xml"}
"""MIME subtypes that differ from the name of the format."""


def _translate_mcp_call(item: Record) -> list[Block]:
    arguments, consumed = input_at(item, "arguments")
    error, output = item.get("error"), item.get("output")
    typed = {"name": item["name"], "input": arguments, "executor": "mcp", "server_name": item["server_label"]}
    used = {"name", "server_label", *consumed, *_non_null(item, "output", "error")}
    tool_use = _tool_use_block(item, "mcp_call", typed, used, "id")
    if error is None and output is None:
        return [tool_use]
    result = {**_mcp_result(output, error), "is_error": error is not None}
    return [tool_use, _inline_result_block(item, "mcp_call", result)]


def _mcp_result(output: Any, error: Any) -> Block:
    """Return the result fields of an MCP call. A string error is the tool's output; an object is the vendor's error."""
    if output is None and isinstance(error, str):
        return {"content": error}
    fields = {} if output is None else {"content": parse_tool_output(output)}
    return fields if error is None else {**fields, "structured": error}


def _result_block(
    item: Record, wire_type: str, typed: Block, consumed: Iterable[str], link: str = "call_id"
) -> Block:
    """Return the result of a call that is in another item."""
    block = {"type": "tool_result", **renamed(item, tool_use_id=link), **typed}
    return translated(item, block, {link, *consumed}, wire_type)


def _failure_flag(item: Record) -> Block:
    return {"is_error": True} if is_one_of(item.get("status"), ("failed", "incomplete")) else {}


def call_output(wire_type: str, key: str = "output") -> Callable[[Record], Block]:
    """Return the translation of a tool output under this key; the item's status shows whether the tool failed."""
    return lambda item: _result_block(
        item, wire_type, {"content": parse_tool_output(item[key]), **_failure_flag(item)}, {key}
    )


def _translate_computer_output(item: Record) -> Block:
    typed = {"content": [parse_block(item["output"])], **_failure_flag(item)}
    return _result_block(item, "computer_call_output", typed, {"output"})


def _translate_local_shell_output(item: Record) -> Block:
    """Translate a shell output; without a `call_id` it is linked by the item's `id`, which is also the call's."""
    link = "call_id" if "call_id" in item else "id"
    typed = {"content": parse_tool_output(item["output"]), **_failure_flag(item)}
    return _result_block(item, "local_shell_call_output", typed, {"output"}, link)


def _translate_shell_output(item: Record) -> Block:
    """Return the output of every command, with the exit code of the last one."""
    output = item["output"]
    if isinstance(output, str):
        text = {"content": output, **_failure_flag(item)}
        return _result_block(item, "shell_call_output", text, {"output"})
    texts = [text_block(run[name]) for run in bounded(output) for name in ("stdout", "stderr") if name in run]
    code = count_at(output[-1], "outcome", "exit_code") if output else None
    typed = {"content": texts, "structured": output, **({} if code is None else {"exit_code": code})}
    return _result_block(item, "shell_call_output", {**typed, **_failure_flag(item)}, {"output"})


def _translate_patch_output(item: Record) -> Block:
    text = {"content": item["output"]} if "output" in item else {}
    typed = {**text, "is_error": item["status"] == "failed"}
    return _result_block(item, "apply_patch_call_output", typed, {"output"})


def _translate_tool_search_output(item: Record) -> Block:
    return _result_block(item, "tool_search_output", {"structured": item["tools"]}, {"tools"})


ITEMS: Mapping[str, Translation] = {
    "apply_patch_call": _unnamed_call("apply_patch_call", "apply_patch", "operation"),
    "apply_patch_call_output": _translate_patch_output,
    "code_interpreter_call": _translate_code_interpreter,
    "computer_call": _unnamed_call("computer_call", "computer", "action", "actions"),
    "computer_call_output": _translate_computer_output,
    "custom_tool_call": _translate_custom_call,
    "custom_tool_call_output": call_output("custom_tool_call_output"),
    "file_search_call": _translate_file_search,
    "function_call": _named_call("function_call"),
    "function_call_output": call_output("function_call_output"),
    "image_generation_call": _translate_image_generation,
    "local_shell_call": _translate_local_shell,
    "local_shell_call_output": _translate_local_shell_output,
    "mcp_call": _translate_mcp_call,
    "message": _translate_message,
    "program": _translate_program,
    "program_output": call_output("program_output", "result"),
    "reasoning": _translate_reasoning,
    "shell_call": _unnamed_call("shell_call", "shell", "action"),
    "shell_call_output": _translate_shell_output,
    "tool_search_call": _translate_tool_search,
    "tool_search_output": _translate_tool_search_output,
    "web_search_call": _translate_web_search,
    "x_search_call": _named_call("x_search_call", executor="server"),
}

UNTYPED: Mapping[str, RawReason] = {
    **dict.fromkeys(
        (
            "additional_tools",
            "compaction_trigger",
            "configuration_update",
            "item_reference",
            "mcp_approval_request",
            "mcp_approval_response",
            "mcp_list_tools",
        ),
        "control",
    ),
    "compaction": "opaque",
}
"""Reasons of the raw blocks of known items that have no typed form."""

_RESULT_ITEMS = frozenset(name for name in ITEMS if name.endswith("_output"))
"""Items that contain only a tool output."""


def parse_item(item: Any) -> list[Block]:
    """Return the blocks of one item. The `type` of a message is optional."""
    wire_type = item_type(item)
    if wire_type is not None and wire_type in ITEMS:
        return translate(wire_type, item, ITEMS[wire_type])
    if (
        wire_type is None
        and isinstance(item, dict)
        and value_at(item, "id")
        and item.keys() <= {"id", "type"}
    ):
        wire_type = "item_reference"
    return [raw_block(UNTYPED.get(wire_type or "", "unknown_type"), item, wire_type)]


def item_type(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    wire_type = item.get("type")
    if wire_type is None and "role" in item and "content" in item:
        return "message"
    return wire_type if isinstance(wire_type, str) else None


def item_role(item: Any) -> Role:
    wire_type = item_type(item)
    if wire_type == "message":
        role = item.get("role")
        return ROLES.get(role, "user") if isinstance(role, str) else "user"
    return "tool" if wire_type in _RESULT_ITEMS else "assistant"


def item_speaker(item: Any) -> Role:
    """Return the role of the message that an item belongs to; for results of hosted tools, the assistant."""
    hosted = item_type(item) == "program_output" or value_at(item, "execution") == "server"
    return "assistant" if hosted else item_role(item)


def parse_items(items: list[Any]) -> list[Block]:
    return bounded([block for item in items for block in parse_item(item)])


# Standard messages.


def refusal_reason(blocks: Iterable[Block]) -> str | None:
    """Return "refusal" if one of the blocks is a refusal."""
    return "refusal" if any(block.get("variant") == "refusal" for block in blocks) else None


def item_part(role: Role, blocks: list[Block], *, synthetic: bool) -> Part:
    """Return the part of an item outside a response. Consecutive assistant items, and tool results, are joined."""
    return Part(
        role=speaker_of_role(role),
        blocks=blocks,
        origin="synthetic" if synthetic else "prompt",
        metadata={"stop_reason": refusal_reason(blocks)},
        relation="continuation" if role in ("assistant", "tool") else "new",
    )
