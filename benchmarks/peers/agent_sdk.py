"""claude-agent-sdk: a stream line as dataclasses."""

from dataclasses import asdict
from typing import Any

import orjson
from claude_agent_sdk._internal.message_parser import parse_message

from benchmarks.peers import ASSISTANT, USER, Parser


def _read(raw: bytes) -> Any:
    return parse_message(orjson.loads(raw))


def _show(message: Any) -> Any:
    content = message.content
    return content if isinstance(content, str) else [asdict(block) for block in content]


PARSERS = [Parser("claude-agent-sdk parse_message", frozenset({ASSISTANT, USER}), _read, _show)]
