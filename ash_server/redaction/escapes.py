"""Decoding of JSON escapes, with the positions of the decoded characters in the escaped text."""

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\"\\/bfnrt]))")
_MAX_PARTS = 4096
"""Parts joined in one call, during which no other thread runs."""
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Unescaped(NamedTuple):
    text: str
    ends: Sequence[int] = (0,)
    """The beginning of the text, and the position after each decoded escape."""
    places: Sequence[int] = (0,)
    """The same positions in the escaped text."""

    def place_of(self, position: int) -> int:
        """Return the position of a decoded character in the escaped text."""
        index = bisect_right(self.ends, position) - 1
        return self.places[index] + position - self.ends[index]


def unescape(text: str) -> Unescaped | None:
    """Decode the escapes in a text, which may be part of a document; return None if there are none.

    A character outside the Basic Multilingual Plane may become two surrogates.
    """
    if "\\" not in text:
        return None
    pieces, parts = list[str](), list[str]()
    ends, places = array("q", [0]), array("q", [0])  # freed at once, unlike lists of numbers
    length = last = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        digits = match[1]
        part = text[last:start]
        parts += (part, chr(int(digits, 16)) if digits else _CHARACTERS.get(match[2], match[2]))
        length, last = length + len(part) + 1, end
        ends.append(length)
        places.append(end)
        if len(parts) > _MAX_PARTS:
            pieces.append("".join(parts))
            parts.clear()
    if not last:
        return None
    return Unescaped("".join([*pieces, *parts, text[last:]]), ends, places)
