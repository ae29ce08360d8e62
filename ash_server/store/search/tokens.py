"""Tokenise texts and queries for PostgreSQL's full-text search.

Texts are split into words here and not by PostgreSQL: its parser keeps paths, addresses and versions together and
classifies letters by the locale of the server. PostgreSQL receives finished vectors and queries of letters and digits
only, so that no text can cause a syntax error or act as an operator.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category, normalize

from ash_server.errors import InvalidParameter
from ash_shared.parsing.accents import replace_accented, without_accents

_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9d\U00020000-\U0003134f"
)
"""Character ranges of scripts without blanks between words; each character counts as a word."""
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED_SCRIPTS}]")
_VOWEL_MARKS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"
)
"""Hebrew and Arabic vowel marks, which are optional and ignored."""
_HEBREW_OR_ARABIC = re.compile("[\u05d0-\u05ea\u0620-\u06d5]")
_VOWEL_MARK_RUN = re.compile(f"[{_VOWEL_MARKS}]+")
_COMBINING_MARKS = "".join(
    mark
    for mark in map(chr, (*range(0x300, 0x1E00), *range(0xA620, 0xAC00)))
    if category(mark) in ("Mn", "Mc") and not _UNSPACED_CHARACTER.match(mark)
)
"""Combining marks, such as the vowels of Hindi; they belong to the preceding letter."""
_LETTER = rf"[^\W_{_UNSPACED_SCRIPTS}]"
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"{_LETTER}+(?:[{_COMBINING_MARKS}]+{_LETTER}*)*|(?!_)(?=\w)[{_UNSPACED_SCRIPTS}]")
_INSIDE_WORD = re.compile(rf"(?:{_LETTER}|[{_COMBINING_MARKS}]){{2}}")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]{256,}+|(?:[A-Za-z0-9+/=]{60,}+\r?\n){4,}+[A-Za-z0-9+/=]*")
"""Base64, on one line or several."""

_MAX_WORD_CHARACTERS = 255
"""Longer words are not indexed; PostgreSQL limits the length of a word."""
_MAX_TEXT_CHARACTERS = 4 * 1024 * 1024
"""Only the beginning of a longer text is indexed."""
_CHUNK_CHARACTERS = 32 * 1024
"""Characters split in one call, during which no other thread can run."""
_BLANK = re.compile(r"\s")
_MAX_VECTOR_WORDS = 4000
"""PostgreSQL stores 255 positions per word of a vector, up to position 16,383."""
_MAX_VECTOR_CHARACTERS = 128 * 1024
"""Total length of the words of a vector; PostgreSQL limits a vector to a megabyte."""
_OVERLAP_WORDS = 16
"""Words shared by consecutive vectors, so that phrases at the boundary match."""
_TEXT_GAP = [""] * _OVERLAP_WORDS
"""Empty positions between two texts, so that no phrase spans both."""

_MAX_QUERY_WORDS = 32
_MAX_CANDIDATES = 20_000
"""The search for hits in a text stops after this many candidates inside words."""
_MATCHES_NOTHING = "(?!)"

_QUOTES = str.maketrans("\u201c\u201d\u201e\u00ab\u00bb", '"""""')
_TERM = re.compile(r'-?"[^"]*"?|\S+')


def words(text: str) -> list[str]:
    """Return the words in order, case-folded, without accents and in Unicode normal form C."""
    result: list[str] = []
    for piece in _split_chunks(text[:_MAX_TEXT_CHARACTERS]):
        result += _split_words(_BASE64.sub(" ", piece))
    if len(text) <= _MAX_WORD_CHARACTERS:
        return result
    return [word for word in result if len(word) <= _MAX_WORD_CHARACTERS]


def _split_chunks(text: str) -> Iterator[str]:
    """Split a text into chunks, at blanks if there are any."""
    start = 0
    while start < len(text):
        blank = _BLANK.search(text, start + _CHUNK_CHARACTERS, start + 2 * _CHUNK_CHARACTERS)
        end = blank.start() if blank else start + 2 * _CHUNK_CHARACTERS
        yield text[start:end]
        start = end


