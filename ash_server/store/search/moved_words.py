"""The words of events that get other sequences, because a part of their log is replaced.

Most events keep their words, so a deletion only notes which rows belong to other sequences now, and the indexer moves
them page by page. Until then, they have sequences of the old log.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self
from uuid import UUID

from psycopg import AsyncConnection

from ash_server.store.statements import statements
from ash_shared.projections.search_text import PASSAGES_VERSION

MAX_RANGES = 50
"""Ranges of words that a session notes; the words of further ones are deleted and indexed again."""

_MAX_ROWS, _MAX_BYTES = 1_000, 1024 * 1024
"""Words moved in one transaction, with the size of their rows."""

SQL = statements(__file__)


class Moved(NamedTuple):
    """Consecutive sequences that change by the same number."""

    after: int
    """The sequence before the first one."""
    last: int
    by: int


def words_to_move(moved: Iterable[Sequence[int]], done: int) -> list[Moved]:
    """Return the ranges of words that belong to events after this one, in the order of the log."""
    ranges = [Moved(max(after, done - by), last, by) for after, last, by in moved]
    return [each for each in ranges if each.after < each.last]


async def move_page(conn: AsyncConnection, session_id: UUID, words: Moved) -> int:
    """Move the first words of a range, and return the event that these and all words before belong to."""
    page = {"session_id": session_id, "after": words.after, "last": words.last}
    found = await conn.execute(SQL.find_end, {**page, "rows": _MAX_ROWS, "bytes": _MAX_BYTES})
    (end,) = await found.fetchone() or (None,)
    last = words.last if end is None else end
    await conn.execute(SQL.move_words, [words.by, session_id, words.after, last])
    return last + words.by


class StoredWords:
    """The words of a session that are up to date, while its indexer waits for the transaction of the caller."""

    def __init__(
        self, conn: AsyncConnection, session_id: UUID, ranges: Sequence[Moved], dropped: int
    ) -> None:
        self._conn = conn
        self._session_id = session_id
        self._ranges = ranges
        """In the order of the log. The number is 0 for words with the sequences of their events."""
        self._dropped = dropped
        """The last sequence with words of an earlier log only; 0 if there are none."""

    @classmethod
    async def lock(cls, conn: AsyncConnection, session_id: UUID) -> Self:
        keys = {"session_id": session_id, "version": PASSAGES_VERSION}
        row = await (await conn.execute(SQL.lock_words, keys)).fetchone()
        last, moved, dropped, known_dropped = row or (0, [], 0, 0)
        ranges = [Moved(dropped, last, 0)] if last > dropped else []
        to_move = words_to_move(moved, max(last, dropped))
        ranges += to_move
        is_rebuilt = known_dropped < dropped and not to_move
        return cls(conn, session_id, ranges, dropped if is_rebuilt else 0)

    async def delete(self, events: Sequence[int]) -> None:
        """Delete the words of some events, also those with earlier sequences."""
        places = [
            event - each.by
            for event in events
            for each in self._ranges
            if each.after < event - each.by <= each.last
        ]
        await self._conn.execute(SQL.delete_words, [self._session_id, [*events, *places]])
        if self._dropped:
            await self._delete_between(0, self._dropped)

    async def move(self, events: Iterable[Moved], last: int) -> None:
        """Keep only the words of events that have moved. `last` is the last event before."""
        moved = [
            Moved(
                max(each.after, part.after - each.by), min(each.last, part.last - each.by), each.by + part.by
            )
            for part in events
            for each in self._ranges
        ]
        moved = [each for each in moved if each.after < each.last][:MAX_RANGES]
        end = 0
        for each in sorted(moved):
            await self._delete_between(end, each.after)
            end = each.last
        await self._delete_between(end, last)
        await self._conn.execute(SQL.set_moved, [[list(each) for each in moved], self._session_id])

    async def _delete_between(self, after: int, last: int) -> None:
        if after < last:
            await self._conn.execute(SQL.delete_between, [self._session_id, after, last])
