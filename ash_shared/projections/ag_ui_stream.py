"""A turn while it runs, as events of the AG-UI protocol 1.0.

A turn is a run: its id is the `runId`, and the id of the session the `threadId`. Chunks of events become deltas; a
complete event adds the rest and ends its message. So the messages are the same with and without chunks. Events that
the protocol does not have are `CUSTOM`, with their type as the name.
"""

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ash_shared.model.blocks import Block
from ash_shared.model.events import ToolFailure, failure_of
from ash_shared.projections._retractions import WireEvent, is_prompt
from ash_shared.projections.ui_chunks import Revised, UiChunk
from ash_shared.projections.ui_stream import CHANGED, TurnStream

PROTOCOL_VERSION = "1.0"


class AgUiStream(TurnStream):
    """The turn for a client of AG-UI."""

    def __init__(self) -> None:
        super().__init__(AgUiEvents(), run_error(CHANGED, "changed"))


def run_error(message: str, code: str) -> UiChunk:
    """Return the event that ends a run that failed."""
    return {"type": "RUN_ERROR", "message": message, "code": code}


@dataclass(slots=True)
class _Text:
    id: str
    pieces: list[str] = field(default_factory=list)
    length: int = 0

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def missing(self, complete: str) -> str:
        """Return the end of the complete text that was not sent. Raises Revised."""
        sent = "".join(self.pieces)
        if not complete.startswith(sent):
            raise Revised
        return complete[len(sent) :]