def _split_words(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(_VOWEL_MARK_RUN.sub("", without_accents(text)).casefold())


def vectors(texts: Iterable[str]) -> Iterator[str]:
    """Yield `tsvector` literals (words with positions) that together contain the words of the texts."""
    all_words: list[str] = []
    for text in texts:
        all_words += [*_TEXT_GAP, *words(text)] if all_words else words(text)
    yield from _vectors(all_words)


def _vectors(all_words: Sequence[str]) -> Iterator[str]:
    for start in range(0, max(1, len(all_words) - _OVERLAP_WORDS), _MAX_VECTOR_WORDS - _OVERLAP_WORDS):
        part = all_words[start : start + _MAX_VECTOR_WORDS]
        if sum(map(len, part)) > _MAX_VECTOR_CHARACTERS:
            middle = len(part) // 2
            yield from _vectors(part[: middle + _OVERLAP_WORDS])
            yield from _vectors(part[middle:])
        elif part:
            yield _vector(part)


def _vector(part: Sequence[str]) -> str:
    positions: dict[str, list[str]] = {}
    for word, position in zip(part, _POSITIONS, strict=False):
        if word in positions:
            positions[word].append(position)
        else:
            positions[word] = [position]
    positions.pop("", None)
    return " ".join([f"'{word}':{','.join(numbers)}" for word, numbers in positions.items()])


_POSITIONS = [str(number) for number in range(1, _MAX_VECTOR_WORDS + 1)]


class Hits:
    """Finds the words of a query in `lowered` texts. For a prefix, a hit is only the typed characters."""

    def __init__(self, terms: Iterable["_Term"]) -> None:
        shown = [term for term in terms if not term.is_excluded and term.typed]
        prefixes = {_pattern(term.typed) for term in shown if term.is_prefix}
        phrases = {_pattern(term.typed) for term in shown if not term.is_prefix}
        self._search = re.compile(f"({_alternatives(prefixes)})|{_alternatives(phrases)}").search

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of hits. Stops after `_MAX_CANDIDATES` candidates that are inside of words."""
        position = rejected = 0
        while rejected < _MAX_CANDIDATES and (match := self._search(text, position)):
            start, end = match.span()
            is_prefix = match[1] is not None
            if _is_inside_word(text, start) or (not is_prefix and _is_inside_word(text, end)):
                position, rejected = start + 1, rejected + 1
            else:
                yield start, end
                position = end


class ParsedQuery(NamedTuple):
    """A parsed query."""

    query: str
    """The `tsquery` literal."""
    hits: Hits


class _Term(NamedTuple):
    words: Sequence[str]
    """Consecutive words."""
    is_prefix: bool
    """True if the last word is a prefix."""
    is_excluded: bool
    typed: Sequence[str]
    """The words as in a `lowered` text."""


def read_query(text: str) -> ParsedQuery:
    """Parse a query. Raises InvalidParameter if it, or an alternative in it, has no word that is not excluded.

    All words are matched as prefixes; words typed without blanks between them, such as a path, must be consecutive.
    `"…"` is a phrase of whole words, `-` excludes a word or a phrase, `or` separates alternatives. Other characters
    only separate words.
    """
    alternatives = [
        [term for term in map(_parse_term, option) if term.words] for option in _split_alternatives(text)
    ]
    alternatives = [option for option in alternatives if option]
    terms = [term for option in alternatives for term in option]
    if not alternatives or any(all(term.is_excluded for term in option) for option in alternatives):
        raise InvalidParameter("q needs a word that is not excluded, also on each side of an `or`.")
    if sum(len(term.words) for term in terms) > _MAX_QUERY_WORDS:
        raise InvalidParameter(f"q has at most {_MAX_QUERY_WORDS} words.")
    query = "|".join(f"({'&'.join(map(_to_tsquery, option))})" for option in alternatives)
    return ParsedQuery(query, Hits(terms))


class QueryWord(NamedTuple):
    """A word of a query, and where the query has it."""

    start: int
    end: int
    word: str


def single_words(text: str) -> list[QueryWord]:
    """Return the words of a query that stand alone and are not excluded."""
    terms = [(match, _parse_term(match[0])) for match in _TERM.finditer(text.translate(_QUOTES))]
    return [
        QueryWord(*match.span(), term.words[0])
        for match, term in terms
        if len(term.words) == 1 and term.is_prefix
    ]


def lowered(text: str) -> str:
    """Return a text in normal form C in lower case and without accents, each character at its position."""
    return replace_accented(text).lower()


def _split_alternatives(text: str) -> Iterator[list[str]]:
    """Split the terms at `or`; at the beginning or end of a query, `or` is an ordinary word."""
    terms = [match[0] for match in _TERM.finditer(text.translate(_QUOTES))]
    option: list[str] = []
    for index, term in enumerate(terms):
        if term.lower() == "or" and option and index + 1 < len(terms):
            yield option
            option = []
        else:
            option.append(term)
    yield option


def _parse_term(text: str) -> _Term:
    is_excluded = text.startswith("-") and not text.startswith("--")
    folded = [word[:_MAX_WORD_CHARACTERS] for word in _split_words(text)]
    is_prefix = '"' not in text[:2] and not is_excluded and bool(folded) and len(folded[-1]) > 1
    typed = _WORD.findall(lowered(_VOWEL_MARK_RUN.sub("", normalize("NFC", text))))
    return _Term(folded, is_prefix, is_excluded, typed)


def _to_tsquery(term: _Term) -> str:
    *first, last = [f"'{word}'" for word in term.words]
    phrase = "<->".join([*first, last + ":*" * term.is_prefix])
    return f"!({phrase})" if term.is_excluded else f"({phrase})"


def _pattern(typed: Sequence[str]) -> str:
    pattern = _with_optional_vowels(typed[0])
    for before, word in pairwise(typed):
        is_unspaced = _UNSPACED_CHARACTER.match(before) or _UNSPACED_CHARACTER.match(word)
        pattern += (r"[\W_]*" if is_unspaced else r"[\W_]+") + _with_optional_vowels(word)
    return pattern


def _with_optional_vowels(word: str) -> str:
    """Return a pattern that allows optional vowel marks."""
    return f"[{_VOWEL_MARKS}]*".join(word) if _HEBREW_OR_ARABIC.match(word) else word


def _alternatives(patterns: Iterable[str]) -> str:
    """Return alternatives, longest first, so that the longest match wins."""
    return "|".join(sorted(patterns, key=len, reverse=True)) or _MATCHES_NOTHING


def _is_inside_word(text: str, position: int) -> bool:
    """True if the characters before and after the position belong to one word."""
    adjacent = text[max(0, position - 1) : position + 1]
    return 0 < position < len(text) and _INSIDE_WORD.fullmatch(adjacent) is not None
