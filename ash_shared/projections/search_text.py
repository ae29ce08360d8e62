"""The searchable texts of an event, with weights."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.model.event_types import CATALOGUE, Weight, types_where
from ash_shared.model.events import failure_of
from ash_shared.model.message import Role
from ash_shared.records.json_fields import is_number
from ash_shared.records.system_text import is_system_message, visible_text, wrapped_text

PASSAGES_VERSION = 5
"""Raised whenever an event has other passages, or a passage other tokens, than before."""


class Passage(NamedTuple):
    weight: Weight
    text: str


SILENT = types_where(lambda row: row.weight is None)
"""Event types without searchable text; the text of chunks is also in the complete event."""


def passages(event: Mapping[str, Any]) -> list[Passage]:
    """Return the texts of an event in wire form, without base64 data."""
    extract, payload = _EXTRACTORS.get(event["type"], _other), event["payload"]
    try:
        return [passage for passage in extract(payload) if passage.text]
    except (KeyError, TypeError, AttributeError):  # malformed: index all its texts
        return [passage for passage in _other(payload) if passage.text]


def role_of(type: str) -> Role:
    """Return the role of an event type: `tool` for tool results, `system` for events of no speaker."""
    return CATALOGUE[type].role if type in CATALOGUE else "system"


def _of_user(payload: Block) -> Iterator[Passage]:
    """Yield the user's text with weight A, and text that a tool wrote or wrapped around it with D."""
    text = payload["text"]
    is_typed = payload.get("sender") == "person"
    if payload.get("synthetic") or (is_system_message(text) and not is_typed):
        yield Passage("D", text)
    else:
        yield Passage("A", visible_text(text))
        yield Passage("D", wrapped_text(text))
    yield from _other_content(payload)


def _of_assistant(payload: Block) -> Iterator[Passage]:
    yield Passage("A", payload["text"])
    yield from _other_content(payload)


def _of_speech(payload: Block) -> Iterator[Passage]:
    yield Passage("A", payload["transcription"])
    for block in payload.get("content") or ():
        yield Passage("D", _joined(block))


def _other_content(payload: Block) -> Iterator[Passage]:
    """Yield the content blocks that the `text` of the payload does not contain."""
    for block in payload.get("content") or ():
        if block["type"] != "text":
            yield Passage("D", _joined(block))
        elif block["text"] not in payload["text"]:
            yield Passage("A", block["text"])


def _call(payload: Block) -> Iterator[Passage]:
    """Yield the tool name and the argument values as one line."""
    yield Passage("C", ": ".join(filter(None, [payload["toolName"], " · ".join(_texts(payload["args"]))])))


def _result(payload: Block) -> Iterator[Passage]:
    """Yield the result text. The structured form repeats it, often with whole files; it is used if there is no text."""
    text = _joined(payload["result"])
    yield Passage("D", text or _joined(payload.get("structured")))
    failure = failure_of(payload)
    if failure is not None and failure.message not in text:
        yield Passage("D", failure.message)


def _text_field(name: str, weight: Weight) -> Callable[[Block], Iterator[Passage]]:
    def extract(payload: Block) -> Iterator[Passage]:
        yield Passage(weight, _joined(payload[name]))

    return extract


def _other(payload: Block) -> Iterator[Passage]:
    yield Passage("D", _joined(payload))


_SPECIAL_EXTRACTORS: Mapping[str, Callable[[Block], Iterator[Passage]]] = {
    "assistant_done": _of_assistant,
    "raw": _text_field("raw", "D"),
    "tool_call": _call,
    "tool_result": _result,
    "user_audio": _of_speech,
    "user_message": _of_user,
}
_EXTRACTORS: Mapping[str, Callable[[Block], Iterator[Passage]]] = {
    **{
        name: _text_field(row.text, row.weight)
        for name, row in CATALOGUE.items()
        if row.text is not None and row.weight not in (None, "D")
    },
    **_SPECIAL_EXTRACTORS,
    **dict.fromkeys(SILENT, lambda payload: iter(())),
}
"""By type; all texts of the payload for any other type."""


def _joined(value: Any) -> str:
    """Return the texts and numbers in a value, one per line."""
    return value if isinstance(value, str) else "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_number(value):
        yield str(value)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not (name in {"data", "signature"} and isinstance(item, str) and _is_opaque(value)):
                yield from _texts(item)


def _is_opaque(block: Block) -> bool:
    """True if the block's `data` and `signature` are opaque: other blocks use these names for texts."""
    return block.get("type") in ("base64", "thinking", "redacted_thinking")
