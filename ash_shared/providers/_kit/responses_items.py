"""The items of OpenAI's Responses API, and the parts of their contents: what its bodies hold, and the lines of Codex.

Sources: the output item, input item and content unions of the `openai` package, and `ResponseItem` of Codex's protocol.
A call and its result are linked by `call_id`; an item's own `id` is another, and stays in `extra`. Tools that OpenAI
runs write the call and its result in one item, which gives two blocks that are linked by the item's `id`. What an item
with several blocks does not have a field for is on the first of them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    CLASSES,
    Block,
    Reader,
    Translation,
    bounded,
    is_native,
    is_valid,
    pick,
    raw_block,
    read_content,
    read_list,
    read_nested,
    text_block,
    translate,
    translated,
    with_extra,
)
from ash_shared.model.content import RawReason
from ash_shared.model.message import Role
from ash_shared.providers._kit.contract import Part, Record, speaker_of_role
from ash_shared.providers._kit.json_fields import (
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

# Content: the parts of a message, and of what a tool answered.


def content_reader(parts: Mapping[str, Translation]) -> Reader:
    """Reads one part of a content list, by the tables of a format."""

    def read(block: Any) -> Block:
        if is_native(block):
            return block
        if block.__class__ is str:
            return text_block(block)
        wire = value_at(block, "type")
        if wire.__class__ is not str:
            return raw_block("unknown_type", block)
        if wire in parts:
            return translate(wire, block, parts[wire])[0]
        if wire not in CLASSES:
            return raw_block("unknown_type", block, wire)
        return read_nested(block, read) if is_valid(block) else raw_block("malformed", block, wire)

    return read


def read_text(part: Record) -> Block:
    """Text, with the sources that only an answer has."""
    cited = {"citations": part["annotations"]} if "annotations" in part else {}
    return translated(part, {**text_block(part["text"]), **cited}, {"text", "annotations"}, part["type"])


def _refusal(part: Record) -> Block:
    return translated(part, text_block(part["refusal"], "refusal"), {"refusal"}, "refusal")


def _encrypted(part: Record) -> Block:
    return raw_block("opaque", part, part["type"])


SourceMakers = Mapping[str, Callable[[Any], Block]]
"""What makes a source of the value, by the keys that can say where the bytes are: the first that is not null does."""


def _place(part: Record, places: SourceMakers) -> str | None:
    return next((name for name in places if part.get(name) is not None), None)


def media_translation(kind: Block, places: SourceMakers) -> Translation:
    """A picture or a recording: `kind` are the keys that all of them have."""
    own = ("detail",) if kind["type"] == "image" else ()

    def translation(part: Record) -> Block:
        place = _place(part, places)
        if place is None:  # null where Codex took a picture out of a history
            raise KeyError(part["type"])
        source = places[place](part[place])
        mime = {} if own or "media_type" not in source else {"mimeType": source["media_type"]}
        typed = {**kind, **mime, "source": source, **pick(part, *own)}
        return translated(part, typed, {place, *own}, part["type"])

    return translation


def _file(part: Record) -> Block:
    place = _place(part, FILE_SOURCES)
    source = None if place is None else FILE_SOURCES[place](part[place])
    typed = {
        "type": "file",
        **pick(part, "filename"),
        **mime_fields((source or {}).get("media_type")),
        **({"source": source} if source else {}),
    }
    return translated(part, typed, {"filename", place or "file_data"}, "input_file")


def uploaded_source(file_id: Any) -> Block:
    """The source of bytes that the vendor has."""
    return {"type": "file", "file_id": file_id}


def _inline(data: str) -> Block:
    return url_source(data) if data.startswith("data:") else {"type": "base64", "data": data}


FILE_SOURCES: SourceMakers = {"file_data": _inline, "file_url": url_source, "file_id": uploaded_source}

_IMAGE = media_translation({"type": "image"}, {"image_url": url_source, "file_id": uploaded_source})

PARTS: Mapping[str, Translation] = {
    "computer_screenshot": _IMAGE,
    "input_audio": media_translation(
        {"type": "file", "mediaClass": "audio"}, {"audio_url": url_source, "file_id": uploaded_source}
    ),
    "input_file": _file,
    "input_image": _IMAGE,
    "input_text": read_text,
    "output_text": read_text,
    "refusal": _refusal,
}
CONTENT: Mapping[str, Translation] = {**PARTS, "encrypted_content": _encrypted}
"""All that a content list holds; what is encrypted says nothing by itself."""

read_block = content_reader(CONTENT)


def read_tool_output(output: Any) -> Any:
    """What a tool answered: a string, or any JSON, stays; a list of parts is read."""
    return read_list(output, read_block) if output.__class__ is list else output


# Items.


def keep_unread_keys(blocks: list[Block], item: Record, consumed: Iterable[str], wire: str) -> list[Block]:
    """The blocks of one item, the first of them with what the item says beside them. An item that has none is kept
    whole, if it says anything."""
    used = {"type", *consumed}
    rest = {key: value for key, value in item.items() if key not in used}
    if not rest:
        return blocks
    return [with_extra(blocks[0], rest), *blocks[1:]] if blocks else [raw_block("control", item, wire)]


def _message(item: Record) -> list[Block]:
    """What was said. The role alone is told by the reading."""
    phase = pick(item, "phase")
    blocks = [
        {**block, **phase} if block["type"] == "text" else block
        for block in read_content(item["content"], read_block)
    ]
    used = ("content", *phase) if any(block["type"] == "text" for block in blocks) else ("content",)
    told = item.keys() - {"type", "role", *used}
    return keep_unread_keys(blocks, item, used, "message") if told else blocks


def _reasoning(item: Record) -> list[Block]:
    """One block for each summary and each text; a mark where there are none. What is encrypted is on the first."""
    told = [_thought(part, {"is_summary": True}) for part in list_or_empty(item["summary"])]
    told += [_thought(part, {}) for part in list_or_empty(item.get("content"))]
    first, *others = told or [
        {"type": "thinking", "thinking": "", "redacted": True, "source_type": "reasoning"}
    ]
    data = {"data": item["encrypted_content"]} if "encrypted_content" in item else {}
    return keep_unread_keys(
        [{**first, **data}, *others], item, ("summary", "content", "encrypted_content"), "reasoning"
    )


def _thought(part: Record, marks: Block) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"], **marks}, {"text"}, "reasoning")


def _use(item: Record, wire: str, typed: Block, consumed: Iterable[str], link: str = "call_id") -> Block:
    """A call; `link` is the key of the id that its result names."""
    ids = {"id": item[link]} if link in item else {}
    block = {"type": "tool_use", **ids, **typed, **pick(item, "status")}
    return translated(item, block, {link, "status", *consumed}, wire)


def _result(item: Record, wire: str, typed: Block) -> Block:
    """The result of a call that is in the same item."""
    return {
        "type": "tool_result",
        **({"tool_use_id": item["id"]} if "id" in item else {}),
        **typed,
        "source_type": wire,
    }


def _given(item: Record, *names: str) -> set[str]:
    """Those of the keys that are not null: a null that gives no block stays in `extra`."""
    return {name for name in names if item.get(name) is not None}


def _call(wire: str, **marks: str) -> Translation:
    """A call by name, whose arguments are JSON text."""

    def translation(item: Record) -> Block:
        given, consumed = input_at(item, "arguments")
        return _use(item, wire, {"name": item["name"], "input": given, **marks}, ("name", *consumed))

    return translation


def _custom_call(item: Record) -> Block:
    return _use(item, "custom_tool_call", pick(item, "name", "input"), {"name", "input"})


def _acting(wire: str, name: str, *keys: str, **marks: str) -> Translation:
    """A call of a tool that has no name on the wire; its input is under the first of these keys that is not null."""

    def translation(item: Record) -> Block:
        key = next((key for key in keys if item.get(key) is not None), keys[0])
        return _use(item, wire, {"name": name, "input": item[key], **marks}, {key})

    return translation


def _local_shell(item: Record) -> Block:
    """Its own `id` is all that links it where there is no `call_id`."""
    link = "id" if item.get("call_id") is None and "id" in item else "call_id"
    return _use(item, "local_shell_call", {"name": "shell", "input": item["action"]}, {"action"}, link)


def _tool_search(item: Record) -> Block:
    executor = {"executor": "server"} if item.get("execution") == "server" else {}
    given, consumed = input_at(item, "arguments")
    return _use(item, "tool_search_call", {"name": "tool_search", "input": given, **executor}, consumed)


def _program(item: Record) -> Block:
    typed = {"name": "program", "input": {"code": item["code"]}, "executor": "server"}
    return _use(item, "program", typed, {"code"})


def _web_search(item: Record) -> list[Block]:
    action, wire = item.get("action"), "web_search_call"
    use = _use(item, wire, {"name": "web_search", "input": action, "executor": "server"}, {"action"}, "id")
    sources = value_at(action, "sources")
    return [use] if sources is None else [use, _result(item, wire, {"structured": sources})]


def _file_search(item: Record) -> list[Block]:
    wire = "file_search_call"
    typed = {"name": "file_search", "input": {"queries": item["queries"]}, "executor": "server"}
    use = _use(item, wire, typed, {"queries", *_given(item, "results")}, "id")
    results = item.get("results")
    return [use] if results is None else [use, _result(item, wire, {"structured": results})]


def _code_interpreter(item: Record) -> list[Block]:
    wire = "code_interpreter_call"
    typed = {"name": "code_interpreter", "input": {"code": item["code"]}, "executor": "server"}
    use = _use(item, wire, typed, {"code", *_given(item, "outputs")}, "id")
    if item.get("outputs") is None:
        return [use]
    outputs = [_output(output) for output in bounded(item["outputs"])]
    return [use, _result(item, wire, {"content": outputs})]


def _output(output: Any) -> Block:
    wire = output.get("type")
    if wire.__class__ is not str or wire not in _OUTPUTS:
        return raw_block("unknown_type", output, wire if wire.__class__ is str else None)
    return translate(wire, output, _OUTPUTS[wire])[0]


_OUTPUTS: Mapping[str, Translation] = {
    "logs": lambda output: translated(output, text_block(output["logs"]), {"logs"}, "logs"),
    "image": lambda output: translated(
        output, {"type": "image", "source": url_source(output["url"])}, {"url"}, "image"
    ),
}

_ASKED_OF_IMAGES = ("action", "background", "quality", "revised_prompt", "size")


def _image_generation(item: Record) -> list[Block]:
    """What was asked for and what was used are one: the input is whatever the item tells of it."""
    wire, error = "image_generation_call", item.get("error")
    typed = {"name": "image_generation", "input": pick(item, *_ASKED_OF_IMAGES), "executor": "server"}
    drawn = {"content": [generated_image(item)]} if item.get("result") else {}
    failed = {} if error is None else {"is_error": True, "structured": error}
    used = {*_ASKED_OF_IMAGES, *(("result",) if drawn else ()), *_given(item, "error")}
    use = _use(item, wire, typed, used, "id")
    return [use, _result(item, wire, {**drawn, **failed})] if drawn or failed else [use]


def generated_image(item: Record) -> Block:
    """The picture of an item whose `result` is its bytes; its kind is told where the item names the format."""
    return {"type": "image", "source": _drawn(item["result"], item)}


def _drawn(picture: str, item: Record) -> Block:
    source, form = _inline(picture), text_at(item, "output_format")
    declared = (
        {"media_type": f"image/{_SUBTYPES.get(form, form)}"} if form and source["type"] == "base64" else {}
    )
    return {**declared, **source}


_SUBTYPES: Mapping[str, str] = {"svg": "svg+xml"}


def _mcp(item: Record) -> list[Block]:
    given, consumed = input_at(item, "arguments")
    error, output = item.get("error"), item.get("output")
    typed = {
        "name": item["name"],
        "input": given,
        "executor": "mcp",
        "server_name": item["server_label"],
    }
    used = {"name", "server_label", *consumed, *_given(item, "output", "error")}
    use = _use(item, "mcp_call", typed, used, "id")
    if error is None and output is None:
        return [use]
    return [use, _result(item, "mcp_call", {**_mcp_answer(output, error), "is_error": error is not None})]


def _mcp_answer(output: Any, error: Any) -> Block:
    """An error that is a text is all the tool answered; the vendor's own errors are objects."""
    if output is None and error.__class__ is str:
        return {"content": error}
    told = {} if output is None else {"content": read_tool_output(output)}
    return told if error is None else {**told, "structured": error}


