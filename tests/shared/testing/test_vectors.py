"""The conformance vectors, read by every public function."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from ash_shared import (
    MessageContent,
    describe_message,
    parse_message,
    parse_message_content,
    parse_message_content_json,
)
from ash_shared.testing import Vector, check, exact, groups, vectors
from tests.marking import slow_after
from tests.shared.records.claude import text

BLOCKS: TypeAdapter[list[MessageContent]] = TypeAdapter(list[MessageContent])


PADDING = " " * 500
"""Trailing blanks do not change the JSON, and make a text long enough for the parser's fast path."""


def padded(vector: Vector) -> Vector:
    """Return the vector with trailing blanks, also in blocks that contain the whole text."""
    raw = vector.raw
    longer = [
        block | {key: raw + PADDING for key in ("raw", "text") if block.get(key) == raw}
        for block in vector.expected
    ]
    return vector._replace(raw=raw + PADDING, expected=longer)


def results(raw: str | bytes, source: str | None) -> dict[str, Any]:
    """Return the result of each public function that reads a text."""
    objects = parse_message_content(raw, source)
    message = parse_message(raw, source)
    description = describe_message(raw, source)
    return {
        "parse_message_content, model_dump": exact([block.model_dump(mode="json") for block in objects]),
        "parse_message_content, dump_json": exact(json.loads(BLOCKS.dump_json(objects))),
        "parse_message_content_json": exact(json.loads(parse_message_content_json(raw, source))),
        "parse_message": (
            message.kind,
            message.role,
            exact([block.model_dump(mode="json") for block in message.parsed]),
        ),
        "describe_message": (description.kind, description.role),
    }


def assert_reads_as_expected(vector: Vector) -> None:
    blocks = exact(vector.expected)
    expected = {
        "parse_message_content, model_dump": blocks,
        "parse_message_content, dump_json": blocks,
        "parse_message_content_json": blocks,
        "parse_message": (vector.kind, vector.role, blocks),
        "describe_message": (vector.kind, vector.role),
    }
    for raw in (vector.raw, vector.raw.encode()):
        assert expected == results(raw, vector.source), (vector.group, vector.name, type(raw))


@pytest.mark.parametrize("group", groups())
def test_vectors(group: str) -> None:
    for vector in vectors(group):
        assert_reads_as_expected(vector)
        assert_reads_as_expected(padded(vector))


def test_names_are_unique() -> None:
    names = [(vector.group, vector.name) for vector in vectors()]

    assert len(names) == len(set(names))


def test_check_reports_failures() -> None:
    def reads_all_as_text(raw: str, source: str | None) -> Any:
        return [{"type": "text", "text": raw}]

    def raises(raw: str, source: str | None) -> Any:
        raise LookupError(raw)

    def encoded(raw: str, source: str | None) -> Any:
        return json.loads(parse_message_content_json(raw, source))

    first = next(vectors("edges"))
    failed = [failure.vector for failure in check(reads_all_as_text, "edges")]

    assert check(encoded, "edges", "claude") == []
    assert first not in failed
    assert failed
    assert [repr(failure.got) for failure in check(raises, "edges")][:1] == [repr(LookupError(first.raw))]
    assert set(groups()) >= {"claude", "edges"}


def message(content: str) -> str:
    return f'{{"type":"user","message":{{"role":"user","content":{content}}}}}'


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

LONG_TEXTS = {
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


@pytest.mark.parametrize("encode", slow_after(1, [str, str.encode]))
@pytest.mark.parametrize("name", LONG_TEXTS)
def test_long_texts(name: str, encode: Callable[[str], str | bytes]) -> None:
    raw, expected = LONG_TEXTS[name]

    same_objects = expected == [b.model_dump(mode="json") for b in parse_message_content(encode(raw))]
    same_bytes = expected == json.loads(parse_message_content_json(encode(raw)))

    assert (same_objects, same_bytes) == (True, True)  # without a diff of megabytes
