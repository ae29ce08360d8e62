"""What "nothing is lost" means: the strings and numbers of a record's content, counted apart from the parser."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

Leaves = Counter[tuple[type, Any]]


def leaves(value: Any) -> Leaves:
    """Every string and number of a JSON value, with how often it occurs."""
    return Counter((type(leaf), leaf) for leaf in _walk(value))


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield value
        return
    for child in value:
        yield from _walk(child)


def content_of(record: Any) -> Any:
    """The part of a record of the Claude family that the promise speaks of: its content, or else the whole record."""
    if isinstance(record, list):
        return [content_of(item) for item in record]
    if not isinstance(record, dict):
        return record
    if record.get("ev") == "message" and isinstance(record.get("data"), dict):
        return content_of(record["data"])
    return _content_of_record(record)


def _content_of_record(record: dict[str, Any]) -> Any:
    if isinstance(record.get("messages"), list) and not isinstance(record.get("type"), str):
        return [record.get("system"), [_message_content(message) for message in record["messages"]]]
    if record.get("type") == "result":
        return [record.get("result"), record.get("errors")]
    if record.get("type") in ("user", "assistant") and _message_content(record.get("message")) is not None:
        return _message_content(record["message"])
    named = (record.get(name) for name in ("content", "completion", "toolUseResult", "tool_use_result"))
    return next((content for content in named if content is not None), record)


def _message_content(message: Any) -> Any:
    return message.get("content") if isinstance(message, dict) else message