def _outcome(item: Record, wire: str, typed: Block, consumed: Iterable[str], link: str = "call_id") -> Block:
    """The result of a call that is in another item."""
    ids = {"tool_use_id": item[link]} if link in item else {}
    return translated(item, {"type": "tool_result", **ids, **typed}, {link, *consumed}, wire)


_FAILED = frozenset({"failed", "incomplete"})


def _unfinished(item: Record) -> Block:
    return {"is_error": True} if is_one_of(item.get("status"), _FAILED) else {}


def call_output(wire: str, key: str = "output") -> Callable[[Record], Block]:
    """What a tool answered, under this key; it failed where the status says so."""
    return lambda item: _outcome(
        item, wire, {"content": read_tool_output(item[key]), **_unfinished(item)}, {key}
    )


def _computer_output(item: Record) -> Block:
    typed = {"content": [read_block(item["output"])], **_unfinished(item)}
    return _outcome(item, "computer_call_output", typed, {"output"})


def _local_shell_output(item: Record) -> Block:
    """Its `id` is that of the call."""
    link = "call_id" if "call_id" in item else "id"
    typed = {"content": read_tool_output(item["output"]), **_unfinished(item)}
    return _outcome(item, "local_shell_call_output", typed, {"output"}, link)


def _shell_output(item: Record) -> Block:
    """What each command wrote; the exit code is that of the last."""
    output = item["output"]
    if output.__class__ is str:
        return _outcome(item, "shell_call_output", {"content": output, **_unfinished(item)}, {"output"})
    texts = [text_block(run[name]) for run in bounded(output) for name in ("stdout", "stderr") if name in run]
    code = count_at(output[-1], "outcome", "exit_code") if output else None
    typed = {"content": texts, "structured": output, **({} if code is None else {"exit_code": code})}
    return _outcome(item, "shell_call_output", {**typed, **_unfinished(item)}, {"output"})


