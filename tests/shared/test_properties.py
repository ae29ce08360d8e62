"""Reading any text does not raise, gives an encodable result, agrees in all functions and loses nothing."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from ash_shared import (
    MessageContent,
    describe_message,
    parse_jsonl,
    parse_message,
    parse_message_content,
    parse_message_content_json,
    split_lines,
)
from ash_shared.providers.claude import content, wire_types
from tests.shared.leaves import content_of, leaves

BLOCKS = TypeAdapter(list[MessageContent])
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
KEYS = (
    st.sampled_from(
        [
            "type",
            "text",
            "id",
            "name",
            "input",
            "content",
            "tool_use_id",
            "is_error",
            "source",
            "thinking",
            "extra",
            "signature",
            "data",
            "raw",
            "reason",
            "rawType",
            "mimeType",
            "size",
            "citations",
            "title",
            "message",
            "role",
            "file_id",
            "structured",
            "exit_code",
            "server_name",
            "executor",
            "media_type",
            "url",
            "error_code",
            "stdout",
            "return_code",
            "usage",
            "isCompactSummary",
            "toolUseResult",
            "messages",
            "system",
            "result",
            "errors",
            "ev",
            "subtype",
            "uuid",
            "model_config",
            "model_dump",
            "source_type",
        ]
    )
    | ANY_TEXT
)
NAMES = st.sampled_from(
    sorted(
        {
            *wire_types.TYPES,
            *wire_types.SYSTEM_TYPES,
            *content._RESULT_CONTENT,
            "base64",
            "unheard_of",
            "web_search_tool_result_error",
        }
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**38, 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT
    | NAMES
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
BLOCKS_LIKE = st.fixed_dictionaries(
    {"type": NAMES | JSON},
    optional={
        "text": st.text(max_size=9) | JSON,
        "thinking": st.text(max_size=9) | JSON,
        "name": st.text(max_size=9) | JSON,
        "id": st.text(max_size=9) | JSON,
        "input": JSON,
        "content": st.text(max_size=9) | JSON,
        "tool_use_id": st.text(max_size=9) | JSON,
        "source": st.fixed_dictionaries({"type": NAMES}) | JSON,
        "is_error": st.booleans() | JSON,
        "cache_control": JSON,
    },
)
PADDING = st.sampled_from(["", "x" * 500])
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "message", "result", "system"]) | NAMES, "pad": PADDING},
    optional={
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]) | JSON,
             "content": st.lists(BLOCKS_LIKE, max_size=3) | st.text(max_size=9) | JSON}
        ) | JSON,
        "content": st.lists(BLOCKS_LIKE | JSON, max_size=3) | JSON,
        "isCompactSummary": st.booleans(),
        "model": st.text(max_size=3) | JSON,
        "role": st.sampled_from(["user", "assistant"]) | JSON, "toolUseResult": JSON, "subtype": NAMES | JSON,
        "result": JSON, "errors": JSON, "messages": st.lists(JSON, max_size=2),
    },
)  # fmt: skip


def assert_guarantees(text: str) -> None:
    objects = parse_message_content(text)
    dumped = json.loads(BLOCKS.dump_json(objects))
    encoded = parse_message_content_json(text)
    message = parse_message(text)
    assert json.loads(encoded.decode()) == dumped
    assert message.parsed == objects
    assert BLOCKS.validate_python(dumped) == objects
    assert message.model_dump_json()
    description = describe_message(text)
    assert (description.source, description.kind, description.role) == (
        message.source,
        message.kind,
        message.role,
    )
    assert description.block_types == tuple(sorted({block.type for block in objects}))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(RECORDS | JSON | st.lists(RECORDS, max_size=3), st.booleans())
def test_guarantees_hold_for_any_json(record: Any, ascii_only: bool) -> None:
    assert_guarantees(json.dumps(record, ensure_ascii=ascii_only))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(RECORDS | JSON)
def test_any_json_keeps_its_leaves(record: Any) -> None:
    blocks = json.loads(parse_message_content_json(json.dumps(record)))

    assert not leaves(content_of(_replace_lone_surrogates(record))) - leaves(blocks)


def _replace_lone_surrogates(record: Any) -> Any:
    """Return the value with U+FFFD for each lone surrogate."""
    text = (
        json.dumps(record, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )
    return json.loads(text)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(RECORDS, st.data())
def test_guarantees_hold_for_damaged_texts(record: Any, data: st.DataObject) -> None:
    text = json.dumps(record)
    cut = data.draw(st.integers(0, len(text)))
    assert_guarantees(text[:cut])
    assert_guarantees(text[:cut] + data.draw(ANY_TEXT) + text[cut:])


@settings(max_examples=200, deadline=None)
@given(ANY_TEXT | st.text(alphabet='[]{}",:0123456789eE+-.tfnNaI\\u d8'))
@example("")
@example("\ufeff")
def test_guarantees_hold_for_any_text(text: str) -> None:
    assert_guarantees(text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=40) | st.text().map(str.encode))
def test_guarantees_hold_for_any_bytes(raw: bytes) -> None:
    assert json.loads(parse_message_content_json(raw)) == json.loads(
        BLOCKS.dump_json(parse_message_content(raw))
    )
    for line in parse_jsonl(raw):
        assert line.message == parse_message(line.raw)


@settings(deadline=None)
@given(st.text())
def test_lines_join_to_the_same_text(text: str) -> None:
    assert "\n".join(split_lines(text)) == text


def _line(content: str) -> str:
    return f'{{"type":"assistant","pad":"{"x" * 400}","message":{{"role":"assistant","content":{content}}}}}'


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "text",
    [
        _nested(199), _nested(200), _nested(201), _nested(300), _nested(990), _nested(100_000), "[" * 100_000,
        _line(_nested(197)), _line(_nested(198)), _line(_nested(199)), _line(_nested(500)),
        _line(f'[{{"type":"tool_use","id":"1","name":"n","input":{_nested(190)}}}]'),
        _line(f'[{{"type":"tool_use","id":"1","name":"n","input":{_nested(500)}}}]'),
        _line(f'[{{"type":"tool_result","tool_use_id":"1","content":{_nested(180)}}}]'),
        _line("[" + ",".join(['"a"'] * 10_000) + "]"), _line("[" + ",".join(['"a"'] * 10_001) + "]"),
        _line('[{"type":"tool_result","content":[' + ",".join(['"a"'] * 10_001) + "]}]"),
        _line('[{"type":"tool_use","id":"1","name":"n","input":{"n":1e400}}]'),
        _line('[{"type":"tool_use","id":"1","name":"n","input":{"n":' + "9" * 5000 + "}}]"),
        _line('[{"type":"text","text":"a","citations":[{"n":1e400}]}]'),
        _line('[{"type":"text","text":"a","n":1e400}]'),
        _line('[{"type":"text","text":"a","n":' + _nested(500) + "}]"),
        _line('[{"type":"image","source":{"type":"url","url":"u","n":' + "9" * 5000 + "}}]"),
        _line('[{"type":"tool_result","content":[{"type":"text","text":"a"}]}]'),
        _line('[{"type":"raw","reason":"other","raw":1}, {"type":"raw","raw":1}]'),
        _line('[{"type":"text","text":"\\ud800"}]'), _line('[{"type":"text","text":"a","\\udc00":1,"\\ud800":2}]'),
        _line('[{"type":"text","text":"a","n":NaN}]'), _line('[{"type":"text","text":"\\u0000"}]'),
        _line('"\\ud83d\\ude00"'), _line("null"),
        _line('[{"type":"tool_use","name":"n","input":' + "[" * 12 + '"\\ud800"' + "]" * 12 + "}]"),
        _line("{}"), _line("[null, 5, [], {}]"),
        _line('[{"type":"text","type":"tool_use","text":"a","text":"b"}]'),
        "\ufeff" + _line('"after a mark"'), _line('"cut')[:-9], "[]," * 20_000, "1e400", "9" * 5000, "-0.0",
        '{"\\ud800":1,"\\udc00":2,"\ufffd":3}', '{"a":"\x00"}', '"\ud800"',
    ],
    ids=lambda text: text[:24] + "…" + text[-40:] if len(text) > 64 else text,
)  # fmt: skip
def test_guarantees_hold_for_hostile_texts(text: str) -> None:
    assert_guarantees(text)
