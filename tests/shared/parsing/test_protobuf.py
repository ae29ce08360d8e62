"""Protobuf messages without their definitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ash_shared.providers.antigravity.database import read_generation
from ash_shared.records.protobuf import MAX_VALUES, decode_fields, integers_at
from tests.shared.records.antigravity import field, generation

NESTED = field(1, field(2, b"x"))


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"", {}),
        (field(1, 0) + field(1, 300) + field(21, b"tide"), {1: [0, 300], 21: [b"tide"]}),
        (NESTED, {1: [field(2, b"x")]}),
        (b"\x09" + b"\1" * 8 + b"\x0d" + b"\2" * 4, {1: [b"\1" * 8, b"\2" * 4]}),
        (field(1, 2**64 - 1), {1: [2**64 - 1]}),
        (field(1, 5) + b"\x12\x05ab", {1: [5]}),
        (field(1, 5) + b"\x12" + b"\xff" * 20, {1: [5]}),
        (field(1, 5) + b"\x0b", {1: [5]}),
        (field(1, 5) + b"\x09\1\1", {1: [5]}),
        (field(1, 5) + b"\x80", {1: [5]}),
        (b"\xff" * 40, {}),
    ],
    ids=[
        *("empty", "repeated and long", "nested", "fixed sizes", "largest integer"),
        *("cut text", "endless length", "a group", "cut number", "cut tag", "endless tag"),
    ],
)
def test_reads_fields_up_to_the_first_invalid_byte(data: bytes, fields: dict[int, list[int | bytes]]) -> None:
    assert decode_fields(data) == fields


def test_reads_a_limited_number_of_values() -> None:
    assert len(decode_fields(field(1, 1) * (MAX_VALUES + 5))[1]) == MAX_VALUES


def test_repeated_integers_may_be_packed() -> None:
    fields = decode_fields(field(2, b"\2\3\xac\2") + field(2, 7) + field(2, b"\x80"))

    assert list(integers_at(fields, 2)) == [2, 3, 300, 7]


ROW = generation(b"\5", input=70, output=9, cached=300, thinking=4)


@given(st.binary(max_size=200) | st.integers(0, len(ROW)).flatmap(lambda end: st.just(ROW[:end])))
def test_any_bytes_are_a_generation(data: bytes) -> None:
    read = read_generation(data)

    assert read.usage is None or read.usage["total_tokens"] >= 0


@given(st.integers(0, len(ROW) - 1), st.integers(0, 255))
def test_a_damaged_row_is_a_generation(place: int, byte: int) -> None:
    data = bytearray(ROW)
    data[place] = byte

    read = read_generation(bytes(data))

    assert read.usage is None or read.usage["total_tokens"] >= 0
