"""OpenTelemetry: spans and log records of instrumented agents, one or several per text.

Sources: OpenTelemetry's GenAI conventions v0.1.0 and the names before, OpenInference, OpenLLMetry, the events of Claude
Code and Codex, and recordings of libraries with their own instrumentation.

The span of a call of a model repeats the conversation before it, and the span of an agent the conversation of its run,
so their messages are `resent` parts.
"""

from collections.abc import Iterator
from functools import cached_property

from ash_shared.model.blocks import Block, bounded, raw_block
from ash_shared.model.message import Identity, RecordHeader
from ash_shared.providers.otel import events
from ash_shared.providers.otel.parts import parse_part
from ash_shared.providers.otel.reading import (
    SpanMessage,
    agent_of,
    cost_of,
    error_of,
    inputs_of,
    kind_of,
    model_of,
    outputs_of,
    response_id_of,
    stop_reason_of,
    tool_of,
    usage_of,
)
from ash_shared.providers.otel.spans import TelemetrySpan, conversation_of, spans_of
from ash_shared.records.contract import (
    Marks,
    ParsedRecord,
    Part,
    Provider,
    Record,
    WireType,
    speaker_of_role,
)
from ash_shared.records.fingerprints import body_keys
from ash_shared.records.json_fields import text_at
from ash_shared.records.steps import CurrentAgent, ModelRequest, Step

_ENVELOPES = ("resourceSpans", "resourceLogs")
_BARE_MARKS = frozenset(
    {"gen_ai.operation.name", "gen_ai.system", "openinference.span.kind", "traceloop.span.kind"}
)

_SDK_KEYS = frozenset(
    {
        *("attributes", "context", "end_time", "events", "kind", "links", "name", "parent_id", "resource"),
        *("start_time", "status"),
    }
)
_OTHER_KEYS = frozenset({"input", "output"})
"""Keys beside bare attributes."""


class _ReadSpan:
    """A span, with its messages read once."""

    def __init__(self, span: TelemetrySpan) -> None:
        self.span = span
        self.kind = "log" if span.is_log else kind_of(span)

    @cached_property
    def inputs(self) -> list[SpanMessage]:
        return inputs_of(self.span)

    @cached_property
    def outputs(self) -> list[SpanMessage]:
        return outputs_of(self.span)

    @property
    def messages(self) -> list[SpanMessage]:
        """The messages of the span, in order."""
        if self.kind == "log":
            return events.messages_of(self.span)
        if self.kind == "tool":
            return _tool_messages(self.span)
        return [*self.inputs, *self.outputs] if self.kind in ("model", "agent") else []

    def parts(self) -> Iterator[Part]:
        own = RecordHeader(timestamp=self.span.start)
        if self.kind == "log":
            yield from events.parts_of(self.span, own)
        elif self.kind == "tool":
            request = self._request(is_call=False)
            for message in _tool_messages(self.span):
                yield _part(message, own, request=request)
        elif self.kind in ("model", "agent"):
            yield from self._model_parts(own, counts=self.kind == "model")

    def steps(self) -> Iterator[Step]:
        """Yield the agent that calls a model or a tool, if the span states it, and then the parts."""
        agent = agent_of(self.span) if self.kind in ("model", "tool") else None
        if agent is not None:
            yield CurrentAgent(agent, self.span.span_id)
        yield from self.parts()

    def _request(self, *, is_call: bool) -> ModelRequest | None:
        trace = self.span.trace_id
        said = [each.role for each in self.inputs if each.role != "system"]
        return None if trace is None else ModelRequest(trace, self.span.start, is_call and said == ["user"])

    def _model_parts(self, own: RecordHeader, *, counts: bool) -> Iterator[Part]:
        span, request = self.span, self._request(is_call=counts)
        for message in self.inputs:
            yield _part(message, own, request=request)
        end = RecordHeader(timestamp=span.end or span.start)
        for message in self.outputs:
            metadata = (
                {
                    "author": agent_of(span),
                    "model": model_of(span),
                    "stop_reason": stop_reason_of(span, message),
                }
                if counts
                else {}
            )
            yield _part(message, end, metadata, request)
        if counts:
            yield from _costs(span, end, has_answer=bool(self.outputs))


