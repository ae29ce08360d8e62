"""Shapes of JSON values: names of fields and types, without the values."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from ash_server.redaction import redact

Shape = str | list["Shape"] | dict[str, "Shape"]
"""The name of a type, a literal in single quotes, a list of shapes, or the shapes of an object by field."""

ANY_KEY = "<key>"
"""Replaces keys that may be data, such as paths; its value lists the shapes of all values."""
OMITTED = "..."

_MAX_DEPTH = 12
_MAX_FIELDS = 60
"""An object with more has data as its keys."""
_MAX_SHAPES = 5
"""Shapes of a list, or of the values of a map."""
_MAX_WORDS = 8
_MAX_FIELD = 50
_MAX_LITERAL = 80

TYPE_FIELDS = frozenset(
    {
        "event",
        "event_type",
        "eventType",
        "kind",
        "method",
        "object",
        "operation",
        "part_kind",
        "record_type",
        "role",
        "subtype",
        "type",
    }
)
"""Fields with a literal that tells how to read the rest."""
_DATA_FIELDS = frozenset(
    {
        "answers",
        "args",
        "arguments",
        "attributes",
        "config",
        "env",
        "environment",
        "extra",
        "headers",
        "input",
        "json",
        "labels",
        "metadata",
        "output",
        "outputs",
        "parameters",
        "params",
        "parsed",
        "properties",
        "rawInput",
        "rawOutput",
        "schema",
        "settings",
        "structured",
        "structuredContent",
        "structured_content",
        "toolArgs",
        "toolInput",
        "toolUseResult",
        "tool_input",
        "tool_response",
        "tool_use_result",
        "variables",
    }
)
"""Fields with objects of data: a user, a tool or a model chose their keys."""

# Possessive, because a name can be divided into words in many ways.
_CAPITALIZED = "[A-Z]{1,5}+[a-z]{0,20}+"
_FIELD = re.compile(rf"[$_]?[a-z]{{1,20}}+(?:[_-][a-z]{{1,20}}+|[_-]?{_CAPITALIZED})*+\d{{0,2}}")
_SEGMENT = rf"(?:[A-Z]{{2,20}}+(?![a-z])|(?:[a-z]{{1,20}}+|{_CAPITALIZED})(?:{_CAPITALIZED})*+)\d{{0,3}}"
_LITERAL = re.compile(rf"[$_]?{_SEGMENT}(?:[./:_-](?:{_SEGMENT}|20\d{{6}}|\d{{1,3}}))*+")
_WORD_BREAK = re.compile(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")


def shape_of(value: Any, field: str = "", depth: int = 0) -> Shape:
    """Return the shape of a value; `field` is the name of the field that contains it."""
    if isinstance(value, dict):
        return _shape_of_object(value, field, depth)
    if isinstance(value, list):
        return OMITTED if depth >= _MAX_DEPTH else _shape_of_list(value, field, depth)
    if isinstance(value, str) and field in TYPE_FIELDS and is_literal(value):
        return f"'{value}'"
    return _TYPES.get(type(value), "number")


_TYPES = {str: "string", bool: "boolean", type(None): "null"}


def is_literal(text: str) -> bool:
    """Return True for a name such as `tool_use` or `item/completed`, and False for what may be an id or a secret."""
    return len(text) <= _MAX_LITERAL and _LITERAL.fullmatch(text) is not None and _consists_of_words(text)


def _shape_of_list(value: list[Any], field: str, depth: int) -> Shape:
    inherited = field if field == ANY_KEY or field in _DATA_FIELDS else ""
    return _distinct(shape_of(item, inherited, depth + 1) for item in value)


def _shape_of_object(value: Mapping[str, Any], field: str, depth: int) -> Shape:
    if depth >= _MAX_DEPTH:
        return OMITTED
    if value and _is_map(value, field):
        # Not even a literal is kept: with such keys, a field named `type` is data too.
        shapes = _distinct(shape_of(item, ANY_KEY, depth + 1) for item in value.values())
        return {ANY_KEY: shapes}
    return {key: shape_of(item, key, depth + 1) for key, item in value.items()}


def _is_map(value: Mapping[str, Any], field: str) -> bool:
    """Return True if the keys of an object may be data."""
    if field == ANY_KEY or field in _DATA_FIELDS or len(value) > _MAX_FIELDS:
        return True
    if not all(map(_is_field, value)):
        return True
    return _has_equal_objects(value) or (_is_plural(field) and _has_values_of_one_type(value))


def _is_field(key: str) -> bool:
    return len(key) <= _MAX_FIELD and _FIELD.fullmatch(key) is not None and _consists_of_words(key)


def _consists_of_words(name: str) -> bool:
    """Return False for a known form of a secret, and for many short parts, as random letters have."""
    words = list(filter(None, _WORD_BREAK.split(name)))
    is_readable = len(words) <= 3 or sum(map(len, words)) >= 3 * len(words)
    return is_readable and len(words) <= _MAX_WORDS and redact(name) == name


def _has_equal_objects(value: Mapping[str, Any]) -> bool:
    """Return True for several objects with the same fields."""
    items = list(value.values())
    return (
        len(items) > 1
        and all(isinstance(item, dict) and item for item in items)
        and all(first.keys() == second.keys() for first, second in pairwise(items))
    )


def _is_plural(field: str) -> bool:
    return field.endswith("s") and not field.endswith(("ss", "us", "is"))


def _has_values_of_one_type(value: Mapping[str, Any]) -> bool:
    return len({type(item) for item in value.values()}) == 1


def _distinct(shapes: Iterable[Shape]) -> list[Shape]:
    """Return the different shapes, at most five, and a sign that there are more."""
    by_text = {json.dumps(shape, sort_keys=True): shape for shape in shapes}
    distinct = list(by_text.values())
    return distinct if len(distinct) <= _MAX_SHAPES else [*distinct[:_MAX_SHAPES], OMITTED]
