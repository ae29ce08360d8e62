"""Tokenise texts and queries for PostgreSQL's full-text search.

Texts are cut into words here and not by PostgreSQL, whose parser keeps paths, addresses and versions together, and sees
letters as the locale of the server has them. It is given finished vectors and queries of nothing but letters and
digits: no text can be a syntax error, or anything else than words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category, normalize

from ash_server.errors import InvalidParameter

_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9d\U00020000-\U0003134f"
)
"""Characters of scripts without blanks between words; each counts as a word."""
_IS_ALONE = re.compile(f"[{_ALONE}]")
_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
)
"""Hebrew and Arabic vowel marks, which are optional and ignored."""
_POINTED = re.compile("[\u05d0-\u05ea\u0620-\u06d5]")
_SPOKEN = re.compile(f"[{_POINTS}]+")
_MARKS = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1E00), *range(0xA620, 0xAC00)))
    if category(mark) in ("Mn", "Mc") and not _IS_ALONE.match(mark)
)
"""Combining marks, such as the vowels of Hindi, which belong to the letter before them."""
_LETTER = rf"[^\W_{_ALONE}]"
_ASCII = re.compile(r"[a-z0-9]+")
_ANY = re.compile(rf"{_LETTER}+(?:[{_MARKS}]+{_LETTER}*)*|(?!_)(?=\w)[{_ALONE}]")
_WITHIN = re.compile(rf"(?:{_LETTER}|[{_MARKS}]){{2}}")
_BYTES = re.compile(r"[A-Za-z0-9+/=_-]{256,}+|(?:[A-Za-z0-9+/=]{60,}+\r?\n){4,}+[A-Za-z0-9+/=]*")
"""Base64, on one line or several."""

_MAX_WORD = 255
"""Characters of a word that are indexed; PostgreSQL limits the length of a word."""
_MAX_CHARACTERS = 4 * 1024 * 1024
"""Limit of one text; words after it are not indexed."""
_PIECE = 32 * 1024
"""Characters split in one call, which blocks the process."""
_BLANK = re.compile(r"\s")
_PART = 4000
"""Words of a vector, which stores 255 positions per word, up to position 16,383."""
_PART_CHARACTERS = 128 * 1024
"""Bytes of these words; a vector is smaller than a megabyte."""
_OVERLAP = 16
"""Words by which two vectors overlap, so that phrases are not cut."""
_GAP = [""] * _OVERLAP
"""Distance between two texts, so that no phrase spans both."""

_MAX_QUERY_WORDS = 32
"""Words of a query."""
_MAX_CANDIDATES = 20_000
"""False candidates in a text before the search for hits ends."""
_NEVER = "(?!)"

_QUOTES = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb", '"""""')
_TERM = re.compile(r'-?"[^"]*"?|\S+')


def words(text: str) -> list[str]:
    """Return the words in order, folded: case and the encoding of accents make no difference."""
    found: list[str] = []
    for piece in _pieces(text[:_MAX_CHARACTERS]):
        found += _split(_BYTES.sub(" ", piece))
    return [word for word in found if len(word) <= _MAX_WORD] if len(text) > _MAX_WORD else found


def _pieces(text: str) -> Iterator[str]:
    """Split a text at blanks, if it has any."""
    start = 0
    while start < len(text):
        blank = _BLANK.search(text, start + _PIECE, start + 2 * _PIECE)
        end = blank.start() if blank else start + 2 * _PIECE
        yield text[start:end]
        start = end


def _split(text: str) -> list[str]:
    if text.isascii():
        return _ASCII.findall(text.lower())
    return _ANY.findall(_SPOKEN.sub("", normalize("NFC", text)).casefold())


def vectors(texts: Iterable[str]) -> Iterator[str]:
    """Return a `tsvector` literal for each part of these texts: words with positions."""
    gathered: list[str] = []
    for text in texts:
        gathered += [*_GAP, *words(text)] if gathered else words(text)
    yield from _vectors(gathered)


def _vectors(gathered: Sequence[str]) -> Iterator[str]:
    for start in range(0, max(1, len(gathered) - _OVERLAP), _PART - _OVERLAP):
        part = gathered[start : start + _PART]
        if sum(map(len, part)) > _PART_CHARACTERS:
            middle = len(part) // 2
            yield from _vectors(part[: middle + _OVERLAP])
            yield from _vectors(part[middle:])
        elif part:
            yield _vector(part)


def _vector(part: Sequence[str]) -> str:
    places: dict[str, list[str]] = {}
    for word, place in zip(part, _PLACES, strict=False):
        if word in places:
            places[word].append(place)
        else:
            places[word] = [place]
    places.pop("", None)
    return " ".join([f"'{word}':{','.join(at)}" for word, at in places.items()])


