"""Read the bodies of OTLP/HTTP requests: protobuf or JSON, compressed or not, within limits."""

import asyncio
import base64
import binascii
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict
from google.protobuf.json_format import ParseError as InvalidFields
from google.protobuf.message import DecodeError, Message
from litestar import Request
from litestar.exceptions import InternalServerException

from ash_server.api.http.bodies import JSON
from ash_server.api.http.headers import get_header
from ash_server.api.telemetry.encoding import LOGS, SPANS
from ash_server.errors import (
    BatchTooLarge,
    BodyTimeout,
    BodyTooLarge,
    InvalidBody,
    InvalidJson,
    TooDeep,
    UnsupportedMediaType,
)
from ash_shared.records.json_text import MAX_VALUES, has_too_many_values

PROTOBUF = "application/x-protobuf"

MAX_INFLATED_BYTES = 64 * 1024 * 1024
MAX_RATIO = 200
"""Inflated bytes per byte of the body, from MAX_UNCOUNTED_BYTES on."""
MAX_UNCOUNTED_BYTES = 1024 * 1024
"""A body that cannot have too many fields, or inflate to too much."""
_MAX_INLINE_BYTES = 64 * 1024
_WINDOW_BITS = {"gzip": 31, "deflate": 15}

M = TypeVar("M", bound=Message)


async def read_export(request: Request[Any, Any, Any], empty: M) -> tuple[M, str]:
    """Return the message of a request, and its media type. `empty` is filled."""
    media_type = (get_header(request.headers, "content-type") or "").partition(";")[0].strip().lower()
    if media_type not in (PROTOBUF, JSON):
        raise UnsupportedMediaType(f"Send {PROTOBUF} or {JSON}.")
    encoding = (get_header(request.headers, "content-encoding") or "identity").strip().lower()
    if encoding not in ("identity", *_WINDOW_BITS):
        raise UnsupportedMediaType("Send the body without Content-Encoding, or with gzip.")
    try:
        body = await request.body()
    except InternalServerException as error:  # the client disconnected, or is too slow
        raise BodyTimeout("The client disconnected.") from error
    if len(body) > _MAX_INLINE_BYTES or encoding != "identity":
        return await asyncio.to_thread(_decode, body, encoding, media_type, empty), media_type
    return _decode(body, encoding, media_type, empty), media_type


def _decode(body: bytes, encoding: str, media_type: str, empty: M) -> M:
    if encoding != "identity":
        body = _inflate(body, _WINDOW_BITS[encoding])
    return _from_json(body, empty) if media_type == JSON else _from_protobuf(body, empty)


def _inflate(body: bytes, window_bits: int) -> bytes:
    """Raises BodyTooLarge without inflating more than the limit."""
    most = min(MAX_INFLATED_BYTES, max(MAX_UNCOUNTED_BYTES, MAX_RATIO * len(body)))
    stream = zlib.decompressobj(window_bits)
    try:
        inflated = stream.decompress(body, most + 1)
    except zlib.error as error:
        raise InvalidBody("The body is not compressed as its Content-Encoding says.") from error
    if len(inflated) > most:
        raise BodyTooLarge(
            f"An inflated body has at most {MAX_INFLATED_BYTES} bytes, and {MAX_RATIO} per byte that was sent."
        )
    if not stream.eof:
        raise InvalidBody("The compressed body is cut off.")
    if stream.unused_data:
        raise InvalidBody("The body has bytes after its compressed part.")
    return inflated


def _from_protobuf(body: bytes, empty: M) -> M:
    if len(body) > MAX_UNCOUNTED_BYTES and _has_too_many_fields(body, empty.DESCRIPTOR):
        raise BatchTooLarge(f"A request contains at most {MAX_VALUES} values.")
    try:
        empty.ParseFromString(body)
    except DecodeError as error:
        raise InvalidBody(f"The body is not a valid {empty.DESCRIPTOR.name}.") from error
    return empty


def _from_json(body: bytes, empty: M) -> M:
    if has_too_many_values(body):
        raise BatchTooLarge(f"A request contains at most {MAX_VALUES} values.")
    try:
        ParseDict(with_binary_ids(msgspec.json.decode(body)), empty, ignore_unknown_fields=True)
    except RecursionError as error:
        raise TooDeep from error
    except msgspec.DecodeError as error:
        raise InvalidJson("The body is not valid JSON.") from error
    except (InvalidFields, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidBody(f"The body is not a valid {empty.DESCRIPTOR.name}.") from error
    return empty


_ID_NAMES = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")


def with_binary_ids(export: Any) -> Any:
    """Return the export with ids in base64, as protobuf's JSON has them; OTLP writes them in hexadecimal."""
    if not isinstance(export, dict):
        raise TypeError
    for item in _items(export):
        for name in _ID_NAMES:
            if isinstance(item.get(name), str):
                item[name] = _to_base64(item[name])
    return export


def _to_base64(id: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(id)).decode()
    except (ValueError, binascii.Error):
        return ""


def _items(export: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans, their links and the log records."""
    for signal in (SPANS, LOGS):
        for resource in _objects(export, f"resource{signal.kind}"):
            for scope in _objects(resource, f"scope{signal.kind}"):
                for item in _objects(scope, signal.json_items):
                    yield item
                    yield from _objects(item, "links")


def _objects(parent: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    children = parent.get(name)
    return (child for child in (children if isinstance(children, list) else ()) if isinstance(child, dict))


# Counting fields of protobuf.


def _has_too_many_fields(body: bytes, root: Descriptor) -> bool:
    """True if a message has more than MAX_VALUES fields; decoded, each takes many times its bytes."""
    count, pending = 0, [(0, len(body), root)]
    while pending:
        position, end, kind = pending.pop()
        while position < end:
            tag, position = _varint(body, position)
            size, position = _size(body, position, tag & 7)
            count += 1
            if count > MAX_VALUES:
                return True
            field = kind.fields_by_number.get(tag >> 3)
            if size and field is not None and field.type == FieldDescriptor.TYPE_MESSAGE:
                pending.append((position, min(position + size, end), field.message_type))
            position += size
    return False


_VARINT_TYPE, _BYTES_TYPE = 0, 2
_FIXED_SIZES = {1: 8, 3: 0, 4: 0, 5: 4}
"""The fields of a group follow its start, and are counted, too."""


def _size(body: bytes, position: int, wire_type: int) -> tuple[int, int]:
    """Return the size of a value, and its position."""
    if wire_type == _VARINT_TYPE:
        return 0, _varint(body, position)[1]
    if wire_type == _BYTES_TYPE:
        return _varint(body, position)
    return _FIXED_SIZES.get(wire_type, len(body)), position


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(body):
            break
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position
