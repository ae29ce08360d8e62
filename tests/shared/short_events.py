"""Events in the form of `logs.short_events`, in the response `m1`, with calls of the tool `tide`."""

from typing import Any

ShortEvent = tuple[Any, ...]


def chunk(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_chunk", {"text": text, **more}, "m1")


def done(text: str, kind: str = "assistant", **more: Any) -> ShortEvent:
    return (f"{kind}_done", {"text": text, **more}, "m1")


def input_chunk(text: str, offset: int = 0, id: str = "k0") -> ShortEvent:
    payload = {"toolCallId": id, "toolName": "tide", "chunk": text, "offset": offset}
    return ("tool_input_chunk", payload, "m1")


def tool_call(id: str = "k0", args: Any = None, **more: Any) -> ShortEvent:
    return ("tool_call", {"toolCallId": id, "toolName": "tide", "args": args or {"a": 1}, **more}, "m1")
