"""Composed differences: they turn the first text into the last one."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ash_shared.parsing.changes import FileChange, Hunk
from ash_shared.parsing.changes.line_diff import diff_lines, hunks_of
from ash_shared.projections.changes import composing
from ash_shared.projections.changes.composing import Section, compose

LINES = st.lists(st.sampled_from(["a", "b", "c", *map(str, range(20))]), max_size=30)


def between(old: Sequence[str], new: Sequence[str]) -> FileChange:
    return FileChange("f", "edit", tuple(hunks_of(1, 1, diff_lines(old, new))))


def apply(lines: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    result, place = list[str](), 0
    for hunk in hunks:
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        start = (hunk.old_start or 0) - bool(old)
        assert list(lines[start : start + len(old)]) == old
        result += [*lines[place:start], *(line[1:] for line in hunk.lines if line[0] != "-")]
        place = start + len(old)
    return [*result, *lines[place:]]


@given(LINES, st.lists(LINES, min_size=1, max_size=5))
def test_numbered_changes_compose(first: list[str], versions: list[list[str]]) -> None:
    texts = [first, *versions]
    [section] = compose(map(between, texts, versions))
    assert apply(first, section.hunks) == versions[-1]


def edit(*lines: str, at: int | None = None) -> FileChange:
    return FileChange("f", "edit", (Hunk(at, at, lines),))


def write(*lines: str, is_partial: bool = False) -> FileChange:
    return FileChange("f", "write", (Hunk(0, 1, tuple(f"+{line}" for line in lines)),), None, is_partial)


def section(*lines: str, at: tuple[int | None, int | None] = (0, 1), **marks: bool) -> Section:
    return Section((Hunk(*at, lines),), **marks)


DELETION = FileChange("f", "delete", (), None, True)

CASES: dict[str, tuple[list[FileChange], list[Section]]] = {
    "nothing": ([], []),
    "a new file, edited": (
        [write("a", "b", "c"), edit("-b", "+B")],
        [section("+a", "+B", "+c", is_new=True)],
    ),
    "words of a line": (
        [write("a b", "c"), edit("-b", "-c", "+B", "+C")],
        [section("+a B", "+C", is_new=True)],
    ),
    "words that occur twice": (
        [write("x y", "x z"), edit("-x", "+w")],
        [section("+x y", "+x z", is_new=True), section("-x", "+w", at=(None, None))],
    ),
    "lines that occur twice": (
        [write("a", "a"), edit("-a", "+b")],
        [section("+a", "+a", is_new=True), section("-a", "+b", at=(None, None))],
    ),
    "a new file, deleted": ([write("a"), DELETION], [Section((), is_new=True, is_deleted=True)]),
    "a new file, written again": (
        [write("a", "b"), write("b", "c", is_partial=True)],
        [section("+b", "+c", is_new=True)],
    ),
    "an unknown file, deleted": ([DELETION], [Section((), is_deleted=True)]),
    "an unknown file, edited and deleted": (
        [edit(" x", "-y", "+z", at=3), DELETION],
        [section(" x", "-y", "+z", at=(3, 3), is_deleted=True)],
    ),
    "an unknown file, edited and written": (
        [edit("-y", "+z", at=3), write("a")],
        [section("-y", "+z", at=(3, 3)), section("+a", is_new=True)],
    ),
    "a change that was undone": ([edit("-a", "+b", at=3), edit("-b", "+a", at=3)], [Section(())]),
    "places that move": (
        [edit("+1", "+2", " a", at=2), edit(" x", "-y", at=9)],
        [
            Section(
                (
                    Hunk(2, 2, ("+1", "+2", " a")),
                    Hunk(7, 9, (" x", "-y")),
                )
            )
        ],
    ),
    "another text at the place": (
        [edit("-a", "+b", at=3), edit("-c", "+d", at=3)],
        [section("-a", "+b", at=(3, 3)), section("-c", "+d", at=(3, 3))],
    ),
    "an empty line after the end": (
        [write("a"), edit("-a", "+b", " ", at=1)],
        [section("+b", is_new=True)],
    ),
    "a place after the end": (
        [write("a"), edit("-b", "+c", at=5)],
        [section("+a", is_new=True), section("-b", "+c", at=(5, 5))],
    ),
    "an addition without a place": (
        [write("a"), edit("+b")],
        [section("+a", is_new=True), section("+b", at=(None, None))],
    ),
    "a change of which only one hunk fits": (
        [write("a", "b"), FileChange("f", "edit", (Hunk(1, 1, ("-a", "+c")), Hunk(2, 2, ("-x", "+y"))))],
        [
            section("+a", "+b", is_new=True),
            Section((Hunk(1, 1, ("-a", "-x", "+c", "+y")),)),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sections(case: str) -> None:
    changes, sections = CASES[case]
    assert compose(changes) == sections


def test_a_long_history_has_several_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composing, "MAX_HUNKS", 2)
    changes = [edit(f"-{number}", f"+{number + 1}", at=1) for number in range(3)]
    assert compose(changes) == [section("-0", "+2", at=(1, 1)), section("-2", "+3", at=(1, 1))]


def test_a_large_file_with_many_edits_has_several_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time would grow with the product of its lines and edits."""
    monkeypatch.setattr(composing, "MAX_READ_LINES", 10)
    whole = FileChange("f", "write", (Hunk(None, None, tuple(f"+{number}" for number in range(6))),))
    sections = compose([whole, edit("-1", "+a"), edit("-2", "+b"), edit("-3", "+c")])
    assert [sum(len(hunk.lines) for hunk in each.hunks) for each in sections] == [6, 2, 2]
