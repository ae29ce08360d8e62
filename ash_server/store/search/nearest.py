"""The stored words nearest to a word that no event contains.

The index lists no words, but answers at once which of some words it has, unless these are frequent. So the words at one
edit are looked up in some events, which have the frequent words, and then in the index; then the words with the same
beginning, at two edits. Functions accept a connection in autocommit mode (`connections.pool.open_pool`).
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, errors

from ash_server.store.connections.pool import is_distributed, one_transaction
from ash_server.store.search.tokens import QueryWord, single_words
from ash_server.store.statements import Sql, statements

MAX_SUGGESTIONS = 3
_MIN_CHARACTERS, _MAX_CHARACTERS = 4, 24
"""Length of a word that is replaced."""
_MIN_CHARACTERS_FOR_TWO_EDITS = 6
_BEGINNING = 4
"""Characters that a word at two edits has in common with the missing one."""
_MAX_WORDS = 4
"""Words of a query that are looked up."""
_MAX_ROWS, _MAX_READ = 200, 1000
"""Rows that are read, and their words."""
_MAX_SEARCHED = 2000
"""Rows that are searched for a word before the indexes."""
_MAX_INDEXED = 5000
"""Rows of the indexes of words that are searched for rows of one session."""
_ANY_ROW = "!' '"
"""A query that every row matches: no word is a blank."""
_TIMEOUT_MS = 200
"""For each statement."""
_MAX_MS = 400
"""For all of a search; words that are not looked up in this time have no suggestions."""

_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "αβγδεζηθικλμνξοπρστυφχψω", "абвгдежзиклмнопрстуфхцчшщъыьэюяіє")
_DIGITS = frozenset("0123456789")

_WORDS_PER_QUERY = 8
"""PostgreSQL prepares the lookup of a query in time that grows with the square of its words."""

QUERY = Sql("%(query)b::tsquery")
"""The query of a statement."""
_EACH_QUERY = Sql("one.query")

SQL = statements(__file__)


async def suggest_queries(
    conn: AsyncConnection, q: str, matching: Sql, params: Mapping[str, Any], *, is_nowhere: bool = False
) -> list[str]:
    """Return the query with the nearest stored words in place of its words that no event contains, the best first.

    `matching`, a condition on a `{query}`, and `params` select the rows to look at. `is_nowhere`: no event matches.
    """
    lookup = _Lookup(conn, matching, params)
    words = single_words(q)[:_MAX_WORDS]
    is_one_word = len(words) == 1 and q.strip() == q[words[0].start : words[0].end]
    is_known = is_nowhere and is_one_word
    missing = [each for each in words if is_known or await lookup.is_missing(each.word)]
    nearest = [(each, await lookup.nearest_words(each.word)) for each in missing]
    if not nearest or not all(near for _, near in nearest):
        return []
    (first, choices), *others = nearest
    best = [(each, near[0]) for each, near in others]
    return [_replace(q, [(first, choice), *best]) for choice in choices]


class _Lookup:
    """Statements for one search, which end in limited time."""

    def __init__(self, conn: AsyncConnection, matching: Sql, params: Mapping[str, Any]) -> None:
        self._conn = conn
        self._some = SQL.some_rows.fill(condition=matching.fill(query=QUERY))
        each = SQL.some_indexed_rows.fill(condition=matching.fill(query=_EACH_QUERY))
        self._indexed = self._some if is_distributed(conn) else each
        self._params = params
        self._deadline = time.monotonic() + _MAX_MS / 1000

    async def is_missing(self, word: str) -> bool:
        query = f"'{word}':*"
        values = {"word": query, "queries": [query], "rows": _MAX_SEARCHED, "indexed": _MAX_INDEXED}
        in_some, in_indexed = (SQL.has_words.fill(rows=rows) for rows in (self._some, self._indexed))
        return (
            await self._fetch(in_some, {**values, "query": _ANY_ROW}, by_index=False) == []
            and await self._fetch(in_indexed, {**values, "query": query}, by_index=True) == []
        )

    async def nearest_words(self, word: str) -> list[str]:
        """Return stored words near to one, the most frequent first."""
        if not _MIN_CHARACTERS <= len(word) <= _MAX_CHARACTERS or _DIGITS.issuperset(word):
            return []
        candidates = sorted(set(_one_edit(word)) - {word})
        near = await self._read([_ANY_ROW], candidates, by_index=False) or await self._read(
            _to_queries(candidates), candidates
        )
        if not near and len(word) >= _MIN_CHARACTERS_FOR_TWO_EDITS:
            beginning = word[:_BEGINNING]
            words = await self._read([f"'{beginning}':*"], beginning=beginning)
            near = [each for each in words if is_within_two_edits(word, each)]
        return near[:MAX_SUGGESTIONS]

    async def _read(
        self,
        queries: Sequence[str],
        candidates: Sequence[str] | None = None,
        *,
        beginning: str | None = None,
        by_index: bool = True,
    ) -> list[str]:
        bounds = {"rows": _MAX_ROWS, "most": _MAX_READ, "indexed": _MAX_INDEXED}
        words = {"query": "|".join(queries), "queries": queries}
        values = {**words, "candidates": candidates, "beginning": beginning, **bounds}
        statement = SQL.read_words.fill(rows=self._indexed if by_index else self._some)
        return [each for each, _ in await self._fetch(statement, values, by_index=by_index) or ()]

    async def _fetch(self, statement: Sql, values: Mapping[str, Any], *, by_index: bool) -> list[Any] | None:
        """Return the rows of a statement; None if it takes too long, or if no time is left."""
        timeout = min(_TIMEOUT_MS, round((self._deadline - time.monotonic()) * 1000))
        if timeout <= 0:
            return None
        bounds = [f"{timeout}ms", *(["off"] * 2 if by_index else ["on"] * 2)]
        try:
            async with one_transaction(self._conn):
                await self._conn.execute(SQL.set_bounds, bounds)
                rows = await self._conn.execute(statement, {**self._params, **values}, prepare=False)
        except errors.QueryCanceled:
            return None
        return await rows.fetchall()


def _to_queries(words: Sequence[str]) -> list[str]:
    """Return queries that together match any of the words."""
    quoted = [f"'{each}'" for each in words]
    starts = range(0, len(quoted), _WORDS_PER_QUERY)
    return ["|".join(quoted[start : start + _WORDS_PER_QUERY]) for start in starts]


def _one_edit(word: str) -> Iterator[str]:
    """Yield the words with one letter removed, inserted or replaced, or two adjacent ones swapped."""
    alphabet = next((letters for letters in _ALPHABETS if _DIGITS.union(letters).issuperset(word)), "")
    for index in range(len(word)):
        before, after = word[:index], word[index + 1 :]
        yield before + after
        yield before + after[:1] + word[index] + after[1:]
        yield from (before + letter + after for letter in alphabet)
    for index in range(len(word) + 1):
        yield from (word[:index] + letter + word[index:] for letter in alphabet)


def is_within_two_edits(one: str, other: str) -> bool:
    """True if at most two letters are removed, inserted or replaced, or adjacent ones swapped."""
    if abs(len(one) - len(other)) > 2:
        return False
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(other) + 1)
    for index, letter in enumerate(one):
        current = [index + 1]
        for place, (above, left_above) in enumerate(zip(row[1:], row, strict=False)):
            cost = min(current[-1] + 1, above + 1, left_above + (letter != other[place]))
            if place and index and letter == other[place - 1] and one[index - 1] == other[place]:
                cost = min(cost, before[place - 1] + 1)
            current.append(cost)
        before, row = row, current
    return row[-1] <= 2


def _replace(q: str, words: Iterable[tuple[QueryWord, str]]) -> str:
    for word, new in sorted(words, reverse=True):
        q = q[: word.start] + new + q[word.end :]
    return q