def _tool_messages(span: TelemetrySpan) -> list[SpanMessage]:
    """Return the result of a tool, and its call. Without an id, the next call of the model has both."""
    tool = tool_of(span)
    if tool.id is None:
        return []
    call = [] if tool.call is None else [SpanMessage("assistant", [tool.call], tool.call)]
    return [*call, *([] if tool.result is None else [SpanMessage("tool", [tool.result], tool.result)])]


def _costs(span: TelemetrySpan, end: RecordHeader, *, has_answer: bool) -> Iterator[Part]:
    """Return the usage, cost and error of a call of a model; they belong to its answer, if it has one."""
    usage, cost, error = usage_of(span), cost_of(span), error_of(span)
    if usage is None and cost is None and error is None:
        return
    yield Part(
        role=None if has_answer else "assistant",
        key=span.span_id,
        usage=usage,
        cost=cost,
        error=error,
        message_id=response_id_of(span),
        metadata={} if has_answer else {"model": model_of(span), "stop_reason": stop_reason_of(span, None)},
        header=end,
        original=usage or error,
    )


def _part(
    message: SpanMessage,
    header: RecordHeader,
    metadata: Block | None = None,
    request: ModelRequest | None = None,
) -> Part:
    return Part(
        request=request,
        role=speaker_of_role(message.role),
        blocks=message.blocks,
        relation="resent",
        original=message.original,
        header=header,
        metadata=metadata or {},
    )


class _Reader:
    """Reads a record once for its blocks and its parts."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @cached_property
    def _spans(self) -> list[_ReadSpan]:
        return list(map(_ReadSpan, spans_of(self._record)))

    def parse(self, record: Record) -> ParsedRecord:
        messages = [message for span in self._spans for message in span.messages]
        blocks = bounded([block for message in messages for block in message.blocks])
        if messages and blocks:
            roles = {message.role for message in messages}
            return ParsedRecord("message", roles.pop() if len(roles) == 1 else "user", blocks)
        name = next((each.span.name for each in self._spans), None)
        return ParsedRecord("record", "system", [raw_block("control", record, name)], is_checked=True)

    @cached_property
    def _parts(self) -> list[Part]:
        return [part for span in self._spans for part in span.parts()]

    def parts(self, record: Record, parsed: ParsedRecord) -> list[Part]:
        return [*self._parts]

    def steps(self, record: Record, parsed: ParsedRecord) -> list[Step]:
        return [step for span in self._spans for step in span.steps()]


def recognize(record: Record) -> WireType | None:
    if body_keys(record) - _OTHER_KEYS:
        return None
    return wire_type(record) if _is_export(record) or _is_sdk_span(record) or _is_bare(record) else None


def _is_export(record: Record) -> bool:
    return len(record) == 1 and any(isinstance(record.get(name), list) for name in _ENVELOPES)


def _is_sdk_span(record: Record) -> bool:
    has_attributes = isinstance(record.get("attributes"), dict)
    return (
        has_attributes and record.keys() <= _SDK_KEYS and text_at(record, "context", "trace_id") is not None
    )


def _is_bare(record: Record) -> bool:
    """True for attributes alone; their names have dots, which the keys of other formats do not."""
    has_mark = any(isinstance(record.get(name), str) for name in _BARE_MARKS)
    return has_mark and all("." in name or name in _OTHER_KEYS for name in record)


def wire_type(record: Record) -> WireType:
    reader = _Reader(record)
    return WireType(reader.parse, reader.parts, reader.steps)


def header(record: Record) -> RecordHeader:
    spans = spans_of(record)
    first = spans[0] if spans else TelemetrySpan("", {})
    end = max((time for each in spans for time in (each.start, each.end) if time is not None), default=None)
    models = (model_of(each) for each in spans if kind_of(each) == "model")
    return RecordHeader(
        timestamp=first.start,
        last_timestamp=end,
        session_id=conversation_of(first) or first.trace_id,
        model=next(filter(None, models), None),
        client_version=text_at(first.resource, "service.version"),
    )


def identify(record: Record) -> Identity:
    return Identity(session=header(record).session_id)


PROVIDER = Provider(
    source="otel",
    recognize=recognize,
    marks=Marks(untyped_keys={*_ENVELOPES, "context", *_BARE_MARKS}, body_keys=_OTHER_KEYS),
    wire_type=wire_type,
    parse_block=parse_part,
    header=header,
    identify=identify,
)
