"""OpenAI Responses: items of input and output, whole responses, requests and stream events.

Sources: the output item, input item, content and stream event unions of the `openai` package, and captured bodies of
OpenAI, Azure, xAI, LM Studio and GitHub Copilot. A call and its result are linked by `call_id`; an item's own `id` is
another, and stays in `extra`. Tools that OpenAI runs write the call and its result in one item, which gives two blocks
that are linked by the item's `id`. What an item with several blocks does not have a field for is on the first of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from ash_shared.blocks import (
    MAX_BLOCKS,
    Block,
    LimitExceeded,
    is_native,
    pick,
    raw_block,
    text_block,
    translate,
    translated,
)
from ash_shared.content import RawReason
from ash_shared.message import Facts, Role
from ash_shared.providers import Part, Provider, Record, RecordReading
from ash_shared.providers._marks import OWNERS, bodies_of
from ash_shared.visibility import is_system_message
from ash_shared.wire import (
    count_at,
    first_text,
    input_of,
    items_of,
    less,
    media_class,
    milliseconds,
    one_of,
    source_of,
    text_at,
    token_usage,
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


def read_block(block: Any) -> Block:
    """One part of a content list."""
    if is_native(block):
        return block  # type: ignore[no-any-return]  # a dict, as is_native says
    if block.__class__ is str:
        return text_block(block)
    wire = block.get("type") if block.__class__ is dict else None
    if wire.__class__ is not str:
        return raw_block("unknown_type", block)
    if wire == "encrypted_content":
        return raw_block("opaque", block, wire)
    return (
        translate(wire, block, _PARTS[wire])[0] if wire in _PARTS else raw_block("unknown_type", block, wire)
    )


def _said(wire: str) -> Callable[[Record], Block]:
    """Text, with the sources that only an answer has."""

    def translation(part: Record) -> Block:
        cited = {"citations": part["annotations"]} if "annotations" in part else {}
        return translated(part, {**text_block(part["text"]), **cited}, {"text", "annotations"}, wire)

    return translation


def _refusal(part: Record) -> Block:
    return translated(part, text_block(part["refusal"], "refusal"), {"refusal"}, "refusal")


def _where(part: Record, sources: Mapping[str, Callable[[Any], Block]]) -> str | None:
    """The first of these keys that says where the bytes are."""
    return next((name for name in sources if part.get(name) is not None), None)


def _image(wire: str) -> Callable[[Record], Block]:
    def translation(part: Record) -> Block:
        where = _where(part, _IMAGE_SOURCES)
        if where is None:
            raise KeyError("image_url")
        typed = {"type": "image", "source": _IMAGE_SOURCES[where](part[where]), **pick(part, "detail")}
        return translated(part, typed, {where, "detail"}, wire)

    return translation


def _file(part: Record) -> Block:
    where = _where(part, _FILE_SOURCES) or "file_data"
    source = _FILE_SOURCES[where](part[where]) if part.get(where) is not None else None
    typed = {
        "type": "file",
        **pick(part, "filename"),
        **_kind(source),
        **({"source": source} if source else {}),
    }
    return translated(part, typed, {"filename", where}, "input_file")


def _kind(source: Block | None) -> Block:
    mime = (source or {}).get("media_type")
    return {"mimeType": mime, "mediaClass": media_class(mime)} if mime else {}


def _recording(part: Record) -> Block:
    source = source_of(part["audio_url"])
    mime = {"mimeType": source["media_type"]} if "media_type" in source else {}
    typed = {"type": "file", **mime, "source": source, "mediaClass": "audio"}
    return translated(part, typed, {"audio_url"}, "input_audio")


def _uploaded(file_id: Any) -> Block:
    return {"type": "file", "file_id": file_id}


def _inline(data: str) -> Block:
    return source_of(data) if data.startswith("data:") else {"type": "base64", "data": data}


_IMAGE_SOURCES: Mapping[str, Callable[[Any], Block]] = {"image_url": source_of, "file_id": _uploaded}
_FILE_SOURCES: Mapping[str, Callable[[Any], Block]] = {
    "file_data": _inline,
    "file_url": source_of,
    "file_id": _uploaded,
}

_PARTS: Mapping[str, Callable[[Record], Block]] = {
    "computer_screenshot": _image("computer_screenshot"),
    "input_audio": _recording,
    "input_file": _file,
    "input_image": _image("input_image"),
    "input_text": _said("input_text"),
    "output_text": _said("output_text"),
    "refusal": _refusal,
}


def _read_content(content: Any) -> list[Block]:
    """The `content` of a message: a string, or a list of parts."""
    if content.__class__ is str:
        return [text_block(content)]
    if content.__class__ is not list:
        raise TypeError
    return [read_block(part) for part in _bounded(content)]


def _bounded(values: list[Any]) -> list[Any]:
    if len(values) > MAX_BLOCKS:
        raise LimitExceeded
    return values


def _answered(output: Any) -> Any:
    """What a tool answered: a string, or any JSON, stays; a list of parts is read."""
    return [read_block(part) for part in _bounded(output)] if output.__class__ is list else output


# Items.


def _beside(blocks: list[Block], rest: Block) -> list[Block]:
    """The blocks of one item, the first of them with what the item says beside them."""
    if not blocks or not rest:
        return blocks
    extra = blocks[0].get("extra") or {}
    merged = {**extra, "item": rest} if extra.keys() & rest.keys() else {**extra, **rest}
    return [{**blocks[0], "extra": merged}, *blocks[1:]]


def _message(item: Record) -> list[Block]:
    """What was said. A message that says nothing is kept whole, where it says anything of itself."""
    blocks = _read_content(item["content"])
    phase = pick(item, "phase")
    blocks = [{**block, **phase} if block["type"] == "text" else block for block in blocks]
    consumed = {"type", "content"} | (
        phase.keys() if any(block["type"] == "text" for block in blocks) else set()
    )
    rest = {key: value for key, value in item.items() if key not in consumed}
    if rest.keys() <= {"role"}:
        return blocks
    return _beside(blocks, rest) or [raw_block("control", item, "message")]


def _reasoning(item: Record) -> list[Block]:
    """One block for each summary and each text; a mark where there are none. What is encrypted is on the first."""
    told = [_thought(part, {"is_summary": True}) for part in items_of(item["summary"])]
    told += [_thought(part, {}) for part in items_of(item.get("content"))]
    first, *others = told or [
        {"type": "thinking", "thinking": "", "redacted": True, "source_type": "reasoning"}
    ]
    data = {"data": item["encrypted_content"]} if "encrypted_content" in item else {}
    consumed = ("type", "summary", "content", "encrypted_content")
    return _beside(
        [{**first, **data}, *others], {key: value for key, value in item.items() if key not in consumed}
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


def _call(wire: str, **marks: str) -> Callable[[Record], Block]:
    """A call by name, whose arguments are JSON text."""

    def translation(item: Record) -> Block:
        arguments = item["arguments"]
        typed = {"name": item["name"], "input": input_of(arguments), **marks}
        consumed = {"name", "arguments"} if typed["input"] is arguments else {"name"}
        return _use(item, wire, typed, consumed)

    return translation


def _custom_call(item: Record) -> Block:
    return _use(item, "custom_tool_call", pick(item, "name", "input"), {"name", "input"})


def _acting(wire: str, name: str, *keys: str, **marks: str) -> Callable[[Record], Block]:
    """A call of a tool that has no name on the wire; its input is under the first of these keys that is not null."""

    def translation(item: Record) -> Block:
        key = next((key for key in keys if item.get(key) is not None), keys[0])
        return _use(item, wire, {"name": name, "input": item[key], **marks}, {key})

    return translation


def _tool_search(item: Record) -> Block:
    executor = {"executor": "server"} if item.get("execution") == "server" else {}
    return _use(
        item,
        "tool_search_call",
        {"name": "tool_search", "input": item["arguments"], **executor},
        {"arguments"},
    )


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
    outputs = [_output(output) for output in _bounded(item["outputs"])]
    return [use, _result(item, wire, {"content": outputs})]


def _output(output: Any) -> Block:
    wire = output.get("type")
    if wire.__class__ is not str or wire not in _OUTPUTS:
        return raw_block("unknown_type", output, wire if wire.__class__ is str else None)
    return translate(wire, output, _OUTPUTS[wire])[0]


_OUTPUTS: Mapping[str, Callable[[Record], Block]] = {
    "logs": lambda output: translated(output, text_block(output["logs"]), {"logs"}, "logs"),
    "image": lambda output: translated(
        output, {"type": "image", "source": source_of(output["url"])}, {"url"}, "image"
    ),
}

_ASKED_OF_IMAGES = ("action", "background", "quality", "revised_prompt", "size")


def _image_generation(item: Record) -> list[Block]:
    """What was asked for and what was used are one: the input is whatever the item tells of it."""
    wire = "image_generation_call"
    typed = {"name": "image_generation", "input": pick(item, *_ASKED_OF_IMAGES), "executor": "server"}
    use = _use(item, wire, typed, {*_ASKED_OF_IMAGES, *_given(item, "result", "error")}, "id")
    error, picture = item.get("error"), item.get("result")
    drawn = {} if picture is None else {"content": [{"type": "image", "source": _drawn(picture, item)}]}
    failed = {} if error is None else {"is_error": True, "structured": error}
    return [use, _result(item, wire, {**drawn, **failed})] if drawn or failed else [use]


def _drawn(picture: str, item: Record) -> Block:
    source, form = _inline(picture), text_at(item, "output_format")
    declared = (
        {"media_type": f"image/{_SUBTYPES.get(form, form)}"} if form and source["type"] == "base64" else {}
    )
    return {**declared, **source}


_SUBTYPES: Mapping[str, str] = {"svg": "svg+xml"}


def _mcp(item: Record) -> list[Block]:
    arguments, error, output = item["arguments"], item.get("error"), item.get("output")
    typed = {
        "name": item["name"],
        "input": input_of(arguments),
        "executor": "mcp",
        "server_name": item["server_label"],
    }
    consumed = {"name", "server_label", *_given(item, "output", "error")}
    consumed |= {"arguments"} if typed["input"] is arguments else set()
    use = _use(item, "mcp_call", typed, consumed, "id")
    if error is None and output is None:
        return [use]
    return [use, _result(item, "mcp_call", {**_mcp_answer(output, error), "is_error": error is not None})]


def _mcp_answer(output: Any, error: Any) -> Block:
    """An error that is a text is all the tool answered; the vendor's own errors are objects."""
    if output is None and error.__class__ is str:
        return {"content": error}
    told = {} if output is None else {"content": _answered(output)}
    return told if error is None else {**told, "structured": error}


