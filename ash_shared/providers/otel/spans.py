"""Spans and log records of OpenTelemetry, read from any of their JSON forms.

Sources: the OTLP/JSON encoding (`resourceSpans`, `resourceLogs`), `ReadableSpan.to_json` of the SDKs, and bare objects
of attributes.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ash_shared.records.json_fields import is_number, items_at, text_at, to_milliseconds, value_at

Attributes = Mapping[str, Any]

_MAX_NESTING = 60
"""Levels of nested attribute values that are read."""
_MAX_SEGMENTS = 16
"""Levels of flattened keys that are read."""
_NS_PER_MS = 1_000_000
_ERROR_STATUSES = frozenset({2, "2", "ERROR", "STATUS_CODE_ERROR", "Error"})


class SpanEvent(NamedTuple):
    name: str
    attributes: Attributes


class TelemetrySpan(NamedTuple):
    """A span, or a log record."""

    name: str
    attributes: Attributes
    trace_id: str | None = None
    span_id: str | None = None
    start: int | None = None
    """Milliseconds since 1970; for a log record, its time."""
    end: int | None = None
    is_error: bool = False
    status: str | None = None
    """The text of the status."""
    events: tuple[SpanEvent, ...] = ()
    resource: Attributes = MappingProxyType({})
    scope: str | None = None
    body: Any = None
    """The body of a log record."""
    is_log: bool = False


# Attribute values.


def read_value(value: Any, level: int = 0) -> Any:
    """Return the JSON value of an OTLP `AnyValue`."""
    if not isinstance(value, dict) or level > _MAX_NESTING:
        return value
    for kind, read in _VALUES.items():
        if kind in value:
            return read(value[kind], level + 1)
    return value or None


def _read_integer(value: Any, level: int) -> Any:
    """Return an integer, which OTLP writes as text."""
    text = value.removeprefix("-") if isinstance(value, str) else ""
    return int(value) if text.isascii() and text.isdigit() and len(text) < 20 else value


def _read_list(value: Any, level: int) -> Any:
    return [read_value(each, level) for each in items_at(value, "values")]


def _read_object(value: Any, level: int) -> Any:
    return read_attributes(items_at(value, "values"), level)


_VALUES: Mapping[str, Callable[[Any, int], Any]] = {
    "stringValue": lambda value, level: value,
    "intValue": _read_integer,
    "doubleValue": lambda value, level: value,
    "boolValue": lambda value, level: value,
    "arrayValue": _read_list,
    "kvlistValue": _read_object,
    "bytesValue": lambda value, level: value,
}


def read_attributes(attributes: Any, level: int = 0) -> dict[str, Any]:
    """Return attributes by name, from a list of keys and values or from an object."""
    if isinstance(attributes, dict):
        return attributes
    if not isinstance(attributes, list):
        return {}
    return {
        each["key"]: read_value(each.get("value"), level)
        for each in attributes
        if isinstance(each, dict) and isinstance(each.get("key"), str)
    }


def unflatten(attributes: Attributes, prefix: str) -> list[Any]:
    """Return the list that attributes with numbered names contain: `prefix.0.role`, `prefix.0.content` …"""
    root: dict[str, Any] = {}
    for name in attributes:
        if name.startswith(prefix):
            _put(root, name[len(prefix) :].split(".", _MAX_SEGMENTS), attributes[name])
    listed = _as_lists(root)
    return listed if isinstance(listed, list) else []


def _put(node: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            return
        node = child
    node.setdefault(path[-1], value)


def _as_lists(node: Any) -> Any:
    """Return objects with numbers as keys as lists."""
    if not isinstance(node, dict):
        return node
    children = {key: _as_lists(child) for key, child in node.items()}
    if children and all(key.isascii() and key.isdigit() and len(key) < 10 for key in children):
        return [children[key] for key in sorted(children, key=int)]
    return children


# Forms.


def spans_of(record: Mapping[str, Any]) -> list[TelemetrySpan]:
    """Return the spans and log records of a record."""
    if "resourceSpans" in record:
        return [_span(*each) for each in _items(record, "Spans", "spans")]
    if "resourceLogs" in record:
        return [_log(*each) for each in _items(record, "Logs", "logRecords")]
    if isinstance(record.get("attributes"), dict):
        return [_sdk_span(record)]
    return [TelemetrySpan(text_at(record, "name") or "", record)]


def _items(record: Mapping[str, Any], kind: str, name: str) -> Iterator[tuple[Any, Attributes, str | None]]:
    for each in items_at(record, f"resource{kind}"):
        resource = read_attributes(value_at(each, "resource", "attributes"))
        for scoped in items_at(each, f"scope{kind}"):
            scope = text_at(scoped, "scope", "name")
            for item in items_at(scoped, name):
                yield (item if isinstance(item, dict) else {}), resource, scope


def _span(span: Any, resource: Attributes, scope: str | None) -> TelemetrySpan:
    return TelemetrySpan(
        name=text_at(span, "name") or "",
        attributes=read_attributes(span.get("attributes")),
        trace_id=text_at(span, "traceId"),
        span_id=text_at(span, "spanId"),
        start=_time(span.get("startTimeUnixNano")),
        end=_time(span.get("endTimeUnixNano")),
        is_error=_is_error(value_at(span, "status", "code")),
        status=text_at(span, "status", "message"),
        events=tuple(map(_event, items_at(span, "events"))),
        resource=resource,
        scope=scope,
    )


def _log(log: Any, resource: Attributes, scope: str | None) -> TelemetrySpan:
    attributes = read_attributes(log.get("attributes"))
    body = read_value(log.get("body"))
    return TelemetrySpan(
        name=_name_of_log(log, attributes, body),
        attributes=attributes,
        trace_id=text_at(log, "traceId"),
        span_id=text_at(log, "spanId"),
        start=_time(log.get("timeUnixNano")) or _time(log.get("observedTimeUnixNano")),
        resource=resource,
        scope=scope,
        body=body,
        is_log=True,
    )


def _name_of_log(log: Mapping[str, Any], attributes: Attributes, body: Any) -> str:
    """Return the name of an event, with its prefix if any field has it.

    Claude Code writes the full name in the body. Codex writes it as an attribute, and the place in its source code as
    the name.
    """
    stated = (text_at(log, "eventName"), text_at(attributes, "event.name"))
    names = [name for name in (*stated, body) if isinstance(name, str) and name]
    return next((name for name in names if name.startswith(_PREFIXES)), next(iter(names), ""))


def _sdk_span(span: Mapping[str, Any]) -> TelemetrySpan:
    return TelemetrySpan(
        name=text_at(span, "name") or "",
        attributes=span["attributes"],
        trace_id=_id(text_at(span, "context", "trace_id")),
        span_id=_id(text_at(span, "context", "span_id")),
        start=to_milliseconds(span.get("start_time")),
        end=to_milliseconds(span.get("end_time")),
        is_error=_is_error(value_at(span, "status", "status_code")),
        status=text_at(span, "status", "description"),
        events=tuple(map(_event, items_at(span, "events"))),
        resource=read_attributes(value_at(span, "resource", "attributes")),
    )


def _event(event: Any) -> SpanEvent:
    return SpanEvent(text_at(event, "name") or "", read_attributes(value_at(event, "attributes")))


def _id(text: str | None) -> str | None:
    return None if text is None else text.removeprefix("0x")


def _is_error(code: Any) -> bool:
    return isinstance(code, str | int) and code in _ERROR_STATUSES


def _time(nanoseconds: Any) -> int | None:
    """Return a time in milliseconds; OTLP writes nanoseconds as text."""
    number = _read_integer(nanoseconds, 0)
    return int(number // _NS_PER_MS) if is_number(number) and 0 < number < 2**63 else None


# The subject of a span.

_PREFIXES = (
    "gen_ai.",
    "llm.",
    "openinference.",
    "traceloop.",
    "gcp.vertex.agent.",
    "langfuse.",
    "ai.operationId",
    "claude_code.",
    "codex.",
)
_SCOPES = ("com.anthropic.claude_code", "codex_")
_SESSION_NAMES = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "langfuse.trace.session_id",
    "conversation.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.session_id",
)


def is_of_agent(span: TelemetrySpan) -> bool:
    """True if the span has an attribute, or the log record a name, of the conventions for agents and models."""
    if (span.scope or "").startswith(_SCOPES):
        return True
    return span.name.startswith(_PREFIXES) or any(name.startswith(_PREFIXES) for name in span.attributes)


def conversation_of(span: TelemetrySpan) -> str | None:
    """Return the id of the conversation that the span names, if any."""
    named = (span.attributes.get(name) for name in _SESSION_NAMES)
    return next((id for id in named if isinstance(id, str) and id), None)
