"""The ids of calls in the JSON of events."""

from typing import Any

import pytest

from ash_server.store.log.tool_calls import stated_id

IDS: list[tuple[Any, str | None]] = [
    ("toolu_1", '"toolu_1"'),
    ('a"b', '"a\\"b"'),
    ("0198c0de-0000-7000-8000-000000000001", '"0198c0de-0000-7000-8000-000000000001"'),
    ("x" * 253, f'"{"x" * 253}"'),
    ("x" * 254, None),
    ("5", None),
    (5, None),
    ("None", None),
    (None, None),
    ("True", None),
    ("", None),
]


@pytest.mark.parametrize(("id", "stated"), IDS)
def test_only_texts_that_no_other_value_has_are_searched(id: Any, stated: str | None) -> None:
    assert stated_id({"toolCallId": id}) == stated
