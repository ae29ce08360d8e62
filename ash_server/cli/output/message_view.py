"""Messages for a person to read: a heading, then each block with its type beside it."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ash_server.cli.output.terminal import visible
from ash_shared.model.content import MessageContent

_LONGEST = 2_000
"""So many characters of a block are shown."""

Block = Mapping[str, Any]
Shown = tuple[str, str]
"""A few words beside the type of a block, and the text below it."""

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
    words, text = _VIEWS[block["type"]](block)
    style = "red" if block.get("is_error") else _STYLES[block["type"]]
    shown = "\n".join(filter(None, (words, _cut(text.rstrip("\n")))))
    table.add_row(Text(block["type"], style=f"{style} bold"), Text(visible(shown), style=style))


def _cut(text: str) -> str:
    rest = len(text) - _LONGEST
    return text if rest <= 0 else f"{text[:_LONGEST]} … {rest:,} more characters"


def _text(block: Block) -> Shown:
    return _words(block.get("variant")), block["text"]


def _thinking(block: Block) -> Shown:
    return _words("withheld" if block.get("redacted") else None), block["thinking"]


def _tool_use(block: Block) -> Shown:
    return _words(block["name"], block.get("server_name"), block.get("id")), _compact(block["input"])


def _tool_result(block: Block) -> Shown:
    words = _words("error" if block.get("is_error") else None, block.get("tool_use_id"))
    content = block.get("content", block.get("structured"))
    return words, content if isinstance(content, str) else _nested(content)


def _nested(content: Any) -> str:
    if not isinstance(content, list):
        return _compact(content)
    return "\n".join(_nested_block(each) for each in content)


def _nested_block(block: Any) -> str:
    if not isinstance(block, dict) or block.get("type") not in _VIEWS:
        return _compact(block)
    words, text = _VIEWS[block["type"]](block)
    return text if block["type"] == "text" else " ".join(filter(None, (f"[{block['type']}]", words, text)))


def _image(block: Block) -> Shown:
    return _source(block["source"]), ""


def _file(block: Block) -> Shown:
    names = (block.get("title"), block.get("filename"), block.get("mediaClass"))
    return _words(*names, _source(block.get("source") or {})), ""


def _raw(block: Block) -> Shown:
    raw = block["raw"]
    return _words(block.get("rawType"), block.get("reason")), raw if isinstance(raw, str) else _compact(raw)


def _source(source: Block) -> str:
    data = source.get("data")
    inline = f"{len(data):,} characters inline" if isinstance(data, str) else None
    return _words(source.get("media_type"), source.get("url"), source.get("file_id"), inline)


def _words(*words: str | None) -> str:
    return " · ".join(word for word in words if word)


def _compact(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


_VIEWS: Mapping[str, Callable[[Block], Shown]] = {
    "text": _text,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "image": _image,
    "file": _file,
    "raw": _raw,
}