def _outcome(item: Record, wire: str, typed: Block, consumed: Iterable[str], link: str = "call_id") -> Block:
    """The result of a call that is in another item."""
    ids = {"tool_use_id": item[link]} if link in item else {}
    return translated(item, {"type": "tool_result", **ids, **typed}, {link, *consumed}, wire)


_FAILED = frozenset({"failed", "incomplete"})


def _unfinished(item: Record) -> Block:
    return {"is_error": True} if one_of(item.get("status"), _FAILED) else {}


def _call_output(wire: str, key: str = "output") -> Callable[[Record], Block]:
    return lambda item: _outcome(item, wire, {"content": _answered(item[key]), **_unfinished(item)}, {key})


def _computer_output(item: Record) -> Block:
    typed = {"content": [read_block(item["output"])], **_unfinished(item)}
    return _outcome(item, "computer_call_output", typed, {"output"})


def _local_shell_output(item: Record) -> Block:
    """Its `id` is that of the call."""
    link = "call_id" if "call_id" in item else "id"
    typed = {"content": _answered(item["output"]), **_unfinished(item)}
    return _outcome(item, "local_shell_call_output", typed, {"output"}, link)


def _shell_output(item: Record) -> Block:
    """What each command wrote; the exit code is that of the last."""
    output = item["output"]
    if output.__class__ is str:
        return _outcome(item, "shell_call_output", {"content": output, **_unfinished(item)}, {"output"})
    texts = [
        text_block(run[name]) for run in _bounded(output) for name in ("stdout", "stderr") if name in run
    ]
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


