"""What counts as a word, in texts and in what somebody looks for; and what PostgreSQL is given of both.

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
"""Characters of scripts that put no blanks between words: each is one."""
_IS_ALONE = re.compile(f"[{_ALONE}]")
_POINTS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
)
"""What tells how a Hebrew or Arabic word is spoken: it is written by few, and the word is the same without."""
_POINTED = re.compile("[\u05d0-\u05ea\u0620-\u06d5]")
_SPOKEN = re.compile(f"[{_POINTS}]+")
_MARKS = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1E00), *range(0xA620, 0xAC00)))
    if category(mark) in ("Mn", "Mc") and not _IS_ALONE.match(mark)
)
"""What belongs to the letter ahead of it, such as the vowels of Hindi, and is no letter itself."""
_LETTER = rf"[^\W_{_ALONE}]"
_ASCII = re.compile(r"[a-z0-9]+")
_ANY = re.compile(rf"{_LETTER}+(?:[{_MARKS}]+{_LETTER}*)*|(?!_)(?=\w)[{_ALONE}]")
_WITHIN = re.compile(rf"(?:{_LETTER}|[{_MARKS}]){{2}}")
_BYTES = re.compile(r"[A-Za-z0-9+/=_-]{256,}+|(?:[A-Za-z0-9+/=]{60,}+\r?\n){4,}+[A-Za-z0-9+/=]*")
"""What only base64 looks like, in one line or in several."""

_LONGEST = 255
"""Characters of a word; nobody looks for a longer one, and PostgreSQL has a bound for them."""
_MOST_CHARACTERS = 4 * 1024 * 1024
"""Of one text: what lies behind them cannot be found."""
_PIECE = 32 * 1024
"""Of it that are split at once: nothing else runs in the process meanwhile."""
_BLANK = re.compile(r"\s")
_PART = 4000
"""Words of a vector. It keeps 255 places of each word, so the most frequent ones fit, and places up to 16,383."""
_PART_CHARACTERS = 128 * 1024
"""Of these words: a vector has less than a megabyte."""
_OVERLAP = 16
"""Words with which the next one begins again, so that phrases are not cut."""
_GAP = [""] * _OVERLAP
"""Between two texts: a phrase lies in one of them."""

_MOST_WANTED = 32
"""Words of a search."""
_MOST_TRIED = 20_000
"""Places in a text that only look as if something stood there."""
_NEVER = "(?!)"

_QUOTES = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb", '"""""')
_TERM = re.compile(r'-?"[^"]*"?|\S+')


def words(text: str) -> list[str]:
    """In their order, folded: what differs in case alone, or in how an accent is written, is the same word."""
    found: list[str] = []
    for piece in _pieces(text[:_MOST_CHARACTERS]):
        found += _split(_BYTES.sub(" ", piece))
    return [word for word in found if len(word) <= _LONGEST] if len(text) > _LONGEST else found


def _pieces(text: str) -> Iterator[str]:
    """Cut at blanks, where there are any."""
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
    """What PostgreSQL reads as `tsvector`, for each part of these texts: their words, and where they stand."""
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
    """Finds what somebody looks for in texts that were `lowered`; of a word that may go on, as much as was typed."""

    def __init__(self, terms: Iterable["_Term"]) -> None:
        shown = [term for term in terms if not term.is_excluded and term.typed]
        begun = {_pattern(term.typed) for term in shown if term.is_begun}
        whole = {_pattern(term.typed) for term in shown if not term.is_begun}
        self._find = re.compile(f"({_any_of(begun)})|{_any_of(whole)}").search

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Gives up where it stands within words again and again."""
        place = tried = 0
        while tried < _MOST_TRIED and (found := self._find(text, place)):
            start, end = found.span()
            if _is_within(text, start) or (found[1] is None and _is_within(text, end)):
                place, tried = start + 1, tried + 1
            else:
                yield start, end
                place = end


class Wanted(NamedTuple):
    """What somebody looks for."""

    query: str
    """As PostgreSQL reads a `tsquery`."""
    hits: Hits


class _Term(NamedTuple):
    words: Sequence[str]
    """They follow each other."""
    is_begun: bool
    """Whether the last of them may go on."""
    is_excluded: bool
    typed: Sequence[str]
    """As a text has them that was `lowered`."""


def read_query(text: str) -> Wanted:
    """All words are looked for, each as the beginning of one; those that are typed without blanks between them, such as
    a path, follow each other. `"…"` is a phrase, word for word; `-` excludes a word or a phrase; `or` stands between
    two wishes. Whatever else is typed only separates words. Raises InvalidParameter where nothing is to be found."""
    wishes = [[term for term in map(_term, wish) if term.words] for wish in _wishes(text)]
    wishes = [wish for wish in wishes if wish]
    terms = [term for wish in wishes for term in wish]
    if not wishes or any(all(term.is_excluded for term in wish) for wish in wishes):
        raise InvalidParameter("q names a word that is to be found, also on each side of an `or`.")
    if sum(len(term.words) for term in terms) > _MOST_WANTED:
        raise InvalidParameter(f"q has at most {_MOST_WANTED} words.")
    query = "|".join(f"({'&'.join(map(_tsquery, wish))})" for wish in wishes)
    return Wanted(query, Hits(terms))


def lowered(text: str) -> str:
    """In lower case, each character in its place."""
    return text.replace("\u0130", "I").lower()


def _wishes(text: str) -> Iterator[list[str]]:
    """The terms between one `or` and the next; it is a word where there is nothing on one of its sides."""
    terms = [found[0] for found in _TERM.finditer(text.translate(_QUOTES))]
    wish: list[str] = []
    for place, term in enumerate(terms):
        if term.lower() == "or" and wish and place + 1 < len(terms):
            yield wish
            wish = []
        else:
            wish.append(term)
    yield wish


def _term(text: str) -> _Term:
    is_excluded = text.startswith("-") and not text.startswith("--")
    found = [word[:_LONGEST] for word in _split(text)]
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
    """As it may be written where somebody tells how it is spoken."""
    return f"[{_POINTS}]*".join(word) if _POINTED.match(word) else word


def _any_of(patterns: Iterable[str]) -> str:
    """The longest first: it is taken where several begin."""
    return "|".join(sorted(patterns, key=len, reverse=True)) or _NEVER


def _is_within(text: str, place: int) -> bool:
    """Whether it lies inside of a word."""
    beside = text[max(0, place - 1) : place + 1]
    return 0 < place < len(text) and _WITHIN.fullmatch(beside) is not None