def _patch_output(item: Record) -> Block:
    text = {"content": item["output"]} if "output" in item else {}
    return _outcome(
        item, "apply_patch_call_output", {**text, "is_error": item["status"] == "failed"}, {"output"}
    )


def _found_tools(item: Record) -> Block:
    return _outcome(item, "tool_search_output", {"structured": item["tools"]}, {"tools"})


ITEMS: Mapping[str, Translation] = {
    "apply_patch_call": _acting("apply_patch_call", "apply_patch", "operation"),
    "apply_patch_call_output": _patch_output,
    "code_interpreter_call": _code_interpreter,
    "computer_call": _acting("computer_call", "computer", "action", "actions"),
    "computer_call_output": _computer_output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": call_output("custom_tool_call_output"),
    "file_search_call": _file_search,
    "function_call": _call("function_call"),
    "function_call_output": call_output("function_call_output"),
    "image_generation_call": _image_generation,
    "local_shell_call": _local_shell,
    "local_shell_call_output": _local_shell_output,
    "mcp_call": _mcp,
    "message": _message,
    "program": _program,
    "program_output": call_output("program_output", "result"),
    "reasoning": _reasoning,
    "shell_call": _acting("shell_call", "shell", "action"),
    "shell_call_output": _shell_output,
    "tool_search_call": _tool_search,
    "tool_search_output": _found_tools,
    "web_search_call": _web_search,
    "x_search_call": _call("x_search_call", executor="server"),
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
"""Items that are known and have no typed form."""

_RESULTS = frozenset(
    {
        "apply_patch_call_output",
        "computer_call_output",
        "custom_tool_call_output",
        "function_call_output",
        "local_shell_call_output",
        "program_output",
        "shell_call_output",
        "tool_search_output",
    }
)
"""Items that are nothing but what a tool answered."""


def read_item(item: Any) -> list[Block]:
    """The blocks of one item. A message may leave out its `type`."""
    wire = item_type(item)
    if wire is not None and wire in ITEMS:
        return translate(wire, item, ITEMS[wire])
    if wire is None and item.__class__ is dict and value_at(item, "id") and item.keys() <= {"id", "type"}:
        wire = "item_reference"
    return [raw_block(UNTYPED.get(wire or "", "unknown_type"), item, wire)]


def item_type(item: Any) -> str | None:
    if item.__class__ is not dict:
        return None
    wire = item.get("type")
    if wire is None and "role" in item and "content" in item:
        return "message"
    return wire if wire.__class__ is str else None


def item_role(item: Any) -> Role:
    wire = item_type(item)
    if wire == "message":
        role = item.get("role")
        return ROLES.get(role, "user") if role.__class__ is str else "user"
    return "tool" if wire in _RESULTS else "assistant"


def item_speaker(item: Any) -> Role:
    """In whose message an item stands: an answer holds the results of the tools that ran at the vendor, too."""
    hosted = item_type(item) == "program_output" or value_at(item, "execution") == "server"
    return "assistant" if hosted else item_role(item)


def read_items(items: list[Any]) -> list[Block]:
    return bounded([block for item in items for block in read_item(item)])


# Standard messages.


def refusal_reason(blocks: Iterable[Block]) -> str | None:
    """Why an answer ended, if it is a refusal."""
    return "refusal" if any(block.get("variant") == "refusal" for block in blocks) else None


def item_part(role: Role, blocks: list[Block], *, synthetic: bool) -> Part:
    """An item that stands alone: those of an answer follow each other, and so do the results of its calls."""
    return Part(
        role=speaker_of_role(role),
        blocks=blocks,
        adjoins=role in ("assistant", "tool"),
        metadata={"stop_reason": refusal_reason(blocks), "synthetic": True if synthetic else None},
    )
