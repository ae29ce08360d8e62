"""The difference between two texts, in bounded time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count
from operator import ne
from typing import NamedTuple

from ash_shared.parsing.changes.hunks import Hunk

MAX_EDITS = 200
"""Texts with more changed lines are compared only at their beginnings and ends."""
CONTEXT = 3
"""Lines around a change."""
MAX_COMPARED = 100
"""Replacements in a call that are compared line by line; others only at their beginnings and ends."""


def lines_of(text: str) -> list[str]:
    """Split a text at line feeds; a last one ends the last line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def split_pair(old: str, new: str) -> tuple[list[str], list[str]]:
    """Split the two texts of a replacement. Texts that do not end with a line feed are parts of their last lines."""
    if all(text == "" or text.endswith("\n") for text in (old, new)):
        return lines_of(old), lines_of(new)
    return old.split("\n"), new.split("\n")


def diff_lines(old: Sequence[str], new: Sequence[str], max_edits: int = MAX_EDITS) -> Iterator[str]:
    """Yield all lines of both texts with their signs; with more than `max_edits`, those between the first and the last
    change as removed and added."""
    shorter = min(len(old), len(new))
    start = next(compress(count(), map(ne, old, new)), shorter)
    most = range(shorter - start)
    end = next(compress(most, map(ne, reversed(old), reversed(new))), len(most))
    yield from (f" {line}" for line in old[:start])
    yield from _diff_middle(old[start : len(old) - end], new[start : len(new) - end], max_edits)
    yield from (f" {line}" for line in old[len(old) - end :])


def _diff_middle(old: Sequence[str], new: Sequence[str], max_edits: int) -> Iterator[str]:
    matches = _matches(old, new, max_edits) if old and new else []
    old_place = new_place = 0
    for old_match, new_match in [*matches, (len(old), len(new))]:
        yield from (f"-{line}" for line in old[old_place:old_match])
        yield from (f"+{line}" for line in new[new_place:new_match])
        yield from (f" {line}" for line in old[old_match : old_match + 1])
        old_place, new_place = old_match + 1, new_match + 1


def _matches(old: Sequence[str], new: Sequence[str], max_edits: int) -> list[tuple[int, int]]:
    """Return the indices of equal lines; none if there are more edits. Only lines in both texts are compared."""
    shared = set(old).intersection(new)
    old_places = [place for place, line in enumerate(old) if line in shared]
    new_places = [place for place, line in enumerate(new) if line in shared]
    edits = max_edits - (len(old) - len(old_places)) - (len(new) - len(new_places))
    matches = _equal_items([old[place] for place in old_places], [new[place] for place in new_places], edits)
    return [(old_places[x], new_places[y]) for x, y in matches]


def _equal_items(old: Sequence[str], new: Sequence[str], max_edits: int) -> list[tuple[int, int]]:
    """Return the indices of equal lines by the algorithm of Myers; none if there are more edits."""
    width, height = len(old), len(new)
    most = min(width + height, max_edits)
    furthest = [0] * (2 * most + 3)
    """By diagonal; those below 0 are at the end."""
    history: list[list[int]] = []
    for edits in range(most + 1):
        history.append(furthest.copy())
        for diagonal in range(-edits, edits + 1, 2):
            is_added = _is_added(furthest, diagonal, edits)
            x = furthest[diagonal + 1] if is_added else furthest[diagonal - 1] + 1
            while x < width and x - diagonal < height and old[x] == new[x - diagonal]:
                x += 1
            furthest[diagonal] = x
            if x >= width and x - diagonal >= height:
                return _trace(history, width, height)
    return []


def _is_added(furthest: Sequence[int], diagonal: int, edits: int) -> bool:
    """True if the last edit of the furthest path on a diagonal is an added line."""
    if abs(diagonal) == edits:
        return diagonal == -edits
    return furthest[diagonal - 1] < furthest[diagonal + 1]


def _trace(history: Sequence[Sequence[int]], x: int, y: int) -> list[tuple[int, int]]:
    matches = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, diagonal = history[edits], x - y
        is_added = _is_added(furthest, diagonal, edits)
        previous = diagonal + 1 if is_added else diagonal - 1
        before = furthest[previous]
        start = (before if is_added else before + 1) if edits else 0
        matches += [(place, place - diagonal) for place in range(x - 1, start - 1, -1)]
        x, y = before, before - previous
    return matches[::-1]


class _Row(NamedTuple):
    line: str
    """With its sign."""
    old: int
    new: int
    """The numbers of the line in both texts, or of the next line."""


def hunks_of(old: int, new: int, lines: Iterable[str]) -> Iterator[Hunk]:
    """Yield the changes in signed lines with their context; `old` and `new` are the numbers of the first line."""
    rows = list(_numbered(old, new, lines))
    for start, end in _changed_ranges([row.line for row in rows]):
        yield _hunk(rows[start:end])


def _numbered(old: int, new: int, lines: Iterable[str]) -> Iterator[_Row]:
    for line in lines:
        yield _Row(line, old, new)
        old, new = old + (line[0] != "+"), new + (line[0] != "-")


def _changed_ranges(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of changed lines with their context, without overlaps."""
    changed = [index for index, line in enumerate(lines) if line[0] != " "]
    starts = [
        index for index, before in zip(changed, [None, *changed], strict=False) if _is_far(before, index)
    ]
    ends = [
        index for index, after in zip(changed, [*changed[1:], None], strict=False) if _is_far(index, after)
    ]
    for start, end in zip(starts, ends, strict=True):
        yield max(0, start - CONTEXT), min(len(lines), end + 1 + CONTEXT)


def _is_far(before: int | None, after: int | None) -> bool:
    """True if the contexts of two changed lines do not touch, or there is only one."""
    return before is None or after is None or after - before > 2 * CONTEXT + 1


def _hunk(rows: Sequence[_Row]) -> Hunk:
    lines = tuple(row.line for row in rows)
    has_old, has_new = (any(line[0] != sign for line in lines) for sign in "+-")
    return Hunk(rows[0].old - (not has_old), rows[0].new - (not has_new), lines)
