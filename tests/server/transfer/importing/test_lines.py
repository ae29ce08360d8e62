"""Splitting a file into lines, or reading it as one document, without losing a byte."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ash_server.transfer.importing import lines
from ash_server.transfer.importing.lines import FileLine, LineStart, batched, read_file, read_texts

DOCUMENT = b'{\n  "a": [1,\n 2]\n}'
BOM = b"\xef\xbb\xbf"

WHOLE = {
    "an object": DOCUMENT,
    "a list": b'[\n{"a":1},\n{"a":2}\n]',
    "after blank lines": b"\n \n" + DOCUMENT,
    "before blank lines": DOCUMENT + b"\n\n \n",
    "a byte order mark": BOM + DOCUMENT,
    "CRLF": DOCUMENT.replace(b"\n", b"\r\n"),
    "a lone surrogate": b'{\n"a":"\\ud800"}',
    "a number too long for decoders": b'{\n"a":' + b"1" * 5000 + b"}",
    "not UTF-8": b'{\n"a":"\xff"}',
}

LINES = {
    "an empty file": (b"", []),
    "one newline": (b"\n", [b""]),
    "no newline": (b"a", [b"a"]),
    "blank lines": (b"\n\na\n \n\n", [b"", b"", b"a", b" ", b""]),
    "CRLF": (b"a\r\nb\r\n", [b"a\r", b"b\r"]),
    "other line separators": (
        b"a\rb\x0bc\x0cd\x1ee\xc2\x85f\xe2\x80\xa8g",
        [b"a\rb\x0bc\x0cd\x1ee\xc2\x85f\xe2\x80\xa8g"],
    ),
    "a document on one line": (b'{"a":1}\n', [b'{"a":1}']),
    "a first line that is a document": (b"{}\n{\n}", [b"{}", b"{", b"}"]),
    "two documents": (b"{\n}\n{\n}\n", [b"{", b"}", b"{", b"}"]),
    "an incomplete document": (b'{\n"a":\n', [b"{", b'"a":']),
    "a constant that is not JSON": (b'{\n"a":NaN}', [b"{", b'"a":NaN}']),
    "nested too deep to parse": (b"[\n" * 99_999, [b"["] * 99_999),
    "text that opens like a document": (b"[INFO] a\n[INFO] b\n", [b"[INFO] a", b"[INFO] b"]),
    "a NUL": (b"a\0b\n", [b"a\0b"]),
}


def texts_of(data: bytes) -> list[bytes | None]:
    return [line.data for line in read_texts(BytesIO(data))]


@pytest.mark.parametrize("name", WHOLE)
def test_a_json_document_is_one_line(name: str) -> None:
    data = WHOLE[name]
    terminated = data.endswith(b"\n")

    assert list(read_texts(BytesIO(data))) == [
        FileLine(LineStart(1, 0), data.removesuffix(b"\n"), len(data), terminated)
    ]


@pytest.mark.parametrize("name", LINES)
def test_other_files_are_split_into_lines(name: str) -> None:
    data, expected = LINES[name]

    assert texts_of(data) == expected


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"{", b"}", b'"a":1', b" ", b"\0", b"\xff", BOM])).map(b"".join)
)
def test_no_byte_is_lost(data: bytes) -> None:
    read = list(read_texts(BytesIO(data)))

    assert b"".join((line.data or b"") + b"\n" * line.terminated for line in read) == data
    assert [line.place.offset for line in read] + [len(data)] == [0, *(line.end.offset for line in read)]
    assert [line.place.number for line in read] == list(range(1, len(read) + 1))


def test_reading_can_start_at_any_line(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"one\n\n\xe2\x82\xac\r\nlast")
    whole = list(read_file(path))

    assert [list(read_file(path, line.place)) for line in whole] == [whole[n:] for n in range(len(whole))]


def test_skips_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4)
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 3)

    assert list(read_texts(BytesIO(b"four\n12345\nfour\n123456789"))) == [
        FileLine(LineStart(1, 0), b"four", 5, True),
        FileLine(LineStart(2, 5), None, 6, True),
        FileLine(LineStart(3, 11), b"four", 5, True),
        FileLine(LineStart(4, 16), None, 9, False),
    ]


@pytest.mark.parametrize("size", [9, 10, 11, 12, 13])
def test_a_document_that_is_too_large_is_split_into_lines(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(lines, "_MAX_DOCUMENT_BYTES", size)
    data = b'{\n"a":"bcd",\n"e":1}\n'

    assert texts_of(data) == data.removesuffix(b"\n").split(b"\n")


def test_a_prefix_that_is_json_is_not_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MAX_DOCUMENT_BYTES", 4)

    assert texts_of(b"{\n}\nmore\n") == [b"{", b"}", b"more"]


def test_batches_are_limited_in_lines_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MAX_BATCH_LINES", 3)
    monkeypatch.setattr(lines, "_MAX_BATCH_BYTES", 10)
    read = read_texts(BytesIO(b"1\n2\n3\n4\n12345678901234\n5\n6\n1234567\n"))

    assert [[line.data for line in batch] for batch in batched(read)] == [
        [b"1", b"2", b"3"],
        [b"4"],
        [b"12345678901234"],
        [b"5", b"6"],
        [b"1234567"],
    ]
