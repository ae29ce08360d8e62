"""Convert a session to traces in OTLP/JSON, with the names of OpenTelemetry's GenAI conventions v0.1.0.

Each turn is a trace: a span of the agent (`invoke_agent`), and below it one for each answer (`chat`) and one for each
call with a result (`execute_tool`). A call of a model contains only the input since the answer before it; a repetition
of the whole conversation would grow with the square of its length. Duplicates, retracted messages, subagents and
notices of the client are left out, as in `to_otel_genai`.

Ids are digests of the ids of the session and of the message, so an export of the same session has the same ids, also
after earlier messages were retracted.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from ash_shared.model.blocks import Block
from ash_shared.model.message import StandardMessage
from ash_shared.projections._otel_messages import (
    ChatMessage,
    MainAgentFolds,
    OtelAttributes,
    OtelConversation,
    answer_attributes,
    is_included,
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
_NAME = "ash"
SCOPE = {"name": _NAME}
"""The scope of the spans."""

_Kind = Literal["invoke_agent", "chat", "execute_tool"]


MAX_KEYS = 500_000
"""Keys of spans that are compared with later ones; repeated ids of messages are close to each other."""
MAX_WAITING_CALLS, MAX_WAITING_CHARACTERS = 500_000, 64 * 1024 * 1024
"""Calls without a result, and the length of their arguments. A result of an earlier call has no span."""
MAX_LATE_ENDS = 500_000
"""Turns with results that come after them. Earlier ones end before these results."""


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
    known, survey = list(messages), TraceSurvey()
    for message in known:
        survey.add(message)
    fold = TraceFold(survey.facts(), session_id=session_id, records=records, default_time=default_time)
    for message in known:
        fold.add(message)
    scoped = {"scope": SCOPE, "spans": [*fold.take(), *fold.end()]}
    return {"resourceSpans": [{"resource": fold.resource, "scopeSpans": [scoped]}]}


class TraceFacts(NamedTuple):
    """Facts of a whole session that its first spans contain."""

    agent: str | None
    version: str | None
    is_of_subagent: bool
    """True if all messages are a subagent's."""
    instructions: list[Any]
    first_time: int | None
    ends: Mapping[str, int]
    """The times of results that came after the turn of their call, by the key of this turn."""


class TraceSurvey(MainAgentFolds["_Survey"]):
    """Folds the messages of a session into the facts that `TraceFold` requires."""

    def __init__(self) -> None:
        super().__init__(_Survey)

    def facts(self) -> TraceFacts:
        return self.used.facts(is_of_subagent=self.is_of_subagent)


class _Survey:
    def __init__(self) -> None:
        self._trace = _Trace([], {}, None)
        self._agent: str | None = None
        self._version: str | None = None

    def add(self, message: StandardMessage, size: int = 0) -> None:
        self._agent = self._agent or message.metadata.source
        self._version = self._version or message.metadata.cli_version
        self._trace.add(message, size)
        self._trace.take()

    def size(self) -> int:
        """Return the size of the messages of one span, and of instructions."""
        return self._trace.size()

    def facts(self, *, is_of_subagent: bool) -> TraceFacts:
        trace = self._trace
        trace.end()
        instructions = trace.conversation.instructions
        return TraceFacts(
            self._agent, self._version, is_of_subagent, instructions, trace.first_time, trace.ends
        )


