"""Compose the changes of a file into a difference, as far as the recorded lines allow.

A text knows only the lines that records contain; the others are gaps. A change that contradicts a known line, or has no
known place, does not fit the text: it begins a new section.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ash_shared.parsing.changes import FileChange, Hunk
from ash_shared.parsing.changes.line_diff import diff_lines, hunks_of

MAX_HUNKS = 2000
"""Hunks in a section; a longer history has several."""
MAX_READ_LINES = 2_000_000
"""Known lines that the hunks of a section are compared with: each hunk with all of them."""


class Section(NamedTuple):
    """A difference of a file."""

    hunks: tuple[Hunk, ...]
    is_new: bool = False
    is_deleted: bool = False


def compose(changes: Iterable[FileChange]) -> list[Section]:
    """Return the difference of a file after changes in order, or several if they do not fit each other."""
    sections: list[_OpenSection] = []
    for change in changes:
        if not sections or not sections[-1].add(change):
            sections.append(_OpenSection(change))
    return [section.result() for section in sections]


class _Entry(NamedTuple):
    origin: int | None
    """The number of the line in the original; None for an added line."""
    text: str | None
    """None if it is unknown."""


class _Gap(NamedTuple):
    """Unknown lines of the original."""

    start: int
    size: int | None
    """None: all lines to the end."""


_Item = _Gap | list[_Entry]


@dataclass(slots=True)
class _Text:
    """A file between two changes."""

    items: list[_Item]
    removed: dict[int, str] = field(default_factory=dict)
    """The texts of removed lines of the original, by number."""

    def is_known(self) -> bool:
        return all(isinstance(item, list) for item in self.items)

    def known_lines(self) -> int:
        return sum(len(item) for item in self.items if isinstance(item, list))

    def runs(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the known lines, with the number of the first."""
        place = 1
        for item in self.items:
            if isinstance(item, list):
                yield place, [entry.text or "" for entry in item]
                place += len(item)
            else:
                place += item.size or 0

    def apply(self, place: int, lines: Sequence[str]) -> bool:
        """Replace lines by signed lines; return False if there is another text at this place."""
        old = [line[1:] for line in lines if line[:1] != "+"]
        start = self._cut(place)
        end = self._cut(place + len(old))
        if start is None or end is None:
            return False
        known = [entry for item in self.items[start:end] for entry in _entries(item)]
        if any(entry.text not in (None, text) for entry, text in zip(known, old, strict=True)):
            return False
        self._splice(start, end, list(self._applied(known, lines)))
        return True

    def _applied(self, known: Sequence[_Entry], lines: Sequence[str]) -> Iterator[_Entry]:
        following = iter(known)
        for line in lines:
            sign, text = line[:1], line[1:]
            origin = None if sign == "+" else next(following).origin
            if sign == "-":
                self.removed |= {} if origin is None else {origin: text}
            else:
                yield _Entry(origin, text)

    def _cut(self, place: int) -> int | None:
        """Return the index of the item that begins with a line, after splitting an item there; None after the end."""
        left = place - 1
        for index, item in enumerate(self.items):
            if left == 0:
                return index
            size = len(item) if isinstance(item, list) else item.size
            if size is None or left < size:
                self.items[index : index + 1] = _split(item, left)
                return index + 1
            left -= size
        return None if left else len(self.items)

    def _splice(self, start: int, end: int, entries: list[_Entry]) -> None:
        before = self.items[start - 1] if start else None
        after = self.items[end] if end < len(self.items) else None
        if isinstance(before, list):
            start, entries = start - 1, before + entries
        if isinstance(after, list):
            end, entries = end + 1, entries + after
        self.items[start:end] = [entries] if entries else []


def _entries(item: _Item) -> Iterator[_Entry]:
    if isinstance(item, list):
        yield from item
    else:
        yield from (_Entry(item.start + number, None) for number in range(item.size or 0))


def _split(item: _Item, left: int) -> list[_Item]:
    if isinstance(item, list):
        return [item[:left], item[left:]]
    rest = None if item.size is None else item.size - left
    return [_Gap(item.start, left), _Gap(item.start + left, rest)]


class _OpenSection:
    """Changes that fit each other; a change without known places has a section of its own."""

    def __init__(self, change: FileChange) -> None:
        self._is_new = _is_whole(change)
        self._text = _Text([] if self._is_new else [_Gap(1, None)])
        self._is_deleted = False
        self._hunks = self._read = 0
        self._loose = () if self._compose(change) else change.hunks

    def add(self, change: FileChange) -> bool:
        """Add a change; return False, and change nothing, if it does not fit."""
        self._read += len(change.hunks) * self._text.known_lines()
        is_full = self._hunks + len(change.hunks) > MAX_HUNKS or self._read > MAX_READ_LINES
        return not self._loose and not is_full and self._compose(change)

    def _compose(self, change: FileChange) -> bool:
        text = _Text([*self._text.items], {**self._text.removed})
        if not _apply(text, change):
            return False
        self._text, self._is_deleted = text, change.action == "delete"
        self._hunks += len(change.hunks)
        return True

    def result(self) -> Section:
        hunks = self._loose or tuple(_hunks(self._text))
        return Section(hunks, self._is_new, self._is_deleted)


