"""Blocks that a record repeats from earlier records of its message."""

from typing import Any

import pytest

from ash_shared.records.repeated_blocks import form_of, match_blocks
from tests.shared.records.claude import call, text, thinking

LONG = "A text that occurs only once."
IMAGE = {"type": "image", "source": {"type": "url", "url": "a.png"}}

MATCHES: dict[str, tuple[list[Any], list[Any], list[int | None]]] = {
    "nothing known": ([], [text("One.")], [None]),
    "a later text": ([text("One.")], [text("Two.")], [None]),
    "the last text, longer": ([text("Two."), text("One")], [text("One.")], [1]),
    "an earlier text, longer": ([text("One"), text("Two.")], [text("One.")], [None]),
    "the last text, shorter": ([text("One.")], [text("One")], [None]),
    "after an empty text": ([text("")], [text("One.")], [None]),
    "all blocks again": ([text("."), call("c1"), text(".")], [text("."), call("c1"), text(".")], [0, 1, 2]),
    "a short text again, elsewhere": ([text("One"), text("."), text("Two")], [text(".")], [None]),
    "a long text again, elsewhere": ([text(LONG), text(".")], [text(LONG)], [0]),
    "a text twice in one record": ([text(LONG)], [text(LONG), text(LONG)], [0, None]),
    "thinking with its signature later": ([thinking("Hm.")], [thinking("Hm.", signature="s")], [0]),
    "thinking that shows only signatures": (
        [thinking("", signature="a")],
        [thinking("", signature="b")],
        [None],
    ),
    "thinking that has the text of an answer": ([text(LONG)], [thinking(LONG)], [None]),
    "a call with more input": ([call("c1"), text(".")], [call("c1", file="a")], [0]),
    "another call": ([call("c1")], [call("c2")], [None]),
    "calls without ids": ([call(None, file="a")], [call(None, file="b"), call(None, file="a")], [None, 0]),
    "an image again": ([IMAGE, text(".")], [IMAGE], [0]),
}


@pytest.mark.parametrize("name", MATCHES)
def test_matches_blocks_of_earlier_records(name: str) -> None:
    known, blocks, expected = MATCHES[name]

    assert [index for _, _, index in match_blocks(list(map(form_of, known)), blocks)] == expected
