"""Items of the Responses API as Codex stores them: bare lines of the first files, `response_item` payloads since.

Source: `ResponseItem` of Codex's protocol. Files of other tools in the same envelope add `tool_call`, `tool_result`
and `function_result`.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ash_shared.blocks import Block, Translation, pick, raw_block, translate, translated
from ash_shared.message import Kind, Role
from ash_shared.providers import Record, RecordReading
from ash_shared.providers.codex.content import read_content, read_list
from ash_shared.wire import input_of, text_at, value_at

_ROLES: Mapping[str | None, Role] = {
    "assistant": "assistant",
    "developer": "system",
    "system": "system",
    "tool": "tool",
    "user": "user",
}
_ENVELOPE = frozenset({"created_at", "ordinal", "timestamp"})
"""Beside the item in lines that have no payload."""


class _Reads(NamedTuple):
    kind: Kind
    role: Role
    blocks: Translation


def read_item(item: Record, whole: Record) -> RecordReading:
    """An item, and the record that it is in, or is."""
    wire = item["type"]
    if wire not in _ITEMS:
        return RecordReading("record", "system", [raw_block("unknown_type", whole, _name(whole, wire))])
    kind, role, translation = _ITEMS[wire]
    if translation is _control:
        return RecordReading(kind, role, [raw_block("control", whole, _name(whole, wire))])
    return RecordReading(kind, _ROLES.get(text_at(item, "role"), role), translate(wire, item, translation))


def _name(whole: Record, wire: str) -> str:
    return wire if whole["type"] == wire else f"{whole['type']}/{wire}"


def renamed(record: Record, **names: str) -> Block:
    """The record's keys under our names, as far as it has them."""
    return {ours: record[wire] for ours, wire in names.items() if wire in record}


def within(blocks: list[Block], item: Record, consumed: tuple[str, ...]) -> list[Block]:
    """The blocks of an item, the first of them with the rest of the item in `extra`, under the item's type."""
    rest = {key: value for key, value in item.items() if key not in {"type", *consumed} | _ENVELOPE}
    if not rest:
        return blocks
    if not blocks:
        return [raw_block("control", item, item["type"])]
    first, *others = blocks
    return [{**first, "extra": {**(first.get("extra") or {}), item["type"]: rest}}, *others]


def _message(item: Record) -> list[Block]:
    phase = pick(item, "phase")
    blocks = [block | phase if block["type"] == "text" else block for block in read_content(item["content"])]
    used = ("phase",) if any(block["type"] == "text" for block in blocks) else ()
    return within(blocks, item, ("role", "content", *used))


def _agent_message(item: Record) -> list[Block]:
    return within(read_list(item["content"]), item, ("content",))


def _reasoning(item: Record) -> list[Block]:
    """One block for each part of the summary and of the text; what the vendor sealed is kept on the first."""
    thoughts = [_thought(part, is_summary=True) for part in item["summary"]]
    thoughts += [_thought(part) for part in item.get("content") or []]
    sealed = item.get("encrypted_content")
    first = thoughts[0] if thoughts else {"type": "thinking", "thinking": "", "source_type": "reasoning"}
    if sealed is not None:
        first = {**first, "data": sealed} | ({} if thoughts else {"redacted": True})
    return within([first, *thoughts[1:]], item, ("summary", "content", "encrypted_content"))


def _thought(part: Block, *, is_summary: bool = False) -> Block:
    summary = {"is_summary": True} if is_summary else {}
    return translated(part, {"type": "thinking", "thinking": part["text"], **summary}, {"text"}, "reasoning")


def call(item: Record, arguments: str, **names: str) -> Block:
    """A tool call with its arguments, as text or as JSON, under that key; `names` maps our keys to the wire's."""
    typed = {"type": "tool_use", **renamed(item, **names), "input": input_of(item[arguments])}
    used = {arguments} if typed["input"] is item[arguments] else set()
    return translated(item, typed, {*names.values(), *used} | _ENVELOPE, item["type"])


def _function_call(item: Record) -> Block:
    if "function" in item:
        return _foreign_call(item)
    return call(item, "arguments", id="call_id", name="name", status="status")


def _foreign_call(item: Record) -> Block:
    """A call as other tools write it in the same envelope: the name is in an object of its own."""
    function = item["function"]
    rest = {key: value for key, value in function.items() if key != "name"}
    named = {**item, "name": function["name"]} | ({"function": rest} if rest else {})
    named = named if rest else {key: value for key, value in named.items() if key != "function"}
    return call(named, "arguments", id="call_id", name="name")