_PLACES = [str(place) for place in range(1, _PART + 1)]


class Hits:
    """Find the words of a query in `lowered` texts; of a prefix, only the characters of the query."""

    def __init__(self, terms: Iterable["_Term"]) -> None:
        shown = [term for term in terms if not term.is_excluded and term.typed]
        begun = {_pattern(term.typed) for term in shown if term.is_begun}
        whole = {_pattern(term.typed) for term in shown if not term.is_begun}
        self._find = re.compile(f"({_any_of(begun)})|{_any_of(whole)}").search

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of hits. Stops after many candidates inside words."""
        place = tried = 0
        while tried < _MAX_CANDIDATES and (found := self._find(text, place)):
            start, end = found.span()
            if _is_within(text, start) or (found[1] is None and _is_within(text, end)):
                place, tried = start + 1, tried + 1
            else:
                yield start, end
                place = end


class ParsedQuery(NamedTuple):
    """A parsed query."""

    query: str
    """The `tsquery` literal."""
    hits: Hits


class _Term(NamedTuple):
    words: Sequence[str]
    """Consecutive words."""
    is_begun: bool
    """True if the last word is a prefix."""
    is_excluded: bool
    typed: Sequence[str]
    """The words as in a `lowered` text."""


def read_query(text: str) -> ParsedQuery:
    """Parse a query. Raises InvalidParameter if it has no word to find.

    All words are matched as prefixes; words typed without blanks between them, such as a path, must be consecutive.
    `"…"` is a phrase of whole words, `-` excludes a word or a phrase, `or` separates alternatives. Other characters
    only separate words.
    """
    alternatives = [
        [term for term in map(_term, option) if term.words] for option in _split_alternatives(text)
    ]
    alternatives = [option for option in alternatives if option]
    terms = [term for option in alternatives for term in option]
    if not alternatives or any(all(term.is_excluded for term in option) for option in alternatives):
        raise InvalidParameter("q needs a word that is not excluded, also on each side of an `or`.")
    if sum(len(term.words) for term in terms) > _MAX_QUERY_WORDS:
        raise InvalidParameter(f"q has at most {_MAX_QUERY_WORDS} words.")
    query = "|".join(f"({'&'.join(map(_tsquery, option))})" for option in alternatives)
    return ParsedQuery(query, Hits(terms))


def lowered(text: str) -> str:
    """Return the text in lower case with every character at its position."""
    return text.replace("\u0130", "I").lower()


def _split_alternatives(text: str) -> Iterator[list[str]]:
    """Split the terms at `or`, which is a word at the beginning and end of a query."""
    terms = [found[0] for found in _TERM.finditer(text.translate(_QUOTES))]
    option: list[str] = []
    for place, term in enumerate(terms):
        if term.lower() == "or" and option and place + 1 < len(terms):
            yield option
            option = []
        else:
            option.append(term)
    yield option


def _term(text: str) -> _Term:
    is_excluded = text.startswith("-") and not text.startswith("--")
    found = [word[:_MAX_WORD] for word in _split(text)]
    may_go_on = '"' not in text[:2] and not is_excluded and bool(found) and len(found[-1]) > 1
    typed = _ANY.findall(lowered(_SPOKEN.sub("", normalize("NFC", text))))
    return _Term(found, may_go_on, is_excluded, typed)


def _tsquery(term: _Term) -> str:
    *first, last = [f"'{word}'" for word in term.words]
    phrase = "<->".join([*first, last + ":*" * term.is_begun])
    return f"!({phrase})" if term.is_excluded else f"({phrase})"


def _pattern(typed: Sequence[str]) -> str:
    pattern = _spoken(typed[0])
    for before, word in pairwise(typed):
        stands_alone = _IS_ALONE.match(before) or _IS_ALONE.match(word)
        pattern += (r"[\W_]*" if stands_alone else r"[\W_]+") + _spoken(word)
    return pattern


def _spoken(word: str) -> str:
    """Return a pattern that allows optional vowel marks."""
    return f"[{_POINTS}]*".join(word) if _POINTED.match(word) else word


def _any_of(patterns: Iterable[str]) -> str:
    """Return alternatives, longest first, so that the longest match wins."""
    return "|".join(sorted(patterns, key=len, reverse=True)) or _NEVER


def _is_within(text: str, place: int) -> bool:
    """True if the position is inside a word."""
    beside = text[max(0, place - 1) : place + 1]
    return 0 < place < len(text) and _WITHIN.fullmatch(beside) is not None
