"""Totals over the events of a session, kept with its counters, so that reading them does not depend on its length.

Appends add their events to the totals, except for posted events, which a later append or a reader adds. After an event
that supersedes earlier ones, the totals stay some hundred events behind the end of the log, because most superseded
events are among the last.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from typing import NamedTuple
from uuid import UUID

import msgspec
from psycopg import AsyncConnection

from ash_server.errors import SessionNotFound
from ash_server.store.connections.pool import Connect, fetch_all
from ash_server.store.log import stored_json
from ash_server.store.log.stored_json import event_json
from ash_server.store.pagination import bounded_query
from ash_server.store.statements import Sql, statements
from ash_shared.eventlog import Event
from ash_shared.model.event_types import PROMPTS
from ash_shared.projections.item_counts import ItemCounts, ItemFold, ItemState, superseded_ids

_LAG = 500
"""Events at the end of the log that a later event may supersede."""
_MAX_LAG = 2 * _LAG
"""Events that a reader adds by itself."""
_MAX_ADDED = 5 * _LAG
"""Events that an append adds under the lock, besides its own."""

_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024

_TYPES_WITH_TEXT = sorted({*PROMPTS, "assistant_done"})

_WITHOUT_TEXT = stored_json.SQL.without_text.fill(row=Sql("entry"))
SQL = statements(
    __file__,
    event_json=event_json(),
    without_text=_WITHOUT_TEXT,
    stored_columns=stored_json.SQL.stored_columns,
)

_LIST_EVENTS = bounded_query(SQL.columns, SQL.page, size="octet_length(entry.stored_json)")


class Totals(msgspec.Struct, array_like=True):
    """The totals of the first events of a log."""

    items: ItemState = msgspec.field(default_factory=ItemState)
    known: int = 0
    """The last retraction that was considered is not after this event."""
    is_late: bool = False
    """True if an event has superseded others: the totals then stay behind the end of the log."""


class KeptTotals(NamedTuple):
    """The columns of the counters."""

    totals: str = ""
    """As JSON; empty: of no event."""
    sequence: int = 0
    """The last event in them."""


NO_TOTALS = KeptTotals()
"""Totals that the next reader derives from the whole log."""

_decode = msgspec.json.Decoder(Totals).decode
_encode = msgspec.json.Encoder().encode


class _Row(NamedTuple):
    sequence: int
    content: bytes


class _Read(NamedTuple):
    """The counts of the whole log, and the totals to store."""

    counts: ItemCounts
    kept: KeptTotals


class TotalsOfLog:
    """Totals of a log that is derived again."""

    def __init__(self) -> None:
        self._fold: ItemFold | None = ItemFold()

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._fold is None:
                return
            if superseded_ids(event):
                self._fold = None
            else:
                self._fold.add(event)

    def kept(self, last: int) -> KeptTotals:
        """Return the totals up to the last event."""
        return NO_TOTALS if self._fold is None else _kept(Totals(self._fold.state, last), last)


async def follow(
    conn: AsyncConnection, session_id: UUID, kept: KeptTotals, last: int, new: Sequence[Event]
) -> KeptTotals | None:
    """Return the totals with new events after the last stored one, under the lock; None if they stay as they are."""
    lag = last - kept.sequence
    if lag:
        if not _MAX_LAG < lag <= _MAX_ADDED:
            return None
        _, kept = await _read(lambda: nullcontext(conn), session_id, kept, last)
        if kept.sequence < last:
            return kept
    if any(map(superseded_ids, new)):
        return NO_TOTALS
    totals = _totals(kept)
    fold = ItemFold(totals.items)
    for event in new:
        fold.add(event)
    end = last + len(new)
    return _kept(Totals(fold.state, end), end)


async def write(conn: AsyncConnection, session_id: UUID, kept: KeptTotals) -> None:
    """Replace the totals, under the lock."""
    await conn.execute(SQL.set, [*kept, session_id])


async def count_items(connect: Connect, save: Connect | None, session_id: UUID) -> ItemCounts:
    """Return the number of items that each filter of the viewer hides. Raises SessionNotFound.

    If many events had to be read, they are added to the stored totals on a connection of `save`.
    """
    async with connect() as conn:
        place = await _find_place(conn, session_id)
    counts, kept = await _read(connect, session_id, place.kept, place.last)
    if place.last - place.kept.sequence > _MAX_LAG and save is not None:
        changed = {**kept._asdict(), "before": place.kept.sequence, "dropped": place.dropped}
        async with save() as conn:
            await conn.execute(SQL.save, {**changed, "session_id": session_id, "last": place.last})
    return counts


class _Place(NamedTuple):
    kept: KeptTotals
    last: int
    dropped: int


async def _find_place(conn: AsyncConnection, session_id: UUID) -> _Place:
    row = await (await conn.execute(SQL.read, [session_id])).fetchone()
    if not row:
        raise SessionNotFound
    totals, sequence, last, dropped = row
    return _Place(KeptTotals(totals, sequence), last, dropped)


async def _read(connect: Connect, session_id: UUID, kept: KeptTotals, last: int) -> _Read:
    """Add the events up to the last one to totals."""
    totals, superseded = _totals(kept), dict[str, int]()
    if kept.sequence < last:
        superseded = await _read_superseded(connect, session_id, kept.sequence, last)
    unknown = {id for id, sequence in superseded.items() if sequence > totals.known}
    is_late = totals.is_late or bool(superseded)
    end = max(kept.sequence, last - _LAG) if is_late else last
    fold = ItemFold(totals.items)
    for after, until in ((kept.sequence, end), (end, last)):
        async with aclosing(_list_events(connect, session_id, after, until)) as pages:
            async for page in pages:
                await asyncio.to_thread(_add, fold, page, superseded, unknown)
        if until == end:
            added = _kept(Totals(fold.state, last, is_late), end)
    if unknown and kept.sequence:  # events that are in the totals are superseded
        return await _read(connect, session_id, NO_TOTALS, last)
    return _Read(fold.counts(), added)


async def _read_superseded(connect: Connect, session_id: UUID, after: int, last: int) -> dict[str, int]:
    """Return the ids of superseded events, with the sequence of the last retraction."""
    superseded = dict[str, int]()
    async with connect() as conn:
        between = {"session_id": session_id, "after": after, "last": last}
        for sequence, content in await fetch_all(conn, _Row, SQL.list_retractions, between):
            superseded |= dict.fromkeys(superseded_ids(msgspec.json.decode(content)), sequence)
    return superseded


async def _list_events(
    connect: Connect, session_id: UUID, after: int, last: int
) -> AsyncGenerator[list[_Row], None]:
    place = {"session_id": session_id, "last": last, "types": _TYPES_WITH_TEXT}
    while after < last:
        async with connect() as conn:
            params = {**place, "after": after, "limit": _PAGE, "bytes": _PAGE_BYTES}
            page = await fetch_all(conn, _Row, _LIST_EVENTS, params)
        if not page:
            return
        yield page
        after = page[-1].sequence


def _add(fold: ItemFold, page: Iterable[_Row], superseded: Mapping[str, int], unknown: set[str]) -> None:
    for sequence, content in page:
        event = msgspec.json.decode(content)
        if sequence < superseded.get(event["id"], 0):
            unknown.discard(event["id"])
        else:
            fold.add(event)


def _totals(kept: KeptTotals) -> Totals:
    return _decode(kept.totals) if kept.totals else Totals()


def _kept(totals: Totals, sequence: int) -> KeptTotals:
    return KeptTotals(_encode(totals).decode(), sequence)
