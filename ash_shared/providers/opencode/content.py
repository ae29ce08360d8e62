"""The parts of OpenCode's messages as blocks.

Sources: OpenCode's message types (`MessageV2`) and captured files.
"""

from collections.abc import Mapping
from typing import Any

from ash_shared.model.blocks import (
    Block,
    Translation,
    is_native,
    pick,
    raw_block,
    renamed,
    text_block,
    translate,
    translated,
    with_extra,
    without,
)
from ash_shared.records.contract import Record
from ash_shared.records.json_fields import count_at, list_or_empty, mime_fields, text_at, url_source


def parse_block(block: Any) -> Block:
    """Parse a part as one block, without the result of a call."""
    return parse_part(block)[0]


def parse_part(part: Any) -> list[Block]:
    if not isinstance(part, dict):
        return [text_block(part) if isinstance(part, str) else raw_block("unknown_type", part)]
    wire_type = text_at(part, "type")
    if wire_type in _TRANSLATIONS:
        return translate(wire_type or "", part, _TRANSLATIONS[wire_type])
    if is_native(part):
        return [part]
    return [raw_block("control" if wire_type in CONTROL_PARTS else "unknown_type", part, wire_type)]


def _keep_text(part: Record) -> Block:
    return part


def _translate_reasoning(part: Record) -> Block:
    return translated(part, {"type": "thinking", "thinking": part["text"]}, {"text"}, "reasoning")


def _translate_file(part: Record) -> Block:
    """Translate an attached file; inline bytes are a `data:` URL."""
    mime, source = part["mime"], url_source(part["url"])
    if mime.startswith("image/"):
        image = {"type": "image", "source": {**source, "media_type": mime}}
        return translated(part, image, ("mime", "url"), "file")
    typed = {"type": "file", **pick(part, "filename"), **mime_fields(mime), "source": source}
    return translated(part, typed, ("filename", "mime", "url"), "file")


def _translate_tool(part: Record) -> list[Block]:
    """Translate a tool part to a call, and its result if the state has one."""
    state = part["state"]
    result_key = next((name for name in ("output", "error") if state.get(name) is not None), None)
    consumed = {"input", "status"} | ({result_key, "metadata", "attachments"} if result_key else set())
    rest = without(state, *consumed)
    typed: Block = {
        "type": "tool_use",
        **renamed(part, id="callID"),
        "name": part["tool"],
        "input": state["input"],
        **pick(state, "status"),
    }
    call = translated(part, typed, ("callID", "tool", "state"), "tool")
    call = with_extra(call, {"state": rest} if rest else {})
    return [call, _result_block(part, state, result_key)] if result_key else [call]


def _result_block(part: Record, state: Record, result_key: str) -> Block:
    metadata = state.get("metadata")
    codes = [count_at(metadata, name) for name in ("exit", "exitCode")]
    code = next((code for code in codes if code is not None), None)
    return {
        "type": "tool_result",
        **renamed(part, tool_use_id="callID"),
        "content": _add_files(state[result_key], state.get("attachments")),
        "is_error": result_key == "error" or part["tool"] == _INVALID_TOOL,
        **({} if metadata is None else {"structured": metadata}),
        **({} if code is None else {"exit_code": code}),
        "source_type": "tool",
    }


_INVALID_TOOL = "invalid"
"""The tool of calls that name an unknown tool, or that have wrong arguments."""


def _add_files(text: Any, files: Any) -> Any:
    return [text_block(text), *map(parse_block, list_or_empty(files))] if files else text


_TRANSLATIONS: Mapping[Any, Translation] = {
    "file": _translate_file,
    "reasoning": _translate_reasoning,
    "text": _keep_text,
    "tool": _translate_tool,
}

CONTROL_PARTS = frozenset(
    {"agent", "compaction", "patch", "retry", "snapshot", "step-finish", "step-start", "subtask"}
)
