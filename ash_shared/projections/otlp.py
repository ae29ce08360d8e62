"""Convert a session to traces in OTLP/JSON, with the names of OpenTelemetry's GenAI conventions v0.1.0.

Each turn is a trace: a span of the agent (`invoke_agent`), and below it one for each answer (`chat`) and one for each
call with a result (`execute_tool`). A call of a model contains only the input since the answer before it; a repetition
of the whole conversation would grow with the square of its length. Duplicates, retracted messages, subagents and
notices of the client are left out, as in `to_otel_genai`.

Ids are digests of the ids of the session and of the message, so an export of the same session has the same ids, also
after earlier messages were retracted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage
from ash_shared.projections._otel_messages import (
    ChatMessage,
    OtelAttributes,
    OtelConversation,
    answer_attributes,
    conversation_of,
    output_message,
)
from ash_shared.projections._otel_terms import provider_name
from ash_shared.projections.otel_genai import tool_definitions

_JSON_ATTRIBUTES = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.definitions",
    }
)
"""Attributes that spans contain as JSON text."""
_INTERNAL, _CLIENT = 1, 3
"""Kinds of spans."""
_FAILED = 2
"""The status of a failed span."""
_NS_PER_MS = 1_000_000
_MAX_TIME = 2**63 // _NS_PER_MS
_SCOPE = "ash"

_Kind = Literal["invoke_agent", "chat", "execute_tool"]


def to_otlp(
    messages: Iterable[StandardMessage],
    *,
    session_id: str,
    records: Iterable[Any] = (),
    default_time: int = 0,
) -> dict[str, Any]:
    """Return the session as the body of a request to `/v1/traces`.

    Tool definitions come from the last of the decoded `records` that has any. `default_time`: milliseconds since 1970,
    for a session without times.
    """
    conversation, requests = OtelConversation(is_whole=True), list(records)
    known = conversation_of(list(messages))
    for message in known:
        conversation.add(message)
    agent = known[0].metadata.source if known else None
    trace = _Trace(session_id, requests, conversation.messages, default_time)
    trace.agent = {
        "gen_ai.agent.name": agent,
        "gen_ai.agent.version": next(
            (each.metadata.cli_version for each in known if each.metadata.cli_version), None
        ),
    }
    trace.provider = provider_name(agent or _SCOPE, requests)
    trace.once = {
        "gen_ai.system_instructions": conversation.instructions or None,
        "gen_ai.tool.definitions": tool_definitions(requests) or None,
    }
    for each in conversation.messages:
        trace.add(each)
    resource = {"attributes": _encoded({"service.name": agent or _SCOPE})}
    scoped = {"scope": {"name": _SCOPE}, "spans": trace.finish()}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}


@dataclass(slots=True)
class _Span:
    kind: _Kind
    key: str
    """Identifies the span among the spans of its kind."""
    turn: "_Turn"
    start: int
    end: int
    attributes: OtelAttributes
    subject: str | None
    """The model, tool or agent in the name of the span."""
    error: tuple[str, str | None] | None = None
    """The type and the text of an error."""


@dataclass(slots=True)
class _Turn:
    key: str
    start: int
    end: int
    has_answer: bool = False
    provider: str | None = None
    """The provider of the first answer."""
    inputs: list[ChatMessage] = field(default_factory=list)
    """Messages that no call of a model has contained yet."""


@dataclass(slots=True)
class _Call:
    block: Block
    turn: _Turn
    time: int


class _Trace:
    """The spans of a session."""

    def __init__(
        self,
        session_id: str,
        requests: list[Any],
        messages: list[ChatMessage],
        default_time: int,
    ) -> None:
        self.once: OtelAttributes = {}
        """Attributes of the first call of a model."""
        self.agent: OtelAttributes = {}
        """Attributes of the agent."""
        self.provider = ""
        """The provider of turns without an answer."""
        self._session_id, self._requests = session_id, requests
        self._times = _Times(messages, default_time)
        self._keys = Counter[tuple[_Kind, str]]()
        self._turns: list[_Turn] = []
        self._spans: list[_Span | _Turn] = []
        self._calls: dict[str, _Call] = {}
        """Calls without a result, by id."""
        self._last_parts = {id(each.sources[-1]): each for each in messages if each.role == "assistant"}
        """The last part of each answer, which has its usage; results of calls may divide an answer."""

    def add(self, message: ChatMessage) -> None:
        before, time = self._times.pass_message(message)
        turn = self._turn_of(message, time)
        turn.end = max(turn.end, time)
        if message.role == "assistant":
            self._add_answer(message, turn, min(max(before, turn.start), time), time)
            return
        turn.inputs.append(message)
        for block in message.blocks:
            self._add_result(block, time, message.sources[0].id)

    def finish(self) -> list[dict[str, Any]]:
        """Return the spans in OTLP/JSON, the span of an agent after those below it."""
        if self._turns:
            self._spans.append(self._turns[-1])
        return [
            self._written(self._agent_span(each) if isinstance(each, _Turn) else each) for each in self._spans
        ]

    def _turn_of(self, message: ChatMessage, time: int) -> _Turn:
        """Return the turn of a message. A prompt after an answer begins another one."""
        is_prompt = message.role == "user" and not message.sources[0].metadata.synthetic
        last = self._turns[-1] if self._turns else None
        if last is not None and not (is_prompt and last.has_answer):
            return last
        turn = _Turn(self._key("invoke_agent", message.sources[0].id), time, time)
        if last is not None:
            self._spans.append(last)
            turn.inputs, last.inputs = last.inputs, []
        self._turns.append(turn)
        return turn

    def _add_answer(self, answer: ChatMessage, turn: _Turn, start: int, end: int) -> None:
        described = answer_attributes(answer, self._requests)
        if self._last_parts[id(answer.sources[-1])] is not answer:
            described = {name: value for name, value in described.items() if ".usage." not in name}
        attributes = {
            **described,
            **self.once,
            "gen_ai.input.messages": _input(turn.inputs),
            "gen_ai.output.messages": [output_message(answer)] if answer.parts else None,
        }
        failed = next((each.error for each in answer.sources if each.error is not None), None)
        model = described.get("gen_ai.request.model", described.get("gen_ai.response.model"))
        key = self._key("chat", answer.sources[0].id)
        span = _Span("chat", key, turn, start, end, attributes, model)
        self._spans.append(span)
        span.error = None if failed is None else (failed.code, failed.message)
        turn.provider = turn.provider or described["gen_ai.provider.name"]
        turn.has_answer, turn.inputs, self.once = True, [], {}
        for part in answer.parts:
            if part["type"] == "tool_call" and isinstance(part.get("id"), str):
                self._calls[part["id"]] = _Call(part, turn, end)

    def _add_result(self, block: Block, time: int, message_id: str) -> None:
        call = self._calls.pop(str(block.get("tool_use_id")), None)
        if call is None:
            return
        attributes = {
            "gen_ai.tool.name": call.block["name"],
            "gen_ai.tool.call.id": call.block["id"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.arguments": call.block.get("arguments"),
            "gen_ai.tool.call.result": _result(block.get("content", block.get("structured"))),
        }
        name, key = call.block["name"], self._key("execute_tool", f"{message_id}\n{call.block['id']}")
        span = _Span("execute_tool", key, call.turn, min(call.time, time), time, attributes, name)
        self._spans.append(span)
        if block.get("is_error"):
            span.error = ("tool_error", None)
        call.turn.end = max(call.turn.end, time)

    def _key(self, kind: _Kind, text: str) -> str:
        """Return a key that differs from those before, although ids of messages may be repeated."""
        self._keys[kind, text] += 1
        count = self._keys[kind, text]
        return text if count == 1 else f"{text}\n{count}"

    def _agent_span(self, turn: _Turn) -> _Span:
        """Return the span of a turn, with the prompts that have no answer."""
        attributes = {
            "gen_ai.provider.name": turn.provider or self.provider,
            **self.agent,
            "gen_ai.input.messages": _input(turn.inputs),
        }
        name = self.agent["gen_ai.agent.name"]
        return _Span("invoke_agent", turn.key, turn, turn.start, turn.end, attributes, name)

    def _written(self, span: _Span) -> dict[str, Any]:
        root = self._id(8, "invoke_agent", span.turn.key)
        attributes = {
            "gen_ai.operation.name": span.kind,
            "gen_ai.conversation.id": self._session_id,
            **span.attributes,
            "error.type": span.error[0] if span.error else None,
        }
        return {
            "traceId": self._id(16, "trace", span.turn.key),
            "spanId": self._id(8, span.kind, span.key),
            **({"parentSpanId": root} if span.kind != "invoke_agent" else {}),
            "name": _clean(f"{span.kind} {span.subject}" if span.subject else span.kind),
            "kind": _CLIENT if span.kind == "chat" else _INTERNAL,
            "startTimeUnixNano": str(span.start * _NS_PER_MS),
            "endTimeUnixNano": str(span.end * _NS_PER_MS),
            "attributes": _encoded(attributes),
            "status": _status(span),
        }

    def _id(self, size: int, kind: str, key: str) -> str:
        text = f"{self._session_id}\n{kind}\n{key}"
        return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


class _Times:
    """The times of messages; a message without one has the time of the message before it."""

    def __init__(self, messages: Iterable[ChatMessage], default: int) -> None:
        times = (_time_of(source) for message in messages for source in message.sources)
        self._last = next((time for time in times if time is not None), default)

    def pass_message(self, message: ChatMessage) -> tuple[int, int]:
        """Return the times of the message before and of this one."""
        times = [time for each in message.sources if (time := _time_of(each)) is not None]
        before, self._last = self._last, times[-1] if times else self._last
        return before, self._last


def _time_of(message: StandardMessage) -> int | None:
    time = message.timestamp
    return time if time is not None and 0 < time < _MAX_TIME else None


def _input(messages: Iterable[ChatMessage]) -> list[Any] | None:
    return [{"role": each.role, "parts": each.parts} for each in messages] or None


def _result(content: Any) -> str | None:
    """Return the result of a tool as text: its texts, or else its JSON."""
    if content is None or isinstance(content, str):
        return content
    texts = [_text_in(each) for each in content] if isinstance(content, list) else []
    known = [text for text in texts if text is not None]
    return "\n".join(known) if known and len(known) == len(texts) else _json(content)


def _text_in(part: Any) -> str | None:
    is_text = isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    return part["text"] if is_text else None


def _status(span: _Span) -> dict[str, Any]:
    if span.error is None:
        return {}
    text = span.error[1]
    return {"code": _FAILED, **({"message": _clean(text)} if text else {})}


def _encoded(attributes: OtelAttributes) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": _any_value(_json(value) if name in _JSON_ATTRIBUTES else value)}
        for name, value in attributes.items()
        if value is not None
    ]


def _any_value(value: Any) -> Mapping[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any_value(each) for each in value]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": _clean(str(value))}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _clean(text: str) -> str:
    """Return a text without lone surrogates, which protobuf rejects."""
    return text.encode("utf-8", "replace").decode()
