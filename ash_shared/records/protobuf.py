"""Read protobuf messages without their definitions: the values by field number.

The input comes from files of other programs, so reading never raises: it ends at the first byte that is not valid.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

Value: TypeAlias = int | bytes
Fields: TypeAlias = Mapping[int, list[Value]]

MAX_VALUES = 10_000
"""Values read from one message; the rest is ignored."""

_MAX_VARINT_BYTES = 10
_VARINT, _BYTES = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}
"""Sizes in bytes of the wire types with a fixed size."""


def decode_fields(data: bytes) -> Fields:
    """Return the values of a message by field number: integers of varints, and the bytes of all others."""
    fields: dict[int, list[Value]] = {}
    position = 0
    for _ in range(MAX_VALUES):
        tag, position = _varint(data, position)
        value, position = _value(data, position, tag & 7)
        if value is None:
            break
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _value(data: bytes, position: int, wire_type: int) -> tuple[Value | None, int]:
    """Return the value at a position, or None, and the position after it."""
    if wire_type == _VARINT:
        value, end = _varint(data, position)
        return (value, end) if end <= len(data) else (None, end)
    size = _FIXED_SIZES.get(wire_type)
    if wire_type == _BYTES:
        size, position = _varint(data, position)
    if size is None or position + size > len(data):
        return None, len(data)
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it; beyond the end if it is not valid."""
    value = 0
    for number, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value, position + number + 1
    return 0, len(data) + 1


def message_at(fields: Fields, number: int) -> Fields:
    """Return the last nested message of a field; empty if there is none."""
    return decode_fields(bytes_at(fields, number) or b"")


def integer_at(fields: Fields, number: int) -> int | None:
    """Return the last integer of a field; None if it has no value, which the writer leaves out for zero."""
    return next((value for value in reversed(fields.get(number, [])) if isinstance(value, int)), None)


def bytes_at(fields: Fields, number: int) -> bytes | None:
    return next((value for value in reversed(fields.get(number, [])) if isinstance(value, bytes)), None)


def text_at(fields: Fields, number: int) -> str | None:
    """Return the last text of a field; None if it is empty or not UTF-8."""
    try:
        return (bytes_at(fields, number) or b"").decode() or None
    except UnicodeDecodeError:
        return None


def integers_at(fields: Fields, number: int) -> Iterator[int]:
    """Yield the integers of a repeated field, packed or not."""
    for value in fields.get(number, []):
        if isinstance(value, int):
            yield value
        else:
            yield from _packed(value)


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        if position <= len(data):
            yield value
