"""Convert an event log to messages of Vercel's AI SDK (`UIMessage`).

Builds the messages from the chunks of `UiChunks`, as clients of the AI SDK do (`processUIMessageStream`), so that a
message that was followed and one that was loaded are the same. `validateUIMessages` accepts them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from ash_shared.projections._retractions import Events, WireEvent, standing, wire_events
from ash_shared.projections.ui_chunks import UiChunk, UiChunks, result_chunk

MAX_WAITING_MESSAGES = 100
"""Messages between a call and its result, if the session is read in parts."""

UiMessage = dict[str, Any]
UiPart = dict[str, Any]


def to_ui_messages(events: Events) -> list[UiMessage]:
    """Return the session as messages with parts: texts, reasoning, files, calls with their results, and data."""
    fold = UiMessageFold()
    for event in standing(wire_events(events)):
        fold.add(event)
    return fold.end()


class UiMessageFold:
    """Folds a log, in order and without retracted events, into `to_ui_messages`.

    `take` returns messages before the log is complete.
    """

    def __init__(self) -> None:
        self._chunks, self._reader = UiChunks(), UiMessageReader()

    def add(self, event: WireEvent, size: int = 0) -> None:
        for chunk in self._chunks.add(event):
            self._reader.add(chunk)
        self._reader.count(size)

    def size(self) -> int:
        """Return the size of the events in the messages that `take` left."""
        return sum(self._reader.sizes)

    def take(self, max_size: int | None = None) -> list[UiMessage]:
        """Return and forget the messages that later events do not change.

        A call without a result waits for `MAX_WAITING_MESSAGES` messages, and until its message and the later ones
        exceed `max_size`. A later result is then data of another message.
        """
        return self._reader.take(math.inf if max_size is None else max_size)

    def end(self) -> list[UiMessage]:
        """Return the other messages at the end of the log."""
        self._reader.end()
        messages, self._reader.messages = self._reader.messages, []
        return messages


class UiMessageReader:
    """Builds messages from chunks."""

    def __init__(self) -> None:
        self.messages: list[UiMessage] = []
        self.sizes: list[int] = [0]
        """Sizes of the events in the messages, or in the data before the first."""
        self._open: UiMessage | None = None
        self._parts: dict[str, UiPart] = {}
        """The open texts and the calls of the open message, by id."""
        self._waiting: dict[str, UiPart] = {}
        """Calls without a result, of all messages."""
        self._early: list[UiPart] = []
        """Data before the first message."""

    def add(self, chunk: UiChunk) -> None:
        if chunk.get("transient"):
            self._add_transient(chunk)
        else:
            _HANDLERS.get(chunk["type"], UiMessageReader._append)(self, chunk)

    def count(self, size: int) -> None:
        """Add the size of the last event."""
        self.sizes += [0] * (len(self.messages) - len(self.sizes))
        self.sizes[-1] += size

    def take(self, max_size: float) -> list[UiMessage]:
        """Return and remove the complete messages, except the last, which may get data.

        A message with an open call waits, up to a size and a number of messages, and so do the messages after it.
        """
        complete = max(0, len(self.messages) - (2 if self._open else 1))
        waiting = {id(part): name for name, part in self._waiting.items()}
        taken, size = list[UiMessage](), sum(self.sizes)
        for place, message in enumerate(self.messages[:complete]):
            names = [waiting[id(part)] for part in message["parts"] if id(part) in waiting]
            if names and len(self.messages) - place <= MAX_WAITING_MESSAGES and size <= max_size:
                break
            for name in names:
                del self._waiting[name]
            taken.append(message)
            size -= self.sizes[place]
        self.messages[: len(taken)], self.sizes[: len(taken)] = [], []
        return taken

    def end(self) -> None:
        """Add the data of a log without messages."""
        if self._early:
            name = self._early[0].get("id", "log")
            self.messages.append({"id": f"{name}-notes", "role": "assistant", "parts": self._early})
            self._early = []

    def _add_transient(self, chunk: UiChunk) -> None:
        if chunk["type"] == "data-message":
            message = chunk["data"]
            self.messages.append({**message, "parts": [*self._early, *message["parts"]]})
            self._early = []
        elif chunk["type"] != "data-tool_result" or not self._add_late_result(chunk["data"]):
            closed = self.messages[: -1 if self._open else None]
            parts = closed[-1]["parts"] if closed else self._early
            parts.append({name: chunk[name] for name in ("type", "id", "data")})

    def _add_late_result(self, payload: dict[str, Any]) -> bool:
        """Add a result to the call of an earlier message; False if it has none."""
        part = self._waiting.pop(payload["toolCallId"], None)
        if part is not None:
            _set_result(part, result_chunk(part["toolCallId"], payload))
        return part is not None

    def _start(self, chunk: UiChunk) -> None:
        self.end()
        metadata = chunk["messageMetadata"]
        self._open = {"id": chunk["messageId"], "role": "assistant", "metadata": {**metadata}, "parts": []}
        self.messages.append(self._open)

    def _finish(self, chunk: UiChunk) -> None:
        if self._open is not None:
            self._open["metadata"] |= chunk.get("messageMetadata", {})
        self._open, self._parts = None, {}

    def _append(self, part: UiPart) -> None:
        if self._open is not None:
            self._open["parts"].append(part)

    def _start_text(self, chunk: UiChunk) -> None:
        kind = chunk["type"].removesuffix("-start")
        names = {"id": chunk["id"]} if kind == "reasoning" else {}
        part = self._parts[chunk["id"]] = {"type": kind, **names, "text": "", "state": "streaming"}
        self._append(part)

    def _add_text(self, chunk: UiChunk) -> None:
        self._parts[chunk["id"]]["text"] += chunk["delta"]

    def _end_text(self, chunk: UiChunk) -> None:
        metadata = {name: chunk[name] for name in ("providerMetadata",) if name in chunk}
        self._parts.pop(chunk["id"]).update(state="done", **metadata)

    def _start_call(self, chunk: UiChunk) -> UiPart:
        names = {name: chunk[name] for name in ("toolName", "toolCallId")}
        part = self._parts[chunk["toolCallId"]] = {
            "type": "dynamic-tool",
            **names,
            "state": "input-streaming",
        }
        self._append(part)
        return part

    def _add_call(self, chunk: UiChunk) -> None:
        part = self._parts.get(chunk["toolCallId"]) or self._start_call(chunk)
        self._waiting[chunk["toolCallId"]] = part
        is_failed = chunk["type"] == "tool-input-error"
        metadata = "resultProviderMetadata" if is_failed else "callProviderMetadata"
        part.update(
            {
                name: chunk[name]
                for name in ("toolName", "input", "errorText", "providerExecuted")
                if name in chunk
            },
            state="output-error" if is_failed else "input-available",
            **({metadata: chunk["providerMetadata"]} if "providerMetadata" in chunk else {}),
        )

    def _add_result(self, chunk: UiChunk) -> None:
        part = self._parts[chunk["toolCallId"]]
        if self._waiting.get(chunk["toolCallId"]) is part:
            del self._waiting[chunk["toolCallId"]]
        _set_result(part, chunk)


def _set_result(part: UiPart, chunk: UiChunk) -> None:
    part.pop("errorText", None)
    if chunk["type"] == "tool-output-error":
        part.update(state="output-error", errorText=chunk["errorText"])
    else:
        part.update(state="output-available", output=chunk["output"])
    if "providerMetadata" in chunk:
        part["resultProviderMetadata"] = chunk["providerMetadata"]


_HANDLERS: Mapping[str, Callable[[UiMessageReader, UiChunk], object]] = {
    "finish": UiMessageReader._finish,
    "finish-step": lambda reader, chunk: None,
    "reasoning-delta": UiMessageReader._add_text,
    "reasoning-end": UiMessageReader._end_text,
    "reasoning-start": UiMessageReader._start_text,
    "start": UiMessageReader._start,
    "start-step": lambda reader, chunk: reader._append({"type": "step-start"}),
    "text-delta": UiMessageReader._add_text,
    "text-end": UiMessageReader._end_text,
    "text-start": UiMessageReader._start_text,
    "tool-input-available": UiMessageReader._add_call,
    "tool-input-delta": lambda reader, chunk: None,
    "tool-input-error": UiMessageReader._add_call,
    "tool-input-start": UiMessageReader._start_call,
    "tool-output-available": UiMessageReader._add_result,
    "tool-output-error": UiMessageReader._add_result,
}
"""The other types are parts already: files and data."""
