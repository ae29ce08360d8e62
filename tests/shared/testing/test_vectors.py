"""The conformance vectors, held against every way to read a text."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from ash_shared import (
    MessageContent,
    describe_message,
    parse_message_content,
    parse_message_content_json,
    read_message,
)
from ash_shared.testing import Vector, check, exact, groups, vectors

BLOCKS: TypeAdapter[list[MessageContent]] = TypeAdapter(list[MessageContent])


CASES = [pytest.param(vector, id=f"{vector.group}-{vector.name}") for vector in vectors()]


PADDING = " " * 500
"""Blanks after a text change nothing in its JSON, and make it long enough for the parser's short way."""


def padded(vector: Vector) -> Vector:
    """The same vector with blanks after its text, which a block shows that holds the whole text."""
    raw = vector.raw
    longer = [
        block | {key: raw + PADDING for key in ("raw", "text") if block.get(key) == raw}
        for block in vector.expected
    ]
    return vector._replace(raw=raw + PADDING, expected=longer)


@pytest.fixture(params=["str", "bytes"])
def as_given(request: pytest.FixtureRequest) -> Any:
    return str if request.param == "str" else str.encode


@pytest.fixture(params=["short", "padded"])
def as_long(request: pytest.FixtureRequest) -> Any:
    return (lambda vector: vector) if request.param == "short" else padded


@pytest.mark.parametrize("written", CASES)
def test_objects(written: Vector, as_given: Any, as_long: Any) -> None:
    vector = as_long(written)

    blocks = parse_message_content(as_given(vector.raw), vector.source)

    assert exact(vector.expected) == exact([block.model_dump(mode="json") for block in blocks])
    assert exact(vector.expected) == exact(json.loads(BLOCKS.dump_json(blocks)))


@pytest.mark.parametrize("written", CASES)
def test_bytes(written: Vector, as_given: Any, as_long: Any) -> None:
    vector = as_long(written)

    encoded = parse_message_content_json(as_given(vector.raw), vector.source)

    assert exact(vector.expected) == exact(json.loads(encoded))


@pytest.mark.parametrize("written", CASES)
def test_reading(written: Vector, as_given: Any, as_long: Any) -> None:
    vector = as_long(written)

    reading = read_message(as_given(vector.raw), vector.source)
    description = describe_message(as_given(vector.raw), vector.source)

    assert (vector.kind, vector.role) == (reading.kind, reading.role) == (description.kind, description.role)
    assert exact(vector.expected) == exact([block.model_dump(mode="json") for block in reading.parsed])


def test_names_are_unique() -> None:
    names = [(vector.group, vector.name) for vector in vectors()]

    assert len(names) == len(set(names))


def test_a_parser_is_told_what_it_fails() -> None:
    def reads_all_as_text(raw: str, source: str | None) -> Any:
        return [{"type": "text", "text": raw}]

    def refuses(raw: str, source: str | None) -> Any:
        raise LookupError(raw)

    def encoded(raw: str, source: str | None) -> Any:
        return json.loads(parse_message_content_json(raw, source))

    first = next(vectors("edges"))
    failed = [failure.vector for failure in check(reads_all_as_text, "edges")]

    assert check(encoded, "edges", "claude") == []
    assert first not in failed
    assert failed
    assert [repr(failure.got) for failure in check(refuses, "edges")][:1] == [repr(LookupError(first.raw))]
    assert set(groups()) >= {"claude", "edges"}


def message(content: str) -> str:
    return f'{{"type":"user","message":{{"role":"user","content":{content}}}}}'


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def limit(raw: str) -> dict[str, Any]:
    return {"type": "raw", "reason": "limit", "raw": raw}


OPEN = "[" * 100_000
CLOSED = OPEN + "]" * 100_000
LONG = "tide " * 200_000
PICTURE = json.dumps({"type": "image", "source": {"type": "base64", "data": "QUFB" * 1_500_000}})
MANY = f"[{','.join(['5'] * 10_000)}]"
TOO_MANY = f"[{','.join(['5'] * 10_001)}]"
RESULT = '[{"type":"tool_result","tool_use_id":"t","content":%s}]'
EMPTY_LISTS = f"[{','.join(['[]'] * 100_000)}]"
FIVE = {"type": "raw", "reason": "unknown_type", "raw": 5}

TOO_LONG_TO_WRITE_OUT = {
    "nesting_open": (OPEN, [limit(OPEN)]),
    "nesting_closed": (CLOSED, [limit(CLOSED)]),
    "nesting_in_message": (message(CLOSED), [limit(message(CLOSED))]),
    "one_long_string": (message(json.dumps(LONG)), [text(LONG)]),
    "one_long_picture": (message(f"[{PICTURE}]"), [json.loads(PICTURE)]),
    "plain_megabyte": (LONG, [text(LONG)]),
    "blocks_10000": (MANY, [FIVE] * 10_000),
    "blocks_10001": (TOO_MANY, [limit(TOO_MANY)]),
    "blocks_10000_in_message": (message(MANY), [FIVE] * 10_000),
    "blocks_10001_in_message": (message(TOO_MANY), [limit(message(TOO_MANY))]),
    "blocks_10001_in_tool_result": (message(RESULT % TOO_MANY), [limit(message(RESULT % TOO_MANY))]),
    "empty_lists": (EMPTY_LISTS, [limit(EMPTY_LISTS)]),
}


@pytest.mark.parametrize("name", TOO_LONG_TO_WRITE_OUT)
def test_long(name: str, as_given: Any) -> None:
    raw, expected = TOO_LONG_TO_WRITE_OUT[name]

    same_objects = expected == [b.model_dump(mode="json") for b in parse_message_content(as_given(raw))]
    same_bytes = expected == json.loads(parse_message_content_json(as_given(raw)))

    assert (same_objects, same_bytes) == (True, True)  # a diff of megabytes helps nobody
