"""Standard messages in a short form, for comparing whole transcripts."""

import json
from typing import Any

from ash_shared import StandardMessage, transform_messages

Short = tuple[Any, ...]
USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "reasoning_tokens")
IGNORED_METADATA = frozenset({"source", "sessionId", "cliVersion", "shadowOf"})


def lines(*records: Any) -> list[str]:
    return [json.dumps(record) for record in records]


def short_messages(*records: Any, source: str | None = None) -> list[Short]:
    """Return each message as role, blocks as (type, main value) and, if any, its other fields."""
    messages = transform_messages(lines(*records), source)
    indexes = {message.id: index for index, message in enumerate(messages)}
    assert len(indexes) == len(messages)
    return [short_message(message, indexes) for message in messages]


def short_message(message: StandardMessage, indexes: dict[str, int]) -> Short:
    metadata = message.metadata.model_dump(mode="json", by_alias=True)
    more = {key: value for key, value in metadata.items() if key not in IGNORED_METADATA}
    if "shadowOf" in metadata:
        more["shadowOf"] = indexes[metadata["shadowOf"]]
    if message.usage is not None:
        usage = message.usage.model_dump(mode="json")
        more["usage"] = tuple(usage.get(name) for name in USAGE_FIELDS)
    if message.error is not None:
        more["error"] = message.error.code
    blocks = [main_value(block.model_dump(mode="json")) for block in message.content]
    return (message.role, blocks, more) if more else (message.role, blocks)


MAIN = {"tool_use": "name", "tool_result": "content", "image": "source", "file": "source"}


def main_value(block: dict[str, Any]) -> tuple[str, Any]:
    return block["type"], block.get(MAIN.get(block["type"], block["type"]))
