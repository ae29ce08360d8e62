"""Snippets: the part of a text around a match."""

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize

from ash_server.store.search.tokens import Hits, lowered

_CONTEXT, _LENGTH, _MAX_LENGTH = 60, 240, 480
"""Characters before the first hit; of a snippet; of a snippet with a long hit."""
_MAX_COMPARED = 40
"""Hits of a text to choose from: the snippet shows the hit that is followed by the most different hits."""
_ELLIPSIS = "\u2026"


class Snippet(NamedTuple):
    text: str
    """One line."""
    marks: list[tuple[int, int]]
    """Start and end of each match, in characters."""

    def utf16_marks(self) -> list[tuple[int, int]]:
        """Return the marks in UTF-16 code units."""
        return [(_units(self.text[:start]), _units(self.text[:end])) for start, end in self.marks]


def snippet(texts: Iterable[str], hits: Hits) -> Snippet:
    """Return the snippet of the first text with a hit, else the beginning of the first text.

    A matching event may have no hit: the index treats some spellings as equal that this module does not.
    """
    first = ""
    for text in texts:
        text = normalize("NFC", text)
        first = first or text
        if spans := list(islice(hits.spans(lowered(text)), _MAX_COMPARED)):
            return _around(text, _best(lowered(text), spans), hits)
    return _around(first, (0, 0), hits)


def _units(text: str) -> int:
    return len(text) + sum(each > "\uffff" for each in text)


def _best(text: str, spans: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the first hit with the most different hits in its snippet."""

    def count_hits(hit: tuple[int, int]) -> int:
        bound = hit[0] + _LENGTH - _CONTEXT
        return len({text[start:end] for start, end in spans if hit[0] <= start and end <= bound})

    return max(spans, key=count_hits)


def _around(text: str, hit: tuple[int, int], hits: Hits) -> Snippet:
    start = max(0, hit[0] - _CONTEXT)
    end = min(len(text), max(start + _LENGTH, min(hit[1], start + _MAX_LENGTH)))
    if start:
        start = _word_start(text, start, hit[0])
    piece = " ".join(text[start:end].split())
    shown = f"{_ELLIPSIS if start else ''}{piece}{_ELLIPSIS if end < len(text) else ''}"
    return Snippet(shown, list(hits.spans(lowered(shown))))


def _word_start(text: str, start: int, hit: int) -> int:
    """Return the start of the next word before the hit, if there is one."""
    blank = re.compile(r"\s").search(text, start, hit)
    return blank.end() if blank else start
