"""What of an event can be searched: its texts, by what they are texts of."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.model.events import CHUNKS
from ash_shared.model.message import Role
from ash_shared.reading.system_text import is_system_message, visible_text, wrapped_text

PASSAGES_VERSION = 2
"""Raised whenever an event has other passages, or a passage other words, than before."""

Weight = Literal["A", "B", "C", "D"]
"""A: what the user and the assistant said; B: what was thought; C: which tools were called, with which values; D: what
they gave, and every other text."""


class Passage(NamedTuple):
    weight: Weight
    text: str


SILENT = frozenset(
    {*CHUNKS, "agent_switch", "audio_done", "interrupt", "reset", "retraction", "turn_end", "turn_start"}
)
"""The types of events that nobody searches: what a piece says the whole says, too."""


def passages(event: Mapping[str, Any]) -> list[Passage]:
    """The texts of an event in its wire form. Bytes that stand there as base64 are none."""
    tell, payload = _TELL.get(event["type"], _other), event["payload"]
    try:
        return [passage for passage in tell(payload) if passage.text]
    except (KeyError, TypeError, AttributeError):  # not what its type promises: searched as any other
        return [passage for passage in _other(payload) if passage.text]


def role_of(type: str) -> Role:
    """Whose an event is: `tool` what a tool gave, `system` what nobody said."""
    return _ROLES.get(type, "system")


def _of_user(payload: Block) -> Iterator[Passage]:
    """What a tool wrote in the user's name, or wrapped around what the user said, is not what the user said."""
    text = payload["text"]
    if payload.get("synthetic") or is_system_message(text):
        yield Passage("D", text)
    else:
        yield Passage("A", visible_text(text))
        yield Passage("D", wrapped_text(text))
    yield from _beside(payload)


def _of_assistant(payload: Block) -> Iterator[Passage]:
    yield Passage("A", payload["text"])
    yield from _beside(payload)


def _beside(payload: Block) -> Iterator[Passage]:
    """What is more than text, or more than the `text` of the payload says."""
    for block in payload.get("content") or ():
        if block["type"] != "text":
            yield Passage("D", _joined(block))
        elif block["text"] not in payload["text"]:
            yield Passage("A", block["text"])


def _call(payload: Block) -> Iterator[Passage]:
    """As a person would write it down: the name, and the values apart from each other."""
    yield Passage("C", ": ".join(filter(None, [payload["toolName"], " · ".join(_texts(payload["args"]))])))


def _result(payload: Block) -> Iterator[Passage]:
    """The machine-readable form says the same once more, and often whole files beside it; it counts where nothing else
    was given."""
    text = _joined(payload["result"])
    yield Passage("D", text or _joined(payload.get("structured")))
    message = (payload.get("error") or {}).get("message", "")
    if message not in text:
        yield Passage("D", message)


def _record(payload: Block) -> Iterator[Passage]:
    yield Passage("D", _joined(payload["raw"]))


def _said(name: str, weight: Weight = "A") -> Callable[[Block], Iterator[Passage]]:
    def tell(payload: Block) -> Iterator[Passage]:
        yield Passage(weight, payload[name])

    return tell


def _other(payload: Block) -> Iterator[Passage]:
    yield Passage("D", _joined(payload))


def _silent(payload: Block) -> Iterator[Passage]:
    return iter(())


_TELL: Mapping[str, Callable[[Block], Iterator[Passage]]] = {
    "agent_callback": _said("result"),
    "agent_message": _said("message"),
    "assistant_done": _of_assistant,
    "raw": _record,
    "thinking_done": _said("text", "B"),
    "tool_call": _call,
    "tool_result": _result,
    "user_audio": _said("transcription"),
    "user_message": _of_user,
    **dict.fromkeys(SILENT, _silent),
}

_ROLES: Mapping[str, Role] = {
    "agent_callback": "assistant",
    "agent_message": "assistant",
    "assistant_done": "assistant",
    "thinking_done": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
    "user_audio": "user",
    "user_message": "user",
}


def _joined(value: Any) -> str:
    """The texts and numbers in it, each on lines of its own."""
    return value if value.__class__ is str else "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if value.__class__ is str:
        yield value
    elif value.__class__ in (int, float):
        yield str(value)
    elif value.__class__ is list:
        for item in value:
            yield from _texts(item)
    elif value.__class__ is dict:
        for name, item in value.items():
            if not (name in _OPAQUE and item.__class__ is str and _is_opaque(value)):
                yield from _texts(item)


_OPAQUE = frozenset({"data", "signature"})


def _is_opaque(block: Block) -> bool:
    """Whether its data are bytes, and its signature one: names that others use for texts."""
    return block.get("type") in ("base64", "thinking", "redacted_thinking")
