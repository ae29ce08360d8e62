"""The blocks of the Messages API and its betas."""

from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.model.blocks import (
    CLASSES,
    Block,
    BlockParser,
    content_parser,
    control_block,
    parse_nested,
    pick,
    raw_block,
    renamed,
    text_block,
    translated,
)
from ash_shared.model.message import Role
from ash_shared.records.contract import Record

ROLES: Mapping[Any, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def _translate_redacted_thinking(block: Block) -> Block:
    typed = {"type": "thinking", "thinking": "", "redacted": True, "data": block["data"]}
    return translated(block, typed, {"data"}, "redacted_thinking")


def _tool_use_translation(wire_type: str, executor: str) -> Callable[[Block], Block]:
    names = ("id", "name", "input", "server_name")
    return lambda block: translated(
        block, {"type": "tool_use", **pick(block, *names), "executor": executor}, names, wire_type
    )


def _server_result_translation(wire_type: str) -> Callable[[Block], Block]:
    """Return the translation of the result of a tool that ran at Anthropic, which is kept under `structured`."""

    def parse(block: Block) -> Block:
        result = block["content"]
        name = result.get("type") if isinstance(result, dict) else None
        typed = {
            "type": "tool_result",
            **pick(block, "tool_use_id"),
            **(_RESULT_CONTENT[name](result) if name in _RESULT_CONTENT else {}),
            **({"is_error": True} if isinstance(name, str) and name.endswith("_error") else {}),
            "structured": result,
        }
        return translated(block, typed, ("tool_use_id", "content"), wire_type)

    return parse


def _execution_output(result: Record) -> Block:
    texts = [_text_block(result[name]) for name in ("stdout", "stderr") if name in result]
    files = [
        parse_block(translated(output, _file_block(output["file_id"]), {"file_id"}, output["type"]))
        for output in result.get("content") or []
    ]
    return {"content": texts + files, **renamed(result, exit_code="return_code")}


def _text_block(text: Any) -> Block:
    return parse_block({"type": "text", "text": text})


def _file_block(file_id: Any) -> Block:
    return {"type": "file", "source": {"type": "file", "file_id": file_id}}


_RESULT_CONTENT: Mapping[Any, Callable[[Record], Block]] = {
    "advisor_result": lambda result: {"content": [_text_block(result["text"])]},
    "bash_code_execution_result": _execution_output,
    "code_execution_result": _execution_output,
    "encrypted_code_execution_result": _execution_output,
    "web_fetch_result": lambda result: {"content": [parse_block(result["content"])]},
}


def _translate_mcp_result(block: Block) -> Block:
    names = ("tool_use_id", "is_error", "content")
    typed = {"type": "tool_result", **pick(block, *names)}
    return parse_nested(translated(block, typed, names, "mcp_tool_result"), parse_block)


def _translate_document(block: Block) -> Block:
    names = ("source", "title", "context")
    typed = {"type": "file", "source": block["source"], **pick(block, *names), "mediaClass": "document"}
    return translated(block, typed, names, "document")


def _translate_search_result(block: Block) -> Block:
    if not isinstance(block["source"], str):
        raise TypeError
    typed = {"type": "file", "source": {"type": "url", "url": block["source"]}, **pick(block, "title")}
    return translated(block, typed, ("source", "title"), "search_result")


def _translate_compaction(block: Block) -> Block:
    if not isinstance(block.get("content"), str):
        return raw_block("opaque", block, "compaction")
    return translated(block, text_block(block["content"], "summary"), {"content"}, "compaction")


_SERVER_RESULTS = (
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
)

_CONTROL_BLOCKS = (
    "browser_state",
    "fallback",
    "mcp_tool_listing",
    "tool_addition",
    "tool_reference",
    "tool_removal",
)

_TRANSLATIONS: Mapping[str, Callable[[Block], Block]] = {
    "compaction": _translate_compaction,
    "container_upload": lambda block: translated(
        block, _file_block(block["file_id"]), {"file_id"}, "container_upload"
    ),
    "document": _translate_document,
    "mcp_tool_result": _translate_mcp_result,
    "mcp_tool_use": _tool_use_translation("mcp_tool_use", "mcp"),
    "redacted_thinking": _translate_redacted_thinking,
    "search_result": _translate_search_result,
    "server_tool_use": _tool_use_translation("server_tool_use", "server"),
    **{wire_type: _server_result_translation(wire_type) for wire_type in _SERVER_RESULTS},
    **dict.fromkeys(_CONTROL_BLOCKS, control_block),
}

BLOCK_TYPES = frozenset(CLASSES) | frozenset(_TRANSLATIONS)

parse_block: BlockParser = content_parser(_TRANSLATIONS)
