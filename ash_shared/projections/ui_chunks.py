"""Convert events to the chunks (`UIMessageChunk`) that a client of Vercel's AI SDK builds messages from.

An assistant message lasts from a prompt, or the start of a turn, to the next one. Each response of the model is a step.
Chunks of events become deltas; a complete event adds the rest and ends its part. So the parts are the same with and
without chunks. Events without a part of their own are data parts named after their type (`data-error`).

Data outside of the assistant message are `transient`: clients report them (`onData`), but do not add them to a message.
These are prompts (`data-message`, a `UIMessage`), chunks of output or speech, results of earlier messages, and events
between messages.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.model.event_types import CATALOGUE, CHUNKS
from ash_shared.model.events import blocks_of, failure_of
from ash_shared.projections._retractions import WireEvent, is_main, is_prompt
from ash_shared.projections._ui_files import data_part, file_name, file_part

UiChunk = dict[str, Any]

PARTIAL_CALL = "The arguments of this call are incomplete: it did not run."

_SCALARS = (str, int, float)


class Revised(Exception):
    """A part that was sent has changed."""


class _Origin(NamedTuple):
    """The event before a message, or its turn."""

    id: str
    timestamp: int | None = None


_BEFORE = _Origin("log")
"""Before the first turn."""


@dataclass(slots=True)
class _Text:
    """A text or reasoning without an end."""

    id: str
    pieces: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Call:
    id: str
    step: int
    length: int = 0
    """Characters of streamed arguments."""
    is_complete: bool = False
    is_answered: bool = False


@dataclass(slots=True)
class _Message:
    """An assistant message without an end."""

    response: str | None = None
    step: int = 0
    has_results: bool = False
    """True if a result has come in this step."""
    texts: dict[tuple[str, str | None], _Text] = field(default_factory=dict)
    """Texts without an end, by kind and response."""
    calls: dict[str, _Call] = field(default_factory=dict)
    """The last call with each id."""
    id_counts: Counter[str] = field(default_factory=Counter)
    """Number of calls with each id, as sent or made unique."""
    text_counts: Counter[str] = field(default_factory=Counter)
    """Number of texts by kind."""


class UiChunks:
    """Converts events in log order, without retracted ones."""

    def __init__(self) -> None:
        self._message: _Message | None = None
        self._origin = _BEFORE
        self._turn: str | None = None
        self._turns: set[str | None] = {None}

    def add(self, event: WireEvent) -> list[UiChunk]:
        """Return the chunks of an event. Raises Revised."""
        chunks = [*self._change_turn(event)]
        handler = _HANDLERS.get(event["type"]) if is_main(event) else None
        return [*chunks, *(handler or UiChunks._add_data)(self, event)]

    def end(self) -> list[UiChunk]:
        """Return the chunks that end the open message."""
        return [*self._close()]

    def has_open_items(self) -> bool:
        """True while a text is written, or a call has no result."""
        message = self._message
        if message is None:
            return False
        return bool(message.texts) or not all(call.is_answered for call in message.calls.values())

    def has_turn(self) -> bool:
        """True if a turn has begun."""
        return self._origin is not _BEFORE

    def begins_turn(self, event: WireEvent) -> bool:
        wire = event["type"]
        return wire == "turn_start" or (event.get("turnId") not in self._turns and wire != "turn_end")

    def ends_turn(self, event: WireEvent) -> bool:
        return event["type"] == "turn_end" and event.get("turnId") in (None, self._turn)

    # Messages and steps.

    def _change_turn(self, event: WireEvent) -> Iterator[UiChunk]:
        turn = event.get("turnId")
        if not self.begins_turn(event):
            return
        yield from self._close()
        is_marked = event["type"] == "turn_start"
        self._origin = _Origin(event["id"], event["timestamp"]) if is_marked else _Origin(str(turn))
        self._turn = turn
        self._turns.add(turn)

    def _open(self) -> Generator[UiChunk, None, _Message]:
        if self._message is None:
            self._message = _Message()
            metadata = {"createdAt": self._origin.timestamp, "turnId": self._turn}
            yield {
                "type": "start",
                "messageId": f"{self._origin.id}-answer",
                "messageMetadata": {name: value for name, value in metadata.items() if value is not None},
            }
        return self._message

    def _close(self, metadata: Block | None = None) -> Iterator[UiChunk]:
        message, self._message = self._message, None
        if message is not None:
            for (kind, _), text in message.texts.items():
                yield {"type": f"{kind}-end", "id": text.id}
            if message.step:
                yield {"type": "finish-step"}
            yield {"type": "finish", **({"messageMetadata": dict(metadata)} if metadata else {})}

    def _enter_step(self, event: WireEvent) -> Generator[UiChunk, None, _Message]:
        """Open the message, and the step of the event."""
        message, response = (yield from self._open()), event.get("responseId")
        is_known = response is not None and message.response is not None
        is_other = response != message.response if is_known else message.has_results
        if message.step and not is_other:
            message.response = message.response or response
            return message
        if message.step and not message.texts:
            yield {"type": "finish-step"}
        message.step, message.response, message.has_results = message.step + 1, response, False
        yield {"type": "start-step"}
        return message

    # Events.

    def _add_turn_end(self, event: WireEvent) -> Iterator[UiChunk]:
        if self._message is None or not self.ends_turn(event):
            yield from self._add_data(event) if event["payload"] else ()
        else:
            yield from self._close({"finishedAt": event["timestamp"], **event["payload"]})
        if self.ends_turn(event):
            self._origin = _Origin(event["id"], event["timestamp"])

    def _add_user(self, event: WireEvent) -> Iterator[UiChunk]:
        if not is_prompt(event):
            yield from self._add_data(event)
            return
        yield from self._close()
        self._origin = _Origin(event["id"], event["timestamp"])
        message = user_message(event)
        yield {"type": "data-message", "id": message["id"], "data": message, "transient": True}

    def _add_data(self, event: WireEvent) -> Iterator[UiChunk]:
        chunk = {"type": f"data-{event['type']}", "id": event["id"], "data": event["payload"]}
        is_part = self._message is not None and event["type"] not in CHUNKS
        yield chunk if is_part else {**chunk, "transient": True}

    def _add_delta(self, event: WireEvent) -> Iterator[UiChunk]:
        kind, added = _KINDS[event["type"]], event["payload"]["text"]
        if added:
            text = yield from self._enter_text(kind, event)
            text.pieces.append(added)
            yield {"type": f"{kind}-delta", "id": text.id, "delta": added}

    def _enter_text(self, kind: str, event: WireEvent) -> Generator[UiChunk, None, _Text]:
        """Return the open text of an event; start one if there is none."""
        text = self._open_text(kind, event)
        if text is None:
            message = yield from self._enter_step(event)
            message.text_counts[kind] += 1
            text = _Text(f"{kind}-{message.text_counts[kind]}")
            message.texts[kind, event.get("responseId")] = text
            yield {"type": f"{kind}-start", "id": text.id}
        return text

    def _open_text(self, kind: str, event: WireEvent) -> _Text | None:
        return None if self._message is None else self._message.texts.get((kind, event.get("responseId")))

    def _add_text(self, event: WireEvent) -> Iterator[UiChunk]:
        kind, payload = _KINDS[event["type"]], event["payload"]
        others = _other_blocks(payload)
        if payload["text"] or self._open_text(kind, event) or not others:
            yield from self._complete_text(kind, event, payload["text"], _metadata(payload, "text"))
        for block in others:
            if block["type"] == "text":
                yield from self._complete_text(kind, event, block["text"], {})
            else:
                yield from self._enter_step(event)
                yield _file_chunk(block)
        yield from self._add_rest(event, "content")

    def _complete_text(
        self, kind: str, event: WireEvent, complete: str, metadata: UiChunk
    ) -> Iterator[UiChunk]:
        text = yield from self._enter_text(kind, event)
        sent = "".join(text.pieces)
        if not complete.startswith(sent):
            raise Revised
        if rest := complete[len(sent) :]:
            yield {"type": f"{kind}-delta", "id": text.id, "delta": rest}
        yield {"type": f"{kind}-end", "id": text.id, **metadata}
        if self._message is not None:
            del self._message.texts[kind, event.get("responseId")]

    def _add_input_delta(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        call = self._open_call(payload["toolCallId"])
        if call is None:
            call, name = (yield from self._start_call(event)), payload["toolName"]
            yield {"type": "tool-input-start", "toolCallId": call.id, "toolName": name, "dynamic": True}
        added = payload["chunk"][max(0, call.length - payload["offset"]) :]
        if added and payload["offset"] <= call.length:
            call.length += len(added)
            yield {"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": added}

    def _open_call(self, id: str) -> _Call | None:
        """Return the call with incomplete arguments."""
        call = None if self._message is None else self._message.calls.get(id)
        return None if call is None or call.is_complete else call

    def _start_call(self, event: WireEvent) -> Generator[UiChunk, None, _Call]:
        message, id = (yield from self._enter_step(event)), event["payload"]["toolCallId"]
        call = message.calls[id] = _Call(_unique(id, message.id_counts), message.step)
        return call

    def _add_call(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        call = self._open_call(payload["toolCallId"]) or (yield from self._start_call(event))
        if self._message is None or call.step != self._message.step:
            raise Revised  # clients look for the call in the current step
        call.is_complete = True
        executor, is_partial = payload.get("executor"), payload.get("partial") is True
        yield {
            "type": "tool-input-error" if is_partial else "tool-input-available",
            "toolCallId": call.id,
            "toolName": payload["toolName"],
            "input": payload["args"],
            "dynamic": True,
            **({} if executor is None else {"providerExecuted": True}),
            **({"errorText": PARTIAL_CALL} if is_partial else {}),
            **_metadata(payload, "toolCallId", "toolName", "args"),
        }
        yield from self._add_rest(event, "args")

    def _add_result(self, event: WireEvent) -> Iterator[UiChunk]:
        """Add a result to its call, or as transient data if the message of the call is complete."""
        message, payload = self._message, event["payload"]
        call = message.calls.get(payload["toolCallId"]) if message is not None else None
        if message is None or call is None or not call.is_complete or call.is_answered:
            is_here = call is not None or payload.get("orphan") is True
            yield from self._add_data(event) if is_here else self._add_late_result(event)
            return
        call.is_answered = message.has_results = True
        yield result_chunk(call.id, payload)
        if rest := _result_rest(payload):
            yield {"type": "data-tool_result", "id": event["id"], "data": {"toolCallId": call.id, **rest}}

    def _add_late_result(self, event: WireEvent) -> Iterator[UiChunk]:
        for chunk in self._add_data(event):
            yield {**chunk, "transient": True}

    def _add_rest(self, event: WireEvent, *shown: str) -> Iterator[UiChunk]:
        """Add the lists and objects of a payload that its part does not show."""
        payload = event["payload"].items()
        rest = {name: value for name, value in payload if name not in shown and not _is_scalar(value)}
        if rest:
            yield {"type": f"data-{event['type']}", "id": event["id"], "data": rest}


def user_message(event: WireEvent) -> dict[str, Any]:
    """Return the `UIMessage` of a prompt."""
    payload, name_of_text = event["payload"], str(CATALOGUE[event["type"]].text)
    blocks = blocks_of({"text": payload[name_of_text], "content": payload.get("content")})
    extra = {name: value for name, value in payload.items() if name not in (name_of_text, "content")}
    metadata = {"createdAt": event["timestamp"], **({"turnId": event["turnId"]} if "turnId" in event else {})}
    return {
        "id": event["id"],
        "role": "user",
        "metadata": {**metadata, **extra},
        "parts": list(map(_user_part, blocks)),
    }


def _other_blocks(payload: Block) -> list[Block]:
    """Return the blocks of a content, without texts that the payload repeats."""
    content = payload.get("content") or []
    texts = [block["text"] for block in content if block["type"] == "text"]
    repeated = texts if payload["text"] == "\n\n".join(texts) else [payload["text"]]
    return [block for block in content if block["type"] != "text" or block["text"] not in repeated]


def _user_part(block: Block) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    part, name = file_part(block), file_name(block)
    if part is None:
        return data_part(block)
    return part if name is None else {**part, "filename": name}


def result_chunk(id: str, payload: Block) -> UiChunk:
    """Return the chunk with the result of the call with this id."""
    failure = failure_of(payload)
    metadata = _metadata({**payload, **_error_code(payload)}, "toolCallId", "result", "structured", "error")
    common = {"toolCallId": id, "dynamic": True, **metadata}
    if failure is not None:
        return {"type": "tool-output-error", "errorText": failure.message, **common}
    return {"type": "tool-output-available", "output": _output(payload), **common}


def _output(payload: Block) -> Any:
    has_result = payload["result"] is not None
    return payload["result"] if has_result else payload.get("structured")


def _error_code(payload: Block) -> Block:
    failure = failure_of(payload)
    return {} if failure is None else {"errorCode": failure.code}


def _result_rest(payload: Block) -> Block:
    """Return the values that `result_chunk` does not show."""
    failure, error = failure_of(payload), payload.get("error")
    shown = {"toolCallId"}
    if payload["result"] is None or failure is None or payload["result"] == failure.message:
        shown.add("result")
    if failure is None and payload["result"] is None:
        shown.add("structured")
    if not isinstance(error, dict) or error.keys() <= {"code", "message"}:
        shown.add("error")
    return {
        name: value
        for name, value in payload.items()
        if name not in shown and (name in ("result", "structured") or not _is_scalar(value))
    }


def _file_chunk(block: Block) -> UiChunk:
    part, name = file_part(block), file_name(block)
    if part is None:
        return data_part(block)
    return part if name is None else {**part, "providerMetadata": {"ash": {"filename": name}}}


def _metadata(payload: Block, *shown: str) -> UiChunk:
    """Return the simple values of a payload that its part does not show."""
    extra = {name: value for name, value in payload.items() if name not in shown and _is_scalar(value)}
    return {"providerMetadata": {"ash": extra}} if extra else {}


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, _SCALARS)


def _unique(id: str, counts: Counter[str]) -> str:
    """Return the id, or else one with a number: some formats restart numbering in every response."""
    unique = id
    while counts[unique]:
        counts[id] += 1
        unique = f"{id}#{counts[id]}"
    counts[unique] += 1
    return unique


_KINDS: Mapping[str, Literal["reasoning", "text"]] = {
    "assistant_chunk": "text",
    "assistant_done": "text",
    "thinking_chunk": "reasoning",
    "thinking_done": "reasoning",
}
_HANDLERS: Mapping[str, Callable[[UiChunks, WireEvent], Iterator[UiChunk]]] = {
    "assistant_chunk": UiChunks._add_delta,
    "assistant_done": UiChunks._add_text,
    "thinking_chunk": UiChunks._add_delta,
    "thinking_done": UiChunks._add_text,
    "tool_call": UiChunks._add_call,
    "tool_input_chunk": UiChunks._add_input_delta,
    "tool_result": UiChunks._add_result,
    "turn_end": UiChunks._add_turn_end,
    "turn_start": lambda chunks, event: iter(()),
    "user_audio": UiChunks._add_user,
    "user_message": UiChunks._add_user,
}
