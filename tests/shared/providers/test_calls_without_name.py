"""A call without a name is a raw block for every provider, and the blocks around it are read."""

import json
from typing import Any

import pytest

from ash_shared.conversation.standard_messages import transform_messages
from ash_shared.parsing.parse import parse_message_content, parse_message_content_json
from tests.shared.logs import follow
from tests.shared.records import claude

CALL = {"toolCallId": "t1", "toolName": "", "input": {}}
FUNCTION = {"name": "", "arguments": "{}"}
TEXT = {"type": "text", "text": "I look."}

CASES: dict[str, tuple[str | None, dict[str, Any], dict[str, Any]]] = {
    "bedrock": (
        None,
        {"toolUse": {"toolUseId": "t1", "name": "", "input": {}}},
        {"role": "assistant", "content": [{"text": "I look."}]},
    ),
    "claude": (
        None,
        {"type": "tool_use", "id": "t1", "name": "", "input": {}},
        claude.line("assistant", [TEXT]),
    ),
    "claude, on the server": (
        None,
        {"type": "server_tool_use", "id": "t1", "name": "", "input": {}},
        claude.line("assistant", [TEXT]),
    ),
    "claude, without the key": (
        None,
        {"type": "tool_use", "id": "t1", "input": {}},
        claude.line("assistant", [TEXT]),
    ),
    "gemini": (
        None,
        {"functionCall": {"name": "", "args": {}}},
        {"role": "model", "parts": [{"text": "I look."}]},
    ),
    "langchain": (
        None,
        {"name": "", "args": {}, "id": "t1", "type": "tool_call"},
        {"type": "ai", "data": {"content": "I look.", "tool_calls": []}},
    ),
    "openai": (
        "openai",
        {"id": "t1", "type": "function", "function": FUNCTION},
        {"role": "assistant", "content": "I look.", "tool_calls": []},
    ),
    "pi": (
        "pi",
        {"type": "toolCall", "id": "t1", "name": "", "arguments": {}},
        {"type": "message", "id": "a1", "message": {"role": "assistant", "content": [TEXT]}},
    ),
    "pydantic_ai": (
        None,
        {"part_kind": "tool-call", "tool_name": "", "args": {}, "tool_call_id": "t1"},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "I look."}]},
    ),
    "vercel": (
        None,
        {"type": "dynamic-tool", **CALL, "state": "output-available", "output": "2 files"},
        {"id": "m1", "role": "assistant", "parts": [TEXT]},
    ),
}
"""By provider: the source, the call, and the message without it."""


def _list_of(record: dict[str, Any]) -> list[Any]:
    """Return the list of calls or parts of a message."""
    holder = record.get("message") or record.get("data") or record
    names = ("tool_calls", "content", "parts")
    calls: list[Any] = next(holder[name] for name in names if isinstance(holder.get(name), list))
    return calls


@pytest.mark.parametrize("name", CASES)
def test_call_without_a_name_is_a_raw_block(name: str) -> None:
    source, call, message = CASES[name]
    record = json.loads(json.dumps(message))
    _list_of(record).append(call)
    line = json.dumps(record)

    blocks = [block.model_dump() for block in parse_message_content(line, source)]
    [standard] = transform_messages([(line, source)])
    events = follow([record], source)

    assert json.loads(parse_message_content_json(line, source)) == blocks
    assert [block["type"] for block in blocks] == ["text", "raw"]
    assert (blocks[1]["reason"], blocks[1]["raw"]) == ("malformed", call)
    assert [block.model_dump() for block in standard.content] == blocks
    assert [event["payload"]["raw"] for event in events if event["type"] == "raw"] == [call]
    assert "tool_call" not in {event["type"] for event in events}
