"""langchain-core: an answer as standard content blocks."""

from typing import Any

import orjson
from langchain_core.messages import AIMessage

from benchmarks.peers import ASSISTANT, BARE, Parser

_FROM_ANTHROPIC = {"model_provider": "anthropic"}


def _read_line(raw: bytes) -> Any:
    return _blocks(orjson.loads(raw)["message"])


def _read_bare(raw: bytes) -> Any:
    return _blocks(orjson.loads(raw))


def _blocks(message: dict[str, Any]) -> Any:
    return AIMessage(content=message["content"], response_metadata=_FROM_ANTHROPIC).content_blocks


PARSERS = [
    Parser("langchain-core AIMessage.content_blocks", frozenset({ASSISTANT}), _read_line, list),
    Parser("langchain-core AIMessage.content_blocks", frozenset({BARE}), _read_bare, list),
]
