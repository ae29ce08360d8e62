"""Adapters store the same texts as `json` writes, except for the spelling of numbers."""

import json
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ash_stores.texts import read_text, to_text

_TEXTS = st.text(st.characters(exclude_categories=()), max_size=10)  # NUL and lone surrogates, too
_KEYS = _TEXTS | st.integers() | st.floats() | st.booleans() | st.none()
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.lists(inner) | st.dictionaries(_KEYS, inner),
    max_leaves=20,
)


class _Color(StrEnum):
    RED = "red"


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@given(_VALUES)
def test_texts_read_back_as_those_of_json(value: Any) -> None:
    expected = json.dumps(json.loads(json.dumps(value)))
    text = to_text(value)
    text.encode()
    assert json.dumps(json.loads(text)) == expected
    assert json.dumps(read_text(text)) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [None, True, 1.0, 1.5]}, '{"b":1,"a":[null,true,1.0,1.5]}'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ('\0\x1f\x7f"\\/\u2028\u00e9', '"\\u0000\\u001f\x7f\\"\\\\/\u2028\u00e9"'),
        ("\ud83d", r'"\ud83d"'),
        ([float("nan"), float("inf")], "[NaN,Infinity]"),
        (2**70, "1180591620717411303424"),
        ({1: 2, "1": 3, None: 4, False: 5, 1.5: 6}, '{"1":2,"1":3,"null":4,"false":5,"1.5":6}'),
        ((1, (2,)), "[1,[2]]"),
        ([_Color.RED], '["red"]'),
        (_nested(200), "[" * 200 + "1" + "]" * 200),
    ],
    ids=repr,
)
def test_texts(value: Any, text: str) -> None:
    assert to_text(value) == text


@pytest.mark.parametrize(
    "value",
    [b"text", {1, 2}, datetime(2026, 1, 1, tzinfo=UTC), UUID(int=1), Decimal(1), {(1, 2): 3}, object()],
)
def test_refuses_what_json_does_not_have(value: Any) -> None:
    with pytest.raises(TypeError):
        to_text({"value": value} if not isinstance(value, dict) else value)
