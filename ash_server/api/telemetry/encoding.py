"""Write spans and log records as OTLP/JSON: one text for each, with its resource and scope.

The same span gives the same text in both encodings: fields have a fixed order, and unset fields are absent.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
from google.protobuf.message import Message

from ash_server.errors import TooDeep

MAX_VALUE_DEPTH = 30
"""Levels of lists and objects in the value of an attribute. Each takes up to five levels of JSON."""

_encode = msgspec.json.Encoder().encode

OtlpFields = dict[str, Any]


class Signal(NamedTuple):
    """Spans or log records, by their names in requests."""

    kind: str
    """In the names of their groups, such as `resourceSpans`."""
    items: str
    """In protobuf."""
    json_items: str


SPANS = Signal("Spans", "spans", "spans")
LOGS = Signal("Logs", "log_records", "logRecords")


class OtlpItem(NamedTuple):
    """A span or a log record of a request."""

    message: Any
    context: Callable[[OtlpFields], OtlpFields]
    """Adds its resource and scope."""
    context_bytes: int
    """Size of its resource and scope in JSON."""


def items_of(export: Any, signal: Signal) -> Iterator[OtlpItem]:
    kind = signal.kind.lower()
    for by_resource in getattr(export, f"resource_{kind}"):
        resource = {"resource": _resource(by_resource.resource), "schemaUrl": by_resource.schema_url}
        resource_bytes = len(_encode(resource))
        for by_scope in getattr(by_resource, f"scope_{kind}"):
            scope = {"scope": _scope(by_scope.scope), "schemaUrl": by_scope.schema_url}
            context = partial(_with_context, signal, resource, scope)
            context_bytes = resource_bytes + len(_encode(scope))
            for message in getattr(by_scope, signal.items):
                yield OtlpItem(message, context, context_bytes)


def has_more_items(export: Any, signal: Signal, most: int) -> bool:
    """True if an export has more items than `most`, or more resources or scopes, which may be empty."""
    kind = signal.kind.lower()
    by_resource = getattr(export, f"resource_{kind}")
    if len(by_resource) > most:
        return True
    scopes = items = 0
    for each in by_resource:
        by_scope = getattr(each, f"scope_{kind}")
        scopes += len(by_scope)
        if scopes > most:
            return True
        items += sum(len(getattr(scoped, signal.items)) for scoped in by_scope)
    return items > most


def _with_context(signal: Signal, resource: OtlpFields, scope: OtlpFields, fields: OtlpFields) -> OtlpFields:
    by_scope = {"scope": scope["scope"], signal.json_items: [fields], "schemaUrl": scope["schemaUrl"]}
    by_resource = {
        "resource": resource["resource"],
        f"scope{signal.kind}": [_present(by_scope)],
        "schemaUrl": resource["schemaUrl"],
    }
    return {f"resource{signal.kind}": [_present(by_resource)]}


def to_text(record: OtlpFields) -> str:
    return _encode(record).decode()


def span_fields(span: Any) -> OtlpFields:
    """Return the fields of a span in OTLP/JSON. Raises TooDeep."""
    return _present(
        {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "traceState": span.trace_state,
            "parentSpanId": span.parent_span_id.hex(),
            "flags": span.flags,
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": _integer(span.start_time_unix_nano),
            "endTimeUnixNano": _integer(span.end_time_unix_nano),
            "attributes": _attributes(span.attributes),
            "droppedAttributesCount": span.dropped_attributes_count,
            "events": [_event(each) for each in span.events],
            "droppedEventsCount": span.dropped_events_count,
            "links": [_link(each) for each in span.links],
            "droppedLinksCount": span.dropped_links_count,
            "status": _present({"message": span.status.message, "code": span.status.code}),
        }
    )


def log_fields(log: Any) -> OtlpFields:
    """Return the fields of a log record in OTLP/JSON. Raises TooDeep."""
    return _present(
        {
            "timeUnixNano": _integer(log.time_unix_nano),
            "observedTimeUnixNano": _integer(log.observed_time_unix_nano),
            "severityNumber": log.severity_number,
            "severityText": log.severity_text,
            "body": _value(log.body) if log.HasField("body") else None,
            "attributes": _attributes(log.attributes),
            "droppedAttributesCount": log.dropped_attributes_count,
            "flags": log.flags,
            "traceId": _optional_id(log.trace_id),
            "spanId": _optional_id(log.span_id),
            "eventName": log.event_name,
        }
    )


def _optional_id(id: bytes) -> str:
    """Return an id in hexadecimal. Some exporters write zeros for no id."""
    return id.hex() if any(id) else ""


def _event(event: Any) -> OtlpFields:
    return _present(
        {
            "timeUnixNano": _integer(event.time_unix_nano),
            "name": event.name,
            "attributes": _attributes(event.attributes),
            "droppedAttributesCount": event.dropped_attributes_count,
        }
    )


def _link(link: Any) -> OtlpFields:
    return _present(
        {
            "traceId": link.trace_id.hex(),
            "spanId": link.span_id.hex(),
            "traceState": link.trace_state,
            "attributes": _attributes(link.attributes),
            "droppedAttributesCount": link.dropped_attributes_count,
            "flags": link.flags,
        }
    )


def _resource(resource: Any) -> OtlpFields:
    return _present(
        {
            "attributes": _attributes(resource.attributes),
            "droppedAttributesCount": resource.dropped_attributes_count,
        }
    )


def _scope(scope: Any) -> OtlpFields:
    return _present(
        {
            "name": scope.name,
            "version": scope.version,
            "attributes": _attributes(scope.attributes),
            "droppedAttributesCount": scope.dropped_attributes_count,
        }
    )


def _present(fields: OtlpFields) -> OtlpFields:
    return {name: value for name, value in fields.items() if value}


def _integer(value: int) -> str:
    """Return a 64-bit integer, which OTLP/JSON writes as text; empty for 0."""
    return str(value) if value else ""


def _attributes(attributes: Any, level: int = 0) -> list[OtlpFields]:
    return [{"key": each.key, "value": _value(each.value, level)} for each in attributes]


def _value(value: Any, level: int = 0) -> OtlpFields:
    """Return an `AnyValue`."""
    if level > MAX_VALUE_DEPTH:
        raise TooDeep(f"A value of an attribute has at most {MAX_VALUE_DEPTH} levels.")
    kind = value.WhichOneof("value")
    if kind is None:
        return {}
    name, write = _VALUES[kind]
    return {name: write(getattr(value, kind), level + 1)}


def _double(value: float, level: int) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(value: bytes, level: int) -> Any:
    return value  # msgspec writes bytes in base64


def _list(value: Any, level: int) -> OtlpFields:
    return {"values": [_value(each, level) for each in value.values]}


def _object(value: Any, level: int) -> OtlpFields:
    return {"values": _attributes(value.values, level)}


_VALUES: dict[str, tuple[str, Callable[[Any, int], Any]]] = {
    "string_value": ("stringValue", lambda value, level: value),
    "bool_value": ("boolValue", lambda value, level: value),
    "int_value": ("intValue", lambda value, level: str(value)),
    "double_value": ("doubleValue", _double),
    "array_value": ("arrayValue", _list),
    "kvlist_value": ("kvlistValue", _object),
    "bytes_value": ("bytesValue", _base64),
}


def partial_success(response: Message, signal: Signal, rejected: int, message: str) -> Message:
    """Return the response of an export; without rejected items it is empty."""
    if rejected:
        setattr(response.partial_success, f"rejected_{signal.items}", rejected)
        response.partial_success.error_message = message
    return response
