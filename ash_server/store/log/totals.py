"""Totals over the events of a session, kept with its counters, so that reading them does not depend on its length.

Appends add their events to the totals, except for posted events, which a later append or a reader adds. After an event
that supersedes earlier ones, the totals stay some hundred events behind the end of the log, because most superseded
events are among the last.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, nullcontext, suppress
from itertools import islice
from typing import Any, NamedTuple
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
from ash_shared.model.event_types import CATALOGUE, CHUNKS, PROMPTS
from ash_shared.parsing.parse import PARSER_VERSION
from ash_shared.projections._retractions import StandingLog
from ash_shared.projections.item_counts import DELETED, ItemCounts, ItemFold, ItemState, superseded_ids
from ash_shared.projections.summary_fold import MAX_KEPT, SummaryFold, SummaryState

_log = logging.getLogger(__name__)

_LAG = 500
"""Events at the end of the log that a later event may supersede."""
_MAX_LAG = 2 * _LAG
"""Events that a reader adds by itself."""
_MAX_ADDED = 5 * _LAG
"""Events that an append adds under the lock, besides its own."""

MAX_UNCOUNTED = 100
"""Messages that each reader counts again, by model."""

_MAX_INLINE = 200
"""Events that are added in the event loop; more are added in a thread."""

_AGENT_TYPES = {name for name in CATALOGUE if name.startswith("agent_")}

_MAX_NAMES = 50
"""Records and answers before the end of totals that a retraction may name."""

VERSION = 1
"""Raised when totals change: stored ones of another version are derived again."""

_PAGE, _PAGE_BYTES = 1000, 4 * 1024 * 1024

_TYPES_WITH_TEXT = sorted({*PROMPTS, "assistant_done", "turn_end", "error", *_AGENT_TYPES})

_WITHOUT_TEXT = stored_json.SQL.without_text.fill(row=Sql("entry"))
SQL = statements(
    __file__,
    event_json=event_json(),
    without_text=_WITHOUT_TEXT,
    stored_columns=stored_json.SQL.stored_columns,
    version=VERSION,
    max_lag=_MAX_LAG,
    max_uncounted=MAX_UNCOUNTED,
)

_LIST_EVENTS = bounded_query(
    SQL.columns, SQL.page, size="octet_length(coalesce(entry.stored_json, cold_text(entry.session_id)))"
)


class KeptModels(msgspec.Struct, array_like=True, frozen=True):
    """The answers of each model, which readers count: events do not state models."""

    parser_version: int = PARSER_VERSION
    settled: int = 0
    """The last message of `counts`, which later messages do not change."""
    model: str = ""
    """The model of the session after it, for answers that state none."""
    counts: dict[str, int] = {}  # msgspec copies it
    last: int = 0
    """The last message that was read."""
    rest: dict[str, int] = {}
    """The answers after `settled`."""


class CountedModels(NamedTuple):
    counts: Counter[str]
    kept: KeptModels
    must_save: bool
    """True if it takes long to count them again."""


CountModels = Callable[[KeptModels], Awaitable[CountedModels]]
"""Adds the messages since the last count."""


class Totals(msgspec.Struct, array_like=True):
    """The totals of the first events of a log."""

    version: int = VERSION
    items: ItemState = msgspec.field(default_factory=ItemState)
    summary: SummaryState = msgspec.field(default_factory=SummaryState)
    known: int = 0
    """The last retraction that was considered is not after this event."""
    is_late: bool = False
    """True if an event was retracted: the totals then stay behind the end of the log."""
    names: list[str] = []  # msgspec copies it
    """Ids of the last records and answers in late totals."""
    models: KeptModels = KeptModels()  # the position is in `list_behind`, too


class KeptTotals(NamedTuple):
    """The columns of the counters."""

    totals: str = ""
    """JSON; empty before the first event."""
    sequence: int = 0
    """The last event in them."""


NO_TOTALS = KeptTotals()
"""Totals that the next reader derives from the whole log."""

_decode = msgspec.json.Decoder(Totals).decode
_encode = msgspec.json.Encoder().encode


class Copies(NamedTuple):
    """How a summary counts the first messages, if these were copied from another session."""

    messages: int
    are_skipped: bool
    """False: only their usage is not counted."""


class _Row(NamedTuple):
    sequence: int
    message_sequence: int | None
    has_ranges: bool
    """True if the JSON may have empty values instead of long ones."""
    content: bytes

    def event(self) -> Event:
        event: Event = msgspec.json.decode(self.content)
        if self.message_sequence is not None:
            event["messageSequence"] = self.message_sequence
        if self.has_ranges and event["type"] == "tool_result" and event["payload"].get("error") == "":
            event["payload"]["error"] = "error"
        return event


_FAULTS = (KeyError, TypeError, AttributeError)
"""What an event without the fields of its type raises."""


class _Folds:
    """Adds events to totals."""

    def __init__(self, totals: Totals) -> None:
        self.items = ItemFold(totals.items)
        self.summary = SummaryFold(totals.summary, most=MAX_KEPT)
        self.models = totals.models

    def add(self, event: Event, *, stands: bool = True) -> None:
        self.items.add(event)
        self.add_to_summary(event, stands=stands)

    def add_stored(self, event: Event) -> None:
        self.items.add(event)
        self.add_stored_to_summary(event, stands=True)

    def add_stored_to_summary(self, event: Event, *, stands: bool) -> None:
        with suppress(*_FAULTS):  # earlier versions did not check posted events
            self.add_to_summary(event, stands=stands)

    def add_to_summary(self, event: Event, *, stands: bool) -> None:
        if event["type"] not in CHUNKS:
            self.summary.add(event, stands=stands and event["type"] != "retraction")

    def kept(
        self, sequence: int, known: int, *, is_late: bool = False, names: Iterable[str] = ()
    ) -> KeptTotals:
        states = self.items.state, self.summary.state
        return _encoded(Totals(VERSION, *states, known, is_late, list(names), self.models), sequence)


class _Read(NamedTuple):
    """The totals of the whole log, and those to store."""

    folds: _Folds
    kept: KeptTotals


class TotalsOfLog:
    """Totals of a log that is derived again."""

    def __init__(self, start: str | None = None) -> None:
        """`start` are the totals of the events before, as JSON; empty if they are unknown."""
        known = NO_TOTALS if start is None else _known(KeptTotals(start))
        totals = _totals(known)
        totals.models = KeptModels()
        is_known = start is None or bool(known.totals and not totals.is_late and not totals.summary.copied)
        self._folds: _Folds | None = _Folds(totals) if is_known else None

    @property
    def is_known(self) -> bool:
        return self._folds is not None

    def copy(self) -> "TotalsOfLog":
        return TotalsOfLog(self.kept(0).totals)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._folds is None:
                return
            if _retracts(event):
                self._folds = None
            else:
                self._folds.add_stored(event)

    def kept(self, last: int) -> KeptTotals:
        """Return the totals up to the last event."""
        return NO_TOTALS if self._folds is None else self._folds.kept(last, last)

    def corrected(self, stored: KeptTotals, full: "TotalsOfLog", last: int, *, is_end: bool) -> KeptTotals:
        """Return the stored totals without a message; NO_TOTALS if that is unknown.

        These totals are without the message, `full` are with it, up to the same event. `is_end`: no event follows.
        """
        known = _known(stored)
        if self._folds is None or full._folds is None or not known.totals or known.sequence != last:
            return NO_TOTALS
        totals = _totals(known)
        if totals.is_late or totals.summary.copied:
            return NO_TOTALS
        pairs = [
            (totals.items, self._folds.items.state, full._folds.items.state),
            (totals.summary, self._folds.summary.state, full._folds.summary.state),
        ]
        if not all(_correct(*each, is_end=is_end) for each in pairs):
            return NO_TOTALS
        totals.known, totals.models = last, KeptModels()
        return _encoded(totals, last)

    def has_names_of(self, other: "TotalsOfLog") -> bool:
        """True if the numbers by name have the same names in other totals, in the same order."""
        if self._folds is None or other._folds is None:
            return False
        pairs = [
            (self._folds.items.state, other._folds.items.state),
            (self._folds.summary.state, other._folds.summary.state),
        ]
        return all(_names(others) == _names(own) for own, others in pairs)


_SUMS = {
    *("thinking", "tools", "results", "system", "raw", "intermediate"),
    *("turns", "user_messages", "answers", "unrecognised", "compactions", "subagents", "callbacks"),
    *("errors", "tool_errors"),
}
"""The fields of totals that are numbers of events, or numbers by name."""

_TIMES = {"first_at", "last_at"}


def _correct(stored: msgspec.Struct, rest: msgspec.Struct, full: msgspec.Struct, *, is_end: bool) -> bool:
    """Change the fields of totals that differ without a message. Return False if that is unknown."""
    for name in stored.__struct_fields__:
        now, without, before = (getattr(each, name) for each in (stored, rest, full))
        if _is_same(without, before):
            continue
        if is_end and (name in _TIMES or _is_same(now, before)):
            setattr(stored, name, without)
        elif name in _SUMS and _has_known_order(now, without, before):
            setattr(stored, name, _difference(now, without, before))
        elif name == "usage" and now and without and before and without.keys() == before.keys():
            setattr(stored, name, {key: now[key] + without.get(key, 0) - before.get(key, 0) for key in now})
        else:
            return False
    return True


def _has_known_order(now: Any, without: Any, before: Any) -> bool:
    """True unless an event of the message was the first with a name that only later events have, too."""
    if not isinstance(now, dict):
        return True
    return all(now.get(name, 0) == before[name] for name in before if name not in without)


def _names(state: msgspec.Struct) -> dict[str, list[str]]:
    counts = {name: getattr(state, name) for name in _SUMS.intersection(state.__struct_fields__)}
    return {name: list(values) for name, values in counts.items() if isinstance(values, dict)}


def _is_same(one: Any, other: Any) -> bool:
    """Compare values, and the order of entries, which are evicted and shown in it."""
    return bool(one == other) and (not isinstance(one, dict) or list(one) == list(other))


def _difference(now: Any, without: Any, before: Any) -> Any:
    if not isinstance(now, dict):
        return now + without - before
    counts = {
        name: now.get(name, 0) + without.get(name, 0) - before.get(name, 0) for name in {**without, **now}
    }
    return {name: count for name, count in counts.items() if count}


async def follow(
    conn: AsyncConnection,
    session_id: UUID,
    kept: KeptTotals,
    last: int,
    new: Sequence[tuple[Event, int | None]],
    ends: Sequence[int],
) -> list[KeptTotals]:
    """Return the totals with new events after the last stored one, under the lock; none if they stay as they are.

    `new` contains events with their messages. Totals are returned up to each event of `ends`; the last one is the last
    new event.
    """
    kept = _known(kept)
    lag = last - kept.sequence
    if lag:
        if not _MAX_LAG < lag <= _MAX_ADDED:
            return []
        _, kept = await _read(lambda: nullcontext(conn), session_id, kept, last)
        if kept.sequence < last:
            return [kept]
    if any(_retracts(event) for event, _ in new):
        return [_with_models(NO_TOTALS, _totals(kept).models)]
    if len(new) > _MAX_INLINE:
        return await asyncio.to_thread(_add_new, kept, new, ends)
    return _add_new(kept, new, ends)


async def catch_up(conn: AsyncConnection, session_id: UUID, kept: KeptTotals, last: int) -> KeptTotals:
    """Return the totals of the whole log if only few events are missing, under the lock; otherwise unchanged."""
    kept = _known(kept)
    if kept.totals and 0 < last - kept.sequence <= _MAX_ADDED:
        _, kept = await _read(lambda: nullcontext(conn), session_id, kept, last)
    return kept


def _add_new(
    kept: KeptTotals, new: Sequence[tuple[Event, int | None]], ends: Sequence[int]
) -> list[KeptTotals]:
    totals = _totals(kept)
    folds, rest, last, added = _Folds(totals), iter(new), ends[-1] - len(new), list[KeptTotals]()
    try:
        for end in ends:
            for event, place in islice(rest, end - last):
                has_place = totals.summary.copied and place is not None
                folds.add({**event, "messageSequence": place} if has_place else event)
            added.append(folds.kept(end, end))
            last = end
    except _FAULTS:
        _log.exception("an event cannot be added to the totals of its session")
        return [NO_TOTALS]
    return added


async def write(conn: AsyncConnection, session_id: UUID, kept: KeptTotals) -> None:
    """Replace the totals, under the lock."""
    await conn.execute(SQL.set, [*kept, session_id])


async def count_items(connect: Connect, save: Connect | None, session_id: UUID) -> ItemCounts:
    """Return the number of items that each filter of the viewer hides. Raises SessionNotFound.

    If many events had to be read, they are added to the stored totals on a connection of `save`.
    """
    async with connect() as conn:
        place = await _find_place(conn, session_id)
    folds = await _read_and_save(connect, save, session_id, place, _known(place.kept))
    return folds.items.counts()


class SummaryOfLog(NamedTuple):
    fold: SummaryFold
    models: Counter[str]
    """The number of answers by model."""


async def read_summary_of_log(
    connect: Connect, save: Connect | None, session_id: UUID, copies: Copies, count_models: CountModels
) -> SummaryOfLog:
    """Return the summary of a log. Raises SessionNotFound. `save` is as in `count_items`."""
    async with connect() as conn:
        place = await _find_place(conn, session_id)
    start = _known(place.kept)
    summary = _totals(start).summary
    is_other = copies != (summary.copied, summary.skips_copies)
    start = _start(copies) if is_other else start
    counted = await count_models(_totals(start).models)
    start = _with_models(start, counted.kept)
    must_save = is_other or counted.must_save
    folds = await _read_and_save(connect, save, session_id, place, start, must_save=must_save)
    return SummaryOfLog(folds.summary, counted.counts)


async def _read_and_save(
    connect: Connect,
    save: Connect | None,
    session_id: UUID,
    place: "_Place",
    start: KeptTotals,
    *,
    must_save: bool = False,
) -> _Folds:
    folds, kept = await _read(connect, session_id, start, place.last)
    if save is not None and (must_save or place.last - start.sequence > _MAX_LAG):
        changed = {**kept._asdict(), "before": place.kept.sequence, "dropped": place.dropped}
        async with save() as conn:
            await conn.execute(SQL.save, {**changed, "session_id": session_id, "last": place.last})
    return folds


def _start(copies: Copies) -> KeptTotals:
    return _Folds(Totals(summary=SummaryState(*copies))).kept(0, 0)


def keep_settled_models(kept: KeptTotals, before: KeptTotals, message: int) -> KeptTotals:
    """Return the totals after the deletion of a message, with the counts of models that do not depend on it."""
    models = _totals(_known(before)).models
    if models.settled >= message:
        return kept
    settled = KeptModels(models.parser_version, models.settled, models.model, models.counts)
    return _with_models(kept, settled)


def _with_models(kept: KeptTotals, models: KeptModels) -> KeptTotals:
    totals = _totals(kept)
    if totals.models == models:
        return kept
    totals.models = models
    return _encoded(totals, kept.sequence)


async def list_behind(conn: AsyncConnection, limit: int) -> list[tuple[UUID, int]]:
    """Return sessions with totals that a reader would derive from many events, and their last events."""
    return await (await conn.execute(SQL.list_behind, [limit])).fetchall()


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
    totals, retracted = _totals(kept), _Retracted()
    if kept.sequence < last and await _has_retractions(connect, session_id, kept.sequence, last):
        retracted = await _read_retracted(connect, session_id, kept.sequence, last, totals)
        if retracted.is_unknown:  # events in the totals are retracted
            start = _start(Copies(totals.summary.copied, totals.summary.skips_copies))
            return await _read(connect, session_id, _with_models(start, totals.models), last)
    is_late = totals.is_late or retracted.exist
    end = max(kept.sequence, last - _LAG) if is_late else last
    folds, names = _Folds(totals), deque(totals.names, maxlen=_MAX_NAMES)
    for after, until in ((kept.sequence, end), (end, last)):
        async with aclosing(_list_events(connect, session_id, after, until, _TYPES_WITH_TEXT)) as pages:
            async for page in pages:
                await asyncio.to_thread(_add, folds, page, retracted, names)
        if until == end:
            added = folds.kept(end, last, is_late=is_late, names=names if is_late else ())
    return _Read(folds, added)


class _Retracted:
    """The retracted events among those after totals."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.exist = False
        self.is_unknown = False
        """True if events before are retracted, too."""
        self.dead: set[int] = set()
        self.superseded: dict[str, int] = {}
        """The ids of superseded events, with the sequence of the last retraction."""
        self._earlier = frozenset(names)
        self._log = StandingLog()
        self._sequences: set[int] = set()

    def add(self, sequence: int, event: Event, *, is_new: bool) -> None:
        """`is_new`: the retraction was not considered in the totals before."""
        if event["type"] == "reset":
            self._log, self._sequences, self.is_unknown = StandingLog(), set(), False
        elif _retracts(event):
            payload = event["payload"]
            named = {*(payload.get("messageIds") or ()), payload.get("fromMessageId")}
            is_known = self._log.has(payload) and self._earlier.isdisjoint(named)
            self.exist = True
            self.is_unknown = self.is_unknown or (is_new and not is_known)
            self._log.retract(payload)
            self.superseded |= dict.fromkeys(superseded_ids(event), sequence)
        elif event["type"] not in CHUNKS and event["type"] != "retraction":
            self._sequences.add(sequence)
            shown = {name: event.get(name) for name in ("id", "type", "turnId", "recordId", "responseId")}
            synthetic = event["payload"].get("synthetic")
            self._log.add({**shown, "payload": {"synthetic": synthetic}, "sequence": sequence})

    def finish(self) -> "_Retracted":
        self.dead = self._sequences - {event["sequence"] for event in self._log.events()}
        self._log, self._sequences = StandingLog(), set()
        return self