def _custom_tool_call(item: Record) -> Block:
    typed = {"type": "tool_use", **renamed(item, id="call_id", name="name", input="input", status="status")}
    return translated(item, typed, {"call_id", "name", "input", "status"}, item["type"])


def _local_shell_call(item: Record) -> Block:
    linked = "id" if item.get("call_id") is None and "id" in item else "call_id"
    typed = {
        "type": "tool_use",
        **renamed(item, id=linked, status="status"),
        "name": "shell",
        "input": item["action"],
    }
    return translated(item, typed, {linked, "status", "action"}, item["type"])


def _tool_search_call(item: Record) -> Block:
    executor = {"executor": "server"} if item.get("execution") == "server" else {}
    made = call(item, "arguments", id="call_id", status="status")
    return {**made, "name": "tool_search"} | executor


def _tool_search_output(item: Record) -> Block:
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "structured": item["tools"]}
    return translated(item, typed, {"call_id", "tools"}, item["type"])


def _web_search_call(item: Record) -> Block:
    typed = {
        "type": "tool_use",
        **renamed(item, id="id", status="status"),
        "name": "web_search",
        "input": item.get("action"),
        "executor": "server",
    }
    return translated(item, typed, {"id", "status", "action"}, item["type"])


def _image_generation_call(item: Record) -> list[Block]:
    typed = {
        "type": "tool_use",
        **renamed(item, id="id", status="status"),
        "name": "image_generation",
        "input": pick(item, "revised_prompt"),
        "executor": "server",
    }
    made = translated(item, typed, {"id", "status", "revised_prompt", "result"}, item["type"])
    return [made, *generated(item, item.get("id"))]


def generated(item: Record, link: Any) -> list[Block]:
    """The result of a call that made a picture, once there is one; its media type is not written."""
    if not item.get("result"):
        return []
    image = {"type": "image", "source": {"type": "base64", "data": item["result"]}}
    return [{"type": "tool_result", "tool_use_id": link, "content": [image], "source_type": item["type"]}]


def _output(item: Record) -> Block:
    output = item["output"]
    content = read_list(output) if output.__class__ is list else output
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "content": content}
    return translated(item, typed | outcome(output), {"call_id", "output"} | _ENVELOPE, item["type"])


_HEADER = re.compile(
    r"(?:Chunk ID: [^\n]*\n)?(?:Wall time: [^\n]*\n)?(?:Exit code: |Process exited with code )(-?\d{1,10})\n"
)


def outcome(output: Any) -> Block:
    """The exit code that Codex wrote into the text of an output: as JSON beside the output, or as a line above it."""
    if output.__class__ is not str:
        return {}
    if output.startswith("{"):
        code = value_at(input_of(output), "metadata", "exit_code")
    else:
        header = _HEADER.match(output)
        code = int(header[1]) if header else None
    return {"is_error": code != 0, "exit_code": code} if code.__class__ is int else {}


def _foreign_result(item: Record) -> Block:
    typed = {"type": "tool_result", **renamed(item, tool_use_id="call_id"), "content": item["result"]}
    return translated(item, typed, {"call_id", "result"} | _ENVELOPE, item["type"])


def _compaction(item: Record) -> Block:
    return raw_block("control" if item.get("encrypted_content") is None else "opaque", item, item["type"])


def _control(item: Record) -> Block:
    raise TypeError  # never called: `read_item` keeps these whole


def _assistant(translation: Translation) -> _Reads:
    return _Reads("message", "assistant", translation)


def _result(translation: Translation) -> _Reads:
    return _Reads("message", "tool", translation)


_ITEMS: Mapping[str, _Reads] = {
    **dict.fromkeys(
        ("additional_tools", "compaction_trigger", "configuration_update", "ghost_snapshot", "other"),
        _Reads("record", "system", _control),
    ),
    **dict.fromkeys(("compaction", "context_compaction"), _Reads("record", "system", _compaction)),
    **dict.fromkeys(("custom_tool_call_output", "function_call_output"), _result(_output)),
    **dict.fromkeys(("function_result", "tool_result"), _result(_foreign_result)),
    "agent_message": _Reads("message", "user", _agent_message),
    "custom_tool_call": _assistant(_custom_tool_call),
    "function_call": _assistant(_function_call),
    "image_generation_call": _assistant(_image_generation_call),
    "local_shell_call": _assistant(_local_shell_call),
    "message": _Reads("message", "user", _message),
    "reasoning": _assistant(_reasoning),
    "tool_call": _assistant(_foreign_call),
    "tool_search_call": _assistant(_tool_search_call),
    "tool_search_output": _result(_tool_search_output),
    "web_search_call": _assistant(_web_search_call),
}

ITEM_TYPES = frozenset(_ITEMS)