def _is_whole(change: FileChange) -> bool:
    """True for a change that contains the whole new text."""
    is_first = len(change.hunks) <= 1 and all(not hunk.old_start for hunk in change.hunks)
    return change.action == "write" and is_first


def _apply(text: _Text, change: FileChange) -> bool:
    if _is_whole(change) or (change.action == "delete" and not change.hunks):
        return _replace(text, [line for hunk in change.hunks for line in hunk.lines])
    return all(_apply_hunk(text, hunk) for hunk in change.hunks)


def _replace(text: _Text, lines: Sequence[str]) -> bool:
    """Replace the whole text, which must be known, or delete an unknown one."""
    if not text.is_known():
        return not lines
    return text.apply(1, [*(f"-{line}" for _, run in text.runs() for line in run), *lines])


def _apply_hunk(text: _Text, hunk: Hunk) -> bool:
    if hunk.new_start is not None:
        has_new = any(line[:1] != "-" for line in hunk.lines)
        place = max(hunk.new_start, 1) if has_new else hunk.new_start + 1
        return text.apply(place, hunk.lines) or (
            # Antigravity shows the end of the last line as an empty line.
            hunk.lines[-1] == " " and text.apply(place, hunk.lines[:-1])
        )
    found = _find_lines(text, hunk) or _find_words(text, hunk)
    return found is not None and text.apply(*found)


def _find_lines(text: _Text, hunk: Hunk) -> tuple[int, Sequence[str]] | None:
    """Return the place of whole lines that occur once; editors require that."""
    old = _old_text(hunk)
    places = [
        start + joined.count("\n", 0, at)
        for start, joined in ((start, "\n".join(run)) for start, run in text.runs())
        for at in _occurrences(f"\n{joined}\n", f"\n{old}\n")
    ]
    return (places[0], hunk.lines) if len(places) == 1 and old else None


def _find_words(text: _Text, hunk: Hunk) -> tuple[int, Sequence[str]] | None:
    """Return the place of a text that occurs once, and the lines around it, changed."""
    old, new = _old_text(hunk), "\n".join(line[1:] for line in hunk.lines if line[:1] != "-")
    found = [
        (start, joined, at)
        for start, joined in ((start, "\n".join(run)) for start, run in text.runs())
        for at in _occurrences(joined, old)
    ]
    if len(found) != 1 or not old:
        return None
    [(start, joined, at)] = found
    begin, end = joined.rfind("\n", 0, at) + 1, joined.find("\n", at + len(old))
    end = len(joined) if end < 0 else end
    changed = joined[begin:at] + new + joined[at + len(old) : end]
    lines = diff_lines(joined[begin:end].split("\n"), changed.split("\n"))
    return start + joined.count("\n", 0, begin), tuple(lines)


def _old_text(hunk: Hunk) -> str:
    return "\n".join(line[1:] for line in hunk.lines if line[:1] != "+")


def _occurrences(text: str, part: str) -> Iterator[int]:
    """Yield the first two places of a part."""
    first = text.find(part)
    second = text.find(part, first + 1) if first >= 0 else -1
    yield from (place for place in (first, second) if place >= 0)


def _hunks(text: _Text) -> Iterator[Hunk]:
    for piece in _pieces(text):
        yield from hunks_of(*piece)


def _pieces(text: _Text) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the signed lines between gaps, and the numbers of the first in both texts."""
    old, new, first = 1, 1, (1, 1)
    lines: list[str] = []
    block: tuple[list[str], list[str]] = ([], [])
    for item in [*text.items, _Gap(max(text.removed, default=0) + 1, 0)]:
        entries = item if isinstance(item, list) else [_Entry(item.start, None)]
        for entry in entries:
            if entry.origin is None:
                block[1].append(entry.text or "")
                new += 1
                continue
            block[0].extend(text.removed.get(number, "") for number in range(old, entry.origin))
            lines += diff_lines(*block)
            block = ([], [])
            old = max(old, entry.origin)
            if entry.text is not None:
                lines.append(f" {entry.text}")
                old, new = old + 1, new + 1
        if not isinstance(item, list):
            yield *first, lines
            old, new = item.start + (item.size or 0), new + (item.size or 0)
            lines, first = [], (old, new)
