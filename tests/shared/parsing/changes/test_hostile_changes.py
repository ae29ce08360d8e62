"""Reading the changes of any call does not raise, gives signed lines, and takes work in proportion to its size."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ash_shared.parsing.changes import facts_of_call, outcome_of
from ash_shared.parsing.changes.line_diff import MAX_EDITS, diff_lines
from tests.marking import slow_after
from tests.shared.parsing.changes.test_call_changes import CHANGES

TOOLS = sorted({tool for tool, *_ in CHANGES.values()} | {"Bash", "Read", "", "mcp__"})


def names_in(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for each in value for name in names_in(each)}
    return (
        {*value, *(name for each in value.values() for name in names_in(each))}
        if isinstance(value, dict)
        else set()
    )


NAMES = sorted({name for _, *values, _ in CHANGES.values() for value in values for name in names_in(value)})
TEXTS = st.sampled_from(
    [
        "",
        "a",
        "a\nb\n",
        "@@",
        "@@ -1 +1 @@\n-a\n+b",
        "--- a\n+++ b",
        "*** Add File: a\n+b",
        "create",
        "add",
        "a" * 99,
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), each, max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.sampled_from(TOOLS), VALUES, VALUES)
def test_any_call_is_read(tool: str, call_input: Any, structured: Any) -> None:
    facts = facts_of_call(tool, call_input, structured)

    lines = [line for change in facts.changes for hunk in change.hunks for line in hunk.lines]
    assert all(line[:1] in ("+", "-", " ") and "\n" not in line for line in lines)
    assert all(change.path for change in facts.changes)
    assert outcome_of({"error": call_input, "structured": structured}) in ("ok", "failed", "denied")


@pytest.mark.parametrize("tool", [None, 7, ["Edit"], {}])
def test_a_name_of_another_type_has_no_facts(tool: Any) -> None:
    assert facts_of_call(tool, {"file_path": "a", "content": "b"}) == facts_of_call("", None)


SHORT_LISTS = st.lists(st.sampled_from("abcd"), max_size=12)


@given(SHORT_LISTS, SHORT_LISTS, st.sampled_from([0, 3, MAX_EDITS]))
def test_a_difference_contains_both_texts(old: list[str], new: list[str], max_edits: int) -> None:
    lines = list(diff_lines(old, new, max_edits))
    assert [line[1:] for line in lines if line[0] != "+"] == old
    assert [line[1:] for line in lines if line[0] != "-"] == new


def test_a_difference_is_the_shortest() -> None:
    old, new = list("abcabba"), list("cbabac")
    assert sum(line[0] != " " for line in diff_lines(old, new)) == 5


def edit(old: str, new: str) -> dict[str, str]:
    return {"file_path": "a", "old_string": old, "new_string": new}


BIG: dict[str, Callable[[int], tuple[str, Any, Any]]] = {
    "different texts": lambda n: ("Edit", edit("a\n" * n, "b\n" * n), None),
    "many edits": lambda n: ("MultiEdit", {"edits": [edit("a\nb\nc", "d\ne\nf")] * n}, None),
    "begun blocks": lambda n: ("Edit", {"path": "a", "diff": "<<<<<<< SEARCH\n" * n + "REPLACE"}, None),
    "begun hunks": lambda n: ("apply_patch", "*** Update File: a\n" + "@@\n" * n, None),
    "files": lambda n: ("apply_patch", "".join(f"*** Add File: {k}\n+a\n" for k in range(n)), None),
    "reported files": lambda n: (
        "apply_patch",
        None,
        {"changes": {f"{k}": edit("a", "b") for k in range(n)}},
    ),
    "begun reports": lambda n: ("Edit", edit("a", "b"), "[diff_block_start]\n" * n),
    "empty lines": lambda n: ("apply_patch", "*** Update File: a\n" + "\n" * n, None),
}


@pytest.mark.parametrize("case", slow_after(3, BIG))
def test_work_grows_with_the_size_of_a_call(case: str) -> None:
    build, size = BIG[case], 2000
    short, long = count_lines(*build(size)), count_lines(*build(2 * size))
    assert long < 2.2 * short


def count_lines(tool: str, call_input: Any, structured: Any) -> int:
    """Return the number of executed lines; each iteration of a comprehension counts."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        facts_of_call(tool, call_input, structured)
    finally:
        sys.settrace(before)
    return count
