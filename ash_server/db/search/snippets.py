"""The piece of a text that shows why it was found."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize

from ash_server.db.search.tokens import Hits, lowered

_AHEAD, _LENGTH, _LONGEST = 60, 240, 480
"""Characters ahead of the first hit, in all, and where one hit takes more."""
_COMPARED = 40
"""Hits of which that is shown which has most others behind it."""
_CUT = "\u2026"


class Snippet(NamedTuple):
    text: str
    """On one line."""
    marks: list[tuple[int, int]]
    """Where in it what was looked for begins and ends, in characters."""

    def utf16_marks(self) -> list[tuple[int, int]]:
        """The same in UTF-16 code units."""
        return [(_units(self.text[:start]), _units(self.text[:end])) for start, end in self.marks]


def snippet(texts: Iterable[str], hits: Hits) -> Snippet:
    """Of the first text that has a hit; the beginning of the first one where none has: a word may be spelt in a way
    that only the index takes for the same."""
    first = ""
    for text in texts:
        told = normalize("NFC", text)
        first = first or told
        if found := list(islice(hits.spans(lowered(told)), _COMPARED)):
            return _around(told, _best(lowered(told), found), hits)
    return _around(first, (0, 0), hits)


def _units(text: str) -> int:
    return len(text) + sum(each > "\uffff" for each in text)


def _best(text: str, found: list[tuple[int, int]]) -> tuple[int, int]:
    """The first of those behind which most different ones follow."""

    def company(hit: tuple[int, int]) -> int:
        bound = hit[0] + _LENGTH - _AHEAD
        return len({text[start:end] for start, end in found if hit[0] <= start and end <= bound})

    return max(found, key=company)


def _around(text: str, hit: tuple[int, int], hits: Hits) -> Snippet:
    start = max(0, hit[0] - _AHEAD)
    end = min(len(text), max(start + _LENGTH, min(hit[1], start + _LONGEST)))
    if start:
        start = _behind_blank(text, start, hit[0])
    piece = " ".join(text[start:end].split())
    shown = f"{_CUT if start else ''}{piece}{_CUT if end < len(text) else ''}"
    return Snippet(shown, list(hits.spans(lowered(shown))))


def _behind_blank(text: str, start: int, hit: int) -> int:
    """Where a word begins, if one does ahead of the hit."""
    blank = re.compile(r"\s").search(text, start, hit)
    return blank.end() if blank else start