class TraceFold:
    """Folds the messages of a session, in order, into spans in OTLP/JSON; an agent's is after those below it.

    `take` returns the spans that later messages do not change.
    """

    def __init__(
        self, facts: TraceFacts, *, session_id: str, records: Iterable[Any] = (), default_time: int = 0
    ) -> None:
        requests = list(records)
        once = {
            "gen_ai.system_instructions": facts.instructions or None,
            "gen_ai.tool.definitions": tool_definitions(requests) or None,
        }
        first_time = default_time if facts.first_time is None else facts.first_time
        self._facts, self._session_id = facts, session_id
        self._trace = _Trace(requests, once, first_time)
        self._agent = {"gen_ai.agent.name": facts.agent, "gen_ai.agent.version": facts.version}
        self._provider = provider_name(facts.agent or _NAME, requests)
        """The provider of turns without an answer."""
        self.resource = {"attributes": _encoded({"service.name": facts.agent or _NAME})}

    def add(self, message: StandardMessage) -> None:
        if is_included(message, in_subagent=self._facts.is_of_subagent):
            self._trace.add(message)

    def take(self) -> list[dict[str, Any]]:
        return [self._written(each) for each in self._trace.take()]

    def end(self) -> list[dict[str, Any]]:
        """Return the other spans at the end of the session."""
        return [self._written(each) for each in self._trace.end()]

    def _agent_span(self, turn: "_Turn") -> "_Span":
        """Return the span of a turn, with the prompts that have no answer."""
        attributes = {
            "gen_ai.provider.name": turn.provider or self._provider,
            **self._agent,
            "gen_ai.input.messages": _input(turn.inputs),
        }
        end = max(turn.end, self._facts.ends.get(turn.key, turn.end))
        return _Span("invoke_agent", turn.key, turn, turn.start, end, attributes, self._facts.agent)

    def _written(self, part: "_Span | _Turn") -> dict[str, Any]:
        span = self._agent_span(part) if isinstance(part, _Turn) else part
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
    size: int


