"""The readable view of messages, and the escaping of control characters in it."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from ash_server.cli.common.output.message_view import show_message
from ash_server.cli.common.output.terminal import visible
from ash_shared import parse_message_content

BLOCKS: dict[str, tuple[Any, list[str]]] = {
    "text": ({"type": "text", "text": "one\ntwo\n"}, ["text         one", "             two"]),
    "thinking": ({"type": "thinking", "thinking": "hm"}, ["thinking     hm"]),
    "withheld": ({"type": "redacted_thinking", "data": "x"}, ["thinking     withheld"]),
    "tool_use": (
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
        ["tool_use     Bash · t1", '             {"command": "ls"}'],
    ),
    "tool_result": (
        {"type": "tool_result", "tool_use_id": "t1", "content": "a\nb"},
        ["tool_result  t1", "             a", "             b"],
    ),
    "a failure": (
        {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
        ["tool_result  error · t1", "             no"],
    ),
    "nested": (
        {
            "type": "tool_result",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}},
                {"type": "new"},
            ],
        },
        [
            "tool_result  see",
            "             [image] http://x/y.png",
            '             [raw] new · unknown_type {"type": "new"}',
        ],
    ),
    "structured": (
        {"type": "web_search_tool_result", "tool_use_id": "t1", "content": []},
        ["tool_result  t1"],
    ),
    "no content": ({"type": "tool_result", "tool_use_id": "t1"}, ["tool_result  t1"]),
    "image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 1234}},
        ["image        image/png · 1,234 characters inline"],
    ),
    "file": (
        {"type": "document", "title": "Notes", "source": {"type": "file", "file_id": "f1"}},
        ["file         Notes · document · f1"],
    ),
    "raw": (
        {"type": "new", "a": 1},
        ["raw          new · unknown_type", '             {"type": "new", "a": 1}'],
    ),
    "long": (
        {"type": "text", "text": "x " * 1500},
        ["text         " + "x " * 1000 + " … 1,000 more characters"],
    ),
    "hostile": (
        {"type": "text", "text": "\x1b]0;title\x07 \x9b2J \r\u202egpj.exe [bold]x[/bold]"},
        ["text         ␛]0;title␇ \\x9b2J ␍\\u202egpj.exe [bold]x[/bold]"],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_shown(name: str) -> None:
    block, expected = BLOCKS[name]
    raw = json.dumps({"type": "assistant", "message": {"content": [block]}})
    file = io.StringIO()
    show_message(Console(file=file, width=4000), ["#1", "\x1b[31m"], parse_message_content(raw))

    heading, *rows = (line.rstrip() for line in file.getvalue().splitlines())
    assert (heading, rows) == ("#1 · ␛[31m", [*("  " + line for line in expected), ""])


def test_escapes_control_characters() -> None:
    everything = "".join(map(chr, range(0x3000)))
    controls = [
        *range(0x20),
        *range(0x7F, 0xA0),
        0x61C,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ]
    remaining = set(map(chr, controls)) & set(visible(everything))

    assert remaining == {"\n", "\t"}
    assert visible("a\ud800b") == "a\ufffdb"
