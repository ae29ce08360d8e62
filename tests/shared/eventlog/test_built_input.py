"""The input of a call that is built value by value."""

import json
import random
from typing import Any

import pytest

from ash_shared.eventlog.built_input import add_value, json_end
from ash_shared.eventlog.state import UnfinishedJson
from ash_shared.records.json_fields import set_json_path

TABLE: dict[str, list[tuple[str, Any, str | None]]] = {
    "string in parts": [("$.a", 'x"', '{"a":"x\\"'), ("$.a", "é", "é"), ("$.a", "", "")],
    "object": [("$.a", 1, '{"a":1'), ("$.b", None, ',"b":null'), ("$['c d']", "x", ',"c d":"x')],
    "list": [("$.a[0]", "x", '{"a":["x'), ("$.a[1]", True, '",true'), ("$.a[9]", 2, ",2")],
    "list of lists": [("$.a[3][2]", 1, '{"a":[[1'), ("$.a[0][1]", 2, ",2"), ("$.a[1][0]", 3, "],[3")],
    "containers end": [("$.a[0].b.c", "x", '{"a":[{"b":{"c":"x'), ("$.d", 1, '"}}],"d":1')],
    "objects in a list": [("$.a[0].b", 1, '{"a":[{"b":1'), ("$.a[1].b", 2, '},{"b":2')],
    "value is replaced": [("$.a", "x", '{"a":"x'), ("$.a", 1, None)],
    "number is replaced": [("$.a", 1, '{"a":1'), ("$.a", "x", None)],
    "earlier key": [("$.a", "x", '{"a":"x'), ("$.b", 1, '","b":1'), ("$.a", "y", None)],
    "earlier item": [("$.a[0]", 1, '{"a":[1'), ("$.a[1]", 2, ",2"), ("$.a[0]", 3, None)],
    "container is replaced": [("$.a.b", 1, '{"a":{"b":1'), ("$.a", 2, None)],
    "value becomes a container": [("$.a", 1, '{"a":1'), ("$.a.b", 2, None)],
    "object becomes a list": [("$.a.b", 1, '{"a":{"b":1'), ("$.a[0]", 2, None)],
    "list becomes an object": [("$.a[0]", 1, '{"a":[1'), ("$.a.b", 2, None)],
}


@pytest.mark.parametrize("name", TABLE)
def test_adds_values(name: str) -> None:
    unfinished = UnfinishedJson([])

    assert [add_value(unfinished, path, value) for path, value, _ in TABLE[name]] == [
        text for _, _, text in TABLE[name]
    ]


def test_text_is_the_json_of_the_values() -> None:
    """Values in any order, as long as each has its place at the end."""
    choose = random.Random(5)
    counts = {"added": 0, "refused": 0}
    for _ in range(3000):
        unfinished, text, arguments = UnfinishedJson([]), "", dict[str, Any]()
        for _ in range(choose.randrange(1, 8)):
            path = "$.a" + "".join(choose.choices([".a", ".b", "[0]", "[1]"], k=choose.randrange(3)))
            value: Any = choose.choice([1, None, "x", '"\\', {}])
            added = add_value(unfinished, path, value)
            if added is None:
                counts["refused"] += 1
                break
            counts["added"] += 1
            text, arguments = text + added, set_json_path(arguments, path, value)
            assert json.loads(text + json_end(unfinished)) == arguments
    assert min(counts.values()) > 500