class _Trace:
    """The spans of a session. Later messages change only the last answer, and the end of a turn."""

    def __init__(self, requests: list[Any], once: OtelAttributes, first_time: int | None) -> None:
        self.conversation = OtelConversation(is_whole=True)
        self.first_time: int | None = None
        """The first time in the conversation."""
        self.ends = OrderedDict[str, int]()
        """The times of results that came after the turn of their call, by the key of this turn."""
        self._requests, self._once = requests, once
        self._time = first_time or 0
        """The time of the message before; a message without a time has the same one."""
        self._keys = _Keys()
        self._turn: _Turn | None = None
        self._spans: list[_Span | _Turn] = []
        self._calls = _WaitingCalls()

    def add(self, message: StandardMessage, size: int = 0) -> None:
        self.conversation.add(message, size)
        if complete := self.conversation.take():
            self._add_all(complete, self.conversation.messages)

    def size(self) -> int:
        """Return the size of the messages and instructions that are kept."""
        inputs = self._turn.inputs if self._turn else []
        messages = (*inputs, *self.conversation.messages)
        return self.conversation.instructions_size + sum(each.size for each in messages)

    def take(self) -> list[_Span | _Turn]:
        taken, self._spans = self._spans, []
        return taken

    def end(self) -> list[_Span | _Turn]:
        self._add_all(self.conversation.messages)
        self.conversation.messages.clear()
        if self._turn:
            self._spans.append(self._turn)
        return self.take()

    def _add_all(self, messages: Sequence[ChatMessage], following: Sequence[ChatMessage] = ()) -> None:
        answers = [each for each in (*messages, *following) if each.role == "assistant"]
        # Results of calls may divide an answer. Its last part has the usage.
        last_parts = {id(answer.sources[-1]): answer for answer in answers}
        for message in messages:
            self._add_message(message, has_usage=last_parts.get(id(message.sources[-1])) is message)

    def _add_message(self, message: ChatMessage, *, has_usage: bool) -> None:
        before, time = self._pass_time(message)
        turn = self._turn_of(message, time)
        turn.end = max(turn.end, time)
        if message.role == "assistant":
            start = min(max(before, turn.start), time)
            self._add_answer(message, turn, (start, time), has_usage=has_usage)
            return
        turn.inputs.append(message)
        for block in message.blocks:
            self._add_result(block, time, message.sources[0].id)

    def _pass_time(self, message: ChatMessage) -> tuple[int, int]:
        """Return the times of the message before and of this one."""
        times = [time for each in message.sources if (time := _time_of(each)) is not None]
        if times and self.first_time is None:
            self.first_time = times[0]
        before, self._time = self._time, times[-1] if times else self._time
        return before, self._time

    def _turn_of(self, message: ChatMessage, time: int) -> _Turn:
        """Return the turn of a message. A prompt after an answer begins another one."""
        is_prompt = message.role == "user" and not message.sources[0].metadata.synthetic
        last = self._turn
        if last is not None and not (is_prompt and last.has_answer):
            return last
        self._turn = _Turn(self._keys.take("invoke_agent", message.sources[0].id), time, time)
        if last is not None:
            self._spans.append(last)
            self._turn.inputs, last.inputs = last.inputs, []
        return self._turn

    def _add_answer(
        self, answer: ChatMessage, turn: _Turn, times: tuple[int, int], *, has_usage: bool
    ) -> None:
        described = answer_attributes(answer, self._requests)
        if not has_usage:
            described = {name: value for name, value in described.items() if ".usage." not in name}
        attributes = {
            **described,
            **self._once,
            "gen_ai.input.messages": _input(turn.inputs),
            "gen_ai.output.messages": [output_message(answer)] if answer.parts else None,
        }
        failed = next((each.error for each in answer.sources if each.error is not None), None)
        model = described.get("gen_ai.request.model", described.get("gen_ai.response.model"))
        key = self._keys.take("chat", answer.sources[0].id)
        span = _Span("chat", key, turn, *times, attributes, model)
        self._spans.append(span)
        span.error = None if failed is None else (failed.code, failed.message)
        turn.provider = turn.provider or described["gen_ai.provider.name"]
        turn.has_answer, turn.inputs, self._once = True, [], {}
        for part in answer.parts:
            if part["type"] == "tool_call" and isinstance(part.get("id"), str):
                self._calls.add(part, turn, times[1])

    def _add_result(self, block: Block, time: int, message_id: str) -> None:
        call = self._calls.take(str(block.get("tool_use_id")))
        if call is None:
            return
        attributes = {
            "gen_ai.tool.name": call.block["name"],
            "gen_ai.tool.call.id": call.block["id"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.arguments": call.block.get("arguments"),
            "gen_ai.tool.call.result": _result(block.get("content", block.get("structured"))),
        }
        name, key = call.block["name"], self._keys.take("execute_tool", f"{message_id}\n{call.block['id']}")
        span = _Span("execute_tool", key, call.turn, min(call.time, time), time, attributes, name)
        self._spans.append(span)
        if block.get("is_error"):
            span.error = ("tool_error", None)
        call.turn.end = max(call.turn.end, time)
        if call.turn is not self._turn:
            self.ends[call.turn.key] = call.turn.end
            if len(self.ends) > MAX_LATE_ENDS:
                self.ends.popitem(last=False)


class _WaitingCalls:
    """Calls without a result, by id. Beyond a number or size, the first ones are left out."""

    def __init__(self) -> None:
        self._calls = OrderedDict[str, _Call]()
        self._size = 0

    def add(self, block: Block, turn: _Turn, time: int) -> None:
        self.take(block["id"])
        call = _Call(block, turn, time, len(_json(block.get("arguments"))))
        self._calls[block["id"]] = call
        self._size += call.size
        while len(self._calls) > MAX_WAITING_CALLS or self._size > MAX_WAITING_CHARACTERS:
            self.take(next(iter(self._calls)))

    def take(self, id: str) -> _Call | None:
        call = self._calls.pop(id, None)
        self._size -= call.size if call else 0
        return call


class _Keys:
    """Keys that differ from those before, although ids of messages may be repeated."""

    def __init__(self) -> None:
        self._counts = OrderedDict[bytes, int]()

    def take(self, kind: _Kind, text: str) -> str:
        digest = blake2b(f"{kind}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        count = self._counts[digest] = self._counts.pop(digest, 0) + 1
        if len(self._counts) > MAX_KEYS:
            self._counts.popitem(last=False)
        return text if count == 1 else f"{text}\n{count}"


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