_ITEMS: Mapping[str, Callable[[Record], Block | list[Block]]] = {
    "apply_patch_call": _acting("apply_patch_call", "apply_patch", "operation"),
    "apply_patch_call_output": _patch_output,
    "code_interpreter_call": _code_interpreter,
    "computer_call": _acting("computer_call", "computer", "action", "actions"),
    "computer_call_output": _computer_output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _call_output("custom_tool_call_output"),
    "file_search_call": _file_search,
    "function_call": _call("function_call"),
    "function_call_output": _call_output("function_call_output"),
    "image_generation_call": _image_generation,
    "local_shell_call": _acting("local_shell_call", "shell", "action"),
    "local_shell_call_output": _local_shell_output,
    "mcp_call": _mcp,
    "message": _message,
    "program": _program,
    "program_output": _call_output("program_output", "result"),
    "reasoning": _reasoning,
    "shell_call": _acting("shell_call", "shell", "action"),
    "shell_call_output": _shell_output,
    "tool_search_call": _tool_search,
    "tool_search_output": _found_tools,
    "web_search_call": _web_search,
    "x_search_call": _call("x_search_call", executor="server"),
}

_UNTYPED: Mapping[str, RawReason] = {
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
    wire = _item_type(item)
    if wire is not None and wire in _ITEMS:
        return translate(wire, item, _ITEMS[wire])
    if wire is None and item.__class__ is dict and value_at(item, "id") and item.keys() <= {"id", "type"}:
        wire = "item_reference"
    return [raw_block(_UNTYPED.get(wire or "", "unknown_type"), item, wire)]


def _item_type(item: Any) -> str | None:
    if item.__class__ is not dict:
        return None
    wire = item.get("type")
    if wire is None and "role" in item and "content" in item:
        return "message"
    return wire if wire.__class__ is str else None


def _role_of(item: Any) -> Role:
    wire = _item_type(item)
    if wire == "message":
        role = item.get("role")
        return ROLES.get(role, "user") if role.__class__ is str else "user"
    return "tool" if wire in _RESULTS else "assistant"


def _speaker_of(item: Any) -> Role:
    """In whose message an item stands: an answer holds the results of the tools that ran at the vendor, too."""
    hosted = _item_type(item) == "program_output" or value_at(item, "execution") == "server"
    return "assistant" if hosted else _role_of(item)


def _read_items(items: list[Any]) -> list[Block]:
    return _bounded([block for item in items for block in read_item(item)])


# Records.


def _read_bare(item: Record) -> RecordReading:
    if _item_type(item) not in _ITEMS:
        return RecordReading("record", "system", read_item(item))
    return RecordReading("message", _role_of(item), _bounded(read_item(item)))


def _read_response(record: Record) -> RecordReading:
    return RecordReading("message", "assistant", _read_items(items_of(record.get("output"))))


def _turns(record: Record) -> Iterator[tuple[Role, Any, list[Block]]]:
    """The instructions, and then each message and each run of an answer's items, or of results: who wrote it, the piece
    of the request, and its blocks."""
    given, instructions = record["input"], record.get("instructions")
    if instructions is not None:
        yield "system", instructions, _read_input(instructions)
    if given.__class__ is not list:
        yield "user", given, _read_input(given)
        return
    for (role, _), run in groupby(enumerate(given), key=lambda place: _run_of(*place)):
        items = [item for _, item in run]
        yield role, items, _read_items(items)


def _read_input(given: Any) -> list[Block]:
    """Instructions, or an input, are a text, or a list of items."""
    return _read_items(given) if given.__class__ is list else _read_content(given)


def _run_of(place: int, item: Any) -> tuple[Role, int]:
    """What neighbouring items of one message have in common: a message of a person is one by itself."""
    role = _speaker_of(item)
    return role, 0 if role in ("assistant", "tool") else place


def _read_request(record: Record) -> RecordReading:
    return RecordReading(
        "message", "user", _bounded([block for _, _, turn in _turns(record) for block in turn])
    )


def _read_event(record: Record) -> RecordReading:
    """A stream event: an item that is done is read as the item, all others are fragments."""
    wire = record["type"]
    if wire == "response.output_item.done" and record.get("item").__class__ is dict:
        return _read_bare(record["item"])
    reason: RawReason = "stream_fragment" if wire in _EVENTS else "unknown_type"
    return RecordReading("chunk", "assistant", [raw_block(reason, record, wire)])


def _read_part(record: Record) -> RecordReading:
    role: Role = "assistant" if record["type"] in ("output_text", "refusal") else "user"
    return RecordReading("message", role, [read_block(record)])


def _read_error(record: Record) -> RecordReading:
    return RecordReading("record", "system", [raw_block("control", record, "error")])


def read(record: Record) -> RecordReading:
    """Any record of the format."""
    wire = record.get("type")
    if wire.__class__ is str:
        return _read_typed(wire, record)
    if _is_response(record):
        return _read_response(record)
    if "input" in record:
        return _read_request(record)
    if record.get("error") is not None:
        return _read_error(record)
    return _read_bare(record)


def _read_typed(wire: str, record: Record) -> RecordReading:
    if wire == "error" or wire.startswith("response."):
        return _read_event(record)
    return _read_part(record) if wire in _PARTS else _read_bare(record)


def _events(group: str, *names: str) -> Iterator[str]:
    return (f"response.{group}{name}" for name in names)


_EVENTS = frozenset(
    {
        "error",
        *_events("", "completed", "created", "failed", "in_progress", "incomplete", "queued"),
        *_events("apply_patch_call.", "completed", "in_progress"),
        *_events("apply_patch_call_operation_diff.", "delta", "done"),
        *_events("audio.", "delta", "done", "transcript.delta", "transcript.done"),
        *_events("code_interpreter_call.", "completed", "in_progress", "interpreting"),
        *_events("code_interpreter_call_code.", "delta", "done"),
        *_events("compaction.", "compacting"),
        *_events("content_part.", "added", "done"),
        *_events("custom_tool_call_input.", "delta", "done"),
        *_events("file_search_call.", "completed", "in_progress", "searching"),
        *_events("function_call_arguments.", "delta", "done"),
        *_events("image_generation_call.", "completed", "generating", "in_progress", "partial_image"),
        *_events("mcp_call.", "completed", "failed", "in_progress"),
        *_events("mcp_call_arguments.", "delta", "done"),
        *_events("mcp_list_tools.", "completed", "failed", "in_progress"),
        *_events("output_item.", "added", "done"),
        *_events("output_text.", "annotation.added", "delta", "done"),
        *_events("reasoning_summary_part.", "added", "done"),
        *_events("reasoning_summary_text.", "delta", "done"),
        *_events("reasoning_text.", "delta", "done"),
        *_events("refusal.", "delta", "done"),
        *_events("shell_call_command.", "added", "delta", "done"),
        *_events("shell_call_output_content.", "delta", "done"),
        *_events("web_search_call.", "completed", "in_progress", "searching"),
    }
)


# Recognition.


_FOREIGN_KEYS = frozenset({"model", "stop_reason", "timestamp", "usage", "uuid"})
_OWN_PARTS = _PARTS.keys() - {"input_audio", "refusal"}
"""Parts that Chat Completions do not have."""
_MESSAGE_KEYS = frozenset({"content", "id", "phase", "role", "status", "type"})


def _is_message(record: Record) -> bool:
    """A message with parts, a phase or a status that only this format has, or one that names its type."""
    if not one_of(record.get("role"), ROLES) or not _FOREIGN_KEYS.isdisjoint(record):
        return False
    content = record.get("content")
    if content.__class__ is list and content:
        own = _PARTS if "type" in record else _OWN_PARTS
        return any(part.__class__ is dict and one_of(part.get("type"), own) for part in content)
    return (
        content.__class__ in (str, list)
        and "type" in record
        and (content.__class__ is str or bool(record.keys() & {"phase", "status"}))
        and record.keys() <= _MESSAGE_KEYS
    )


_RECOGNIZED: Mapping[str, Callable[[Record], bool]] = {
    **dict.fromkeys(
        (*_ITEMS, *_UNTYPED),
        lambda record: bool(record.keys() & {"id", "call_id", "status", "tools", "approval_request_id"}),
    ),
    "compaction": lambda record: record.get("encrypted_content").__class__ is str and "content" not in record,
    "computer_screenshot": lambda record: "image_url" in record or "file_id" in record,
    "error": lambda record: (
        record.get("sequence_number").__class__ is int
        and record.keys().isdisjoint(("content", "parts", "severity"))
    ),
    "function_call": lambda record: (
        record.get("arguments").__class__ is str
        and record.get("name").__class__ is str
        and record.keys().isdisjoint(("function", "result"))
    ),
    "function_call_output": lambda record: "output" in record,
    "custom_tool_call": lambda record: "input" in record and "name" in record,
    "custom_tool_call_output": lambda record: "output" in record and "call_id" in record,
    "input_audio": lambda record: "audio_url" in record,
    "input_file": lambda record: bool(record.keys() & _FILE_SOURCES.keys()),
    "input_image": lambda record: "image_url" in record or "file_id" in record,
    "input_text": lambda record: record.get("text").__class__ is str,
    "message": _is_message,
    "output_text": lambda record: record.get("text").__class__ is str,
    "reasoning": lambda record: record.get("summary").__class__ is list,
    "refusal": lambda record: record.get("refusal").__class__ is str,
}


_RESPONSES = frozenset({"response", "response.compaction"})


def _is_response(record: Record) -> bool:
    return one_of(record.get("object"), _RESPONSES) and record.get("output").__class__ in (list, type(None))


def _is_request(record: Record) -> bool:
    """A body with input for a model, or for an agent that Gemini's interactions name in the same place."""
    given = record["input"]
    if record.get("model").__class__ is not str and not record.keys() & {
        "instructions",
        "previous_response_id",
        "prompt",
    }:
        return False
    if given.__class__ is list:
        return all(_is_item(item) for item in given)
    return given.__class__ is str and not record.keys() & {"dimensions", "encoding_format", "voice"}


def _is_item(item: Any) -> bool:
    wire = _item_type(item)
    return wire is not None and (wire in _ITEMS or wire in _UNTYPED or wire in _PARTS)


def recognizes(record: Record) -> bool:
    """Whether a record is of this format."""
    wire = record.get("type")
    if wire.__class__ is str:
        if not record.keys().isdisjoint(OWNERS):
            return False
        return wire.startswith("response.") or (wire in _RECOGNIZED and _RECOGNIZED[wire](record))
    bodies = bodies_of(record)
    if "object" in record:
        return bodies <= _RESPONSE_BODIES and _is_response(record)
    if bodies == {"input"}:
        return _is_request(record)
    if bodies or "role" not in record or "content" not in record:
        return False
    return record.keys().isdisjoint(_CHAT_KEYS) and _is_message(record)


_CHAT_KEYS = frozenset(
    {
        "annotations",
        "audio",
        "function_call",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_call_id",
        "tool_calls",
    }
)
"""What messages of Chat Completions hold beside their content."""


_RESPONSE_BODIES = frozenset({"error", "input", "object", "output", "stats"})


def _envelope(record: Record) -> Record:
    """The response that a record tells of: itself, or that of an event."""
    response = record.get("response")
    return response if response.__class__ is dict else record


def facts(record: Record) -> Facts:
    """A response says when it was made and by which model; items say neither."""
    response = _envelope(record)
    return Facts(
        timestamp=milliseconds(response.get("created_at")),
        session_id=text_at(response, "conversation", "id") or text_at(response, "conversation"),
        model=text_at(response, "model"),
    )


# Standard messages.


def _usage(response: Record) -> Block | None:
    """Input tokens hold those of the cache, and output tokens those of reasoning."""
    usage = response.get("usage")
    read = count_at(usage, "input_tokens_details", "cached_tokens")
    written = count_at(usage, "input_tokens_details", "cache_write_tokens")
    return token_usage(
        usage,
        input=less(count_at(usage, "input_tokens"), read, written),
        output=count_at(usage, "output_tokens"),
        cache_read=read,
        cache_creation=written,
        reasoning=count_at(usage, "output_tokens_details", "reasoning_tokens"),
        service_tier=text_at(response, "service_tier"),
    )


def error_of(error: Any) -> Block | None:
    """The keys of a `MessageError`."""
    if error.__class__ is not dict:
        return None
    code = first_text(error, ("code", "type")) or "error"
    return {"code": code, "message": text_at(error, "message") or code, "details": error}


def _refused(blocks: Iterable[Block]) -> str | None:
    return "refusal" if any(block.get("variant") == "refusal" for block in blocks) else None


def _stop_reason(response: Record) -> str | None:
    return text_at(response, "incomplete_details", "reason") or text_at(response, "status")


def _response_part(response: Record, blocks: list[Block]) -> Part:
    return Part(
        role="assistant",
        blocks=blocks,
        key=text_at(response, "id"),
        usage=_usage(response),
        metadata={
            "messageId": text_at(response, "id"),
            "model": text_at(response, "model"),
            "stop_reason": _refused(blocks) or _stop_reason(response),
        },
        error=error_of(response.get("error")),
    )


def _item_part(role: Role, blocks: list[Block]) -> Part:
    """An item that stands alone: those of an answer follow each other, and so do the results of its calls."""
    prompt = role == "user" and bool(blocks) and all(block["type"] == "text" for block in blocks)
    injected = prompt and is_system_message("\n".join(block["text"] for block in blocks))
    return Part(
        role="user" if role == "tool" else role,
        blocks=blocks,
        adjoins=role in ("assistant", "tool"),
        metadata={"stop_reason": _refused(blocks), "synthetic": True if injected else None},
    )


def _request_parts(record: Record) -> list[Part]:
    return [
        replace(_item_part(role, blocks), adjoins=False, original=given)
        for role, given, blocks in _turns(record)
    ]


def _event_parts(record: Record) -> list[Part]:
    """A response that begins is a message, to which the items that follow belong; one that ends tells its usage."""
    wire, response = record["type"], record.get("response")
    if wire == "error":
        nested = record.get("error")
        return [Part(role=None, error=error_of(nested if nested.__class__ is dict else record))]
    if response.__class__ is not dict or wire not in _PARTS_OF_EVENTS:
        return []
    return [replace(_response_part(response, []), **_PARTS_OF_EVENTS[wire])]


_ENDED: Mapping[str, Any] = {"role": None, "key": None}
_PARTS_OF_EVENTS: Mapping[str, Mapping[str, Any]] = {
    "response.created": {"adjoins": True, "usage": None, "error": None},
    "response.completed": _ENDED,
    "response.failed": _ENDED,
    "response.incomplete": _ENDED,
}


def parts(record: Record, reading: RecordReading) -> list[Part]:
    """One part for a response, for an item, and for each message of a request."""
    if reading.kind == "chunk":
        return _event_parts(record)
    if record.get("type").__class__ is not str:
        if _is_response(record):
            return [_response_part(record, reading.blocks)]
        if "input" in record:
            return _request_parts(record)
    error = error_of(record.get("error")) if reading.kind == "record" else None
    if error is not None:
        return [Part(role="assistant", error=error)]
    return [_item_part(_author_of(record, reading), reading.blocks)] if reading.kind == "message" else []


def _author_of(record: Record, reading: RecordReading) -> Role:
    """In whose message a bare item or part stands; what a stream brings is the answer, whatever it is."""
    if record.get("type") == "response.output_item.done":
        return "assistant" if reading.role == "tool" else reading.role
    return _speaker_of(record) if _item_type(record) in _ITEMS else reading.role


PROVIDER = Provider(
    source="openai_responses",
    recognizes=recognizes,
    marks={*_RECOGNIZED, "input", "object", "output", "response", "role"},
    read=read,
    read_block=read_block,
    facts=facts,
    parts=parts,
)
