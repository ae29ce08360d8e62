"""Standard messages in a short form, to compare whole transcripts with."""

import json
from typing import Any

from ash_shared import StandardMessage, transform_messages

Short = tuple[Any, ...]
COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "reasoning_tokens")
LEFT_OUT = frozenset({"source", "sessionId", "cliVersion", "shadowOf"})


def lines(*records: Any) -> list[str]:
    return [json.dumps(record) for record in records]


def told(*records: Any, source: str | None = None) -> list[Short]:
    """Each message as role, blocks as (type, main value), and, where there is any, what else it says."""
    messages = transform_messages(lines(*records), source)
    places = {message.id: place for place, message in enumerate(messages)}
    assert len(places) == len(messages)
    return [short(message, places) for message in messages]


def short(message: StandardMessage, places: dict[str, int]) -> Short:
    metadata = message.metadata.model_dump(mode="json", by_alias=True)
    more = {key: value for key, value in metadata.items() if key not in LEFT_OUT}
    if "shadowOf" in metadata:
        more["shadowOf"] = places[metadata["shadowOf"]]
    if message.usage is not None:
        usage = message.usage.model_dump(mode="json")
        more["usage"] = tuple(usage.get(name) for name in COUNTED)
    if message.error is not None:
        more["error"] = message.error.code
    blocks = [main_value(block.model_dump(mode="json")) for block in message.content]
    return (message.role, blocks, more) if more else (message.role, blocks)


MAIN = {"tool_use": "name", "tool_result": "content", "image": "source", "file": "source"}


def main_value(block: dict[str, Any]) -> tuple[str, Any]:
    return block["type"], block.get(MAIN.get(block["type"], block["type"]))