async def _has_retractions(connect: Connect, session_id: UUID, after: int, last: int) -> bool:
    """True if events were retracted other than by the deletion of their message."""
    async with connect() as conn:
        between = {"session_id": session_id, "after": after, "last": last}
        rows = await conn.execute(SQL.list_retractions, between, binary=True)
        return any(_retracts(msgspec.json.decode(content)) for (content,) in await rows.fetchall())


async def _read_retracted(
    connect: Connect, session_id: UUID, after: int, last: int, totals: Totals
) -> _Retracted:
    retracted = _Retracted(totals.names)

    def add(page: Iterable[_Row]) -> None:
        for row in page:
            is_new = after > 0 and row.sequence > totals.known
            retracted.add(row.sequence, row.event(), is_new=is_new)

    async with aclosing(_list_events(connect, session_id, after, last, ["retraction"])) as pages:
        async for page in pages:
            await asyncio.to_thread(add, page)
    return await asyncio.to_thread(retracted.finish)


async def _list_events(
    connect: Connect, session_id: UUID, after: int, last: int, types: Sequence[str]
) -> AsyncGenerator[list[_Row], None]:
    """Yield pages of events; `types` are read with their texts."""
    place = {"session_id": session_id, "last": last, "types": types}
    while after < last:
        async with connect() as conn:
            params = {**place, "after": after, "limit": _PAGE, "bytes": _PAGE_BYTES}
            page = await fetch_all(conn, _Row, _LIST_EVENTS, params)
        if not page:
            return
        yield page
        after = page[-1].sequence


def _add(folds: _Folds, page: Iterable[_Row], retracted: _Retracted, names: deque[str]) -> None:
    for row in page:
        event = row.event()
        if row.sequence >= retracted.superseded.get(event["id"], 0):
            folds.items.add(event)
        folds.add_stored_to_summary(event, stands=row.sequence not in retracted.dead)
        names.extend(str(event[name]) for name in ("recordId", "responseId") if event.get(name))


def _retracts(event: Event) -> bool:
    """True for a retraction, unless it marks a deleted message: the log has no events of that."""
    return bool(event["type"] == "retraction" and event["payload"].get("reason") != DELETED)


def _known(kept: KeptTotals) -> KeptTotals:
    """Return totals of this version."""
    return kept if kept.totals.startswith(f"[{VERSION},") else NO_TOTALS


def _encoded(totals: Totals, sequence: int) -> KeptTotals:
    return KeptTotals(_encode(totals).decode(), sequence)


def _totals(kept: KeptTotals) -> Totals:
    return _decode(kept.totals) if kept.totals else Totals()