class AgUiEvents:
    """Converts the events of a turn in log order, without retracted ones."""

    def __init__(self) -> None:
        self._turn: str | None = None
        self._has_turn = False
        self._thread = ""
        self._ids = Counter[str]()
        self._texts: dict[tuple[str, str | None, str | None], _Text] = {}
        """Texts without an end, by kind, response and subagent."""
        self._calls: dict[str, _Text] = {}
        """The arguments of calls without an end."""
        self._pending: dict[str, str] = {}
        """The tools of calls without a result."""
        self._subagents: dict[str, None] = {}
        self._failure: UiChunk | None = None
        self._is_cancelled = False

    def add(self, event: WireEvent) -> list[UiChunk]:
        """Return the events of the protocol for an event. Raises Revised."""
        return [*self._begin(event), *self._convert(event)]

    def end(self) -> list[UiChunk]:
        """Return the events that end the run without its usage."""
        return [*self._close({})]

    def has_open_items(self) -> bool:
        """True while a text is written, or a call has no result."""
        return bool(self._texts or self._pending)

    def has_turn(self) -> bool:
        return self._has_turn

    def begins_turn(self, event: WireEvent) -> bool:
        is_other = event.get("turnId") not in (None, self._turn) and event["type"] != "turn_end"
        return event["type"] == "turn_start" or is_other

    def ends_turn(self, event: WireEvent) -> bool:
        return event["type"] == "turn_end" and event.get("turnId") in (None, self._turn)

    # The run and its subagents.

    def _begin(self, event: WireEvent) -> Iterator[UiChunk]:
        if self._has_turn:
            return
        self._has_turn, self._thread = True, event["sessionId"]
        self._turn = event.get("turnId") or event["id"]
        run = {"threadId": self._thread, "runId": self._turn, "protocolVersion": PROTOCOL_VERSION}
        yield _dated(event, {"type": "RUN_STARTED", **run})

    def _close(self, payload: Block) -> Iterator[UiChunk]:
        for (kind, *_), text in self._texts.items():
            yield from _end_of_text(kind, text.id)
        for id in self._calls:
            yield {"type": "TOOL_CALL_END", "toolCallId": id}
        for id in self._subagents:
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": id}
        self._texts, self._calls, self._pending, self._subagents = {}, {}, {}, {}
        usage = _token_usages(payload.get("usage"))
        cost = payload.get("costUsd")
        more = {
            **({"usage": usage} if usage else {}),
            **({} if cost is None else {"metadata": {"costUsd": cost}}),
        }
        if self._failure is not None and not self._is_cancelled:
            yield {**self._failure, **more}
            return
        outcome = {"type": "cancelled" if self._is_cancelled else "success"}
        run = {"threadId": self._thread, "runId": self._turn or ""}
        yield {"type": "RUN_FINISHED", **run, "outcome": outcome, **more}

    def _convert(self, event: WireEvent) -> Iterator[UiChunk]:
        call = event["payload"].get("parentToolCallId")
        if not isinstance(call, str):  # events of unknown types are not checked
            call = None
        if call is not None and call not in self._subagents:
            self._subagents[call] = None
            name = self._pending.get(call) or "subagent"
            run = {"subagentRunId": call, "name": name, "parentToolCallId": call}
            yield _dated(event, {"type": "SUBAGENT_STARTED", **run})
        handler = _HANDLERS.get(event["type"], AgUiEvents._add_other)
        if event["payload"].get("sidechain") is True:
            handler = AgUiEvents._add_other  # its subagent is not known
        for chunk in handler(self, event):
            yield _dated(event, chunk if call is None else {**chunk, "subagentRunId": call})

    def _add_turn_start(self, event: WireEvent) -> Iterator[UiChunk]:
        yield from ()

    def _add_turn_end(self, event: WireEvent) -> Iterator[UiChunk]:
        if self.ends_turn(event):
            yield from self._close(event["payload"])

    def _add_interrupt(self, event: WireEvent) -> Iterator[UiChunk]:
        reason = str(event["payload"].get("reason"))
        self._is_cancelled = reason == "user_cancel"
        self._failure = self._failure or run_error("The turn was interrupted.", reason)
        yield _custom(event)

    def _add_error(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        if "parentToolCallId" not in payload:
            failure = run_error(str(payload.get("message")), str(payload.get("code")))
            self._failure = self._failure or failure
        yield _custom(event)

    def _add_other(self, event: WireEvent) -> Iterator[UiChunk]:
        yield _custom(event)

    # Messages.

    def _add_prompt(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        if is_prompt(event) and payload["text"]:
            yield from _whole_text(event["id"], "user", payload["text"])
        if not is_prompt(event) or payload.keys() != {"text"}:
            yield _custom(event)

    def _add_delta(self, event: WireEvent) -> Iterator[UiChunk]:
        added = event["payload"]["text"]
        if added:
            self._failure = None  # the agent tried again
            kind = _KINDS[event["type"]]
            text = yield from self._enter_text(kind, event)
            text.add(added)
            yield {"type": f"{kind}_CONTENT", "messageId": text.id, "delta": added}

    def _enter_text(self, kind: str, event: WireEvent) -> Generator[UiChunk, None, _Text]:
        key = _text_key(kind, event)
        text = self._texts.get(key)
        if text is None:
            suffix = "-reasoning" if kind == _REASONING else ""
            text = self._texts[key] = _Text(self._new_id(self._message_id(event) + suffix))
            if kind == _REASONING:
                yield {"type": "REASONING_START", "messageId": text.id}
            role = "reasoning" if kind == _REASONING else "assistant"
            yield {"type": f"{kind}_START", "messageId": text.id, "role": role}
        return text

    def _message_id(self, event: WireEvent) -> str:
        return str(event.get("responseId") or f"{self._turn}-answer")

    def _new_id(self, name: str) -> str:
        self._ids[name] += 1
        return name if self._ids[name] == 1 else f"{name}-{self._ids[name]}"

    def _add_text(self, event: WireEvent) -> Iterator[UiChunk]:
        kind, payload = _KINDS[event["type"]], event["payload"]
        if payload["text"]:
            self._failure = None
        if payload["text"] or _text_key(kind, event) in self._texts:
            text = yield from self._enter_text(kind, event)
            del self._texts[_text_key(kind, event)]
            if rest := text.missing(payload["text"]):
                yield {"type": f"{kind}_CONTENT", "messageId": text.id, "delta": rest}
            yield from _end_of_text(kind, text.id, payload.get("signature"))
        if payload.get("content"):
            yield _custom(event)

    # Calls.

    def _add_input_delta(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        id = payload["toolCallId"]
        if id not in self._calls:
            yield self._begin_call(event)
        arguments = self._calls[id]
        added = payload["chunk"][max(0, arguments.length - payload["offset"]) :]
        if added and payload["offset"] <= arguments.length:
            arguments.add(added)
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": added}

    def _begin_call(self, event: WireEvent) -> UiChunk:
        payload = event["payload"]
        id, name = payload["toolCallId"], payload["toolName"]
        self._calls[id], self._pending[id] = _Text(id), name
        parent = {"parentMessageId": self._message_id(event)}
        return {"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name, **parent}

    def _add_call(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        id, arguments = payload["toolCallId"], payload["args"]
        if id not in self._calls:
            yield self._begin_call(event)
        sent = "".join(self._calls.pop(id).pieces)
        if not sent:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": _json(arguments)}
        elif payload.get("partial") is not True and _decoded(sent) != arguments:
            raise Revised
        yield {"type": "TOOL_CALL_END", "toolCallId": id}

    def _add_result(self, event: WireEvent) -> Iterator[UiChunk]:
        payload = event["payload"]
        id, failure = payload["toolCallId"], failure_of(payload)
        self._pending.pop(id, None)
        if id in self._subagents:
            del self._subagents[id]
            yield {"type": "SUBAGENT_FINISHED", "subagentRunId": id}
        more = {name: value for name, value in payload.items() if name not in _RESULT_KEYS}
        content = payload.get("result")
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": event["id"],
            "toolCallId": id,
            "content": content if isinstance(content, str) else _result_text(content, failure),
            "role": "tool",
            **({"metadata": more} if more else {}),
        }


_REASONING, _TEXT = "REASONING_MESSAGE", "TEXT_MESSAGE"
_KINDS: Mapping[str, str] = {
    "assistant_chunk": _TEXT,
    "assistant_done": _TEXT,
    "thinking_chunk": _REASONING,
    "thinking_done": _REASONING,
}
_RESULT_KEYS = frozenset({"toolCallId", "result", "parentToolCallId"})

_HANDLERS: Mapping[str, Callable[[AgUiEvents, WireEvent], Iterator[UiChunk]]] = {
    "assistant_chunk": AgUiEvents._add_delta,
    "assistant_done": AgUiEvents._add_text,
    "error": AgUiEvents._add_error,
    "interrupt": AgUiEvents._add_interrupt,
    "thinking_chunk": AgUiEvents._add_delta,
    "thinking_done": AgUiEvents._add_text,
    "tool_call": AgUiEvents._add_call,
    "tool_input_chunk": AgUiEvents._add_input_delta,
    "tool_result": AgUiEvents._add_result,
    "turn_end": AgUiEvents._add_turn_end,
    "turn_start": AgUiEvents._add_turn_start,
    "user_message": AgUiEvents._add_prompt,
}


def _dated(event: WireEvent, chunk: UiChunk) -> UiChunk:
    return {**chunk, "timestamp": event["timestamp"]}


def _custom(event: WireEvent) -> UiChunk:
    return {"type": "CUSTOM", "name": event["type"], "value": event["payload"]}


def _text_key(kind: str, event: WireEvent) -> tuple[str, str | None, str | None]:
    return kind, event.get("responseId"), event["payload"].get("parentToolCallId")


def _whole_text(id: str, role: str, text: str) -> Iterator[UiChunk]:
    yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": role}
    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
    yield {"type": "TEXT_MESSAGE_END", "messageId": id}


def _end_of_text(kind: str, id: str, signature: str | None = None) -> Iterator[UiChunk]:
    yield {"type": f"{kind}_END", "messageId": id}
    if kind == _REASONING:
        if signature:
            value = {"subtype": "message", "entityId": id, "encryptedValue": signature}
            yield {"type": "REASONING_ENCRYPTED_VALUE", **value}
        yield {"type": "REASONING_END", "messageId": id}


def _token_usages(usage: Block | None) -> list[Block]:
    """Return the usage of a turn. The input of the protocol includes cached tokens."""
    if usage is None:
        return []
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    input = usage.get("input_tokens", 0) + (read or 0) + (written or 0)
    output = usage.get("output_tokens", 0)
    counts = {
        "inputTokens": input,
        "outputTokens": output,
        "totalTokens": input + output,
        "reasoningTokens": usage.get("reasoning_tokens"),
        "cachedInputTokens": read,
        "cacheWriteInputTokens": written,
    }
    return [{name: count for name, count in counts.items() if count is not None}]


def _result_text(content: Any, failure: ToolFailure | None) -> str:
    return failure.message if content is None and failure is not None else _json(content)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
