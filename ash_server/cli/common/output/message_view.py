"""Readable view of messages: a heading, then a table of blocks with their types."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ash_server.cli.common.output.terminal import visible
from ash_shared.model.blocks import Block
from ash_shared.model.content import MessageContent

_MAX_CHARACTERS = 2_000
"""Shown per block."""

Cell = tuple[str, str]
"""Details of a block, and the text below them."""

_STYLES = {
    "text": "default",
    "thinking": "italic dim",
    "tool_use": "cyan",
    "tool_result": "green",
    "image": "magenta",
    "file": "magenta",
    "raw": "yellow",
}


def show_message(console: Console, heading: Iterable[str], blocks: Iterable[MessageContent]) -> None:
    console.print(Text(" · ".join(visible(each) for each in heading), style="bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, min_width=len("tool_result"))
    table.add_column(overflow="fold")
    for block in blocks:
        _add_row(table, block.model_dump(by_alias=True))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
    console.print()


def _add_row(table: Table, block: Block) -> None:
    details, text = _FORMATTERS[block["type"]](block)
    style = "red" if block.get("is_error") else _STYLES[block["type"]]
    cell = "\n".join(filter(None, (details, _truncate(text.rstrip("\n")))))
    table.add_row(Text(block["type"], style=f"{style} bold"), Text(visible(cell), style=style))


def _truncate(text: str) -> str:
    hidden = len(text) - _MAX_CHARACTERS
    return text if hidden <= 0 else f"{text[:_MAX_CHARACTERS]} … {hidden:,} more characters"


def _format_text(block: Block) -> Cell:
    return _join(block.get("variant")), block["text"]


def _format_thinking(block: Block) -> Cell:
    return _join("withheld" if block.get("redacted") else None), block["thinking"]


def _format_tool_use(block: Block) -> Cell:
    return _join(block["name"], block.get("server_name"), block.get("id")), _to_json(block["input"])


def _format_tool_result(block: Block) -> Cell:
    details = _join("error" if block.get("is_error") else None, block.get("tool_use_id"))
    content = block.get("content", block.get("structured"))
    return details, content if isinstance(content, str) else _format_nested(content)


def _format_nested(content: Any) -> str:
    if not isinstance(content, list):
        return _to_json(content)
    return "\n".join(_format_nested_block(each) for each in content)


def _format_nested_block(block: Any) -> str:
    if not isinstance(block, dict) or block.get("type") not in _FORMATTERS:
        return _to_json(block)
    details, text = _FORMATTERS[block["type"]](block)
    return text if block["type"] == "text" else " ".join(filter(None, (f"[{block['type']}]", details, text)))


def _format_image(block: Block) -> Cell:
    return _format_source(block["source"]), ""


def _format_file(block: Block) -> Cell:
    names = (block.get("title"), block.get("filename"), block.get("mediaClass"))
    return _join(*names, _format_source(block.get("source") or {})), ""


def _format_raw(block: Block) -> Cell:
    raw = block["raw"]
    return _join(block.get("rawType"), block.get("reason")), raw if isinstance(raw, str) else _to_json(raw)


def _format_source(source: Block) -> str:
    data = source.get("data")
    inline = f"{len(data):,} characters inline" if isinstance(data, str) else None
    return _join(source.get("media_type"), source.get("url"), source.get("file_id"), inline)


def _join(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)


def _to_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


_FORMATTERS: Mapping[str, Callable[[Block], Cell]] = {
    "text": _format_text,
    "thinking": _format_thinking,
    "tool_use": _format_tool_use,
    "tool_result": _format_tool_result,
    "image": _format_image,
    "file": _format_file,
    "raw": _format_raw,
}
